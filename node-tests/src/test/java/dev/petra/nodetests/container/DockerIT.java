// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.container;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import dev.petra.docker.PetraContainer;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.OneOf;
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
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.testcontainers.containers.Container;
import org.testcontainers.images.builder.Transferable;

/**
 * Three nodes in containers, each table on all of them, written at QUORUM while things break. After
 * each test, and a repair: every acknowledged write is there at ALL, nothing deleted is back, and
 * every node answers.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class DockerIT {
    private static final int WRITERS = 4;

    private static final int LENGTH = DockerCluster.LENGTH;

    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());

    /** The step of {@link #killMeanwhile} in which a short run kills a node. */
    private static final int KILLED_IN = new SplittableRandom(SEED).nextInt(3);

    private static final Duration REQUEST = Duration.ofSeconds(5);
    private static final Duration CHECK = Duration.ofSeconds(60);

    private static final String OURS = "dev.petra.cassandra.PetraMemtable";

    /** Settings that are not those of the image. */
    private static final String ENGINE = "\n      parameters: {engine: rocks, memory: 144MiB}\n";

    private static final String SHADOW = "mode: shadow, compared_share: 1";

    /** A configuration that becomes another one, and what it becomes. */
    private static final String SHADOW_BY_RESTART = engine("by_restart", SHADOW);

    private static final String ENGINE_BY_RESTART = engine("by_restart", "");

    /** What each node has beside its variables. */
    private static final String OWN = "/var/lib/cassandra/own.yaml";

    /** Of node 3, in MiB. */
    private static final int DISK = 700;

    private static DockerCluster cluster;
    private static DockerCluster.SmallDisk disk;
    private static int tables;

    private CqlSession session;

    /** The last that was created. */
    private String table;

    /** All tables of the test. */
    private final List<String> written = new ArrayList<>();

    private final List<Writer> writers = new ArrayList<>();

    @BeforeAll
    static void start() throws Exception {
        DockerCluster.assumeThere("DockerIT");
        System.out.println("DockerIT: -Dpetra.seed=" + SEED);
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
            assertThat(session.checkSchemaAgreement()).isTrue();
        }
    }

    private static void configure(PetraContainer node) {
        String own = mixed(cluster.size() + 1, "SkipListMemtable", SHADOW_BY_RESTART);
        node.withEnv("PETRA_YAML", OWN).withCopyToContainer(Transferable.of(own), OWN);
    }

    /** Its clock is ahead of the others'. */
    private static PetraContainer withSkewedClock(PetraContainer node) {
        return node.withEnv(
                        "JVM_EXTRA_OPTS",
                        DockerCluster.JVM + " -Dcassandra.clock=" + SkewedClock.class.getName())
                .withCopyToContainer(
                        Transferable.of(SkewedClock.jar()), "/opt/petra/lib/cassandra/skew.jar");
    }

    /** Configurations that differ from node to node, and shadows of which each read is compared. */
    private static String mixed(int node, String memtable, String byRestart) {
        return "memtable:\n  configurations:\n    mixed:\n      class_name: "
                + memtable
                + (memtable.equals(OURS) ? ENGINE : "\n")
                + engine("rocks_shadow", SHADOW)
                + engine("rocks_fallback", "mode: fallback, compared_share: 1")
                + engine("rocks_on_1", node == 1 ? "" : SHADOW)
                + engine("rocks_on_1_and_2", node <= 2 ? "" : SHADOW)
                + byRestart;
    }

    /** A configuration with the settings of the image and others. */
    private static String engine(String name, String parameters) {
        return "    " + name + ":\n      inherits: rocks\n      parameters: {" + parameters + "}\n";
    }

    @AfterAll
    static void stop() {
        if (cluster != null) cluster.close();
    }

    private void begin(String memtable) throws Exception {
        begin(memtable, WRITERS);
    }

    /** Creates one more table of the test, which is written from now on. */
    private void begin(String memtable, int count) throws Exception {
        if (session == null) session = cluster.session(ConsistencyLevel.QUORUM, REQUEST);
        table = "ks.t" + ++tables;
        written.add(table);
        change(Writer.table(table) + " WITH memtable = '" + memtable + "'");
        // Whoever prepares a write next may be another node, also one that the client took for
        // down.
        cluster.awaitReplicas(session, table);
        for (int w = 0; w < count; w++) {
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
        awaitReplicas();
        repair(1);
        try (CqlSession all = cluster.session(ConsistencyLevel.ALL, CHECK)) {
            for (Writer writer : writers) writer.check(all);
        }
        awaitReplicas();
        int steps = writers.stream().mapToInt(Writer::acknowledged).sum();
        System.out.println("DockerIT " + written + ": " + steps + " steps");
    }

    /** Waits until each node that runs answers from all that hold the tables. */
    private void awaitReplicas() throws InterruptedException {
        for (String each : written) cluster.awaitReplicas(session, each);
    }

    private void repair(int node) throws Exception {
        List<String> command = new ArrayList<>(List.of("repair", "--full", "ks"));
        for (String each : written) command.add(each.substring(3));
        cluster.node(node).nodetool(command.toArray(String[]::new));
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
        assumeTrue(
                LENGTH > 1,
                "other tests kill one, or the kernel does; here with -Dpetra.docker.length=2");
        begin("rocks");
        cluster.kill(3);
        progress(60);
        cluster.startAgain(3);
        progress(50);
        check();
    }

    @Test
    @Order(1)
    @OneOf(variants = "DockerIT, a node that is not heard", of = 4, number = 1)
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
    @OneOf(variants = "DockerIT, a node that is not heard", of = 4, number = 2)
    void aNodeIsCutOff() throws Exception {
        begin("rocks");
        cluster.cutOff(3);
        progress(60);
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
    @OneOf(variants = "DockerIT, a node that is not heard", of = 4, number = 3)
    void twoNodesDoNotHearEachOther() throws Exception {
        assumeNetworkCanBeChanged();
        begin("rocks");
        cluster.separate(2, 3);
        progress(60);
        cluster.join(2, 3);
        progress(50);
        check();
    }

    @Test
    @Order(1)
    @OneOf(variants = "DockerIT, a node that is not heard", of = 4, number = 4)
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
    @OneOf(variants = "DockerIT, journeys and no room", of = 6, number = 5)
    void aDiskFillsAndIsFreed() throws Exception {
        begin("rocks");
        change("CREATE TABLE " + table + "l (p int PRIMARY KEY, v text) WITH memtable = 'rocks'");
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
    @OneOf(variants = "DockerIT, journeys and no room", of = 6, number = 6)
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
    @OneOf(variants = "DockerIT, containers that end at once", of = 2, number = 1)
    void aContainerThatCannotRunSaysWhyLast() throws Exception {
        assertThat(refusal(1, "--env=CASSANDRA_NUM_TOKENS=many"))
                .contains("CASSANDRA_NUM_TOKENS is 'many', which is no number");
        // ContainerEnvironmentTest has these, too.
        if (LENGTH > 1) {
            assertThat(refusal(1, "--env=MAX_HEAP_SIZE=lots")).contains("'lots' is no heap size");
            assertThat(refusal(1, "--env=PETRA_YAML=/none"))
                    .contains("/none, which cannot be read");
        }
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
    @OneOf(variants = "DockerIT, containers that end at once", of = 2, number = 2)
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
    @OneOf(variants = "DockerIT, journeys and no room", of = 6, number = 4)
    void aNodeIsAddedAndOneIsReplaced() throws Exception {
        begin("rocks");
        cluster.add(DockerIT::configure);
        awaitReplicas();
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
            // The new ones have got nothing that they do not own.
            if (node <= 2 || LENGTH > 1) cluster.node(node).nodetool("cleanup", "ks");
            cluster.node(node)
                    .nodetool(
                            "verify", "--force", "-e", "--check-tokens", "ks", table.substring(3));
        }
    }

    /**
     * Each gets other settings of the engine, and two tables move into it. One has a name that
     * means Cassandra's own storage at first, and one a name that means a shadow at first: no ALTER
     * takes a shadow in, so each node migrates its SSTables. Then the first table goes back, in a
     * short run on the last node only.
     */
    @Test
    @Order(1)
    @OneOf(variants = "DockerIT, journeys and no room", of = 6, number = 1)
    void nodesAreReconfiguredAndTablesAreMigratedNodeByNode() throws Exception {
        begin("mixed", WRITERS / 2);
        begin("by_restart", WRITERS / 2);
        cluster.awaitShadows(session, table);
        compare(3);
        for (int node = 1; node <= 3; node++) {
            cluster.put(
                    node,
                    OWN,
                    mixed(node, OURS, ENGINE_BY_RESTART)
                            + "    rocks:\n      class_name: "
                            + OURS
                            + ENGINE);
            if (node == 2) cluster.kill(node);
            else cluster.stop(node);
            if (node == 1)
                assertThat(
                                refusal(
                                        1,
                                        "--volumes-from",
                                        cluster.node(node).getContainerId(),
                                        "--env=CASSANDRA_CLUSTER_NAME=Other"))
                        .contains("is of a node of the cluster 'Petra', not of 'Other'");
            progress(30);
            cluster.startAgain(node);
            awaitReplicas();
            assertThat(cluster.settings(session, node))
                    .anyMatch(setting -> setting.contains("144"));
            assertThat(cluster.node(node).getLogs())
                    .containsPattern("Deleted .*/t" + tables + "-.*: its table has no shadow");
            if (node == 1) {
                assertThatTheImageHasTheCommand();
                repairWhileNodesDiffer(2);
            }
        }
        cluster.awaitMigrations(session);
        cluster.awaitNoShadows(session, table);
        for (int node = 1; node <= 3; node++)
            assertThat(cluster.node(node).getLogs())
                    .contains(migration("begins"), migration("is over"))
                    .doesNotContain(taken());
        for (int node = LENGTH > 1 ? 1 : 3; node <= 3; node++) {
            cluster.put(node, OWN, mixed(node, "SkipListMemtable", ENGINE_BY_RESTART));
            cluster.stop(node);
            progress(30);
            cluster.startAgain(node);
            awaitReplicas();
        }
        cluster.awaitMigrations(session);
        check();
        // Else nodes that are added, which have the first configuration, would shadow it.
        change("DROP TABLE " + table);
    }

    private static void assertThatTheImageHasTheCommand() throws Exception {
        assertThat(
                        cluster.node(1)
                                .execInContainer(
                                        "petra", "cql", "--json", "SELECT * FROM petra.settings")
                                .getStdout())
                .contains("144");
    }

    /** By names that mean the engine on one node more each, and its shadow on the others. */
    @Test
    @Order(1)
    @OneOf(variants = "DockerIT, journeys and no room", of = 6, number = 2)
    void shadowsAreTakenIntoTheEngineNodeByNode() throws Exception {
        begin("rocks_shadow");
        cluster.awaitShadows(session, table);
        compare(3);
        int backs = goBackWithTheFirst() ? 1 : 0;
        String[] names = {"rocks_on_1", "rocks_on_1_and_2", "rocks"};
        for (int node = 1; node <= 3; node++) {
            alter(names[node - 1]);
            // One whose shadow stays, in the first step.
            if (node == 1) cluster.cutOff(3);
            progress(30);
            if (node == 1) cluster.heal(3);
            cluster.awaitReplicas(session, table);
            cluster.awaitMigrations(session);
            for (int each = 1; each <= 3; each++)
                assertThat(timesTaken(each))
                        .describedAs("node %d, when it is at node %d", each, node)
                        .isEqualTo((each <= node ? 1 : 0) + (each == 1 ? backs : 0));
            if (node == 1) repairWhileNodesDiffer(2);
            else compare(3 - node);
        }
        check();
    }

    /**
     * Takes the shadow of the first node into the engine, and all nodes back to Cassandra's storage
     * and to shadows, as {@code docs/operations.md} has it; in a run in which that is drawn.
     */
    private boolean goBackWithTheFirst() throws Exception {
        if (!Drawn.of("DockerIT, the first node goes back", List.of(true, false)).contains(true))
            return false;
        alter("rocks_on_1");
        progress(20);
        cluster.awaitReplicas(session, table);
        cluster.awaitMigrations(session);
        assertThat(cluster.node(1).getLogs()).contains(taken());
        alter("default");
        progress(20);
        cluster.awaitReplicas(session, table);
        cluster.awaitMigrations(session);
        cluster.awaitNoShadows(session, table);
        for (Writer writer : writers) writer.checkMeanwhile(session);
        alter("rocks_shadow");
        cluster.awaitShadows(session, table);
        compare(3);
        return true;
    }

    private void repairWhileNodesDiffer(int shadows) throws Exception {
        repair(2);
        compare(shadows);
    }

    private String migration(String what) {
        return "The migration of " + table + " into its engine " + what;
    }

    private String taken() {
        return "The shadow of " + table + " is its store";
    }

    private long timesTaken(int node) {
        return cluster.node(node).getLogs().lines().filter(line -> line.contains(taken())).count();
    }

    /**
     * Writes go on while a node is dead; in a short run only in the step that is drawn. {@code
     * FallbackPointsIT} and {@code CrashPointsIT} kill single nodes in each of these steps.
     */
    private void killMeanwhile(int node, int step) throws InterruptedException {
        boolean killed = LENGTH > 1 || step == KILLED_IN;
        if (killed) cluster.kill(node);
        progress(50);
        if (killed) cluster.startAgain(node);
    }

    /**
     * What {@code docs/adopting.md} does, with a node that ends in each step; in a short run, in
     * three of the five.
     */
    @Test
    @Order(1)
    @OneOf(variants = "DockerIT, journeys and no room", of = 6, number = 3)
    void aTableIsShadowedAnsweredFromThereTakenIntoTheEngineAndMovedBackWhileNodesEnd()
            throws Exception {
        begin("default");
        alter("rocks_shadow");
        cluster.kill(3);
        progress(50);
        assertThatReportLacks(3);
        cluster.startAgain(3);
        cluster.awaitShadows(session, table);
        progress(20);
        compare(3);
        assertThatReportIsWell();

        alter("rocks_fallback");
        killMeanwhile(1, 0);
        cluster.awaitAnsweringShadows(session, table);
        compare(3);
        assertThat(cluster.shadows(session, table))
                .allSatisfy(row -> assertThat(row.getLong("answered")).isPositive());

        alter("default");
        killMeanwhile(3, 1);
        cluster.awaitNoShadows(session, table);
        cluster.awaitReplicas(session, table);
        for (Writer writer : writers) writer.checkMeanwhile(session);
        alter("rocks_shadow");
        cluster.awaitShadows(session, table);
        compare(3);
        // As before.
        if (LENGTH > 1) assertThatReportIsWell();

        alter("rocks");
        cluster.kill(2);
        progress(50);
        cluster.startAgain(2);
        cluster.awaitMigrations(session);
        // The shadow of a node that was killed is not whole: there it is the SSTables.
        for (int node : new int[] {1, 3})
            assertThat(cluster.node(node).getLogs()).contains(taken());
        cluster.cutOff(3);
        progress(50);
        cluster.heal(3);
        // The client's connections from before may still wait for what was lost.
        cluster.awaitReplicas(session, table);

        alter("default");
        killMeanwhile(1, 2);
        cluster.awaitMigrations(session);
        check();
    }

    /** Reads until each shadow has had another equal answer; none has had one that differs. */
    private void compare(int shadows) throws Exception {
        cluster.awaitReplicas(session, table);
        // So that each node is asked.
        try (CqlSession all = cluster.session(ConsistencyLevel.ALL, CHECK)) {
            List<Long> before = counts(all, "equal");
            assertThat(before).hasSize(shadows);
            TestNode.await(
                    "equal answers of each shadow",
                    Duration.ofMinutes(2),
                    () -> {
                        for (Writer writer : writers) writer.checkMeanwhile(all);
                        assertThatNoneDiffers(all, shadows);
                        List<Long> now = counts(all, "equal");
                        return IntStream.range(0, shadows)
                                .allMatch(each -> now.get(each) > before.get(each));
                    });
            assertThatNoneDiffers(all, shadows);
        }
    }

    private void assertThatNoneDiffers(CqlSession all, int shadows) {
        assertThat(counts(all, "different"))
                .describedAs("answers that differ, on each node")
                .hasSize(shadows)
                .allMatch(count -> count == 0);
    }

    private List<Long> counts(CqlSession all, String column) {
        return cluster.shadows(all, table).stream().map(row -> row.getLong(column)).toList();
    }

    private void assertThatReportIsWell() throws Exception {
        Container.ExecResult report = report();
        assertThat(report.getExitCode()).describedAs("%s", report).isZero();
        assertThat(report.getStdout())
                .contains(table + ": 3 of 3 nodes have caught up", " different: 0,")
                .doesNotContain("Not asked");
    }

    private void assertThatReportLacks(int node) throws Exception {
        Container.ExecResult report = report();
        assertThat(report.getExitCode()).describedAs("%s", report).isEqualTo(1);
        assertThat(report.getStdout())
                .contains(table + ": 2 of 3 nodes have caught up")
                .containsOnlyOnce("Not asked: ")
                .contains("Not asked: " + cluster.address(node) + ":" + PetraContainer.CQL_PORT);
    }

    /** Of all nodes, by the first. */
    private static Container.ExecResult report() throws IOException, InterruptedException {
        return cluster.node(1).execInContainer("petra", "shadow", "report");
    }

    private void alter(String memtable) throws Exception {
        TestNode.await(
                "ALTER to " + memtable,
                CHECK,
                () -> {
                    try {
                        change("ALTER TABLE " + table + " WITH memtable = '" + memtable + "'");
                        return true;
                    } catch (InvalidQueryException e) {
                        // Gossip takes seconds to tell that a shadow has caught up.
                        assertThat(e).hasMessageContaining("as was said by gossip");
                        return false;
                    }
                });
    }

    /** Changes the schema; returns when all nodes have heard of it. */
    private void change(String statement) {
        session.execute(SimpleStatement.newInstance(statement).setTimeout(CHECK));
        assertThat(session.checkSchemaAgreement()).isTrue();
    }
}
