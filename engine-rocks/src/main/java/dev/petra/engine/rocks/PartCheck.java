// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static dev.petra.engine.rocks.Fragments.*;

import dev.petra.engine.stream.StreamPart;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.ByteArrayAccessor;
import org.apache.cassandra.db.marshal.CollectionType;
import org.apache.cassandra.db.marshal.ShortType;
import org.apache.cassandra.db.marshal.UserType;
import org.apache.cassandra.db.marshal.ValueAccessor;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.serializers.MarshalException;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;

/**
 * Looks at every entry of one part that another node has made: whether its key is one that this
 * table writes, to the last byte, in its place, and whether the value belongs under such a key. A
 * read of what passes does not fail. One part, one thread.
 *
 * <p>What it does not ask is whether the data is true: a peer may leave out or invent rows, as any
 * replica may.
 */
final class PartCheck {
    /** Of a counter's context: as {@code CounterContext} has it. */
    private static final int COUNTER_HEADER = Short.BYTES;

    private static final int COUNTER_SHARD = 32;

    private final StreamPart part;
    private final boolean isData;
    private final int columns;
    private final TableMetadata table;
    private final TableForm form;
    private final PartitionKeys partitions;
    private final IPartitioner partitioner;
    private final List<TokenRanges.KeyRange> notOwned;
    private final ByteSink rebuilt = new ByteSink();

    private int gap;
    private byte @Nullable [] last;

    /** Of the last key, its partition's. */
    private int position;

    private int flags;

    /**
     * @param notOwned in their order
     */
    PartCheck(
            TableMetadata table,
            PartitionKeys partitions,
            PartsDictionary dictionary,
            StreamPart part,
            List<TokenRanges.KeyRange> notOwned) {
        this.part = part;
        this.isData = part.index() < dictionary.dataParts();
        this.columns = dictionary.names().size();
        this.table = table;
        Map<String, Integer> ids = new HashMap<>();
        for (int id = 0; id < columns; id++) ids.put(dictionary.names().get(id), id);
        this.form = new TableForm(table, ids);
        this.partitions = partitions;
        this.partitioner = table.partitioner;
        this.notOwned = notOwned;
    }

    /** Which of {@link Catalog.Flag} what was looked at needs. */
    int flags() {
        return flags;
    }

    /**
     * Looks at the next entry, and passes it on.
     *
     * @throws MalformedFragment if it is not what this table has there
     */
    void add(byte[] key, byte[] value, PartFile to) throws RocksDBException {
        look(key, value);
        to.add(key, value);
    }

    private void look(byte[] key, byte[] value) {
        try {
            order(key);
            ByteBuffer rest = ByteBuffer.wrap(key);
            partition(key, rest);
            int kind = rest.get() & 0xFF;
            if (isData) row(kind, rest, ByteBuffer.wrap(value));
            else large(kind, rest, value);
        } catch (MalformedFragment e) {
            throw at(key, e);
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | NegativeArraySizeException
                | BufferUnderflowException
                | MarshalException
                // As Cassandra's types may, of bytes that are none of theirs.
                | IllegalStateException
                | ArithmeticException
                | ClassCastException
                | NullPointerException
                | AssertionError e) {
            throw at(key, e);
        }
        last = key;
    }

    private static MalformedFragment at(byte[] key, Throwable e) {
        String shown =
                ByteBufferUtil.bytesToHex(ByteBuffer.wrap(key, 0, Math.min(key.length, 512)));
        return new MalformedFragment(
                "malformed entry under key " + shown + ": " + e.getMessage(), e);
    }

    /** To be called behind the last entry. */
    void end() {
        refuseUnless(
                last != null && Arrays.equals(last, ByteBufferUtil.getArray(part.lastKey())),
                "its first or last key is not that of the manifest");
    }

    private static void refuseUnless(boolean holds, String what) {
        if (!holds) throw new MalformedFragment(what);
    }

    private void order(byte[] key) {
        if (last == null)
            refuseUnless(
                    Arrays.equals(key, ByteBufferUtil.getArray(part.firstKey())),
                    "its first or last key is not that of the manifest");
        else refuseUnless(Arrays.compareUnsigned(last, key) < 0, "it is not behind the one before");
        while (gap < notOwned.size() && Arrays.compareUnsigned(notOwned.get(gap).to(), key) <= 0)
            gap++;
        refuseUnless(
                gap == notOwned.size() || Arrays.compareUnsigned(key, notOwned.get(gap).from()) < 0,
                "it has keys that this node does not own");
    }

    /** Leaves the buffer behind the partition's position. */
    private void partition(byte[] key, ByteBuffer rest) {
        byte[] before = last;
        // No position is a prefix of another.
        if (before != null
                && key.length > position
                && Arrays.equals(before, 0, position, key, 0, position)) {
            rest.position(position);
            return;
        }
        ByteBuffer bytes = partitions.get(rest).getKey();
        refuseUnless(
                bytes.hasRemaining() && bytes.remaining() <= FBUtilities.MAX_UNSIGNED_SHORT,
                "a partition key of " + bytes.remaining() + " bytes");
        // With the token that such a key has, and in the one form that it is written in.
        DecoratedKey decorated = partitioner.decorateKey(bytes);
        rebuilt.clear();
        partitions.put(rebuilt, decorated);
        refuseUnless(isRebuilt(rest, 0), "the token is not that of the partition key");
        position = rest.position();
    }

    /** Whether what lies between a place and the buffer's position was rebuilt to the byte. */
    private boolean isRebuilt(ByteBuffer rest, int from) {
        return rebuilt.flipped().equals(rest.slice(from, rest.position() - from));
    }

    private void row(int kind, ByteBuffer rest, ByteBuffer value) {
        refuseUnless(value.hasRemaining(), "no value");
        switch (kind) {
            case KeyKind.PARTITION -> {
                FragmentReader.partition(value);
                flags |= Catalog.Flag.PARTITION_RECORDS.bit | Catalog.Flag.TOMBSTONES.bit;
            }
            case KeyKind.STATIC ->
                    FragmentReader.visit(value, new RowCheck(Clustering.STATIC_CLUSTERING, value));
            case KeyKind.RANGE -> {
                int from = rest.position();
                ClusteringBound<?> start = bounded(form.clusterings.getBound(rest, false));
                ClusteringBound<?> end = bounded(form.clusterings.getBound(rest, true));
                rebuilt.clear();
                form.clusterings.put(rebuilt, start);
                form.clusterings.put(rebuilt, end);
                refuseUnless(isRebuilt(rest, from), "a bound in a form that is not written");
                refuseUnless(
                        table.comparator.compare(start, end) <= 0,
                        "a range that ends before it begins");
                ranges(rest, from, value, Slice.make(start, end));
                flags |= Catalog.Flag.PARTITION_RECORDS.bit | Catalog.Flag.TOMBSTONES.bit;
            }
            case KeyKind.ROW -> FragmentReader.visit(value, new RowCheck(clustering(rest), value));
            default -> throw new MalformedFragment("kind " + kind);
        }
        refuseUnless(!rest.hasRemaining(), "bytes behind the key");
    }

    private Clustering<?> clustering(ByteBuffer rest) {
        int from = rest.position();
        Clustering<?> clustering = bounded(form.clusterings.getClustering(rest));
        rebuilt.clear();
        form.clusterings.put(rebuilt, clustering);
        refuseUnless(isRebuilt(rest, from), "a clustering in a form that is not written");
        return clustering;
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

    /** Each fragment by itself, since only the first one's bounds stand. */
    private void ranges(ByteBuffer key, int from, ByteBuffer value, Slice slice) {
        FragmentReader.RangeRecord record = FragmentReader.range(value, slice);
        Slice written = record.slice();
        rebuilt.clear();
        form.clusterings.put(rebuilt, bounded(written.start()));
        form.clusterings.put(rebuilt, bounded(written.end()));
        refuseUnless(isRebuilt(key, from), "bounds that are not those of the key");
    }

    /** A row's fragments, against its key and the table's columns. */
    private final class RowCheck implements FragmentReader.Visitor {
        private final Clustering<?> clustering;
        private final ByteBuffer value;

        RowCheck(Clustering<?> clustering, ByteBuffer value) {
            this.clustering = clustering;
            this.value = value;
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
            rebuilt.clear();
            form.clusterings.put(rebuilt, clustering);
            byte[] wanted = rebuilt.copy(0, rebuilt.position());
            rebuilt.clear();
            form.clusterings.put(rebuilt, whole);
            refuseUnless(
                    Arrays.equals(wanted, rebuilt.copy(0, rebuilt.position())),
                    "a clustering that is not that of the key");
        }

        @Override
        public void complex(int column) {
            known(column);
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
            // As a read does: what the table does not have in this form is passed over.
            if (column == null || column.isComplex() != (path != null)) return;
            refuseUnless(
                    column.isStatic() == (clustering == Clustering.STATIC_CLUSTERING),
                    "a cell of " + column);
            boolean counter = column.isCounterColumn() && (cell & CELL_TOMBSTONE) == 0;
            refuseUnless(counter == ((cell & CELL_COUNTER) != 0), "a cell of " + column);
            if (path != null) path(column, path);
            if ((cell & (CELL_TOMBSTONE | CELL_LARGE)) != 0 || valueBytes == 0) return;
            if (counter) {
                counter(valueBytes);
                return;
            }
            // A field's type is known by the path; Cassandra asserts that it is not asked for here.
            if (path != null && column.type instanceof UserType) return;
            int fixed = column.cellValueType().valueLengthIfFixed();
            refuseUnless(
                    fixed < 0 || fixed == valueBytes,
                    "a value of " + valueBytes + " bytes in " + column);
        }

        private void counter(int bytes) {
            short elements = value.getShort(value.position() - bytes);
            int shards = bytes - COUNTER_HEADER - COUNTER_HEADER * Math.abs(elements);
            refuseUnless(shards >= 0 && shards % COUNTER_SHARD == 0, "a counter");
        }
    }

    private void known(int column) {
        refuseUnless(column < columns, "a column that the dictionary does not have: " + column);
    }

    /** Paths of a column are compared when its cells are merged. */
    private static void path(ColumnMetadata column, byte[] path) {
        AbstractType<?> type =
                column.type instanceof CollectionType<?> collection
                        ? collection.nameComparator()
                        // Of a user-defined type, the number of the field.
                        : ShortType.instance;
        type.validate(ByteBuffer.wrap(path));
    }

    private void large(int kind, ByteBuffer rest, byte[] value) {
        if (kind == KeyKind.ROW) clustering(rest);
        else refuseUnless(kind == KeyKind.STATIC, "kind " + kind);
        int id = rest.getInt();
        refuseUnless(id >= 0, "column " + id);
        known(id);
        rest.getLong();
        // Put in the place of what is there: it must be the very same.
        refuseUnless(
                rest.getLong() == LargeCells.hash(value, ByteArrayAccessor.instance),
                "a large cell's value is not that of its key");
        ColumnMetadata column = form.column(id);
        if (column != null && column.isComplex()) path(column, ByteBufferUtil.getArray(rest));
        else if (column != null) refuseUnless(!rest.hasRemaining(), "bytes behind the key");
        flags |= Catalog.Flag.LARGE_CELLS.bit;
    }
}
