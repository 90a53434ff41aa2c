// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.MigrationMark;
import dev.petra.cassandra.disk.OrphanStores;
import dev.petra.cassandra.disk.StoreDirectory;
import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.StreamSink;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.SortedSet;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The stores of one table on this node, one per generation. Thread-safe.
 *
 * <h2>What a crash leaves</h2>
 *
 * <p>{@link dev.petra.cassandra.disk.LivePointer} decides. It names generation {@code n} before
 * {@code n} has a directory, so that a directory above it cannot exist, and one below it is dead.
 * TRUNCATE moves it, durably, before the switch to the next generation and so before TRUNCATE is
 * acknowledged:
 *
 * <pre>
 *   LIVE=1, 1/              before TRUNCATE: all rows
 *   LIVE=2, 1/              truncated; 1/ is garbage, deleted when its readers are gone or at start
 *   LIVE=2, 1/, 2/          the first write since
 *   LIVE=2, 2/
 * </pre>
 *
 * <p>Writes that were under way when the pointer moved go to the old generation; they count as
 * before the TRUNCATE.
 */
public final class TableGenerations {
    private static final Logger logger = LoggerFactory.getLogger(TableGenerations.class);

    /** Whose a folder of stores is now; guarded by itself. */
    private static final Map<Path, TableGenerations> owners = new HashMap<>();

    /** Where SSTables are being written or sent; guarded by {@link #owners}. */
    private static final Set<Path> exports = new HashSet<>();

    /** Guarded by {@link #owners}. No two of a process are the same, whoever owns the folder. */
    private static long exportNumber;

    private final String displayName;
    private final String columnFamily;
    private final TableMetadataRef metadata;
    private final Supplier<StorageEngine> engine;
    private final @Nullable StoreDirectory directory;
    private final AtomicLong truncations = new AtomicLong();
    private final ReentrantLock content = new ReentrantLock();
    private final List<Generation> retired = new ArrayList<>();
    private final StreamGuards streams = new StreamGuards(FBUtilities::nowInSeconds);

    private volatile Consumer<TableStore> beforeFirstUse = store -> {};
    private Generation current;
    private boolean dropped;
    private boolean departed;
    private volatile @Nullable MigrationMark migrationMark;
    private long migrationNumber;
    private @Nullable Generation kept;
    private String keepAs = "";
    private boolean mayDelete = true;

    private TableGenerations(
            String columnFamily,
            TableMetadataRef metadata,
            Supplier<StorageEngine> engine,
            @Nullable StoreDirectory directory) {
        this.displayName = metadata.keyspace + "." + columnFamily;
        this.columnFamily = columnFamily;
        this.metadata = metadata;
        this.engine = engine;
        this.directory = directory;
        this.current = Generation.empty(this, 0);
    }

    /**
     * Opens what is on disk and removes what is dead there. Blocks on disk, and on the replay of
     * the engine's log after a crash. Never throws: a table that cannot be opened says so on each
     * use.
     *
     * @param tableDirectories the table's directories, one per data directory of the node
     */
    public static TableGenerations open(
            String columnFamily,
            TableMetadataRef metadata,
            Supplier<StorageEngine> engine,
            List<Path> tableDirectories,
            Disk disk) {
        StoreDirectory directory;
        try {
            OrphanStores.bringBack(tableDirectories);
            directory = StoreDirectory.locate(tableDirectories, disk);
        } catch (RuntimeException | FSError e) {
            return unusable(columnFamily, metadata, engine, e);
        }
        TableGenerations stores = new TableGenerations(columnFamily, metadata, engine, directory);
        synchronized (owners) {
            owners.put(directory.root(), stores);
        }
        try {
            synchronized (owners) {
                deleteUnlessExported(directory.streams());
            }
            stores.migrationMark = directory.migrationMark();
        } catch (RuntimeException | FSError e) {
            stores.current = stores.fail(0, e);
            return stores;
        }
        stores.current = stores.openLive(directory);
        return stores;
    }

    /** A table that must not be used, for that reason. */
    public static TableGenerations unusable(
            String columnFamily,
            TableMetadataRef metadata,
            Supplier<StorageEngine> engine,
            Throwable reason) {
        TableGenerations stores = new TableGenerations(columnFamily, metadata, engine, null);
        stores.current = stores.fail(0, reason);
        return stores;
    }

    private Generation openLive(StoreDirectory directory) {
        // 0 until it is certain which generation is alive, and that nothing is above it.
        long live = 0;
        try {
            if (directory.isKept())
                throw new CorruptStoreException(
                        directory
                                + " holds the data of a table with this ID that was dropped, and"
                                + " whose snapshot failed; the file "
                                + StoreDirectory.KEEP
                                + " says why. Move the directory away, or remove that file if it"
                                + " is this table's data, and restart the node.");
            OptionalLong pointer = directory.live();
            SortedSet<Long> found = directory.generations();
            if (pointer.isEmpty()) {
                if (!found.isEmpty())
                    throw new CorruptStoreException(
                            directory
                                    + " holds the generations "
                                    + found
                                    + " but no file LIVE. Create it, with the number of the one"
                                    + " that holds the table's data.");
                return Generation.empty(this, 1);
            }
            if (!found.tailSet(pointer.getAsLong() + 1).isEmpty())
                throw new CorruptStoreException(
                        directory
                                + " holds the generations "
                                + found
                                + " but LIVE says that "
                                + pointer.getAsLong()
                                + " is the newest. Move away what does not belong there, or correct"
                                + " LIVE.");
            live = pointer.getAsLong();
            found.headSet(live).forEach(this::deleteGarbage);
            return found.contains(live)
                    ? Generation.of(this, live, openStore(directory, live))
                    : Generation.empty(this, live);
        } catch (RuntimeException | FSError e) {
            return fail(live, e);
        }
    }

    private Generation fail(long number, Throwable reason) {
        logger.error(
                "Table {} cannot be used, every read and write of it will fail: {}",
                displayName,
                reason.getMessage(),
                reason);
        return Generation.failed(this, number, reason);
    }

    private TableStore openStore(StoreDirectory place, long generation) {
        return engine.get()
                .openStore(
                        new StoreSpec(
                                place.generation(generation),
                                columnFamily,
                                generation,
                                metadata,
                                this::mayPurge,
                                streams::purgeAsOf,
                                this::mayCompact));
    }

    private boolean mayPurge() {
        return streams.mayPurge(() -> !isMigrating() && PurgeGate.isOpen(metadata));
    }

    /** As the table's options say, or since then {@code nodetool disableautocompaction}. */
    private boolean mayCompact() {
        ColumnFamilyStore cfs = ColumnFamilyStore.getIfExists(metadata.id);
        // While it starts, Cassandra lets no table compact.
        if (cfs == null || !StorageService.instance.isDaemonSetupCompleted())
            return metadata.get().params.compaction.isEnabled();
        return !cfs.isAutoCompactionDisabled();
    }

    /** Creates the store of a generation without one, for its first write. */
    TableStore createStore(long generation) {
        StoreDirectory place = usableDirectory();
        synchronized (this) {
            if (Files.exists(place.generation(generation)))
                throw new CorruptStoreException(
                        place.generation(generation)
                                + " appeared while the table was in use. Move it away, or restart"
                                + " the node if it is the table's data.");
            if (generation == 1 && place.live().isEmpty()) place.makeLive(1);
            TableStore store = null;
            try {
                store = openStore(place, generation);
                beforeFirstUse.accept(store);
                return store;
            } catch (RuntimeException | FSError e) {
                // Nothing was acknowledged yet; half a store would be in the way of the next
                // attempt.
                try {
                    if (store != null) store.close();
                    engine.get().deleteStore(place.generation(generation));
                } catch (RuntimeException | FSError suppressed) {
                    e.addSuppressed(suppressed);
                }
                throw e;
            }
        }
    }

    /** What is done with each store that is made, before anything is written to it. */
    public void beforeFirstUse(Consumer<TableStore> action) {
        beforeFirstUse = action;
    }

    /** The generation that is alive. */
    public synchronized Generation current() {
        return current;
    }

    /** Whether this generation is what the table holds now. */
    synchronized boolean isLive(Generation generation) {
        return generation == current && !dropped;
    }

    /** Why the table cannot be used now, if it cannot. */
    public @Nullable Throwable failure() {
        Throwable failure = current().failure();
        ColumnFamilyStore cfs = ColumnFamilyStore.getIfExists(metadata.id);
        String unfit = failure != null || cfs == null ? null : Unfit.failure(cfs);
        return unfit == null ? failure : new IllegalStateException(unfit);
    }

    /** The table's keyspace. */
    public String keyspace() {
        return metadata.keyspace;
    }

    /** Table and keyspace, for messages. */
    public String displayName() {
        return displayName;
    }

    /**
     * Begins the next generation, for TRUNCATE: once this has returned the current one is dead,
     * whatever crashes. It stays readable until it is discarded.
     *
     * @throws FSWriteError if that cannot be made durable; nothing has changed then, or the table
     *     fails from here on if even that cannot be made sure
     * @throws UnavailableStoreException if it is not known which generation is alive
     */
    public synchronized Generation successor() {
        Generation old = current;
        StoreDirectory place = usableDirectory();
        Throwable failure = old.failure();
        if (old.number() == 0 && failure != null)
            throw new UnavailableStoreException(displayName, failure);
        long next = old.number() + 1;
        kill(old, place);
        current = Generation.empty(this, next);
        return current;
    }

    private void kill(Generation generation, StoreDirectory place) {
        try {
            place.makeLive(generation.number() + 1);
        } catch (FSWriteError e) {
            // The pointer may have moved all the same. Going on with this generation would then
            // acknowledge writes that a restart throws away.
            if (!isUnmoved(generation, place, e) && !moveBack(generation, place, e)) {
                generation.fail(e);
                logger.error(
                        "Table {} cannot be used until the node is restarted: it is not known"
                                + " whether {} is dead",
                        displayName,
                        place.generation(generation.number()),
                        e);
            }
            throw e;
        }
        retired.add(generation);
    }

    private static boolean isUnmoved(Generation generation, StoreDirectory place, Throwable e) {
        try {
            return place.live().orElse(1) == generation.number();
        } catch (RuntimeException | FSError unreadable) {
            e.addSuppressed(unreadable);
            return false;
        }
    }

    private static boolean moveBack(Generation generation, StoreDirectory place, Throwable e) {
        try {
            place.makeLive(generation.number());
            return true;
        } catch (FSError again) {
            e.addSuppressed(again);
            return false;
        }
    }

    /** Ends the table, for DROP. What it returns stands for the table until it is gone. */
    public synchronized Generation drop() {
        dropped = true;
        retired.add(current);
        if (mayDelete) endOnDisk(current);
        current =
                Generation.failed(
                        this,
                        current.number() + 1,
                        new IllegalStateException("the table was dropped"));
        return current;
    }

    /**
     * It may be read for a while: neither a crash nor a table that is created WITH the same ID must
     * find it alive then.
     */
    private void endOnDisk(Generation generation) {
        if (directory == null || generation.number() == 0) return;
        if (!Files.exists(directory.generation(generation.number()))) return;
        try {
            directory.makeLive(generation.number() + 1);
        } catch (FSError e) {
            logger.error("{} is dropped, but could not be marked so", generation, e);
        }
    }

    /**
     * Makes sure that a generation is dead on disk although no successor was begun: the table's
     * next memtable is not ours.
     */
    public synchronized void retire(Generation generation) {
        if (generation != current) return;
        kill(generation, usableDirectory());
    }

    /** A TRUNCATE has come to the point where it removes data. */
    public void countTruncation() {
        truncations.incrementAndGet();
    }

    /** How many there were since the table was opened. */
    public long truncations() {
        return truncations.get();
    }

    // Migration into the engine and out of it

    /**
     * Whether the table's data is on its way into the engine or out of it: then what is in the
     * store and what is in SSTables belongs together, and no deletion may be purged.
     */
    public boolean isMigrating() {
        return migrationMark != null;
    }

    /**
     * Waits until the store removes no deletion any more, where {@link PurgeGate} or a migration
     * forbids that: to be called since, before anything that a deletion may hide comes to lie
     * outside of the store. May block: not under a lock of the table's.
     */
    public void stopPurging() {
        current()
                .measure(
                        store -> {
                            store.stopPurging();
                            return true;
                        },
                        false);
    }

    /**
     * Says, durably, that the data is on its way to where the schema now says. Ends the migration
     * that is under way, if there is one.
     *
     * @param configuration the memtable configuration of the table's engine
     * @return the number of this migration
     * @throws FSWriteError if it cannot be made durable; nothing has changed then
     */
    public synchronized long beginMigration(String configuration) {
        MigrationMark mark = new MigrationMark(configuration, null);
        usableDirectory().markMigration(mark);
        migrationMark = mark;
        return ++migrationNumber;
    }

    /** The number of the migration that was under way when the table was opened. */
    public synchronized long resumeMigration() {
        if (!isMigrating()) throw new IllegalStateException(displayName + " is not being migrated");
        return ++migrationNumber;
    }

    /** Whether this migration is still the one under way. */
    public synchronized boolean isCurrentMigration(long number) {
        return isMigrating() && number == migrationNumber && !dropped;
    }

    /** Takes a step, unless the migration is over or another began. False if it did not. */
    public synchronized boolean stepOfMigration(long number, Runnable step) {
        if (!isCurrentMigration(number)) return false;
        step.run();
        return true;
    }

    /** Up to which partition key the data was migrated out before; null if none was. */
    public synchronized @Nullable ByteBuffer migratedUpTo() {
        MigrationMark mark = migrationMark;
        return mark == null ? null : mark.after();
    }

    /** Says, durably, up to where the data was migrated out. */
    public synchronized void migratedUpTo(long number, ByteBuffer key) {
        MigrationMark mark = migrationMark;
        if (mark == null || !isCurrentMigration(number)) return;
        MigrationMark next = new MigrationMark(mark.configuration(), key);
        usableDirectory().markMigration(next);
        migrationMark = next;
    }

    /** Ends a migration into the engine, durably. False if it is not the one under way. */
    public synchronized boolean arrived(long number) {
        return stepOfMigration(
                number,
                () -> {
                    usableDirectory().unmarkMigration();
                    migrationMark = null;
                });
    }

    /**
     * Ends a migration out of the engine: the store is dead on disk once this has returned. False
     * if it is not the one under way.
     */
    public synchronized boolean departed(long number) {
        return stepOfMigration(
                number,
                () -> {
                    kill(current, usableDirectory());
                    migrationMark = null;
                });
    }

    /**
     * Has the next parts of a stream go into a store, while the table can neither leave it nor be
     * truncated. Between two calls it can.
     *
     * @param generation that they were received for
     * @param stays whether the table is whole in its engine, asked while it cannot begin to leave
     * @throws IOException if the table has changed since they came, or they are not what they
     *     should be; none of these is live then
     * @return whether there are more
     */
    public synchronized boolean ingest(
            Generation generation, BooleanSupplier stays, StreamSink stream) throws IOException {
        requireTaking(generation, stays);
        return stream.ingest();
    }

    /** Checks what came of a stream, as long as it can go where {@link #ingest} puts it. */
    public void verify(Generation generation, BooleanSupplier stays, StreamSink stream)
            throws IOException {
        requireTaking(generation, stays);
        try {
            stream.verify();
        } catch (IllegalStateException e) {
            // Not under the lock, so that the store may have ended meanwhile.
            requireTaking(generation, stays);
            throw e;
        }
    }

    private synchronized void requireTaking(Generation generation, BooleanSupplier stays)
            throws IOException {
        if (!isLive(generation) || !stays.getAsBoolean())
            throw new IOException(
                    displayName
                            + " was truncated, dropped or altered while a stream came to it: run"
                            + " again what streams");
    }

    /** The streams out of the table's stores. */
    public StreamGuards streams() {
        return streams;
    }

    /**
     * Makes a directory for an SSTable that is to be sent.
     *
     * @throws IllegalStateException if the table was dropped or has left its engine
     */
    public synchronized Export beginExport() throws IOException {
        StoreDirectory place = usableDirectory();
        synchronized (owners) {
            if (dropped || departed || owners.get(place.root()) != this)
                throw new IllegalStateException(displayName + " was dropped or altered meanwhile");
            Path path = place.streams().resolve(Long.toString(++exportNumber));
            Files.createDirectories(path);
            exports.add(path);
            return new Export(place, path);
        }
    }

    /**
     * A directory for an SSTable that is to be sent. The folder of all generations, in which it is,
     * stays until this is closed: else Cassandra, which writes there, would take it that the disk
     * failed, and might stop the node.
     */
    public static final class Export implements AutoCloseable {
        private final StoreDirectory place;
        private final Path path;

        private Export(StoreDirectory place, Path path) {
            this.place = place;
            this.path = path;
        }

        /** Is there, and empty at first. */
        public Path path() {
            return path;
        }

        /** Deletes it, and what waited for that. Does not throw. */
        @Override
        public void close() {
            TableGenerations owner;
            try {
                StoreDirectory.deleteTree(path);
            } catch (FSError e) {
                logger.error("{} could not be deleted; it is at the next start", path, e);
            }
            synchronized (owners) {
                exports.remove(path);
                owner = owners.get(place.root());
                try {
                    deleteUnlessExported(place.streams());
                } catch (FSError e) {
                    logger.error("{} could not be deleted", place.streams(), e);
                }
            }
            if (owner != null) owner.deleteIfEnded();
        }
    }

    /** Under the lock of {@link #owners}. False if an SSTable is written or sent from there. */
    private static boolean deleteUnlessExported(Path folder) {
        if (exports.stream().anyMatch(export -> export.startsWith(folder))) return false;
        StoreDirectory.deleteTree(folder);
        return true;
    }

    /**
     * Holds the table's data where it is, until {@link #unlockContent}: nothing leaves an SSTable
     * for the store while a snapshot is taken first of the one and then of the other. Reentrant.
     */
    public void lockContent() {
        content.lock();
    }

    /** The end of {@link #lockContent}. */
    public void unlockContent() {
        content.unlock();
    }

    /**
     * Deletes the folder of all generations, after {@link #departed}; with the last reader or
     * {@link Export} if there are some.
     */
    public synchronized void deleteDirectory() {
        departed = true;
        if (retired.isEmpty()) deleteRoot(usableDirectory());
    }

    /**
     * Unless it belongs to another by now, that was created or altered meanwhile. The last {@link
     * Export} does it otherwise.
     */
    private void deleteRoot(StoreDirectory place) {
        synchronized (owners) {
            if (owners.get(place.root()) != this) return;
            if (deleteUnlessExported(place.root())) owners.remove(place.root());
        }
    }

    /** The table's directory in which the stores are; null if that could not be found out. */
    public @Nullable Path tableDirectory() {
        return directory == null ? null : directory.parent();
    }

    private StoreDirectory usableDirectory() {
        if (directory == null) {
            Throwable reason = current().failure();
            throw new UnavailableStoreException(
                    displayName,
                    reason == null ? new IllegalStateException("its place is unknown") : reason);
        }
        return directory;
    }

    /**
     * Puts a copy of a generation into a snapshot. Blocks on disk. After a failure nothing of it is
     * left.
     *
     * @throws FSWriteError if the disk failed, naming the snapshot
     * @throws IllegalStateException if the store did, naming the snapshot
     * @throws UnavailableStoreException if there is no store to copy
     */
    public void snapshot(Generation generation, String tag) {
        TableStore store = generation.existing();
        if (store == null) return;
        new StoreSnapshot(displayName, usableDirectory(), tag)
                .take(store, generation.number(), () -> migrationMark);
    }

    /**
     * Tells the table, which is being dropped, to move this generation into that snapshot rather
     * than to delete it.
     */
    public synchronized void keepInsteadOfDeleting(Generation generation, String tag) {
        kept = generation;
        keepAs = tag;
        mayDelete = false;
        // Before anything else: a table may be created with the same ID while this one is read.
        if (directory != null && Files.exists(directory.root()))
            new StoreSnapshot(displayName, directory, tag)
                    .markKept("it is to be moved into the snapshot");
    }

    /** Whether that was said of this generation. */
    synchronized boolean isKept(Generation generation) {
        return generation == kept;
    }

    /**
     * The end of a generation. Does not throw.
     *
     * @return false if it is still read, and this is to be called again
     */
    boolean dispose(Generation generation, @Nullable TableStore store) {
        try {
            streams.releaseEnded();
            if (isKept(generation)) moveAside(generation, store);
            else if (store != null) store.drop();
            else deleteGarbage(generation.number());
        } catch (IllegalStateException e) {
            logger.debug("{} is still read", generation, e);
            return false;
        } catch (RuntimeException | FSError e) {
            logger.error(
                    "The data of {} could not be deleted now. It is dead, and is deleted when the"
                            + " node starts again.",
                    generation,
                    e);
        }
        synchronized (this) {
            retired.remove(generation);
            deleteIfEnded();
        }
        return true;
    }

    private synchronized void deleteIfEnded() {
        if (retired.isEmpty() && (dropped || departed)) deleteDropped();
    }

    private void moveAside(Generation generation, @Nullable TableStore store) {
        if (directory == null) return;
        if (!new StoreSnapshot(displayName, directory, keepAs).moveThere(generation, store)) return;
        synchronized (this) {
            mayDelete = true;
        }
    }

    private void deleteDropped() {
        if (directory == null) {
            logger.error(
                    "The dropped table {} could not be opened, and where its data is was not clear:"
                            + " what is left in its directories must be removed by hand",
                    displayName);
            return;
        }
        if (!mayDelete || directory.isKept()) return;
        try {
            deleteRoot(directory);
        } catch (FSError e) {
            logger.error(
                    "The dropped table {} left files in {} that could not be deleted",
                    displayName,
                    directory,
                    e);
        }
    }

    private void deleteGarbage(long generation) {
        if (directory == null || generation == 0) return;
        try {
            engine.get().deleteStore(directory.generation(generation));
        } catch (IllegalStateException e) {
            logger.info(
                    "Dead data of {} in {} is still being read, and goes with its last reader",
                    displayName,
                    directory.generation(generation));
        } catch (RuntimeException | FSError e) {
            logger.error(
                    "Dead data of {} in {} could not be deleted",
                    displayName,
                    directory.generation(generation),
                    e);
        }
    }

    /**
     * Waits for the deletion of all dead generations.
     *
     * @return false if it was not over within the time
     */
    public boolean awaitDisposed(Duration patience) throws InterruptedException {
        List<Generation> pending;
        synchronized (this) {
            pending = List.copyOf(retired);
        }
        long deadline = System.nanoTime() + patience.toNanos();
        for (Generation generation : pending)
            if (!generation.awaitDisposed(Duration.ofNanos(deadline - System.nanoTime())))
                return false;
        return true;
    }

    /** Closes the stores and leaves their data, because the table is opened anew. */
    public void close() {
        List<Generation> all;
        synchronized (this) {
            all = new ArrayList<>(retired);
            all.add(current);
        }
        // Not under the lock: a generation that is just being created takes it inside its own.
        all.forEach(Generation::close);
    }
}
