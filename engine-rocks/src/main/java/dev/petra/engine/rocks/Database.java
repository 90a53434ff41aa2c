// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.locks.LockSupport;
import org.rocksdb.ColumnFamilyHandle;
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
final class Database implements AutoCloseable {
    private static final Logger logger = LoggerFactory.getLogger(Database.class);

    /** Instead of a use: there is none to be had any more. */
    static final int CLOSED = -1;

    private static final int STRIPES = 16;
    private static final int STRIDE = 16; // ints: one cache line
    private static final long LOG_EVERY_NANOS = TimeUnit.SECONDS.toNanos(10);

    private final String name;
    private final AtomicIntegerArray users = new AtomicIntegerArray(STRIPES * STRIDE);
    private volatile boolean closed;
    private boolean released;

    final RocksDB db;
    final ColumnFamilyHandle data;
    final ColumnFamilyHandle catalog;
    final ReadOptions readOptions;

    /** Not waiting for room: the caller decides how long to wait. Not synced, synced. */
    final WriteOptions writeOptions;

    final WriteOptions syncedWriteOptions;

    private final List<AutoCloseable> owned;

    /**
     * @param owned options and the like that live as long as the database, in the order of closing
     */
    Database(
            String name,
            RocksDB db,
            ColumnFamilyHandle data,
            ColumnFamilyHandle catalog,
            List<AutoCloseable> owned) {
        this.name = name;
        this.db = db;
        this.data = data;
        this.catalog = catalog;
        this.owned = owned;
        this.readOptions = new ReadOptions().setVerifyChecksums(true).setTotalOrderSeek(true);
        this.writeOptions = new WriteOptions().setNoSlowdown(true);
        this.syncedWriteOptions = new WriteOptions().setNoSlowdown(true).setSync(true);
    }

    /**
     * Counts one use.
     *
     * @return what to give to {@link #release}, or {@link #CLOSED}
     */
    int acquire() {
        int stripe = ((int) Thread.currentThread().getId() & (STRIPES - 1)) * STRIDE;
        users.incrementAndGet(stripe);
        if (!closed) return stripe;
        users.decrementAndGet(stripe);
        return CLOSED;
    }

    /** Ends one use; from any thread. */
    void release(int stripe) {
        users.decrementAndGet(stripe);
    }

    boolean isClosed() {
        return closed;
    }

    RocksIterator newIterator() {
        return db.newIterator(data, readOptions);
    }

    /** Refuses new uses, waits for those there are, and frees everything. Idempotent. */
    @Override
    public synchronized void close() {
        closed = true;
        if (released) return;
        awaitUsers(Long.MAX_VALUE);
        free();
    }

    /**
     * Closes if the uses there are end within a time; new ones are refused meanwhile.
     *
     * @return false if they did not; the database is open as before then
     */
    synchronized boolean closeIfIdle(long nanos) {
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
        try {
            // What was written since the last sync, now that nobody writes any more.
            db.syncWal();
        } catch (RocksDBException e) {
            logger.error("The log of {} could not be synced when it was closed", name, e);
        }
        readOptions.close();
        writeOptions.close();
        syncedWriteOptions.close();
        data.close();
        catalog.close();
        db.close();
        for (AutoCloseable handle : owned) {
            try {
                handle.close();
            } catch (Exception e) {
                throw new IllegalStateException("closing " + handle + " of " + name, e);
            }
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
