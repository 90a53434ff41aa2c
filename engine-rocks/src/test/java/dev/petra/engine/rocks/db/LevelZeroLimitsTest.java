// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.nativelib.MutableOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.MutableDBOptions;
import org.rocksdb.RocksDBException;

/** Cassandra takes writes while compaction is behind. */
class LevelZeroLimitsTest {
    private static final int FILES = 60;
    private static final int WRITERS = 16;

    @TempDir Path directory;
    private final StorageEngine engine =
            Tables.engine(Map.of("memory", "32MiB", "write_stall_timeout", "10s"));
    private TableStore store;

    @AfterEach
    void close() {
        engine.close();
    }

    private static TestTable table(String compaction) {
        return TestTable.of(
                "CREATE TABLE t (k int PRIMARY KEY, v text) WITH compaction = {'class': '"
                        + compaction
                        + "}");
    }

    private void open(TestTable table) {
        store = engine.openStore(table.spec(directory));
    }

    private static void alter(TestTable table, String compaction) {
        table.alter(table.metadata().unbuild().params(table(compaction).metadata().params).build());
    }

    private void write(TestTable table, int key) {
        store.write(table.update(key).at(1).row().set("v", "value").build());
    }

    private void write(TestTable table) {
        for (int i = 0; i < FILES; i++) {
            write(table, i);
            store.flush();
        }
    }

    private Database database() {
        return Tables.context(store).database();
    }

    private boolean isLeast() {
        LevelZeroLimits limits = database().limits;
        return limits != null && limits.isLeast();
    }

    private long stopped() throws RocksDBException {
        return database().db.getLongProperty(database().data, "rocksdb.is-write-stopped");
    }

    private long delayed() throws RocksDBException {
        return database().db.getLongProperty(database().data, "rocksdb.actual-delayed-write-rate");
    }

    /** RocksDB looks at level 0 only while it compacts by itself, and would stop at once. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "LeveledCompactionStrategy'",
                "SizeTieredCompactionStrategy'",
                "UnifiedCompactionStrategy'"
            })
    void writesGoOnWhenCompactionBegins(String compaction) throws RocksDBException {
        TestTable table = table(compaction + ", 'enabled': 'false'");
        open(table);
        write(table);
        assertThat(database().levelZeroFiles(true)).isEqualTo(FILES);
        database().db.pauseBackgroundWork();
        try {
            alter(table, compaction);
            Tables.tick(store);
            assertThat(stopped()).isZero();
            assertThat(delayed()).isZero();
            write(table, 1);
            assertThat(database().limits)
                    .isEqualTo(LevelZeroLimits.of(4, FILES))
                    .matches(limits -> !limits.isLeast());
        } finally {
            database().db.continueBackgroundWork();
        }
        // Back, as files go.
        Tables.await(
                "compaction",
                () -> {
                    Tables.tick(store);
                    return isLeast();
                });
    }

    @Test
    void limitsAreRaisedOnlyForABacklog() {
        assertThat(LevelZeroLimits.of(4, 16).isLeast()).isTrue();
        assertThat(LevelZeroLimits.of(4, 17)).isEqualTo(new LevelZeroLimits(33, 49, false));
        LevelZeroLimits most = LevelZeroLimits.of(Integer.MAX_VALUE, 0);
        assertThat(most.slowdown()).isGreaterThan(1_000_000);
        assertThat(most.stop()).isGreaterThan(most.slowdown());
        assertThat(LevelZeroLimits.trigger(Map.of())).isEqualTo(4);
        String trigger = "level0_file_num_compaction_trigger";
        assertThat(LevelZeroLimits.trigger(Map.of(trigger, "12"))).isEqualTo(12);
        assertThat(LevelZeroLimits.trigger(Map.of(trigger, "1K"))).isGreaterThan(1000);
    }

    /** Its few files wait for the same threads as those of large tables. */
    @Test
    void theCatalogHoldsUpNoWrites() throws RocksDBException {
        open(table("LeveledCompactionStrategy'"));
        assertThat(database().db.getOptions(database().catalog).level0StopWritesTrigger())
                .isGreaterThan(1_000_000);
        assertThat(database().db.getOptions(database().catalog).level0SlowdownWritesTrigger())
                .isGreaterThan(1_000_000);
    }

    /** {@code nodetool disableautocompaction} was forgotten. */
    @Test
    void compactionStaysOffWhenTheDatabaseIsOpenedAnew() throws InterruptedException {
        TestTable table = table("LeveledCompactionStrategy'");
        store =
                engine.openStore(
                        new StoreSpec(directory, "t", 1, table.ref(), () -> true, () -> false));
        Tables.tick(store);
        ReopenableDatabase reopenable = Tables.context(store).reopenable();
        assertThat(reopenable.isCompacting()).isFalse();
        assertThat(reopenable.healing.failed(Tables.noSpace()))
                .isInstanceOf(WriteStallException.class);
        Tables.heal(reopenable);
        Tables.tick(store);
        assertThat(reopenable.isCompacting()).isFalse();
    }

    /** Time windows always have many files. */
    @Test
    void nothingIsToldWhereRocksDBDoesNotCompact() {
        TestTable table = table("LeveledCompactionStrategy', 'enabled': 'false'");
        open(table);
        write(table);
        store.close();
        open(table);
        Tables.tick(store);
        assertThat(database().limits).isNull();
    }

    /** RocksDB merges large cells and indexes of such tables, and rows it does not. */
    @Test
    void withTimeWindowsWritesGoOnThoughManyFilesOfLargeCellsAreBehind() throws RocksDBException {
        TestTable table = table("TimeWindowCompactionStrategy', 'enabled': 'false'");
        open(table);
        for (int i = 0; i < FILES; i++) {
            store.write(table.update(i).at(1).row().set("v", "x".repeat(20_000)).build());
            store.flush();
        }
        Database database = database();
        assertThat(database.levelZeroFiles(false)).isEqualTo(FILES);
        database.db.pauseBackgroundWork();
        try {
            alter(table, "TimeWindowCompactionStrategy'");
            Tables.tick(store);
            // As a restart leaves them.
            database.setOptions(
                    database.large,
                    Map.of(
                            "level0_slowdown_writes_trigger", "20",
                            "level0_stop_writes_trigger", "36"));
            assertThat(stopped()).isOne();
            database.limits = null;
            Tables.tick(store);
            assertThat(stopped()).isZero();
            assertThat(delayed()).isZero();
            write(table, 1);
        } finally {
            database.db.continueBackgroundWork();
        }
        Tables.await(
                "compaction",
                () -> {
                    Tables.tick(store);
                    return isLeast();
                });
    }

    @Test
    void theManyFilesOfTimeWindowsRaiseNoLimits() {
        TestTable table = table("TimeWindowCompactionStrategy', 'enabled': 'false'");
        open(table);
        write(table);
        alter(table, "TimeWindowCompactionStrategy'");
        Tables.tick(store);
        assertThat(database().limits).isEqualTo(LevelZeroLimits.of(4, 0));
    }

    /** Where a compaction waits for many files, all limits are as high from the opening on. */
    @Test
    void largeCellsHaveTheLimitsOfTheirRows() throws RocksDBException {
        open(table("SizeTieredCompactionStrategy', 'min_threshold': '40', 'max_threshold': '64'"));
        for (ColumnFamilyHandle family : List.of(database().data, database().large)) {
            assertThat(database().db.getOptions(family).level0SlowdownWritesTrigger())
                    .isEqualTo(80);
            assertThat(database().db.getOptions(family).level0StopWritesTrigger()).isEqualTo(96);
        }
    }

    @Test
    void writesGoOnWhereACompactionWaitsForMoreFilesThanRocksDBTakes() throws RocksDBException {
        TestTable table = table("SizeTieredCompactionStrategy'");
        open(table);
        alter(table, "SizeTieredCompactionStrategy', 'min_threshold': '40', 'max_threshold': '64'");
        Tables.tick(store);
        for (int i = 0; i < 39; i++) {
            write(table, i);
            store.flush();
        }
        assertThat(database().levelZeroFiles(true)).isEqualTo(39);
        assertThat(stopped()).isZero();
        assertThat(delayed()).isZero();
        write(table, 1);
    }

    /**
     * RocksDB charges refused attempts as if they had written: writers that tried in turns, every
     * few milliseconds, and others before their turn, kept all of them from writing.
     */
    @Test
    void slowWritesComeInTheEnd() throws RocksDBException {
        TestTable table = table("LeveledCompactionStrategy', 'enabled': 'false'");
        open(table);
        write(table);
        Database database = database();
        database.db.pauseBackgroundWork();
        try {
            database.db.setDBOptions(
                    MutableDBOptions.builder().setDelayedWriteRate(1 << 20).build());
            database.setOptions(
                    database.data,
                    Map.of(
                            "level0_slowdown_writes_trigger", "2",
                            "level0_stop_writes_trigger", "200",
                            "disable_auto_compactions", "false"));
            assertThat(delayed()).isEqualTo(1 << 20);
            String value = "x".repeat(10_000);
            List<CompletableFuture<Void>> writers = new ArrayList<>();
            ExecutorService threads = Executors.newFixedThreadPool(WRITERS);
            for (int w = 0; w < WRITERS; w++) {
                int key = w;
                writers.add(
                        CompletableFuture.runAsync(
                                () -> {
                                    for (int i = 0; i < 20; i++)
                                        store.write(
                                                table.update(key)
                                                        .at(i)
                                                        .row()
                                                        .set("v", value)
                                                        .build());
                                },
                                threads));
            }
            threads.shutdown();
            writers.forEach(CompletableFuture::join);
        } finally {
            database.db.continueBackgroundWork();
        }
    }

    /** As many as a table's own and the operator's together may be. */
    @Test
    void manyOptionsAreSetAtOnce() {
        open(table("LeveledCompactionStrategy'"));
        Map<String, String> options = new LinkedHashMap<>();
        for (String name :
                List.of(
                        "ttl",
                        "periodic_compaction_seconds",
                        "max_compaction_bytes",
                        "target_file_size_base",
                        "target_file_size_multiplier",
                        "max_bytes_for_level_base",
                        "level0_file_num_compaction_trigger",
                        "level0_slowdown_writes_trigger",
                        "level0_stop_writes_trigger",
                        "max_write_buffer_number",
                        "max_successive_merges",
                        "inplace_update_num_locks",
                        "memtable_huge_page_size",
                        "max_sequential_skip_in_iterations",
                        "soft_pending_compaction_bytes_limit",
                        "hard_pending_compaction_bytes_limit",
                        "report_bg_io_stats",
                        "paranoid_file_checks",
                        "blob_file_size",
                        "min_blob_size")) options.put(name, "100");
        options.put("report_bg_io_stats", "false");
        options.put("paranoid_file_checks", "false");
        assertThat(MutableOptions.set(database().db, database().data, options)).isNull();
    }

    /** RocksDB says so only after it has set them, and only by a text. */
    @Test
    void optionsAreSetThoughTheyCannotBeWrittenDown() throws IOException, RocksDBException {
        Path home = directory.resolve("store");
        Path away = directory.resolve("away");
        store = engine.openStore(table("LeveledCompactionStrategy'").spec(home));
        Database database = database();
        Files.move(home, away);
        try {
            Map<String, String> options = Map.of("target_file_size_base", "1234567");
            assertThat(MutableOptions.set(database.db, database.data, options))
                    .contains("Unable to persist options");
            database.setOptions(database.data, Map.of("target_file_size_base", "7654321"));
        } finally {
            Files.move(away, home);
        }
        assertThat(database.db.getOptions(database.data).targetFileSizeBase()).isEqualTo(7654321);
    }

    /** Java can set neither by itself, or has another default. */
    @Test
    void theManifestIsBoundAndRecoveryIgnoresOtherTablesBuffers() throws IOException {
        open(table("LeveledCompactionStrategy'"));
        try (Stream<Path> files = Files.list(directory)) {
            Path options =
                    files.filter(file -> file.getFileName().toString().startsWith("OPTIONS-"))
                            .findFirst()
                            .orElseThrow();
            assertThat(options)
                    .content()
                    .contains(
                            "max_manifest_file_size=4194304\n",
                            "enforce_write_buffer_manager_during_recovery=false\n");
        }
    }
}
