// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.rocks.nativelib.ManualCompactions;
import dev.petra.engine.rocks.nativelib.MutableOptions;
import dev.petra.engine.rocks.wal.LogDirectory;
import dev.petra.engine.rocks.wal.LogFiles;
import dev.petra.engine.rocks.wal.SyncMark;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.CompactionOptions;
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

    /** How long those are waited for that were told to end, before they are told again. */
    private static final long STOPPED_MILLIS = 50;

    private static final long LOG_EVERY_NANOS = TimeUnit.SECONDS.toNanos(10);
    public static final long CLOSE_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(30);

    /** How long a writer may take from an error of RocksDB's until it says so. */
    private static final long FULL_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);

    /**
     * Of {@code DBImpl::WriteOptionsFile}, after the options are set. A text, since RocksDB's C
     * API, which {@link MutableOptions} calls, gives errors without their codes.
     */
    private static final String NOT_PERSISTED = "Unable to persist options";

    private final String name;
    private final StoreLog log;
    private final LogDirectory names;

    /** Whether what is written goes to the log; otherwise only a flush makes it durable. */
    private final boolean isLogged;

    private final UseCount uses = new UseCount();

    /** How many sync the log now; {@link #NO_SYNCS} from when all is freed. */
    private final AtomicInteger syncs = new AtomicInteger();

    private static final int NO_SYNCS = -1;

    /** Whether all is freed; written with the lock of this. */
    private volatile boolean released;

    /** Those that may have iterators. No other lock is taken under theirs. */
    private final Set<Lease> leases = ConcurrentHashMap.newKeySet();

    /** Those that were asked for, run now, and were not told to end; guarded by itself. */
    private final Set<CompactRangeOptions> compactions =
            Collections.newSetFromMap(new IdentityHashMap<>());

    /** The same, whether or not they were told to end; guarded by {@link #compactions}. */
    private final Set<CompactRangeOptions> running =
            Collections.newSetFromMap(new IdentityHashMap<>());

    /**
     * All that runs now and may remove deletions, and whether it was told to end since. Guarded by
     * {@link #compactions}, which is notified when something leaves.
     */
    private final Map<Object, Boolean> purges = new HashMap<>();

    private volatile boolean closing;

    /** How many wait in {@link #endStopped}; guarded by {@link #compactions}. */
    private int ending;

    /** How often {@link #stopCompactions} was called; guarded by {@link #compactions}. */
    private volatile int stops;

    /** Whether the log found no room for a write: RocksDB syncs it no more. */
    private volatile boolean logFull;

    /** Held while logs are synced beside RocksDB. */
    private final Object forcing = new Object();

    /** How often rows were about to be ingested; see {@link #newIterators}. */
    private final AtomicLong rowsArrived = new AtomicLong();

    /** Held while the values of large cells are compacted with another share of them rewritten. */
    final ReentrantLock rewritingLarge = new ReentrantLock();

    /** The bytes that {@link #compactFiles} merges now; 0 if it does not. */
    private final AtomicLong compactingFiles = new AtomicLong();

    public final RocksDB db;
    public final ColumnFamilyHandle data;
    public final ColumnFamilyHandle catalog;
    public final ColumnFamilyHandle large;

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

    /** Not waiting for room: the caller decides how long to wait. Not synced, synced. */
    public final WriteOptions writeOptions;

    /** The same as {@link #writeOptions} without a log. */
    public final WriteOptions syncedWriteOptions;

    /** Added to under its own lock. */
    private final List<AutoCloseable> owned;

    /**
     * @param log of RocksDB's
     * @param names of its logs; this closes it
     * @param isLogged whether what is written goes to the log
     * @param owned options and the like that live as long as the database, in the order of closing
     */
    Database(
            String name,
            StoreLog log,
            LogDirectory names,
            boolean isLogged,
            RocksDB db,
            ColumnFamilyHandle data,
            ColumnFamilyHandle catalog,
            ColumnFamilyHandle large,
            @Nullable ColumnFamilyHandle index,
            List<AutoCloseable> owned) {
        this.name = name;
        this.log = log;
        this.names = names;
        this.isLogged = isLogged;
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
        this.writeOptions = newWriteOptions();
        this.syncedWriteOptions = newWriteOptions().setSync(isLogged);
    }

    private WriteOptions newWriteOptions() {
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

    /**
     * Merges a range of keys, as far down as it goes, and removes what may go.
     *
     * @throws CompactionStoppedException if it was stopped, or the store is being closed
     */
    public void compact(
            ColumnFamilyHandle family,
            byte @Nullable [] from,
            byte @Nullable [] to,
            BottommostLevelCompaction bottommost)
            throws RocksDBException {
        // What may not be removed any more stays, and the compaction begins anew.
        boolean complete = false;
        while (!complete) complete = tryCompact(family, from, to, bottommost);
    }

    /** The same; returns false if it ended with others, as {@link #stopPurges} asks. */
    public boolean tryCompact(
            ColumnFamilyHandle family,
            byte @Nullable [] from,
            byte @Nullable [] to,
            BottommostLevelCompaction bottommost)
            throws RocksDBException {
        try (CompactRangeOptions options =
                new CompactRangeOptions()
                        .setBottommostLevelCompaction(bottommost)
                        .setExclusiveManualCompaction(false)
                        .setAllowWriteStall(false)
                        // The compaction looks at it only if it was set before it began.
                        .setCanceled(false)) {
            synchronized (compactions) {
                whileOthersEnd();
                if (closing) throw new CompactionStoppedException("compaction", name, true, null);
                compactions.add(options);
                running.add(options);
                if (family.getID() == data.getID()) purges.put(options, false);
            }
            boolean stopped = false;
            try {
                db.compactRange(family, from, to, options);
                return true;
            } catch (RocksDBException e) {
                synchronized (compactions) {
                    // By whoever stops all, or else by whoever stops purges.
                    stopped = !compactions.contains(options);
                }
                if (stopped) throw new CompactionStoppedException("compaction", name, closing, e);
                if (options.canceled() || RocksErrors.isIncomplete(e)) return false;
                throw e;
            } finally {
                synchronized (compactions) {
                    compactions.remove(options);
                    running.remove(options);
                }
                purgeEnded(options);
            }
        }
    }

    /** Until {@link #endStopped} is done. The caller has the monitor of {@link #compactions}. */
    private void whileOthersEnd() {
        boolean interrupted = false;
        while (ending > 0 && !closing) {
            try {
                compactions.wait();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) Thread.currentThread().interrupt();
    }

    /**
     * Waits until the compactions that were told to end, and are in RocksDB's hands, have ended:
     * not one that still flushes. One that waits for a thread of RocksDB's pool, which other tables
     * may keep for hours, does not look whether it should: it is taken out of the queue, with all
     * others of this database, which begin anew.
     */
    private void endStopped() {
        synchronized (compactions) {
            ending++;
        }
        try {
            ManualCompactions.end(db);
        } finally {
            synchronized (compactions) {
                ending--;
                compactions.notifyAll();
            }
        }
    }

    /** Counts something, until {@link #purgeEnded}, that may remove deletions. */
    public void purgeBegins(Object what) {
        synchronized (compactions) {
            purges.put(what, false);
        }
    }

    /**
     * Nothing that it removed shows from now on that does not show by now.
     *
     * @return whether it was to end since it began
     */
    public boolean purgeEnded(Object what) {
        synchronized (compactions) {
            boolean ending = Boolean.TRUE.equals(purges.remove(what));
            compactions.notifyAll();
            return ending;
        }
    }

    /**
     * Stops what may remove deletions and can be stopped: nothing of what it removed shows then. To
     * be called when the filter knows already that less may go.
     */
    public void stopPurges() {
        synchronized (compactions) {
            purges.replaceAll((what, ending) -> true);
            for (Object what : purges.keySet())
                if (what instanceof CompactRangeOptions options) options.setCanceled(true);
        }
    }

    /** Waits until all has ended that {@link #stopPurges} has met. */
    public void awaitStoppedPurges() {
        boolean interrupted = false;
        while (isAnyStopped(Object.class)) {
            // Again and again: one that is flushing, or between two levels, is not met by it.
            if (isAnyStopped(CompactRangeOptions.class)) endStopped();
            synchronized (compactions) {
                try {
                    if (purges.containsValue(true)) compactions.wait(STOPPED_MILLIS);
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) Thread.currentThread().interrupt();
    }

    /** Whether a purge of that kind runs that was told to end. */
    private boolean isAnyStopped(Class<?> kind) {
        synchronized (compactions) {
            return purges.entrySet().stream()
                    .anyMatch(purge -> purge.getValue() && kind.isInstance(purge.getKey()));
        }
    }

    /**
     * Merges files, on the thread that calls.
     *
     * @param fileBytes of each file that comes of them, about; 0 for one file
     * @param bytes of the files
     * @return the names of what came of them; null if the database is being closed
     */
    public @Nullable List<String> compactFiles(
            List<String> files, int level, long fileBytes, long bytes) throws RocksDBException {
        long counted = Math.max(1, bytes);
        compactingFiles.addAndGet(counted);
        // What the thread may purge, no other thread would know of.
        try (CompactionOptions options = new CompactionOptions().setMaxSubcompactions(1)) {
            if (fileBytes > 0) options.setOutputFileSizeLimit(fileBytes);
            if (closing) return null;
            return db.compactFiles(options, data, files, level, -1, null);
        } finally {
            compactingFiles.addAndGet(-counted);
        }
    }

    /** The bytes that {@link #compactFiles} merges now; 0 if it does not. */
    long compactingFiles() {
        return compactingFiles.get();
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

    /** The most files that a column family has in level 0. */
    int levelZeroFiles() throws RocksDBException {
        int most = 0;
        for (ColumnFamilyHandle family : families())
            most =
                    Math.max(
                            most,
                            Integer.parseInt(
                                    db.getProperty(family, "rocksdb.num-files-at-level0")));
        return most;
    }

    /**
     * Compacts all large cells. One at a time, since what is rewritten is an option of all.
     *
     * @param part of the blob files, the oldest ones, that is rewritten: 0 to 1
     * @throws CompactionStoppedException if it was stopped, also while it waited for another, or
     *     the store is being closed
     */
    public void compactLarge(double part, BottommostLevelCompaction bottommost)
            throws RocksDBException {
        BooleanSupplier stopped = stopped();
        rewritingLarge.lock();
        try {
            if (stopped.getAsBoolean()) throw stoppedException("compaction");
            compactLargeAlone(part, bottommost);
        } finally {
            rewritingLarge.unlock();
        }
    }

    /** The same, unless one is under way, which may take hours. False if it was not done. */
    public boolean tryCompactLarge(double part, BottommostLevelCompaction bottommost)
            throws RocksDBException {
        if (!rewritingLarge.tryLock()) return false;
        try {
            compactLargeAlone(part, bottommost);
            return true;
        } finally {
            rewritingLarge.unlock();
        }
    }

    private void compactLargeAlone(double part, BottommostLevelCompaction bottommost)
            throws RocksDBException {
        try {
            collectBlobs(part);
            compact(large, null, null, bottommost);
        } finally {
            collectBlobs(TableOptions.BLOB_AGE_CUTOFF);
        }
    }

    private void collectBlobs(double part) {
        setOptions(large, Map.of("blob_garbage_collection_age_cutoff", Double.toString(part)));
    }

    /**
     * Ends compactions that were asked for, and waits for that. Those who asked get an exception.
     *
     * @return whether there were any
     */
    public boolean stopCompactions() {
        boolean any = tellCompactionsToStop();
        if (any) endStopped();
        return any;
    }

    /**
     * Ends what keeps the database from being closed though nobody reads it. It can only be read or
     * closed from then on, if files were being merged.
     *
     * @return whether there was anything
     */
    boolean stopUses() {
        boolean any = stopCompactions();
        return endCompactionsOfFiles() || any;
    }

    /** RocksDB can end such a compaction only together with all that it does. */
    private boolean endCompactionsOfFiles() {
        if (compactingFiles() == 0) return false;
        db.cancelAllBackgroundWork(false);
        return true;
    }

    /** Returns whether there were any. */
    private boolean tellCompactionsToStop() {
        synchronized (compactions) {
            boolean any = !running.isEmpty();
            stops++;
            for (CompactRangeOptions options : compactions) options.setCanceled(true);
            compactions.clear();
            purges.replaceAll((what, ending) -> true);
            return any;
        }
    }

    /** The same, and lets none begin: closing must not wait for them. */
    void endCompactions() {
        closing = true;
        stopCompactions();
        var unused = endCompactionsOfFiles();
    }

    /** For what {@link #stopped} ends. */
    public CompactionStoppedException stoppedException(String what) {
        return new CompactionStoppedException(what, name, closing, null);
    }

    /** Whether what begins now should end: closed, or who stops compactions stops it too. */
    public BooleanSupplier stopped() {
        int before = stops;
        return () -> closing || stops != before;
    }

    /** Whether what takes long should end. */
    public boolean isClosing() {
        return closing;
    }

    /** Refuses new uses from now on, and frees nothing: leases can be opened and read. */
    synchronized void refuse() {
        uses.close();
        if (!released) endCompactions();
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
        boolean synced = syncBeforeClosing();
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
        var unused = syncBeforeClosing();
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

    /**
     * Makes durable what was written before: by a flush where there is no log. Fails for good once
     * a sync has failed, in whatever thread of RocksDB's.
     *
     * @return false if the log ends with a write that failed, for which there was no room. What was
     *     acknowledged is durable all the same
     */
    public boolean syncLog() throws RocksDBException {
        if (!isLogged) {
            // Its files, and the manifest that names them, are synced by then.
            flush();
            return true;
        }
        long version = version();
        boolean whole = syncWal();
        if (!whole) {
            forceLogs();
            // It waits for a sync of RocksDB's that is under way: the kernel may have told that one
            // what it did not tell ours.
            var unused = syncWal();
        }
        forceNames(version);
        // RocksDB syncs the directory anew, and in recovering from an error logs too.
        checkSyncs();
        return whole;
    }

    /**
     * The same of a write that has synced itself, as far as RocksDB may not know that it failed.
     */
    void syncNames() throws RocksDBException {
        if (!isLogged) return;
        long version = version();
        forceNames(version);
        checkSyncs();
    }

    /** Another column family begins to count at 1. */
    private long version() throws RocksDBException {
        return ((long) indexesMade.get() << Integer.SIZE) + SyncMark.version(db, families());
    }

    /** False if RocksDB does not sync the log any more, because it found no room for a write. */
    private boolean syncWal() throws RocksDBException {
        try {
            db.syncWal();
            return true;
        } catch (RocksDBException e) {
            if (RocksErrors.isLogFull(e)) logFull = true;
            else if (!RocksErrors.isAfterFailure(e)) log.syncFailed(String.valueOf(e.getMessage()));
            checkSyncs();
            if (!isLogFull()) throw e;
            return false;
        }
    }

    /** Throws if a sync of the log has failed. That is not to be taken for a full disk. */
    void checkSyncs() throws RocksDBException {
        SyncFailure failure = syncFailure();
        if (failure != null) throw failure;
    }

    /** The first sync of the log that has failed; null if none has. */
    @Nullable SyncFailure syncFailure() {
        String failure = log.syncFailure();
        return failure == null
                ? null
                : new SyncFailure(
                        "A sync of the log has failed, and nothing is taken from then on until the"
                            + " node is started anew. Check the disk, and repair the table then: "
                                + failure);
    }

    /** No later sync counts. */
    static final class SyncFailure extends RocksDBException {
        private static final long serialVersionUID = 1;

        SyncFailure(String message) {
            super(message);
        }
    }

    /** What a write failed with that may say something of the log. */
    void logFailed(RocksDBException e) {
        if (RocksErrors.isLogFull(e)) logFull = true;
        String message = String.valueOf(e.getMessage());
        if (RocksErrors.isLogSync(message)) log.syncFailed(message);
    }

    /** Whether its memory and its handles are freed, and not only uses are refused. */
    boolean isFreed() {
        return released;
    }

    private void forceLogs() throws RocksDBException {
        // Who comes next is not told by the kernel what this one is told.
        synchronized (forcing) {
            checkSyncs();
            try {
                LogFiles.force(Path.of(db.getName()));
            } catch (LogFiles.FailedForce e) {
                log.syncFailed(String.valueOf(e.getMessage()));
                checkSyncs();
            } catch (IOException e) {
                // Nothing of a sync has failed, and the next one tries again.
                throw new RocksDBException("The log cannot be opened to be synced: " + e);
            }
        }
    }

    /**
     * A descriptor that is lost may have been told of a failure: whatever it is, it is for good.
     */
    private void forceNames(long version) throws RocksDBException {
        try {
            names.force(version);
        } catch (IOException e) {
            log.syncFailed(e.toString());
            checkSyncs();
        }
    }

    /** The writer that found no room may be about to say so. */
    private boolean isLogFull() {
        long end = System.nanoTime() + FULL_PATIENCE_NANOS;
        // Who uses it no more has said so.
        while (!logFull && uses.count() > 0 && System.nanoTime() - end < 0)
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
        return logFull;
    }

    /** What was written since the last sync; false if that could not be. */
    private boolean syncBeforeClosing() {
        // Nobody relies on more than what was synced: it is not flushed to be closed or dropped.
        if (!isLogged) return true;
        try {
            var unused = syncLog();
            return true;
        } catch (RocksDBException | RuntimeException e) {
            logger.error(
                    "The log of {} could not be synced when it was closed: its last writes may be"
                            + " lost. Check its disk, and repair the table",
                    name,
                    e);
            return false;
        }
    }

    private boolean awaitUsers(long nanos) {
        long started = System.nanoTime();
        long logAt = started + LOG_EVERY_NANOS;
        while (uses.count() != 0 || !syncs.compareAndSet(0, NO_SYNCS)) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
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
