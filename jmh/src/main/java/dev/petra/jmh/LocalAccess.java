// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
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
        ReadCheck check = new ReadCheck(workload, number);
        DecoratedKey key = requests.key(number);
        each(
                SinglePartitionReadCommand.create(
                        cfs.metadata(),
                        FBUtilities.nowInSeconds(),
                        requests.filter,
                        RowFilter.none(),
                        limits,
                        key,
                        clusterings),
                rows -> {
                    Requests.check(rows.partitionKey(), key);
                    while (rows.hasNext()) requests.check(rows.next(), check);
                });
        return check.end();
    }

    @Override
    public long scan() {
        AtomicLong count = new AtomicLong();
        each(
                PartitionRangeReadCommand.create(
                        cfs.metadata(),
                        FBUtilities.nowInSeconds(),
                        requests.filter,
                        RowFilter.none(),
                        DataLimits.NONE,
                        DataRange.allData(cfs.getPartitioner())),
                rows -> {
                    long found = 0;
                    for (; rows.hasNext(); found++) rows.next();
                    count.addAndGet(found);
                });
        if (count.get() < workload.rows())
            throw new IllegalStateException(count + " rows of " + workload.rows());
        return count.get();
    }

    private static void each(ReadCommand command, Consumer<RowIterator> ofPartition) {
        try (ReadExecutionController controller = command.executionController();
                PartitionIterator partitions =
                        UnfilteredPartitionIterators.filter(
                                command.executeLocally(controller), command.nowInSec())) {
            while (partitions.hasNext())
                try (RowIterator rows = partitions.next()) {
                    ofPartition.accept(rows);
                }
        }
    }

    @Override
    public void flush() {
        flush(cfs);
    }

    private static void flush(ColumnFamilyStore cfs) {
        try {
            StorageService.instance.forceKeyspaceFlush(cfs.getKeyspaceName(), cfs.name);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public void settle() {
        settle(cfs);
    }

    /** As nodetool does. */
    static void settle(ColumnFamilyStore cfs) {
        flush(cfs);
        try {
            StorageService.instance.forceKeyspaceCompaction(false, cfs.getKeyspaceName(), cfs.name);
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
