// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.engine.DirectoryTree;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.cassandra.io.FSError;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The folders {@code rocksdb} that are in use: whose each is now, as a table that is altered or
 * created anew takes it over from the one before, in which SSTables are being written that are to
 * be sent, and which generations in them are to be deleted. A folder is deleted by its owner only,
 * and never under such an SSTable or before such a generation. Thread-safe.
 */
final class StoreFolders {
    private static final Logger logger = LoggerFactory.getLogger(StoreFolders.class);

    private static final Map<Path, TableGenerations> owners = new HashMap<>();
    private static final Set<Path> exports = new HashSet<>();

    /** The folders of generations that are to be deleted by whoever owned these then. */
    private static final Map<Generation, Path> ended = new HashMap<>();

    /** No two exports of a process are the same, whoever owns the folder. */
    private static long exportNumber;

    private StoreFolders() {}

    /** From now on the folder is this table's. */
    static synchronized void claim(StoreLocation place, TableGenerations owner) {
        owners.put(place.root(), owner);
    }

    /** The folder is not this table's any more. */
    static synchronized void release(StoreLocation place, TableGenerations owner) {
        owners.remove(place.root(), owner);
    }

    /**
     * Has the folder stay until {@link #release(Generation)}, and with it LIVE: else the numbers
     * would begin again, and the deletion of this generation come to a later one of the same
     * number.
     */
    static synchronized void retain(StoreLocation place, Generation generation) {
        ended.put(generation, place.root());
    }

    /** This generation is deleted, or nobody will. Idempotent. */
    static synchronized void release(Generation generation) {
        ended.remove(generation);
    }

    /** Whose the folder is; null if it is nobody's. */
    static synchronized @Nullable TableGenerations owner(StoreLocation place) {
        return owners.get(place.root());
    }

    /**
     * Deletes the SSTables that a process before this one was sending. Does not throw: no table's
     * data depends on them.
     */
    static synchronized void deleteLeftExports(StoreLocation place) {
        try {
            deleteUnlessExported(place.streams());
        } catch (FSError e) {
            logger.error(
                    "The directory {} of streams that ended with the last process could not be"
                            + " deleted. It takes disk space, and is deleted when the node starts"
                            + " again",
                    place.streams(),
                    e);
        }
    }

    /**
     * Makes a directory for an SSTable that is to be sent; null if the folder is another's by now.
     */
    static synchronized @Nullable ExportDirectory beginExport(
            StoreLocation place, TableGenerations owner) throws IOException {
        if (owners.get(place.root()) != owner) return null;
        Files.createDirectories(place.streams());
        Path path;
        // One of a process before this could not be deleted.
        do path = place.streams().resolve(Long.toString(++exportNumber));
        while (Files.exists(path, LinkOption.NOFOLLOW_LINKS));
        Files.createDirectory(path);
        exports.add(path);
        return new ExportDirectory(place, path);
    }

    /**
     * The end of a directory that {@link #beginExport} made, which is deleted by now.
     *
     * @return whose the folder is, which may have waited for this; null if it is nobody's
     */
    static synchronized @Nullable TableGenerations endExport(StoreLocation place, Path path) {
        exports.remove(path);
        try {
            deleteUnlessExported(place.streams());
        } catch (FSError e) {
            logger.error(
                    "The directory {} of ended streams could not be deleted; it is deleted when"
                            + " the node starts again",
                    place.streams(),
                    e);
        }
        return owners.get(place.root());
    }

    /**
     * Deletes a table's folder, unless it is another's by now. Where an SSTable is being written in
     * it, or a generation is to be deleted, nothing is done: the end of that has to try again.
     *
     * @param deleteStore as for {@link StoreLocation#delete(Consumer)}
     * @throws FSError if it cannot be deleted
     */
    static synchronized void delete(
            StoreLocation place, TableGenerations owner, Consumer<Path> deleteStore) {
        if (owners.get(place.root()) != owner) return;
        if (isExported(place.root()) || ended.containsValue(place.root())) return;
        place.delete(deleteStore);
        owners.remove(place.root());
    }

    private static void deleteUnlessExported(Path folder) {
        if (!isExported(folder)) DirectoryTree.delete(folder);
    }

    private static boolean isExported(Path folder) {
        return exports.stream().anyMatch(export -> export.startsWith(folder));
    }
}
