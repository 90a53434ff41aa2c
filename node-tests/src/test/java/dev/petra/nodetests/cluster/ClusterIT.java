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
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.OneOf;
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
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

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

    private static final String CONTENT = content("ks");

    private static final String STOCK = "SELECT p, v, writetime(v) FROM ks.stock";

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

    /** What a node has by itself, by one session: to open one takes more than many queries. */
    private record Alone(TestNode node, CqlSession session) implements AutoCloseable {
        static Alone at(TestNode node) {
            return new Alone(node, node.plainSession());
        }

        Set<String> read(String select) {
            return Contents.alone(session, node, select);
        }

        @Override
        public void close() {
            session.close();
        }
    }

    private static String content(String keyspace) {
        return "SELECT p, c, v, s, m, writetime(v) FROM " + keyspace + ".t";
    }

    /** What is logged where both nodes have the table in the same engine. */
    private static String ingested(String keyspace) {
        return "slices into " + keyspace + ".t";
    }

    private static void createKeyspace(CqlSession session, String keyspace, int replicas) {
        TestNode.createKeyspace(session, keyspace, replicas);
        session.execute(
                "CREATE TABLE "
                        + keyspace
                        + ".t (p int, c int, v text, s text static, m map<int, text>,"
                        + " PRIMARY KEY (p, c)) WITH memtable = 'mixed'"
                        + " AND read_repair = 'NONE' AND speculative_retry = 'NEVER'");
    }

    private static void write(CqlSession session, String keyspace, int from, int to) {
        var insert =
                session.prepare(
                        "INSERT INTO " + keyspace + ".t (p, c, v, s, m) VALUES (?, ?, ?, ?, ?)");
        for (int row = from; row < to; row++)
            session.execute(
                    insert.bind(
                            row / 4, row % 4, "v" + row, "s" + row / 4, Map.of(row, "m" + row)));
    }

    /** Of every kind: a row, a range, a partition, an element. */
    private static void delete(CqlSession session, String keyspace, int from, int to) {
        String table = keyspace + ".t";
        for (int p = from / 4; p < to / 4; p += 10) {
            session.execute("DELETE FROM " + table + " WHERE p = ? AND c = 1", p);
            session.execute("DELETE FROM " + table + " WHERE p = ? AND c >= 2", p + 1);
            session.execute("DELETE FROM " + table + " WHERE p = ?", p + 2);
            session.execute("DELETE m FROM " + table + " WHERE p = ? AND c = 3", p + 3);
            session.execute("DELETE s FROM " + table + " WHERE p = ?", p + 4);
        }
    }

    private static Set<String> content(CqlSession session, String keyspace) {
        return Contents.of(session, content(keyspace));
    }

    static List<Boolean> drawn() {
        return Drawn.of("ClusterIT", List.of(true, false));
    }

    @ParameterizedTest
    @MethodSource("drawn")
    @OneOf(variants = "ClusterIT, nodes and replicas", of = 2, number = 2)
    void replicasAreBroughtTogether(boolean otherHasTheEngine) throws Exception {
        try (TestNode seed = seed();
                TestNode other = other(otherHasTheEngine)) {
            repairBringsReplicasTogether(seed, other, otherHasTheEngine);
            if (!otherHasTheEngine) aTableFailsWhileItHasAnIndexOrAViewOfAnotherNodes(seed, other);
        }
    }

    @ParameterizedTest
    @MethodSource("drawn")
    @OneOf(variants = "ClusterIT, nodes and replicas", of = 2, number = 1)
    void aNodeComesAndGoesUnderLoad(boolean newcomerHasTheEngine) throws Exception {
        String ks = "moved";
        try (TestNode seed = seed();
                CqlSession session = seed.session()) {
            createKeyspace(session, ks, 1);
            session.execute(Writer.table("moved.load") + " WITH memtable = 'mixed'");
            write(session, ks, 0, ROWS);
            delete(session, ks, 0, ROWS / 2);
            Set<String> expected = content(session, ks);
            List<Writer> writers = new ArrayList<>();
            for (int w = 0; w < 4; w++)
                writers.add(new Writer(session, "moved.load", 0, w).pausing(Duration.ofMillis(40)));
            writers.forEach(Thread::start);
            try (TestNode newcomer = other(newcomerHasTheEngine)) {
                seed.awaitRing(2);
                assertThat(content(session, ks)).isEqualTo(expected);
                String[] verify = {"verify", "--force", "-e", "--check-tokens", ks, "t"};
                assertThat(seed.tryNodetool(verify).output()).contains("does not own");
                assertThat(newcomer.process().log().contains(ingested(ks)))
                        .isEqualTo(newcomerHasTheEngine);
                // From here on what the newcomer owns is only there.
                seed.nodetool("cleanup", ks);
                seed.nodetool(verify);
                assertThat(content(session, ks)).isEqualTo(expected);
                try (CqlSession there = newcomer.session()) {
                    assertThat(content(there, ks)).isEqualTo(expected);
                    TestNode.awaitMigrations(there, MOVES);
                    assertThat(content(there, ks)).isEqualTo(expected);
                }
                newcomer.nodetool("decommission", "-f");
            }
            TestNode.awaitMigrations(session, MOVES);
            assertThat(content(session, ks)).isEqualTo(expected);
            for (Writer writer : writers) {
                writer.halt();
                writer.join();
                assertThat(writer.failure()).isNull();
                writer.check(session);
            }
            String log = seed.process().log();
            assertThat(log.contains(ingested(ks))).isEqualTo(newcomerHasTheEngine);
            assertThat(log.contains("The migration of moved.t into its engine is over"))
                    .isNotEqualTo(newcomerHasTheEngine);
            // What was sent lay beside the store meanwhile.
            Path stores = TableFiles.of(seed, ks, "t").stores();
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

    private static Set<String> alone(Alone node, String table) {
        return node.read("SELECT p, c, v, writetime(v) FROM " + table);
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
    private static void repairBringsReplicasTogether(
            TestNode seed, TestNode other, boolean otherHasTheEngine) throws Exception {
        if (otherHasTheEngine) schemasStayWhole(seed, other);
        try (CqlSession session = seed.session()) {
            createKeyspace(session, "ks", 2);
            write(session, "ks", 0, ROWS);
            createSmall(session, "ks.read", "BLOCKING");
            for (String table : HINTED) createSmall(session, table, "NONE");
            session.execute("CREATE INDEX hinted_v ON ks.hinted (v) USING 'sai'");
            session.execute("CREATE INDEX hinted2_v ON ks.hinted2 (v)");
            session.execute("CREATE TABLE ks.stock (p int PRIMARY KEY, v text)");
            other.process().stop();
            delete(session, "ks", 0, ROWS / 2);
            write(session, "ks", ROWS, ROWS + 200);
            changeSmall(session, "ks.read");
            seed.nodetool("enablehandoff");
            for (String table : HINTED) changeSmall(session, table);
            seed.nodetool("disablehandoff");
            other.restart();
        }
        for (TestNode node : List.of(seed, other)) node.awaitRing(2);
        try (Alone here = Alone.at(seed);
                Alone there = Alone.at(other)) {
            assertThat(alone(there, "ks.read")).isNotEqualTo(alone(here, "ks.read"));
            try (CqlSession all = seed.session(ConsistencyLevel.ALL)) {
                for (int p = 0; p < 40; p++) all.execute("SELECT * FROM ks.read WHERE p = ?", p);
            }
            assertThat(alone(there, "ks.read"))
                    .isEqualTo(alone(here, "ks.read"))
                    .hasSize(SMALL_LEFT);
            Set<String> expected = here.read(CONTENT);
            assertThat(there.read(CONTENT)).isNotEqualTo(expected);
            Map<String, Long> before = stored(seed, other);
            NodeTool.Result preview = seed.tryNodetool("repair", "--preview", "-full", "ks", "t");
            assertThat(preview.output()).contains("Total estimated streaming");
            assertThat(stored(seed, other)).isEqualTo(before);
            seed.nodetool("repair", "-full", "ks", "t");
            assertThat(seed.process().log().contains(ingested("ks"))).isEqualTo(otherHasTheEngine);
            try (CqlSession session = seed.session()) {
                TestNode.awaitMigrations(session, MOVES);
                assertThat(content(session, "ks")).isEqualTo(expected);
            }
            assertThat(there.read(CONTENT)).isEqualTo(expected);
            assertThat(here.read(CONTENT)).isEqualTo(expected);
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
            for (String table : HINTED) awaitHints(here, there, table);
        }
        repairIncrementally(seed, other, otherHasTheEngine);
        if (otherHasTheEngine) {
            repairAutomatically(seed, other);
            peersHearOfTablesThatChangedWhileGossipWasDisabled(seed, other);
        }
    }

    /** Found by the table's index too, which hints change as writes do. */
    private static void awaitHints(Alone here, Alone there, String table)
            throws InterruptedException {
        long end = System.nanoTime() + HINTS.toNanos();
        while (!alone(there, table).equals(alone(here, table))) {
            assertThat(System.nanoTime()).as("hints arrive").isLessThan(end);
            TimeUnit.SECONDS.sleep(1);
        }
        assertThat(alone(here, table)).hasSize(SMALL_LEFT);
        for (Alone node : List.of(here, there)) {
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
            write(session, "ks", ROWS + 400, ROWS + 600);
            for (int p = 0; p < 40; p++)
                session.execute("INSERT INTO ks.stock (p, v) VALUES (?, 'newer')", p);
        }
        other.restart();
        for (TestNode node : List.of(seed, other)) {
            node.awaitRing(2);
            node.nodetool("setautorepairconfig", "start_scheduler", "true");
        }
        long end = System.nanoTime() + AUTOMATIC.toNanos();
        try (Alone here = Alone.at(seed);
                Alone there = Alone.at(other)) {
            Set<String> expected = here.read(CONTENT);
            while (!there.read(CONTENT).equals(expected)
                    || !there.read(STOCK).equals(here.read(STOCK))) {
                assertThat(System.nanoTime()).as("auto-repair").isLessThan(end);
                TimeUnit.SECONDS.sleep(1);
            }
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
            write(session, "ks", ROWS + 200, ROWS + 400);
            for (int p = 0; p < 40; p++)
                session.execute("INSERT INTO ks.stock (p, v) VALUES (?, 'new')", p);
        }
        other.restart();
        for (TestNode node : List.of(seed, other)) node.awaitRing(2);
        try (Alone here = Alone.at(seed);
                Alone there = Alone.at(other)) {
            assertThat(there.read(STOCK)).isNotEqualTo(here.read(STOCK));
            Set<String> expected = here.read(CONTENT);
            assertThat(there.read(CONTENT)).isNotEqualTo(expected);
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
                assertThat(there.read(CONTENT)).isEqualTo(expected);
                assertThat(here.read(CONTENT)).isEqualTo(expected);
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
            assertThat(there.read(STOCK)).isEqualTo(here.read(STOCK));
        }
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
    private static void peersHearOfTablesThatChangedWhileGossipWasDisabled(
            TestNode seed, TestNode other) throws Exception {
        try (CqlSession session = other.session()) {
            on(
                    other,
                    session,
                    "CREATE TABLE ks.told (p int PRIMARY KEY, v text) WITH memtable = 'mixed'");
            String table = hash(session, "told");
            TestNode.await("both", MOVES, () -> telling(seed, table) == 2);
            other.nodetool("disablegossip");
            on(other, session, "DROP TABLE ks.told");
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
    private static void aTableFailsWhileItHasAnIndexOrAViewOfAnotherNodes(
            TestNode seed, TestNode other) throws Exception {
        try (CqlSession session = seed.session(ConsistencyLevel.ALL);
                CqlSession there = other.session(ConsistencyLevel.ALL);
                Alone here = Alone.at(seed);
                Alone alsoThere = Alone.at(other)) {
            String content = content("doors");
            createKeyspace(session, "doors", 2);
            session.execute("CREATE TABLE doors.u (p int PRIMARY KEY) WITH memtable = 'mixed'");
            write(there, "doors", 0, 20);
            Set<String> expected = here.read(content);
            assertThat(expected).hasSize(20);
            String[][] kept = {
                {
                    "CREATE INDEX by_v ON doors.t (v) USING 'sai'",
                    "SELECT * FROM doors.t WHERE v = 'v1'",
                    "DROP INDEX doors.by_v"
                },
                {
                    "CREATE INDEX by_v ON doors.t (v)",
                    "SELECT * FROM doors.t WHERE v = 'v1'",
                    "DROP INDEX doors.by_v"
                }
            };
            String[][] doors = {
                {
                    "CREATE CUSTOM INDEX by_v ON doors.t (v) USING"
                            + " 'org.apache.cassandra.index.sasi.SASIIndex'",
                    "SELECT * FROM doors.t WHERE v = 'v1'",
                    "DROP INDEX doors.by_v"
                },
                {
                    "CREATE MATERIALIZED VIEW doors.by_v AS SELECT p, c, v FROM doors.t WHERE p IS"
                            + " NOT NULL AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, p, c)",
                    "SELECT * FROM doors.by_v WHERE v = 'v1'",
                    "DROP MATERIALIZED VIEW doors.by_v"
                }
            };
            for (String[] door : doors) {
                on(other, there, door[0]);
                assertThatThrownBy(() -> here.read(door[1])).as(door[0]).isNotNull();
                assertThatThrownBy(() -> here.read(content)).as(door[0]).isNotNull();
                assertThatThrownBy(() -> write(there, "doors", 0, 1)).as(door[0]).isNotNull();
                there.execute("INSERT INTO doors.u (p) VALUES (1)");
                assertThat(here.read("SELECT * FROM doors.u")).hasSize(1);
                assertThat(
                                here.read(
                                        "SELECT failure FROM petra.tables WHERE keyspace_name ="
                                                + " 'doors' AND table_name = 't'"))
                        .asString()
                        .contains("by_v");
                on(other, there, door[2]);
                assertThat(here.read(content)).as(door[0]).isEqualTo(expected);
                write(there, "doors", 0, 1);
                expected = here.read(content);
                assertThat(expected).hasSize(20);
            }
            assertThat(seed.process().log())
                    .contains("is in a storage engine and has the index 'by_v'")
                    .contains("is in a storage engine and has the materialized view 'by_v'");
            // These are kept, by either node.
            for (String[] index : kept) {
                on(other, there, index[0]);
                assertThat(firstAnswer(here, index[1]))
                        .as(index[0])
                        .hasSize(1)
                        .isEqualTo(firstAnswer(alsoThere, index[1]));
                there.execute("INSERT INTO doors.t (p, c, v) VALUES (0, 1, 'other')");
                there.execute("INSERT INTO doors.t (p, c, v) VALUES (0, 2, 'v1')");
                for (Alone each : List.of(here, alsoThere))
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
                write(there, "doors", 0, 4);
            }
            expected = here.read(content);
            // The other mend: the index or view has the data when all of it has left.
            for (String[] door : new String[][] {kept[0], kept[1], doors[0], doors[1]}) {
                on(other, there, "ALTER TABLE doors.t WITH memtable = 'mixed'");
                awaitNoMigrations(here);
                on(other, there, door[0]);
                // Cassandra's own view is empty there until it is built.
                TestNode.await(door[0], MOVES, () -> !firstAnswer(alsoThere, door[1]).isEmpty());
                Set<String> found = firstAnswer(alsoThere, door[1]);
                assertThat(found).as(door[0]).hasSize(1);
                on(other, there, "ALTER TABLE doors.t WITH memtable = 'default'");
                assertThat(firstAnswer(here, door[1])).as(door[0]).isEqualTo(found);
                awaitNoMigrations(here);
                assertThat(here.read(content)).as(door[0]).isEqualTo(expected);
                on(other, there, door[2]);
            }
        }
    }

    private static Set<String> firstAnswer(Alone node, String select) throws Exception {
        long end = System.nanoTime() + MOVES.toNanos();
        while (true)
            try {
                return node.read(select);
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

    private static void awaitNoMigrations(Alone node) throws Exception {
        long end = System.nanoTime() + MOVES.toNanos();
        for (int none = 0; none < 5; none++) {
            if (!node.read("SELECT * FROM petra.migrations").isEmpty()) none = 0;
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
