// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.performance;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Cells as large as a node takes, and rows of many cells, are written, read, flushed, compacted,
 * repaired, sent and deleted: the memory of both nodes stays within what they were given. {@code
 * -Dit.test=LargeRowsIT -Dpetra.large.mib=100}. Prints what each step took; {@code
 * docs/performance.md} has figures.
 */
@EnabledIfSystemProperty(named = "petra.large.mib", matches = "\\d+")
@Timeout(value = 1, unit = TimeUnit.HOURS)
class LargeRowsIT {
    /** Of a cell. */
    private static final int MIB = Integer.getInteger("petra.large.mib", 0);

    private static final int LARGE_CELLS = 5;
    private static final int ROWS = 100;
    private static final int CELLS = 10_000;
    private static final int VALUE = 500;
    private static final int AT_ONCE = 500;
    private static final int NATIVE_MIB = 128;

    /** In requests, responses, messages between nodes, and what repair compares. */
    private static final int HEAP_OF_A_CELL = 12;

    private static final Duration PATIENCE = Duration.ofMinutes(5);

    @TempDir Path first;
    @TempDir Path second;

    private final int seedPort = FreePorts.next();

    private static NodeConfig.Builder options(NodeConfig.Builder options, int heapMib, int mib) {
        return options.numTokens(1)
                .heap(heapMib + "MiB")
                .jvmOptions(TestNode.measured(heapMib))
                .engineParameters(Map.of("engine", "rocks", "memory", NATIVE_MIB + "MiB"))
                .yaml(
                        Map.of(
                                "commitlog_segment_size",
                                3 * mib + "MiB",
                                "native_transport_max_frame_size",
                                2 * mib + "MiB",
                                "native_transport_max_request_data_in_flight",
                                4 * mib + "MiB",
                                "native_transport_max_request_data_in_flight_per_ip",
                                4 * mib + "MiB",
                                "batch_size_fail_threshold",
                                "4MiB",
                                "write_request_timeout",
                                "60s",
                                "read_request_timeout",
                                "60s",
                                "range_request_timeout",
                                "60s"));
    }

    private interface Work {
        void run(CqlSession session) throws Exception;
    }

    /** On one node, then on a second one to which all is sent. */
    private void onTwoNodes(String name, int heapMib, int mib, Work write, Work check, Work delete)
            throws Exception {
        // Outside of heap and engine: the JVM, and a cell in requests, batches and responses.
        NodeSteps steps =
                new NodeSteps("LargeRowsIT, " + name, heapMib + NATIVE_MIB + 768 + 12 * mib);
        try (TestNode seed =
                TestNode.start(first, of -> options(of, heapMib, mib).storagePort(seedPort))) {
            steps.watch("first", seed);
            try (CqlSession session = seed.session()) {
                TestNode.createKeyspace(session, "ks", 1);
                steps.run("write", () -> write.run(session));
                steps.run("read from memory", () -> check.run(session));
                seed.nodetool("flush", "ks");
                steps.run("read", () -> check.run(session));
                steps.run("compact", () -> seed.nodetool("compact", "ks"));
            }
            try (TestNode other =
                    TestNode.start(
                            second,
                            of ->
                                    options(of, heapMib, mib)
                                            .seeds(List.of("127.0.0.1:" + seedPort)))) {
                steps.watch("second", other);
                TestNode.awaitSameRing(List.of(seed, other));
                try (CqlSession session = seed.session(ConsistencyLevel.ALL)) {
                    session.execute(
                            "ALTER KEYSPACE ks WITH replication = {'class': 'SimpleStrategy',"
                                    + " 'replication_factor': 2}");
                    steps.run(
                            "repair, which sends all",
                            () -> seed.nodetool("repair", "-full", "ks"));
                    steps.run("read from both", () -> check.run(session));
                    steps.run("write to both", () -> write.run(session));
                    if (name.startsWith("rocks")) {
                        steps.run("migration out", () -> alter(session, "skiplist", seed, other));
                        steps.run("read outside", () -> check.run(session));
                        steps.run("migration in", () -> alter(session, "rocks", seed, other));
                        steps.run("read inside", () -> check.run(session));
                    }
                    steps.run("delete", () -> delete.run(session));
                    for (TestNode node : List.of(seed, other)) {
                        node.nodetool("flush", "ks");
                        steps.run("purge", () -> node.nodetool("compact", "ks"));
                    }
                    assertThat(session.execute("SELECT * FROM ks.t").one()).isNull();
                }
            }
        }
    }

    private static void alter(CqlSession session, String memtable, TestNode... nodes)
            throws Exception {
        session.execute("ALTER TABLE ks.t WITH memtable = '" + memtable + "'");
        for (TestNode node : nodes)
            try (CqlSession own = node.session()) {
                TestNode.awaitMigrations(own, PATIENCE);
            }
    }

    private static ByteBuffer noise(int seed, int bytes) {
        byte[] noise = new byte[bytes];
        new SplittableRandom(seed).nextBytes(noise);
        return ByteBuffer.wrap(noise);
    }

    private static SimpleStatement statement(String query, Object... values) {
        return SimpleStatement.newInstance(query, values).setTimeout(PATIENCE);
    }

    @ParameterizedTest
    @ValueSource(strings = {"rocks", "trie"})
    void cellsAsLargeAsANodeTakes(String memtable) throws Exception {
        int bytes = MIB << 20;
        onTwoNodes(
                memtable + ", cells",
                HEAP_OF_A_CELL * MIB + 512,
                MIB,
                session -> {
                    session.execute(
                            "CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY, v blob) WITH"
                                    + (" memtable = '" + memtable + "' AND gc_grace_seconds = 0"));
                    for (int k = 0; k < LARGE_CELLS; k++)
                        session.execute(
                                statement(
                                        "INSERT INTO ks.t (k, v) VALUES (?, ?)",
                                        k,
                                        noise(k, bytes)));
                },
                session -> {
                    for (int k = 0; k < LARGE_CELLS; k++) {
                        Row row =
                                session.execute(statement("SELECT v FROM ks.t WHERE k = ?", k))
                                        .one();
                        assertThat(row).isNotNull();
                        assertThat(row.getByteBuffer(0)).isEqualTo(noise(k, bytes));
                    }
                },
                session -> {
                    for (int k = 0; k < LARGE_CELLS; k++)
                        session.execute(statement("DELETE FROM ks.t WHERE k = ?", k));
                });
    }

    @ParameterizedTest
    @ValueSource(strings = {"rocks", "trie"})
    void rowsOfManyCells(String memtable) throws Exception {
        onTwoNodes(
                memtable + ", rows",
                512,
                16,
                session -> {
                    session.execute(
                            "CREATE TABLE IF NOT EXISTS ks.t (k int, c int, m map<int, blob>,"
                                    + " PRIMARY KEY (k, c)) WITH memtable = '"
                                    + memtable
                                    + "' AND gc_grace_seconds = 0");
                    var update = session.prepare("UPDATE ks.t SET m = m + ? WHERE k = 1 AND c = ?");
                    for (int c = 0; c < ROWS; c++)
                        for (int from = 0; from < CELLS; from += AT_ONCE) {
                            Map<Integer, ByteBuffer> cells = new HashMap<>();
                            for (int i = from; i < from + AT_ONCE; i++)
                                cells.put(i, noise(c * CELLS + i, VALUE));
                            session.execute(update.bind(cells, c).setTimeout(PATIENCE));
                        }
                },
                session -> {
                    int rows = 0;
                    for (Row row :
                            session.execute(
                                    statement("SELECT c, m FROM ks.t WHERE k = 1")
                                            .setPageSize(1))) {
                        Map<Integer, ByteBuffer> cells =
                                row.getMap(1, Integer.class, ByteBuffer.class);
                        assertThat(cells).hasSize(CELLS);
                        assertThat(cells.get(7)).isEqualTo(noise(row.getInt(0) * CELLS + 7, VALUE));
                        rows++;
                    }
                    assertThat(rows).isEqualTo(ROWS);
                },
                session -> {
                    for (int c = 0; c < ROWS; c++)
                        session.execute(statement("DELETE FROM ks.t WHERE k = 1 AND c = ?", c));
                });
    }
}
