// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;

/** Partitions that tell when they are closed. */
record ClosingPartitions(UnfilteredPartitionIterator partitions, Runnable closed)
        implements UnfilteredPartitionIterator {
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
        return partitions.next();
    }

    @Override
    public void close() {
        partitions.close();
        closed.run();
    }
}
