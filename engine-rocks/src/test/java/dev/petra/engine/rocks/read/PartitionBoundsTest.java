// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.PartitionContent;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.format.ClusteringKeys;
import dev.petra.engine.rocks.format.LargeBuffers;
import dev.petra.engine.rocks.format.PartitionKeys;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.dht.ByteOrderedPartitioner;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.LocalPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.OrderPreservingPartitioner;
import org.apache.cassandra.dht.RandomPartitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.EnvOptions;
import org.rocksdb.Options;
import org.rocksdb.PerfContext;
import org.rocksdb.SstFileWriter;
import org.rocksdb.TableProperties;

/**
 * A read of one partition looks only into the files that have it, and gives what a read of all
 * files in total order gives.
 */
class PartitionBoundsTest {
    private static final String TABLE =
            "CREATE TABLE t (k text, c int, d text, s text static, v text, PRIMARY KEY (k, c, d))"
                    + " WITH compaction = {'class': 'LeveledCompactionStrategy', 'enabled': false}"
                    + " AND bloom_filter_fp_chance = 0.01";
    private static final String WITHOUT = "nullptr";
    private static final String WITH = "rocksdb.FixedPrefix." + PartitionKeys.PREFIX;
    private static final int FILES = 30;

    /** From the default of {@code large_cell} on. */
    private static final String LARGE = "x".repeat(16 << 10);

    @TempDir Path directory;
    private Map<String, String> settings = Map.of("memory", "32MiB");
    private StorageEngine engine = Tables.engine(settings);
    private TableStore store;

    @AfterEach
    void close() {
        engine.close();
    }

    private void open(TestTable table) {
        store = engine.openStore(table.spec(directory.resolve("1")));
    }

    /** What the files that are written from now on have in their filters. */
    private void prefixes(String extractor) {
        set("prefix_extractor", extractor);
    }

    private void set(String option, String value) {
        Database database = Tables.context(store).acquire();
        try {
            database.setOptions(database.data, Map.of(option, value));
        } finally {
            database.release(Database.stripe());
        }
    }

    // What is looked into

    private static long dataBlocks(PerfContext counts) {
        return counts.getBlockCacheHitCount()
                + counts.getBlockReadCount()
                - counts.getBlockCacheIndexHitCount()
                - counts.getIndexBlockReadCount()
                - counts.getBlockCacheFilterHitCount()
                - counts.getFilterBlockReadCount();
    }

    /** How many data blocks a read of a whole partition asks for. */
    private long blocks(DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
        PerfContext counts = Tables.context(store).database().db.getPerfContext();
        long before = dataBlocks(counts);
        PartitionContent.of(store.read(key, slices, columns, reversed));
        return dataBlocks(counts) - before;
    }

    private TestTable thirtyFiles(boolean cut) {
        TestTable table = TestTable.of(TABLE);
        open(table);
        // So small that each file has many.
        if (cut)
            set(
                    "block_based_table_factory",
                    "{index_type=kTwoLevelIndexSearch;partition_filters=true;metadata_block_size=256}");
        String text = "x".repeat(100);
        for (int file = 0; file < FILES; file++) {
            // So many that the filters' size is not all rounding.
            for (int k = 0; k < 1_000; k++)
                store.write(table.update(file + "-" + k).row(k, "d").set("v", text).build());
            store.write(
                    table.update("in" + file)
                            .staticRow()
                            .set("s", "static")
                            .end()
                            .row(1, "a")
                            .set("v", text)
                            .end()
                            .row(1, "b")
                            .set("v", text)
                            .build());
            store.flush();
        }
        return table;
    }

    /**
     * @param cut whether the files' indexes and filters are in parts, as where there is much data
     * @param large whether there is a large cell somewhere, after which all files were looked into
     */
    @ParameterizedTest
    @CsvSource({"false, false", "true, false", "false, true", "true, true"})
    void aSliceTouchesTheFileThatHasThePartitionAndAnAbsentOneTouchesNone(
            boolean cut, boolean large) {
        TestTable table = thirtyFiles(cut);
        // There is a write buffer to be asked, too.
        store.write(table.update("unflushed").row(1, "a").set("v", large ? LARGE : "v").build());
        Slices slice = table.slices(table.prefix(1));
        long present = 0;
        long absent = 0;
        for (int file = 0; file < FILES; file++) {
            DecoratedKey key = table.key("in" + file);
            for (boolean reversed : new boolean[] {false, true}) {
                present += blocks(key, Slices.ALL, table.all(), reversed);
                present += blocks(key, slice, table.only("v"), reversed);
                present += blocks(key, Slices.NONE, table.only("s"), reversed);
                DecoratedKey nobody = table.key("nobody" + file);
                absent += blocks(nobody, Slices.ALL, table.all(), reversed);
                absent += blocks(nobody, slice, table.only("v"), reversed);
                absent += blocks(nobody, Slices.NONE, table.only("s"), reversed);
                assertThat(store.mayContain(key)).isTrue();
            }
        }
        int reads = FILES * 6;
        // Two blocks where it lies on both sides of a cut; and filters err once in a hundred times.
        double errors = 0.02 * (FILES - 1);
        assertThat((double) present / reads).isBetween(1.0, 2 + errors);
        assertThat((double) absent / reads).isLessThan(errors);
    }

    /** Without the bounds, the last row of a slice would be followed by one of the next block. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void noBlockBehindTheSliceIsRead(boolean large) {
        TestTable table = TestTable.of(TABLE + " AND compression = {'enabled': false}");
        open(table);
        // A block each.
        String text = "x".repeat(8 << 10);
        for (int c = 0; c < 20; c++)
            store.write(table.update("k").row(c, "d").set("v", text).build());
        store.flush();
        store.compact(List.of());
        if (large) store.write(table.update("large").row(1, "d").set("v", LARGE).build());
        DecoratedKey key = table.key("k");
        for (int c = 0; c < 20; c++)
            assertThat(blocks(key, table.slices(table.prefix(c)), table.only("v"), false))
                    .isEqualTo(1);
    }

    /** There is no slice in them: every filter would be twice as large, for nothing. */
    @Test
    void filtersOfTablesWithoutClusteringHaveNoPrefixes() throws Exception {
        for (boolean clustered : new boolean[] {false, true}) {
            String key = clustered ? "PRIMARY KEY (k, c)" : "PRIMARY KEY (k)";
            TestTable table = TestTable.of("CREATE TABLE t (k text, c int, v text, " + key + ")");
            TableStore each = engine.openStore(table.spec(directory.resolve("" + clustered)));
            each.write(
                    (clustered ? table.update("k").row(1) : table.update("k").row())
                            .set("v", "v")
                            .build());
            each.flush();
            Database database = Tables.context(each).database();
            for (TableProperties file :
                    database.db.getPropertiesOfAllTables(database.data).values())
                assertThat(file.getPrefixExtractorName()).isEqualTo(clustered ? WITH : WITHOUT);
        }
    }

    /** Each of the spares once kept what it was lent for a long key. */
    @Test
    void whatIsLentForLongKeysIsGivenBack() {
        TestTable table = TestTable.of(TABLE.replace("c int", "c text"));
        open(table);
        // Each 0 is written as two bytes.
        String longest = "\0\1".repeat(32_767);
        DecoratedKey key = table.key(longest);
        store.write(table.update(key).row(longest, longest).set("v", "v").build());
        Slices slices = table.slices(table.prefix(longest, longest));
        for (int time = 0; time < 3; time++) {
            LargeBuffers pool = LargeBuffers.OF_PROCESS;
            PartitionBounds bounds =
                    PartitionBounds.of(
                            Tables.context(store).partitionKeys(),
                            key,
                            new ClusteringKeys(table.metadata().comparator),
                            slices);
            long whileLent = pool.idleBytes();
            bounds.close();
            assertThat(pool.idleBytes()).isGreaterThan(whileLent);
            for (boolean reversed : new boolean[] {false, true})
                assertThat(PartitionContent.of(store.read(key, slices, table.all(), reversed)))
                        .isNotNull();
            // Its short bounds lie elsewhere.
            assertThat(store.mayContain(table.key("a"))).isFalse();
        }
    }

    // What is found

    static Stream<Arguments> partitioners() {
        return Stream.of(
                        Murmur3Partitioner.instance,
                        RandomPartitioner.instance,
                        ByteOrderedPartitioner.instance,
                        OrderPreservingPartitioner.instance,
                        new LocalPartitioner(UTF8Type.instance))
                .flatMap(each -> Stream.of(Arguments.of(each, false), Arguments.of(each, true)));
    }

    /**
     * Partitions in many files, with old filters and new ones, merged and not, with deletions of
     * all kinds: by key, which the filters are asked for, and by a scan, which looks everywhere.
     *
     * @param large whether half of the values lie apart from their rows
     */
    @ParameterizedTest
    @MethodSource("partitioners")
    void readsByKeyGiveWhatScansGive(IPartitioner partitioner, boolean large) {
        long seed = Long.getLong("petra.seed", System.nanoTime());
        System.out.println("PartitionBoundsTest, seed " + seed);
        Random random = new Random(seed);
        TestTable table = TestTable.of(TABLE, partitioner);
        if (large) {
            settings = Map.of("memory", "32MiB", "large_cell", "300B");
            engine.close();
            engine = Tables.engine(settings);
        }
        open(table);
        List<DecoratedKey> keys = keys(table, random);
        for (int round = 0; round < 40; round++) {
            for (int write = random.nextInt(12); write >= 0; write--)
                write(table, keys.get(random.nextInt(keys.size())), random);
            switch (random.nextInt(16)) {
                case 0 -> reopen(table);
                case 1 -> prefixes(WITHOUT);
                case 2, 3 -> prefixes(WITH);
                case 4 -> store.compact(List.of());
                case 5 -> store.retainRanges(ranges(keys, random));
                case 6 -> {}
                default -> store.flush();
            }
            for (int read = 0; read < 20; read++)
                compare(table, keys.get(random.nextInt(keys.size())), random, seed);
        }
    }

    private void reopen(TestTable table) {
        if (new Random().nextBoolean()) store.flush();
        engine.close();
        engine = Tables.engine(settings);
        open(table);
    }

    /** Short ones, such that have a beginning in common, and two of one token. */
    private static List<DecoratedKey> keys(TestTable table, Random random) {
        List<DecoratedKey> keys = new ArrayList<>();
        for (String key : List.of("a", "b", "bb", "c", "abcdefgh", "abcdefghi", "abcdefghj"))
            keys.add(table.key(key));
        for (int i = 0; i < 8; i++) keys.add(table.key("abcdefgh" + random.nextInt(1 << 20)));
        for (int i = 0; i < 8; i++) keys.add(table.key(Integer.toString(random.nextInt(1 << 20))));
        if (table.metadata().partitioner == Murmur3Partitioner.instance) {
            keys.add(table.keyWithToken(42, 1));
            keys.add(table.keyWithToken(42, 2));
            keys.add(table.keyWithToken(43, 3));
        }
        return keys;
    }

    private static List<Range<Token>> ranges(List<DecoratedKey> keys, Random random) {
        Token left = keys.get(random.nextInt(keys.size())).getToken();
        Token right = keys.get(random.nextInt(keys.size())).getToken();
        return List.of(new Range<>(left, right));
    }

    private void write(TestTable table, DecoratedKey key, Random random) {
        UpdateBuilder update = table.update(key).at(1 + random.nextInt(100));
        switch (random.nextInt(12)) {
            case 0 -> update.deletePartition();
            case 1 -> update.deleteRange(slice(table, random));
            case 2 -> update.deleteRow(random.nextInt(6), "d" + random.nextInt(3));
            case 3, 4 -> update.staticRow().set("s", "s".repeat(random.nextInt(600))).end();
            default ->
                    update.row(random.nextInt(6), "d" + random.nextInt(3))
                            .set("v", "v".repeat(random.nextInt(600)))
                            .end();
        }
        store.write(update.build());
    }

    private static Slice slice(TestTable table, Random random) {
        int from = random.nextInt(6);
        int to = from + random.nextInt(3);
        ClusteringBound<?> start =
                switch (random.nextInt(4)) {
                    case 0 -> table.from();
                    case 1 -> table.from(from);
                    case 2 -> table.after(from - 1);
                    default -> table.from(from, "d1");
                };
        ClusteringBound<?> end =
                switch (random.nextInt(4)) {
                    case 0 -> table.to();
                    case 1 -> table.to(to);
                    case 2 -> table.before(to + 1);
                    default -> table.to(to, "d1");
                };
        return Slice.make(start, end);
    }

    private void compare(TestTable table, DecoratedKey key, Random random, long seed) {
        Slices slices =
                switch (random.nextInt(5)) {
                    case 0 -> Slices.ALL;
                    case 1 -> Slices.NONE;
                    case 2 ->
                            table.slices(
                                    table.prefix(random.nextInt(3)),
                                    table.prefix(3 + random.nextInt(3)));
                    default -> table.slices(slice(table, random));
                };
        ColumnFilter columns = random.nextBoolean() ? table.all() : table.only("v");
        boolean reversed = random.nextBoolean();
        List<PartitionContent> scanned =
                PartitionContent.listOf(
                        store.scan(
                                new DataRange(
                                        new Bounds<>(key, key),
                                        new ClusteringIndexSliceFilter(slices, reversed)),
                                columns));
        scanned.removeIf(PartitionContent::isEmpty);
        PartitionContent read = PartitionContent.of(store.read(key, slices, columns, reversed));
        List<PartitionContent> found = read == null || read.isEmpty() ? List.of() : List.of(read);
        assertThat(found)
                .describedAs("%s, %s, reversed %s, seed %s", key, slices, reversed, seed)
                .isEqualTo(scanned);
        if (!found.isEmpty()) assertThat(store.mayContain(key)).isTrue();
    }

    /** As an older node's are, whose filters have no prefixes. */
    @Test
    void filesThatCameWithOldFiltersAreLookedInto() throws Exception {
        TestTable table = TestTable.of(TABLE);
        open(table);
        Path file = directory.resolve("old.sst");
        for (int k = 0; k < 10; k++)
            store.write(table.update("k" + k).row(1, "there").set("v", "there").build());
        prefixes(WITHOUT);
        store.flush();
        Database database = Tables.context(store).database();
        try (Options options = new Options();
                Cursor cursor = new Cursor(Tables.context(store))) {
            Tables.context(store).reconciler().install(options, false);
            try (EnvOptions environment = new EnvOptions();
                    SstFileWriter part = new SstFileWriter(environment, options)) {
                part.open(file.toString());
                cursor.seek(ByteBuffer.allocateDirect(0));
                for (; cursor.isValid(); cursor.next()) {
                    byte[] key = bytes(cursor.key());
                    byte[] value = bytes(cursor.value());
                    // The same keys with "here" for "there".
                    part.merge(here(key), here(value));
                }
                part.finish();
            }
        }
        prefixes(WITH);
        Tables.ingester(store).ingest(List.of(file), List.of(), 0, () -> true);
        assertThat(Files.exists(file)).isFalse();
        assertThat(database.db.getPropertiesOfAllTables(database.data).values())
                .extracting(TableProperties::getPrefixExtractorName)
                .containsOnly(WITHOUT);
        for (int k = 0; k < 10; k++)
            for (boolean reversed : new boolean[] {false, true}) {
                PartitionContent content =
                        PartitionContent.of(
                                store.read(table.key("k" + k), Slices.ALL, table.all(), reversed));
                assertThat(content.rows()).hasSize(2);
            }
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static byte[] here(byte[] bytes) {
        String text = new String(bytes, StandardCharsets.ISO_8859_1);
        return text.replace("there", "where").getBytes(StandardCharsets.ISO_8859_1);
    }
}
