// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.index;

import java.util.List;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.schema.TableMetadata;

/** Derives the entries of a row; the same for the same row. Called by several threads at once. */
@FunctionalInterface
public interface TermFunction {
    /**
     * Derives the entries of one row.
     *
     * @param row what one write or several left of a row, maybe a part of it, maybe deletions only;
     *     also a static row
     * @return those of every defined index; none of an index that was never defined
     */
    List<TermEntry> entries(DecoratedKey key, Row row);

    /**
     * The columns whose values {@link #entries} looks at; of those that are fetched and not
     * queried, it asks at most whether the row has a cell. Otherwise whoever reads rows to derive
     * their entries would hold all large values of a row at once. All columns by default.
     *
     * @param table as it is now, with the columns that it has dropped: a row may live by a cell of
     *     one of them alone, which may be added again
     */
    default ColumnFilter columns(TableMetadata table) {
        return ColumnFilter.all(table);
    }
}
