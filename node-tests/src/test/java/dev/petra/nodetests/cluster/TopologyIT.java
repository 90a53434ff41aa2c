// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * Two replicas of everything, while nodes are rebuilt, moved, replaced and removed under load. What
 * was acknowledged was so by both replicas; so a dead node takes nothing with it.
 */
@OneOf(variants = "clusters that change", of = 4, number = 1)
class TopologyIT {
    private static final Duration MOVES = Duration.ofMinutes(5);
    private static final int PARTITIONS = 600;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path directory;

    /** Of all nodes: who replaces another says in gossip only at which address it was. */
    private final int port = FreePorts.next();

    private static final String SEED = "127.0.0.1";
    private static final String REPLACED = "127.0.0.3";

    private TestNode node(
            String address, boolean ours, String token, UnaryOperator<NodeConfig.Builder> more)
            throws Exception {
        Map<String, Object> yaml = new LinkedHashMap<>(TestNode.mixed(ours));
        if (!token.isEmpty()) yaml.put("initial_token", token);
        return TestNode.start(
                Files.createDirectory(directory.resolve(address)),
                options ->
                        more.apply(
                                options.yaml(yaml)
                                        .address(address)
                                        .storagePort(port)
                                        .numTokens(1)
                                        .seeds(List.of(SEED + ":" + port))));
    }

    private static void create(CqlSession session) {
        TestNode.createKeyspace(session, "ks", 2);
        session.execute(
                "CREATE TABLE ks.t (p int, c int, v text, s text static, PRIMARY KEY (p, c)) WITH"
                        + " memtable = 'mixed' AND read_repair = 'NONE'");
        session.execute(Writer.table("ks.load") + " WITH memtable = 'mixed'");
    }

    /** Rows, and deletions of every kind among them. */
    private static void write(CqlSession session, int from, int to) {
        var insert = session.prepare("INSERT INTO ks.t (p, c, v, s) VALUES (?, ?, ?, ?)");
        for (int p = from; p < to; p++) {
            for (int c = 0; c < 4; c++) session.execute(insert.bind(p, c, "v" + c, "s" + p));
            Contents.deleteFrom(session, p);
        }
    }

    private static Set<String> content(CqlSession session) {
        return Contents.of(session, "SELECT p, c, v, s, writetime(v) FROM ks.t");
    }

    /** After this each node has what it owns and nothing else. */
    private static void cleanUp(TestNode... nodes) throws InterruptedException {
        TestNode.awaitSameRing(List.of(nodes));
        for (TestNode node : nodes) {
            node.nodetool("cleanup", "ks");
            node.nodetool("verify", "--force", "-e", "--check-tokens", "ks", "t");
        }
    }

    /** Both replicas of everything are equal. */
    private static void check(Set<String> expected, TestNode... nodes) throws Exception {
        for (TestNode node : nodes)
            try (CqlSession session = node.session(ConsistencyLevel.ALL)) {
                TestNode.awaitMigrations(session, MOVES);
            }
        NodeTool.Result preview = nodes[0].tryNodetool("repair", "--preview", "-full", "ks", "t");
        assertThat(preview.output()).contains("Previewed data was in sync");
        try (CqlSession session = nodes[0].session(ConsistencyLevel.ALL)) {
            assertThat(content(session)).isEqualTo(expected);
        }
    }

    /** With {@code -Dpetra.topology.mixed=true} those that come have Cassandra's own storage. */
    @Test
    void nodesAreRebuiltMovedReplacedAndRemoved() throws Exception {
        boolean allHaveTheEngine = !Boolean.getBoolean("petra.topology.mixed");
        try (TestNode a = node(SEED, true, "-9000000000000000000", UnaryOperator.identity());
                TestNode b = node("127.0.0.2", true, "0", UnaryOperator.identity());
                CqlSession all = a.session(ConsistencyLevel.ALL);
                CqlSession one = a.session(ConsistencyLevel.ONE)) {
            create(all);
            write(all, 0, PARTITIONS);
            Set<String> expected = content(all);
            List<Writer> writers = new ArrayList<>();
            for (int w = 0; w < 3; w++) writers.add(new Writer(all, "ks.load", 0, w).persistent());
            writers.forEach(Thread::start);
            try (TestNode c =
                    node(
                            REPLACED,
                            allHaveTheEngine,
                            "3000000000000000000",
                            of -> of.autoBootstrap(false))) {
                // Without bootstrap it does not wait for the schema.
                c.awaitLog("Initializing ks.load", MOVES);
                c.nodetool("rebuild");
                check(expected, a, b, c);
                c.nodetool("move", "6000000000000000000");
                cleanUp(a, b, c);
                check(expected, a, b, c);
                c.process().kill();
            }
            a.awaitDead();
            write(one, PARTITIONS - 100, PARTITIONS + 100);
            Set<String> grown = content(one);
            assertThat(grown).isNotEqualTo(expected);
            try (TestNode d =
                    node(
                            "127.0.0.4",
                            allHaveTheEngine,
                            "",
                            of ->
                                    of.jvmOptions(
                                            "-Dcassandra.replace_address_first_boot="
                                                    + REPLACED))) {
                check(grown, a, b, d);
                d.process().kill();
            }
            a.nodetool("removenode", a.awaitDead());
            cleanUp(a, b);
            check(grown, a, b);
            for (Writer writer : writers) {
                writer.halt();
                writer.join();
                assertThat(writer.failure()).isNull();
                assertThat(writer.acknowledged()).isPositive();
                writer.check(all);
            }
            checkAlone(a, b, grown, writers);
            b.restart();
            checkAlone(b, a, grown, writers);
        }
    }

    /** Stops the other node, and has one of them answer. */
    private static void checkAlone(
            TestNode node, TestNode other, Set<String> expected, List<Writer> writers) {
        other.process().stop();
        try (CqlSession alone = node.session(ConsistencyLevel.ONE)) {
            assertThat(content(alone)).isEqualTo(expected);
            writers.forEach(writer -> writer.check(alone));
        }
    }
}
