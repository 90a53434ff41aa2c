// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.rocks.db.Catalog;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;

/**
 * What the parts of a stream refer to; the {@code dictionary} of their manifest. {@code
 * docs/FORMAT.md} has its bytes.
 *
 * @param dataParts how many parts hold rows; those behind them hold large cells
 * @param flags of the sender's {@link Catalog}
 * @param names of columns, by their ids
 * @param kindsAndTypes of the same columns
 */
record ColumnDictionary(int dataParts, int flags, List<String> names, List<String> kindsAndTypes) {
    private static final int MOST_COLUMNS = 1 << 16;

    /**
     * @param columns as {@link Catalog#columns} has them
     */
    static ColumnDictionary of(int dataParts, int flags, Map<String, String> columns) {
        List<@Nullable String> names = new ArrayList<>(Collections.nCopies(columns.size(), null));
        List<@Nullable String> types = new ArrayList<>(names);
        columns.forEach(
                (name, value) -> {
                    int space = value.indexOf(' ');
                    int id = Integer.parseInt(value.substring(0, space));
                    names.set(id, name);
                    types.set(id, value.substring(space + 1));
                });
        return new ColumnDictionary(dataParts, flags, List.copyOf(names), List.copyOf(types));
    }

    ByteBuffer encode() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeInt(dataParts);
            out.writeInt(flags);
            out.writeInt(names.size());
            for (int id = 0; id < names.size(); id++) {
                out.writeUTF(names.get(id));
                out.writeUTF(kindsAndTypes.get(id));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return ByteBuffer.wrap(bytes.toByteArray());
    }

    /**
     * Reads what {@link #encode} wrote.
     *
     * @throws IllegalArgumentException if it is something else
     */
    static ColumnDictionary decode(ByteBuffer bytes, int parts) {
        try (DataInputStream in =
                new DataInputStream(new ByteArrayInputStream(ByteBufferUtil.getArray(bytes)))) {
            int dataParts = in.readInt();
            int flags = in.readInt();
            int columns = in.readInt();
            if (dataParts < 0 || dataParts > parts || columns < 0 || columns > MOST_COLUMNS)
                throw new IllegalArgumentException(
                        "a dictionary of " + dataParts + " parts and " + columns + " columns");
            List<String> names = new ArrayList<>();
            List<String> types = new ArrayList<>();
            for (int id = 0; id < columns; id++) {
                names.add(in.readUTF());
                types.add(in.readUTF());
            }
            if (in.available() > 0 || names.stream().distinct().count() != columns)
                throw new IllegalArgumentException("a malformed dictionary");
            return new ColumnDictionary(dataParts, flags, names, types);
        } catch (IOException e) {
            throw new IllegalArgumentException("a malformed dictionary", e);
        }
    }
}
