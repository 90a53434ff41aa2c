// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.ProtocolVersion;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.type.codec.TypeCodecs;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.management.Attribute;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Slices of an engine's store on their way to a node that joins: kill -9 of one side or the other,
 * a table that changes meanwhile, and disks that are too small.
 */
class StreamsIT {
    private static final Duration PATIENCE = Duration.ofMinutes(5);
    private static final int PARTITIONS = 400;
    private static final int ROWS = 10;
    private static final int VALUE = 4_000;
    private static final String READING = "IncomingSlices.receive";
    private static final String SELECT = "SELECT p, c, v, writetime(v) FROM ks.t";

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path first;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path second;

    private final int seedPort = FreePorts.next();

    private static NodeConfig.Builder slow(NodeConfig.Builder options) {
        return options.numTokens(4)
                // Else a joining node that is slow to come back is forgotten, and for a while no
                // gossip about it is heard: it would get SSTables.
                .jvmOptions("-Dcassandra.failed_bootstrap_timeout_ms=600000")
                .engineParameters(
                        Map.of("engine", "rocks", "memory", "128MiB", "stream_part", "1MiB"))
                .yaml(
                        Map.of(
                                "hinted_handoff_enabled",
                                false,
                                "entire_sstable_stream_throughput_outbound",
                                "2MiB/s"));
    }

    /** A node with data, and what is in it. */
    private record Seed(TestNode node, Set<String> content) implements AutoCloseable {
        @Override
        public void close() {
            node.close();
        }
    }

    private Seed seed() {
        return seed(UnaryOperator.identity());
    }

    private Seed seed(UnaryOperator<NodeConfig.Builder> more) {
        TestNode node =
                TestNode.start(first, options -> more.apply(slow(options).storagePort(seedPort)));
        try (CqlSession session = node.session()) {
            fill(session);
            return new Seed(node, content(session));
        } catch (RuntimeException | AssertionError e) {
            node.close();
            throw e;
        }
    }

    private TestNode newcomer() {
        return newcomer(UnaryOperator.identity());
    }

    private TestNode newcomer(UnaryOperator<NodeConfig.Builder> more) {
        return TestNode.begin(
                second,
                options -> more.apply(slow(options).seeds(List.of("127.0.0.1:" + seedPort))));
    }

    /** Incompressible, so that it takes its time; with deletions that must arrive as well. */
    private void fill(CqlSession session) {
        TestNode.createKeyspace(session, "ks", 1);
        session.execute(
                "CREATE TABLE ks.t (p int, c int, v blob, PRIMARY KEY (p, c)) WITH memtable ="
                        + " 'rocks'");
        insert(session);
    }

    private static void insert(CqlSession session) {
        insert(session, PARTITIONS);
    }

    private static void insert(CqlSession session, int partitions) {
        Random random = new Random(1);
        var insert = session.prepare("INSERT INTO ks.t (p, c, v) VALUES (?, ?, ?)");
        for (int p = 0; p < partitions; p++)
            for (int c = 0; c < ROWS; c++) {
                byte[] value = new byte[VALUE];
                random.nextBytes(value);
                session.execute(insert.bind(p, c, ByteBuffer.wrap(value)));
            }
        for (int p = 0; p < PARTITIONS; p += 7) session.execute("DELETE FROM ks.t WHERE p = ?", p);
        for (int p = 1; p < PARTITIONS; p += 7)
            session.execute("DELETE FROM ks.t WHERE p = ? AND c > 4", p);
    }

    private static Set<String> content(CqlSession session) {
        return Contents.of(session, SELECT);
    }

    private List<Path> staged() {
        if (!Files.isDirectory(second.resolve("data"))) return List.of();
        try (var files = Files.walk(second.resolve("data"))) {
            return files.filter(file -> file.toString().endsWith(".sst"))
                    .filter(file -> file.toString().contains("/rocksdb/1/streams/"))
                    .toList();
        } catch (IOException | UncheckedIOException e) {
            // It changes while one looks.
            return List.of();
        }
    }

    private void awaitStaged() throws Exception {
        TestNode.await("slices come", PATIENCE, () -> staged().size() >= 2);
    }

    /** Cassandra aborts what a failed session received after it has said that it failed. */
    private void awaitNothingStaged() throws Exception {
        TestNode.await("slices go", PATIENCE, () -> staged().isEmpty());
    }

    private void checkBoth(Seed seed, TestNode newcomer) throws InterruptedException {
        assertThat(newcomer.process().log()).contains("slices into ks.t");
        checkContent(seed, newcomer);
    }

    /** What the newcomer owns is only there afterwards. */
    private void checkContent(Seed seed, TestNode newcomer) throws InterruptedException {
        assertThat(staged()).isEmpty();
        // Before the seed knows that the newcomer has joined, it owns all.
        for (TestNode node : List.of(seed.node(), newcomer)) node.awaitRing(2);
        seed.node().nodetool("cleanup", "ks");
        try (CqlSession session = seed.node().session()) {
            assertThat(content(session)).isEqualTo(seed.content());
        }
        for (TestNode node : List.of(seed.node(), newcomer))
            node.nodetool("verify", "--force", "-e", "--check-tokens", "ks", "t");
    }

    @Test
    void aReceiverThatIsKilledBeginsAnew() throws Exception {
        try (Seed seed = seed();
                TestNode newcomer = newcomer()) {
            awaitStaged();
            newcomer.process().kill();
            assertThat(staged()).isNotEmpty();
            newcomer.restart();
            checkBoth(seed, newcomer);
        }
    }

    @Test
    void aBootstrapWhoseSenderIsKilledIsResumed() throws Exception {
        try (Seed seed = seed();
                TestNode newcomer = newcomer()) {
            awaitStaged();
            seed.node().process().kill();
            newcomer.awaitLog("not yet bootstrapped completely", PATIENCE);
            awaitNothingStaged();
            assertThat(newcomer.process().log()).doesNotContain("slices into ks.t");
            seed.node().restart();
            newcomer.awaitPeerRestarted(PATIENCE);
            newcomer.nodetool("bootstrap", "resume", "--force");
            newcomer.process().awaitCql(PATIENCE);
            checkBoth(seed, newcomer);
        }
    }

    /** Its process does not run, and its kernel keeps the connections. */
    @Test
    void aSenderThatStallsEndsTheSession() throws Exception {
        try (Seed seed = seed();
                TestNode newcomer =
                        newcomer(options -> options.jvmOptions("-Dpetra.stream.idle_seconds=15"))) {
            awaitStaged();
            signal("STOP", seed.node());
            try {
                newcomer.awaitLog("sent no bytes of ks.t for 15 s", PATIENCE);
                newcomer.awaitLog("not yet bootstrapped completely", PATIENCE);
                awaitNothingStaged();
                // Cassandra closes no connection whose first slice is under way.
                TestNode.await("readers end", PATIENCE, () -> !jstack(newcomer).contains(READING));
            } finally {
                signal("CONT", seed.node());
            }
            assertThat(newcomer.process().log()).doesNotContain("slices into ks.t");
            TestNode.await(
                    "it is up again",
                    PATIENCE,
                    () -> {
                        String log = newcomer.process().log();
                        return log.lastIndexOf("is now UP") > log.lastIndexOf("is now DOWN");
                    });
            newcomer.nodetool("bootstrap", "resume", "--force");
            newcomer.process().awaitCql(PATIENCE);
            checkBoth(seed, newcomer);
        }
    }

    private static void signal(String name, TestNode node) throws Exception {
        assertThat(
                        new ProcessBuilder("kill", "-" + name, node.process().pid() + "")
                                .inheritIO()
                                .start()
                                .waitFor())
                .isZero();
    }

    private static String jstack(TestNode node) throws IOException {
        Process process =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "jcmd").toString(),
                                node.process().pid() + "",
                                "Thread.print")
                        .start();
        return new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    }

    /**
     * The newcomer asks for what it has no room for, and the seed is sent it when the newcomer
     * leaves. Neither may use more than a hundred-thousandth of what is free.
     */
    @Test
    void whatHasNoRoomIsRefusedBeforeAnythingMoves() throws Exception {
        UnaryOperator<NodeConfig.Builder> full =
                options ->
                        options.yaml(
                                Map.of(
                                        "max_space_usable_for_compactions_in_percentage",
                                        0.00001,
                                        "entire_sstable_stream_throughput_outbound",
                                        "0MiB/s"));
        try (Seed seed = seed(full);
                TestNode newcomer = newcomer(full)) {
            newcomer.awaitLog("not yet bootstrapped completely", PATIENCE);
            assertThat(newcomer.process().log())
                    .contains("There is no room for a stream from")
                    .contains("of which table ks.t needs")
                    .doesNotContain("Prepare completed");
            assertThat(new TableFiles(second.resolve("data"), "ks", "t").stores()).doesNotExist();
            ignoreRoom(newcomer);
            newcomer.nodetool("bootstrap", "resume", "--force");
            newcomer.process().awaitCql(PATIENCE);
            checkBoth(seed, newcomer);

            assertThat(newcomer.process().nodetool("decommission", "--force").exitCode())
                    .isNotZero();
            assertThat(seed.node().process().log())
                    .contains("There is no room for a stream from")
                    .contains("of which table ks.t needs")
                    .doesNotContain("slices into ks.t");
            ignoreRoom(seed.node());
            newcomer.nodetool("decommission", "--force");
            assertThat(seed.node().process().log()).contains("slices into ks.t");
            assertThat(Contents.alone(seed.node(), SELECT)).isEqualTo(seed.content());
        }
    }

    /** On a disk that has no room for a third of the table beside it. */
    @Test
    void aNodeWhoseDiskIsNearlyFullIsDecommissioned() throws Exception {
        boolean mounted = mount("mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", second + "");
        if (!mounted) System.err.println("StreamsIT: NOT RUN on a small disk: no right to mount");
        assumeTrue(mounted, "no right to mount a tmpfs");
        Map<String, Object> small =
                Map.of(
                        "commitlog_segment_size", "2MiB",
                        "commitlog_total_space", "8MiB",
                        "entire_sstable_stream_throughput_outbound", "64MiB/s");
        try (TestNode seed = TestNode.start(first, options -> alone(options, "9", small));
                TestNode leaver =
                        TestNode.start(
                                second,
                                options ->
                                        alone(options, "8", small)
                                                .seeds(List.of("127.0.0.1:" + seedPort)));
                CqlSession session = leaver.session()) {
            TestNode.createKeyspace(session, "ks", 1);
            session.execute(
                    "CREATE TABLE ks.t (p int, c int, v blob, PRIMARY KEY (p, c)) WITH memtable ="
                            + " 'rocks'");
            insert(session, 3 * PARTITIONS);
            Set<String> expected = content(session);
            leaver.nodetool("flush", "ks");
            leaver.nodetool("compact", "ks");
            long bytes = steadyStoreBytes();
            FileStore disk = Files.getFileStore(second);
            long used = disk.getTotalSpace() - disk.getUsableSpace();
            assertThat(mount("mount", "-o", "remount,size=" + (used + bytes / 3), second + ""))
                    .isTrue();
            assertThat((double) used / disk.getTotalSpace()).isGreaterThan(0.7);
            long most = 0;
            CompletableFuture<Void> decommission =
                    CompletableFuture.runAsync(() -> leaver.nodetool("decommission", "--force"));
            while (!decommission.isDone()) {
                most = Math.max(most, storeBytes());
                TimeUnit.MILLISECONDS.sleep(20);
            }
            decommission.get();
            assertThat(leaver.process().log()).doesNotContain("No space left");
            assertThat(seed.process().log()).contains("slices into ks.t");
            // Four of stream_part.
            assertThat(most - bytes).isLessThan(4 << 20);
            assertThat(Contents.alone(seed, SELECT)).isEqualTo(expected);
        } finally {
            mount("umount", "-l", second + "");
        }
    }

    /** The node of token 9 owns a tenth of the ring, that of 8 the rest. */
    private NodeConfig.Builder alone(
            NodeConfig.Builder options, String token, Map<String, Object> yaml) {
        Map<String, Object> all = new HashMap<>(yaml);
        all.put("initial_token", token + "000000000000000000");
        return slow(options)
                .storagePort(token.equals("9") ? seedPort : FreePorts.next())
                .numTokens(1)
                .yaml(all);
    }

    private static boolean mount(String... command) throws Exception {
        return new ProcessBuilder(command).inheritIO().start().waitFor() == 0;
    }

    /** What {@link #storeBytes} gives twice: no file has gone while it looked. */
    private long steadyStoreBytes() throws Exception {
        long[] bytes = {-1};
        TestNode.await(
                "files that stay",
                PATIENCE,
                () -> {
                    long before = bytes[0];
                    bytes[0] = storeBytes();
                    return bytes[0] == before;
                });
        return bytes[0];
    }

    /** Of all that the table has on the second node. */
    private long storeBytes() throws IOException {
        long bytes = 0;
        try (var files = Files.walk(new TableFiles(second.resolve("data"), "ks", "t").stores())) {
            for (Path file : (Iterable<Path>) files::iterator)
                if (Files.isRegularFile(file)) bytes += Files.size(file);
        } catch (NoSuchFileException | UncheckedIOException e) {
            // Files go while one looks.
            return bytes;
        }
        return bytes;
    }

    @SuppressWarnings("BanJNDI") // a node of this test, on loopback
    private static void ignoreRoom(TestNode node) throws Exception {
        try (JMXConnector jmx =
                JMXConnectorFactory.connect(
                        new JMXServiceURL(
                                "service:jmx:rmi:///jndi/rmi://127.0.0.1:"
                                        + node.process().jmxPort()
                                        + "/jmxrmi"))) {
            jmx.getMBeanServerConnection()
                    .setAttribute(
                            new ObjectName("org.apache.cassandra.db:type=StorageService"),
                            new Attribute("SkipStreamDiskSpaceCheck", true));
        }
    }

    /**
     * The statement comes while parts of the table are staged and more arrive. What the newcomer
     * then does depends on whether it hears of it before the last part: its bootstrap completes, or
     * fails and is resumed.
     */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "DROP TABLE ks.t",
                "ALTER TABLE ks.t WITH memtable = 'default'",
                "TRUNCATE ks.t"
            })
    void aTableChangesWhileABootstrapStreamsIt(String statement) throws Exception {
        try (Seed seed =
                        seed(
                                options ->
                                        options.yaml(
                                                Map.of(
                                                        "entire_sstable_stream_throughput_outbound",
                                                        "256KiB/s")));
                TestNode newcomer = newcomer()) {
            awaitStaged();
            try (CqlSession session = seed.node().session()) {
                session.execute(statement);
            }
            seed.node().nodetool("setstreamthroughput", "-e", "0");
            if (!bootstraps(newcomer)) {
                awaitNothingStaged();
                assertThat(newcomer.process().log()).doesNotContain("slices into ks.t");
                newcomer.nodetool("bootstrap", "resume", "--force");
            }
            newcomer.process().awaitCql(PATIENCE);
            for (TestNode node : List.of(seed.node(), newcomer)) node.awaitRing(2);
            checkChanged(statement, seed, newcomer);
            newcomer.process().kill();
            newcomer.restart();
            for (TestNode node : List.of(seed.node(), newcomer)) node.awaitRing(2);
            checkChanged(statement, seed, newcomer);
        }
    }

    /** Cassandra's reader took a slice for an SSTable, and waited for the rest of a small one. */
    @Test
    void tablesLeaveTheEngineBeforeTheirSmallSlicesCome() throws Exception {
        try (Seed seed =
                seed(
                        options ->
                                options.yaml(
                                        Map.of(
                                                "streaming_connections_per_host",
                                                1,
                                                "entire_sstable_stream_throughput_outbound",
                                                "256KiB/s")))) {
            // Which of all are sent behind the large one is left to chance: hardly ever none.
            List<String> tables = IntStream.range(0, 16).mapToObj(i -> "ks.small" + i).toList();
            try (CqlSession session = seed.node().session()) {
                for (String table : tables) {
                    session.execute(
                            "CREATE TABLE "
                                    + table
                                    + " (p int PRIMARY KEY) WITH memtable = 'rocks'");
                    for (int p = 0; p < 20; p++)
                        session.execute("INSERT INTO " + table + " (p) VALUES (?)", p);
                }
                try (TestNode newcomer = newcomer()) {
                    awaitStaged();
                    for (String table : tables)
                        session.execute("ALTER TABLE " + table + " WITH memtable = 'default'");
                    Pattern gone = Pattern.compile("all data is in SSTables");
                    TestNode.await(
                            "the tables leave the newcomer's engine",
                            PATIENCE,
                            () ->
                                    gone.matcher(newcomer.process().log()).results().count()
                                            >= tables.size());
                    seed.node().nodetool("setstreamthroughput", "-e", "0");
                    if (!bootstraps(newcomer))
                        // Or its slice came just when the store was closed, or before, and was to
                        // go live afterwards.
                        assertThat(newcomer.process().log())
                                .containsPattern(
                                        "ks.small\\d+ (is (not in a storage engine|closed)|was"
                                                + " truncated, dropped or altered)");
                }
            }
        }
    }

    /** To a node that takes no slices. What is gone by then is not written. */
    @Test
    void anSSTableIsWrittenWhenItsTurnHasCome() throws Exception {
        // Of random tokens the newcomer may get one range, and then nothing waits for its turn.
        try (Seed seed = seed(withoutSlices(-6, -2, 2, 6))) {
            // Write buffers have no size in estimates.
            seed.node().nodetool("flush", "ks");
            try (TestNode newcomer = newcomer(withoutSlices(-4, 0, 4, 8))) {
                sendWhileTruncated(seed, newcomer);
                sendWhileDropped(seed.node(), newcomer);
            }
        }
    }

    private static UnaryOperator<NodeConfig.Builder> withoutSlices(int... tokens) {
        String all =
                IntStream.of(tokens)
                        .mapToObj(token -> Long.toString(token * 1_000_000_000_000_000_000L))
                        .collect(Collectors.joining(","));
        return options ->
                options.jvmOptions("-Dpetra.stream.slices=false")
                        .yaml(
                                Map.of(
                                        "stream_throughput_outbound",
                                        "256KiB/s",
                                        "initial_token",
                                        all));
    }

    private void sendWhileTruncated(Seed seed, TestNode newcomer) throws Exception {
        TestNode.await("an SSTable is sent", PATIENCE, () -> exports() > 0);
        // One for each connection, of which there are as many as processors.
        for (int i = 0; i < 20; i++) {
            assertThat(exports()).isLessThanOrEqualTo(Runtime.getRuntime().availableProcessors());
            TimeUnit.MILLISECONDS.sleep(50);
        }
        try (CqlSession session = seed.node().session()) {
            session.execute("TRUNCATE ks.t");
        }
        seed.node().nodetool("setstreamthroughput", "0");
        assertThat(bootstraps(newcomer)).isTrue();
        newcomer.process().awaitCql(PATIENCE);
        for (TestNode node : List.of(seed.node(), newcomer)) node.awaitRing(2);
        assertThat(exports()).isZero();
        assertThat(seed.node().process().log()).contains("is sent as an empty one");
        assertThat(Contents.alone(seed.node(), SELECT)).isEmpty();
        try (CqlSession session = newcomer.session()) {
            TestNode.awaitMigrations(session, PATIENCE);
            Set<String> owned = owned(session, newcomer, seed.content());
            Set<String> sent = Contents.alone(newcomer, SELECT);
            assertThat(owned.containsAll(sent)).isTrue();
            assertThat(sent.size()).isLessThan(owned.size());
        }
    }

    /** A disk that fails stops a node; a folder that goes while it is written to must not. */
    private void sendWhileDropped(TestNode sender, TestNode receiver) throws Exception {
        try (CqlSession session = sender.session()) {
            insert(session);
            session.execute(
                    "ALTER KEYSPACE ks WITH replication = {'class': 'SimpleStrategy',"
                            + " 'replication_factor': 2}");
            sender.nodetool("flush", "ks");
            sender.nodetool("setstreamthroughput", "4");
            CompletableFuture<?> repair =
                    CompletableFuture.supplyAsync(
                            () -> receiver.tryNodetool("repair", "--full", "ks", "t"));
            TestNode.await("an SSTable is sent", PATIENCE, () -> exports() > 0);
            session.execute("DROP TABLE ks.t");
            sender.nodetool("setstreamthroughput", "0");
            // Whether it succeeds depends on when the receiver hears of it.
            repair.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
            Path stores = new TableFiles(first.resolve("data"), "ks", "t").stores();
            TestNode.await("the folder goes", PATIENCE, () -> !Files.exists(stores));
            assertThat(session.execute("SELECT key FROM system.local").all()).hasSize(1);
        }
        receiver.awaitRing(2);
        assertThat(sender.process().log()).doesNotContain("Stopping gossiper", "FSWriteError");
    }

    /** How many SSTables the seed has written to send, or writes. */
    private int exports() {
        Path streams = new TableFiles(first.resolve("data"), "ks", "t").stores().resolve("streams");
        if (!Files.isDirectory(streams)) return 0;
        try (var all = Files.list(streams)) {
            return (int) all.count();
        } catch (IOException | UncheckedIOException e) {
            // It changes while one looks.
            return 0;
        }
    }

    /** Waits until its bootstrap has ended, and returns whether it completed. */
    private static boolean bootstraps(TestNode newcomer) throws InterruptedException {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (true) {
            String log = newcomer.process().log();
            if (log.contains("not yet bootstrapped completely")) return false;
            if (log.contains("Bootstrap completed for tokens")) return true;
            assertThat(System.nanoTime()).as("the bootstrap ends").isLessThan(end);
            TimeUnit.MILLISECONDS.sleep(50);
        }
    }

    private void checkChanged(String statement, Seed seed, TestNode newcomer) throws Exception {
        try (CqlSession session = seed.node().session()) {
            TestNode.awaitMigrations(session, PATIENCE);
            awaitNothingStaged();
            switch (statement.substring(0, statement.indexOf(' '))) {
                case "DROP" -> {
                    assertThat(session.getMetadata().getKeyspace("ks").orElseThrow().getTables())
                            .isEmpty();
                    awaitNoStores();
                }
                case "ALTER" -> {
                    for (TestNode node : List.of(seed.node(), newcomer))
                        node.nodetool("cleanup", "ks");
                    assertThat(content(session)).isEqualTo(seed.content());
                    awaitNoStores();
                }
                default -> {
                    // Cassandra truncates on the members of the ring alone, of which the newcomer
                    // was none; and a stream keeps what it is about to send.
                    assertThat(Contents.alone(seed.node(), SELECT)).isEmpty();
                    assertThat(Contents.alone(newcomer, SELECT))
                            .isNotEmpty()
                            .isEqualTo(owned(session, newcomer, seed.content()));
                }
            }
        }
    }

    /** Neither live rows of the table nor parts lie on the newcomer in an engine. */
    private void awaitNoStores() throws Exception {
        Path stores = new TableFiles(second.resolve("data"), "ks", "t").stores();
        TestNode.await(stores + " goes", PATIENCE, () -> !Files.exists(stores));
    }

    /** The rows whose partitions a node has by the ring. */
    private static Set<String> owned(CqlSession session, TestNode node, Set<String> rows) {
        Set<String> starts = new TreeSet<>();
        for (int p = 0; p < PARTITIONS; p++)
            for (Node replica :
                    session.getMetadata()
                            .getTokenMap()
                            .orElseThrow()
                            .getReplicas("ks", TypeCodecs.INT.encode(p, ProtocolVersion.DEFAULT)))
                if (replica.getEndPoint().resolve().equals(node.cqlAddress()))
                    starts.add("[p:" + p + ",");
        return rows.stream()
                .filter(row -> starts.contains(row.substring(0, row.indexOf(',') + 1)))
                .collect(Collectors.toCollection(TreeSet::new));
    }
}
