// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.ArrayList;
import java.util.List;
import java.util.function.ToLongFunction;
import java.util.stream.LongStream;

/** How long processes held up requests, and what they took of processor, disk and memory. */
final class Stalls {
    /** One of these figures. */
    record Value(String metric, String unit, double value) {}

    private Stalls() {}

    /** What happened between two moments, of all processes and where there are several of each. */
    static List<Value> figures(Probe process, Probe.Moment from, Probe.Moment to, long done) {
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
        List<Value> figures = new ArrayList<>();
        long all = LongStream.of(stalled).sum();
        figures.add(value("stall", 100 * all / 1e6 / wall / count, "%"));
        // A closed loop has no rate: whoever serves fewer requests also stalls less of the time.
        figures.add(value("stall for a request", all / 1e3 / done, "us"));
        long stopped = pauses.stream().mapToLong(Probe.Pause::nanos).sum();
        figures.add(value("safepoints", 100 * stopped / 1e6 / wall / count, "%"));
        figures.add(value("longest pause", longest(pauses, Probe.Pause::nanos), "ms"));
        figures.add(
                value(
                        "longest time to a safepoint",
                        longest(pauses, Probe.Pause::reachingNanos),
                        "ms"));
        figures.add(
                value(
                        "allocation stalls, all threads",
                        waits.stream().mapToLong(Probe.Wait::nanos).sum() / 1e6 / wall * 1000,
                        "ms/s"));
        figures.add(value("longest allocation stall", longest(waits, Probe.Wait::nanos), "ms"));
        figures.add(
                value(
                        "write stalls",
                        100
                                * (to.all().stalledNanos() - from.all().stalledNanos())
                                / 1e6
                                / wall
                                / count,
                        "%"));
        figures.add(value("throughput", done / wall * 1000, "ops/s"));
        process.promoted(from, to)
                .ifPresent(bytes -> figures.add(value("promoted", (double) bytes / done, "B/op")));
        consumption(figures, "", from.all(), to.all(), done);
        for (int i = 0; count > 1 && i < count; i++) {
            String node = " of node " + (i + 1);
            figures.add(value("stall" + node, 100 * stalled[i] / 1e6 / wall, "%"));
            consumption(figures, node, from.processes().get(i), to.processes().get(i), done);
        }
        return figures;
    }

    private static Value value(String metric, double value, String unit) {
        return new Value(metric, unit, value);
    }

    private static <T> double longest(List<T> all, ToLongFunction<T> nanos) {
        return all.stream().mapToLong(nanos).max().orElse(0) / 1e6;
    }

    private static void consumption(
            List<Value> figures, String of, Probe.Counters from, Probe.Counters to, long done) {
        figures.add(value("cpu" + of, (to.cpuNanos() - from.cpuNanos()) / 1e3 / done, "us/op"));
        figures.add(
                value(
                        "disk read" + of,
                        (double) (to.readBytes() - from.readBytes()) / done,
                        "B/op"));
        figures.add(
                value(
                        "disk written" + of,
                        (double) (to.writtenBytes() - from.writtenBytes()) / done,
                        "B/op"));
        figures.add(value("resident" + of, to.residentBytes() / 1048576.0, "MiB"));
    }
}
