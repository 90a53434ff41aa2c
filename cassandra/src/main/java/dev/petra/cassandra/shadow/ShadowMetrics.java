// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.apache.cassandra.metrics.CassandraMetricsRegistry.Metrics;

import com.codahale.metrics.Gauge;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;
import java.util.function.ToLongFunction;
import org.apache.cassandra.metrics.DefaultNameFactory;

/**
 * Sums over all shadows of the node, and how long the reads of all took, beside Cassandra's
 * metrics, as {@code org.apache.cassandra.metrics:type=Petra,scope=shadow,name=<Metric>}. {@code
 * petra.shadow} has them by table.
 */
final class ShadowMetrics {
    private static final DefaultNameFactory NAMES = new DefaultNameFactory("Petra", "shadow");

    /** Percentiles of several tables do not add up, so these are of their reads together. */
    private static final ReadTimes READS = new ReadTimes();

    private ShadowMetrics() {}

    /** Counts a read of both sides, of any shadow. */
    static void read(long tableMicros, long shadowMicros) {
        READS.update(tableMicros, shadowMicros);
    }

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
        Metrics.register(NAMES.createMetricName("TableReadMicros"), READS.tableMicros);
        Metrics.register(NAMES.createMetricName("ShadowReadMicros"), READS.shadowMicros);
    }

    private static void count(String name, Function<ShadowStatistics, LongAdder> count) {
        gauge(name, shadow -> count.apply(shadow.statistics()).sum());
    }

    private static void gauge(String name, ToLongFunction<Shadow> value) {
        Gauge<Long> gauge = () -> Shadows.all().stream().mapToLong(value).sum();
        Metrics.register(NAMES.createMetricName(name), gauge);
    }
}
