// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.format.FragmentReader;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import java.nio.ByteBuffer;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringComparator;
import org.apache.cassandra.db.DeletionInfo;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.MutableDeletionInfo;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Rows;

/** What a partition has before its rows: its deletions and its static row, not filtered. */
public record PartitionHeader(DeletionInfo deletions, Row staticRow) {
    static final PartitionHeader EMPTY =
            new PartitionHeader(DeletionInfo.LIVE, Rows.EMPTY_STATIC_ROW);

    public DeletionTime deletion() {
        return deletions.getPartitionDeletion();
    }

    boolean isEmpty() {
        return deletions.isLive() && staticRow.isEmpty();
    }

    /**
     * Reads the header from a cursor on the partition's first key, and leaves the cursor on the
     * partition's first row, or behind the partition.
     *
     * @param prefix the partition's position
     * @param slices what is going to be read: range tombstones behind it are not wanted
     */
    public static PartitionHeader read(
            Cursor cursor,
            ByteBuffer prefix,
            ReadContext context,
            Slices slices,
            boolean wantStatic) {
        MutableDeletionInfo deletions = null;
        Row staticRow = Rows.EMPTY_STATIC_ROW;
        boolean skipRanges = false;
        int ranges = 0;
        int kindAt = prefix.remaining();
        for (; cursor.isValid(); cursor.next()) {
            ByteBuffer key = cursor.key();
            if (!Keys.startsWith(key, prefix)) break;
            int kind = key.get(kindAt) & 0xFF;
            if (kind >= KeyKind.ROW) break;
            switch (kind) {
                case KeyKind.PARTITION -> {
                    FragmentReader.PartitionRecord record = context.partition(key, cursor.value());
                    deletions = new MutableDeletionInfo(record.deletion());
                }
                case KeyKind.STATIC -> {
                    if (wantStatic) staticRow = context.staticRow(cursor);
                }
                case KeyKind.RANGE -> {
                    if (skipRanges) continue;
                    RangeTombstone range = context.range(cursor, key.position(kindAt + 1));
                    if (isBehind(range, slices, context.table().comparator)) {
                        skipRanges = true;
                        continue;
                    }
                    ranges++;
                    if (deletions == null) deletions = MutableDeletionInfo.live();
                    deletions.add(range, context.table().comparator);
                }
                default -> throw context.unknownKind(cursor, kind);
            }
        }
        if (deletions != null) context.metRanges(ranges, deletions.rangeCount(), prefix);
        if (deletions == null && staticRow.isEmpty()) return EMPTY;
        return new PartitionHeader(deletions == null ? DeletionInfo.LIVE : deletions, staticRow);
    }

    /** Range tombstones come by their start: the first behind the last slice ends them. */
    private static boolean isBehind(
            RangeTombstone range, Slices slices, ClusteringComparator comparator) {
        if (slices.size() == 0) return true;
        ClusteringBound<?> end = slices.get(slices.size() - 1).end();
        Slice deleted = range.deletedSlice();
        return comparator.compare(deleted.start(), end) > 0;
    }
}
