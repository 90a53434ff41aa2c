// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.schema.ColumnMetadata;
import org.jspecify.annotations.Nullable;

/** Values that lie apart from the row that is being decoded; see {@link LargeCells}. */
public interface LargeValues {
    /** A value; empty if it is not selected, null if it is there no more. */
    byte @Nullable [] value(
            int id, ColumnMetadata column, @Nullable CellPath path, long timestamp, long hash);
}
