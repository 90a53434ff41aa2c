// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.petra.engine.BackgroundTask;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.FileStatistics;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.rocks.db.CompactionStoppedException;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.ReopenableDatabase;
import dev.petra.engine.rocks.db.RocksSettings;
import dev.petra.engine.rocks.db.StoreLog;
import dev.petra.engine.rocks.nativelib.NativeLibrary;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.Env;
import org.rocksdb.Priority;
import org.rocksdb.RocksDBException;
import org.slf4j.LoggerFactory;

/** What an engine tells and is told beside reads and writes. */
class RocksEngineTest {
    private static final long MIB = 1 << 20;

    /** Has as many threads as it is given tasks, whatever the machine. */
    private static final Executor EXECUTOR = task -> new Thread(task).start();

    @TempDir Path directory;

    /** Compacted only when that is asked for. */
    private final TableMetadata quiet =
            Tables.table(
                    "CREATE TABLE t (k int PRIMARY KEY, v blob) WITH compaction = {'class':"
                            + " 'LeveledCompactionStrategy', 'enabled': false}");

    private final TableMetadata table =
            Tables.table(
                    "CREATE TABLE t (k int PRIMARY KEY, v blob) WITH compression = {'enabled':"
                            + " false}");

    private TableStore open(StorageEngine engine) {
        return Tables.open(engine, directory.resolve("1"), table);
    }

    private void fill(TableStore store, int mib) {
        Random random = new Random(1);
        byte[] value = new byte[8 << 10];
        for (int i = 0; i < mib * 128; i++) {
            random.nextBytes(value);
            PartitionUpdate.SimpleBuilder update = Tables.update(table, i);
            update.row().add("v", ByteBuffer.wrap(value.clone()));
            store.write(update.build());
        }
        store.flush();
    }

    @Test
    void aCompactionIsSeenWithItsProgressAndCanBeStopped() throws Exception {
        try (StorageEngine engine = Tables.engine()) {
            fill(Tables.open(engine, directory.resolve("1"), quiet), 16);
            assertThat(engine.backgroundTasks()).isEmpty();
        }
        // Another, which has not seen these writes: they make room for flushes.
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = Tables.open(engine, directory.resolve("1"), quiet);
            engine.compactionThroughput(MIB);
            CompletableFuture<Void> compact =
                    CompletableFuture.runAsync(() -> store.compact(List.of()));
            Tables.await("the compaction", () -> !engine.backgroundTasks().isEmpty());
            BackgroundTask task = engine.backgroundTasks().get(0);
            assertThat(task.kind()).isEqualTo(BackgroundTask.Kind.COMPACTION);
            assertThat(task.store()).isEqualTo(store.spec());
            assertThat(task.totalBytes()).isGreaterThan(10 * MIB);
            assertThat(task.doneBytes()).isLessThan(task.totalBytes());
            store.stopCompactions();
            assertThatThrownBy(() -> compact.get(2, TimeUnit.MINUTES))
                    .hasRootCauseInstanceOf(org.rocksdb.RocksDBException.class)
                    .hasMessageContaining("The compaction of ks.t was stopped");
            engine.compactionThroughput(Long.MAX_VALUE);
            store.compact(List.of());
            Tables.await("the end", () -> engine.backgroundTasks().isEmpty());
        }
    }

    /** Compactions of other tables have all threads of RocksDB, and much to do. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aCompactionThatWaitsForAThreadCanBeStopped(boolean byDrop) throws Exception {
        int threads;
        List<Path> paths = new ArrayList<>();
        try (StorageEngine engine = Tables.engine()) {
            threads = Env.getDefault().getBackgroundThreads(Priority.LOW);
            for (int i = 0; i <= threads; i++) paths.add(directory.resolve(Integer.toString(i)));
            for (Path path : paths) fill(Tables.open(engine, path, quiet), 2);
        }
        try (StorageEngine engine = Tables.engine()) {
            List<TableStore> stores = new ArrayList<>();
            for (Path path : paths) stores.add(Tables.open(engine, path, quiet));
            engine.compactionThroughput(1 << 10);
            List<CompletableFuture<Void>> others = new ArrayList<>();
            for (TableStore store : stores.subList(1, stores.size()))
                others.add(CompletableFuture.runAsync(() -> store.compact(List.of()), EXECUTOR));
            Tables.await("threads", () -> engine.backgroundTasks().size() == threads);
            TableStore waits = stores.get(0);
            var compact = CompletableFuture.runAsync(() -> waits.compact(List.of()), EXECUTOR);
            Tables.await(
                    "the queue", () -> Env.getDefault().getThreadPoolQueueLen(Priority.LOW) == 1);
            if (byDrop) waits.drop();
            else waits.stopCompactions();
            assertThatThrownBy(() -> compact.get(1, TimeUnit.MINUTES))
                    .hasCauseInstanceOf(CompactionStoppedException.class);
            assertThat(others).noneMatch(CompletableFuture::isDone);
            engine.compactionThroughput(Long.MAX_VALUE);
            for (CompletableFuture<Void> other : others) other.get(1, TimeUnit.MINUTES);
            if (!byDrop) waits.compact(List.of());
        }
    }

    /** What nobody relies upon must not fail those who sync, or keep them waiting. */
    @ParameterizedTest
    @EnumSource(WalSync.class)
    void aStoreWithoutDurabilityIsSyncedOnlyIfItIsAsked(WalSync mode) {
        try (StorageEngine engine = Tables.engine()) {
            engine.walSync(
                    mode, mode == WalSync.GROUP ? Duration.ofMillis(1) : Duration.ofHours(1));
            TableStore copy =
                    engine.openStore(
                            Tables.spec(directory.resolve("copy"), table).withoutDurability());
            DecoratedKey key = Tables.key(table, 1);
            for (int i = 0; i < 100; i++) copy.write(row(key));
            engine.syncAcknowledged(id -> true);
            assertThat(syncs(engine)).isZero();
            assertThat(metric(engine, "flushed_bytes")).isZero();
            copy.syncLog();
            assertThat(metric(engine, "flushed_bytes")).isPositive();

            TableStore store = open(engine);
            store.write(row(key));
            engine.syncAcknowledged(id -> true);
            long alone = syncs(engine);
            store.write(row(key));
            engine.syncAcknowledged(id -> true);
            assertThat(syncs(engine)).isGreaterThan(alone);
        }
    }

    /** The commit log relies on it: what it says next may refer to such a write. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void whatWasAcknowledgedIsSyncedThoughWritesAreRefused(boolean isDamaged) {
        UUID index = new UUID(0, 1);
        try (StorageEngine engine = Tables.engine()) {
            engine.walSync(WalSync.PERIODIC, Duration.ofHours(1));
            RocksStore store = (RocksStore) open(engine);
            store.indexes().define(index);
            fill(store, 1);
            ReopenableDatabase reopenable = Tables.context(store).reopenable();
            RocksDBException failure = isDamaged ? damagedIndex(store, index) : Tables.noSpace();
            store.write(row(Tables.key(table, 1)));
            // It is not opened anew before this use of it has ended.
            reopenable.maintain(
                    database -> {
                        assertThat(reopenable.healing.failed(failure))
                                .isInstanceOf(WriteStallException.class);
                        assertThat(reopenable.isWritable()).isFalse();
                        assertThat(store.isUnsettled()).isTrue();
                        engine.syncAcknowledged(id -> true);
                        assertThat(store.isUnsettled()).isFalse();
                    });
        }
    }

    /** It is said to be full, which nodes go on with: an index may have been damaged before. */
    @Test
    void aFullDiskIsSaidToBeFullThoughAnIndexIsDamaged() {
        withDamagedIndex(
                reopenable -> {
                    assertThat(reopenable.healing.failed(Tables.noSpace())).isNotNull();
                    for (RuntimeException failure :
                            List.of(
                                    reopenable.healing.notSynced(
                                            new RocksDBException("Writer has previous error.")),
                                    reopenable.healing.notSynced(Tables.noSpace())))
                        assertThat(failure)
                                .isInstanceOf(WriteStallException.class)
                                .hasMessageContaining("is full");
                    assertThatThrownBy(reopenable.healing::checkNotFull)
                            .hasMessageContaining("is full");
                    assertThatThrownBy(
                                    () -> {
                                        throw reopenable.healing.notSynced(
                                                new RocksDBException("Input/output error"));
                                    })
                            .isInstanceOf(FSWriteError.class);
                });
    }

    /** The other order: writes are refused for the index by the time the disk is full. */
    @Test
    void aFullDiskIsSaidToBeFullThoughWritesAreRefusedForAnIndex() {
        withDamagedIndex(
                reopenable -> {
                    assertThat(reopenable.healing.failed(Tables.corruption("damaged")))
                            .isInstanceOf(WriteStallException.class)
                            .hasMessageContaining("damaged");
                    assertThat(reopenable.healing.failed(Tables.noSpace())).isNotNull();
                    assertThatThrownBy(reopenable.healing::checkNotFull)
                            .hasMessageContaining("is full");
                    assertThat(
                                    reopenable.healing.notSynced(
                                            new RocksDBException("Writer has previous error.")))
                            .isInstanceOf(WriteStallException.class)
                            .hasMessageContaining("is full");
                });
    }

    private void withDamagedIndex(Consumer<ReopenableDatabase> used) {
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = open(engine);
            store.indexes().define(new UUID(0, 1));
            ReopenableDatabase reopenable = Tables.context(store).reopenable();
            assertThat(reopenable.healing.onIndexDamage(new RocksDBException("damaged")))
                    .isNotNull();
            reopenable.maintain(database -> used.accept(reopenable));
        }
    }

    /** A sync is no use of the database, or closing waited for the writer and he for his sync. */
    @Test
    void aDamagedIndexIsDefinedAgainThoughAWriterWaitsForItsSync() throws Exception {
        UUID index = new UUID(0, 1);
        try (StorageEngine engine = Tables.engine()) {
            engine.walSync(WalSync.GROUP, Duration.ofMillis(200));
            TableStore store = open(engine);
            store.indexes().define(index);
            ReopenableDatabase reopenable = Tables.context(store).reopenable();
            AtomicBoolean ended = new AtomicBoolean();
            CompletableFuture<Void> writing =
                    CompletableFuture.runAsync(
                            () -> {
                                while (!ended.get()) store.write(row(Tables.key(table, 1)));
                            },
                            EXECUTOR);
            assertThat(reopenable.healing.onIndexDamage(new RocksDBException("damaged")))
                    .isNotNull();
            store.indexes().define(index);
            assertThat(store.indexes().lost()).isEmpty();
            ended.set(true);
            writing.get(1, TimeUnit.MINUTES);
        }
    }

    private RocksDBException damagedIndex(RocksStore store, UUID index) {
        store.write(
                row(Tables.key(table, 2)),
                List.of(new TermEntry(index, ByteBufferUtil.bytes("x"), Clustering.EMPTY)));
        store.flush();
        return Tables.damagedIndex(store);
    }

    private static long syncs(StorageEngine engine) {
        return metric(engine, "log_syncs");
    }

    private static long metric(StorageEngine engine, String name) {
        return engine.metrics().getOrDefault(name, -1L);
    }

    /** The node may have got the range since a cleanup began, which takes hours. */
    @Test
    void whatComesDuringACleanupStays() throws Exception {
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = open(engine);
            List<DecoratedKey> keys =
                    IntStream.range(0, 3).mapToObj(k -> Tables.key(table, k)).sorted().toList();
            for (DecoratedKey key : keys) store.write(row(key));
            Token left = keys.get(0).getToken();
            Range<Token> owned = new Range<>(left, keys.get(1).getToken());
            Database database = Tables.context(store).acquire();
            CompletableFuture<Void> cleanup;
            try {
                // Nothing is flushed or compacted: the cleanup waits.
                database.db.pauseBackgroundWork();
                cleanup = CompletableFuture.runAsync(() -> store.retainRanges(List.of(owned)));
                Tables.await("the cleanup", () -> !has(store, keys.get(0)));
                store.write(row(keys.get(2)));
                assertThat(cleanup).isNotDone();
            } finally {
                database.db.continueBackgroundWork();
                database.release(Database.stripe());
            }
            cleanup.get(2, TimeUnit.MINUTES);
            assertThat(keys.stream().map(key -> has(store, key)))
                    .containsExactly(false, true, true);
        }
    }

    /** A store that takes no writes keeps a cleanup waiting, while the node may get ranges. */
    @Test
    void aCleanupLooksAtTheRangesBeforeEachAttempt() throws Exception {
        try (StorageEngine engine = Tables.engine(Map.of("write_stall_timeout", "60s"))) {
            TableStore store = open(engine);
            DecoratedKey key = Tables.key(table, 1);
            store.write(row(key));
            Database database = Tables.context(store).database();
            store.flush();
            database.db.pauseBackgroundWork();
            database.setOptions(
                    database.data,
                    Map.of(
                            "level0_file_num_compaction_trigger", "1",
                            "level0_slowdown_writes_trigger", "1",
                            "level0_stop_writes_trigger", "1"));
            AtomicInteger asked = new AtomicInteger();
            CompletableFuture<Void> cleanup =
                    CompletableFuture.runAsync(
                            () ->
                                    store.retainRanges(
                                            List.of(),
                                            () -> {
                                                if (asked.incrementAndGet() > 2)
                                                    throw new IllegalStateException("more ranges");
                                            }));
            try {
                assertThatThrownBy(() -> cleanup.get(30, TimeUnit.SECONDS))
                        .hasRootCauseMessage("more ranges");
            } finally {
                database.db.continueBackgroundWork();
            }
            assertThat(has(store, key)).isTrue();
            store.retainRanges(List.of(), () -> {});
            assertThat(has(store, key)).isFalse();
        }
    }

    private PartitionUpdate row(DecoratedKey key) {
        PartitionUpdate.SimpleBuilder update =
                Tables.update(table, ByteBufferUtil.toInt(key.getKey()));
        update.row().add("v", ByteBufferUtil.bytes("value"));
        return update.build();
    }

    private boolean has(TableStore store, DecoratedKey key) {
        return !Tables.text(store.read(key, Slices.ALL, ColumnFilter.all(table), false)).isEmpty();
    }

    /** As exporters do while a node ends. */
    @Test
    void metricsOfAClosedEngineAreZero() {
        StorageEngine engine = Tables.engine();
        fill(open(engine), 1);
        assertThat(engine.metrics().get("written_bytes")).isPositive();
        engine.close();
        assertThat(engine.metrics().values()).containsOnly(0L);
        assertThat(engine.statistics().cacheBytes()).isZero();
        assertThat(engine.backgroundTasks()).isEmpty();
    }

    @Test
    void whatTheFilesHold() {
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = open(engine);
            assertThat(store.fileStatistics()).isEqualTo(FileStatistics.NONE);
            fill(store, 2);
            FileStatistics files = store.fileStatistics();
            assertThat(files.files()).isPositive();
            assertThat(files.uncompressedBytes()).isBetween(2 * MIB, 3 * MIB);
            assertThat(files.compressedBytes()).isBetween(2 * MIB, 3 * MIB);
            assertThat(files.filterBytes()).isPositive();
            assertThat(engine.metrics().get("flushed_bytes")).isGreaterThan(2 * MIB);
        }
    }

    @Test
    void optionsOfRocksDbAreInForceAfterEachOpeningAndEachChange() throws IOException {
        String settings =
                "level0_file_num_compaction_trigger=7; compression_opts={level=3;strategy=1}";
        for (int opening = 0; opening < 2; opening++)
            try (StorageEngine engine =
                    Tables.engine(Map.of("memory", "32MiB", "rocksdb_options", settings))) {
                open(engine);
                assertThat(inForce())
                        .contains("level0_file_num_compaction_trigger=7")
                        .contains("strategy=1");
            }
    }

    /** RocksDB would keep one of each table, 1.7 MB after a night, outside of the budget. */
    @Test
    void noHistoryOfStatisticsIsKept() throws IOException {
        try (StorageEngine engine = Tables.engine(Map.of("memory", "32MiB"))) {
            open(engine);
            assertThat(options())
                    .contains("stats_persist_period_sec=0\n")
                    .contains("stats_history_buffer_size=0\n")
                    .contains("stats_dump_period_sec=0\n");
        }
    }

    /** 16 threads for each column family once took half of the time to open a small table. */
    @Test
    void aStoreIsOpenedByAsManyThreadsAsItHasFilesFor() throws IOException {
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = Tables.open(engine, directory.resolve("1"), quiet);
            assertThat(options()).contains("max_file_opening_threads=1\n");
            for (int i = 0; i < 40; i++) {
                PartitionUpdate.SimpleBuilder update = Tables.update(quiet, i);
                update.row().add("v", ByteBuffer.allocate(1));
                store.write(update.build());
                store.flush();
            }
        }
        try (StorageEngine engine = Tables.engine()) {
            Tables.open(engine, directory.resolve("1"), quiet);
            assertThat(options()).contains("max_file_opening_threads=3\n");
        }
    }

    /** Over pages of an old log that are not in memory, a write waits for the disk to read them. */
    @ParameterizedTest
    @CsvSource({"PERIODIC, 0", "GROUP, 0", "BATCH, 1"})
    void oldLogsAreWrittenOverOnlyWhereEachWriteIsSynced(WalSync mode, int logs)
            throws IOException {
        try (StorageEngine engine = Tables.engine()) {
            engine.walSync(mode, Duration.ofSeconds(10));
            Tables.open(engine, directory.resolve("1"), quiet);
            assertThat(options()).contains("recycle_log_file_num=" + logs + "\n");
        }
    }

    private String inForce() throws IOException {
        String all = options();
        int from = all.indexOf("[CFOptions \"default\"]");
        return all.substring(from, all.indexOf("[TableOptions", from));
    }

    private String options() throws IOException {
        try (var files = Files.newDirectoryStream(directory.resolve("1"), "OPTIONS-??????")) {
            Path newest = null;
            for (Path file : files) if (newest == null || file.compareTo(newest) > 0) newest = file;
            return Files.readString(newest);
        }
    }

    @ParameterizedTest
    @CsvSource({
        "nosuch=1, nosuch=1",
        "level0_file_num_compaction_trigger=many, level0_file_num_compaction_trigger=many",
        "comparator=x, comparator=x",
        "prefix_extractor=rocksdb.CappedPrefix.40, reads would miss rows",
        "level0_file_num_compaction_trigger, must be name=value",
    })
    void optionsThatRocksDbDoesNotTakeAreNamed(String options, String named) {
        assertThatThrownBy(
                        () -> Tables.engine(Map.of("memory", "32MiB", "rocksdb_options", options)))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("rocksdb_options")
                .hasMessageContaining(named);
    }

    /** All configurations together, since each has its own. */
    @Test
    void moreMemoryThanThereIsIsWarnedOf() {
        RocksSettings settings = RocksSettings.of(new EngineSettings(Map.of("memory", "64MiB")));
        NativeLibrary.load(settings.nativeLibraryDirectory());
        long spare = RocksEngine.MEMORY_IN_USE.get() + 100 * MIB;
        Runnable opened = () -> new RocksEngine(settings, spare).close();
        assertThat(Logged.by(RocksEngine.class, opened)).isEmpty();
        RocksEngine first = new RocksEngine(settings, spare);
        try {
            assertThat(Logged.by(RocksEngine.class, opened))
                    .singleElement()
                    .asString()
                    .contains("'memory'", (spare >> 20) + 28 + " MiB", (spare >> 20) + " MiB");
        } finally {
            first.close();
        }
        assertThat(Logged.by(RocksEngine.class, opened)).isEmpty();
    }

    /** One that is slowed down says so, with the table's name. */
    @Test
    void whatRocksDbWarnsOfIsInTheLog() throws Exception {
        Logger logger = (Logger) LoggerFactory.getLogger(StoreLog.class);
        ListAppender<ILoggingEvent> seen = new ListAppender<>();
        seen.start();
        logger.addAppender(seen);
        try (StorageEngine engine =
                Tables.engine(
                        Map.of(
                                "memory",
                                "32MiB",
                                "rocksdb_options",
                                "level0_file_num_compaction_trigger=1;"
                                        + "level0_slowdown_writes_trigger=1"))) {
            TableStore store = open(engine);
            engine.compactionThroughput(MIB);
            fill(store, 2);
            fill(store, 2);
        } finally {
            logger.detachAppender(seen);
        }
        assertThat(seen.list)
                .extracting(ILoggingEvent::getFormattedMessage)
                .anyMatch(line -> line.startsWith("ks.t: ") && line.contains("level-0 files"));
        assertThat(directory.resolve("1").resolve("LOG")).doesNotExist();
    }
}
