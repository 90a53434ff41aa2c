// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import dev.petra.launcher.Distribution;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TableLife;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.WovenHome;
import dev.petra.nodetests.fixture.Writer;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.function.IntFunction;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The same plugin in other releases of Cassandra: each with the libraries of the release that the
 * build is for, which are the same, or as good as. {@code -P long} has all of them; each other
 * build draws one that starts alone and another one for the cluster, and prints the seed.
 */
class ReleasesIT {
    /** What the build of the plugin gathers. */
    private static final Path RELEASES = Path.of("..", "cassandra", "target", "releases");

    private static final Duration PATIENCE = Duration.ofMinutes(5);
    private static final int NODES = 3;
    private static final int PARTITIONS = 70;

    /** Of each seven partitions with three rows {@link Contents#deleteFrom} leaves 16 rows. */
    private static final int LEFT = PARTITIONS / 7 * 16 + PARTITIONS;

    private static final String CONTENT = "SELECT p, c, v, s, writetime(v) FROM ks.t";
    private static final String WRITTEN =
            "SELECT cycle, writer, step, v, writetime(v) FROM ks.load";

    @TempDir Path directory;

    private static final String DRAWN = "drawn";

    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());

    static List<String> releases() throws IOException {
        return chosen("petra.releases", 0);
    }

    /** What a property lists, or one of all that there are. */
    private static List<String> chosen(String property, int number) throws IOException {
        String listed = System.getProperty(property, DRAWN);
        if (!listed.equals(DRAWN)) return List.of(listed.split(",", -1));
        List<String> all = new ArrayList<>();
        try (DirectoryStream<Path> jars =
                Files.newDirectoryStream(RELEASES, "cassandra-all-*.jar")) {
            for (Path jar : jars)
                all.add(jar.getFileName().toString().replaceAll("^cassandra-all-|[.]jar$", ""));
        }
        assertThat(all).hasSizeGreaterThan(1).doesNotContain(ofTheBuild());
        Collections.sort(all);
        Collections.shuffle(all, new Random(SEED));
        String drawn = all.get(number);
        System.out.println(
                "ReleasesIT: " + property + "=" + drawn + ", drawn by -Dpetra.seed=" + SEED);
        return List.of(drawn);
    }

    @ParameterizedTest
    @MethodSource("releases")
    void aTableLives(String release) throws Exception {
        Path home = directory.resolve("home");
        make(release, home);
        UnaryOperator<NodeConfig.Builder> other =
                options -> options.home(home).agent(true).jvmOptions(TestNode.VERIFIED);
        Path data = directory.resolve("node");
        try (TestNode node = TestNode.start(data, other)) {
            assertThat(node.process().log())
                    .contains("with Cassandra " + release + ", woven by the agent");
            assertThat(node.process().log()).doesNotContain("was not tested");
            TableLife.live(node);
            node.process().stop();
        }
        // Upgraded, to the release of the build.
        try (TestNode node =
                TestNode.start(
                        data,
                        options -> options.home(WovenHome.STOCK).agent(true).overwriteConf(true))) {
            assertThat(node.process().logSinceStart()).doesNotContain(release + ", woven");
            TableLife.check(node);
        }
    }

    @ParameterizedTest
    @EnabledIfSystemProperty(named = "petra.releases.woven", matches = "true")
    @MethodSource("releases")
    void aTableLivesInAWovenJar(String release) throws Exception {
        Path stock = directory.resolve("stock");
        make(release, stock);
        Path home = directory.resolve("home");
        WovenHome.make(stock, home);
        UnaryOperator<NodeConfig.Builder> other = options -> options.home(home).agent(false);
        try (TestNode node = TestNode.start(directory.resolve("node"), other)) {
            assertThat(node.process().log())
                    .contains("with Cassandra " + release + ", woven into its jar");
            TableLife.live(node);
        }
    }

    /** What the three nodes of a cluster are of at first: one release, or one for each. */
    static List<String> clusters() throws IOException {
        return chosen("petra.releases.clusters", 1);
    }

    /**
     * Each of three nodes is upgraded to the release of the build, while clients write at QUORUM.
     * What a node of the one release has missed it gets from nodes of the other, both ways.
     */
    @ParameterizedTest
    @MethodSource("clusters")
    @OneOf(variants = "clusters that change", of = 4, number = 4)
    void aClusterIsUpgradedUnderLoad(String releases) throws Exception {
        List<String> before = List.of(releases.split("[+]", -1));
        List<TestNode> nodes = new ArrayList<>();
        int storagePort = FreePorts.next();
        int cqlPort = FreePorts.next();
        IntFunction<UnaryOperator<NodeConfig.Builder>> members =
                number -> options -> member(options, number, storagePort, cqlPort);
        try {
            for (int n = 0; n < NODES; n++) {
                String release = before.get(n % before.size());
                Path home = directory.resolve(release);
                if (!Files.exists(home)) make(release, home);
                // That the agent's code is right is seen once.
                String[] verified = n == 0 ? new String[] {TestNode.VERIFIED} : new String[0];
                UnaryOperator<NodeConfig.Builder> member = members.apply(n);
                nodes.add(
                        TestNode.begin(
                                directory.resolve("node" + n),
                                options ->
                                        member.apply(options)
                                                .home(home)
                                                .agent(true)
                                                .jvmOptions(verified)));
                // The others at once, when there is one to join.
                if (n == 0) nodes.get(n).process().awaitCql(PATIENCE);
            }
            for (int n = 0; n < NODES; n++) {
                nodes.get(n).process().awaitCql(PATIENCE);
                assertThat(nodes.get(n).process().log())
                        .contains("with Cassandra " + before.get(n % before.size()))
                        .contains(", woven by the agent");
            }
            awaitRing(nodes);
            try (CqlSession session = nodes.get(0).session(ConsistencyLevel.QUORUM)) {
                TestNode.createKeyspace(session, "ks", NODES);
                session.execute(
                        "CREATE TABLE ks.t (p int, c int, v text, s text static,"
                                + " PRIMARY KEY (p, c)) WITH memtable = 'rocks'"
                                + " AND read_repair = 'NONE'");
                session.execute(Writer.table("ks.load") + " WITH memtable = 'rocks'");
                for (int p = 0; p < PARTITIONS; p++)
                    for (int c = 0; c < 3; c++)
                        session.execute(
                                "INSERT INTO ks.t (p, c, v, s) VALUES (?, ?, 'v', 's')", p, c);
                List<Writer> writers = new ArrayList<>();
                for (int w = 0; w < 3; w++)
                    writers.add(new Writer(session, "ks.load", 0, w).persistent());
                writers.forEach(Thread::start);
                for (Writer writer : writers) writer.started.await();

                upgrade(nodes, 0, members, session, writers, () -> change(session, 0));
                // Of the other release, and after writes that a node of the build coordinated.
                nodes.get(2).process().stop();
                change(session, PARTITIONS / 2);
                nodes.get(2).restart();
                awaitRing(nodes);
                Set<String> expected = Contents.alone(nodes.get(1), CONTENT);
                assertThat(expected).hasSize(LEFT);
                for (int n : new int[] {0, 2})
                    assertThat(Contents.alone(nodes.get(n), CONTENT)).isNotEqualTo(expected);
                nodes.get(0).nodetool("repair", "-full", "ks");
                for (TestNode node : nodes)
                    assertThat(Contents.alone(node, CONTENT)).isEqualTo(expected);
                for (int n : new int[] {0, 2})
                    assertThat(nodes.get(n).process().log()).contains("slices into ks.t");

                upgrade(nodes, 1, members, session, writers, () -> {});
                upgrade(nodes, 2, members, session, writers, () -> {});
                for (Writer writer : writers) {
                    writer.halt();
                    writer.join();
                    assertThat(writer.failure()).isNull();
                    writer.check(session);
                }
                nodes.get(2).nodetool("repair", "-full", "ks");
                Set<String> written = Contents.alone(nodes.get(0), WRITTEN);
                assertThat(written).isNotEmpty();
                for (TestNode node : nodes) {
                    assertThat(Contents.alone(node, CONTENT)).isEqualTo(expected);
                    assertThat(Contents.alone(node, WRITTEN)).isEqualTo(written);
                }
                writers.forEach(writer -> writer.check(session));
            }
        } finally {
            nodes.forEach(TestNode::close);
        }
    }

    private static NodeConfig.Builder member(
            NodeConfig.Builder options, int number, int storagePort, int cqlPort) {
        return options.address("127.0.0." + (number + 1))
                .storagePort(storagePort)
                .nativePort(cqlPort)
                .seeds(List.of("127.0.0.1:" + storagePort))
                .numTokens(4)
                // There is nothing to stream.
                .autoBootstrap(false)
                .overwriteConf(true)
                .yaml(Map.of("hinted_handoff_enabled", false));
    }

    /** Stops a node, and starts it with the release of the build. */
    private void upgrade(
            List<TestNode> nodes,
            int number,
            IntFunction<UnaryOperator<NodeConfig.Builder>> members,
            CqlSession session,
            List<Writer> writers,
            Runnable meanwhile)
            throws Exception {
        nodes.get(number).process().stop();
        List<Integer> before = writers.stream().map(Writer::acknowledged).toList();
        meanwhile.run();
        for (int w = 0; w < writers.size(); w++) {
            Writer writer = writers.get(w);
            int step = before.get(w) + 20;
            TestNode.await(
                    writer.getName() + " with a node gone",
                    PATIENCE,
                    () -> {
                        writer.assertIsWriting();
                        return writer.acknowledged() >= step;
                    });
            writer.checkMeanwhile(session);
        }
        // In the form that nodes of this run have, and not of the first release's home any more.
        nodes.set(
                number, TestNode.start(directory.resolve("node" + number), members.apply(number)));
        assertThat(nodes.get(number).process().logSinceStart())
                .contains("with Cassandra " + ofTheBuild() + ", woven ");
        awaitRing(nodes);
    }

    private static void awaitRing(List<TestNode> nodes) throws InterruptedException {
        for (TestNode node : nodes) node.awaitRing(NODES);
    }

    /** Deletions of every kind in one half of the partitions, and a new row in each. */
    private static void change(CqlSession session, int from) {
        for (int p = from; p < from + PARTITIONS / 2; p++) {
            Contents.deleteFrom(session, p);
            session.execute("INSERT INTO ks.t (p, c, v) VALUES (?, 9, 'new')", p);
        }
    }

    private static String ofTheBuild() {
        return Distribution.fromSystemProperty()
                .cassandraJar()
                .getFileName()
                .toString()
                .replaceAll("^cassandra-all-|[.]jar$", "");
    }

    private static void make(String release, Path home) throws IOException {
        Path lib = Distribution.fromSystemProperty().home().resolve("lib");
        Path cassandra = Files.createDirectories(home.resolve("lib/cassandra"));
        try (DirectoryStream<Path> jars = Files.newDirectoryStream(lib.resolve("cassandra"))) {
            for (Path jar : jars) {
                String name = jar.getFileName().toString();
                if (!name.startsWith("cassandra-all-"))
                    Files.createSymbolicLink(cassandra.resolve(name), jar);
            }
        }
        String name = "cassandra-all-" + release + ".jar";
        Files.createSymbolicLink(cassandra.resolve(name), RELEASES.resolve(name).toRealPath());
        Files.createSymbolicLink(home.resolve("lib/client"), lib.resolve("client"));
        Files.createSymbolicLink(home.resolve("lib/petra.jar"), lib.resolve("petra.jar"));
    }
}
