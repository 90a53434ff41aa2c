// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import dev.petra.launcher.NodeConfig;
import dev.petra.launcher.NodeProcess;
import dev.petra.launcher.NodeTool;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Streams and repairs of engine tables fail visibly; those of other tables work. */
class ClusterIT {
    @TempDir Path first;
    @TempDir Path second;

    private final int seedPort = TestNode.freePort();

    private TestNode seed() {
        return TestNode.start(first, options -> options.storagePort(seedPort).numTokens(4));
    }

    private NodeConfig.Builder joining(NodeConfig.Builder options) {
        return options.seeds(List.of("127.0.0.1:" + seedPort)).numTokens(4);
    }

    private static void createKeyspace(CqlSession session, int replicas) {
        session.execute(
                "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy',"
                        + " 'replication_factor': "
                        + replicas
                        + "}");
        session.execute("CREATE TABLE ks.t (p int PRIMARY KEY) WITH memtable = 'rocks'");
        session.execute("CREATE TABLE ks.plain (p int PRIMARY KEY)");
    }

    @Test
    void aTableWithDataStopsABootstrap() throws InterruptedException {
        try (TestNode seed = seed();
                CqlSession session = seed.session()) {
            createKeyspace(session, 1);
            session.execute("INSERT INTO ks.t (p) VALUES (1)");
            NodeConfig config =
                    joining(
                                    NodeConfig.builder(second)
                                            .nativePort(TestNode.freePort())
                                            .storagePort(TestNode.freePort())
                                            .jmxPort(TestNode.freePort())
                                            .heap("512MiB")
                                            .fastRing())
                            .build();
            NodeProcess newcomer = new NodeProcess(config);
            newcomer.start();
            try {
                for (int i = 0;
                        i < 120 && !newcomer.log().contains("Bootstrap will have to be");
                        i++) Thread.sleep(500);
                assertThat(newcomer.log()).contains("Bootstrap will have to be restarted");
                assertThat(newcomer.nodetool("netstats").output()).contains("JOINING_FAILED");
            } finally {
                newcomer.kill();
            }
            assertThat(seed.process().log()).contains("Bootstrap cannot include table ks.t");
            assertThat(session.execute("SELECT * FROM ks.t").all()).hasSize(1);
        }
    }

    @Test
    void repairAndDecommissionAreRefusedAndSchemasStayWhole() {
        try (TestNode seed = seed();
                CqlSession session = seed.session()) {
            createKeyspace(session, 2);
            // Nothing was ever written to the engine table, so there is nothing to send.
            try (TestNode other = TestNode.start(second, this::joining);
                    CqlSession otherSession = other.session()) {
                for (String[] repair :
                        new String[][] {
                            {"repair", "-full", "ks", "t"},
                            {"repair", "ks", "t"},
                            {"repair", "--preview", "-full", "ks", "t"}
                        }) {
                    NodeTool.Result result = seed.process().nodetool(repair);
                    assertThat(result.exitCode()).describedAs(result.output()).isNotZero();
                }
                assertThat(seed.process().log() + other.process().log())
                        .contains("Repair cannot include table ks.t");
                NodeTool.Result plain = seed.process().nodetool("repair", "-full", "ks", "plain");
                assertThat(plain.exitCode()).describedAs(plain.output()).isZero();

                for (int i = 0; i < 10; i++)
                    otherSession.execute("INSERT INTO ks.t (p) VALUES (" + i + ")");
                assertThat(session.execute("SELECT * FROM ks.t").all()).hasSize(10);
                session.execute("CREATE TABLE ks.u (p int PRIMARY KEY) WITH memtable = 'rocks'");
                otherSession.execute("INSERT INTO ks.u (p) VALUES (1)");
                otherSession.execute("TRUNCATE ks.u");
                assertThat(session.execute("SELECT * FROM ks.u").all()).isEmpty();
                otherSession.execute("DROP TABLE ks.u");
                session.execute(
                        "ALTER KEYSPACE ks WITH replication = {'class': 'SimpleStrategy',"
                                + " 'replication_factor': 1}");

                NodeTool.Result leave = other.process().nodetool("decommission", "-f");
                assertThat(leave.exitCode()).describedAs(leave.output()).isNotZero();
                assertThat(other.process().log()).contains("cannot include table ks.t");
                assertThat(seed.process().nodetool("describecluster").output())
                        .containsOnlyOnce("127.0.0.1:" + seedPort);
            }
        }
    }
}
