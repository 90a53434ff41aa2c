// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.sstable;

import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.RegularAndStaticColumns;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/** A partition as updates of bounded size. */
public final class PartitionBatches {
    /** How much of a partition is in one update. */
    private static final int BATCH_BYTES = 512 * 1024;

    private static final int BATCH_ROWS = 2_000;

    /** Takes the updates of a partition. */
    public interface Use {
        /**
         * Takes one; it may be empty.
         *
         * @param isBegun whether one of the same partition was taken before
         * @return whether to go on
         */
        boolean take(PartitionUpdate update, boolean isBegun);
    }

    private PartitionBatches() {}

    /**
     * Gives all that is in a partition, as it is; a range's deletion follows the rows that it
     * covers.
     *
     * @return false if it was ended; not asked after the last update
     */
    public static boolean forEach(
            TableMetadata table, SSTableReader sstable, UnfilteredRowIterator partition, Use use) {
        return forEach(table, columns(table, sstable), partition, use);
    }

    /**
     * The same for a partition that is in no SSTable.
     *
     * @param columns those of the table, and others that the partition has
     */
    public static boolean forEach(
            TableMetadata table,
            RegularAndStaticColumns columns,
            UnfilteredRowIterator partition,
            Use use) {
        DecoratedKey key = partition.partitionKey();
        PartitionUpdate.Builder batch = new PartitionUpdate.Builder(table, key, columns, 16);
        batch.addPartitionDeletion(partition.partitionLevelDeletion());
        if (!partition.staticRow().isEmpty()) batch.add(partition.staticRow());
        int rows = 0;
        long bytes = 0;
        boolean isBegun = false;
        @Nullable ClusteringBound<?> opened = null;
        while (partition.hasNext()) {
            Unfiltered next = partition.next();
            if (next instanceof Row row) {
                batch.add(row);
                bytes += row.dataSize();
            } else {
                RangeTombstoneMarker marker = (RangeTombstoneMarker) next;
                if (marker.isClose(false) && opened != null) {
                    DeletionTime deletion = marker.closeDeletionTime(false);
                    batch.add(
                            new RangeTombstone(
                                    Slice.make(opened, marker.closeBound(false)), deletion));
                }
                opened = marker.isOpen(false) ? marker.openBound(false) : null;
            }
            if (++rows >= BATCH_ROWS || bytes >= BATCH_BYTES) {
                if (!use.take(batch.build(), isBegun)) return false;
                isBegun = true;
                batch = new PartitionUpdate.Builder(table, key, columns, 16);
                rows = 0;
                bytes = 0;
            }
        }
        var unused = use.take(batch.build(), isBegun);
        return true;
    }

    /**
     * The SSTable may have cells of dropped columns that are newer than the drop. As in Cassandra
     * they stay, and show if the column is added again.
     */
    private static RegularAndStaticColumns columns(TableMetadata table, SSTableReader sstable) {
        return table.regularAndStaticColumns().mergeTo(sstable.header.columns());
    }
}
