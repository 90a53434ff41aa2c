// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.engine;

import static org.apache.cassandra.metrics.CassandraMetricsRegistry.Metrics;

import com.codahale.metrics.Gauge;
import dev.petra.engine.EngineStatistics;
import dev.petra.engine.StorageEngine;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Objects;
import java.util.Set;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;
import org.apache.cassandra.metrics.CassandraMetricsRegistry.MetricName;
import org.apache.cassandra.metrics.DefaultNameFactory;

/**
 * Gauges of each engine beside Cassandra's metrics, as {@code
 * org.apache.cassandra.metrics:type=Petra,scope=<engine>,name=<Metric>}. There are as many as
 * engines, not as tables: those have {@code TableGauges}.
 */
final class EngineMetrics {
    private static final String TYPE = "Petra";
    private static final Set<String> scopes = new HashSet<>();

    private EngineMetrics() {}

    /** Registers them; the first engine of a name has that name, the next {@code rocks-2}. */
    static synchronized void register(StorageEngine engine) {
        String scope = engine.name();
        for (int i = 2; !scopes.add(scope); i++) scope = engine.name() + "-" + i;
        DefaultNameFactory names = new DefaultNameFactory(TYPE, scope);
        gauge(names, engine, "OpenTables", EngineStatistics::openStores);
        gauge(names, engine, "MemoryBytes", EngineStatistics::memoryBudgetBytes);
        gauge(names, engine, "CacheBytes", EngineStatistics::cacheBytes);
        gauge(names, engine, "WriteBufferBytes", EngineStatistics::writeBufferBytes);
        for (String metric : engine.metrics().keySet())
            register(
                    names.createMetricName(inCapitals(metric)),
                    () -> Objects.requireNonNullElse(engine.metrics().get(metric), 0L));
    }

    private static void gauge(
            DefaultNameFactory names,
            StorageEngine engine,
            String name,
            ToLongFunction<EngineStatistics> metric) {
        register(names.createMetricName(name), () -> metric.applyAsLong(engine.statistics()));
    }

    private static void register(MetricName name, Gauge<Long> gauge) {
        Metrics.register(name, gauge);
    }

    /** As Cassandra's metrics are named: {@code block_cache_hits} is {@code BlockCacheHits}. */
    private static String inCapitals(String metric) {
        return Arrays.stream(metric.split("_", -1))
                .map(word -> Character.toUpperCase(word.charAt(0)) + word.substring(1))
                .collect(Collectors.joining());
    }
}
