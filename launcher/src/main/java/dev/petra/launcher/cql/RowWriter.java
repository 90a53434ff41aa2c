// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

import com.datastax.oss.driver.api.core.cql.Row;
import java.io.PrintWriter;
import java.util.List;

/** Shows the rows of one result. */
public interface RowWriter {
    /** Takes the names of the columns, once and first; not called for a result without columns. */
    void begin(List<String> columns);

    /** Takes the rows of a page, in order; the list is the caller's. */
    void page(List<Row> rows);

    /** Called once and last, after {@link #begin}. */
    void end();

    /** Flushes; a full disk or a reader that has gone is an error, and nobody reads on for it. */
    static void flush(PrintWriter out) {
        if (out.checkError()) throw new CqlException("cannot write the output");
    }
}
