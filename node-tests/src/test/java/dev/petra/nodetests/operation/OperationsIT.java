// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.BatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.QueryTrace;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.cql.TraceEvent;
import com.datastax.oss.driver.api.core.servererrors.WriteFailureException;
import dev.petra.launcher.FileTree;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What an operator sees of a table while it runs, and what stops or slows it. */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class OperationsIT {
    private static final int VALUE = 2_000;

    /** {@link #fill} writes whole partitions. */
    private static final String BATCHES = "batch_size_warn_threshold";

    @TempDir static Path directory;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() {
        node = start(directory.resolve("node"));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
    }

    /** Stores are on the first, and Cassandra puts files of its own on either. */
    private static Stream<Path> disks(Path node) {
        return Stream.of("data", "data2").map(node::resolve);
    }

    private static TestNode start(Path where) {
        return TestNode.start(
                where,
                config ->
                        config.yaml(
                                        Map.of(
                                                "data_file_directories",
                                                disks(where).map(Path::toString).toList(),
                                                "disk_failure_policy",
                                                "stop_paranoid",
                                                "data_disk_usage_percentage_warn_threshold",
                                                99,
                                                BATCHES,
                                                "50KiB"))
                                .jvmOptions(
                                        TestNode.VERIFIED,
                                        "-Dcassandra.disk_usage.monitor_interval_ms=200",
                                        "-Dcassandra.snapshot.min_allowed_ttl_seconds=1",
                                        "-Dcassandra.snapshot.ttl_cleanup_period_seconds=1"));
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (node != null) node.close();
    }

    /** What was in its log is in files then. */
    private static void restart() {
        session.close();
        if (node.process().isAlive()) node.process().kill();
        node.restart();
        session = node.plainSession();
    }

    /** Text that compresses to about a third. */
    private static String value(Random random) {
        StringBuilder text = new StringBuilder();
        while (text.length() < VALUE) text.append(random.nextInt(40)).append(' ');
        return text.toString();
    }

    private static void create(String table) {
        create(table, "");
    }

    private static void create(String table, String options) {
        session.execute(
                "CREATE TABLE ks."
                        + table
                        + " (p int, c int, v text, PRIMARY KEY (p, c)) WITH memtable = 'rocks'"
                        + options);
    }

    /**
     * A table with twenty seconds' worth of compaction at 1 MiB/s, which is the rate then. It has
     * that until one is not stopped.
     */
    private static void createLarge(String table) {
        boolean isThere =
                session.execute(
                                        "SELECT table_name FROM system_schema.tables WHERE"
                                                + " keyspace_name = 'ks' AND table_name = ?",
                                        table)
                                .one()
                        != null;
        if (!isThere) {
            create(
                    table,
                    " AND compression = {'enabled': false} AND compaction = {'class':"
                            + " 'LeveledCompactionStrategy', 'enabled': false}");
            fill(table, 1_000);
            // Also for what was written to be forgotten: it makes room for flushes.
            restart();
        }
        node.nodetool("setcompactionthroughput", "1");
    }

    /** Ten rows in each of some partitions. */
    private static void fill(String table, int partitions) {
        fill(session, table, partitions);
    }

    private static void fill(CqlSession session, String table, int partitions) {
        PreparedStatement insert =
                session.prepare("INSERT INTO ks." + table + " (p, c, v) VALUES (?, ?, ?)");
        Random random = new Random(1);
        for (int p = 0; p < partitions; p++) {
            BatchStatementBuilder batch = BatchStatement.builder(BatchType.UNLOGGED);
            for (int c = 0; c < 10; c++) batch.addStatement(insert.bind(p, c, value(random)));
            session.execute(batch.build());
        }
    }

    private static void await(String what, Callable<Boolean> seen) throws Exception {
        TestNode.await(what, Duration.ofMinutes(3), seen);
    }

    /** RocksDB's own file of options. */
    private static String inForce(String table) {
        return TableFiles.children(TableFiles.of(node, "ks", table).stores().resolve("1")).stream()
                .filter(file -> file.getFileName().toString().matches("OPTIONS-\\d+"))
                .max(Comparator.naturalOrder())
                .map(TableFiles::text)
                .orElse("");
    }

    private static long metric(String table, String metric) {
        return metric(session, table, metric);
    }

    private static long metric(CqlSession session, String table, String metric) {
        return session.execute(
                        SimpleStatement.newInstance(
                                "SELECT value FROM petra.metrics WHERE keyspace_name = 'ks' AND"
                                        + " table_name = ? AND metric = ?",
                                table,
                                metric))
                .one()
                .getLong("value");
    }

    private static double statistic(String table, String name) {
        String output = node.tryNodetool("tablestats", "ks." + table).output();
        Matcher matcher = Pattern.compile(Pattern.quote(name) + ": ([0-9.]+)").matcher(output);
        assertThat(matcher.find()).describedAs(output).isTrue();
        return Double.parseDouble(matcher.group(1));
    }

    @Test
    void tablestatsAndHistogramsTellWhatTheFilesHold() {
        create("told");
        fill("told", 20);
        node.nodetool("flush", "ks", "told");
        assertThat(statistic("told", "SSTable count")).isPositive();
        assertThat(statistic("told", "SSTable Compression Ratio")).isBetween(0.1, 0.7);
        assertThat(statistic("told", "Bloom filter space used")).isPositive();
        // In histograms, whose classes are a fifth wide.
        double bytes = 10 * VALUE;
        assertThat(statistic("told", "Compacted partition mean bytes"))
                .isBetween(0.8 * bytes, 1.25 * bytes);
        assertThat(statistic("told", "Compacted partition minimum bytes"))
                .isBetween(0.8 * bytes, 1.25 * bytes);
        assertThat(statistic("told", "Compacted partition maximum bytes"))
                .isBetween(0.8 * bytes, 1.25 * bytes);
        String histograms = node.tryNodetool("tablehistograms", "ks", "told").output();
        Matcher median = Pattern.compile("(?m)^50% .*?(\\d+) +(\\d+) *$").matcher(histograms);
        assertThat(median.find()).describedAs(histograms).isTrue();
        assertThat(Double.parseDouble(median.group(1))).isBetween(0.8 * bytes, 1.25 * bytes);
        assertThat(Integer.parseInt(median.group(2))).isBetween(10, 20);
        assertThat(statistic("told", "Number of partitions (estimate)")).isEqualTo(20);
        // Cassandra's sums over tables have them as well.
        session.execute("CREATE TABLE ks.stock (p int PRIMARY KEY)");
        assertThat(statistic("stock", "SSTable count")).isZero();
    }

    /** Range reads ask as many replicas at once as the estimates call for. */
    @Test
    void keysAreSampledAndRangeReadsExpectThem() throws Exception {
        create("sampled");
        fill("sampled", 50);
        assertThat(
                        node.tryNodetool("rangekeysample")
                                .output()
                                .lines()
                                .filter(line -> line.matches("\\s+-?\\d+")))
                .hasSizeGreaterThanOrEqualTo(50);
        SimpleStatement read =
                SimpleStatement.newInstance("SELECT * FROM ks.sampled").setTracing(true);
        Pattern expected = Pattern.compile("\\(([0-9.,]+) rows per range expected\\)");
        await(
                "rows are expected",
                () -> {
                    QueryTrace trace = session.execute(read).getExecutionInfo().getQueryTrace();
                    for (TraceEvent event : trace.getEvents()) {
                        Matcher matcher = expected.matcher(event.getActivity());
                        if (matcher.find())
                            return Double.parseDouble(matcher.group(1).replace(",", "")) > 0;
                    }
                    return false;
                });
    }

    /** By the guardrail that has replicas refuse writes. */
    @Test
    void theDisksUsageIsCountedOnce() throws Exception {
        create("usage", " AND compression = {'enabled': false}");
        fill("usage", 500);
        node.nodetool("flush", "ks", "usage");
        String monitor = "org.apache.cassandra.service.disk.usage.DiskUsageMonitor";
        Pattern line = Pattern.compile("current disk usage = ([0-9.]+) ([KMG]iB)");
        node.nodetool("setlogginglevel", monitor, "TRACE");
        try {
            // Files come and go meanwhile, but not as many as the table has.
            await(
                    "the bytes of the data directory",
                    () -> {
                        Matcher matcher = line.matcher(node.process().log());
                        double seen = 0;
                        while (matcher.find())
                            seen =
                                    Double.parseDouble(matcher.group(1))
                                            * Map.of(
                                                            "KiB", 1L << 10, "MiB", 1L << 20, "GiB",
                                                            1L << 30)
                                                    .get(matcher.group(2));
                        double error = seen - dataBytes();
                        return seen > 0 && Math.abs(error) < 500 * 10 * VALUE / 2;
                    });
        } finally {
            node.nodetool("setlogginglevel", monitor, "INFO");
        }
    }

    private static long dataBytes() {
        long bytes = 0;
        for (Path disk : disks(directory.resolve("node")).toList())
            try (var files = Files.walk(disk)) {
                bytes +=
                        files.filter(Files::isRegularFile)
                                .mapToLong(file -> file.toFile().length())
                                .sum();
            } catch (IOException | UncheckedIOException e) {
                // A file went meanwhile: as unlike anything as can be, so it is asked again.
                return Long.MIN_VALUE / 2;
            }
        return bytes;
    }

    @Test
    void theEnginesFiguresCount() {
        create("counted");
        fill("counted", 5);
        node.nodetool("flush", "ks", "counted");
        assertThat(session.execute("SELECT * FROM ks.counted").all()).hasSize(50);
        assertThat(session.execute("SELECT * FROM ks.counted WHERE p = 1").all()).hasSize(10);
        List<String> positive = new ArrayList<>();
        for (Row row : session.execute("SELECT * FROM petra.engine_metrics"))
            if (row.getLong("value") > 0) positive.add(row.getString("metric"));
        assertThat(positive)
                .contains("written_bytes", "log_bytes", "flushed_bytes", "block_cache_misses");
    }

    static List<String> stopped() {
        return Drawn.of("OperationsIT, stopped", List.of("COMPACTION", "MAJOR_COMPACTION"));
    }

    @Order(1)
    @ParameterizedTest
    @MethodSource("stopped")
    void compactionsAreShownAndCanBeStopped(String type) throws Exception {
        createLarge("busy");
        try {
            CompletableFuture<NodeTool.Result> compact =
                    CompletableFuture.supplyAsync(() -> node.tryNodetool("compact", "ks", "busy"));
            Pattern shown = Pattern.compile("Compaction +ks +busy +\\d+ +\\d+ +bytes");
            await(
                    "the compaction",
                    () -> shown.matcher(node.tryNodetool("compactionstats").output()).find());
            node.nodetool("stop", type);
            NodeTool.Result result = compact.get(3, TimeUnit.MINUTES);
            assertThat(result.output()).contains("The compaction of ks.busy was stopped");
            assertThat(result.exitCode()).isNotZero();
        } finally {
            node.nodetool("setcompactionthroughput", "0");
        }
        assertThat(session.execute("SELECT * FROM ks.busy WHERE p = 999").all()).hasSize(10);
    }

    /** Nobody has to wait for a compaction that takes hours; what is ended is done later. */
    @Order(2)
    @Test
    void aDrainEndsCompactions() throws Exception {
        createLarge("busy");
        CompletableFuture<NodeTool.Result> compact =
                CompletableFuture.supplyAsync(() -> node.tryNodetool("compact", "ks", "busy"));
        await("the compaction", () -> metric("busy", "compactions_running") > 0);
        node.nodetool("drain");
        assertThat(compact.get(3, TimeUnit.MINUTES).exitCode()).isNotZero();
        restart();
        assertThat(session.execute("SELECT * FROM ks.busy WHERE p = 999").all()).hasSize(10);
        node.nodetool("setcompactionthroughput", "0");
        node.nodetool("compact", "ks", "busy");
        assertThat(session.execute("SELECT * FROM ks.busy WHERE p = 999").all()).hasSize(10);
        session.execute("DROP TABLE ks.busy");
    }

    @Test
    void autocompactionCanBeDisabled() throws Exception {
        create("quiet");
        fill("quiet", 1);
        node.nodetool("disableautocompaction", "ks", "quiet");
        assertThat(node.tryNodetool("statusautocompaction", "ks", "quiet").output())
                .contains("not running");
        // The engine hears of it within a second.
        await("the option", () -> inForce("quiet").contains("disable_auto_compactions=true"));
        for (int i = 0; i < 8; i++) {
            fill("quiet", 1);
            node.nodetool("flush", "ks", "quiet");
        }
        assertThat(metric("quiet", "level_0_files")).isEqualTo(8);
        node.nodetool("enableautocompaction", "ks", "quiet");
        await("a compaction", () -> metric("quiet", "level_0_files") < 4);
        assertThat(session.execute("SELECT * FROM ks.quiet").all()).hasSize(10);
    }

    /** Compaction is behind: its writes fail in time, and nobody else waits. */
    @Test
    @OneOf(variants = "OperationsIT, another node", of = 2, number = 1)
    void aStalledTableConcernsNoOther() throws Exception {
        try (TestNode slow =
                TestNode.start(
                        directory.resolve("slow"),
                        config ->
                                config.yaml(Map.of(BATCHES, "50KiB"))
                                        .engineParameters(
                                                Map.of(
                                                        "engine",
                                                        "rocks",
                                                        "memory",
                                                        "128MiB",
                                                        "write_stall_timeout",
                                                        "2s",
                                                        "rocksdb_options",
                                                        "level0_file_num_compaction_trigger=2;"
                                                            + "level0_slowdown_writes_trigger=2;"
                                                            + "level0_stop_writes_trigger=2")))) {
            CqlSession there = slow.plainSession();
            TestNode.createKeyspace(there, "ks", 1);
            for (String table : new String[] {"stalled", "other", "stock"})
                there.execute(
                        "CREATE TABLE ks."
                                + table
                                + " (p int, c int, v text, PRIMARY KEY (p, c)) WITH memtable = '"
                                + (table.equals("stock") ? "default" : "rocks")
                                + "' AND compression = {'enabled': false} AND compaction ="
                                + " {'class': 'LeveledCompactionStrategy', 'enabled': false}");
            for (int half = 0; half < 2; half++) {
                fill(there, "stalled", 1_500);
                slow.nodetool("flush", "ks", "stalled");
            }
            there.close();
            slow.process().stop();
            slow.restart();
            there = slow.plainSession();
            slow.nodetool("setcompactionthroughput", "1");
            slow.nodetool("enableautocompaction", "ks", "stalled");
            CqlSession session = there;
            await("the stall", () -> metric(session, "stalled", "writes_stopped") > 0);
            assertThatThrownBy(() -> session.execute("INSERT INTO ks.stalled (p, c) VALUES (1, 1)"))
                    .isInstanceOf(WriteFailureException.class);
            assertThat(session.execute("SELECT * FROM ks.stalled WHERE p = 1").all()).hasSize(10);
            for (String table : new String[] {"other", "stock"}) {
                fill(session, table, 5);
                slow.nodetool("flush", "ks", table);
            }
            // All of this while it was stalled.
            assertThat(metric(session, "stalled", "writes_stopped")).isPositive();
            slow.nodetool("setcompactionthroughput", "0");
            await("its end", () -> metric(session, "stalled", "writes_stopped") == 0);
            session.execute("INSERT INTO ks.stalled (p, c) VALUES (1, 1)");
            session.close();
        }
    }

    @Test
    void tracesShowTheEngine() {
        create("traced");
        for (String statement :
                new String[] {
                    "INSERT INTO ks.traced (p, c, v) VALUES (1, 1, 'v')",
                    "SELECT * FROM ks.traced WHERE p = 1",
                    "SELECT * FROM ks.traced"
                }) {
            QueryTrace trace =
                    session.execute(SimpleStatement.newInstance(statement).setTracing(true))
                            .getExecutionInfo()
                            .getQueryTrace();
            assertThat(trace.getEvents())
                    .extracting(TraceEvent::getActivity)
                    .anyMatch(step -> step.contains("storage engine rocks"));
        }
    }

    @Test
    void profilersSeeTheTable() throws Exception {
        create("hot");
        CompletableFuture<NodeTool.Result> profile =
                CompletableFuture.supplyAsync(
                        () -> node.tryNodetool("toppartitions", "ks", "hot", "2000"));
        while (!profile.isDone()) {
            session.execute("INSERT INTO ks.hot (p, c, v) VALUES (4711, 1, 'v')");
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(2));
        }
        assertThat(profile.get().output()).contains("4711");
    }

    /** Of a node that owns more than others, ClusterIT tests it. */
    @Test
    void verifyFindsNothingWhereTheNodeOwnsEverything() {
        create("owned");
        fill("owned", 20);
        node.nodetool("verify", "--force", "-e", "--check-tokens", "ks", "owned");
    }

    @Test
    void aSnapshotWithATimeToLiveGoesByItself() throws Exception {
        create("passing");
        fill("passing", 1);
        // Cassandra chooses the disk of each of its files by chance.
        TableFiles files = TableFiles.of(node, "ks", "passing");
        for (int i = 0; i < 8; i++) {
            node.nodetool("snapshot", "--ttl", "30s", "-t", "brief" + i, "-cf", "passing", "ks");
            // The first may have gone when the last is there.
            assertThat(files.snapshots("brief" + i)).hasSize(1);
            assertThat(TableFiles.children(files.snapshots("brief" + i).get(0).getParent()))
                    .extracting(file -> file.getFileName().toString())
                    .containsExactlyInAnyOrder("rocksdb", "manifest.json", "schema.cql");
        }
        await("the end of the snapshot", () -> files.snapshots("brief").isEmpty());
        assertThat(session.execute("SELECT * FROM ks.passing").all()).hasSize(10);
    }

    @Test
    @OneOf(variants = "OperationsIT, another node", of = 2, number = 2)
    void aSnapshotCanBeRestoredOnAnotherNode() throws IOException {
        create("carried");
        fill("carried", 3);
        node.nodetool("snapshot", "-t", "tape", "-cf", "carried", "ks");
        Path snapshot = TableFiles.of(node, "ks", "carried").snapshots("tape").get(0);
        UUID id = TestNode.tableId(session, "ks", "carried");
        try (TestNode other = start(directory.resolve("other"))) {
            try (CqlSession there = other.plainSession()) {
                TestNode.createKeyspace(there, "ks", 1);
                there.execute(
                        "CREATE TABLE ks.carried (p int, c int, v text, PRIMARY KEY (p, c)) WITH"
                                + " memtable = 'rocks' AND id = "
                                + id);
            }
            other.process().stop();
            TableFiles files = TableFiles.of(other, "ks", "carried");
            if (Files.exists(files.stores())) FileTree.delete(files.stores());
            TableFiles.copy(snapshot, files.stores());
            other.restart();
            try (CqlSession there = other.plainSession()) {
                assertThat(there.execute("SELECT * FROM ks.carried").all()).hasSize(30);
                other.nodetool("verify", "--force", "-e", "--check-tokens", "ks", "carried");
            }
        }
    }

    @Test
    void twiceAtOnce() throws Exception {
        create("twice");
        fill("twice", 100);
        List<CompletableFuture<NodeTool.Result>> both = new ArrayList<>();
        for (int i = 0; i < 2; i++)
            both.add(
                    CompletableFuture.supplyAsync(
                            () -> node.tryNodetool("compact", "ks", "twice")));
        for (CompletableFuture<NodeTool.Result> one : both)
            assertThat(one.get().exitCode()).describedAs(one.get().output()).isZero();
        node.nodetool("snapshot", "-t", "same", "-cf", "twice", "ks");
        NodeTool.Result again = node.tryNodetool("snapshot", "-t", "same", "-cf", "twice", "ks");
        assertThat(again.exitCode()).isNotZero();
        assertThat(again.output()).contains("already exists");
    }

    /** Most tests run it without a process of its own, which has to come to the same. */
    @Test
    void nodetoolInATestIsTheCommand() {
        for (String verb : List.of("statusbinary", "verify", "nosuch", "flush nosuch")) {
            String[] command = verb.split(" ");
            assertThat(node.tryNodetool(command)).isEqualTo(node.process().nodetool(command));
        }
    }

    @Test
    void tablesThatAreNotThere() {
        for (String verb :
                new String[] {
                    "compact",
                    "flush",
                    "cleanup",
                    "verify --force",
                    "garbagecollect",
                    "tablestats",
                    "snapshot -t x -cf nosuch",
                }) {
            String command =
                    verb.startsWith("snapshot")
                            ? verb + " ks"
                            : verb.equals("tablestats") ? verb + " ks.nosuch" : verb + " ks nosuch";
            NodeTool.Result result = node.tryNodetool(command.split(" "));
            assertThat(result.exitCode()).describedAs(command + result.output()).isNotZero();
        }
    }

    /** As it does for damaged SSTables. */
    @Test
    void damageStopsAParanoidNode() throws Exception {
        create("damaged");
        fill("damaged", 20);
        node.nodetool("flush", "ks", "damaged");
        Path store = TableFiles.of(node, "ks", "damaged").stores().resolve("1");
        restart();
        for (Path file : TableFiles.children(store)) {
            if (!file.toString().endsWith(".sst")) continue;
            byte[] bytes = Files.readAllBytes(file);
            for (int i = bytes.length / 4; i < bytes.length / 2; i++) bytes[i] ^= 0x55;
            Files.write(file, bytes);
        }
        try {
            session.execute("SELECT * FROM ks.damaged");
            assertThat(false).describedAs("damage was read").isTrue();
        } catch (DriverException e) {
            // The connection may be closed before the answer is sent.
            assertThat(e).isNotNull();
        }
        await(
                "the reason",
                () ->
                        node.process()
                                .logSinceStart()
                                .contains("The store of ks.damaged in " + store + " is damaged"));
        await(
                "the end of the transports",
                () -> node.tryNodetool("statusbinary").output().contains("not running"));
        restart();
        session.execute("DROP TABLE ks.damaged");
    }
}
