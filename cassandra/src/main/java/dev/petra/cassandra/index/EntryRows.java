// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import dev.petra.engine.TableStore;
import java.util.List;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * Reads the rows that entries of one index lead to, for a sweep: all of them once, so caches get as
 * little of them as can be. One thread at a time.
 */
final class EntryRows {
    private final TableStore store;
    private final TermColumns columns;

    /** Without static columns: an engine may read one row by one key then. */
    private final TermColumns columnsOfRows;

    EntryRows(TableStore store, ColumnMetadata indexed) {
        this.store = store;
        this.columns = new TermColumns(List.of(indexed), true);
        this.columnsOfRows = new TermColumns(List.of(indexed), false);
    }

    /**
     * Returns the row of an entry with what terms are derived of; null, or an empty one, if there
     * is none.
     *
     * @param table as it is now
     */
    @Nullable Row row(TableMetadata table, DecoratedKey key, Clustering<?> clustering) {
        boolean isStatic = clustering.kind() == ClusteringPrefix.Kind.STATIC_CLUSTERING;
        Slices slices =
                isStatic ? Slices.NONE : Slices.with(table.comparator, Slice.make(clustering));
        TermColumns wanted = isStatic ? columns : columnsOfRows;
        try (UnfilteredRowIterator rows = store.readAside(key, slices, wanted.of(table), false)) {
            if (rows == null) return null;
            if (isStatic) return rows.staticRow();
            while (rows.hasNext()) {
                Unfiltered next = rows.next();
                if (next instanceof Row row) return row;
            }
            return null;
        }
    }
}
