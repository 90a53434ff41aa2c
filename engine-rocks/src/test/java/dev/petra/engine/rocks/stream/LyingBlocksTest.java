// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.format.PartitionKeys;
import dev.petra.engine.rocks.stream.Peer.Entry;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamSink;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A peer whose blocks come whole, and are none that a store sends; entries by themselves are {@link
 * LyingPeerTest}'s. Each is refused by name before anything is live, and leaves no file.
 */
class LyingBlocksTest {
    private final TestTable table = Peer.table("");

    @TempDir Path directory;
    private StorageEngine engine;
    private Peer peer;
    private TableStore to;
    private Path staging;

    @BeforeEach
    void open() throws Exception {
        engine =
                Tables.engine(
                        Map.of("memory", "32MiB", "large_cell", "1KiB", "stream_part", "64KiB"));
        peer = new Peer(engine, table, directory.resolve("from"));
        peer.fill(20);
        to = engine.openStore(table.spec(directory.resolve("to")));
        to.write(table.update(7).at(1).row(7).set("w", "there").build());
        staging = directory.resolve("to").resolve(StoreDescriptor.STREAMS);
        Files.createDirectories(staging);
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private List<byte[]> whole() throws Exception {
        return PeerBlocks.slice(peer.store(), peer.rows(), peer.large());
    }

    private void refuses(String why, byte[]... blocks) throws Exception {
        refuses(why, RangeTests.everything(), List.of(List.of(blocks)));
    }

    private void refuses(String why, List<Range<Token>> owned, List<List<byte[]>> slices)
            throws Exception {
        List<String> before = Peer.content(to, table);
        assertThatThrownBy(() -> PeerBlocks.send(table, owned, to, slices))
                .isInstanceOf(IOException.class)
                .hasMessageContaining(why);
        assertThat(Peer.content(to, table)).isEqualTo(before);
        assertThat(staging).isEmptyDirectory();
    }

    @Test
    void aBlockIsOfAKind() throws Exception {
        byte[] columns = PeerBlocks.columns(peer.store());
        byte[] rows = PeerBlocks.rows(peer.rows());
        refuses("ends early", new byte[0]);
        refuses("ends early", columns, new byte[] {'R'});
        byte[] other = rows.clone();
        other[0] = 'X';
        refuses("a block of kind 88", columns, other);
        refuses("entries before the dictionary", rows);
        other[0] = BlockKind.LARGE;
        refuses("malformed entry", columns, other);
        refuses("malformed entry", columns, PeerBlocks.rows(peer.large()));
    }

    @Test
    void aBlockThatIsCutIsRefused() throws Exception {
        List<Entry> two = peer.rows().subList(0, 2);
        byte[] columns = PeerBlocks.columns(peer.store());
        byte[] rows = PeerBlocks.rows(two);
        int second = 1 + 8 + two.get(0).key().length + two.get(0).value().length;
        for (int length = 1; length < rows.length; length++)
            if (length != second) refuses("early", columns, Arrays.copyOf(rows, length));
        for (int length = 1; length < columns.length; length++)
            refuses("Slice 0", Arrays.copyOf(columns, length), rows);
        refuses("early", columns, Arrays.copyOf(rows, rows.length + 1));
        refuses("malformed dictionary", Arrays.copyOf(columns, columns.length + 1), rows);
    }

    @Test
    void lengthsAreWithinTheBlock() throws Exception {
        byte[] columns = PeerBlocks.columns(peer.store());
        for (int place : new int[] {1, 5})
            for (int lie : new int[] {-1, Integer.MIN_VALUE, Integer.MAX_VALUE, 1 << 24}) {
                byte[] rows = PeerBlocks.rows(peer.rows());
                ByteBuffer.wrap(rows).order(ByteOrder.LITTLE_ENDIAN).putInt(place, lie);
                refuses(lie > 1 << 24 && place == 1 ? "an entry's key" : "Slice 0", columns, rows);
            }
    }

    @Test
    void aLargeBlockHasOneEntry() throws Exception {
        byte[] columns = PeerBlocks.columns(peer.store());
        String mebibyte = "x".repeat(1 << 20);
        peer.store().write(table.update(3).at(9).row(1).set("w", mebibyte).build());
        peer.store().write(table.update(3).at(9).row(2).set("w", mebibyte).build());
        List<Entry> both = new ArrayList<>(peer.large());
        both.removeIf(entry -> entry.value().length < 1 << 20);
        assertThat(both).hasSize(2);
        refuses("several entries", columns, PeerBlocks.large(both));
        PeerBlocks.send(
                table,
                RangeTests.everything(),
                to,
                List.of(
                        List.of(
                                columns,
                                PeerBlocks.large(both.subList(0, 1)),
                                PeerBlocks.large(both.subList(1, 2)))));
        assertThat(staging).isEmptyDirectory();
    }

    @Test
    void aDictionaryOnlyGrows() throws Exception {
        SliceColumns all = SliceColumns.of(Tables.context(peer.store()).catalog().columns());
        byte[] columns = PeerBlocks.columns(all);
        byte[] rows = PeerBlocks.rows(peer.rows());
        int size = all.names().size();
        List<String> names = all.names();
        List<String> types = all.kindsAndTypes();
        List<String> turned = new ArrayList<>(names);
        Collections.reverse(turned);
        List<String> twice = new ArrayList<>(names);
        twice.set(0, names.get(1));
        String why = "does not extend";
        refuses(why, columns, PeerBlocks.columns(new SliceColumns(turned, types)), rows);
        refuses(
                why,
                columns,
                PeerBlocks.columns(
                        new SliceColumns(names.subList(0, size - 1), types.subList(0, size - 1))),
                rows);
        List<String> others = new ArrayList<>(types);
        others.set(0, "REGULAR " + Int32Type.instance + "x");
        refuses(why, columns, PeerBlocks.columns(new SliceColumns(names, others)), rows);
        refuses("malformed dictionary", PeerBlocks.columns(new SliceColumns(twice, types)), rows);
        byte[] most = {'C', 0, 1, 0, 1, 0, 0};
        refuses("65537 columns", most);
        refuses("16777217 bytes", Arrays.copyOf(most, 2 + SliceColumns.MOST_BYTES));
        // Of another slice.
        refuses(
                why,
                RangeTests.everything(),
                List.of(
                        List.of(columns),
                        List.of(PeerBlocks.columns(new SliceColumns(turned, types)))));
        // It grows between two blocks.
        List<Entry> entries = peer.rows();
        PeerBlocks.send(
                table,
                RangeTests.everything(),
                to,
                List.of(
                        List.of(
                                columns,
                                PeerBlocks.rows(entries.subList(0, 5)),
                                columns,
                                PeerBlocks.rows(entries.subList(5, entries.size())),
                                PeerBlocks.large(peer.large()))));
    }

    @Test
    void keysAscendOverAllBlocks() throws Exception {
        byte[] columns = PeerBlocks.columns(peer.store());
        List<Entry> rows = peer.rows();
        byte[] first = PeerBlocks.rows(rows.subList(0, 4));
        byte[] second = PeerBlocks.rows(rows.subList(4, 9));
        refuses("not behind the one before", columns, second, first);
        refuses("not behind the one before", columns, first, first);
        refuses("not behind the one before", columns, first, columns, first);
        byte[] large = PeerBlocks.large(peer.large());
        refuses("not behind the one before", columns, large, first, large);
    }

    @Test
    void keysOfOthersAreRefused() throws Exception {
        List<Entry> rows = peer.rows();
        Token least = TestTable.token(Long.MIN_VALUE);
        List<Range<Token>> ends =
                List.of(
                        new Range<>(least, tokenOf(rows.get(0))),
                        new Range<>(tokenOf(rows.get(rows.size() / 2)), least));
        refuses("does not own", ends, List.of(whole()));
    }

    private static Token tokenOf(Entry entry) {
        return new PartitionKeys(Murmur3Partitioner.instance)
                .get(ByteBuffer.wrap(entry.key()))
                .getToken();
    }

    /** RocksDB relies on the order in which files go live, and so do deletions. */
    @Test
    void slicesDoNotOverlap() throws Exception {
        List<Entry> rows = peer.rows();
        List<byte[]> low = PeerBlocks.slice(peer.store(), rows.subList(0, 9), List.of());
        List<byte[]> high = PeerBlocks.slice(peer.store(), rows.subList(9, rows.size()), List.of());
        List<byte[]> large = PeerBlocks.slice(peer.store(), List.of(), peer.large());
        String why = "not behind those of the slices before";
        refuses(why, RangeTests.everything(), List.of(high, low));
        refuses(why, RangeTests.everything(), List.of(low, low));
        refuses(why, RangeTests.everything(), List.of(large, low, large));
        PeerBlocks.send(table, RangeTests.everything(), to, List.of(low, large, high));
        TableStore other = engine.openStore(table.spec(directory.resolve("other")));
        PeerBlocks.send(table, RangeTests.everything(), other, List.of(whole()));
        assertThat(Peer.content(other, table))
                .isEqualTo(Peer.content(peer.store(), table))
                .hasSize(20);
        other.write(table.update(7).at(1).row(7).set("w", "there").build());
        assertThat(Peer.content(to, table)).isEqualTo(Peer.content(other, table));
    }

    @Test
    void aSliceThatIsMissingOrTornLeavesNothing() throws Exception {
        List<String> before = Peer.content(to, table);
        List<byte[]> blocks = whole();
        for (int cut = 0; cut < blocks.size(); cut++)
            try (StreamSink in = to.receive(PeerBlocks.head(table, 2), RangeTests.everything())) {
                PeerBlocks.take(in, 1, List.of());
                SliceWriter writer = in.begin(0);
                for (byte[] block : blocks.subList(0, cut)) writer.take(ByteBuffer.wrap(block));
                assertThat(files(".sst")).isEqualTo(cut > 1);
                assertThatThrownBy(in::ingest).hasMessageContaining("has not come");
                writer.close();
                assertThat(files(".sst")).isFalse();
                assertThatThrownBy(in::ingest).hasMessageContaining("has not come");
            }
        assertThat(Peer.content(to, table)).isEqualTo(before);
        assertThat(staging).isEmptyDirectory();
    }

    /** Whether any is staged whose name ends so. */
    private boolean files(String suffix) throws Exception {
        try (var all = Files.walk(staging)) {
            return all.anyMatch(file -> file.toString().endsWith(suffix));
        }
    }
}
