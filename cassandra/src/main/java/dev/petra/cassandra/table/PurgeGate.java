// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import org.apache.cassandra.config.CassandraRelevantProperties;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.AbstractCompactionStrategy;
import org.apache.cassandra.schema.TableMetadataRef;
import org.jspecify.annotations.Nullable;

/**
 * Whether a table's store may remove deletions: the same reasons not to as in {@code
 * CompactionController.getPurgeEvaluator}, coarser.
 */
final class PurgeGate {
    private PurgeGate() {}

    static boolean isOpen(TableMetadataRef metadata) {
        return isOpen(metadata, ColumnFamilyStore.getIfExists(metadata.id));
    }

    /**
     * @param table null before Cassandra has made it, and once it is dropped
     */
    static boolean isOpen(TableMetadataRef metadata, @Nullable ColumnFamilyStore table) {
        if (CassandraRelevantProperties.NEVER_PURGE_TOMBSTONES.getBoolean()
                || onlyRepaired(metadata)) return false;
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
