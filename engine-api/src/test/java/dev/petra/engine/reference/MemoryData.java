// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import java.util.concurrent.ConcurrentNavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.schema.TableMetadataRef;

/** What outlives the opening and closing of a store. */
final class MemoryData {
    /** By position, so that a scan can begin at a bound; the keys are decorated keys. */
    volatile ConcurrentNavigableMap<PartitionPosition, MemoryPartition> partitions =
            new ConcurrentSkipListMap<>();

    /** Shared by writers; exclusive to whoever needs all partitions as of one moment. */
    final ReadWriteLock moment = new ReentrantReadWriteLock();

    /** Whether an update was ever applied. */
    volatile boolean written;

    final MemoryIndexes indexes;

    MemoryData() {
        this(new MemoryIndexes());
    }

    private MemoryData(MemoryIndexes indexes) {
        this.indexes = indexes;
    }

    /** The same content, from here on on its own. */
    MemoryData copy(TableMetadataRef metadata) {
        MemoryData copy = new MemoryData(indexes.copy());
        partitions.forEach((key, partition) -> copy.partitions.put(key, partition.copy(metadata)));
        copy.written = written;
        return copy;
    }

    /**
     * The same content, read through another reference to the table: where the store was opened
     * again.
     */
    void adopt(TableMetadataRef metadata) {
        partitions = copy(metadata).partitions;
    }
}
