// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import java.nio.ByteBuffer;
import java.util.Iterator;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.rows.EncodingStats;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.RowAndDeletionMergeIterator;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.utils.AbstractIterator;
import org.jspecify.annotations.Nullable;

/**
 * The rows and range tombstones of some slices of one partition, over a cursor. Where there are
 * range tombstones, Cassandra's own {@link RowAndDeletionMergeIterator} puts them between the rows,
 * exactly as for a memtable.
 */
final class SlicesIterator extends StoredRows {
    private final Cursor cursor;
    private final boolean ownsCursor;
    private final ReadContext context;
    private final PartitionHeader header;
    private final Slices slices;
    private final ByteSink keys;
    private final int rowPrefix;
    private boolean atFirstRow;
    private int nextSlice;
    private @Nullable Iterator<? extends Unfiltered> current;

    /** Null where nothing is hidden, or that is not for a compaction to remove. */
    private final @Nullable HiddenStreak hidden;

    /**
     * @param prefix the partition's position
     * @param header which was read, last, from the cursor; or {@link PartitionHeader#NOT_READ}
     * @param ownsCursor whether closing this closes the cursor
     */
    SlicesIterator(
            DecoratedKey key,
            ByteBuffer prefix,
            Cursor cursor,
            boolean ownsCursor,
            ReadContext context,
            PartitionHeader header,
            Slices slices,
            boolean reversed) {
        super(
                context.table(),
                key,
                header.deletion(),
                context.filter.fetchedColumns(),
                context.filteredStatic(header),
                reversed);
        this.cursor = cursor;
        this.ownsCursor = ownsCursor;
        this.atFirstRow = header.isAtRows();
        this.context = context;
        this.header = header;
        this.slices = slices;
        this.keys = cursor.boundsSink().clear();
        keys.put(prefix);
        keys.put(KeyKind.ROW);
        this.rowPrefix = keys.position();
        this.hidden =
                header.deletions().isLive() || context.table().isCounter()
                        ? null
                        : new HiddenStreak(context.hidden(), reversed, rowPrefix - 1);
    }

    @Override
    protected @Nullable Unfiltered computeNext() {
        while (true) {
            if (current != null) {
                if (current.hasNext()) {
                    Unfiltered next = current.next();
                    if (hidden != null && next.isRow()) hidden.returned();
                    return next;
                }
                current = null;
            }
            if (nextSlice == slices.size()) return endOfData();
            int index = isReverseOrder ? slices.size() - 1 - nextSlice : nextSlice;
            nextSlice++;
            current = slice(slices.get(index));
        }
    }

    private Iterator<? extends Unfiltered> slice(Slice slice) {
        // Both bounds behind one another in one buffer.
        keys.truncate(rowPrefix);
        context.clusterings().put(keys, slice.start());
        int startEnd = keys.position();
        byte[] prefix = keys.copy(0, rowPrefix);
        keys.put(prefix);
        context.clusterings().put(keys, slice.end());
        int endEnd = keys.position();
        ByteBuffer all = keys.flipped();
        ByteBuffer start = all.slice(0, startEnd);
        ByteBuffer end = all.slice(startEnd, endEnd - startEnd);
        keys.resume(endEnd);

        if (isReverseOrder) cursor.seekForPrevious(end.duplicate());
        else if (!atFirstRow || !slice.start().isBottom()) cursor.seek(start.duplicate());
        atFirstRow = false;

        Iterator<Row> rows = new Rows(isReverseOrder ? start : end);
        if (!header.deletions().hasRanges()) return rows;
        Iterator<RangeTombstone> ranges = header.deletions().rangeIterator(slice, isReverseOrder);
        return new RowAndDeletionMergeIterator(
                metadata,
                partitionKey,
                partitionLevelDeletion,
                context.filter,
                staticRow,
                isReverseOrder,
                EncodingStats.NO_STATS,
                rows,
                ranges,
                true);
    }

    /** Rows from the cursor's position up to a bound. */
    private final class Rows extends AbstractIterator<Row> {
        private final ByteBuffer bound;
        private boolean move;

        Rows(ByteBuffer bound) {
            this.bound = bound;
        }

        @Override
        protected @Nullable Row computeNext() {
            while (true) {
                if (move) {
                    if (isReverseOrder) cursor.previous();
                    else cursor.next();
                }
                move = true;
                if (!cursor.isValid()) return endOfData();
                int order = Keys.compare(cursor.key(), bound);
                if (isReverseOrder ? order < 0 : order > 0) return endOfData();
                context.step();
                Row row = context.row(cursor, rowPrefix, header.deletions());
                // The merge iterator filters by itself, by the range tombstone open then.
                if (hidden != null && !row.isEmpty()) hidden.read(cursor);
                if (header.deletions().hasRanges()) {
                    if (!row.isEmpty()) return row;
                    continue;
                }
                Row filtered = context.filtered(row, partitionLevelDeletion);
                if (filtered != null) return filtered;
            }
        }
    }

    @Override
    public void close() {
        super.close();
        if (ownsCursor) cursor.close();
    }
}
