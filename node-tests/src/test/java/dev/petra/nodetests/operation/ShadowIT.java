// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.QueryValidationException;
import com.datastax.oss.driver.api.core.servererrors.ReadFailureException;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.AgentJar;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.ShadowTable;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/** Tables of Cassandra's own storage that an engine shadows. One node for all, in this order. */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class ShadowIT {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final int KEYS = 20;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    static Path directory;

    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() throws IOException, URISyntaxException {
        Path jar = AgentJar.packFaultyEngine(directory);
        node =
                TestNode.start(
                        directory.resolve("node"),
                        config ->
                                config.yaml(
                                                Map.of(
                                                        "materialized_views_enabled",
                                                        true,
                                                        "memtable",
                                                        Map.of(
                                                                "configurations",
                                                                Map.of(
                                                                        "rocks_shadow",
                                                                        shadow("rocks"),
                                                                        "faulty_shadow",
                                                                        shadow("faulty"),
                                                                        "static_shadow",
                                                                        shadowWithoutStatics(),
                                                                        "other",
                                                                        Map.of(
                                                                                "class_name",
                                                                                "ShardedSkipListMemtable")))))
                                        .jvmOptions(
                                                "-javaagent:" + jar,
                                                "-Dfuzz.go=" + directory.resolve("never"),
                                                "-Dfuzz.fault=loses-row-deletions"));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    private static Map<String, Object> shadow(String engine) {
        return ShadowTable.configuration(engine, "shadow", "1");
    }

    private static Map<String, Object> shadowWithoutStatics() {
        return ShadowTable.configuration(
                Map.of(
                        "engine", "faulty",
                        "mode", "shadow",
                        "compared_share", "0",
                        "memory", "64MiB",
                        "fault", "loses-static-rows"));
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (node != null) node.close();
    }

    private static Row await(String table, Predicate<Row> wanted) throws InterruptedException {
        return ShadowTable.await(session, table, PATIENCE, wanted);
    }

    private static Row awaitCaughtUp(String table) throws InterruptedException {
        return await(table, row -> row.getBoolean("caught_up"));
    }

    private static List<String> differences() {
        return session.execute("SELECT * FROM petra.shadow_differences").all().stream()
                .filter(row -> row.getString("kind").equals("different"))
                .map(Row::getFormattedContents)
                .toList();
    }

    /** Reads all partitions until so many more comparisons have told something. */
    private static Row compare(String table, int wanted) throws InterruptedException {
        awaitCaughtUp(table);
        long before = told(ShadowTable.row(session, table));
        return await(
                table,
                row -> {
                    for (int k = 0; k < KEYS; k++)
                        session.execute("SELECT * FROM ks." + table + " WHERE k = " + k);
                    return told(row) >= before + wanted;
                });
    }

    private static long told(Row row) {
        return row.getLong("equal") + row.getLong("different");
    }

    private static void create(String table) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (k int, c int, s text STATIC, v text, m map<int, text>, PRIMARY KEY"
                        + " (k, c))");
    }

    @Test
    @Order(1)
    void whatIsThereIsCopiedAndWritesGoToBothWhileComparisonsFindNothing() throws Exception {
        create("t");
        for (int k = 0; k < KEYS; k++)
            for (int c = 0; c < 20; c++)
                session.execute(
                        "INSERT INTO ks.t (k, c, s, v) VALUES (" + k + ", " + c + ", 's', 'old')");
        node.nodetool("flush", "ks", "t");
        for (int k = 0; k < KEYS; k++)
            session.execute("DELETE FROM ks.t WHERE k = " + k + " AND c > 15");
        session.execute("DELETE FROM ks.t WHERE k = 3");

        long seed = System.nanoTime();
        AtomicBoolean over = new AtomicBoolean();
        List<CompletableFuture<Void>> writers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Random random = new Random(seed + i);
            writers.add(CompletableFuture.runAsync(() -> write(random, over)));
        }
        try {
            session.execute("ALTER TABLE ks.t WITH memtable = 'rocks_shadow'");
            awaitCaughtUp("t");
            compare("t", 200);
            // What is where changes meanwhile.
            node.nodetool("flush", "ks", "t");
            compare("t", 200);
            node.nodetool("compact", "ks", "t");
            compare("t", 200);
        } finally {
            over.set(true);
        }
        for (CompletableFuture<Void> writer : writers) writer.get(60, TimeUnit.SECONDS);
        Row row = compare("t", 200);
        long before = told(row);
        row =
                await(
                        "t",
                        now -> {
                            // Reads from before may be told of yet, and a range be left out.
                            session.execute("SELECT * FROM ks.t");
                            return told(now) >= before + KEYS - 1
                                    && now.getDouble("table_range_micros_p50") > 0
                                    && now.getDouble("shadow_range_micros_p50") > 0;
                        });
        assertThat(differences()).as("seed %s", seed).isEmpty();
        assertThat(row.getLong("different")).as("seed %s", seed).isZero();
        assertThat(row.getLong("copies")).isEqualTo(1);
        assertThat(row.isNull("late_write")).as("%s", row.getFormattedContents()).isTrue();
        for (String side : List.of("table", "shadow"))
            for (String kind : List.of("read", "range", "write"))
                assertLatencies(row, side + "_" + kind);
        // Which of the two depends on the kind of memtable.
        assertThat(row.getLong("memtable_heap_bytes") + row.getLong("memtable_off_heap_bytes"))
                .isPositive();
        assertThat(row.getLong("table_bytes")).isPositive();
        NodeTool.Result report = Commands.petraAlone(node, "shadow", "report");
        assertThat(report.exitCode()).as(report.output()).isZero();
        assertThat(report.output())
                .contains("ks.t: 1 of 1 nodes have caught up")
                .containsPattern("answers compared: [0-9,]+, equal: [1-9][0-9,]*, different: 0, ")
                .containsPattern("on disk: table [0-9,]+ MiB, shadow [0-9,]+ MiB, not purged yet: ")
                .containsPattern(
                        "memtables take [0-9,]+ MiB of the heap now and [0-9,]+ MiB outside")
                .containsPattern("none of the heap and [0-9,]+ MiB outside")
                .containsPattern("partitions: table [1-9][0-9,]* and [1-9][0-9,]*, shadow [1-9]")
                .containsPattern("ranges: table [1-9][0-9,]* and [1-9][0-9,]*, shadow [1-9]")
                .containsPattern("log: table [1-9][0-9,]* and [1-9][0-9,]*, shadow [1-9]");
    }

    private static void assertLatencies(Row row, String kind) {
        String micros = kind + "_micros_";
        assertThat(row.getDouble(micros + "p50")).as(kind).isPositive();
        assertThat(row.getDouble(micros + "p95"))
                .as(kind)
                .isBetween(row.getDouble(micros + "p50"), row.getDouble(micros + "p99"));
        assertThat(row.getDouble(micros + "p999"))
                .as(kind)
                .isBetween(row.getDouble(micros + "p99"), (double) row.getLong(micros + "max"));
    }

    private static NodeTool.Result report() {
        return Commands.petra(node, "shadow", "report");
    }

    /**
     * Between two requests that go on while something else is done, for which they would leave no
     * processor.
     */
    private static void pause() {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
    }

    private static void write(Random random, AtomicBoolean over) {
        PreparedStatement insert =
                session.prepare(
                        "INSERT INTO ks.t (k, c, s, v) VALUES (?, ?, ?, ?) USING TTL ? AND"
                                + " TIMESTAMP ?");
        PreparedStatement element =
                session.prepare("UPDATE ks.t SET m[?] = ? WHERE k = ? AND c = ?");
        PreparedStatement range =
                session.prepare("DELETE FROM ks.t WHERE k = ? AND c > ? AND c < ?");
        PreparedStatement one = session.prepare("DELETE FROM ks.t WHERE k = ? AND c = ?");
        long tie = System.currentTimeMillis() * 1_000;
        while (!over.get()) {
            pause();
            int k = random.nextInt(KEYS);
            int c = random.nextInt(30);
            switch (random.nextInt(12)) {
                case 0 -> session.execute(range.bind(k, c, c + random.nextInt(10)));
                case 1 -> session.execute(one.bind(k, c));
                case 2 -> session.execute("DELETE FROM ks.t WHERE k = " + k);
                case 3 -> session.execute(element.bind(random.nextInt(3), "e", k, c));
                default -> {
                    int ttl = random.nextInt(3) == 0 ? 1 + random.nextInt(2) : 0;
                    long timestamp =
                            random.nextInt(4) == 0 && ttl == 0
                                    ? tie
                                    : System.currentTimeMillis() * 1_000 + random.nextInt(1_000);
                    session.execute(
                            insert.bind(k, c, "s" + c, "v" + random.nextInt(5), ttl, timestamp));
                }
            }
        }
    }

    @Test
    @Order(2)
    void aDifferenceIsReported() throws Exception {
        Instant began = Instant.now().truncatedTo(ChronoUnit.MILLIS);
        create("wrong");
        session.execute("ALTER TABLE ks.wrong WITH memtable = 'faulty_shadow'");
        awaitCaughtUp("wrong");
        session.execute("INSERT INTO ks.wrong (k, c, v) VALUES (1, 1, 'a')");
        session.execute("INSERT INTO ks.wrong (k, c, v) VALUES (2, 1, 'a')");
        assertThat(compare("wrong", KEYS).getLong("different")).isZero();

        session.execute("DELETE FROM ks.wrong WHERE k = 1 AND c = 1");
        await(
                "wrong",
                row -> {
                    session.execute("SELECT * FROM ks.wrong WHERE k = 1");
                    return row.getLong("different") > 0;
                });
        assertThat(session.execute("SELECT * FROM ks.wrong WHERE k = 1").all()).isEmpty();
        Row difference =
                session.execute(
                                "SELECT * FROM petra.shadow_differences WHERE keyspace_name = 'ks'"
                                        + " AND table_name = 'wrong' AND number = 1")
                        .one();
        assertThat(difference.getString("partition_key")).isEqualTo("1");
        assertThat(difference.getString("only_in_table")).contains("row deletion");
        assertThat(difference.getString("only_in_shadow")).contains("v = 0x61");
        assertThat(difference.getString("kind")).isEqualTo("different");
        assertThat(difference.getInstant("found_at")).isBetween(began, Instant.now());
        node.awaitLog("Table ks.wrong and its shadow differ in partition 1", PATIENCE);
        NodeTool.Result report = report();
        assertThat(report.exitCode()).isEqualTo(1);
        assertThat(report.output())
                .containsPattern("ks.wrong: .*\n.*different: [1-9]")
                .contains(": caught up, ")
                .contains("see petra.shadow_differences");
        assertThatThrownBy(() -> session.execute("ALTER TABLE ks.wrong WITH memtable = 'rocks'"))
                .isInstanceOf(InvalidQueryException.class)
                .hasMessageContaining("it had another answer than the table");
        Path folder = ShadowTable.folder(node, "wrong");
        assertThat(folder.resolve("DIFFERENT")).exists();

        long copies = ShadowTable.row(session, "wrong").getLong("copies");
        NodeTool.Result anew = Commands.petra(node, "shadow", "anew", "ks.wrong");
        assertThat(anew.exitCode()).as(anew.output()).isZero();
        assertThat(folder.resolve("DIFFERENT")).doesNotExist();
        Row next =
                await(
                        "wrong",
                        each -> each.getBoolean("caught_up") && each.getLong("copies") > copies);
        assertThat(next.getLong("different")).isZero();
        // The engine is as wrong as before.
        await(
                "wrong",
                each -> {
                    session.execute("SELECT * FROM ks.wrong WHERE k = 1");
                    return each.getLong("different") > 0;
                });
        assertThat(folder.resolve("DIFFERENT")).exists();
        session.execute("DROP TABLE ks.wrong");
        TestNode.await("no shadow", PATIENCE, () -> !Files.exists(folder));
    }

    @Test
    @Order(3)
    void importedDataIsCopied() throws Exception {
        create("source");
        session.execute("INSERT INTO ks.source (k, c, v) VALUES (5, 777, 'imported')");
        node.load("ks", "source", "t", directory.resolve("load"));
        assertThat(session.execute("SELECT v FROM ks.t WHERE k = 5 AND c = 777").one().getString(0))
                .isEqualTo("imported");
        Row row = compare("t", 2 * KEYS);
        assertThat(row.getLong("different")).isZero();
        assertThat(row.getLong("copies")).isEqualTo(1);
    }

    @Test
    @Order(4)
    void anIndexOfTheTableLeavesItsShadowAlone() throws Exception {
        long equal = awaitCaughtUp("t").getLong("equal");
        assertThat(equal).isPositive();
        session.execute("CREATE INDEX by_v ON ks.t (v)");
        assertThat(ShadowTable.row(session, "t").getLong("equal")).isGreaterThanOrEqualTo(equal);
        assertThat(compare("t", KEYS).getLong("different")).isZero();
        session.execute("DROP INDEX ks.by_v");
        Row row = compare("t", KEYS);
        assertThat(row.getLong("equal")).isGreaterThanOrEqualTo(equal);
        assertThat(row.getLong("different")).isZero();
        assertThat(row.getLong("copies")).isEqualTo(1);
    }

    @Test
    @Order(5)
    void aTruncatedTable() throws Exception {
        session.execute("TRUNCATE ks.t");
        awaitCaughtUp("t");
        for (int k = 0; k < KEYS; k++)
            session.execute("INSERT INTO ks.t (k, c, v) VALUES (" + k + ", 1, 'new')");
        Row row = compare("t", 2 * KEYS);
        assertThat(row.getLong("different")).isZero();
        assertThat(row.getLong("copies")).isEqualTo(2);
    }

    /** Nothing is compared while they run; another copy begins if they have changed something. */
    @Test
    @Order(6)
    void cleanupAndScrubOfTheTable() throws Exception {
        node.nodetool("flush", "ks", "t");
        // The node owns all of it.
        node.nodetool("cleanup", "ks", "t");
        assertThat(compare("t", KEYS).getLong("copies")).isEqualTo(2);
        node.nodetool("scrub", "ks", "t");
        await("t", row -> row.getLong("copies") > 2 && row.getBoolean("caught_up"));
        assertThat(compare("t", KEYS).getLong("different")).isZero();
    }

    /** Cassandra prepares none anew for that, so those of a running application all were. */
    @Test
    @Order(7)
    void readsThatWerePreparedBeforeTheTableHadAShadowAreCompared() throws Exception {
        create("prepared");
        PreparedStatement read = session.prepare("SELECT * FROM ks.prepared WHERE k = ?");
        for (int k = 0; k < KEYS; k++)
            session.execute("INSERT INTO ks.prepared (k, c, v) VALUES (" + k + ", 1, 'a')");
        session.execute("ALTER TABLE ks.prepared WITH memtable = 'rocks_shadow'");
        awaitCaughtUp("prepared");
        Row row =
                await(
                        "prepared",
                        now -> {
                            for (int k = 0; k < KEYS; k++) session.execute(read.bind(k));
                            return now.getLong("equal") >= KEYS;
                        });
        assertThat(row.getLong("different")).isZero();
    }

    /** The two answers are of different columns if it comes between them. */
    @Test
    @Order(8)
    void columnsThatComeAndGoAreNoDifference() throws Exception {
        AtomicBoolean over = new AtomicBoolean();
        CompletableFuture<Void> reader =
                CompletableFuture.runAsync(
                        () -> {
                            while (!over.get())
                                for (int k = 0; k < KEYS; k++) {
                                    pause();
                                    readIfItCanBe("SELECT * FROM ks.prepared WHERE k = " + k);
                                }
                        });
        try {
            for (int i = 0; i < 10; i++) {
                // Cassandra takes the time of a drop in milliseconds, and cannot read newer cells.
                TimeUnit.MILLISECONDS.sleep(5);
                session.execute("ALTER TABLE ks.prepared DROP v");
                session.execute("ALTER TABLE ks.prepared ADD v text");
                for (int k = 0; k < KEYS; k++)
                    session.execute("INSERT INTO ks.prepared (k, c, v) VALUES (" + k + ", 1, 'a')");
            }
        } finally {
            over.set(true);
        }
        reader.get(60, TimeUnit.SECONDS);
        assertThat(compare("prepared", KEYS).getLong("different")).isZero();
        session.execute("DROP TABLE ks.prepared");
    }

    /**
     * A read that began before an ALTER fails in Cassandra itself, with any storage, if it meets
     * what was written to a column that is new.
     */
    private static void readIfItCanBe(String select) {
        try {
            session.execute(select);
        } catch (ReadFailureException e) {
            System.out.println("A read beside an ALTER: " + e.getMessage());
        }
    }

    private static void assertRefused(String statement, String message) {
        assertThatThrownBy(() -> session.execute(statement))
                .as(statement)
                .isInstanceOf(QueryValidationException.class)
                .hasMessageContaining(message);
    }

    @Test
    @Order(9)
    void statementsThatAreRefused() {
        session.execute(
                "CREATE TABLE ks.compacted (k int PRIMARY KEY, v int) WITH COMPACT STORAGE");
        assertRefused(
                "ALTER TABLE ks.compacted WITH memtable = 'rocks_shadow'",
                "Shadow of table ks.compacted: a table WITH COMPACT STORAGE cannot be in an"
                        + " engine");
        assertRefused(
                "CREATE TABLE ks.compact (k int PRIMARY KEY, v int) WITH COMPACT STORAGE AND"
                        + " memtable = 'rocks_shadow'",
                "Shadow of table ks.compact: a table WITH COMPACT STORAGE cannot be in an engine");
        session.execute("CREATE TABLE ks.base (k int PRIMARY KEY, v int)");
        String view =
                "CREATE MATERIALIZED VIEW ks.%s AS SELECT * FROM ks.base WHERE k IS NOT NULL AND v"
                        + " IS NOT NULL PRIMARY KEY (v, k)";
        session.execute(view.formatted("by_value"));
        assertRefused(
                "ALTER MATERIALIZED VIEW ks.by_value WITH memtable = 'rocks_shadow'",
                "Shadow of table ks.by_value: materialized views have none");
        assertRefused(
                view.formatted("another") + " WITH memtable = 'rocks_shadow'",
                "Shadow of table ks.another: materialized views have none");
        // By Cassandra, before anybody else sees it.
        assertRefused(
                "ALTER TABLE system_distributed.repair_history WITH memtable = 'rocks_shadow'",
                "Cannot ALTER <table system_distributed.repair_history>");
        assertRefused(
                "ALTER TABLE system.peers_v2 WITH memtable = 'rocks_shadow'",
                "system keyspace is not user-modifiable");
        String warning =
                "Table ks.base has a shadow, but could not be migrated into its engine:"
                        + " materialized views on it ('%s') are not supported yet.";
        assertThat(warnings("ALTER TABLE ks.base WITH memtable = 'rocks_shadow'"))
                .containsExactly(warning.formatted("by_value"));
        assertThat(warnings("ALTER TABLE ks.base WITH comment = 'no other'")).isEmpty();
        assertThat(warnings(view.formatted("later"))).contains(warning.formatted("later"));
        session.execute("DROP MATERIALIZED VIEW ks.later");
        session.execute("DROP MATERIALIZED VIEW ks.by_value");
        session.execute("ALTER TABLE ks.base WITH memtable = 'other'");
        assertThat(warnings("ALTER TABLE ks.base WITH memtable = 'rocks_shadow'"))
                .containsExactly(
                        "Table ks.base has a shadow: its memtable is that of the configuration"
                                + " 'default' from now on. To go back, alter it to 'other', which"
                                + " it had before.");
        session.execute("DROP TABLE ks.base");
        session.execute("DROP TABLE ks.compacted");
    }

    private static List<String> warnings(String statement) {
        return session.execute(statement).getExecutionInfo().getWarnings();
    }

    @Test
    @Order(9)
    void aTableThatIsInAnEngineOrLeavesOne() throws Exception {
        create("moved");
        assertThat(warnings("ALTER TABLE ks.moved WITH memtable = 'rocks'")).isEmpty();
        String shadowed = "ALTER TABLE ks.moved WITH memtable = 'rocks_shadow'";
        String refused =
                "Shadow of table ks.moved: its data is in a storage engine, or leaving one";
        assertRefused(shadowed, refused);
        for (int k = 0; k < 300; k++)
            session.execute(
                    "INSERT INTO ks.moved (k, c, v) VALUES (?, 1, ?)", k, "v".repeat(40_000));
        node.nodetool("setcompactionthroughput", "1");
        try {
            session.execute("ALTER TABLE ks.moved WITH memtable = 'default'");
            assertRefused(shadowed, refused);
        } finally {
            node.nodetool("setcompactionthroughput", "64");
        }
        TestNode.awaitMigrations(session, PATIENCE);
        session.execute(shadowed);
        awaitCaughtUp("moved");
        session.execute("DROP TABLE ks.moved");
    }

    @Test
    @Order(10)
    void aCleanRestartGoesOnAndACrashBeginsAnew() throws Exception {
        session.close();
        node.process().stop();
        assertThat(ShadowTable.folder(node, "t").resolve("CLOSED")).exists();
        node.restart();
        session = node.plainSession();
        assertThat(ShadowTable.row(session, "t").getBoolean("caught_up")).isTrue();
        assertThat(ShadowTable.folder(node, "t").resolve("CLOSED")).doesNotExist();
        assertThat(ShadowTable.row(session, "t").isNull("late_write")).isTrue();
        session.execute("INSERT INTO ks.t (k, c, v) VALUES (1, 2, 'after')");
        assertThat(compare("t", 2 * KEYS).getLong("different")).isZero();

        // The commit log may not be synced when the node is killed. Then the table has lost it,
        // and the shadow had it.
        session.execute("INSERT INTO ks.t (k, c, v) VALUES (1, 3, 'unflushed')");
        session.close();
        node.process().kill();
        node.restart();
        session = node.plainSession();
        Row row = compare("t", 2 * KEYS);
        assertThat(row.getLong("different")).isZero();
        assertThat(row.getLong("copies")).isEqualTo(1);
    }

    /**
     * A row and its deletion are in two SSTables of the copy's first moment. One is copied, and a
     * compaction purges both: the other is needed after the restart, and is the table's no more.
     */
    @Test
    @Order(10)
    void aCopyGoesOnAfterACleanRestart() throws Exception {
        create("half");
        session.execute("ALTER TABLE ks.half WITH gc_grace_seconds = 0");
        String value = "v".repeat(10_000);
        for (int k = 0; k < 300; k++)
            session.execute("INSERT INTO ks.half (k, c, v) VALUES (?, 1, ?)", k, value);
        node.nodetool("flush", "ks", "half");
        for (int k = 0; k < 100; k++) session.execute("DELETE FROM ks.half WHERE k = ?", k);
        for (int k = 300; k < 900; k++)
            session.execute("INSERT INTO ks.half (k, c, v) VALUES (?, 1, ?)", k, value);
        node.nodetool("flush", "ks", "half");
        node.nodetool("setcompactionthroughput", "1");
        session.execute("ALTER TABLE ks.half WITH memtable = 'rocks_shadow'");
        await("half", row -> row.getLong("left_bytes") > 4 << 20);
        awaitAmongCompactions("half");
        await("half", row -> row.getLong("left_bytes") < 7 << 20);
        // Purges both.
        session.execute("INSERT INTO ks.half (k, c, v) VALUES (1, 2, 'new')");
        node.nodetool("compact", "ks", "half");
        session.close();
        node.process().stop();
        Path folder = ShadowTable.folder(node, "half");
        String closed = Files.readString(folder.resolve("CLOSED"));
        assertThat(closed).containsOnlyOnce("left=first ").contains("next_key=");
        String left = closed.replaceAll("(?s).*left=first [0-9]+ \\S*/([^\n]*)\n.*", "$1");
        assertThat(closed).contains("sstable=").doesNotContain("sstable=" + left);
        assertThat(TableFiles.children(folder.resolve("backups"))).hasSize(1);
        node.restart();
        session = node.plainSession();
        assertThat(node.process().logSinceStart())
                .contains("The shadow of ks.half goes on; SSTables to copy: 1");
        awaitCaughtUp("half");
        assertThat(folder.resolve("backups")).isEmptyDirectory();
        NodeTool.Result result = Commands.petraAlone(node, "compare", "ks.half");
        assertThat(result.exitCode()).as(result.output()).isZero();
        assertThat(result.output()).contains("different: 0");

        // What a crash has left there.
        Files.createFile(
                Files.createDirectory(folder.resolve("backups/1")).resolve("nb-1-big-Data.db"));
        session.execute("TRUNCATE ks.half");
        awaitCaughtUp("half");
        assertThat(folder.resolve("backups")).isEmptyDirectory();
        session.execute("DROP TABLE ks.half");
    }

    @Test
    @Order(11)
    void alteredBackItIsGoneAndTheTableIsWhole() throws Exception {
        int rows = session.execute("SELECT k FROM ks.t").all().size();
        session.execute("ALTER TABLE ks.t WITH memtable = 'default'");
        TestNode.await("no shadow", PATIENCE, () -> !Files.exists(ShadowTable.folder(node, "t")));
        assertThat(ShadowTable.row(session, "t")).isNull();
        assertThat(session.execute("SELECT k FROM ks.t").all()).hasSize(rows);
        assertThat(rows).isGreaterThan(KEYS);
    }

    @Test
    @Order(12)
    void aTableWithAShadowMovesIntoTheEngine() throws Exception {
        create("p");
        for (int k = 0; k < KEYS; k++)
            session.execute("INSERT INTO ks.p (k, c, v) VALUES (" + k + ", 1, 'old')");
        node.nodetool("flush", "ks", "p");
        session.execute("DELETE FROM ks.p WHERE k = 3");
        session.execute("ALTER TABLE ks.p WITH memtable = 'rocks_shadow'");
        assertThat(compare("p", KEYS).getLong("different")).isZero();
        assertThat(warnings("ALTER TABLE ks.p WITH memtable = 'rocks'"))
                .containsExactly(
                        "Table ks.p goes into its storage engine: from now on the way back is a"
                                + " migration, which takes as long as the table is large. A table"
                                + " with a shadow of 'mode: fallback' is back at once.");
        assertThat(session.execute("SELECT k FROM ks.p").all()).hasSize(KEYS - 1);
        TestNode.awaitMigrations(session, PATIENCE);
        assertThat(session.execute("SELECT k FROM ks.p").all()).hasSize(KEYS - 1);
        TableFiles files = TableFiles.of(node, "ks", "p");
        assertThat(files.generations()).containsExactly("1");
        TestNode.await("no shadow", PATIENCE, () -> !Files.exists(ShadowTable.folder(node, "p")));
        assertThat(ShadowTable.row(session, "p")).isNull();
    }

    private static final String LATE = "INSERT INTO ks.%s (k, c, v) VALUES (1, 1, 'late')";

    /** A table without grace with a deletion of the timestamp 20, which it has purged. */
    private static void createPurged(String table) throws Exception {
        createWithoutGrace(table);
        session.execute("ALTER TABLE ks." + table + " WITH memtable = 'rocks_shadow'");
        awaitCaughtUp(table);
        session.execute("DELETE FROM ks." + table + " USING TIMESTAMP 20 WHERE k = 1");
        // The deletion may be purged from the next second on.
        TimeUnit.SECONDS.sleep(2);
        node.nodetool("flush", "ks", table);
        node.nodetool("compact", "ks", table);
        session.execute("INSERT INTO ks." + table + " (k, c, v) VALUES (1, 2, 'new')");
        await(table, row -> row.getLong("queued_writes") == 0);
        Row row = ShadowTable.row(session, table);
        assertThat(row.isNull("late_write")).as("%s", row.getFormattedContents()).isTrue();
    }

    private static void createWithoutGrace(String table) {
        create(table);
        session.execute("ALTER TABLE ks." + table + " WITH gc_grace_seconds = 0");
    }

    private static Set<String> rows(String table) {
        return session.execute("SELECT c, v FROM ks." + table + " WHERE k = 1").all().stream()
                .map(row -> row.getInt(0) + row.getString(1))
                .collect(Collectors.toSet());
    }

    @Test
    @Order(18)
    void aWriteThatIsLateIsToldAndNotLost() throws Exception {
        createPurged("late");
        session.execute(LATE.formatted("late") + " USING TIMESTAMP 15");
        assertThat(rows("late")).containsExactlyInAnyOrder("1late", "2new");
        Row row = await("late", each -> !each.isNull("late_write"));
        assertThat(row.getString("late_write")).contains("(timestamp 15)", "(timestamp 20)");
        node.awaitLog("The shadow of ks.late may lack what the table has in partition 1", PATIENCE);
        assertThat(report().output())
                .contains("its shadow may lack a late write: something that was written");
        await(
                "late",
                each -> {
                    rows("late");
                    return each.getLong("undecided") > 0;
                });
        assertThat(ShadowTable.row(session, "late").getLong("different")).isZero();
        assertThat(
                        session.execute(
                                        "SELECT kind FROM petra.shadow_differences WHERE"
                                                + " keyspace_name = 'ks' AND table_name = 'late'")
                                .all())
                .isNotEmpty()
                .allMatch(each -> "undecided: late write".equals(each.getString("kind")));

        session.close();
        node.process().stop();
        node.restart();
        session = node.plainSession();
        awaitCaughtUp("late");
        assertThat(ShadowTable.row(session, "late").getString("late_write"))
                .contains("(timestamp 15)");

        session.execute("ALTER TABLE ks.late WITH memtable = 'rocks'");
        TestNode.awaitMigrations(session, PATIENCE);
        assertThat(rows("late")).containsExactlyInAnyOrder("1late", "2new");
    }

    @Test
    @Order(19)
    void anSSTableThatComesMayBeLate() throws Exception {
        createPurged("arrived");
        create("older");
        session.execute(LATE.formatted("older") + " USING TIMESTAMP 15");
        node.load("ks", "older", "arrived", directory.resolve("older"));
        assertThat(rows("arrived")).containsExactlyInAnyOrder("1late", "2new");
        await("arrived", row -> !row.isNull("late_write") && row.getBoolean("caught_up"));
        session.execute("DROP TABLE ks.arrived");
    }

    /** It hides in the shadow what it hides in the table. */
    @Test
    @Order(20)
    void aDeletionThatIsCopiedIsNotLate() throws Exception {
        createWithoutGrace("whole");
        session.execute(LATE.formatted("whole") + " USING TIMESTAMP 15");
        node.nodetool("flush", "ks", "whole");
        session.execute("DELETE FROM ks.whole USING TIMESTAMP 20 WHERE k = 1");
        TimeUnit.SECONDS.sleep(2);
        session.execute("ALTER TABLE ks.whole WITH memtable = 'rocks_shadow'");
        awaitCaughtUp("whole");
        session.execute("INSERT INTO ks.whole (k, c, v) VALUES (1, 2, 'new')");
        await("whole", row -> row.getLong("queued_writes") == 0);
        assertThat(ShadowTable.row(session, "whole").isNull("late_write")).isTrue();
        session.execute("INSERT INTO ks.whole (k, c, v) VALUES (1, 3, 'older') USING TIMESTAMP 19");
        await("whole", row -> !row.isNull("late_write"));
    }

    @Test
    @Order(21)
    void aPurgeBeforeTheGraceIsToldAndNoDifference() throws Exception {
        create("forced");
        session.execute("INSERT INTO ks.forced (k, c, v) VALUES (2, 1, 'a')");
        session.execute("ALTER TABLE ks.forced WITH memtable = 'rocks_shadow'");
        awaitCaughtUp("forced");
        assertThat(ShadowTable.row(session, "forced").isNull("late_write")).isTrue();
        session.execute("DELETE FROM ks.forced WHERE k = 1");
        await("forced", row -> row.getLong("queued_writes") == 0);
        node.nodetool("flush", "ks", "forced");
        // A key that cannot be, and one that is nowhere: nothing is purged.
        NodeTool.Result refused = node.tryNodetool("forcecompact", "ks", "forced", "one");
        assertThat(refused.exitCode()).as(refused.output()).isNotZero();
        assertThat(ShadowTable.row(session, "forced").isNull("late_write")).isTrue();
        node.nodetool("forcecompact", "ks", "forced", "77");
        assertThat(awaitCaughtUp("forced").getLong("copies")).isEqualTo(1);
        node.nodetool("forcecompact", "ks", "forced", "1");
        Row row = await("forced", now -> now.getLong("copies") > 1 && now.getBoolean("caught_up"));
        assertThat(row.getString("late_write")).startsWith("forcecompact was called");
        NodeTool.Result result = Commands.petra(node, "compare", "ks.forced");
        assertThat(result.exitCode()).as(result.output()).isZero();
        session.execute("DROP TABLE ks.forced");
    }

    /** As by an operator with little room on the disk. */
    @Test
    @Order(22)
    void sstablesAreCleanedUpOneByOneByJmx() throws Exception {
        create("single");
        node.nodetool("disableautocompaction", "ks", "single");
        for (int k = 0; k < 3; k++) {
            session.execute("INSERT INTO ks.single (k, c, v) VALUES (" + k + ", 1, 'a')");
            node.nodetool("flush", "ks", "single");
        }
        session.execute("ALTER TABLE ks.single WITH memtable = 'rocks_shadow'");
        awaitCaughtUp("single");
        List<Path> sstables =
                TableFiles.children(TableFiles.of(node, "ks", "single").directory()).stream()
                        .filter(file -> file.toString().endsWith("-Data.db"))
                        .toList();
        assertThat(sstables).hasSize(3);
        ObjectName compactions = new ObjectName("org.apache.cassandra.db:type=CompactionManager");
        try (JMXConnector jmx = node.jmx()) {
            for (Path each : sstables) {
                jmx.getMBeanServerConnection()
                        .invoke(
                                compactions,
                                "forceUserDefinedCleanup",
                                new Object[] {each.toString()},
                                new String[] {String.class.getName()});
                // Longer than a shadow looks for what there is to do.
                TimeUnit.SECONDS.sleep(2);
            }
        }
        TestNode.await(
                "all are written anew",
                PATIENCE,
                () -> sstables.stream().noneMatch(file -> Files.exists(file)));
        await("single", row -> row.getLong("copies") > 1 && row.getBoolean("caught_up"));
        Row row = compare("single", KEYS);
        assertThat(row.getLong("different")).isZero();
        assertThat(row.getLong("copies")).as("not one for each of them").isLessThan(4);
        NodeTool.Result result = Commands.petra(node, "compare", "ks.single");
        assertThat(result.exitCode()).as(result.output()).isZero();
        session.execute("DROP TABLE ks.single");
    }

    // Whole tables

    private static final int PARTITIONS = 10_000;
    private static final int ROWS = 20_000;

    /** So many partitions of one row, and one of many rows. */
    private static void fill(String table) throws Exception {
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (k, c, v) VALUES (?, ?, ?)");
        String value = "v".repeat(100);
        List<CompletableFuture<?>> begun = new ArrayList<>();
        for (int i = 0; i < PARTITIONS + ROWS; i++) {
            boolean isLarge = i >= PARTITIONS;
            begun.add(
                    session.executeAsync(
                                    insert.bind(
                                            isLarge ? -1 : i, isLarge ? i - PARTITIONS : 1, value))
                            .toCompletableFuture());
            if (begun.size() < 500) continue;
            for (CompletableFuture<?> each : begun) each.get(60, TimeUnit.SECONDS);
            begun.clear();
        }
        for (CompletableFuture<?> each : begun) each.get(60, TimeUnit.SECONDS);
    }

    private static void writeAll(String table, Random random, AtomicBoolean over) {
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (k, c, s, v) VALUES (?, ?, ?, ?)");
        PreparedStatement range =
                session.prepare("DELETE FROM ks." + table + " WHERE k = ? AND c > ? AND c < ?");
        PreparedStatement all = session.prepare("DELETE FROM ks." + table + " WHERE k = ?");
        while (!over.get()) {
            pause();
            int k = random.nextInt(20) == 0 ? -1 : random.nextInt(PARTITIONS);
            int c = random.nextInt(k == -1 ? ROWS : 3);
            switch (random.nextInt(6)) {
                case 0 -> session.execute(range.bind(k, c, c + random.nextInt(100)));
                case 1 -> {
                    if (k != -1) session.execute(all.bind(k));
                }
                default -> session.execute(insert.bind(k, c, "s", "v" + random.nextInt(100)));
            }
        }
    }

    private static Row comparison(String table) {
        return session.execute(
                        "SELECT * FROM petra.comparisons WHERE keyspace_name = 'ks' AND table_name"
                                + " = '"
                                + table
                                + "'")
                .one();
    }

    private static Row awaitComparison(String table) throws Exception {
        TestNode.await("its end", PATIENCE, () -> !comparison(table).isNull("ended_at"));
        return comparison(table);
    }

    private static void begin(String table) {
        session.execute(
                "INSERT INTO petra.comparisons (keyspace_name, table_name) VALUES ('ks', '"
                        + table
                        + "')");
    }

    private static void refuses(String table, String reason) {
        assertThatThrownBy(() -> begin(table))
                .isInstanceOf(InvalidQueryException.class)
                .hasMessageContaining(reason);
    }

    @Test
    @Order(13)
    void allOfATableIsComparedWhileItIsWritten() throws Exception {
        NodeTool.Result none = report();
        assertThat(none.output()).contains("No table has a shadow.");
        assertThat(none.exitCode()).isEqualTo(3);
        create("big");
        fill("big");
        node.nodetool("flush", "ks", "big");
        session.execute("ALTER TABLE ks.big WITH memtable = 'rocks_shadow'");
        awaitCaughtUp("big");
        NodeTool.Result untested = report();
        assertThat(untested.output())
                .contains("nothing was compared", "petra compare: not since the node was started");
        assertThat(untested.exitCode()).isEqualTo(3);

        long seed = System.nanoTime();
        AtomicBoolean over = new AtomicBoolean();
        List<CompletableFuture<Void>> writers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Random random = new Random(seed + i);
            writers.add(CompletableFuture.runAsync(() -> writeAll("big", random, over)));
        }
        NodeTool.Result result;
        try {
            result = Commands.petra(node, "compare", "ks.big");
        } finally {
            over.set(true);
        }
        for (CompletableFuture<Void> writer : writers) writer.get(60, TimeUnit.SECONDS);
        assertThat(result.output()).contains("ks.big: complete", "different: 0");
        Row row = comparison("big");
        assertThat(row.getLong("compared")).isGreaterThan(PARTITIONS);
        assertThat(row.getLong("different")).as("seed %s", seed).isZero();
        // On a slow machine the large one may be written in each attempt.
        if (row.getLong("not_comparable") > 0)
            assertThat(row.getString("not_comparable_because"))
                    .isEqualTo("1 written in each attempt; partition keys: -1");
        assertThat(row.getLong("equal") + row.getLong("not_comparable"))
                .isEqualTo(row.getLong("compared"));
        assertThat(result.exitCode()).isEqualTo(row.getLong("not_comparable") > 0 ? 1 : 0);
        assertThat(row.getDouble("tokens_done")).isEqualTo(1);
        assertThat(differences()).isEmpty();
        assertThat(report().exitCode()).isZero();
        assertThat(report().output()).contains("petra compare: complete, partitions compared: ");
        assertThat(ShadowTable.row(session, "big").getLong("copies")).isEqualTo(1);

        // When nobody writes any more.
        result = Commands.petra(node, "compare", "ks.big");
        assertThat(result.exitCode()).as("seed %s: %s", seed, result.output()).isZero();
        assertThat(comparison("big").getLong("equal")).isEqualTo(PARTITIONS + 1);

        // All but one token, in two ranges that wrap around the ring.
        NodeTool.Result half = Commands.petra(node, "compare", "ks.big", "--range", "0:-1");
        assertThat(half.exitCode()).as(half.output()).isZero();
        assertThat(comparison("big").getString("token_range")).isEqualTo("0:-1");
        assertThat(comparison("big").getLong("compared")).isEqualTo(PARTITIONS + 1);
        half = Commands.petra(node, "compare", "ks.big", "--token-range", "-9223372036854775808:0");
        assertThat(half.exitCode()).as(half.output()).isZero();
        assertThat(comparison("big").getLong("compared"))
                .isBetween(PARTITIONS / 3L, 2L * PARTITIONS / 3);
    }

    private static void awaitAmongCompactions(String table) throws Exception {
        TestNode.await(
                table + " among the compactions",
                PATIENCE,
                () ->
                        node.tryNodetool("compactionstats")
                                .output()
                                .lines()
                                .anyMatch(
                                        line ->
                                                line.contains("Unknown compaction type")
                                                        && line.contains(table)));
    }

    @Test
    @Order(14)
    void aTableWithoutPartitionsTellsNothing() throws Exception {
        create("nothing");
        session.execute("ALTER TABLE ks.nothing WITH memtable = 'rocks_shadow'");
        awaitCaughtUp("nothing");
        NodeTool.Result result = Commands.petra(node, "compare", "ks.nothing");
        assertThat(result.output()).contains("ks.nothing: complete", "nothing was compared");
        assertThat(result.exitCode()).isEqualTo(3);
        session.execute("DROP TABLE ks.nothing");
    }

    @Test
    @Order(14)
    void whatIsNotComparedIsRefused() {
        create("plain");
        refuses("plain", "table ks.plain has no shadow");
        refuses("absent", "there is no table ks.absent");
        assertThatThrownBy(
                        () ->
                                session.execute(
                                        "INSERT INTO petra.comparisons (keyspace_name, table_name,"
                                                + " token_range) VALUES ('ks', 'big', '17')"))
                .isInstanceOf(InvalidQueryException.class)
                .hasMessageContaining("'17' is not a token range");
        assertThatThrownBy(
                        () ->
                                session.execute(
                                        "DELETE FROM petra.comparisons WHERE keyspace_name ="
                                                + " 'ks'"))
                .isInstanceOf(InvalidQueryException.class)
                .hasMessageContaining("nodetool stop UNKNOWN");
    }

    /** By a limit of the throughput that leaves time to look. */
    @Test
    @Order(15)
    void aComparisonIsStopped() throws Exception {
        node.nodetool("setcompactionthroughput", "1");
        try {
            begin("big");
            refuses("big", "is being compared already");
            awaitAmongCompactions("big");
            node.nodetool("compact", "ks", "big");
            assertThat(comparison("big").isNull("ended_at")).isTrue();
            node.nodetool("stop", "UNKNOWN");
            Row row = awaitComparison("big");
            assertThat(row.getString("state")).isEqualTo("ended by nodetool stop");
            assertThat(row.getBoolean("complete")).isFalse();
            assertThat(row.getLong("compared")).isLessThan(PARTITIONS);

            session.execute("CREATE TABLE ks.slow (k int, c int, v text, PRIMARY KEY (k, c))");
            session.execute("ALTER TABLE ks.slow WITH memtable = 'rocks_shadow'");
            awaitCaughtUp("slow");
            for (int k = 0; k < 5_000; k++)
                session.execute("INSERT INTO ks.slow (k, c, v) VALUES (" + k + ", 1, 'v')");
            CompletableFuture<NodeTool.Result> result =
                    CompletableFuture.supplyAsync(() -> Commands.petra(node, "compare", "ks.slow"));
            TestNode.await("its beginning", PATIENCE, () -> comparison("slow") != null);
            session.execute("TRUNCATE ks.slow");
            assertThat(result.get(60, TimeUnit.SECONDS).exitCode()).isEqualTo(1);
            assertThat(result.get().output())
                    .contains("the shadow has dropped out: the table is being truncated");
            awaitCaughtUp("slow");
            session.execute("DROP TABLE ks.slow");
        } finally {
            node.nodetool("setcompactionthroughput", "64");
        }
    }

    @Test
    @Order(16)
    void aPartitionThatOnlyOneSideHasIsFound() throws Exception {
        create("lost");
        session.execute("ALTER TABLE ks.lost WITH memtable = 'static_shadow'");
        awaitCaughtUp("lost");
        for (int k = 0; k < 1_000; k++)
            session.execute("INSERT INTO ks.lost (k, c, v) VALUES (" + k + ", 1, 'v')");
        NodeTool.Result result = Commands.petra(node, "compare", "ks.lost");
        assertThat(result.exitCode()).as(result.output()).isZero();
        // The mutant has nothing of it.
        session.execute("INSERT INTO ks.lost (k, s) VALUES (7777, 's')");
        result = Commands.petra(node, "compare", "ks.lost");
        assertThat(result.exitCode()).as(result.output()).isEqualTo(1);
        assertThat(result.output()).contains("compared: 1,001, equal: 1,000, different: 1");
        session.execute("DROP TABLE ks.lost");

        create("back");
        session.execute(
                "ALTER TABLE ks.back WITH memtable = 'faulty_shadow' AND gc_grace_seconds = 0");
        awaitCaughtUp("back");
        for (int k = 0; k < 1_000; k++)
            session.execute("INSERT INTO ks.back (k, c, v) VALUES (" + k + ", 1, 'v')");
        session.execute("DELETE FROM ks.back WHERE k = 5 AND c = 1");
        TimeUnit.SECONDS.sleep(2);
        node.nodetool("flush", "ks", "back");
        // Of the table nothing is left: only the mutant has the key.
        node.nodetool("compact", "ks", "back");
        result = Commands.petra(node, "compare", "ks.back");
        assertThat(result.exitCode()).as(result.output()).isEqualTo(1);
        assertThat(result.output()).contains("compared: 1,000, equal: 999, different: 1");
        Row difference =
                session.execute(
                                "SELECT * FROM petra.shadow_differences WHERE keyspace_name = 'ks'"
                                        + " AND table_name = 'back' AND number = 1")
                        .one();
        assertThat(difference.getString("partition_key")).isEqualTo("5");
        assertThat(difference.getString("only_in_table")).isEmpty();
        assertThat(difference.getString("only_in_shadow")).contains("v = 0x76");
    }

    /** The table must not get into the engine past a difference, whatever became of the node. */
    @Test
    @Order(17)
    void aDifferenceIsRememberedUntilTheTableHasNoShadow() throws Exception {
        node.nodetool("setcompactionthroughput", "1");
        begin("big");
        session.close();
        node.process().stop();
        node.restart();
        node.awaitLog("ended: the node is being drained", PATIENCE);
        session = node.plainSession();
        refusesTheEngine("back");
        assertThat(ShadowTable.row(session, "back").getBoolean("caught_up")).isTrue();
        session.close();
        node.process().kill();
        node.restart();
        session = node.plainSession();
        awaitCaughtUp("back");
        refusesTheEngine("back");
        assertThat(report().exitCode()).isEqualTo(1);
        // To another shadow, too: one of another engine, which has a copy of its own.
        long copies = copiesMade("back");
        session.execute("ALTER TABLE ks.back WITH memtable = 'rocks_shadow'");
        awaitCaughtUp("back");
        assertThat(copiesMade("back")).isGreaterThan(copies);
        refusesTheEngine("back");

        session.execute("ALTER TABLE ks.back WITH memtable = 'default'");
        session.execute("ALTER TABLE ks.back WITH memtable = 'rocks_shadow'");
        awaitCaughtUp("back");
        assertThat(ShadowTable.row(session, "back").getLong("different")).isZero();
        session.execute("ALTER TABLE ks.back WITH memtable = 'rocks'");
        TestNode.awaitMigrations(session, PATIENCE);
    }

    /** Since the last start, of all shadows that the table had. */
    private static long copiesMade(String table) {
        String made = "The shadow of ks." + table + " is being made";
        return node.process().logSinceStart().lines().filter(line -> line.contains(made)).count();
    }

    private static void refusesTheEngine(String table) {
        assertThat(ShadowTable.row(session, table).getLong("different")).isEqualTo(1);
        assertThatThrownBy(
                        () ->
                                session.execute(
                                        "ALTER TABLE ks." + table + " WITH memtable = 'rocks'"))
                .isInstanceOf(InvalidQueryException.class)
                .hasMessageContaining("it had another answer than the table");
    }
}
