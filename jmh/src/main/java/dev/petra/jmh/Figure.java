// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * One metric of one engine in one setting, as often as it was measured.
 *
 * @param workload as {@link Workload#names}
 * @param level of {@link Access.Level}
 * @param operation of {@link StoreBenchmark}
 * @param gc the collector
 * @param engine as {@link Engine#label}
 * @param metric its name
 * @param unit of the values
 * @param values one for each round, in their order; {@code min}, {@code median} and {@code max}
 *     stand beside them in files, for those who read these
 */
record Figure(
        String workload,
        String level,
        String operation,
        String gc,
        String engine,
        String metric,
        String unit,
        List<Double> values) {
    /** Of two engines that are alike, so many of all figures may be called different. */
    private static final double CHANCE = 0.05;

    /** With three values each, the clearest order of all comes by chance in a tenth of cases. */
    private static final int LEAST = 4;

    Figure {
        values = List.copyOf(values);
    }

    /** The name of the metric of a percentile: P99.9, or max for the last. */
    static String percentile(double percentile) {
        if (percentile == 100) return "max";
        return "P"
                + (percentile == Math.rint(percentile)
                        ? Long.toString((long) percentile)
                        : Double.toString(percentile));
    }

    @JsonProperty(access = JsonProperty.Access.READ_ONLY)
    double min() {
        return sorted()[0];
    }

    @JsonProperty(access = JsonProperty.Access.READ_ONLY)
    double max() {
        return sorted()[values.size() - 1];
    }

    @JsonProperty(access = JsonProperty.Access.READ_ONLY)
    double median() {
        double[] sorted = sorted();
        int half = sorted.length / 2;
        return sorted.length % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
    }

    private double[] sorted() {
        double[] sorted = values.stream().mapToDouble(value -> value).toArray();
        Arrays.sort(sorted);
        return sorted;
    }

    /** What is compared with each other: all engines' figures of one metric in one setting. */
    String setting() {
        return String.join(" / ", workload, level, operation, gc);
    }

    /** Whether both have as many values as it takes to tell a difference from chance. */
    boolean canDifferFrom(Figure other) {
        return Math.min(values.size(), other.values.size()) >= LEAST;
    }

    /**
     * Whether the values of both differ by more than chance: by the exact rank-sum test of Mann and
     * Whitney, two-sided, at 5 %. Equal values count half.
     */
    boolean differsFrom(Figure other) {
        if (!canDifferFrom(other)) return false;
        double less = 0;
        for (double mine : values)
            for (double its : other.values) less += mine < its ? 1 : mine == its ? 0.5 : 0;
        int few = (int) Math.ceil(Math.min(less, values.size() * other.values.size() - less));
        return 2 * chance(values.size(), other.values.size(), few) <= CHANCE;
    }

    /** How probable it is that of all pairs of both at most so many are in one order. */
    private static double chance(int mine, int its, int most) {
        // In how many orders of all values exactly so many pairs are in one order.
        double[][][] orders = new double[mine + 1][its + 1][mine * its + 1];
        for (int i = 0; i <= mine; i++)
            for (int j = 0; j <= its; j++)
                for (int pairs = 0; pairs <= i * j; pairs++)
                    if (i == 0 || j == 0) orders[i][j][pairs] = 1;
                    else
                        orders[i][j][pairs] =
                                orders[i][j - 1][pairs]
                                        + (pairs < j ? 0 : orders[i - 1][j][pairs - j]);
        return Arrays.stream(orders[mine][its], 0, Math.min(most, mine * its) + 1).sum()
                / Arrays.stream(orders[mine][its]).sum();
    }

    /** The same with more values. */
    Figure with(List<Double> more) {
        List<Double> all = new ArrayList<>(values);
        all.addAll(more);
        return new Figure(workload, level, operation, gc, engine, metric, unit, all);
    }
}
