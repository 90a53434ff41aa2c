// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import org.HdrHistogram.ConcurrentHistogram;
import org.HdrHistogram.Histogram;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.infra.IterationParams;
import org.openjdk.jmh.runner.IterationType;

/**
 * What JMH runs, in a JVM that {@link Bench} configures for one engine and one collector. The first
 * run in a directory loads the workload's rows; later ones find them.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public class StoreBenchmark {
    /** The open loop's rate, of what the slowest engine does in a closed loop. */
    static final double OF_CLOSED_LOOP = 0.7;

    /** Of a closed loop. */
    static final int ITERATIONS = 3;

    /** A scan is over before it is compiled: so many times the windows of others. */
    private static final int SCANS = 3;

    /** As {@link Access.Level} has them. */
    @Param("LOCAL")
    public String level = "";

    /** As {@link Engine#label} has them. */
    @Param("rocks")
    public String engine = "";

    /** As {@link Workload#names} has them. */
    @Param("emp")
    public String workload = "";

    /** How many times the quick size. */
    @Param("1")
    public double scale;

    /** Where the node's files are. */
    @Param("")
    public String directory = "";

    /** G1 or ZGC; at the levels CLIENT and CLUSTER the nodes', else this JVM's. */
    @Param("G1")
    public String gc = "";

    /** Of the node, in MiB. */
    @Param("1024")
    public int heap;

    /** Beside the heap, in MiB. */
    @Param("512")
    public int memory;

    /** The control group that bounds the engine's memory; none if empty. */
    @Param("")
    public String memoryLimit = "";

    /** Of clusters, as {@link ContainerTarget.Shape} has them. */
    @Param("petra")
    public String image = "";

    /** How many a cluster has. */
    @Param("3")
    public int nodes;

    /** Of each container, in MiB. */
    @Param("2048")
    public int nodeMemory;

    /** Requests a second, of the open loop. */
    @Param("1000")
    public double rate;

    /** How long an iteration is, and a window to warm up; a loop has {@value #ITERATIONS}. */
    @Param("5")
    public int seconds;

    /** How many windows to warm up at most. */
    @Param("8")
    public int warmups;

    /** As {@link Access.Level#clients} takes them. */
    @Param("0")
    public int clients;

    /** Where the histograms go: a directory. */
    @Param("")
    public String histograms = "";

    /** The run's name, for its histograms. */
    @Param("")
    public String name = "";

    /** From 1. */
    @Param("1")
    public int round;

    /** Of the requests: the same for all engines, another in each round and for each operation. */
    @Param("42")
    public long seed;

    private final AtomicLong seeded = new AtomicLong();

    /** Times of reads of a closed loop, in nanoseconds; all, of all threads and iterations. */
    private final Histogram reads =
            new ConcurrentHistogram(OpenLoop.HIGHEST_NANOS, OpenLoop.DIGITS);

    /** The same of writes. */
    private final Histogram writes =
            new ConcurrentHistogram(OpenLoop.HIGHEST_NANOS, OpenLoop.DIGITS);

    private WarmUp warmUp = new WarmUp(0, true);
    private @Nullable MemoryLimit limit;

    /** Since when, where JMH has iterations to warm up. */
    private Probe.@Nullable Moment measured;

    @SuppressWarnings("NullAway.Init") // JMH calls open before any benchmark.
    private Workload work;

    @SuppressWarnings("NullAway.Init")
    private Access access;

    /** At the level CLIENT; nodes in this JVM do not have the launcher's classes. */
    private @Nullable ProcessTarget process;

    /** Of one thread. */
    @State(Scope.Thread)
    public static class Client {
        private SplittableRandom random = new SplittableRandom();

        /** For JMH. */
        public Client() {}

        /** Another sequence for each thread. */
        @Setup
        public void seed(StoreBenchmark benchmark) {
            SplittableRandom seeds = new SplittableRandom(benchmark.seed);
            for (long other = benchmark.seeded.getAndIncrement(); other > 0; other--)
                seeds.nextLong();
            random = new SplittableRandom(seeds.nextLong());
        }
    }

    /** For JMH. */
    public StoreBenchmark() {}

    /** Starts the node, loads what is not there, merges all, and warms up; then all is at rest. */
    @Setup
    public void open(BenchmarkParams benchmark) throws IOException {
        work = Workload.of(workload, scale);
        Engine which = Engine.of(engine);
        Path root = Path.of(directory);
        Access.Level at = Access.Level.valueOf(level);
        limit = memoryLimit.isEmpty() ? null : new MemoryLimit(Path.of(memoryLimit));
        access =
                switch (at) {
                    case SPI ->
                            which == Engine.BARE
                                    ? new BareAccess(work, memory)
                                    : new SpiAccess(which, work, memory);
                    case LOCAL -> new LocalAccess(which, work);
                    case CLIENT -> {
                        ProcessTarget started =
                                ProcessTarget.start(
                                        Nodes.limited(
                                                root, which, workload, gc, heap, memory, limit),
                                        root);
                        process = started;
                        yield new ClientAccess(which, work, started);
                    }
                    case CLUSTER ->
                            new ClientAccess(
                                    which,
                                    work,
                                    ContainerTarget.start(
                                            root,
                                            new ContainerTarget.Shape(image, nodes, nodeMemory),
                                            which,
                                            workload,
                                            gc,
                                            heap,
                                            memory));
                };
        if (which == Engine.LEGACY_LATEST_CACHE && !at.isRemote())
            EmbeddedNode.requireChunkCache(memory);
        Path loaded = root.resolve("loaded-" + workload);
        if (work.isPreloaded() && !Files.exists(loaded)) {
            Access.load(access, work, at.isRemote() ? 16 : 1);
            Files.createFile(loaded);
        }
        if (Files.exists(written())) work.written().restore(written());
        if (work.isPreloaded()) {
            String method = benchmark.getBenchmark();
            prepare(method.substring(method.lastIndexOf('.') + 1), at.clients(clients));
        } else rest();
        StallProfiler.watch(access.probe());
    }

    /** For tests: without a node. */
    void open(Access opened, Workload rows) {
        access = opened;
        work = rows;
    }

    /** What is measured next finds everything compiled, merged, on disk and in caches. */
    void prepare(String operation, int clients) {
        // What was loaded is not merged beside the warm-up.
        rest();
        warmUp(operation, clients);
        // What it has written is merged, too.
        access.settle();
        rest();
        // What is merged is in new files, which no cache of an engine's has, while the page cache
        // has them.
        if (warmUp.windows() > 0 || !warmUp.isSteady()) fillCaches(operation, clients);
    }

    /** What other processes have written. */
    private Path written() {
        return Path.of(directory).resolve("written-" + workload);
    }

    /** What was written is in files, nothing is compacted any more, and all of it is on disk. */
    private void rest() {
        access.flush();
        Quiet.await(access.probe(), seconds);
        Quiet.sync();
    }

    private void warmUp(String operation, int clients) {
        // Other keys than those that are asked for afterwards.
        SplittableRandom seeds = new SplittableRandom(~seed);
        warmUp =
                switch (operation) {
                    case "read" -> warmUp(1, seeds, clients);
                    case "write" -> warmUp(0, seeds, clients);
                    case "mixed" -> warmUp(0.5, seeds, clients);
                    case "openLoop" -> warmUp(0.5, seeds, OpenLoop.CLIENTS);
                    case "scan" -> WarmUp.run(this::scans, SCANS * warmups);
                    default -> warmUp;
                };
    }

    /** By reads, which leave everything as it is, until they are no faster any more. */
    private void fillCaches(String operation, int clients) {
        WarmUp filled =
                operation.equals("scan")
                        ? WarmUp.run(this::scans, SCANS * warmups)
                        : warmUp(1, new SplittableRandom(~seed + 1), clients);
        warmUp = new WarmUp(warmUp.windows(), warmUp.isSteady() && filled.isSteady());
    }

    private WarmUp warmUp(double readShare, SplittableRandom seeds, int clients) {
        return WarmUp.run(
                () ->
                        new OpenLoop(access, work, readShare, seeds.nextLong(), clients)
                                .runClosed(seconds),
                warmups);
    }

    /** How many there are in a second. */
    private double scans() {
        long began = System.nanoTime();
        access.scan();
        return 1e9 / (System.nanoTime() - began);
    }

    /** What the profiler does not know. */
    @TearDown(Level.Iteration)
    public void report(IterationParams iteration) throws IOException {
        if (iteration.getType() == IterationType.WARMUP) {
            // JMH's, in which the node is started.
            reads.reset();
            writes.reset();
            measured = access.probe().now();
        }
        if (warmUp.windows() > 0 || !warmUp.isSteady()) warmUp.report();
        if (limit == null) return;
        StallProfiler.add("page cache", limit.pageCache() / 1048576.0, "MiB");
        StallProfiler.add("memory besides", limit.anonymous() / 1048576.0, "MiB");
    }

    /** Closes the store or the node. */
    @TearDown
    public void close() throws IOException {
        try {
            StallProfiler.end();
            keep("read", reads);
            keep("write", writes);
            Probe.Moment from = measured;
            if (from != null)
                Timeline.since(from, access.probe(), ITERATIONS * seconds, new AtomicLongArray(0))
                        .write(file(Tail.timeline("")));
            if (work.isPreloaded()) {
                // A node in this JVM is not stopped, but ends with it.
                access.flush();
                work.written().save(written());
            }
        } finally {
            access.close();
        }
    }

    private void keep(String kind, Histogram times) throws IOException {
        if (times.getTotalCount() > 0)
            Tail.write(file(kind + ".hlog"), times, ITERATIONS * seconds);
    }

    /** One read, closed loop. Each is timed, since the slowest of a sample is not the slowest. */
    @Benchmark
    public long read(Client client) {
        long began = System.nanoTime();
        long bytes = access.read(work.any(client.random));
        reads.recordValue(System.nanoTime() - began);
        return bytes;
    }

    /** One write, closed loop. */
    @Benchmark
    public void write(Client client) {
        long began = System.nanoTime();
        work.written().write(access, client.random);
        writes.recordValue(System.nanoTime() - began);
    }

    /** One read or one write, as often, closed loop. */
    @Benchmark
    public long mixed(Client client) {
        if (client.random.nextBoolean()) return read(client);
        write(client);
        return 0;
    }

    /** A read of the whole table. */
    @Benchmark
    @BenchmarkMode(Mode.SingleShotTime)
    @OutputTimeUnit(TimeUnit.MILLISECONDS)
    public long scan() {
        return access.scan();
    }

    /**
     * All rows, into a table that has none; then flushes, and waits until nothing is compacted any
     * more: until the engine's processes write no more than they would at rest. All figures are of
     * all of that time but where they say otherwise.
     */
    @Benchmark
    @BenchmarkMode(Mode.SingleShotTime)
    @OutputTimeUnit(TimeUnit.MILLISECONDS)
    public void load() throws IOException {
        Probe probe = access.probe();
        StallProfiler.restart();
        Probe.Moment began = probe.now();
        Access.load(access, work, 16);
        long loaded = System.currentTimeMillis();
        access.flush();
        Probe.Moment quiet = Quiet.await(probe, seconds);
        // Of a table that is so small that nothing was written after the first look.
        StallProfiler.stop(quiet, work.rows());
        StallProfiler.add("time to quiet", Math.max(0, quiet.millis() - loaded) / 1000.0, "s");
        StallProfiler.add(
                "rows a second until the last row",
                work.rows() * 1000.0 / Math.max(1, loaded - began.millis()),
                "ops/s");
        StallProfiler.add(
                WRITE_BUFFERS,
                (double) work.rows() * work.valueBytes(0) / writeBuffer(),
                "buffers");
        double written = quiet.all().writtenBytes() - began.all().writtenBytes();
        StallProfiler.add(
                "write amplification", written / work.rows() / work.valueBytes(0), "of the values");
        if (!level.equals(Access.Level.CLUSTER.name()))
            StallProfiler.add(
                    "on disk", (double) Quiet.dataBytes(Path.of(directory)) / work.rows(), "B/row");
    }

    /** How many times the rows of a load fill a write buffer. */
    static final String WRITE_BUFFERS = "write buffers filled";

    /** With fewer, what is loaded depends on what remains in the last, and little is compacted. */
    static final int LEAST_WRITE_BUFFERS = 20;

    /**
     * The bytes of the largest write buffer of any engine: of RocksDB at most 64 MiB of an eighth
     * of its memory; Cassandra flushes when a third of a quarter of the heap is used, on the heap
     * or off it.
     */
    private long writeBuffer() {
        return Math.max(Math.min(64, memory / 8), heap / 4 / 3) * 1024L * 1024;
    }

    /** Reads while compaction is behind. The time that JMH reports is of no meaning. */
    @Benchmark
    @BenchmarkMode(Mode.SingleShotTime)
    @OutputTimeUnit(TimeUnit.MILLISECONDS)
    public void backlog() {
        int asking = Access.Level.valueOf(level).clients(clients);
        new Backlog(access, work, seconds, asking, seed, warmups).measure();
    }

    /** Another node joins. The time that JMH reports is of no meaning. */
    @Benchmark
    @BenchmarkMode(Mode.SingleShotTime)
    @OutputTimeUnit(TimeUnit.MILLISECONDS)
    public void bootstrap() {
        ProcessTarget node = Objects.requireNonNull(process, "at the level CLIENT only");
        new Bootstrap(access, work, node, seed, seconds)
                .measure(Engine.of(engine), gc, heap, memory);
    }

    /** More and more tables. The time that JMH reports is of no meaning. */
    @Benchmark
    @BenchmarkMode(Mode.SingleShotTime)
    @OutputTimeUnit(TimeUnit.MILLISECONDS)
    public void tables() {
        grow(Growth.Of.TABLES);
    }

    /** More and more rows of a table. The time that JMH reports is of no meaning. */
    @Benchmark
    @BenchmarkMode(Mode.SingleShotTime)
    @OutputTimeUnit(TimeUnit.MILLISECONDS)
    public void bytes() {
        grow(Growth.Of.BYTES);
    }

    private void grow(Growth.Of what) {
        ProcessTarget node = Objects.requireNonNull(process, "at the level CLIENT only");
        // A driver that follows the schema would be work for a node at rest.
        ((ClientAccess) access).disconnect();
        new Growth(what, work, Engine.of(engine), node, seconds).measure();
    }

    /** Reads and writes, as often, at a fixed rate. The time that JMH reports is of no meaning. */
    @Benchmark
    @BenchmarkMode(Mode.SingleShotTime)
    @OutputTimeUnit(TimeUnit.MILLISECONDS)
    public void openLoop() throws IOException {
        Probe probe = access.probe();
        StallProfiler.restart();
        Probe.Moment from = probe.now();
        OpenLoop loop = new OpenLoop(access, work, 0.5, seed);
        int all = ITERATIONS * seconds;
        loop.run(rate, all);
        StallProfiler.stop(loop.reads.getTotalCount() + loop.writes.getTotalCount());
        Timeline.since(from, probe, all, loop.slowest).write(file(Tail.timeline("")));
        StallProfiler.add("rate", rate, "ops/s");
        StallProfiler.add(Gap.METRIC, loop.gap.millis(), "ms");
        StallProfiler.latencies("read", loop.reads, all);
        StallProfiler.latencies("write", loop.writes, all);
        Tail.write(file("read.hlog"), loop.reads, all);
        Tail.write(file("write.hlog"), loop.writes, all);
        sweep();
    }

    private Path file(String kind) {
        return Tail.file(Path.of(histograms), name, round, kind);
    }

    /** Other rates, from little to too much: what latency goes with what throughput. */
    private void sweep() {
        for (int percent : OpenLoop.SWEEP) {
            rest();
            OpenLoop loop = new OpenLoop(access, work, 0.5, seed + percent);
            double asked = rate / OF_CLOSED_LOOP * percent / 100;
            long began = System.nanoTime();
            loop.run(asked, Math.max(1, ITERATIONS * seconds / 5));
            double nanos = System.nanoTime() - began;
            Histogram all = loop.reads.copy();
            all.add(loop.writes);
            double done = all.getTotalCount() * 1e9 / nanos;
            String at = OpenLoop.at(percent);
            StallProfiler.add("rate" + at, asked, "ops/s");
            StallProfiler.add("throughput" + at, done, "ops/s");
            StallProfiler.add("P99" + at, all.getValueAtPercentile(99) / 1000.0, "us");
            // At any more the queue only grows faster.
            if (done < 0.9 * asked) return;
        }
    }
}
