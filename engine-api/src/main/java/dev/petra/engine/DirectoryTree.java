// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import org.apache.cassandra.io.FSWriteError;
import org.jspecify.annotations.Nullable;

/** A directory with all that is in it. */
public final class DirectoryTree {
    private DirectoryTree() {}

    /**
     * Deletes a directory with all that is in it; does nothing if it is not there. A symbolic link
     * is deleted, and nothing of what it points to.
     *
     * @throws FSWriteError if something cannot be deleted, or nobody can tell whether it is there;
     *     the rest may be deleted by then
     */
    public static void delete(Path root) {
        try {
            Files.walkFileTree(
                    root,
                    new SimpleFileVisitor<>() {
                        @Override
                        public FileVisitResult visitFile(Path file, BasicFileAttributes attributes)
                                throws IOException {
                            Files.deleteIfExists(file);
                            return FileVisitResult.CONTINUE;
                        }

                        @Override
                        public FileVisitResult visitFileFailed(Path file, IOException e)
                                throws IOException {
                            // Not there, or not any more.
                            if (e instanceof NoSuchFileException) return FileVisitResult.CONTINUE;
                            throw e;
                        }

                        @Override
                        public FileVisitResult postVisitDirectory(
                                Path directory, @Nullable IOException e) throws IOException {
                            if (e != null) throw e;
                            Files.deleteIfExists(directory);
                            return FileVisitResult.CONTINUE;
                        }
                    });
        } catch (IOException e) {
            throw new FSWriteError(e, root.toString());
        }
    }
}
