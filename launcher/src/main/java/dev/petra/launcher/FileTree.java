// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;

/** A directory with all that is in it. */
public final class FileTree {
    private FileTree() {}

    /**
     * Deletes a directory.
     *
     * @throws NodeException if it is not there, or cannot be deleted
     */
    public static void delete(Path directory) {
        try (Stream<Path> all = Files.walk(directory)) {
            for (Path path : all.sorted(Comparator.reverseOrder()).toList()) Files.delete(path);
        } catch (IOException e) {
            throw new NodeException("cannot delete " + directory + ": " + e, e);
        }
    }
}
