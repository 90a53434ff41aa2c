// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.docker.PetraContainer;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.testcontainers.images.builder.Transferable;

/**
 * Three nodes in containers, each table on all of them, written at QUORUM while things break. After
 * each test, and a repair: every acknowledged write is there at ALL, nothing deleted is back, and
 * no node has logged an error that nobody caused.
 */
class DockerIT {
    private static final String BASE =
            System.getProperty("petra.docker.base", System.getenv("PETRA_DOCKER_BASE"));
    private static final String IMAGE = "petra:test";
    private static final int WRITERS = 4;
    private static final Duration REQUEST = Duration.ofSeconds(5);
    private static final Duration CHECK = Duration.ofSeconds(60);

    private static DockerCluster cluster;
    private static int tables;

    private CqlSession session;
    private String table;
    private final List<Writer> writers = new ArrayList<>();

    @BeforeAll
    static void start() throws Exception {
        boolean possible = BASE != null && !BASE.isEmpty() && DockerCluster.isThere();
        if (!possible)
            System.out.println(
                    "\n"
                            + "*** DockerIT IS NOT RUN: it needs a Docker engine, and in"
                            + " PETRA_DOCKER_BASE an image with Java 17 to build on. .ci/run makes"
                            + " both. ***\n");
        assumeTrue(possible);
        DockerCluster.build(BASE, IMAGE);
        cluster = new DockerCluster(IMAGE);
        for (int n = 0; n < 3; n++)
            cluster.add(
                    node ->
                            node.withEnv("PETRA_YAML", "/var/lib/cassandra/own.yaml")
                                    .withCopyToContainer(
                                            Transferable.of(mixed("SkipListMemtable")),
                                            "/var/lib/cassandra/own.yaml"));
        try (CqlSession session = cluster.session(ConsistencyLevel.QUORUM, CHECK)) {
            TestNode.createKeyspace(session, "ks", 3);
        }
    }

    /** A configuration that differs from node to node. */
    private static String mixed(String memtable) {
        return "memtable:\n  configurations:\n    mixed:\n      class_name: "
                + memtable
                + "\n"
                + (memtable.contains("Petra")
                        ? "      parameters: {engine: rocks, memory: 128MiB}\n"
                        : "");
    }

    @AfterAll
    static void stop() {
        if (cluster != null) cluster.close();
    }

    @BeforeEach
    void write() throws InterruptedException {
        session = cluster.session(ConsistencyLevel.QUORUM, REQUEST);
        table = "ks.t" + ++tables;
    }

    private void begin(String memtable) throws InterruptedException {
        session.execute(
                SimpleStatement.newInstance(
                                Writer.table(table) + " WITH memtable = '" + memtable + "'")
                        .setTimeout(CHECK));
        for (int w = 0; w < WRITERS; w++) {
            Writer writer = new Writer(session, table, 0, w).persistent();
            writers.add(writer);
            writer.start();
            writer.started.await(30, TimeUnit.SECONDS);
        }
        progress(20);
    }

    /** Lets each writer do some more steps. */
    private void progress(int steps) throws InterruptedException {
        int[] before = writers.stream().mapToInt(Writer::acknowledged).toArray();
        long deadline = System.nanoTime() + TimeUnit.MINUTES.toNanos(2);
        for (int w = 0; w < writers.size(); w++)
            while (writers.get(w).acknowledged() < before[w] + steps) {
                assertThat(System.nanoTime()).describedAs("writers' progress").isLessThan(deadline);
                TimeUnit.MILLISECONDS.sleep(20);
            }
    }

    private void check() throws Exception {
        for (Writer writer : writers) writer.halt();
        for (Writer writer : writers) writer.join();
        cluster.awaitRing(3);
        cluster.node(1).nodetool("repair", "--full", "ks", table.substring(3));
        try (CqlSession all = cluster.session(ConsistencyLevel.ALL, CHECK)) {
            for (Writer writer : writers) writer.check(all);
        }
        int steps = writers.stream().mapToInt(Writer::acknowledged).sum();
        System.out.println("DockerIT " + table + ": " + steps + " steps");
    }

    @AfterEach
    void end() {
        for (Writer writer : writers) writer.halt();
        if (session != null) session.close();
    }

    @Test
    void aNodeIsKilledAndComesBack() throws Exception {
        begin("rocks");
        cluster.kill(3);
        progress(100);
        cluster.startAgain(3);
        progress(50);
        check();
    }

    @Test
    void aNodeStandsStill() throws Exception {
        begin("rocks");
        cluster.pause(2);
        progress(50);
        cluster.unpause(2);
        progress(50);
        check();
    }

    @Test
    void aNodeIsCutOff() throws Exception {
        begin("rocks");
        cluster.cutOff(3);
        progress(100);
        cluster.heal(3);
        progress(50);
        check();
    }

    @Test
    void nodesAreRestartedOneByOne() throws Exception {
        begin("rocks");
        for (int node = 1; node <= 3; node++) {
            cluster.stop(node);
            progress(30);
            cluster.startAgain(node);
            cluster.awaitRing(3);
        }
        check();
    }

    /** And back. */
    @Test
    void aTableIsMovedNodeByNode() throws Exception {
        begin("mixed");
        for (String memtable :
                new String[] {"dev.petra.cassandra.PetraMemtable", "SkipListMemtable"}) {
            for (int node = 1; node <= 3; node++) {
                cluster.put(node, "/var/lib/cassandra/own.yaml", mixed(memtable));
                cluster.stop(node);
                cluster.startAgain(node);
                cluster.awaitRing(3);
                progress(30);
            }
            for (int node = 1; node <= 3; node++) awaitMoves(cluster.node(node));
        }
        check();
    }

    private static void awaitMoves(PetraContainer node) throws IOException, InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MINUTES.toNanos(2);
        while (true) {
            String moves =
                    node.execInContainer("petra", "cql", "--json", "SELECT * FROM petra.moves")
                            .getStdout();
            if (moves.isBlank()) return;
            assertThat(System.nanoTime()).describedAs(moves).isLessThan(deadline);
            TimeUnit.SECONDS.sleep(1);
        }
    }
}
