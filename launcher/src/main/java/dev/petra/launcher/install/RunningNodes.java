// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;

/**
 * Finds nodes that run with the plugin jar, as agent or, from a woven Cassandra, on the class path
 * only; where there is no {@code /proc}, none.
 */
final class RunningNodes {
    private static final Path PROCESSES = Path.of("/proc");

    /** Without it the jar may be on the class path of nodetool, which is no node. */
    private static final String MAIN_CLASS = "org.apache.cassandra.service.CassandraDaemon";

    private RunningNodes() {}

    /**
     * The number of a process that was started with one of these options, or is a node that has a
     * jar among its arguments, by whatever path.
     */
    static OptionalLong find(Set<String> options, Path jar) {
        return find(PROCESSES, options, jar);
    }

    /** The same, with another place of processes. */
    static OptionalLong find(Path all, Set<String> options, Path jar) {
        if (!Files.isDirectory(all)) return OptionalLong.empty();
        try (DirectoryStream<Path> processes = Files.newDirectoryStream(all, "[1-9]*")) {
            for (Path process : processes)
                if (isNode(process, options, jar))
                    return OptionalLong.of(Long.parseLong(process.getFileName().toString()));
            return OptionalLong.empty();
        } catch (IOException e) {
            throw new InstallException("cannot read " + all + ": " + e, e);
        }
    }

    private static boolean isNode(Path process, Set<String> options, Path jar) {
        List<String> arguments = arguments(process);
        if (hasOtherRoot(process)) return arguments.contains(MAIN_CLASS) && hasOpen(process, jar);
        return arguments.stream().anyMatch(options::contains)
                || (arguments.contains(MAIN_CLASS)
                        && arguments.stream().anyMatch(each -> names(process, each, jar)));
    }

    /** Whether the jar is in a class path, or in another option, such as of an agent. */
    private static boolean names(Path process, String argument, Path jar) {
        for (String element : argument.split("[:=]", -1))
            if (element.endsWith(".jar") && isSame(process, element, jar)) return true;
        return false;
    }

    private static boolean isSame(Path process, String element, Path jar) {
        try {
            // Cassandra's script names jars relative to where it was started, if it was so itself.
            Path path = process.resolve("cwd").resolve(element);
            return path.equals(jar) || Files.isSameFile(path, jar);
        } catch (IOException | InvalidPathException e) {
            return false; // There is none, or the process ended meanwhile.
        }
    }

    /** Whether paths mean something else to a process, which is in a container then. */
    private static boolean hasOtherRoot(Path process) {
        try {
            return !Files.isSameFile(process.resolve("root"), Path.of("/"));
        } catch (IOException e) {
            return false; // Only root, and the user of the process, can tell.
        }
    }

    /** A JVM keeps the jars of its class path and its agents open. */
    private static boolean hasOpen(Path process, Path jar) {
        try (DirectoryStream<Path> files = Files.newDirectoryStream(process.resolve("fd"))) {
            for (Path file : files) if (isSameFile(file, jar)) return true;
            return false;
        } catch (IOException e) {
            return false; // It ended meanwhile.
        }
    }

    private static boolean isSameFile(Path open, Path jar) {
        try {
            return Files.isSameFile(open, jar);
        } catch (IOException e) {
            return false; // A socket, for one.
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
