// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.db.marshal.BytesType;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.IntegerType;
import org.apache.cassandra.db.marshal.ReversedType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.dht.ByteOrderedPartitioner;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.LocalPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.RandomPartitioner;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.Test;

/**
 * Every CQL type wherever it can stand: order as Cassandra's comparators have it, bytes as they
 * were written. Rocksandra 14: dates before 1970 sorted last, and decimals and varints came back in
 * other bytes, and so under another token.
 */
public interface TypeTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** A table of one clustering column of the type. */
    static TestTable clusteredBy(AbstractType<?>... types) {
        HostFixture.initialise();
        TableMetadata.Builder table =
                TableMetadata.builder(HostFixture.KEYSPACE, "t")
                        .addPartitionKeyColumn("k", UTF8Type.instance);
        for (int i = 0; i < types.length; i++) table.addClusteringColumn("c" + i, types[i]);
        return TestTable.of(table.addRegularColumn("v", Int32Type.instance).build());
    }

    @Test
    default void everyTypeComesBackAsAValue() {
        TableMetadata.Builder builder =
                TableMetadata.builder(HostFixture.KEYSPACE, "t")
                        .addPartitionKeyColumn("k", UTF8Type.instance)
                        .addClusteringColumn("c", Int32Type.instance);
        List<AbstractType<?>> types = Domains.types();
        for (int i = 0; i < types.size(); i++) builder.addRegularColumn("v" + i, types.get(i));
        TestTable table = TestTable.of(builder.build());
        ComparedStore store = kit().compared(table);
        for (int i = 0; i < types.size(); i++)
            for (int j = 0; j < Domains.of(types.get(i)).size(); j++)
                store.write(
                        table.update("a")
                                .row(j)
                                .set("v" + i, Domains.of(types.get(i)).get(j))
                                .build());
        PartitionContent content = store.everywhere(table.key("a"));
        for (int i = 0; i < types.size(); i++)
            for (int j = 0; j < Domains.of(types.get(i)).size(); j++)
                assertThat(content.cell("v" + i, j).buffer())
                        .isEqualTo(Domains.of(types.get(i)).get(j));
    }

    @Test
    default void everyTypeOrdersAndComesBackAsAClusteringAscendingAndDescending() {
        for (AbstractType<?> type : Domains.comparableTypes())
            for (AbstractType<?> order : List.of(type, ReversedType.getInstance(type)))
                checkClustering(clusteredBy(order), Domains.of(type));
    }

    private void checkClustering(TestTable table, List<ByteBuffer> values) {
        ComparedStore store = kit().compared(table);
        for (ByteBuffer value : values)
            store.write(table.update("a").row(value).liveness().build());
        List<ByteBuffer> sorted = new ArrayList<>(values);
        sorted.sort(
                Comparator.comparing(
                        value -> table.clustering(value), table.metadata().comparator::compare));
        store.everywhere(
                () -> {
                    assertThat(
                                    store.read(table.key("a")).rows().stream()
                                            .map(row -> row.clustering().bufferAt(0))
                                            .toList())
                            .isEqualTo(sorted);
                    for (ByteBuffer value : values)
                        assertThat(
                                        store.read(
                                                        table.key("a"),
                                                        table.slices(table.prefix(value)))
                                                .rows())
                                .hasSize(1);
                    return null;
                });
        store.store().close();
    }

    @Test
    default void everyTypeBoundsSlicesAndRangeTombstones() {
        for (AbstractType<?> type : Domains.comparableTypes())
            for (AbstractType<?> order : List.of(type, ReversedType.getInstance(type))) {
                TestTable table = clusteredBy(order, Int32Type.instance);
                ComparedStore store = kit().compared(table);
                List<ByteBuffer> values = Domains.of(type);
                for (int i = 0; i < values.size(); i++) {
                    store.write(
                            table.update("a")
                                    .at(1)
                                    .row(values.get(i), 1)
                                    .liveness()
                                    .end()
                                    .row(values.get(i), 2)
                                    .liveness()
                                    .build());
                    store.write(
                            table.update("a")
                                    .at(2 + i % 2)
                                    .deleteRange(
                                            table.after(values.get(i), 1), table.to(values.get(i)))
                                    .build());
                }
                store.everywhere(
                        () -> {
                            store.read(table.key("a"));
                            for (ByteBuffer value : values)
                                for (ClusteringBound<?> start :
                                        List.of(table.from(value), table.after(value)))
                                    for (ByteBuffer other : values) {
                                        Slice slice = Slice.make(start, table.before(other));
                                        if (!slice.isEmpty(table.metadata().comparator))
                                            store.read(table.key("a"), table.slices(slice));
                                    }
                            return null;
                        });
                store.store().close();
            }
    }

    @Test
    default void everyTypeComesBackAsAPartitionKeyUnderEveryPartitioner() {
        for (AbstractType<?> type : Domains.comparableTypes())
            for (IPartitioner partitioner : partitioners(type)) {
                TestTable table =
                        TestTable.of(
                                TableMetadata.builder(HostFixture.KEYSPACE, "t")
                                        .partitioner(partitioner)
                                        .addPartitionKeyColumn("k", type)
                                        .addClusteringColumn("c", Int32Type.instance)
                                        .build());
                List<DecoratedKey> keys = new ArrayList<>();
                for (ByteBuffer value : Domains.of(type))
                    if (value.hasRemaining()) keys.add(partitioner.decorateKey(value));
                checkKeys(table, keys);
            }
    }

    private static List<IPartitioner> partitioners(AbstractType<?> type) {
        List<IPartitioner> partitioners = new ArrayList<>();
        partitioners.add(Murmur3Partitioner.instance);
        partitioners.add(new LocalPartitioner(type));
        // To these, all types are bytes.
        if (type == BytesType.instance) {
            partitioners.add(ByteOrderedPartitioner.instance);
            partitioners.add(RandomPartitioner.instance);
        }
        return partitioners;
    }

    @Test
    default void compositeKeysComeBackInTheirBytes() {
        TestTable table =
                TestTable.of(
                        TableMetadata.builder(HostFixture.KEYSPACE, "t")
                                .addPartitionKeyColumn("k", IntegerType.instance)
                                .addPartitionKeyColumn("l", UTF8Type.instance)
                                .addClusteringColumn("c", Int32Type.instance)
                                .build());
        List<DecoratedKey> keys = new ArrayList<>();
        for (ByteBuffer first : Domains.of(IntegerType.instance))
            for (ByteBuffer second : Domains.of(UTF8Type.instance))
                keys.add(
                        table.metadata()
                                .partitioner
                                .decorateKey(
                                        CompositeType.build(
                                                ByteBufferAccessor.instance, first, second)));
        checkKeys(table, keys);
    }

    private void checkKeys(TestTable table, List<DecoratedKey> keys) {
        ComparedStore store = kit().compared(table);
        for (DecoratedKey key : keys) store.write(table.update(key).row(1).liveness().build());
        List<DecoratedKey> sorted = keys.stream().sorted().toList();
        List<PartitionContent> contents = store.scanEverywhere();
        assertThat(contents.stream().map(content -> content.key().getKey()).toList())
                .isEqualTo(sorted.stream().map(DecoratedKey::getKey).toList());
        for (DecoratedKey key : keys) assertThat(store.read(key).rows()).hasSize(1);
        store.store().close();
    }

    @Test
    default void twoFormsOfOneNumberAreTwoPartitionKeys() {
        TestTable table =
                TestTable.of("CREATE TABLE t (k varint, c int, v int, PRIMARY KEY (k, c))");
        ComparedStore store = kit().compared(table);
        store.write(
                table.update(Domains.hex("01")).row(1).liveness().build(),
                table.update(Domains.hex("0001")).row(1).liveness().build(),
                table.update(Domains.hex("000001")).row(1).liveness().build());
        assertThat(store.scanEverywhere()).hasSize(3);
    }

    @Test
    default void twoFormsOfOneNumberAreOneClustering() {
        TestTable table = clusteredBy(IntegerType.instance);
        ComparedStore store = kit().compared(table);
        store.write(
                table.update("a").at(1).row(Domains.hex("0001")).set("v", 1).build(),
                table.update("a").at(2).row(Domains.hex("01")).set("v", 2).build());
        // Which of the forms comes back, Cassandra leaves to the order of merging.
        for (int i = 0; i < 2; i++) {
            PartitionContent content =
                    PartitionContent.of(
                            store.store().read(table.key("a"), Slices.ALL, table.all(), false));
            assertThat(content.rows()).hasSize(1);
            assertThat(content.rows().get(0).clustering().bufferAt(0))
                    .isIn(Domains.hex("0001"), Domains.hex("01"));
            assertThat(content.cell("v", Domains.hex("01")).timestamp()).isEqualTo(2);
            store.flush();
            store.compact();
        }
    }

    @Test
    default void emptyValuesInAClusteringAreValues() {
        TestTable table = clusteredBy(UTF8Type.instance, Int32Type.instance);
        ComparedStore store = kit().compared(table);
        ByteBuffer empty = ByteBuffer.allocate(0);
        store.write(
                table.update("a").row(empty, empty).liveness().build(),
                table.update("a").row(empty, 0).liveness().build(),
                table.update("a").row("", -1).set("v", 1).build(),
                table.update("a").row("a", empty).liveness().build(),
                table.update("a").at(5).deleteRange(table.prefix("a", empty)).build());
        assertThat(store.everywhere(table.key("a")).rows()).hasSize(3);
        assertThat(
                        store.everywhere(
                                        () ->
                                                store.read(
                                                        table.key("a"),
                                                        table.slices(table.prefix(""))))
                                .rows())
                .hasSize(3);
    }

    @Test
    default void theLongestKeysAndClusteringsComeBack() {
        TestTable table =
                TestTable.of("CREATE TABLE t (k blob, c blob, v int, PRIMARY KEY (k, c))");
        ComparedStore store = kit().compared(table);
        ByteBuffer longest = ByteBuffer.allocate(65_535);
        for (int i = 0; i < longest.capacity(); i++) longest.put(i, (byte) (i % 3 == 0 ? 0 : i));
        ByteBuffer almost = longest.duplicate().limit(65_534);
        for (ByteBuffer key : List.of(longest, almost))
            store.write(
                    table.update(key).row(longest).set("v", 1).build(),
                    table.update(key).row(almost).set("v", 2).build(),
                    table.update(key)
                            .at(5)
                            .deleteRange(table.from(almost), table.before(longest))
                            .build());
        assertThat(store.everywhere(table.key(longest)).rows()).hasSize(1);
        assertThat(store.scanEverywhere()).hasSize(2);
    }

    @Test
    default void keysThatArePrefixesOfOthersAreKeysOfTheirOwn() {
        TestTable table =
                TestTable.of("CREATE TABLE t (k blob, c blob, v int, PRIMARY KEY (k, c))");
        ComparedStore store = kit().compared(table);
        List<String> values = List.of("00", "0000", "000000", "01", "0100", "ff", "ffff", "00ff");
        for (String key : values)
            for (String clustering : values)
                store.write(
                        table.update(Domains.hex(key))
                                .row(Clustering.make(Domains.hex(clustering)))
                                .liveness()
                                .build());
        store.write(table.update(Domains.hex("00")).at(5).deletePartition().build());
        assertThat(store.scanEverywhere()).hasSize(values.size());
        assertThat(store.read(table.key(Domains.hex("00"))).rows()).isEmpty();
        assertThat(store.read(table.key(Domains.hex("0000"))).rows()).hasSize(values.size());
    }
}
