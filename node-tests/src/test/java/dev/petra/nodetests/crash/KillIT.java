// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.crash;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.WithAgent;
import dev.petra.nodetests.fixture.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Kill -9 in the middle of a concurrent load, restart, compare: every acknowledged write is there,
 * nothing deleted is back, and there is no hole.
 *
 * <p>Each {@link Writer} knows what its partition must hold.
 */
@WithAgent
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

    private static final Duration PATIENCE = Duration.ofMinutes(2);
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
                TestNode.createKeyspace(session, "ks", 1);
                session.execute(
                        Writer.table("ks.t")
                                + " WITH memtable = 'rocks' AND gc_grace_seconds = "
                                + (purging ? 0 : 864_000));
            }
            List<List<Writer>> all = new ArrayList<>();
            for (int cycle = 0; cycle < cycles; cycle++) {
                List<Writer> writers = new ArrayList<>();
                CqlSession session = node.session();
                for (int w = 0; w < WRITERS; w++)
                    writers.add(new Writer(session, "ks.t", cycle, w));
                writers.forEach(Thread::start);
                for (Writer writer : writers)
                    assertThat(writer.started.await(2, TimeUnit.MINUTES)).isTrue();
                // Each tenth step deletes: on a busy machine there may be nothing to purge before.
                if (purging)
                    TestNode.await(
                            "deletions",
                            PATIENCE,
                            () -> writers.stream().allMatch(w -> w.acknowledged() > 10));
                Thread.sleep(100 + random.nextInt(1_500));
                writers.forEach(Writer::assertIsWriting);
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
                        acknowledged += writer.acknowledged() + 1;
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
                    TestNode.await(
                            "a purge",
                            PATIENCE,
                            () ->
                                    Files.readString(node.process().logFile())
                                            .contains("Purged ks.t"));
            }
        }
    }

    /**
     * Cassandra prepares no statement again when a table's memtable changes, so such a write has
     * the schema of before. In the commit log it would be found without the deletion that came
     * after it, which a purge has removed meanwhile.
     */
    @Test
    void whatWasPreparedBeforeTheTableCameIsDeletedAfterAKill() throws Exception {
        try (TestNode node = TestNode.start(directory)) {
            try (CqlSession session = node.session()) {
                TestNode.createKeyspace(session, "ks", 1);
                for (String table : List.of("t", "stock"))
                    session.execute(
                            "CREATE TABLE ks."
                                    + table
                                    + " (p int, c int, v int, PRIMARY KEY (p, c)) WITH"
                                    + " gc_grace_seconds = 0");
                String row = "INSERT INTO ks.t (p, c, v) VALUES (1, ?, 0)";
                PreparedStatement insert = session.prepare(row);
                PreparedStatement batch =
                        session.prepare(
                                "BEGIN UNLOGGED BATCH "
                                        + row
                                        + "; INSERT INTO ks.stock (p, c, v) VALUES (1, ?, 0);"
                                        + " APPLY BATCH");
                session.execute(insert.bind(1));
                session.execute("ALTER TABLE ks.t WITH memtable = 'rocks'");
                TestNode.awaitMigrations(session, PATIENCE);
                session.execute(insert.bind(2));
                session.execute(batch.bind(3, 3));
                session.execute(insert.bind(4));
                session.execute("DELETE FROM ks.t WHERE p = 1 AND c IN (2, 3)");
            }
            // Purges the deletions, and with them what they hide.
            node.nodetool("compact", "ks", "t");
            node.process().kill();
            node.restart();
            try (CqlSession session = node.session()) {
                assertThat(session.execute("SELECT c FROM ks.t").all())
                        .extracting(found -> found.getInt(0))
                        .containsExactly(1, 4);
                assertThat(session.execute("SELECT c FROM ks.stock").all())
                        .extracting(found -> found.getInt(0))
                        .containsExactly(3);
            }
        }
    }
}
