// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.Collection;
import java.util.List;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * What a long read of a table, whose schema may change meanwhile, has to read of rows to derive
 * their terms. A filter leaves out all columns that its table has not: with that of a table before
 * an ALTER, a row that lives by a cell of an added column would not be there. One thread at a time.
 */
final class TermColumns {
    private final List<ColumnMetadata> indexed;
    private @Nullable TableMetadata table;
    private @Nullable ColumnFilter filter;

    TermColumns(Collection<ColumnMetadata> indexed) {
        this.indexed = List.copyOf(indexed);
    }

    /** {@link RowTerms#columns} of the table as it is now. */
    @SuppressWarnings("ReferenceEquality") // each ALTER makes another
    ColumnFilter of(TableMetadata now) {
        ColumnFilter known = filter;
        if (known == null || table != now) {
            filter = known = RowTerms.columns(now, indexed);
            table = now;
        }
        return known;
    }
}
