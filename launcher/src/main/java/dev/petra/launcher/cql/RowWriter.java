// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

import com.datastax.oss.driver.api.core.cql.Row;
import java.io.PrintWriter;
import java.util.List;

/**
 * Writes the rows of one result. Call {@link #begin}, {@link #page} for each page, {@link #end}.
 */
public interface RowWriter {
    /** Takes the names of the columns. Not called for a result without columns. */
    void begin(List<String> columns);

    /** Takes the rows of a page, in order. Does not keep the list. */
    void page(List<Row> rows);

    /** Called after the last page. */
    void end();

    /**
     * Flushes the output.
     *
     * @throws CqlException if the output cannot be written, as on a full disk or a closed pipe:
     *     there is no use in reading further rows then
     */
    static void flush(PrintWriter out) {
        if (out.checkError()) throw new CqlException("cannot write the output");
    }
}
