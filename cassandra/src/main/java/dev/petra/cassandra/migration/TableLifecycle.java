// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.disk.StoreMarker;
import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.index.StoreIndexes;
import dev.petra.cassandra.shadow.ShadowSource;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.cassandra.table.Truncation;
import dev.petra.cassandra.table.Unfit;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.WeakHashMap;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.ColumnFamilyStore.FlushReason;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.io.FSError;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Opens the stores of tables and says which generation a new memtable stands for; begins and ends
 * the migrations of tables into engines and out of them. All of it excludes each other, under the
 * lock of {@link TableRegistry}. Thread-safe.
 */
public final class TableLifecycle {
    private static final Logger logger = LoggerFactory.getLogger(TableLifecycle.class);

    /**
     * Why the way of these into an engine could not begin: their schema has them there, but nothing
     * of them is, and their memtables are Cassandra's.
     */
    private static final Map<ColumnFamilyStore, Reason> waiting =
            Collections.synchronizedMap(new WeakHashMap<>());

    /** What is in the way of some of these; guarded by the lock of {@link TableRegistry}. */
    private static final Map<ColumnFamilyStore, ForeignStore> foreign = new WeakHashMap<>();

    private TableLifecycle() {}

    /** Why a table is neither in its engine nor on its way there. */
    private record Reason(String text, boolean isTakeover) {
        static final Reason TAKEOVER = new Reason(Takeover.STATE, true);

        static Reason of(Throwable e) {
            return new Reason(String.valueOf(e.getMessage()), false);
        }
    }

    /**
     * The generation for a new memtable of a table: what is on disk for its first one, the next
     * generation for TRUNCATE, an unusable one for DROP.
     *
     * @return null if the table's way into the engine could not begin: its next memtable is
     *     Cassandra's, as all of its data is, or an ALTER would leave the schema half applied
     * @throws IllegalStateException if the memtable would replace one whose data it does not take
     *     over; nothing has changed then
     */
    public static @Nullable Generation next(ColumnFamilyStore cfs, EngineKey engine) {
        return TableRegistry.exclusively(() -> nextExclusively(cfs, engine));
    }

    private static @Nullable Generation nextExclusively(ColumnFamilyStore cfs, EngineKey engine) {
        TableGenerations known = TableRegistry.find(cfs);
        if (known != null && known.migration().isUnderWay() && !Truncation.isRunning())
            return comeBack(cfs, known);
        if (known == null) {
            // A table object that failed half-way through its construction may have left its stores
            // open; the data is whatever they hold, so they must not count as a predecessor.
            TableRegistry.closeFormer(cfs);
            TableGenerations stores =
                    cfs.getTracker() == null ? open(cfs, engine) : openAltered(cfs, engine);
            if (stores == null) return null;
            Unfit.logIfSo(cfs);
            TableRegistry.put(cfs, stores);
            return stores.current();
        }
        if (!Truncation.isRunning())
            throw new IllegalStateException(
                    known.displayName()
                            + " keeps its data in storage engine '"
                            + engine.engine()
                            + "': its memtable cannot be flushed to SSTables or replaced, except by"
                            + " TRUNCATE and DROP.");
        if (TableRegistry.isBeingDropped(cfs)) return known.drop();
        // Announced since TRUNCATE looked: a crash would leave SSTables without the deletions that
        // the store had for them.
        if (known.migration().isUnderWay() && !cfs.isIndex() && !cfs.metadata().isView())
            throw Truncation.isMigrating(known.displayName(), Migrations.state(known));
        Generation ended = known.current();
        Generation next = known.successor();
        // Of an ALTER out and back, whose way out has not ended: it would be read after the switch.
        EngineMemtables.forgetAll(cfs, ended);
        return next;
    }

    /** Of a table that was on its way out, and is altered back. */
    private static @Nullable Generation comeBack(ColumnFamilyStore cfs, TableGenerations stores) {
        try {
            if (EngineMemtables.isCassandrasCurrent(cfs)) checkFlushes(cfs, 1);
            arrive(cfs, stores);
            return stores.current();
        } catch (RuntimeException | FSError e) {
            if (!EngineMemtables.isCassandrasCurrent(cfs)) throw e;
            // It goes on leaving.
            stayOut(cfs, e);
            return null;
        }
    }

    /** Those of a table that is being constructed; null if all it has is in Cassandra's storage. */
    private static @Nullable TableGenerations open(ColumnFamilyStore cfs, EngineKey engine) {
        TableGenerations stores = openStores(cfs, engine);
        if (stores.current().failure() == null
                && (stores.migration().isUnderWay() || hasSSTables(cfs))) {
            boolean isEmpty = stores.current().isEmpty();
            try {
                arrive(cfs, stores);
            } catch (RuntimeException | FSError e) {
                stores.letGo();
                if (isEmpty) {
                    stayOut(cfs, e);
                    return null;
                }
                stores =
                        TableGenerations.unusable(
                                cfs.name, cfs.metadata, () -> Engines.get(engine), e);
            }
        }
        Throwable failure = stores.current().failure();
        if (failure != null)
            logger.error(
                    "Table {} cannot be used, every read and write of it will fail: {}",
                    stores.displayName(),
                    failure.getMessage(),
                    failure);
        return stores;
    }

    /** Those of a table that is altered into the engine; null if it stays where its data is. */
    private static @Nullable TableGenerations openAltered(ColumnFamilyStore cfs, EngineKey engine) {
        // A flush, a snapshot, TRUNCATE or DROP must not be what takes it in.
        if (waiting.containsKey(cfs) && !isAltered(cfs)) return null;
        try {
            Takeover takeover = Takeover.of(cfs);
            if (takeover != null) return openTaken(cfs, takeover);
            Takeover.requireClosed(cfs);
            // Cassandra asks when it has counted the flush of the present one.
            checkFlushes(cfs, 1);
            if (!Takeover.hasRefused(cfs) && Takeover.begin(cfs, engine)) {
                waiting.put(cfs, Reason.TAKEOVER);
                return null;
            }
            TableGenerations stores = openForArrival(cfs, engine);
            try {
                arrive(cfs, stores);
                return stores;
            } catch (RuntimeException | FSError e) {
                stores.letGo();
                throw e;
            }
        } catch (RuntimeException | FSError e) {
            stayOut(cfs, e);
            return null;
        }
    }

    /** Those that were made of the table's shadow; null if they are not to be the table's yet. */
    private static @Nullable TableGenerations openTaken(ColumnFamilyStore cfs, Takeover takeover) {
        TableGenerations taken = takeover.take();
        if (taken == null) waiting.put(cfs, Reason.TAKEOVER);
        else waiting.remove(cfs);
        return taken;
    }

    /** Says why a table is not taken in yet; it is tried again. */
    static void waits(ColumnFamilyStore cfs, String reason) {
        waiting.put(cfs, new Reason(reason, false));
    }

    /** Has the next memtable of a table be what takes it in. */
    static void letIn(ColumnFamilyStore cfs) {
        waiting.remove(cfs);
    }

    /**
     * Whether the shadow of a table becomes its store, and its memtable is Cassandra's until then.
     */
    public static boolean isTakenOver(ColumnFamilyStore cfs) {
        return Takeover.of(cfs) != null;
    }

    /** Whether it was altered since its memtable was made, as back and into the engine again. */
    private static boolean isAltered(ColumnFamilyStore cfs) {
        List<Memtable> live = cfs.getTracker().getView().liveMemtables;
        return !live.isEmpty() && live.get(live.size() - 1).shouldSwitch(FlushReason.SCHEMA_CHANGE);
    }

    /**
     * Refuses a table with a memtable that is never flushed: its migration would never end, and the
     * commit log would get each write to it, and keep it until the disk is full.
     *
     * @param begun as of {@link EngineMemtables#hasFailedFlush}
     */
    private static void checkFlushes(ColumnFamilyStore cfs, int begun) {
        if (EngineMemtables.hasFailedFlush(cfs, begun))
            throw new IllegalStateException(
                    "A flush of "
                            + cfs.metadata()
                            + " has failed, as the log of the node says, and Cassandra does not try"
                            + " it again: restart the node, then the table goes in by itself.");
    }

    /**
     * Opens the stores of a table whose data is in Cassandra's storage.
     *
     * @throws IllegalStateException if they cannot be opened, or hold what is not the table's
     */
    private static TableGenerations openForArrival(ColumnFamilyStore cfs, EngineKey engine) {
        foreign.remove(cfs);
        TableGenerations stores = openStores(cfs, engine);
        Throwable failure = stores.current().failure();
        if (failure != null) {
            stores.letGo();
            throw new IllegalStateException(failure.getMessage(), failure);
        }
        if (!stores.migration().isUnderWay() && !stores.current().isEmpty()) {
            stores.letGo();
            foreign.put(cfs, ForeignStore.of(stores));
            throw isInTheWay(cfs);
        }
        return stores;
    }

    private static IllegalStateException isInTheWay(ColumnFamilyStore cfs) {
        return new IllegalStateException(
                "There was data of an engine already in "
                        + TableRegistry.directories(cfs)
                        + ". Move the folder "
                        + StoreLocation.NAME
                        + " away that does not belong there, "
                        + StoreMarker.WITH_MARKERS
                        + ": the next start of the node would take it for the table's.");
    }

    /** A store with data that is not its table's. */
    private record ForeignStore(StoreLocation place, long generation, @Nullable Object identity) {
        static ForeignStore of(TableGenerations stores) {
            Path directory = Objects.requireNonNull(stores.tableDirectory());
            StoreLocation place = new StoreLocation(directory, Disk.REAL);
            long generation = stores.current().number();
            return new ForeignStore(place, generation, place.identity(generation));
        }

        /** Whether it is still that, and alive. */
        boolean isThere() {
            return identity != null
                    && identity.equals(place.identity(generation))
                    && place.live().equals(OptionalLong.of(generation))
                    && place.migrationMark() == null;
        }
    }

    private static void stayOut(ColumnFamilyStore cfs, Throwable reason) {
        waiting.put(cfs, Reason.of(reason));
        logger.error(
                "Table {} cannot be migrated into its storage engine now. It stays in Cassandra's,"
                        + " where it is read and written as before; only its schema says otherwise."
                        + " This is tried again within half a minute. Correct what the error names,"
                        + " before the node is restarted unless it says to restart it, or alter"
                        + " the table back",
                cfs.metadata,
                reason);
    }

    /**
     * Lets {@link #next} take a table in that it has left in Cassandra's storage. To be called
     * before its memtable is switched for that: a switch to one more of Cassandra's is a flush for
     * nothing, and on a full disk one that fails and stays in memory.
     *
     * @throws RuntimeException if the way in cannot begin yet; or an {@link FSError}
     */
    public static void prepareArrival(ColumnFamilyStore cfs, EngineKey engine) {
        TableRegistry.exclusively(
                () -> {
                    try {
                        checkFlushes(cfs, 0);
                        Takeover.requireClosed(cfs);
                        TableGenerations leaving = TableRegistry.find(cfs);
                        if (leaving == null) tryToMark(cfs, engine);
                        else leaving.migration().repeat();
                    } catch (RuntimeException | FSError e) {
                        waiting.put(cfs, Reason.of(e));
                        throw e;
                    }
                    waiting.remove(cfs);
                    return null;
                });
    }

    /** A mark that nobody follows says no more than the schema does. */
    private static void tryToMark(ColumnFamilyStore cfs, EngineKey engine) {
        ForeignStore found = foreign.get(cfs);
        // To be looked at it would be opened, which replays and writes, every half a minute.
        if (found != null && found.isThere()) throw isInTheWay(cfs);
        TableGenerations stores = openForArrival(cfs, engine);
        try {
            var unused = stores.migration().begin(configuration(cfs));
        } finally {
            stores.letGo();
        }
    }

    /**
     * A table whose way into an engine could not begin yet, or whose shadow becomes its store.
     *
     * @param state why, or how far that is
     * @param doneBytes of the shadow, that were verified
     * @param leftBytes of the shadow, about, that are not verified yet; null without one
     */
    public record Waiting(
            ColumnFamilyStore cfs, String state, long doneBytes, @Nullable Long leftBytes) {}

    /** The tables that are to be in an engine and of which nothing is there. Does not block. */
    public static void forEachWaiting(Consumer<Waiting> use) {
        Map<ColumnFamilyStore, Reason> all;
        synchronized (waiting) {
            all = new HashMap<>(waiting);
        }
        // Also in the moment in which its memtable is switched.
        Takeover.forEach(cfs -> all.putIfAbsent(cfs, Reason.TAKEOVER));
        all.forEach(
                (cfs, reason) -> {
                    if (!isStillWaiting(cfs)) return;
                    Takeover takeover = reason.isTakeover() ? Takeover.of(cfs) : null;
                    String text = "could not begin yet: " + reason.text();
                    use.accept(
                            takeover == null
                                    ? new Waiting(cfs, text, 0, null)
                                    : takeover.progress());
                });
    }

    /** Not one that was dropped or altered back. */
    private static boolean isStillWaiting(ColumnFamilyStore cfs) {
        return cfs.getTracker() != null
                && cfs.isValid()
                && cfs.metadata().params.memtable.factory() instanceof EngineConfiguration
                && EngineMemtables.isCassandrasCurrent(cfs);
    }

    /**
     * The tables that an ALTER takes out of their engines and that are not among {@link
     * Migrations#now} yet: writes to the engine that began before it have not ended, or the flush
     * that switches the memtable has not. To be asked before those, where none is to be missed.
     */
    public static void forEachLeaving(BiConsumer<ColumnFamilyStore, Generation> use) {
        TableRegistry.forEachOwner(
                cfs -> {
                    EngineMemtable memtable = EngineMemtables.departing(cfs);
                    if (memtable == null) return;
                    // Altered back since.
                    if (cfs.getTracker().getView().getCurrentMemtable()
                                    instanceof EngineMemtable current
                            && current.departure() == 0) return;
                    TableGenerations stores = memtable.generation().stores();
                    if (stores.migration().isUnderWay() && !Migrations.isLeaving(stores))
                        use.accept(cfs, memtable.generation());
                });
    }

    private static String configuration(ColumnFamilyStore cfs) {
        return cfs.metadata.get().params.memtable.configurationKey();
    }

    private static void arrive(ColumnFamilyStore cfs, TableGenerations stores) {
        long migration = stores.migration().begin(configuration(cfs));
        waiting.remove(cfs);
        // Last, since nobody ends the shadow of a table that does not migrate.
        ShadowSource.announce(cfs);
        Migrations.begin(new MigrateIn(cfs, stores, migration));
    }

    /**
     * Has SSTables migrated into the store of a table that got some, or is about to. Does nothing
     * if it is on its way already. From here on no deletion goes that may hide something in them.
     */
    public static void migrateIn(ColumnFamilyStore cfs) {
        TableGenerations stores = announce(cfs);
        if (stores != null) stores.stopPurging();
    }

    /**
     * An import of SSTables into a table begins. What {@link #migrateIn} announces finds nothing
     * yet and is over long before the import: the guard lasts until its end.
     *
     * @return to be closed when the SSTables are live, and announced by {@link #migrateIn} once
     *     more; null outside of an engine
     */
    public static StreamGuards.@Nullable Guard importBegins(ColumnFamilyStore cfs) {
        TableGenerations stores = TableRegistry.find(cfs);
        if (stores == null) return null;
        StreamGuards.Guard guard = stores.streams().begin(List.of(), () -> false);
        try {
            migrateIn(cfs);
            return guard;
        } catch (RuntimeException | Error e) {
            guard.close();
            throw e;
        }
    }

    private static @Nullable TableGenerations announce(ColumnFamilyStore cfs) {
        return TableRegistry.exclusively(
                () -> {
                    TableGenerations found = TableRegistry.find(cfs);
                    // The mark of a dropped table would bring its folder back.
                    if (found != null && !found.isDropped() && !found.migration().isUnderWay())
                        arrive(cfs, found);
                    return found;
                });
    }

    /**
     * Has SSTables migrated that nobody announced by {@link #migrateIn}: of a stream that began
     * before its table was altered into an engine. To be called now and then; reads no disk where
     * there is none. Throws nothing.
     */
    public static void migrateUnannounced() {
        TableRegistry.forEachOwner(
                cfs -> {
                    try {
                        if (hasUnannounced(cfs)) announce(cfs);
                    } catch (RuntimeException | FSError e) {
                        logger.error("SSTables of {} cannot be migrated yet", cfs.metadata, e);
                    }
                });
    }

    private static boolean hasUnannounced(ColumnFamilyStore cfs) {
        // Without it, the table is being created.
        if (cfs.getTracker() == null || cfs.getLiveSSTables().isEmpty()) return false;
        EngineMemtable memtable = EngineMemtables.current(cfs);
        return memtable != null
                && memtable.generation().failure() == null
                && EngineMemtables.areWritesOurs(cfs);
    }

    /**
     * Migrates a table out of its engine that belongs elsewhere by now, or was on its way out when
     * the node stopped.
     *
     * @throws IllegalStateException if that cannot be: the table would show only a part of its data
     */
    public static void resumeMigrationOut(ColumnFamilyStore cfs, EngineConfiguration from) {
        TableRegistry.exclusively(
                () -> {
                    resumeExclusively(cfs, from);
                    return null;
                });
    }

    private static void resumeExclusively(ColumnFamilyStore cfs, EngineConfiguration from) {
        TableGenerations stores = openStores(cfs, from.engine());
        Throwable failure = stores.current().failure();
        if (failure != null)
            throw new IllegalStateException(
                    "Table "
                            + stores.displayName()
                            + " is being migrated out of a storage engine, and what is left there"
                            + " cannot be read: "
                            + failure.getMessage(),
                    failure);
        if (stores.current().isEmpty()) {
            // All had been migrated, or there was nothing.
            stores.close();
            stores.deleteDirectory();
            return;
        }
        long migration;
        try {
            migration =
                    stores.migration().isUnderWay()
                            ? stores.migration().resume()
                            : stores.migration().begin(from.configuration());
        } catch (RuntimeException | FSError e) {
            stores.close();
            throw e;
        }
        TableRegistry.put(cfs, stores);
        EngineMemtable memtable = from.departing(cfs, stores.current(), migration);
        cfs.getTracker().switchMemtable(false, memtable);
        cfs.getTracker().markFlushing(memtable);
        Migrations.begin(new MigrateOut(cfs, stores, migration, memtable));
    }

    /** Ends a migration out of an engine: {@link TableMigration#departed}. */
    static boolean departed(ColumnFamilyStore cfs, TableGenerations stores, long migration) {
        return TableRegistry.exclusively(
                () -> {
                    if (!stores.migration().departed(migration)) return false;
                    TableRegistry.remove(cfs);
                    return true;
                });
    }

    /** Drops a table of which something is on its way out. False if all of it has just left. */
    public static boolean drop(ColumnFamilyStore cfs) {
        return TableRegistry.exclusively(
                () -> {
                    TableGenerations stores = TableRegistry.find(cfs);
                    if (stores == null) return false;
                    if (!stores.isDropped()) stores.drop();
                    return true;
                });
    }

    /** Deletes the folder of a table that left, unless it came back. */
    static void deleteIfGone(ColumnFamilyStore cfs, TableGenerations stores) {
        TableRegistry.exclusively(
                () -> {
                    if (!TableRegistry.contains(cfs)) stores.deleteDirectory();
                    return null;
                });
    }

    private static TableGenerations openStores(ColumnFamilyStore cfs, EngineKey engine) {
        TableGenerations stores =
                TableGenerations.open(
                        cfs.name,
                        cfs.metadata,
                        () -> Engines.get(engine),
                        TableRegistry.directories(cfs),
                        Disk.REAL);
        stores.beforeFirstUse(store -> StoreIndexes.defineIn(cfs, store));
        return stores;
    }

    private static boolean hasSSTables(ColumnFamilyStore cfs) {
        return !cfs.getDirectories()
                .sstableLister(Directories.OnTxnErr.IGNORE)
                .skipTemporary(true)
                .list()
                .isEmpty();
    }
}
