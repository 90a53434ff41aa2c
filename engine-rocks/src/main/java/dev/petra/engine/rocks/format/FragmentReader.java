// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import static dev.petra.engine.rocks.format.Fragments.*;

import java.nio.ByteBuffer;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.ByteArrayAccessor;
import org.apache.cassandra.db.rows.ArrayCell;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.serializers.MarshalException;
import org.jspecify.annotations.Nullable;

/**
 * Reads values of fragments; see {@link Fragments}. Rows are reconciled by Cassandra's own {@link
 * Rows#merge}, oldest fragment first. What does not parse throws {@link MalformedFragment}.
 */
public final class FragmentReader {
    private static final byte[] EMPTY = new byte[0];

    private final ByteBuffer in;
    private final int end;
    private final @Nullable LargeValues large;

    // The fragment being read.
    private int head;
    private int bodyEnd;

    /**
     * Reads the buffer from its position to its limit.
     *
     * @param large fetches values that lie apart; null where there can be none
     */
    private FragmentReader(ByteBuffer in, @Nullable LargeValues large) {
        this.in = in;
        this.end = in.limit();
        this.large = large;
    }

    /** What a partition's own record says. */
    public record PartitionRecord(DeletionTime deletion, boolean hasRanges) {}

    /**
     * Reads a row.
     *
     * @param clustering as the key has it
     * @param fetched the columns that are wanted; null for all
     * @param large fetches values that lie apart; null where there can be none
     * @param cells for this use; of one thread, for one row after another
     * @return the row as it was written, not filtered beyond {@code fetched}; may be empty then
     */
    public static Row row(
            ByteBuffer value,
            Clustering<?> clustering,
            RowLayout columns,
            @Nullable ColumnFilter fetched,
            @Nullable LargeValues large,
            SimpleCells cells) {
        try {
            FragmentReader reader = new FragmentReader(value, large);
            Row row = reader.nextRow(clustering, columns, fetched, cells);
            while (reader.in.position() < reader.end)
                row = Rows.merge(row, reader.nextRow(row.clustering(), columns, fetched, cells));
            return row;
        } catch (IndexOutOfBoundsException
                | java.nio.BufferUnderflowException
                | IllegalArgumentException
                | NegativeArraySizeException
                // Paths are compared by their type, which may not take these bytes.
                | MarshalException
                | AssertionError e) {
            throw new MalformedFragment(e);
        }
    }

    /** What a row's fragments say, whatever the table's columns are now. */
    public interface Visitor {
        /** The timestamp of a liveness, a cell, or the deletion of a complex column. */
        void timestamp(long micros);

        /** The timestamp of the row's deletion. */
        void deletion(long micros);

        /**
         * A cell whose value lies apart.
         *
         * @param path null for a simple column
         */
        void large(int column, byte @Nullable [] path, long timestamp, long hash);

        /** The clustering's own bytes, where the key does not give them back; null for none. */
        default void clustering(byte[][] written) {}

        /** A complex column, before its cells. */
        default void complex(int column) {}

        /**
         * Any cell.
         *
         * @param path null for a simple column
         * @param flags of {@link Fragments}
         * @param valueBytes how many lie before the buffer's position, and are its value
         */
        default void cell(int column, byte @Nullable [] path, int flags, int valueBytes) {}

        /** The row's liveness expires, or a complex column is deleted. */
        default void purgeable() {}
    }

    /** Visits what a row's fragments say, unreconciled. */
    public static void visit(ByteBuffer value, Visitor visitor) {
        try {
            FragmentReader reader = new FragmentReader(value, null);
            while (reader.in.position() < reader.end) reader.visitFragment(visitor);
        } catch (IndexOutOfBoundsException
                | java.nio.BufferUnderflowException
                | IllegalArgumentException
                | NegativeArraySizeException e) {
            throw new MalformedFragment(e);
        }
    }

    private void visitFragment(Visitor visitor) {
        begin(ROW);
        long base = in.getLong();
        if ((head & ROW_LIVENESS) != 0) visitor.timestamp(base);
        if ((head & ROW_EXPIRING) != 0) {
            length();
            localTime();
            visitor.purgeable();
        }
        if ((head & ROW_DELETION) != 0) visitor.deletion(deletion(base).markedForDeleteAt());
        if ((head & ROW_CLUSTERING) != 0) visitor.clustering(prefix());
        while (in.position() < bodyEnd) {
            int number = length();
            if ((number & COLUMN_COMPLEX) == 0) {
                visitCell(number >>> 1, null, base, visitor);
                continue;
            }
            visitor.complex(number >>> 1);
            if (hasComplexDeletion()) {
                visitor.timestamp(deletion(base).markedForDeleteAt());
                visitor.purgeable();
            }
            for (int left = length(); left > 0; left--)
                visitCell(number >>> 1, bytes(), base, visitor);
        }
        finish();
    }

    private void visitCell(int column, byte @Nullable [] path, long base, Visitor visitor) {
        int start = in.position();
        int flags = cellFlags();
        long timestamp = (flags & CELL_TIMESTAMP) != 0 ? base + zigzag() : base;
        in.position(start);
        int valueBytes = skipCell();
        visitor.timestamp(timestamp);
        visitor.cell(column, path, flags, valueBytes);
        if ((flags & CELL_LARGE) != 0)
            visitor.large(column, path, timestamp, in.getLong(in.position() - Long.BYTES));
    }

    /** Reads a partition's own record. */
    public static PartitionRecord partition(ByteBuffer value) {
        try {
            FragmentReader reader = new FragmentReader(value, null);
            DeletionTime deletion = DeletionTime.LIVE;
            boolean hasRanges = false;
            while (reader.in.position() < reader.end) {
                reader.begin(PARTITION);
                hasRanges |= (reader.head & (PARTITION_HAS_RANGES | PARTITION_RANGES)) != 0;
                if ((reader.head & PARTITION_DELETION) != 0) {
                    DeletionTime next = reader.fixedDeletion();
                    if (next.supersedes(deletion)) deletion = next;
                }
                if ((reader.head & PARTITION_RANGES) != 0) reader.fixedDeletion();
                reader.finish();
            }
            return new PartitionRecord(deletion, hasRanges);
        } catch (IndexOutOfBoundsException
                | java.nio.BufferUnderflowException
                | IllegalArgumentException e) {
            throw new MalformedFragment(e);
        }
    }

    /** What a range tombstone's value says: the slice, and what deletes it. */
    public record RangeRecord(Slice slice, DeletionTime deletion) {}

    /**
     * Reads a range tombstone.
     *
     * @param slice as the key has it
     */
    public static RangeRecord range(ByteBuffer value, Slice slice) {
        try {
            FragmentReader reader = new FragmentReader(value, null);
            DeletionTime deletion = DeletionTime.LIVE;
            Slice written = slice;
            boolean first = true;
            while (reader.in.position() < reader.end) {
                reader.begin(RANGE);
                DeletionTime next = reader.fixedDeletion();
                if (next.supersedes(deletion)) deletion = next;
                if ((reader.head & RANGE_BOUNDS) != 0) {
                    ClusteringBound<?> start = reader.bound(slice.start().kind());
                    ClusteringBound<?> stop = reader.bound(slice.end().kind());
                    if (first) written = Slice.make(start, stop);
                }
                first = false;
                reader.finish();
            }
            return new RangeRecord(written, deletion);
        } catch (IndexOutOfBoundsException
                | java.nio.BufferUnderflowException
                | NegativeArraySizeException
                | IllegalArgumentException e) {
            throw new MalformedFragment(e);
        }
    }

    /** A range tombstone's timestamp, as far as its oldest fragment says; makes no object. */
    public static long oldestRangeTimestamp(ByteBuffer value) {
        try {
            int at = value.position() + 1;
            while (value.get(at) < 0) at++;
            return value.getLong(at + 1);
        } catch (IndexOutOfBoundsException e) {
            throw new MalformedFragment(e);
        }
    }

    private void begin(int kind) {
        head = in.get() & 0xFF;
        if ((head & KIND_MASK) != kind || (head & unknownFlags(kind)) != 0)
            throw new IllegalArgumentException("head byte " + head);
        int length = length();
        bodyEnd = in.position() + length;
        if (bodyEnd > end || bodyEnd < 0) throw new IllegalArgumentException("length " + length);
    }

    private void finish() {
        if (in.position() != bodyEnd) throw new IllegalArgumentException("body is not consumed");
    }

    private Row nextRow(
            Clustering<?> keyClustering,
            RowLayout columns,
            @Nullable ColumnFilter fetched,
            SimpleCells simple) {
        begin(ROW);
        long base = in.getLong();
        LivenessInfo liveness = LivenessInfo.EMPTY;
        if ((head & ROW_LIVENESS) != 0) {
            int ttl = LivenessInfo.NO_TTL;
            long expiration = LivenessInfo.NO_EXPIRATION_TIME;
            if ((head & ROW_EXPIRING) != 0) {
                ttl = length();
                expiration = localTime();
            }
            liveness = LivenessInfo.withExpirationTime(base, ttl, expiration);
        }
        Row.Deletion deletion = Row.Deletion.LIVE;
        if ((head & ROW_DELETION) != 0) {
            DeletionTime time = deletion(base);
            deletion = (head & ROW_SHADOWABLE) != 0 ? shadowable(time) : Row.Deletion.regular(time);
        }
        Clustering<?> clustering = keyClustering;
        if ((head & ROW_CLUSTERING) != 0) {
            Clustering<?> written = ByteArrayAccessor.factory.clustering(prefix());
            // The oldest fragment's bytes stand, as the first write's do in a memtable.
            clustering = written;
        }
        Row row = cells(base, liveness, deletion, clustering, columns, fetched, simple);
        finish();
        return row;
    }

    @SuppressWarnings("deprecation") // shadowable deletions may still be in old views' data
    private static Row.Deletion shadowable(DeletionTime time) {
        return Row.Deletion.shadowable(time);
    }

    private Row cells(
            long base,
            LivenessInfo liveness,
            Row.Deletion deletion,
            Clustering<?> clustering,
            RowLayout columns,
            @Nullable ColumnFilter fetched,
            SimpleCells simple) {
        int start = in.position();
        simple.clear();
        int last = -1;
        while (in.position() < bodyEnd) {
            int number = length();
            int id = number >>> 1;
            boolean complex = (number & COLUMN_COMPLEX) != 0;
            ColumnMetadata column = wanted(id, complex, columns, fetched);
            if (column == null) {
                if (complex) skipComplex();
                else skipCell();
                continue;
            }
            int place = columns.place(id);
            if (complex || place <= last) {
                // Complex columns, ids that do not follow the schema's order, or cells of one
                // column that only their values, which lie apart, can decide between.
                in.position(start);
                return general(base, liveness, deletion, clustering, columns, fetched);
            }
            Cell<?> cell = cell(id, column, null, base, liveness);
            if (cell != null) simple.add(cell);
            last = place;
        }
        return simple.row(clustering, liveness, deletion);
    }

    private Row general(
            long base,
            LivenessInfo liveness,
            Row.Deletion deletion,
            Clustering<?> clustering,
            RowLayout columns,
            @Nullable ColumnFilter fetched) {
        Row.Builder builder = BTreeRow.unsortedBuilder();
        builder.newRow(clustering);
        builder.addPrimaryKeyLivenessInfo(liveness);
        builder.addRowDeletion(deletion);
        while (in.position() < bodyEnd) {
            int number = length();
            int id = number >>> 1;
            boolean complex = (number & COLUMN_COMPLEX) != 0;
            ColumnMetadata column = wanted(id, complex, columns, fetched);
            if (!complex) {
                if (column == null) skipCell();
                else add(builder, cell(id, column, null, base, liveness));
                continue;
            }
            if (column == null) {
                skipComplex();
                continue;
            }
            if (hasComplexDeletion()) builder.addComplexDeletion(column, deletion(base));
            for (int left = length(); left > 0; left--) {
                CellPath path = CellPath.create(ByteBuffer.wrap(bytes()));
                add(builder, cell(id, column, path, base, liveness));
            }
        }
        return builder.build();
    }

    private static void add(Row.Builder builder, @Nullable Cell<?> cell) {
        if (cell != null) builder.addCell(cell);
    }

    private static @Nullable ColumnMetadata wanted(
            int id, boolean complex, RowLayout columns, @Nullable ColumnFilter fetched) {
        ColumnMetadata column = columns.column(id);
        return column != null
                        && column.isComplex() == complex
                        && (fetched == null || fetched.fetches(column))
                ? column
                : null;
    }

    /**
     * @return null if the value lies apart and is there no more: nothing refers to it then
     */
    private @Nullable Cell<?> cell(
            int id,
            ColumnMetadata column,
            @Nullable CellPath path,
            long base,
            LivenessInfo liveness) {
        int flags = cellFlags();
        long timestamp = (flags & CELL_TIMESTAMP) != 0 ? base + zigzag() : base;
        int ttl = Cell.NO_TTL;
        long deletionTime = Cell.NO_DELETION_TIME;
        if ((flags & CELL_ROW_EXPIRY) != 0) {
            ttl = liveness.ttl();
            deletionTime = liveness.localExpirationTime();
        } else if ((flags & (CELL_EXPIRING | CELL_TOMBSTONE)) != 0) {
            if ((flags & CELL_EXPIRING) != 0) ttl = length();
            deletionTime = localTime();
        }
        boolean counter = column.isCounterColumn() && (flags & CELL_TOMBSTONE) == 0;
        if (counter != ((flags & CELL_COUNTER) != 0))
            throw new IllegalArgumentException("cell flags " + flags + " of " + column);
        byte[] value = (flags & CELL_VALUE) != 0 ? bytes() : EMPTY;
        if ((flags & CELL_LARGE) != 0) {
            long hash = in.getLong();
            if (large == null) throw new IllegalArgumentException("a large cell");
            byte[] apart = large.value(id, column, path, timestamp, hash);
            if (apart == null) return null;
            value = apart;
        }
        return new ArrayCell(column, timestamp, ttl, deletionTime, value, path);
    }

    private void skipComplex() {
        if (hasComplexDeletion()) {
            varint();
            skip(Integer.BYTES);
        }
        for (int left = length(); left > 0; left--) {
            skip(length());
            skipCell();
        }
    }

    private boolean hasComplexDeletion() {
        int flags = in.get();
        if ((flags & ~COMPLEX_DELETION) != 0)
            throw new IllegalArgumentException("complex column flags " + flags);
        return flags != 0;
    }

    /** Returns the length of its value. */
    private int skipCell() {
        int flags = cellFlags();
        if ((flags & CELL_TIMESTAMP) != 0) varint();
        if ((flags & CELL_ROW_EXPIRY) == 0) {
            if ((flags & CELL_EXPIRING) != 0) varint();
            if ((flags & (CELL_EXPIRING | CELL_TOMBSTONE)) != 0) skip(Integer.BYTES);
        }
        int value = (flags & CELL_VALUE) != 0 ? length() : 0;
        skip(value);
        if ((flags & CELL_LARGE) != 0) skip(Long.BYTES);
        return value;
    }

    private int cellFlags() {
        int flags = in.get() & 0xFF;
        if ((flags & CELL_UNKNOWN) != 0) throw new IllegalArgumentException("cell flags " + flags);
        return flags;
    }

    private void skip(int bytes) {
        in.position(in.position() + bytes);
    }

    private DeletionTime deletion(long base) {
        long timestamp = base + zigzag();
        return DeletionTime.build(timestamp, localTime());
    }

    private DeletionTime fixedDeletion() {
        long timestamp = in.getLong();
        return DeletionTime.build(timestamp, localTime());
    }

    private long localTime() {
        return Cell.deletionTimeUnsignedIntegerToLong(in.getInt());
    }

    private ClusteringBound<?> bound(ClusteringPrefix.Kind kind) {
        return ByteArrayAccessor.factory.bound(kind, prefix());
    }

    @SuppressWarnings("NullAway") // Cassandra's clusterings hold nulls
    private byte[][] prefix() {
        // Each takes a byte at least.
        byte[][] values = new byte[within(length())][];
        for (int i = 0; i < values.length; i++) {
            int length = length();
            if (length == 0) continue;
            values[i] = new byte[within(length - 1)];
            in.get(values[i]);
        }
        return values;
    }

    /** Checks a length before memory is taken for it. */
    private int within(int length) {
        if (length > bodyEnd - in.position())
            throw new IllegalArgumentException("length " + length);
        return length;
    }

    private byte[] bytes() {
        byte[] bytes = new byte[within(length())];
        in.get(bytes);
        return bytes;
    }

    private int length() {
        long v = varint();
        if (v < 0 || v > Integer.MAX_VALUE) throw new IllegalArgumentException("length " + v);
        return (int) v;
    }

    private long zigzag() {
        long v = varint();
        return (v >>> 1) ^ -(v & 1);
    }

    private long varint() {
        byte b = in.get();
        if (b >= 0) return b;
        long v = b & 0x7F;
        for (int shift = 7; shift < 64; shift += 7) {
            b = in.get();
            v |= (long) (b & 0x7F) << shift;
            if (b >= 0) return v;
        }
        throw new IllegalArgumentException("varint too long");
    }
}
