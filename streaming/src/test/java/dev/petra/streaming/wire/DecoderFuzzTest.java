// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Jazzer on what a peer sends before any of it is known to be true; in a process of its own. */
class DecoderFuzzTest {
    private static final long SECONDS = Long.getLong("petra.stream.fuzz.seconds", 5);
    private static final int SEED = Integer.getInteger("petra.stream.fuzz.seed", newSeed());

    /** libFuzzer's; 0 would be one by chance. */
    private static int newSeed() {
        return 1 + new Random().nextInt(Integer.MAX_VALUE - 1);
    }

    @TempDir Path directory;

    @Test
    @Timeout(value = 1, unit = TimeUnit.DAYS)
    void whateverAPeerSendsIsReadOrRefused() throws Exception {
        Path corpus = Files.createDirectory(directory.resolve("corpus"));
        for (byte[] seed : DecoderFuzz.seeds(ManifestTest.manifest(3, 20, new Random(1))))
            Files.write(corpus.resolve("seed-" + seed[0] + "-" + seed.length), seed);
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElse("java"));
        for (String argument : ManagementFactory.getRuntimeMXBean().getInputArguments())
            if (!argument.startsWith("-javaagent")) command.add(argument);
        command.add("-cp");
        command.add(
                System.getProperty(
                        "surefire.test.class.path", System.getProperty("java.class.path")));
        command.addAll(
                List.of(
                        "com.code_intelligence.jazzer.Jazzer",
                        "--target_class=" + DecoderFuzz.class.getName(),
                        "--instrumentation_includes=dev.petra.streaming.wire.**",
                        "--reproducer_path=" + directory,
                        "-artifact_prefix=" + directory + "/",
                        "-seed=" + SEED,
                        "-max_len=4096",
                        "-max_total_time=" + SECONDS,
                        corpus.toString()));
        Path output = directory.resolve("output");
        Process fuzz =
                new ProcessBuilder(command)
                        .directory(directory.toFile())
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile())
                        .start();
        try {
            boolean ended = fuzz.waitFor(SECONDS + 240, TimeUnit.SECONDS);
            String all = Files.readString(output);
            String said = all.substring(Math.max(0, all.length() - 6_000));
            assertThat(ended).as("seed %d ends: %s", SEED, said).isTrue();
            assertThat(fuzz.exitValue()).as("seed %d: %s", SEED, said).isZero();
            assertThat(said).as("runs").containsPattern("Done \\d+ runs");
        } finally {
            fuzz.destroyForcibly();
        }
    }
}
