// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.Collection;
import java.util.List;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * The columns that a long read needs to derive terms, while ALTER may change the table. A filter
 * that was made before ALTER TABLE ADD leaves the new column out: a row that has a cell in that
 * column and nothing else would be taken for deleted. So each change of the schema makes a new
 * filter. One thread at a time.
 */
final class TermColumns {
    private final List<ColumnMetadata> indexed;
    private final boolean ofStaticRows;
    private @Nullable TableMetadata table;
    private @Nullable ColumnFilter filter;

    /**
     * @param ofStaticRows false if only other rows are read
     */
    TermColumns(Collection<ColumnMetadata> indexed, boolean ofStaticRows) {
        this.indexed = List.copyOf(indexed);
        this.ofStaticRows = ofStaticRows;
    }

    /** Returns the filter for the table as it is now. */
    @SuppressWarnings("ReferenceEquality") // each ALTER makes a new object
    ColumnFilter of(TableMetadata now) {
        ColumnFilter known = filter;
        if (known == null || table != now) {
            filter = known = RowTerms.filter(now, indexed, ofStaticRows);
            table = now;
        }
        return known;
    }
}
