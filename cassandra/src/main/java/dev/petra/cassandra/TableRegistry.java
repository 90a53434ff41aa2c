// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import dev.petra.engine.StoreStatistics;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.BiConsumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.service.StorageService;

/**
 * Knows the {@link TableStores} of each table, and which generation a new memtable stands for.
 * Thread-safe.
 */
final class TableRegistry {
    /** Index tables share their base's id, so the name belongs to it. */
    private record Key(TableId id, String columnFamily) {}

    private record Entry(ColumnFamilyStore owner, TableStores stores, DiskSpace space) {}

    private static final Map<Key, Entry> tables = new HashMap<>();

    private TableRegistry() {}

    /**
     * The generation for a new memtable of a table: what is on disk for its first one, the next
     * generation for TRUNCATE, an unusable one for DROP.
     *
     * @throws IllegalStateException if the memtable would replace one whose data it does not take
     *     over; nothing has changed then
     */
    static synchronized Generation next(ColumnFamilyStore cfs, EngineKey engine) {
        Key key = key(cfs);
        Entry entry = tables.get(key);
        if (entry == null || entry.owner() != cfs) {
            // A table object that failed half-way through its construction may have left its stores
            // open; the data is whatever they hold, so they must not count as a predecessor.
            if (entry != null) {
                entry.stores().close();
                entry.space().end();
            }
            TableStores stores = open(cfs, engine);
            tables.put(key, new Entry(cfs, stores, new DiskSpace(cfs)));
            return stores.current();
        }
        if (!Truncation.isRunning())
            throw new IllegalStateException(
                    entry.stores().displayName()
                            + " keeps its data in storage engine '"
                            + engine.engine()
                            + "': its memtable cannot be flushed to SSTables or replaced, except by"
                            + " TRUNCATE and DROP.");
        return isBeingDropped(cfs) ? entry.stores().drop() : entry.stores().successor();
    }

    /** Whether DROP has begun: it takes the table out of its keyspace first. */
    static boolean isBeingDropped(ColumnFamilyStore cfs) {
        return !cfs.keyspace.hasColumnFamilyStore(cfs.metadata.id);
    }

    /** Forgets a table that was dropped. */
    static synchronized void remove(ColumnFamilyStore cfs) {
        Entry entry = tables.get(key(cfs));
        if (entry == null || entry.owner() != cfs) return;
        tables.remove(key(cfs));
        entry.space().end();
    }

    /** The tables there are now, by column family name. */
    static void forEach(BiConsumer<String, TableStores> use) {
        Map<Key, Entry> now;
        synchronized (TableRegistry.class) {
            now = new HashMap<>(tables);
        }
        now.forEach((key, entry) -> use.accept(key.columnFamily(), entry.stores()));
    }

    /** Tells Cassandra's metrics how large the tables are now. */
    static void countDiskSpace() {
        List<Entry> now;
        synchronized (TableRegistry.class) {
            now = new ArrayList<>(tables.values());
        }
        for (Entry entry : now)
            entry.space().count(entry.stores().current().statistic(StoreStatistics::diskBytes));
    }

    private static Key key(ColumnFamilyStore cfs) {
        return new Key(cfs.metadata.id, cfs.name);
    }

    private static TableStores open(ColumnFamilyStore cfs, EngineKey engine) {
        String table = cfs.metadata.keyspace + "." + cfs.name;
        if (cfs.metadata.get().isIndex())
            return unusable(
                    cfs,
                    engine,
                    "Index "
                            + table
                            + " is on a table in a storage engine, which is not supported"
                            + " yet. Drop it.");
        if (cfs.getTracker() != null)
            return unusable(
                    cfs,
                    engine,
                    "Table "
                            + table
                            + " was moved into a storage engine by another node's ALTER"
                            + " TABLE, which is not supported yet. Alter it back.");
        if (hasSSTables(cfs)) {
            String message =
                    "Table "
                            + table
                            + " is configured for a storage engine but has SSTables in "
                            + directories(cfs)
                            + ". Moving a table into an engine is not supported yet: give its"
                            + " memtable configuration its former class in cassandra.yaml, or, if"
                            + " the files were put there by hand, move them away.";
            // Before the commit log is replayed, whose records belong to those SSTables.
            if (!StorageService.instance.isDaemonSetupCompleted())
                throw new IllegalStateException(message);
            return unusable(cfs, engine, message);
        }
        return TableStores.open(
                cfs.name, cfs.metadata, () -> Engines.get(engine), directories(cfs), Disk.REAL);
    }

    private static TableStores unusable(ColumnFamilyStore cfs, EngineKey engine, String reason) {
        return TableStores.unusable(
                cfs.name,
                cfs.metadata,
                () -> Engines.get(engine),
                new IllegalStateException(reason));
    }

    private static boolean hasSSTables(ColumnFamilyStore cfs) {
        return !cfs.getDirectories()
                .sstableLister(Directories.OnTxnErr.IGNORE)
                .skipTemporary(true)
                .list()
                .isEmpty();
    }

    /** The directories of a table, one per data directory of the node. */
    static List<Path> directories(ColumnFamilyStore cfs) {
        return cfs.getDirectories().getCFDirectories().stream().map(File::toPath).toList();
    }

    /** The stores of a table, which has some. */
    static synchronized TableStores of(ColumnFamilyStore cfs) {
        return Objects.requireNonNull(tables.get(key(cfs)), () -> "no stores of " + cfs.name)
                .stores();
    }
}
