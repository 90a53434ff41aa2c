// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import com.google.common.collect.Iterables;
import com.google.common.collect.Ordering;
import dev.petra.cassandra.PetraMemtableFactory;
import dev.petra.cassandra.commitlog.CommitLogOrder;
import dev.petra.cassandra.disk.SnapshotNames;
import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.migration.MigrateOut;
import dev.petra.cassandra.migration.Migrations;
import dev.petra.cassandra.migration.TableLifecycle;
import dev.petra.cassandra.nodetool.NodetoolOperations;
import dev.petra.cassandra.repair.PetraRepairManager;
import dev.petra.cassandra.shadow.Shadows;
import dev.petra.cassandra.streaming.PetraStreamManager;
import dev.petra.cassandra.streaming.StreamRoom;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.cassandra.table.Truncation;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.repair.TableRepairManager;
import org.apache.cassandra.schema.SchemaConstants;
import org.apache.cassandra.service.snapshot.TableSnapshot;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.StreamSummary;
import org.apache.cassandra.streaming.TableStreamManager;
import org.apache.cassandra.utils.FBUtilities;
import org.apache.cassandra.utils.concurrent.Future;
import org.apache.cassandra.utils.concurrent.ImmediateFuture;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Join points of a table's life: flush, truncation, snapshot, import, streams and repairs. */
public final class TableHooks {
    private static final Logger logger = LoggerFactory.getLogger(TableHooks.class);

    private TableHooks() {}

    /**
     * When a memtable is to be flushed to SSTables, and no write goes to it any more. One of a
     * system table may say of writes to an engine that they are done: these are synced first.
     *
     * @return whether that is done otherwise: what is in an engine goes by {@link MigrateOut},
     *     which neither keeps the flushes of other tables waiting nor begins anew after a crash
     */
    public static boolean flushMemtable(ColumnFamilyStore cfs, Memtable memtable) {
        if (cfs.metadata.keyspace.equals(SchemaConstants.SYSTEM_KEYSPACE_NAME))
            CommitLogOrder.beforeFlush(Engines.opened());
        if (!(memtable instanceof EngineMemtable table) || table.departure() == 0) return false;
        Migrations.begin(
                new MigrateOut(cfs, table.generation().stores(), table.departure(), table));
        return true;
    }

    /** Instead of Cassandra's streams. */
    public static TableStreamManager streamManager(
            ColumnFamilyStore cfs, TableStreamManager stock) {
        return new PetraStreamManager(cfs, EngineMemtables.any(cfs), stock);
    }

    /**
     * When a session knows what its peer will send, and nothing has moved yet.
     *
     * @throws IllegalStateException if there is no room for it, which fails the session
     */
    public static void beforeReceiving(StreamSession session, Collection<StreamSummary> summaries) {
        StreamRoom.check(session, summaries);
    }

    /** Instead of Cassandra's repairs. */
    public static TableRepairManager repairManager(
            ColumnFamilyStore cfs, TableRepairManager stock) {
        EngineMemtable table = EngineMemtables.any(cfs);
        return table == null ? stock : new PetraRepairManager(cfs, table, stock);
    }

    /**
     * Before {@code nodetool import} and {@code refresh}: what comes is live at once, and is
     * migrated into the store. Until {@link #importEnds} no deletion goes.
     *
     * @return what to give that method
     */
    public static @Nullable Object importBegins(ColumnFamilyStore cfs) {
        return EngineMemtables.current(cfs) == null ? null : TableLifecycle.importBegins(cfs);
    }

    /** The end of {@link #importBegins}, also after an exception. */
    public static void importEnds(ColumnFamilyStore cfs, @Nullable Object begun) {
        try {
            if (EngineMemtables.current(cfs) != null) TableLifecycle.migrateIn(cfs);
        } finally {
            if (begun instanceof StreamGuards.Guard guard) guard.close();
        }
    }

    /** Called when a switch of memtables begins that throws the current one's data away. */
    public static void dumpBegins() {
        Truncation.begin();
    }

    /**
     * The end of {@link #dumpBegins}, also after an exception.
     *
     * @param failure null if there was none. Of a switch that did not come about Cassandra counts
     *     the beginning only
     */
    public static void dumpEnds(ColumnFamilyStore cfs, @Nullable Throwable failure) {
        Truncation.end();
        if (failure != null) cfs.metric.pendingFlushes.dec();
    }

    /**
     * When TRUNCATE removes the SSTables: the memtable's data goes as well. On return it is dead,
     * whatever crashes.
     */
    public static void truncate(ColumnFamilyStore cfs) {
        Future<?> dumped = ImmediateFuture.success(null);
        // Else an ALTER out of the engine that comes between would make it a memtable that stands
        // for what leaves, and the rows that are forgotten here would come back from there.
        synchronized (cfs.getTracker()) {
            EngineMemtable table = EngineMemtables.current(cfs);
            if (table == null) return;
            String name = table.generation().stores().displayName();
            // Of those the rows of the base are gone by now.
            boolean isOfBase = cfs.isIndex() || cfs.metadata().isView();
            if (table.departure() != 0
                    || (!isOfBase && table.generation().stores().migration().isUnderWay()))
                throw Truncation.isMigrating(name, Migrations.state(table.generation().stores()));
            checkNotLeaving(cfs, name);
            table.generation().stores().countTruncation();
            EngineMemtables.forgetAll(cfs, table.generation());
            // With auto_snapshot off Cassandra has already dropped it, before it came here.
            // One without rows may have slices that are about to come into it.
            if (!table.isClean() || table.generation().hasStore()) dumped = cfs.dumpMemtable();
        }
        FBUtilities.waitOnFuture(dumped);
    }

    private static void checkNotLeaving(ColumnFamilyStore cfs, String name) {
        if (PetraMemtableFactory.owns(cfs.metadata())) return;
        throw new IllegalStateException(
                "TRUNCATE of "
                        + name
                        + " cannot be done now: the table is being altered out of its storage"
                        + " engine, or that failed, and the log of the node says why. Try again;"
                        + " if that does not help, ALTER the table back.");
    }

    /**
     * When TRUNCATE begins; what it returns is for {@link #afterTruncate}.
     *
     * @return what to give that method: how many there were before, or -1 outside of an engine
     * @throws IllegalStateException while the table is being migrated, since a crash between the
     *     end of the SSTables and that of the store would leave one without the other; or if its
     *     way out of the engine did not begin
     */
    public static long beforeTruncate(ColumnFamilyStore cfs) {
        TableGenerations stores = TableRegistry.find(cfs);
        if (stores != null && stores.migration().isUnderWay())
            throw Truncation.isMigrating(stores.displayName(), Migrations.state(stores));
        // With auto_snapshot off Cassandra replaces the memtable before it comes to #truncate. It
        // would be by one of its own, while rows stay in this one.
        if (stores != null && EngineMemtables.current(cfs) != null)
            checkNotLeaving(cfs, stores.displayName());
        Shadows.truncationBegins(cfs);
        return stores == null ? -1 : stores.truncations();
    }

    /** The end of what {@link #beforeTruncate} began, also after an exception. */
    public static void truncationEnds(ColumnFamilyStore cfs) {
        Shadows.truncationEnds(cfs);
    }

    /**
     * When TRUNCATE would report success.
     *
     * @throws IllegalStateException if it has not happened: Cassandra gives up without a word when
     *     it cannot stop a compaction. Or if that is not known: of a table that was migrated
     *     meanwhile, or is, there may be rows in SSTables that are newer than those which it
     *     removes, or in a memtable that it took for another
     */
    public static void afterTruncate(ColumnFamilyStore cfs, long before) {
        TableGenerations stores = TableRegistry.find(cfs);
        if (stores == null ? before >= 0 : stores.migration().isUnderWay())
            throw new IllegalStateException(
                    "TRUNCATE of "
                            + cfs.getKeyspaceName()
                            + "."
                            + cfs.getTableName()
                            + " may not have removed all rows: the table was dropped, or began to"
                            + " be migrated into a storage engine or out of it, meanwhile. Try"
                            + " again when petra.migrations does not have it.");
        // Those of a table that came back into an engine meanwhile are counted from 0.
        if (stores != null && stores.truncations() <= Math.max(0, before))
            throw new IllegalStateException(
                    "TRUNCATE of "
                            + cfs.getKeyspaceName()
                            + "."
                            + cfs.getTableName()
                            + " may not have removed all rows: a compaction could not be stopped,"
                            + " or the table came back into its storage engine meanwhile. Try"
                            + " again.");
    }

    /**
     * Up to where the commit log is not replayed for a table, when Cassandra notes it.
     *
     * @param position what Cassandra would note; after TRUNCATE it may be from before the table was
     *     migrated into its engine, and what was logged on the way would come back
     */
    public static CommitLogPosition truncationPosition(
            ColumnFamilyStore cfs, CommitLogPosition position) {
        EngineMemtable table = EngineMemtables.any(cfs);
        if (table == null) return position;
        CommitLogPosition noted = SystemKeyspace.getTruncatedPosition(cfs.metadata.id);
        CommitLogPosition latest =
                noted == null ? position : Ordering.natural().max(position, noted);
        // While it is migrated, what was logged before may be in a memtable of Cassandra's alone.
        return table.generation().stores().migration().isUnderWay()
                ? latest
                : Ordering.natural().max(latest, table.getCommitLogLowerBound());
    }

    /**
     * After a flush was asked for, which for an engine table does nothing by itself.
     *
     * @param flush what Cassandra would return
     * @return it, or a failure if what the caller relies on could not be done. An exception here
     *     would keep a caller that flushes many tables from the others: a DROP would end half done
     */
    public static Future<CommitLogPosition> afterForceFlush(
            ColumnFamilyStore cfs,
            ColumnFamilyStore.FlushReason reason,
            Future<CommitLogPosition> flush) {
        EngineMemtable table = EngineMemtables.current(cfs);
        if (table == null) return flush;
        try {
            flushOrSync(table, reason);
            return flush;
        } catch (RuntimeException | FSError e) {
            return ImmediateFuture.failure(e);
        }
    }

    private static void flushOrSync(EngineMemtable table, ColumnFamilyStore.FlushReason reason) {
        switch (reason) {
            case USER_FORCED -> NodetoolOperations.flush(table);
            case DRAIN -> flushForDrain(table);
            // Cassandra goes on to delete what it read: a commit log, received files.
            case STREAMS_RECEIVED, INTERNALLY_FORCED, COMMITLOG_DIRTY ->
                    NodetoolOperations.syncLog(table);
            // All tables of a keyspace of which one was replayed. Nothing was replayed into one
            // without an open store, so one that cannot be opened does not keep the node down.
            case STARTUP -> {
                if (table.generation().hasStore()) NodetoolOperations.syncLog(table);
            }
            default -> {
                // The others want SSTables, to send, validate, index or snapshot them.
            }
        }
    }

    private static void flushForDrain(EngineMemtable table) {
        try {
            NodetoolOperations.syncLog(table);
            NodetoolOperations.flush(table);
        } catch (RuntimeException | FSError e) {
            // An exception would keep Cassandra from closing its own log. The store is synced once
            // more when it closes, and if that fails too its log is replayed at the next start.
            logger.error(
                    "Table {} could not be flushed for the drain, which goes on. The next start"
                            + " replays the table's log instead",
                    table,
                    e);
        }
    }

    /**
     * Whether a snapshot leaves the memtable out, as {@code nodetool snapshot --skip-flush} asks.
     * An engine table has no data elsewhere, and needs no flush for a snapshot.
     */
    public static boolean snapshotSkipsMemtable(ColumnFamilyStore cfs, boolean skip) {
        return skip && EngineMemtables.current(cfs) == null;
    }

    /**
     * A snapshot that is being taken.
     *
     * @param stores null outside of an engine
     * @param current what Cassandra asks for a copy, unless an ALTER out of the engine replaces it
     *     before. If that has also moved all of it since, the snapshot fails, since it is not known
     *     what of it is among the SSTables
     */
    private record Snapshot(
            ColumnFamilyStore cfs,
            @Nullable TableGenerations stores,
            @Nullable EngineMemtable current,
            String tag) {
        void complete(TableSnapshot taken) {
            checkNotOvertaken();
            if (stores == null) return;
            if (current != null && current.departure() != 0 && !stores.hasSnapshot(tag))
                current.performSnapshot(tag);
            stores.completeSnapshot(taken);
        }

        /** What was migrated meanwhile may be in no SSTable that Cassandra found. */
        private void checkNotOvertaken() {
            TableGenerations now = TableRegistry.find(cfs);
            if (now == null || now == stores) return;
            String lacks = "rows of " + now.displayName() + ", which was altered into its storage";
            if (!TableRegistry.isBeingDropped(cfs))
                throw new IllegalStateException(
                        "The snapshot '"
                                + tag
                                + "' may lack "
                                + lacks
                                + " engine meanwhile. Remove it by nodetool clearsnapshot, and take"
                                + " another.");
            // An exception would leave the schema half applied.
            logger.error("The snapshot '{}' of the dropped table may lack {} engine", tag, lacks);
        }

        void end() {
            if (stores != null) stores.unlockContent();
        }
    }

    /**
     * Before a snapshot. What is on its way out of an engine goes with it, and nothing is migrated
     * until {@link #snapshotEnds}.
     *
     * @return what to give that method
     * @throws IllegalArgumentException if Cassandra would refuse the name, which it does only when
     *     the engine's copy is made
     */
    public static Object snapshotBegins(ColumnFamilyStore cfs, String tag) {
        TableGenerations stores = TableRegistry.find(cfs);
        if (stores == null) return new Snapshot(cfs, null, null, tag);
        SnapshotNames.check(tag);
        awaitFormerMemtable(cfs, stores);
        stores.lockContent();
        try {
            EngineMemtable current = EngineMemtables.current(cfs);
            EngineMemtable departing = current == null ? EngineMemtables.departing(cfs) : null;
            if (departing != null) departing.performSnapshot(tag);
            return new Snapshot(cfs, stores, current, tag);
        } catch (RuntimeException | Error e) {
            stores.unlockContent();
            throw e;
        }
    }

    /**
     * What was written before an ALTER into the engine is in a memtable of Cassandra's until that
     * is flushed: Cassandra flushes the current one for a snapshot, which is the engine's.
     */
    private static void awaitFormerMemtable(ColumnFamilyStore cfs, TableGenerations stores) {
        if (EngineMemtables.current(cfs) == null || EngineMemtables.areWritesOurs(cfs)) return;
        FBUtilities.waitOnFuture(cfs.forceFlush(ColumnFamilyStore.FlushReason.SNAPSHOT));
        if (EngineMemtables.areWritesOurs(cfs)) return;
        String lacks =
                "what was written to "
                        + stores.displayName()
                        + " before it was altered into its storage engine: Cassandra could not"
                        + " flush that, and the log of the node says why. Restart the node";
        if (!TableRegistry.isBeingDropped(cfs))
            throw new IllegalStateException("The snapshot would lack " + lacks + ".");
        // An exception would leave the schema half applied.
        logger.error("The snapshot of the dropped table lacks {}", lacks);
    }

    /**
     * The memtables that Cassandra frees memory by flushing. It finds those of a table's legacy
     * indexes by that of the table, which an engine's is not.
     *
     * @param stock those of all tables that are not hidden
     */
    public static Iterable<Memtable> activeMemtables(Iterable<Memtable> stock) {
        List<Memtable> hidden = new ArrayList<>();
        TableRegistry.forEachOwner(
                cfs -> {
                    // One that is still being opened has no indexes yet. While a former memtable
                    // of the table's is flushed, a hidden one goes with it: by itself it would
                    // have the commit log forget what is in that.
                    if (isOpen(cfs) && EngineMemtables.areWritesOurs(cfs))
                        cfs.getIndexMemtables().forEach(hidden::add);
                });
        return hidden.isEmpty() ? stock : Iterables.concat(stock, hidden);
    }

    private static boolean isOpen(ColumnFamilyStore cfs) {
        return ColumnFamilyStore.getIfExists(cfs.metadata.id) == cfs;
    }

    /**
     * The end of {@link #snapshotBegins}, also after an exception in between.
     *
     * @param taken null after an exception
     */
    public static void snapshotEnds(@Nullable Object begun, @Nullable TableSnapshot taken) {
        if (!(begun instanceof Snapshot snapshot)) return;
        try {
            if (taken != null) snapshot.complete(taken);
        } finally {
            snapshot.end();
        }
    }
}
