// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
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
            List<ScalarResult> results = new ArrayList<>(more);
            for (Stalls.Value value : Stalls.figures(process, from, to, Math.max(1, done)))
                results.add(result(value.metric(), value.value(), value.unit()));
            return results;
        }
    }
}
