// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.CrashPoints;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.io.TempDir;

/**
 * What comes to a node by streams is found by the indexes of its table, of either kind, at once and
 * later.
 */
@OneOf(variants = "slices by a load, or to indexes", of = 2, number = 2)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class IndexStreamsIT {
    private static final Duration PATIENCE = Duration.ofMinutes(3);
    private static final int PARTITIONS = 100;
    private static final int VALUES = 7;

    private static final String PREPARE = "dev.petra.engine.rocks.stream.StagedStream#prepare";
    private static final String PUBLISH = CrashPoints.OURS + "streaming.StreamCapabilities#publish";
    private static final String DROP_FORMER =
            CrashPoints.OURS + "index.StoreIndexes#dropFormerFromStore";

    @TempDir static Path directory;

    /** Two nodes that all tests share in which rows come as slices, from the first of them on. */
    private static CrashPoints crashes;

    private static TestNode seed;
    private static TestNode newcomer;

    /** How many partitions these have. */
    private static int written;

    /** What is done at a certain moment. */
    private interface Step {
        void run() throws Exception;
    }

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

    /** A node with rows in an indexed table. */
    private static TestNode startSeed(Path home, int port) {
        TestNode node = TestNode.start(home, options -> common(options).storagePort(port));
        try {
            fill(node);
            return node;
        } catch (RuntimeException | AssertionError e) {
            node.close();
            throw e;
        }
    }

    /**
     * Another node that joins it; whether it sees both remains to be awaited.
     *
     * @param more of its options
     */
    private static TestNode join(Path home, int port, UnaryOperator<NodeConfig.Builder> more) {
        return TestNode.start(
                home, options -> more.apply(common(options).seeds(List.of("127.0.0.1:" + port))));
    }

    /** Starts the nodes that tests share, unless they have been. */
    private static void startShared() throws Exception {
        if (written > 0) return;
        int port = FreePorts.next();
        seed = startSeed(directory.resolve("seed"), port);
        crashes = new CrashPoints(directory, List.of(PUBLISH, DROP_FORMER, PREPARE));
        newcomer =
                join(
                        directory.resolve("newcomer"),
                        port,
                        // Nothing but a stream is to drop an index from the store.
                        options -> crashes.in(options, "-Dpetra.index.sweep_seconds=86400"));
        newcomer.awaitRing(2);
        written = PARTITIONS;
    }

    @AfterAll
    static void stop() {
        if (newcomer != null) newcomer.close();
        if (seed != null) seed.close();
    }

    /** Repairs the newcomer, and does something while the entries of the first rows are ready. */
    private static void whileRowsCome(Step something) throws Exception {
        crashes.holdAlso("leave", "StagedStream#prepare");
        CompletableFuture<Void> repair =
                CompletableFuture.runAsync(() -> newcomer.nodetool("repair", "-full", "ks"));
        try {
            crashes.awaitHeld();
            something.run();
        } finally {
            crashes.releaseAt("leave", "StagedStream#prepare");
        }
        repair.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    /** A node that takes no slices; it has nodes of its own, before the others. */
    @Order(1)
    @Test
    @OneOf(variants = "IndexStreamsIT, the form in which rows come", of = 2, number = 1)
    void whatComesAsSSTablesIsFoundAtOnceAndWhenItIsInTheStore(@TempDir Path own) throws Exception {
        int port = FreePorts.next();
        try (TestNode source = startSeed(own.resolve("seed"), port);
                TestNode node =
                        join(
                                own.resolve("newcomer"),
                                port,
                                options -> options.jvmOptions("-Dpetra.stream.slices=false"))) {
            node.awaitRing(2);
            check(node);
            awaitMigrations(node);
            check(node);
            miss(node, source, PARTITIONS, () -> {});
            node.nodetool("repair", "-full", "ks");
            check(node);
            awaitMigrations(node);
            check(node);
            assertThat(node.process().log()).doesNotContain("slices into ks.t");
        }
    }

    @Order(2)
    @Test
    @OneOf(variants = "IndexStreamsIT, the form in which rows come", of = 2, number = 2)
    void whatComesAsSlicesIsFoundAndNothingIsSweptMeanwhile() throws Exception {
        startShared();
        check(newcomer);
        assertThat(newcomer.process().log()).contains("slices into ks.t");
        repairUntold(() -> whileRowsCome(IndexStreamsIT::garbagecollectSaysThatItSweepsNothing));
        newcomer.nodetool("garbagecollect", "ks", "t");
        check(newcomer);
        repairUntold(() -> newcomer.nodetool("repair", "ks"));
        assertHasAll();
        check(seed);
        assertNothingCameAsSSTables();
    }

    /** After a restart peers know at once what a node takes, before it tells of a change. */
    private static void repairUntold(Step repair) throws Exception {
        try {
            miss(() -> crashes.hold("enter", PUBLISH));
            repair.run();
        } finally {
            crashes.release();
        }
        check(newcomer);
    }

    /** Entries may be there before their rows. */
    private static void garbagecollectSaysThatItSweepsNothing() throws Exception {
        assertThat(newcomer.tryNodetool("garbagecollect", "ks", "t").output())
                .contains("Aborted garbage collection");
        newcomer.awaitLog("Repeat nodetool garbagecollect", PATIENCE);
    }

    /**
     * DROP INDEX fails to remove it there where the disk is full. The rows of a stream then got no
     * entries for it, and counted as if they had those of the index that is created again.
     */
    @Order(3)
    @Test
    @OneOf(variants = "IndexStreamsIT, the form in which rows come", of = 2, number = 2)
    void rowsThatComeWhileADroppedIndexIsInTheStoreAreFoundByTheOneInItsPlace() throws Exception {
        startShared();
        miss(() -> {});
        try (CqlSession session = newcomer.session()) {
            crashes.fail("enter", DROP_FORMER);
            session.execute("DROP INDEX ks.t_v");
            newcomer.awaitLog("could not be removed from its store", PATIENCE);
            whileRowsCome(
                    () -> {
                        session.execute("CREATE INDEX t_v ON ks.t (v) USING 'sai'");
                        TestNode.awaitQueryable(session, "t_v", PATIENCE);
                    });
        }
        assertHasAll();
        check(newcomer);
    }

    /** The last: there is one node afterwards. */
    @Order(4)
    @Test
    @OneOf(variants = "IndexStreamsIT, the form in which rows come", of = 2, number = 2)
    void whatComesFromANodeThatLeavesIsFound() throws Exception {
        startShared();
        seed.nodetool("decommission", "--force");
        assertHasAll();
        check(newcomer);
        assertNothingCameAsSSTables();
    }

    private static void assertHasAll() {
        assertThat(Contents.alone(newcomer, "SELECT p, c FROM ks.t")).hasSize(written * 5);
    }

    private static void assertNothingCameAsSSTables() {
        assertThat(
                        newcomer.process()
                                .log()
                                .lines()
                                .filter(line -> line.contains("The migration of ks.t")))
                .isEmpty();
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

    /** The newcomer is down while rows are written. */
    private static void miss(Step beforeItIsBack) throws Exception {
        miss(newcomer, seed, written, beforeItIsBack);
        written += PARTITIONS;
    }

    /** A node is down while rows are written. */
    private static void miss(TestNode node, TestNode other, int from, Step beforeItIsBack)
            throws Exception {
        // Else the other may forget it as one that never joined.
        TestNode.awaitSameRing(List.of(other, node));
        // It says that it leaves: of a node that is killed others hear nothing for a while.
        node.process().stop();
        other.awaitDead();
        try (CqlSession session = other.session()) {
            insert(session, from, from + PARTITIONS);
        }
        beforeItIsBack.run();
        node.restart();
        TestNode.awaitSameRing(List.of(other, node));
    }

    private static void awaitMigrations(TestNode node) throws Exception {
        try (CqlSession session = node.session()) {
            TestNode.awaitMigrations(session, PATIENCE);
        }
    }
}
