// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.write;

import dev.petra.engine.index.TermEntry;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.IndexCatalog;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.ClusteringKeys;
import dev.petra.engine.rocks.format.FragmentWriter;
import dev.petra.engine.rocks.format.IndexKeys;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.LargeCells;
import dev.petra.engine.rocks.format.RowLayout;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import org.apache.cassandra.db.DeletionInfo;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.marshal.ValueAccessor;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.schema.ColumnMetadata;
import org.jspecify.annotations.Nullable;

/**
 * Turns an update into merges. Reused; one thread at a time.
 *
 * <p>Most updates are one row: one merge of two direct buffers, with nothing allocated. Others, and
 * all that have entries of indexes, become one write batch, put together here in RocksDB's own form
 * (the form of its log: sequence, count, then a tag, a key and a value each), since the Java API
 * takes merges into a batch only as arrays, one crossing each.
 */
final class UpdateEncoder {
    private static final ThreadLocal<UpdateEncoder> INSTANCE =
            ThreadLocal.withInitial(UpdateEncoder::new);

    /** Behind the sequence number, 8 bytes, which RocksDB sets: 4 bytes, lowest first. */
    private static final int BATCH_COUNT_AT = 8;

    private static final int BATCH_MERGE = 0x02;
    private static final int BATCH_PUT_IN_COLUMN_FAMILY = 0x05;

    private final ByteSink key = new ByteSink();
    private final ByteSink value = new ByteSink();

    /** The key of a large cell, or of an index's entry. */
    private final ByteSink otherKey = new ByteSink();

    private final ByteSink batch = new ByteSink();
    private final FragmentWriter fragments = new FragmentWriter(value, new Large());
    private int prefix;
    private int entries;
    private boolean batched;
    private int largeColumnFamily;
    private int largeThreshold;
    private int largeCells;

    static UpdateEncoder get() {
        return INSTANCE.get();
    }

    /** Whether the update brings a record of the partition's own. */
    static boolean hasPartitionRecord(PartitionUpdate update) {
        return !update.deletionInfo().isLive();
    }

    /**
     * Encodes an update, and entries of indexes in the same batch.
     *
     * @param database of which the caller has counted a use
     * @return the number of keys it touches; 0 if there is nothing to write
     * @throws IllegalArgumentException if there is an entry of an index that was never defined
     */
    int encode(
            PartitionUpdate update,
            List<TermEntry> indexed,
            StoreContext store,
            Database database) {
        Catalog catalog = store.catalog();
        RowLayout form = catalog.layout(update.metadata());
        FragmentWriter.Columns ids = (ColumnMetadata column) -> catalog.id(form, column);
        ClusteringKeys clusterings = form.clusterings;
        DeletionInfo deletions = update.deletionInfo();
        Row staticRow = update.staticRow();

        entries = 0;
        largeCells = 0;
        largeColumnFamily = database.large.getID();
        largeThreshold = store.settings().largeCell();
        fragments.begin();
        batched = false;
        int keys =
                (deletions.isLive() ? 0 : 1 + deletions.rangeCount())
                        + (staticRow.isEmpty() ? 0 : 1)
                        + update.rowCount();
        if (keys > 1 || !indexed.isEmpty()) beginBatch();
        key.clear();
        store.partitionKeys().put(key, update.partitionKey());
        prefix = key.position();

        if (!deletions.isLive()) {
            begin(KeyKind.PARTITION);
            fragments.partition(deletions.getPartitionDeletion(), highest(deletions));
            end();
            Iterator<RangeTombstone> ranges = deletions.rangeIterator(false);
            while (ranges.hasNext()) {
                RangeTombstone range = ranges.next();
                Slice slice = range.deletedSlice();
                begin(KeyKind.RANGE);
                clusterings.put(key, slice.start());
                clusterings.put(key, slice.end());
                boolean exact =
                        clusterings.isExact(slice.start()) && clusterings.isExact(slice.end());
                fragments.range(range.deletionTime(), slice.start(), slice.end(), !exact);
                end();
            }
        }
        if (!staticRow.isEmpty()) {
            begin(KeyKind.STATIC);
            if (fragments.row(staticRow, ids, false)) end();
        }
        for (Row row : update) {
            begin(KeyKind.ROW);
            clusterings.put(key, row.clustering());
            if (fragments.row(row, ids, !clusterings.isExact(row.clustering()))) end();
        }
        if (!indexed.isEmpty()) putEntries(indexed, catalog.indexes(), clusterings, database);
        return entries;
    }

    private void putEntries(
            List<TermEntry> indexed,
            IndexCatalog indexes,
            ClusteringKeys clusterings,
            Database database) {
        key.truncate(prefix);
        for (TermEntry entry : indexed) {
            int number = indexes.numberToWrite(entry.index());
            if (number < 0) continue;
            otherKey.clear();
            IndexKeys.put(
                    otherKey, number, entry.term(), key.flipped(), clusterings, entry.clustering());
            key.resume(prefix);
            value.clear();
            IndexKeys.putValue(value, clusterings, entry.clustering());
            // There is one as soon as there is an index.
            beginPut(Objects.requireNonNull(database.index()).getID());
            appendTo(batch, value);
        }
    }

    /**
     * Begins an entry in the batch that is put, under {@link #otherKey}; its value is to follow.
     */
    private void beginPut(int columnFamily) {
        batch.put(BATCH_PUT_IN_COLUMN_FAMILY);
        batch.putVarint(columnFamily);
        appendTo(batch, otherKey);
        entries++;
    }

    /** The highest timestamp and the highest local deletion time of the range tombstones. */
    private static DeletionTime highest(DeletionInfo deletions) {
        if (!deletions.hasRanges()) return DeletionTime.LIVE;
        long timestamp = Long.MIN_VALUE;
        long localTime = Long.MIN_VALUE;
        Iterator<RangeTombstone> ranges = deletions.rangeIterator(false);
        while (ranges.hasNext()) {
            DeletionTime time = ranges.next().deletionTime();
            timestamp = Math.max(timestamp, time.markedForDeleteAt());
            localTime = Math.max(localTime, time.localDeletionTime());
        }
        return DeletionTime.build(timestamp, localTime);
    }

    private void beginBatch() {
        batched = true;
        batch.clear();
        batch.putFixed64(0);
        batch.putFixed32(0);
    }

    /** Puts values that lie apart into the same batch as their row. */
    private final class Large implements FragmentWriter.LargeSink {
        @Override
        public int threshold() {
            return largeThreshold;
        }

        @Override
        public <V> void put(
                int column,
                @Nullable CellPath path,
                long timestamp,
                long hash,
                V value,
                ValueAccessor<V> by) {
            if (!batched) beginBatch();
            int rowKey = key.position();
            otherKey.clear();
            otherKey.put(key.flipped());
            key.resume(rowKey);
            LargeCells.putSuffix(
                    otherKey, column, timestamp, hash, path == null ? null : path.get(0));
            beginPut(largeColumnFamily);
            batch.putVarint(by.size(value));
            batch.put(value, by);
            largeCells++;
        }
    }

    private void begin(int kind) {
        key.truncate(prefix);
        key.put(kind);
        value.clear();
    }

    private void end() {
        entries++;
        if (!batched) return;
        batch.put(BATCH_MERGE);
        appendTo(batch, key);
        appendTo(batch, value);
    }

    private static void appendTo(ByteSink batch, ByteSink part) {
        int length = part.position();
        batch.putVarint(length);
        batch.put(part.flipped());
        part.resume(length);
    }

    /** Whether the update is more than one key: then {@link #batch}, else key and value. */
    boolean isBatched() {
        return batched;
    }

    boolean hasLargeCells() {
        return largeCells > 0;
    }

    /** The lowest timestamp in the update, in microseconds. */
    long minTimestamp() {
        return fragments.minTimestamp();
    }

    /** The lowest local deletion or expiration time, in seconds; the highest long if none. */
    long minLocalTime() {
        return fragments.minLocalTime();
    }

    /** The key, if there is one only. */
    ByteBuffer key() {
        return key.flipped();
    }

    /** The value, if there is one key only. */
    ByteBuffer value() {
        return value.flipped();
    }

    /** How many bytes keys and values have; before they are asked for. */
    int bytes() {
        return isBatched() ? batch.position() : key.position() + value.position();
    }

    /** Ends the use of an encoded update, and gives back the memory that a large one took. */
    void release() {
        key.release();
        value.release();
        otherKey.release();
        batch.release();
    }

    /** All keys and values, as RocksDB's write batch. */
    byte[] batch() {
        byte[] bytes = batch.copy(0, batch.position());
        for (int i = 0; i < Integer.BYTES; i++)
            bytes[BATCH_COUNT_AT + i] = (byte) (entries >>> (8 * i));
        return bytes;
    }
}
