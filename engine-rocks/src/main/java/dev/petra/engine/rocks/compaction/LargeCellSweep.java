// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.RocksErrors;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.FragmentReader;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.function.LongSupplier;
import org.apache.cassandra.db.DecoratedKey;
import org.jspecify.annotations.Nullable;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Removes large cells that no row refers to any more. One run at a time. */
final class LargeCellSweep {
    private static final Logger logger = LoggerFactory.getLogger(LargeCellSweep.class);

    private static final long LEAST_GARBAGE = 8 << 20;

    /**
     * Overwriting may begin again after a time in which there was only new data: so it is looked
     * again when there is twice as much. With a quarter or less that would never be.
     */
    private static final double LEAST_SHARE = 0.5;

    /** Writers of the partition wait for the removal of so many. */
    private static final int REMOVED_AT_ONCE = 256;

    private static final long LEAST_REST_NANOS = TimeUnit.SECONDS.toNanos(10);

    /** The same after one that left those of a partition that is written all the time. */
    private static final long LEAST_BUSY_REST_NANOS = TimeUnit.MINUTES.toNanos(10);

    /** How much longer than it has worked it rests then: that may be so for ever. */
    private static final int BUSY_REST = 9;

    private static final long RENEW_NANOS = TimeUnit.MINUTES.toNanos(1);

    private static final ByteBuffer NO_PATH = ByteBuffer.allocate(0);

    private final StoreContext store;
    private final LongSupplier clock;

    /** Bytes of large cells when they were swept last; 0: not yet in this process. */
    private volatile long swept;

    /** How many deletions and expired values had been purged by then. */
    private volatile long purgedBefore;

    /** The part that no row referred to, of what was written between the last two sweeps. */
    private volatile double garbageShare = 1;

    /** When one may begin again that left cells: {@link Rows#skipped}. */
    private volatile long notBefore;

    /** How many streams had left large cells without rows by then. */
    private volatile long abandoned;

    LargeCellSweep(StoreContext store) {
        this(store, System::nanoTime);
    }

    /**
     * @param clock nanoseconds
     */
    LargeCellSweep(StoreContext store, LongSupplier clock) {
        this.store = store;
        this.clock = clock;
        this.notBefore = clock.getAsLong();
    }

    /**
     * Whether of the large cells about a quarter is garbage. Either, and more than a little, by
     * what has come since the last sweep, of which as much may be garbage as of what had come
     * before, and all of it after a stream that failed; or by what was purged since, if each
     * deletion had a large cell. So what is looked through stays in proportion to what goes.
     */
    boolean isDue(Database database) throws RocksDBException {
        if (clock.getAsLong() - notBefore < 0 || !isPossible()) return false;
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
        long began = clock.getAsLong();
        long purged = store.reconciler().purged();
        long bytes = largeBytes(database);
        long streams = store.abandonedStreams();
        Rows rows;
        try (ReadOptions keysOnly = Database.newReadOptions().setFillCache(false);
                ReadOptions aside = Database.newReadOptions().setFillCache(false)) {
            Reconciler.allowUnpreparedValue(keysOnly);
            rows = new Rows(database, aside);
            byte[] from = new byte[0];
            while (from != null) from = look(database, keysOnly, from, rows, pace);
            rows.remove();
        }
        long garbage = rows.removed;
        // This came during the sweep, which has not looked at it.
        long written = Math.max(0, largeBytes(database) - bytes);
        pace.check();
        if (garbage > 0) dropGarbage(database);
        // What was not removed then may be garbage, so how much is is not known. It is looked
        // again, but not all the time.
        if (rows.skipped) {
            long now = clock.getAsLong();
            notBefore =
                    now
                            + (rows.busy.isEmpty()
                                    ? Math.max(LEAST_REST_NANOS, now - began)
                                    : Math.max(LEAST_BUSY_REST_NANOS, BUSY_REST * (now - began)));
            return;
        }
        purgedBefore = purged;
        abandoned = streams;
        double part = (double) garbage / Math.max(1, rows.cells);
        garbageShare =
                Math.max(LEAST_SHARE, Math.min(1, part * bytes / Math.max(1, bytes - swept)));
        // What is still in files with live cells goes with these, and has not come since.
        swept = Math.max(0, largeBytes(database) - written);
    }

    /**
     * Looks at keys for a while: what an open iterator sees stays on the disk and in memory.
     *
     * @return where to go on; null at the end
     */
    private byte @Nullable [] look(
            Database database, ReadOptions keysOnly, byte[] from, Rows rows, Pacer pace)
            throws RocksDBException {
        long opened = clock.getAsLong();
        try (RocksIterator it = database.db.newIterator(database.large, keysOnly)) {
            it.seek(from);
            while (it.isValid()) {
                pace.step();
                rows.add(it.key());
                it.next();
                if (it.isValid() && clock.getAsLong() - opened > RENEW_NANOS) return it.key();
            }
            it.status();
            return null;
        }
    }

    /**
     * Compaction would rewrite the oldest half of all values too, however few went. Without that,
     * files go in which nothing lives; RocksDB collects others by itself, once a quarter is
     * garbage. Those that came by a stream are in files with their keys, and are moved to blob
     * files. The sweep has read all blocks of these files: a damaged one does not come to here.
     */
    private static void dropGarbage(Database database) throws RocksDBException {
        // Who rewrites all of them just now drops most of it.
        database.compactions.tryCompactLarge(0, BottommostLevelCompaction.kForceOptimized);
    }

    /** Where a large cell's key has which parts. */
    private static final class Place {
        final DecoratedKey partition;
        final byte[] row;
        final LargeCell cell;

        Place(DecoratedKey partition, byte[] row, LargeCell cell) {
            this.partition = partition;
            this.row = row;
            this.cell = cell;
        }
    }

    /** What a row refers to a large cell by; the cell's key has the same. */
    private record LargeCell(int column, long timestamp, long hash, ByteBuffer path) {}

    private Place place(byte[] largeKey) {
        ByteBuffer in = ByteBuffer.wrap(largeKey);
        try {
            DecoratedKey partition = store.partitionKeys().get(in);
            in.position(store.rowBytes(in.rewind()));
            byte[] row = Arrays.copyOf(largeKey, in.position());
            return new Place(
                    partition,
                    row,
                    new LargeCell(
                            in.getInt(), in.getLong() ^ Long.MIN_VALUE, in.getLong(), in.slice()));
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw store.malformed(e, ByteBuffer.wrap(largeKey));
        }
    }

    /**
     * Takes large cells in the order of their keys, which is that of their rows, and reads a row
     * once for all of its cells, and once more for those it did not refer to. What cannot be read
     * stays.
     */
    private final class Rows {
        private final Database database;
        private final ReadOptions aside;

        private @Nullable Place first;

        /** Of the row of {@link #first}; null if it cannot be read. */
        private @Nullable Set<LargeCell> references;

        /** Keys of cells that the row did not refer to. */
        private final Map<LargeCell, byte[]> unreferred = new HashMap<>();

        private long cells;
        private long removed;

        /** Whether any stays because a stream went live, or its partition was always written. */
        private boolean skipped;

        /** Those of partitions that are written all the time. */
        private final Set<Lock> busy = new HashSet<>();

        private boolean damageLogged;

        Rows(Database database, ReadOptions aside) {
            this.database = database;
            this.aside = aside;
        }

        void add(byte[] largeKey) throws RocksDBException {
            cells++;
            Place place;
            try {
                place = place(largeKey);
            } catch (CorruptStoreException e) {
                damaged(e);
                return;
            }
            if (first == null || !Arrays.equals(first.row, place.row)) {
                remove();
                first = place;
                references = readable(place.row);
            }
            // As most are, and then no writer waits.
            if (references == null || references.contains(place.cell)) return;
            unreferred.put(place.cell, largeKey);
            if (unreferred.size() == REMOVED_AT_ONCE) remove();
        }

        private @Nullable Set<LargeCell> readable(byte[] row) throws RocksDBException {
            try {
                return references(row);
            } catch (CorruptStoreException e) {
                damaged(e);
                return null;
            } catch (RocksDBException e) {
                if (!RocksErrors.isDamage(e)) throw e;
                damaged(e);
                return null;
            }
        }

        private void damaged(Exception e) {
            if (damageLogged) return;
            damageLogged = true;
            logger.error(
                    "A row of {} cannot be read, or the key of a large cell: such large cells are"
                            + " kept, though no row may refer to them",
                    store.name(),
                    e);
        }

        /** Removes those that were met since, unless the row refers to them by now. */
        void remove() throws RocksDBException {
            if (first == null || unreferred.isEmpty()) return;
            byte[] row = first.row;
            // A write of the same cell is done before the look or after the removal; so is an
            // ingest, which runs alone.
            Lock sweeping = store.largeCells().sweeping(first.partition);
            if (!store.room().write(sweeping, busy, () -> removed += removeUnreferred(row)))
                skipped = true;
            unreferred.clear();
        }

        private int removeUnreferred(byte[] row) throws RocksDBException {
            // The row may be in files of a stream that are not live yet.
            if (store.isArriving()) {
                skipped = true;
                return 0;
            }
            Set<LargeCell> now = readable(row);
            if (now == null) return 0;
            int count = 0;
            try (WriteBatch batch = new WriteBatch()) {
                for (Map.Entry<LargeCell, byte[]> cell : unreferred.entrySet()) {
                    if (now.contains(cell.getKey())) continue;
                    batch.delete(database.large, cell.getValue());
                    count++;
                }
                if (count > 0) database.db.write(database.writeOptions, batch);
            }
            return count;
        }

        private Set<LargeCell> references(byte[] row) throws RocksDBException {
            byte[] value = database.db.get(database.data, aside, row);
            if (value == null) return Set.of();
            References found = new References();
            try {
                FragmentReader.visit(ByteBuffer.wrap(value), found);
            } catch (MalformedFragment e) {
                throw store.malformed(e, ByteBuffer.wrap(row));
            }
            return found.cells;
        }
    }

    private static final class References implements FragmentReader.Visitor {
        final Set<LargeCell> cells = new HashSet<>();

        @Override
        public void timestamp(long micros) {}

        @Override
        public void deletion(long micros) {}

        @Override
        public void large(int column, byte @Nullable [] path, long timestamp, long hash) {
            ByteBuffer element = path == null ? NO_PATH : ByteBuffer.wrap(path);
            cells.add(new LargeCell(column, timestamp, hash, element));
        }
    }
}
