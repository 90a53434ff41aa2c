// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import dev.petra.cassandra.index.StoreIndexBuilder;
import dev.petra.cassandra.index.StoreIndexes;
import dev.petra.cassandra.index.StoreMemtableIndex;
import dev.petra.cassandra.table.EngineMemtables;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.SecondaryIndexBuilder;
import org.apache.cassandra.index.sai.StorageAttachedIndex;
import org.apache.cassandra.index.sai.memory.MemtableIndex;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;

/** Join points of Storage-Attached Indexes. */
public final class IndexHooks {
    private IndexHooks() {}

    /**
     * The indexes of memtables that a query searches.
     *
     * @param stock of memtables of Cassandra's
     */
    public static Collection<MemtableIndex> memtableIndexes(
            StorageAttachedIndex index, Collection<MemtableIndex> stock) {
        return StoreMemtableIndex.all(index, stock);
    }

    /**
     * What makes an index complete that was created, or that the node finds when it starts.
     *
     * @param stock does so with SSTables, and may have found that they lack nothing
     */
    public static Callable<?> initializationTask(StorageAttachedIndex index, Callable<?> stock) {
        ColumnFamilyStore cfs = index.baseCfs();
        if (EngineMemtables.current(cfs) == null) return stock;
        // Else some write may have been under way that does not know it.
        if (StorageService.instance.isStarting() && StoreIndexes.isBuilt(index)) return stock;
        if (cfs.indexManager.isIndexQueryable(index))
            cfs.indexManager.makeIndexNonQueryable(index, Index.Status.FULL_REBUILD_STARTED);
        return () -> {
            stock.call();
            FBUtilities.waitOnFuture(
                    CompactionManager.instance.submitIndexBuild(
                            new StoreIndexBuilder(cfs, List.of(index), false, null)));
            return null;
        };
    }

    /**
     * What makes an index queryable before the node joins, if it is complete.
     *
     * @param stock does so if no SSTable lacks it
     */
    public static Callable<?> preJoinTask(StorageAttachedIndex index, Callable<?> stock) {
        return () ->
                index.baseCfs().indexManager.isIndexQueryable(index) || StoreIndexes.isBuilt(index)
                        ? stock.call()
                        : null;
    }

    /**
     * What builds indexes of a table.
     *
     * @param isFullRebuild else some SSTables are to be indexed alone
     * @param stock does so with SSTables
     */
    public static SecondaryIndexBuilder buildTask(
            ColumnFamilyStore cfs,
            Set<Index> indexes,
            boolean isFullRebuild,
            SecondaryIndexBuilder stock) {
        if (!isFullRebuild || EngineMemtables.current(cfs) == null) return stock;
        List<StorageAttachedIndex> ours = new ArrayList<>();
        for (Index index : indexes) if (index instanceof StorageAttachedIndex sai) ours.add(sai);
        return new StoreIndexBuilder(cfs, ours, true, stock);
    }
}
