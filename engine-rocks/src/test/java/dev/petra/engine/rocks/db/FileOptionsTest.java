// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.db.BufferClustering;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.rocksdb.RocksDBException;
import org.rocksdb.TableProperties;

/** The options of a table, as they show in its data files. */
class FileOptionsTest {
    private static final int ROWS = 3_000;

    /** Fewer than are merged. */
    private static final int FILES = 3;

    private static final int ROWS_OF_FILE = 64;

    /** With an entry for each row. */
    private static final long INDEX_BYTES = 8_000L * FILES * ROWS_OF_FILE;

    /** Of {@link Tables#engine}, in bytes. */
    private static final long MEMORY = 32 << 20;

    @TempDir Path directory;
    private StorageEngine engine;
    private TableStore store;

    @BeforeEach
    void open() {
        engine = Tables.engine();
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private static TestTable defined(String options) {
        return TestTable.of(
                "CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c)) WITH " + options);
    }

    private static void alter(TestTable table, String options) {
        table.alter(table.metadata().unbuild().params(defined(options).metadata().params).build());
    }

    private TestTable table(String options) {
        TestTable table = defined(options);
        store = engine.openStore(new StoreSpec(directory.resolve("1"), "t", 1, table.ref()));
        return table;
    }

    private void fill(TestTable table) {
        for (int i = 0; i < ROWS; i++)
            store.write(
                    table.update("k" + i % 10)
                            .at(1)
                            .row(i)
                            .set("v", "text ".repeat(60) + i)
                            .build());
        store.flush();
    }

    /** Of the one file there is. */
    private TableProperties file() throws RocksDBException {
        Database database = Tables.context(store).acquire();
        try {
            Map<String, TableProperties> files =
                    database.db.getPropertiesOfAllTables(database.data);
            assertThat(files).hasSize(1);
            return files.values().iterator().next();
        } finally {
            database.release(Database.stripe());
        }
    }

    private static double blockBytes(TableProperties file) {
        return (double) (file.getRawKeySize() + file.getRawValueSize()) / file.getNumDataBlocks();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "'class': 'LZ4Compressor'                                              | LZ4   |"
                        + " 16",
                "'class': 'LZ4Compressor', 'chunk_length_in_kb': 64                    | LZ4   |"
                        + " 64",
                "'class': 'LZ4Compressor', 'lz4_compressor_type': 'high'               | LZ4HC |"
                        + " 16",
                "'class': 'ZstdCompressor', 'compression_level': 7, 'chunk_length_in_kb': 4 | ZSTD"
                        + " | 4",
                "'class': 'SnappyCompressor'                                           | Snappy |"
                        + " 16",
                "'class': 'DeflateCompressor', 'chunk_length_in_kb': 8                 | Zlib  | 8",
                "'class': 'NoopCompressor'                                             |"
                        + " NoCompression | 16",
                "'enabled': 'false'                                                    |"
                        + " NoCompression | 4",
            })
    void compression(String options, String name, int kib) throws RocksDBException {
        fill(table("compression = {" + options + "}"));
        assertThat(file().getCompressionName()).isEqualTo(name);
        assertThat(blockBytes(file())).isBetween(0.7 * kib * 1024, 1.2 * kib * 1024);
        if (!name.equals("NoCompression"))
            assertThat(file().getDataSize()).isLessThan(file().getRawValueSize() / 3);
        else assertThat(file().getDataSize()).isGreaterThan(file().getRawValueSize() / 2);
    }

    /** A read wants one row of the block. */
    @Test
    void blocksAreSmallerWhereAPartitionIsOneRow() throws RocksDBException {
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)");
        store = engine.openStore(new StoreSpec(directory.resolve("1"), "t", 1, table.ref()));
        for (int i = 0; i < ROWS; i++)
            store.write(table.update("k" + i).at(1).row().set("v", "text ".repeat(60) + i).build());
        store.flush();
        assertThat(blockBytes(file())).isBetween(0.7 * 8 * 1024, 1.2 * 8 * 1024);
    }

    @Test
    void theLevelOfCompression() {
        RocksSettings settings = RocksSettings.of(new EngineSettings(Map.of()));
        assertThat(
                        FileOptions.of(
                                        defined(
                                                        "compression = {'class': 'ZstdCompressor',"
                                                                + " 'compression_level': -3}")
                                                .metadata(),
                                        true,
                                        false,
                                        settings)
                                .level())
                .isEqualTo(-3);
    }

    @ParameterizedTest
    @CsvSource({"0.01, 9.6", "0.1, 4.8", "0.001, 14.4", "1.0, 0"})
    void bloomFilters(double falsePositives, double bits) throws RocksDBException {
        fill(table("bloom_filter_fp_chance = " + falsePositives));
        assertThat(file().getFilterSize() * 8.0 / file().getNumEntries())
                .isBetween(0.8 * bits, 1.3 * bits + 0.1);
    }

    @Test
    void anAlterAppliesToTheNextFileAndARewriteToTheOthers() throws RocksDBException {
        TestTable table = table("compression = {'class': 'LZ4Compressor'}");
        fill(table);
        alter(
                table,
                "compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 64}"
                        + " AND bloom_filter_fp_chance = 0.1");
        assertThat(file().getCompressionName()).isEqualTo("LZ4");
        String before = Tables.text(store.read(table.key("k1"), Slices.ALL, table.all(), false));
        store.compact(List.of());
        assertThat(file().getCompressionName()).isEqualTo("ZSTD");
        assertThat(blockBytes(file())).isGreaterThan(45 * 1024);
        assertThat(file().getFilterSize() * 8.0 / file().getNumEntries()).isBetween(3.8, 6.2);
        assertThat(Tables.text(store.read(table.key("k1"), Slices.ALL, table.all(), false)))
                .isEqualTo(before);
        alter(table, "compression = {'enabled': 'false'} AND bloom_filter_fp_chance = 1.0");
        fill(table);
        store.compact(List.of());
        assertThat(file().getCompressionName()).isEqualTo("NoCompression");
        assertThat(file().getFilterSize()).isZero();
    }

    @Test
    void aRewriteAlsoWritesTheValuesThatLieApartAnew() throws IOException {
        TestTable table = table("compression = {'class': 'ZstdCompressor'}");
        for (int i = 0; i < 40; i++)
            store.write(
                    table.update("k")
                            .at(1)
                            .row(i)
                            .set("v", "long text ".repeat(5_000) + i)
                            .build());
        store.flush();
        assertThat(blobBytes()).isBetween(1L, 400_000L);
        String before = read(table, "k");
        alter(table, "compression = {'enabled': 'false'}");
        store.rewrite();
        assertThat(blobBytes()).isGreaterThan(40 * 50_000);
        assertThat(read(table, "k")).isEqualTo(before);
        alter(table, "compression = {'class': 'LZ4Compressor'}");
        store.rewrite();
        // RocksDB deletes those of before some time after the compaction.
        Tables.await("the end of the others", () -> blobBytes() <= 400_000);
        assertThat(blobBytes()).isPositive();
        assertThat(read(table, "k")).isEqualTo(before);
    }

    /** Rows of one partition each, and many of one partition: found by key and by prefix. */
    @Test
    void indexesAndFiltersThatFillTheCacheAreCut() throws RocksDBException {
        TestTable table = table("compression = {'enabled': 'false'}");
        fill(table);
        assertThat(file().getIndexPartitions()).isZero();
        store.close();
        store = engine.openStore(new StoreSpec(directory.resolve("1"), "t", 1, table.ref()));
        // Those of other stores: not too much without this one's.
        IndexVolume indexes = Tables.context(store).reopenable().resources().indexes();
        indexes.add(MEMORY / 2);
        Random random = new Random(1);
        List<String> keys = new ArrayList<>();
        for (int i = 0; i < 30_000; i++) {
            String key = "p" + i;
            keys.add(key);
            // Not in the order of the clustering, and of any length.
            store.write(
                    table.update(key)
                            .at(1)
                            .row(random.nextInt())
                            .set("v", "x".repeat(random.nextInt(30)))
                            .build());
        }
        store.compact(List.of());
        assertThat(file().getIndexPartitions()).isGreaterThan(1);
        for (String key : keys) assertThat(read(table, key)).as(key).isNotEmpty();
        for (int k = 0; k < 10; k++)
            for (int c : new int[] {k, ROWS - 10 + k}) {
                Slices row =
                        Slices.with(
                                table.metadata().comparator,
                                Slice.make(BufferClustering.make(ByteBufferUtil.bytes(c))));
                assertThat(Tables.text(store.read(table.key("k" + k), row, table.all(), false)))
                        .as("k%d, %d", k, c)
                        .contains("text");
            }
        indexes.add(-MEMORY / 2);
        fill(table);
        store.compact(List.of());
        assertThat(file().getIndexPartitions()).as("options do not go to and fro").isGreaterThan(1);
    }

    /** In a table of one partition whose key is most of what its indexes take. */
    private void fillLevelZero(TestTable table) {
        String key = "k".repeat(8_000);
        for (int file = 0; file < FILES; file++) {
            for (int i = 0; i < ROWS_OF_FILE; i++)
                store.write(
                        table.update(key)
                                // Each file in a window of its own.
                                .at(file * 86_400_000_000L + 1)
                                .row(file * ROWS_OF_FILE + i)
                                .set("v", "v")
                                .build());
            store.flush();
        }
        assertThat(Tables.context(store).database().dataFiles())
                .hasSize(FILES)
                .allMatch(file -> file.level() == 0);
    }

    private static String uncompressed(String strategy, boolean enabled) {
        return "compression = {'enabled': 'false'} AND compaction = {'class': '%s', 'enabled': '%s'}"
                .formatted(strategy, enabled);
    }

    /** What no read can have evicted. */
    private long pinnedBytes() {
        return reopenable().resources().cache().getPinnedUsage();
    }

    /**
     * @param before what was without files
     */
    private void assertPinned(boolean pinned, long before) {
        if (pinned) assertThat(pinnedBytes() - before).isGreaterThan(INDEX_BYTES * 2 / 3);
        // What a write buffer took may go some time after its flush.
        else Tables.await("less in the cache", () -> pinnedBytes() - before < INDEX_BYTES / 3);
    }

    /**
     * Files of a stream lie in level 0 where there are time windows or nothing is merged, however
     * many they are: no read could have their indexes and filters evicted, and memory was exceeded.
     */
    @ParameterizedTest
    @CsvSource({
        "LeveledCompactionStrategy, true, true",
        "LeveledCompactionStrategy, false, false",
        "TimeWindowCompactionStrategy, true, false",
    })
    void onlyWhereFewFilesAreInLevelZeroTheirIndexesArePinned(
            String strategy, boolean enabled, boolean pinned) {
        TestTable table = table(uncompressed(strategy, enabled));
        long before = pinnedBytes();
        fillLevelZero(table);
        assertPinned(pinned, before);
        StoreSpec spec = store.spec();
        store.close();
        store = engine.openStore(spec);
        assertPinned(pinned, before);
    }

    @Test
    void anAlterToTimeWindowsPinsNoMoreIndexes() {
        TestTable table = table(uncompressed("LeveledCompactionStrategy", true));
        long before = pinnedBytes();
        alter(table, uncompressed("TimeWindowCompactionStrategy", true));
        Tables.tick(store);
        assertThat(told().compaction().window()).isNotNull();
        fillLevelZero(table);
        assertPinned(false, before);
    }

    private long blobBytes() throws IOException {
        long bytes = 0;
        try (var files = Files.newDirectoryStream(directory.resolve("1"), "*.blob")) {
            for (Path file : files)
                try {
                    bytes += Files.size(file);
                } catch (NoSuchFileException e) {
                    // One of before, which went since it was listed.
                }
        }
        return bytes;
    }

    private String read(TestTable table, String key) {
        return Tables.text(store.read(table.key(key), Slices.ALL, table.all(), false));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "'class': 'SizeTieredCompactionStrategy'                        | false 10 64 4 32"
                        + " 50",
                "'class': 'SizeTieredCompactionStrategy', 'min_threshold': 6, 'max_threshold': 8,"
                    + " 'bucket_high': 2.0                                  | true 10 64 6 8 100",
                "'class': 'LeveledCompactionStrategy'                           | false 10 64 4 32"
                        + " 50",
                "'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 160, 'fanout_size': 8 "
                    + "                                                    | false 8 160 4 32 50",
                "'class': 'TimeWindowCompactionStrategy'                        | true 10 64 4 32"
                        + " 50",
                "'class': 'UnifiedCompactionStrategy', 'target_sstable_size': '256MiB'             "
                        + "                                        | true 10 256 4 32 50",
                "'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'L8, T4'              "
                        + "                                       | false 8 64 4 32 50",
                "'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'N' | true 10 64 2 32"
                        + " 50",
                // RocksDB merges nothing if the least is above the most.
                "'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T64' | true 10 64 64"
                        + " 64 50",
                // It takes no negative tolerance.
                "'class': 'SizeTieredCompactionStrategy', 'bucket_low': 0.3, 'bucket_high': 0.9 |"
                        + " true 10 64 4 32 0",
                "'class': 'UnifiedCompactionStrategy', 'scaling_parameters': '-3' | false 5 64 4 32"
                        + " 50",
            })
    void compaction(String options, String settings) {
        CompactionSettings actual =
                CompactionSettings.of(
                        defined("compaction = {" + options + "}").metadata().params.compaction,
                        false);
        assertThat(
                        String.join(
                                " ",
                                Boolean.toString(actual.universal()),
                                Integer.toString(actual.fanout()),
                                Long.toString(actual.fileBytes() >> 20),
                                Integer.toString(actual.fewest()),
                                Integer.toString(actual.most()),
                                Integer.toString(actual.tolerance())))
                .isEqualTo(settings);
    }

    /** Of the rows' column family, as RocksDB writes them down. */
    private String inForce() throws IOException {
        return inForce("default");
    }

    private String inForce(String family) throws IOException {
        String all = Files.readString(newestOptions());
        int from = all.indexOf("[CFOptions \"" + family + "\"]");
        return all.substring(from, all.indexOf("[TableOptions", from));
    }

    private Path newestOptions() throws IOException {
        try (var files = Files.newDirectoryStream(directory.resolve("1"), "OPTIONS-??????")) {
            Path newest = null;
            for (Path file : files) if (newest == null || file.compareTo(newest) > 0) newest = file;
            return newest;
        }
    }

    private FileOptions told() {
        AtomicReference<FileOptions> told = new AtomicReference<>();
        assertThat(reopenable().ifOpen(present -> told.set(present.files()))).isTrue();
        return told.get();
    }

    private ReopenableDatabase reopenable() {
        return Tables.context(store).reopenable();
    }

    @Test
    void optionsThatRocksDbRefusesDoNotCountAsTold() throws IOException {
        table("compression = {'class': 'LZ4Compressor'}");
        FileOptions before = told();
        CompactionSettings compaction = before.compaction();
        FileOptions bad =
                new FileOptions(
                        before.compression(),
                        before.level(),
                        before.blockSize(),
                        before.bitsPerKey(),
                        new CompactionSettings(
                                compaction.universal(),
                                compaction.fanout(),
                                compaction.fileBytes(),
                                compaction.fewest(),
                                compaction.most(),
                                -1,
                                compaction.window()),
                        before.automatic(),
                        before.partitioned());
        reopenable().writeFiles(bad);
        assertThat(told()).isEqualTo(before);
        // Some of them it may have taken: so those from before are not in force for sure.
        Path options = newestOptions();
        reopenable().writeFiles(before);
        assertThat(newestOptions()).isNotEqualTo(options);
        options = newestOptions();
        reopenable().writeFiles(before);
        assertThat(newestOptions()).isEqualTo(options);
    }

    /** As by nodetool disableautocompaction, before a full disk had it opened anew. */
    @Test
    void aStoreThatMayNotCompactIsOpenedSo() throws IOException {
        TestTable table = defined("compaction = {'class': 'UnifiedCompactionStrategy'}");
        store =
                engine.openStore(
                        new StoreSpec(
                                directory.resolve("1"),
                                "t",
                                1,
                                table.ref(),
                                () -> false,
                                () -> false));
        assertThat(told().automatic()).isFalse();
        assertThat(inForce()).contains("disable_auto_compactions=true");
        assertThat(inForce("large")).contains("disable_auto_compactions=true");
    }

    /** Files that the one left are read, and merged, by the other. */
    @Test
    void compactionChangesWhenTheStoreIsOpenedAnew() throws IOException {
        TestTable table =
                table("compaction = {'class': 'LeveledCompactionStrategy', 'fanout_size': 8}");
        assertThat(inForce())
                .contains("compaction_style=kCompactionStyleLevel")
                .contains("max_bytes_for_level_multiplier=8.");
        String[] classes = {"UnifiedCompactionStrategy", "LeveledCompactionStrategy"};
        String[] styles = {"Universal", "Level"};
        for (int round = 0; round < 6; round++) {
            fill(table);
            if (round % 2 == 1) store.compact(List.of());
            fill(table);
            alter(table, "compaction = {'class': '" + classes[round % 2] + "'}");
            store.flush();
            String style = "compaction_style=kCompactionStyle" + styles[round % 2];
            assertThat(inForce()).doesNotContain(style);
            StoreSpec spec = store.spec();
            store.close();
            store = engine.openStore(spec);
            assertThat(inForce()).contains(style);
            assertNothingIsRewrittenForItsAge(round % 2 == 0);
            for (int key = 0; key < 10; key++) {
                int rows = 0;
                try (UnfilteredRowIterator read =
                        store.read(table.key("k" + key), Slices.ALL, table.all(), key % 2 == 0)) {
                    for (; read.hasNext(); read.next()) rows++;
                }
                assertThat(rows).isEqualTo(ROWS / 10);
            }
        }
    }

    @Test
    void anAlterOfWhatCompactionMergesAppliesAtOnce() throws IOException {
        TestTable table = table("compaction = {'class': 'UnifiedCompactionStrategy'}");
        assertNothingIsRewrittenForItsAge(true);
        alter(
                table,
                "compaction = {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T6',"
                        + " 'enabled': 'false'}");
        store.flush();
        assertThat(inForce())
                .contains("compaction_style=kCompactionStyleUniversal")
                .contains("level0_file_num_compaction_trigger=6")
                .contains("min_merge_width=6")
                .contains("disable_auto_compactions=true");
        assertThat(inForce("large")).contains("disable_auto_compactions=true");
        assertNothingIsRewrittenForItsAge(true);
    }

    /** RocksDB's own choice is 30 days for all of it, which is 4294967294 where nothing is set. */
    private void assertNothingIsRewrittenForItsAge(boolean universal) throws IOException {
        assertThat(inForce())
                .contains("\n  ttl=" + (universal ? 0 : 2592000) + "\n")
                .contains("\n  periodic_compaction_seconds=0\n");
        assertThat(inForce("large"))
                .contains("\n  ttl=2592000\n")
                .contains("\n  periodic_compaction_seconds=0\n");
    }

    @Test
    void thePeriodicFlush() throws IOException, InterruptedException {
        TestTable table = table("memtable_flush_period_in_ms = 100");
        store.write(table.update("k").at(1).row(1).set("v", "x").build());
        Tables.await(
                "a file",
                () -> {
                    try (var files = Files.newDirectoryStream(directory.resolve("1"), "*.sst")) {
                        return files.iterator().hasNext();
                    }
                });
    }

    @Test
    void whatOfCompactionIsNotHonouredIsSaid() {
        assertThat(reservations("'class': 'SizeTieredCompactionStrategy'")).isEmpty();
        assertThat(reservations("'class': 'LeveledCompactionStrategy', 'fanout_size': 8"))
                .isEmpty();
        assertThat(reservations("'class': 'UnifiedCompactionStrategy', 'enabled': 'false'"))
                .isEmpty();
        assertThat(reservations("'class': 'SizeTieredCompactionStrategy', 'bucket_low': 0.1"))
                .singleElement()
                .asString()
                .contains("[bucket_low] is ignored");
        assertThat(
                        reservations(
                                "'class': 'TimeWindowCompactionStrategy',"
                                        + " 'compaction_window_unit': 'HOURS'"))
                .isEmpty();
        assertThat(
                        reservations(
                                "'class': 'TimeWindowCompactionStrategy', 'tombstone_threshold':"
                                        + " 0.5"))
                .singleElement()
                .asString()
                .contains("[tombstone_threshold] is ignored");
    }

    private static List<String> reservations(String compaction) {
        return FileOptions.reservations(
                defined("compaction = {" + compaction + "}").metadata().params);
    }

    @Test
    void whatIsNotHonouredIsSaid() {
        assertThat(FileOptions.reservations(defined("comment = 'x'").metadata().params)).isEmpty();
        assertThat(
                        FileOptions.reservations(
                                defined(
                                                "compaction = {'class':"
                                                    + " 'TimeWindowCompactionStrategy',"
                                                    + " 'tombstone_threshold': 0.5} AND"
                                                    + " crc_check_chance = 0.5 AND compression ="
                                                    + " {'class': 'LZ4Compressor',"
                                                    + " 'min_compress_ratio': 2} AND caching ="
                                                    + " {'keys': 'NONE'}")
                                        .metadata()
                                        .params))
                .hasSize(4);
    }
}
