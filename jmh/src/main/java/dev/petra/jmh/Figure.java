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
 * @param values one for each iteration or round, in their order; {@code min}, {@code median} and
 *     {@code max} stand beside them in files, for those who read these
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
    Figure {
        values = List.copyOf(values);
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

    /** Whether the values of both lie apart, all of one's below all of the other's. */
    boolean differsFrom(Figure other) {
        return max() < other.min() || min() > other.max();
    }

    /** The same with more values. */
    Figure with(List<Double> more) {
        List<Double> all = new ArrayList<>(values);
        all.addAll(more);
        return new Figure(workload, level, operation, gc, engine, metric, unit, all);
    }
}
