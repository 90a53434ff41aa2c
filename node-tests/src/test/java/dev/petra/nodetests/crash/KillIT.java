// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.crash;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.WithAgent;
import dev.petra.nodetests.fixture.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Kill -9 in the middle of a concurrent load, restart, compare: every acknowledged write is there,
 * nothing deleted is back, and there is no hole.
 *
 * <p>Each {@link Writer} knows what its partition must hold.
 */
@WithAgent
class KillIT {
    /** Its table is flushed, compacted, purged and swept all the while. */
    private static final String PURGED = "purging";

    private static final Map<String, Map<String, Object>> MODES = new HashMap<>();

    static {
        MODES.put(
                "periodic",
                Map.of("commitlog_sync", "periodic", "commitlog_sync_period", "10000ms"));
        MODES.put("batch", Map.of("commitlog_sync", "batch"));
        MODES.put(
                "group", Map.of("commitlog_sync", "group", "commitlog_sync_group_window", "20ms"));
        MODES.put(PURGED, Map.of("commitlog_sync", "batch"));
    }

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

    /** Writers that wrote in one mode, until the node was killed. */
    private record Kill(String mode, List<Writer> writers) {}

    /**
     * One table for each mode, on one node: what was killed in a mode may be replayed in another,
     * and is there after all later kills.
     */
    @Test
    void acknowledgedWritesSurviveAKill() throws Exception {
        System.out.println("KillIT: -Dpetra.seed=" + SEED);
        SplittableRandom random = new SplittableRandom(SEED);
        List<String> modes = List.of("periodic", "batch", "group", PURGED);
        int cycles = (CYCLES + modes.size() - 1) / modes.size();
        List<Kill> kills = new ArrayList<>();
        for (String mode : modes)
            try (TestNode node = start(mode)) {
                createTable(node, mode);
                for (int cycle = 0; cycle < cycles; cycle++) {
                    if (cycle > 0) node.restart();
                    checkSome(node, kills, random);
                    kills.add(new Kill(mode, killUnderWrites(node, mode, cycle, random)));
                }
            }
        try (TestNode node = start(PURGED);
                CqlSession after = node.plainSession()) {
            for (String mode : modes) {
                long acknowledged = 0;
                for (Kill kill : kills) {
                    if (!kill.mode().equals(mode)) continue;
                    for (Writer writer : kill.writers()) {
                        writer.check(after);
                        acknowledged += writer.acknowledged() + 1;
                    }
                }
                System.out.println(
                        "KillIT "
                                + mode
                                + ": "
                                + cycles
                                + " kills, "
                                + acknowledged
                                + " acknowledged steps");
                assertThat(acknowledged).as(mode).isGreaterThan((long) cycles * WRITERS);
            }
            TestNode.await(
                    "a purge",
                    PATIENCE,
                    () ->
                            Files.readString(node.process().logFile())
                                    .contains("Purged ks.t_" + PURGED));
        }
    }

    private TestNode start(String mode) {
        Map<String, Object> sync = MODES.getOrDefault(mode, Map.of());
        return TestNode.start(
                directory,
                config ->
                        mode.equals(PURGED)
                                ? config.overwriteConf(true).yaml(sync).engineParameters(PURGING)
                                : config.overwriteConf(true).yaml(sync));
    }

    private static void createTable(TestNode node, String mode) {
        try (CqlSession session = node.plainSession()) {
            session.execute(
                    "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class':"
                            + " 'SimpleStrategy', 'replication_factor': 1}");
            session.execute(
                    Writer.table("ks.t_" + mode)
                            + " WITH memtable = 'rocks' AND gc_grace_seconds = "
                            + (mode.equals(PURGED) ? 0 : 864_000));
        }
    }

    /** The partitions of the last kill, and those of an earlier one. */
    private static void checkSome(TestNode node, List<Kill> kills, SplittableRandom random) {
        if (kills.isEmpty()) return;
        try (CqlSession after = node.plainSession()) {
            for (int which : new int[] {kills.size() - 1, random.nextInt(kills.size())})
                for (Writer writer : kills.get(which).writers()) writer.check(after);
        }
    }

    private static List<Writer> killUnderWrites(
            TestNode node, String mode, int cycle, SplittableRandom random) throws Exception {
        List<Writer> writers = new ArrayList<>();
        try (CqlSession session = node.plainSession()) {
            for (int w = 0; w < WRITERS; w++)
                writers.add(new Writer(session, "ks.t_" + mode, cycle, w));
            writers.forEach(Thread::start);
            for (Writer writer : writers)
                assertThat(writer.started.await(2, TimeUnit.MINUTES)).isTrue();
            // Each tenth step deletes: on a busy machine there may be nothing to purge before.
            if (mode.equals(PURGED))
                TestNode.await(
                        "deletions",
                        PATIENCE,
                        () -> writers.stream().allMatch(w -> w.acknowledged() > 10));
            Thread.sleep(100 + random.nextInt(1_500));
            writers.forEach(Writer::assertIsWriting);
            node.process().kill();
            for (Writer writer : writers) writer.join();
        }
        return writers;
    }

    /**
     * Cassandra prepares no statement again when a table's memtable changes, so such a write has
     * the schema of before. In the commit log it would be found without the deletion that came
     * after it, which a purge has removed meanwhile.
     */
    @Test
    @OneOf(variants = "kills around a migration", of = 2, number = 2)
    void whatWasPreparedBeforeTheTableCameIsDeletedAfterAKill() throws Exception {
        try (TestNode node = TestNode.start(directory)) {
            try (CqlSession session = node.plainSession()) {
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
            // Purges the deletions, and with them what they hide: from the next second on.
            TimeUnit.MILLISECONDS.sleep(1_100);
            node.nodetool("compact", "ks", "t");
            node.process().kill();
            node.restart();
            try (CqlSession session = node.plainSession()) {
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
