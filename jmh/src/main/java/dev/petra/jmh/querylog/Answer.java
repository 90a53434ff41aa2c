// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.ColumnDefinition;
import com.datastax.oss.driver.api.core.cql.Row;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletionException;
import org.jspecify.annotations.Nullable;

/**
 * What a node said.
 *
 * @param content all that must be equal: names and types of columns, whether there are more pages,
 *     the values of the rows in their order, byte for byte; or the kind of error, without its text,
 *     which may name a place
 * @param text the beginning of it, for people
 * @param isError whether it is one
 */
record Answer(List<Object> content, String text, boolean isError) {
    private static final int ROWS_SHOWN = 3;
    private static final int MOST_CHARACTERS = 500;

    static Answer of(@Nullable AsyncResultSet rows, @Nullable Throwable failed) {
        if (rows == null) {
            Throwable error = failed instanceof CompletionException ? failed.getCause() : failed;
            if (error == null) throw new IllegalArgumentException("neither rows nor an error");
            return new Answer(
                    List.of(error.getClass().getSimpleName()), shortened(error.toString()), true);
        }
        List<Object> content = new ArrayList<>();
        StringBuilder text = new StringBuilder();
        for (ColumnDefinition column : rows.getColumnDefinitions()) {
            content.add(column.getName().asInternal());
            content.add(column.getType().asCql(true, false));
        }
        content.add(rows.hasMorePages());
        int count = 0;
        for (Row row : rows.currentPage()) {
            for (int i = 0; i < row.size(); i++) {
                ByteBuffer value = row.getBytesUnsafe(i);
                content.add(value == null ? "null" : value);
            }
            if (count++ < ROWS_SHOWN) text.append(row.getFormattedContents()).append(' ');
        }
        return new Answer(content, count + " rows: " + shortened(text.toString()), false);
    }

    private static String shortened(String text) {
        return text.length() <= MOST_CHARACTERS ? text : text.substring(0, MOST_CHARACTERS) + "…";
    }

    boolean isAs(Answer other) {
        return content.equals(other.content);
    }

    /** The kind of error. */
    String kind() {
        return content.get(0).toString();
    }
}
