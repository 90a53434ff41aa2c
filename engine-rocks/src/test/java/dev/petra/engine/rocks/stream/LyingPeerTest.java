// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.LargeCells;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.format.PartitionKeys;
import dev.petra.engine.rocks.stream.PeerParts.Entry;
import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.StreamPart;
import java.io.ByteArrayInputStream;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.apache.cassandra.db.BufferDecoratedKey;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.utils.CounterId;
import org.apache.cassandra.utils.Hex;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.Options;

/**
 * Issue 19, D: a peer whose parts are well-formed files with checksums that fit, and whose entries
 * are none that a store writes. Each is refused by name before anything is live.
 */
class LyingPeerTest {
    private static final String LARGE = "l".repeat(2_000);

    private final TestTable table = PeerParts.table("");

    @TempDir Path directory;
    private StorageEngine engine;
    private PeerParts peer;
    private TableStore to;

    @BeforeEach
    void open() throws Exception {
        engine = Tables.engine(Map.of("memory", "32MiB", "large_cell", "1KiB"));
        peer = new PeerParts(engine, table, directory.resolve("from"));
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
        List<String> before = PeerParts.content(to, table);
        PeerParts.Parts parts = peer.parts(rows, large);
        assertThatThrownBy(() -> parts.send(to)).hasMessageContaining(why);
        assertThat(PeerParts.content(to, table)).isEqualTo(before);
        assertThat(directory.resolve("to").resolve(StoreDescriptor.STREAMS)).isEmptyDirectory();
    }

    /** What follows changes one thing of what is taken here. */
    @Test
    void whatAStoreWroteIsTaken() throws Exception {
        PeerParts.Parts parts = peer.parts(peer.rows(), peer.large());
        TableStore empty = engine.openStore(table.spec(directory.resolve("empty")));
        parts.send(empty);
        assertThat(PeerParts.content(empty, table))
                .hasSize(20)
                .isEqualTo(PeerParts.content(peer.store(), table));
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
        ByteBuffer packed = ByteBuffer.allocateDirect(1 << 16);
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

    /** Of which the manifest says nothing that would let a reader look for them. */
    @Test
    void deletionsThatAreNotAnnouncedHold() throws Exception {
        PeerParts.Parts parts = peer.parts(peer.rows(), peer.large(), 0);
        TableStore empty = engine.openStore(table.spec(directory.resolve("empty")));
        parts.send(empty);
        for (Catalog.Flag flag : Catalog.Flag.values())
            assertThat(Tables.context(empty).catalog().has(flag)).as("%s", flag).isTrue();
        assertThat(PeerParts.content(empty, table))
                .isEqualTo(PeerParts.content(peer.store(), table));
    }

    @Test
    void onlyEntriesOfTheOneKindAreTaken() throws Exception {
        Entry row = peer.first(KeyKind.ROW);
        for (int type : new int[] {0, 1, 7, 0x0f, 0x11, 0x16})
            refusesFile("another kind", (content, at) -> content[at] = (byte) type, row);
        // A sequence number.
        refusesFile("another kind", (content, at) -> content[at + 1] = 1, row);
    }

    private interface Change {
        void apply(byte[] content, int kindAt);
    }

    /** Its properties still say that all are merges. */
    private void refusesFile(String why, Change change, Entry only) throws Exception {
        PeerParts.Parts parts = peer.parts(List.of(only), List.of());
        byte[] honest = parts.files().get(0);
        byte[] file = honest.clone();
        int key = PeerParts.indexOf(file, only.key());
        change.apply(file, key + only.key().length);
        PeerParts.fixChecksums(file, PeerParts.blocks(honest));
        List<String> before = PeerParts.content(to, table);
        assertThatThrownBy(() -> parts.with(0, file).send(to)).hasMessageContaining(why);
        assertThat(PeerParts.content(to, table)).isEqualTo(before);
    }

    /** Each of what a table can be compressed by, in blocks of one entry and of many. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "LZ4Compressor",
                "ZstdCompressor",
                "SnappyCompressor",
                "DeflateCompressor",
                "NoopCompressor"
            })
    void filesOfEveryCompressionAreRead(String compressor) throws Exception {
        TestTable compressed =
                PeerParts.table(" WITH compression = {'class': '" + compressor + "'}");
        PeerParts from = new PeerParts(engine, compressed, directory.resolve("compressed"));
        from.fill(300);
        from.store().write(compressed.update(1).at(5).row(9).set("w", LARGE.repeat(1_000)).build());
        PeerParts.Parts parts = from.sent();
        List<Entry> read = new ArrayList<>();
        for (int i = 0; i < parts.files().size(); i++) read.addAll(parts.entries(i));
        List<Entry> expected = new ArrayList<>(from.rows());
        expected.addAll(from.large());
        assertThat(read).hasSameSizeAs(expected);
        for (int i = 0; i < read.size(); i++) {
            assertThat(read.get(i).key()).isEqualTo(expected.get(i).key());
            assertThat(read.get(i).value()).isEqualTo(expected.get(i).value());
        }
        TableStore empty = engine.openStore(compressed.spec(directory.resolve("taken")));
        parts.send(empty);
        assertThat(PeerParts.content(empty, compressed))
                .isEqualTo(PeerParts.content(from.store(), compressed));
    }

    // Each check by itself: what it lets pass, another may stop for another reason

    /** A part is looked at as it comes, before anything reads it. */
    private void refusesAtOnce(String why, PeerParts.Parts parts, List<Range<Token>> owned)
            throws Exception {
        try (IncomingParts in = to.streamIn(parts.manifest(), owned)) {
            ByteArrayInputStream file = new ByteArrayInputStream(parts.files().get(0));
            assertThatThrownBy(() -> in.receive(0, Channels.newChannel(file)))
                    .hasMessageContaining(why);
        }
    }

    @Test
    void aPartIsWhatItsManifestSays() throws Exception {
        List<Entry> rows = peer.rows();
        PeerParts.Parts parts = peer.parts(rows, List.of());
        StreamPart part = parts.manifest().parts().get(0);
        ByteBuffer second = ByteBuffer.wrap(rows.get(1).key());
        for (StreamPart other :
                List.of(
                        new StreamPart(0, part.bytes(), part.checksum(), second, part.lastKey()),
                        new StreamPart(0, part.bytes(), part.checksum(), part.firstKey(), second)))
            refusesAtOnce("its first or last key", parts.with(List.of(other)), PeerParts.ALL);
        // What lies between the two that the manifest names.
        Token least = TestTable.token(Long.MIN_VALUE);
        refusesAtOnce(
                "does not own",
                parts,
                List.of(
                        new Range<>(least, tokenOf(rows.get(0))),
                        new Range<>(before(tokenOf(rows.get(rows.size() - 1))), least)));
    }

    private static Token tokenOf(Entry entry) {
        return new PartitionKeys(Murmur3Partitioner.instance)
                .get(ByteBuffer.wrap(entry.key()))
                .getToken();
    }

    private static Token before(Token token) {
        return TestTable.token((long) token.getTokenValue() - 1);
    }

    /** Blocks of one size, so that they can change places. */
    @Test
    void entriesComeInTheirOrder() throws Exception {
        for (int c = 0; c < 400; c++)
            peer.store().write(table.update(900).at(1).row(c).set("v", "v".repeat(900)).build());
        List<Entry> rows = peer.rows();
        rows.removeIf(row -> row.value().length < 900);
        PeerParts.Parts parts = peer.parts(rows, List.of());
        byte[] honest = parts.files().get(0);
        List<PeerParts.Block> blocks = PeerParts.blocks(honest);
        PeerParts.Block one = blocks.get(3);
        PeerParts.Block other = blocks.get(4);
        assertThat(one.size()).isEqualTo(other.size());
        byte[] file = honest.clone();
        System.arraycopy(honest, one.offset(), file, other.offset(), one.size());
        System.arraycopy(honest, other.offset(), file, one.offset(), one.size());
        PeerParts.fixChecksums(file, blocks);
        refusesAtOnce("not behind the one before", parts.with(0, file), PeerParts.ALL);
    }

    /** With a text as clustering, zeros in which can be written in two ways. */
    @Test
    void keysAreInTheFormInWhichTheyAreWritten() throws Exception {
        TestTable texts =
                TestTable.of(
                        "CREATE TABLE t (k int, c text, v text, PRIMARY KEY (k, c)) WITH"
                                + " compression = {'enabled': 'false'}");
        PeerParts from = new PeerParts(engine, texts, directory.resolve("texts"));
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
            int at = PeerParts.indexOf(entry.key(), written);
            ByteBuffer key = ByteBuffer.allocate(entry.key().length + 1);
            key.put(entry.key(), 0, at).put(read);
            key.put(entry.key(), at + written.length, entry.key().length - at - written.length);
            refusesAtOnce(
                    kind == KeyKind.ROW ? "a clustering in a form" : "a bound in a form",
                    from.parts(List.of(new Entry(key.array(), entry.value())), List.of()),
                    PeerParts.ALL);
        }
        // A deletion, and bounds of one value each, the second of which is another.
        byte[] other = {6, 21, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 5, 1, 5, 'a', 0, 0, 'b', 1, 2, 'd'};
        refusesAtOnce(
                "bounds that are not those of the key",
                from.parts(List.of(new Entry(from.first(KeyKind.RANGE).key(), other)), List.of()),
                PeerParts.ALL);
    }

    /** Of a row and of a range, in the key and in what the value says of it. */
    @Test
    void aClusteringColumnHasALengthThatCassandraWrites() throws Exception {
        TestTable texts =
                TestTable.of(
                        "CREATE TABLE t (k int, c text, v text, PRIMARY KEY (k, c)) WITH"
                                + " compression = {'enabled': 'false'}");
        PeerParts from = new PeerParts(engine, texts, directory.resolve("texts"));
        to = engine.openStore(texts.spec(directory.resolve("to-texts")));
        String longer = "c".repeat(65_536);
        from.store().write(texts.update(1).at(1).row("c").set("v", "v").build());
        from.store()
                .write(texts.update(2).at(1).deleteRange(texts.from("c"), texts.to("d")).build());
        for (int kind : new int[] {KeyKind.ROW, KeyKind.RANGE}) {
            Entry entry = from.first(kind);
            ByteBuffer rest = ByteBuffer.wrap(entry.key());
            new PartitionKeys(Murmur3Partitioner.instance).get(rest);
            int at = PeerParts.indexOf(entry.key(), new byte[] {'c'});
            assertThat(at).isGreaterThan(rest.position());
            ByteBuffer key = ByteBuffer.allocate(entry.key().length + longer.length() - 1);
            key.put(entry.key(), 0, at).put(longer.getBytes(UTF_8));
            key.put(entry.key(), at + 1, entry.key().length - at - 1);
            refusesAtOnce(
                    "a clustering column of more than 65535 bytes",
                    from.parts(List.of(new Entry(key.array(), entry.value())), List.of()),
                    PeerParts.ALL);
        }
    }

    @Test
    void aCounterIsWholeShards() throws Exception {
        TestTable counters =
                TestTable.of("CREATE TABLE t (k int, c int, n counter, PRIMARY KEY (k, c))");
        PeerParts from = new PeerParts(engine, counters, directory.resolve("counters"));
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
        refusesAtOnce(
                "a counter",
                from.parts(List.of(new Entry(row.key(), part)), List.of()),
                PeerParts.ALL);
    }

    /** A file of which one thing was changed, and the checksums if they are not what it is. */
    private void refusesShape(
            String why, boolean fix, PeerParts.Parts parts, Consumer<byte[]> change)
            throws Exception {
        byte[] honest = parts.files().get(0);
        byte[] file = honest.clone();
        change.accept(file);
        if (fix) PeerParts.fixChecksums(file, PeerParts.blocks(honest));
        refusesAtOnce(why, parts.with(0, file), PeerParts.ALL);
    }

    @Test
    void aFileIsOfTheShapeThatStoresWrite() throws Exception {
        PeerParts.Parts parts = peer.parts(peer.rows(), List.of());
        byte[] honest = parts.files().get(0);
        List<PeerParts.Block> blocks = PeerParts.blocks(honest);
        PeerParts.Block data = blocks.get(0);
        int dataEnd = data.size();
        int footer = honest.length - 53;
        refusesShape("the checksum of the block", false, parts, file -> file[20] ^= 1);
        refusesShape("the checksum of its footer", false, parts, file -> file[footer + 5] ^= 1);
        refusesShape(
                "a metaindex of -1 bytes",
                true,
                parts,
                file -> Arrays.fill(file, footer + 13, footer + 17, (byte) 0xFF));
        // An entry: what of the key is shared, its own, the value's length.
        refusesShape("an entry's key", true, parts, file -> file[0] = 5);
        refusesShape(
                "a length of",
                true,
                parts,
                file -> System.arraycopy(HUGE, 0, file, 0, HUGE.length));
        refusesShape(
                "restart points",
                true,
                parts,
                file -> Arrays.fill(file, dataEnd - 4, dataEnd, (byte) 0));
        int name = PeerParts.indexOf(honest, "rocksdb.properties".getBytes(UTF_8));
        refusesShape("a block that no part has", true, parts, file -> file[name] = 'R');
        // The index: where the first block begins, and its size.
        assertThat(dataEnd).isBetween(128, 16_383);
        byte[] handle = {0, (byte) ((dataEnd & 0x7F) | 0x80), (byte) (dataEnd >> 7)};
        int index =
                dataEnd
                        + 5
                        + PeerParts.indexOf(
                                Arrays.copyOfRange(honest, dataEnd + 5, honest.length), handle);
        refusesShape("a gap at byte 0", true, parts, file -> file[index] = 1);
        refusesShape(
                "a block of 16383 bytes",
                true,
                parts,
                file -> {
                    file[index + 1] = (byte) 0xFF;
                    file[index + 2] = 0x7F;
                });
        // Of what no one reads, but for where it lies: behind the name, place and size.
        int properties = name + "rocksdb.properties".length();
        refusesShape(
                "a gap at byte",
                true,
                parts,
                file -> {
                    assertThat(file[properties] & 0x7F).isLessThan(0x7F);
                    file[properties]++;
                    int size = properties;
                    while (file[size++] < 0) {}
                    assertThat(file[size] & 0x7F).isGreaterThan(0);
                    file[size]--;
                });
        Entry row = peer.first(KeyKind.ROW);
        PeerParts.Parts one = peer.parts(List.of(row), List.of());
        assertThat(row.value().length).isLessThan(127);
        refusesShape("an entry's value", true, one, file -> file[2]++);
        byte[] more = new byte[honest.length + 3];
        PeerParts.Block last = blocks.get(blocks.size() - 1);
        System.arraycopy(honest, 0, more, 0, last.offset());
        System.arraycopy(
                honest, last.offset(), more, last.offset() + 3, honest.length - last.offset());
        List<PeerParts.Block> moved = new ArrayList<>(blocks);
        moved.set(blocks.size() - 1, new PeerParts.Block(last.offset() + 3, last.size()));
        PeerParts.fixChecksums(more, moved);
        refusesAtOnce("a gap at byte " + last.offset(), parts.with(0, more), PeerParts.ALL);
    }

    private static final byte[] HUGE = {-1, -1, -1, -1, 0x7F};

    @Test
    void whatIsCompressedIsAsLongAsItSays() throws Exception {
        for (String compressor : List.of("LZ4Compressor", "SnappyCompressor")) {
            TestTable compressed =
                    PeerParts.table(" WITH compression = {'class': '" + compressor + "'}");
            PeerParts from = new PeerParts(engine, compressed, directory.resolve(compressor));
            from.fill(300);
            to = engine.openStore(compressed.spec(directory.resolve("to" + compressor)));
            PeerParts.Parts parts = from.sent();
            boolean snappy = compressor.startsWith("Snappy");
            if (snappy)
                refusesShape(
                        "a block of 2147483647 bytes",
                        true,
                        parts,
                        file -> System.arraycopy(new byte[] {-1, -1, -1, -1, 7}, 0, file, 0, 5));
            else refusesShape("a compressed block", true, parts, file -> file[0]++);
        }
    }

    /** An error of the disk stops a node whose {@code disk_failure_policy} is {@code stop}. */
    @Test
    void aLengthThatLiesIsNoErrorOfTheDisk() throws Exception {
        PeerParts.Parts parts = peer.parts(List.of(peer.first(KeyKind.ROW)), List.of());
        StreamPart part = parts.manifest().parts().get(0);
        for (long bytes : new long[] {1L << 60, Long.MAX_VALUE}) {
            StreamPart huge =
                    new StreamPart(0, bytes, part.checksum(), part.firstKey(), part.lastKey());
            assertThatThrownBy(() -> parts.with(List.of(huge)).send(to))
                    .isInstanceOf(IllegalArgumentException.class);
        }
        assertThat(directory.resolve("to").resolve(StoreDescriptor.STREAMS)).isEmptyDirectory();
    }
}
