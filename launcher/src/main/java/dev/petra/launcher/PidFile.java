// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * The file with the process id of a node. A crash leaves the file behind, and the system may give
 * the id to another process. So a process counts as the node only if the {@link #mark} of the
 * directory is among its arguments.
 */
final class PidFile {
    private final Path file;
    private final NodeDirectory directory;

    PidFile(NodeDirectory directory) {
        this.file = directory.pidFile();
        this.directory = directory;
    }

    /** The argument that identifies the process of a directory; the first of its JVM. */
    static String mark(NodeDirectory directory) {
        return "-Dpetra.node=" + directory.root();
    }

    /** The node's process, if it runs. */
    Optional<ProcessHandle> live() {
        return read().flatMap(ProcessHandle::of)
                .filter(process -> isMarked(process.info()) && Processes.isAlive(process));
    }

    /** Writes a process id. */
    void write(long pid) {
        WholeFile.write(file, pid + "\n");
    }

    /** Removes the file, unless it has the id of another process. */
    void remove(long pid) {
        try {
            if (read().filter(named -> named == pid).isPresent()) Files.deleteIfExists(file);
        } catch (IOException e) {
            throw new NodeException("cannot remove " + file + ": " + e, e);
        }
    }

    private Optional<Long> read() {
        try {
            return Optional.of(Long.valueOf(Files.readString(file).strip()));
        } catch (NoSuchFileException e) {
            // Also while it is looked for: both the command that runs a node and the one that
            // stops it remove the file.
            return Optional.empty();
        } catch (IOException e) {
            throw new NodeException("cannot read " + file + ": " + e, e);
        } catch (NumberFormatException e) {
            throw new NodeException(
                    file + " holds no process number: remove it if no node runs here", e);
        }
    }

    /**
     * Whether a process carries the mark, which is its first argument, since the system gives only
     * the beginning of a long command line, as one text.
     */
    private boolean isMarked(ProcessHandle.Info info) {
        String mark = mark(directory);
        return info.arguments()
                .map(arguments -> List.of(arguments).contains(mark))
                .orElseGet(() -> info.commandLine().orElse("").contains(mark + " "));
    }
}
