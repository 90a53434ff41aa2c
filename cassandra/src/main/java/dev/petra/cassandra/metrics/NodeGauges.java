// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.metrics;

import static org.apache.cassandra.metrics.CassandraMetricsRegistry.Metrics;

import com.codahale.metrics.Gauge;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.metrics.DefaultNameFactory;

/**
 * Gauges over all tables in engines on this node beside Cassandra's metrics, as {@code
 * org.apache.cassandra.metrics:type=Petra,scope=tables,name=<Metric>}. {@code petra.tables} has
 * them by table.
 */
public final class NodeGauges {
    private static final DefaultNameFactory NAMES = new DefaultNameFactory("Petra", "tables");

    private NodeGauges() {}

    /** To be called once. */
    public static void register() {
        Gauge<Long> unusable = NodeGauges::unusable;
        Metrics.register(NAMES.createMetricName("Unusable"), unusable);
    }

    /** How many cannot be read or written: as those of {@code usable = false}. */
    static long unusable() {
        AtomicLong count = new AtomicLong();
        TableRegistry.forEach((table, stores) -> count(stores, count));
        return count.get();
    }

    private static void count(TableGenerations stores, AtomicLong count) {
        if (stores.failure() != null) count.incrementAndGet();
    }
}
