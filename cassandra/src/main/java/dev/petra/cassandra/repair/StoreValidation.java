// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.repair;

import dev.petra.cassandra.sstable.StoreScanner;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.engine.RangeEstimate;
import dev.petra.engine.TableStore;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongPredicate;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.compaction.CompactionController;
import org.apache.cassandra.db.compaction.CompactionIterator;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.repair.CassandraValidationIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.metrics.TopPartitionTracker;
import org.apache.cassandra.repair.NoSuchRepairSessionException;
import org.apache.cassandra.repair.SharedContext;
import org.apache.cassandra.repair.ValidationPartitionIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.ActiveRepairService;
import org.apache.cassandra.streaming.PreviewKind;
import org.apache.cassandra.utils.TimeUUID;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.apache.cassandra.utils.concurrent.Refs;
import org.jspecify.annotations.Nullable;

/**
 * What a repair compares of a table in an engine: the store as it is when this is made, and the
 * SSTables of a table on its way, merged and purged by Cassandra's own code, so that equal data has
 * equal Merkle trees on any engine.
 */
final class StoreValidation extends ValidationPartitionIterator {
    private final ColumnFamilyStore cfs;
    private final Refs<SSTableReader> sstables;
    private final List<ISSTableScanner> scanners = new ArrayList<>();
    private final PurgesAll controller;
    private final CompactionIterator merged;
    private final Map<Range<Token>, Long> partitions = new HashMap<>();
    private final long bytes;

    /**
     * Flushes nothing of an engine, and blocks for the flush of a memtable of Cassandra's.
     *
     * @throws NoSuchRepairSessionException if the repair was given up meanwhile
     */
    @SuppressWarnings("try") // the group is held, not used
    StoreValidation(
            ColumnFamilyStore cfs,
            EngineMemtable table,
            Collection<Range<Token>> ranges,
            TimeUUID parentId,
            long nowInSec,
            TopPartitionTracker.Collector topPartitions)
            throws NoSuchRepairSessionException {
        this.cfs = cfs;
        cfs.forceBlockingFlush(ColumnFamilyStore.FlushReason.VALIDATION);
        PreviewKind preview =
                ActiveRepairService.instance().getParentRepairSession(parentId).previewKind;
        // Keeps a store that leaves until it is open here.
        try (OpOrder.Group reading = cfs.readOrdering.start()) {
            // The store is read last, as in PetraStreamManager.
            sstables =
                    CassandraValidationIterator.getSSTablesToValidate(
                            cfs, SharedContext.Global.instance, ranges, parentId, false);
            try {
                TableStore store =
                        preview == PreviewKind.REPAIRED ? null : table.generation().existing();
                Map<Range<Token>, RangeEstimate> estimates = new HashMap<>();
                count(store, ranges, estimates);
                open(store, ranges, estimates);
                scanners.addAll(
                        cfs.getCompactionStrategyManager().getScanners(sstables, ranges).scanners);
            } catch (RuntimeException | Error e) {
                release();
                throw e;
            }
        }
        PurgesAll purges = null;
        try {
            bytes = scanners.stream().mapToLong(ISSTableScanner::getLengthInBytes).sum();
            purges =
                    // As in CassandraValidationIterator: no other node has what an index has.
                    new PurgesAll(cfs, cfs.isIndex() ? nowInSec : cfs.gcBefore(nowInSec));
            merged =
                    new CompactionIterator(
                            OperationType.VALIDATION,
                            scanners,
                            purges,
                            nowInSec,
                            TimeUUID.Generator.nextTimeUUID(),
                            CompactionManager.instance.active,
                            topPartitions);
        } catch (RuntimeException | Error e) {
            if (purges != null) purges.close();
            release();
            throw e;
        }
        controller = purges;
    }

    /** Of what nobody iterates over. */
    private void release() {
        scanners.forEach(ISSTableScanner::close);
        sstables.release();
    }

    private void open(
            @Nullable TableStore store,
            Collection<Range<Token>> ranges,
            Map<Range<Token>, RangeEstimate> estimates) {
        if (store == null) return;
        List<Range<Token>> parts = Range.normalize(ranges);
        List<RangeEstimate> sizes = new ArrayList<>();
        for (Range<Token> part : parts) sizes.add(estimates.computeIfAbsent(part, store::estimate));
        // Not one for each: all would be open until the end, and hold blocks of 256 ranges.
        scanners.add(new StoreScanner(store, cfs.metadata(), parts, sizes));
    }

    /**
     * @param estimates gets those of the store
     */
    private void count(
            @Nullable TableStore store,
            Collection<Range<Token>> ranges,
            Map<Range<Token>, RangeEstimate> estimates) {
        for (Range<Token> range : ranges) {
            long count = 0;
            for (SSTableReader sstable : sstables)
                count += sstable.estimatedKeysForRanges(Set.of(range));
            if (store != null)
                for (Range<Token> part : range.unwrap())
                    count += estimates.computeIfAbsent(part, store::estimate).partitions();
            partitions.put(range, count);
        }
    }

    /** As stock validation: whether a tombstone still hides something shows in the merge itself. */
    private static final class PurgesAll extends CompactionController {
        PurgesAll(ColumnFamilyStore cfs, long gcBefore) {
            super(cfs, gcBefore);
        }

        @Override
        public LongPredicate getPurgeEvaluator(DecoratedKey key) {
            return time -> true;
        }
    }

    @Override
    public TableMetadata metadata() {
        return cfs.metadata();
    }

    @Override
    public boolean hasNext() {
        return merged.hasNext();
    }

    @Override
    public UnfilteredRowIterator next() {
        return merged.next();
    }

    @Override
    public long getEstimatedBytes() {
        return bytes;
    }

    @Override
    public long getBytesRead() {
        return merged.getBytesRead();
    }

    @Override
    public long estimatedPartitions() {
        return partitions.values().stream().mapToLong(Long::longValue).sum();
    }

    @Override
    public Map<Range<Token>, Long> getRangePartitionCounts() {
        return partitions;
    }

    @Override
    public void close() {
        try {
            merged.close();
        } finally {
            try {
                controller.close();
            } finally {
                sstables.release();
            }
        }
    }
}
