// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.rocks.nativelib.MutableOptions;
import dev.petra.engine.rocks.wal.LogDirectory;
import dev.petra.engine.rocks.wal.SyncMark;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.FlushOptions;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.Range;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.SizeApproximationFlag;
import org.rocksdb.Slice;
import org.rocksdb.WriteOptions;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The owner of one RocksDB's native handles. Closing a database under a live iterator ends the
 * process, so every use is counted: {@link #acquire} before, {@link #release} after, and {@link
 * #close} waits for the count to reach zero.
 *
 * <p>A {@link Lease} is not counted: closing does not wait for it but closes its iterators.
 */
public final class Database implements AutoCloseable {
    private static final Logger logger = LoggerFactory.getLogger(Database.class);

    private static final long LOG_EVERY_NANOS = TimeUnit.SECONDS.toNanos(10);
    public static final long CLOSE_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(30);

    /**
     * Of {@code DBImpl::WriteOptionsFile}, after the options are set. A text, since RocksDB's C
     * API, which {@link MutableOptions} calls, gives errors without their codes.
     */
    private static final String NOT_PERSISTED = "Unable to persist options";

    private final String name;
    private final UseCount uses = new UseCount();

    /** How many sync the log now; {@link #NO_SYNCS} from when all is freed. */
    private final AtomicInteger syncs = new AtomicInteger();

    private static final int NO_SYNCS = -1;

    /** Whether all is freed; written with the lock of this. */
    private volatile boolean released;

    /** Those that may have iterators. No other lock is taken under theirs. */
    private final Set<Lease> leases = ConcurrentHashMap.newKeySet();

    /** How often rows were about to be ingested; see {@link #newIterators}. */
    private final AtomicLong rowsArrived = new AtomicLong();

    public final RocksDB db;
    public final ColumnFamilyHandle data;
    public final ColumnFamilyHandle catalog;
    public final ColumnFamilyHandle large;

    /** Those that are asked for. */
    public final Compactions compactions;

    /** Its syncs. */
    public final LogSync log;

    /** Null until an index was ever defined. */
    private volatile @Nullable ColumnFamilyHandle index;

    /** How often one was made. */
    private final AtomicInteger indexesMade = new AtomicInteger();

    /** Of drops that failed, which may be half done: freed with the database only. */
    private final List<ColumnFamilyHandle> droppedIndexes = new CopyOnWriteArrayList<>();

    private volatile List<ColumnFamilyHandle> families;

    /** What RocksDB was told; null before the first look. */
    volatile @Nullable LevelZeroLimits limits;

    public final ReadOptions readOptions;

    /** The same for whoever reads everything once: the block cache is left to others. */
    public final ReadOptions asideOptions;

    /** Not waiting for room: the caller decides how long to wait. Not synced. */
    public final WriteOptions writeOptions;

    /** The same, synced; as {@link #writeOptions} without a log. */
    public final WriteOptions syncedWriteOptions;

    /** Added to under its own lock. */
    private final List<AutoCloseable> owned;

    /**
     * @param infoLog RocksDB's own
     * @param names of its logs; this closes it
     * @param isLogged whether what is written goes to the log
     * @param owned options and the like that live as long as the database, in the order of closing
     */
    Database(
            String name,
            StoreLog infoLog,
            LogDirectory names,
            boolean isLogged,
            RocksDB db,
            ColumnFamilyHandle data,
            ColumnFamilyHandle catalog,
            ColumnFamilyHandle large,
            @Nullable ColumnFamilyHandle index,
            List<AutoCloseable> owned) {
        this.name = name;
        this.db = db;
        this.data = data;
        this.catalog = catalog;
        this.large = large;
        this.index = index;
        this.families = families(index);
        this.owned = new ArrayList<>(owned);
        this.owned.add(names);
        this.readOptions = newReadOptions();
        this.asideOptions = newReadOptions().setFillCache(false);
        this.writeOptions = newWriteOptions(isLogged);
        this.syncedWriteOptions = newWriteOptions(isLogged).setSync(isLogged);
        this.compactions = new Compactions(name, this);
        this.log = new LogSync(name, this, infoLog, names, isLogged);
    }

    private static WriteOptions newWriteOptions(boolean isLogged) {
        return new WriteOptions().setNoSlowdown(true).setDisableWAL(!isLogged);
    }

    private List<ColumnFamilyHandle> families(@Nullable ColumnFamilyHandle index) {
        return index == null ? List.of(data, large, catalog) : List.of(data, large, catalog, index);
    }

    /** All, that of rows first. To be asked for behind what they are asked about. */
    public List<ColumnFamilyHandle> families() {
        return families;
    }

    /** The column family of indexes; null if none was ever defined. */
    public @Nullable ColumnFamilyHandle index() {
        return index;
    }

    /**
     * Makes the column family of indexes, while no write runs.
     *
     * @param options which this owns from now on, unless it throws
     */
    void addIndex(TableOptions options) throws RocksDBException {
        ColumnFamilyHandle made = db.createColumnFamily(options.index());
        owned.addAll(0, options.owned());
        indexesMade.incrementAndGet();
        index = made;
        families = families(made);
    }

    /**
     * The same in place of the one that is there, with all that is in it. Nobody else uses this
     * database yet: RocksDB deletes the files of a dropped column family when its handle is freed.
     */
    void renewIndex(TableOptions options) throws RocksDBException {
        ColumnFamilyHandle old = Objects.requireNonNull(index);
        // Before it can be freed: whoever measures the database asks about all of them.
        index = null;
        families = families(null);
        droppedIndexes.add(old);
        db.dropColumnFamily(old);
        droppedIndexes.remove(old);
        old.close();
        addIndex(options);
    }

    /** {@link SyncMark#version}; another column family begins to count at 1. */
    long version() throws RocksDBException {
        return ((long) indexesMade.get() << Integer.SIZE) + SyncMark.version(db, families());
    }

    /**
     * Opens rows and large cells as of one moment.
     *
     * <p>This, one iterator, or one get are the only ways to read. A snapshot of RocksDB's is not:
     * the compaction filter does not heed it, so what is opened with it later lacks deletions that
     * were purged meanwhile, and shows what they had hidden. What is open keeps its files.
     */
    public List<RocksIterator> newIterators(ReadOptions options) throws RocksDBException {
        while (true) {
            long before = rowsArrived.get();
            List<RocksIterator> both = db.newIterators(List.of(data, large), options);
            if (rowsArrived.get() == before) return both;
            both.forEach(RocksIterator::close);
        }
    }

    /**
     * To be called behind the ingest of large cells and before that of rows which refer to them.
     *
     * <p>RocksDB takes a sequence number, and then what each column family has; what is ingested
     * has a sequence number only where it overlaps something. So iterators might see rows without
     * their large cells, if both were ingested between the one and the other. Then this was called
     * in between too, and they are opened again.
     */
    public void rowsArrive() {
        rowsArrived.incrementAndGet();
    }

    public static ReadOptions newReadOptions() {
        return new ReadOptions().setVerifyChecksums(true).setTotalOrderSeek(true);
    }

    /**
     * The same for whoever does not count as a use; until the database is freed, also where it is
     * closed to others.
     *
     * @return null if the database is freed
     */
    synchronized @Nullable Lease lease(ReadOptions options) throws RocksDBException {
        if (released) return null;
        List<RocksIterator> both = newIterators(options);
        Lease lease = new Lease(leases, both.get(0), both.get(1));
        leases.add(lease);
        return lease;
    }

    /** Where the current thread's uses are counted: what to give to {@link #release}. */
    public static int stripe() {
        return StripedCounter.stripe();
    }

    /**
     * Counts one use by the current thread.
     *
     * @return false if the database is closed, and nothing was counted
     */
    boolean acquire() {
        return uses.acquire();
    }

    /**
     * Ends one use; from any thread.
     *
     * @param stripe of the thread that acquired it
     */
    public void release(int stripe) {
        uses.release(stripe);
    }

    /**
     * The same for a sync of the log, which is no use: those whose end closing waits for may wait
     * for it.
     *
     * @return false if all is freed, with the log synced; {@link #endSync} otherwise
     */
    boolean beginSync() {
        return syncs.getAndUpdate(now -> now == NO_SYNCS ? now : now + 1) != NO_SYNCS;
    }

    void endSync() {
        syncs.getAndDecrement();
    }

    boolean isClosed() {
        return uses.isClosed();
    }

    /** Whether its memory and its handles are freed, and not only uses are refused. */
    boolean isFreed() {
        return released;
    }

    /** Whether a use has not ended. */
    boolean isUsed() {
        return uses.count() > 0;
    }

    /** Everything that is in write buffers becomes files; waits for it. */
    public void flush() throws RocksDBException {
        try (FlushOptions options =
                new FlushOptions().setWaitForFlush(true).setAllowWriteStall(true)) {
            db.flush(options, families());
        }
    }

    /** About how many bytes a range of keys has; {@code to} is not in it. Reads no rows. */
    public long approximateBytes(
            ColumnFamilyHandle family, byte[] from, byte[] to, SizeApproximationFlag... of) {
        try (Slice start = new Slice(from);
                Slice end = new Slice(to)) {
            return db.getApproximateSizes(family, List.of(new Range(start, end)), of)[0];
        }
    }

    /** The files of rows, the newest of level 0 first. */
    public List<LiveFileMetaData> dataFiles() {
        return files(RocksDB.DEFAULT_COLUMN_FAMILY);
    }

    /** The files of indexes. */
    List<LiveFileMetaData> indexFiles() {
        return files(TableOptions.INDEX);
    }

    private List<LiveFileMetaData> files(byte[] family) {
        List<LiveFileMetaData> files = new ArrayList<>();
        for (LiveFileMetaData file : db.getLiveFilesMetaData())
            if (Arrays.equals(file.columnFamilyName(), family)) files.add(file);
        return files;
    }

    /** The level of rows below which there is none. */
    public int bottommostLevel() {
        return db.numberLevels(data) - 1;
    }

    /**
     * Changes options of a column family. RocksDB's Java classes know only some of them.
     *
     * @throws IllegalStateException if RocksDB does not take them; none is set then
     */
    public void setOptions(ColumnFamilyHandle family, Map<String, String> options) {
        String error = MutableOptions.set(db, family, options);
        if (error == null) return;
        // They are set then; a store is opened by what its table asks for.
        if (error.contains(NOT_PERSISTED))
            logger.warn("RocksDB could not write down options of {}: {}", name, error);
        else throw new IllegalStateException("Options of " + name + ", " + options + ": " + error);
    }

    /**
     * The most files that a column family has in level 0.
     *
     * @param rows whether those of the rows count
     */
    int levelZeroFiles(boolean rows) throws RocksDBException {
        List<ColumnFamilyHandle> all = families();
        int most = 0;
        for (ColumnFamilyHandle family : rows ? all : all.subList(1, all.size()))
            most =
                    Math.max(
                            most,
                            Integer.parseInt(
                                    db.getProperty(family, "rocksdb.num-files-at-level0")));
        return most;
    }

    /** Refuses new uses from now on, and frees nothing: leases can be opened and read. */
    synchronized void refuse() {
        uses.close();
        if (!released) compactions.end();
    }

    @Override
    public void close() {
        close(CLOSE_PATIENCE_NANOS);
    }

    /**
     * Refuses new uses, revokes leases, waits for the uses there are, and frees everything.
     * Idempotent.
     *
     * @throws IllegalStateException if some did not end, as where an iterator was never closed: the
     *     log is synced then if it can be, but the database stays open as long as the process lives
     */
    synchronized void close(long patienceNanos) {
        uses.close();
        if (released) return;
        // Whoever reads by them learns it at once, however long the others take.
        revokeLeases();
        if (awaitUsers(patienceNanos)) {
            free();
            return;
        }
        boolean synced = log.syncBeforeClosing();
        throw new IllegalStateException(
                "The store of "
                        + name
                        + " cannot be closed: "
                        + (uses.count() + Math.max(0, syncs.get()))
                        + " reads, writes or syncs have not ended for "
                        + TimeUnit.NANOSECONDS.toSeconds(patienceNanos)
                        + " s. "
                        + (synced
                                ? "Its log is synced"
                                : "Its log could not be synced, and its last writes may be lost")
                        + "; its memory and its files are freed when the process ends.");
    }

    /**
     * Closes if the uses there are end within a time; new ones are refused meanwhile. Leases are
     * revoked only then.
     *
     * @param check when there is none left, no sync either; what it throws keeps the database open
     * @return false if they did not; the database is open as before then
     */
    public synchronized boolean closeIfIdle(long nanos, Runnable check) {
        uses.close();
        if (released) return true;
        boolean idle = false;
        try {
            if (!awaitUsers(nanos)) return false;
            check.run();
            idle = true;
        } finally {
            if (!idle) {
                syncs.compareAndSet(NO_SYNCS, 0);
                uses.reopen();
            }
        }
        free();
        return true;
    }

    private void free() {
        released = true;
        revokeLeases();
        var unused = log.syncBeforeClosing();
        readOptions.close();
        asideOptions.close();
        writeOptions.close();
        syncedWriteOptions.close();
        data.close();
        catalog.close();
        large.close();
        ColumnFamilyHandle indexed = index;
        if (indexed != null) indexed.close();
        droppedIndexes.forEach(ColumnFamilyHandle::close);
        db.close();
        for (AutoCloseable handle : owned) {
            try {
                handle.close();
            } catch (Exception e) {
                throw new IllegalStateException("closing " + handle + " of " + name, e);
            }
        }
    }

    private void revokeLeases() {
        for (Lease lease : leases) lease.revoke();
    }

    private boolean awaitUsers(long nanos) {
        long started = System.nanoTime();
        long logAt = started + LOG_EVERY_NANOS;
        while (uses.count() != 0 || !syncs.compareAndSet(0, NO_SYNCS)) {
            Pauses.park(TimeUnit.MILLISECONDS.toNanos(1));
            long now = System.nanoTime();
            if (now - started > nanos) return false;
            if (now - logAt >= 0) {
                logger.warn(
                        "Closing the store of {} waits for {} reads or writes, {} s by now",
                        name,
                        uses.count(),
                        TimeUnit.NANOSECONDS.toSeconds(now - started));
                logAt = now + LOG_EVERY_NANOS;
            }
        }
        return true;
    }
}
