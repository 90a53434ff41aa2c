// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.CrashPoints;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What comes to a node by streams is found by the indexes of its table, of either kind, at once and
 * later.
 */
class IndexStreamsIT {
    private static final Duration PATIENCE = Duration.ofMinutes(3);
    private static final int PARTITIONS = 100;
    private static final int VALUES = 7;

    private static final String PREPARE = "dev.petra.engine.rocks.stream.StagedStream#prepare";

    @TempDir Path first;
    @TempDir Path second;
    @TempDir Path points;

    private final int seedPort = FreePorts.next();

    private static NodeConfig.Builder common(NodeConfig.Builder options) {
        return options.numTokens(4).yaml(Map.of("hinted_handoff_enabled", false));
    }

    private static void insert(CqlSession session, int from, int to) {
        PreparedStatement insert =
                session.prepare("INSERT INTO ks.t (p, c, s, v, t, w) VALUES (?, ?, ?, ?, ?, ?)");
        for (int p = from; p < to; p++)
            for (int c = 0; c < 5; c++)
                session.execute(
                        insert.bind(
                                p, c, p % VALUES, (p + c) % VALUES, p % VALUES, (p + c) % VALUES));
    }

    /** By each index it finds what it has. */
    private static void check(TestNode node) {
        Set<String> there = Contents.alone(node, "SELECT p, c FROM ks.t");
        assertThat(there).isNotEmpty();
        for (String column : List.of("s", "v", "t", "w")) {
            String[] byValue =
                    IntStream.range(0, VALUES)
                            .mapToObj(
                                    value ->
                                            "SELECT p, c FROM ks.t WHERE " + column + " = " + value)
                            .toArray(String[]::new);
            assertThat(Contents.alone(node, byValue)).as(column).isEqualTo(there);
        }
    }

    /** What a test does with two nodes. */
    private interface Body {
        void run(TestNode seed, TestNode newcomer) throws Exception;
    }

    /**
     * Has a node with rows in an indexed table, which another node joins.
     *
     * @param more of the other's options
     */
    private void joined(UnaryOperator<NodeConfig.Builder> more, Body body) throws Exception {
        try (TestNode seed =
                TestNode.start(first, options -> common(options).storagePort(seedPort))) {
            fill(seed);
            try (TestNode newcomer =
                    TestNode.start(
                            second,
                            options ->
                                    more.apply(
                                            common(options)
                                                    .seeds(List.of("127.0.0.1:" + seedPort))))) {
                newcomer.awaitRing(2);
                body.run(seed, newcomer);
            }
        }
    }

    /** Repairs a node, and does something while the entries of the first rows are ready. */
    private static void whileRowsCome(CrashPoints crashes, TestNode node, Callable<?> something)
            throws Exception {
        crashes.hold("leave", "StagedStream#prepare");
        CompletableFuture<Void> repair =
                CompletableFuture.runAsync(() -> node.nodetool("repair", "-full", "ks"));
        try {
            crashes.awaitHeld();
            something.call();
        } finally {
            crashes.release();
        }
        repair.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    @Test
    void whatComesAsSlicesIsFound() throws Exception {
        String publish = CrashPoints.OURS + "streaming.StreamCapabilities#publish";
        CrashPoints crashes = new CrashPoints(points, List.of(publish));
        joined(
                crashes::in,
                (seed, newcomer) -> {
                    check(newcomer);
                    assertThat(newcomer.process().log()).contains("slices into ks.t");
                    // After a restart peers know at once what a node takes.
                    crashes.hold("enter", publish);
                    miss(newcomer, seed, PARTITIONS);
                    newcomer.nodetool("repair", "-full", "ks");
                    check(newcomer);
                    miss(newcomer, seed, 2 * PARTITIONS);
                    newcomer.nodetool("repair", "ks");
                    check(newcomer);
                    assertThat(Contents.alone(newcomer, "SELECT p, c FROM ks.t"))
                            .hasSize(3 * PARTITIONS * 5);
                    check(seed);
                    seed.nodetool("decommission", "--force");
                    check(newcomer);
                    // Nothing came as SSTables.
                    assertThat(
                                    newcomer.process()
                                            .log()
                                            .lines()
                                            .filter(line -> line.contains("The migration of ks.t")))
                            .isEmpty();
                });
    }

    /** A node that takes no slices. */
    @Test
    void whatComesAsSSTablesIsFoundAtOnceAndWhenItIsInTheStore() throws Exception {
        joined(
                options -> options.jvmOptions("-Dpetra.stream.slices=false"),
                (seed, newcomer) -> {
                    check(newcomer);
                    awaitMigrations(newcomer);
                    check(newcomer);
                    miss(newcomer, seed, PARTITIONS);
                    newcomer.nodetool("repair", "-full", "ks");
                    check(newcomer);
                    awaitMigrations(newcomer);
                    check(newcomer);
                    assertThat(newcomer.process().log()).doesNotContain("slices into ks.t");
                });
    }

    /**
     * DROP INDEX fails to remove it there where the disk is full. The rows of a stream then got no
     * entries for it, and counted as if they had those of the index that is created again.
     */
    @Test
    void rowsThatComeWhileADroppedIndexIsInTheStoreAreFoundByTheOneInItsPlace() throws Exception {
        CrashPoints crashes =
                new CrashPoints(
                        points,
                        List.of(
                                CrashPoints.OURS + "index.StoreIndexes#dropFormerFromStore",
                                PREPARE));
        joined(
                // Nothing but the stream is to drop it.
                options -> crashes.in(options, "-Dpetra.index.sweep_seconds=86400"),
                (seed, newcomer) -> {
                    miss(newcomer, seed, PARTITIONS);
                    try (CqlSession session = newcomer.session()) {
                        crashes.fail("enter", "StoreIndexes#dropFormerFromStore");
                        session.execute("DROP INDEX ks.t_v");
                        newcomer.awaitLog("could not be removed from its store", PATIENCE);
                        whileRowsCome(
                                crashes,
                                newcomer,
                                () -> {
                                    session.execute("CREATE INDEX t_v ON ks.t (v) USING 'sai'");
                                    TestNode.awaitQueryable(session, "t_v", PATIENCE);
                                    return null;
                                });
                    }
                    assertThat(Contents.alone(newcomer, "SELECT p, c FROM ks.t"))
                            .hasSize(2 * PARTITIONS * 5);
                    check(newcomer);
                });
    }

    /** Entries may be there before their rows. */
    @Test
    void garbagecollectSaysThatItSweepsNothingWhileAStreamComes() throws Exception {
        CrashPoints crashes = new CrashPoints(points, List.of(PREPARE));
        joined(
                crashes::in,
                (seed, newcomer) -> {
                    miss(newcomer, seed, PARTITIONS);
                    whileRowsCome(
                            crashes,
                            newcomer,
                            () -> {
                                assertThat(
                                                newcomer.tryNodetool("garbagecollect", "ks", "t")
                                                        .output())
                                        .contains("Aborted garbage collection");
                                newcomer.awaitLog("Repeat nodetool garbagecollect", PATIENCE);
                                return null;
                            });
                    newcomer.nodetool("garbagecollect", "ks", "t");
                    check(newcomer);
                });
    }

    private static void fill(TestNode seed) {
        try (CqlSession session = seed.session()) {
            TestNode.createKeyspace(session, "ks", 2);
            session.execute(
                    "CREATE TABLE ks.t (p int, c int, s int static, v int, t int static, w int,"
                            + " PRIMARY KEY (p, c))"
                            + " WITH memtable = 'rocks'");
            session.execute("CREATE INDEX t_v ON ks.t (v) USING 'sai'");
            session.execute("CREATE INDEX t_s ON ks.t (s) USING 'sai'");
            session.execute("CREATE INDEX t_t ON ks.t (t)");
            session.execute("CREATE INDEX t_w ON ks.t (w)");
            insert(session, 0, PARTITIONS);
        }
    }

    /** A node is down while rows are written. */
    private static void miss(TestNode node, TestNode other, int from) throws Exception {
        // Else the other may forget it as one that never joined.
        TestNode.awaitSameRing(List.of(other, node));
        node.process().kill();
        other.awaitDead();
        try (CqlSession session = other.session()) {
            insert(session, from, from + PARTITIONS);
        }
        node.restart();
        TestNode.awaitSameRing(List.of(other, node));
    }

    private static void awaitMigrations(TestNode node) throws Exception {
        try (CqlSession session = node.session()) {
            TestNode.awaitMigrations(session, PATIENCE);
        }
    }
}
