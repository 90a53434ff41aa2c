// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import com.google.common.collect.MapMaker;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.engine.TableStore;
import dev.petra.engine.index.TermEntry;
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
import java.util.stream.Collectors;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.sai.StorageAttachedIndex;
import org.apache.cassandra.index.sai.StorageAttachedIndexGroup;
import org.apache.cassandra.index.sai.disk.format.IndexDescriptor;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.schema.IndexMetadata;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The indexes of a table as they are in its store: their definitions, and the entries of what is
 * written. Thread-safe.
 *
 * <h2>Why no write is missed</h2>
 *
 * <p>Cassandra registers an index before it is built, and {@link StoreIndexBuilder} defines it in
 * the store. A write that begins after that gives its entries; the builder waits for those that
 * began before, and reads what they wrote. A new store, of an empty table or after TRUNCATE, gets
 * the definitions before its first write. A write that does not know an index which the store takes
 * for complete tells the store first that it is not.
 */
public final class StoreIndexes {
    private static final Logger logger = LoggerFactory.getLogger(StoreIndexes.class);

    private static final Map<IndexMetadata, UUID> ids = new MapMaker().weakKeys().makeMap();

    private StoreIndexes() {}

    /** Those that Cassandra has registered for a table, and so for its writes. */
    static List<StorageAttachedIndex> of(ColumnFamilyStore cfs) {
        if (!cfs.indexManager.hasIndexes()) return List.of();
        StorageAttachedIndexGroup group = StorageAttachedIndexGroup.getIndexGroup(cfs);
        if (group == null) return List.of();
        List<StorageAttachedIndex> all = new ArrayList<>();
        for (Index index : group.getIndexes()) all.add((StorageAttachedIndex) index);
        return all;
    }

    /**
     * By what the store knows an index. Cassandra's own ID is made of the name alone: a node that
     * missed DROP INDEX and CREATE INDEX of the same name would take the entries of the former for
     * those of the latter.
     */
    static UUID id(IndexMetadata index) {
        return ids.computeIfAbsent(index, StoreIndexes::hash);
    }

    private static UUID hash(IndexMetadata index) {
        return UUID.nameUUIDFromBytes(
                (index.name + '\n' + index.kind + '\n' + new TreeMap<>(index.options))
                        .getBytes(StandardCharsets.UTF_8));
    }

    static UUID id(StorageAttachedIndex index) {
        return id(index.getIndexMetadata());
    }

    /**
     * Writes an update and the index entries of its rows, both or neither. To be called in a group
     * of {@code Keyspace.writeOrder}: an index that is not defined yet gets no entries, and whoever
     * defines it waits for this and reads what it wrote.
     */
    public static void write(ColumnFamilyStore cfs, TableStore store, PartitionUpdate update) {
        if (!store.hasIndexes() || store.indexes().states().isEmpty()) {
            store.write(update);
            return;
        }
        List<StorageAttachedIndex> indexes = defined(cfs, store);
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
     * Has a store derive the entries of rows that a stream brings, as {@link #write} does. To be
     * called before each stream: the store forgets it when it is closed.
     */
    public static void deriveBy(ColumnFamilyStore cfs, TableStore store) {
        if (!store.hasIndexes()) return;
        store.indexes()
                .deriveBy(
                        (key, row) -> {
                            List<TermEntry> entries = new ArrayList<>();
                            derive(defined(cfs, store), key, row, entries);
                            if (!entries.isEmpty()) IndexSweeps.written(store, entries.size());
                            return entries;
                        });
    }

    /**
     * Those of a table's indexes that its store has. Others that the store has are not complete
     * from here on, because their entries are not written.
     */
    private static List<StorageAttachedIndex> defined(ColumnFamilyStore cfs, TableStore store) {
        // First: an index is registered before it is defined.
        Set<UUID> former = new HashSet<>(store.indexes().states().keySet());
        List<StorageAttachedIndex> indexes = new ArrayList<>();
        for (StorageAttachedIndex index : of(cfs)) if (former.remove(id(index))) indexes.add(index);
        for (UUID id : former) lacksRows(store, id);
        return indexes;
    }

    /**
     * Of an index that was dropped, in the store or not yet. If it is created again, and the node
     * ends before that has begun to build it, the store must not say that it is complete; nor may a
     * build that still stands from before the drop say so.
     */
    private static void lacksRows(TableStore store, UUID id) {
        try {
            long unused = store.indexes().setBuilding(id);
        } catch (IllegalArgumentException e) {
            logger.debug("Index {} has just been dropped from {}", id, store.spec().displayName());
        }
    }

    /** Adds the entries of a row, or of a part of one. */
    static void derive(
            List<StorageAttachedIndex> indexes,
            DecoratedKey key,
            Row row,
            List<TermEntry> entries) {
        if (!RowTerms.hasLiveData(row)) return;
        for (StorageAttachedIndex index : indexes) {
            UUID id = id(index);
            Clustering<?> clustering = row.clustering();
            RowTerms.derive(
                    index.termType(),
                    index.hasAnalyzer() ? index.analyzer() : null,
                    term -> index.validateTermSize(key, term, false, null),
                    key,
                    row,
                    term -> entries.add(new TermEntry(id, term, clustering)));
        }
    }

    /**
     * Defines the indexes in a store that was just made, and nothing was written to. They are
     * complete there: whoever writes to the store looks for them when it is there already, and so
     * gives their entries.
     */
    public static void defineIn(ColumnFamilyStore cfs, TableStore store) {
        for (StorageAttachedIndex index : of(cfs)) {
            store.indexes().define(id(index));
            // Nobody else knows the store.
            store.indexes().setBuilt(id(index), store.indexes().setBuilding(id(index)));
        }
    }

    /**
     * Drops what is defined in a table's store of indexes that the table has no more. One that
     * cannot be dropped now is dropped at the next start: an exception would leave a schema half
     * applied.
     */
    public static void dropFormer(ColumnFamilyStore cfs) {
        try {
            dropFormerFromStore(cfs);
        } catch (RuntimeException | FSError e) {
            logger.error(
                    "Dropped indexes of {} could not be removed from its store. No query uses"
                            + " them; their removal is tried again when the node is restarted",
                    cfs,
                    e);
        }
    }

    private static void dropFormerFromStore(ColumnFamilyStore cfs) {
        EngineMemtable memtable = EngineMemtables.current(cfs);
        if (memtable == null || memtable.generation().failure() != null) return;
        TableStore store = memtable.generation().existing();
        if (store == null || !store.hasIndexes()) return;
        TermIndexes defined = store.indexes();
        Set<UUID> former = new HashSet<>(defined.states().keySet());
        for (StorageAttachedIndex index : of(cfs)) former.remove(id(index));
        for (UUID id : former) {
            logger.info("Dropping the entries of a former index of {}: {}", cfs, id);
            defined.drop(id);
        }
    }

    /**
     * Whether an index is complete in the store of a table, as far as the store knows. True where
     * there is no store, which then has nothing to be found.
     */
    public static boolean isBuilt(StorageAttachedIndex index) {
        EngineMemtable memtable = EngineMemtables.current(index.baseCfs());
        if (memtable == null) return true;
        if (memtable.generation().failure() != null) return false;
        TableStore store = memtable.generation().existing();
        return store == null || isBuilt(index, store);
    }

    static boolean isBuilt(StorageAttachedIndex index, TableStore store) {
        return store.indexes().states().get(id(index)) == State.BUILT;
    }

    /**
     * The names of those that lack rows of the store, and that nobody builds: the table got them on
     * its way out of the engine, and came back.
     */
    public static Set<String> unbuilt(ColumnFamilyStore cfs) {
        return of(cfs).stream()
                // Asked first: what is not being built then, and is not built, nobody builds.
                .filter(index -> !cfs.indexManager.isIndexBuilding(name(index)))
                .filter(index -> !isBuilt(index))
                .map(StoreIndexes::name)
                .collect(Collectors.toSet());
    }

    private static String name(StorageAttachedIndex index) {
        return index.getIndexMetadata().name;
    }

    /**
     * The SSTables of a table that queries by some index pass over. Right after a flush or a
     * compaction that is so for a moment, until Cassandra has opened their indexes.
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

    /** Those of SSTables that were written without some index: it has to be built. */
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
        return of(cfs).stream().filter(cfs.indexManager::isIndexQueryable).toList();
    }
}
