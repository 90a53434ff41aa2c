// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import com.codahale.metrics.Gauge;
import com.google.common.collect.Iterables;
import dev.petra.cassandra.metrics.TableGauges;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.KeySamples;
import dev.petra.cassandra.table.PartitionSample;
import dev.petra.cassandra.table.RangeEstimates;
import dev.petra.engine.RangeEstimate;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.utils.Pair;

/** Join points where Cassandra shows or estimates what a table holds. */
public final class MetricHooks {
    private MetricHooks() {}

    /**
     * How many partitions there are in each of some ranges, and how large they are on average; for
     * Spark and others, which split their work by that. Of a table on its way into an engine or out
     * of it, a partition that is in the store and in an SSTable counts twice.
     *
     * @param stock of Cassandra's own part of the table, by unwrapped range
     */
    public static Map<Range<Token>, Pair<Long, Long>> sizeEstimates(
            ColumnFamilyStore cfs,
            Collection<Range<Token>> ranges,
            Map<Range<Token>, Pair<Long, Long>> stock) {
        EngineMemtable table = EngineMemtables.any(cfs);
        if (table == null) return stock;
        // A range that cannot be estimated stays out: what it has in SSTables is not all of it.
        Map<Range<Token>, Pair<Long, Long>> estimates = RangeEstimates.of(table, ranges);
        estimates.replaceAll(
                (range, ours) -> sum(ours, stock.getOrDefault(range, Pair.create(0L, 0L))));
        return estimates;
    }

    private static Pair<Long, Long> sum(Pair<Long, Long> one, Pair<Long, Long> other) {
        long partitions = one.left + other.left;
        long bytes = one.left * one.right + other.left * other.right;
        return Pair.create(partitions, partitions == 0 ? 0 : bytes / partitions);
    }

    /** What Cassandra estimates of a table's partitions, and the engine's. Never blocks. */
    public static long estimateKeys(ColumnFamilyStore cfs, long stock) {
        EngineMemtable table = EngineMemtables.current(cfs);
        return table == null ? stock : stock + table.generation().estimates().knownPartitions();
    }

    /**
     * How many cells a partition has on average. Never blocks: the coordinator of a range read
     * decides by it how many replicas it asks at a time.
     *
     * @param stock of Cassandra's own part of the table, 0 if it has none
     */
    public static int meanCellsPerPartition(ColumnFamilyStore cfs, int stock) {
        EngineMemtable table = EngineMemtables.current(cfs);
        if (table == null || stock != 0) return stock;
        PartitionSample sample = table.generation().estimates().knownSample();
        return sample.isEmpty() ? 0 : (int) Math.min(Integer.MAX_VALUE, sample.cells().mean());
    }

    /** How many partitions lie in a range. */
    public static long estimatedKeysForRange(
            ColumnFamilyStore cfs, Range<Token> range, long stock) {
        EngineMemtable table = EngineMemtables.current(cfs);
        return table == null ? stock : stock + RangeEstimates.of(table, range).partitions();
    }

    /** Some keys of a range. */
    public static Iterable<DecoratedKey> keySamples(
            ColumnFamilyStore cfs, Range<Token> range, Iterable<DecoratedKey> stock) {
        EngineMemtable table = EngineMemtables.current(cfs);
        if (table == null) return stock;
        return Iterables.concat(
                stock, table.generation().measure(store -> KeySamples.of(store, range), List.of()));
    }

    /**
     * What the engine has in a range that auto-repair is about to split by what Cassandra has.
     *
     * @return how many partitions, and how many bytes
     */
    public static long[] repairEstimate(String keyspace, String table, Range<Token> range) {
        ColumnFamilyStore cfs = ColumnFamilyStore.getIfExists(keyspace, table);
        EngineMemtable ours = cfs == null ? null : EngineMemtables.current(cfs);
        if (ours == null) return new long[2];
        RangeEstimate estimate = RangeEstimates.of(ours, range);
        return new long[] {
            estimate.partitions(), estimate.partitions() * estimate.meanPartitionBytes()
        };
    }

    /**
     * Instead of a gauge of a table that Cassandra is about to register.
     *
     * @param table as keyspace.columnfamily
     */
    public static <T> Gauge<T> gauge(String table, String name, Gauge<T> stock) {
        return TableGauges.over(table, name, stock);
    }
}
