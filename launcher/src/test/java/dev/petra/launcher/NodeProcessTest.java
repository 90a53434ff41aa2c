// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.cassandra.service.CassandraDaemon;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Starts, stops and refusals, with the fake Cassandra that is on the test class path. */
final class NodeProcessTest {
    private static final Duration SOON = Duration.ofMinutes(2);

    @TempDir private Path temp;

    private final List<NodeProcess> started = new ArrayList<>();
    private Path home = Path.of("");
    private Path dir = Path.of("");

    @BeforeEach
    void layOutADistribution() throws IOException {
        home = temp.resolve("home");
        dir = temp.resolve("a node's directory, ü");
        Files.createDirectories(home.resolve("lib/cassandra"));
        Files.createFile(home.resolve("lib/petra.jar"));
        Files.createFile(home.resolve("lib/cassandra/cassandra-all-0.jar"));
    }

    @AfterEach
    void leaveNoProcess() {
        started.stream().filter(NodeProcess::isAlive).forEach(NodeProcess::kill);
    }

    @Test
    void startsStopsAndStartsAgain() throws Exception {
        int port = FreePorts.next();
        NodeProcess node = node(port);

        node.start();
        node.awaitCql(SOON);
        assertThat(node.isAlive()).isTrue();
        assertThat(node.nativePort()).isEqualTo(port);
        assertThat(dir.resolve("petra.pid")).content().isEqualTo(node.pid() + "\n");
        assertThat(node.log()).isEqualTo("up\nStartup complete\n");
        assertThat(node.logSinceStart()).isEqualTo(node.log());
        assertThat(node.outputSinceStart()).contains("listening on");

        node.stop();
        assertThat(node.isAlive()).isFalse();
        assertThat(node.exitCode()).isEqualTo(143);
        assertThat(dir.resolve("petra.pid")).doesNotExist();

        node.start();
        node.awaitCql(SOON);
        assertThat(node.logSinceStart()).isEqualTo("up\nStartup complete\n");
        node.kill();
        assertThat(node.exitCode()).isEqualTo(137);
        assertThat(dir.resolve("petra.pid")).doesNotExist();
    }

    /** A client got "Server is shutting down" from a node that had just started. */
    @Test
    void aPortThatIsOpenIsNotEnough() throws Exception {
        int port = FreePorts.next();
        Path answers = temp.resolve("answers");
        NodeProcess node =
                new NodeProcess(
                        config(port)
                                .jvmOptions("-Dfake.port=" + port, "-Dfake.answers=" + answers)
                                .build(),
                        SOON);
        started.add(node);
        node.start();
        CompletableFuture<Void> waits = CompletableFuture.runAsync(() -> node.awaitCql(SOON));
        while (!Ports.isOpen("127.0.0.1", port)) Thread.sleep(20);

        assertThatThrownBy(() -> waits.get(300, TimeUnit.MILLISECONDS))
                .isInstanceOf(TimeoutException.class);

        Files.createFile(answers);
        waits.get(1, TimeUnit.MINUTES);
        assertThat(node.log()).contains("Startup complete");
    }

    @Test
    void aSecondStartInTheSameDirectoryIsRefused() throws Exception {
        NodeProcess first = node(FreePorts.next());
        first.start();

        assertThatThrownBy(() -> node(FreePorts.next()).start())
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("a node already runs in " + dir.toRealPath())
                .hasMessageContaining("pid " + first.pid());
        assertThat(first.isAlive()).isTrue();
    }

    @Test
    void theSameDirectoryByAnotherNameIsTheSame() throws Exception {
        NodeProcess first = node(FreePorts.next());
        first.start();
        Path link = Files.createSymbolicLink(temp.resolve("link"), dir);

        NodeProcess second = new NodeProcess(NodeConfig.builder(link).home(home).build());

        assertThatThrownBy(second::start).hasMessageContaining("a node already runs in");
    }

    @Test
    void aPidFileThatNamesAnotherProcessIsStale() throws Exception {
        Files.createDirectories(dir);
        Files.writeString(dir.resolve("petra.pid"), ProcessHandle.current().pid() + "\n");
        NodeProcess node = node(FreePorts.next());

        node.start();

        assertThat(dir.resolve("petra.pid")).content().isEqualTo(node.pid() + "\n");
    }

    @Test
    void aPidFileThatIsNoneIsAnErrorThatNamesIt() throws Exception {
        Files.createDirectories(dir);
        Files.writeString(dir.resolve("petra.pid"), "\n");

        assertThatThrownBy(() -> node(FreePorts.next()).start()).hasMessageContaining("petra.pid");
    }

    /** On a full disk it went on, and petra stop did not find it. */
    @Test
    void aNodeWhosePidFileCannotBeWrittenDoesNotRun() throws Exception {
        Files.createDirectories(dir);
        Files.createSymbolicLink(dir.resolve(".petra.pid.part"), Path.of("/dev/full"));
        NodeProcess node = node(FreePorts.next());

        assertThatThrownBy(node::start)
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("petra.pid")
                .hasMessageContaining("No space left on device")
                .hasMessageContaining("the node was not started");

        assertThat(node.isAlive()).isFalse();
        assertThat(dir.resolve("petra.pid")).doesNotExist();
        assertThat(dir.resolve(".petra.pid.part")).doesNotExist();
        node.start();
        assertThat(node.isAlive()).isTrue();
    }

    @Test
    void aTakenPortIsNamedAndNothingIsWritten() throws Exception {
        try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            NodeProcess node = node(taken.getLocalPort());

            assertThatThrownBy(node::start)
                    .isInstanceOf(NodeException.class)
                    .hasMessageContaining("port " + taken.getLocalPort() + " on 127.0.0.1")
                    .hasMessageContaining("give another with --port");
        }
        assertThat(dir.resolve("conf")).doesNotExist();
    }

    @Test
    void aNodeThatEndsFailsTheWaitAtOnceWithItsLastWords() throws Exception {
        NodeProcess node = new NodeProcess(config(FreePorts.next()).build());

        node.start();

        assertThatThrownBy(() -> node.awaitCql(SOON))
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("exit code 3")
                .hasMessageContaining("this fake ends at once");
        assertThat(dir.resolve("petra.pid")).doesNotExist();
    }

    @Test
    void aWaitThatIsTooLongEnds() throws Exception {
        NodeConfig deaf =
                config(FreePorts.next()).jvmOptions("-Dfake.port=" + FreePorts.next()).build();
        NodeProcess node = new NodeProcess(deaf);
        started.add(node);
        node.start();

        assertThatThrownBy(() -> node.awaitCql(Duration.ofMillis(200)))
                .hasMessageContaining("CQL was not open after");
        assertThat(node.isAlive()).isTrue();
    }

    @Test
    void everyAddressIsNone() {
        NodeConfig config = NodeConfig.builder(dir).home(home).address("0.0.0.0").build();

        assertThatThrownBy(() -> new NodeProcess(config).start()).hasMessageContaining("--address");
    }

    @Test
    void aDistributionWithoutThePluginIsRefused() throws IOException {
        Files.delete(home.resolve("lib/petra.jar"));
        NodeConfig config = NodeConfig.builder(dir).home(home).build();

        assertThatThrownBy(() -> new NodeProcess(config).start())
                .hasMessageContaining("lib/petra.jar");
    }

    private NodeProcess node(int port) throws IOException, URISyntaxException {
        NodeProcess node = new NodeProcess(config(port).jvmOptions("-Dfake.port=" + port).build());
        started.add(node);
        return node;
    }

    private NodeConfig.Builder config(int port) throws IOException, URISyntaxException {
        return NodeConfig.builder(dir)
                .home(home)
                .nativePort(port)
                .storagePort(FreePorts.next())
                .jmxPort(FreePorts.next())
                .heap("128MiB")
                .agent(false)
                .overwriteConf(true)
                .classPath(
                        Path.of(
                                CassandraDaemon.class
                                        .getProtectionDomain()
                                        .getCodeSource()
                                        .getLocation()
                                        .toURI()));
    }
}
