// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.HdrHistogram.Histogram;

/** What came of the measurements, and the rates that follow from it. */
final class Figures {
    private final Map<String, Figure> figures = new LinkedHashMap<>();
    private final Map<String, Double> rates = new LinkedHashMap<>();

    boolean isEmpty() {
        return figures.isEmpty();
    }

    List<Figure> all() {
        return List.copyOf(figures.values());
    }

    /** The rates of open loops by setting. */
    Map<String, Double> rates() {
        return rates;
    }

    /**
     * 70 % of what the slowest engine does in a closed loop, by its median: all rounds of that come
     * before the first open loop of a setting.
     */
    double rate(Run run) {
        return rates.computeIfAbsent(
                run.setting(),
                setting ->
                        StoreBenchmark.OF_CLOSED_LOOP
                                * figures.values().stream()
                                        .filter(
                                                figure ->
                                                        figure.metric().equals("throughput")
                                                                && figure.operation()
                                                                        .equals("mixed")
                                                                && setting.equals(
                                                                        String.join(
                                                                                "-",
                                                                                figure.workload(),
                                                                                figure.level(),
                                                                                figure.gc())))
                                        .mapToDouble(Figure::median)
                                        .min()
                                        .orElseThrow());
    }

    /**
     * Takes over the times of a closed loop, each of a request.
     *
     * @param histograms where the round's are
     */
    void takeTimes(Run run, Path histograms, int round) throws IOException {
        double nanos = 0;
        long count = 0;
        for (String kind : List.of("read", "write")) {
            Path file = Tail.file(histograms, run.name(), round, Tail.kind(kind, ""));
            if (!Files.exists(file)) continue;
            Histogram times = Tail.read(file);
            nanos += times.getMean() * times.getTotalCount();
            count += times.getTotalCount();
            for (double percentile : Tail.percentiles(Tail.seconds(times)))
                add(
                        run,
                        run.beginning(kind) + Figure.percentile(percentile),
                        "us",
                        times.getValueAtPercentile(percentile) / 1000.0);
        }
        if (count > 0) add(run, "mean", "us", nanos / count / 1000);
    }

    /**
     * Adds P99.9 of several rounds, each of which is too short for it, if all together are not.
     *
     * @param kind begins the metric's name
     * @param at ends it
     * @param all of nanoseconds
     */
    void addTail(Run run, String kind, String at, Histogram all) {
        String alone = run.name() + "-" + kind + Figure.percentile(99.9) + at;
        if (Tail.seconds(all) >= Tail.LEAST_SECONDS && !figures.containsKey(alone))
            add(run, kind + Tail.OF_ALL_ROUNDS + at, "us", all.getValueAtPercentile(99.9) / 1000.0);
    }

    /** Adds a value to those of a metric. */
    void add(Run run, String metric, String unit, double value) {
        Figure one =
                new Figure(
                        run.workload(),
                        run.level().name().toLowerCase(Locale.ROOT),
                        run.operation(),
                        run.gc(),
                        run.engine().label(),
                        metric,
                        unit,
                        List.of(value));
        figures.merge(run.name() + "-" + metric, one, (before, now) -> before.with(now.values()));
    }
}
