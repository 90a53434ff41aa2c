// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.streaming.ChildJvm;
import dev.petra.streaming.staging.SlicesFuzz;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/** Jazzer on what a peer sends before any of it is known to be true; in a process of its own. */
class DecoderFuzzTest {
    private static final long SECONDS = Long.getLong("petra.stream.fuzz.seconds", 5);
    private static final int SEED = Integer.getInteger("petra.stream.fuzz.seed", newSeed());

    /** libFuzzer's; 0 would be one by chance. */
    private static int newSeed() {
        return 1 + new Random().nextInt(Integer.MAX_VALUE - 1);
    }

    /** With the input that failed. */
    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path directory;

    /** Else all that is made of it would be refused before its end. */
    @Test
    void theSlicesToBeginWithAreReceived() throws Exception {
        SlicesFuzz.receive(SlicesFuzz.seed());
    }

    @Test
    @Timeout(value = 1, unit = TimeUnit.DAYS)
    void whateverAPeerSendsIsReadOrRefused() throws Exception {
        Path corpus = Files.createDirectory(directory.resolve("corpus"));
        for (byte[] seed : DecoderFuzz.seeds())
            Files.write(corpus.resolve("seed-" + seed[0] + "-" + seed.length), seed);
        String said =
                ChildJvm.run(
                        directory,
                        Duration.ofSeconds(SECONDS + 240),
                        List.of(
                                "com.code_intelligence.jazzer.Jazzer",
                                "--target_class=" + DecoderFuzz.class.getName(),
                                "--instrumentation_includes=dev.petra.streaming.wire.**:dev.petra.streaming.staging.**",
                                "--reproducer_path=" + directory,
                                "-artifact_prefix=" + directory + "/",
                                "-seed=" + SEED,
                                "-max_len=4096",
                                "-max_total_time=" + SECONDS,
                                corpus.toString()));
        assertThat(said).as("runs").containsPattern("Done [1-9]\\d* runs");
    }
}
