// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.FragmentReader;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.cassandra.db.DecoratedKey;
import org.jspecify.annotations.Nullable;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/** Removes large cells that no row refers to any more. One run at a time. */
final class LargeCellSweep {
    private static final long LEAST_GARBAGE = 8 << 20;

    /**
     * Overwriting may begin again after a time in which there was only new data: so it is looked
     * again when there is twice as much. With a quarter or less that would never be.
     */
    private static final double LEAST_SHARE = 0.5;

    private final StoreContext store;

    /** Bytes of large cells when they were swept last; 0: not yet in this process. */
    private volatile long swept;

    /** How many deletions and expired values had been purged by then. */
    private volatile long purgedBefore;

    /** The part that no row referred to, of what was written between the last two sweeps. */
    private volatile double garbageShare = 1;

    /** How many streams had left large cells without rows by then. */
    private volatile long abandoned;

    LargeCellSweep(StoreContext store) {
        this.store = store;
    }

    /**
     * Whether of the large cells about a quarter is garbage. Either, and more than a little, by
     * what has come since the last sweep, of which as much may be garbage as of what had come
     * before, and all of it after a stream that failed; or by what was purged since, if each
     * deletion had a large cell. So what is looked through stays in proportion to what goes.
     */
    boolean isDue(Database database) throws RocksDBException {
        if (!isPossible()) return false;
        long purged = store.reconciler().purged() - purgedBefore;
        if (purged > 0
                && purged * 4
                        >= database.db.getLongProperty(database.large, "rocksdb.estimate-num-keys"))
            return true;
        long bytes = largeBytes(database);
        double share = store.abandonedStreams() == abandoned ? garbageShare : 1;
        return (bytes - swept) * share >= Math.max(LEAST_GARBAGE, bytes / 4);
    }

    /** Those that came by a stream are in files with their keys. */
    private static long largeBytes(Database database) throws RocksDBException {
        return database.db.getLongProperty(database.large, "rocksdb.live-blob-file-size")
                + database.db.getLongProperty(database.large, "rocksdb.live-sst-files-size");
    }

    /**
     * Whether there are large cells at all, and any may go: none would while a stream goes live.
     */
    boolean isPossible() {
        return !store.isArriving() && store.catalog().has(Catalog.Flag.LARGE_CELLS);
    }

    /**
     * Removes what no row refers to.
     *
     * @param pace how fast, and until when
     */
    void run(Database database, Pacer pace) throws RocksDBException {
        long purged = store.reconciler().purged();
        long bytes = largeBytes(database);
        long streams = store.abandonedStreams();
        long cells = 0;
        long garbage = 0;
        try (ReadOptions keysOnly = Database.newReadOptions().setFillCache(false);
                ReadOptions aside = Database.newReadOptions().setFillCache(false)) {
            Reconciler.allowUnpreparedValue(keysOnly);
            try (RocksIterator it = database.db.newIterator(database.large, keysOnly)) {
                for (it.seekToFirst(); it.isValid(); it.next()) {
                    pace.step();
                    cells++;
                    if (sweep(database, aside, it.key())) garbage++;
                }
                it.status();
            }
        }
        // This came during the sweep, which has not looked at it.
        long arrived = Math.max(0, largeBytes(database) - bytes);
        pace.check();
        if (garbage > 0) dropGarbage(database);
        // A stream is going live: nothing was removed since, so how much is garbage is not known.
        if (store.isArriving()) return;
        purgedBefore = purged;
        abandoned = streams;
        double part = (double) garbage / Math.max(1, cells);
        garbageShare =
                Math.max(LEAST_SHARE, Math.min(1, part * bytes / Math.max(1, bytes - swept)));
        // What is still in files with live cells goes with these, and has not come since.
        swept = Math.max(0, largeBytes(database) - arrived);
    }

    /**
     * Compaction would rewrite the oldest half of all values too, however few went. Without that,
     * files go in which nothing lives; RocksDB collects others by itself, once a quarter is
     * garbage. Those that came by a stream are in files with their keys, and are moved to blob
     * files. The sweep has read all blocks of these files: a damaged one does not come to here.
     */
    private static void dropGarbage(Database database) throws RocksDBException {
        // Who rewrites all of them just now drops most of it.
        database.tryCompactLarge(0, BottommostLevelCompaction.kForceOptimized);
    }

    /** Removes a large cell that no row refers to; returns whether it did. */
    private boolean sweep(Database database, ReadOptions aside, byte[] largeKey)
            throws RocksDBException {
        ByteBuffer in = ByteBuffer.wrap(largeKey);
        DecoratedKey partition;
        try {
            partition = store.partitionKeys().get(in);
            in.position(store.rowBytes(in.rewind()));
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw store.malformed(e, ByteBuffer.wrap(largeKey));
        }
        byte[] rowKey = Arrays.copyOf(largeKey, in.position());
        // As most are, and then no writer waits.
        if (isReferred(database, aside, rowKey, in.duplicate())) return false;
        // A write of the same cell is done before the look or after the removal; so is an ingest,
        // which runs alone.
        boolean[] removed = new boolean[1];
        synchronized (store.largeWrites(partition)) {
            store.room()
                    .write(
                            () -> {
                                // The row may be in files of a stream that are not live yet.
                                if (store.isArriving()
                                        || isReferred(database, aside, rowKey, in.duplicate()))
                                    return;
                                database.db.delete(database.large, database.writeOptions, largeKey);
                                removed[0] = true;
                            });
        }
        return removed[0];
    }

    /**
     * @param suffix the large cell's key behind its row's key
     */
    private boolean isReferred(
            Database database, ReadOptions aside, byte[] rowKey, ByteBuffer suffix)
            throws RocksDBException {
        byte[] value = database.db.get(database.data, aside, rowKey);
        if (value == null) return false;
        References references = new References(suffix);
        try {
            FragmentReader.visit(ByteBuffer.wrap(value), references);
        } catch (MalformedFragment e) {
            throw store.malformed(e, ByteBuffer.wrap(rowKey));
        }
        return references.found;
    }

    private static final class References implements FragmentReader.Visitor {
        private final int column;
        private final long timestamp;
        private final long hash;
        private final byte[] path;
        boolean found;

        References(ByteBuffer suffix) {
            column = suffix.getInt();
            timestamp = suffix.getLong() ^ Long.MIN_VALUE;
            hash = suffix.getLong();
            path = new byte[suffix.remaining()];
            suffix.get(path);
        }

        @Override
        public void timestamp(long micros) {}

        @Override
        public void deletion(long micros) {}

        @Override
        public void large(int column, byte @Nullable [] path, long timestamp, long hash) {
            found |=
                    column == this.column
                            && timestamp == this.timestamp
                            && hash == this.hash
                            && Arrays.equals(path == null ? new byte[0] : path, this.path);
        }
    }
}
