// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.ReopenableDatabase;
import dev.petra.engine.rocks.nativelib.Preloaded;
import dev.petra.streaming.ChildJvm;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.rocksdb.RocksDBException;

/**
 * A sync of a log fails, and what the disk did not take is gone from it ({@code failsync.cpp}): the
 * store has it in memory, stays open, and says of nothing that it is durable.
 */
@Tag("slow")
class FailedSyncTest {
    private static final TableMetadata TABLE =
            Tables.table("CREATE TABLE t (k int PRIMARY KEY, v int)");
    private static final UUID INDEX = new UUID(0, 1);
    private static final int SYNCED = 100;
    private static final int ROWS = 200;
    private static final String FOR_GOOD = "until the node is started anew";
    private static final String WELL = "all is as it should be";

    @TempDir static Path libraries;
    private static Path library;

    @TempDir Path directory;

    @BeforeAll
    static void compile() throws IOException, InterruptedException {
        library = Preloaded.compile("failsync", libraries);
    }

    /** When it fails. */
    enum When {
        /** As the store is closed, to be opened anew without its indexes. */
        INDEX_DAMAGED,
        /** The same, while writes go on. */
        INDEX_LOST,
        /** In a thread of RocksDB's, behind a write that found no room. */
        LOG_FULL,
        /** The same, while the log is synced without RocksDB, which would not be told. */
        LOG_FULL_MEANWHILE,
        /** The same of the directory, which has the log's name. */
        LOG_FULL_DIRECTORY,
        /** Of the directory, in the thread that asks. */
        DIRECTORY,
        /** The same, while another of RocksDB's threads is told so, and has not said it yet. */
        DIRECTORY_OF_OTHER;

        boolean isLogFull() {
            return name().startsWith(LOG_FULL.name());
        }

        boolean isOfDirectory() {
            return name().endsWith(DIRECTORY.name());
        }

        String failing() {
            return this == DIRECTORY_OF_OTHER
                    ? "PETRA_BAD_OTHER_DIRECTORY"
                    : isOfDirectory() ? "PETRA_BAD_DIRECTORY" : "PETRA_BAD";
        }
    }

    private static void write(TableStore store, int row) {
        PartitionUpdate.SimpleBuilder update = Tables.update(TABLE, row);
        update.row().add("v", row);
        store.write(
                update.build(),
                List.of(new TermEntry(INDEX, ByteBufferUtil.bytes(row), Clustering.EMPTY)));
    }

    /** A store with so many rows, in the process's directory. */
    private static TableStore filled(
            StorageEngine engine, WalSync sync, String directory, int rows) {
        engine.walSync(sync, Duration.ofHours(1));
        TableStore store = Tables.open(engine, Path.of(directory, "1"), TABLE);
        store.indexes().define(INDEX);
        for (int row = 0; row < rows; row++) write(store, row);
        return store;
    }

    private static boolean has(TableStore store, int row) {
        try (UnfilteredRowIterator rows =
                store.read(Tables.key(TABLE, row), Slices.ALL, ColumnFilter.all(TABLE), false)) {
            return rows != null && rows.hasNext();
        }
    }

    private static void assertAllThere(TableStore store) {
        assertThat(IntStream.range(0, ROWS).filter(row -> !has(store, row)).boxed()).isEmpty();
    }

    /** The process: directory, when. */
    static final class Writing {
        private Writing() {}

        public static void main(String[] args) throws Exception {
            StorageEngine engine = Tables.engine();
            engine.walSync(WalSync.PERIODIC, Duration.ofHours(1));
            TableStore store = Tables.open(engine, Path.of(args[0], "1"), TABLE);
            store.indexes().define(INDEX);
            write(store, 0);
            store.flush();
            for (int row = 1; row < SYNCED; row++) write(store, row);
            engine.syncAcknowledged(id -> true);
            for (int row = SYNCED; row < ROWS - 1; row++) write(store, row);
            When when = When.valueOf(args[1]);
            // A new log, the name of which is not synced yet.
            if (when == When.DIRECTORY || when == When.DIRECTORY_OF_OTHER) store.flush();
            write(store, ROWS - 1);
            ReopenableDatabase database = Tables.context(store).reopenable();
            if (when == When.INDEX_LOST)
                assertThat(database.healing.onIndexDamage(new IOException("damaged"))).isNotNull();
            Path bad = create(when.failing());
            if (when == When.INDEX_LOST) {
                assertThat(catchThrowable(database.healing::renewDamagedIndex))
                        .isInstanceOf(FSWriteError.class);
                // Reads wait for each attempt, and it would fail.
                assertThat(catchThrowable(database.healing::renewDamagedIndex))
                        .isInstanceOf(FailedSyncError.class)
                        .hasMessageContaining(FOR_GOOD);
            } else if (when == When.INDEX_DAMAGED) {
                RocksDBException damage = Tables.damagedIndex(store);
                database.maintain(use -> assertThat(database.healing.failed(damage)).isNotNull());
                assertThat(catchThrowable(database.healing::heal)).isNotNull();
            } else if (when.isLogFull()) {
                if (when == When.LOG_FULL_MEANWHILE)
                    failMeanwhile(database, bad, create("PETRA_MEANWHILE"));
                create("PETRA_FULL");
                assertThat(catchThrowable(() -> write(store, ROWS)))
                        .isInstanceOf(WriteStallException.class);
                if (when != When.LOG_FULL_MEANWHILE)
                    Tables.await("the sync of RocksDB's own", () -> !Files.exists(bad));
                // It says so of a directory only when it has told those that wait.
                if (when.isOfDirectory()) Thread.sleep(1_000);
            }
            // By a full disk the commit log would not be kept.
            for (int time = 0; time < 2; time++)
                assertThat(catchThrowable(() -> engine.syncAcknowledged(id -> true)))
                        .isInstanceOf(FSWriteError.class)
                        .hasStackTraceContaining("Input/output error");
            assertThat(bad).doesNotExist();
            assertAllThere(store);
            engine.walSync(WalSync.PERIODIC, Duration.ofMillis(10));
            // It is tried again, and nothing is taken meanwhile.
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(3);
            while (System.nanoTime() - end < 0) {
                assertThat(catchThrowable(() -> write(store, ROWS))).hasMessageContaining(FOR_GOOD);
                // Thousands of writes tell as much as all that a processor can make.
                LockSupport.parkNanos(500_000);
            }
            assertAllThere(store);
            if (when == When.LOG_FULL) assertNoReadWaits(database);
            // Whoever sits out a stall, as the replay of the commit log does, would never end.
            if (when.isLogFull() || when == When.INDEX_DAMAGED)
                assertThat(catchThrowable(database.healing::checkNotFull))
                        .isInstanceOf(FailedSyncError.class)
                        .hasMessageContaining(FOR_GOOD);
            assertIsNotClosedAsSynced(database);
            System.out.println(WELL);
            // Closing it would wait for nothing, and what comes of it is not looked at.
            Runtime.getRuntime().halt(0);
        }
    }

    /** It is tried again, which no read waits for. */
    private static void assertNoReadWaits(ReopenableDatabase database) {
        Database used = database.acquire();
        try {
            Tables.await(
                    "an attempt to open it anew",
                    () -> catchThrowable(database.healing::heal) instanceof FSWriteError);
        } finally {
            used.release(Database.stripe());
        }
    }

    private static void assertIsNotClosedAsSynced(ReopenableDatabase database) {
        Database used = database.acquire();
        try {
            assertThatThrownBy(() -> database.close(1))
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("Its log could not be synced");
        } finally {
            used.release(Database.stripe());
        }
    }

    /** Says what a thread of RocksDB's would, which cannot be stopped where it would have to be. */
    private static void failMeanwhile(ReopenableDatabase database, Path bad, Path synced) {
        new Thread(
                        () -> {
                            Tables.await("a sync by Java", () -> !Files.exists(synced));
                            RocksDBException e =
                                    new RocksDBException(
                                            "While fdatasync: 000010.log: Input/output error");
                            assertThat(catchThrowable(() -> database.healing.failed(e)))
                                    .isNotNull();
                            assertThat(bad.toFile().delete()).isTrue();
                        })
                .start();
    }

    private static Path create(String variable) throws IOException {
        return Files.createFile(Path.of(System.getenv(variable)));
    }

    @ParameterizedTest
    @EnumSource(When.class)
    void aStoreThatCannotBeSyncedStaysOpen(When when) throws Exception {
        String output = run(Writing.class, when.name());
        assertThat(output.split("The log of ks.t could not be synced \\(", -1)).hasSize(2);
        assertThat(output).doesNotContain("until a sync succeeds");
    }

    /** The process: directory. */
    static final class Checkpointing {
        private Checkpointing() {}

        public static void main(String[] args) throws Exception {
            StorageEngine engine = Tables.engine();
            TableStore store = filled(engine, WalSync.PERIODIC, args[0], SYNCED);
            Path bad = create("PETRA_BAD_CHECKPOINT");
            Path target = Path.of(args[0], "checkpoint");
            assertThat(catchThrowable(() -> store.checkpoint(target)))
                    .isInstanceOf(FSWriteError.class)
                    .hasStackTraceContaining("Input/output error");
            assertThat(bad).doesNotExist();
            assertThat(target).doesNotExist();
            for (int row = SYNCED; row < ROWS; row++) write(store, row);
            engine.syncAcknowledged(id -> true);
            store.checkpoint(target);
            TableStore copy = Tables.open(engine, target, TABLE);
            assertAllThere(copy);
            copy.close();
            engine.close();
            System.out.println(WELL);
        }
    }

    /** What it could not sync is not the store's. */
    @Test
    void aCheckpointThatCannotBeSyncedLeavesTheStoreAsItWas() throws Exception {
        assertThat(run(Checkpointing.class, "")).doesNotContain("could not be synced");
    }

    /** The process: directory. */
    static final class WritingInBatchMode {
        private WritingInBatchMode() {}

        public static void main(String[] args) throws Exception {
            StorageEngine engine = Tables.engine();
            TableStore store = filled(engine, WalSync.BATCH, args[0], ROWS);
            store.flush();
            Path bad = create(When.DIRECTORY_OF_OTHER.failing());
            for (int time = 0; time < 2; time++) {
                assertThat(catchThrowable(() -> write(store, ROWS)))
                        .hasMessageContaining(FOR_GOOD)
                        .hasStackTraceContaining("Input/output error");
                assertThat(bad).doesNotExist();
            }
            assertAllThere(store);
            System.out.println(WELL);
            Runtime.getRuntime().halt(0);
        }
    }

    /** RocksDB has synced it, and its name only as far as it was told. */
    @Test
    void aWriteThatSyncsItselfIsNotAcknowledgedWithoutTheNameOfItsLog() throws Exception {
        assertThat(run(WritingInBatchMode.class, "")).contains("The log of ks.t could not be");
    }

    /** The process: directory. */
    static final class Describing {
        private Describing() {}

        public static void main(String[] args) throws Exception {
            StorageEngine engine = Tables.engine();
            TableStore store = filled(engine, WalSync.PERIODIC, args[0], ROWS);
            // A new log, the name of which is not synced yet.
            store.flush();
            Path bad = create(When.DIRECTORY_OF_OTHER.failing());
            // The catalog is to say that there are deletions before there is one.
            PartitionUpdate deletion =
                    PartitionUpdate.fullPartitionDelete(TABLE, Tables.key(TABLE, 0), 1, 1);
            assertThat(catchThrowable(() -> store.write(deletion, List.of())))
                    .isInstanceOf(FailedSyncError.class)
                    .hasMessageContaining(FOR_GOOD)
                    .hasStackTraceContaining("Input/output error");
            assertThat(bad).doesNotExist();
            assertAllThere(store);
            System.out.println(WELL);
            Runtime.getRuntime().halt(0);
        }
    }

    /** What the catalog says is durable before there is data that needs it. */
    @Test
    void theCatalogSaysNothingWithoutTheNameOfItsLog() throws Exception {
        assertThat(run(Describing.class, "")).contains("The log of ks.t could not be");
    }

    /** The process: directory. */
    static final class NotOpening {
        private NotOpening() {}

        public static void main(String[] args) throws Exception {
            StorageEngine engine = Tables.engine();
            TableStore store = filled(engine, WalSync.PERIODIC, args[0], ROWS);
            // As one that may not be opened, or with too many open files.
            Path log = Files.createDirectory(Path.of(args[0], "1", "999999.log"));
            // RocksDB makes no other log, which it could sync, before this one was synced.
            Path meanwhile = create("PETRA_MEANWHILE");
            create("PETRA_FULL");
            assertThat(catchThrowable(() -> write(store, ROWS)))
                    .isInstanceOf(WriteStallException.class);
            assertThat(catchThrowable(() -> engine.syncAcknowledged(id -> true)))
                    .isInstanceOf(FSWriteError.class)
                    .isNotInstanceOf(FailedSyncError.class)
                    .hasMessageNotContaining(FOR_GOOD);
            Files.delete(log);
            Files.deleteIfExists(meanwhile);
            Tables.await(
                    "a sync",
                    () -> catchThrowable(() -> engine.syncAcknowledged(id -> true)) == null);
            Tables.await("a write", () -> catchThrowable(() -> write(store, ROWS)) == null);
            assertAllThere(store);
            engine.close();
            System.out.println(WELL);
        }
    }

    @Test
    void aLogThatCannotBeOpenedFailsThatSyncOnly() throws Exception {
        assertThat(run(NotOpening.class, "")).doesNotContain("could not be synced (");
    }

    /** The process: directory. */
    static final class NamingTwice {
        private NamingTwice() {}

        public static void main(String[] args) throws Exception {
            Path store = Files.createDirectory(Path.of(args[0], "1"));
            Files.createFile(store.resolve("000001.log"));
            try (LogDirectory names = new LogDirectory(store)) {
                create(When.DIRECTORY_OF_OTHER.failing());
                assertThat(catchThrowable(() -> names.force(1)))
                        .isInstanceOf(IOException.class)
                        .hasMessageContaining("Input/output error");
                // Of two threads, it may be the other that comes to speak of it.
                for (int version = 1; version < 3; version++) {
                    int later = version;
                    assertThat(catchThrowable(() -> names.force(later)))
                            .isInstanceOf(IOException.class)
                            .hasMessageContaining("has failed before");
                }
            }
            System.out.println(WELL);
        }
    }

    /** The kernel tells it once. */
    @Test
    void namesThatCouldNotBeSyncedOnceAreNotDurableLater() throws Exception {
        run(NamingTwice.class, "");
    }

    private String run(Class<?> main, String argument) throws Exception {
        List<String> command =
                ChildJvm.command(List.of(main.getName(), directory.toString(), argument));
        Path output = directory.resolve("output");
        ProcessBuilder builder =
                new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile());
        builder.environment().put("LD_PRELOAD", library.toString());
        for (String name :
                List.of(
                        "PETRA_BAD",
                        "PETRA_BAD_DIRECTORY",
                        "PETRA_BAD_OTHER_DIRECTORY",
                        "PETRA_BAD_CHECKPOINT",
                        "PETRA_FULL",
                        "PETRA_MEANWHILE"))
            builder.environment().put(name, directory.resolve(name).toString());
        Process process = builder.start();
        try {
            assertThat(process.waitFor(2, TimeUnit.MINUTES)).as(Files.readString(output)).isTrue();
        } finally {
            process.destroyForcibly();
        }
        assertThat(Files.readString(output)).contains(WELL);
        return Files.readString(output);
    }
}
