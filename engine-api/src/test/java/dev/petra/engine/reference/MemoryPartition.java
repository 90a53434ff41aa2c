// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.partitions.AbstractBTreePartition;
import org.apache.cassandra.db.partitions.BTreePartitionData;
import org.apache.cassandra.db.partitions.BTreePartitionUpdater;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.index.transactions.UpdateTransaction;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.memory.HeapCloner;

/**
 * A partition of a memtable without the memtable: content swapped as a whole, merged by Cassandra's
 * {@link BTreePartitionUpdater}, read by Cassandra's {@link AbstractBTreePartition}, as {@code
 * AtomicBTreePartition} and {@code TrieMemtable} do.
 */
final class MemoryPartition extends AbstractBTreePartition {
    private final TableMetadataRef metadata;
    private volatile BTreePartitionData content;

    MemoryPartition(TableMetadataRef metadata, DecoratedKey key, BTreePartitionData content) {
        super(key);
        this.metadata = metadata;
        this.content = content;
    }

    /** Merges an update in. A reader sees all of it or nothing. */
    synchronized void apply(PartitionUpdate update) {
        content =
                new BTreePartitionUpdater(
                        null, HeapCloner.instance, null, UpdateTransaction.NO_OP) {
                    @Override
                    public void reportAllocatedMemory() {
                        // Nothing is accounted for here.
                    }
                }.mergePartitions(content, update);
    }

    /** The same content under its own, later changing, identity. */
    MemoryPartition copy(TableMetadataRef metadata) {
        return new MemoryPartition(metadata, partitionKey, content);
    }

    @Override
    protected BTreePartitionData holder() {
        return content;
    }

    @Override
    protected boolean canHaveShadowedData() {
        return true;
    }

    @Override
    public TableMetadata metadata() {
        return metadata.get();
    }
}
