// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import dev.petra.cassandra.shadow.ShadowSource;
import dev.petra.cassandra.sstable.PartitionBatches;
import dev.petra.cassandra.table.WriteStalls;
import dev.petra.engine.DroppedColumns;
import dev.petra.engine.TableStore;
import java.time.Duration;
import java.util.function.LongConsumer;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.RegularAndStaticColumns;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * A part of a store, of whole tokens, without the deletions that may have been purged and without
 * what they hide.
 *
 * @param last the last partition that was read; null if there was none
 * @param bytes of what is left, about; 0 if nothing is
 */
record PurgedPart(@Nullable DecoratedKey last, long bytes) {
    private static final Duration STALL_PATIENCE = Duration.ofMinutes(10);

    /**
     * Reads partitions in their order and writes what is left of them.
     *
     * @param into empty
     * @param after the partition behind which to begin; null for the first
     * @param enough bytes, after which it ends with the token
     * @param progress called with the bytes that were written, also without any; what it throws
     *     ends the reading
     */
    static PurgedPart read(
            TableStore from,
            TableStore into,
            ShadowSource.Moment moment,
            @Nullable DecoratedKey after,
            long enough,
            LongConsumer progress) {
        TableMetadata table = from.spec().metadata().get();
        // As in SSTables, cells that are newer than the drop of their column stay.
        ColumnFilter columns = ColumnFilter.all(DroppedColumns.addedAgain(table));
        Transformation<UnfilteredRowIterator> purge = moment.purge(table);
        DecoratedKey last = null;
        long bytes = 0;
        try (UnfilteredPartitionIterator partitions =
                from.scanAside(
                        behind(after, table.partitioner), columns, () -> progress.accept(0))) {
            while (partitions.hasNext()) {
                try (UnfilteredRowIterator partition = partitions.next()) {
                    DecoratedKey key = partition.partitionKey();
                    if (last != null && bytes >= enough && !key.getToken().equals(last.getToken()))
                        break;
                    last = key;
                    bytes += write(partition, purge, columns.fetchedColumns(), into, progress);
                }
            }
        }
        return new PurgedPart(last, bytes);
    }

    private static DataRange behind(@Nullable DecoratedKey after, IPartitioner partitioner) {
        return after == null
                ? DataRange.allData(partitioner)
                : DataRange.forKeyRange(
                        new Range<>(after, partitioner.getMinimumToken().minKeyBound()));
    }

    private static long write(
            UnfilteredRowIterator partition,
            Transformation<UnfilteredRowIterator> purge,
            RegularAndStaticColumns columns,
            TableStore into,
            LongConsumer progress) {
        long[] bytes = new long[1];
        try (UnfilteredRowIterator left = Transformation.apply(partition, purge)) {
            var unused =
                    PartitionBatches.forEach(
                            left.metadata(),
                            columns,
                            left,
                            (update, isBegun) -> {
                                bytes[0] += write(update, into, progress);
                                return true;
                            });
        }
        return bytes[0];
    }

    private static long write(PartitionUpdate update, TableStore into, LongConsumer progress) {
        if (update.isEmpty()) return 0;
        long deadline = System.nanoTime() + STALL_PATIENCE.toNanos();
        WriteStalls.sitOut(
                () -> into.write(update),
                stall -> {
                    if (stall.isDiskFull() || System.nanoTime() - deadline > 0) throw stall;
                    progress.accept(0);
                });
        // A deletion has no data.
        long bytes = Math.max(1, update.dataSize());
        progress.accept(bytes);
        return bytes;
    }
}
