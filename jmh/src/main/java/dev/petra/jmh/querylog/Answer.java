// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.ColumnDefinition;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.data.ByteUtils;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.concurrent.CompletionException;
import org.jspecify.annotations.Nullable;

/**
 * What a node said.
 *
 * @param digest of all that must be equal: names and types of columns, whether there are more
 *     pages, the values of the rows in their order, byte for byte; or of the kind of error, without
 *     its text, which may name a place
 * @param kind the kind of error; empty for none
 * @param rows how many rows; 0 for an error
 * @param text the beginning of it, for people
 */
@SuppressWarnings("ArrayRecordComponent") // Never compared.
record Answer(byte[] digest, String kind, int rows, String text) {
    private static final int ROWS_SHOWN = 3;
    private static final int MOST_CHARACTERS = 500;

    static Answer of(@Nullable AsyncResultSet rows, @Nullable Throwable failed) {
        if (rows == null) {
            Throwable error = failed instanceof CompletionException ? failed.getCause() : failed;
            if (error == null) throw new IllegalArgumentException("neither rows nor an error");
            String kind = error.getClass().getSimpleName();
            return new Answer(
                    new Content().add(kind).digest(), kind, 0, shortened(error.toString()));
        }
        Content content = new Content();
        StringBuilder text = new StringBuilder();
        for (ColumnDefinition column : rows.getColumnDefinitions())
            content.add(column.getName().asInternal()).add(column.getType().asCql(true, false));
        content.add(Boolean.toString(rows.hasMorePages()));
        int count = 0;
        for (Row row : rows.currentPage()) {
            for (int i = 0; i < row.size(); i++) content.add(row.getBytesUnsafe(i));
            if (count++ < ROWS_SHOWN) text.append(formatted(row)).append(' ');
        }
        return new Answer(
                content.digest(), "", count, count + " rows: " + shortened(text.toString()));
    }

    /** Its bytes, if a value is not of its column's type: a damaged one, say. */
    private static String formatted(Row row) {
        try {
            return row.getFormattedContents();
        } catch (RuntimeException e) {
            StringBuilder bytes = new StringBuilder("[");
            for (int i = 0; i < row.size(); i++)
                bytes.append(i == 0 ? "" : ", ")
                        .append(row.getColumnDefinitions().get(i).getName().asInternal())
                        .append(':')
                        .append(ByteUtils.toHexString(row.getBytesUnsafe(i)));
            return bytes.append(']').toString();
        }
    }

    /** Values, one behind the other, each with its length. */
    private static final class Content {
        private final MessageDigest digest;

        Content() {
            try {
                digest = MessageDigest.getInstance("SHA-256");
            } catch (NoSuchAlgorithmException e) {
                throw new IllegalStateException(e);
            }
        }

        Content add(String text) {
            return add(ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)));
        }

        Content add(@Nullable ByteBuffer value) {
            int length = value == null ? -1 : value.remaining();
            digest.update(ByteBuffer.allocate(Integer.BYTES).putInt(length).flip());
            if (value != null) digest.update(value.duplicate());
            return this;
        }

        byte[] digest() {
            return digest.digest();
        }
    }

    private static String shortened(String text) {
        return text.length() <= MOST_CHARACTERS ? text : text.substring(0, MOST_CHARACTERS) + "…";
    }

    boolean isAs(Answer other) {
        return Arrays.equals(digest, other.digest);
    }

    boolean isError() {
        return !kind.isEmpty();
    }
}
