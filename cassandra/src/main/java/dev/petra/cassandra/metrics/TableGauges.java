// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.metrics;

import com.codahale.metrics.Gauge;
import dev.petra.cassandra.table.PartitionSample;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.engine.FileStatistics;
import dev.petra.engine.StoreStatistics;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.cassandra.metrics.TableMetrics;

/**
 * Those of Cassandra's gauges of a table that count its SSTables, with what an engine holds of the
 * table added. Through them it shows wherever Cassandra sums tables up.
 */
public final class TableGauges {
    /**
     * The bytes of compaction that count as one pending task: about what one compaction of
     * Cassandra's writes.
     */
    private static final long TASK_BYTES = 64L << 20;

    /** By the gauge's name: its value from Cassandra's own and what the engine has. */
    private static final Map<String, BiFunction<Object, TableGenerations, Object>> GAUGES =
            Map.ofEntries(
                    entry(
                            "LiveSSTableCount",
                            (stock, stores) -> (int) ((Integer) stock + files(stores).files())),
                    entry(
                            "PendingCompactions",
                            (stock, stores) -> (Integer) stock + pendingTasks(stores)),
                    entry(
                            "CompressionRatio",
                            (stock, stores) -> compressionRatio((Double) stock, files(stores))),
                    entry(
                            "BloomFilterDiskSpaceUsed",
                            (stock, stores) -> (Long) stock + files(stores).filterBytes()),
                    // Cassandra takes no SSTables for one partition less than none.
                    entry(
                            "EstimatedPartitionCount",
                            (stock, stores) ->
                                    Math.max(
                                            (Long) stock,
                                            stores.current().estimates().partitions())),
                    entry(
                            "EstimatedPartitionSizeHistogram",
                            (stock, stores) ->
                                    TableMetrics.addHistogram(
                                            (long[]) stock,
                                            sample(stores).sizes().getBuckets(false))),
                    entry(
                            "EstimatedColumnCountHistogram",
                            (stock, stores) ->
                                    TableMetrics.addHistogram(
                                            (long[]) stock,
                                            sample(stores).cells().getBuckets(false))),
                    entry(
                            "MinPartitionSize",
                            (stock, stores) -> smaller((Long) stock, sample(stores).sizes().min())),
                    entry(
                            "MaxPartitionSize",
                            (stock, stores) ->
                                    Math.max((Long) stock, sample(stores).sizes().max())),
                    entry(
                            "MeanPartitionSize",
                            (stock, stores) ->
                                    sample(stores).isEmpty()
                                            ? stock
                                            : sample(stores).sizes().mean()),
                    // A store does not know what was repaired.
                    entry(
                            "PercentRepaired",
                            (stock, stores) -> stores.current().isEmpty() ? stock : (Double) 0.0),
                    entry(
                            "BytesUnrepaired",
                            (stock, stores) -> (Long) stock + files(stores).uncompressedBytes()));

    private TableGauges() {}

    private static Map.Entry<String, BiFunction<Object, TableGenerations, Object>> entry(
            String gauge, BiFunction<Object, TableGenerations, Object> combine) {
        return Map.entry(gauge, combine);
    }

    /**
     * What to register instead of one of Cassandra's gauges.
     *
     * @param table as keyspace.columnfamily, in an engine or not
     */
    @SuppressWarnings("unchecked") // A gauge's values are of one type, whatever it is.
    public static <T> Gauge<T> over(String table, String name, Gauge<T> stock) {
        BiFunction<Object, TableGenerations, Object> combine = GAUGES.get(name);
        if (combine == null) return stock;
        return () -> {
            T value = stock.getValue();
            TableGenerations stores = TableRegistry.find(table);
            return stores == null ? value : (T) combine.apply(value, stores);
        };
    }

    private static FileStatistics files(TableGenerations stores) {
        return stores.current().files();
    }

    private static PartitionSample sample(TableGenerations stores) {
        return stores.current().estimates().sample();
    }

    private static int pendingTasks(TableGenerations stores) {
        long bytes = stores.current().statistic(StoreStatistics::pendingCompactionBytes);
        return (int) ((bytes + TASK_BYTES - 1) / TASK_BYTES);
    }

    private static Double compressionRatio(Double stock, FileStatistics files) {
        return files.uncompressedBytes() == 0
                ? stock
                : (Double) ((double) files.compressedBytes() / files.uncompressedBytes());
    }

    /** 0 stands for none. */
    private static long smaller(long stock, long ours) {
        if (stock == 0 || ours == 0) return Math.max(stock, ours);
        return Math.min(stock, ours);
    }
}
