// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import dev.petra.cassandra.sstable.SSTableExport;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.view.View;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Moves a table out of its store into SSTables, in the order of its partitions, one SSTable a step.
 * The store takes no writes any more; it is read beside the SSTables until all is in them. After a
 * crash the step that was under way is taken again, which changes nothing.
 */
public final class MigrateOut extends Migration {
    private static final Logger logger = LoggerFactory.getLogger(MigrateOut.class);

    private final EngineMemtable memtable;
    private boolean built;

    public MigrateOut(
            ColumnFamilyStore cfs, TableGenerations stores, long number, EngineMemtable memtable) {
        super(cfs, stores, number);
        this.memtable = memtable;
    }

    @Override
    public String direction() {
        return "out";
    }

    @Override
    public long bytesLeft() {
        return Math.max(
                0, memtable.generation().statistic(StoreStatistics::liveDataBytes) - doneBytes());
    }

    @Override
    @Nullable Duration step() {
        if (Migrations.areStopped()) return null;
        if (isOver()) {
            // Altered back: the store goes on under another memtable. Or dropped.
            if (memtable.generation().isLive()) forget();
            return null;
        }
        stores.stopPurging();
        TableStore store = memtable.generation().existing();
        if (store != null && !write(store)) return isHalted() ? SOON : Duration.ZERO;
        if (!isFound()) return SOON;
        return finish() ? null : Duration.ZERO;
    }

    /**
     * Whether indexes and views have all of the table. Those that it had while it was in its engine
     * were built without what was there, and those that it got since then without what was left. A
     * read by them fails until the migration is over, also after a crash: all of this is done
     * again.
     */
    private boolean isFound() {
        Set<String> indexes = new HashSet<>();
        for (Index index : cfs.indexManager.listIndexes())
            indexes.add(index.getIndexMetadata().name);
        if (!built && (!indexes.isEmpty() || cfs.viewManager.hasViews())) {
            state("building indexes and views");
            // Cassandra builds it at first, or does not know yet which part of a view is its own.
            if (indexes.stream().anyMatch(cfs.indexManager::isIndexBuilding)
                    || !StorageService.instance.isJoined()) return false;
            if (!indexes.isEmpty()) cfs.indexManager.rebuildIndexesBlocking(indexes);
            cfs.viewManager.stopBuild();
            for (View view : cfs.viewManager) {
                SystemKeyspace.setViewRemoved(cfs.getKeyspaceName(), view.name);
                view.build();
            }
        }
        built = true;
        for (View view : cfs.viewManager)
            if (!SystemKeyspace.isViewBuilt(cfs.getKeyspaceName(), view.name)) return false;
        return true;
    }

    /** Writes the next SSTable. True if there is nothing left. */
    private boolean write(TableStore store) {
        state("writing SSTables");
        try (UnfilteredPartitionIterator rest =
                store.scan(rest(), ColumnFilter.all(cfs.metadata()))) {
            SSTableExport.Step step =
                    SSTableExport.writeNext(
                            cfs,
                            rest,
                            cfs.getDirectories()
                                    .getWriteableLocationAsFile(
                                            Math.min(bytesLeft(), 2 * SSTableExport.SSTABLE_BYTES)),
                            partitionsOfAnSSTable(),
                            this::moved,
                            this::isHalted);
            if (step == null) return false;
            DecoratedKey last = step.last();
            if (last == null) return true;
            // Live before it is noted: the other way round a crash would lose it.
            if (stores.stepOf(number, () -> add(step.sstables())))
                stores.movedUpTo(number, last.getKey());
            else step.sstables().forEach(MigrateOut::delete);
            return false;
        }
    }

    private void add(Collection<SSTableReader> sstables) {
        try {
            cfs.addSSTables(sstables);
        } catch (RuntimeException e) {
            // They are live before their indexes are built; written again they would be there
            // twice.
            if (!cfs.getLiveSSTables().containsAll(sstables)) throw e;
            logger.warn(
                    "What was migrated out of {} could not be indexed; it will be before the"
                            + " migration ends",
                    stores.displayName(),
                    e);
        }
    }

    /** Of a table that was dropped meanwhile, or altered back and all in its store. */
    private static void delete(SSTableReader sstable) {
        sstable.selfRef().release();
        sstable.descriptor.getFormat().delete(sstable.descriptor);
    }

    private DataRange rest() {
        ByteBuffer after = stores.movedUpTo();
        if (after == null) return DataRange.allData(cfs.getPartitioner());
        PartitionPosition end = cfs.getPartitioner().getMinimumToken().minKeyBound();
        return DataRange.forKeyRange(new Range<>(cfs.decorateKey(after), end));
    }

    /** About how many partitions an SSTable gets; its bloom filter is as large as that. */
    private long partitionsOfAnSSTable() {
        long bytes = memtable.generation().statistic(StoreStatistics::liveDataBytes);
        double part =
                bytes <= SSTableExport.SSTABLE_BYTES
                        ? 1
                        : (double) SSTableExport.SSTABLE_BYTES / bytes;
        return 1 + (long) (memtable.partitionCount() * part);
    }

    private boolean finish() {
        if (!TableLifecycle.departed(cfs, stores, number)) return false;
        forget();
        // Reads that have the memtable end first.
        OpOrder.Barrier readers = cfs.readOrdering.newBarrier();
        readers.issue();
        readers.await();
        memtable.generation().discard();
        TableLifecycle.deleteIfGone(cfs, stores);
        state("all data is in SSTables");
        return true;
    }

    private void forget() {
        cfs.getTracker().replaceFlushed(memtable, List.of());
    }
}
