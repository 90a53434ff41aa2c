// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import org.apache.cassandra.io.FSWriteError;

/** The directory of a store, with all that is in it. */
public final class StoreDirectory {
    private StoreDirectory() {}

    /** Deletes a directory; the file that says what it is goes last. */
    public static void delete(Path directory) {
        List<Path> files;
        try {
            files = filesIn(directory);
        } catch (NoSuchFileException e) {
            return;
        } catch (IOException e) {
            throw new FSWriteError(e, directory);
        }
        Path last = directory.resolve(StoreDescriptor.NAME);
        for (Path file : files) if (!file.equals(last) && !file.equals(directory)) deleteFile(file);
        deleteFile(last);
        deleteFile(directory);
    }

    /** Deepest first; files of streams may be deleted meanwhile by whoever received them. */
    private static List<Path> filesIn(Path directory) throws IOException {
        while (true) {
            try (var walk = Files.walk(directory)) {
                return walk.sorted(Comparator.reverseOrder()).toList();
            } catch (UncheckedIOException e) {
                if (!(e.getCause() instanceof NoSuchFileException)) throw e.getCause();
            }
        }
    }

    private static void deleteFile(Path file) {
        try {
            Files.deleteIfExists(file);
        } catch (IOException e) {
            throw new FSWriteError(e, file);
        }
    }
}
