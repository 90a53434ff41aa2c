// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.ToLongFunction;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.PartitionRangeReadCommand;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.filter.ClusteringIndexNamesFilter;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.DataLimits;
import org.apache.cassandra.db.filter.RowFilter;
import org.apache.cassandra.db.partitions.PartitionIterator;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterators;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.RowIterator;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;

/** What a replica does: {@code ReadCommand.executeLocally} and {@code Mutation.apply}. */
final class LocalAccess implements Access {
    private final Workload workload;
    private final ColumnFamilyStore cfs;
    private final Requests requests;
    private final ClusteringIndexFilter clusterings;
    private final DataLimits limits;

    LocalAccess(Engine engine, Workload workload) {
        this.workload = workload;
        this.cfs = EmbeddedNode.start(workload, engine.memtable());
        this.requests = new Requests(workload, cfs.metadata());
        this.clusterings =
                workload.clusterings() > 0
                        ? new ClusteringIndexSliceFilter(Slices.ALL, false)
                        : new ClusteringIndexNamesFilter(
                                FBUtilities.singleton(Clustering.EMPTY, cfs.metadata().comparator),
                                false);
        this.limits =
                workload.clusterings() > 0
                        ? DataLimits.cqlLimits(workload.limit())
                        : DataLimits.NONE;
    }

    @Override
    public void write(long number, int version) {
        new Mutation(requests.update(number, version)).apply();
    }

    @Override
    public long read(long number) {
        long bytes =
                sum(
                        SinglePartitionReadCommand.create(
                                cfs.metadata(),
                                FBUtilities.nowInSeconds(),
                                requests.filter,
                                RowFilter.none(),
                                limits,
                                requests.key(number),
                                clusterings),
                        Requests::bytes);
        if (bytes == 0) throw new IllegalStateException("row " + number + " is not there");
        return bytes;
    }

    @Override
    public long scan() {
        long count =
                sum(
                        PartitionRangeReadCommand.create(
                                cfs.metadata(),
                                FBUtilities.nowInSeconds(),
                                requests.filter,
                                RowFilter.none(),
                                DataLimits.NONE,
                                DataRange.allData(cfs.getPartitioner())),
                        row -> 1);
        if (count < workload.rows())
            throw new IllegalStateException(count + " rows of " + workload.rows());
        return count;
    }

    private static long sum(ReadCommand command, ToLongFunction<Row> ofRow) {
        long sum = 0;
        try (ReadExecutionController controller = command.executionController();
                PartitionIterator partitions =
                        UnfilteredPartitionIterators.filter(
                                command.executeLocally(controller), command.nowInSec())) {
            while (partitions.hasNext())
                try (RowIterator rows = partitions.next()) {
                    while (rows.hasNext()) sum += ofRow.applyAsLong(rows.next());
                }
        }
        return sum;
    }

    @Override
    public void settle() {
        settle(cfs);
    }

    /** As nodetool does. */
    static void settle(ColumnFamilyStore cfs) {
        String keyspace = cfs.getKeyspaceName();
        try {
            StorageService.instance.forceKeyspaceFlush(keyspace, cfs.name);
            StorageService.instance.forceKeyspaceCompaction(false, keyspace, cfs.name);
        } catch (IOException | ExecutionException e) {
            throw new IllegalStateException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
        // What runs, of this table: the tasks that Cassandra estimates may be long done.
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(5);
        while (CompactionManager.instance.isCompacting(List.of(cfs), sstable -> true)) {
            if (System.nanoTime() - end >= 0)
                throw new IllegalStateException("compaction is not quiet after 5 minutes");
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(50));
        }
    }

    @Override
    public void compacting(boolean automatic) {
        compacting(cfs, automatic);
    }

    /** As nodetool does. */
    static void compacting(ColumnFamilyStore cfs, boolean automatic) {
        try {
            if (automatic)
                StorageService.instance.enableAutoCompaction(cfs.getKeyspaceName(), cfs.name);
            else StorageService.instance.disableAutoCompaction(cfs.getKeyspaceName(), cfs.name);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public Probe probe() {
        return EmbeddedNode.probe();
    }

    /** The node ends with this JVM, which nothing is measured in any more. */
    @Override
    public void close() {}
}
