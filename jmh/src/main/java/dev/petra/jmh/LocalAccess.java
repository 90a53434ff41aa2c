// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiConsumer;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.cql3.UntypedResultSet;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.PartitionRangeReadCommand;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.ReadResponse;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.filter.ClusteringIndexNamesFilter;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.DataLimits;
import org.apache.cassandra.db.filter.RowFilter;
import org.apache.cassandra.db.partitions.PartitionIterator;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterators;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.RowIterator;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.net.MessagingService;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;

/** What a replica does: {@code ReadCommand.executeLocally} and {@code Mutation.apply}. */
final class LocalAccess implements Access {
    /** Of a scan, in rows: a driver's. */
    private static final int PAGE = 5000;

    private static final ThreadLocal<DataOutputBuffer> SENT =
            ThreadLocal.withInitial(DataOutputBuffer::new);

    private final boolean petra;
    private final Workload workload;
    private final ColumnFamilyStore cfs;
    private final Requests requests;
    private final ClusteringIndexFilter clusterings;
    private final DataLimits limits;

    LocalAccess(Engine engine, Workload workload) {
        this.petra = engine.isPetra();
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
                (partition, row) -> {
                    Requests.check(partition, key);
                    requests.check(row, check);
                });
        return check.end();
    }

    @Override
    public long scan() {
        long there = workload.written().there();
        Page page = new Page(DataRange.allData(cfs.getPartitioner()));
        do {
            page.begin();
            each(
                    PartitionRangeReadCommand.create(
                            cfs.metadata(),
                            FBUtilities.nowInSeconds(),
                            requests.filter,
                            RowFilter.none(),
                            DataLimits.cqlLimits(PAGE),
                            page.range),
                    page::take);
        } while (page.isFull());
        workload.checkScan(there, page.all);
        return page.all;
    }

    /** What a scan is at: it goes on behind the last row, as one of a client does. */
    private final class Page {
        private DataRange range;
        private long all;
        private int rows;
        private @Nullable DecoratedKey lastKey;
        private @Nullable Row lastRow;

        Page(DataRange range) {
            this.range = range;
        }

        boolean isFull() {
            return rows == PAGE;
        }

        void begin() {
            rows = 0;
            DecoratedKey key = lastKey;
            Row row = lastRow;
            if (key == null || row == null) return;
            PartitionPosition end = range.keyRange().right;
            DataRange whole = DataRange.allData(cfs.getPartitioner());
            range =
                    workload.clusterings() > 0
                            ? whole.forPaging(
                                    new Bounds<>(key, end),
                                    cfs.metadata().comparator,
                                    row.clustering(),
                                    false)
                            : whole.forSubRange(new Range<>(key, end));
        }

        void take(DecoratedKey key, Row row) {
            rows++;
            all++;
            lastKey = key;
            lastRow = row;
        }
    }

    /**
     * What a replica does for a request ({@code ReadCommandVerbHandler}): its answer is encoded, as
     * it is sent, and from that the rows are taken, as a coordinator does.
     */
    private static void each(ReadCommand command, BiConsumer<DecoratedKey, Row> ofRow) {
        ReadResponse response;
        try (ReadExecutionController controller = command.executionController();
                UnfilteredPartitionIterator found = command.executeLocally(controller)) {
            response = command.createResponse(found, controller.getRepairedDataInfo());
        }
        try {
            DataOutputBuffer sent = SENT.get();
            sent.clear();
            ReadResponse.serializer.serialize(response, sent, MessagingService.current_version);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        try (PartitionIterator partitions =
                UnfilteredPartitionIterators.filter(
                        response.makeIterator(command), command.nowInSec())) {
            while (partitions.hasNext())
                try (RowIterator rows = partitions.next()) {
                    while (rows.hasNext()) ofRow.accept(rows.partitionKey(), rows.next());
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
        return EmbeddedNode.probe(petra ? LocalAccess::stalledNanos : () -> 0);
    }

    private static long stalledNanos() {
        long micros = 0;
        for (UntypedResultSet.Row row :
                QueryProcessor.process("SELECT * FROM petra.engine_metrics", ConsistencyLevel.ONE))
            if (Probe.STALL_METRIC.equals(row.getString("metric"))) micros += row.getLong("value");
        return micros * 1000;
    }

    /** The node ends with this JVM, which nothing is measured in any more. */
    @Override
    public void close() {}
}
