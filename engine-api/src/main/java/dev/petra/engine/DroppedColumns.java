// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;

/**
 * The columns that ALTER TABLE DROP took from a table. Their cells stay in its store, and those
 * that are newer than the drop show again, and let their row live, if the column is added again.
 */
public final class DroppedColumns {
    private DroppedColumns() {}

    /**
     * Returns the table as it would be if all its dropped columns were added again, for filters
     * that fetch these too; the same object if it has none.
     */
    public static TableMetadata addedAgain(TableMetadata table) {
        TableMetadata.Builder builder = null;
        for (DroppedColumn dropped : table.droppedColumns.values()) {
            if (table.getColumn(dropped.column.name) != null) continue;
            if (builder == null) builder = table.unbuild();
            builder.addColumn(dropped.column);
        }
        return builder == null ? table : builder.build();
    }
}
