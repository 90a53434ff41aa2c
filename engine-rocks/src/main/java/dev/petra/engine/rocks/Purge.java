// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.PurgeProgress;
import dev.petra.engine.PurgeProgress.Phase;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.CollectionType;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.FBUtilities;
import org.apache.cassandra.utils.Hex;
import org.jspecify.annotations.Nullable;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes from one store what {@code gc_grace_seconds} has passed over, and never what still hides
 * something older. {@code docs/architecture.md} has the rules with examples.
 *
 * <h2>Phases</h2>
 *
 * <ol>
 *   <li>A new floor begins: the lowest timestamp of anything written from now on. Every write that
 *       began before is waited for.
 *   <li>Covering: a partition's deletion, or a range tombstone, hides other keys. Each that may go
 *       is handed down, as a deletion of the row, to every row that has anything it hides. That
 *       changes nothing that can be seen, and is durable before the next phase.
 *   <li>Settling: everything written before the floor began is merged into one entry a key, at the
 *       bottom. From then on, what may lie above an entry was written after the floor began, so a
 *       tombstone below the floor hides nothing outside of its own entry.
 *   <li>Purging: the entries at the bottom are rewritten through the compaction filter, which
 *       removes tombstones older than gc_grace and below the floor.
 *   <li>Sweeping: large cells that no row refers to any more are removed.
 * </ol>
 *
 * One at a time. What an earlier purge had reached before the process ended is not rewritten again.
 */
final class Purge {
    private static final Logger logger = LoggerFactory.getLogger(Purge.class);
    private static final long SLICE_BYTES = 512L << 20;
    private static final int BOTTOM_LEVEL = 6;
    private static final long LEAST_GARBAGE = 8 << 20;

    /**
     * Overwriting may begin again after a time in which there was only new data: so it is looked
     * again when there is twice as much. With a quarter or less that would never be.
     */
    private static final double LEAST_SHARE = 0.5;

    private static final long REST_NANOS = TimeUnit.MINUTES.toNanos(10);

    private final RocksStore store;
    private final ReentrantLock running = new ReentrantLock();
    private final FragmentWriter fragments;
    private final ByteSink fragment = new ByteSink();

    /** The lowest local time of anything that can be purged one day. */
    private final AtomicLong oldest = new AtomicLong(Long.MAX_VALUE);

    /** Held while it is asked what may go, so that no older answer overwrites a newer one. */
    private final Object asking = new Object();

    /** Before which local time something may go, as last answered; guarded by {@link #asking}. */
    private long permitted;

    /** How often it became less; guarded by {@link #asking}. */
    private long restrictions;

    /** In seconds: when the last purge ended, or there was first something to purge; 0: not yet. */
    private volatile long intervalBegan;

    /** Of {@link System#nanoTime}: when one in the background may begin again. */
    private volatile long restsUntil = System.nanoTime();

    /** Bytes of large cells when they were swept last; 0: not yet in this process. */
    private volatile long swept;

    /** Of what had come by then since the time before, the part that no row referred to. */
    private volatile double garbageShare = 1;

    private volatile byte @Nullable [] resumeAt;
    private volatile Phase phase = Phase.IDLE;
    private volatile double done;

    Purge(RocksStore store) {
        this.store = store;
        this.fragments = new FragmentWriter(fragment, NO_LARGE_CELLS);
        if (store.catalog().has(Catalog.Flag.TOMBSTONES)) recall();
    }

    // State from one process to the next: "<when the interval began> [<where to resume>]"

    private void recall() {
        // What was written since the last purge ended is not known any more.
        oldest.set(0);
        try {
            String state = store.catalog().purge();
            if (state == null) return;
            String[] words = state.split(" ", -1);
            intervalBegan = Long.parseLong(words[0]);
            if (words.length > 1) resumeAt = Hex.hexToBytes(words[1]);
        } catch (RocksDBException e) {
            throw RocksErrors.onRead(e, store.name(), store.directory());
        }
    }

    private void remember() {
        byte[] resume = resumeAt;
        store.catalog()
                .setPurge(intervalBegan + (resume == null ? "" : " " + Hex.bytesToHex(resume)));
    }

    /** Something was written that can be purged one day; local time in seconds. */
    void written(long localTime) {
        if (localTime < oldest.get()) oldest.accumulateAndGet(localTime, Math::min);
    }

    PurgeProgress progress() {
        return new PurgeProgress(phase, done, intervalBegan, store.reconciler().purged());
    }

    // When

    /** Before which local time something may go; 0 if nothing may. */
    private long gcBefore() {
        if (store.isArriving() || !store.spec().mayPurge().getAsBoolean()) return 0;
        return Math.max(0, FBUtilities.nowInSeconds() - store.table().params.gcGraceSeconds);
    }

    /**
     * Tells the compaction filter what time it is and what may go. If that is less than before, as
     * where the host forbids it, gc_grace is longer or the clock was set back, what may be removing
     * more begins anew: nothing that it has removed, and nobody misses yet, goes any more.
     */
    void clock(Database database) {
        synchronized (asking) {
            long gcBefore = gcBefore();
            store.reconciler().clock(FBUtilities.nowInSeconds(), gcBefore);
            if (gcBefore < permitted) {
                restrictions++;
                store.reconciler().lowerCovers(gcBefore);
                database.stopPurges();
            }
            permitted = gcBefore;
        }
    }

    /** The same, and waits until nothing is under way that was begun while more might go. */
    void stop(Database database) {
        clock(database);
        database.awaitStoppedPurges();
    }

    private long restrictions() {
        synchronized (asking) {
            return restrictions;
        }
    }

    /** Lets none begin in the background for a while, after one that failed or was stopped. */
    void rest() {
        restsUntil =
                System.nanoTime()
                        + Math.min(
                                REST_NANOS, TimeUnit.SECONDS.toNanos(store.purgeIntervalSeconds()));
    }

    boolean isDue(Database database) throws RocksDBException {
        if (System.nanoTime() - restsUntil < 0) return false;
        return isPurgeDue() || isSweepDue(database);
    }

    /**
     * Whether of the large cells about a quarter, and more than a little, is garbage: by what has
     * come since the last sweep, of which as much may be garbage as of what had come before. So
     * what is looked through stays in proportion to what goes.
     */
    private boolean isSweepDue(Database database) throws RocksDBException {
        // None would go while parts arrive.
        if (store.isArriving() || !store.catalog().has(Catalog.Flag.LARGE_CELLS)) return false;
        long bytes = largeBytes(database);
        return (bytes - swept) * garbageShare >= Math.max(LEAST_GARBAGE, bytes / 4);
    }

    private static long largeBytes(Database database) throws RocksDBException {
        return database.db.getLongProperty(database.large, "rocksdb.live-blob-file-size");
    }

    private boolean isPurgeDue() {
        if (resumeAt != null) return gcBefore() > 0;
        if (oldest.get() >= gcBefore()) return false;
        if (intervalBegan == 0) {
            // The first interval; remembered, for a node that is restarted every day.
            intervalBegan = FBUtilities.nowInSeconds();
            remember();
        }
        return FBUtilities.nowInSeconds() - intervalBegan >= store.purgeIntervalSeconds();
    }

    // How

    /**
     * Compacts the whole table and purges it.
     *
     * @param background whether to go slowly, and where an earlier one was cut short
     */
    void run(Database database, boolean background) throws RocksDBException {
        running.lock();
        try {
            clock(database);
            if (background && store.hasWindows()) {
                // Files go whole there, and only what they referred to is left.
                resumeAt = null;
                sweep(database, true);
                intervalBegan = FBUtilities.nowInSeconds();
                remember();
                return;
            }
            if (background && !isPurgeDue()) {
                sweep(database, true);
                return;
            }
            if (!store.catalog().has(Catalog.Flag.TOMBSTONES) || gcBefore() == 0) {
                database.compact(
                        database.data, null, null, BottommostLevelCompaction.kForceOptimized);
                sweep(database, background);
                return;
            }
            long started = System.nanoTime();
            long before = store.reconciler().purged();
            purge(database, background);
            logger.info(
                    "Purged {} in {} ms: {} deletions and expired values removed",
                    store.name(),
                    TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - started),
                    store.reconciler().purged() - before);
        } finally {
            phase = Phase.IDLE;
            done = 0;
            running.unlock();
        }
    }

    /**
     * Lets files go of which everything has expired or was deleted, past its grace, where nothing
     * elsewhere is as old as anything in them. What arrives later and is older comes too late, as
     * it does for any purge.
     *
     * @return false if it was not looked at, and files are not known: the store is being closed
     */
    boolean expire(Database database, TimeWindows windows) throws RocksDBException {
        running.lock();
        try {
            clock(database);
            long restrictions = restrictions();
            long gcBefore = gcBefore();
            List<LiveFileMetaData> files = dataFiles(database);
            if (!windows.learn(database, files)) return false;
            if (gcBefore == 0
                    || windows.expired(files, gcBefore, Long.MAX_VALUE, new long[1]).isEmpty())
                return true;
            // What is in no file yet counts too: it is written to one, or lowers the floor.
            int next = 1 - store.reconciler().activeFloor();
            store.reconciler().floor(next, Long.MAX_VALUE);
            if (store.isArriving()) return true;
            store.writers().awaitThoseBegun();
            RocksStore.flush(database);
            files = dataFiles(database);
            if (!windows.learn(database, files)) return false;
            long[] floor = new long[1];
            List<LiveFileMetaData> expired =
                    windows.expired(files, gcBefore, store.reconciler().floor(next), floor);
            long before = store.reconciler().purged();
            int gone = 0;
            for (LiveFileMetaData file : expired)
                if (drop(database, windows, file, gcBefore, floor[0], restrictions)) gone++;
            if (gone > 0)
                logger.info(
                        "Dropped {} files of {} in which everything had expired: {} deletions and"
                                + " expired values",
                        gone,
                        store.name(),
                        store.reconciler().purged() - before);
            return true;
        } finally {
            running.unlock();
        }
    }

    /** Removes range tombstones that others hide, while nothing removes these. */
    void removeSuperseded(Database database) throws RocksDBException {
        // It is asked again every second.
        if (!running.tryLock()) return;
        try {
            store.supersededRanges().run(database);
        } finally {
            running.unlock();
        }
    }

    /** Not if it may not go any more since it was found. */
    private boolean drop(
            Database database,
            TimeWindows windows,
            LiveFileMetaData file,
            long gcBefore,
            long floor,
            long restrictionsBefore)
            throws RocksDBException {
        synchronized (asking) {
            if (restrictions != restrictionsBefore) return false;
            database.purgeBegins(file);
        }
        try {
            return windows.drop(database, file, gcBefore, floor);
        } finally {
            database.purgeEnded(file);
        }
    }

    /** Lets go what covers other keys, unless less may go by now than when that was handed down. */
    private boolean mayCoversGo(long gcBefore, long restrictionsBefore) {
        synchronized (asking) {
            if (restrictions != restrictionsBefore) return false;
            store.reconciler().covers(gcBefore);
            return true;
        }
    }

    private void purge(Database database, boolean background) throws RocksDBException {
        long restrictions = restrictions();
        Reconciler reconciler = store.reconciler();
        int next = 1 - reconciler.activeFloor();
        reconciler.floor(next, Long.MAX_VALUE);
        // Asked behind the floor: parts that begin to arrive later lower it.
        if (store.isArriving()) return;
        store.writers().awaitThoseBegun();
        long oldestBefore = oldest.getAndSet(Long.MAX_VALUE);
        boolean complete = false;
        try {
            long gcBefore = gcBefore();
            if (gcBefore > 0 && store.catalog().has(Catalog.Flag.PARTITION_RECORDS)) {
                phase = Phase.COVERING;
                cover(database, gcBefore, background);
            }

            phase = Phase.SETTLING;
            // Before the flush: what is written during it may stay in the write buffer.
            long flushed = database.db.getLatestSequenceNumber();
            RocksStore.flush(database);
            database.compact(database.data, null, null, BottommostLevelCompaction.kSkip);
            if (!isSettled(database, flushed)) {
                logger.warn("{} was not purged: compaction did not reach the bottom", store.name());
                return;
            }
            // Only now: all that lies below the floor was written to columns known by now.
            if (hasLoosePaths(store.table())) reconciler.loosePaths();
            reconciler.activeFloor(next);

            phase = Phase.PURGING;
            reconciler.resetKept();
            boolean resumed = background && resumeAt != null;
            reconciler.watch(true);
            try {
                if (!mayCoversGo(gcBefore, restrictions)
                        || !rewrite(database, background, restrictions)) {
                    logger.info("{} is purged no further: less may go than before", store.name());
                    return;
                }
            } finally {
                reconciler.watch(false);
                reconciler.covers(0);
            }
            // What a resumed one had rewritten before is not known in this process.
            written(resumed ? 0 : reconciler.kept());
            sweep(database, background);
            intervalBegan = FBUtilities.nowInSeconds();
            remember();
            complete = true;
        } finally {
            if (!complete) written(oldestBefore);
        }
    }

    /** Whether some collection's elements may have names of several byte forms. */
    private static boolean hasLoosePaths(TableMetadata table) {
        for (ColumnMetadata column : table.regularAndStaticColumns())
            if (isLoose(column)) return true;
        // One that is added again has its old cells, where they are newer than the drop.
        for (DroppedColumn dropped : table.droppedColumns.values())
            if (isLoose(dropped.column)) return true;
        return false;
    }

    private static boolean isLoose(ColumnMetadata column) {
        return column.isComplex()
                && column.type instanceof CollectionType<?> collection
                && !KeyComponent.hasOneForm(collection.nameComparator());
    }

    // Covering

    private static final FragmentWriter.Columns NO_COLUMNS =
            column -> {
                throw new IllegalStateException("a deletion has no columns");
            };

    private static final FragmentWriter.LargeSink NO_LARGE_CELLS =
            new FragmentWriter.LargeSink() {
                @Override
                public <V> void put(
                        int column,
                        org.apache.cassandra.db.rows.@Nullable CellPath path,
                        long timestamp,
                        long hash,
                        V value,
                        org.apache.cassandra.db.marshal.ValueAccessor<V> by) {
                    throw new IllegalStateException("a deletion has no cells");
                }

                @Override
                public int threshold() {
                    return Integer.MAX_VALUE;
                }
            };

    private void cover(Database database, long gcBefore, boolean background)
            throws RocksDBException {
        Pace pace = new Pace(background);
        ReadContext context = new ReadContext(store, ColumnFilter.all(store.table()));
        ByteSink position = new ByteSink();
        try (Cursor cursor = new Cursor(store)) {
            context.fixed();
            cursor.seek(ByteBuffer.allocateDirect(0));
            while (cursor.isValid()) {
                pace.step(store);
                int kind = partition(cursor, position);
                if (kind < KeyKind.ROW) {
                    ByteBuffer prefix = position.flipped().slice();
                    position.resume(prefix.remaining());
                    PartitionHeader header =
                            PartitionHeader.read(cursor, prefix, context, Slices.ALL, false);
                    cover(database, cursor, position, header, gcBefore, context, pace);
                }
                position.put(KeyKind.END);
                cursor.seek(position.flipped());
            }
        }
    }

    /** Writes the position of the cursor's partition, and gives the kind of the cursor's key. */
    private int partition(Cursor cursor, ByteSink position) {
        ByteBuffer key = cursor.key();
        try {
            store.partitionKeys().get(key);
            int length = key.position();
            position.clear();
            position.put(key.slice(0, length));
            return key.get(length) & 0xFF;
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | java.nio.BufferUnderflowException e) {
            throw store.malformed(e, cursor.key());
        }
    }

    private void cover(
            Database database,
            Cursor cursor,
            ByteSink position,
            PartitionHeader header,
            long gcBefore,
            ReadContext context,
            Pace pace)
            throws RocksDBException {
        int prefix = position.position();
        DeletionTime deletion = header.deletion();
        if (mayGo(deletion, gcBefore)) {
            byte[] from = withKind(position, prefix, KeyKind.STATIC);
            byte[] to = withKind(position, prefix, KeyKind.RANGE);
            cover(database, cursor, from, to, deletion, pace);
            from = withKind(position, prefix, KeyKind.ROW);
            to = withKind(position, prefix, KeyKind.END);
            cover(database, cursor, from, to, deletion, pace);
        }
        Iterator<RangeTombstone> ranges = header.deletions().rangeIterator(false);
        while (ranges.hasNext()) {
            RangeTombstone range = ranges.next();
            if (!mayGo(range.deletionTime(), gcBefore)) continue;
            Slice slice = range.deletedSlice();
            position.put(KeyKind.ROW);
            context.clusterings().put(position, slice.start());
            byte[] from = position.copy(0, position.position());
            position.truncate(prefix + 1);
            context.clusterings().put(position, slice.end());
            byte[] to = position.copy(0, position.position());
            position.truncate(prefix);
            cover(database, cursor, from, to, range.deletionTime(), pace);
        }
    }

    private static byte[] withKind(ByteSink position, int prefix, int kind) {
        position.put(kind);
        byte[] key = position.copy(0, prefix + 1);
        position.truncate(prefix);
        return key;
    }

    private static boolean mayGo(DeletionTime deletion, long gcBefore) {
        return !deletion.isLive() && deletion.localDeletionTime() < gcBefore;
    }

    /** Hands a deletion down to the rows between two keys that have anything it hides. */
    private void cover(
            Database database,
            Cursor cursor,
            byte[] from,
            byte[] to,
            DeletionTime deletion,
            Pace pace)
            throws RocksDBException {
        ByteBuffer bound = direct(to);
        for (cursor.seek(direct(from));
                cursor.isValid() && Keys.compare(cursor.key(), bound) < 0;
                cursor.next()) {
            pace.step(store);
            if (!isCovered(cursor, deletion.markedForDeleteAt())) continue;
            fragment.clear();
            fragments.row(
                    BTreeRow.emptyDeletedRow(Clustering.EMPTY, Row.Deletion.regular(deletion)),
                    NO_COLUMNS,
                    false);
            ByteBuffer key = cursor.key();
            ByteBuffer value = fragment.flipped();
            // Its old timestamp does not lower the floor: it hides nothing that is not hidden.
            store.room()
                    .write(
                            () ->
                                    database.db.merge(
                                            database.data,
                                            database.writeOptions,
                                            key.position(0),
                                            value.position(0)));
        }
    }

    private boolean isCovered(Cursor cursor, long timestamp) {
        Extent extent = new Extent();
        try {
            FragmentReader.visit(cursor.value(), extent);
        } catch (MalformedFragment e) {
            throw store.malformed(e, cursor.key());
        }
        // A deletion too, although what it hides is hidden anyway: it goes with the one above it.
        return extent.deletedAt < timestamp
                && (extent.lowest <= timestamp || extent.deletedAt != NO_DELETION);
    }

    private static final long NO_DELETION = Long.MIN_VALUE;

    /** The lowest timestamp in a row, and its deletion's. */
    private static final class Extent implements FragmentReader.Visitor {
        long lowest = Long.MAX_VALUE;
        long deletedAt = NO_DELETION;

        @Override
        public void timestamp(long micros) {
            lowest = Math.min(lowest, micros);
        }

        @Override
        public void deletion(long micros) {
            deletedAt = Math.max(deletedAt, micros);
        }

        @Override
        public void large(int column, byte @Nullable [] path, long timestamp, long hash) {}
    }

    private static ByteBuffer direct(byte[] bytes) {
        return ByteBuffer.allocateDirect(bytes.length).put(bytes).flip();
    }

    // Settling and purging

    /** Whether all that was written up to a sequence number is at the bottom. */
    private static boolean isSettled(Database database, long sequence) {
        for (LiveFileMetaData file : dataFiles(database))
            if (file.level() < BOTTOM_LEVEL && file.smallestSeqno() <= sequence) return false;
        return true;
    }

    static List<LiveFileMetaData> dataFiles(Database database) {
        List<LiveFileMetaData> files = new ArrayList<>();
        byte[] family = org.rocksdb.RocksDB.DEFAULT_COLUMN_FAMILY;
        for (LiveFileMetaData file : database.db.getLiveFilesMetaData())
            if (Arrays.equals(file.columnFamilyName(), family)) files.add(file);
        return files;
    }

    /**
     * Rewrites the bottom through the filter, slice by slice.
     *
     * @return false if less may go than before, and so it was not all rewritten
     */
    private boolean rewrite(Database database, boolean background, long restrictionsBefore)
            throws RocksDBException {
        byte[] from = background ? resumeAt : null;
        List<byte[]> bounds = bounds(database, from);
        for (int i = 0; i <= bounds.size(); i++) {
            done = (double) i / (bounds.size() + 1);
            byte[] to = i < bounds.size() ? bounds.get(i) : null;
            long leftovers = store.reconciler().leftovers();
            boolean complete = force(database, from, to);
            // What was merged just now did not pass the filter.
            if (complete && store.reconciler().leftovers() != leftovers)
                complete = force(database, from, to);
            if (!complete || restrictions() != restrictionsBefore) return false;
            from = to;
            resumeAt = to;
            if (to != null) remember();
        }
        return true;
    }

    private static boolean force(Database database, byte @Nullable [] from, byte @Nullable [] to)
            throws RocksDBException {
        return database.tryCompact(database.data, from, to, BottommostLevelCompaction.kForce);
    }

    /** Where to cut the bottom into slices, behind a key. */
    private static List<byte[]> bounds(Database database, byte @Nullable [] from) {
        List<LiveFileMetaData> files = dataFiles(database);
        files.removeIf(file -> file.level() != BOTTOM_LEVEL);
        files.sort(Comparator.comparing(LiveFileMetaData::smallestKey, Arrays::compareUnsigned));
        List<byte[]> bounds = new ArrayList<>();
        long bytes = 0;
        for (LiveFileMetaData file : files) {
            if (from != null && Arrays.compareUnsigned(file.largestKey(), from) < 0) continue;
            bytes += file.size();
            if (bytes < SLICE_BYTES) continue;
            bounds.add(file.largestKey());
            bytes = 0;
        }
        return bounds;
    }

    // Sweeping

    private void sweep(Database database, boolean background) throws RocksDBException {
        if (store.isArriving() || !store.catalog().has(Catalog.Flag.LARGE_CELLS)) return;
        phase = Phase.SWEEPING;
        Pace pace = new Pace(background);
        long bytes = largeBytes(database);
        long cells = 0;
        long garbage = 0;
        try (ReadOptions keysOnly = Database.newReadOptions()) {
            Reconciler.allowUnpreparedValue(keysOnly);
            try (RocksIterator it = database.db.newIterator(database.large, keysOnly)) {
                for (it.seekToFirst(); it.isValid(); it.next()) {
                    pace.step(store);
                    cells++;
                    if (sweep(database, it.key())) garbage++;
                }
                it.status();
            }
        }
        // Nobody has looked at that.
        long arrived = Math.max(0, largeBytes(database) - bytes);
        if (garbage > 0)
            database.compact(database.large, null, null, BottommostLevelCompaction.kForceOptimized);
        // How much is garbage is not known: none of it went since they arrive.
        if (store.isArriving()) return;
        double part = (double) garbage / Math.max(1, cells);
        garbageShare =
                Math.max(LEAST_SHARE, Math.min(1, part * bytes / Math.max(1, bytes - swept)));
        // What is still in files with live cells goes with these, and has not come since.
        swept = Math.max(0, largeBytes(database) - arrived);
    }

    /** Removes a large cell that no row refers to; returns whether it did. */
    private boolean sweep(Database database, byte[] largeKey) throws RocksDBException {
        ByteBuffer in = ByteBuffer.wrap(largeKey);
        DecoratedKey partition;
        try {
            partition = store.partitionKeys().get(in);
            in.position(store.rowBytes(in.rewind()));
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | java.nio.BufferUnderflowException e) {
            throw store.malformed(e, ByteBuffer.wrap(largeKey));
        }
        byte[] rowKey = Arrays.copyOf(largeKey, in.position());
        // Whoever writes this very cell again does so before the look or after the removal; and so
        // does whoever ingests it, who is alone.
        boolean[] removed = new boolean[1];
        synchronized (store.largeWrites(partition)) {
            store.room()
                    .write(
                            () -> {
                                // Or the row may be among the parts that are still to come.
                                if (store.isArriving()
                                        || isReferred(database, rowKey, in.duplicate())) return;
                                database.db.delete(database.large, database.writeOptions, largeKey);
                                removed[0] = true;
                            });
        }
        return removed[0];
    }

    /**
     * @param suffix the large cell's key behind its row's key
     */
    private boolean isReferred(Database database, byte[] rowKey, ByteBuffer suffix)
            throws RocksDBException {
        byte[] value = database.db.get(database.data, database.readOptions, rowKey);
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

    /** In the background, rests as long as it worked; ends when the store closes. */
    private static final class Pace {
        private static final int EVERY = 256;

        private final boolean slowly;
        private int steps;
        private long since = System.nanoTime();

        Pace(boolean slowly) {
            this.slowly = slowly;
        }

        void step(RocksStore store) {
            if (++steps % EVERY != 0) return;
            if (store.isClosed())
                throw new IllegalStateException("The store of " + store.name() + " is closed.");
            if (slowly) LockSupport.parkNanos(System.nanoTime() - since);
            since = System.nanoTime();
        }
    }
}
