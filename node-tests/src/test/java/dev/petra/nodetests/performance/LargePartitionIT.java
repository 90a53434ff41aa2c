// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.performance;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * One partition that is far larger than heap and engine memory together is written, paged, read
 * backwards, repaired, streamed, purged and migrated out and in: the memory of both nodes stays
 * within what they were given. {@code -Dit.test=LargePartitionIT -Dpetra.large.rows=10000000} makes
 * 20 GB, and needs four times that on disk. Prints what each step took; {@code docs/performance.md}
 * has figures.
 */
@EnabledIfSystemProperty(named = "petra.large.rows", matches = "\\d+")
@Timeout(value = 4, unit = TimeUnit.HOURS)
class LargePartitionIT {
    private static final long ROWS = Long.getLong("petra.large.rows", 0);
    private static final int VALUE = 2_000;
    private static final int HEAP_MIB = 512;
    private static final int NATIVE_MIB = 128;

    /** Metaspace, code cache, thread stacks, Netty's direct buffers, RocksDB's table readers. */
    private static final int JVM_MIB = 512;

    private static final Duration PATIENCE = Duration.ofHours(1);
    private static final int IN_FLIGHT = 16;
    private static final int BATCH = 10;

    @TempDir Path first;
    @TempDir Path second;

    private final int seedPort = FreePorts.next();
    private final List<TestNode> nodes = new ArrayList<>();
    private final NodeSteps steps =
            new NodeSteps("LargePartitionIT", HEAP_MIB + NATIVE_MIB + JVM_MIB);

    private static NodeConfig.Builder options(NodeConfig.Builder options) {
        return options.numTokens(1)
                .heap(HEAP_MIB + "MiB")
                .jvmOptions(TestNode.measured(HEAP_MIB))
                .engineParameters(Map.of("engine", "rocks", "memory", NATIVE_MIB + "MiB"))
                .yaml(
                        Map.of(
                                "batch_size_warn_threshold",
                                "40KiB",
                                "compaction_throughput",
                                "0MiB/s",
                                "stream_throughput_outbound",
                                "0MiB/s",
                                "entire_sstable_stream_throughput_outbound",
                                "0MiB/s"));
    }

    @Test
    void aPartitionLargerThanMemory() throws Exception {
        try (TestNode seed = TestNode.start(first, of -> options(of).storagePort(seedPort))) {
            watch("first", seed);
            try (CqlSession session = seed.session()) {
                TestNode.createKeyspace(session, "ks", 1);
                session.execute(
                        "CREATE TABLE ks.t (p int, c bigint, v blob, PRIMARY KEY (p, c))"
                                + " WITH memtable = 'rocks' AND gc_grace_seconds = 0");
                steps.run("write", () -> write(session));
                seed.nodetool("flush", "ks", "t");
                steps.run("page through all", () -> assertThat(page(session, "")).isEqualTo(ROWS));
                steps.run("few rows", () -> fewRows(session));
            }
            try (TestNode other =
                    TestNode.start(
                            second, of -> options(of).seeds(List.of("127.0.0.1:" + seedPort)))) {
                watch("second", other);
                twoNodes(seed, other);
            }
        }
    }

    private void watch(String name, TestNode node) {
        nodes.add(node);
        steps.watch(name, node);
    }

    private void twoNodes(TestNode seed, TestNode other) throws Exception {
        TestNode.awaitSameRing(List.of(seed, other));
        try (CqlSession session = seed.session(ConsistencyLevel.ALL)) {
            session.execute(
                    "ALTER KEYSPACE ks WITH replication ="
                            + " {'class': 'SimpleStrategy', 'replication_factor': 2}");
            steps.run("repair, which sends all", () -> seed.nodetool("repair", "-full", "ks", "t"));
            steps.run(
                    "repair, which sends nothing",
                    () -> seed.nodetool("repair", "--preview", "-full", "ks", "t"));
            steps.run("a few rows of both", () -> fewRows(session));
            session.execute("DELETE FROM ks.t WHERE p = 1 AND c < " + ROWS / 2);
            steps.run(
                    "purge of half",
                    () -> {
                        for (TestNode node : List.of(seed, other)) {
                            node.nodetool("flush", "ks", "t");
                            node.nodetool("compact", "ks", "t");
                        }
                    });
            assertThat(page(session, "")).isEqualTo(ROWS - ROWS / 2);
            steps.run("migration out", () -> alter(session, "skiplist"));
            assertThat(page(session, "")).isEqualTo(ROWS - ROWS / 2);
            steps.run("migration in", () -> alter(session, "rocks"));
            steps.run(
                    "page backwards",
                    () -> assertThat(page(session, " ORDER BY c DESC")).isEqualTo(ROWS - ROWS / 2));
        }
    }

    private void alter(CqlSession session, String memtable) throws Exception {
        session.execute("ALTER TABLE ks.t WITH memtable = '" + memtable + "'");
        for (TestNode node : nodes)
            try (CqlSession own = node.session()) {
                TestNode.awaitMigrations(own, PATIENCE);
            }
    }

    private static void write(CqlSession session) throws Exception {
        var insert = session.prepare("INSERT INTO ks.t (p, c, v) VALUES (1, ?, ?)");
        byte[] noise = new byte[1 << 20];
        SplittableRandom random = new SplittableRandom(1);
        random.nextBytes(noise);
        new ClosedLoop(session, IN_FLIGHT)
                .run(
                        (ROWS + BATCH - 1) / BATCH,
                        Long.MAX_VALUE,
                        number -> {
                            BatchStatementBuilder batch =
                                    BatchStatement.builder(DefaultBatchType.UNLOGGED);
                            long from = number * BATCH;
                            for (long row = from; row < Math.min(ROWS, from + BATCH); row++) {
                                int at = random.nextInt(noise.length - VALUE);
                                batch.addStatement(
                                        insert.bind(
                                                row, ByteBuffer.wrap(noise, at, VALUE).slice()));
                            }
                            return batch.build();
                        });
    }

    /** Pages through the partition; its order is checked. */
    private static long page(CqlSession session, String order) {
        long rows = 0;
        long last = -1;
        for (Row row :
                session.execute(
                        SimpleStatement.newInstance("SELECT c, v FROM ks.t WHERE p = 1" + order)
                                .setPageSize(1_000)
                                .setTimeout(Duration.ofMinutes(1)))) {
            long c = row.getLong(0);
            if (rows++ > 0) assertThat(c - last).isEqualTo(order.isEmpty() ? 1 : -1);
            assertThat(row.getByteBuffer(1).remaining()).isEqualTo(VALUE);
            last = c;
        }
        return rows;
    }

    private static void fewRows(CqlSession session) {
        for (String where :
                List.of(
                        " AND c = " + (ROWS - 1),
                        " AND c > " + ROWS / 2 + " LIMIT 1",
                        " ORDER BY c DESC LIMIT 1"))
            assertThat(session.execute("SELECT c FROM ks.t WHERE p = 1" + where).all()).hasSize(1);
    }
}
