// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.db.marshal.BytesType;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.marshal.CounterColumnType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.ListType;
import org.apache.cassandra.db.marshal.MapType;
import org.apache.cassandra.db.marshal.ReversedType;
import org.apache.cassandra.db.marshal.SetType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.dht.ByteOrderedPartitioner;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.MurmurHash;

/** Random tables: any types, orders and kinds of columns, and a few keys to write to. */
final class RandomSchema {
    private static final List<AbstractType<?>> COMPLEX =
            List.of(
                    ListType.getInstance(Int32Type.instance, true),
                    SetType.getInstance(UTF8Type.instance, true),
                    MapType.getInstance(UTF8Type.instance, Int32Type.instance, true),
                    MapType.getInstance(Int32Type.instance, BytesType.instance, true),
                    TestTable.userType(
                            "fields", true, "a", Int32Type.instance, "b", UTF8Type.instance));

    private final TableMetadata metadata;
    private final List<DecoratedKey> keys;

    private RandomSchema(TableMetadata metadata, List<DecoratedKey> keys) {
        this.metadata = metadata;
        this.keys = keys;
    }

    static RandomSchema next(Random random) {
        boolean counters = random.nextInt(8) == 0;
        IPartitioner partitioner =
                random.nextInt(10) == 0
                        ? ByteOrderedPartitioner.instance
                        : Murmur3Partitioner.instance;
        TableMetadata.Builder table =
                TableMetadata.builder(HostFixture.KEYSPACE, "t").partitioner(partitioner);
        if (counters) table.isCounter(true);
        int keyColumns = random.nextInt(4) == 0 ? 2 : 1;
        for (int i = 0; i < keyColumns; i++)
            table.addPartitionKeyColumn(
                    "k" + i,
                    random.nextInt(3) == 0
                            ? BytesType.instance
                            : pick(random, Domains.comparableTypes()));
        int clusterings = pick(random, List.of(0, 1, 1, 1, 2, 2, 3));
        for (int i = 0; i < clusterings; i++) {
            AbstractType<?> type =
                    random.nextInt(3) == 0
                            ? Int32Type.instance
                            : pick(random, Domains.comparableTypes());
            table.addClusteringColumn(
                    "c" + i, random.nextInt(3) == 0 ? ReversedType.getInstance(type) : type);
        }
        int statics = clusterings == 0 ? 0 : pick(random, List.of(0, 0, 1, 2));
        for (int i = 0; i < statics; i++) table.addStaticColumn("s" + i, type(random, counters));
        int regulars = pick(random, List.of(0, 1, 2, 3, 5));
        if (counters && regulars + statics == 0) regulars = 1;
        for (int i = 0; i < regulars; i++) table.addRegularColumn("v" + i, type(random, counters));
        TableMetadata metadata = table.build();
        return new RandomSchema(metadata, keys(random, metadata));
    }

    /** The type of some column that is not of the primary key. */
    static AbstractType<?> type(Random random, boolean counter) {
        if (counter) return CounterColumnType.instance;
        return pick(random, random.nextInt(3) == 0 ? COMPLEX : Domains.types());
    }

    private static List<DecoratedKey> keys(Random random, TableMetadata metadata) {
        List<DecoratedKey> keys = new ArrayList<>();
        if (metadata.partitionKeyType instanceof BytesType
                && metadata.partitioner instanceof Murmur3Partitioner) {
            long token = random.nextLong();
            for (int salt = 0; salt < 2; salt++) {
                long[] inverse = MurmurHash.inv_hash3_x64_128(new long[] {token, salt});
                keys.add(
                        metadata.partitioner.decorateKey(
                                ByteBuffer.allocate(16)
                                        .putLong(inverse[0])
                                        .putLong(inverse[1])
                                        .flip()));
            }
        }
        while (keys.size() < 3) {
            ByteBuffer[] values = new ByteBuffer[metadata.partitionKeyColumns().size()];
            for (int i = 0; i < values.length; i++)
                values[i] =
                        pick(random, Domains.of(metadata.partitionKeyColumns().get(i).type))
                                .duplicate();
            ByteBuffer key =
                    values.length == 1
                            ? values[0]
                            : CompositeType.build(ByteBufferAccessor.instance, values);
            // Cassandra has no empty keys; a boolean key has two values, and so the third is one.
            if (key.hasRemaining()) keys.add(metadata.partitioner.decorateKey(key));
        }
        return keys;
    }

    TableMetadata metadata() {
        return metadata;
    }

    List<DecoratedKey> keys() {
        return keys;
    }

    static <T> T pick(Random random, List<? extends T> list) {
        return list.get(random.nextInt(list.size()));
    }

    /** The table in a line for each column. */
    static String describe(TableMetadata table) {
        StringBuilder out = new StringBuilder("table ").append(table.id);
        out.append(" partitioner ").append(table.partitioner.getClass().getSimpleName());
        table.allColumnsInSelectOrder()
                .forEachRemaining(
                        column ->
                                out.append("\n  ")
                                        .append(column.name)
                                        .append(' ')
                                        .append(column.type.asCQL3Type())
                                        .append(column.type.isReversed() ? " DESC " : " ")
                                        .append(column.kind));
        table.droppedColumns
                .values()
                .forEach(
                        dropped ->
                                out.append("\n  dropped ")
                                        .append(dropped.column.name)
                                        .append(" @")
                                        .append(dropped.droppedTime));
        return out.toString();
    }
}
