// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.cassandra.io.FSError;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What becomes of a table's data that is dead: it is deleted with its last reader, and with the
 * last generation of a table that was dropped or has left its engine the whole folder. The data of
 * a dropped table whose snapshot failed is moved into that snapshot instead. Thread-safe; this lock
 * is taken inside of that of the {@link TableGenerations}, and that inside of the one of {@link
 * TableRegistry}, never the other way round.
 */
final class EndedGenerations {
    private static final Logger logger = LoggerFactory.getLogger(EndedGenerations.class);

    private final TableGenerations stores;
    private final Supplier<StorageEngine> engine;
    private final @Nullable StoreLocation directory;
    private final List<Generation> pending = new ArrayList<>();

    /** Those that had no directory when they ended: what has their number later is another's. */
    private final Set<Generation> withoutFiles = new HashSet<>();

    /** Whether no generation comes after the pending ones. */
    private boolean last;

    private @Nullable Generation kept;
    private String keepAs = "";
    private boolean mayDelete = true;

    EndedGenerations(
            TableGenerations stores,
            Supplier<StorageEngine> engine,
            @Nullable StoreLocation directory) {
        this.stores = stores;
        this.engine = engine;
        this.directory = directory;
    }

    /** Adds one that has ended; it stays readable until it is discarded. */
    synchronized void add(Generation generation) {
        pending.add(generation);
        if (directory == null) return;
        StoreFolders.retain(directory, generation);
        if (!mayHaveFiles(directory, generation)) withoutFiles.add(generation);
    }

    private static boolean mayHaveFiles(StoreLocation place, Generation generation) {
        try {
            return place.hasGeneration(generation.number());
        } catch (CorruptStoreException | FSError e) {
            logger.warn("Whether {} has a directory is not known", generation, e);
            return true;
        }
    }

    /**
     * Adds the last one of a table that is dropped. From here on the folder goes with the last of
     * them.
     *
     * @return whether its data may be deleted, and is not to be moved into a snapshot
     */
    synchronized boolean addLast(Generation generation) {
        last = true;
        add(generation);
        return mayDelete;
    }

    /** Those that are not deleted yet. */
    synchronized List<Generation> pending() {
        return new ArrayList<>(pending);
    }

    /**
     * Deletes the folder of a table that has left its engine, or has the last of them do so. Does
     * not throw: the table's data is elsewhere.
     */
    synchronized void deleteFolder() {
        last = true;
        deleteFolderIfLast();
    }

    /** Has the data of a generation moved into a snapshot rather than deleted. */
    synchronized void keep(Generation generation, String tag) {
        kept = generation;
        keepAs = tag;
        mayDelete = false;
    }

    /** Whether {@link #keep} was called for this generation. */
    synchronized boolean isKept(Generation generation) {
        return generation == kept;
    }

    /**
     * The end of a generation. Does not throw. May take long, and waits for tables that are being
     * opened: not under a lock of the table's.
     *
     * @return false if it is still read, and this is to be called again
     */
    boolean dispose(Generation generation, @Nullable TableStore store) {
        try {
            stores.streams().releaseEnded();
            if (isKept(generation)) moveAside(generation, store);
            else if (store != null) store.drop();
            else if (hadFiles(generation)) deleteGarbage(generation.number());
        } catch (IllegalStateException e) {
            logger.debug("{} is still read", generation, e);
            return false;
        } catch (RuntimeException | FSError e) {
            logger.error(
                    "The data of {} could not be deleted now. It was truncated or dropped, and is"
                            + " deleted when the node starts again.",
                    generation,
                    e);
        }
        // While no table is opened: it would look for its data in a folder of which half is gone.
        TableRegistry.exclusively(
                () -> {
                    ended(generation);
                    deleteFolderOfHeir();
                    return null;
                });
        return true;
    }

    private synchronized boolean hadFiles(Generation generation) {
        return !withoutFiles.contains(generation);
    }

    private synchronized void ended(Generation generation) {
        pending.remove(generation);
        withoutFiles.remove(generation);
        StoreFolders.release(generation);
        deleteFolderIfLast();
    }

    /** All are closed by {@link Generation#close}: those that were not discarded stay. */
    void closed() {
        if (heir() == null) return;
        TableRegistry.exclusively(
                () -> {
                    deleteFolderOfHeir();
                    return null;
                });
    }

    /** A later owner of the folder, which has ended, too, may have waited for a generation here. */
    private void deleteFolderOfHeir() {
        TableGenerations heir = heir();
        if (heir != null) heir.ended().deleteFolderIfLast();
    }

    private @Nullable TableGenerations heir() {
        TableGenerations owner = directory == null ? null : StoreFolders.owner(directory);
        return owner == stores ? null : owner;
    }

    private void moveAside(Generation generation, @Nullable TableStore store) {
        if (directory == null) return;
        String tag;
        synchronized (this) {
            tag = keepAs;
        }
        if (!new StoreSnapshot(stores.displayName(), directory, tag).moveThere(generation, store))
            return;
        synchronized (this) {
            mayDelete = true;
        }
    }

    /**
     * Deletes the folder, if the table was dropped or has left, and nothing in it is still read.
     * Where a former owner has a generation in it, whose deletion is under way or waits for a
     * reader, that one calls this again.
     */
    synchronized void deleteFolderIfLast() {
        if (pending.isEmpty() && last) deleteFolderNow();
    }

    private void deleteFolderNow() {
        if (directory == null) {
            logger.error(
                    "The dropped table {} could not be opened, so it is not known which of its"
                            + " directories holds its data, and nothing was deleted: remove its"
                            + " directories by hand",
                    stores.displayName());
            return;
        }
        if (!mayDelete) return;
        try {
            if (!directory.isKept())
                StoreFolders.delete(directory, stores, store -> engine.get().deleteStore(store));
        } catch (IllegalStateException e) {
            logger.info(
                    "The folder {} of {}, which was dropped or has left its engine, cannot be"
                            + " deleted yet: {} It is deleted when that is over, or when the node"
                            + " starts again",
                    directory,
                    stores.displayName(),
                    e.getMessage());
        } catch (RuntimeException | FSError e) {
            logger.error(
                    "The table {} was dropped or has left its engine, and files in {} could not be"
                            + " deleted. Nothing reads them. They take disk space until the node"
                            + " starts again, which tries again: leave LIVE and MOVING as they"
                            + " are. If the file LIVE there could not be written either, that"
                            + " start moves the data of a dropped table to a snapshot",
                    stores.displayName(),
                    directory,
                    e);
        }
    }

    /** Deletes a generation that no store has open. Does not throw. */
    void deleteGarbage(long generation) {
        if (directory == null || generation == 0) return;
        try {
            engine.get().deleteStore(directory.generation(generation));
        } catch (IllegalStateException e) {
            logger.info(
                    "Truncated or dropped data of {} in {} is not deleted now: {} It goes with the"
                            + " last read of it, or when the node starts again",
                    stores.displayName(),
                    directory.generation(generation),
                    e.getMessage());
        } catch (RuntimeException | FSError e) {
            logger.error(
                    "Truncated or dropped data of {} in {} could not be deleted; it is deleted"
                            + " when the node starts again",
                    stores.displayName(),
                    directory.generation(generation),
                    e);
        }
    }

    /**
     * Waits for the deletion of all of them.
     *
     * @return false if it was not over within the time
     */
    boolean await(Duration patience) throws InterruptedException {
        long deadline = System.nanoTime() + patience.toNanos();
        for (Generation generation : pending())
            if (!generation.awaitDisposed(Duration.ofNanos(deadline - System.nanoTime())))
                return false;
        return true;
    }
}
