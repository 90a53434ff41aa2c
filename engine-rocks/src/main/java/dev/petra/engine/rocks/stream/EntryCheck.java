// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static dev.petra.engine.rocks.format.Fragments.*;

import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.ClusteringKeys;
import dev.petra.engine.rocks.format.FragmentReader;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.LargeCells;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.format.PartitionKeys;
import dev.petra.engine.rocks.format.RowLayout;
import dev.petra.engine.rocks.format.TokenRanges;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringComparator;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.ByteArrayAccessor;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.db.marshal.CollectionType;
import org.apache.cassandra.db.marshal.DecimalType;
import org.apache.cassandra.db.marshal.ReversedType;
import org.apache.cassandra.db.marshal.ShortType;
import org.apache.cassandra.db.marshal.UserType;
import org.apache.cassandra.db.marshal.ValueAccessor;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.serializers.MarshalException;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;

/**
 * Looks at every entry of one slice that another node has made: whether its key is one that this
 * table writes, or former versions wrote, to the last byte, in its place, and whether the value
 * belongs under such a key. The native parser reads each value once more. A read of what passes
 * both does not fail. One slice, one thread.
 *
 * <p>What it does not ask is whether the data is true: a peer may leave out or invent rows, as any
 * replica may.
 */
final class EntryCheck {
    /** The size of the header of a counter's context, as in {@code CounterContext}. */
    private static final int COUNTER_HEADER = Short.BYTES;

    private static final int COUNTER_SHARD = 32;

    /** In a key, of a clustering column: escapes at most double what Cassandra writes. */
    private static final int MOST_COLUMN = 2 * (FBUtilities.MAX_UNSIGNED_SHORT + 1);

    private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

    private final boolean isData;
    private final Supplier<TableMetadata> current;

    // What the dictionary says, and the schema
    private List<String> names = List.of();
    private TableMetadata table;
    private RowLayout form;

    /** The most bytes of a clustering in a key; two bounds may have twice as many. */
    private int mostClustering;

    /** How former versions wrote clusterings; null where they wrote all as now. */
    private @Nullable ClusteringKeys former;

    private int @Nullable [] ids;

    /** By their ids, those of which the table's schema says nothing; null for the others. */
    private @Nullable String[] unknown = {};

    private final PartitionKeys partitions;
    private final IPartitioner partitioner;
    private final List<TokenRanges.KeyRange> notOwned;
    private final ByteSink rebuilt = new ByteSink();

    private final RowCheck row = new RowCheck();

    // The entry that is looked at
    private ByteBuffer keyBuffer = ByteBuffer.allocate(0);
    private ByteBuffer keyPart = ByteBuffer.allocate(0);
    private ByteBuffer valueBuffer = NOTHING;

    /** Where in its key the clustering of a row begins. */
    private int clusteringAt;

    private int gap;

    /** The last key; nothing before the first. */
    private byte[] last = {};

    private int lastLength;

    /** The length of the position of the partition of the key that was looked at last. */
    private int position;

    private boolean beginsPartition;

    private int flags;

    /**
     * To be told the {@link #columns} before the first entry.
     *
     * @param current asks for the table as it is then
     * @param isData whether it is of the rows of the slice, not of its large cells
     * @param notOwned in their order
     */
    EntryCheck(
            Supplier<TableMetadata> current,
            PartitionKeys partitions,
            boolean isData,
            List<TokenRanges.KeyRange> notOwned) {
        this.isData = isData;
        this.current = current;
        this.table = current.get();
        this.form = new RowLayout(table, Map.of());
        this.mostClustering = mostClustering(table.comparator);
        this.former = ClusteringKeys.former(table.comparator);
        this.partitions = partitions;
        this.partitioner = table.partitioner;
        this.notOwned = notOwned;
    }

    /**
     * What the entries that follow refer to, in the table as it is now.
     *
     * @param all names of columns, by their ids
     */
    void columns(List<String> all) {
        names = all;
        schema(current.get());
    }

    private void schema(TableMetadata of) {
        table = of;
        Map<String, Integer> idsByName = new HashMap<>();
        for (int id = 0; id < names.size(); id++) idsByName.put(names.get(id), id);
        form = new RowLayout(of, idsByName);
        mostClustering = mostClustering(of.comparator);
        former = ClusteringKeys.former(of.comparator);
        unknown = names.toArray(String[]::new);
        for (ColumnMetadata column : of.columns()) isKnown(idsByName.get(column.name.toString()));
        for (DroppedColumn dropped : of.droppedColumns.values())
            isKnown(idsByName.get(dropped.column.name.toString()));
        ids = isData ? IntStream.range(0, names.size()).toArray() : null;
    }

    /**
     * Where a key may have decimals, all of it is bounded: one of 16 MiB would be read for hours. A
     * bound beside a decimal cannot be longer then, which Cassandra would let it.
     */
    private static int mostClustering(ClusteringComparator comparator) {
        List<AbstractType<?>> types = comparator.subtypes();
        return types.stream().anyMatch(EntryCheck::hasDecimal)
                ? types.size() * MOST_COLUMN
                : Integer.MAX_VALUE / 2;
    }

    /** Cassandra reads and writes their keys in the square of the time that others take. */
    private static boolean hasDecimal(AbstractType<?> type) {
        AbstractType<?> base = type instanceof ReversedType<?> reversed ? reversed.baseType : type;
        return base instanceof DecimalType
                || base.subTypes().stream().anyMatch(EntryCheck::hasDecimal);
    }

    /** Whether the table's schema has the columns, or had them. */
    boolean knowsAll() {
        for (String name : unknown) if (name != null) return false;
        return true;
    }

    private void isKnown(@Nullable Integer id) {
        if (id != null) unknown[id] = null;
    }

    /** The ids of columns that a value may refer to; null where values are no fragments. */
    int @Nullable [] ids() {
        return ids;
    }

    /** Which of {@link Catalog.Flag} what was looked at needs. */
    int flags() {
        return flags;
    }

    /** Where the values of the next entries lie, until {@link #forget}. */
    void block(ByteBuffer in) {
        valueBuffer = in.duplicate();
    }

    /**
     * Looks at the next entry. One that was refused may be looked at again.
     *
     * @param valueAt where in the block its value begins
     * @throws MalformedFragment if it is not what this table has there
     * @throws NotTaken if it has cells of a column that the schema has not, nor had, or of a field
     *     that it has not, or a local shard of a counter
     */
    void look(byte[] key, int keyLength, int valueAt, int valueLength) {
        if (keyBuffer.array() != key) {
            keyBuffer = ByteBuffer.wrap(key);
            keyPart = ByteBuffer.wrap(key);
        }
        try {
            lookOnce(key, keyLength, valueAt, valueLength);
        } catch (MalformedFragment | NotTaken e) {
            // The sender may know an ALTER that has come since: a dictionary comes for new columns
            // only, and not for the new fields of a type.
            TableMetadata now = current.get();
            if (now.equals(table)) throw e;
            schema(now);
            lookOnce(key, keyLength, valueAt, valueLength);
        }
    }

    private void lookOnce(byte[] key, int keyLength, int valueAt, int valueLength) {
        look(
                key,
                keyBuffer.clear().limit(keyLength),
                valueBuffer.clear().limit(valueAt + valueLength).position(valueAt));
    }

    /** Lets go of the block in which the last value lay. */
    void forget() {
        valueBuffer = NOTHING;
        row.of(Clustering.STATIC_CLUSTERING, valueBuffer);
    }

    /** Whether the last entry is the first of its partition. */
    boolean beginsPartition() {
        return beginsPartition;
    }

    /** The last key. */
    byte[] last() {
        return Arrays.copyOf(last, lastLength);
    }

    private void look(byte[] key, ByteBuffer rest, ByteBuffer value) {
        int length = rest.limit();
        try {
            order(key, length);
            partition(key, rest);
            int kind = rest.get() & 0xFF;
            if (isData) row(kind, rest, value);
            else large(kind, rest, value);
        } catch (MalformedFragment e) {
            throw at(key, length, e);
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | NegativeArraySizeException
                | BufferUnderflowException
                | MarshalException
                // Cassandra's types may throw this for bytes that are none of theirs.
                | IllegalStateException
                | ArithmeticException
                | ClassCastException
                | NullPointerException
                | AssertionError e) {
            throw at(key, length, e);
        }
        if (last.length < length) last = new byte[2 * length];
        System.arraycopy(key, 0, last, 0, length);
        lastLength = length;
    }

    private static MalformedFragment at(byte[] key, int length, Throwable e) {
        String shown = ByteBufferUtil.bytesToHex(ByteBuffer.wrap(key, 0, Math.min(length, 512)));
        return new MalformedFragment(
                "malformed entry under key " + shown + ": " + e.getMessage(), e);
    }

    private static void refuseUnless(boolean holds, String what) {
        if (!holds) throw new MalformedFragment(what);
    }

    private void order(byte[] key, int length) {
        if (lastLength > 0)
            refuseUnless(
                    Arrays.compareUnsigned(last, 0, lastLength, key, 0, length) < 0,
                    "it is not behind the one before");
        while (gap < notOwned.size() && compare(notOwned.get(gap).to(), key, length) <= 0) gap++;
        refuseUnless(
                gap == notOwned.size() || compare(notOwned.get(gap).from(), key, length) > 0,
                "it has keys that this node does not own");
    }

    private static int compare(byte[] bound, byte[] key, int length) {
        return Arrays.compareUnsigned(bound, 0, bound.length, key, 0, length);
    }

    /** Leaves the buffer behind the partition's position. */
    private void partition(byte[] key, ByteBuffer rest) {
        // No position is a prefix of another. It may be that of an entry that was refused, which
        // is not the last.
        if (lastLength > 0
                && lastLength >= position
                && rest.limit() > position
                && Arrays.equals(last, 0, position, key, 0, position)) {
            beginsPartition = false;
            rest.position(position);
            return;
        }
        ByteBuffer bytes = partitions.get(rest).getKey();
        if (!bytes.hasRemaining() || bytes.remaining() > FBUtilities.MAX_UNSIGNED_SHORT)
            throw new MalformedFragment("a partition key of " + bytes.remaining() + " bytes");
        // The token must be that of the key, and the position in the one form in which it is
        // written.
        DecoratedKey decorated = partitioner.decorateKey(bytes);
        rebuilt.clear();
        partitions.put(rebuilt, decorated);
        refuseUnless(isRebuilt(rest, 0), "the token is not that of the partition key");
        position = rest.position();
        beginsPartition = true;
    }

    /** Whether what lies between a place and the buffer's position was rebuilt to the byte. */
    private boolean isRebuilt(ByteBuffer rest, int from) {
        return rebuilt.flipped().equals(keyPart.clear().limit(rest.position()).position(from));
    }

    private void row(int kind, ByteBuffer rest, ByteBuffer value) {
        refuseUnless(value.hasRemaining(), "no value");
        switch (kind) {
            case KeyKind.PARTITION -> {
                FragmentReader.partition(value);
                flags |= Catalog.Flag.PARTITION_RECORDS.bit | Catalog.Flag.TOMBSTONES.bit;
            }
            case KeyKind.STATIC ->
                    FragmentReader.visit(value, row.of(Clustering.STATIC_CLUSTERING, value));
            case KeyKind.RANGE -> {
                int from = rest.position();
                // Cassandra checks the length of a row's clustering only, and of no bound.
                boundsOf(rest.remaining());
                ClusteringBound<?> start = form.clusterings.getBound(rest, false);
                ClusteringBound<?> end = form.clusterings.getBound(rest, true);
                refuseUnless(isInKey(from, start, end), "a bound in a form that is not written");
                refuseUnless(
                        table.comparator.compare(start, end) <= 0,
                        "a range that ends before it begins");
                ranges(from, value, Slice.make(start, end));
                flags |= Catalog.Flag.PARTITION_RECORDS.bit | Catalog.Flag.TOMBSTONES.bit;
            }
            case KeyKind.ROW -> FragmentReader.visit(value, row.of(clustering(rest), value));
            default -> throw new MalformedFragment("kind " + kind);
        }
        refuseUnless(!rest.hasRemaining(), "bytes behind the key");
    }

    private Clustering<?> clustering(ByteBuffer rest) {
        clusteringAt = rest.position();
        int end = rest.limit();
        // Of a large cell, a path of any length may follow.
        rest.limit(Math.min(end, clusteringAt + mostClustering));
        Clustering<?> clustering = bounded(form.clusterings.getClustering(rest));
        rest.limit(end);
        refuseUnless(
                isInKey(clusteringAt, clustering, null),
                "a clustering in a form that is not written");
        return clustering;
    }

    /**
     * Whether the key has this clustering, or these bounds, between a place and where it was read:
     * to the byte in which this version writes them, or former ones did, whose rows may be sent.
     */
    private boolean isInKey(
            int from, ClusteringPrefix<?> first, @Nullable ClusteringPrefix<?> second) {
        ClusteringKeys before = former;
        return isInKey(form.clusterings, from, first, second)
                || (before != null && isInKey(before, from, first, second));
    }

    private boolean isInKey(
            ClusteringKeys keys,
            int from,
            ClusteringPrefix<?> first,
            @Nullable ClusteringPrefix<?> second) {
        rebuilt.clear();
        keys.put(rebuilt, first);
        if (second != null) keys.put(rebuilt, second);
        return isRebuilt(keyBuffer, from);
    }

    private static <T extends ClusteringPrefix<?>> T bounded(T prefix) {
        ClusteringPrefix<?> any = prefix;
        check(any);
        return prefix;
    }

    private static <V> void check(ClusteringPrefix<V> prefix) {
        ValueAccessor<V> accessor = prefix.accessor();
        for (int i = 0; i < prefix.size(); i++) {
            V value = prefix.get(i);
            refuseUnless(
                    value == null || accessor.size(value) <= FBUtilities.MAX_UNSIGNED_SHORT,
                    "a clustering column of more than 65535 bytes");
        }
    }

    private void boundsOf(long bytes) {
        if (bytes > 2L * mostClustering)
            throw new MalformedFragment("bounds of " + bytes + " bytes in a key with decimals");
    }

    /** Each fragment by itself, since only the first one's bounds stand. */
    private void ranges(int from, ByteBuffer value, Slice slice) {
        FragmentReader.RangeRecord record = FragmentReader.range(value, slice);
        Slice written = record.slice();
        boundsOf((long) written.start().dataSize() + written.end().dataSize());
        refuseUnless(
                isInKey(from, written.start(), written.end()),
                "bounds that are not those of the key");
    }

    /** A row's fragments, against its key and the table's columns. */
    private final class RowCheck implements FragmentReader.Visitor {
        private Clustering<?> clustering = Clustering.STATIC_CLUSTERING;
        private ByteBuffer value = valueBuffer;

        RowCheck of(Clustering<?> keys, ByteBuffer of) {
            this.clustering = keys;
            this.value = of;
            return this;
        }

        @Override
        public void timestamp(long micros) {}

        @Override
        public void deletion(long micros) {
            purgeable();
        }

        @Override
        public void purgeable() {
            flags |= Catalog.Flag.TOMBSTONES.bit;
        }

        @Override
        public void clustering(byte[][] written) {
            refuseUnless(
                    clustering != Clustering.STATIC_CLUSTERING
                            && written.length == table.comparator.size(),
                    "a clustering of another size");
            Clustering<byte[]> whole = bounded(ByteArrayAccessor.factory.clustering(written));
            refuseUnless(
                    isInKey(clusteringAt, whole, null), "a clustering that is not that of the key");
        }

        @Override
        public void complex(int id) {
            known(id);
            ColumnMetadata column = form.column(id);
            if (column != null) fits(column, true);
        }

        @Override
        public void large(int column, byte @Nullable [] path, long timestamp, long hash) {
            flags |= Catalog.Flag.LARGE_CELLS.bit;
        }

        @Override
        public void cell(int id, byte @Nullable [] path, int cell, int valueBytes) {
            known(id);
            if ((cell & (CELL_TOMBSTONE | CELL_EXPIRING)) != 0) purgeable();
            ColumnMetadata column = form.column(id);
            // As a read does: what is left of a dropped column is passed over.
            if (column == null || !fits(column, path != null)) return;
            if (column.isStatic() != (clustering == Clustering.STATIC_CLUSTERING))
                throw new MalformedFragment("a cell of " + column);
            boolean counter = column.isCounterColumn() && (cell & CELL_TOMBSTONE) == 0;
            if (counter != ((cell & CELL_COUNTER) != 0))
                throw new MalformedFragment("a cell of " + column);
            if (path != null) path(column, path);
            if ((cell & (CELL_TOMBSTONE | CELL_LARGE)) != 0 || valueBytes == 0) return;
            if (counter) {
                counter(column, valueBytes);
                return;
            }
            int fixed = fixedLength(column);
            if (fixed >= 0 && fixed != valueBytes)
                throw new MalformedFragment("a value of " + valueBytes + " bytes in " + column);
        }

        /**
         * Whether a read looks at what is in this form. If not, no read ever shows it; that is so
         * of what a column held before it was dropped, and of nothing else.
         */
        private boolean fits(ColumnMetadata column, boolean complex) {
            if (column.isComplex() == complex) return true;
            if (table.droppedColumns.containsKey(column.name.bytes)) return false;
            throw new MalformedFragment(
                    "a cell of %s, which is %s here and not at the sender"
                            .formatted(column, complex ? "frozen" : "not frozen"));
        }

        private void counter(ColumnMetadata column, int bytes) {
            int at = value.position() - bytes;
            int elements = Math.abs(value.getShort(at));
            int shards = bytes - COUNTER_HEADER - COUNTER_HEADER * elements;
            refuseUnless(shards >= 0 && shards % COUNTER_SHARD == 0, "a counter");
            for (int i = 1; i <= elements; i++)
                if (value.getShort(at + COUNTER_HEADER * i) >= 0) throw NotTaken.local(column);
        }
    }

    private void known(int column) {
        if (column >= names.size())
            throw new MalformedFragment("a column that the dictionary does not have: " + column);
        // Cassandra refuses such SSTables. A row may live by that column alone: it would be live
        // from the ALTER on, and no index would have it.
        String name = unknown[column];
        if (name != null) throw NotTaken.unknown(name);
    }

    /** The entry is well, but cannot be taken in this way, or not now. */
    static final class NotTaken extends RuntimeException {
        private static final long serialVersionUID = 1;

        /** Whether an ALTER that has not come yet may be all that it lacks. */
        final boolean isEarly;

        private NotTaken(String message, boolean isEarly) {
            super(message);
            this.isEarly = isEarly;
        }

        /** The schema is of another time. */
        static NotTaken unknown(String column) {
            return new NotTaken(
                    "column "
                            + column
                            + " is not in the schema of this node. Wait until the schema is the"
                            + " same on all nodes (nodetool describecluster), and repeat the"
                            + " operation that streams",
                    true);
        }

        /** The same of a user type, to which the sender may have added a field. */
        static NotTaken unknown(ColumnMetadata column, int field) {
            return unknown(column.name + ", field " + field);
        }

        /**
         * Cassandra clears local shards of what it receives, when it is read whole. Two that both
         * sides have are added up, each time that one is streamed.
         */
        static NotTaken local(ColumnMetadata counter) {
            return new NotTaken(
                    "counter "
                            + counter
                            + " has a local shard, of before Cassandra 2.1, which is not sent in"
                            + " slices. Start this node with -Dpetra.stream.slices=false, and"
                            + " repeat the operation that streams",
                    false);
        }
    }

    /** Of each value of a column, in bytes; negative if they differ, or it is not known here. */
    private static int fixedLength(ColumnMetadata column) {
        // A field's type is known by the path; Cassandra asserts that it is not asked for here.
        if (column.isComplex() && column.type instanceof UserType) return -1;
        return column.cellValueType().valueLengthIfFixed();
    }

    /** Paths of a column are compared when its cells are merged. */
    private static void path(ColumnMetadata column, byte[] path) {
        AbstractType<?> type =
                column.type instanceof CollectionType<?> collection
                        ? collection.nameComparator()
                        // The number of the field, in a user-defined type.
                        : ShortType.instance;
        type.validate(ByteBuffer.wrap(path));
        if (!(column.type instanceof UserType user)) return;
        int field = ByteBuffer.wrap(path).getShort();
        if (field < 0) throw new MalformedFragment("field " + field + " of " + column);
        if (field >= user.size()) throw NotTaken.unknown(column, field);
    }

    private void large(int kind, ByteBuffer rest, ByteBuffer value) {
        if (kind == KeyKind.ROW) clustering(rest);
        else if (kind != KeyKind.STATIC) throw new MalformedFragment("kind " + kind);
        int id = rest.getInt();
        if (id < 0) throw new MalformedFragment("column " + id);
        known(id);
        rest.getLong();
        // A large cell replaces the one that is there, so it must be the same.
        refuseUnless(
                rest.getLong() == LargeCells.hash(value, ByteBufferAccessor.instance),
                "a large cell's value is not that of its key");
        ColumnMetadata column = form.column(id);
        if (column != null && value.hasRemaining()) {
            int fixed = fixedLength(column);
            if (fixed >= 0 && fixed != value.remaining())
                throw new MalformedFragment(
                        "a large value of " + value.remaining() + " bytes in " + column);
        }
        if (column != null && column.isComplex()) path(column, ByteBufferUtil.getArray(rest));
        else if (column != null) refuseUnless(!rest.hasRemaining(), "bytes behind the key");
        flags |= Catalog.Flag.LARGE_CELLS.bit;
    }
}
