// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.format.FragmentReader;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import java.nio.ByteBuffer;
import org.apache.cassandra.db.DeletionInfo;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.MutableDeletionInfo;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Rows;

/**
 * What a partition has before its rows, not filtered: its deletion, those of its range tombstones
 * that meet what is read, its static row.
 *
 * @param isAtRows whether the cursor was left on the partition's first row or behind the partition;
 *     if not, it is before the rows
 */
public record PartitionHeader(
        DeletionInfo deletions, Row staticRow, boolean hasStatic, boolean isAtRows) {
    static final PartitionHeader EMPTY =
            new PartitionHeader(DeletionInfo.LIVE, Rows.EMPTY_STATIC_ROW, false, true);
    static final PartitionHeader NOT_READ =
            new PartitionHeader(DeletionInfo.LIVE, Rows.EMPTY_STATIC_ROW, false, false);

    public DeletionTime deletion() {
        return deletions.getPartitionDeletion();
    }

    boolean isEmpty() {
        return deletions.isLive() && staticRow.isEmpty();
    }

    /**
     * Reads the header from a cursor on the partition's first key.
     *
     * @param prefix the partition's position
     * @param slices what is going to be read: range tombstones that meet none are not wanted
     */
    public static PartitionHeader read(
            Cursor cursor,
            ByteBuffer prefix,
            ReadContext context,
            Slices slices,
            boolean wantStatic) {
        MutableDeletionInfo deletions = null;
        Row staticRow = Rows.EMPTY_STATIC_ROW;
        boolean hasStatic = false;
        WantedRanges wanted = null;
        boolean isAtRows = true;
        int ranges = 0;
        int kindAt = prefix.remaining();
        for (; cursor.isValid(); cursor.next()) {
            ByteBuffer key = cursor.key();
            if (!Keys.startsWith(key, prefix)) break;
            int kind = key.get(kindAt) & 0xFF;
            if (kind >= KeyKind.ROW) break;
            context.step();
            switch (kind) {
                case KeyKind.PARTITION -> {
                    FragmentReader.PartitionRecord record = context.partition(key, cursor.value());
                    deletions = new MutableDeletionInfo(record.deletion());
                }
                case KeyKind.STATIC -> {
                    hasStatic = true;
                    if (wantStatic)
                        staticRow =
                                context.staticRow(
                                        cursor, deletions == null ? DeletionInfo.LIVE : deletions);
                }
                case KeyKind.RANGE -> {
                    key.position(kindAt + 1);
                    if (wanted == null)
                        wanted =
                                new WantedRanges(
                                        context.clusterings(), slices, cursor.boundsSink());
                    // Range tombstones come in the order of their starts: none of the rest is
                    // wanted.
                    isAtRows = !wanted.isBehind(key);
                    if (isAtRows && context.isWanted(wanted, cursor, key)) {
                        ranges++;
                        if (deletions == null) deletions = MutableDeletionInfo.live();
                        deletions.add(
                                context.range(cursor, key.position(kindAt + 1)),
                                context.table().comparator);
                    }
                }
                default -> throw context.unknownKind(cursor, kind);
            }
            if (!isAtRows) break;
        }
        if (wanted != null)
            context.metRanges(
                    wanted.unwanted() + ranges,
                    wanted.unwanted()
                            - wanted.hidden()
                            + (deletions == null ? 0 : deletions.rangeCount()),
                    prefix);
        if (deletions == null && !hasStatic) return isAtRows ? EMPTY : NOT_READ;
        return new PartitionHeader(
                deletions == null ? DeletionInfo.LIVE : deletions, staticRow, hasStatic, isAtRows);
    }
}
