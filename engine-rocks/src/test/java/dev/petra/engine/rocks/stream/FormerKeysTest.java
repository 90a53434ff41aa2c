// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.HostFixture;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.ClusteringKeys;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.db.BufferClusteringBound;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringComparator;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.bytecomparable.ByteComparable;
import org.apache.cassandra.utils.bytecomparable.ByteSourceInverse;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/**
 * Streams of rows that earlier versions wrote, with a tuple among their clustering: an empty field
 * had the byte of null, and a NaN its own bytes.
 */
class FormerKeysTest {
    private static final ByteBuffer EMPTY = ByteBufferUtil.EMPTY_BYTE_BUFFER;
    private static final ByteBuffer INT = ByteBufferUtil.bytes(1);
    private static final ByteBuffer FLOAT = ByteBufferUtil.bytes(1f);
    private static final ByteBuffer ANOTHER_NAN = ByteBufferUtil.bytes(0x7fc00001);

    @TempDir Path directory;
    private final StorageEngine engine =
            Tables.engine(Map.of("memory", "32MiB", "large_cell", "1KiB"));

    @AfterEach
    void close() {
        engine.close();
    }

    private static TestTable table(String order) {
        return TestTable.of(
                "CREATE TABLE t (k int, c frozen<tuple<int, float>>, v text, PRIMARY KEY (k, c))"
                        + " WITH CLUSTERING ORDER BY (c "
                        + order
                        + ")");
    }

    private static Clustering<?> clustering(ByteBuffer first, ByteBuffer second) {
        return Clustering.make(HostFixture.tuple(first, second));
    }

    private static ClusteringBound<?> bound(ClusteringPrefix.Kind kind, int first) {
        ByteBuffer tuple = HostFixture.tuple(ByteBufferUtil.bytes(first), EMPTY);
        return BufferClusteringBound.create(kind, new ByteBuffer[] {tuple});
    }

    /** Puts what lies under the keys of these under those that an earlier version wrote. */
    private static void moveToFormerKey(
            TestTable table, TableStore store, ClusteringPrefix<?>... clusterings)
            throws RocksDBException {
        HexFormat hex = HexFormat.of();
        ClusteringComparator comparator = table.metadata().comparator;
        ByteSink sink = new ByteSink();
        StringBuilder before = new StringBuilder();
        for (ClusteringPrefix<?> each : clusterings) {
            new ClusteringKeys(comparator).put(sink, each);
            before.append(
                    hex.formatHex(
                            ByteSourceInverse.readBytes(
                                    comparator
                                            .asByteComparable(each)
                                            .asComparableBytes(ByteComparable.Version.OSS50))));
        }
        String now = hex.formatHex(ByteBufferUtil.getArray(sink.flipped()));
        assertThat(before.toString()).isNotEqualTo(now);
        Database database = Tables.context(store).database();
        int moved = 0;
        for (ColumnFamilyHandle family : List.of(database.data, database.large))
            try (RocksIterator it = database.db.newIterator(family)) {
                for (it.seekToFirst(); it.isValid(); it.next()) {
                    String key = hex.formatHex(it.key());
                    if (!key.contains(now)) continue;
                    database.db.delete(family, it.key());
                    database.db.put(family, hex.parseHex(key.replace(now, before)), it.value());
                    moved++;
                }
            }
        assertThat(moved).isPositive();
    }

    /** Each was refused as malformed, and with it every stream of the table. */
    @ParameterizedTest
    @ValueSource(strings = {"ASC", "DESC"})
    void theyAreTaken(String order) throws Exception {
        TestTable table = table(order);
        TableStore from = engine.openStore(table.spec(directory.resolve("from")));
        List<Clustering<?>> rows =
                List.of(
                        clustering(EMPTY, FLOAT),
                        clustering(INT, EMPTY),
                        clustering(EMPTY, EMPTY),
                        clustering(INT, ANOTHER_NAN));
        for (Clustering<?> each : rows)
            from.write(table.update(1).at(1).row(each).set("v", "large ".repeat(300)).build());
        from.write(table.update(1).at(2).row(clustering(INT, FLOAT)).set("v", "v").build());
        boolean ascending = order.equals("ASC");
        ClusteringBound<?> start = bound(ClusteringPrefix.Kind.INCL_START_BOUND, ascending ? 2 : 3);
        ClusteringBound<?> end = bound(ClusteringPrefix.Kind.INCL_END_BOUND, ascending ? 3 : 2);
        from.write(table.update(1).at(3).deleteRange(start, end).build());
        List<String> written = Peer.content(from, table);
        assertThat(written).hasSize(1);
        for (Clustering<?> each : rows) moveToFormerKey(table, from, each);
        moveToFormerKey(table, from, start, end);
        assertThat(Peer.content(from, table)).isEqualTo(written);
        TableStore to = engine.openStore(table.spec(directory.resolve("to")));
        SentStream.of(from).ingestedBy(to);
        assertThat(Peer.content(to, table)).isEqualTo(written);
    }

    @Test
    void theValueOfAnotherClusteringIsNot() throws Exception {
        TestTable table = table("ASC");
        Peer peer = new Peer(engine, table, directory.resolve("from"));
        for (Clustering<?> each : List.of(clustering(EMPTY, FLOAT), clustering(INT, EMPTY)))
            peer.store().write(table.update(1).at(1).row(each).set("v", "v").build());
        List<Peer.Entry> rows = peer.rows();
        Peer.Entry mixed = new Peer.Entry(rows.get(1).key(), rows.get(0).value());
        List<byte[]> slice = PeerBlocks.slice(peer.store(), List.of(mixed), List.of());
        TableStore to = engine.openStore(table.spec(directory.resolve("to")));
        assertThatThrownBy(
                        () -> PeerBlocks.send(table, RangeTests.everything(), to, List.of(slice)))
                .hasMessageContaining("a clustering that is not that of the key");
    }
}
