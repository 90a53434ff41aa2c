// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A JVM like this one, for tools that want one of their own. */
public final class ChildJvm {
    /** To verify its classes takes a quarter of the start of a JVM that lives for seconds. */
    private static final List<String> UNVERIFIED =
            List.of("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote");

    private ChildJvm() {}

    /**
     * Runs a program to its end, and fails if it does.
     *
     * @param directory it works in
     * @param program main class and arguments
     * @return the end of what it says
     */
    public static String run(Path directory, Duration most, List<String> program)
            throws IOException, InterruptedException {
        Path output = directory.resolve("output");
        List<String> command = command(program);
        // It lives for long enough to be worth the better compiler, and races differ by it. The
        // collector is the usual one too: jcstress starts JVMs with others.
        command.removeIf(argument -> argument.matches("-XX:(TieredStopAtLevel=.*|[+]Use.*GC)"));
        command.removeAll(UNVERIFIED);
        Process process =
                new ProcessBuilder(command)
                        .directory(directory.toFile())
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile())
                        .start();
        try {
            boolean ended = process.waitFor(most.toSeconds(), TimeUnit.SECONDS);
            String all = Files.readString(output);
            String said = all.substring(Math.max(0, all.length() - 6_000));
            assertThat(ended).as("%s ends: %s", program, said).isTrue();
            assertThat(process.exitValue()).as("%s: %s", program, said).isZero();
            return said;
        } finally {
            process.destroyForcibly();
        }
    }

    /**
     * How to start a program, for whoever starts it in another way. It has the tests' compiler and
     * collector and does not verify its classes, as for a program that lives for seconds.
     *
     * @param program main class and arguments
     */
    public static List<String> command(List<String> program) {
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElse("java"));
        for (String argument : ManagementFactory.getRuntimeMXBean().getInputArguments())
            if (!argument.startsWith("-javaagent")) command.add(argument);
        command.addAll(UNVERIFIED);
        command.add("-cp");
        command.add(
                System.getProperty(
                        "surefire.test.class.path", System.getProperty("java.class.path")));
        command.addAll(program);
        return command;
    }
}
