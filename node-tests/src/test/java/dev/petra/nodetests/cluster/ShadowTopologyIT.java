// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.ShadowTable;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * Two replicas of tables with shadows, some of which answer, while a node comes, another one goes,
 * and one dies and is replaced.
 */
@OneOf(variants = "clusters that change", of = 4, number = 2)
class ShadowTopologyIT {
    private static final Duration PATIENCE = Duration.ofMinutes(4);
    private static final int PARTITIONS = 300;
    private static final String ROWS = "SELECT p, c, v, s FROM ks.t";
    private static final List<String> TABLES = List.of("ks.load", "ks.shadowed");
    private static final String SEED = "127.0.0.1";
    private static final String REPLACED = "127.0.0.3";

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path directory;

    private final int port = FreePorts.next();

    private TestNode node(String address, String... jvmOptions) throws Exception {
        Map<String, Object> fallback = ShadowTable.configuration("rocks", "fallback", "1");
        Map<String, Object> shadow = ShadowTable.configuration("rocks", "shadow", "1");
        return TestNode.start(
                Files.createDirectory(directory.resolve(address)),
                options ->
                        options.yaml(
                                        Map.of(
                                                "hinted_handoff_enabled",
                                                false,
                                                "memtable",
                                                Map.of(
                                                        "configurations",
                                                        Map.of(
                                                                "rocks_fallback", fallback,
                                                                "rocks_shadow", shadow))))
                                .jvmOptions(jvmOptions)
                                .address(address)
                                .storagePort(port)
                                .numTokens(4)
                                .seeds(List.of(SEED + ":" + port)));
    }

    private static void create(CqlSession session) {
        TestNode.createKeyspace(session, "ks", 2);
        String options = " WITH memtable = 'rocks_fallback' AND read_repair = 'NONE'";
        session.execute(
                "CREATE TABLE ks.t (p int, c int, v text, s text static, PRIMARY KEY (p, c))"
                        + options);
        session.execute(Writer.table("ks.load") + options);
        session.execute(
                Writer.table("ks.shadowed") + options.replace("rocks_fallback", "rocks_shadow"));
        var insert = session.prepare("INSERT INTO ks.t (p, c, v, s) VALUES (?, ?, ?, ?)");
        for (int p = 0; p < PARTITIONS; p++) {
            for (int c = 0; c < 4; c++) session.execute(insert.bind(p, c, "v" + c, "s" + p));
            Contents.deleteFrom(session, p);
        }
    }

    /** The shadows of each node are whole, are equal to their tables, and never were otherwise. */
    private static void check(TestNode... nodes) throws Exception {
        for (TestNode node : nodes) {
            try (CqlSession session = node.plainSession()) {
                TestNode.await("shadows", PATIENCE, () -> areWhole(session, node));
            }
            assertEqual(node, "ks.t");
            assertThat(
                            Contents.alone(
                                    node,
                                    "SELECT table_name, different FROM petra.shadow WHERE"
                                            + " keyspace_name = 'ks'"))
                    .hasSize(3)
                    .allMatch(row -> row.contains("different:0"));
        }
    }

    private static boolean areWhole(CqlSession session, TestNode node) {
        Set<String> shadows =
                Contents.alone(
                        session,
                        node,
                        "SELECT answers, caught_up, table_name FROM petra.shadow WHERE"
                                + " keyspace_name = 'ks'");
        return shadows.stream().filter(row -> row.contains("'yes'")).count() == 2
                && shadows.stream()
                        .anyMatch(
                                row ->
                                        row.contains("no: mode is shadow")
                                                && row.contains("caught_up:true"));
    }

    private static void assertEqual(TestNode node, String table) throws Exception {
        NodeTool.Result result = Commands.petra(node, "compare", table);
        assertThat(result.exitCode()).as(result.output()).isZero();
    }

    @Test
    void nodesComeAndGoAndOneIsReplaced() throws Exception {
        try (TestNode a = node(SEED);
                TestNode b = node("127.0.0.2");
                CqlSession all = a.session(ConsistencyLevel.ALL);
                CqlSession one = a.session(ConsistencyLevel.ONE)) {
            create(all);
            Set<String> rows = Contents.of(all, ROWS);
            List<Writer> writers = new ArrayList<>();
            for (String table : TABLES) writers.add(new Writer(all, table, 0, 0).persistent());
            writers.forEach(Thread::start);
            check(a, b);
            try (TestNode c = node(REPLACED)) {
                check(a, b, c);
                TestNode.awaitSameRing(List.of(a, b, c));
                for (TestNode node : List.of(a, b)) node.nodetool("cleanup", "ks");
                check(a, b, c);
                for (Writer writer : writers) writer.checkMeanwhile(all);
                b.nodetool("decommission", "-f");
                check(a, c);
                c.process().kill();
            }
            a.awaitDead();
            // With one of two replicas, until the new one is there.
            for (String table : TABLES) {
                Writer writer = new Writer(one, table, 1, 1).persistent();
                writer.start();
                writers.add(writer);
            }
            try (TestNode d =
                    node("127.0.0.4", "-Dcassandra.replace_address_first_boot=" + REPLACED)) {
                check(a, d);
                for (Writer writer : writers) {
                    writer.halt();
                    writer.join();
                    assertThat(writer.failure()).isNull();
                    writer.check(all);
                }
                assertThat(Contents.of(all, ROWS)).isEqualTo(rows).isNotEmpty();
                // Each has all of it by itself, as the only one that is asked.
                for (TestNode node : List.of(a, d)) {
                    assertThat(Contents.alone(node, ROWS)).isEqualTo(rows);
                    for (String table : TABLES) assertEqual(node, table);
                }
            }
        }
    }
}
