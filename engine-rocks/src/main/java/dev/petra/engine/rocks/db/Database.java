// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.rocks.nativelib.MutableOptions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.CompactionOptions;
import org.rocksdb.FlushOptions;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteOptions;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The owner of one RocksDB's native handles. Closing a database under a live iterator ends the
 * process, so every use is counted: {@link #acquire} before, {@link #release} after, and {@link
 * #close} waits for the count to reach zero.
 *
 * <h2>The count</h2>
 *
 * It is spread over stripes, so that readers on many cores do not share a cache line. A user first
 * counts itself, then looks whether the database is closed; the closer first says closed, then
 * looks at the counts. One of the two sees the other, as in Dekker's algorithm: both accesses are
 * volatile.
 */
public final class Database implements AutoCloseable {
    private static final Logger logger = LoggerFactory.getLogger(Database.class);

    private static final int STRIPES = 16;
    private static final int STRIDE = 16; // ints: one cache line
    private static final long LOG_EVERY_NANOS = TimeUnit.SECONDS.toNanos(10);
    public static final long CLOSE_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(30);

    private final String name;
    private final AtomicIntegerArray users = new AtomicIntegerArray(STRIPES * STRIDE);
    private volatile boolean closed;
    private boolean released;

    /** Those that were asked for and run now; guarded by itself. */
    private final Set<CompactRangeOptions> compactions =
            Collections.newSetFromMap(new IdentityHashMap<>());

    /**
     * Of what runs now all that may remove deletions: whether it was to end since. Guarded by
     * {@link #compactions}, which is notified when something leaves.
     */
    private final Map<Object, Boolean> purges = new HashMap<>();

    private volatile boolean closing;

    /** The bytes that {@link #compactFiles} merges now; 0 if it does not. */
    private volatile long compactingFiles;

    public final RocksDB db;
    public final ColumnFamilyHandle data;
    public final ColumnFamilyHandle catalog;
    public final ColumnFamilyHandle large;
    public final List<ColumnFamilyHandle> families;
    public final ReadOptions readOptions;

    /** Not waiting for room: the caller decides how long to wait. Not synced, synced. */
    public final WriteOptions writeOptions;

    public final WriteOptions syncedWriteOptions;

    private final List<AutoCloseable> owned;

    /**
     * @param owned options and the like that live as long as the database, in the order of closing
     */
    Database(
            String name,
            RocksDB db,
            ColumnFamilyHandle data,
            ColumnFamilyHandle catalog,
            ColumnFamilyHandle large,
            List<AutoCloseable> owned) {
        this.name = name;
        this.db = db;
        this.data = data;
        this.catalog = catalog;
        this.large = large;
        this.families = List.of(data, large, catalog);
        this.owned = owned;
        this.readOptions = newReadOptions();
        this.writeOptions = new WriteOptions().setNoSlowdown(true);
        this.syncedWriteOptions = new WriteOptions().setNoSlowdown(true).setSync(true);
    }

    /**
     * Opens rows and large cells as of one moment.
     *
     * <p>This, one iterator, or one get are the only ways to read. A snapshot of RocksDB's is not:
     * the compaction filter does not heed it, so what is opened with it later lacks deletions that
     * were purged meanwhile, and shows what they had hidden. What is open keeps its files.
     */
    public List<RocksIterator> newIterators(ReadOptions options) throws RocksDBException {
        return db.newIterators(List.of(data, large), options);
    }

    public static ReadOptions newReadOptions() {
        return new ReadOptions().setVerifyChecksums(true).setTotalOrderSeek(true);
    }

    /** Where the current thread's uses are counted: what to give to {@link #release}. */
    public static int stripe() {
        return ((int) Thread.currentThread().getId() & (STRIPES - 1)) * STRIDE;
    }

    /**
     * Counts one use by the current thread.
     *
     * @return false if the database is closed, and nothing was counted
     */
    boolean acquire() {
        int stripe = stripe();
        users.incrementAndGet(stripe);
        if (!closed) return true;
        users.decrementAndGet(stripe);
        return false;
    }

    /**
     * Ends one use; from any thread.
     *
     * @param stripe of the thread that acquired it
     */
    public void release(int stripe) {
        users.decrementAndGet(stripe);
    }

    boolean isClosed() {
        return closed;
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

    /** The same; returns false if {@link #stopPurges} ended it. */
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
                if (closing) throw new CompactionStoppedException(name, true, null);
                compactions.add(options);
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
                if (stopped) throw new CompactionStoppedException(name, closing, e);
                if (options.canceled()) return false;
                throw e;
            } finally {
                synchronized (compactions) {
                    compactions.remove(options);
                }
                purgeEnded(options);
            }
        }
    }

    /** Counts something, until {@link #purgeEnded}, that may remove deletions. */
    public void purgeBegins(Object what) {
        synchronized (compactions) {
            purges.put(what, false);
        }
    }

    /** Nothing that it removed shows from now on that does not show by now. */
    public void purgeEnded(Object what) {
        synchronized (compactions) {
            purges.remove(what);
            compactions.notifyAll();
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
        synchronized (compactions) {
            while (purges.containsValue(true)) {
                try {
                    compactions.wait();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) Thread.currentThread().interrupt();
    }

    /**
     * Merges files into one. On one thread at a time.
     *
     * @param bytes of the files
     * @return the names of what came of them; null if the database is being closed
     */
    public @Nullable List<String> compactFiles(List<String> files, int level, long bytes)
            throws RocksDBException {
        compactingFiles = Math.max(1, bytes);
        try (CompactionOptions options = new CompactionOptions()) {
            if (closing) return null;
            return db.compactFiles(options, data, files, level, -1, null);
        } finally {
            compactingFiles = 0;
        }
    }

    /** The bytes that {@link #compactFiles} merges now; 0 if it does not. */
    long compactingFiles() {
        return compactingFiles;
    }

    /** Everything that is in write buffers becomes files; waits for it. */
    public void flush() throws RocksDBException {
        try (FlushOptions options =
                new FlushOptions().setWaitForFlush(true).setAllowWriteStall(true)) {
            db.flush(options, families);
        }
    }

    /** The files of rows, the newest of level 0 first. */
    public List<LiveFileMetaData> dataFiles() {
        List<LiveFileMetaData> files = new ArrayList<>();
        for (LiveFileMetaData file : db.getLiveFilesMetaData())
            if (Arrays.equals(file.columnFamilyName(), RocksDB.DEFAULT_COLUMN_FAMILY))
                files.add(file);
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
        if (error != null)
            throw new IllegalStateException("Options of " + name + ", " + options + ": " + error);
    }

    /** Ends compactions that were asked for. Those who asked get an exception. */
    public void stopCompactions() {
        synchronized (compactions) {
            for (CompactRangeOptions options : compactions) options.setCanceled(true);
            compactions.clear();
        }
    }

    /** The same, and lets none begin: closing must not wait for them. */
    void endCompactions() {
        synchronized (compactions) {
            closing = true;
            stopCompactions();
        }
        // RocksDB can end such a compaction only together with all that it does.
        if (compactingFiles > 0) db.cancelAllBackgroundWork(false);
    }

    /** Whether what takes long should end. */
    public boolean isClosing() {
        return closing;
    }

    @Override
    public void close() {
        close(CLOSE_PATIENCE_NANOS);
    }

    /**
     * Refuses new uses, waits for those there are, and frees everything. Idempotent.
     *
     * @throws IllegalStateException if some did not end, as where an iterator was never closed: the
     *     log is synced then, but the database stays open as long as the process lives
     */
    synchronized void close(long patienceNanos) {
        closed = true;
        if (released) return;
        if (awaitUsers(patienceNanos)) {
            free();
            return;
        }
        syncLog();
        throw new IllegalStateException(
                "The store of "
                        + name
                        + " cannot be closed: "
                        + count()
                        + " reads or writes have not ended for "
                        + TimeUnit.NANOSECONDS.toSeconds(patienceNanos)
                        + " s. Its log is synced; its memory and its files are freed when the"
                        + " process ends.");
    }

    /**
     * Closes if the uses there are end within a time; new ones are refused meanwhile.
     *
     * @return false if they did not; the database is open as before then
     */
    public synchronized boolean closeIfIdle(long nanos) {
        closed = true;
        if (released) return true;
        if (!awaitUsers(nanos)) {
            closed = false;
            return false;
        }
        free();
        return true;
    }

    private void free() {
        released = true;
        syncLog();
        readOptions.close();
        writeOptions.close();
        syncedWriteOptions.close();
        data.close();
        catalog.close();
        large.close();
        db.close();
        for (AutoCloseable handle : owned) {
            try {
                handle.close();
            } catch (Exception e) {
                throw new IllegalStateException("closing " + handle + " of " + name, e);
            }
        }
    }

    /** What was written since the last sync. */
    private void syncLog() {
        try {
            db.syncWal();
        } catch (RocksDBException e) {
            logger.error("The log of {} could not be synced when it was closed", name, e);
        }
    }

    private boolean awaitUsers(long nanos) {
        long started = System.nanoTime();
        long logAt = started + LOG_EVERY_NANOS;
        while (count() != 0) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
            long now = System.nanoTime();
            if (now - started > nanos) return false;
            if (now - logAt >= 0) {
                logger.warn(
                        "Closing the store of {} waits for {} reads or writes, {} s by now",
                        name,
                        count(),
                        TimeUnit.NANOSECONDS.toSeconds(now - started));
                logAt = now + LOG_EVERY_NANOS;
            }
        }
        return true;
    }

    private int count() {
        int count = 0;
        for (int i = 0; i < STRIPES; i++) count += users.get(i * STRIDE);
        return count;
    }
}
