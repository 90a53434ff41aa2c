// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.StoreSpec;
import dev.petra.engine.rocks.nativelib.Reconciler;
import dev.petra.engine.rocks.wal.SyncMark;
import dev.petra.engine.rocks.wal.SyncState;
import java.io.IOException;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.cassandra.io.FSWriteError;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;

/**
 * The database of one store, from its opening to its close: opened anew after a full disk, since
 * RocksDB refuses all writes from then on, and given other options when the table's have changed.
 */
public final class ReopenableDatabase {
    private final SharedResources resources;
    private final StoreSpec spec;
    private final Reconciler reconciler;
    private final StoreOpening opening;
    private final IndexFamily index;
    private final FollowedOptions options;
    private final IndexVolumeShare share;

    /** Why it refuses writes, and how it is opened anew. */
    public final Healing healing;

    /** What of the log is not synced yet; for {@link StoreSync}. */
    final SyncState unsynced = new SyncState();

    /** The note of what is; for {@link StoreSync}. */
    final SyncMark mark;

    private volatile Opened opened;
    private volatile boolean hasData;

    /** Whether the store is closed for good; false while the database is opened anew. */
    private volatile boolean closed;

    /** The holds that are neither closed nor broken. None is added once the store is closed. */
    private final Set<Hold> holds = ConcurrentHashMap.newKeySet();

    /**
     * Opens the database.
     *
     * @param create whether there must be none yet; otherwise there must be one
     */
    public ReopenableDatabase(
            SharedResources resources,
            StoreSpec spec,
            WriteStallRetry room,
            Reconciler reconciler,
            boolean create) {
        this.resources = resources;
        this.spec = spec;
        this.reconciler = reconciler;
        this.opening = new StoreOpening(resources, spec, room, reconciler);
        this.index = new IndexFamily(opening, spec, room);
        this.healing = new Healing(this, spec, opening, index);
        this.options = new FollowedOptions(this, resources, spec);
        this.share = new IndexVolumeShare(resources.indexes());
        this.mark = new SyncMark(spec.directory());
        this.opened = opening.open(create, false);
        boolean complete = false;
        try {
            this.hasData = StoreOpening.hasData(opened.database());
            // Of a new one there is nothing to say.
            if (!create) mark.opened();
            complete = true;
        } catch (RocksDBException e) {
            throw onRead(e);
        } finally {
            if (!complete) opened.database().close();
        }
    }

    String name() {
        return spec.displayName();
    }

    SharedResources resources() {
        return resources;
    }

    // Use

    /**
     * The database to use now, of which no use is counted: for whoever has counted one, and for
     * tests. Blocks only while it is opened anew, after a full disk.
     *
     * @throws IllegalStateException if the store is closed
     */
    public Database database() {
        Database database = opened.database();
        if (!database.isClosed()) return database;
        if (closed) throw closed();
        return reopened();
    }

    private synchronized Database reopened() {
        boolean well = healing.isWell();
        if (!opened.database().isClosed()) return opened.database();
        if (well) throw closed();
        // An attempt to open it anew failed; reads must not wait for a write to try again.
        healing.heal();
        return opened.database();
    }

    /** The same, with one use counted: {@link Database#release} of this thread's stripe ends it. */
    public Database acquire() {
        while (true) {
            Database database = database();
            if (database.acquire()) return database;
        }
    }

    Catalog catalog() {
        return opened.catalog();
    }

    public boolean isClosed() {
        return closed;
    }

    /** Whether it is closed to be opened anew, which syncs it before. */
    public boolean isFreed() {
        return opened.database().isFreed();
    }

    /** Whether there is no database now: for good, or while it is opened anew. */
    public boolean isShut() {
        return opened.database().isClosed();
    }

    /** {@link Compactions#compactingFiles}. */
    public long compactingFiles() {
        return opened.database().compactions.compactingFiles();
    }

    public void checkOpen() {
        if (closed) throw closed();
    }

    IllegalStateException closed() {
        return new IllegalStateException("The store of " + name() + " is closed.");
    }

    /** Whether it is open, and its disk was not full when something was last written. */
    public boolean isWritable() {
        return !closed && healing.isWell();
    }

    /** Whether anything was ever written to it; never false wrongly. */
    public boolean hasData() {
        return hasData;
    }

    /** Data was written. */
    public void dataWritten() {
        if (!hasData) hasData = true;
    }

    /** Something to do with the database. */
    public interface Work<T> {
        T run(Database database) throws RocksDBException, IOException;
    }

    /** The same without a result. */
    public interface Chore {
        void run(Database database) throws RocksDBException, IOException;
    }

    private <T> T use(Work<T> work, Function<RocksDBException, RuntimeException> failed) {
        return use(acquire(), work, failed);
    }

    /**
     * @param database of which a use was counted, which this ends
     * @param failed makes of RocksDB's errors what is thrown
     */
    <T> T use(
            Database database, Work<T> work, Function<RocksDBException, RuntimeException> failed) {
        int use = Database.stripe();
        try {
            return run(database, work, failed);
        } finally {
            database.release(use);
        }
    }

    private <T> T run(
            Database database, Work<T> work, Function<RocksDBException, RuntimeException> failed) {
        try {
            return work.run(database);
        } catch (RocksDBException e) {
            throw failed.apply(e);
        } catch (Catalog.CatalogWriteFailure e) {
            throw failed.apply(e.error);
        } catch (IOException e) {
            throw new FSWriteError(e, spec.directory());
        }
    }

    /**
     * Syncs the log, which is no use: see {@link Database#beginSync}.
     *
     * @return false if the store is closed
     */
    boolean sync(Chore chore) {
        Database database = present();
        while (!database.beginSync()) {
            if (closed) return false;
            try {
                database = database();
            } catch (IllegalStateException e) {
                if (closed) return false;
                throw e;
            }
        }
        try {
            return run(database, work(chore), healing::failed);
        } finally {
            database.endSync();
        }
    }

    /** Does something that writes with the database, as one use of it. */
    public <T> T write(Work<T> work) {
        return use(work, healing::failed);
    }

    /** The same of what writes and gives nothing. */
    public void maintain(Chore chore) {
        write(work(chore));
    }

    private static Work<Boolean> work(Chore chore) {
        return database -> {
            chore.run(database);
            return true;
        };
    }

    /** The same of what reads only. */
    public <T> T measure(Work<T> work) {
        return use(work, this::onRead);
    }

    /**
     * The same of what may write; it does not wait for the database to be opened anew.
     *
     * @param otherwise what it gives where nothing can be written or the store is closed
     */
    public <T> T ifWritable(T otherwise, Work<T> work) {
        if (!isWritable()) return otherwise;
        Database database = opened.database();
        return database.acquire() ? use(database, work, healing::failed) : otherwise;
    }

    /** What a failed read throws. */
    public RuntimeException onRead(RocksDBException e) {
        return RocksErrors.onRead(e, name(), spec.directory());
    }

    // Indexes

    /**
     * The indexes that were undefined because of damage. Who defines one removes it first.
     * Thread-safe.
     */
    public Set<UUID> lostIndexes() {
        return index.lost();
    }

    /** Whether {@link Healing#renewDamagedIndex} has something to do. */
    public boolean areIndexesDamaged() {
        return index.isDamaged();
    }

    /**
     * Makes the column family of indexes, unless there is one.
     *
     * @param database of which the caller has counted a use
     */
    public void addIndex(Database database) throws RocksDBException {
        index.add(database, opened.files());
    }

    /**
     * Makes it anew, and removes the one that is there: a file that no compaction could read too.
     *
     * @param database of which the caller has counted a use; nobody else uses it
     */
    public void renewIndex(Database database) throws RocksDBException {
        index.renew(database, opened.files());
    }

    // Reading for long

    /**
     * Keeps the store readable until that is closed, also if the store is dropped.
     *
     * @throws IllegalStateException if the store is closed
     */
    public synchronized Hold hold() {
        checkOpen();
        Hold hold = new Hold(this);
        holds.add(hold);
        return hold;
    }

    /** {@link Hold#close}. */
    void release(Hold hold) {
        holds.remove(hold);
    }

    /** {@link Hold#lease}. */
    Lease lease(Hold hold, ReadOptions options) {
        // Closing has the lock for as long as it waits for reads.
        checkHeld(hold);
        synchronized (this) {
            checkHeld(hold);
            // A store that is dropped is there for those who hold it.
            Database database = closed ? opened.database() : database();
            Lease lease;
            try {
                lease = database.lease(options);
            } catch (RocksDBException e) {
                throw onRead(e);
            }
            // Dropped while its disk was full and it could not be opened anew.
            if (lease == null) throw closed();
            return lease;
        }
    }

    /** {@link Hold#check}. */
    void checkHeld(Hold hold) {
        if (holds.contains(hold)) return;
        checkOpen();
        throw new IllegalStateException("The store of " + name() + " is not held any more.");
    }

    // Options

    /** Whether files are merged by time windows, as they are where RocksDB has one level. */
    public boolean hasWindows() {
        Opened present = opened;
        return present.universal() && present.files().compaction().window() != null;
    }

    /** Whether RocksDB merges whole sorted runs only, or nothing by itself. */
    public boolean isCompactedBySize() {
        return opened.universal();
    }

    /** Whether files are merged without being asked. */
    public boolean isCompacting() {
        return opened.files().automatic();
    }

    public CompactionSettings compaction() {
        return opened.files().compaction();
    }

    /**
     * How files outside of the database are written and read. The store does not end before the
     * caller has closed it.
     *
     * @throws IllegalStateException if the store is closed
     */
    public TableOptions.ForSst sstOptions() {
        return opening.sstOptions(acquire(), opened.files());
    }

    /**
     * Files that are written from now on are as the table's options ask, which may have changed.
     */
    public void followTable() {
        share.count(this);
        options.follow();
        options.followBacklog();
    }

    /** The one that is open, or was last. Its options are those of the table when it was opened. */
    Database present() {
        return opened.database();
    }

    /** The same with what belongs to it. */
    Opened opened() {
        return opened;
    }

    /** It was opened anew by the caller, who has the lock of this. */
    void replace(Opened fresh) {
        opened = fresh;
    }

    /** Does something with the database, and returns whether it could: not unless it is open. */
    synchronized boolean ifOpen(Consumer<Opened> what) {
        Opened present = opened;
        if (!isWritable() || !present.database().acquire()) return false;
        try {
            what.accept(present);
        } finally {
            present.database().release(Database.stripe());
        }
        return true;
    }

    /** {@link FollowedOptions}; false if it is to be tried again. */
    boolean writeFiles(FileOptions wanted) {
        return options.isTold(opened, wanted)
                || ifOpen(
                        present -> {
                            if (options.tell(present, wanted)) opened = present.writing(wanted);
                        });
    }

    // The end

    /** Closes it for good, unless it is closed, and breaks holds; the log was synced before. */
    public synchronized void close(long patienceNanos) {
        if (closed) return;
        // First: whoever finds its hold broken is told why.
        closed = true;
        holds.clear();
        closeToDrop(patienceNanos);
    }

    /**
     * Closes it for good before its files are deleted. May be called again after it has failed.
     *
     * @throws IllegalStateException if it is held, without waiting, or read for longer than that;
     *     it is closed to all others then
     */
    public synchronized void closeToDrop(long patienceNanos) {
        closed = true;
        // Closing waits for writers, and these for a sync.
        unsynced.close();
        int held = holds.size();
        if (held > 0) {
            opened.database().refuse();
            throw new IllegalStateException(
                    "The store of " + name() + " cannot be closed: " + held + " hold it.");
        }
        free(patienceNanos);
    }

    private void free(long patienceNanos) {
        opened.database().compactions.end();
        try {
            opened.database().close(patienceNanos);
        } finally {
            mark.close();
        }
        share.end();
        reconciler.close();
    }
}
