// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.launcher.cql.RowWriter;
import java.util.ArrayList;
import java.util.List;

/** The rows of a short result. */
final class Rows implements RowWriter {
    final List<Row> all = new ArrayList<>();

    @Override
    public void begin(List<String> columns) {
        // They are known.
    }

    @Override
    public void page(List<Row> page) {
        all.addAll(page);
    }

    @Override
    public void end() {
        // All are here.
    }
}
