// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Kill -9 in the middle of a concurrent load, restart, compare: every acknowledged write is there,
 * nothing deleted is back, and there is no hole.
 *
 * <p>Each writer owns a partition and writes rows 0, 1, 2, … one behind the other; every tenth step
 * deletes the row written five steps before, every thirteenth is an unlogged batch of two rows. So
 * after a crash a partition must be exactly what the writer's steps up to some step make, that step
 * being the last acknowledged one or the one in flight: anything else is a loss, a hole, a torn
 * batch or a resurrection.
 */
class KillIT {
    private static final Map<String, Map<String, Object>> MODES =
            Map.of(
                    "periodic",
                    Map.of("commitlog_sync", "periodic", "commitlog_sync_period", "10000ms"),
                    "batch",
                    Map.of("commitlog_sync", "batch"),
                    "group",
                    Map.of("commitlog_sync", "group", "commitlog_sync_group_window", "20ms"),
                    // Flushed, compacted, purged and swept all the while.
                    "purging",
                    Map.of("commitlog_sync", "batch"));

    private static final Map<String, String> PURGING =
            Map.of(
                    "engine", "rocks",
                    "memory", "128MiB",
                    "large_cell", "1B",
                    "write_buffer", "64KiB",
                    "purge_interval", "1s");

    private static final int WRITERS = 8;
    private static final int CYCLES = Integer.getInteger("petra.kill.cycles", 20);
    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());

    @TempDir Path directory;

    @ParameterizedTest
    @ValueSource(strings = {"periodic", "batch", "group", "purging"})
    void acknowledgedWritesSurviveAKill(String commitlogSync) throws Exception {
        System.out.println("KillIT " + commitlogSync + ": -Dpetra.seed=" + SEED);
        SplittableRandom random = new SplittableRandom(SEED);
        int cycles = (CYCLES + MODES.size() - 1) / MODES.size();
        Map<String, Object> sync = MODES.get(commitlogSync);
        boolean purging = commitlogSync.equals("purging");
        try (TestNode node =
                TestNode.start(
                        directory,
                        config ->
                                purging
                                        ? config.yaml(sync).engineParameters(PURGING)
                                        : config.yaml(sync))) {
            try (CqlSession session = node.session()) {
                session.execute(
                        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy',"
                                + " 'replication_factor': 1}");
                session.execute(
                        "CREATE TABLE ks.t (cycle int, writer int, step int, v text,"
                                + " PRIMARY KEY ((cycle, writer), step))"
                                + " WITH memtable = 'rocks' AND gc_grace_seconds = "
                                + (purging ? 0 : 864_000));
            }
            List<List<Writer>> all = new ArrayList<>();
            for (int cycle = 0; cycle < cycles; cycle++) {
                List<Writer> writers = new ArrayList<>();
                CqlSession session = node.session();
                for (int w = 0; w < WRITERS; w++) writers.add(new Writer(session, cycle, w));
                writers.forEach(Thread::start);
                for (Writer writer : writers) writer.started.await(30, TimeUnit.SECONDS);
                Thread.sleep(100 + random.nextInt(1_500));
                node.process().kill();
                for (Writer writer : writers) writer.join();
                session.close();
                node.restart();
                all.add(writers);
                try (CqlSession after = node.session()) {
                    // This cycle's partitions, and those of an earlier one.
                    for (Writer writer : writers) writer.check(after);
                    for (Writer writer : all.get(random.nextInt(all.size()))) writer.check(after);
                }
            }
            try (CqlSession after = node.session()) {
                long acknowledged = 0;
                for (List<Writer> writers : all)
                    for (Writer writer : writers) {
                        writer.check(after);
                        acknowledged += writer.acknowledged + 1;
                    }
                System.out.println(
                        "KillIT "
                                + commitlogSync
                                + ": "
                                + cycles
                                + " kills, "
                                + acknowledged
                                + " acknowledged steps");
                assertThat(acknowledged).isGreaterThan((long) cycles * WRITERS);
                if (purging)
                    assertThat(Files.readString(node.process().logFile())).contains("Purged ks.t");
            }
        }
    }

    private static final class Writer extends Thread {
        final CountDownLatch started = new CountDownLatch(1);
        private final CqlSession session;
        private final int cycle;
        private final int writer;
        private final PreparedStatement insert;
        private final PreparedStatement delete;
        private volatile int acknowledged = -1;

        Writer(CqlSession session, int cycle, int writer) {
            super("writer-" + writer);
            this.session = session;
            this.cycle = cycle;
            this.writer = writer;
            this.insert =
                    session.prepare(
                            "INSERT INTO ks.t (cycle, writer, step, v) VALUES (?, ?, ?, ?)");
            this.delete =
                    session.prepare("DELETE FROM ks.t WHERE cycle = ? AND writer = ? AND step = ?");
        }

        @Override
        public void run() {
            try {
                for (int step = 0; ; step++) {
                    session.execute(statement(step));
                    acknowledged = step;
                    started.countDown();
                }
            } catch (DriverException e) {
                // The node was killed: the step in flight may or may not be there.
                started.countDown();
            }
        }

        private com.datastax.oss.driver.api.core.cql.Statement<?> statement(int step) {
            if (step % 10 == 9) return delete.bind(cycle, writer, step - 5);
            if (step % 13 == 12)
                return BatchStatement.newInstance(
                        BatchType.UNLOGGED,
                        insert.bind(cycle, writer, step, value(step)),
                        insert.bind(cycle, writer, -step, value(-step)));
            return insert.bind(cycle, writer, step, value(step));
        }

        private String value(int step) {
            return "c" + cycle + "w" + writer + "s" + step + "-" + "x".repeat(Math.abs(step % 300));
        }

        private Map<Integer, String> expectedAfter(int last) {
            Map<Integer, String> rows = new HashMap<>();
            for (int step = 0; step <= last; step++) {
                if (step % 10 == 9) rows.remove(step - 5);
                else {
                    rows.put(step, value(step));
                    if (step % 13 == 12) rows.put(-step, value(-step));
                }
            }
            return rows;
        }

        void check(CqlSession after) {
            Map<Integer, String> found = new HashMap<>();
            for (Row row :
                    after.execute(
                            SimpleStatement.newInstance(
                                    "SELECT step, v FROM ks.t WHERE cycle = ? AND writer = ?",
                                    cycle,
                                    writer))) found.put(row.getInt("step"), row.getString("v"));
            Map<Integer, String> acked = expectedAfter(acknowledged);
            if (found.equals(acked)) return;
            assertThat(found)
                    .describedAs("cycle %d writer %d acknowledged %d", cycle, writer, acknowledged)
                    .isEqualTo(expectedAfter(acknowledged + 1));
        }
    }
}
