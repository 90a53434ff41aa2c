// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import dev.petra.cassandra.index.Compactions;
import dev.petra.cassandra.index.LegacyHits;
import dev.petra.cassandra.index.StoreIndexBuilder;
import dev.petra.cassandra.index.StoreIndexes;
import dev.petra.cassandra.index.StoreMemtableIndex;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.IndexSupport;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.SecondaryIndexBuilder;
import org.apache.cassandra.index.internal.CassandraIndex;
import org.apache.cassandra.index.sai.StorageAttachedIndex;
import org.apache.cassandra.index.sai.memory.MemtableIndex;
import org.apache.cassandra.service.StorageService;
import org.jspecify.annotations.Nullable;

/** Join points of Storage-Attached Indexes, and of Cassandra's legacy indexes. */
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
        if (EngineMemtables.any(cfs) == null) return stock;
        Callable<?> ofSSTables =
                () -> {
                    Compactions.without(
                            cfs, () -> index.isIndexValid().getAsBoolean() && cfs.isValid(), stock);
                    return null;
                };
        if (EngineMemtables.current(cfs) == null) return ofSSTables;
        // Else some write may have been under way that does not know it.
        if (StorageService.instance.isStarting() && StoreIndexes.isBuiltForGood(index))
            return ofSSTables;
        if (cfs.indexManager.isIndexQueryable(index))
            cfs.indexManager.makeIndexNonQueryable(index, Index.Status.FULL_REBUILD_STARTED);
        return withStore(cfs, index, ofSSTables);
    }

    private static Callable<?> withStore(
            ColumnFamilyStore cfs, Index index, @Nullable Callable<?> stock) {
        return () -> {
            if (stock != null) stock.call();
            StoreIndexBuilder.complete(cfs, List.of(index));
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
                index.baseCfs().indexManager.isIndexQueryable(index)
                                || StoreIndexes.isBuiltForGood(index)
                        ? stock.call()
                        : null;
    }

    /**
     * What builds indexes of a table, of one kind. The entries of Storage-Attached Indexes are
     * dropped first; those of legacy indexes are added to.
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
        List<Index> ours = new ArrayList<>();
        for (Index index : indexes) if (IndexSupport.isKept(index)) ours.add(index);
        if (ours.isEmpty()) return stock;
        boolean anew = ours.get(0) instanceof StorageAttachedIndex;
        return new StoreIndexBuilder(cfs, ours, anew, stock);
    }

    // Cassandra's legacy indexes

    /**
     * The memtable whose store a query by a legacy index asks besides the hidden table, or null;
     * called before the hidden table is read.
     */
    public static @Nullable EngineMemtable searched(CassandraIndex index) {
        return IndexSupport.isKept(index) ? LegacyHits.memtable(index.baseCfs) : null;
    }

    /**
     * What a query by a legacy index finds.
     *
     * @param memtable of {@link #searched}
     * @param value that is looked for
     * @param hidden what the hidden table has; closed with the result, or if this fails
     */
    public static UnfilteredRowIterator hits(
            CassandraIndex index,
            @Nullable EngineMemtable memtable,
            DecoratedKey value,
            ReadCommand command,
            UnfilteredRowIterator hidden) {
        return memtable == null ? hidden : LegacyHits.add(index, memtable, value, command, hidden);
    }

    /**
     * Whether an entry that a query found to be stale is to stay. In a store a sweep removes it. In
     * the hidden table it would hide nothing that is in the store.
     */
    public static boolean keepsStaleEntry(CassandraIndex index) {
        return IndexSupport.isKept(index) && EngineMemtables.any(index.baseCfs) != null;
    }

    /**
     * Closes what was read of a partition that a query found by a stale entry of a static column.
     * Cassandra passes on an iterator without rows in its place, and forgets it. The store, or the
     * SSTables, would stay open.
     *
     * @param rows that were read
     * @param filtered what is passed on; null if that could not be made
     */
    public static void afterStaleEntries(
            CassandraIndex index,
            UnfilteredRowIterator rows,
            @Nullable UnfilteredRowIterator filtered) {
        // Of other columns, what is passed on closes what was read.
        if (index.getIndexedColumn().isStatic() && filtered != rows) rows.close();
    }

    /**
     * What makes a legacy index complete that was created, or that the node finds when it starts.
     *
     * @param stock does so with SSTables; null if that is done, or the table is empty
     */
    public static @Nullable Callable<?> initializationTask(
            CassandraIndex index, @Nullable Callable<?> stock) {
        ColumnFamilyStore cfs = index.baseCfs;
        if (!IndexSupport.isKept(index) || EngineMemtables.current(cfs) == null) return stock;
        // Else some write may have been under way that does not know it.
        if (StorageService.instance.isStarting() && StoreIndexes.isBuiltForGood(index))
            return stock;
        return withStore(cfs, index, stock);
    }
}
