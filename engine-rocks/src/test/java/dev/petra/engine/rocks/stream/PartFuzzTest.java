// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Issue 19, D: no file that a peer sends ends the process, or leaves anything in the store. */
class PartFuzzTest {
    private static final long SECONDS = Long.getLong("petra.part.fuzz.seconds", 10);
    private static final long SEED = Long.getLong("petra.part.fuzz.seed", System.nanoTime());

    @TempDir Path directory;

    @Test
    @Timeout(value = 1, unit = TimeUnit.DAYS)
    void partsWithChangedBytesAreRefusedOrTakenWhole() throws Exception {
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElse("java"));
        for (String argument : ManagementFactory.getRuntimeMXBean().getInputArguments())
            if (!argument.startsWith("-javaagent")) command.add(argument);
        command.add("-XX:ErrorFile=" + directory.resolve("crash.log"));
        command.add("-cp");
        command.add(
                System.getProperty(
                        "surefire.test.class.path", System.getProperty("java.class.path")));
        command.add(PartFuzz.class.getName());
        command.addAll(
                List.of(
                        directory.resolve("stores").toString(),
                        Long.toString(SEED),
                        Long.toString(SECONDS)));
        Path output = directory.resolve("output");
        Process fuzz =
                new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile())
                        .start();
        try {
            boolean ended = fuzz.waitFor(SECONDS + 300, TimeUnit.SECONDS);
            String said = Files.readString(output);
            said = said.substring(Math.max(0, said.length() - 4_000));
            assertThat(ended).as("seed %d ends: %s", SEED, said).isTrue();
            assertThat(fuzz.exitValue()).as("seed %d: %s", SEED, said).isZero();
        } finally {
            fuzz.destroyForcibly();
        }
    }
}
