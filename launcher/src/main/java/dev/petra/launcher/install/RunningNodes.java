// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;

/** Finds nodes that run with an agent; where there is no {@code /proc}, none. */
final class RunningNodes {
    private static final Path PROCESSES = Path.of("/proc");

    private RunningNodes() {}

    /** The number of a process that was started with one of these options. */
    static OptionalLong find(Set<String> options) {
        if (!Files.isDirectory(PROCESSES)) return OptionalLong.empty();
        try (DirectoryStream<Path> processes = Files.newDirectoryStream(PROCESSES, "[1-9]*")) {
            for (Path process : processes)
                if (arguments(process).stream().anyMatch(options::contains))
                    return OptionalLong.of(Long.parseLong(process.getFileName().toString()));
            return OptionalLong.empty();
        } catch (IOException e) {
            throw new InstallException("cannot read " + PROCESSES + ": " + e, e);
        }
    }

    // ProcessHandle does not tell the arguments of a command line as long as Cassandra's.
    private static List<String> arguments(Path process) {
        try {
            String all = new String(Files.readAllBytes(process.resolve("cmdline")), UTF_8);
            return List.of(all.split("\0", -1));
        } catch (IOException e) {
            return List.of(); // It ended meanwhile.
        }
    }
}
