// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.index;

import java.util.List;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.rows.Row;

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
}
