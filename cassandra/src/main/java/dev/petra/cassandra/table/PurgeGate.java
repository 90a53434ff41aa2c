// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import org.apache.cassandra.config.CassandraRelevantProperties;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.AbstractCompactionStrategy;
import org.apache.cassandra.schema.TableMetadataRef;

/**
 * Whether a table's store may remove deletions: the same reasons not to as in {@code
 * CompactionController.getPurgeEvaluator}, coarser.
 */
final class PurgeGate {
    private static final boolean NEVER =
            CassandraRelevantProperties.NEVER_PURGE_TOMBSTONES.getBoolean();

    private PurgeGate() {}

    static boolean isOpen(TableMetadataRef metadata) {
        if (NEVER || onlyRepaired(metadata)) return false;
        ColumnFamilyStore table = ColumnFamilyStore.getIfExists(metadata.id);
        // Rows that the store's deletions hide may be in an SSTable.
        return table != null
                && !table.getNeverPurgeTombstones()
                && table.getLiveSSTables().isEmpty();
    }

    /** The store does not know what was repaired. */
    private static boolean onlyRepaired(TableMetadataRef metadata) {
        return Boolean.parseBoolean(
                metadata.get()
                        .params
                        .compaction
                        .options()
                        .get(AbstractCompactionStrategy.ONLY_PURGE_REPAIRED_TOMBSTONES));
    }
}
