// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * How versions of a table with the same columns are written: the columns' ids and the clusterings'
 * keys. Immutable.
 */
public final class RowLayout {
    private final TableMetadata table;
    public final ClusteringKeys clusterings;
    private final @Nullable ColumnMetadata[] byId;
    private final int[] places;
    private final Map<ColumnIdentifier, Integer> ids = new HashMap<>();

    /**
     * @param idsByName what the catalog knows; columns it does not know have no data
     */
    public RowLayout(TableMetadata table, Map<String, Integer> idsByName) {
        this.table = table;
        this.clusterings = new ClusteringKeys(table.comparator);
        int max = idsByName.values().stream().mapToInt(i -> i).max().orElse(0);
        this.byId = new ColumnMetadata[max + 1];
        this.places = new int[max + 1];
        int place = 0;
        for (ColumnMetadata column : table.regularAndStaticColumns()) {
            place++;
            Integer id = idsByName.get(column.name.toString());
            if (id == null) continue;
            byId[id] = column;
            places[id] = place;
            ids.put(column.name, id);
        }
    }

    /** Whether this is also how that version of the table is written. */
    public boolean fits(TableMetadata version) {
        return table.regularAndStaticColumns().equals(version.regularAndStaticColumns())
                && table.comparator.subtypes().equals(version.comparator.subtypes());
    }

    /** The column of an id; null if the table has it no more. */
    public @Nullable ColumnMetadata column(int id) {
        return id < byId.length ? byId[id] : null;
    }

    /** Where a column that the table has is in the order of rows' cells. */
    int place(int id) {
        return places[id];
    }

    /** The same with more ids. */
    public RowLayout with(Map<String, Integer> idsByName) {
        return new RowLayout(table, idsByName);
    }

    /** The id of a column; null if none was assigned. */
    public @Nullable Integer id(ColumnMetadata column) {
        return ids.get(column.name);
    }
}
