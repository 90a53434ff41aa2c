// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.performance;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.Recorder;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What a bootstrap and a repair's validation cost: {@code -Dit.test=StreamBenchIT
 * -Dpetra.stream.mib=512}. Prints; {@code docs/performance.md} has figures.
 */
@EnabledIfSystemProperty(named = "petra.stream.mib", matches = "\\d+")
@Timeout(value = 20, unit = TimeUnit.MINUTES)
class StreamBenchIT {
    private static final Duration PATIENCE = Duration.ofMinutes(10);
    private static final int VALUE = 560;

    /** Of live traffic, requests a second. */
    private static final int RATE = 400;

    private static final int QUIET_SECONDS = 10;
    private static final Pattern RECEIVED =
            Pattern.compile("Receiving (\\d+) files\\(([\\d.]+)(\\w+)\\)");

    private final int seedPort = FreePorts.next();

    private NodeConfig.Builder options(
            NodeConfig.Builder options, boolean slices, boolean zeroCopy) {
        Map<String, Object> yaml = new HashMap<>();
        yaml.put("stream_entire_sstables", zeroCopy);
        yaml.put("stream_throughput_outbound", "0MiB/s");
        yaml.put("entire_sstable_stream_throughput_outbound", "0MiB/s");
        yaml.put("compaction_throughput", "0MiB/s");
        return options.numTokens(4)
                .heap("1GiB")
                .yaml(yaml)
                .engineParameters(Map.of("engine", "rocks", "memory", "512MiB"))
                .jvmOptions(TestNode.measured(1024))
                .jvmOptions("-Dpetra.stream.slices=" + slices);
    }

    private static void load(CqlSession session, String memtable, int replicas, long bytes)
            throws Exception {
        TestNode.createKeyspace(session, "ks", replicas);
        session.execute(
                "CREATE TABLE ks.t (k bigint PRIMARY KEY, v blob) WITH memtable = '"
                        + memtable
                        + "'");
        var insert = session.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)");
        Semaphore inFlight = new Semaphore(128);
        Random random = new Random(1);
        long rows = bytes / (VALUE + 40);
        for (long k = 0; k < rows; k++) {
            // Half of it can be compressed.
            byte[] value = new byte[VALUE];
            for (int i = 0; i < VALUE / 2; i++) value[i] = (byte) random.nextInt();
            inFlight.acquire();
            CompletionStage<AsyncResultSet> sent =
                    session.executeAsync(insert.bind(k, ByteBuffer.wrap(value)));
            var unused = sent.whenComplete((done, failed) -> inFlight.release());
        }
        inFlight.acquire(128);
    }

    /** What a process has written to disk. */
    private static long writtenBytes(TestNode node) throws IOException {
        String io = Files.readString(Path.of("/proc/" + node.process().pid() + "/io"));
        Matcher written = Pattern.compile("\nwrite_bytes: (\\d+)").matcher(io);
        if (!written.find()) throw new IOException("no write_bytes in " + io);
        return Long.parseLong(written.group(1));
    }

    /** Reads at a fixed rate, each timed from when it was due. */
    private static final class LiveTraffic implements AutoCloseable {
        private static final long HIGHEST_NANOS = TimeUnit.MINUTES.toNanos(2);
        private static final long INTERVAL = TimeUnit.SECONDS.toNanos(1) / RATE;

        private final Recorder latencies = new Recorder(HIGHEST_NANOS, 3);
        private final ScheduledExecutorService clock = Executors.newScheduledThreadPool(1);
        private final Random random = new Random(2);

        private final CqlSession session;
        private final PreparedStatement select;
        private final long rows;
        private long requests;

        /** When the first request is due: soon, as the JVM needs some milliseconds to get there. */
        private final long begun;

        LiveTraffic(CqlSession session, long rows) {
            this.session = session;
            this.rows = rows;
            select = session.prepare("SELECT v FROM ks.t WHERE k = ?");
            begun = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(100);
            var unused =
                    clock.scheduleAtFixedRate(
                            this::request,
                            begun - System.nanoTime(),
                            INTERVAL,
                            TimeUnit.NANOSECONDS);
        }

        /** Of the clock's thread. */
        private void request() {
            long due = begun + requests++ * INTERVAL;
            CompletionStage<AsyncResultSet> sent =
                    session.executeAsync(select.bind((long) (random.nextDouble() * rows)));
            var unused =
                    sent.whenComplete(
                            (row, failed) ->
                                    latencies.recordValue(
                                            failed == null
                                                    ? System.nanoTime() - due
                                                    : HIGHEST_NANOS));
        }

        /** In milliseconds, of what was answered since this was asked last. */
        String percentiles() {
            Histogram since = latencies.getIntervalHistogram();
            return String.format(
                    Locale.ROOT,
                    "P50 %.1f P99 %.1f ms of %d",
                    since.getValueAtPercentile(50) / 1e6,
                    since.getValueAtPercentile(99) / 1e6,
                    since.getTotalCount());
        }

        @Override
        public void close() {
            clock.shutdownNow();
        }
    }

    @ParameterizedTest
    @CsvSource({
        "rocks,    true,  true",
        "rocks,    false, true",
        "skiplist, true,  true",
        "skiplist, true,  false"
    })
    void aBootstrap(String memtable, boolean slices, boolean zeroCopy, @TempDir Path directory)
            throws Exception {
        long bytes = Long.getLong("petra.stream.mib") << 20;
        Path first = Files.createDirectory(directory.resolve("1"));
        Path second = Files.createDirectory(directory.resolve("2"));
        try (TestNode seed =
                TestNode.start(first, of -> options(of, slices, zeroCopy).storagePort(seedPort))) {
            try (CqlSession session = seed.session()) {
                load(session, memtable, 1, bytes);
            }
            seed.nodetool("flush", "ks", "t");
            seed.nodetool("compact", "ks", "t");
            try (CqlSession session = seed.session();
                    LiveTraffic traffic = new LiveTraffic(session, bytes / (VALUE + 40))) {
                TimeUnit.SECONDS.sleep(QUIET_SECONDS);
                traffic.percentiles();
                TimeUnit.SECONDS.sleep(QUIET_SECONDS);
                String quietly = traffic.percentiles();
                measure(seed, second, traffic, quietly, memtable, slices, zeroCopy);
            }
        }
    }

    private void measure(
            TestNode seed,
            Path second,
            LiveTraffic traffic,
            String quietly,
            String memtable,
            boolean slices,
            boolean zeroCopy)
            throws Exception {
        try (TestNode newcomer =
                TestNode.begin(
                        second,
                        of ->
                                options(of, slices, zeroCopy)
                                        .seeds(List.of("127.0.0.1:" + seedPort)))) {
            newcomer.awaitLog("Executing streaming plan for Bootstrap", PATIENCE);
            traffic.percentiles();
            long writtenBefore = writtenBytes(newcomer);
            long started = System.nanoTime();
            double cpuBefore = NodeMetrics.cpuSeconds(seed) + NodeMetrics.cpuSeconds(newcomer);
            long live = newcomer.awaitLog("All sessions completed", PATIENCE);
            String meanwhile = traffic.percentiles();
            newcomer.process().awaitCql(PATIENCE);
            try (CqlSession session = newcomer.session()) {
                TestNode.awaitMigrations(session, PATIENCE);
            }
            long quiet = System.nanoTime();
            double cpu =
                    NodeMetrics.cpuSeconds(seed) + NodeMetrics.cpuSeconds(newcomer) - cpuBefore;
            double megabytes =
                    RECEIVED.matcher(newcomer.process().log())
                            .results()
                            .mapToDouble(StreamBenchIT::megabytes)
                            .sum();
            double seconds = (live - started) / 1e9;
            System.out.printf(
                    "StreamBenchIT: memtable=%s slices=%s zeroCopy=%s received=%.0f MB in %.1f s"
                            + " = %.1f MB/s, quiet after %.1f s, CPU %.1f s of both nodes,"
                            + " newcomer wrote %.2f x; reads before: %s, meanwhile: %s%n",
                    memtable,
                    slices,
                    zeroCopy,
                    megabytes,
                    seconds,
                    megabytes / seconds,
                    (quiet - started) / 1e9,
                    cpu,
                    (writtenBytes(newcomer) - writtenBefore) / 1e6 / megabytes,
                    quietly,
                    meanwhile);
        }
    }

    /** Both replicas have all; a preview validates both and sends nothing. */
    @ParameterizedTest
    @ValueSource(strings = {"rocks", "skiplist", "rocks", "skiplist"})
    void aValidation(String memtable, @TempDir Path directory) throws Exception {
        long bytes = Long.getLong("petra.stream.mib") << 20;
        Path first = Files.createDirectory(directory.resolve("1"));
        Path second = Files.createDirectory(directory.resolve("2"));
        try (TestNode seed =
                        TestNode.start(first, of -> options(of, true, true).storagePort(seedPort));
                TestNode other =
                        TestNode.start(
                                second,
                                of ->
                                        options(of, true, true)
                                                .seeds(List.of("127.0.0.1:" + seedPort)))) {
            try (CqlSession session = seed.session(ConsistencyLevel.ALL)) {
                load(session, memtable, 2, bytes);
                session.execute(
                        "CREATE TABLE ks.none (k int PRIMARY KEY) WITH memtable = '"
                                + memtable
                                + "'");
            }
            for (TestNode node : List.of(seed, other)) {
                node.nodetool("flush", "ks", "t");
                node.nodetool("compact", "ks", "t");
            }
            // What compiles and connects is not asked for, nor nodetool's own start.
            preview(seed, "t");
            double nothing = preview(seed, "none");
            double cpuBefore = NodeMetrics.cpuSeconds(seed) + NodeMetrics.cpuSeconds(other);
            double seconds = preview(seed, "t") - nothing;
            double cpu = NodeMetrics.cpuSeconds(seed) + NodeMetrics.cpuSeconds(other) - cpuBefore;
            System.out.printf(
                    "StreamBenchIT: memtable=%s validated %d MiB of rows on each of two nodes in"
                            + " %.1f s = %.1f MB/s a node, CPU %.1f s of both%n",
                    memtable, bytes >> 20, seconds, bytes / 1e6 / seconds, cpu);
        }
    }

    private static double preview(TestNode node, String table) {
        long begun = System.nanoTime();
        node.nodetool("repair", "--preview", "-full", "ks", table);
        return (System.nanoTime() - begun) / 1e9;
    }

    private static double megabytes(MatchResult received) {
        double size = Double.parseDouble(received.group(2));
        return switch (received.group(3)) {
            case "GiB" -> size * (1L << 30) / 1e6;
            case "MiB" -> size * (1L << 20) / 1e6;
            case "KiB" -> size * (1L << 10) / 1e6;
            default -> size / 1e6;
        };
    }
}
