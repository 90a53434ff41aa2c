// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import com.google.common.collect.Iterables;
import dev.petra.engine.TableStore;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.EstimatedHistogram;

/**
 * Some partitions of a table, at tokens by chance: how large they are, and how many cells they
 * have. Cassandra knows that of all from its SSTables; an engine keeps no such count.
 *
 * @param sizes bytes, in the form that Cassandra's have
 * @param cells in the form that Cassandra's have
 */
public record PartitionSample(EstimatedHistogram sizes, EstimatedHistogram cells) {
    private static final int PARTITIONS = 64;

    /** A partition is read so far, and not further. */
    private static final int ROWS = 10_000;

    // As Cassandra's writers of SSTables have them.
    private static final int SIZE_BUCKETS = 155;
    private static final int CELL_BUCKETS = 118;

    /** A sample of no partitions. */
    static PartitionSample none() {
        return new PartitionSample(
                new EstimatedHistogram(SIZE_BUCKETS), new EstimatedHistogram(CELL_BUCKETS));
    }

    /** Whether there was nothing to read. */
    public boolean isEmpty() {
        return sizes.count() == 0;
    }

    /** Reads the partitions: that many seeks. */
    static PartitionSample of(TableStore store) {
        TableMetadata table = store.spec().metadata().get();
        Token least = table.partitioner.getMinimumToken();
        List<DataRange> ranges = new ArrayList<>();
        // Also where all partitions have tokens that are unlikely.
        ranges.add(DataRange.allData(table.partitioner));
        while (ranges.size() < PARTITIONS)
            ranges.add(
                    DataRange.forTokenRange(
                            new Range<>(table.partitioner.getRandomToken(), least)));
        PartitionSample sample = none();
        for (DataRange range : ranges) {
            try (UnfilteredPartitionIterator partitions =
                    store.scan(range, ColumnFilter.all(table))) {
                if (!partitions.hasNext()) continue;
                try (UnfilteredRowIterator partition = partitions.next()) {
                    sample.add(partition);
                }
            }
        }
        return sample;
    }

    private void add(UnfilteredRowIterator partition) {
        long bytes = partition.partitionKey().getKey().remaining();
        bytes += partition.staticRow().dataSize();
        long columns = Iterables.size(partition.staticRow().cells());
        for (int rows = 0; rows < ROWS && partition.hasNext(); rows++)
            if (partition.next() instanceof Row row) {
                bytes += row.dataSize();
                columns += Iterables.size(row.cells());
            }
        sizes.add(bytes);
        cells.add(columns);
    }
}
