// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import dev.petra.engine.StoreSpec;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import java.util.function.LongSupplier;
import org.apache.cassandra.cql3.FieldIdentifier;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexNamesFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.marshal.UserType;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.schema.Types;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.MurmurHash;

/**
 * A table under test, with short ways to its keys, clusterings, slices, filters and updates. Values
 * are given as Java objects of the column's type, or as {@link ByteBuffer} to be taken as they are.
 */
public final class TestTable {
    private final TableMetadataRef ref;

    private TestTable(TableMetadataRef ref) {
        this.ref = ref;
    }

    /** From a CREATE TABLE statement. */
    public static TestTable of(String cql) {
        HostFixture.initialise();
        return of(HostFixture.table(cql));
    }

    /** From a CREATE TABLE statement, with user types. */
    public static TestTable of(String cql, UserType... types) {
        HostFixture.initialise();
        return of(HostFixture.table(cql, Types.of(types), Murmur3Partitioner.instance));
    }

    /** From a CREATE TABLE statement, under another partitioner. */
    public static TestTable of(String cql, IPartitioner partitioner) {
        HostFixture.initialise();
        return of(HostFixture.table(cql, Types.none(), partitioner));
    }

    /** From Cassandra's own description. */
    public static TestTable of(TableMetadata metadata) {
        return new TestTable(HostFixture.ref(metadata));
    }

    /** A user type; its fields are name, type, name, type… */
    public static UserType userType(String name, boolean multiCell, Object... fields) {
        FieldIdentifier[] names = new FieldIdentifier[fields.length / 2];
        AbstractType<?>[] types = new AbstractType<?>[fields.length / 2];
        for (int i = 0; i < names.length; i++) {
            names[i] = FieldIdentifier.forInternalString((String) fields[2 * i]);
            types[i] = (AbstractType<?>) fields[2 * i + 1];
        }
        return new UserType(
                HostFixture.KEYSPACE,
                ByteBufferUtil.bytes(name),
                List.of(names),
                List.of(types),
                multiCell);
    }

    /** The table as it is now. */
    public TableMetadata metadata() {
        return ref.get();
    }

    /** What stores read the table from. */
    public TableMetadataRef ref() {
        return ref;
    }

    /** A second reference to the table as it is now, which later ALTERs do not touch. */
    public TestTable twin() {
        return of(metadata());
    }

    /** A store of this table, generation 1. */
    public StoreSpec spec(Path directory) {
        return new StoreSpec(directory, metadata().name, 1, ref, () -> true);
    }

    /** One of which the host says which deletions may be removed. */
    public StoreSpec spec(Path directory, LongSupplier gcBefore) {
        return new StoreSpec(
                directory, metadata().name, 1, ref, () -> true, gcBefore, () -> true, true);
    }

    // ALTER

    /** ALTER TABLE … ADD of a regular column. */
    public void addColumn(String name, AbstractType<?> type) {
        alter(metadata().unbuild().addRegularColumn(name, type).build());
    }

    /** ALTER TABLE … ADD of a static column. */
    public void addStaticColumn(String name, AbstractType<?> type) {
        alter(metadata().unbuild().addStaticColumn(name, type).build());
    }

    /** ALTER TABLE … DROP, with the time from which on data of that column counts again. */
    public void dropColumn(String name, long droppedTime) {
        ColumnMetadata column = column(name);
        alter(
                metadata()
                        .unbuild()
                        .removeRegularOrStaticColumn(column.name)
                        .recordColumnDrop(column, droppedTime)
                        .build());
    }

    /** Any other ALTER. */
    public void alter(TableMetadata altered) {
        HostFixture.alter(ref, altered);
    }

    // Keys

    /** The key with these values of the partition key's columns. */
    public DecoratedKey key(Object... values) {
        if (values.length != metadata().partitionKeyColumns().size())
            throw new IllegalArgumentException("not a whole key: " + Arrays.toString(values));
        if (values.length == 1)
            return metadata()
                    .partitioner
                    .decorateKey(bytes(metadata().partitionKeyType, values[0]));
        ByteBuffer[] components = new ByteBuffer[values.length];
        for (int i = 0; i < values.length; i++)
            components[i] = bytes(metadata().partitionKeyColumns().get(i).type, values[i]);
        return metadata()
                .partitioner
                .decorateKey(CompositeType.build(ByteBufferAccessor.instance, components));
    }

    /**
     * A key of 16 bytes (of a blob or text column) that has this Murmur3 token; others differ by
     * {@code salt}.
     */
    public DecoratedKey keyWithToken(long token, long salt) {
        long[] inverse = MurmurHash.inv_hash3_x64_128(new long[] {token, salt});
        ByteBuffer key = ByteBuffer.allocate(16).putLong(inverse[0]).putLong(inverse[1]).flip();
        return metadata().partitioner.decorateKey(key);
    }

    /** A Murmur3 token. */
    public static Token token(long value) {
        return new Murmur3Partitioner.LongToken(value);
    }

    // Clusterings

    /** A whole clustering. */
    public Clustering<?> clustering(Object... values) {
        return metadata().comparator.make(values);
    }

    /** A lower bound by a prefix of the clustering; inclusive, and the bottom, if empty. */
    public ClusteringBound<?> from(Object... prefix) {
        return ClusteringBound.create(metadata().comparator, true, true, prefix);
    }

    /** An exclusive lower bound. */
    public ClusteringBound<?> after(Object... prefix) {
        return ClusteringBound.create(metadata().comparator, true, false, prefix);
    }

    /** An inclusive upper bound; the top, if empty. */
    public ClusteringBound<?> to(Object... prefix) {
        return ClusteringBound.create(metadata().comparator, false, true, prefix);
    }

    /** An exclusive upper bound. */
    public ClusteringBound<?> before(Object... prefix) {
        return ClusteringBound.create(metadata().comparator, false, false, prefix);
    }

    /** Everything with this prefix. */
    public Slice prefix(Object... values) {
        return Slice.make(from(values), to(values));
    }

    /** Several slices, in any order. */
    public Slices slices(Slice... slices) {
        Slices.Builder builder = new Slices.Builder(metadata().comparator, slices.length);
        for (Slice slice : slices) builder.add(slice);
        return builder.build();
    }

    /** One slice. */
    public Slices slices(ClusteringBound<?> start, ClusteringBound<?> end) {
        return slices(Slice.make(start, end));
    }

    /** A filter of whole clusterings. */
    public ClusteringIndexNamesFilter names(boolean reversed, Clustering<?>... clusterings) {
        TreeSet<Clustering<?>> set = new TreeSet<>(metadata().comparator);
        set.addAll(Arrays.asList(clusterings));
        return new ClusteringIndexNamesFilter(set, reversed);
    }

    // Columns

    /** The column of that name, as it is now. */
    public ColumnMetadata column(String name) {
        ColumnMetadata column = metadata().getColumn(ByteBufferUtil.bytes(name));
        if (column == null) throw new IllegalArgumentException("no column " + name);
        return column;
    }

    /** All columns, fetched and queried. */
    public ColumnFilter all() {
        return ColumnFilter.all(metadata());
    }

    /** Some columns queried and no other fetched. */
    public ColumnFilter only(String... names) {
        ColumnFilter.Builder builder = ColumnFilter.selectionBuilder();
        for (String name : names) builder.add(column(name));
        return builder.build();
    }

    /** Some columns queried, all regular ones fetched and, if asked for, all static ones. */
    public ColumnFilter queried(boolean fetchStatics, String... names) {
        ColumnFilter.Builder builder =
                ColumnFilter.allRegularColumnsBuilder(metadata(), fetchStatics);
        for (String name : names) builder.add(column(name));
        return builder.build();
    }

    /** The path of a map's or set's element. */
    public static CellPath path(AbstractType<?> type, Object element) {
        return CellPath.create(bytes(type, element));
    }

    // Updates

    /** Starts an update of the partition with these values of the partition key's columns. */
    public UpdateBuilder update(Object... key) {
        return update(key(key));
    }

    /** Starts an update of a partition. */
    public UpdateBuilder update(DecoratedKey key) {
        return new UpdateBuilder(metadata(), key);
    }

    @SuppressWarnings("unchecked")
    static ByteBuffer bytes(AbstractType<?> type, Object value) {
        return value instanceof ByteBuffer bytes
                ? bytes.duplicate()
                : ((AbstractType<Object>) type).decompose(value);
    }
}
