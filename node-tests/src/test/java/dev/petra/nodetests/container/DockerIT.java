// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.container;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.docker.PetraContainer;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.Writer;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.testcontainers.images.builder.Transferable;

/**
 * Three nodes in containers, each table on all of them, written at QUORUM while things break. After
 * each test, and a repair: every acknowledged write is there at ALL, nothing deleted is back, and
 * every node answers.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class DockerIT {
    private static final int WRITERS = 4;

    /** How many times as long everything lasts. */
    private static final int LENGTH = Integer.getInteger("petra.docker.length", 1);

    private static final Duration REQUEST = Duration.ofSeconds(5);
    private static final Duration CHECK = Duration.ofSeconds(60);

    private static final String OURS = "dev.petra.cassandra.PetraMemtable";

    /** Settings that are not those of the image. */
    private static final String ENGINE = "\n      parameters: {engine: rocks, memory: 144MiB}\n";

    /** What each node has beside its variables. */
    private static final String OWN = "/var/lib/cassandra/own.yaml";

    /** Of node 3, in MiB. */
    private static final int DISK = 700;

    private static DockerCluster cluster;
    private static DockerCluster.SmallDisk disk;
    private static int tables;

    private CqlSession session;
    private String table;
    private final List<Writer> writers = new ArrayList<>();

    @BeforeAll
    static void start() throws Exception {
        DockerCluster.assumeThere("DockerIT");
        cluster = new DockerCluster();
        disk = cluster.smallDisk(DISK);
        cluster.add(node -> configure(node.withEnv("PETRA_EXPORTER_PORT", "7070")));
        cluster.add(node -> configure(withSkewedClock(node)));
        cluster.add(
                node -> {
                    configure(node);
                    // What is on the disk counts as its memory.
                    disk.mountIn(node.withMemory((1400L + DISK) << 20));
                });
        try (CqlSession session = cluster.session(ConsistencyLevel.QUORUM, CHECK)) {
            TestNode.createKeyspace(session, "ks", 3);
        }
    }

    private static void configure(PetraContainer node) {
        node.withEnv("PETRA_YAML", OWN)
                .withCopyToContainer(Transferable.of(mixed("SkipListMemtable")), OWN);
    }

    /** Its clock is ahead of the others'. */
    private static PetraContainer withSkewedClock(PetraContainer node) {
        return node.withEnv(
                        "JVM_EXTRA_OPTS",
                        DockerCluster.JVM + " -Dcassandra.clock=" + SkewedClock.class.getName())
                .withCopyToContainer(
                        Transferable.of(SkewedClock.jar()), "/opt/petra/lib/cassandra/skew.jar");
    }

    /** A configuration that differs from node to node. */
    private static String mixed(String memtable) {
        return "memtable:\n  configurations:\n    mixed:\n      class_name: "
                + memtable
                + (memtable.equals(OURS) ? ENGINE : "\n")
                + "    rocks_shadow:\n"
                + "      inherits: rocks\n"
                + "      parameters: {mode: shadow}\n"
                + "    rocks_fallback:\n"
                + "      inherits: rocks\n"
                + "      parameters: {mode: fallback}\n";
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

    private void begin(String memtable) throws Exception {
        session.execute(
                SimpleStatement.newInstance(
                                Writer.table(table) + " WITH memtable = '" + memtable + "'")
                        .setTimeout(CHECK));
        // Whoever prepares a write next may be another node, also one that the client took for
        // down.
        cluster.awaitReplicas(session, table);
        for (int w = 0; w < WRITERS; w++) {
            Writer writer = new Writer(session, table, 0, w).persistent();
            writers.add(writer);
            writer.start();
            assertThat(writer.started.await(2, TimeUnit.MINUTES)).isTrue();
        }
        progress(20);
    }

    /** Lets each writer do some more steps, or more of them in a long run. */
    private void progress(int steps) throws InterruptedException {
        int[] before = writers.stream().mapToInt(Writer::acknowledged).toArray();
        long deadline = System.nanoTime() + LENGTH * TimeUnit.MINUTES.toNanos(5);
        for (int w = 0; w < writers.size(); w++)
            while (writers.get(w).acknowledged() < before[w] + LENGTH * steps) {
                assertThat(System.nanoTime()).describedAs("writers' progress").isLessThan(deadline);
                TimeUnit.MILLISECONDS.sleep(20);
            }
    }

    private void check() throws Exception {
        for (Writer writer : writers) writer.halt();
        for (Writer writer : writers) writer.join();
        cluster.awaitReplicas(session, table);
        cluster.node(1).nodetool("repair", "--full", "ks", table.substring(3));
        try (CqlSession all = cluster.session(ConsistencyLevel.ALL, CHECK)) {
            for (Writer writer : writers) writer.check(all);
        }
        for (int node = 1; node <= cluster.size(); node++) {
            int number = node;
            // Within four seconds, which a busy machine may not have for it at once.
            TestNode.await(
                    "node " + number + " answers",
                    CHECK,
                    () -> !cluster.node(number).isRunning() || cluster.isAnswering(number));
        }
        int steps = writers.stream().mapToInt(Writer::acknowledged).sum();
        System.out.println("DockerIT " + table + ": " + steps + " steps");
    }

    @AfterEach
    void end() throws Exception {
        disk.free();
        for (Writer writer : writers) writer.halt();
        if (session != null) session.close();
    }

    @Test
    @Order(1)
    void aNodeIsKilledAndComesBack() throws Exception {
        begin("rocks");
        cluster.kill(3);
        progress(100);
        cluster.startAgain(3);
        progress(50);
        check();
    }

    @Test
    @Order(1)
    void aNodeStandsStill() throws Exception {
        begin("rocks");
        cluster.pause(2);
        progress(50);
        cluster.unpause(2);
        progress(50);
        check();
    }

    @Test
    @Order(1)
    void aNodeIsCutOff() throws Exception {
        begin("rocks");
        cluster.cutOff(3);
        progress(100);
        cluster.heal(3);
        progress(50);
        check();
    }

    private static void assumeNetworkCanBeChanged() throws Exception {
        boolean possible = DockerCluster.canWorsen();
        if (!possible)
            System.out.println("*** Links are NOT WORSENED: it needs root, tc and iptables ***");
        assumeTrue(possible);
    }

    /** Both see the third, which sees both. */
    @Test
    @Order(1)
    void twoNodesDoNotHearEachOther() throws Exception {
        assumeNetworkCanBeChanged();
        begin("rocks");
        cluster.separate(2, 3);
        progress(100);
        cluster.join(2, 3);
        progress(50);
        check();
    }

    @Test
    @Order(1)
    void linksAreSlowAndLossy() throws Exception {
        assumeNetworkCanBeChanged();
        begin("rocks");
        cluster.worsen(2);
        cluster.worsen(3);
        progress(50);
        cluster.mend(2);
        cluster.mend(3);
        progress(50);
        check();
    }

    @Test
    @Order(1)
    void aDiskFillsAndIsFreed() throws Exception {
        begin("rocks");
        session.execute(
                SimpleStatement.newInstance(
                                "CREATE TABLE "
                                        + table
                                        + "l (p int PRIMARY KEY, v text) WITH"
                                        + " memtable = 'rocks'")
                        .setTimeout(CHECK));
        disk.fill();
        for (int p = 0; p < 200; p++) writeMuch(p);
        // Cassandra's own log is mapped into memory: where it has no room, the JVM ends. The others
        // have acknowledged what this node may still be writing.
        TestNode.await(
                "word of the full disk",
                Duration.ofMinutes(2),
                () -> {
                    String log = cluster.node(3).getLogs();
                    return log.contains("No space left on device") || log.contains("SIGBUS");
                });
        disk.free();
        if (!cluster.isAnswering(3)) {
            cluster.stop(3);
            cluster.startAgain(3);
        }
        progress(50);
        check();
    }

    private void writeMuch(int p) throws InterruptedException {
        SimpleStatement insert =
                SimpleStatement.newInstance(
                        "INSERT INTO " + table + "l (p, v) VALUES (?, ?)", p, "x".repeat(50_000));
        for (int tries = 0; ; tries++)
            try {
                session.execute(insert);
                return;
            } catch (DriverException e) {
                // By the node without room, perhaps.
                if (tries == 50) throw e;
                TimeUnit.MILLISECONDS.sleep(100);
            }
    }

    @Test
    @Order(1)
    void aNodeReachesItsMemoryLimit() throws Exception {
        begin("rocks");
        // The kernel ends the node, not the one that takes what is left.
        cluster.node(2)
                .execInContainer("sh", "-c", "echo 1000 > /proc/1/oom_score_adj && tail /dev/zero");
        cluster.awaitEnd(2);
        // Docker hears of it from the kernel, and may hear of the end first.
        TestNode.await(
                "that it ended for want of memory",
                CHECK,
                () -> Boolean.TRUE.equals(cluster.awaitEnd(2).getOOMKilled()));
        progress(50);
        cluster.startAgain(2);
        progress(50);
        check();
    }

    @Test
    @Order(1)
    void aContainerThatCannotRunSaysWhyLast() throws Exception {
        assertThat(refusal(1, "--env=CASSANDRA_NUM_TOKENS=many"))
                .contains("CASSANDRA_NUM_TOKENS is 'many', which is no number");
        assertThat(refusal(1, "--env=MAX_HEAP_SIZE=lots")).contains("'lots' is no heap size");
        assertThat(refusal(1, "--env=PETRA_YAML=/none")).contains("/none, which cannot be read");
        assertThat(refusal(1, "--memory=300m")).contains("300 MiB").contains("more memory");
        assertThat(refusal(1, "--tmpfs=/var/lib/cassandra:uid=0,mode=755"))
                .contains("/var/lib/cassandra cannot be written by user cassandra");
        assertThat(refusal(1, "--network=container:" + cluster.node(1).getContainerId()))
                .contains("port 7000")
                .contains("is not free");
        assertThat(refusal(100, "--env=PETRA_MEMORY=much"))
                .contains("Setting 'memory' is 'much'")
                .contains("512MiB");
    }

    /** A volume that a newer version wrote, which an older one must not take for an empty one. */
    @Test
    @Order(1)
    void aVolumeOfANewerFormatIsRefused() throws Exception {
        String volume = "--volume=petra-newer:/var/lib/cassandra";
        String store = "/var/lib/cassandra/data/ks/t-1/rocksdb/7";
        docker(
                0,
                "run",
                "--rm",
                volume,
                "--entrypoint=sh",
                DockerCluster.IMAGE,
                "-c",
                "mkdir -p " + store + " && echo format=99 > " + store + "/PETRA");
        try {
            assertThat(refusal(3, volume)).contains(store).contains("says format 99");
        } finally {
            docker(0, "volume", "rm", "petra-newer");
        }
    }

    /** As docker/compose.yaml has Prometheus ask for them. */
    @Test
    @Order(1)
    void metricsAreShownToPrometheus() throws Exception {
        URI metrics = URI.create("http://" + cluster.address(1) + ":7070/metrics");
        assertThat(
                        HttpClient.newHttpClient()
                                .send(
                                        HttpRequest.newBuilder(metrics).build(),
                                        HttpResponse.BodyHandlers.ofString())
                                .body())
                .contains("org_apache_cassandra_metrics_Petra_Value");
    }

    /** Its last line. */
    private static String refusal(int exitCode, String... options)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("run", "--rm", "--memory=1g"));
        command.addAll(List.of(options));
        command.add(DockerCluster.IMAGE);
        return docker(exitCode, command.toArray(String[]::new))
                .strip()
                .lines()
                .reduce("", (before, line) -> line);
    }

    private static String docker(int exitCode, String... arguments)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("docker"));
        command.addAll(List.of(arguments));
        NodeTool.Result result = Commands.run(command.toArray(String[]::new));
        assertThat(result.exitCode()).describedAs(result.output()).isEqualTo(exitCode);
        return result.output();
    }

    @Test
    @Order(2)
    void aNodeIsAddedAndOneIsReplaced() throws Exception {
        begin("rocks");
        cluster.add(DockerIT::configure);
        cluster.awaitRing(4);
        progress(50);
        cluster.kill(3);
        progress(50);
        cluster.add(
                node ->
                        node.withEnv(
                                "JVM_EXTRA_OPTS",
                                DockerCluster.JVM
                                        + " -Dcassandra.replace_address_first_boot="
                                        + cluster.address(3)));
        progress(50);
        check();
        cluster.awaitRing(4);
        for (int node : new int[] {1, 2, 4, 5}) {
            cluster.node(node).nodetool("cleanup", "ks");
            cluster.node(node)
                    .nodetool(
                            "verify", "--force", "-e", "--check-tokens", "ks", table.substring(3));
        }
    }

    /**
     * Each gets other settings of the engine, and a table moves into it; then it goes back, in a
     * short run on the last node only.
     */
    @Test
    @Order(1)
    void nodesAreReconfiguredAndATableIsMigratedNodeByNode() throws Exception {
        begin("mixed");
        for (boolean in : new boolean[] {true, false}) {
            for (int node = in || LENGTH > 1 ? 1 : 3; node <= 3; node++) {
                cluster.put(
                        node,
                        OWN,
                        in
                                ? mixed(OURS) + "    rocks:\n      class_name: " + OURS + ENGINE
                                : mixed("SkipListMemtable"));
                cluster.stop(node);
                if (in && node == 1)
                    assertThat(
                                    refusal(
                                            1,
                                            "--volumes-from",
                                            cluster.node(node).getContainerId(),
                                            "--env=CASSANDRA_CLUSTER_NAME=Other"))
                            .contains("is of a node of the cluster 'Petra', not of 'Other'");
                progress(30);
                cluster.startAgain(node);
                cluster.awaitReplicas(session, table);
                if (in)
                    assertThat(
                                    cluster.node(node)
                                            .execInContainer(
                                                    "petra",
                                                    "cql",
                                                    "--json",
                                                    "SELECT * FROM petra.settings")
                                            .getStdout())
                            .contains("144");
            }
            cluster.awaitMigrations(session);
        }
        check();
    }

    /** What {@code docs/adopting.md} does, with a node that ends in each step. */
    @Test
    @Order(1)
    void aTableIsShadowedAnsweredFromThereTakenIntoTheEngineAndMovedBackWhileNodesEnd()
            throws Exception {
        begin("default");
        alter("rocks_shadow");
        cluster.kill(3);
        progress(50);
        cluster.startAgain(3);
        cluster.awaitShadows(session, table);
        progress(20);

        alter("rocks_fallback");
        cluster.kill(1);
        progress(50);
        cluster.startAgain(1);
        cluster.awaitAnsweringShadows(session, table);
        cluster.awaitReplicas(session, table);
        for (Writer writer : writers) writer.checkMeanwhile(session);

        alter("rocks");
        cluster.kill(2);
        progress(50);
        cluster.startAgain(2);
        cluster.awaitMigrations(session);
        // The shadow of a node that was killed is not whole: there it is the SSTables.
        for (int node : new int[] {1, 3})
            assertThat(cluster.node(node).getLogs())
                    .contains("The shadow of " + table + " is in the table's store");
        cluster.cutOff(3);
        progress(50);
        cluster.heal(3);
        // The client's connections from before may still wait for what was lost.
        cluster.awaitReplicas(session, table);

        alter("default");
        cluster.kill(1);
        progress(50);
        cluster.startAgain(1);
        cluster.awaitMigrations(session);
        check();
    }

    /** Returns when all nodes have heard of it. */
    private void alter(String memtable) {
        session.execute(
                SimpleStatement.newInstance(
                                "ALTER TABLE " + table + " WITH memtable = '" + memtable + "'")
                        .setTimeout(CHECK));
        assertThat(session.checkSchemaAgreement()).isTrue();
    }
}
