// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.streaming.Jcstress;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Runs jcstress on what the threads of a session share. */
@Tag("slow")
class SlicesStressTest {
    @TempDir Path directory;

    @Test
    @Timeout(value = 1, unit = TimeUnit.DAYS)
    void aStoreIsReleasedOnceAndASliceIsTakenOnceWhicheverThreadIsLast() throws Exception {
        Jcstress.run(
                directory,
                OutgoingSliceStress.class,
                IncomingSlicesStress.class,
                IngestStress.class,
                SliceStagesStress.class);
    }
}
