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
public final class PurgeGate {
    private PurgeGate() {}

    /**
     * @param table null before Cassandra has made it or while its keyspace is being loaded, and
     *     once it is dropped
     */
    static boolean isOpen(TableMetadataRef metadata, @Nullable ColumnFamilyStore table) {
        // Rows that the store's deletions hide may be in an SSTable.
        return table != null && !isForbidden(metadata, table) && table.getLiveSSTables().isEmpty();
    }

    /** Whether an operator forbids that deletions are removed once their grace has passed. */
    public static boolean isForbidden(ColumnFamilyStore table) {
        return isForbidden(table.metadata, table);
    }

    private static boolean isForbidden(TableMetadataRef metadata, ColumnFamilyStore table) {
        return CassandraRelevantProperties.NEVER_PURGE_TOMBSTONES.getBoolean()
                || onlyRepaired(metadata)
                || table.getNeverPurgeTombstones();
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
