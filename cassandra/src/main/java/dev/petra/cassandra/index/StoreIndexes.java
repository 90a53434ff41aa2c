// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import com.google.common.collect.MapMaker;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.IndexSupport;
import dev.petra.engine.TableStore;
import dev.petra.engine.index.DamagedIndexException;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermFunction;
import dev.petra.engine.index.TermIndexes;
import dev.petra.engine.index.TermIndexes.State;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.LongConsumer;
import java.util.stream.Collectors;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.IndexNotAvailableException;
import org.apache.cassandra.index.sai.StorageAttachedIndex;
import org.apache.cassandra.index.sai.StorageAttachedIndexGroup;
import org.apache.cassandra.index.sai.disk.format.IndexDescriptor;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.notifications.SSTableListChangedNotification;
import org.apache.cassandra.schema.IndexMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The indexes of a table in its store: defines and drops them there, and writes their entries.
 * Thread-safe.
 *
 * <h2>Why no write is missed</h2>
 *
 * <p>Cassandra registers an index before it is built, and {@link StoreIndexBuilder} defines it in
 * the store. A write that begins after the definition writes entries. The builder waits for the
 * writes that began before it, and reads the rows that these wrote. A new store, of an empty table
 * or after TRUNCATE, gets the definitions before its first write. A write that finds an index in
 * the store which Cassandra has not registered writes no entries for it, and so first sets that
 * index to {@link State#BUILDING}.
 */
public final class StoreIndexes {
    private static final Logger logger = LoggerFactory.getLogger(StoreIndexes.class);

    private static final Map<IndexMetadata, UUID> ids = new MapMaker().weakKeys().makeMap();

    /** A lock of each store, for those who drop its indexes, and those who build them. */
    private static final Map<TableStore, Object> definitions = new MapMaker().weakKeys().makeMap();

    private StoreIndexes() {}

    /** Returns the indexes that a store can keep and Cassandra has registered for a table. */
    static List<Index> of(ColumnFamilyStore cfs) {
        if (!cfs.indexManager.hasIndexes()) return List.of();
        return cfs.indexManager.listIndexes().stream().filter(IndexSupport::isKept).toList();
    }

    /**
     * Returns the id of an index in the store: a hash of its name, kind and options. Cassandra's
     * own id is a hash of the name alone. With that, a node that was down for DROP INDEX and CREATE
     * INDEX of the same name would use the entries of the dropped index for the new one.
     */
    static UUID id(IndexMetadata index) {
        return ids.computeIfAbsent(index, StoreIndexes::hash);
    }

    private static UUID hash(IndexMetadata index) {
        return UUID.nameUUIDFromBytes(
                (index.name + '\n' + index.kind + '\n' + new TreeMap<>(index.options))
                        .getBytes(StandardCharsets.UTF_8));
    }

    static UUID id(Index index) {
        return id(index.getIndexMetadata());
    }

    /**
     * Writes an update and the index entries of its rows atomically. To be called in a group of
     * {@code Keyspace.writeOrder}: an index that is not defined yet gets no entries, and the
     * builder that defines it waits for that group and reads the rows.
     */
    public static void write(ColumnFamilyStore cfs, TableStore store, PartitionUpdate update) {
        if (!store.hasIndexes() || store.indexes().states().isEmpty()) {
            store.write(update);
            return;
        }
        List<Index> indexes = defined(cfs, store);
        List<TermEntry> entries = new ArrayList<>();
        DecoratedKey key = update.partitionKey();
        if (!update.staticRow().isEmpty()) derive(indexes, key, update.staticRow(), entries);
        for (Row row : update) derive(indexes, key, row, entries);
        if (entries.isEmpty()) {
            store.write(update);
        } else {
            store.write(update, entries);
            IndexSweeps.written(store, entries.size());
        }
    }

    /**
     * Tells a store how to derive the index entries of rows that a stream brings: as {@link #write}
     * does. To be called before each stream, because a store that was opened anew does not know it.
     * An index that Cassandra has dropped gets no entries, and so is dropped from the store: if it
     * is created again, the stream has to know it for another one. The stream fails where that
     * does.
     */
    public static void deriveBy(ColumnFamilyStore cfs, TableStore store) {
        if (!store.hasIndexes()) return;
        store.indexes()
                .deriveBy(
                        new TermFunction() {
                            @Override
                            public List<TermEntry> entries(DecoratedKey key, Row row) {
                                List<TermEntry> entries = new ArrayList<>();
                                derive(definedWithoutFormer(cfs, store), key, row, entries);
                                if (!entries.isEmpty()) IndexSweeps.written(store, entries.size());
                                return entries;
                            }

                            @Override
                            public ColumnFilter columns(TableMetadata table) {
                                return RowTerms.columns(
                                        table,
                                        definedWithoutFormer(cfs, store).stream()
                                                .map(IndexTerms::column)
                                                .toList());
                            }
                        });
    }

    /**
     * Returns the indexes of a table that are defined in its store. Sets those that are defined in
     * the store alone to {@link State#BUILDING}, because the caller writes no entries for them.
     */
    private static List<Index> defined(ColumnFamilyStore cfs, TableStore store) {
        // Before the registered ones are read: an index is registered before it is defined.
        Set<UUID> former = new HashSet<>(store.indexes().states().keySet());
        List<Index> indexes = takeRegistered(cfs, former);
        for (UUID id : former) lacksRows(cfs, store, id);
        return indexes;
    }

    private static List<Index> takeRegistered(ColumnFamilyStore cfs, Set<UUID> ids) {
        List<Index> indexes = new ArrayList<>();
        for (Index index : of(cfs)) if (ids.remove(id(index))) indexes.add(index);
        return indexes;
    }

    /** The same, after those that are defined in the store alone were dropped from it. */
    private static List<Index> definedWithoutFormer(ColumnFamilyStore cfs, TableStore store) {
        while (true) {
            Set<UUID> former = new HashSet<>(store.indexes().states().keySet());
            List<Index> indexes = takeRegistered(cfs, former);
            if (former.isEmpty()) return indexes;
            removeFormer(cfs, store);
        }
    }

    /**
     * Sets an index that Cassandra has dropped to {@link State#BUILDING}, unless the store has
     * dropped it too. Otherwise the store would call it complete if it is created again and the
     * node ends before its build begins. A build from before the drop can then not complete it
     * either. If it is created again by now, its own build finds the rows; it may even be complete.
     */
    private static void lacksRows(ColumnFamilyStore cfs, TableStore store, UUID id) {
        synchronized (definitions(store)) {
            if (of(cfs).stream().anyMatch(index -> id(index).equals(id))) return;
            try {
                long unused = store.indexes().setBuilding(id);
            } catch (IllegalArgumentException e) {
                logger.debug(
                        "Index {} has just been dropped from {}", id, store.spec().displayName());
            }
        }
    }

    /** Adds the entries of a row, or of what one update has of it. */
    static void derive(List<Index> indexes, DecoratedKey key, Row row, List<TermEntry> entries) {
        if (!RowTerms.hasLiveData(row)) return;
        for (Index index : indexes) {
            UUID id = id(index);
            Clustering<?> clustering = row.clustering();
            IndexTerms.derive(
                    index,
                    key,
                    row,
                    false,
                    term -> entries.add(new TermEntry(id, term, clustering)));
        }
    }

    /**
     * Defines the indexes in a new store, to which nobody has written yet. They are complete there
     * at once: each write to the store comes after this and so writes their entries.
     */
    public static void defineIn(ColumnFamilyStore cfs, TableStore store) {
        for (Index index : of(cfs)) {
            store.indexes().define(id(index));
            // Succeeds: nobody else has the store yet.
            store.indexes().setBuilt(id(index), store.indexes().setBuilding(id(index)));
        }
    }

    private static Object definitions(TableStore store) {
        return definitions.computeIfAbsent(store, of -> new Object());
    }

    /**
     * Defines an index in a store, unless Cassandra has dropped it. Where that happened before the
     * definition, {@link #dropFormer} found nothing to drop then, and so is called once more.
     */
    static void define(Index index, TableStore store) {
        store.indexes().define(id(index));
        if (!isRegistered(index)) dropFormer(IndexTerms.table(index));
    }

    /**
     * Drops an index from a store before it is rebuilt, unless Cassandra has dropped it: an index
     * that was created again in its place has the same id.
     */
    static void drop(Index index, TableStore store) {
        synchronized (definitions(store)) {
            if (isRegistered(index)) store.indexes().drop(id(index));
        }
    }

    /**
     * {@link TermIndexes#setBuilding}, unless Cassandra has dropped the index: one that was created
     * again in its place has the same id, and may be complete. Until this returns, no build of that
     * one begins a round.
     *
     * @param begun is told the number of the round before another round can begin
     * @return the number; 0 if Cassandra has dropped the index
     */
    static long setBuilding(Index index, TableStore store, LongConsumer begun) {
        synchronized (definitions(store)) {
            if (!isRegistered(index)) return 0;
            long round = store.indexes().setBuilding(id(index));
            begun.accept(round);
            return round;
        }
    }

    /**
     * {@link TermIndexes#setBuilt}, but not while others find out that an index of this id was
     * dropped by Cassandra, and drop it from the store: the index that was created again in its
     * place would be complete and then be gone.
     */
    static boolean setBuilt(Index index, TableStore store, long build) {
        synchronized (definitions(store)) {
            return store.indexes().setBuilt(id(index), build);
        }
    }

    @SuppressWarnings("ReferenceEquality") // one that was created again is equal
    private static boolean isRegistered(Index index) {
        return of(IndexTerms.table(index)).stream().anyMatch(each -> each == index);
    }

    /**
     * Drops the indexes from a table's store that Cassandra has dropped. Logs a failure and throws
     * nothing, because an exception would leave a schema change half applied; {@link IndexSweeps}
     * tries again.
     */
    public static void dropFormer(ColumnFamilyStore cfs) {
        try {
            dropFormerFromStore(cfs);
        } catch (RuntimeException | FSError e) {
            logger.error(
                    "Dropped indexes of {} could not be removed from its store. No query uses"
                            + " them; their removal is tried again every minute",
                    cfs,
                    e);
        }
    }

    /** Tries again what {@link #dropFormer} could not do. Cheap where there is nothing to drop. */
    static void dropFormerThatAreLeft(ColumnFamilyStore cfs) {
        TableStore store = storeWithIndexes(cfs);
        if (store != null && !former(cfs, store).isEmpty()) dropFormer(cfs);
    }

    /**
     * Removes what a drop that failed half-way has left in a table's store: it knows no such index
     * any more. Cheap where there is nothing.
     */
    static void removeLeft(ColumnFamilyStore cfs) {
        TableStore store = storeWithIndexes(cfs);
        if (store != null) store.indexes().removeLeft();
    }

    private static @Nullable TableStore storeWithIndexes(ColumnFamilyStore cfs) {
        EngineMemtable memtable = EngineMemtables.current(cfs);
        if (memtable == null || memtable.generation().failure() != null) return null;
        TableStore store = memtable.generation().existing();
        return store != null && store.hasIndexes() ? store : null;
    }

    /** Returns the indexes that are defined in a store, and that Cassandra has dropped. */
    private static Set<UUID> former(ColumnFamilyStore cfs, TableStore store) {
        // Before the registered ones are read: an index is registered before it is defined.
        Set<UUID> former = new HashSet<>(store.indexes().states().keySet());
        for (Index index : of(cfs)) former.remove(id(index));
        return former;
    }

    private static void dropFormerFromStore(ColumnFamilyStore cfs) {
        TableStore store = storeWithIndexes(cfs);
        if (store != null) removeFormer(cfs, store);
    }

    private static void removeFormer(ColumnFamilyStore cfs, TableStore store) {
        synchronized (definitions(store)) {
            for (UUID id : former(cfs, store)) {
                logger.info("Dropping the entries of a former index of {}: {}", cfs.metadata(), id);
                store.indexes().drop(id);
            }
        }
    }

    /**
     * Whether an index has the entries of all rows in the store of its table. True if the table has
     * no store, and so no rows in one.
     */
    public static boolean isBuilt(Index index) {
        EngineMemtable memtable = EngineMemtables.current(IndexTerms.table(index));
        if (memtable == null) return true;
        if (memtable.generation().failure() != null) return false;
        TableStore store = memtable.generation().existing();
        return store == null || isBuilt(index, store);
    }

    /**
     * The same for whoever takes an index for complete from now on, once it is registered. A store
     * that is being made now may have been given the table's indexes before this one was among
     * them, so it is waited for; one that is made later has it. Blocks on disk; the locks of an
     * index manager may be held, which nobody who makes a store waits for.
     */
    public static boolean isBuiltForGood(Index index) {
        EngineMemtable memtable = EngineMemtables.current(IndexTerms.table(index));
        // The failure is told to whoever uses the table.
        if (memtable != null && memtable.generation().failure() == null) {
            var unused = memtable.generation().existingOrCreated();
        }
        return isBuilt(index);
    }

    static boolean isBuilt(Index index, TableStore store) {
        return store.indexes().states().get(id(index)) == State.BUILT;
    }

    /** Whether Cassandra builds an index that lacks rows of the store. */
    public static boolean isBuildUnderWay(ColumnFamilyStore cfs) {
        return of(cfs).stream()
                .anyMatch(
                        index ->
                                !isBuilt(index)
                                        && cfs.indexManager.isIndexBuilding(
                                                IndexTerms.name(index)));
    }

    /**
     * Returns the indexes that lack rows of the store and are not being built. An index is in this
     * state if it was created while the table migrated out of the engine, and the migration was
     * reversed.
     */
    public static List<Index> unbuilt(ColumnFamilyStore cfs) {
        return of(cfs).stream()
                // In this order: a build that ends in between has completed the index.
                .filter(index -> !cfs.indexManager.isIndexBuilding(IndexTerms.name(index)))
                .filter(index -> !isBuilt(index))
                .toList();
    }

    /**
     * Adds what such indexes lack. Blocks until that is done. Nothing is left out that is in
     * SSTables: a migration out of the engine that was reversed has deleted nothing from the store,
     * and the rest has its entries with the SSTables. Queries fail on this node meanwhile; other
     * nodes are told, and of a Storage-Attached Index do not ask this one. Logs a failure, and how
     * to repeat it.
     */
    public static void complete(ColumnFamilyStore cfs, List<Index> indexes) {
        List<Index> usable = indexes.stream().filter(cfs.indexManager::isIndexQueryable).toList();
        usable.forEach(
                index ->
                        cfs.indexManager.makeIndexNonQueryable(
                                index, Index.Status.FULL_REBUILD_STARTED));
        try {
            StoreIndexBuilder.complete(cfs, indexes);
        } catch (RuntimeException e) {
            logger.error(
                    "The build of indexes of {} from its store failed, and queries by them fail:"
                            + " {}. Run nodetool rebuild_index for each, or restart the node",
                    cfs.metadata(),
                    indexes.stream().map(IndexTerms::name).toList(),
                    e);
        }
        for (Index index : usable)
            if (isBuilt(index))
                cfs.indexManager.makeIndexQueryable(index, Index.Status.BUILD_SUCCEEDED);
            else cfs.indexManager.makeIndexNonQueryable(index, Index.Status.BUILD_FAILED);
    }

    /**
     * Lets queries use indexes that Cassandra took out of use, as it does where the index of an
     * SSTable cannot be opened, if they have all rows of the store. To be called when all rows of
     * the table are there.
     */
    public static void reviveBuilt(ColumnFamilyStore cfs) {
        // Altered out again; then all of them count as built.
        if (EngineMemtables.current(cfs) == null) return;
        List<Index> revived = new ArrayList<>();
        for (Index index : of(cfs)) {
            if (cfs.indexManager.isIndexQueryable(index)) continue;
            // In this order: a build that ends in between has completed the index.
            if (cfs.indexManager.isIndexBuilding(IndexTerms.name(index)) || !isBuilt(index))
                continue;
            if (!cfs.getLiveSSTables().isEmpty()) break;
            cfs.indexManager.makeIndexQueryable(index, Index.Status.BUILD_SUCCEEDED);
            revived.add(index);
        }
        // An SSTable may have come meanwhile, by an import or a stream, whose index cannot be
        // opened either. Its own migration calls this again.
        if (passedOver(cfs).isEmpty()) return;
        for (Index index : revived)
            cfs.indexManager.makeIndexNonQueryable(index, Index.Status.BUILD_FAILED);
    }

    /**
     * Makes an index not queryable until it is rebuilt, so that no query finds it empty, and with
     * it all that the store has lost.
     */
    static IndexNotAvailableException damaged(
            Index index, ColumnFamilyStore cfs, DamagedIndexException e) {
        logger.debug("A query by index {} of {} meets damage", IndexTerms.name(index), cfs, e);
        markLost(index, cfs);
        IndexSweeps.markLostSoon(cfs);
        return new IndexNotAvailableException(index);
    }

    /**
     * Makes all indexes of a table not queryable whose entries its store has lost, until they are
     * rebuilt: other nodes are told, and ask this one no more. Not those that the store never had,
     * such as one that was created while the table was out of the engine. Does nothing for a table
     * on its way out of the engine: its store takes no index any more, and indexes are complete
     * when it has left. Cheap where none is lost.
     *
     * <p>Never by a query, which calls {@link IndexSweeps#markLostSoon}: this waits for DROP INDEX,
     * which waits for queries.
     */
    static void markLost(ColumnFamilyStore cfs) {
        TableStore store = storeWithIndexes(cfs);
        if (store == null) return;
        Set<UUID> lost = store.indexes().lost();
        if (lost.isEmpty()) return;
        for (Index index : of(cfs))
            // A build that is under way defines it, or fails and says so. One that has just ended
            // has
            // defined it, so that is asked last.
            if (cfs.indexManager.isIndexQueryable(index)
                    && !cfs.indexManager.isIndexBuilding(IndexTerms.name(index))
                    && lost.contains(id(index))) markLost(index, cfs);
    }

    private static void markLost(Index index, ColumnFamilyStore cfs) {
        String name = IndexTerms.name(index);
        logger.error(
                "Index {} of {} is damaged and cannot be queried; the rows of the table are not"
                        + " damaged. Run nodetool rebuild_index {} {} {}, or restart the node",
                name,
                cfs.metadata(),
                cfs.getKeyspaceName(),
                cfs.getTableName(),
                name);
        cfs.indexManager.makeIndexNonQueryable(index, Index.Status.BUILD_FAILED);
    }

    /**
     * Returns the live SSTables that queries by some index do not read, because SAI has not opened
     * their indexes. Right after a flush or a compaction an SSTable is among them for a moment.
     */
    public static Set<SSTableReader> passedOver(ColumnFamilyStore cfs) {
        List<StorageAttachedIndex> indexes = queryable(cfs);
        return cfs.getLiveSSTables().stream()
                .filter(
                        sstable ->
                                !indexes.stream()
                                        .allMatch(index -> index.view().containsSSTable(sstable)))
                .collect(Collectors.toSet());
    }

    /**
     * Returns the names of the Storage-Attached Indexes that queries may not use. Empty while any
     * of the table is being built.
     */
    public static Set<String> unusable(ColumnFamilyStore cfs) {
        List<StorageAttachedIndex> attached = attached(cfs);
        // In this order: a build that ends in between has made its index usable, or never will.
        if (attached.stream().map(IndexTerms::name).anyMatch(cfs.indexManager::isIndexBuilding))
            return new HashSet<>();
        return attached.stream()
                .filter(index -> !cfs.indexManager.isIndexQueryable(index))
                .map(IndexTerms::name)
                .collect(Collectors.toCollection(HashSet::new));
    }

    /**
     * Has SAI open the indexes of live SSTables, whose files nobody writes or deletes meanwhile.
     * Idempotent.
     */
    public static void open(ColumnFamilyStore cfs, Collection<SSTableReader> sstables) {
        StorageAttachedIndexGroup group = StorageAttachedIndexGroup.getIndexGroup(cfs);
        if (group == null) return;
        group.handleNotification(
                new SSTableListChangedNotification(sstables, List.of(), OperationType.INDEX_BUILD),
                cfs.getTracker());
    }

    /** Returns the SSTables that lack the files of some index, which has to be built. */
    public static Set<SSTableReader> withoutIndex(
            ColumnFamilyStore cfs, Collection<SSTableReader> sstables) {
        List<StorageAttachedIndex> indexes = queryable(cfs);
        return sstables.stream()
                .filter(sstable -> !hasIndexes(sstable, indexes))
                .collect(Collectors.toSet());
    }

    private static boolean hasIndexes(SSTableReader sstable, List<StorageAttachedIndex> indexes) {
        IndexDescriptor files = IndexDescriptor.create(sstable);
        return files.isPerSSTableIndexBuildComplete()
                && indexes.stream()
                        .allMatch(index -> files.isPerColumnIndexBuildComplete(index.identifier()));
    }

    private static List<StorageAttachedIndex> queryable(ColumnFamilyStore cfs) {
        return attached(cfs).stream().filter(cfs.indexManager::isIndexQueryable).toList();
    }

    private static List<StorageAttachedIndex> attached(ColumnFamilyStore cfs) {
        return of(cfs).stream()
                .filter(StorageAttachedIndex.class::isInstance)
                .map(StorageAttachedIndex.class::cast)
                .toList();
    }
}
