// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.apache.cassandra.metrics.CassandraMetricsRegistry.Metrics;

import com.codahale.metrics.Gauge;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;
import java.util.function.ToLongFunction;
import org.apache.cassandra.metrics.DefaultNameFactory;

/**
 * Sums over all shadows of the node, and how long requests to all took, beside Cassandra's metrics,
 * as {@code org.apache.cassandra.metrics:type=Petra,scope=shadow,name=<Metric>}. {@code
 * petra.shadow} has them by table.
 */
final class ShadowMetrics {
    private static final DefaultNameFactory NAMES = new DefaultNameFactory("Petra", "shadow");

    // Percentiles of several tables do not add up, so these are of their requests together.
    static final Latencies READS = new Latencies(null);
    static final Latencies RANGES = new Latencies(null);
    static final Latencies WRITES = new Latencies(null);

    private ShadowMetrics() {}

    /** To be called once. */
    static void register() {
        gauge("Tables", shadow -> 1);
        gauge("CaughtUp", shadow -> shadow.isCaughtUp() ? 1 : 0);
        gauge("DroppedOut", shadow -> shadow.hasDroppedOut() ? 1 : 0);
        gauge("QueuedWrites", Shadow::queuedWrites);
        count("Compared", statistics -> statistics.compared);
        count("Equal", statistics -> statistics.equal);
        count("Different", statistics -> statistics.different);
        count("Undecided", statistics -> statistics.undecided);
        count("NotComparable", statistics -> statistics.notComparable);
        count("PassedOver", statistics -> statistics.passedOver);
        gauge("Answering", shadow -> shadow.isAnswering() ? 1 : 0);
        count("Answered", statistics -> statistics.answered);
        count("LeftToTable", statistics -> statistics.leftToTable);
        gauge("TableBytes", Shadow::tableBytes);
        gauge("ShadowBytes", Shadow::diskBytes);
        latencies("Read", READS);
        latencies("Range", RANGES);
        latencies("Write", WRITES);
    }

    private static void latencies(String kind, Latencies of) {
        Metrics.register(NAMES.createMetricName("Table" + kind + "Micros"), of.tableMicros);
        Metrics.register(NAMES.createMetricName("Shadow" + kind + "Micros"), of.shadowMicros);
    }

    private static void count(String name, Function<ShadowStatistics, LongAdder> count) {
        gauge(name, shadow -> count.apply(shadow.statistics()).sum());
    }

    private static void gauge(String name, ToLongFunction<Shadow> value) {
        Gauge<Long> gauge = () -> Shadows.all().stream().mapToLong(value).sum();
        Metrics.register(NAMES.createMetricName(name), gauge);
    }
}
