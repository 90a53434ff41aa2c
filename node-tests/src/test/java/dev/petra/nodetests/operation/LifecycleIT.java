// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.launcher.FileTree;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.JoinedKill;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.WithAgent;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.condition.DisabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * Each verb of a table's life, on a real node: when it reports success, it has done its work. What
 * flushes all tables, a drain and a clean stop, comes before what is to be found after a kill.
 */
@WithAgent
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class LifecycleIT {
    private static final Duration MOVES = Duration.ofMinutes(5);

    /** With a snapshot at each TRUNCATE, and without. */
    private static final List<String> TRUNCATED = List.of("truncate_true", "truncate_false");

    private static final JoinedKill KILL = new JoinedKill();

    @TempDir static Path directory;
    private static final int STORAGE_PORT = FreePorts.next();

    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() {
        node =
                TestNode.start(
                        directory,
                        options -> options.storagePort(STORAGE_PORT).jvmOptions(TestNode.VERIFIED));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @AfterAll
    static void stop() throws Exception {
        try {
            KILL.end(() -> node.process().kill(), LifecycleIT::restart);
        } finally {
            session.close();
            node.close();
        }
    }

    private static TableFiles create(String table, String options) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int, c int, v text, PRIMARY KEY (p, c)) WITH memtable = 'rocks'"
                        + options);
        return TableFiles.of(node, "ks", table);
    }

    private static void insert(String table, int... rows) {
        for (int row : rows)
            session.execute(
                    "INSERT INTO ks."
                            + table
                            + " (p, c, v) VALUES (1, "
                            + row
                            + ", 'v"
                            + row
                            + "')");
    }

    private static List<Integer> rows(String table) {
        return session.execute("SELECT c FROM ks." + table + " WHERE p = 1").all().stream()
                .map(row -> row.getInt("c"))
                .toList();
    }

    private static void restart() {
        session.close();
        node.restart();
        session = node.plainSession();
    }

    @Test
    @DisabledIfSystemProperty(named = "petra.woven", matches = "all")
    void theNodeIsWovenByTheAgent() {
        assertThat(node.process().log()).contains(", woven by the agent");
    }

    @Test
    void truncateRemovesAllRowsForGood() {
        List<TableFiles> both = new ArrayList<>();
        for (String table : TRUNCATED) {
            boolean autoSnapshot = table.equals("truncate_true");
            TableFiles files = create(table, " AND allow_auto_snapshot = " + autoSnapshot);
            both.add(files);
            insert(table, 1, 2);
            session.execute("TRUNCATE ks." + table);
            assertThat(rows(table)).as(table).isEmpty();
            assertThat(files.snapshots("truncated-")).as(table).hasSize(autoSnapshot ? 1 : 0);
        }
        KILL.then("truncated", () -> truncatedStaysEmpty(both));
    }

    private static void truncatedStaysEmpty(List<TableFiles> both) throws Exception {
        for (String table : TRUNCATED) assertThat(rows(table)).as(table).isEmpty();
        for (TableFiles files : both) awaitDeletion(files);
        for (String table : TRUNCATED) insert(table, 3);
        TableFiles last = create("truncate_last", "");
        insert("truncate_last", 1);
        session.execute("TRUNCATE ks.truncate_last");
        KILL.then(
                "truncated and written",
                () -> {
                    truncatedHasWhatCameLater();
                    assertThat(rows("truncate_last")).isEmpty();
                    awaitDeletion(last);
                });
    }

    /** No start waits for it. */
    private static void awaitDeletion(TableFiles files) throws Exception {
        TestNode.await(
                "the deletion of what is in " + files.stores(),
                MOVES,
                () -> files.generations().isEmpty());
    }

    private static void truncatedHasWhatCameLater() {
        for (String table : TRUNCATED) {
            assertThat(rows(table)).as(table).containsExactly(3);
            session.execute("TRUNCATE ks." + table);
            insert(table, 4);
            assertThat(rows(table)).as(table).containsExactly(4);
        }
    }

    @Test
    void truncateUnderWritersAndReadersLosesNothingWrittenAfterIt() throws Exception {
        create("busy", " AND allow_auto_snapshot = false");
        AtomicBoolean stop = new AtomicBoolean();
        AtomicInteger written = new AtomicInteger();
        AtomicInteger failures = new AtomicInteger();
        Thread writer =
                new Thread(
                        () -> {
                            try {
                                while (!stop.get()) insert("busy", written.incrementAndGet());
                            } catch (DriverException e) {
                                failures.incrementAndGet();
                            }
                        });
        Thread reader =
                new Thread(
                        () -> {
                            while (!stop.get())
                                try {
                                    rows("busy");
                                } catch (DriverException e) {
                                    failures.incrementAndGet();
                                }
                        });
        writer.start();
        reader.start();
        for (int i = 0; i < 5; i++) {
            Thread.sleep(200);
            session.execute("TRUNCATE ks.busy");
            int from = written.get();
            int to = from;
            while (to < from + 10 && writer.isAlive()) {
                Thread.sleep(1);
                to = written.get();
            }
            List<Integer> rows = rows("busy");
            for (int row = from + 1; row < to; row++) assertThat(rows).contains(row);
        }
        stop.set(true);
        writer.join();
        reader.join();
        assertThat(failures).hasValue(0);
    }

    @Test
    void dropDeletesTheFilesAndLeavesASnapshot() {
        TableFiles files = create("dropped", "");
        insert("dropped", 1);
        assertThat(files.stores()).exists();
        session.execute("DROP TABLE ks.dropped");
        assertThat(files.stores()).doesNotExist();
        assertThat(files.snapshots("dropped-")).hasSize(1);
        assertThat(files.snapshots("dropped-").get(0).resolve("LIVE")).exists();
        create("dropped", "");
        assertThat(rows("dropped")).isEmpty();
    }

    @Test
    void dropWithoutAutoSnapshotLeavesNothing() {
        TableFiles files = create("dropped_plain", " AND allow_auto_snapshot = false");
        insert("dropped_plain", 1);
        session.execute("DROP TABLE ks.dropped_plain");
        assertThat(files.stores()).doesNotExist();
        assertThat(files.snapshots("dropped-")).isEmpty();
    }

    @Test
    void dropOfAKeyspaceDropsItsTables() {
        TestNode.createKeyspace(session, "gone", 1);
        session.execute("CREATE TABLE gone.a (p int PRIMARY KEY) WITH memtable = 'rocks'");
        session.execute("CREATE TABLE gone.b (p int PRIMARY KEY) WITH memtable = 'rocks'");
        session.execute("INSERT INTO gone.a (p) VALUES (1)");
        session.execute("DROP KEYSPACE gone");
        assertThat(TableFiles.of(node, "gone", "a").stores()).doesNotExist();
        assertThat(TableFiles.of(node, "gone", "a").snapshots("dropped-")).hasSize(1);
        assertThat(TableFiles.of(node, "gone", "b").stores()).doesNotExist();
    }

    @Test
    void dropKeepsTheDataOfATableWhoseSnapshotFails() throws IOException {
        TableFiles files = create("kept", "");
        insert("kept", 1);
        node.nodetool("flush", "ks", "kept");
        for (Path file : TableFiles.children(files.stores().resolve("1")))
            if (file.toString().endsWith(".sst")) Files.delete(file);
        session.execute("DROP TABLE ks.kept");
        assertThat(files.stores()).doesNotExist();
        assertThat(files.snapshots("dropped-")).hasSize(1);
        assertThat(files.snapshots("dropped-").get(0).resolve("1")).isNotEmptyDirectory();
        assertThat(node.process().logSinceStart()).contains("was not deleted but moved to");
        // The schema is whole: later statements work.
        create("after_kept", "");
        insert("after_kept", 1);
        assertThat(rows("after_kept")).containsExactly(1);
    }

    @Test
    @Order(2)
    void aSnapshotHoldsTheDataAndCanBeRestoredAfterACleanStopWhichKeepsTheRest() {
        create("stopped", "");
        insert("stopped", 1);
        TableFiles flushed = create("snap_flushed", "");
        TableFiles skipped = create("snap_skipped", "");
        fillAndTakeSnapshot("snap_flushed");
        fillAndTakeSnapshot("snap_skipped", "--skip-flush");

        session.close();
        node.process().stop();
        assertThat(node.process().logSinceStart()).contains("Closed storage engine rocks");
        for (TableFiles files : List.of(flushed, skipped)) {
            FileTree.delete(files.stores());
            TableFiles.copy(files.snapshots("tag_").get(0), files.stores());
        }
        node.restart();
        session = node.plainSession();
        assertThat(rows("stopped")).containsExactly(1);
        for (String table : List.of("snap_flushed", "snap_skipped")) {
            assertThat(rows(table)).as(table).containsExactly(1, 2);
            node.nodetool("clearsnapshot", "-t", "tag_" + table, "--", "ks");
        }
        for (TableFiles files : List.of(flushed, skipped))
            assertThat(files.snapshots("tag_")).isEmpty();
    }

    private static void fillAndTakeSnapshot(String table, String... options) {
        insert(table, 1, 2);
        String tag = "tag_" + table;
        List<String> command = new ArrayList<>(List.of("snapshot"));
        command.addAll(List.of(options));
        command.addAll(List.of("-t", tag, "-cf", table, "ks"));
        node.nodetool(command.toArray(String[]::new));
        assertThat(node.tryNodetool("listsnapshots").output()).contains(tag);
        insert(table, 3);
        session.execute("TRUNCATE ks." + table);
        insert(table, 4);
    }

    @Test
    void aSnapshotThatFailsSaysSoAndLeavesNothing() throws IOException {
        TableFiles files = create("badsnap", " AND allow_auto_snapshot = false");
        insert("badsnap", 1);
        node.nodetool("flush", "ks", "badsnap");
        for (Path file : TableFiles.children(files.stores().resolve("1")))
            if (file.toString().endsWith(".sst")) Files.delete(file);
        NodeTool.Result result = node.tryNodetool("snapshot", "-t", "bad", "-cf", "badsnap", "ks");
        assertThat(result.exitCode()).isNotZero();
        assertThat(result.output()).contains("Snapshot 'bad' of ks.badsnap failed");
        assertThat(files.snapshots("bad")).isEmpty();
        session.execute("DROP TABLE ks.badsnap");
    }

    @Test
    void aSnapshotWithANameThatCassandraRefusesLeavesNothing() {
        TableFiles files = create("named", "");
        insert("named", 1);
        for (String name : List.of("in/side", "../../outside", "..", "."))
            assertThat(node.tryNodetool("snapshot", "-t", name, "-cf", "named", "ks").exitCode())
                    .as(name)
                    .isNotZero();
        assertThat(files.directory().resolve("snapshots")).doesNotExist();
        assertThat(files.directory().resolveSibling("outside")).doesNotExist();
        assertThat(rows("named")).containsExactly(1);
    }

    @Test
    void flushMovesTheDataIntoFiles() {
        TableFiles files = create("flushed", "");
        insert("flushed", 1);
        assertThat(sstFiles(files)).isZero();
        node.nodetool("flush", "ks", "flushed");
        assertThat(sstFiles(files)).isPositive();
        assertThat(rows("flushed")).containsExactly(1);
    }

    @Test
    void compactMergesTheFiles() {
        // By itself it would merge four at any moment.
        TableFiles files =
                create(
                        "compacted",
                        " AND compaction = {'class': 'LeveledCompactionStrategy', 'enabled':"
                                + " false}");
        for (int i = 0; i < 4; i++) {
            insert("compacted", i);
            node.nodetool("flush", "ks", "compacted");
        }
        long before = sstFiles(files);
        node.nodetool("compact", "ks", "compacted");
        assertThat(sstFiles(files)).isLessThan(before);
        node.nodetool("compact", "-st", "-100", "-et", "100", "ks", "compacted");
        assertThat(rows("compacted")).containsExactly(0, 1, 2, 3);
    }

    @Test
    void garbagecollectRemovesWhatWasDeleted() throws Exception {
        TableFiles files = create("collected", "");
        int[] keys = IntStream.range(0, 500).toArray();
        insert("collected", keys);
        node.nodetool("flush", "ks", "collected");
        long before = files.dataBytes();
        for (int key : keys)
            if (key > 0) session.execute("DELETE FROM ks.collected WHERE p = 1 AND c = " + key);
        session.execute("ALTER TABLE ks.collected WITH gc_grace_seconds = 0");
        // Of the second in which it is made no deletion is purged.
        TimeUnit.MILLISECONDS.sleep(1_100);
        node.nodetool("garbagecollect", "ks", "collected");
        assertThat(files.dataBytes()).isLessThan(before / 2);
        assertThat(rows("collected")).containsExactly(0);
    }

    private static long sstFiles(TableFiles files) {
        return TableFiles.children(files.stores().resolve("1")).stream()
                .filter(path -> path.toString().endsWith(".sst"))
                .count();
    }

    @Test
    void verifyFindsDamage() throws IOException {
        TableFiles files = create("verified", "");
        insert("verified", 1, 2, 3);
        node.nodetool("flush", "ks", "verified");
        node.nodetool("verify", "--force", "ks", "verified");
        for (Path file : TableFiles.children(files.stores().resolve("1"))) {
            if (!file.toString().endsWith(".sst")) continue;
            byte[] bytes = Files.readAllBytes(file);
            bytes[8] ^= 0x55;
            Files.write(file, bytes);
        }
        NodeTool.Result result = node.tryNodetool("verify", "--force", "ks", "verified");
        assertThat(result.exitCode()).describedAs(result.output()).isNotZero();
        assertThat(result.output()).contains("verify of ks.verified failed");
        session.execute("DROP TABLE ks.verified");
    }

    @Test
    void theEngineFollowsTheCompactionThroughput() {
        node.nodetool("setcompactionthroughput", "5");
        assertThat(node.process().logSinceStart()).contains("compacts at 5242880 B/s at most");
        node.nodetool("setcompactionthroughput", "0");
        assertThat(node.process().logSinceStart())
                .contains("compacts at " + Long.MAX_VALUE + " B/s at most");
    }

    @Test
    void cleanupKeepsWhatTheNodeOwns() {
        create("cleaned", "");
        insert("cleaned", 1, 2);
        node.nodetool("cleanup", "ks", "cleaned");
        assertThat(rows("cleaned")).containsExactly(1, 2);
    }

    @Test
    void otherOptionsAndColumnsCanBeAltered() {
        create("altered", "");
        insert("altered", 1);
        session.execute("ALTER TABLE ks.altered WITH comment = 'x' AND gc_grace_seconds = 100");
        session.execute("ALTER TABLE ks.altered WITH memtable = 'rocks'");
        session.execute("ALTER TABLE ks.altered ADD w int");
        session.execute("INSERT INTO ks.altered (p, c, w) VALUES (1, 1, 7)");
        session.execute("ALTER TABLE ks.altered DROP v");
        Row row = session.execute("SELECT * FROM ks.altered").one();
        assertThat(row).isNotNull();
        assertThat(row.getInt("w")).isEqualTo(7);
        KILL.then("altered", LifecycleIT::alteredColumnsStay);
    }

    private static void alteredColumnsStay() {
        Row row = session.execute("SELECT * FROM ks.altered").one();
        assertThat(row).isNotNull();
        assertThat(row.getInt("w")).isEqualTo(7);
        assertThat(row.getColumnDefinitions().contains("v")).isFalse();
    }

    @Test
    @Order(1)
    void drainFlushesAndClosesAndTheDataIsThereAfterAKill() {
        TableFiles files = create("drained", "");
        insert("drained", 1);
        node.nodetool("drain");
        assertThat(sstFiles(files)).isPositive();
        node.process().kill();
        restart();
        assertThat(rows("drained")).containsExactly(1);
    }

    @Test
    void metricsAreTheTables() {
        create("counted", "");
        insert("counted", 1, 2, 3);
        node.nodetool("flush", "ks", "counted");
        String stats = node.tryNodetool("tablestats", "ks.counted").output();
        assertThat(stats).contains("Number of partitions (estimate): ").contains("Memtable");
        assertThat(spaceUsed("counted")).isPositive();
        session.execute("TRUNCATE ks.counted");
        node.nodetool("flush", "ks", "counted");
        assertThat(spaceUsed("counted")).isZero();
    }

    /** What Spark splits its work by. */
    @Test
    void sizeEstimatesAreTheTables() {
        create("estimated", "");
        for (int p = 0; p < 500; p++)
            session.execute("INSERT INTO ks.estimated (p, c, v) VALUES (" + p + ", 1, 'v')");
        node.nodetool("refreshsizeestimates");
        long partitions = 0;
        for (Row row :
                session.execute(
                        "SELECT partitions_count, mean_partition_size FROM system.size_estimates"
                                + " WHERE keyspace_name = 'ks' AND table_name = 'estimated'"))
            partitions += row.getLong("partitions_count");
        assertThat(partitions).isEqualTo(500);
    }

    private static long spaceUsed(String table) {
        String stats = node.tryNodetool("tablestats", "ks." + table).output();
        Matcher live = Pattern.compile("Space used \\(live\\): (\\d+)").matcher(stats);
        assertThat(live.find()).describedAs(stats).isTrue();
        assertThat(stats).contains("Space used (total): " + live.group(1));
        return Long.parseLong(live.group(1));
    }

    @Test
    void anOversizedWriteIsRefusedAsTheCommitLogWould() {
        create("big", "");
        String value = "x".repeat(17 << 20);
        assertThatThrownBy(
                        () ->
                                session.execute(
                                        "INSERT INTO ks.big (p, c, v) VALUES (1, 1, '"
                                                + value
                                                + "')"))
                .isInstanceOf(DriverException.class);
        assertThat(rows("big")).isEmpty();
    }

    @Test
    void lightweightTransactionsAndCountersWork() {
        create("lwt", "");
        assertThat(
                        session.execute(
                                        "INSERT INTO ks.lwt (p, c, v) VALUES (1, 1, 'a') IF NOT"
                                                + " EXISTS")
                                .wasApplied())
                .isTrue();
        assertThat(
                        session.execute(
                                        "INSERT INTO ks.lwt (p, c, v) VALUES (1, 1, 'b') IF NOT"
                                                + " EXISTS")
                                .wasApplied())
                .isFalse();
        session.execute(
                "CREATE TABLE ks.counters (p int PRIMARY KEY, n counter) WITH memtable = 'rocks'");
        for (int i = 0; i < 5; i++) session.execute("UPDATE ks.counters SET n = n + 2 WHERE p = 1");
        Row row = session.execute("SELECT n FROM ks.counters WHERE p = 1").one();
        assertThat(row).isNotNull();
        assertThat(row.getLong("n")).isEqualTo(10);
    }

    @Test
    void importedSSTablesAreMigratedIntoTheStore() throws Exception {
        TableFiles target = create("target", "");
        insert("target", 1, 2);
        session.execute("CREATE TABLE ks.source (p int, c int, v text, PRIMARY KEY (p, c))");
        for (String verb : List.of("import", "refresh")) {
            int row = verb.equals("import") ? 10 : 20;
            insert("source", row, row + 1);
            session.execute("DELETE FROM ks.source WHERE p = 1 AND c = 1");
            assertThat(node.tryNodetool("flush", "ks", "source").exitCode()).isZero();
            Path from = TableFiles.of(node, "ks", "source").directory();
            Path inbox = directory.resolve("inbox/ks/target");
            Path into = verb.equals("import") ? inbox : target.directory();
            copyFiles(from, into);
            NodeTool.Result result =
                    verb.equals("import")
                            ? node.tryNodetool("import", "ks", "target", inbox.toString())
                            : node.tryNodetool("refresh", "ks", "target");
            assertThat(result.exitCode()).describedAs(result.output()).isZero();
            assertThat(rows("target"))
                    .describedAs(
                            () ->
                                    node.process()
                                            .log()
                                            .lines()
                                            .filter(line -> line.contains("SSTableImporter"))
                                            .toList()
                                            .toString())
                    .contains(2, row, row + 1)
                    .doesNotContain(1);
            TestNode.awaitMigrations(session, MOVES);
            assertThat(rows("target")).contains(2, row, row + 1).doesNotContain(1);
            if (Files.exists(inbox)) FileTree.delete(inbox);
            session.execute("TRUNCATE ks.source");
            // They go in the background, and the next round copies what is there.
            TestNode.await(
                    "no SSTables",
                    MOVES,
                    () ->
                            TableFiles.children(from).stream()
                                    .noneMatch(file -> file.toString().endsWith(".db")));
        }
        KILL.then("imported", () -> assertThat(rows("target")).containsExactly(2, 10, 11, 20, 21));
    }

    private static void copyFiles(Path from, Path into) throws IOException {
        Files.createDirectories(into);
        try (var files = Files.list(from)) {
            for (Path file : files.filter(Files::isRegularFile).toList())
                Files.copy(file, into.resolve(file.getFileName()));
        }
    }

    /** A peer that is no node, in Cassandra's own format. */
    @Test
    void whatSstableloaderSendsIsMigratedIntoTheStore() throws Exception {
        create("loaded", "");
        insert("loaded", 1, 2);
        session.execute("CREATE TABLE ks.prepared (p int, c int, v text, PRIMARY KEY (p, c))");
        insert("prepared", 10, 11);
        session.execute("DELETE FROM ks.prepared WHERE p = 1 AND c = 1");
        node.load("ks", "prepared", "loaded", directory.resolve("prepared"));
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("loaded")).containsExactly(2, 10, 11);
        KILL.then("loaded", () -> assertThat(rows("loaded")).containsExactly(2, 10, 11));
    }
}
