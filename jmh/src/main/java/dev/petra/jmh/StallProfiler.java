// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.function.ToLongFunction;
import java.util.stream.LongStream;
import org.HdrHistogram.Histogram;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.infra.IterationParams;
import org.openjdk.jmh.profile.InternalProfiler;
import org.openjdk.jmh.results.AggregationPolicy;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.ScalarResult;

/**
 * Secondary results of each iteration: how long the engine's process held up requests, and what it
 * took of processor, disk and memory. Static, since JMH makes the profiler and the benchmark apart.
 */
public final class StallProfiler implements InternalProfiler {
    private static @Nullable Probe probe;
    private static Probe.@Nullable Moment started;
    private static Probe.@Nullable Moment stopped;
    private static long operations;
    private static final List<ScalarResult> more = new ArrayList<>();

    /** For JMH. */
    public StallProfiler() {}

    /** Says whose process it is. */
    static synchronized void watch(Probe process) {
        probe = process;
    }

    /** Begins anew, within an iteration. */
    static synchronized void restart() {
        Probe process = probe;
        if (process != null) started = process.now();
    }

    /** Ends before the iteration does. */
    static synchronized void stop(long done) {
        Probe process = probe;
        if (process != null) stop(process.now(), done);
    }

    /** The same at a moment that is over. */
    static synchronized void stop(Probe.Moment at, long done) {
        stopped = at;
        operations = done;
    }

    /** Looks for the last time: the process is about to end, before JMH asks about it. */
    static synchronized void end() {
        Probe process = probe;
        if (process != null && stopped == null) stopped = process.now();
    }

    /**
     * Adds a histogram of nanoseconds to the results.
     *
     * @param seconds in which it was recorded
     */
    static synchronized void latencies(String name, Histogram histogram, double seconds) {
        if (histogram.getTotalCount() == 0) return;
        for (double percentile : Tail.percentiles(seconds))
            more.add(
                    result(
                            name + " " + Figure.percentile(percentile),
                            histogram.getValueAtPercentile(percentile) / 1000.0,
                            "us"));
    }

    /** Adds a figure of another kind to the results. */
    static synchronized void add(String name, double value, String unit) {
        more.add(result(name, value, unit));
    }

    private static ScalarResult result(String name, double value, String unit) {
        return new ScalarResult(name, value, unit, AggregationPolicy.AVG);
    }

    @Override
    public String getDescription() {
        return "Stop-the-world pauses, processor, disk and memory of the engine's process";
    }

    @Override
    public void beforeIteration(BenchmarkParams benchmark, IterationParams iteration) {
        synchronized (StallProfiler.class) {
            stopped = null;
            operations = 0;
            more.clear();
        }
        restart();
    }

    @Override
    @SuppressWarnings("rawtypes") // As JMH has it.
    public Collection<? extends Result> afterIteration(
            BenchmarkParams benchmark, IterationParams iteration, IterationResult result) {
        synchronized (StallProfiler.class) {
            Probe process = probe;
            Probe.Moment from = started;
            if (process == null || from == null) return List.of();
            Probe.Moment to = stopped == null ? process.now() : stopped;
            long done = operations > 0 ? operations : result.getMetadata().getMeasuredOps();
            return figures(process, from, to, Math.max(1, done));
        }
    }

    /** What happened between two moments, of all processes and where there are several of each. */
    static List<ScalarResult> figures(
            Probe process, Probe.Moment from, Probe.Moment to, long done) {
        int count = process.processes().size();
        List<Probe.Pause> pauses = process.pauses(from, to);
        List<Probe.Wait> waits = process.allocationStalls(from, to);
        long[] stalled = new long[count];
        for (int i = 0; i < count; i++) {
            int node = i;
            stalled[i] =
                    Probe.union(waits.stream().filter(wait -> wait.process() == node).toList())
                            + to.processes().get(i).stalledNanos()
                            - from.processes().get(i).stalledNanos();
        }
        for (Probe.Pause pause : pauses) stalled[pause.process()] += pause.nanos();
        double wall = Math.max(1, to.millis() - from.millis());
        List<ScalarResult> figures = new ArrayList<>(more);
        long all = LongStream.of(stalled).sum();
        figures.add(result("stall", 100 * all / 1e6 / wall / count, "%"));
        // A closed loop has no rate: whoever serves fewer requests also stalls less of the time.
        figures.add(result("stall for a request", all / 1e3 / done, "us"));
        long stopped = pauses.stream().mapToLong(Probe.Pause::nanos).sum();
        figures.add(result("safepoints", 100 * stopped / 1e6 / wall / count, "%"));
        figures.add(result("longest pause", longest(pauses, Probe.Pause::nanos), "ms"));
        figures.add(
                result(
                        "longest time to a safepoint",
                        longest(pauses, Probe.Pause::reachingNanos),
                        "ms"));
        figures.add(
                result(
                        "allocation stalls, all threads",
                        waits.stream().mapToLong(Probe.Wait::nanos).sum() / 1e6 / wall * 1000,
                        "ms/s"));
        figures.add(result("longest allocation stall", longest(waits, Probe.Wait::nanos), "ms"));
        figures.add(
                result(
                        "write stalls",
                        100
                                * (to.all().stalledNanos() - from.all().stalledNanos())
                                / 1e6
                                / wall
                                / count,
                        "%"));
        figures.add(result("throughput", done / wall * 1000, "ops/s"));
        process.promoted(from, to)
                .ifPresent(bytes -> figures.add(result("promoted", (double) bytes / done, "B/op")));
        consumption(figures, "", from.all(), to.all(), done);
        for (int i = 0; count > 1 && i < count; i++) {
            String node = " of node " + (i + 1);
            figures.add(result("stall" + node, 100 * stalled[i] / 1e6 / wall, "%"));
            consumption(figures, node, from.processes().get(i), to.processes().get(i), done);
        }
        return figures;
    }

    private static <T> double longest(List<T> all, ToLongFunction<T> nanos) {
        return all.stream().mapToLong(nanos).max().orElse(0) / 1e6;
    }

    private static void consumption(
            List<ScalarResult> figures,
            String of,
            Probe.Counters from,
            Probe.Counters to,
            long done) {
        figures.add(result("cpu" + of, (to.cpuNanos() - from.cpuNanos()) / 1e3 / done, "us/op"));
        figures.add(
                result(
                        "disk read" + of,
                        (double) (to.readBytes() - from.readBytes()) / done,
                        "B/op"));
        figures.add(
                result(
                        "disk written" + of,
                        (double) (to.writtenBytes() - from.writtenBytes()) / done,
                        "B/op"));
        figures.add(result("resident" + of, to.residentBytes() / 1048576.0, "MiB"));
    }
}
