// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * Knows the {@link TableGenerations} of each table that has data in an engine. Thread-safe: its
 * lock is also that under which tables come, go and begin to migrate, by {@link #exclusively}.
 */
public final class TableRegistry {
    /** Index tables share their base's id, so the name belongs to it. */
    private record Key(TableId id, String columnFamily) {}

    private record Entry(ColumnFamilyStore owner, TableGenerations stores, DiskSpace space) {}

    private static final Map<Key, Entry> tables = new ConcurrentHashMap<>();
    private static final Map<String, TableGenerations> names = new ConcurrentHashMap<>();

    private TableRegistry() {}

    /** Does something while no table comes, goes or begins to migrate; find() waits as well. */
    public static synchronized <T extends @Nullable Object> T exclusively(Supplier<T> action) {
        return action.get();
    }

    /** Whether DROP has begun: it takes the table out of its keyspace first. */
    public static boolean isBeingDropped(ColumnFamilyStore cfs) {
        return !cfs.keyspace.hasColumnFamilyStore(cfs.metadata.id);
    }

    /** Forgets a table that was dropped. */
    public static synchronized void remove(ColumnFamilyStore cfs) {
        Entry entry = tables.get(key(cfs));
        if (entry == null || entry.owner() != cfs) return;
        tables.remove(key(cfs));
        names.remove(entry.stores().displayName(), entry.stores());
        entry.space().end();
    }

    /** Adds a table. */
    public static synchronized void put(ColumnFamilyStore cfs, TableGenerations stores) {
        tables.put(key(cfs), new Entry(cfs, stores, new DiskSpace(cfs)));
        names.put(stores.displayName(), stores);
    }

    /** Closes what a table object left open that is not the table's any more. */
    public static synchronized void closeFormer(ColumnFamilyStore cfs) {
        Entry entry = tables.get(key(cfs));
        if (entry == null || entry.owner() == cfs) return;
        entry.stores().close();
        entry.space().end();
    }

    /** Whether a table of this ID and name has data in an engine. */
    public static synchronized boolean contains(ColumnFamilyStore cfs) {
        return tables.containsKey(key(cfs));
    }

    /** The same by any of its schemas, also a former one. Never blocks. */
    public static boolean contains(TableMetadata table) {
        return tables.containsKey(new Key(table.id, table.name));
    }

    /** Whether no table is in an engine. */
    public static synchronized boolean isEmpty() {
        return tables.isEmpty();
    }

    /** The tables there are now, by column family name. Never blocks. */
    public static void forEach(BiConsumer<String, TableGenerations> use) {
        tables.forEach((key, entry) -> use.accept(key.columnFamily(), entry.stores()));
    }

    /**
     * The tables there are now. Never blocks: whoever frees memory for memtables asks, and must not
     * wait for the disk of one table.
     */
    public static void forEachOwner(Consumer<ColumnFamilyStore> use) {
        tables.values().forEach(entry -> use.accept(entry.owner()));
    }

    /** Tells Cassandra's metrics how large the tables are now. */
    public static void countDiskSpace() {
        tables.values().forEach(TableRegistry::count);
    }

    /**
     * The same for one table.
     *
     * @param name as {@link TableGenerations#displayName}
     */
    public static void countDiskSpace(String name) {
        tables.values().stream()
                .filter(one -> one.stores().displayName().equals(name))
                .findAny()
                .ifPresent(TableRegistry::count);
    }

    private static void count(Entry entry) {
        Generation current = entry.stores().current();
        // One that is shut would be waited for, and the tables behind it with it; what was counted
        // stays.
        long bytes = current.measure(store -> store.statistics().diskBytes(), -1L);
        if (bytes >= 0) entry.space().count(bytes);
        else if (!current.hasStore()) entry.space().count(0);
    }

    private static Key key(ColumnFamilyStore cfs) {
        return new Key(cfs.metadata.id, cfs.name);
    }

    /** The stores of a table, by keyspace.columnfamily, or null if it has none. Never blocks. */
    public static @Nullable TableGenerations find(String name) {
        return names.get(name);
    }

    /** The stores of a table, or null if it has none. */
    public static synchronized @Nullable TableGenerations find(ColumnFamilyStore cfs) {
        Entry entry = tables.get(key(cfs));
        return entry == null || entry.owner() != cfs ? null : entry.stores();
    }

    /** The directories of a table, one per data directory of the node. */
    public static List<Path> directories(ColumnFamilyStore cfs) {
        return cfs.getDirectories().getCFDirectories().stream().map(File::toPath).toList();
    }
}
