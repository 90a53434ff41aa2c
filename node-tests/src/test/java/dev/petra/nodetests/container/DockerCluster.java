// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.container;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.github.dockerjava.api.DockerClient;
import com.github.dockerjava.api.command.CreateContainerCmd;
import com.github.dockerjava.api.command.InspectContainerResponse.ContainerState;
import com.github.dockerjava.api.exception.InternalServerErrorException;
import com.github.dockerjava.api.model.Bind;
import com.github.dockerjava.api.model.ContainerNetwork;
import com.github.dockerjava.api.model.HealthCheck;
import com.github.dockerjava.api.model.HostConfig;
import com.github.dockerjava.api.model.Network.Ipam;
import com.github.dockerjava.api.model.Volume;
import dev.petra.docker.PetraContainer;
import dev.petra.launcher.NodeConfig;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.SchemaByControlNode;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.testcontainers.DockerClientFactory;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.containers.wait.strategy.AbstractWaitStrategy;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.utility.DockerImageName;

/**
 * Nodes in containers on a network of their own, with addresses that they keep when they are
 * started again. The host reaches them there, as on Linux.
 */
final class DockerCluster implements AutoCloseable {
    /** The image that is tested. */
    static final String IMAGE = "petra:test";

    /** What it is built on. */
    static final String BASE =
            System.getProperty("petra.docker.base", System.getenv("PETRA_DOCKER_BASE"));

    /** How many times as long everything lasts; in a run with 1 tests leave out some of it. */
    static final int LENGTH = Integer.getInteger("petra.docker.length", 1);

    private static final int MOST_PAUSES = 10;
    private static final Duration BOOT = Duration.ofMinutes(4);

    /** A ring that does not wait, and little memory: three nodes share two processors. */
    static final String JVM =
            String.join(" ", NodeConfig.FAST_RING)
                    + " -Dcassandra.gossip_settle_min_wait_ms=1000 "
                    + String.join(" ", TestNode.LEAN);

    /**
     * Of all containers but the first node, which has the image's: each check starts a process in a
     * container, and costs more than what a quiet node does meanwhile.
     */
    private static final HealthCheck NO_HEALTH_CHECK = new HealthCheck().withTest(List.of("NONE"));

    /** The first three numbers of the nodes' addresses, with a dot. */
    private final String net;

    private final String image;
    private final Network network;
    private final List<PetraContainer> nodes = new ArrayList<>();
    private final List<SmallDisk> disks = new ArrayList<>();

    DockerCluster() {
        this(IMAGE);
    }

    /**
     * @param image of all its nodes
     */
    DockerCluster(String image) {
        this.image = image;
        this.net = freeNet();
        this.network =
                Network.builder()
                        .createNetworkCmdModifier(
                                command ->
                                        command.withIpam(
                                                new Ipam()
                                                        .withConfig(
                                                                new Ipam.Config()
                                                                        .withSubnet(net + "0/24"))))
                        .build();
    }

    /** One that no network of this engine has: tests that were killed leave theirs behind. */
    private static String freeNet() {
        Set<String> taken =
                docker().listNetworksCmd().exec().stream()
                        .map(com.github.dockerjava.api.model.Network::getIpam)
                        .filter(ipam -> ipam != null && ipam.getConfig() != null)
                        .flatMap(ipam -> ipam.getConfig().stream())
                        .map(Ipam.Config::getSubnet)
                        .collect(Collectors.toSet());
        return IntStream.range(75, 100)
                .mapToObj(third -> "10.213." + third + ".")
                .filter(net -> !taken.contains(net + "0/24"))
                .findFirst()
                .orElseThrow(
                        () ->
                                new IllegalStateException(
                                        "Too many networks of ended tests: docker network prune"));
    }

    /**
     * Skips a test where there is no Docker engine or no image to build on, and says so loudly;
     * else builds {@link #IMAGE} and sets up the client.
     */
    static void assumeThere(String test) throws IOException, InterruptedException {
        assumeEngine(test);
        build("--base", BASE, "--tag", IMAGE);
    }

    /** The same without the image. */
    static void assumeEngine(String test) throws IOException, InterruptedException {
        boolean possible = BASE != null && !BASE.isEmpty() && isThere();
        if (!possible)
            System.out.println(
                    "\n"
                            + "*** "
                            + test
                            + " IS NOT RUN: it needs a Docker engine, and in PETRA_DOCKER_BASE an"
                            + " image with Java 17 to build on. .ci/run makes both. ***\n");
        assumeTrue(possible);
    }

    private static boolean isThere() throws IOException, InterruptedException {
        Process version =
                new ProcessBuilder("docker", "version", "--format", "{{.Server.APIVersion}}")
                        .start();
        String api = new String(version.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (version.waitFor() != 0) return false;
        // Of an engine that is older than the client takes for granted.
        System.setProperty("api.version", api.trim());
        return DockerClientFactory.instance().isDockerAvailable();
    }

    /** Whether {@link #worsen} can do what it does. */
    static boolean canWorsen() throws IOException, InterruptedException {
        Process test =
                new ProcessBuilder("sh", "-c", "[ $(id -u) = 0 ] && command -v nsenter tc iptables")
                        .start();
        return test.waitFor() == 0;
    }

    /** Makes a node's link slow and loses some of what it is sent. */
    void worsen(int number) throws IOException, InterruptedException {
        try {
            tc(number, "add", "netem", "delay", "40ms", "20ms", "loss", "3%");
            return;
        } catch (IOException e) {
            System.out.println(
                    "DockerIT: no netem in this kernel (" + e.getMessage().strip() + ")");
        }
        // Slow by having little room, instead.
        tc(number, "add", "tbf", "rate", "4mbit", "burst", "16kb", "latency", "300ms");
        losses(number, "--append");
    }

    /** Ends {@link #worsen}. */
    void mend(int number) throws IOException, InterruptedException {
        tc(number, "del");
        if (inNetworkOf(number, "iptables", "--list", "INPUT").contains("statistic"))
            losses(number, "--delete");
    }

    /** A node gets nothing of another's any more, nor the other of its. */
    void separate(int one, int other) throws IOException, InterruptedException {
        hears(one, other, "--append");
        hears(other, one, "--append");
    }

    /** Ends {@link #separate}. */
    void join(int one, int other) throws IOException, InterruptedException {
        hears(one, other, "--delete");
        hears(other, one, "--delete");
    }

    private void hears(int number, int sender, String verb)
            throws IOException, InterruptedException {
        inNetworkOf(
                number, "iptables", verb, "INPUT", "--source", address(sender), "--jump", "DROP");
    }

    private void tc(int number, String verb, String... discipline)
            throws IOException, InterruptedException {
        // Of another name since it was cut off and healed.
        String shown =
                inNetworkOf(number, "ip", "-o", "-4", "address", "show", "to", address(number));
        String device = shown.strip().split("\\s+", -1)[1];
        List<String> command = new ArrayList<>(List.of("tc", "qdisc", verb, "dev", device, "root"));
        command.addAll(List.of(discipline));
        inNetworkOf(number, command.toArray(String[]::new));
    }

    private void losses(int number, String verb) throws IOException, InterruptedException {
        inNetworkOf(
                number,
                ("iptables " + verb + " INPUT --match statistic --mode random --probability 0.03")
                        .concat(" --jump DROP")
                        .split(" ", -1));
    }

    /** Runs a program of this machine as root in the network of a node. */
    private String inNetworkOf(int number, String... command)
            throws IOException, InterruptedException {
        Long pid =
                docker().inspectContainerCmd(node(number).getContainerId())
                        .exec()
                        .getState()
                        .getPidLong();
        List<String> all =
                new ArrayList<>(List.of("nsenter", "--net", "--target", String.valueOf(pid)));
        all.addAll(List.of(command));
        return run(new ProcessBuilder(all));
    }

    static String run(ProcessBuilder builder) throws IOException, InterruptedException {
        NodeTool.Result result = Commands.run(builder);
        if (result.exitCode() != 0)
            throw new IOException(String.join(" ", builder.command()) + ": " + result.output());
        return result.output();
    }

    /**
     * Runs {@code docker/build}, unless the image is there. Only one process does so at a time: of
     * two that want the same image, the second one finds it.
     */
    static void build(String... options) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of("..", "docker", "build").toAbsolutePath().toString());
        command.add("--keep");
        command.addAll(List.of(options));
        ProcessBuilder build = new ProcessBuilder(command);
        build.environment().putIfAbsent("DOCKER_BUILDKIT", "0");
        Path file = Files.createDirectories(Path.of("target")).resolve("docker-build.lock");
        try (FileChannel channel =
                        FileChannel.open(
                                file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                FileLock lock = channel.lock()) {
            if (!lock.isValid()) throw new IOException("no lock on " + file);
            run(build);
        }
    }

    /** Starts one more node. */
    PetraContainer add(Consumer<PetraContainer> options) {
        int number = nodes.size() + 1;
        PetraContainer node =
                new PetraContainer(image)
                        .withMemory(1400L << 20)
                        .withHeap("384MiB")
                        .withEngineSetting("memory", "128MiB")
                        .withSeeds(net + 11)
                        .withEnv("CASSANDRA_NUM_TOKENS", "4")
                        .withEnv("JVM_EXTRA_OPTS", JVM)
                        .withNetwork(network)
                        .withCreateContainerCmdModifier(
                                command -> command.withIpv4Address(address(number)));
        if (number > 1)
            node.withCreateContainerCmdModifier(command -> command.withHealthcheck(NO_HEALTH_CHECK))
                    .waitingFor(new OpenPort(number));
        options.accept(node);
        nodes.add(node);
        node.start();
        return node;
    }

    /** A volume with little room, which outlives the stop of a container that has it. */
    SmallDisk smallDisk(int mebibytes) {
        SmallDisk disk = new SmallDisk(mebibytes);
        disks.add(disk);
        return disk;
    }

    int size() {
        return nodes.size();
    }

    PetraContainer node(int number) {
        return nodes.get(number - 1);
    }

    String address(int number) {
        return net + (10 + number);
    }

    private static DockerClient docker() {
        return DockerClientFactory.instance().client();
    }

    void kill(int number) {
        docker().killContainerCmd(node(number).getContainerId()).exec();
    }

    /** SIGTERM, for which a node drains; none if it has ended. */
    void stop(int number) {
        if (node(number).isRunning())
            docker().stopContainerCmd(node(number).getContainerId()).withTimeout(60).exec();
    }

    /** Starts one that was killed or stopped, and waits until it answers CQL. */
    void startAgain(int number) throws InterruptedException {
        docker().startContainerCmd(node(number).getContainerId()).exec();
        awaitCql(number);
    }

    /** Waits until it has ended by itself, and returns how. */
    ContainerState awaitEnd(int number) throws InterruptedException {
        String id = node(number).getContainerId();
        long deadline = System.nanoTime() + BOOT.toNanos();
        while (true) {
            ContainerState state = docker().inspectContainerCmd(id).exec().getState();
            if (Boolean.FALSE.equals(state.getRunning())) return state;
            assertThat(System.nanoTime()).describedAs("end of node " + number).isLessThan(deadline);
            TimeUnit.MILLISECONDS.sleep(200);
        }
    }

    /** Whether it runs, and answers CQL now. */
    boolean isAnswering(int number) throws IOException, InterruptedException {
        return node(number).isRunning()
                && node(number).execInContainer("healthcheck").getExitCode() == 0;
    }

    /** Waits until it takes connections for CQL: Cassandra opens that port last. */
    private void awaitCql(int number) throws InterruptedException {
        String id = node(number).getContainerId();
        long deadline = System.nanoTime() + BOOT.toNanos();
        do {
            TimeUnit.MILLISECONDS.sleep(500);
            assertThat(docker().inspectContainerCmd(id).exec().getState().getRunning())
                    .describedAs("node %d: %s", number, node(number).getLogs())
                    .isTrue();
            assertThat(System.nanoTime())
                    .describedAs("start of node " + number)
                    .isLessThan(deadline);
        } while (!takesConnections(number));
    }

    private boolean takesConnections(int number) {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(address(number), PetraContainer.CQL_PORT), 1_000);
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    private final class OpenPort extends AbstractWaitStrategy {
        private final int number;

        private OpenPort(int number) {
            this.number = number;
        }

        @Override
        protected void waitUntilReady() {
            try {
                awaitCql(number);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(e);
            }
        }
    }

    void pause(int number) {
        for (int attempt = 1; ; attempt++)
            try {
                docker().pauseContainerCmd(node(number).getContainerId()).exec();
                return;
            } catch (InternalServerErrorException e) {
                // The runtime gives up where a thread stays in the kernel for a while.
                if (attempt == MOST_PAUSES
                        || !String.valueOf(e.getMessage()).contains("unable to freeze")) throw e;
            }
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

    /** Waits until no node has anything left to migrate. */
    void awaitMigrations(CqlSession session) throws InterruptedException {
        awaitOnEach(
                session,
                "SELECT * FROM petra.migrations",
                migrations -> assertThat(migrations).isEmpty());
    }

    /** Waits until the shadow of a table has caught up on each node. */
    void awaitShadows(CqlSession session, String table) throws InterruptedException {
        awaitShadows(session, table, "caught_up", "true");
    }

    /** Waits until the shadow of a table answers reads on each node. */
    void awaitAnsweringShadows(CqlSession session, String table) throws InterruptedException {
        awaitShadows(session, table, "answers", "'yes'");
    }

    /** Waits until no node has a shadow of a table. */
    void awaitNoShadows(CqlSession session, String table) throws InterruptedException {
        awaitOnEach(
                session,
                shadows(table, "state"),
                shadows -> assertThat(shadows).describedAs("shadows of %s", table).isEmpty());
    }

    private void awaitShadows(CqlSession session, String table, String column, String wanted)
            throws InterruptedException {
        awaitOnEach(
                session,
                shadows(table, column),
                shadows -> assertThat(shadows).containsExactly("[" + column + ":" + wanted + "]"));
    }

    private static String shadows(String table, String columns) {
        String[] name = table.split("\\.", -1);
        return "SELECT "
                + columns
                + " FROM petra.shadow WHERE keyspace_name = '"
                + name[0]
                + "' AND table_name = '"
                + name[1]
                + "'";
    }

    /** The settings in force of a node's engines. */
    List<String> settings(CqlSession session, int number) {
        return rows(session, "SELECT * FROM petra.settings", number).stream()
                .map(Row::getFormattedContents)
                .toList();
    }

    /** What each node that runs says of its shadow of a table; nothing where it has none. */
    List<Row> shadows(CqlSession session, String table) {
        return IntStream.rangeClosed(1, size())
                .filter(number -> node(number).isRunning())
                .mapToObj(number -> rows(session, shadows(table, "*"), number))
                .flatMap(List::stream)
                .toList();
    }

    /** Waits until each node reads a table from all replicas, and so sees them up. */
    void awaitReplicas(CqlSession session, String table) throws InterruptedException {
        awaitOnEach(
                session, "SELECT count(*) FROM " + table, counts -> assertThat(counts).hasSize(1));
    }

    /** Repeats a query at each node that runs: a session costs less than a process for each. */
    private void awaitOnEach(CqlSession session, String query, Consumer<List<String>> check)
            throws InterruptedException {
        long deadline = System.nanoTime() + BOOT.toNanos();
        for (int number = 1; number <= size(); number++)
            while (node(number).isRunning()) {
                try {
                    check.accept(
                            rows(session, query, number).stream()
                                    .map(Row::getFormattedContents)
                                    .toList());
                    break;
                } catch (DriverException | AssertionError e) {
                    if (System.nanoTime() > deadline)
                        throw new AssertionError(query + " on node " + number, e);
                    TimeUnit.MILLISECONDS.sleep(500);
                }
            }
    }

    private List<Row> rows(CqlSession session, String query, int number) {
        Optional<Node> node =
                session.getMetadata()
                        .findNode(new InetSocketAddress(address(number), PetraContainer.CQL_PORT));
        assertThat(node).describedAs("node %d, to the client", number).isPresent();
        return session.execute(
                        SimpleStatement.newInstance(query)
                                .setNode(node.get())
                                .setConsistencyLevel(ConsistencyLevel.ALL)
                                .setTimeout(BOOT))
                .all();
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

    /**
     * A session to all nodes, with what all statements have. It reads neither the schema nor the
     * ring: that takes processor time for each session and each change of the schema, and a second
     * of waiting after the change. Who changes the schema asks whether all agree, of the node that
     * made the change.
     */
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
                        TestNode.options()
                                .withClass(
                                        DefaultDriverOption.LOAD_BALANCING_POLICY_CLASS,
                                        SchemaByControlNode.class)
                                .withString(DefaultDriverOption.REQUEST_CONSISTENCY, level.name())
                                .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, timeout)
                                // One that stands still is soon left alone.
                                .withDuration(
                                        DefaultDriverOption.HEARTBEAT_INTERVAL,
                                        Duration.ofSeconds(2))
                                .withDuration(
                                        DefaultDriverOption.HEARTBEAT_TIMEOUT,
                                        Duration.ofSeconds(5))
                                .withDuration(
                                        DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT,
                                        Duration.ofSeconds(15))
                                .withDuration(
                                        DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT,
                                        Duration.ofSeconds(15))
                                .withDuration(
                                        DefaultDriverOption.CONTROL_CONNECTION_AGREEMENT_TIMEOUT,
                                        Duration.ofSeconds(60))
                                .withDuration(
                                        DefaultDriverOption.RECONNECTION_MAX_DELAY,
                                        Duration.ofSeconds(2))
                                .withBoolean(DefaultDriverOption.METADATA_SCHEMA_ENABLED, false)
                                .withBoolean(DefaultDriverOption.METADATA_TOKEN_MAP_ENABLED, false)
                                .withBoolean(
                                        DefaultDriverOption.REQUEST_WARN_IF_SET_KEYSPACE, false)
                                .build())
                .build();
    }

    @Override
    public void close() {
        for (PetraContainer node : nodes) node.stop();
        for (SmallDisk disk : disks) disk.close();
        network.close();
    }

    /** Memory that is a volume, held by a container that does nothing else. */
    static final class SmallDisk implements AutoCloseable {
        private static final String PATH = "/disk";
        private final String volume;
        private final GenericContainer<?> holder;

        private SmallDisk(int mebibytes) {
            volume =
                    docker().createVolumeCmd()
                            .withDriver("local")
                            .withDriverOpts(
                                    Map.of(
                                            "type", "tmpfs",
                                            "device", "tmpfs",
                                            "o", "uid=999,gid=999,size=" + mebibytes + "m"))
                            .exec()
                            .getName();
            holder =
                    new GenericContainer<>(DockerImageName.parse(IMAGE))
                            .withCreateContainerCmdModifier(
                                    command -> bind(command.withHealthcheck(NO_HEALTH_CHECK), PATH))
                            .withCommand("sleep", "infinity");
            holder.start();
        }

        private void bind(CreateContainerCmd command, String path) {
            HostConfig host = Objects.requireNonNull(command.getHostConfig());
            command.withHostConfig(host.withBinds(new Bind(volume, new Volume(path))));
        }

        /** Makes it the disk of a node. */
        void mountIn(PetraContainer node) {
            node.withCreateContainerCmdModifier(command -> bind(command, "/var/lib/cassandra"));
        }

        /** Leaves no room. */
        void fill() throws IOException, InterruptedException {
            assertThat(
                            holder.execInContainer(
                                            "sh", "-c", "cat /dev/zero > " + PATH + "/ballast")
                                    .getStderr())
                    .contains("No space left on device");
        }

        /** Ends {@link #fill}, if it was. */
        void free() throws IOException, InterruptedException {
            holder.execInContainer("rm", "-f", PATH + "/ballast");
        }

        @Override
        public void close() {
            holder.stop();
            docker().removeVolumeCmd(volume).exec();
        }
    }
}
