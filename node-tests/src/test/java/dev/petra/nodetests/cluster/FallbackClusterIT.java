// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.AgentJar;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.ShadowTable;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * Two nodes, of which one has a shadow that answers, and the other, by the same name of a
 * configuration, one that does not.
 */
@OneOf(variants = "shadows that answer: on two nodes, and kills", of = 2, number = 1)
class FallbackClusterIT {
    private static final Duration PATIENCE = Duration.ofMinutes(2);
    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());
    private static final int KEYS = 40;
    private static final int WRITES = 1_500;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    static Path directory;

    private static TestNode answering;
    private static TestNode other;
    private static CqlSession session;

    /** Of each node, for what it has by itself; none of them is started again. */
    private static CqlSession atAnswering;

    private static CqlSession atOther;

    @BeforeAll
    static void start() throws Exception {
        System.out.println("Fallback: -Dpetra.seed=" + SEED);
        int seedPort = FreePorts.next();
        Path jar = AgentJar.packFaultyEngine(directory);
        answering =
                TestNode.start(
                        directory.resolve("answering"),
                        options -> in(options, "fallback", "rocks").storagePort(seedPort));
        other =
                TestNode.start(
                        directory.resolve("other"),
                        options ->
                                in(options, "shadow", "faulty")
                                        .seeds(List.of("127.0.0.1:" + seedPort))
                                        .jvmOptions(
                                                "-javaagent:" + jar,
                                                "-Dfuzz.go=" + directory.resolve("never"),
                                                "-Dfuzz.fault=loses-row-deletions"));
        for (TestNode node : List.of(answering, other)) node.awaitRing(2);
        session = answering.session();
        atAnswering = answering.plainSession();
        atOther = other.plainSession();
    }

    /**
     * @param peerEngine of the configuration {@code peer_shadow}; {@code on_peer} is an engine's if
     *     that is not the true one
     */
    private static NodeConfig.Builder in(
            NodeConfig.Builder options, String mode, String peerEngine) {
        return options.numTokens(4)
                .yaml(
                        Map.of(
                                "memtable",
                                Map.of(
                                        "configurations",
                                        Map.of(
                                                "rocks_fallback",
                                                configuration("rocks", mode),
                                                "peer_shadow",
                                                configuration(peerEngine, "shadow"),
                                                "on_peer",
                                                peerEngine.equals("rocks")
                                                        ? configuration("rocks", "shadow")
                                                        : Map.of("inherits", "rocks"),
                                                "only_" + peerEngine,
                                                configuration("rocks", mode)))));
    }

    private static Map<String, Object> configuration(String engine, String mode) {
        return ShadowTable.configuration(engine, mode, "1");
    }

    @AfterAll
    static void stop() {
        for (CqlSession each : new CqlSession[] {session, atAnswering, atOther})
            if (each != null) each.close();
        if (other != null) other.close();
        if (answering != null) answering.close();
    }

    private static Set<String> alone(TestNode node, String... selects) {
        return Contents.alone(node.equals(answering) ? atAnswering : atOther, node, selects);
    }

    /** A column of a node's own row of a shadow, as text; empty without one. */
    private static String shadow(TestNode of, String keyspace, String column) {
        return String.join(
                "",
                alone(
                        of,
                        "SELECT "
                                + column
                                + " FROM petra.shadow WHERE keyspace_name = '"
                                + keyspace
                                + "'"));
    }

    private static long count(TestNode of, String keyspace, String column) {
        String text = shadow(of, keyspace, column);
        return Long.parseLong(text.replaceAll("\\D", ""));
    }

    /** Of a hundred reads at least: they are compared a moment later. */
    private static void awaitEqualAnswers(String keyspace) throws Exception {
        for (TestNode node : List.of(answering, other)) {
            TestNode.await("comparisons", PATIENCE, () -> count(node, keyspace, "compared") >= 100);
            assertThat(count(node, keyspace, "equal")).isPositive();
            assertThat(count(node, keyspace, "different")).isZero();
        }
    }

    private static void awaitShadows(String keyspace) throws Exception {
        TestNode.await(
                "a shadow that answers",
                PATIENCE,
                () ->
                        shadow(answering, keyspace, "answers").contains("'yes'")
                                && count(answering, keyspace, "queued_writes") == 0);
        TestNode.await(
                "a shadow", PATIENCE, () -> shadow(other, keyspace, "caught_up").contains("true"));
    }

    private static void all(String statement) {
        session.execute(
                SimpleStatement.newInstance(statement).setConsistencyLevel(ConsistencyLevel.ALL));
    }

    private static void write(SplittableRandom random) {
        int k = random.nextInt(KEYS);
        int c = random.nextInt(20);
        String row = " WHERE k = " + k + " AND c = " + c;
        switch (random.nextInt(12)) {
            case 0 -> all("DELETE FROM ks.t" + row);
            case 1 -> all("DELETE FROM ks.t WHERE k = " + k + " AND c > " + c);
            case 2 ->
                    all(
                            "DELETE FROM ks.t WHERE k = "
                                    + k
                                    + " AND c >= "
                                    + c
                                    + " AND c < "
                                    + (c + 4));
            case 3 -> {
                if (random.nextInt(10) == 0) all("DELETE FROM ks.t WHERE k = " + k);
            }
            case 4 -> all("DELETE v FROM ks.t" + row);
            case 5 -> all("UPDATE ks.t SET m[" + c + "] = 'e'" + row);
            case 6 -> all("UPDATE ks.t SET m = {1: 'a', 2: 'b'}" + row);
            case 7 -> all("UPDATE ks.t SET l = l + ['x']" + row);
            case 8 -> all("UPDATE ks.t USING TTL 100000 SET v = 'ttl'" + row);
            case 9 -> all("UPDATE ks.t SET s = 's" + c + "' WHERE k = " + k);
            // Of one timestamp, so that the values decide.
            case 10 ->
                    all(
                            "INSERT INTO ks.t (k, c, v) VALUES ("
                                    + k
                                    + ", "
                                    + c
                                    + ", 'tie"
                                    + random.nextInt(5)
                                    + "') USING TIMESTAMP 1000");
            default ->
                    all(
                            "INSERT INTO ks.t (k, c, v) VALUES ("
                                    + k
                                    + ", "
                                    + c
                                    + ", 'v"
                                    + random.nextInt(100)
                                    + "')");
        }
    }

    private static List<String> reads() {
        List<String> reads = new ArrayList<>();
        for (int k = 0; k < KEYS; k++) {
            String partition = " FROM ks.t WHERE k = " + k;
            reads.add("SELECT *" + partition);
            reads.add("SELECT c, v" + partition + " ORDER BY c DESC");
            reads.add("SELECT v, m, l" + partition + " AND c > 3 AND c <= 12");
            reads.add("SELECT *" + partition + " AND c IN (2, 5, 7, 19)");
            reads.add("SELECT v" + partition + " LIMIT 3");
            reads.add("SELECT DISTINCT k, s" + partition);
        }
        return reads;
    }

    /** Each read is of the data of one of them, and of the digest of the other. */
    @Test
    void readsOfBothFindWhatWasWritten() throws Exception {
        TestNode.createKeyspace(session, "ks", 2);
        session.execute(
                "CREATE TABLE ks.t (k int, c int, s text STATIC, v text, m map<int, text>, l"
                        + " list<text>, PRIMARY KEY (k, c)) WITH memtable = 'rocks_fallback'");
        other.awaitLog("The shadow of ks.t has caught up", PATIENCE);
        SplittableRandom random = new SplittableRandom(SEED);
        for (int i = 0; i < WRITES; i++) {
            write(random);
            // So that the two have it in different files.
            if (i % 400 == 399) other.nodetool("flush", "ks", "t");
        }
        other.nodetool("compact", "ks", "t");
        awaitShadows("ks");
        List<String> reads = reads();
        String[] selects = reads.toArray(String[]::new);
        Set<String> rows = alone(other, selects);
        assertThat(alone(answering, selects)).as("seed %s", SEED).isEqualTo(rows);
        reads.forEach(FallbackClusterIT::all);
        // Nothing that a read found has changed either.
        awaitShadows("ks");
        for (TestNode node : List.of(answering, other))
            assertThat(alone(node, selects)).as("seed %s", SEED).isEqualTo(rows);
        assertThat(count(answering, "ks", "answered")).isGreaterThanOrEqualTo(2L * reads.size());
        assertThat(shadow(other, "ks", "answers")).contains("no: mode is shadow");
        assertThat(count(other, "ks", "answered")).isZero();
        assertThat(count(other, "ks", "different")).isZero();
        assertThat(count(answering, "ks", "different")).isZero();
    }

    /** What a repair brings is in the table before it is in the shadow. */
    @Test
    void whatARepairBringsIsReadAtOnce() throws Exception {
        TestNode.createKeyspace(session, "repaired", 1);
        session.execute("CREATE TABLE repaired.t (k int PRIMARY KEY, v text)");
        for (int k = 0; k < 1_000; k++)
            session.execute("INSERT INTO repaired.t (k, v) VALUES (?, ?)", k, "v" + k);
        for (TestNode node : List.of(answering, other)) node.nodetool("flush", "repaired");
        session.execute("ALTER TABLE repaired.t WITH memtable = 'rocks_fallback'");
        awaitShadows("repaired");
        session.execute(
                "ALTER KEYSPACE repaired WITH replication = {'class': 'SimpleStrategy',"
                        + " 'replication_factor': 2}");
        other.nodetool("repair", "--full", "repaired");
        String[] reads =
                IntStream.range(0, 1_000)
                        .mapToObj(k -> "SELECT k, v FROM repaired.t WHERE k = " + k)
                        .toArray(String[]::new);
        Set<String> rows = alone(answering, reads);
        assertThat(rows).hasSize(1_000);
        awaitShadows("repaired");
        long before = count(answering, "repaired", "answered");
        assertThat(alone(answering, reads)).isEqualTo(rows);
        assertThat(count(answering, "repaired", "answered")).isGreaterThanOrEqualTo(before + 1_000);
        assertThat(count(answering, "repaired", "copies")).isEqualTo(1);
        assertThat(alone(other, reads)).isEqualTo(rows);
        awaitEqualAnswers("repaired");
    }

    private static long partitions(TestNode node) {
        String output = node.tryNodetool("tablestats", "unrepaired.t").output();
        Matcher matcher =
                Pattern.compile("Number of partitions \\(estimate\\): (\\d+)").matcher(output);
        assertThat(matcher.find()).as(output).isTrue();
        return Long.parseLong(matcher.group(1));
    }

    /** What both nodes must give, by each shadow too. */
    private static void checkUnrepaired(String[] reads, int rows) throws Exception {
        for (TestNode node : List.of(answering, other)) {
            assertThat(alone(node, reads)).hasSize(rows);
            NodeTool.Result result = Commands.petra(node, "compare", "unrepaired.t");
            assertThat(result.exitCode()).as(result.output()).isZero();
            assertThat(count(node, "unrepaired", "different")).isZero();
            assertThat(count(node, "unrepaired", "copies")).isEqualTo(1);
        }
        assertThat(alone(answering, reads)).isEqualTo(alone(other, reads));
    }

    private static void compactUnrepaired() {
        for (TestNode node : List.of(answering, other)) {
            node.nodetool("flush", "unrepaired");
            node.nodetool("compact", "unrepaired");
        }
    }

    @Test
    void aNodeWithoutTheConfigurationKeepsItsMemtable() throws Exception {
        TestNode.createKeyspace(session, "partly", 2);
        session.execute("CREATE TABLE partly.t (k int PRIMARY KEY, v text)");
        all("INSERT INTO partly.t (k, v) VALUES (1, 'before')");
        alterAt(answering, "ALTER TABLE partly.t WITH memtable = 'only_rocks'");
        other.awaitLog("Invalid memtable configuration \"only_rocks\" in schema", PATIENCE);
        TestNode.await(
                "a shadow that answers",
                PATIENCE,
                () -> shadow(answering, "partly", "answers").contains("'yes'"));
        all("INSERT INTO partly.t (k, v) VALUES (2, 'after')");
        String[] reads = {
            "SELECT v FROM partly.t WHERE k = 1", "SELECT v FROM partly.t WHERE k = 2"
        };
        for (TestNode node : List.of(answering, other)) assertThat(alone(node, reads)).hasSize(2);
        assertThat(shadow(other, "partly", "state")).isEmpty();
        NodeTool.Result report = Commands.petra(answering, "shadow", "report");
        assertThat(report.exitCode()).describedAs(report.output()).isEqualTo(1);
        assertThat(report.output())
                .contains("partly.t: 1 of 2 nodes have caught up")
                .contains(
                        "%s:%d: has no shadow of this table"
                                .formatted(
                                        other.process().address(), other.process().nativePort()));
    }

    /** Nothing can be compared there, and that is no reason to wait for it. */
    @Test
    void aNodeThatIsNoReplicaHoldsNothing() throws Exception {
        TestNode.createKeyspace(session, "single", 1);
        session.execute("CREATE TABLE single.t (k int PRIMARY KEY) WITH memtable = 'peer_shadow'");
        for (TestNode node : List.of(answering, other))
            node.awaitLog("The shadow of single.t has caught up", PATIENCE);
        all("INSERT INTO single.t (k) VALUES (1)");
        assertThat(linesOfReport("single.t"))
                .filteredOn(line -> line.endsWith("nothing was compared"))
                .hasSize(2);
        TestNode empty = null;
        for (TestNode node : List.of(answering, other)) {
            NodeTool.Result result = Commands.petra(node, "compare", "single.t");
            assertThat(result.exitCode()).as(result.output()).isIn(0, 3);
            if (result.exitCode() == 3) empty = node;
        }
        assertThat(empty).isNotNull();
        String address = empty.process().address() + ":" + empty.process().nativePort();
        assertThat(linesOfReport("single.t"))
                .contains("  " + address + ": holds nothing of the table")
                .noneMatch(line -> line.endsWith("nothing was compared"));
        session.execute("DROP KEYSPACE single");
    }

    private static List<String> linesOfReport(String table) throws Exception {
        List<String> lines = new ArrayList<>();
        boolean isOfTable = false;
        String report = Commands.petra(answering, "shadow", "report").output();
        for (String line : report.lines().toList()) {
            if (!line.startsWith(" ")) isOfTable = line.startsWith(table + ":");
            if (isOfTable) lines.add(line);
        }
        return lines;
    }

    /** A deletion that may be purged by its age stays in the table until it is repaired. */
    @Test
    void aTableThatKeepsItsDeletionsUntilTheyAreRepaired() throws Exception {
        TestNode.createKeyspace(session, "unrepaired", 2);
        session.execute(
                "CREATE TABLE unrepaired.t (k int, c int, v text, PRIMARY KEY (k, c)) WITH memtable"
                        + " = 'rocks_fallback' AND gc_grace_seconds = 0 AND compaction = {'class':"
                        + " 'SizeTieredCompactionStrategy', 'only_purge_repaired_tombstones':"
                        + " 'true'}");
        other.awaitLog("The shadow of unrepaired.t has caught up", PATIENCE);
        answering.awaitLog("The shadow of unrepaired.t has caught up", PATIENCE);
        assertThat(shadow(answering, "unrepaired", "answers"))
                .contains("no: the table has only_purge_repaired_tombstones");
        for (int k = 0; k < KEYS; k++)
            for (int c = 0; c < 4; c++)
                all("INSERT INTO unrepaired.t (k, c, v) VALUES (" + k + ", " + c + ", 'v')");
        for (TestNode node : List.of(answering, other)) node.nodetool("flush", "unrepaired");
        // Of each four partitions one is deleted, one loses a row, and one a range.
        for (int k = 0; k < KEYS; k++)
            if (k % 4 < 3)
                all(
                        "DELETE FROM unrepaired.t WHERE k = "
                                + k
                                + List.of("", " AND c = 1", " AND c > 1").get(k % 4));
        int rows = KEYS / 4 * (3 + 2 + 4);
        String[] reads =
                IntStream.range(0, KEYS)
                        .mapToObj(k -> "SELECT k, c, v FROM unrepaired.t WHERE k = " + k)
                        .toArray(String[]::new);
        // From the next second on the deletions may be purged by their age.
        TimeUnit.SECONDS.sleep(2);
        checkUnrepaired(reads, rows);
        compactUnrepaired();
        for (TestNode node : List.of(answering, other))
            assertThat(partitions(node)).isEqualTo(KEYS);
        checkUnrepaired(reads, rows);

        answering.nodetool("repair", "unrepaired");
        checkUnrepaired(reads, rows);
        // When Cassandra has noticed that the session is over they count as repaired.
        TestNode.await(
                "a purge",
                PATIENCE,
                () -> {
                    compactUnrepaired();
                    return partitions(answering) == KEYS - KEYS / 4
                            && partitions(other) == KEYS - KEYS / 4;
                });
        checkUnrepaired(reads, rows);
        // Beside what is repaired, deletions of it that are not.
        for (int k = 3; k < KEYS; k += 4) all("DELETE FROM unrepaired.t WHERE k = " + k);
        TimeUnit.SECONDS.sleep(2);
        checkUnrepaired(reads, rows - KEYS);
        compactUnrepaired();
        checkUnrepaired(reads, rows - KEYS);
    }

    private static void alterPeer(TestNode at, String memtable) {
        alterAt(at, "ALTER TABLE peer.t WITH memtable = '" + memtable + "'");
    }

    /** Whether {@code answering} has heard of a shadow of {@code peer.t} that differs. */
    private static boolean isToldOfDifference() {
        String table = TestNode.tableId(session, "peer", "t").toString();
        return answering
                .tryNodetool("gossipinfo")
                .output()
                .lines()
                .anyMatch(line -> line.contains("different:") && line.contains(table));
    }

    private static void awaitMigrations() throws Exception {
        for (TestNode node : List.of(answering, other))
            TestNode.await(
                    "the end of the migration",
                    PATIENCE,
                    () -> alone(node, "SELECT * FROM petra.migrations").isEmpty());
    }

    private static void alterAt(TestNode node, String statement) {
        session.execute(
                SimpleStatement.newInstance(statement)
                        .setNode(session.getMetadata().findNode(node.cqlAddress()).orElseThrow()));
    }

    /** Nor does it become the truth where the ALTER is not refused. */
    @Test
    void aPeersShadowThatDiffersKeepsTheTableFromItsEngine() throws Exception {
        TestNode.createKeyspace(session, "peer", 2);
        session.execute("CREATE TABLE peer.t (k int, c int, v text, PRIMARY KEY (k, c))");
        session.execute("ALTER TABLE peer.t WITH memtable = 'peer_shadow'");
        for (TestNode node : List.of(answering, other))
            TestNode.await(
                    "a shadow", PATIENCE, () -> shadow(node, "peer", "caught_up").contains("true"));
        for (int k = 0; k < KEYS; k++)
            for (int c = 0; c < 2; c++)
                all("INSERT INTO peer.t (k, c, v) VALUES (" + k + ", " + c + ", 'v')");
        for (int k = 0; k < KEYS; k++) all("DELETE FROM peer.t WHERE k = " + k + " AND c = 1");
        String[] reads =
                IntStream.range(0, KEYS)
                        .mapToObj(k -> "SELECT k, c, v FROM peer.t WHERE k = " + k)
                        .toArray(String[]::new);
        Set<String> rows = alone(answering, reads);
        assertThat(rows).hasSize(KEYS).allMatch(row -> row.contains("c:0"));
        TestNode.await(
                "a difference",
                PATIENCE,
                () -> {
                    assertThat(alone(other, reads)).isEqualTo(rows);
                    return count(other, "peer", "different") > 0;
                });
        TestNode.await(
                "equal answers",
                PATIENCE,
                () -> {
                    assertThat(alone(answering, reads)).isEqualTo(rows);
                    return count(answering, "peer", "equal") > 0;
                });
        assertThat(count(answering, "peer", "different")).isZero();
        NodeTool.Result report = Commands.petra(answering, "shadow", "report");
        assertThat(report.exitCode()).as(report.output()).isEqualTo(1);
        assertThat(report.output())
                .containsPattern(
                        "  " + other.cqlAddress().getHostString() + ":.* caught up, .* different");

        TestNode.await("gossip", PATIENCE, FallbackClusterIT::isToldOfDifference);
        assertThatThrownBy(() -> alterPeer(other, "rocks"))
                .isInstanceOf(InvalidQueryException.class)
                .hasMessageContaining("because it had another answer than the table");
        assertThatThrownBy(() -> alterPeer(answering, "rocks"))
                .isInstanceOf(InvalidQueryException.class)
                .hasMessageContaining("because on " + other.cqlAddress().getHostString() + ":")
                .hasMessageContaining("it had another answer than the table");
        for (TestNode node : List.of(answering, other))
            assertThat(shadow(node, "peer", "caught_up")).contains("true");

        // A name that means a shadow to the node which gets the ALTER.
        alterPeer(answering, "on_peer");
        other.awaitLog("petra.shadow_differences loses these rows: [Difference[", PATIENCE);
        other.awaitLog(
                "The shadow of peer.t does not become the table, whose SSTables are migrated: it"
                        + " had another answer than the table",
                PATIENCE);
        awaitMigrations();
        assertThat(shadow(other, "peer", "state")).isEmpty();
        assertThat(shadow(answering, "peer", "caught_up")).contains("true");
        for (TestNode node : List.of(answering, other))
            assertThat(alone(node, reads)).isEqualTo(rows);

        // It is in its engine there, and no shadow any more.
        TestNode.await("gossip", PATIENCE, () -> !isToldOfDifference());
        alterPeer(answering, "rocks");
        answering.awaitLog("The shadow of peer.t is its store", PATIENCE);
        awaitMigrations();
        for (TestNode node : List.of(answering, other)) {
            assertThat(alone(node, reads)).isEqualTo(rows);
            assertThat(alone(node, "SELECT * FROM peer.t")).isEqualTo(rows);
            assertThat(shadow(node, "peer", "state")).isEmpty();
        }
        assertThat(other.process().log()).doesNotContain("The shadow of peer.t is in the table's");
    }
}
