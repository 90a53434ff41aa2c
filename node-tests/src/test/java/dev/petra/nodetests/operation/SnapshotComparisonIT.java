// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.AgentJar;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.ShadowTable;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/** {@code petra compare --snapshot}, on a node that a damaged file would end. */
@OneOf(variants = "shadows that are not whole, and snapshots", of = 3, number = 3)
class SnapshotComparisonIT {
    private static final Duration PATIENCE = Duration.ofMinutes(2);
    private static final int KEYS = 200;

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
                                                        "disk_failure_policy",
                                                        "die",
                                                        "memtable",
                                                        Map.of(
                                                                "configurations",
                                                                Map.of(
                                                                        "faulty",
                                                                        faulty(Map.of()),
                                                                        "faulty_shadow",
                                                                        faulty(
                                                                                Map.of(
                                                                                        "mode",
                                                                                        "shadow"))))))
                                        .jvmOptions(
                                                "-javaagent:" + jar,
                                                "-Dfuzz.go=" + directory.resolve("never"),
                                                "-Dfuzz.fault=loses-row-deletions"));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    private static Map<String, Object> faulty(Map<String, String> more) {
        Map<String, String> parameters = new HashMap<>(more);
        parameters.put("engine", "faulty");
        parameters.put("memory", "128MiB");
        return ShadowTable.configuration(parameters);
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (node != null) node.close();
    }

    private static NodeTool.Result compare(String table, String... options) {
        List<String> command = new ArrayList<>(List.of("compare", "ks." + table));
        command.addAll(List.of(options));
        return Commands.petra(node, command.toArray(String[]::new));
    }

    private static void isWhole(String table, String tag, long partitions) throws Exception {
        NodeTool.Result result = compare(table, "--snapshot", tag);
        assertThat(result.exitCode()).as(result.output()).isZero();
        assertThat(result.output())
                .contains(
                        "ks." + table + ": complete",
                        "compared: %1$,d, equal: %1$,d, different: 0, not comparable: 0"
                                .formatted(partitions));
    }

    private static void refuses(String reason, String table, String... options) throws Exception {
        NodeTool.Result result = compare(table, options);
        assertThat(result.output()).contains("Nothing is compared: ", reason);
        assertThat(result.exitCode()).as(result.output()).isEqualTo(1);
    }

    private static Row comparison(String table) {
        return session.execute(
                        "SELECT * FROM petra.comparisons WHERE keyspace_name = 'ks' AND table_name"
                                + " = '"
                                + table
                                + "'")
                .one();
    }

    private static void create(String table) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (k int, c int, s text STATIC, v text, m map<int, text>, l list<text>,"
                        + " PRIMARY KEY (k, c))");
    }

    private static void snapshot(String table, String tag) {
        node.nodetool("snapshot", "-t", tag, "-cf", table, "ks");
    }

    private static void move(String table, String configuration) throws Exception {
        session.execute("ALTER TABLE ks." + table + " WITH memtable = '" + configuration + "'");
        TestNode.awaitMigrations(session, PATIENCE);
    }

    /** All kinds of writes; with pauses, if they go on until something else is done. */
    private static void write(String table, Random random, int writes, AtomicBoolean over) {
        PreparedStatement insert =
                session.prepare(
                        "INSERT INTO ks."
                                + table
                                + " (k, c, s, v, m, l) VALUES (?, ?, ?, ?, {1: 'a', 2: 'b'}, ['x',"
                                + " 'y']) USING TTL ?");
        PreparedStatement cell =
                session.prepare("UPDATE ks." + table + " SET v = ? WHERE k = ? AND c = ?");
        for (int i = 0; i < writes && !over.get(); i++) {
            if (writes == Integer.MAX_VALUE)
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
            int k = random.nextInt(KEYS);
            int c = random.nextInt(20);
            String row = " FROM ks.%s WHERE k = %d AND c = %d".formatted(table, k, c);
            switch (random.nextInt(14)) {
                case 0 ->
                        session.execute(
                                "DELETE FROM ks.%s WHERE k = %d AND c > %d AND c < %d"
                                        .formatted(table, k, c, c + 4));
                case 1 -> session.execute("DELETE" + row);
                case 2 -> session.execute("DELETE v" + row);
                case 3 -> session.execute("DELETE m[1]" + row);
                case 4 -> session.execute("DELETE l" + row);
                case 5 -> session.execute("DELETE FROM ks." + table + " WHERE k = " + k);
                case 6 -> session.execute("DELETE s FROM ks." + table + " WHERE k = " + k);
                case 7, 8 -> session.execute(cell.bind("u" + random.nextInt(9), k, c));
                default -> {
                    int ttl = random.nextInt(3) == 0 ? 1 + random.nextInt(5) : 0;
                    session.execute(insert.bind(k, c, "s" + c, "v" + random.nextInt(5), ttl));
                }
            }
        }
    }

    @Test
    void whatWasInTheSnapshotIsInTheEngineWhateverIsWrittenSince() throws Exception {
        create("t");
        session.execute("CREATE TABLE ks.n (k int, c int, n counter, PRIMARY KEY (k, c))");
        long seed = System.nanoTime();
        Random random = new Random(seed);
        AtomicBoolean over = new AtomicBoolean();
        for (int i = 0; i < 4; i++) {
            write("t", random, 1_000, over);
            for (int k = 0; k < 50; k++)
                session.execute("UPDATE ks.n SET n = n + 3 WHERE k = " + k + " AND c = " + i);
            node.nodetool("flush", "ks");
        }
        session.execute("DELETE n FROM ks.n WHERE k = 7 AND c = 1");
        for (int k = 0; k < KEYS; k++)
            session.execute("INSERT INTO ks.t (k, c, v) VALUES (" + k + ", 99, 'v')");
        // One of several pieces.
        for (int c = 0; c < 400; c++)
            session.execute(
                    "INSERT INTO ks.t (k, c, v) VALUES (-1, ?, ?)", c, (c + " ").repeat(2_000));
        snapshot("t", "before");
        snapshot("n", "before");
        refuses("table ks.t is not in an engine", "t", "--snapshot", "before");
        List<CompletableFuture<Void>> writers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Random another = new Random(seed + 1 + i);
            writers.add(
                    CompletableFuture.runAsync(() -> write("t", another, Integer.MAX_VALUE, over)));
        }
        try {
            move("t", "rocks");
            move("n", "rocks");
            isWhole("t", "before", KEYS + 1);
            for (int k = 0; k < 50; k++)
                session.execute("UPDATE ks.n SET n = n - 5 WHERE k = " + k + " AND c = 2");
            isWhole("n", "before", 50);
            node.nodetool("compact", "ks", "t");
            isWhole("t", "before", KEYS + 1);
        } finally {
            over.set(true);
        }
        for (CompletableFuture<Void> writer : writers) writer.get(60, TimeUnit.SECONDS);
        isWhole("t", "before", KEYS + 1);
        Row row = comparison("t");
        assertThat(row.getString("snapshot")).isEqualTo("before");
        assertThat(row.getString("differences")).isEmpty();
        assertThat(row.getDouble("tokens_done")).isEqualTo(1);
        NodeTool.Result half =
                compare("t", "--snapshot", "before", "--token-range", "-9223372036854775808:0");
        assertThat(half.exitCode()).as(half.output()).isZero();
        assertThat(comparison("t").getLong("compared")).isBetween(KEYS / 4L, 3L * KEYS / 4);

        refuses("table ks.t has no shadow", "t");
        refuses("there is no snapshot 'after' of table ks.t", "t", "--snapshot", "after");
        snapshot("t", "after");
        refuses("is a store", "t", "--snapshot", "after");

        // No part of the table: what is done with that leaves the snapshot alone.
        node.nodetool("clearsnapshot", "-t", "before", "--", "ks");
        refuses("there is no snapshot 'before' of table ks.n", "n", "--snapshot", "before");
        session.execute("DROP TABLE ks.n");
        assertThat(comparison("n")).isNull();
    }

    /** What an engine has lost on the way. */
    @Test
    void whatAFaultyEngineHasLostIsReported() throws Exception {
        create("lost");
        for (int k = 0; k < 100; k++)
            session.execute("INSERT INTO ks.lost (k, c, s, v) VALUES (" + k + ", 1, 's', 'v')");
        node.nodetool("flush", "ks", "lost");
        session.execute("DELETE FROM ks.lost WHERE k = 5 AND c = 1");
        snapshot("lost", "before");
        session.execute("DELETE FROM ks.lost WHERE k = 6");
        move("lost", "faulty");
        NodeTool.Result result = compare("lost", "--snapshot", "before");
        assertThat(result.exitCode()).as(result.output()).isEqualTo(1);
        assertThat(result.output())
                .contains(
                        "ks.lost: complete",
                        "compared: 100, equal: 99, different: 1, not comparable: 0",
                        "partition 5, row c=1: the snapshot has, and the store lacks: row deletion"
                                + " @")
                .doesNotContain("shadow_differences");
        node.awaitLog("In snapshot 'before' of ks.lost, partition 5, row c=1", PATIENCE);
    }

    /** Nothing but the snapshot says that it was there. */
    @Test
    void whatWasPurgedSinceIsNotToldFromALoss() throws Exception {
        create("old");
        for (int k = 0; k < 20; k++)
            session.execute("INSERT INTO ks.old (k, c, v) VALUES (" + k + ", 1, 'v')");
        snapshot("old", "before");
        move("old", "rocks");
        session.execute("ALTER TABLE ks.old WITH gc_grace_seconds = 1");
        session.execute("DELETE FROM ks.old WHERE k = 3");
        isWhole("old", "before", 20);
        TimeUnit.SECONDS.sleep(3);
        // As long as it is there.
        isWhole("old", "before", 20);
        node.nodetool("compact", "ks", "old");
        NodeTool.Result result = compare("old", "--snapshot", "before");
        assertThat(result.exitCode()).as(result.output()).isEqualTo(1);
        assertThat(result.output())
                .contains(
                        "compared: 20, equal: 19, different: 0, not comparable: 1",
                        "not comparable: 1 lack something that is missing or was purged since",
                        "partition keys: 3",
                        "partition 3, row c=1: the snapshot has, and the store lacks: row @");
        session.execute("TRUNCATE ks.old");
        refuses("table ks.old was truncated at ", "old", "--snapshot", "before");
    }

    @Test
    void aDamagedSnapshotEndsItAndNotTheNode() throws Exception {
        create("damaged");
        for (int k = 0; k < 20; k++)
            session.execute("INSERT INTO ks.damaged (k, c, v) VALUES (" + k + ", 1, 'v')");
        snapshot("damaged", "before");
        move("damaged", "rocks");
        isWhole("damaged", "before", 20);
        Path folder = TableFiles.of(node, "ks", "damaged").directory().resolve("snapshots/before");
        for (String component : List.of("Data.db", "Statistics.db")) {
            Path file =
                    TableFiles.children(folder).stream()
                            .filter(each -> each.toString().endsWith("-" + component))
                            .findAny()
                            .orElseThrow();
            byte[] content = Files.readAllBytes(file);
            byte[] damaged = content.clone();
            damaged[damaged.length / 2] ^= 1;
            Files.write(file, damaged);
            NodeTool.Result result = compare("damaged", "--snapshot", "before");
            assertThat(result.output())
                    .contains("ks.damaged: ended: the snapshot cannot be read: ");
            assertThat(result.exitCode()).isEqualTo(1);
            Files.write(file, content);
        }
        isWhole("damaged", "before", 20);
        assertThat(session.execute("SELECT * FROM ks.damaged").all()).hasSize(20);
    }

    @Test
    void itEndsWhenTheTableLeavesTheEngineOrTheOperatorSaysSo() throws Exception {
        create("slow");
        for (int k = 0; k < 5_000; k++)
            session.execute("INSERT INTO ks.slow (k, c, v) VALUES (" + k + ", 1, 'v')");
        snapshot("slow", "before");
        move("slow", "rocks");
        node.nodetool("setcompactionthroughput", "1");
        try {
            begin("slow");
            TestNode.await(
                    "it among the compactions",
                    PATIENCE,
                    () -> {
                        String shown = node.tryNodetool("compactionstats").output();
                        return shown.contains("Unknown compaction type") && shown.contains("slow");
                    });
            refuses("table ks.slow is being compared already", "slow", "--snapshot", "before");
            node.nodetool("stop", "UNKNOWN");
            assertThat(awaitEnd("slow")).isEqualTo("ended by nodetool stop");
            begin("slow");
            session.execute("ALTER TABLE ks.slow WITH memtable = 'default'");
            assertThat(awaitEnd("slow"))
                    .matches("ended: table ks.slow (is being migrated, .*|was truncated, .*)");
            assertThat(comparison("slow").getBoolean("complete")).isFalse();
            assertThat(comparison("slow").getLong("compared")).isLessThan(5_000);
        } finally {
            node.nodetool("setcompactionthroughput", "64");
        }
        TestNode.awaitMigrations(session, PATIENCE);
        session.execute("ALTER TABLE ks.slow WITH memtable = 'faulty_shadow'");
        refuses(
                "table ks.slow is not in an engine; without a snapshot it is compared with its"
                        + " shadow",
                "slow",
                "--snapshot",
                "before");
    }

    private static void begin(String table) {
        session.execute(
                "INSERT INTO petra.comparisons (keyspace_name, table_name, snapshot) VALUES ('ks',"
                        + " '"
                        + table
                        + "', 'before')");
    }

    private static String awaitEnd(String table) throws Exception {
        TestNode.await("its end", PATIENCE, () -> !comparison(table).isNull("ended_at"));
        return String.valueOf(comparison(table).getString("state"));
    }
}
