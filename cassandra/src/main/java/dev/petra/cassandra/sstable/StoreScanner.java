// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.sstable;

import dev.petra.engine.RangeEstimate;
import dev.petra.engine.TableStore;
import java.util.Collection;
import java.util.Set;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.schema.TableMetadata;

/**
 * Ranges of a store, for Cassandra's own code that merges SSTables. It sees what was in the store
 * when it was made. Not thread-safe.
 */
public final class StoreScanner implements ISSTableScanner {
    private final UnfilteredPartitionIterator partitions;
    private final long estimatedBytes;
    private final long estimatedPartitions;
    private long scanned;

    /**
     * @param estimates of the ranges
     */
    public StoreScanner(
            TableStore store,
            TableMetadata table,
            Collection<Range<Token>> ranges,
            Collection<RangeEstimate> estimates) {
        long count = 0;
        long bytes = 0;
        for (RangeEstimate each : estimates) {
            count += each.partitions();
            bytes += each.partitions() * each.meanPartitionBytes();
        }
        estimatedPartitions = Math.max(1, count);
        estimatedBytes = bytes;
        partitions =
                store.scanAside(
                        ranges,
                        ColumnFilter.all(table),
                        // Ends where the disk was full, or writes would be refused until then.
                        () -> {});
    }

    @Override
    public TableMetadata metadata() {
        return partitions.metadata();
    }

    @Override
    public boolean hasNext() {
        return partitions.hasNext();
    }

    @Override
    public UnfilteredRowIterator next() {
        scanned++;
        return partitions.next();
    }

    @Override
    public void close() {
        partitions.close();
    }

    /** An estimate, as all numbers here. */
    @Override
    public long getLengthInBytes() {
        return estimatedBytes;
    }

    @Override
    public long getCompressedLengthInBytes() {
        return estimatedBytes;
    }

    @Override
    public long getCurrentPosition() {
        return (long) (estimatedBytes * Math.min(1.0, (double) scanned / estimatedPartitions));
    }

    @Override
    public long getBytesScanned() {
        return getCurrentPosition();
    }

    @Override
    public Set<SSTableReader> getBackingSSTables() {
        return Set.of();
    }
}
