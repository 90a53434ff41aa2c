// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.launcher.NodeProcess;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A second node joins a first that has all rows, and takes its half of them, while the rows are
 * read at a fixed rate. The rate is low: what a bootstrap does to a node is asked, not what is left
 * of it beside as much as it can do.
 */
final class Bootstrap {
    /** Of reads, in a second. */
    private static final double RATE = 400;

    private static final int QUIET_SECONDS = 10;
    private static final Duration PATIENCE = Duration.ofMinutes(30);
    private static final String BEGINS = "Executing streaming plan for Bootstrap";
    private static final String ENDS = "All sessions completed";
    private static final Pattern RECEIVED =
            Pattern.compile("Receiving \\d+ files\\(([\\d.]+)(\\w+)\\)");

    private final Access access;
    private final Workload workload;
    private final ProcessTarget seed;
    private final SplittableRandom seeds;
    private final int seconds;

    /**
     * @param keys the seed of those that are read
     * @param seconds how long a measurement is: before the other joins, no more than two of them
     */
    Bootstrap(Access access, Workload workload, ProcessTarget seed, long keys, int seconds) {
        this.access = access;
        this.workload = workload;
        this.seed = seed;
        this.seeds = new SplittableRandom(keys);
        this.seconds = seconds;
    }

    /**
     * Measures it with a newcomer that is configured alike; the results are {@link
     * StallProfiler}'s.
     */
    void measure(Engine engine, String gc, int heapMiB, int nativeMiB) {
        Path directory = seed.directory().resolve("newcomer");
        NodeProcess newcomer =
                Nodes.joining(seed.node(), directory, engine, gc, heapMiB, nativeMiB);
        int before = Math.min(QUIET_SECONDS, 2 * seconds);
        loop().run(RATE, before);
        OpenLoop quiet = loop();
        quiet.run(RATE, before);
        StallProfiler.latencies("read before", quiet.reads, before);
        newcomer.start();
        try {
            await(newcomer, BEGINS);
            Probe both =
                    new Probe(
                            List.of(
                                    new Probe.Watched(seed.node().pid(), seed.directory()),
                                    new Probe.Watched(newcomer.pid(), directory)));
            Probe.Moment from = both.now();
            StallProfiler.restart();
            Live live = new Live();
            live.start();
            await(newcomer, ENDS);
            Probe.Moment to = both.now();
            live.end();
            StallProfiler.stop(live.loop.reads.getTotalCount());
            double streamed = (to.millis() - from.millis()) / 1000.0;
            StallProfiler.latencies("read meanwhile", live.loop.reads, streamed);
            newcomer.awaitCql(PATIENCE);
            Probe.Moment rested = Quiet.await(both, seconds);
            double bytes =
                    RECEIVED.matcher(newcomer.log()).results().mapToDouble(Bootstrap::bytes).sum();
            StallProfiler.add("received", bytes / 1e6 / streamed, "MB/s");
            StallProfiler.add(
                    "cpu of both nodes until quiet",
                    (rested.all().cpuNanos() - from.all().cpuNanos()) / bytes,
                    "s/GB");
            StallProfiler.add(
                    "written by the newcomer until quiet",
                    (rested.processes().get(1).writtenBytes()
                                    - from.processes().get(1).writtenBytes())
                            / bytes,
                    "B/B");
            StallProfiler.add(
                    "time to quiet", Math.max(0, rested.millis() - to.millis()) / 1000.0, "s");
        } finally {
            if (newcomer.isAlive()) newcomer.kill();
        }
    }

    private OpenLoop loop() {
        return new OpenLoop(access, workload, 1, seeds.nextLong());
    }

    /** Reads until told to end. */
    private final class Live extends Thread {
        final OpenLoop loop = loop();
        private final AtomicReference<@Nullable Throwable> failure = new AtomicReference<>();

        @Override
        public void run() {
            try {
                loop.run(RATE, PATIENCE.toSeconds());
            } catch (RuntimeException | Error e) {
                failure.set(e);
            }
        }

        void end() {
            loop.end();
            try {
                join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(e);
            }
            Throwable failed = failure.get();
            if (failed != null) throw new IllegalStateException("a read failed", failed);
        }
    }

    private static void await(NodeProcess node, String line) {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!node.logSinceStart().contains(line)) {
            if (!node.isAlive() || System.nanoTime() - end >= 0)
                throw new IllegalStateException(
                        "the newcomer never logged '" + line + "', see " + node.logFile());
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
        }
    }

    private static double bytes(MatchResult received) {
        double size = Double.parseDouble(received.group(1));
        return switch (received.group(2)) {
            case "GiB" -> size * (1L << 30);
            case "MiB" -> size * (1L << 20);
            case "KiB" -> size * (1L << 10);
            default -> size;
        };
    }
}
