// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.Row;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.launcher.NodeProcess;
import dev.petra.launcher.NodeTool;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** One real node on loopback with ports of its own, and sessions to it. */
final class TestNode implements AutoCloseable {
    private static final Duration BOOT = Duration.ofMinutes(3);

    /** For what gossip tells, on a machine with other work. */
    private static final Duration RING = Duration.ofMinutes(5);

    private static final String ADDRESS = "127.0.0.1";
    private static final Pattern DEAD = Pattern.compile("DN .*?([0-9a-f-]{36})");

    /**
     * For a node that lives for seconds: the better compiler would take half of all its work, a
     * collector with threads of its own an eighth, and to verify classes a quarter of its start.
     * Who tests what the agent weaves has it {@link #VERIFIED}.
     */
    static final List<String> LEAN =
            List.of(
                    "-XX:TieredStopAtLevel=1",
                    "-XX:-UseG1GC",
                    "-XX:+UseSerialGC",
                    "-XX:+UnlockDiagnosticVMOptions",
                    "-XX:-BytecodeVerificationRemote");

    /** The compiler and collector of a node that is measured: those it has by default. */
    static final String[] MEASURED = {
        "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC"
    };

    /** The JVM option for a node whose classes are verified as they are by default. */
    static final String VERIFIED = "-XX:+BytecodeVerificationRemote";

    private final NodeProcess process;

    private TestNode(NodeConfig config) {
        this.process = new NodeProcess(config);
    }

    /** Starts a node in a directory and waits until it takes CQL. */
    static TestNode start(Path directory, UnaryOperator<NodeConfig.Builder> options) {
        TestNode node = begin(directory, options);
        node.process.awaitCql(BOOT);
        return node;
    }

    /** Starts a node in a directory and does not wait. */
    static TestNode begin(Path directory, UnaryOperator<NodeConfig.Builder> options) {
        NodeConfig.Builder config =
                NodeConfig.builder(directory)
                        .address(ADDRESS)
                        .nativePort(FreePorts.next())
                        .storagePort(FreePorts.next())
                        .jmxPort(FreePorts.next())
                        .heap("512MiB")
                        .engineParameters(Map.of("engine", "rocks", "memory", "128MiB"))
                        .fastRing()
                        // For what a node has by itself, see Contents.
                        .jvmOptions("-Dcassandra.enable_nodelocal_queries=true")
                        .jvmOptions(LEAN.toArray(String[]::new))
                        // Two classes and their nodes share a machine: slow is no failure.
                        .yaml(
                                Map.of(
                                        "write_request_timeout", "15s",
                                        "read_request_timeout", "15s",
                                        "range_request_timeout", "15s"))
                        .endWithThisJvm(true);
        TestNode node = new TestNode(options.apply(config).build());
        node.process.start();
        return node;
    }

    static TestNode start(Path directory) {
        return start(directory, UnaryOperator.identity());
    }

    NodeProcess process() {
        return process;
    }

    /** A verb that must succeed. */
    void nodetool(String... command) {
        NodeTool.Result result = process.nodetool(command);
        assertThat(result.exitCode())
                .describedAs(String.join(" ", command) + ": " + result.output())
                .isZero();
    }

    /**
     * The configuration {@code mixed} is the engine's or, on this node, Cassandra's own storage;
     * and what a node misses it is not told later.
     */
    static Map<String, Object> mixed(boolean ours) {
        return Map.of(
                "hinted_handoff_enabled",
                false,
                "memtable",
                Map.of(
                        "configurations",
                        Map.of("mixed", Map.of("inherits", ours ? "rocks" : "skiplist"))));
    }

    /** Waits until it sees a ring of so many nodes, all up, and none that comes or goes. */
    void awaitRing(int nodes) throws InterruptedException {
        awaitStatus(
                status ->
                        status.lines()
                                .filter(line -> line.matches("[UD][NLJM] .*"))
                                .map(line -> line.substring(0, 2))
                                .toList()
                                .equals(Collections.nCopies(nodes, "UN")));
    }

    /** Waits until it sees a node that is down, and returns its id. */
    String awaitDead() throws InterruptedException {
        Matcher dead = DEAD.matcher(awaitStatus(DEAD.asPredicate()));
        assertThat(dead.find()).isTrue();
        return dead.group(1);
    }

    private String awaitStatus(Predicate<String> wanted) throws InterruptedException {
        long end = System.nanoTime() + RING.toNanos();
        while (true) {
            String status = process.nodetool("status").output();
            if (wanted.test(status)) return status;
            assertThat(System.nanoTime()).as(status).isLessThan(end);
            TimeUnit.MILLISECONDS.sleep(200);
        }
    }

    /**
     * Waits until the log has a line.
     *
     * @return when it was seen, of {@link System#nanoTime}
     */
    long awaitLog(String text, Duration patience) throws InterruptedException {
        long end = System.nanoTime() + patience.toNanos();
        while (!process.log().contains(text)) {
            assertThat(System.nanoTime()).as(text).isLessThan(end);
            TimeUnit.MILLISECONDS.sleep(50);
        }
        return System.nanoTime();
    }

    void restart() {
        process.start();
        process.awaitCql(BOOT);
    }

    /** Where it takes CQL. */
    InetSocketAddress cqlAddress() {
        return new InetSocketAddress(process.address(), process.nativePort());
    }

    CqlSession session() {
        return session(ConsistencyLevel.LOCAL_ONE);
    }

    CqlSession session(ConsistencyLevel consistency) {
        return CqlSession.builder()
                .addContactPoint(cqlAddress())
                .withLocalDatacenter("datacenter1")
                .withConfigLoader(
                        DriverConfigLoader.programmaticBuilder()
                                .withDuration(
                                        DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(30))
                                .withDuration(
                                        DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT,
                                        Duration.ofSeconds(30))
                                .withDuration(
                                        DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT,
                                        Duration.ofSeconds(30))
                                .withString(
                                        DefaultDriverOption.REQUEST_CONSISTENCY, consistency.name())
                                .withBoolean(
                                        DefaultDriverOption.REQUEST_WARN_IF_SET_KEYSPACE, false)
                                .build())
                .build();
    }

    static void createKeyspace(CqlSession session, String name, int replicas) {
        session.execute(
                "CREATE KEYSPACE "
                        + name
                        + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': "
                        + replicas
                        + "}");
    }

    /**
     * Waits until no table is on its way into an engine or out of it. The driver asks now one node
     * and now the other, and each knows its own moves.
     */
    static void awaitMigrations(CqlSession session, Duration patience) throws InterruptedException {
        long deadline = System.nanoTime() + patience.toNanos();
        List<String> moves;
        int none = 0;
        do {
            TimeUnit.MILLISECONDS.sleep(50);
            moves =
                    session.execute("SELECT * FROM petra.migrations").all().stream()
                            .map(Row::getFormattedContents)
                            .toList();
            none = moves.isEmpty() ? none + 1 : 0;
        } while (none < 10 && System.nanoTime() < deadline);
        assertThat(moves).isEmpty();
        assertThat(none).isEqualTo(10);
    }

    @Override
    public void close() {
        if (process.isAlive()) process.kill();
    }
}
