// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.ProtocolVersion;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.type.codec.TypeCodecs;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.OneOf;
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

/**
 * Slices of an engine's store on their way to a node that joins: kill -9 of one side or the other,
 * a table that changes meanwhile, and disks that are too small.
 */
class StreamsIT {
    private static final Duration PATIENCE = Duration.ofMinutes(5);
    private static final int PARTITIONS = 200;
    private static final int ROWS = 10;
    private static final int VALUE = 4_000;
    private static final String READING = "IncomingSlices.receive";
    private static final String SELECT = select("t");
    private static final Pattern IDLE = Pattern.compile("sent no bytes of ks[.]\\w+ for 15 s");

    /** Of random tokens the newcomer may get one range, or little of the ring. */
    private static final int[] OF_SEED = {-6, -2, 2, 6};

    private static final int[] OF_NEWCOMER = {-4, 0, 4, 8};

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
                        Map.of("engine", "rocks", "memory", "128MiB", "stream_part", "512KiB"))
                .yaml(
                        Map.of(
                                "hinted_handoff_enabled",
                                false,
                                "entire_sstable_stream_throughput_outbound",
                                "1MiB/s"));
    }

    /** Slices of all tables come beside each other, and it takes long until one is whole. */
    private static NodeConfig.Builder besideEachOther(NodeConfig.Builder options) {
        return tokens(OF_SEED)
                .apply(options)
                // As many as there are processors, else.
                .jvmOptions("-Dcassandra.streaming.session.parallelTransfers=8")
                .yaml(Map.of("entire_sstable_stream_throughput_outbound", "256KiB/s"));
    }

    private static UnaryOperator<NodeConfig.Builder> tokens(int... tokens) {
        String all =
                IntStream.of(tokens)
                        .mapToObj(token -> Long.toString(token * 1_000_000_000_000_000_000L))
                        .collect(Collectors.joining(","));
        return options -> options.yaml(Map.of("initial_token", all));
    }

    /** A node with data, and what is in each table. */
    private record Seed(TestNode node, Map<String, Set<String>> contents) implements AutoCloseable {
        Set<String> content(String table) {
            return contents.get(table);
        }

        @Override
        public void close() {
            node.close();
        }
    }

    private Seed seed(UnaryOperator<NodeConfig.Builder> more, String... tables) {
        TestNode node =
                TestNode.start(first, options -> more.apply(slow(options).storagePort(seedPort)));
        try (CqlSession session = node.plainSession()) {
            TestNode.createKeyspace(session, "ks", 1);
            Map<String, Set<String>> contents = new HashMap<>();
            for (String table : tables) {
                create(session, table);
                insert(session, table, PARTITIONS);
                contents.put(table, content(session, table));
            }
            return new Seed(node, contents);
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

    private static void create(CqlSession session, String table) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int, c int, v blob, PRIMARY KEY (p, c)) WITH memtable = 'rocks'");
    }

    /** Incompressible, so that it takes its time; with deletions that must arrive as well. */
    private static void insert(CqlSession session, String table, int partitions) {
        String name = "ks." + table;
        Random random = new Random(1);
        var insert = session.prepare("INSERT INTO " + name + " (p, c, v) VALUES (?, ?, ?)");
        for (int p = 0; p < partitions; p++) {
            BatchStatementBuilder rows = BatchStatement.builder(DefaultBatchType.UNLOGGED);
            for (int c = 0; c < ROWS; c++) {
                byte[] value = new byte[VALUE];
                random.nextBytes(value);
                rows.addStatement(insert.bind(p, c, ByteBuffer.wrap(value)));
            }
            session.execute(rows.build());
        }
        for (int p = 0; p < PARTITIONS; p += 7)
            session.execute("DELETE FROM " + name + " WHERE p = ?", p);
        for (int p = 1; p < PARTITIONS; p += 7)
            session.execute("DELETE FROM " + name + " WHERE p = ? AND c > 4", p);
    }

    private static String select(String table) {
        return "SELECT p, c, v, writetime(v) FROM ks." + table;
    }

    private static Set<String> content(CqlSession session, String table) {
        return Contents.of(session, select(table));
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

    private List<Path> staged(String table) {
        String folder = "/ks/" + table + "-";
        return staged().stream().filter(file -> file.toString().contains(folder)).toList();
    }

    private void awaitStaged(String table) throws Exception {
        TestNode.await("slices come to " + table, PATIENCE, () -> staged(table).size() >= 2);
    }

    /** Cassandra aborts what a failed session received after it has said that it failed. */
    private void awaitNothingStaged() throws Exception {
        TestNode.await("slices go", PATIENCE, () -> staged().isEmpty());
    }

    private void checkBoth(Seed seed, TestNode newcomer) throws InterruptedException {
        assertThat(newcomer.process().log()).contains("slices into ks.t");
        assertThat(staged("t")).isEmpty();
        // Before the seed knows that the newcomer has joined, it owns all.
        awaitBoth(seed, newcomer);
        seed.node().nodetool("cleanup", "ks");
        // What the newcomer owns is only there afterwards.
        try (CqlSession session = seed.node().session()) {
            assertThat(content(session, "t")).isEqualTo(seed.content("t"));
        }
        for (TestNode node : List.of(seed.node(), newcomer))
            node.nodetool("verify", "--force", "-e", "--check-tokens", "ks", "t");
    }

    private static void awaitBoth(Seed seed, TestNode newcomer) throws InterruptedException {
        for (TestNode node : List.of(seed.node(), newcomer)) node.awaitRing(2);
    }

    /** Resumes a bootstrap that failed; says whether it is complete then. */
    private static CompletableFuture<Boolean> resume(TestNode newcomer) {
        return CompletableFuture.supplyAsync(
                () -> newcomer.tryNodetool("bootstrap", "resume", "--force").exitCode() == 0);
    }

    private static boolean completes(CompletableFuture<Boolean> resumed) throws Exception {
        return resumed.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    private static void execute(TestNode node, String statement) {
        try (CqlSession session = node.session()) {
            session.execute(statement);
        }
    }

    /**
     * One after the other on one node, to which slices of three tables come: that a later session
     * completes the bootstrap, others have as well.
     */
    @Test
    @OneOf(variants = "StreamsIT", of = 3, number = 1)
    void aBootstrapIsResumedAfterAllThatEndsIt() throws Exception {
        try (Seed seed = seed(StreamsIT::besideEachOther, "t", "altered", "dropped");
                TestNode newcomer =
                        newcomer(
                                options ->
                                        tokens(OF_NEWCOMER)
                                                .apply(options)
                                                .jvmOptions("-Dpetra.stream.idle_seconds=15"))) {
            theSenderStalls(seed.node(), newcomer);
            theSenderIsKilled(seed.node(), newcomer);
            theReceiverIsKilledAndBeginsAnew(newcomer);
            aTableLeavesTheEngine(seed.node(), newcomer);
            aTableIsDropped(seed.node(), newcomer);
            newcomer.process().awaitCql(PATIENCE);
            checkChanged(seed, newcomer);
            checkBoth(seed, newcomer);
            newcomer.process().kill();
            newcomer.restart();
            checkChanged(seed, newcomer);
            checkBoth(seed, newcomer);
        }
    }

    private static void assertNothingIsLive(TestNode newcomer) {
        assertThat(newcomer.process().log()).doesNotContain("slices into ks.");
    }

    /** Its process does not run, and its kernel keeps the connections. */
    private void theSenderStalls(TestNode sender, TestNode newcomer) throws Exception {
        awaitStaged("t");
        signal("STOP", sender);
        try {
            newcomer.awaitLog("no bytes for 15 s", PATIENCE, log -> IDLE.matcher(log).find());
            newcomer.awaitLog("not yet bootstrapped completely", PATIENCE);
            awaitNothingStaged();
            // Cassandra closes no connection whose first slice is under way.
            TestNode.await("readers end", PATIENCE, () -> !jstack(newcomer).contains(READING));
        } finally {
            signal("CONT", sender);
        }
        assertNothingIsLive(newcomer);
        TestNode.await(
                "it is up again",
                PATIENCE,
                () -> {
                    String log = newcomer.process().log();
                    return log.lastIndexOf("is now UP") > log.lastIndexOf("is now DOWN");
                });
    }

    private void theSenderIsKilled(TestNode sender, TestNode newcomer) throws Exception {
        CompletableFuture<Boolean> resumed = resume(newcomer);
        awaitStaged("t");
        sender.process().kill();
        assertThat(completes(resumed)).isFalse();
        awaitNothingStaged();
        assertNothingIsLive(newcomer);
        sender.restart();
        newcomer.awaitPeerRestarted(PATIENCE);
    }

    private void theReceiverIsKilledAndBeginsAnew(TestNode newcomer) throws Exception {
        CompletableFuture<Boolean> resumed = resume(newcomer);
        awaitStaged("t");
        newcomer.process().kill();
        assertThat(staged()).isNotEmpty();
        assertNothingIsLive(newcomer);
        newcomer.process().start();
        resumed.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        // By then what was staged before is gone.
        TestNode.await(
                "another bootstrap",
                PATIENCE,
                () -> newcomer.process().logSinceStart().contains("Starting to bootstrap"));
    }

    /** While slices of the table are staged and more arrive, which the newcomer refuses then. */
    private void aTableLeavesTheEngine(TestNode sender, TestNode newcomer) throws Exception {
        awaitStaged("altered");
        execute(sender, "ALTER TABLE ks.altered WITH memtable = 'default'");
        newcomer.awaitLog("The migration of ks.altered out of its engine begins", PATIENCE);
        assertThat(bootstraps(newcomer)).isFalse();
        awaitNothingStaged();
        assertThat(newcomer.process().log()).doesNotContain("slices into ks.altered");
    }

    /**
     * While slices of the table are staged and more arrive. What the newcomer then does depends on
     * whether it hears of it before the last one: its bootstrap completes, or fails and is resumed.
     */
    private void aTableIsDropped(TestNode sender, TestNode newcomer) throws Exception {
        // Of the session before, in which the other table was refused, all of it may be live.
        int before = newcomer.process().log().split("slices into ks.dropped", -1).length;
        CompletableFuture<Boolean> resumed = resume(newcomer);
        awaitStaged("dropped");
        execute(sender, "DROP TABLE ks.dropped");
        sender.nodetool("setstreamthroughput", "-e", "0");
        if (completes(resumed)) return;
        awaitNothingStaged();
        assertThat(newcomer.process().log().split("slices into ks.dropped", -1)).hasSize(before);
        newcomer.nodetool("bootstrap", "resume", "--force");
    }

    private void checkChanged(Seed seed, TestNode newcomer) throws Exception {
        awaitBoth(seed, newcomer);
        try (CqlSession session = seed.node().session()) {
            TestNode.awaitMigrations(session, PATIENCE);
            awaitNothingStaged();
            assertThat(session.getMetadata().getKeyspace("ks").orElseThrow().getTable("dropped"))
                    .isEmpty();
            for (TestNode node : List.of(seed.node(), newcomer)) node.nodetool("cleanup", "ks");
            assertThat(content(session, "altered")).isEqualTo(seed.content("altered"));
        }
        // Neither live rows of the tables nor slices lie on the newcomer in an engine.
        for (String table : List.of("altered", "dropped")) {
            Path stores = new TableFiles(second.resolve("data"), "ks", table).stores();
            TestNode.await(stores + " goes", PATIENCE, () -> !Files.exists(stores));
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
     * leaves. Neither may use more than five millionths of what is free. Between the two, a table
     * is truncated while slices of it come.
     */
    @Test
    @OneOf(variants = "StreamsIT", of = 3, number = 2)
    void whatHasNoRoomIsRefusedBeforeAnythingMoves() throws Exception {
        UnaryOperator<NodeConfig.Builder> full =
                options ->
                        options.yaml(
                                Map.of(
                                        "max_space_usable_for_compactions_in_percentage",
                                        0.000005,
                                        "entire_sstable_stream_throughput_outbound",
                                        "0MiB/s"));
        try (Seed seed = seed(options -> besideEachOther(full.apply(options)), "t", "emptied");
                TestNode newcomer =
                        newcomer(options -> tokens(OF_NEWCOMER).apply(full.apply(options)))) {
            newcomer.awaitLog("not yet bootstrapped completely", PATIENCE);
            assertThat(newcomer.process().log())
                    .contains("There is no room for a stream from")
                    .containsPattern(OF_WHICH)
                    .doesNotContain("Prepare completed");
            for (String table : List.of("t", "emptied"))
                assertThat(new TableFiles(second.resolve("data"), "ks", table).stores())
                        .doesNotExist();
            ignoreRoom(newcomer);
            aTableIsTruncated(seed.node(), newcomer);
            newcomer.process().awaitCql(PATIENCE);
            checkBoth(seed, newcomer);
            checkEmptied(seed, newcomer);
            newcomer.process().kill();
            newcomer.restart();
            awaitBoth(seed, newcomer);
            checkEmptied(seed, newcomer);

            assertThat(newcomer.process().nodetool("decommission", "--force").exitCode())
                    .isNotZero();
            assertThat(seed.node().process().log())
                    .contains("There is no room for a stream from")
                    .containsPattern(OF_WHICH)
                    .doesNotContain("slices into ks.");
            ignoreRoom(seed.node());
            newcomer.nodetool("decommission", "--force");
            assertThat(seed.node().process().log()).contains("slices into ks.t");
            assertThat(Contents.alone(seed.node(), SELECT)).isEqualTo(seed.content("t"));
        }
    }

    /** The table with the most to come, of two that are alike. */
    private static final Pattern OF_WHICH =
            Pattern.compile("of which table ks[.](t|emptied) needs");

    /** While slices of the table are staged and more arrive. */
    private void aTableIsTruncated(TestNode sender, TestNode newcomer) throws Exception {
        CompletableFuture<Boolean> resumed = resume(newcomer);
        awaitStaged("emptied");
        execute(sender, "TRUNCATE ks.emptied");
        sender.nodetool("setstreamthroughput", "-e", "0");
        assertThat(completes(resumed)).isTrue();
    }

    /**
     * Cassandra truncates on the members of the ring alone, of which the newcomer was none; and a
     * stream keeps what it is about to send.
     */
    private static void checkEmptied(Seed seed, TestNode newcomer) {
        String select = select("emptied");
        assertThat(Contents.alone(seed.node(), select)).isEmpty();
        try (CqlSession session = seed.node().session()) {
            assertThat(Contents.alone(newcomer, select))
                    .isNotEmpty()
                    .isEqualTo(owned(session, newcomer, seed.content("emptied")));
        }
    }

    /** On a disk that has no room for a third of the table beside it. */
    @Test
    @OneOf(variants = "StreamsIT", of = 3, number = 3)
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
            create(session, "t");
            insert(session, "t", 1_200);
            Set<String> expected = content(session, "t");
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
                .engineParameters(
                        Map.of("engine", "rocks", "memory", "128MiB", "stream_part", "1MiB"))
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

    /** Cassandra's reader took a slice for an SSTable, and waited for the rest of a small one. */
    @Test
    @OneOf(variants = "StreamsIT", of = 3, number = 3)
    void tablesLeaveTheEngineBeforeTheirSmallSlicesCome() throws Exception {
        try (Seed seed =
                seed(
                        options ->
                                options.yaml(
                                        Map.of(
                                                "streaming_connections_per_host",
                                                1,
                                                "entire_sstable_stream_throughput_outbound",
                                                "128KiB/s")),
                        "t")) {
            // Which of all are sent behind the large one is left to chance: hardly ever none.
            List<String> tables = IntStream.range(0, 16).mapToObj(i -> "ks.small" + i).toList();
            try (CqlSession session = seed.node().plainSession()) {
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
    @OneOf(variants = "StreamsIT", of = 3, number = 2)
    void anSSTableIsWrittenWhenItsTurnHasCome() throws Exception {
        // Of one range nothing would wait for its turn.
        try (Seed seed = seed(withoutSlices(OF_SEED), "t")) {
            // Write buffers have no size in estimates.
            seed.node().nodetool("flush", "ks");
            try (TestNode newcomer = newcomer(withoutSlices(OF_NEWCOMER))) {
                sendWhileTruncated(seed, newcomer);
                sendWhileDropped(seed.node(), newcomer);
            }
        }
    }

    private static UnaryOperator<NodeConfig.Builder> withoutSlices(int... tokens) {
        return options ->
                tokens(tokens)
                        .apply(options)
                        .jvmOptions("-Dpetra.stream.slices=false")
                        .yaml(Map.of("stream_throughput_outbound", "128KiB/s"));
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
        assertThat(seed.node().process().log()).contains("is sent as an empty SSTable");
        assertThat(Contents.alone(seed.node(), SELECT)).isEmpty();
        try (CqlSession session = newcomer.session()) {
            TestNode.awaitMigrations(session, PATIENCE);
            Set<String> owned = owned(session, newcomer, seed.content("t"));
            Set<String> sent = Contents.alone(newcomer, SELECT);
            assertThat(owned.containsAll(sent)).isTrue();
            assertThat(sent.size()).isLessThan(owned.size());
        }
    }

    /** A disk that fails stops a node; a folder that goes while it is written to must not. */
    private void sendWhileDropped(TestNode sender, TestNode receiver) throws Exception {
        try (CqlSession session = sender.session()) {
            insert(session, "t", PARTITIONS);
            session.execute(
                    "ALTER KEYSPACE ks WITH replication = {'class': 'SimpleStrategy',"
                            + " 'replication_factor': 2}");
            sender.nodetool("flush", "ks");
            sender.nodetool("setstreamthroughput", "2");
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
            String log = newcomer.process().logSinceStart();
            if (log.contains("not yet bootstrapped completely")) return false;
            if (log.contains("Bootstrap completed for tokens")) return true;
            assertThat(System.nanoTime()).as("the bootstrap ends").isLessThan(end);
            TimeUnit.MILLISECONDS.sleep(50);
        }
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
