// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.container;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.OneOf;
import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code bin/petra cluster}, as a user types it. */
class ClusterCommandIT {
    /** Whether nodes that are processes become three; a short run adds one to containers only. */
    private static final boolean LONG = DockerCluster.LENGTH > 1;

    @TempDir Path directory;

    private NodeTool.Result petra(String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(Commands.PETRA.toString()));
        command.addAll(cluster(arguments));
        ProcessBuilder builder = new ProcessBuilder(command);
        // The nodes inherit it. Those that live for seconds need no better compiler, no verifier,
        // and no full collection of next to nothing.
        builder.environment()
                .put(
                        "JAVA_TOOL_OPTIONS",
                        "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions"
                                + " -XX:-BytecodeVerificationRemote -XX:MetaspaceSize=192m");
        return Commands.run(builder);
    }

    private List<String> cluster(String... arguments) {
        List<String> command = new ArrayList<>(List.of("cluster"));
        command.addAll(List.of(arguments));
        if (arguments.length > 0) command.addAll(List.of("--dir", directory.toString()));
        return command;
    }

    /** What a command says that fails; inside of this JVM. */
    private String said(String... arguments) {
        NodeTool.Result result = Commands.petra(cluster(arguments).toArray(String[]::new));
        assertThat(result.exitCode()).describedAs(result.output()).isPositive();
        return result.output();
    }

    private String done(String... arguments) throws IOException, InterruptedException {
        NodeTool.Result result = petra(arguments);
        assertThat(result.exitCode()).describedAs(result.output()).isZero();
        return result.output();
    }

    private static boolean isFree(int port) throws IOException {
        try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
            return socket.isBound();
        } catch (BindException e) {
            return false;
        }
    }

    @Test
    @OneOf(variants = "clusters and images for a few statements", of = 4, number = 4)
    void aClusterGrowsShrinksAndIsStartedAgain() throws Exception {
        assumeTrue(isFree(9042) && isFree(7000) && isFree(7199), "the usual ports are in use");
        try {
            assertThat(done("up", "--nodes", "2", "--heap", "384MiB"))
                    .contains("node 1: CQL is open on 127.0.0.1:9042")
                    .contains("node 2: CQL is open on 127.0.0.2:9042");
            cql(
                    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy',"
                            + " 'replication_factor': 1};"
                            + "CREATE TABLE ks.t (p int PRIMARY KEY) WITH memtable = 'rocks';"
                            + "INSERT INTO ks.t (p) VALUES (1); INSERT INTO ks.t (p) VALUES (2);"
                            + "INSERT INTO ks.t (p) VALUES (3); INSERT INTO ks.t (p) VALUES (4)");
            if (LONG) assertThat(done("add")).contains("node 3: CQL is open on 127.0.0.3:9042");
            assertThat(normal(done("status"))).isEqualTo(LONG ? 3 : 2);
            done("repair");
            if (LONG) assertThat(done("decommission", "3")).contains("node 3 has left");
            done("down");
            assertThat(said("status")).contains("no node runs");
            assertThat(done("up", "--nodes", "2")).contains("node 2: CQL is open");
            assertThat(cql("SELECT count(*) FROM ks.t")).contains("4");
            assertThat(done("decommission", "2")).contains("node 2 has left");
            assertThat(normal(done("status"))).isEqualTo(1);
            assertThat(cql("SELECT count(*) FROM ks.t")).contains("4");
        } finally {
            petra("down");
        }
    }

    @Test
    @OneOf(variants = "clusters and images for a few statements", of = 4, number = 3)
    void aClusterInContainersGrowsShrinksAndIsStartedAgain() throws Exception {
        DockerCluster.assumeThere("ClusterCommandIT");
        String name = "petra-it-" + ProcessHandle.current().pid();
        String[] where = {"--docker", "--image", DockerCluster.IMAGE, "--name", name};
        assertThat(said(with(where, "status"))).contains("there is no cluster in");
        assertThat(said("up", "--docker", "--image", "petra:none", "--name", name))
                .contains("there is no image 'petra:none' here");
        try {
            assertThat(done(with(where, "up", "--nodes", "1", "--heap", "384MiB")))
                    .contains("node 1: CQL is open on 1");
            cqlIn(
                    name + "-node1",
                    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy',"
                            + " 'replication_factor': 1};"
                            + "CREATE TABLE ks.t (p int PRIMARY KEY) WITH memtable = 'rocks';"
                            + "INSERT INTO ks.t (p) VALUES (1); INSERT INTO ks.t (p) VALUES (2);"
                            + "INSERT INTO ks.t (p) VALUES (3); INSERT INTO ks.t (p) VALUES (4)");
            assertThat(done(with(where, "add"))).contains("node 2: CQL is open on 1");
            assertThat(normal(done(with(where, "status")))).isEqualTo(2);
            done(with(where, "repair"));
            assertThat(done(with(where, "decommission", "2"))).contains("node 2 has left");
            done(with(where, "down"));
            assertThat(said(with(where, "status"))).contains("no node runs");
            assertThat(done(with(where, "up", "--nodes", "1"))).contains("node 1: CQL is open");
            assertThat(cqlIn(name + "-node1", "SELECT count(*) FROM ks.t")).contains("4");
            // As if a deletion had been interrupted between the container and its volume.
            Commands.run(
                    "docker",
                    "volume",
                    "create",
                    "--label",
                    "dev.petra.cluster=" + name,
                    name + "-node3");
        } finally {
            petra(with(where, "down", "--delete"));
        }
        assertThat(said(with(where, "status"))).contains("there is no cluster in");
        assertThat(Commands.run("docker", "volume", "ls").output()).doesNotContain(name);
        assertThat(Commands.run("docker", "network", "ls").output()).doesNotContain(name);
    }

    private static String[] with(String[] where, String... verb) {
        List<String> all = new ArrayList<>(List.of(verb));
        all.addAll(List.of(where));
        return all.toArray(String[]::new);
    }

    private static String cqlIn(String container, String statements) throws Exception {
        NodeTool.Result result =
                Commands.run("docker", "exec", container, "petra", "cql", statements);
        assertThat(result.exitCode()).describedAs(result.output()).isZero();
        return result.output();
    }

    private static long normal(String status) {
        return status.lines().filter(line -> line.startsWith("UN ")).count();
    }

    private String cql(String statements) throws IOException, InterruptedException {
        NodeTool.Result result = Commands.run(Commands.PETRA.toString(), "cql", statements);
        assertThat(result.exitCode()).describedAs(result.output()).isZero();
        return result.output();
    }

    @Test
    void whatCannotBeDoneIsSaid() {
        assertThat(said("status")).contains("there is no cluster in").contains("up");
        assertThat(said("up", "--nodes", "0")).contains("--nodes must be from 1 to 100");
        assertThat(said("decommission", "1")).contains("there is no cluster in");
        assertThat(said()).contains("Missing command");
    }
}
