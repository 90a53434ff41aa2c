// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.streaming.ChildJvm;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** No block that a peer sends ends the process, or leaves anything in the store. */
class BlockFuzzTest {
    private static final long SECONDS = Long.getLong("petra.block.fuzz.seconds", 10);
    private static final long SEED = Long.getLong("petra.block.fuzz.seed", System.nanoTime());

    @TempDir Path directory;

    @Test
    @Timeout(value = 1, unit = TimeUnit.DAYS)
    void blocksWithChangedBytesAreRefusedOrTakenWhole() throws Exception {
        ChildJvm.run(
                directory,
                Duration.ofSeconds(SECONDS + 300),
                List.of(
                        BlockFuzz.class.getName(),
                        directory.resolve("stores").toString(),
                        // Said when it fails.
                        Long.toString(SEED),
                        Long.toString(SECONDS)));
    }
}
