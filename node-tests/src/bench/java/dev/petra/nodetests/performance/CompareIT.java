// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.performance;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Latencies of a {@code rocks} table against Cassandra's own in one node, through the driver, one
 * client, interleaved. Here only that both answer; figures with {@code -Dpetra.compare.rounds=200},
 * printed, never asserted.
 */
class CompareIT {
    private static final int ROUNDS = Integer.getInteger("petra.compare.rounds", 3);
    private static final boolean FULL = ROUNDS > 50;
    private static final List<String> KINDS = List.of("rocks", "stock");

    @TempDir static Path directory;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() {
        node =
                TestNode.start(
                        directory,
                        config ->
                                config.heap("1GiB")
                                        .jvmOptions("-Xms1g")
                                        .engineParameters(
                                                Map.of("engine", "rocks", "memory", "512MiB")));
        session = node.session();
        TestNode.createKeyspace(session, "ks", 1);
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (node != null) node.close();
    }

    private static String with(String kind) {
        return kind.equals("rocks") ? " WITH memtable = 'rocks'" : "";
    }

    private interface Query {
        void run(String kind);
    }

    /** Median and 99th percentile of each kind, in microseconds, and bytes read from disk each. */
    private static void measure(String what, boolean cold, Query query) throws IOException {
        long[][] nanos = new long[2][ROUNDS];
        long[] bytes = new long[2];
        for (int i = -ROUNDS / 4; i < ROUNDS; i++)
            for (int k = 0; k < 2; k++) {
                if (cold) dropCaches();
                long read = bytesRead();
                long start = System.nanoTime();
                query.run(KINDS.get(k));
                if (i < 0) continue;
                nanos[k][i] = System.nanoTime() - start;
                bytes[k] += bytesRead() - read;
            }
        StringBuilder line = new StringBuilder("| ").append(what);
        double[] medians = new double[2];
        for (int k = 0; k < 2; k++) {
            Arrays.sort(nanos[k]);
            medians[k] = nanos[k][ROUNDS / 2] / 1e3;
            line.append(
                    " | %.0f | %.0f | %d"
                            .formatted(
                                    medians[k],
                                    nanos[k][Math.min(ROUNDS - 1, ROUNDS * 99 / 100)] / 1e3,
                                    bytes[k] / ROUNDS / 1024));
        }
        line.append(" | %.1f |".formatted(medians[1] / medians[0]));
        System.out.println(line);
    }

    private static void dropCaches() throws IOException {
        Files.writeString(Path.of("/proc/sys/vm/drop_caches"), "1");
    }

    private static long bytesRead() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/" + node.process().pid() + "/io")))
            if (line.startsWith("read_bytes: "))
                return Long.parseLong(line.substring("read_bytes: ".length()));
        throw new IOException("no read_bytes");
    }

    @Test
    void aColumnOfAWideRow() throws IOException {
        System.out.println(
                "| query | rocks µs | P99 | KiB | stock µs | P99 | KiB | stock / rocks |");
        Random random = new Random(1);
        for (int n : FULL ? new int[] {10, 20, 50, 100} : new int[] {10}) {
            for (String kind : KINDS) {
                StringBuilder columns = new StringBuilder();
                for (int i = 0; i < n; i++) columns.append("c").append(i).append(" blob, ");
                session.execute(
                        "CREATE TABLE ks."
                                + kind
                                + "_wide"
                                + n
                                + " (k int, "
                                + columns
                                + "PRIMARY KEY (k))"
                                + with(kind));
                PreparedStatement[] inserts = new PreparedStatement[n];
                for (int i = 0; i < n; i++)
                    inserts[i] =
                            session.prepare(
                                    "INSERT INTO ks."
                                            + kind
                                            + "_wide"
                                            + n
                                            + " (k, c"
                                            + i
                                            + ") VALUES (?, ?)");
                for (int k = 0; k < (FULL ? 40 : 3); k++)
                    for (int i = 0; i < n; i++) {
                        byte[] value = new byte[100_000];
                        random.nextBytes(value);
                        session.execute(inserts[i].bind(k, ByteBuffer.wrap(value)));
                    }
            }
            flushAndCompact();
            String table = "_wide" + n;
            Random keys = new Random(2);
            Query one =
                    kind -> {
                        Row row =
                                session.execute(
                                                "SELECT c7 FROM ks."
                                                        + kind
                                                        + table
                                                        + " WHERE k = "
                                                        + keys.nextInt(FULL ? 40 : 3))
                                        .one();
                        assertThat(row.getByteBuffer(0).remaining()).isEqualTo(100_000);
                    };
            measure("1 of " + n + " columns, warm", false, one);
            // That of the whole machine.
            if (FULL && Files.isWritable(Path.of("/proc/sys/vm/drop_caches")))
                measure("1 of " + n + " columns, page cache dropped", true, one);
        }
    }

    private static void flushAndCompact() {
        node.nodetool("flush", "ks");
        node.nodetool("compact", "ks");
    }

    @Test
    void aLiveRowBehindTenThousandDeletedOnes() throws IOException {
        int deleted = FULL ? 10_000 : 100;
        for (String kind : KINDS) {
            session.execute(
                    "CREATE TABLE ks."
                            + kind
                            + "_queue (k int, c int, v int, PRIMARY KEY (k, c))"
                            + with(kind));
            PreparedStatement insert =
                    session.prepare("INSERT INTO ks." + kind + "_queue (k, c, v) VALUES (1, ?, 1)");
            PreparedStatement delete =
                    session.prepare("DELETE FROM ks." + kind + "_queue WHERE k = 1 AND c = ?");
            for (int c = 0; c <= deleted; c++) session.execute(insert.bind(c));
            for (int c = 0; c < deleted; c++) session.execute(delete.bind(c));
        }
        Query first =
                kind ->
                        assertThat(
                                        session.execute(
                                                        SimpleStatement.newInstance(
                                                                "SELECT c FROM ks."
                                                                        + kind
                                                                        + "_queue WHERE k = 1 LIMIT"
                                                                        + " 1"))
                                                .one()
                                                .getInt(0))
                                .isEqualTo(deleted);
        measure(deleted + " deleted rows before it, memtable", false, first);
        flushAndCompact();
        measure(deleted + " deleted rows before it, compacted", false, first);
    }

    @Test
    void aRowOverwrittenManyTimes() throws IOException {
        int writes = FULL ? 1_000_000 : 1_000;
        PreparedStatement[] updates = new PreparedStatement[2];
        for (int k = 0; k < 2; k++) {
            String kind = KINDS.get(k);
            session.execute(
                    "CREATE TABLE ks."
                            + kind
                            + "_hot (k int PRIMARY KEY, a text, b text)"
                            + with(kind));
            updates[k] = session.prepare("UPDATE ks." + kind + "_hot SET a = ?, b = ? WHERE k = ?");
        }
        for (int k = 0; k < 2; k++) {
            session.execute(updates[k].bind("first", "only", 1));
            List<java.util.concurrent.CompletionStage<?>> running = new ArrayList<>();
            for (int i = 0; i < writes; i++) {
                running.add(session.executeAsync(updates[k].bind("value " + i, "b" + i, 2)));
                if (running.size() < 200) continue;
                running.forEach(write -> write.toCompletableFuture().join());
                running.clear();
            }
            running.forEach(write -> write.toCompletableFuture().join());
        }
        measureHot("memtable", writes);
        flushAndCompact();
        measureHot("compacted", writes);
    }

    private static void measureHot(String where, int writes) throws IOException {
        for (int key : new int[] {1, 2}) {
            Query read =
                    kind ->
                            assertThat(
                                            session.execute(
                                                            "SELECT a, b FROM ks."
                                                                    + kind
                                                                    + "_hot WHERE k = "
                                                                    + key)
                                                    .one())
                                    .isNotNull();
            measure("a row written " + (key == 1 ? 1 : writes) + " times, " + where, false, read);
        }
    }
}
