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
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.EstimatedHistogram;

/**
 * Some partitions of a table, at tokens by chance: how large they are, and how many cells they
 * have. Cassandra knows that of all from its SSTables; an engine keeps no such count.
 *
 * <p>Every table is sampled again and again as long as somebody reads metrics, so the bytes that a
 * sample reads are bounded, whatever the size of rows and partitions.
 *
 * @param sizes bytes, in the form that Cassandra's have
 * @param cells in the form that Cassandra's have
 */
public record PartitionSample(EstimatedHistogram sizes, EstimatedHistogram cells) {
    private static final int PARTITIONS = 64;

    /** A partition is read so far, and not further. */
    private static final int ROWS = 10_000;

    /** Nor further than to the row with which it has so many bytes. */
    private static final long PARTITION_BYTES = 256L << 10;

    /**
     * A partition of larger rows is taken to end where it was read to: a store knows where its
     * values are that lie apart from their rows to a few hundred of them, and not to one.
     */
    private static final long ROW_BYTES = 16L << 10;

    /** No further partition is read after so many bytes, which may be 16 of them or fewer. */
    private static final long BYTES = 4L << 20;

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

    /** Reads the partitions: that many seeks, and a few MiB at most, with one row more. */
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
        long read = 0;
        for (DataRange range : ranges) {
            if (read >= BYTES) break;
            try (UnfilteredPartitionIterator partitions =
                    store.scan(range, ColumnFilter.all(table))) {
                if (!partitions.hasNext()) continue;
                try (UnfilteredRowIterator partition = partitions.next()) {
                    read += sample.add(store, partition);
                }
            }
        }
        return sample;
    }

    /** Returns how much of the partition was read. */
    private long add(TableStore store, UnfilteredRowIterator partition) {
        long bytes = partition.partitionKey().getKey().remaining();
        bytes += partition.staticRow().dataSize();
        long columns = Iterables.size(partition.staticRow().cells());
        int rows = 0;
        while (rows < ROWS && bytes < PARTITION_BYTES && partition.hasNext()) {
            rows++;
            if (partition.next() instanceof Row row) {
                bytes += row.dataSize();
                columns += Iterables.size(row.cells());
            }
        }
        long all = bytes;
        if (bytes < ROW_BYTES * rows && partition.hasNext())
            all = Math.max(bytes, onDisk(store, partition));
        sizes.add(all);
        // The rest is like what was read.
        cells.add((long) ((double) columns * all / Math.max(1, bytes)));
        return bytes;
    }

    /** 0 where tokens have no predecessors, as those of an ordered partitioner. */
    private static long onDisk(TableStore store, UnfilteredRowIterator partition) {
        if (!(partition.partitionKey().getToken() instanceof LongToken token)) return 0;
        return store.estimate(new Range<>(token.decreaseSlightly(), token)).meanPartitionBytes();
    }
}
