// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.metadata.TokenMap;
import com.datastax.oss.driver.api.core.metadata.token.TokenRange;
import com.datastax.oss.driver.api.core.servererrors.ReadFailureException;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.Writer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Two nodes, of which one comes, goes, or misses writes. */
class ClusterIT {
    private static final Duration MOVES = Duration.ofMinutes(5);
    private static final Duration HINTS = Duration.ofMinutes(5);
    private static final List<String> HINTED = List.of("ks.hinted", "ks.hinted2");
    private static final Duration AUTOMATIC = Duration.ofMinutes(5);

    private static final int ROWS = 2_000;

    /** Rows that {@link #changeSmall} leaves. */
    private static final int SMALL_LEFT = 40 * 3 - 10 * 3 - 10 * 2;

    private static final int SMALL_NEW = 10;

    private static final String CONTENT = "SELECT p, c, v, s, m, writetime(v) FROM ks.t";

    private static final String STOCK = "SELECT p, v, writetime(v) FROM ks.stock";

    /** What is logged where both nodes have the table in the same engine. */
    private static final String INGESTED = "slices into ks.t";

    private static final Map<String, Object> VIEWS_AND_SASI =
            Map.of("materialized_views_enabled", true, "sasi_indexes_enabled", true);

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path first;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path second;

    private final int seedPort = FreePorts.next();

    /** Runs nothing before its scheduler is started. */
    private static final Map<String, Object> AUTO_REPAIR =
            Map.of(
                    "auto_repair",
                    Map.of(
                            "enabled",
                            false,
                            "repair_check_interval",
                            "2s",
                            "repair_task_min_duration",
                            "0s",
                            "repair_type_overrides",
                            Map.of(
                                    "incremental",
                                    Map.of(
                                            "enabled",
                                            true,
                                            "initial_scheduler_delay",
                                            "0s",
                                            "min_repair_interval",
                                            "1s",
                                            "token_range_splitter",
                                            Map.of(
                                                    "class_name",
                                                    "RepairTokenRangeSplitter",
                                                    "parameters",
                                                    Map.of("partitions_per_assignment", "60"))))));

    private static final String AUTO_REPAIR_ENABLED = "-Dcassandra.autorepair.enable=true";

    private TestNode seed() {
        return TestNode.start(
                first,
                options ->
                        options.yaml(TestNode.mixed(true))
                                .yaml(VIEWS_AND_SASI)
                                .yaml(AUTO_REPAIR)
                                .storagePort(seedPort)
                                .numTokens(4)
                                .jvmOptions(TestNode.VERIFIED, AUTO_REPAIR_ENABLED));
    }

    private TestNode other(boolean hasTheEngine) {
        return TestNode.start(
                second,
                options ->
                        options.yaml(TestNode.mixed(hasTheEngine))
                                .yaml(VIEWS_AND_SASI)
                                .yaml(AUTO_REPAIR)
                                .seeds(List.of("127.0.0.1:" + seedPort))
                                .numTokens(4)
                                .jvmOptions(AUTO_REPAIR_ENABLED));
    }

    private static void createKeyspace(CqlSession session, int replicas) {
        TestNode.createKeyspace(session, "ks", replicas);
        session.execute(
                "CREATE TABLE ks.t (p int, c int, v text, s text static, m map<int, text>,"
                        + " PRIMARY KEY (p, c)) WITH memtable = 'mixed'"
                        + " AND read_repair = 'NONE' AND speculative_retry = 'NEVER'");
    }

    private static void write(CqlSession session, int from, int to) {
        var insert = session.prepare("INSERT INTO ks.t (p, c, v, s, m) VALUES (?, ?, ?, ?, ?)");
        for (int row = from; row < to; row++)
            session.execute(
                    insert.bind(
                            row / 4, row % 4, "v" + row, "s" + row / 4, Map.of(row, "m" + row)));
    }

    /** Of every kind: a row, a range, a partition, an element. */
    private static void delete(CqlSession session, int from, int to) {
        for (int p = from / 4; p < to / 4; p += 10) {
            session.execute("DELETE FROM ks.t WHERE p = ? AND c = 1", p);
            session.execute("DELETE FROM ks.t WHERE p = ? AND c >= 2", p + 1);
            session.execute("DELETE FROM ks.t WHERE p = ?", p + 2);
            session.execute("DELETE m FROM ks.t WHERE p = ? AND c = 3", p + 3);
            session.execute("DELETE s FROM ks.t WHERE p = ?", p + 4);
        }
    }

    private static Set<String> content(CqlSession session) {
        return Contents.of(session, CONTENT);
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aNodeComesAndGoesUnderLoad(boolean newcomerHasTheEngine) throws Exception {
        try (TestNode seed = seed();
                CqlSession session = seed.session()) {
            createKeyspace(session, 1);
            session.execute(Writer.table("ks.load") + " WITH memtable = 'mixed'");
            write(session, 0, ROWS);
            delete(session, 0, ROWS / 2);
            Set<String> expected = content(session);
            List<Writer> writers = new ArrayList<>();
            for (int w = 0; w < 4; w++)
                writers.add(new Writer(session, "ks.load", 0, w).pausing(Duration.ofMillis(5)));
            writers.forEach(Thread::start);
            try (TestNode newcomer = other(newcomerHasTheEngine)) {
                seed.awaitRing(2);
                assertThat(content(session)).isEqualTo(expected);
                String[] verify = {"verify", "--force", "-e", "--check-tokens", "ks", "t"};
                assertThat(seed.tryNodetool(verify).output()).contains("does not own");
                assertThat(newcomer.process().log().contains(INGESTED))
                        .isEqualTo(newcomerHasTheEngine);
                // From here on what the newcomer owns is only there.
                seed.nodetool("cleanup", "ks");
                seed.nodetool(verify);
                assertThat(content(session)).isEqualTo(expected);
                try (CqlSession there = newcomer.session()) {
                    assertThat(content(there)).isEqualTo(expected);
                    TestNode.awaitMigrations(there, MOVES);
                    assertThat(content(there)).isEqualTo(expected);
                }
                newcomer.nodetool("decommission", "-f");
            }
            TestNode.awaitMigrations(session, MOVES);
            assertThat(content(session)).isEqualTo(expected);
            for (Writer writer : writers) {
                writer.halt();
                writer.join();
                assertThat(writer.failure()).isNull();
                writer.check(session);
            }
            String log = seed.process().log();
            assertThat(log.contains(INGESTED)).isEqualTo(newcomerHasTheEngine);
            assertThat(log.contains("The migration of ks.t into its engine is over"))
                    .isNotEqualTo(newcomerHasTheEngine);
            // What was sent lay beside the store meanwhile.
            Path stores = TableFiles.of(seed, "ks", "t").stores();
            for (String streams : List.of("streams", "1/streams"))
                assertThat(TableFiles.children(stores.resolve(streams))).isEmpty();
        }
    }

    /** A table that is brought together otherwise than by a repair. */
    private static void createSmall(CqlSession session, String table, String readRepair) {
        session.execute(
                "CREATE TABLE %s (p int, c int, v text, PRIMARY KEY (p, c)) WITH memtable = 'mixed' AND read_repair = '%s'"
                        .formatted(table, readRepair));
        for (int p = 0; p < 40; p++)
            for (int c = 0; c < 3; c++)
                session.execute("INSERT INTO " + table + " (p, c, v) VALUES (?, ?, 'old')", p, c);
    }

    /** What one of the nodes misses. */
    private static void changeSmall(CqlSession session, String table) {
        for (int p = 0; p < 40; p += 4) {
            session.execute("DELETE FROM " + table + " WHERE p = ?", p);
            session.execute("DELETE FROM " + table + " WHERE p = ? AND c >= 1", p + 1);
            session.execute("INSERT INTO " + table + " (p, c, v) VALUES (?, 1, 'new')", p + 2);
        }
    }

    private static Set<String> alone(TestNode node, String table) {
        return Contents.alone(node, "SELECT p, c, v, writetime(v) FROM " + table);
    }

    /** Of one of the ring's ranges: Cassandra takes none that is in two. */
    private static String[] subrangeRepair(TestNode node) {
        try (CqlSession session = node.session()) {
            TokenMap tokens = session.getMetadata().getTokenMap().orElseThrow();
            TokenRange range =
                    tokens.getTokenRanges().stream()
                            .filter(each -> !each.isWrappedAround())
                            .findFirst()
                            .orElseThrow();
            return new String[] {
                "repair",
                "-full",
                "-st",
                tokens.format(range.getStart()),
                "-et",
                tokens.format(range.getEnd()),
                "ks",
                "t"
            };
        }
    }

    /** What one node creates, alters or removes the other has, and knows what is in the engine. */
    private static void schemasStayWhole(TestNode seed, TestNode other)
            throws InterruptedException {
        try (CqlSession here = seed.session(ConsistencyLevel.ALL);
                CqlSession there = other.session(ConsistencyLevel.ALL)) {
            TestNode.createKeyspace(here, "schemas", 2);
            here.execute("CREATE TABLE schemas.t (p int PRIMARY KEY) WITH memtable = 'mixed'");
            seed.awaitRing(2);
            for (int p = 0; p < 10; p++) there.execute("INSERT INTO schemas.t (p) VALUES (?)", p);
            assertThat(here.execute("SELECT * FROM schemas.t").all()).hasSize(10);
            here.execute("CREATE TABLE schemas.u (p int PRIMARY KEY) WITH memtable = 'mixed'");
            there.execute("INSERT INTO schemas.u (p) VALUES (1)");
            there.execute("TRUNCATE schemas.u");
            assertThat(here.execute("SELECT * FROM schemas.u").all()).isEmpty();
            there.execute("DROP TABLE schemas.u");
            here.execute("DROP KEYSPACE schemas");
        }
    }

    /** Also a read, and hints; before that, that both know the same schema. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void repairBringsReplicasTogether(boolean otherHasTheEngine) throws Exception {
        try (TestNode seed = seed();
                TestNode other = other(otherHasTheEngine)) {
            if (otherHasTheEngine) schemasStayWhole(seed, other);
            try (CqlSession session = seed.session()) {
                createKeyspace(session, 2);
                write(session, 0, ROWS);
                createSmall(session, "ks.read", "BLOCKING");
                for (String table : HINTED) createSmall(session, table, "NONE");
                session.execute("CREATE INDEX hinted_v ON ks.hinted (v) USING 'sai'");
                session.execute("CREATE INDEX hinted2_v ON ks.hinted2 (v)");
                session.execute("CREATE TABLE ks.stock (p int PRIMARY KEY, v text)");
                other.process().stop();
                delete(session, 0, ROWS / 2);
                write(session, ROWS, ROWS + 200);
                changeSmall(session, "ks.read");
                seed.nodetool("enablehandoff");
                for (String table : HINTED) changeSmall(session, table);
                seed.nodetool("disablehandoff");
                other.restart();
            }
            for (TestNode node : List.of(seed, other)) node.awaitRing(2);
            assertThat(alone(other, "ks.read")).isNotEqualTo(alone(seed, "ks.read"));
            try (CqlSession all = seed.session(ConsistencyLevel.ALL)) {
                for (int p = 0; p < 40; p++) all.execute("SELECT * FROM ks.read WHERE p = ?", p);
            }
            assertThat(alone(other, "ks.read"))
                    .isEqualTo(alone(seed, "ks.read"))
                    .hasSize(SMALL_LEFT);
            Set<String> expected = Contents.alone(seed, CONTENT);
            assertThat(Contents.alone(other, CONTENT)).isNotEqualTo(expected);
            Map<String, Long> before = stored(seed, other);
            NodeTool.Result preview = seed.tryNodetool("repair", "--preview", "-full", "ks", "t");
            assertThat(preview.output()).contains("Total estimated streaming");
            assertThat(stored(seed, other)).isEqualTo(before);
            seed.nodetool("repair", "-full", "ks", "t");
            assertThat(seed.process().log().contains(INGESTED)).isEqualTo(otherHasTheEngine);
            try (CqlSession session = seed.session()) {
                TestNode.awaitMigrations(session, MOVES);
                assertThat(content(session)).isEqualTo(expected);
            }
            assertThat(Contents.alone(other, CONTENT)).isEqualTo(expected);
            assertThat(Contents.alone(seed, CONTENT)).isEqualTo(expected);
            for (String[] again :
                    new String[][] {
                        {"repair", "--preview", "-full", "ks", "t"},
                        {"repair", "--validate", "ks", "t"},
                        {"repair", "-seq", "-full", "ks", "t"},
                        {"repair", "-pr", "-full", "ks", "t"},
                        {"repair", "-dcpar", "-full", "ks", "t"},
                        subrangeRepair(seed)
                    }) {
                before = stored(seed, other);
                NodeTool.Result result = seed.tryNodetool(again);
                assertThat(result.exitCode()).describedAs(result.output()).isZero();
                if (again[1].equals("--preview"))
                    assertThat(result.output()).contains("Previewed data was in sync");
                if (again[1].equals("--validate"))
                    assertThat(result.output()).contains("Repaired data is in sync");
                // The others may take a snapshot, for which the store is flushed.
                if (again[1].startsWith("--"))
                    assertThat(stored(seed, other)).as(again[1]).isEqualTo(before);
            }
            for (String table : HINTED) awaitHints(seed, other, table);
            repairIncrementally(seed, other, otherHasTheEngine);
            if (otherHasTheEngine) repairAutomatically(seed, other);
        }
    }

    /** Found by the table's index too, which hints change as writes do. */
    private static void awaitHints(TestNode seed, TestNode other, String table)
            throws InterruptedException {
        long end = System.nanoTime() + HINTS.toNanos();
        while (!alone(other, table).equals(alone(seed, table))) {
            assertThat(System.nanoTime()).as("hints arrive").isLessThan(end);
            TimeUnit.SECONDS.sleep(1);
        }
        assertThat(alone(seed, table)).hasSize(SMALL_LEFT);
        for (TestNode node : List.of(seed, other)) {
            assertThat(alone(node, table + " WHERE v = 'new'")).hasSize(SMALL_NEW);
            assertThat(alone(node, table + " WHERE v = 'old'")).hasSize(SMALL_LEFT - SMALL_NEW);
        }
    }

    /** The data files of the table's stores, with their sizes, and what streams have staged. */
    private static Map<String, Long> stored(TestNode... nodes) throws IOException {
        Map<String, Long> stored = new TreeMap<>();
        for (TestNode node : nodes) {
            Path stores = TableFiles.of(node, "ks", "t").stores();
            if (!Files.exists(stores)) continue;
            try (Stream<Path> all = Files.walk(stores)) {
                for (Path file : (Iterable<Path>) all::iterator) {
                    String name = file.toString();
                    if (name.endsWith(".sst")
                            || name.endsWith(".blob")
                            || file.getParent().endsWith("streams"))
                        stored.put(name, Files.size(file));
                }
            }
        }
        return stored;
    }

    /** Auto-repair splits a table by what is in the engine, and its other tables are repaired. */
    private static void repairAutomatically(TestNode seed, TestNode other) throws Exception {
        other.process().stop();
        try (CqlSession session = seed.session()) {
            write(session, ROWS + 400, ROWS + 600);
            for (int p = 0; p < 40; p++)
                session.execute("INSERT INTO ks.stock (p, v) VALUES (?, 'newer')", p);
        }
        other.restart();
        for (TestNode node : List.of(seed, other)) {
            node.awaitRing(2);
            node.nodetool("setautorepairconfig", "start_scheduler", "true");
        }
        Set<String> expected = Contents.alone(seed, CONTENT);
        long end = System.nanoTime() + AUTOMATIC.toNanos();
        while (!Contents.alone(other, CONTENT).equals(expected)
                || !Contents.alone(other, STOCK).equals(Contents.alone(seed, STOCK))) {
            assertThat(System.nanoTime()).as("auto-repair").isLessThan(end);
            TimeUnit.SECONDS.sleep(1);
        }
        assertThat(seed.process().log() + other.process().log())
                .contains("Splitting ks.t for range")
                .doesNotContain("Repair failed for range");
    }

    /** As an operator types it first, of a table in the engine and one that is not. */
    private static void repairIncrementally(
            TestNode seed, TestNode other, boolean otherHasTheEngine) throws Exception {
        other.process().stop();
        try (CqlSession session = seed.session()) {
            write(session, ROWS + 200, ROWS + 400);
            for (int p = 0; p < 40; p++)
                session.execute("INSERT INTO ks.stock (p, v) VALUES (?, 'new')", p);
        }
        other.restart();
        for (TestNode node : List.of(seed, other)) node.awaitRing(2);
        assertThat(Contents.alone(other, STOCK)).isNotEqualTo(Contents.alone(seed, STOCK));
        Set<String> expected = Contents.alone(seed, CONTENT);
        assertThat(Contents.alone(other, CONTENT)).isNotEqualTo(expected);
        NodeTool.Result all = seed.tryNodetool("repair", "ks");
        if (!otherHasTheEngine) {
            assertThat(all.exitCode()).isNotZero();
            assertThat(seed.process().log())
                    .contains("Incremental repair cannot include table ks.")
                    .contains("Use nodetool repair --full");
            awaitSessions(seed, other, "FAILED");
            assertThat(seed.tryNodetool("tablestats", "ks.stock").output())
                    .containsPattern("Bytes repaired: 0\\D");
            seed.nodetool("repair", "ks", "stock");
        } else {
            assertThat(all.exitCode()).describedAs(all.output()).isZero();
            awaitSessions(seed, other, "FINALIZED");
            assertThat(Contents.alone(other, CONTENT)).isEqualTo(expected);
            assertThat(Contents.alone(seed, CONTENT)).isEqualTo(expected);
            for (TestNode node : List.of(seed, other)) {
                assertThat(
                                node.process()
                                        .log()
                                        .lines()
                                        .filter(line -> line.contains("compared in full")))
                        .hasSize(1);
                assertThat(node.tryNodetool("tablestats", "ks.t").output())
                        .contains("Percent repaired: 0.0")
                        .containsPattern("Bytes repaired: 0\\D");
            }
        }
        assertThat(Contents.alone(other, STOCK)).isEqualTo(Contents.alone(seed, STOCK));
        long end = System.nanoTime() + HINTS.toNanos();
        for (TestNode node : List.of(seed, other))
            while (!node.tryNodetool("tablestats", "ks.stock")
                    .output()
                    .contains("Percent repaired: 100.0")) {
                assertThat(System.nanoTime()).as("the stock table is repaired").isLessThan(end);
                TimeUnit.SECONDS.sleep(1);
            }
    }

    /** Until the replicas agree about how their only session has ended. */
    private static void awaitSessions(TestNode seed, TestNode other, String state)
            throws InterruptedException {
        long end = System.nanoTime() + AUTOMATIC.toNanos();
        for (TestNode node : List.of(seed, other)) {
            String listed;
            do {
                listed = node.tryNodetool("repair_admin", "list", "--all").output();
                assertThat(System.nanoTime()).as(listed).isLessThan(end);
            } while (!listed.contains(state));
            assertThat(listed.lines().filter(line -> line.contains("127.0.0.1:")))
                    .describedAs(listed)
                    .hasSize(1);
        }
    }

    /** They heard of the tables of before, and would have sent slices of them. */
    @Test
    void peersHearOfTablesThatChangedWhileGossipWasDisabled() throws Exception {
        try (TestNode seed = seed();
                TestNode other = other(true);
                CqlSession session = other.session()) {
            createKeyspace(session, 2);
            String table = hash(session, "t");
            TestNode.await("both", MOVES, () -> telling(seed, table) == 2);
            other.nodetool("disablegossip");
            on(other, session, "DROP TABLE ks.t");
            other.nodetool("enablegossip");
            TestNode.await("none", MOVES, () -> telling(seed, table) == 0);
        }
    }

    /** How gossip names a table. */
    private static String hash(CqlSession session, String table) {
        return Integer.toHexString(TestNode.tableId(session, "ks", table).hashCode());
    }

    /** How many nodes tell others that they take slices of a table, as one node has heard. */
    private static long telling(TestNode node, String table) {
        return node.tryNodetool("gossipinfo")
                .output()
                .lines()
                .filter(line -> line.strip().startsWith("X8:") && line.contains(table))
                .count();
    }

    /** A node without the engine does not refuse what the engine cannot keep. */
    @Test
    void aTableFailsWhileItHasAnIndexOrAViewOfAnotherNodes() throws Exception {
        try (TestNode seed = seed();
                CqlSession session = seed.session(ConsistencyLevel.ALL)) {
            createKeyspace(session, 2);
            session.execute("CREATE TABLE ks.u (p int PRIMARY KEY) WITH memtable = 'mixed'");
            try (TestNode other = other(false);
                    CqlSession there = other.session(ConsistencyLevel.ALL)) {
                write(there, 0, 20);
                Set<String> expected = Contents.alone(seed, CONTENT);
                assertThat(expected).hasSize(20);
                String[][] kept = {
                    {
                        "CREATE INDEX by_v ON ks.t (v) USING 'sai'",
                        "SELECT * FROM ks.t WHERE v = 'v1'",
                        "DROP INDEX ks.by_v"
                    },
                    {
                        "CREATE INDEX by_v ON ks.t (v)",
                        "SELECT * FROM ks.t WHERE v = 'v1'",
                        "DROP INDEX ks.by_v"
                    }
                };
                String[][] doors = {
                    {
                        "CREATE CUSTOM INDEX by_v ON ks.t (v) USING"
                                + " 'org.apache.cassandra.index.sasi.SASIIndex'",
                        "SELECT * FROM ks.t WHERE v = 'v1'",
                        "DROP INDEX ks.by_v"
                    },
                    {
                        "CREATE MATERIALIZED VIEW ks.by_v AS SELECT p, c, v FROM ks.t WHERE p IS"
                            + " NOT NULL AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, p, c)",
                        "SELECT * FROM ks.by_v WHERE v = 'v1'",
                        "DROP MATERIALIZED VIEW ks.by_v"
                    }
                };
                for (String[] door : doors) {
                    on(other, there, door[0]);
                    assertThatThrownBy(() -> Contents.alone(seed, door[1])).as(door[0]).isNotNull();
                    assertThatThrownBy(() -> Contents.alone(seed, CONTENT)).as(door[0]).isNotNull();
                    assertThatThrownBy(() -> write(there, 0, 1)).as(door[0]).isNotNull();
                    there.execute("INSERT INTO ks.u (p) VALUES (1)");
                    assertThat(Contents.alone(seed, "SELECT * FROM ks.u")).hasSize(1);
                    assertThat(
                                    Contents.alone(
                                            seed,
                                            "SELECT failure FROM petra.tables WHERE keyspace_name ="
                                                    + " 'ks' AND table_name = 't'"))
                            .asString()
                            .contains("by_v");
                    on(other, there, door[2]);
                    assertThat(Contents.alone(seed, CONTENT)).as(door[0]).isEqualTo(expected);
                    write(there, 0, 1);
                    expected = Contents.alone(seed, CONTENT);
                    assertThat(expected).hasSize(20);
                }
                assertThat(seed.process().log())
                        .contains("is in a storage engine and has the index 'by_v'")
                        .contains("is in a storage engine and has the materialized view 'by_v'");
                // These are kept, by either node.
                for (String[] index : kept) {
                    on(other, there, index[0]);
                    assertThat(firstAnswer(seed, index[1]))
                            .as(index[0])
                            .hasSize(1)
                            .isEqualTo(firstAnswer(other, index[1]));
                    there.execute("INSERT INTO ks.t (p, c, v) VALUES (0, 1, 'other')");
                    there.execute("INSERT INTO ks.t (p, c, v) VALUES (0, 2, 'v1')");
                    for (TestNode each : List.of(seed, other))
                        assertThat(firstAnswer(each, index[1]))
                                .as(index[0])
                                .singleElement()
                                .asString()
                                .contains("c:2");
                    // Both nodes answer, and agree.
                    assertThat(firstAnswer(there, index[1]))
                            .singleElement()
                            .satisfies(row -> assertThat(row.getInt("c")).isEqualTo(2));
                    on(other, there, index[2]);
                    write(there, 0, 4);
                }
                expected = Contents.alone(seed, CONTENT);
                // The other mend: the index or view has the data when all of it has left.
                for (String[] door : new String[][] {kept[0], kept[1], doors[0], doors[1]}) {
                    on(other, there, "ALTER TABLE ks.t WITH memtable = 'mixed'");
                    awaitNoMigrations(seed);
                    on(other, there, door[0]);
                    // Cassandra's own view is empty there until it is built.
                    TestNode.await(door[0], MOVES, () -> !firstAnswer(other, door[1]).isEmpty());
                    Set<String> found = firstAnswer(other, door[1]);
                    assertThat(found).as(door[0]).hasSize(1);
                    on(other, there, "ALTER TABLE ks.t WITH memtable = 'default'");
                    assertThat(firstAnswer(seed, door[1])).as(door[0]).isEqualTo(found);
                    awaitNoMigrations(seed);
                    assertThat(Contents.alone(seed, CONTENT)).as(door[0]).isEqualTo(expected);
                    on(other, there, door[2]);
                }
            }
        }
    }

    private static Set<String> firstAnswer(TestNode node, String select) throws Exception {
        long end = System.nanoTime() + MOVES.toNanos();
        while (true)
            try {
                return Contents.alone(node, select);
            } catch (RuntimeException e) {
                if (System.nanoTime() > end) throw e;
                TimeUnit.MILLISECONDS.sleep(50);
            }
    }

    /** Of all nodes: each hears by gossip that an index of the others can be queried. */
    private static List<Row> firstAnswer(CqlSession session, String select) throws Exception {
        long end = System.nanoTime() + MOVES.toNanos();
        while (true)
            try {
                return session.execute(select).all();
            } catch (ReadFailureException e) {
                if (System.nanoTime() > end) throw e;
                TimeUnit.MILLISECONDS.sleep(50);
            }
    }

    private static void awaitNoMigrations(TestNode node) throws Exception {
        long end = System.nanoTime() + MOVES.toNanos();
        for (int none = 0; none < 5; none++) {
            if (!Contents.alone(node, "SELECT * FROM petra.migrations").isEmpty()) none = 0;
            assertThat(System.nanoTime()).isLessThan(end);
            TimeUnit.MILLISECONDS.sleep(50);
        }
    }

    private static void on(TestNode node, CqlSession session, String statement) {
        session.execute(
                SimpleStatement.newInstance(statement)
                        .setNode(
                                session.getMetadata().getNodes().values().stream()
                                        .filter(
                                                each ->
                                                        each.getEndPoint()
                                                                .resolve()
                                                                .equals(node.cqlAddress()))
                                        .findFirst()
                                        .orElseThrow()));
    }
}
