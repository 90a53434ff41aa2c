// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * Maps a table's columns to the ids in stored rows, and encodes its clusterings. Versions of the
 * table's metadata with the same columns share a layout. Immutable.
 */
public final class RowLayout {
    private final TableMetadata table;
    public final ClusteringKeys clusterings;
    private final @Nullable ColumnMetadata[] byId;
    private final int[] places;
    private final Map<ColumnIdentifier, Integer> ids = new HashMap<>();

    /**
     * @param idsByName the column ids of the catalog; a column without an id has no data
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

    /** Whether this layout also fits another version of the table's metadata. */
    public boolean fits(TableMetadata version) {
        return table.regularAndStaticColumns().equals(version.regularAndStaticColumns())
                && table.comparator.subtypes().equals(version.comparator.subtypes());
    }

    /** The column with an id; null if the table does not have it any more. */
    public @Nullable ColumnMetadata column(int id) {
        return id < byId.length ? byId[id] : null;
    }

    /**
     * The place, from 1, of a column among the table's regular and static columns, in Cassandra's
     * order.
     *
     * @param id of a column that the table has
     */
    int place(int id) {
        return places[id];
    }

    /**
     * The layout of the same columns after new ids were assigned.
     *
     * @param idsByName all ids, the previous ones included
     */
    public RowLayout with(Map<String, Integer> idsByName) {
        return new RowLayout(table, idsByName);
    }

    /** The id of a column; null if it has none yet. */
    public @Nullable Integer id(ColumnMetadata column) {
        return ids.get(column.name);
    }
}
