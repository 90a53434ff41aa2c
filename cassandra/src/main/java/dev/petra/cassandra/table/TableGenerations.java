// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.OrphanStores;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.disk.StoreMarker;
import dev.petra.cassandra.host.Host;
import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.OptionalLong;
import java.util.SortedSet;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.service.snapshot.TableSnapshot;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The stores of one table on this node, one per generation: which is alive, how TRUNCATE and DROP
 * end it, and how the next begins. {@link LiveGeneration} says what that is on disk and {@link
 * EndedGenerations} what becomes of those that are dead. Thread-safe.
 */
public final class TableGenerations {
    private static final Logger logger = LoggerFactory.getLogger(TableGenerations.class);

    private final String displayName;
    private final String columnFamily;
    private final TableMetadataRef metadata;
    private final Supplier<StorageEngine> engine;
    private final @Nullable StoreLocation directory;
    private final AtomicLong truncations = new AtomicLong();
    private final AtomicLong ingests = new AtomicLong();
    private final ReentrantLock content = new ReentrantLock();
    private final TableMigration migration = new TableMigration(this);
    private final EndedGenerations ended;
    private final StreamGuards streams;

    private volatile Consumer<TableStore> beforeFirstUse = store -> {};
    private volatile @Nullable Boolean hasIndexes;

    /** Whether that is over which writes to the store as well; null if there is nothing. */
    private volatile @Nullable BooleanSupplier othersAreOver;

    /** Changed under the lock. */
    private volatile Generation current;

    private boolean dropped;
    private boolean departed;

    /** Where markers may be of a store that is not found; otherwise empty. */
    private List<Path> tableDirectories = List.of();

    private TableGenerations(
            String columnFamily,
            TableMetadataRef metadata,
            Supplier<StorageEngine> engine,
            @Nullable StoreLocation directory) {
        this.displayName = metadata.keyspace + "." + columnFamily;
        this.columnFamily = columnFamily;
        this.metadata = metadata;
        this.engine = engine;
        this.directory = directory;
        this.streams =
                new StreamGuards(
                        () -> FBUtilities.nowInSeconds() - metadata.get().params.gcGraceSeconds);
        this.ended = new EndedGenerations(this, engine, directory);
        this.current = Generation.empty(this, 0);
    }

    /**
     * Opens what is on disk, and has what is dead there removed in the background. Blocks on disk,
     * and on the replay of the engine's log after a crash. Never throws: a table that cannot be
     * opened says so on each use.
     *
     * @param tableDirectories the table's directories, one per data directory of the node
     */
    public static TableGenerations open(
            String columnFamily,
            TableMetadataRef metadata,
            Supplier<StorageEngine> engine,
            List<Path> tableDirectories,
            Disk disk) {
        StoreLocation directory;
        try {
            OrphanStores.bringBack(tableDirectories);
            directory = StoreLocation.locate(tableDirectories, disk);
            String missing = StoreLocation.hidden(tableDirectories, metadata.get());
            if (missing == null)
                missing =
                        StoreMarker.missing(
                                tableDirectories,
                                metadata.id,
                                metadata.keyspace + "." + columnFamily);
            if (missing != null) throw new CorruptStoreException(missing);
        } catch (RuntimeException | FSError e) {
            TableGenerations refused = unusable(columnFamily, metadata, engine, e);
            refused.tableDirectories = tableDirectories;
            return refused;
        }
        TableGenerations stores = new TableGenerations(columnFamily, metadata, engine, directory);
        StoreFolders.claim(directory, stores);
        StoreFolders.deleteLeftExports(directory);
        try {
            stores.migration.open(directory);
        } catch (RuntimeException | FSError e) {
            stores.current = Generation.failed(stores, 0, e);
            return stores;
        }
        stores.current = stores.openLive(directory);
        return stores;
    }

    /**
     * Makes a store of a copy, which the table's data is to be in from {@link #makeAlive} on. Until
     * then the next start deletes it.
     *
     * @param tableDirectory the one of the table's directories where it is to be
     * @param configuration the memtable configuration of its engine
     * @param copy makes the store's files
     * @throws IllegalStateException if there is something of the table in an engine already
     */
    public static TableGenerations adopt(
            String columnFamily,
            TableMetadataRef metadata,
            Supplier<StorageEngine> engine,
            Path tableDirectory,
            List<Path> tableDirectories,
            String configuration,
            Consumer<StoreSpec> copy) {
        StoreLocation place = StoreLocation.locate(tableDirectories, tableDirectory, Disk.REAL);
        if (!place.parent().equals(tableDirectory) || place.holdsData() || place.isKept())
            throw new IllegalStateException("there is something in " + place + " already");
        TableGenerations stores = new TableGenerations(columnFamily, metadata, engine, place);
        StoreFolders.claim(place, stores);
        try {
            stores.adopt(place, configuration, copy);
            return stores;
        } catch (RuntimeException | Error e) {
            stores.close();
            stores.deleteDirectory();
            throw e;
        }
    }

    private synchronized void adopt(
            StoreLocation place, String configuration, Consumer<StoreSpec> copy) {
        SortedSet<Long> found = place.generations();
        long number = Math.max(place.live().orElse(1), found.isEmpty() ? 1 : found.last() + 1);
        LiveGeneration.prepare(number, place);
        // From here on it lets no deletion go.
        var unused = migration.begin(configuration);
        for (long garbage : found) discard(garbage);
        copy.accept(spec(place, number));
        current = Generation.of(this, number, openStore(place, number));
    }

    /**
     * Durably: what {@link #adopt} has made is the table's data.
     *
     * @throws FSWriteError if that cannot be; it is garbage then
     */
    public synchronized void makeAlive() {
        StoreLocation place = usableDirectory();
        // Before there is anything to miss.
        place.mark(metadata.id);
        place.markCreated(current.number());
        LiveGeneration.begin(current, place);
    }

    /** A table that must not be used, for that reason. */
    public static TableGenerations unusable(
            String columnFamily,
            TableMetadataRef metadata,
            Supplier<StorageEngine> engine,
            Throwable reason) {
        TableGenerations stores = new TableGenerations(columnFamily, metadata, engine, null);
        stores.current = Generation.failed(stores, 0, reason);
        return stores;
    }

    private Generation openLive(StoreLocation directory) {
        // 0 until it is certain which generation is alive, and that nothing is above it.
        long live = 0;
        try {
            OptionalLong found = LiveGeneration.find(directory);
            if (found.isEmpty()) return Generation.empty(this, 1);
            live = found.getAsLong();
            SortedSet<Long> generations = directory.generations();
            LiveGeneration.requireThere(live, directory);
            // Before the markers are written that are missing.
            if (generations.contains(live)) beginAnewIfReplaced(directory);
            directory.mark(metadata.id);
            for (long garbage : generations.headSet(live)) {
                logger.warn(
                        "{} is deleted: LIVE says that generation {} is the oldest that is alive,"
                                + " so this one of table {} was truncated, dropped or migrated"
                                + " before its files could be deleted",
                        directory.generation(garbage),
                        live,
                        displayName);
                discard(garbage);
            }
            if (!generations.contains(live)) return Generation.empty(this, live);
            Generation opened = Generation.of(this, live, openStore(directory, live));
            // Of an earlier version, or of a restored snapshot of one.
            directory.markCreated(live);
            return opened;
        } catch (RuntimeException | FSError e) {
            return Generation.failed(this, live, e);
        }
    }

    /**
     * What was migrated out may have been on a disk that was replaced while the node was down. The
     * store has all of it until the migration is over.
     */
    private void beginAnewIfReplaced(StoreLocation directory) {
        if (migration.migratedUpTo() == null || directory.isMarked(metadata.id)) return;
        migration.beginAnew();
        logger.warn(
                "A data directory has no file {} of table {}: its disk was replaced, or it is new."
                        + " What was migrated out of the storage engine may be missing there, so"
                        + " the migration begins anew; the store in {} has all of it",
                StoreMarker.NAME,
                displayName,
                directory);
    }

    /** Not here: a store may have thousands of files, and whoever opens the table would wait. */
    private void discard(long garbage) {
        Generation dead = Generation.empty(this, garbage);
        ended.add(dead);
        dead.discard();
    }

    private TableStore openStore(StoreLocation place, long generation) {
        return engine.get().openStore(spec(place, generation));
    }

    private StoreSpec spec(StoreLocation place, long generation) {
        return new StoreSpec(
                place.generation(generation),
                columnFamily,
                generation,
                metadata,
                this::mayPurge,
                streams::gcBefore,
                this::mayCompact,
                true);
    }

    private boolean mayPurge() {
        return mayPurge(() -> PurgeGate.isOpen(metadata, loadedTable()));
    }

    /**
     * @param gate whether the table lets deletions go
     */
    boolean mayPurge(BooleanSupplier gate) {
        return streams.mayPurge(() -> !migration.isUnderWay() && gate.getAsBoolean());
    }

    /** As the table's options say, or since then {@code nodetool disableautocompaction}. */
    private boolean mayCompact() {
        // While it starts, Cassandra lets no table compact.
        ColumnFamilyStore cfs =
                StorageService.instance.isDaemonSetupCompleted() ? loadedTable() : null;
        return cfs == null
                ? metadata.get().params.compaction.isEnabled()
                : !cfs.isAutoCompactionDisabled();
    }

    /**
     * Null while its keyspace is being loaded, which may be why the store is opened: who asks for
     * all tables must not wait for that.
     */
    private @Nullable ColumnFamilyStore loadedTable() {
        Keyspace keyspace = Host.current().loadedKeyspace(metadata.keyspace);
        return keyspace == null ? null : keyspace.getIfExists(metadata.id);
    }

    /** Creates the store of a generation without one, for its first write. */
    TableStore createStore(long generation) {
        StoreLocation place = usableDirectory();
        synchronized (this) {
            // Before LIVE can name it.
            if (place.hasGeneration(generation)) throw appeared(place, generation);
            if (generation == 1 && place.live().isEmpty()) place.makeLive(1);
            // Without data there may have been none.
            else place.guard();
            // Before there is anything to miss.
            place.mark(metadata.id);
            if (!place.createGeneration(generation)) throw appeared(place, generation);
            TableStore store = null;
            try {
                store = openStore(place, generation);
                beforeFirstUse.accept(store);
                // Last, since from here on it is missed.
                place.markCreated(generation);
                return store;
            } catch (RuntimeException | FSError e) {
                // Nothing was acknowledged yet; half a store would be in the way of the next
                // attempt.
                deleteCreated(place, generation, store, e);
                throw e;
            }
        }
    }

    private void deleteCreated(
            StoreLocation place, long generation, @Nullable TableStore store, Throwable reason) {
        try {
            if (store != null) store.close();
            engine.get().deleteStore(place.generation(generation));
        } catch (RuntimeException | FSError e) {
            reason.addSuppressed(e);
            try {
                // The engine may know a store of that path that is not this one.
                place.deleteEmptyGeneration(generation);
            } catch (IOException again) {
                reason.addSuppressed(again);
            }
        }
    }

    private static CorruptStoreException appeared(StoreLocation place, long generation) {
        return new CorruptStoreException(
                place.generation(generation)
                        + " appeared while the table was in use. Move it away, or restart the node"
                        + " if it is the table's data.");
    }

    /** What is done with each store that is made, before anything is written to it. */
    public void beforeFirstUse(Consumer<TableStore> action) {
        beforeFirstUse = action;
    }

    /** {@link StorageEngine#hasIndexes}. */
    boolean hasIndexes() {
        Boolean known = hasIndexes;
        if (known == null) hasIndexes = known = engine.get().hasIndexes();
        return known;
    }

    /** The generation that is alive. Does not wait for a disk under which the lock is held. */
    public Generation current() {
        return current;
    }

    /** Whether DROP has begun. */
    public synchronized boolean isDropped() {
        return dropped;
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
        StoreLocation place = usableDirectory();
        Throwable failure = old.failure();
        if (old.number() == 0 && failure != null)
            throw new UnavailableStoreException(displayName, failure);
        long next = old.number() + 1;
        LiveGeneration.end(old, place);
        ended.add(old);
        current = Generation.empty(this, next);
        return current;
    }

    /** Ends the table, for DROP. What it returns stands for the table until it is gone. */
    public synchronized Generation drop() {
        dropped = true;
        boolean mayDelete = ended.addLast(current);
        if (mayDelete && directory != null) LiveGeneration.endDropped(current, directory);
        if (directory == null) deleteMarkers();
        current =
                Generation.failed(
                        this,
                        current.number() + 1,
                        new IllegalStateException("the table was dropped"));
        return current;
    }

    /** Of a store on a missing disk; a table created with the same ID is not to wait for it. */
    private void deleteMarkers() {
        try {
            StoreMarker.delete(Disk.REAL, tableDirectories);
        } catch (RuntimeException | FSError e) {
            logger.error(
                    "Table {} was dropped, and a file {} in {} could not be deleted. The next start"
                            + " tries again",
                    displayName,
                    StoreMarker.NAME,
                    tableDirectories,
                    e);
        }
    }

    /**
     * Makes sure that a generation is dead on disk although no successor was begun: the table's
     * next memtable is not ours.
     *
     * @return false if a successor was begun
     */
    public synchronized boolean retire(Generation generation) {
        if (generation != current) return false;
        endCurrent();
        return true;
    }

    /** Ends the current generation on disk; no other is begun. */
    synchronized void endCurrent() {
        LiveGeneration.end(current, usableDirectory());
        ended.add(current);
    }

    /** A TRUNCATE has come to the point where it removes data. */
    public void countTruncation() {
        truncations.incrementAndGet();
    }

    /** How many there were since the table was opened. */
    public long truncations() {
        return truncations.get();
    }

    /** Files of a stream went live. */
    void countIngest() {
        ingests.incrementAndGet();
    }

    /** How often files of streams went live since the table was opened. */
    public long ingests() {
        return ingests.get();
    }

    /** The way of the table's data into the engine or out of it. */
    public TableMigration migration() {
        return migration;
    }

    /**
     * Waits until the store removes no deletion any more, where {@link PurgeGate} or a migration
     * forbids that: to be called since, before anything that a deletion may hide comes to lie
     * outside of the store. May block: not under a lock of the table's.
     */
    public void stopPurging() {
        current().ifOpen(TableStore::stopPurging);
    }

    /**
     * Something else than the table's memtables writes to its store as well.
     *
     * @param isOver whether it does so no more, from then on for good. Does not block
     */
    public void writtenUntil(BooleanSupplier isOver) {
        othersAreOver = isOver;
    }

    /**
     * Whether a write may come to the store that no memtable of the table has a part in. The store
     * must not purge what would hide it.
     */
    public boolean isWrittenByOthers() {
        BooleanSupplier present = othersAreOver;
        if (present == null) return false;
        if (!present.getAsBoolean()) return true;
        // It may hold much.
        othersAreOver = null;
        return false;
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
    public synchronized ExportDirectory beginExport() throws IOException {
        ExportDirectory begun =
                dropped || departed ? null : StoreFolders.beginExport(usableDirectory(), this);
        if (begun == null)
            throw new IllegalStateException(displayName + " was dropped or altered meanwhile");
        return begun;
    }

    /** An SSTable was sent; the folder may have waited for that. */
    void exportEnded() {
        ended.deleteFolderIfLast();
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
     * Deletes the folder of all generations, after {@link TableMigration#departed}; with the last
     * reader or {@link ExportDirectory} if there are some. Does not throw: what cannot be deleted
     * is left to the next start.
     */
    public synchronized void deleteDirectory() {
        departed = true;
        ended.deleteFolder();
    }

    /** The table's directory in which the stores are; null if that could not be found out. */
    public @Nullable Path tableDirectory() {
        return directory == null ? null : directory.parent();
    }

    /**
     * Where the stores are.
     *
     * @throws UnavailableStoreException if that could not be found out
     */
    StoreLocation usableDirectory() {
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
                .take(store, generation.number(), migration::mark);
    }

    /** Whether {@link #snapshot} has made a copy for it. Blocks on disk. */
    public boolean hasSnapshot(String tag) {
        return directory != null && new StoreSnapshot(displayName, directory, tag).isTaken();
    }

    /**
     * Has a snapshot of Cassandra's include the copy that {@link #snapshot} made for it, on
     * whichever disk it is. Without a copy this does nothing. Blocks on disk, and does not throw.
     */
    public void completeSnapshot(TableSnapshot taken) {
        if (directory != null)
            new StoreSnapshot(displayName, directory, taken.getTag()).complete(taken);
    }

    /**
     * Tells the table, which is being dropped, to move this generation into that snapshot rather
     * than to delete it.
     */
    public synchronized void keepInsteadOfDeleting(Generation generation, String tag) {
        ended.keep(generation, tag);
        // Before anything else: a table may be created with the same ID while this one is read.
        if (directory != null && !Files.notExists(directory.root()))
            new StoreSnapshot(displayName, directory, tag)
                    .markKept("it is to be moved into the snapshot");
    }

    /** What becomes of those that are dead. */
    EndedGenerations ended() {
        return ended;
    }

    /**
     * Waits for the deletion of all dead generations.
     *
     * @return false if it was not over within the time
     */
    public boolean awaitDisposed(Duration patience) throws InterruptedException {
        return ended.await(patience);
    }

    /** Closes the stores and leaves their data, because the table is opened anew. */
    public void close() {
        List<Generation> all;
        synchronized (this) {
            all = ended.pending();
            all.add(current);
        }
        // Not under the lock: a generation that is just being created takes it inside its own.
        all.forEach(Generation::close);
        ended.closed();
    }

    /** {@link #close} of a table whose data is elsewhere: the folder is nobody's then. */
    public void letGo() {
        close();
        if (directory != null) StoreFolders.release(directory, this);
    }
}
