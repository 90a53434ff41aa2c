// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import static dev.petra.engine.rocks.format.Fragments.*;

import dev.petra.engine.host.Liveness;
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
 * Reads values, which consist of {@link Fragments}, and reconciles the fragments of a row by
 * Cassandra's {@link Rows#merge}, oldest first. All methods throw {@link MalformedFragment} if the
 * bytes cannot be parsed.
 */
public final class FragmentReader {
    private static final byte[] EMPTY = new byte[0];

    /** A row without flags, in a body of 8 bytes, which are 0. */
    private static final short REMAINS_HEAD = ROW << Byte.SIZE | Long.BYTES;

    private static final int REMAINS_BYTES = Short.BYTES + Long.BYTES;

    /** More than a clustering has columns, and few enough to make an array of. */
    private static final int MOST_COMPONENTS = 0xFFFF;

    private final ByteBuffer in;
    private final int end;
    private final @Nullable LargeValues large;

    // The fragment being read.
    private int head;
    private int bodyEnd;

    /** Up to which timestamp the row's deletion hides cells. */
    private long rowHides;

    /** The same of the deletion of the complex column that is being read. */
    private long columnHides;

    /**
     * Makes a reader of a buffer from its position to its limit.
     *
     * @param large fetches large values; null where there can be none
     */
    private FragmentReader(ByteBuffer in, @Nullable LargeValues large) {
        this.in = in;
        this.end = in.limit();
        this.large = large;
    }

    /** The partition's deletion, and whether it has or had range tombstones. */
    public record PartitionRecord(DeletionTime deletion, boolean hasRanges) {}

    /**
     * Reads a row.
     *
     * @param clustering the clustering that was decoded from the key
     * @param fetched the columns to read; null for all
     * @param large fetches large values; null where there can be none
     * @param cells working space, which a thread reuses for one row after another
     * @return the row with the cells that {@code fetched} fetches, and otherwise unfiltered; it may
     *     be empty
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
            reader.skipRemains();
            Row row = reader.nextRow(clustering, columns, fetched, cells);
            while (reader.in.position() < reader.end)
                row = Rows.merge(row, reader.nextRow(row.clustering(), columns, fetched, cells));
            return row;
        } catch (IndexOutOfBoundsException
                | java.nio.BufferUnderflowException
                | IllegalArgumentException
                | NegativeArraySizeException
                // The comparator of cell paths may refuse their bytes.
                | MarshalException
                | AssertionError e) {
            throw new MalformedFragment(e);
        }
    }

    /** Is told what a row's fragments contain, whatever columns the table has now. */
    public interface Visitor {
        /** The timestamp of the row's liveness, a cell, or the deletion of a complex column. */
        void timestamp(long micros);

        /** The timestamp of the row's deletion. */
        void deletion(long micros);

        /**
         * A cell with a large value. Called after {@link #cell} for the same cell.
         *
         * @param path null for a simple column
         * @param hash of the value
         */
        void large(int column, byte @Nullable [] path, long timestamp, long hash);

        /**
         * The clustering's written bytes, if decoding the key does not return them; an element is
         * null for a null component.
         */
        default void clustering(byte[][] written) {}

        /** A complex column; its cells follow. */
        default void complex(int column) {}

        /**
         * Any cell.
         *
         * @param path null for a simple column
         * @param flags the cell flags of {@link Fragments}
         * @param valueBytes the length of the value, which ends at the position of the visited
         *     buffer; 0 for a large value
         */
        default void cell(int column, byte @Nullable [] path, int flags, int valueBytes) {}

        /** Called if the row's liveness expires, and if a complex column has a deletion. */
        default void purgeable() {}
    }

    /** Visits each fragment of a row, without reconciling them. */
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

    /** Reads the record of a partition. */
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

    /** A range tombstone: a slice and its deletion. */
    public record RangeRecord(Slice slice, DeletionTime deletion) {}

    /**
     * Reads a range tombstone.
     *
     * @param slice the slice that was decoded from the key
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

    /** The timestamp of a range tombstone's oldest fragment. Allocates nothing. */
    public static long oldestRangeTimestamp(ByteBuffer value) {
        try {
            int at = value.position() + 1;
            while (value.get(at) < 0) at++;
            return value.getLong(at + 1);
        } catch (IndexOutOfBoundsException e) {
            throw new MalformedFragment(e);
        }
    }

    /**
     * Passes over what a purge has left of a row, if more was written since: the row has the
     * clustering that was written then.
     */
    private void skipRemains() {
        int start = in.position();
        if (end - start > REMAINS_BYTES
                && in.getShort(start) == REMAINS_HEAD
                && in.getLong(start + Short.BYTES) == 0) in.position(start + REMAINS_BYTES);
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
            liveness = Liveness.withExpirationTime(base, ttl, expiration);
        }
        Row.Deletion deletion = Row.Deletion.LIVE;
        if ((head & ROW_DELETION) != 0) {
            DeletionTime time = deletion(base);
            deletion = (head & ROW_SHADOWABLE) != 0 ? shadowable(time) : Row.Deletion.regular(time);
            // As in Row.Merger; a row of Cassandra's may not have both.
            if (deletion.isShadowedBy(liveness)) deletion = Row.Deletion.LIVE;
        }
        rowHides = deletion.time().markedForDeleteAt();
        columnHides = Long.MIN_VALUE;
        Clustering<?> clustering = keyClustering;
        if ((head & ROW_CLUSTERING) != 0) {
            Clustering<?> written = ByteArrayAccessor.factory.clustering(prefix());
            // The row keeps the clustering of its oldest fragment, as in a memtable that of the
            // first write is kept.
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
        simple.clear();
        int last = -1;
        while (in.position() < bodyEnd) {
            int start = in.position();
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
                // A complex column, a column id that does not follow the schema's order, or several
                // cells of one column, between which only their large values decide.
                in.position(start);
                return general(base, liveness, deletion, clustering, columns, fetched, simple);
            }
            Cell<?> cell = cell(id, column, null, base, liveness);
            if (cell != null) simple.add(cell);
            last = place;
        }
        return simple.row(clustering, liveness, deletion);
    }

    /**
     * Any row.
     *
     * @param before the cells that were read already: not again, since large values may be among
     *     them
     */
    private Row general(
            long base,
            LivenessInfo liveness,
            Row.Deletion deletion,
            Clustering<?> clustering,
            RowLayout columns,
            @Nullable ColumnFilter fetched,
            SimpleCells before) {
        Row.Builder builder = BTreeRow.unsortedBuilder();
        builder.newRow(clustering);
        builder.addPrimaryKeyLivenessInfo(liveness);
        builder.addRowDeletion(deletion);
        before.addTo(builder);
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
            if (hasComplexDeletion()) {
                DeletionTime ofColumn = deletion(base);
                builder.addComplexDeletion(column, ofColumn);
                columnHides = ofColumn.markedForDeleteAt();
            }
            for (int left = length(); left > 0; left--) {
                CellPath path = CellPath.create(ByteBuffer.wrap(bytes()));
                add(builder, cell(id, column, path, base, liveness));
            }
            columnHides = Long.MIN_VALUE;
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
     * Reads a cell.
     *
     * @return null if the cell has a large value that is not stored any more: the cell has been
     *     replaced, or does not exist
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
            ttl = Liveness.ttl(liveness);
            deletionTime = Liveness.localExpirationTime(liveness);
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
            boolean isDeleted = timestamp <= Math.max(rowHides, columnHides);
            byte[] apart = large.value(id, column, path, timestamp, hash, isDeleted);
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

    /** Skips a cell, and returns the length of its value. */
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
        int count = length();
        if (count > MOST_COMPONENTS) throw new IllegalArgumentException("components: " + count);
        // Each component takes at least one byte.
        byte[][] values = new byte[within(count)][];
        for (int i = 0; i < values.length; i++) {
            int length = length();
            if (length == 0) continue;
            values[i] = new byte[within(length - 1)];
            in.get(values[i]);
        }
        return values;
    }

    /** Checks that a length fits into the body, before memory of that size is allocated. */
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
