// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.crash;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import dev.petra.launcher.FileTree;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.TableOwner;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Kill -9 while tables are created, written, altered, moved, truncated and dropped, each by a
 * {@link TableOwner}: whatever was acknowledged has happened, and the statement in flight has or
 * has not.
 */
class LifeKillIT {
    private static final int KILLS = Integer.getInteger("petra.life.kills", 6);
    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());
    private static final int TABLES = 6;

    /** Statements between two kills. */
    private static final int LEAST = 101;

    private static final Duration PATIENCE = Duration.ofMinutes(2);

    @TempDir Path directory;

    static List<Boolean> drawn() {
        return Drawn.of("LifeKillIT", List.of(true, false));
    }

    @ParameterizedTest
    @MethodSource("drawn")
    void statementsOfAnyKindSurviveAKill(boolean autoSnapshot) throws Exception {
        System.out.println("LifeKillIT: -Dpetra.seed=" + SEED);
        SplittableRandom random = new SplittableRandom(SEED);
        List<TableOwner> owners = new ArrayList<>();
        for (int t = 0; t < TABLES; t++) owners.add(new TableOwner("ks.t" + t, random.split()));
        int kills = KILLS / 2;
        try (TestNode node =
                TestNode.start(
                        directory,
                        config ->
                                config.yaml(
                                                Map.of(
                                                        "commitlog_sync",
                                                        "batch",
                                                        "auto_snapshot",
                                                        autoSnapshot))
                                        // What is lacking comes with the commit log.
                                        .jvmOptions(
                                                "-Dcassandra.ignore_corrupted_schema_tables=true")
                                        .engineParameters(
                                                Map.of(
                                                        "engine", "rocks",
                                                        "memory", "128MiB",
                                                        "write_buffer", "64KiB")))) {
            try (CqlSession session = node.plainSession()) {
                TestNode.createKeyspace(session, "ks", 1);
            }
            for (int kill = 0; kill < kills; kill++) {
                long before = done(owners);
                CqlSession session = node.plainSession();
                List<Thread> threads = new ArrayList<>();
                List<Throwable> failures = new ArrayList<>();
                for (TableOwner owner : owners) {
                    Thread thread = new Thread(() -> owner.run(session));
                    thread.setUncaughtExceptionHandler(
                            (t, e) -> {
                                synchronized (failures) {
                                    failures.add(e);
                                }
                            });
                    threads.add(thread);
                    thread.start();
                }
                Thread.sleep(500 + random.nextInt(3_000));
                // On a busy machine that may be too early for anything to be lost.
                TestNode.await(
                        "statements are done", PATIENCE, () -> done(owners) >= before + LEAST);
                // One that has ended has nothing to lose by the kill.
                synchronized (failures) {
                    for (Throwable failure : failures) throw new AssertionError(failure);
                }
                for (int t = 0; t < TABLES; t++) {
                    assertThat(owners.get(t).failure()).as("owner of ks.t%d", t).isNull();
                    assertThat(threads.get(t).isAlive()).as("owner of ks.t%d", t).isTrue();
                }
                node.process().kill();
                for (Thread thread : threads) thread.join();
                session.close();
                for (Throwable failure : failures) throw new AssertionError(failure);
                node.restart();
                // Cassandra reads its schema before it replays the commit log: a change that was in
                // flight may be in the tables of the schema, and not in force.
                node.nodetool("reloadlocalschema");
                try (CqlSession after = node.plainSession()) {
                    for (TableOwner owner : owners) owner.check(after);
                }
            }
        }
        System.out.println("LifeKillIT: " + kills + " kills, " + done(owners) + " statements");
        assertThat(done(owners)).isGreaterThan(100L * kills);
    }

    /**
     * Cassandra writes the drop of a column to two tables of its schema; here a kill has left it
     * the one without the other. With values of that column in the commit log, or in SSTables, the
     * node would not start.
     */
    @Test
    void aDropOfAColumnIsTornByAKill() throws Exception {
        try (TestNode node =
                TestNode.start(
                        directory, config -> config.yaml(Map.of("commitlog_sync", "batch")))) {
            try (CqlSession session = node.plainSession()) {
                TestNode.createKeyspace(session, "ks", 1);
                session.execute(
                        "CREATE TABLE ks.t (k int PRIMARY KEY, v text, w int) WITH memtable ="
                                + " 'rocks'");
                session.execute("INSERT INTO ks.t (k, v, w) VALUES (1, 'a', 1)");
                // Cassandra takes the time of a drop in milliseconds.
                Thread.sleep(5);
                session.execute("ALTER TABLE ks.t DROP w");
            }
            node.process().kill();
            Path schema = node.process().directory().root().resolve("data/system_schema");
            try (Stream<Path> tables = Files.list(schema)) {
                FileTree.delete(
                        tables.filter(
                                        table ->
                                                table.getFileName()
                                                        .toString()
                                                        .startsWith("dropped_columns"))
                                .findFirst()
                                .orElseThrow());
            }
            node.restart();
            node.nodetool("reloadlocalschema");
            try (CqlSession session = node.plainSession()) {
                assertThat(session.execute("SELECT * FROM ks.t").one().getFormattedContents())
                        .isEqualTo("[k:1, v:'a']");
                session.execute("ALTER TABLE ks.t ADD w int");
                assertThat(session.execute("SELECT w FROM ks.t").one().isNull("w")).isTrue();
            }
        }
    }

    private static long done(List<TableOwner> owners) {
        return owners.stream().mapToLong(TableOwner::done).sum();
    }
}
