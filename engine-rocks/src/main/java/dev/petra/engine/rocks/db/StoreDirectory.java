// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.cassandra.io.FSWriteError;

/** The directory of a store, with all that is in it. */
public final class StoreDirectory {
    /** Those of stores that are being deleted now, which may take long. */
    private static final Set<Path> deleting = ConcurrentHashMap.newKeySet();

    private StoreDirectory() {}

    /**
     * Deletes the directory of a store that is closed. Until that is over none is to be opened
     * there: files of the new one would be deleted by their names.
     *
     * @param begun called when {@link #isBeingDeleted} says so
     * @throws IllegalStateException if it is being deleted already
     */
    public static void deleteStore(Path directory, Runnable begun) {
        Path key = normalized(directory);
        if (!deleting.add(key))
            throw new IllegalStateException("The store in " + directory + " is being deleted.");
        try {
            begun.run();
            delete(directory);
        } finally {
            deleting.remove(key);
        }
    }

    /** Whether {@link #deleteStore} is under way. */
    public static boolean isBeingDeleted(Path directory) {
        return deleting.contains(normalized(directory));
    }

    /** By which a store is told from others. */
    public static Path normalized(Path directory) {
        return directory.toAbsolutePath().normalize();
    }

    /** Deletes a directory; the file that says what it is goes last. */
    public static void delete(Path directory) {
        List<Path> files;
        try {
            files = filesIn(directory);
        } catch (IOException e) {
            throw new FSWriteError(e, directory);
        }
        Path last = directory.resolve(StoreDescriptor.NAME);
        for (Path file : files) if (!file.equals(last) && !file.equals(directory)) deleteFile(file);
        deleteFile(last);
        deleteFile(directory);
    }

    /**
     * A directory and all that is in it, deepest first; none if it is not there. Files of streams
     * may be deleted meanwhile by whoever received them.
     */
    public static List<Path> filesIn(Path directory) throws IOException {
        while (true) {
            try (var walk = Files.walk(directory)) {
                return walk.sorted(Comparator.reverseOrder()).toList();
            } catch (NoSuchFileException e) {
                return List.of();
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
