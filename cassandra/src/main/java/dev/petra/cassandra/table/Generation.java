// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import com.google.common.base.Suppliers;
import dev.petra.engine.FileStatistics;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.apache.cassandra.io.FSError;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One generation of a table: at most one store, which comes into being with the first write. A
 * generation that holds data from before is given its store, or the reason why there is none, when
 * the table is opened. Thread-safe.
 */
public final class Generation {
    private static final Logger logger = LoggerFactory.getLogger(Generation.class);

    /** Exporters read several metrics of the files, and Cassandra's sums read each once more. */
    private static final long FILES_SECONDS = 10;

    private final TableGenerations stores;
    private final long number;
    private final CountDownLatch attempted = new CountDownLatch(1);
    private final Estimates estimates = new Estimates(this);
    private volatile FileStatistics lastFiles = FileStatistics.NONE;
    private volatile Supplier<FileStatistics> files = countedFiles();

    private volatile @Nullable TableStore store;
    private volatile @Nullable Throwable failure;
    private volatile boolean disposed;
    private boolean discarded;

    private Generation(
            TableGenerations stores,
            long number,
            @Nullable TableStore store,
            @Nullable Throwable failure) {
        this.stores = stores;
        this.number = number;
        this.store = store;
        this.failure = failure;
    }

    /** One without data yet. */
    static Generation empty(TableGenerations stores, long number) {
        return new Generation(stores, number, null, null);
    }

    /** One with data. */
    static Generation of(TableGenerations stores, long number, TableStore store) {
        return new Generation(stores, number, store, null);
    }

    /** One that cannot be used. */
    static Generation failed(TableGenerations stores, long number, Throwable reason) {
        return new Generation(stores, number, null, reason);
    }

    /** Counts from 1; 0 if the table's state on disk could not even be read. */
    public long number() {
        return number;
    }

    /** Whose generation this is. */
    public TableGenerations stores() {
        return stores;
    }

    /** Whether this is what the table holds now, and not the stand-in for a dropped one. */
    public boolean isLive() {
        return stores.isLive(this);
    }

    /** Why this cannot be used, if it cannot. */
    public @Nullable Throwable failure() {
        return failure;
    }

    /**
     * The store, which is created if nothing was written yet. Blocks on disk then.
     *
     * @throws UnavailableStoreException if it could not be opened when the table was, or has failed
     */
    public TableStore writable() {
        TableStore present = existing();
        return present != null ? present : create();
    }

    /**
     * The store, or null if nothing was written yet.
     *
     * @throws UnavailableStoreException if it could not be opened when the table was, or has failed
     */
    public @Nullable TableStore existing() {
        Throwable reason = failure;
        if (reason != null) throw new UnavailableStoreException(stores.displayName(), reason);
        return store;
    }

    /**
     * The same, and a store that is being created now is waited for: if there is none, whoever
     * creates one later sees what the caller has done before.
     */
    public synchronized @Nullable TableStore existingOrCreated() {
        return existing();
    }

    /** Lets every later use fail: writing on would acknowledge what a restart may not find. */
    void fail(Throwable reason) {
        failure = reason;
    }

    private synchronized TableStore create() {
        TableStore present = store;
        if (present != null) return present;
        if (discarded)
            throw new IllegalStateException(
                    "Table " + stores.displayName() + " was dropped or truncated meanwhile.");
        present = stores.createStore(number);
        store = present;
        return present;
    }

    /** Whether the store is being opened anew, or closed: who asks it something waits, or fails. */
    public boolean isShut() {
        TableStore present = store;
        return present != null && ask(present, TableStore::isShut, false);
    }

    /** Whether there is an open store, if only without rows. */
    public boolean hasStore() {
        return store != null;
    }

    /** Whether there is nothing in it. False if that is not known, or may change by itself. */
    public boolean isEmpty() {
        TableStore present = store;
        if (present == null) return failure == null;
        try {
            // A compaction of SSTables must not purge what would hide what comes.
            return !stores.isWrittenByOthers() && present.isEmpty();
        } catch (IllegalStateException e) {
            // Closed with the node, or dropped: whoever asks must not take that for an empty table.
            return false;
        }
    }

    /** One of the store's metrics, 0 where there is no open store. */
    public long statistic(ToLongFunction<StoreStatistics> metric) {
        return measure(present -> metric.applyAsLong(present.statistics()), 0L);
    }

    /**
     * What the store tells, or {@code absent} where there is none, or none any more, or it {@link
     * #isShut}: who reads metrics neither waits for it nor opens it.
     */
    public <T> T measure(Function<TableStore, T> metric, T absent) {
        TableStore present = store;
        return present == null || isShut() ? absent : ask(present, metric, absent);
    }

    private <T> T ask(TableStore present, Function<TableStore, T> metric, T absent) {
        try {
            return metric.apply(present);
        } catch (RuntimeException | FSError e) {
            // Closed with the node, or dropped, or damaged, or it could not be opened anew after
            // its disk was full; metrics are still read then, and those of other tables.
            logger.debug("{} cannot be measured", this, e);
            return absent;
        }
    }

    /** Ends what a store does in the background; none is needed where it has ended itself. */
    public void ifOpen(Consumer<TableStore> action) {
        TableStore present = store;
        if (present == null) return;
        try {
            action.accept(present);
        } catch (IllegalStateException e) {
            logger.debug("{} was closed or dropped", this, e);
        }
    }

    /**
     * What the store's data files hold, as it was at most ten seconds ago, or since {@link
     * #filesChanged}; while it {@link #isShut}, as it was before. To ask the store costs something
     * for each file.
     */
    public FileStatistics files() {
        return files.get();
    }

    /** Has {@link #files} ask the store again. */
    public void filesChanged() {
        files = countedFiles();
    }

    private Supplier<FileStatistics> countedFiles() {
        return Suppliers.memoizeWithExpiration(this::countFiles, FILES_SECONDS, TimeUnit.SECONDS);
    }

    private FileStatistics countFiles() {
        FileStatistics counted = measure(TableStore::fileStatistics, lastFiles);
        lastFiles = counted;
        return counted;
    }

    /** What is known of the partitions without reading them all. */
    public Estimates estimates() {
        return estimates;
    }

    /**
     * Ends this generation and has its data deleted in the background, or done with what the table
     * was told to. While it is still read that is tried again. Whoever calls this has other tables
     * to see to, as Cassandra's thread that frees the memory of all memtables, and a store may have
     * thousands of files.
     */
    public void discard() {
        TableStore present;
        synchronized (this) {
            if (discarded) return;
            discarded = true;
            present = store;
        }
        boolean isKept = stores.ended().isKept(this);
        Disposals.begin(() -> attempt(present) || isKept);
    }

    private boolean attempt(@Nullable TableStore present) {
        boolean isFirst = attempted.getCount() > 0;
        try {
            if (stores.ended().dispose(this, present)) disposed = true;
            else if (isFirst)
                logger.warn(
                        "{} was truncated, dropped or migrated, but is still being read: its files"
                                + " and its memory are freed when the last read ends, and its"
                                + " files at the latest when the node starts again",
                        this);
            return disposed;
        } finally {
            attempted.countDown();
        }
    }

    /** Closes the store and leaves its data, because the table is opened anew. Idempotent. */
    synchronized void close() {
        boolean isDeleted = discarded;
        discarded = true;
        TableStore present = store;
        if (present != null) present.close();
        if (!isDeleted) StoreFolders.release(this);
    }

    /**
     * Waits for what {@link #discard} has begun.
     *
     * @return false if it was not over within the time, or is left to the last reader
     */
    boolean awaitDisposed(Duration patience) throws InterruptedException {
        return attempted.await(patience.toNanos(), TimeUnit.NANOSECONDS) && disposed;
    }

    @Override
    public String toString() {
        return stores.displayName() + " generation " + number;
    }
}
