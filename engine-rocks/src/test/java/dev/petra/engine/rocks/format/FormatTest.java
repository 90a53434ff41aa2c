// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import static dev.petra.engine.rocks.Tables.open;
import static dev.petra.engine.rocks.Tables.update;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.management.ThreadMXBean;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.host.Liveness;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import java.lang.management.ManagementFactory;
import java.net.URISyntaxException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.ByteArrayAccessor;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.ArrayCell;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksIterator;

/**
 * Pins the stored bytes: the worked examples of {@code docs/FORMAT.md}. If a test fails here, the
 * code has changed the format: it needs a new format version, not a new expectation.
 */
class FormatTest {
    private static final HexFormat HEX = HexFormat.of();

    private static final TableMetadata TABLE =
            Tables.table(
                    "CREATE TABLE t (k text, c int, s text static, a text, b int, m map<text,"
                            + " text>, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)");

    /** Partition "x": Murmur3 token, then the key, then the terminator. */
    private static final String POSITION = "40" + "ed16e801ba1afee7" + "40" + "7800" + "38";

    /** XXH64, seed 0, of 16,384 times "u"; computed by another implementation. */
    private static final String HASH = "b5f8f0ca52d7bdb7";

    @TempDir Path directory;

    private Map<String, String> stored(PartitionUpdate... updates) {
        return storedIn("1", updates);
    }

    private Map<String, String> storedIn(String name, PartitionUpdate... updates) {
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = open(engine, directory.resolve(name), TABLE);
            for (PartitionUpdate update : updates) store.write(update);
            Map<String, String> found = new TreeMap<>();
            try (RocksIterator it =
                    Tables.context(store)
                            .database()
                            .db
                            .newIterator(Tables.context(store).database().data)) {
                for (it.seekToFirst(); it.isValid(); it.next())
                    found.put(HEX.formatHex(it.key()), HEX.formatHex(it.value()));
            }
            return found;
        }
    }

    private static PartitionUpdate of(Row row) {
        PartitionUpdate.Builder builder =
                new PartitionUpdate.Builder(
                        TABLE, Tables.key(TABLE, "x"), TABLE.regularAndStaticColumns(), 1);
        builder.add(row);
        return builder.build();
    }

    private static ColumnMetadata column(String name) {
        return TABLE.getColumn(ByteBufferUtil.bytes(name));
    }

    private static Clustering<?> clustering(int c) {
        return Clustering.make(ByteBufferUtil.bytes(c));
    }

    @Test
    void anInsertedRow() {
        var update = update(TABLE, "x");
        update.row(7).add("a", "hi").add("b", 1);
        assertThat(stored(update.build()))
                .containsExactly(
                        Map.entry(
                                POSITION + "40" + "40" + "7ffffff8" + "38",
                                // row with liveness, 20 bytes
                                "04"
                                        + "14"
                                        // base timestamp 1000000
                                        + "00000000000f4240"
                                        // column 0, value, 2 bytes
                                        + "00"
                                        + "01"
                                        + "02"
                                        + "6869"
                                        // column 1, value, 4 bytes
                                        + "02"
                                        + "01"
                                        + "04"
                                        + "00000001"));
    }

    @Test
    void anUpdateOfOneCellAndItsMergeWithAnother() {
        var first = BTreeRow.sortedBuilder();
        first.newRow(clustering(7));
        first.addCell(BufferCell.live(column("a"), 5, UTF8Type.instance.decompose("u")));
        var second = BTreeRow.sortedBuilder();
        second.newRow(clustering(7));
        second.addCell(BufferCell.tombstone(column("a"), 6, 100));
        Row older = first.build();
        Row newer = second.build();
        String live = "00" + "0c" + "0000000000000005" + "00" + "01" + "01" + "75";
        // at second 100
        String tombstone = "00" + "0e" + "0000000000000006" + "00" + "02" + "00000064";
        String key = POSITION + "40" + "40" + "7ffffff8" + "38";
        assertThat(storedIn("live", of(older))).containsExactly(Map.entry(key, live));
        assertThat(stored(of(older), of(newer))).containsExactly(Map.entry(key, tombstone));
        // A reader reconciles fragments that were only appended, to the same row.
        Row row =
                FragmentReader.row(
                        ByteBuffer.wrap(HEX.parseHex(live + tombstone)),
                        clustering(7),
                        new RowLayout(TABLE, Map.of("a", 0)),
                        null,
                        null,
                        new SimpleCells());
        assertThat(row).isEqualTo(newer);
    }

    @Test
    void expiryADeletionAndACollection() {
        var row = BTreeRow.sortedBuilder();
        row.newRow(clustering(0));
        row.addPrimaryKeyLivenessInfo(Liveness.withExpirationTime(10, 60, 1060));
        row.addRowDeletion(Row.Deletion.regular(DeletionTime.build(9, 1000)));
        row.addCell(
                BufferCell.expiring(column("a"), 10, 60, 1000, UTF8Type.instance.decompose("t")));
        row.addComplexDeletion(column("m"), DeletionTime.build(9, 1000));
        row.addCell(
                BufferCell.live(
                        column("m"),
                        12,
                        UTF8Type.instance.decompose("v"),
                        CellPath.create(ByteBufferUtil.bytes("p"))));
        assertThat(stored(of(row.build())))
                .containsExactly(
                        Map.entry(
                                POSITION + "40" + "40" + "7fffffff" + "38",
                                // liveness, expiring, deletion
                                "1c"
                                        + "24"
                                        + "000000000000000a"
                                        // ttl 60, expires at second 1060
                                        + "3c"
                                        + "00000424"
                                        // deleted at base - 1, in second 1000
                                        + "01"
                                        + "000003e8"
                                        // column 0: value, expires with the row
                                        + "00"
                                        + "15"
                                        + "01"
                                        + "74"
                                        // column 1, complex: deletion at base - 1, one cell
                                        + "03"
                                        + "01"
                                        + "01"
                                        + "000003e8"
                                        + "01"
                                        // path "p"; value, timestamp base + 2
                                        + "01"
                                        + "70"
                                        + "09"
                                        + "04"
                                        + "01"
                                        + "76"));
    }

    @Test
    void aStaticRowAPartitionDeletionAndARangeTombstone() {
        PartitionUpdate.Builder builder =
                new PartitionUpdate.Builder(
                        TABLE, Tables.key(TABLE, "x"), TABLE.regularAndStaticColumns(), 1);
        builder.addPartitionDeletion(DeletionTime.build(3, 1000));
        // c DESC: from 9 down to above 2
        builder.add(
                new RangeTombstone(
                        Slice.make(
                                ClusteringBound.inclusiveStartOf(clustering(9)),
                                ClusteringBound.exclusiveEndOf(clustering(2))),
                        DeletionTime.build(4, 1000)));
        var row = BTreeRow.sortedBuilder();
        row.newRow(Clustering.STATIC_CLUSTERING);
        row.addCell(BufferCell.live(column("s"), 5, UTF8Type.instance.decompose("st")));
        builder.add(row.build());
        assertThat(stored(builder.build()))
                .containsExactly(
                        // partition deleted, has ranges
                        Map.entry(
                                POSITION + "10",
                                "15"
                                        + "18"
                                        + "0000000000000003"
                                        + "000003e8"
                                        // highest timestamp and time of its range tombstones
                                        + "0000000000000004"
                                        + "000003e8"),
                        Map.entry(
                                POSITION + "20",
                                "00" + "0d" + "0000000000000005" + "00" + "01" + "02" + "7374"),
                        Map.entry(
                                POSITION
                                        + "30"
                                        + "40"
                                        + "7ffffff6"
                                        + "20"
                                        + "40"
                                        + "7ffffffd"
                                        + "20",
                                "02" + "0c" + "0000000000000004" + "000003e8"));
    }

    @Test
    void aClusteringInANeedlesslyLongFormIsCarriedByTheRow() {
        TableMetadata varint =
                Tables.table("CREATE TABLE t (k text, c varint, PRIMARY KEY (k, c))");
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = open(engine, directory.resolve("2"), varint);
            Clustering<?> padded =
                    Clustering.make(ByteBuffer.wrap(HEX.parseHex("000000000000000001")));
            PartitionUpdate.Builder builder =
                    new PartitionUpdate.Builder(
                            varint, Tables.key(varint, "x"), varint.regularAndStaticColumns(), 1);
            builder.add(BTreeRow.noCellLiveRow(padded, Liveness.create(1, LivenessInfo.NO_TTL, 0)));
            store.write(builder.build());
            try (RocksIterator it =
                    Tables.context(store)
                            .database()
                            .db
                            .newIterator(Tables.context(store).database().data)) {
                it.seekToFirst();
                assertThat(HEX.formatHex(it.key())).isEqualTo(POSITION + "40" + "40" + "81" + "38");
                assertThat(HEX.formatHex(it.value()))
                        .isEqualTo(
                                "44"
                                        + "13"
                                        + "0000000000000001"
                                        // one component of 10 - 1 bytes
                                        + "01"
                                        + "0a"
                                        + "000000000000000001");
            }
        }
    }

    @Test
    void aLargeCellLeavesItsHashInTheRowAndItsValueApart() {
        String value = "u".repeat(16_384);
        var row = BTreeRow.sortedBuilder();
        row.newRow(clustering(7));
        row.addCell(BufferCell.live(column("a"), 5, UTF8Type.instance.decompose(value)));
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = open(engine, directory.resolve("large"), TABLE);
            store.write(of(row.build()));
            String rowKey = POSITION + "40" + "40" + "7ffffff8" + "38";
            Database database = Tables.context(store).database();
            try (RocksIterator it = database.db.newIterator(database.data)) {
                it.seekToFirst();
                assertThat(HEX.formatHex(it.key())).isEqualTo(rowKey);
                assertThat(HEX.formatHex(it.value()))
                        .isEqualTo("00" + "12" + "0000000000000005" + "00" + "40" + HASH);
            }
            try (RocksIterator it = database.db.newIterator(database.large)) {
                it.seekToFirst();
                assertThat(HEX.formatHex(it.key()))
                        .isEqualTo(rowKey + "00000000" + "8000000000000005" + HASH);
                assertThat(it.value()).isEqualTo(value.getBytes(UTF_8));
            }
        }
    }

    @Test
    void entriesOfAnIndex() throws Exception {
        UUID index = UUID.fromString("00112233-4455-6677-8899-aabbccddeeff");
        var update = update(TABLE, "x");
        update.row(7).add("a", "hi");
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = open(engine, directory.resolve("indexed"), TABLE);
            store.indexes().define(new UUID(0, 0));
            store.indexes().define(index);
            store.write(
                    update.build(),
                    List.of(
                            new TermEntry(index, ByteBufferUtil.bytes("hi"), clustering(7)),
                            new TermEntry(
                                    index,
                                    ByteBuffer.wrap(HEX.parseHex("00610000")),
                                    Clustering.STATIC_CLUSTERING)));
            Database database = Tables.context(store).database();
            ColumnFamilyHandle family = Objects.requireNonNull(database.index());
            assertThat(HEX.formatHex(family.getName()))
                    .isEqualTo(HEX.formatHex("index".getBytes(UTF_8)));
            Map<String, String> found = new TreeMap<>();
            try (RocksIterator it = database.db.newIterator(family)) {
                for (it.seekToFirst(); it.isValid(); it.next())
                    found.put(HEX.formatHex(it.key()), HEX.formatHex(it.value()));
            }
            assertThat(found)
                    .containsExactly(
                            Map.entry(
                                    // the second index, the escaped term
                                    "00000001"
                                            + "00ff6100fefe"
                                            + POSITION
                                            // static row
                                            + "20",
                                    ""),
                            Map.entry(
                                    "00000001"
                                            + "686900"
                                            + POSITION
                                            // row
                                            + "40"
                                            + "407ffffff8"
                                            + "38",
                                    ""));
            store.indexes().setBuilt(index, store.indexes().setBuilding(index));
            store.indexes().drop(new UUID(0, 0));
            assertThat(catalog(database, "index/0"))
                    .isEqualTo("00000000-0000-0000-0000-000000000000 dropping");
            assertThat(catalog(database, "index/1")).isEqualTo(index + " built");
        }
    }

    private static String catalog(Database database, String key) throws Exception {
        return new String(database.db.get(database.catalog, key.getBytes(UTF_8)), UTF_8);
    }

    /** If decoding the key does not return the clustering's bytes, the value has them. */
    @Test
    void anEntryOfAClusteringThatHasSeveralForms() {
        TableMetadata table = Tables.table("CREATE TABLE t (k text, c varint, PRIMARY KEY (k, c))");
        UUID index = new UUID(0, 0);
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = open(engine, directory.resolve("forms"), table);
            store.indexes().define(index);
            byte[] padded = {0, 7};
            store.indexes()
                    .add(
                            Tables.key(table, "x"),
                            List.of(
                                    new TermEntry(
                                            index,
                                            ByteBufferUtil.EMPTY_BYTE_BUFFER,
                                            Clustering.make(ByteBuffer.wrap(padded)))));
            Database database = Tables.context(store).database();
            try (RocksIterator it =
                    database.db.newIterator(Objects.requireNonNull(database.index()))) {
                it.seekToFirst();
                assertThat(HEX.formatHex(it.key())).startsWith("00000000" + "00" + POSITION + "40");
                // 3 - 1 bytes
                assertThat(HEX.formatHex(it.value())).isEqualTo("03" + "0007");
            }
        }
    }

    @Test
    void valuesInArraysAsFromTheNetworkAreStoredLikeThoseInBuffers() {
        Row[] rows = new Row[2];
        for (int i = 0; i < 2; i++) {
            var row = BTreeRow.sortedBuilder();
            row.newRow(
                    i == 0
                            ? clustering(7)
                            : ByteArrayAccessor.factory.clustering(new byte[] {0, 0, 0, 7}));
            row.addCell(
                    i == 0
                            ? BufferCell.live(column("a"), 5, UTF8Type.instance.decompose("value"))
                            : new ArrayCell(
                                    column("a"),
                                    5,
                                    Cell.NO_TTL,
                                    Cell.NO_DELETION_TIME,
                                    "value".getBytes(UTF_8),
                                    null));
            rows[i] = row.build();
        }
        assertThat(storedIn("array", of(rows[1]))).isEqualTo(storedIn("buffer", of(rows[0])));
    }

    /** Decoding began anew at the collection, and each value before it was fetched twice. */
    @Test
    void aLargeValueBesideACollectionIsFetchedOnce() {
        String value =
                "00"
                        + "1a"
                        + "0000000000000005"
                        // column 0, large
                        + "00"
                        + "40"
                        + HASH
                        // column 1, complex, without a deletion: one cell, path "p", value "v"
                        + "03"
                        + "00"
                        + "01"
                        + "0170"
                        + "01"
                        + "0176";
        AtomicInteger fetched = new AtomicInteger();
        Row row =
                FragmentReader.row(
                        ByteBuffer.wrap(HEX.parseHex(value)),
                        clustering(7),
                        new RowLayout(TABLE, Map.of("a", 0, "m", 1)),
                        null,
                        (id, of, path, timestamp, hash, isDeleted) -> {
                            fetched.incrementAndGet();
                            return new byte[] {1};
                        },
                        new SimpleCells());
        assertThat(fetched).hasValue(1);
        assertThat(row.getCell(column("a")).buffer()).isEqualTo(ByteBuffer.wrap(new byte[] {1}));
        CellPath path = CellPath.create(ByteBufferUtil.bytes("p"));
        assertThat(row.getCell(column("m"), path).buffer()).isEqualTo(ByteBufferUtil.bytes("v"));
    }

    @Test
    void malformedValuesAreRefusedNotMisread() {
        RowLayout form = new RowLayout(TABLE, Map.of("a", 0));
        for (String bad :
                new String[] {
                    "",
                    "04",
                    "0405",
                    "80" + "08" + "0000000000000001",
                    "01" + "00",
                    "04" + "09" + "0000000000000001" + "00",
                    "04" + "0c" + "0000000000000001" + "00" + "01" + "7f" + "00",
                    "04" + "0b" + "0000000000000001" + "00" + "80" + "00",
                    "04" + "ffffffff0f" + "0000000000000001",
                    "04" + "08" + "0000000000000001" + "04"
                })
            assertThatThrownBy(
                            () ->
                                    FragmentReader.row(
                                            ByteBuffer.wrap(HEX.parseHex(bad)),
                                            Clustering.EMPTY,
                                            form,
                                            null,
                                            null,
                                            new SimpleCells()))
                    .describedAs(bad)
                    .isInstanceOf(MalformedFragment.class);
    }

    /** As Row.Merger has it: Cassandra asserts that no row has both. */
    @Test
    void aDeletionThatTheLivenessShadowsIsNone() {
        // Liveness at 10, a shadowable deletion at 9, and b at 8.
        byte[] value =
                HEX.parseHex("3415" + "000000000000000a" + "0100000001" + "0009030400000005");
        Row row =
                FragmentReader.row(
                        ByteBuffer.wrap(value),
                        clustering(7),
                        new RowLayout(TABLE, Map.of("b", 0)),
                        null,
                        null,
                        new SimpleCells());
        assertThat(row.deletion().isLive()).isTrue();
        assertThat(Liveness.timestamp(row.primaryKeyLivenessInfo())).isEqualTo(10);
        assertThat(Objects.requireNonNull(row.getCell(column("b"))).timestamp()).isEqualTo(8);
    }

    /** The array for an entry of 272 MiB was of more than a GiB. */
    @Test
    void aCountOfComponentsTakesNoMemoryBeforeItIsLookedAt() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        int count = 1 << 22;
        // As a varint of four bytes.
        String counted = "80808002";
        ByteBuffer row = zeros("40" + "8c808002" + "0000000000000000" + counted, count);
        ByteBuffer range = zeros("06" + "90808002" + "000000000000000000000000" + counted, count);
        FragmentReader.Visitor visitor =
                new FragmentReader.Visitor() {
                    @Override
                    public void timestamp(long micros) {}

                    @Override
                    public void deletion(long micros) {}

                    @Override
                    public void large(int column, byte[] path, long timestamp, long hash) {}
                };
        long before = threads.getCurrentThreadAllocatedBytes();
        assertThatThrownBy(() -> FragmentReader.visit(row, visitor))
                .isInstanceOf(MalformedFragment.class)
                .hasMessageContaining("components");
        assertThatThrownBy(() -> FragmentReader.range(range, Slice.ALL))
                .isInstanceOf(MalformedFragment.class)
                .hasMessageContaining("components");
        assertThat(threads.getCurrentThreadAllocatedBytes() - before).isLessThan(8 << 20);
    }

    private static ByteBuffer zeros(String begin, int count) {
        byte[] first = HEX.parseHex(begin);
        return ByteBuffer.allocate(first.length + count).put(0, first);
    }

    /**
     * The last version that wrote format 1 wrote this store: half of its data is in SST files, half
     * in the log.
     */
    @Test
    void aStoreOfFormat1IsReadAsItWasWritten() throws Exception {
        Path store = Files.createDirectory(directory.resolve("1"));
        try (var files = Files.list(resource("/format-1"))) {
            for (Path file : files.toList()) Files.copy(file, store.resolve(file.getFileName()));
        }
        String expected = Files.readString(resource("/format-1.txt"));
        for (int time = 0; time < 2; time++)
            try (StorageEngine engine = Tables.engine()) {
                TableStore opened = open(engine, store, TABLE);
                StringBuilder found = new StringBuilder();
                for (String key : List.of("x", "y", "z"))
                    found.append(key)
                            .append('\n')
                            .append(
                                    Tables.text(
                                            opened.read(
                                                    Tables.key(TABLE, key),
                                                    Slices.ALL,
                                                    ColumnFilter.all(TABLE),
                                                    false)));
                assertThat(found.toString()).isEqualTo(expected);
                // The second read is of files that this version wrote.
                opened.flush();
                opened.compact(List.of());
            }
    }

    private static Path resource(String name) throws URISyntaxException {
        return Path.of(Objects.requireNonNull(FormatTest.class.getResource(name)).toURI());
    }
}
