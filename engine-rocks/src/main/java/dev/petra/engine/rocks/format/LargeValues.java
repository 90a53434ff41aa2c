// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.schema.ColumnMetadata;
import org.jspecify.annotations.Nullable;

/** Fetches large values of the row that is being decoded; see {@link LargeCells}. */
public interface LargeValues {
    /**
     * The value of a cell; empty if the query does not select it or its filter leaves the cell out,
     * null if it is not stored.
     *
     * @param isDeleted whether a deletion of the same fragment, of the row or of the column, hides
     *     the cell, which stands in the fragment all the same
     */
    byte @Nullable [] value(
            int id,
            ColumnMetadata column,
            @Nullable CellPath path,
            long timestamp,
            long hash,
            boolean isDeleted);
}
