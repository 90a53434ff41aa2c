// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import dev.petra.engine.StoreStatistics;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableId;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Knows the {@link TableStores} of each table, and which generation a new memtable stands for.
 * Thread-safe.
 */
final class TableRegistry {
    private static final Logger logger = LoggerFactory.getLogger(TableRegistry.class);

    /** Index tables share their base's id, so the name belongs to it. */
    private record Key(TableId id, String columnFamily) {}

    private record Entry(ColumnFamilyStore owner, TableStores stores, DiskSpace space) {}

    private static final Map<Key, Entry> tables = new HashMap<>();
    private static final Map<String, TableStores> names = new ConcurrentHashMap<>();

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
        if (entry != null
                && entry.owner() == cfs
                && entry.stores().isMoving()
                && !Truncation.isRunning()) {
            // It was on its way out, and is altered back.
            arrive(cfs, entry.stores());
            return entry.stores().current();
        }
        if (entry == null || entry.owner() != cfs) {
            // A table object that failed half-way through its construction may have left its stores
            // open; the data is whatever they hold, so they must not count as a predecessor.
            if (entry != null) {
                entry.stores().close();
                entry.space().end();
            }
            TableStores stores = open(cfs, engine);
            logIfUnfit(cfs);
            put(key, new Entry(cfs, stores, new DiskSpace(cfs)));
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

    /** Tells the operator of a table that fails from here on, because of an index for example. */
    static void logIfUnfit(ColumnFamilyStore cfs) {
        String reason = Unfit.reason(cfs);
        if (reason != null)
            logger.error(
                    "Table {} cannot be used, every read and write of it will fail: {}",
                    cfs.metadata(),
                    reason);
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
        names.remove(entry.stores().displayName(), entry.stores());
        entry.space().end();
    }

    private static void put(Key key, Entry entry) {
        tables.put(key, entry);
        names.put(entry.stores().displayName(), entry.stores());
    }

    /** Whether no table is in an engine. */
    static synchronized boolean isEmpty() {
        return tables.isEmpty();
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
        TableStores stores = openStores(cfs, engine);
        boolean altered = cfs.getTracker() != null;
        if (stores.current().failure() != null
                || !(altered || stores.isMoving() || hasSSTables(cfs))) return stores;
        if (altered && !stores.isMoving() && !stores.current().isEmpty()) {
            stores.close();
            return unusable(
                    cfs,
                    engine,
                    new IllegalStateException(
                            "Table "
                                    + table
                                    + " was moved into a storage engine, but there was data"
                                    + " already in "
                                    + directories(cfs)
                                    + ". Move what does not belong there away and restart the"
                                    + " node."));
        }
        try {
            arrive(cfs, stores);
            return stores;
        } catch (RuntimeException | FSError e) {
            stores.close();
            return unusable(cfs, engine, e);
        }
    }

    private static void arrive(ColumnFamilyStore cfs, TableStores stores) {
        long move = stores.beginMove(cfs.metadata.get().params.memtable.configurationKey());
        Moves.begin(new MoveIn(cfs, stores, move));
    }

    /**
     * Has SSTables moved into the store of a table that got some, or is about to. Does nothing if
     * it is on its way already. From here on no deletion goes that may hide something in them.
     */
    static void moveIn(ColumnFamilyStore cfs) {
        TableStores stores;
        synchronized (TableRegistry.class) {
            stores = find(cfs);
            if (stores != null && !stores.isMoving()) arrive(cfs, stores);
        }
        if (stores != null) stores.stopPurging();
    }

    /**
     * Moves a table out of its engine that belongs elsewhere by now, or was on its way when the
     * node stopped.
     *
     * @throws IllegalStateException if that cannot be: the table would show only a part of its data
     */
    static synchronized void resumeDeparture(ColumnFamilyStore cfs, PetraMemtableFactory factory) {
        TableStores stores = openStores(cfs, factory.engine());
        Throwable failure = stores.current().failure();
        if (failure != null)
            throw new IllegalStateException(
                    "Table "
                            + stores.displayName()
                            + " is being moved out of a storage engine, and what is left there"
                            + " cannot be read: "
                            + failure.getMessage(),
                    failure);
        if (stores.current().isEmpty()) {
            // All had been moved, or there was nothing.
            stores.close();
            stores.deleteDirectory();
            return;
        }
        put(key(cfs), new Entry(cfs, stores, new DiskSpace(cfs)));
        long move =
                stores.isMoving() ? stores.resumeMove() : stores.beginMove(factory.configuration());
        PetraMemtable memtable = factory.memtable(cfs, stores.current());
        memtable.departBy(move);
        cfs.getTracker().switchMemtable(false, memtable);
        cfs.getTracker().markFlushing(memtable);
        Moves.begin(new MoveOut(cfs, stores, move, memtable));
    }

    /** Ends a move out of an engine: {@link TableStores#departed}. */
    static synchronized boolean departed(ColumnFamilyStore cfs, TableStores stores, long move) {
        if (!stores.departed(move)) return false;
        remove(cfs);
        return true;
    }

    /** Drops a table that was on its way out of its engine. False if all of it has just left. */
    static synchronized boolean dropDeparting(ColumnFamilyStore cfs) {
        TableStores stores = find(cfs);
        if (stores == null) return false;
        stores.drop();
        return true;
    }

    /** Deletes the folder of a table that left, unless it came back. */
    static synchronized void deleteIfGone(ColumnFamilyStore cfs, TableStores stores) {
        if (!tables.containsKey(key(cfs))) stores.deleteDirectory();
    }

    /** The stores of a table, by keyspace.columnfamily, or null if it has none. Never blocks. */
    static @Nullable TableStores find(String name) {
        return names.get(name);
    }

    /** The stores of a table, or null if it has none. */
    static synchronized @Nullable TableStores find(ColumnFamilyStore cfs) {
        Entry entry = tables.get(key(cfs));
        return entry == null || entry.owner() != cfs ? null : entry.stores();
    }

    private static TableStores openStores(ColumnFamilyStore cfs, EngineKey engine) {
        return TableStores.open(
                cfs.name, cfs.metadata, () -> Engines.get(engine), directories(cfs), Disk.REAL);
    }

    private static TableStores unusable(ColumnFamilyStore cfs, EngineKey engine, Throwable reason) {
        return TableStores.unusable(cfs.name, cfs.metadata, () -> Engines.get(engine), reason);
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
}
