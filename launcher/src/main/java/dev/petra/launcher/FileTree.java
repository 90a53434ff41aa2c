// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;

/** Deletes directories. The engines' way throws errors of Cassandra, which the launcher has not. */
public final class FileTree {
    private FileTree() {}

    /**
     * Deletes a directory with all its content.
     *
     * @throws NodeException if it does not exist, or cannot be deleted
     */
    public static void delete(Path directory) {
        try (Stream<Path> all = Files.walk(directory)) {
            for (Path path : all.sorted(Comparator.reverseOrder()).toList()) Files.delete(path);
        } catch (IOException | UncheckedIOException e) {
            throw new NodeException("cannot delete " + directory + ": " + e, e);
        }
    }
}
