// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.stream.StreamSource;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UTFDataFormatException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What the entries of a slice refer to: the first block of each, and again when it has grown.
 * {@code docs/FORMAT.md} has its bytes.
 *
 * @param names of columns, by their ids
 * @param kindsAndTypes of the same columns
 */
record SliceColumns(List<String> names, List<String> kindsAndTypes) {
    /** The most bytes of encoded columns. */
    static final int MOST_BYTES = 16 << 20;

    /** No columns; all others extend this. */
    static final SliceColumns NONE = new SliceColumns(List.of(), List.of());

    static final int MOST_COLUMNS = 1 << 16;

    /** The most that {@link DataOutputStream#writeUTF} takes. */
    private static final int MOST_TYPE_BYTES = (1 << 16) - 1;

    /**
     * @param columns as {@link Catalog#columns} has them
     */
    static SliceColumns of(Map<String, String> columns) {
        List<@Nullable String> names = new ArrayList<>(Collections.nCopies(columns.size(), null));
        List<@Nullable String> types = new ArrayList<>(names);
        columns.forEach(
                (name, value) -> {
                    int space = value.indexOf(' ');
                    int id = Integer.parseInt(value.substring(0, space));
                    names.set(id, name);
                    types.set(id, value.substring(space + 1));
                });
        return new SliceColumns(List.copyOf(names), List.copyOf(types));
    }

    /**
     * The block of a slice that has these.
     *
     * @param table named in errors
     * @throws IOException if they are more than a peer takes
     */
    ByteBuffer block(String table) throws IOException {
        if (names.size() > MOST_COLUMNS)
            throw tooMuch(table, "its %d columns, dropped ones too".formatted(names.size()));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.write(BlockKind.COLUMNS);
        out.writeInt(names.size());
        for (int id = 0; id < names.size(); id++)
            try {
                out.writeUTF(names.get(id));
                out.writeUTF(kindsAndTypes.get(id));
            } catch (UTFDataFormatException e) {
                throw tooMuch(table, "the type of column " + names.get(id));
            }
        if (bytes.size() - 1 > MOST_BYTES) throw tooMuch(table, "the types of its columns");
        return ByteBuffer.wrap(bytes.toByteArray());
    }

    @SuppressWarnings("UnusedException")
    private static IOException tooMuch(String table, String what) {
        return new IOException(
                ("A stream of %s cannot say what its columns are: %s take more than there is room"
                                + " for (%d columns, %d bytes a type, %d bytes in all). Start the"
                                + " receiving node with -D%s=false, to be sent SSTables.")
                        .formatted(
                                table,
                                what,
                                MOST_COLUMNS,
                                MOST_TYPE_BYTES,
                                MOST_BYTES,
                                StreamSource.SLICES_PROPERTY));
    }

    /**
     * Reads what {@link #block} wrote.
     *
     * @param bytes of a block, behind its first one
     * @throws MalformedFragment if it is something else
     */
    static SliceColumns decode(ByteBuffer bytes) {
        if (bytes.remaining() > MOST_BYTES)
            throw new MalformedFragment("a dictionary of " + bytes.remaining() + " bytes");
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(copy))) {
            int columns = in.readInt();
            if (columns < 0 || columns > MOST_COLUMNS)
                throw new MalformedFragment("a dictionary of " + columns + " columns");
            List<String> names = new ArrayList<>();
            List<String> types = new ArrayList<>();
            for (int id = 0; id < columns; id++) {
                names.add(in.readUTF());
                types.add(in.readUTF());
            }
            if (in.available() > 0 || names.stream().distinct().count() != columns)
                throw new MalformedFragment("a malformed dictionary");
            return new SliceColumns(names, types);
        } catch (IOException e) {
            throw new MalformedFragment("a malformed dictionary", e);
        }
    }

    /** Whether all of another's are among these, under the same ids. */
    boolean extend(SliceColumns other) {
        int size = other.names.size();
        return names.size() >= size
                && names.subList(0, size).equals(other.names)
                && kindsAndTypes.subList(0, size).equals(other.kindsAndTypes);
    }

    /**
     * That of these and others which has the other's too.
     *
     * @throws MalformedFragment if neither has
     */
    SliceColumns joined(SliceColumns other) {
        if (extend(other)) return this;
        if (other.extend(this)) return other;
        throw new MalformedFragment("a dictionary that does not extend the one before");
    }
}
