// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.github.dockerjava.api.DockerClient;
import com.github.dockerjava.api.command.InspectContainerResponse.ContainerState;
import com.github.dockerjava.api.model.ContainerNetwork;
import com.github.dockerjava.api.model.Network.Ipam;
import dev.petra.docker.PetraContainer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.testcontainers.DockerClientFactory;
import org.testcontainers.containers.Network;
import org.testcontainers.images.builder.Transferable;

/**
 * Nodes in containers on a network of their own, with addresses that they keep when they are
 * started again. The host reaches them there, as on Linux.
 */
final class DockerCluster implements AutoCloseable {
    private static final String NET = "10.213.75.";
    private static final Duration BOOT = Duration.ofMinutes(4);

    /** A ring that does not wait, and little memory: three nodes share two processors. */
    private static final String JVM =
            "-Dcassandra.ring_delay_ms=3000 -Dcassandra.skip_wait_for_gossip_to_settle=0"
                    + " -Dcassandra.shutdown_announce_in_ms=200"
                    + " -Dcassandra.gossip_quarantine_delay_ms=3000"
                    + " -Dcassandra.gossip_settle_min_wait_ms=1000 -XX:TieredStopAtLevel=1";

    private final String image;
    private final Network network;
    private final List<PetraContainer> nodes = new ArrayList<>();

    DockerCluster(String image) {
        this.image = image;
        this.network =
                Network.builder()
                        .createNetworkCmdModifier(
                                command ->
                                        command.withIpam(
                                                new Ipam()
                                                        .withConfig(
                                                                new Ipam.Config()
                                                                        .withSubnet(NET + "0/24"))))
                        .build();
    }

    /** Whether there is a Docker engine; sets up the client for it. */
    static boolean isThere() throws IOException, InterruptedException {
        Process version =
                new ProcessBuilder("docker", "version", "--format", "{{.Server.APIVersion}}")
                        .start();
        String api = new String(version.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (version.waitFor() != 0) return false;
        // Of an engine that is older than the client takes for granted.
        System.setProperty("api.version", api.trim());
        return DockerClientFactory.instance().isDockerAvailable();
    }

    /** Builds the image from a base; its output is the exception's message if that fails. */
    static void build(String base, String tag) throws IOException, InterruptedException {
        ProcessBuilder build =
                new ProcessBuilder(
                                Path.of("..", "docker", "build").toAbsolutePath().toString(),
                                "--base",
                                base,
                                "--tag",
                                tag)
                        .redirectErrorStream(true);
        build.environment().putIfAbsent("DOCKER_BUILDKIT", "0");
        Process running = build.start();
        String out = new String(running.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (running.waitFor() != 0) throw new IOException(out);
    }

    /** Starts one more node. */
    PetraContainer add(Consumer<PetraContainer> options) {
        int number = nodes.size() + 1;
        PetraContainer node =
                new PetraContainer(image)
                        .withMemory(1400L << 20)
                        .withHeap("384MiB")
                        .withEngineSetting("memory", "128MiB")
                        .withSeeds(NET + 11)
                        .withEnv("CASSANDRA_NUM_TOKENS", "4")
                        .withEnv("JVM_EXTRA_OPTS", JVM)
                        .withNetwork(network)
                        .withCreateContainerCmdModifier(
                                command -> command.withIpv4Address(address(number)));
        options.accept(node);
        nodes.add(node);
        node.start();
        return node;
    }

    PetraContainer node(int number) {
        return nodes.get(number - 1);
    }

    private static String address(int number) {
        return NET + (10 + number);
    }

    private static DockerClient docker() {
        return DockerClientFactory.instance().client();
    }

    void kill(int number) {
        docker().killContainerCmd(node(number).getContainerId()).exec();
    }

    /** SIGTERM, for which a node drains. */
    void stop(int number) {
        docker().stopContainerCmd(node(number).getContainerId()).withTimeout(60).exec();
    }

    /** Starts one that was killed or stopped, and waits until it answers CQL. */
    void startAgain(int number) throws InterruptedException {
        docker().startContainerCmd(node(number).getContainerId()).exec();
        awaitHealth(number);
    }

    void awaitHealth(int number) throws InterruptedException {
        String id = node(number).getContainerId();
        long deadline = System.nanoTime() + BOOT.toNanos();
        ContainerState state;
        do {
            TimeUnit.MILLISECONDS.sleep(500);
            state = docker().inspectContainerCmd(id).exec().getState();
            assertThat(state.getRunning())
                    .describedAs("node %d: %s", number, node(number).getLogs())
                    .isTrue();
            assertThat(System.nanoTime())
                    .describedAs("start of node " + number)
                    .isLessThan(deadline);
        } while (!"healthy".equals(state.getHealth().getStatus()));
    }

    void pause(int number) {
        docker().pauseContainerCmd(node(number).getContainerId()).exec();
    }

    void unpause(int number) {
        docker().unpauseContainerCmd(node(number).getContainerId()).exec();
    }

    /** Cuts it off from the others, and from the client. */
    void cutOff(int number) {
        docker().disconnectFromNetworkCmd()
                .withNetworkId(network.getId())
                .withContainerId(node(number).getContainerId())
                .exec();
    }

    /** Ends {@link #cutOff}. */
    void heal(int number) {
        docker().connectToNetworkCmd()
                .withNetworkId(network.getId())
                .withContainerId(node(number).getContainerId())
                .withContainerNetwork(
                        new ContainerNetwork()
                                .withIpamConfig(
                                        new ContainerNetwork.Ipam()
                                                .withIpv4Address(address(number))))
                .exec();
    }

    /** Waits until every node sees so many nodes as normal and up. */
    void awaitRing(int size) throws Exception {
        long deadline = System.nanoTime() + BOOT.toNanos();
        for (PetraContainer node : nodes) {
            if (!node.isRunning()) continue;
            while (true) {
                String status = node.nodetool("status");
                if (status.lines().filter(line -> line.startsWith("UN ")).count() == size) break;
                assertThat(System.nanoTime()).describedAs(status).isLessThan(deadline);
                TimeUnit.SECONDS.sleep(1);
            }
        }
    }

    /** Replaces a file of a node, for its next start. */
    void put(int number, String file, String text) {
        node(number).copyFileToContainer(Transferable.of(text), file);
    }

    /** A session to all nodes, with what all statements have. */
    CqlSession session(ConsistencyLevel level, Duration timeout) {
        return CqlSession.builder()
                .addContactPoints(
                        nodes.stream()
                                .map(
                                        node ->
                                                new InetSocketAddress(
                                                        address(nodes.indexOf(node) + 1), 9042))
                                .toList())
                .withLocalDatacenter("datacenter1")
                .withConfigLoader(
                        DriverConfigLoader.programmaticBuilder()
                                .withString(DefaultDriverOption.REQUEST_CONSISTENCY, level.name())
                                .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, timeout)
                                // One that stands still is soon left alone.
                                .withDuration(
                                        DefaultDriverOption.HEARTBEAT_INTERVAL,
                                        Duration.ofSeconds(2))
                                .withDuration(
                                        DefaultDriverOption.HEARTBEAT_TIMEOUT,
                                        Duration.ofSeconds(2))
                                .withDuration(
                                        DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT,
                                        Duration.ofSeconds(15))
                                .withDuration(
                                        DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT,
                                        Duration.ofSeconds(15))
                                .withDuration(
                                        DefaultDriverOption.RECONNECTION_MAX_DELAY,
                                        Duration.ofSeconds(2))
                                .withBoolean(
                                        DefaultDriverOption.REQUEST_WARN_IF_SET_KEYSPACE, false)
                                .build())
                .build();
    }

    @Override
    public void close() {
        for (PetraContainer node : nodes) node.stop();
        network.close();
    }
}
