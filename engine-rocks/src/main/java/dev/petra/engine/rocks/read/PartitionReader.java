// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.RocksErrors;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.FragmentReader.PartitionRecord;
import dev.petra.engine.rocks.format.GrowingBuffer;
import dev.petra.engine.rocks.format.KeyKind;
import java.nio.ByteBuffer;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.ValueAccessor;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/**
 * Reads one partition.
 *
 * <h2>One get or one iterator</h2>
 *
 * A reader must see all of an update or none of it. One key read by one get is consistent by
 * itself; several keys are read through one iterator, which sees the store as it was when it was
 * opened. So one row is read by a get only where that one key is all there is to know: no static
 * row is wanted, and the partition has no record of its own (deletion, range tombstones). In tables
 * that have such records at all, a get looks for the record first, which the bloom filter mostly
 * answers. Writes of records are counted when they begin and when they end; if one was under way
 * meanwhile, the read starts over with an iterator.
 */
public final class PartitionReader {
    private static final ThreadLocal<Scratch> SCRATCH = ThreadLocal.withInitial(Scratch::new);

    private final StoreContext store;
    private final ReadSamples samples;

    public PartitionReader(StoreContext store, ReadSamples samples) {
        this.store = store;
        this.samples = samples;
    }

    /** Whether there may be anything of a partition. */
    public boolean mayContain(DecoratedKey key) {
        PartitionBounds bounds = PartitionBounds.of(store.partitionKeys(), key);
        try (Cursor cursor = new Cursor(store, bounds)) {
            cursor.seek(bounds.position().duplicate());
            return cursor.isValid();
        }
    }

    /** Buffers of one thread, between reads. */
    private static final class Scratch {
        private static final int INITIAL = 16 << 10;

        final ByteSink key = new ByteSink();
        final ReadSamples.Counters counters = new ReadSamples.Counters();
        final GrowingBuffer value = new GrowingBuffer(INITIAL);

        void release() {
            key.release();
            value.release();
        }
    }

    public @Nullable UnfilteredRowIterator read(
            DecoratedKey key, Slices slices, ColumnFilter filter, boolean reversed) {
        Scratch scratch = SCRATCH.get();
        ReadContext context = new ReadContext(store, filter);
        if (!scratch.counters.begin(store)) return read(key, slices, context, reversed, scratch);
        try {
            return read(key, slices, context, reversed, scratch);
        } finally {
            samples.add(scratch.counters);
        }
    }

    /**
     * The same, and large values are left out of the block cache. Rows are not: without their
     * blocks RocksDB would not keep the filters and indexes of files either, and read these anew
     * for each.
     */
    public @Nullable UnfilteredRowIterator readAside(
            DecoratedKey key, Slices slices, ColumnFilter filter, boolean reversed) {
        ReadContext context = new ReadContext(store, filter, true, () -> {});
        return read(key, slices, context, reversed, SCRATCH.get());
    }

    private @Nullable UnfilteredRowIterator read(
            DecoratedKey key,
            Slices slices,
            ReadContext context,
            boolean reversed,
            Scratch scratch) {
        if (!context.wantsStatics()) {
            Clustering<?> one = onlyRow(slices, context);
            if (one != null) {
                try {
                    OneRow found = get(key, one, context, scratch);
                    if (found.alone) return found.iterator(key, context, reversed);
                } finally {
                    scratch.release();
                }
            }
        }
        return iterate(key, slices, context, reversed);
    }

    /** The clustering, if the slices are exactly one row. */
    private static @Nullable Clustering<?> onlyRow(Slices slices, ReadContext context) {
        int size = context.table().comparator.size();
        if (slices.size() != 1) return null;
        if (size == 0) return Clustering.EMPTY;
        Slice slice = slices.get(0);
        ClusteringBound<?> start = slice.start();
        ClusteringBound<?> end = slice.end();
        if (start.size() != size
                || end.size() != size
                || start.kind() != ClusteringPrefix.Kind.INCL_START_BOUND
                || end.kind() != ClusteringPrefix.Kind.INCL_END_BOUND) return null;
        return sameValues(start, end) ? clustering(start) : null;
    }

    private static <A, B> boolean sameValues(ClusteringPrefix<A> a, ClusteringPrefix<B> b) {
        for (int i = 0; i < a.size(); i++) {
            A left = a.get(i);
            B right = b.get(i);
            if (left == null || right == null) return false;
            if (left != (Object) right
                    && ValueAccessor.compare(left, a.accessor(), right, b.accessor()) != 0)
                return false;
        }
        return true;
    }

    private static <V> Clustering<?> clustering(ClusteringBound<V> bound) {
        return bound.accessor().factory().clustering(bound.getRawValues());
    }

    private OneRow get(
            DecoratedKey key, Clustering<?> clustering, ReadContext context, Scratch scratch) {
        ByteSink keys = scratch.key.clear();
        store.partitionKeys().put(keys, key);
        int prefix = keys.position();
        Database database = store.acquire();
        int use = Database.stripe();
        try {
            // After the acquire: it is the catalog of the database that is read.
            Catalog catalog = store.catalog();
            boolean mayHaveRecord = catalog.has(Catalog.Flag.PARTITION_RECORDS);
            long ended = store.recordWritesEnded();
            DeletionTime deletion = DeletionTime.LIVE;
            if (mayHaveRecord) {
                if (store.recordWritesBegun() != ended) return OneRow.NOT_ALONE;
                keys.put(KeyKind.PARTITION);
                if (getValue(database, keys, scratch)) {
                    PartitionRecord record = context.partition(keys.flipped(), scratch.value.get());
                    if (record.hasRanges()) return OneRow.NOT_ALONE;
                    deletion = record.deletion();
                }
                keys.resume(prefix);
            }
            keys.put(KeyKind.ROW);
            context.clusterings().put(keys, clustering);
            boolean found = getValue(database, keys, scratch);
            // A record may have come since it was looked for, with a row that must not be seen
            // without it.
            if (catalog.has(Catalog.Flag.PARTITION_RECORDS)
                    && (!mayHaveRecord || store.recordWritesBegun() != ended))
                return OneRow.NOT_ALONE;
            if (!found) return new OneRow(true, deletion, null);
            ByteBuffer rawKey = keys.flipped();
            Clustering<?> stored = storedForm(clustering, rawKey, prefix, context);
            Row row = context.row(database, rawKey, scratch.value.get(), stored, deletion);
            if (row == null) return OneRow.NOT_ALONE;
            return new OneRow(true, deletion, context.filtered(row, deletion));
        } catch (RocksDBException e) {
            throw RocksErrors.onRead(e, store.name(), store.directory());
        } finally {
            database.release(use);
        }
    }

    /**
     * The clustering as a slice would give it: with the bytes that were written, not those that
     * were asked for, which may be another form of the same value.
     */
    private static Clustering<?> storedForm(
            Clustering<?> asked, ByteBuffer key, int prefix, ReadContext context) {
        if (asked.size() == 0) return asked;
        if (context.clusterings().isExact(asked)) return asked;
        return context.clusterings().getClustering(key.position(prefix + 1));
    }

    private static boolean getValue(Database database, ByteSink keys, Scratch scratch)
            throws RocksDBException {
        int end = keys.position();
        while (true) {
            int size =
                    database.db.get(
                            database.data,
                            database.readOptions,
                            keys.flipped(),
                            scratch.value.get().clear());
            keys.resume(end);
            if (size == RocksDB.NOT_FOUND) return false;
            if (size <= scratch.value.get().capacity()) return true;
            Cursor.roomFor(scratch.value, size);
        }
    }

    private @Nullable UnfilteredRowIterator iterate(
            DecoratedKey key, Slices slices, ReadContext context, boolean reversed) {
        PartitionBounds bounds =
                PartitionBounds.of(store.partitionKeys(), key, context.clusterings(), slices);
        Cursor cursor = context.open(bounds);
        boolean handedOut = false;
        try {
            ByteBuffer position = bounds.position();
            // Asked after the cursor was opened: what the cursor sees, this knows.
            boolean mayHaveRecord = store.catalog().has(Catalog.Flag.PARTITION_RECORDS);
            PartitionHeader found = PartitionHeader.NOT_READ;
            if (mayHaveRecord || context.wantsStatics()) {
                cursor.seek(position.duplicate());
                found =
                        PartitionHeader.read(
                                cursor, position, context, slices, context.wantsStatics());
            }
            SlicesIterator rows =
                    new SlicesIterator(
                            key, position, cursor, true, context, found, slices, reversed);
            if (found.isEmpty() && !rows.hasNext()) return null;
            handedOut = true;
            return rows;
        } finally {
            if (!handedOut) cursor.close();
        }
    }

    /** What a get found: the partition's deletion and the row, or that one get is not enough. */
    private record OneRow(boolean alone, DeletionTime deletion, @Nullable Row row) {
        static final OneRow NOT_ALONE = new OneRow(false, DeletionTime.LIVE, null);

        @Nullable UnfilteredRowIterator iterator(
                DecoratedKey key, ReadContext context, boolean reversed) {
            if (row == null && deletion.isLive()) return null;
            return new OneRowIterator(key, deletion, row, context, reversed);
        }
    }

    /** At most one row. */
    private static final class OneRowIterator extends StoredRows {
        private @Nullable Row row;

        OneRowIterator(
                DecoratedKey key,
                DeletionTime deletion,
                @Nullable Row row,
                ReadContext context,
                boolean reversed) {
            super(
                    context.table(),
                    key,
                    deletion,
                    context.filter.fetchedColumns(),
                    Rows.EMPTY_STATIC_ROW,
                    reversed);
            this.row = row;
        }

        @Override
        protected @Nullable Unfiltered computeNext() {
            Row next = row;
            row = null;
            return next == null ? endOfData() : next;
        }
    }
}
