// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.migration;

import static dev.petra.nodetests.fixture.CrashPoints.CFS;
import static dev.petra.nodetests.fixture.CrashPoints.OURS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.CrashPoints;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.JoinedKill;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.Writer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URISyntaxException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Tables that are moved into an engine and out of it by ALTER TABLE, while they are used. The
 * commit log is to have what was written on the way when the node is killed: so the one clean stop
 * comes first, then whatever drops a table, for which Cassandra flushes all tables and discards its
 * log, and the crash that is the kill for other tests as well, last.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class MigrationIT {
    private static final Duration MOVES = Duration.ofMinutes(5);

    /** Where a crash may fall, on the way in and on the way out, and where a thread is held. */
    private static final List<String> POINTS =
            List.of(
                    CFS + "#reload",
                    CFS + "#addSSTables",
                    CFS + "#discardSSTables",
                    CFS + "$Flush#flushMemtable",
                    "org.apache.cassandra.db.compaction.CompactionTask#getCompactionAwareWriter",
                    "org.apache.cassandra.index.SecondaryIndexManager#flushIndexesBlocking",
                    "org.apache.cassandra.index.sai.disk.StorageAttachedIndexWriter#begin",
                    "org.apache.cassandra.db.view.ViewBuilderTask#buildKey",
                    OURS + "table.TableMigration#begin",
                    OURS + "table.TableGenerations#lockContent",
                    OURS + "table.TableGenerations#unlockContent",
                    OURS + "table.TableMigration#arrived",
                    OURS + "table.TableMigration#departed",
                    OURS + "migration.TableLifecycle#deleteIfGone",
                    OURS + "migration.TableLifecycle#nextExclusively",
                    "org.apache.cassandra.service.DefaultFSErrorHandler#handleCorruptSSTable",
                    "org.apache.cassandra.service.DefaultFSErrorHandler#handleFSError",
                    "org.apache.cassandra.db.streaming.CassandraStreamReceiver#finished",
                    OURS + "disk.StoreLocation#markMigration",
                    OURS + "PetraMemtable#shouldSwitch",
                    OURS + "hooks.OverdueSwitches#run",
                    OURS + "hooks.TableHooks#beforeTruncate",
                    OURS + "hooks.TableHooks#snapshotBegins",
                    OURS + "migration.Migration#newProgress",
                    OURS + "migration.Migration#migrated",
                    OURS + "migration.Migration$Progress#getCompactionInfo",
                    OURS + "migration.MigrateIn#migrate",
                    OURS + "migration.MigrateIn#finish",
                    OURS + "migration.MigrateOut#write",
                    OURS + "migration.MigrateOut#add",
                    OURS + "migration.MigrateOut#isFound",
                    OURS + "migration.MigrateOut#finish");

    private static final List<String> CRASHES =
            List.of(
                    "in enter #reload",
                    "in leave TableMigration#begin",
                    "in leave #reload",
                    "in enter #flushMemtable",
                    "in leave #flushMemtable",
                    "in enter #lockContent",
                    "in leave #unlockContent",
                    "in leave MigrateIn#migrate",
                    "in enter MigrateIn#finish",
                    "in enter #arrived",
                    "in leave #arrived",
                    "out enter #reload",
                    "out leave TableMigration#begin",
                    "out leave #reload",
                    "out enter #flushMemtable",
                    "out leave #flushMemtable",
                    "out enter #addSSTables",
                    "out leave #addSSTables",
                    "out leave MigrateOut#write",
                    "out enter MigrateOut#finish",
                    "out leave #departed",
                    "out enter #deleteIfGone",
                    "out leave #deleteIfGone");

    private static final int WRITERS = 4;

    private static final JoinedKill KILL = new JoinedKill();

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    static Path directory;

    private static CrashPoints crashes;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() throws IOException, URISyntaxException {
        crashes = new CrashPoints(directory, POINTS);
        node =
                TestNode.start(
                        directory.resolve("node"),
                        config ->
                                crashes.in(
                                        config.yaml(Map.of("commitlog_sync", "batch"))
                                                .yaml(Map.of("disk_failure_policy", "ignore"))
                                                .yaml(Map.of("materialized_views_enabled", true)),
                                        "-Dpetra.migration.sstable_bytes=32768"));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @AfterAll
    static void stop() throws Exception {
        try {
            KILL.end(() -> node.process().kill(), MigrationIT::restart);
        } finally {
            session.close();
            node.close();
        }
    }

    @AfterEach
    void nothingIsHeld() throws IOException {
        crashes.release();
    }

    private static void restart() {
        session.close();
        node.restart();
        session = node.plainSession();
    }

    /** One kill for all tests. */
    private static void afterKill(String test, JoinedKill.Step step) {
        KILL.then(
                test,
                () -> {
                    try {
                        step.run();
                    } finally {
                        crashes.release();
                    }
                });
    }

    private static NodeTool.Result nodetool(String... arguments) {
        return node.tryNodetool(arguments);
    }

    private static void flush(String table) {
        assertThat(nodetool("flush", "ks", table).exitCode()).isZero();
    }

    private static void alter(String table, String memtable) {
        session.execute("ALTER TABLE ks." + table + " WITH memtable = '" + memtable + "'");
    }

    private static long sstables(String table) throws IOException {
        try (var files = Files.list(TableFiles.of(node, "ks", table).directory())) {
            return files.filter(file -> file.toString().endsWith("-Data.db")).count();
        }
    }

    /** Cassandra deletes them in the background. */
    private static void assertNoSSTables(String table) throws Exception {
        TestNode.await("no SSTables", MOVES, () -> sstables(table) == 0);
    }

    /** The same, of a table that was dropped. */
    private static void awaitNoFiles(Path directory) throws Exception {
        TestNode.await(
                "no files",
                MOVES,
                () -> {
                    try (var left = Files.list(directory)) {
                        return left.noneMatch(Files::isRegularFile);
                    }
                });
    }

    private static boolean hasStore(String table) throws IOException {
        return Files.exists(TableFiles.of(node, "ks", table).directory().resolve("rocksdb"));
    }

    /** A start does not wait for the deletion of a store that had left before. */
    private static void awaitNoStore(String table) throws Exception {
        TestNode.await("the end of the store of " + table, MOVES, () -> !hasStore(table));
    }

    private static String content(String select) {
        return session.execute(select).all().stream()
                .map(Row::getFormattedContents)
                .collect(Collectors.joining("\n"));
    }

    /** Every kind of data and of deletion, over two SSTables and a memtable. */
    private static void fillWithEverything(String table) {
        String name = "ks." + table;
        session.execute(
                "CREATE TABLE "
                        + name
                        + " (p int, c int, s text static, v text, l list<int>, m map<int, text>,"
                        + " x frozen<set<int>>, PRIMARY KEY (p, c))");
        for (int part = 0; part < 3; part++) {
            for (int p = 0; p < 40; p++) {
                session.execute(
                        "INSERT INTO " + name + " (p, s) VALUES (?, ?)", p, "s" + part + "-" + p);
                for (int c = part; c < 30; c += part + 1)
                    session.execute(
                            "INSERT INTO "
                                    + name
                                    + " (p, c, v, l, m, x) VALUES (?, ?, ?, ?, ?, ?) USING TTL ?",
                            p,
                            c,
                            "v" + part + "-" + c,
                            List.of(part, c),
                            Map.of(part, "m" + c),
                            java.util.Set.of(c),
                            c % 7 == 0 ? 864_000 : 0);
                session.execute("DELETE FROM " + name + " WHERE p = ? AND c = ?", p, 4 + part);
                session.execute("DELETE v FROM " + name + " WHERE p = ? AND c = ?", p, 8 + part);
                session.execute("DELETE m[?] FROM " + name + " WHERE p = ? AND c = ?", part, p, 16);
                session.execute(
                        "UPDATE " + name + " SET l = l + ? WHERE p = ? AND c = ?",
                        List.of(part),
                        p,
                        17);
                session.execute(
                        "DELETE FROM " + name + " WHERE p = ? AND c >= ? AND c < ?",
                        p,
                        20 + part,
                        23 + part);
            }
            session.execute("DELETE FROM " + name + " WHERE p = ?", 30 + part);
            session.execute("DELETE s FROM " + name + " WHERE p = ?", 20 + part);
            if (part < 2) flush(table);
        }
    }

    private static String everything(String table) {
        return content(
                "SELECT p, c, s, v, l, m, x, writetime(v), ttl(v), writetime(s), maxwritetime(m)"
                        + " FROM ks."
                        + table);
    }

    /** Without what runs while the test does. */
    private static String withoutTtl(String content) {
        return content.replaceAll("\"ttl\\(v\\)\":\\d+", "ttl");
    }

    /** Three tables on one way: whatever is stored, counters, and what is deleted meanwhile. */
    @Test
    void allDataGoesInAndOutAgainAndWhatIsDeletedOnTheWayStaysDeleted() throws Exception {
        String before = moveEverythingIn();
        String counted = moveCountersIn();
        moveInAndDelete();
        afterKill("all data, in the engine", () -> allDataGoesOut(before, counted));
    }

    private static void allDataGoesOut(String before, String counted) throws Exception {
        String inEngine = moveEverythingOut(before);
        moveCountersOut(counted);
        moveOutAndDelete();
        afterKill("all data, out again", () -> allDataIsThere(inEngine, counted));
    }

    private static void allDataIsThere(String inEngine, String counted) {
        assertThat(withoutTtl(everything("every"))).isEqualTo(inEngine);
        assertThat(nodetool("compact", "ks", "every").exitCode()).isZero();
        assertThat(withoutTtl(everything("every"))).isEqualTo(inEngine);
        assertThat(content("SELECT * FROM ks.counters")).isEqualTo(counted);
        assertThat(session.execute("SELECT c FROM ks.deleted").all()).hasSize(300);
    }

    private static String moveEverythingIn() throws Exception {
        fillWithEverything("every");
        String before = withoutTtl(everything("every"));
        assertThat(before).isNotEmpty();

        alter("every", "rocks");
        assertThat(withoutTtl(everything("every"))).isEqualTo(before);
        TestNode.awaitMigrations(session, MOVES);
        assertNoSSTables("every");
        assertThat(hasStore("every")).isTrue();
        assertThat(withoutTtl(everything("every"))).isEqualTo(before);
        return before;
    }

    private static String moveEverythingOut(String before) throws Exception {
        assertThat(withoutTtl(everything("every"))).isEqualTo(before);
        session.execute("INSERT INTO ks.every (p, c, v) VALUES (100, 1, 'in the engine')");
        String inEngine = withoutTtl(everything("every"));
        assertThat(nodetool("compact", "ks", "every").exitCode()).isZero();
        assertThat(withoutTtl(everything("every"))).isEqualTo(inEngine);

        alter("every", "default");
        assertThat(withoutTtl(everything("every"))).isEqualTo(inEngine);
        TestNode.awaitMigrations(session, MOVES);
        assertThat(hasStore("every")).isFalse();
        assertThat(sstables("every")).isPositive();
        assertThat(withoutTtl(everything("every"))).isEqualTo(inEngine);
        return inEngine;
    }

    private static String moveCountersIn() throws Exception {
        session.execute("CREATE TABLE ks.counters (p int, c int, n counter, PRIMARY KEY (p, c))");
        for (int round = 0; round < 3; round++) {
            for (int c = 0; c < 10; c++)
                session.execute("UPDATE ks.counters SET n = n + 5 WHERE p = 1 AND c = ?", c);
            if (round < 2) flush("counters");
        }
        session.execute("DELETE FROM ks.counters WHERE p = 1 AND c = 3");
        String before = content("SELECT * FROM ks.counters");
        alter("counters", "rocks");
        TestNode.awaitMigrations(session, MOVES);
        assertThat(content("SELECT * FROM ks.counters")).isEqualTo(before);
        session.execute("UPDATE ks.counters SET n = n - 1 WHERE p = 1 AND c = 0");
        return before;
    }

    private static void moveCountersOut(String before) throws Exception {
        String after = content("SELECT * FROM ks.counters");
        assertThat(after).contains("n:14").isNotEqualTo(before);
        alter("counters", "default");
        TestNode.awaitMigrations(session, MOVES);
        session.execute("UPDATE ks.counters SET n = n + 1 WHERE p = 1 AND c = 0");
    }

    private static void moveInAndDelete() throws Exception {
        session.execute(
                "CREATE TABLE ks.deleted (p int, c int, v text, PRIMARY KEY (p, c))"
                        + " WITH gc_grace_seconds = 0");
        for (int c = 0; c < 1_000; c++)
            session.execute("INSERT INTO ks.deleted (p, c, v) VALUES (1, ?, 'v')", c);
        flush("deleted");
        // Not within a step: Cassandra would not compact the table before that ends.
        crashes.hold("enter", "#newProgress");
        alter("deleted", "rocks");
        crashes.awaitHeld();
        session.execute("DELETE FROM ks.deleted WHERE p = 1 AND c < 500");
        // Of the second in which it is made no deletion is purged.
        TimeUnit.MILLISECONDS.sleep(1_100);
        node.nodetool("compact", "ks", "deleted");
        crashes.release();
        TestNode.awaitMigrations(session, MOVES);
        node.nodetool("compact", "ks", "deleted");
        assertThat(session.execute("SELECT c FROM ks.deleted").all()).hasSize(500);
    }

    private static void moveOutAndDelete() throws Exception {
        assertThat(session.execute("SELECT c FROM ks.deleted").all()).hasSize(500);
        crashes.hold("enter", "#newProgress");
        alter("deleted", "default");
        crashes.awaitHeld();
        session.execute("DELETE FROM ks.deleted WHERE p = 1 AND c < 700");
        TimeUnit.MILLISECONDS.sleep(1_100);
        flush("deleted");
        node.nodetool("compact", "ks", "deleted");
        crashes.release();
        TestNode.awaitMigrations(session, MOVES);
        node.nodetool("compact", "ks", "deleted");
        assertThat(session.execute("SELECT c FROM ks.deleted").all()).hasSize(300);
    }

    /** It took the SSTables that may have what a deletion hides before there were all of them. */
    @Test
    void aCompactionThatBeganBeforeAllDataWasOutPurgesNothingThatIsHiding() throws Exception {
        session.execute(
                "CREATE TABLE ks.hiding (p int, c int, v text, PRIMARY KEY (p, c)) WITH memtable ="
                        + " 'rocks' AND gc_grace_seconds = 0");
        for (int c = 0; c < 20; c++)
            session.execute("INSERT INTO ks.hiding (p, c, v) VALUES (1, ?, 'v')", c);
        crashes.hold("enter", "#newProgress");
        alter("hiding", "default");
        crashes.awaitHeld();
        for (int c : List.of(3, 7)) {
            session.execute("DELETE FROM ks.hiding WHERE p = 1 AND c = ?", c);
            flush("hiding");
        }
        TimeUnit.MILLISECONDS.sleep(1_100);
        crashes.holdAlso("enter", "#getCompactionAwareWriter");
        CompletableFuture<NodeTool.Result> compaction =
                CompletableFuture.supplyAsync(() -> nodetool("compact", "ks", "hiding"));
        crashes.awaitHeld();
        crashes.releaseAt("enter", "#newProgress");
        TestNode.await(
                "the end of the migration, but for the compaction",
                MOVES,
                () ->
                        session.execute("SELECT * FROM petra.migrations").all().stream()
                                .filter(row -> row.getString("table_name").equals("hiding"))
                                .map(row -> row.getString("state"))
                                .allMatch(state -> state.startsWith("waiting for compactions")));
        crashes.release();
        assertThat(compaction.get().exitCode()).isZero();
        TestNode.awaitMigrations(session, MOVES);
        assertThat(hasStore("hiding")).isFalse();
        assertThat(rows("ks.hiding"))
                .extracting(row -> row.getInt("c"))
                .hasSize(18)
                .doesNotContain(3, 7);
        assertThat(nodetool("compact", "ks", "hiding").exitCode()).isZero();
        assertThat(rows("ks.hiding")).hasSize(18);
    }

    /**
     * Written with a timestamp of the future, or on their way while the column was dropped. Reads
     * that meet such a regular cell in an SSTable fail in Cassandra until the column is added
     * again: the answer's header has no column for it. Only those of rows by their keys leave it
     * out.
     */
    @Test
    void cellsThatAreNewerThanTheDropOfTheirColumnAreMigratedIn() throws Exception {
        long future = TimeUnit.MILLISECONDS.toMicros(System.currentTimeMillis()) + 3_600_000_000L;
        List<String> tables = List.of("drops", "drops_stock");
        for (String table : tables) {
            String name = "ks." + table;
            session.execute(
                    "CREATE TABLE "
                            + name
                            + " (p int, c int, v text, d text, m map<int, text>, s text static,"
                            + " PRIMARY KEY (p, c))");
            for (int c = 0; c < 3; c++)
                session.execute(
                        "INSERT INTO "
                                + name
                                + " (p, c, v, d, m, s) VALUES (1, ?, 'v', 'd', ?,"
                                + " 's') USING TIMESTAMP ?",
                        c,
                        Map.of(c, "m"),
                        c == 0 ? 1 : future);
            // A row that has nothing else, and cells older than the drop.
            session.execute(
                    "UPDATE " + name + " USING TIMESTAMP ? SET d = 'd' WHERE p = 2 AND c = 1",
                    future);
            session.execute("INSERT INTO " + name + " (p, c, d, s) VALUES (3, 1, 'd', 's')");
            // Cassandra takes the time of a drop in milliseconds.
            TimeUnit.MILLISECONDS.sleep(5);
            session.execute("ALTER TABLE " + name + " DROP (d, m, s)");
            flush(table);
        }
        alter("drops", "rocks");
        TestNode.awaitMigrations(session, MOVES);
        assertNoSSTables("drops");
        assertThat(values("drops")).containsExactly("1 0 v", "1 1 v", "1 2 v", "3 1 null");
        for (String key : List.of("1 AND c = 0", "1 AND c = 2", "2 AND c = 1", "3 AND c = 1"))
            assertThat(content("SELECT * FROM ks.drops WHERE p = " + key))
                    .isEqualTo(content("SELECT * FROM ks.drops_stock WHERE p = " + key));
        for (String table : tables)
            for (String column : List.of("d text", "m map<int, text>", "s text static"))
                session.execute("ALTER TABLE ks." + table + " ADD " + column);
        String again = content("SELECT * FROM ks.drops_stock");
        assertThat(again).contains("d:'d'", "s:'s'");
        assertThat(content("SELECT * FROM ks.drops")).isEqualTo(again);
        afterKill("dropped columns", () -> droppedCellsStay(again));
    }

    private static void droppedCellsStay(String again) throws Exception {
        assertThat(content("SELECT * FROM ks.drops")).isEqualTo(again);
        assertThat(nodetool("compact", "ks", "drops").exitCode()).isZero();
        assertThat(content("SELECT * FROM ks.drops")).isEqualTo(again);
        leaveDroppedCellsBehind();
    }

    /** On the way out, where Cassandra could not read their rows. */
    private static void leaveDroppedCellsBehind() throws Exception {
        session.execute("ALTER TABLE ks.drops DROP d");
        String without = content("SELECT * FROM ks.drops");
        assertThat(without).contains("s:'s'").doesNotContain("d:");
        alter("drops", "default");
        TestNode.awaitMigrations(session, MOVES);
        assertThat(content("SELECT * FROM ks.drops")).isEqualTo(without);
        session.execute("ALTER TABLE ks.drops ADD d text");
        assertThat(content("SELECT * FROM ks.drops")).doesNotContain("d:'d'");
    }

    /** An SSTable without partitions cannot be written. */
    @Test
    void aTableOfDroppedCellsAloneIsMigratedOut() throws Exception {
        session.execute(
                "CREATE TABLE ks.emptied (p int PRIMARY KEY, v text, d text) WITH memtable ="
                        + " 'rocks'");
        for (int p = 0; p < 20; p++)
            session.execute("UPDATE ks.emptied SET d = 'd' WHERE p = ?", p);
        // Cassandra takes the time of a drop in milliseconds.
        TimeUnit.MILLISECONDS.sleep(5);
        session.execute("ALTER TABLE ks.emptied DROP d");
        alter("emptied", "default");
        TestNode.awaitMigrations(session, MOVES);
        assertThat(hasStore("emptied")).isFalse();
        assertThat(rows("ks.emptied")).isEmpty();
    }

    private static List<String> values(String table) {
        return session.execute("SELECT p, c, v FROM ks." + table).all().stream()
                .map(row -> row.getInt(0) + " " + row.getInt(1) + " " + row.getString(2))
                .toList();
    }

    @Test
    void backAndForthUnderLoad() throws Exception {
        String table = "forth";
        List<Writer> writers = startWriters("ks." + table, "default");
        for (int round = 0; round < 6; round++) {
            alter(table, round % 2 == 0 ? "rocks" : "default");
            // Some rounds turn back before the move is over.
            if (round >= 3) TestNode.awaitMigrations(session, MOVES);
        }
        TestNode.awaitMigrations(session, MOVES);
        for (Writer writer : writers) {
            writer.halt();
            writer.join();
            assertThat(writer.failure()).isNull();
            writer.check(session);
        }
        assertThat(hasStore(table)).isFalse();
        afterKill(
                "back and forth",
                () -> {
                    for (Writer writer : writers) writer.check(session);
                });
    }

    /**
     * The commit log still has what was written on the way in; nothing of it comes back after what
     * removes it, whatever else is done to the table before the node is killed.
     */
    @Test
    @Order(Integer.MAX_VALUE - 1)
    void whatIsTruncatedAfterAMigrationOrBetweenTwoStaysGone() throws Exception {
        TestNode.createKeyspace(session, "lossy", 1);
        session.execute("ALTER KEYSPACE lossy WITH durable_writes = false");
        for (String table : List.of("ks.gone", "ks.gone_twice", "lossy.gone")) {
            moveInUnderWrites(table);
            session.execute("TRUNCATE " + table);
            assertThat(rows(table)).describedAs(table).isEmpty();
        }
        session.execute("INSERT INTO ks.gone_twice (cycle, writer, step) VALUES (1, 2, 3)");
        session.execute("TRUNCATE ks.gone_twice");
        session.execute("INSERT INTO ks.gone_twice (cycle, writer, step) VALUES (1, 2, 4)");

        for (String table : List.of("gone_out", "gone_again")) {
            moveInUnderWrites("ks." + table);
            session.execute("TRUNCATE ks." + table);
            alter(table, "default");
        }
        TestNode.awaitMigrations(session, MOVES);
        session.execute("INSERT INTO ks.gone_again (cycle, writer, step) VALUES (1, 2, 3)");
        alter("gone_again", "rocks");
        TestNode.awaitMigrations(session, MOVES);
        session.execute("TRUNCATE ks.gone_again");

        afterKill("truncated", MigrationIT::whatIsTruncatedStaysGone);
    }

    /** The same of a table that is dropped, and created again with its id. */
    @Test
    @Order(2)
    void whatADroppedTableHadIsNotInTheNextOfItsId() throws Exception {
        moveInUnderWrites("ks.former");
        UUID id = TestNode.tableId(session, "ks", "former");
        session.execute("DROP TABLE ks.former");
        session.execute(Writer.table("ks.former") + " WITH memtable = 'rocks' AND id = " + id);
        afterKill("dropped", () -> assertThat(rows("ks.former")).isEmpty());
    }

    private static void whatIsTruncatedStaysGone() {
        assertThat(rows("ks.gone")).isEmpty();
        assertThat(rows("ks.gone_twice")).hasSize(1);
        assertThat(rows("lossy.gone")).isEmpty();
        assertThat(rows("ks.gone_out")).isEmpty();
        assertThat(rows("ks.gone_again")).isEmpty();
    }

    private static List<Row> rows(String table) {
        return session.execute("SELECT * FROM " + table).all();
    }

    private static void moveInUnderWrites(String table) throws Exception {
        List<Writer> writers = startWriters(table, "default");
        session.execute("ALTER TABLE " + table + " WITH memtable = 'rocks'");
        TestNode.awaitMigrations(session, MOVES);
        for (Writer writer : writers) {
            writer.halt();
            writer.join();
            assertThat(writer.failure()).isNull();
            writer.check(session);
        }
    }

    @Test
    @Order(1)
    void snapshotsOfATableOnItsWayHoldAllOfIt() throws Exception {
        List<String> ways = Drawn.of("MigrationIT, snapshots", List.of("in", "out"));
        for (String way : ways) {
            String table = "snapshot" + way;
            session.execute(
                    "CREATE TABLE ks." + table + " (p int, c int, v text, PRIMARY KEY (p, c))");
            for (int p = 0; p < 300; p++) {
                session.execute(
                        "INSERT INTO ks." + table + " (p, c, v) VALUES (?, 1, ?)",
                        p,
                        "x".repeat(1_000));
                if (p % 150 == 149) flush(table);
            }
            if (way.equals("out")) {
                alter(table, "rocks");
                TestNode.awaitMigrations(session, MOVES);
            }
            // One SSTable is done, and part of another.
            crashes.hold("leave", way.equals("in") ? "MigrateIn#migrate" : "MigrateOut#write");
            alter(table, way.equals("in") ? "rocks" : "default");
            crashes.awaitHeld();
            crashes.hold("enter", "#migrated");
            crashes.awaitHeld();
            assertThat(sstables(table)).as(way).isPositive();
            assertThat(hasStore(table)).as(way).isTrue();
            node.nodetool("snapshot", "-t", "way", "-cf", table, "ks");
            crashes.release();
            TestNode.awaitMigrations(session, MOVES);
            session.execute("DELETE FROM ks." + table + " WHERE p = 7");
        }
        session.close();
        node.process().stop();
        for (String way : ways) TableFiles.of(node, "ks", "snapshot" + way).restore("way");
        node.restart();
        session = node.plainSession();
        for (String way : ways)
            assertThat(session.execute("SELECT p FROM ks.snapshot" + way).all()).hasSize(300);
        TestNode.awaitMigrations(session, MOVES);
        for (String way : ways) {
            assertThat(session.execute("SELECT p FROM ks.snapshot" + way).all()).hasSize(300);
            assertThat(hasStore("snapshot" + way)).isEqualTo(way.equals("in"));
        }
    }

    @Test
    void whatCannotBeDoneOnTheWayIsRefused() throws Exception {
        session.execute("CREATE TABLE ks.refused (p int PRIMARY KEY, v text)");
        for (int p = 0; p < 300; p++)
            session.execute("INSERT INTO ks.refused (p, v) VALUES (?, 'v')", p);
        flush("refused");
        crashes.hold("enter", "#migrated");
        alter("refused", "rocks");
        crashes.awaitHeld();
        assertThatThrownBy(() -> session.execute("TRUNCATE ks.refused")).hasMessageContaining("");
        node.awaitLog(
                "TRUNCATE of ks.refused cannot be done while the table is being migrated", MOVES);
        assertThat(nodetool("cleanup", "ks", "refused").output()).contains("Aborted cleaning up");
        node.awaitLog("Cleanup of ks.refused was aborted, because the table is being", MOVES);
        assertThat(nodetool("compactionstats").output()).contains("refused");
        assertThat(nodetool("stop", "UNKNOWN").exitCode()).isZero();
        // Or it would soon go on.
        crashes.hold("enter", "#newProgress");
        TestNode.await(
                "that it is stopped",
                MOVES,
                () ->
                        content("SELECT state FROM petra.migrations")
                                .contains("stopped for a while"));
        crashes.release();
        TestNode.awaitMigrations(session, MOVES);
        session.execute("TRUNCATE ks.refused");
        assertThat(session.execute("SELECT * FROM ks.refused").all()).isEmpty();
    }

    static List<String> dropped() {
        return Drawn.of("MigrationIT, dropped", List.of("rocks", "default"));
    }

    @ParameterizedTest
    @MethodSource("dropped")
    @Order(2)
    void aTableIsDroppedOnTheWay(String to) throws Exception {
        String table = "dropped_" + to;
        session.execute("CREATE TABLE ks." + table + " (p int PRIMARY KEY, v text)");
        for (int p = 0; p < 300; p++)
            session.execute(
                    "INSERT INTO ks." + table + " (p, v) VALUES (?, ?)", p, "x".repeat(40_000));
        flush(table);
        if (to.equals("default")) {
            alter(table, "rocks");
            TestNode.awaitMigrations(session, MOVES);
        }
        Path files = TableFiles.of(node, "ks", table).directory();
        assertThat(nodetool("setcompactionthroughput", "1").exitCode()).isZero();
        alter(table, to);
        awaitPart(500_000);
        session.execute("DROP TABLE ks." + table);
        assertThat(nodetool("setcompactionthroughput", "64").exitCode()).isZero();
        TestNode.awaitMigrations(session, MOVES);
        assertThat(files.resolve("rocksdb")).doesNotExist();
        awaitNoFiles(files);
        assertThat(files.resolve("snapshots")).isNotEmptyDirectory();
    }

    /**
     * Reads by an index or of a view that a table gets on its way out of an engine find all of it
     * or fail, whenever the node is killed, and find all of it when the way is over.
     */
    @Test
    @OneOf(variants = "MigrationIT, indexes on the way out", of = 2, number = 1)
    void whatIsFoundByIndexesAndViewsOfATableOnItsWayOutIsAllOfIt() throws Exception {
        fillLarge("found", "rocks");
        // So that it takes a while, also where statements take seconds.
        assertThat(nodetool("setcompactionthroughput", "1").exitCode()).isZero();
        alter("found", "default");
        // Some are there before the indexes, and some are not.
        TestNode.await("SSTables", MOVES, () -> sstables("found") >= 3);
        session.execute("CREATE INDEX found_by_v ON ks.found (v)");
        session.execute("CREATE INDEX found_by_w ON ks.found (w) USING 'sai'");
        session.execute(
                "CREATE MATERIALIZED VIEW ks.found_by_u AS SELECT p, c, u FROM ks.found WHERE p IS"
                        + " NOT NULL AND c IS NOT NULL AND u IS NOT NULL PRIMARY KEY (u, p, c)");
        assertThat(content("SELECT * FROM petra.migrations")).contains("found");
        session.execute("INSERT INTO ks.found (p, c, v, w, u) VALUES (90, 0, 1, 1, 1)");
        assertFoundOrFails();
        for (String crash :
                CrashPoints.sample(
                        List.of(
                                "leave #addSSTables",
                                "enter #isFound",
                                "leave #isFound",
                                "leave #departed"))) {
            String[] parts = crash.split(" ", -1);
            // Before a start, as what is left of the way may be short.
            crashes.arm(parts[0], parts[1]);
            try {
                if (!node.process().isAlive()) restart();
                assertFoundOrFails();
                assertThat(session.execute("SELECT p FROM ks.found").all()).hasSize(901);
                nodetool("setcompactionthroughput", "64");
                assertFoundOrFails();
            } catch (RuntimeException e) {
                // The node has ended.
            }
            crashes.awaitCrash(node);
        }
        restart();
        assertFoundOrFails();
        TestNode.awaitMigrations(session, MOVES);
        awaitNoStore("found");
        allIsFound();
        afterKill("found by indexes and views", MigrationIT::allIsFound);
    }

    private static void allIsFound() {
        for (String select : FOUND)
            assertThat(session.execute(select).all()).as(select).hasSize(901);
    }

    /**
     * 18 MB in 900 rows. Each of its thirty partitions is more than an SSTable is to have: of the
     * indexes of an SSTable each costs as much as a flush, whatever the SSTable has.
     */
    private static void fillLarge(String table, String memtable) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int, c int, v int, w int, u int, x text, PRIMARY KEY (p, c))"
                        + " WITH memtable = '"
                        + memtable
                        + "'");
        PreparedStatement insert =
                session.prepare(
                        "INSERT INTO ks."
                                + table
                                + " (p, c, v, w, u, x) VALUES (?, ?, 1, 1, 1, ?)");
        String text = "x".repeat(20_000);
        for (int i = 0; i < 900; i++) session.execute(insert.bind(i / 30, i % 30, text));
    }

    private static final List<String> FOUND =
            List.of(
                    "SELECT p FROM ks.found WHERE v = 1",
                    "SELECT p FROM ks.found WHERE w = 1",
                    "SELECT p FROM ks.found_by_u WHERE u = 1");

    private static void assertFoundOrFails() {
        for (String select : FOUND) {
            List<Row> rows;
            try {
                rows = session.execute(select).all();
            } catch (RuntimeException e) {
                // The table is on its way.
                continue;
            }
            assertThat(rows).as(select).hasSize(901);
        }
    }

    /**
     * The index of an SSTable is built when it becomes live, for as long as that takes. Whoever
     * alters the table meanwhile has locks that the end of the build needs.
     */
    @Test
    @OneOf(variants = "MigrationIT, indexes on the way out", of = 2, number = 2)
    void alteringBackDoesNotWaitForTheIndexesOfAnSSTable() throws Exception {
        fillLarge("back", "rocks");
        // So that the index is there before the last SSTable.
        assertThat(nodetool("setcompactionthroughput", "1").exitCode()).isZero();
        alter("back", "default");
        TestNode.await("SSTables", MOVES, () -> sstables("back") >= 3);
        session.execute("CREATE INDEX back_by_v ON ks.back (v)");
        crashes.hold("enter", "#flushIndexesBlocking");
        try {
            crashes.awaitHeld();
            session.execute("DROP INDEX ks.back_by_v");
            alter("back", "rocks");
            for (int p = 0; p < 10; p++) session.execute("DELETE FROM ks.back WHERE p = ?", p);
            assertThat(rows("ks.back")).hasSize(600);
        } finally {
            crashes.release();
            nodetool("setcompactionthroughput", "64");
        }
        TestNode.awaitMigrations(session, MOVES);
        assertNoSSTables("back");
        assertThat(rows("ks.back")).hasSize(600);
        assertThat(nodetool("compact", "ks", "back").exitCode()).isZero();
        assertThat(rows("ks.back")).hasSize(600);
        afterKill("altered back", MigrationIT::truncateWhatWasAlteredBack);
    }

    private static void truncateWhatWasAlteredBack() {
        assertThat(rows("ks.back")).hasSize(600);
        session.execute("TRUNCATE ks.back");
        afterKill("altered back, truncated", () -> assertThat(rows("ks.back")).isEmpty());
    }

    /** Neither does DROP wait for it, and what becomes live too late goes as well. */
    @Test
    @Order(2)
    void anSSTableThatIsWrittenWhenTheTableIsDroppedGoesWithIt() throws Exception {
        for (boolean during : Drawn.of("MigrationIT, dropped late", List.of(true, false))) {
            String table = "late_" + during;
            session.execute(
                    "CREATE TABLE ks." + table + " (p int PRIMARY KEY) WITH memtable = 'rocks'");
            session.execute("INSERT INTO ks." + table + " (p) VALUES (1)");
            Path files = TableFiles.of(node, "ks", table).directory();
            UUID id = TestNode.tableId(session, "ks", table);
            crashes.hold("enter", "#addSSTables");
            try {
                alter(table, "default");
                crashes.awaitHeld();
                var drop = session.executeAsync("DROP TABLE ks." + table).toCompletableFuture();
                node.awaitLog("DROP waits for a step of the migration of ks." + table, MOVES);
                if (during) crashes.release();
                drop.get(MOVES.toSeconds(), TimeUnit.SECONDS);
            } finally {
                crashes.release();
            }
            TestNode.awaitMigrations(session, MOVES);
            awaitNoFiles(files);
            session.execute("CREATE TABLE ks." + table + " (p int PRIMARY KEY) WITH id = " + id);
            assertThat(rows("ks." + table)).isEmpty();
        }
    }

    /** TRUNCATE has looked for what is in the engine before ALTER, and removes what is older. */
    @Test
    void truncateOfATableThatLeavesItsEngineMeanwhileDoesNotReportSuccess() throws Exception {
        session.execute("CREATE TABLE ks.meanwhile (p int PRIMARY KEY) WITH memtable = 'rocks'");
        session.execute("INSERT INTO ks.meanwhile (p) VALUES (1)");
        crashes.hold("enter", "#discardSSTables");
        CompletableFuture<?> truncate;
        try {
            truncate = session.executeAsync("TRUNCATE ks.meanwhile").toCompletableFuture();
            crashes.awaitHeld();
            alter("meanwhile", "default");
            TestNode.awaitMigrations(session, MOVES);
        } finally {
            crashes.release();
        }
        boolean truncated = truncate.handle((done, failure) -> failure == null).join();
        assertThat(rows("ks.meanwhile")).hasSize(truncated ? 0 : 1);
        session.execute("TRUNCATE ks.meanwhile");
        assertThat(rows("ks.meanwhile")).isEmpty();
    }

    /** SSTables of the way out are newer than the time of a TRUNCATE that began before it. */
    @Test
    void truncateOfATableThatLeavesAndComesBackMeanwhileDoesNotReportSuccess() throws Exception {
        session.execute(
                "CREATE TABLE ks.around (p int PRIMARY KEY, x text) WITH memtable = 'rocks'");
        for (int p = 0; p < 300; p++)
            session.execute("INSERT INTO ks.around (p, x) VALUES (?, ?)", p, "x".repeat(20_000));
        assertThat(nodetool("setcompactionthroughput", "1").exitCode()).isZero();
        crashes.hold("enter", "#discardSSTables");
        CompletableFuture<?> truncate;
        try {
            truncate = session.executeAsync("TRUNCATE ks.around").toCompletableFuture();
            crashes.awaitHeld();
            alter("around", "default");
            TestNode.await("the first SSTable", MOVES, () -> sstables("around") > 0);
            alter("around", "rocks");
        } finally {
            crashes.release();
        }
        boolean truncated = truncate.handle((done, failure) -> failure == null).join();
        nodetool("setcompactionthroughput", "64");
        TestNode.awaitMigrations(session, MOVES);
        if (truncated) assertThat(rows("ks.around")).isEmpty();
        session.execute("TRUNCATE ks.around");
        assertThat(rows("ks.around")).isEmpty();
    }

    static List<Boolean> autoSnapshots() {
        return Drawn.of("MigrationIT, auto snapshot", List.of(true, false));
    }

    /** The way out ends later than the way back: it was stopped for a while. */
    @ParameterizedTest
    @MethodSource("autoSnapshots")
    void aTableThatCameBackAndWasTruncatedCanBeReadBeforeItsWayOutHasEnded(boolean autoSnapshot)
            throws Exception {
        // It rests for ten seconds, in which a slow machine may not get so far.
        boolean met = false;
        for (int attempt = 0; attempt < 5 && !met; attempt++)
            met =
                    comesBackBeforeItsWayOutHasEnded(
                            "returned_" + autoSnapshot + attempt, autoSnapshot);
        assertThat(met).as("the way out ended later than the way back").isTrue();
    }

    private static boolean comesBackBeforeItsWayOutHasEnded(String table, boolean autoSnapshot)
            throws Exception {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int PRIMARY KEY, x text) WITH memtable = 'rocks' AND"
                        + " allow_auto_snapshot = "
                        + autoSnapshot);
        for (int p = 0; p < 300; p++)
            session.execute(
                    "INSERT INTO ks." + table + " (p, x) VALUES (?, ?)", p, "x".repeat(20_000));
        assertThat(nodetool("setcompactionthroughput", "1").exitCode()).isZero();
        try {
            alter(table, "default");
            TestNode.await("the first SSTable", MOVES, () -> sstables(table) > 0);
            TestNode.await("that it is stopped, or over", MOVES, MigrationIT::isStoppedOrOver);
        } finally {
            nodetool("setcompactionthroughput", "64");
        }
        alter(table, "rocks");
        node.awaitLog("The migration of ks." + table + " into its engine is over", MOVES);
        boolean met = content("SELECT * FROM petra.migrations").contains(table);
        session.execute("TRUNCATE ks." + table);
        assertThat(rows("ks." + table)).isEmpty();
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("ks." + table)).isEmpty();
        session.execute("INSERT INTO ks." + table + " (p) VALUES (1)");
        assertThat(rows("ks." + table)).hasSize(1);
        return met;
    }

    /** Stops what is migrated: again, where that came between two steps. */
    private static boolean isStoppedOrOver() {
        assertThat(nodetool("stop", "UNKNOWN").exitCode()).isZero();
        String states = content("SELECT state FROM petra.migrations");
        return states.isEmpty() || states.contains("stopped for a while");
    }

    /** An SSTable is live before it is noted how far the migration is, which may fail. */
    @Test
    void whatIsLiveIsNotMigratedOutAgainIfItCouldNotBeNoted() throws Exception {
        fillOneSSTable("noted", "rocks");
        List<String> failures = List.of("leave MigrateOut#add", "enter #markMigration", "backup");
        for (String failure : Drawn.of("MigrationIT, not noted", failures)) {
            String[] parts = failure.split(" ", -1);
            Path backups = TableFiles.of(node, "ks", "noted").directory().resolve("backups");
            if (failure.equals("backup")) {
                // It is no directory, and cannot be made one.
                Files.createSymbolicLink(backups, backups.resolveSibling("nowhere"));
                assertThat(nodetool("enablebackup").exitCode()).isZero();
            }
            long before = sstables("noted");
            crashes.hold("enter", "MigrateOut#add");
            try {
                alter("noted", "default");
                crashes.awaitHeld();
                if (failure.equals("backup")) {
                    // Cassandra does as its disk_failure_policy says.
                    crashes.hold("enter", "#handleFSError");
                    crashes.awaitHeld();
                    crashes.release();
                } else crashes.fail(parts[0], parts[1]);
            } finally {
                if (failure.equals("backup")) crashes.release();
            }
            TestNode.awaitMigrations(session, MOVES);
            nodetool("disablebackup");
            Files.deleteIfExists(backups);
            assertThat(sstables("noted")).as(failure).isEqualTo(before + 1);
            assertThat(rows("ks.noted")).as(failure).hasSize(20);
            // Compactions know it.
            Path data = dataFile("noted");
            assertThat(nodetool("compact", "ks", "noted").exitCode()).isZero();
            TestNode.await("a compaction, " + failure, MOVES, () -> !Files.exists(data));
            assertThat(rows("ks.noted")).as(failure).hasSize(20);
            alter("noted", "rocks");
            TestNode.awaitMigrations(session, MOVES);
            assertNoSSTables("noted");
        }
    }

    /** The oldest SSTable is migrated first; the others do not wait for it if it is corrupt. */
    @Test
    void aCorruptSSTableDoesNotHoldUpTheOthers() throws Exception {
        fillOneSSTable("corrupt", "default");
        Path data = dataFile("corrupt");
        flipBytes(data, 0);
        for (int p = 20; p < 40; p++) session.execute("INSERT INTO ks.corrupt (p) VALUES (?)", p);
        flush("corrupt");
        assertThat(sstables("corrupt")).isEqualTo(2);
        crashes.hold("enter", "#handleCorruptSSTable");
        try {
            alter("corrupt", "rocks");
            crashes.awaitHeld();
        } finally {
            crashes.release();
        }
        TestNode.await("the others", MOVES, () -> sstables("corrupt") == 1);
        assertThat(data).exists();
        String name = data.getFileName().toString().replace("-Data.db", "");
        TestNode.await(
                "a state that names it",
                MOVES,
                () ->
                        content("SELECT state FROM petra.migrations")
                                .contains("SSTables cannot be migrated: " + name));
        assertThat(rows("ks.corrupt WHERE p = 30")).hasSize(1);
        // It is mended.
        flipBytes(data, 0);
        TestNode.awaitMigrations(session, MOVES);
        assertNoSSTables("corrupt");
        assertThat(rows("ks.corrupt")).hasSize(40);
    }

    /** Or it would be written every ten seconds. */
    @Test
    void whatComesBeforeDamageIsMigratedInOnce() throws Exception {
        session.execute("CREATE TABLE ks.half (p int PRIMARY KEY, x text)");
        for (int p = 0; p < 100; p++)
            session.execute("INSERT INTO ks.half (p, x) VALUES (?, ?)", p, "x".repeat(20_000));
        flush("half");
        Path data = dataFile("half");
        long damaged = Files.size(data) - 100;
        flipBytes(data, damaged);
        long first;
        crashes.hold("enter", "#handleCorruptSSTable");
        try {
            alter("half", "rocks");
            crashes.awaitHeld();
            first = migratedBytes();
            assertThat(first).isGreaterThan(1_000_000);
        } finally {
            crashes.release();
        }
        TestNode.await(
                "the end of the first attempt",
                MOVES,
                () ->
                        content("SELECT state FROM petra.migrations")
                                .contains("SSTables cannot be migrated"));
        crashes.hold("enter", "#handleCorruptSSTable");
        try {
            crashes.awaitHeld();
            assertThat(migratedBytes()).isEqualTo(first);
        } finally {
            crashes.release();
        }
        flipBytes(data, damaged);
        TestNode.awaitMigrations(session, MOVES);
        assertNoSSTables("half");
        assertThat(rows("ks.half")).hasSize(100);
    }

    static List<String> interrupted() {
        return Drawn.of("MigrationIT, interrupted", List.of("rocks", "default"));
    }

    /**
     * Cassandra gives up, and reports success, if it finds what has the rank of an operator's
     * command.
     */
    @ParameterizedTest
    @MethodSource("interrupted")
    void compactInterruptsAMigration(String to) throws Exception {
        String table = "interrupted_" + to;
        fillLarge(table, to.equals("rocks") ? "default" : "rocks");
        flush(table);
        long refused = compactionsNotCancelled();
        assertThat(nodetool("setcompactionthroughput", "1").exitCode()).isZero();
        try {
            alter(table, to);
            awaitPart(2_000_000);
            assertThat(nodetool("compact", "ks", table).exitCode()).isZero();
        } finally {
            nodetool("setcompactionthroughput", "64");
        }
        assertThat(compactionsNotCancelled()).isEqualTo(refused);
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("ks." + table)).hasSize(900);
    }

    private static long compactionsNotCancelled() throws IOException {
        return node.process()
                .log()
                .lines()
                .filter(line -> line.contains("Unable to cancel in-progress compactions"))
                .count();
    }

    @Test
    void aMigrationInThatIsStoppedWithinAnSSTableGoesOnThere() throws Exception {
        session.execute("CREATE TABLE ks.halted (p int PRIMARY KEY, x text)");
        for (int p = 0; p < 900; p++)
            session.execute("INSERT INTO ks.halted (p, x) VALUES (?, ?)", p, "x".repeat(20_000));
        flush("halted");
        assertThat(nodetool("setcompactionthroughput", "1").exitCode()).isZero();
        try {
            alter("halted", "rocks");
            awaitPart(2_000_000);
            crashes.hold("enter", "Migration#migrated");
            crashes.awaitHeld();
            crashes.holdAlso("enter", "MigrateIn#finish");
            assertThat(nodetool("stop", "UNKNOWN").exitCode()).isZero();
            crashes.releaseAt("enter", "Migration#migrated");
            TestNode.await(
                    "that it is stopped",
                    MOVES,
                    () ->
                            content("SELECT state FROM petra.migrations")
                                    .contains("stopped for a while"));
            assertThat(sstables("halted")).isEqualTo(1);
            nodetool("setcompactionthroughput", "64");
            crashes.awaitHeld();
            assertThat(migratedBytes()).isBetween(18_000_000L, 21_000_000L);
        } finally {
            crashes.release();
            nodetool("setcompactionthroughput", "64");
        }
        TestNode.awaitMigrations(session, MOVES);
        assertNoSSTables("halted");
        assertThat(rows("ks.halted")).hasSize(900);
        afterKill("stopped within", () -> assertThat(rows("ks.halted")).hasSize(900));
    }

    /** Cassandra adds each step to its metrics when it ends. */
    @Test
    void aMigrationCountsAsCompactedWhatItHasWritten() throws Exception {
        session.execute(
                "CREATE TABLE ks.counted (p int PRIMARY KEY, x text) WITH memtable = 'rocks'"
                        + " AND compaction = {'class': 'SizeTieredCompactionStrategy',"
                        + " 'enabled': false}");
        for (int p = 0; p < 300; p++)
            session.execute("INSERT INTO ks.counted (p, x) VALUES (?, ?)", p, "x".repeat(20_000));
        long before = compactedBytes();
        alter("counted", "default");
        TestNode.awaitMigrations(session, MOVES);
        assertThat(sstables("counted")).isGreaterThan(50);
        assertThat(compactedBytes() - before).isBetween(5_000_000L, 20_000_000L);
    }

    private static long compactedBytes() {
        return nodetool("compactionstats")
                .output()
                .lines()
                .map(String::trim)
                .filter(line -> line.startsWith("data compacted"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void aMigrationWhoseProgressCannotBeToldGoesOn() throws Exception {
        fillOneSSTable("untold", "rocks");
        crashes.hold("enter", "MigrateOut#add");
        alter("untold", "default");
        crashes.awaitHeld();
        crashes.fail("enter", "Progress#getCompactionInfo");
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("ks.untold")).hasSize(20);
        assertThat(hasStore("untold")).isFalse();
        assertThat(node.process().log()).contains("Fails on purpose: enter");
    }

    private static void awaitPart(long bytes) throws Exception {
        TestNode.await("a part", MOVES, () -> migratedBytes() > bytes);
    }

    private static long migratedBytes() {
        return session.execute("SELECT done_bytes FROM petra.migrations").all().stream()
                .mapToLong(row -> row.getLong("done_bytes"))
                .sum();
    }

    /** Twenty partitions. */
    private static void fillOneSSTable(String table, String memtable) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int PRIMARY KEY, x text) WITH memtable = '"
                        + memtable
                        + "' AND compaction = {'class':"
                        + " 'SizeTieredCompactionStrategy', 'enabled': false}");
        for (int p = 0; p < 20; p++)
            session.execute("INSERT INTO ks." + table + " (p, x) VALUES (?, 'x')", p);
        flush(table);
    }

    private static Path dataFile(String table) throws IOException {
        try (var files = Files.list(TableFiles.of(node, "ks", table).directory())) {
            return files.filter(file -> file.toString().endsWith("-Data.db"))
                    .findFirst()
                    .orElseThrow();
        }
    }

    /** In place, up to the end: the node has it open, and maybe mapped. */
    private static void flipBytes(Path file, long from) throws IOException {
        try (FileChannel channel =
                FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            ByteBuffer bytes = ByteBuffer.allocate((int) (channel.size() - from));
            while (bytes.hasRemaining() && channel.read(bytes, from + bytes.position()) >= 0) {}
            bytes.flip();
            for (int i = 0; i < bytes.limit(); i++) bytes.put(i, (byte) ~bytes.get(i));
            channel.write(bytes, from);
        }
    }

    /** Cassandra does not go on with a view whose build was stopped until the node is restarted. */
    @Test
    @OneOf(variants = "MigrationIT, indexes on the way out", of = 2, number = 2)
    void theBuildOfAViewThatIsStoppedOnTheWayOutGoesOn() throws Exception {
        fillOnItsWay("stopped");
        session.execute(
                "CREATE MATERIALIZED VIEW stopped.by_v AS SELECT * FROM stopped.t WHERE p IS NOT"
                        + " NULL AND v IS NOT NULL PRIMARY KEY (v, p)");
        // By the last that Cassandra notes of its own build: it would say so of the next one, too.
        TestNode.await(
                "the end of the build of the view",
                MOVES,
                () ->
                        rows("system.built_views WHERE keyspace_name = 'stopped'").stream()
                                .anyMatch(view -> view.getBoolean("status_replicated")));
        crashes.hold("enter", "#buildKey");
        try {
            crashes.awaitHeld();
            assertThat(nodetool("stop", "VIEW_BUILD").exitCode()).isZero();
        } finally {
            crashes.release();
        }
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("stopped.by_v WHERE v = 1")).hasSize(100);
        assertThat(node.process().log()).contains("The build of views of stopped.t was stopped");
    }

    @Test
    @OneOf(variants = "MigrationIT, indexes on the way out", of = 2, number = 2)
    void theBuildOfAnIndexOnTheWayOutDoesNotHoldUpTheMigrationsOfOtherTables() throws Exception {
        fillOnItsWay("builds");
        session.execute("CREATE INDEX by_v ON builds.t (v)");
        crashes.hold("enter", "#flushIndexesBlocking");
        try {
            crashes.awaitHeld();
            session.execute("CREATE TABLE ks.other (p int PRIMARY KEY) WITH memtable = 'rocks'");
            session.execute("INSERT INTO ks.other (p) VALUES (1)");
            alter("other", "default");
            TestNode.await(
                    "the end of the other table's migration",
                    MOVES,
                    () -> !content("SELECT * FROM petra.migrations").contains("other"));
            assertThat(hasStore("other")).isFalse();
            assertThat(content("SELECT * FROM petra.migrations")).contains("builds");
        } finally {
            crashes.release();
        }
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("builds.t WHERE v = 1")).hasSize(100);
    }

    /**
     * A table {@code t} of a keyspace, all of it in SSTables, whose move out is held at its end.
     */
    private static void fillOnItsWay(String keyspace) throws Exception {
        TestNode.createKeyspace(session, keyspace, 1);
        session.execute(
                "CREATE TABLE "
                        + keyspace
                        + ".t (p int PRIMARY KEY, v int)"
                        + " WITH memtable = 'rocks'");
        for (int p = 0; p < 100; p++)
            session.execute("INSERT INTO " + keyspace + ".t (p, v) VALUES (?, 1)", p);
        crashes.hold("enter", "#isFound");
        session.execute("ALTER TABLE " + keyspace + ".t WITH memtable = 'default'");
        crashes.awaitHeld();
    }

    @Test
    @Order(Integer.MAX_VALUE)
    void aCrashOnTheWayLosesNothing() throws Exception {
        List<Writer> earlier = List.of();
        int number = 0;
        for (String crash : CrashPoints.sample(CRASHES)) {
            String[] parts = crash.split(" ", -1);
            boolean in = parts[0].equals("in");
            String table = "crash" + number++;
            List<Writer> writers = startWriters("ks." + table, in ? "default" : "rocks");
            if (in) flush(table);
            writers.forEach(Writer::assertIsWriting);
            crashes.arm(parts[1], parts[2]);
            try {
                alter(table, in ? "rocks" : "default");
            } catch (RuntimeException e) {
                // The node ended while it answered.
            }
            crashes.awaitCrash(node);
            for (Writer writer : writers) writer.join();
            restart();
            for (Writer writer : writers) writer.check(session);
            // Moved to its end before the last crash but one.
            for (Writer writer : earlier) writer.check(session);
            TestNode.awaitMigrations(session, MOVES);
            for (Writer writer : writers) writer.check(session);
            if (isInEngine(table)) assertNoSSTables(table);
            else awaitNoStore(table);
            earlier = writers;
            KILL.restarted();
        }
        List<Writer> last = earlier;
        afterKill(
                "crashes on the way",
                () -> {
                    for (Writer writer : last) writer.check(session);
                });
    }

    /**
     * Whether the node takes it for an engine's: after a crash before the schema tables are flushed
     * they know of an ALTER from the log, but the node does not before it is restarted again.
     */
    private static boolean isInEngine(String table) {
        return session.execute("DESCRIBE TABLE ks." + table)
                .one()
                .getString("create_statement")
                .contains("memtable = 'rocks'");
    }

    private static List<Writer> startWriters(String table, String memtable) throws Exception {
        session.execute(Writer.table(table) + " WITH memtable = '" + memtable + "'");
        List<Writer> writers = new ArrayList<>();
        for (int w = 0; w < WRITERS; w++)
            writers.add(new Writer(session, table, 0, w).pausing(Duration.ofMillis(2)));
        writers.forEach(Thread::start);
        for (Writer writer : writers)
            assertThat(writer.started.await(2, TimeUnit.MINUTES)).isTrue();
        TimeUnit.MILLISECONDS.sleep(500);
        return writers;
    }

    /** Cassandra's own receiver makes them live, and knows of no engine. */
    @Test
    void sstablesOfAStreamThatBeganBeforeTheAlterAreMigrated() throws Exception {
        fillOneSSTable("loaded_from", "default");
        session.execute("CREATE TABLE ks.loaded (p int PRIMARY KEY, x text)");
        crashes.hold("enter", "CassandraStreamReceiver#finished");
        CompletableFuture<Void> load =
                CompletableFuture.runAsync(
                        () -> {
                            try {
                                node.load(
                                        "ks",
                                        "loaded_from",
                                        "loaded",
                                        directory.resolve("loaded_from"));
                            } catch (IOException e) {
                                throw new UncheckedIOException(e);
                            }
                        });
        try {
            crashes.awaitHeld();
            alter("loaded", "rocks");
            TestNode.awaitMigrations(session, MOVES);
        } finally {
            crashes.release();
        }
        load.get(MOVES.toSeconds(), TimeUnit.SECONDS);
        assertThat(rows("ks.loaded")).hasSize(20);
        TestNode.await("the migration", MOVES, () -> sstables("loaded") == 0);
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("ks.loaded")).hasSize(20);
    }

    /** An SSTable that went before would be missed: the store is not read yet. */
    @Test
    void noSSTableGoesBeforeTheEnginesMemtableIsRead() throws Exception {
        fillOneSSTable("switched", "default");
        int rows = rows("ks.switched").size();
        crashes.hold("leave", "#nextExclusively");
        CompletableFuture<Void> altered =
                CompletableFuture.runAsync(() -> alter("switched", "rocks"));
        try {
            crashes.awaitHeld();
            // It is begun every second.
            for (int i = 0; i < 30; i++) {
                assertThat(rows("ks.switched")).hasSize(rows);
                TimeUnit.MILLISECONDS.sleep(100);
            }
        } finally {
            crashes.release();
        }
        altered.get(MOVES.toSeconds(), TimeUnit.SECONDS);
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("ks.switched")).hasSize(rows);
    }

    /** They are in a memtable that is no longer the table's, and in no file yet. */
    @Test
    void aSnapshotHasTheRowsOfTheFormerMemtable() throws Exception {
        session.execute("CREATE TABLE ks.copied (p int PRIMARY KEY, x text)");
        session.execute("CREATE INDEX copied_by_x ON ks.copied (x) USING 'sai'");
        // Its build flushes the table. If that were held, ALTER would wait behind it for the flush
        // of the schema.
        TestNode.await(
                "the index",
                MOVES,
                () ->
                        !session.execute(
                                        "SELECT index_name FROM system.\"IndexInfo\" WHERE"
                                                + " table_name = 'ks' AND index_name ="
                                                + " 'copied_by_x'")
                                .all()
                                .isEmpty());
        for (int p = 0; p < 20; p++)
            session.execute("INSERT INTO ks.copied (p, x) VALUES (?, 'x')", p);
        // No other table has such an index: the schema's are flushed, too.
        crashes.hold("enter", "StorageAttachedIndexWriter#begin");
        CompletableFuture<NodeTool.Result> snapshot;
        try {
            alter("copied", "rocks");
            crashes.awaitHeld();
            snapshot =
                    CompletableFuture.supplyAsync(
                            () -> nodetool("snapshot", "-t", "early", "-cf", "copied", "ks"));
            // To see it wait, there is nothing; without that it would be over by then.
            assertThatThrownBy(() -> snapshot.get(5, TimeUnit.SECONDS))
                    .isInstanceOf(TimeoutException.class);
        } finally {
            crashes.release();
        }
        assertThat(snapshot.get(MOVES.toSeconds(), TimeUnit.SECONDS).exitCode()).isZero();
        TestNode.awaitMigrations(session, MOVES);
        Path copy =
                TableFiles.of(node, "ks", "copied")
                        .directory()
                        .resolve("snapshots")
                        .resolve("early");
        try (var files = Files.list(copy)) {
            assertThat(files.map(Path::toString).anyMatch(file -> file.endsWith("-Data.db")))
                    .isTrue();
        }
    }

    /** Cassandra asks the memtable that it finds for a copy, which is its own by then. */
    @Test
    void aSnapshotThatTheWayOutOvertakesHasTheStore() throws Exception {
        fillOneSSTable("overtaken", "rocks");
        crashes.hold("leave", "#snapshotBegins");
        CompletableFuture<NodeTool.Result> snapshot =
                CompletableFuture.supplyAsync(
                        () -> nodetool("snapshot", "-t", "late", "-cf", "overtaken", "ks"));
        try {
            crashes.awaitHeld();
            crashes.holdAlso("enter", "MigrateOut#write");
            alter("overtaken", "default");
            crashes.awaitHeld();
            crashes.releaseAt("leave", "#snapshotBegins");
            assertThat(snapshot.get(MOVES.toSeconds(), TimeUnit.SECONDS).exitCode()).isZero();
        } finally {
            crashes.release();
        }
        Path copy = TableFiles.of(node, "ks", "overtaken").directory().resolve("snapshots/late");
        assertThat(copy.resolve("rocksdb").resolve("LIVE")).exists();
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("ks.overtaken")).hasSize(20);
    }

    /**
     * The SSTables had gone before Cassandra linked them, and nobody asked the store for a copy.
     */
    @Test
    void aSnapshotThatTheWayInOvertakesFails() throws Exception {
        fillOneSSTable("ahead", "default");
        crashes.hold("leave", "#snapshotBegins");
        CompletableFuture<NodeTool.Result> snapshot =
                CompletableFuture.supplyAsync(
                        () -> nodetool("snapshot", "-t", "early", "-cf", "ahead", "ks"));
        NodeTool.Result result;
        try {
            crashes.awaitHeld();
            alter("ahead", "rocks");
            TestNode.awaitMigrations(session, MOVES);
            crashes.release();
            result = snapshot.get(MOVES.toSeconds(), TimeUnit.SECONDS);
        } finally {
            crashes.release();
        }
        assertThat(result.exitCode()).isNotZero();
        assertThat(result.output()).contains("The snapshot 'early' may lack rows of ks.ahead");
        assertThat(nodetool("snapshot", "-t", "later", "-cf", "ahead", "ks").exitCode()).isZero();
    }

    /** Else the commit log kept all that was written to it, until the node was restarted. */
    @Test
    void aTableWhoseWayOutCouldNotBeginLeavesByItself() throws Exception {
        fillOneSSTable("later", "rocks");
        crashes.fail("enter", "#markMigration");
        alter("later", "default");
        node.awaitLog("Table ks.later cannot be migrated out", MOVES);
        session.execute("INSERT INTO ks.later (p, x) VALUES (20, 'x')");
        Path stores = TableFiles.of(node, "ks", "later").stores();
        TestNode.await("the table has left", MOVES, () -> !Files.exists(stores));
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("ks.later")).hasSize(21);
    }

    /** The next migration fails to begin, and is not tried again by itself. */
    private static void beginNoMoreThanOnce() throws IOException {
        crashes.hold("enter", "OverdueSwitches#run");
        crashes.failAlso("enter", "#markMigration");
    }

    /** Nothing of it could be read or written until the node was restarted. */
    @Test
    void aTableWhoseWayInCouldNotBeginArrivesByItself() throws Exception {
        fillOneSSTable("inward", "default");
        beginNoMoreThanOnce();
        try {
            alter("inward", "rocks");
            node.awaitLog("Table ks.inward cannot be migrated into", MOVES);
            assertThat(content("SELECT state FROM petra.migrations"))
                    .contains("could not begin yet");
            assertThat(rows("ks.inward")).hasSize(20);
            session.execute("INSERT INTO ks.inward (p, x) VALUES (20, 'x')");
            // It is flushed as before, and that does not take it in.
            flush("inward");
            assertThat(sstables("inward")).isEqualTo(2);
            session.execute("INSERT INTO ks.inward (p, x) VALUES (21, 'x')");
            session.execute("DELETE FROM ks.inward WHERE p = 0");
            assertThat(rows("ks.inward")).hasSize(21);
            assertThat(content("SELECT table_name FROM petra.tables")).doesNotContain("inward");
        } finally {
            crashes.release();
        }
        TestNode.awaitMigrations(session, MOVES);
        assertNoSSTables("inward");
        assertThat(content("SELECT table_name FROM petra.tables")).contains("inward");
        assertThat(rows("ks.inward")).hasSize(21);
        afterKill("arrived late", () -> assertThat(rows("ks.inward")).hasSize(21));
    }

    @Test
    void aTableWhoseWayInCouldNotBeginIsTruncatedAndAlteredBack() throws Exception {
        fillOneSSTable("returning", "default");
        beginNoMoreThanOnce();
        try {
            alter("returning", "rocks");
            node.awaitLog("Table ks.returning cannot be migrated into", MOVES);
            session.execute("INSERT INTO ks.returning (p, x) VALUES (20, 'x')");
            session.execute("TRUNCATE ks.returning");
            assertThat(rows("ks.returning")).isEmpty();
            session.execute("INSERT INTO ks.returning (p, x) VALUES (1, 'x')");
            alter("returning", "default");
            assertThat(content("SELECT * FROM petra.migrations")).doesNotContain("returning");
            assertThat(rows("ks.returning")).hasSize(1);
            session.execute("INSERT INTO ks.returning (p, x) VALUES (2, 'x')");
        } finally {
            crashes.release();
        }
        alter("returning", "rocks");
        TestNode.awaitMigrations(session, MOVES);
        assertNoSSTables("returning");
        assertThat(rows("ks.returning")).hasSize(2);
        afterKill("returning", () -> assertThat(rows("ks.returning")).hasSize(2));
    }

    @Test
    @Order(2)
    void aTableWhoseWayInCouldNotBeginIsDropped() throws Exception {
        fillOneSSTable("outside", "default");
        Path files = TableFiles.of(node, "ks", "outside").directory();
        UUID id = TestNode.tableId(session, "ks", "outside");
        beginNoMoreThanOnce();
        try {
            alter("outside", "rocks");
            node.awaitLog("Table ks.outside cannot be migrated into", MOVES);
            session.execute("INSERT INTO ks.outside (p, x) VALUES (20, 'x')");
            session.execute("DROP TABLE ks.outside");
        } finally {
            crashes.release();
        }
        awaitNoFiles(files);
        session.execute(
                "CREATE TABLE ks.outside (p int PRIMARY KEY, x text) WITH memtable = 'rocks' AND"
                        + " id = "
                        + id);
        assertThat(rows("ks.outside")).isEmpty();
        session.execute("INSERT INTO ks.outside (p, x) VALUES (1, 'x')");
        assertThat(rows("ks.outside")).hasSize(1);
        afterKill("dropped outside", () -> assertThat(rows("ks.outside")).hasSize(1));
    }

    /** What is written to it meanwhile is in the commit log, whatever its schema says. */
    @Test
    @Order(Integer.MAX_VALUE)
    @OneOf(variants = "kills around a migration", of = 2, number = 1)
    void aKillBeforeAWayInCanBeginLosesNothing() throws Exception {
        // An ALTER of a test with crashes may be in the log only, see isInEngine: what it begins at
        // the next start would fail there as well, and end it.
        node.process().kill();
        restart();
        TestNode.awaitMigrations(session, MOVES);
        fillOneSSTable("unbegun_killed", "default");
        beginNoMoreThanOnce();
        alter("unbegun_killed", "rocks");
        node.awaitLog("Table ks.unbegun_killed cannot be migrated into", MOVES);
        for (int p = 20; p < 40; p++)
            session.execute("INSERT INTO ks.unbegun_killed (p, x) VALUES (?, 'x')", p);
        session.execute("DELETE FROM ks.unbegun_killed WHERE p = 0");
        node.process().kill();
        // Nor can it begin when the node opens its tables: the log is replayed into Cassandra's.
        crashes.fail("enter", "#markMigration");
        restart();
        node.awaitLog("Table ks.unbegun_killed cannot be migrated into", MOVES);
        assertThat(rows("ks.unbegun_killed")).hasSize(39);
        crashes.release();
        TestNode.awaitMigrations(session, MOVES);
        assertNoSSTables("unbegun_killed");
        assertThat(rows("ks.unbegun_killed")).hasSize(39);
        KILL.restarted();
    }

    @Test
    @Order(2)
    void aTableWhoseWayOutCouldNotBeginIsDropped() throws Exception {
        fillOneSSTable("unbegun", "rocks");
        Path files = TableFiles.of(node, "ks", "unbegun").directory();
        beginNoMoreThanOnce();
        alter("unbegun", "default");
        node.awaitLog("Table ks.unbegun cannot be migrated out", MOVES);
        assertThatThrownBy(() -> session.execute("TRUNCATE ks.unbegun")).hasMessageContaining("");
        node.awaitLog("TRUNCATE of ks.unbegun cannot be done now: the table is being", MOVES);
        session.execute("DROP TABLE ks.unbegun");
        assertThat(files.resolve("rocksdb")).doesNotExist();
    }

    /** Else its rows would have stayed in a memtable that nothing reads or deletes. */
    @Test
    void aTruncateIsRefusedBeforeItReplacesAnythingIfTheWayOutCouldNotBegin() throws Exception {
        session.execute(
                "CREATE KEYSPACE stuck WITH replication = {'class': 'SimpleStrategy',"
                        + " 'replication_factor': 1} AND durable_writes = false");
        session.execute(
                "CREATE TABLE stuck.t (p int PRIMARY KEY, x text) WITH memtable = 'rocks' AND"
                        + " allow_auto_snapshot = false");
        for (int p = 0; p < 20; p++)
            session.execute("INSERT INTO stuck.t (p, x) VALUES (?, 'x')", p);
        beginNoMoreThanOnce();
        try {
            session.execute("ALTER TABLE stuck.t WITH memtable = 'default'");
            node.awaitLog("Table stuck.t cannot be migrated out", MOVES);
            assertThatThrownBy(() -> session.execute("TRUNCATE stuck.t"))
                    .hasMessageContaining("Truncate failed");
            assertThat(rows("stuck.t")).hasSize(20);
        } finally {
            crashes.release();
        }
        Path stores = TableFiles.of(node, "stuck", "t").stores();
        TestNode.await("the table has left", MOVES, () -> !Files.exists(stores));
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("stuck.t")).hasSize(20);
        session.execute("TRUNCATE stuck.t");
        assertThat(rows("stuck.t")).isEmpty();
    }

    /** It cannot tell that it removed all rows, but it has, and none comes back. */
    @Test
    void whatATruncateRemovesWhileTheWayOutBeginsStaysRemoved() throws Exception {
        // Else TRUNCATE flushes rather than throws away, and asks the memtable that is held.
        session.execute(
                "CREATE KEYSPACE crossing WITH replication = {'class': 'SimpleStrategy',"
                        + " 'replication_factor': 1} AND durable_writes = false");
        session.execute(
                "CREATE TABLE crossing.t (p int PRIMARY KEY, x text) WITH memtable = 'rocks' AND"
                        + " allow_auto_snapshot = false");
        for (int p = 0; p < 20; p++)
            session.execute("INSERT INTO crossing.t (p, x) VALUES (?, 'x')", p);
        crashes.hold("leave", "#beforeTruncate");
        CompletableFuture<Void> truncated =
                CompletableFuture.runAsync(() -> session.execute("TRUNCATE crossing.t"));
        CompletableFuture<Void> altered;
        try {
            crashes.awaitHeld();
            crashes.holdAlso("leave", "#shouldSwitch");
            altered =
                    CompletableFuture.runAsync(
                            () ->
                                    session.execute(
                                            "ALTER TABLE crossing.t WITH memtable ="
                                                    + " 'default'"));
            crashes.awaitHeld();
            crashes.releaseAt("leave", "#beforeTruncate");
            assertThatThrownBy(() -> truncated.get(MOVES.toSeconds(), TimeUnit.SECONDS))
                    .isInstanceOf(ExecutionException.class)
                    .hasMessageContaining("Truncate failed");
        } finally {
            crashes.release();
        }
        altered.get(MOVES.toSeconds(), TimeUnit.SECONDS);
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("crossing.t")).isEmpty();
        session.execute("INSERT INTO crossing.t (p, x) VALUES (1, 'x')");
        session.execute("ALTER TABLE crossing.t WITH memtable = 'rocks'");
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("crossing.t")).hasSize(1);
    }

    /** TRUNCATE would make the next memtable first, which is Cassandra's by now. */
    @Test
    void aTableWhoseTruncateWasRefusedComesBack() throws Exception {
        session.execute(
                "CREATE KEYSPACE fleeting WITH replication = {'class': 'SimpleStrategy',"
                        + " 'replication_factor': 1} AND durable_writes = false");
        session.execute(
                "CREATE TABLE fleeting.t (p int PRIMARY KEY, x text) WITH memtable = 'rocks' AND"
                        + " allow_auto_snapshot = false");
        session.execute("INSERT INTO fleeting.t (p, x) VALUES (1, 'x')");
        beginNoMoreThanOnce();
        session.execute("ALTER TABLE fleeting.t WITH memtable = 'default'");
        node.awaitLog("Table fleeting.t cannot be migrated out", MOVES);
        assertThatThrownBy(() -> session.execute("TRUNCATE fleeting.t")).hasMessageContaining("");
        assertThat(rows("fleeting.t")).hasSize(1);
        session.execute("INSERT INTO fleeting.t (p, x) VALUES (2, 'x')");
        session.execute("ALTER TABLE fleeting.t WITH memtable = 'rocks'");
        TestNode.awaitMigrations(session, MOVES);
        assertThat(rows("fleeting.t")).hasSize(2);
        assertThat(TableFiles.of(node, "fleeting", "t").stores()).exists();
    }
}
