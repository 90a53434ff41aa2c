// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.rocks.wal.SyncGroupStress;
import dev.petra.engine.rocks.wal.SyncPendingStress;
import dev.petra.streaming.Jcstress;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Runs jcstress on what readers and writers share without a lock. */
@Tag("slow")
class ConcurrencyStressTest {
    @TempDir Path directory;

    @Test
    @Timeout(value = 1, unit = TimeUnit.DAYS)
    void nothingIsUsedWhenItIsFreedWrittenBesideOneAloneOrAcknowledgedUnsynced() throws Exception {
        Jcstress.run(
                directory,
                UseCountStress.class,
                WriteBarrierAloneStress.class,
                WriteBarrierWaitStress.class,
                SyncPendingStress.class,
                SyncGroupStress.class);
    }
}
