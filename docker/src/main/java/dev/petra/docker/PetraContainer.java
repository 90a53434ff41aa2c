// SPDX-License-Identifier: Apache-2.0
package dev.petra.docker;

import com.github.dockerjava.api.model.HostConfig;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Locale;
import java.util.Objects;
import org.testcontainers.containers.Container;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;

/**
 * A Cassandra node with Petra in it. Started when it answers CQL. Not thread-safe while it is
 * configured.
 *
 * <p>A client finds further nodes of a cluster by the addresses that these have on their network,
 * which on Linux are reachable from the host.
 */
public final class PetraContainer extends GenericContainer<PetraContainer> {
    /** The port of CQL inside the container. */
    public static final int CQL_PORT = 9042;

    private static final String DATACENTER = "CASSANDRA_DC";

    /** A node from an image that {@code docker/build} made. */
    public PetraContainer(String image) {
        this(DockerImageName.parse(image));
    }

    /** A node from an image that {@code docker/build} made. */
    public PetraContainer(DockerImageName image) {
        super(image);
        withExposedPorts(CQL_PORT);
        waitingFor(Wait.forHealthcheck().withStartupTimeout(Duration.ofMinutes(5)));
        withMemory(2L << 30);
    }

    /** The bytes of memory it may have; its heap becomes a quarter of that. 2 GiB by default. */
    public PetraContainer withMemory(long bytes) {
        return withCreateContainerCmdModifier(
                command -> {
                    HostConfig host = Objects.requireNonNull(command.getHostConfig());
                    command.withHostConfig(host.withMemory(bytes).withMemorySwap(bytes));
                });
    }

    /** The name of its cluster; {@code Petra} by default. */
    public PetraContainer withClusterName(String name) {
        return withEnv("CASSANDRA_CLUSTER_NAME", name);
    }

    /** The seeds of its cluster, by name or address; itself by default. */
    public PetraContainer withSeeds(String... seeds) {
        return withEnv("CASSANDRA_SEEDS", String.join(",", seeds));
    }

    /** The Java heap, like {@code 512MiB}. */
    public PetraContainer withHeap(String size) {
        return withEnv("MAX_HEAP_SIZE", size);
    }

    /** A setting of the engine, like {@code memory} and {@code 256MiB}. */
    public PetraContainer withEngineSetting(String name, String value) {
        return withEnv("PETRA_" + name.toUpperCase(Locale.ROOT), value);
    }

    /** The datacenter that a client must name. */
    public String localDatacenter() {
        return getEnvMap().getOrDefault(DATACENTER, "datacenter1");
    }

    /** Where a client on this machine reaches it. */
    public InetSocketAddress contactPoint() {
        return new InetSocketAddress(getHost(), getMappedPort(CQL_PORT));
    }

    /**
     * Runs {@code nodetool}.
     *
     * @return what it wrote
     * @throws IllegalStateException if it failed
     */
    public String nodetool(String... arguments) throws IOException, InterruptedException {
        String[] command = new String[arguments.length + 1];
        command[0] = "nodetool";
        System.arraycopy(arguments, 0, command, 1, arguments.length);
        Container.ExecResult result = execInContainer(command);
        if (result.getExitCode() != 0)
            throw new IllegalStateException(
                    String.join(" ", command) + ": " + result.getStdout() + result.getStderr());
        return result.getStdout();
    }
}
