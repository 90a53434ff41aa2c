// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.LargeCells;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.format.PartitionKeys;
import dev.petra.engine.rocks.stream.Peer.Entry;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.cassandra.db.BufferDecoratedKey;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.utils.CounterId;
import org.apache.cassandra.utils.Hex;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.Options;

/**
 * A peer whose blocks are whole, and whose entries are none that a store writes. Each is refused by
 * name before anything is live.
 */
class LyingPeerTest {
    private final TestTable table = Peer.table("");

    @TempDir Path directory;
    private StorageEngine engine;
    private Peer peer;
    private TableStore to;

    @BeforeEach
    void open() throws Exception {
        engine = Tables.engine(Map.of("memory", "32MiB", "large_cell", "1KiB"));
        peer = new Peer(engine, table, directory.resolve("from"));
        peer.fill(20);
        to = engine.openStore(table.spec(directory.resolve("to")));
        to.write(table.update(7).at(1).row(7).set("w", "there").build());
        Files.createDirectories(directory.resolve("to").resolve(StoreDescriptor.STREAMS));
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private static byte[] changed(byte[] key, int at, int by) {
        byte[] other = key.clone();
        other[at < 0 ? other.length + at : at] ^= (byte) by;
        return other;
    }

    private static byte[] joined(byte[] bytes, int... more) {
        ByteBuffer all = ByteBuffer.allocate(bytes.length + more.length).put(bytes);
        for (int b : more) all.put((byte) b);
        return all.array();
    }

    private void refuses(String why, byte[] key, byte[] value) throws Exception {
        refuses(why, List.of(new Entry(key, value)), List.of());
    }

    private void refuses(String why, List<Entry> rows, List<Entry> large) throws Exception {
        List<String> before = Peer.content(to, table);
        List<byte[]> slice = PeerBlocks.slice(peer.store(), rows, large);
        assertThatThrownBy(
                        () -> PeerBlocks.send(table, RangeTests.everything(), to, List.of(slice)))
                .hasMessageContaining(why);
        assertThat(Peer.content(to, table)).isEqualTo(before);
        assertThat(directory.resolve("to").resolve(StoreDescriptor.STREAMS)).isEmptyDirectory();
    }

    /** What follows changes one thing of what is taken here. */
    @Test
    void whatAStoreWroteIsTaken() throws Exception {
        TableStore empty = engine.openStore(table.spec(directory.resolve("empty")));
        PeerBlocks.send(
                table,
                RangeTests.everything(),
                empty,
                List.of(PeerBlocks.slice(peer.store(), peer.rows(), peer.large())));
        assertThat(Peer.content(empty, table))
                .hasSize(20)
                .isEqualTo(Peer.content(peer.store(), table));
    }

    @Test
    void aKeyIsReadToItsLastByte() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        refuses("bytes behind the key", joined(row.key(), 0x40), row.value());
        refuses("malformed entry", Arrays.copyOf(row.key(), row.key().length - 1), row.value());
        Entry record = peer.first(KeyKind.PARTITION);
        refuses("bytes behind the key", joined(record.key(), 0x38), record.value());
        refuses("kind 80", changed(record.key(), -1, 0x40), record.value());
        Entry range = peer.first(KeyKind.RANGE);
        refuses("bytes behind the key", joined(range.key(), 0), range.value());
    }

    @Test
    void aPartitionLiesUnderItsToken() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        refuses("token", changed(row.key(), 5, 1), row.value());
    }

    @Test
    void aValueLiesUnderAKeyOfItsKind() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        Entry statics = peer.first(KeyKind.STATIC);
        Entry record = peer.first(KeyKind.PARTITION);
        Entry range = peer.first(KeyKind.RANGE);
        for (Entry key : List.of(row, statics, record, range))
            for (Entry value : List.of(row, record, range))
                if (key.kind() != value.kind())
                    refuses("malformed entry", key.key(), value.value());
        refuses("no value", row.key(), new byte[0]);
    }

    @Test
    void aRangeDoesNotEndBeforeItBegins() throws Exception {
        Entry range = peer.first(KeyKind.RANGE);
        byte[] key = range.key();
        // Both bounds are a separator, an int and the end: turned round.
        byte[] turned = key.clone();
        System.arraycopy(key, key.length - 6, turned, key.length - 12, 5);
        System.arraycopy(key, key.length - 12, turned, key.length - 6, 5);
        refuses("ends before it begins", turned, range.value());
    }

    @Test
    void theClusteringOfAValueIsThatOfItsKey() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        // Row, clustering: one value of 4 bytes.
        byte[] other = {0x40, 0x0e, 0, 0, 0, 0, 0, 0, 0, 9, 1, 5, 0, 0, 0, 99};
        refuses("a clustering that is not that of the key", row.key(), other);
        byte[] two = {0x40, 0x0b, 0, 0, 0, 0, 0, 0, 0, 9, 2, 0, 0};
        refuses("a clustering of another size", row.key(), two);
    }

    @Test
    void cellsAreOfTheirColumns() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        int number = peer.id("n") << 1;
        byte[] shorter = {0, 0x0e, 0, 0, 0, 0, 0, 0, 0, 9, (byte) number, 1, 3, 1, 2, 3};
        refuses("a value of 3 bytes", row.key(), shorter);
        byte[] counter = {0, 0x0a, 0, 0, 0, 0, 0, 0, 0, 9, (byte) number, 0x20};
        refuses("a cell of n", row.key(), counter);
        Entry statics = peer.first(KeyKind.STATIC);
        refuses("a cell of s", row.key(), statics.value());
        refuses("malformed entry", statics.key(), row.value());
        int map = peer.id("m") << 1 | 1;
        byte[] path = {0, 0x0e, 0, 0, 0, 0, 0, 0, 0, 9, (byte) map, 0, 1, 1, 7, 0};
        refuses("malformed entry", row.key(), path);
        byte[] unknown = {0, 0x0a, 0, 0, 0, 0, 0, 0, 0, 9, 0x7e, 0};
        refuses("a column that the dictionary does not have", row.key(), unknown);
    }

    /**
     * No read would ever show it: the column is frozen at one of the two, and was never dropped.
     */
    @Test
    void cellsAreInTheFormOfTheirColumns() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        byte[] whole = {0, 0x0c, 0, 0, 0, 0, 0, 0, 0, 9, (byte) (peer.id("m") << 1), 1, 1, 7};
        refuses("which is not frozen here", row.key(), whole);
        byte[] parts = {0, 0x0b, 0, 0, 0, 0, 0, 0, 0, 9, (byte) (peer.id("n") << 1 | 1), 0, 0};
        refuses("which is frozen here", row.key(), parts);
    }

    /** It passed, and no read of the row ever succeeded again. */
    @Test
    void aLivenessThatExpiresHasATime() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        byte[] never = {0x0c, 0x0d, 0, 0, 0, 0, 0, 0, 0, 9, 60, -1, -1, -1, -1};
        refuses(Hex.bytesToHex(row.key()), row.key(), never);
    }

    /** A field that is too high may be one that an ALTER TYPE has added at the sender. */
    @Test
    void cellsOfAUserTypeAreOfItsFields() throws Exception {
        TestTable users =
                TestTable.of(
                        "CREATE TABLE t (k int, c int, u udt, PRIMARY KEY (k, c))",
                        TestTable.userType(
                                "udt", true, "a", Int32Type.instance, "b", UTF8Type.instance));
        Peer from = new Peer(engine, users, directory.resolve("users"));
        String large = "large ".repeat(300);
        from.store().write(users.update(1).at(1).row(1).put("u", "b", large).build());
        to = engine.openStore(users.spec(directory.resolve("to-users")));
        Entry row = from.first(KeyKind.ROW);
        Entry cell = from.large().get(0);
        byte number = (byte) (from.id("u") << 1 | 1);
        Map<Integer, String> refused =
                Map.of(2, "column u, field 2 is not in the schema", -1, "field -1 of u");
        for (Map.Entry<Integer, String> each : refused.entrySet()) {
            byte high = (byte) (each.getKey() >> 8);
            byte low = each.getKey().byteValue();
            byte[] value = {0, 0x11, 0, 0, 0, 0, 0, 0, 0, 9, number, 0, 1, 2, high, low, 1, 1, 7};
            refusesEntry(each.getValue(), users, from, new Entry(row.key(), value));
            byte[] key = cell.key().clone();
            key[key.length - 2] = high;
            key[key.length - 1] = low;
            List<byte[]> slice =
                    PeerBlocks.slice(
                            from.store(), List.of(row), List.of(new Entry(key, cell.value())));
            assertThatThrownBy(
                            () ->
                                    PeerBlocks.send(
                                            users, RangeTests.everything(), to, List.of(slice)))
                    .hasMessageContaining(each.getValue());
        }
    }

    /** One of 16 MiB was read for hours. */
    @Test
    void aKeyWithDecimalsIsNotReadBeyondWhatATableWrites() throws Exception {
        TestTable decimals =
                TestTable.of("CREATE TABLE t (k int, c decimal, v text, PRIMARY KEY (k, c))");
        Peer from = new Peer(engine, decimals, directory.resolve("decimals"));
        BigDecimal number = new BigDecimal("1234567");
        from.store().write(decimals.update(1).at(1).row(number).set("v", "v").build());
        from.store()
                .write(
                        decimals.update(2)
                                .at(2)
                                .deleteRange(decimals.from(BigDecimal.TEN), decimals.to(number))
                                .build());
        to = engine.openStore(decimals.spec(directory.resolve("to-decimals")));
        Entry row = from.first(KeyKind.ROW);
        refusesEntry(
                "a stored key cannot be decoded",
                decimals,
                from,
                new Entry(longer(row.key(), 140_000), row.value()));
        Entry range = from.first(KeyKind.RANGE);
        refusesEntry(
                "in a key with decimals",
                decimals,
                from,
                new Entry(longer(range.key(), 280_000), range.value()));
    }

    /** With so many more digits in the decimal in which the key ends. */
    private static byte[] longer(byte[] key, int digits) {
        // The ends of the decimal and of the clustering.
        int at = key.length - 2;
        byte[] longer = Arrays.copyOf(key, key.length + digits);
        Arrays.fill(longer, at, at + digits, (byte) 0x8b);
        System.arraycopy(key, at, longer, at + digits, 2);
        return longer;
    }

    /** It may be left from before: the column was dropped, and added in another form. */
    @Test
    void cellsOfADroppedColumnMayHaveAnotherForm() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        AbstractType<?> type = table.column("m").type;
        table.dropColumn("m", 100);
        table.addColumn("m", type);
        byte[] whole = {0, 0x0c, 0, 0, 0, 0, 0, 0, 0, 9, (byte) (peer.id("m") << 1), 1, 1, 7};
        List<byte[]> slice =
                PeerBlocks.slice(peer.store(), List.of(new Entry(row.key(), whole)), List.of());
        PeerBlocks.send(table, RangeTests.everything(), to, List.of(slice));
    }

    /** A column without cells, too: nothing else of it is looked at. */
    @Test
    void columnsAreOfTheDictionary() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        byte[] complex = {0, 0x0a, 0, 0, 0, 0, 0, 0, 0, 9, 0x7f, 0};
        refuses("a column that the dictionary does not have", row.key(), complex);
        Entry cell = peer.large().get(0);
        byte[] negative = cell.key().clone();
        ByteBuffer.wrap(negative).putInt(negative.length - LargeCells.SUFFIX, -1);
        refuses("column -1", List.of(), List.of(new Entry(negative, cell.value())));
    }

    /** Longer than Cassandra writes, or without anything. */
    @Test
    void aPartitionKeyHasALengthThatCassandraWrites() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        PartitionKeys partitions = new PartitionKeys(Murmur3Partitioner.instance);
        ByteBuffer honest = ByteBuffer.wrap(row.key());
        partitions.get(honest);
        for (int length : new int[] {0, 65_536}) {
            ByteSink key = new ByteSink();
            Token token = Murmur3Partitioner.instance.getToken(ByteBuffer.allocate(length));
            partitions.put(key, new BufferDecoratedKey(token, ByteBuffer.allocate(length)));
            key.put(row.key(), honest.position(), honest.remaining());
            refuses(
                    "a partition key of " + length + " bytes",
                    key.copy(0, key.position()),
                    row.value());
        }
    }

    /** No key of a table is that long: it would be held whole, twice over. */
    @Test
    void aKeyOfSixteenMebibytesIsNotRead() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        refuses("an entry's key", Arrays.copyOf(row.key(), (1 << 24) + 1), row.value());
    }

    /** Each value is read once more by what will merge it, whatever Java has thought of it. */
    @Test
    void theNativeParserReadsEachValue() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        Entry cut = new Entry(row.key(), Arrays.copyOf(row.value(), row.value().length - 1));
        int[] ids = IntStream.range(0, 9).toArray();
        try (Options options = new Options();
                StreamSst file =
                        new StreamSst(options, directory.resolve("0.sst").toString(), true)) {
            ByteBuffer both = packed(row, cut);
            assertThatThrownBy(() -> file.addAll(both, ids))
                    .isInstanceOf(MalformedFragment.class)
                    .hasMessageContaining(Hex.bytesToHex(row.key()));
            // Ids that the dictionary does not have.
            assertThatThrownBy(() -> file.addAll(packed(row), new int[0]))
                    .isInstanceOf(MalformedFragment.class);
            ByteBuffer whole = packed(row);
            for (int end : new int[] {1, 7, 8, whole.limit() - 1})
                assertThatThrownBy(() -> file.addAll(whole.duplicate().limit(end), ids))
                        .as("%d", end)
                        .isInstanceOf(MalformedFragment.class)
                        .hasMessageContaining("end early");
        }
    }

    private static ByteBuffer packed(Entry... entries) {
        ByteBuffer packed = ByteBuffer.allocateDirect(1 << 16).order(ByteOrder.LITTLE_ENDIAN);
        for (Entry entry : entries)
            packed.putInt(entry.key().length)
                    .putInt(entry.value().length)
                    .put(entry.key())
                    .put(entry.value());
        return packed.flip();
    }

    /** A put, unlike a merge, takes the place of what is there. */
    @Test
    void aLargeCellIsWhatItsKeySays() throws Exception {
        Entry cell = peer.large().get(0);
        byte[] other = changed(cell.value(), 0, 1);
        refuses("a large cell's value", List.of(), List.of(new Entry(cell.key(), other)));
        refuses("bytes behind the key", cell.key(), peer.first(KeyKind.ROW).value());
        refuses(
                "malformed entry",
                List.of(),
                List.of(new Entry(peer.first(KeyKind.ROW).key(), cell.value())));
        byte[] longer = joined(cell.key(), 1, 2);
        refuses("bytes behind the key", List.of(), List.of(new Entry(longer, cell.value())));
        byte[] column = cell.key().clone();
        ByteBuffer.wrap(column).putInt(column.length - LargeCells.SUFFIX, 77);
        refuses("a column that the dict", List.of(), List.of(new Entry(column, cell.value())));
    }

    /** The sender says of none that it is there. */
    @Test
    void deletionsThatAreNotAnnouncedHold() throws Exception {
        TableStore empty = engine.openStore(table.spec(directory.resolve("empty")));
        PeerBlocks.send(
                table,
                RangeTests.everything(),
                empty,
                List.of(PeerBlocks.slice(peer.store(), peer.rows(), peer.large())));
        for (Catalog.Flag flag : Catalog.Flag.values())
            assertThat(Tables.context(empty).catalog().has(flag)).as("%s", flag).isTrue();
    }

    /** An entry of another table than this test's. */
    private void refusesEntry(String why, TestTable of, Peer from, Entry entry) throws Exception {
        List<byte[]> slice = PeerBlocks.slice(from.store(), List.of(entry), List.of());
        assertThatThrownBy(() -> PeerBlocks.send(of, RangeTests.everything(), to, List.of(slice)))
                .hasMessageContaining(why);
    }

    /** With a text as clustering, zeros in which can be written in two ways. */
    @Test
    void keysAreInTheFormInWhichTheyAreWritten() throws Exception {
        TestTable texts =
                TestTable.of(
                        "CREATE TABLE t (k int, c text, v text, PRIMARY KEY (k, c)) WITH"
                                + " compression = {'enabled': 'false'}");
        Peer from = new Peer(engine, texts, directory.resolve("texts"));
        from.store().write(texts.update(1).at(1).row("a\0\0b").set("v", "v").build());
        from.store()
                .write(
                        texts.update(2)
                                .at(1)
                                .deleteRange(texts.from("a\0\0b"), texts.to("c"))
                                .build());
        to = engine.openStore(texts.spec(directory.resolve("to-texts")));
        byte[] written = {'a', 0, (byte) 0xFE, (byte) 0xFF, 'b'};
        byte[] read = {'a', 0, (byte) 0xFF, 0, (byte) 0xFF, 'b'};
        for (int kind : new int[] {KeyKind.ROW, KeyKind.RANGE}) {
            Entry entry = from.first(kind);
            int at = Peer.indexOf(entry.key(), written);
            ByteBuffer key = ByteBuffer.allocate(entry.key().length + 1);
            key.put(entry.key(), 0, at).put(read);
            key.put(entry.key(), at + written.length, entry.key().length - at - written.length);
            refusesEntry(
                    kind == KeyKind.ROW ? "a clustering in a form" : "a bound in a form",
                    texts,
                    from,
                    new Entry(key.array(), entry.value()));
        }
        // A deletion, and bounds of one value each, the second of which is another.
        byte[] other = {6, 21, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 5, 1, 5, 'a', 0, 0, 'b', 1, 2, 'd'};
        refusesEntry(
                "bounds that are not those of the key",
                texts,
                from,
                new Entry(from.first(KeyKind.RANGE).key(), other));
    }

    @Test
    void aClusteringColumnHasALengthThatCassandraWrites() throws Exception {
        TestTable texts =
                TestTable.of(
                        "CREATE TABLE t (k int, c text, v text, PRIMARY KEY (k, c)) WITH"
                                + " compression = {'enabled': 'false'}");
        Peer from = new Peer(engine, texts, directory.resolve("texts"));
        to = engine.openStore(texts.spec(directory.resolve("to-texts")));
        String longer = "c".repeat(65_536);
        from.store().write(texts.update(1).at(1).row("c").set("v", "v").build());
        Entry entry = from.first(KeyKind.ROW);
        ByteBuffer rest = ByteBuffer.wrap(entry.key());
        new PartitionKeys(Murmur3Partitioner.instance).get(rest);
        int at = Peer.indexOf(entry.key(), new byte[] {'c'});
        assertThat(at).isGreaterThan(rest.position());
        ByteBuffer key = ByteBuffer.allocate(entry.key().length + longer.length() - 1);
        key.put(entry.key(), 0, at).put(longer.getBytes(UTF_8));
        key.put(entry.key(), at + 1, entry.key().length - at - 1);
        refusesEntry(
                "a clustering column of more than 65535 bytes",
                texts,
                from,
                new Entry(key.array(), entry.value()));
    }

    /** Cassandra checks the clustering of a row, and not the bounds of a DELETE of several rows. */
    @Test
    void theBoundsOfARangeMayBeLonger() throws Exception {
        TestTable texts =
                TestTable.of("CREATE TABLE t (k int, c text, v text, PRIMARY KEY (k, c))");
        Peer from = new Peer(engine, texts, directory.resolve("texts"));
        to = engine.openStore(texts.spec(directory.resolve("to-texts")));
        String longer = "c".repeat(70_000);
        from.store().write(texts.update(1).at(1).row("cd").set("v", "v").build());
        to.write(texts.update(1).at(1).row("cc").set("v", "v").build());
        from.store()
                .write(
                        texts.update(1)
                                .at(2)
                                .deleteRange(texts.from("b"), texts.to(longer))
                                .build());
        SentStream.of(from.store()).ingestedBy(to);
        assertThat(Peer.content(to, texts)).isEqualTo(Peer.content(from.store(), texts));
    }

    @Test
    void aCounterIsWholeShards() throws Exception {
        TestTable counters =
                TestTable.of("CREATE TABLE t (k int, c int, n counter, PRIMARY KEY (k, c))");
        Peer from = new Peer(engine, counters, directory.resolve("counters"));
        from.store()
                .write(
                        counters.update(1)
                                .at(1)
                                .row(1)
                                .cell(
                                        BufferCell.live(
                                                counters.column("n"),
                                                1,
                                                CounterContext.instance()
                                                        .createGlobal(CounterId.fromInt(1), 1, 1)))
                                .build());
        to = engine.openStore(counters.spec(directory.resolve("to-counters")));
        Entry row = from.first(KeyKind.ROW);
        int number = from.id("n") << 1;
        byte[] part = {0, 0x0e, 0, 0, 0, 0, 0, 0, 0, 9, (byte) number, 0x21, 3, 0, 0, 7};
        refusesEntry("a counter", counters, from, new Entry(row.key(), part));
    }

    /** Two nodes that have it would add it up, at each stream. */
    @Test
    void aLocalShardOfACounterIsNotTaken() throws Exception {
        TestTable counters =
                TestTable.of("CREATE TABLE t (k int, c int, n counter, PRIMARY KEY (k, c))");
        CounterContext.ContextState local = CounterContext.ContextState.allocate(0, 1, 0);
        local.writeLocal(CounterId.fromInt(1), 5, 5);
        Peer from = new Peer(engine, counters, directory.resolve("local-shards"));
        from.store()
                .write(
                        counters.update(1)
                                .at(1)
                                .row(1)
                                .cell(BufferCell.live(counters.column("n"), 1, local.context))
                                .build());
        to = engine.openStore(counters.spec(directory.resolve("to-local-shards")));
        refusesEntry("a local shard", counters, from, from.first(KeyKind.ROW));
    }

    @Test
    void aLargeValueHasALengthThatItsTypeAllows() throws Exception {
        Map<String, String> small = Map.of("memory", "32MiB", "large_cell", "1KiB");
        try (StorageEngine other = Tables.engine(small)) {
            TestTable texts =
                    TestTable.of("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))");
            TestTable numbers =
                    TestTable.of("CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))");
            Peer from = new Peer(other, texts, directory.resolve("large-texts"));
            from.store().write(texts.update(1).at(1).row(1).set("v", "x".repeat(5_000)).build());
            to = other.openStore(numbers.spec(directory.resolve("to-numbers")));
            List<byte[]> slice =
                    PeerBlocks.slice(from.store(), List.of(from.first(KeyKind.ROW)), from.large());
            assertThatThrownBy(
                            () ->
                                    PeerBlocks.send(
                                            numbers, RangeTests.everything(), to, List.of(slice)))
                    .hasMessageContaining("a large value of 5000 bytes in v");
        }
    }

    /** The names stayed in the catalog for good, as many as each stream brought. */
    @Test
    void namesThatTheTableNeverHadGetNoIds() throws Exception {
        Map<String, String> before = Tables.context(to).catalog().columns();
        SliceColumns honest = SliceColumns.of(Tables.context(peer.store()).catalog().columns());
        List<String> names = new ArrayList<>();
        List<String> types = new ArrayList<>();
        for (int id = 0; id < honest.names().size(); id++) {
            names.add(honest.names().get(id));
            types.add("REGULAR a lie");
        }
        for (int i = 0; i < 1_000; i++) {
            names.add("lie" + i);
            types.add("REGULAR text");
        }
        List<byte[]> slice = PeerBlocks.slice(peer.store(), peer.rows(), peer.large());
        slice.set(0, PeerBlocks.columns(new SliceColumns(names, types)));
        PeerBlocks.send(table, RangeTests.everything(), to, List.of(slice));
        assertThat(Tables.context(to).catalog().columns())
                .containsAllEntriesOf(before)
                .containsOnlyKeys("s", "v", "w", "n", "m")
                .allSatisfy((name, column) -> assertThat(column).doesNotContain("lie"));
        assertThat(Peer.content(to, table)).hasSize(20);
    }
}
