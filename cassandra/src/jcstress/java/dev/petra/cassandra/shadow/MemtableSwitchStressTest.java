// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.streaming.Jcstress;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Runs jcstress on what late writes and a promotion share without a lock. */
@Tag("slow")
class MemtableSwitchStressTest {
    @TempDir Path directory;

    @Test
    @Timeout(value = 1, unit = TimeUnit.DAYS)
    void aLateWriteWaitsOrTheSwitchKnowsOfIt() throws Exception {
        Jcstress.run(directory, MemtableSwitchStress.class);
    }
}
