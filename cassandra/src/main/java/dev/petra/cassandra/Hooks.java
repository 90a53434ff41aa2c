// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.concurrent.ScheduledExecutors;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.commitlog.CommitLogSegment;
import org.apache.cassandra.db.compaction.CompactionManager.AllSSTableOpStatus;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.exceptions.StartupException;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.IVerifier;
import org.apache.cassandra.net.MessagingService;
import org.apache.cassandra.repair.TableRepairManager;
import org.apache.cassandra.schema.Keyspaces;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.streaming.TableStreamManager;
import org.apache.cassandra.utils.Clock;
import org.apache.cassandra.utils.FBUtilities;
import org.apache.cassandra.utils.Pair;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What Cassandra calls at the join points: one line each in a fork, woven by the agent into stock
 * Cassandra. Each method does nothing for tables that are not in an engine. {@code
 * docs/join-points.md} lists where each is called.
 */
public final class Hooks {
    private static final Logger logger = LoggerFactory.getLogger(Hooks.class);

    /** How long DROP waits for the last readers of the table before it leaves the rest to them. */
    private static final Duration DROP_PATIENCE = Duration.ofSeconds(30);

    /** How often Cassandra's metrics are told how large the tables are, besides after each verb. */
    private static final int DISK_SPACE_SECONDS = 10;

    private Hooks() {}

    private static @Nullable PetraMemtable current(ColumnFamilyStore cfs) {
        // No tracker: the table is still under construction. No memtable: an offline tool.
        if (cfs.getTracker() == null || !DatabaseDescriptor.isDaemonInitialized()) return null;
        return cfs.getCurrentMemtable() instanceof PetraMemtable memtable ? memtable : null;
    }

    // The node

    /**
     * First of the start-up checks.
     *
     * @throws StartupException if the node must not start
     */
    public static void beforeStart() throws StartupException {
        StartupCheck.run();
    }

    /** When all tables are open and the node has not joined yet. */
    public static void afterTablesOpened() {
        boolean added = StorageService.instance.addPostShutdownHook(Engines::closeAll);
        if (!added)
            logger.info("The node shuts down already; its storage engines close by themselves");
        VirtualTables.register();
        var unused =
                ScheduledExecutors.optionalTasks.scheduleWithFixedDelay(
                        TableRegistry::countDiskSpace, 0, DISK_SPACE_SECONDS, TimeUnit.SECONDS);
        List<Path> directories = new ArrayList<>();
        for (String directory : DatabaseDescriptor.getNonLocalSystemKeyspacesDataFileLocations())
            directories.add(Path.of(directory));
        try {
            OrphanStores.remove(
                    StartupCheck.tableDirectories(directories),
                    id -> Schema.instance.getTableMetadata(id) != null,
                    !Schema.instance.getUserKeyspaces().isEmpty(),
                    DatabaseDescriptor.isAutoSnapshot(),
                    Clock.Global.currentTimeMillis());
        } catch (IOException e) {
            logger.error("The data directories cannot be searched for stores of dropped tables", e);
        }
    }

    /** After {@code nodetool setcompactionthroughput}. */
    public static void afterCompactionThroughput() {
        Engines.compactionThroughputChanged();
    }

    /** Around the decision which records of the commit log are replayed. */
    public static void replayPlanBegins() {
        ReplayPlan.begin();
    }

    /** The end of {@link #replayPlanBegins}, also after an exception. */
    public static void replayPlanEnds() {
        ReplayPlan.end();
    }

    /**
     * Whether a table's writes are durable without the commit log.
     *
     * @param stock what its memtable says
     */
    public static boolean writesAreDurable(ColumnFamilyStore cfs, boolean stock) {
        return stock && !(ReplayPlan.isMade() && current(cfs) != null);
    }

    // Schema

    /**
     * Before the change that a statement makes is written to the schema tables.
     *
     * @throws org.apache.cassandra.exceptions.InvalidRequestException if it is refused
     */
    public static void beforeSchemaChange(Keyspaces.KeyspacesDiff change) {
        SchemaGate.check(change);
    }

    /**
     * Before a table gets a memtable, its first one included.
     *
     * @throws IllegalStateException while the node starts, if the table's data is in an engine but
     *     its schema names another memtable: it would look empty
     */
    public static void beforeMemtable(ColumnFamilyStore cfs) {
        TableMetadata table = cfs.metadata.get();
        if (cfs.getTracker() != null
                || PetraMemtableFactory.owns(table)
                || table.params.memtable.factory() instanceof AgentMissing) return;
        for (Path directory : TableRegistry.directories(cfs)) {
            StoreDirectory store = new StoreDirectory(directory, Disk.REAL);
            if (!store.holdsData()) continue;
            String message =
                    "Table "
                            + table
                            + " has its data in a storage engine, in "
                            + store
                            + ", but its memtable configuration '"
                            + table.params.memtable.configurationKey()
                            + "' is "
                            + table.params.memtable.factory()
                            + " on this node, which would show an empty table. Give that"
                            + " configuration the class "
                            + PetraMemtable.class.getName()
                            + " in cassandra.yaml, or move the directory away.";
            if (!StorageService.instance.isDaemonSetupCompleted())
                throw new IllegalStateException(message);
            // Throwing here would leave the schema half applied on this node.
            logger.error(message);
        }
    }

    // Data

    /**
     * Before a mutation is applied. Checks what the commit log would have checked, if it skips it.
     *
     * @throws org.apache.cassandra.exceptions.MutationExceededMaxSizeException if it is too large
     */
    public static void beforeWrite(Mutation mutation, boolean durable) {
        if (!durable) return;
        for (PartitionUpdate update : mutation.getPartitionUpdates()) {
            if (!PetraMemtableFactory.owns(update.metadata())) continue;
            // Computed once per mutation; the coordinator and the verb handler ask for it as well.
            mutation.validateSize(
                    MessagingService.current_version, CommitLogSegment.ENTRY_OVERHEAD_SIZE);
            return;
        }
    }

    /** Instead of Cassandra's streams. */
    public static TableStreamManager streamManager(
            ColumnFamilyStore cfs, TableStreamManager stock) {
        PetraMemtable table = current(cfs);
        return table == null ? stock : new RefusingStreamManager(table);
    }

    /** Instead of Cassandra's repairs. */
    public static TableRepairManager repairManager(
            ColumnFamilyStore cfs, TableRepairManager stock) {
        PetraMemtable table = current(cfs);
        return table == null ? stock : new RefusingRepairManager(table, stock);
    }

    /**
     * How many partitions there are in each of some ranges, and how large they are on average; for
     * Spark and others, which split their work by that. Null if that is Cassandra's to say.
     */
    public static @Nullable Map<Range<Token>, Pair<Long, Long>> sizeEstimates(
            ColumnFamilyStore cfs, Collection<Range<Token>> ranges) {
        PetraMemtable table = current(cfs);
        return table == null ? null : Verbs.sizeEstimates(table, ranges);
    }

    // Life cycle

    /** Around the switch that throws the current memtable's data away. */
    public static void dumpBegins() {
        Truncation.begin();
    }

    /** The end of {@link #dumpBegins}, also after an exception. */
    public static void dumpEnds() {
        Truncation.end();
    }

    /**
     * When TRUNCATE removes the SSTables: the memtable's data goes as well. On return it is dead,
     * whatever crashes.
     */
    public static void truncate(ColumnFamilyStore cfs) {
        PetraMemtable table = current(cfs);
        // With auto_snapshot off Cassandra has already dropped it, before it came here.
        if (table == null || table.isClean()) return;
        FBUtilities.waitOnFuture(cfs.dumpMemtable());
    }

    /** When TRUNCATE begins; what it returns is for {@link #afterTruncate}. */
    public static @Nullable Memtable beforeTruncate(ColumnFamilyStore cfs) {
        return current(cfs);
    }

    /**
     * When TRUNCATE would report success.
     *
     * @throws IllegalStateException if it has not happened: Cassandra gives up without a word when
     *     it cannot stop a compaction
     */
    public static void afterTruncate(ColumnFamilyStore cfs, @Nullable Memtable before) {
        if (before != null && cfs.getCurrentMemtable() == before && !before.isClean())
            throw new IllegalStateException(
                    "TRUNCATE of "
                            + cfs.getKeyspaceName()
                            + "."
                            + cfs.getTableName()
                            + " did not happen: a compaction could not be stopped. Try again.");
    }

    /** When DROP has unloaded a table: its files are gone on return, readers permitting. */
    public static void afterUnload(ColumnFamilyStore cfs) {
        PetraMemtable table = current(cfs);
        if (table == null) return;
        TableStores stores = TableRegistry.of(cfs);
        if (table.generation().isLive()) {
            // Its schema names another memtable, for which Cassandra asked for a flush instead.
            logger.error("{} was not dropped with its table; it is now", table);
            FBUtilities.waitOnFuture(cfs.dumpMemtable());
        }
        TableRegistry.remove(cfs);
        try {
            if (!stores.awaitDisposed(DROP_PATIENCE))
                logger.warn(
                        "Table {} was dropped while it is still being read; its files go with its"
                                + " last reader",
                        stores.displayName());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            logger.warn("Interrupted while the files of {} are deleted", stores.displayName());
        }
    }

    /**
     * After a flush was asked for, which for an engine table does nothing by itself.
     *
     * @throws RuntimeException if what the caller relies on could not be done
     */
    public static void afterForceFlush(
            ColumnFamilyStore cfs, ColumnFamilyStore.FlushReason reason) {
        PetraMemtable table = current(cfs);
        if (table == null) return;
        switch (reason) {
            case USER_FORCED -> Verbs.flush(table);
            case DRAIN -> flushForDrain(table);
            // Cassandra goes on to delete what it read: a commit log, received files.
            case STARTUP, STREAMS_RECEIVED, INTERNALLY_FORCED, COMMITLOG_DIRTY ->
                    Verbs.syncLog(table);
            default -> {
                // The others want SSTables, to send, validate, index or snapshot them.
            }
        }
    }

    private static void flushForDrain(PetraMemtable table) {
        try {
            Verbs.syncLog(table);
            Verbs.flush(table);
        } catch (RuntimeException | FSError e) {
            // An exception would keep Cassandra from closing its own log. The store is synced once
            // more when it closes, and if that fails too its log is replayed at the next start.
            logger.error("Table {} could not be flushed for the drain", table, e);
        }
    }

    /**
     * Whether a snapshot leaves the memtable out, as {@code nodetool snapshot --skip-flush} asks.
     * An engine table has no data elsewhere, and needs no flush for a snapshot.
     */
    public static boolean snapshotSkipsMemtable(ColumnFamilyStore cfs, boolean skip) {
        return skip && current(cfs) == null;
    }

    // nodetool

    /** Compacts the whole table. True if that was done. */
    public static boolean compact(ColumnFamilyStore cfs) {
        return compact(cfs, List.of());
    }

    /** Compacts some ranges. True if that was done. */
    public static boolean compact(ColumnFamilyStore cfs, Collection<Range<Token>> ranges) {
        PetraMemtable table = current(cfs);
        if (table == null) return false;
        Verbs.compact(table, ranges);
        return true;
    }

    /** Compacts some ranges, given as text. True if that was done. */
    public static boolean compact(ColumnFamilyStore cfs, String[] ranges) {
        PetraMemtable table = current(cfs);
        if (table == null) return false;
        Verbs.compact(table, cfs, ranges);
        return true;
    }

    /** Verifies the table. Null if that is Cassandra's to do. */
    public static @Nullable AllSSTableOpStatus verify(
            ColumnFamilyStore cfs, IVerifier.Options options) {
        PetraMemtable table = current(cfs);
        return table == null ? null : Verbs.verify(table, options);
    }

    /**
     * Rewrites the table's files. Null if that is Cassandra's to do.
     *
     * @throws ExecutionException if that failed: {@code nodetool} takes an unchecked exception for
     *     success, it tries five times and then says nothing
     */
    public static @Nullable AllSSTableOpStatus rewrite(
            ColumnFamilyStore cfs, boolean onlyOldFormat, long newest) throws ExecutionException {
        PetraMemtable table = current(cfs);
        if (table == null) return null;
        try {
            return Verbs.rewrite(table, onlyOldFormat, newest);
        } catch (RuntimeException e) {
            throw new ExecutionException(e.getMessage(), e);
        }
    }

    /** Removes what was deleted, and what may go of the deletions. Null if that is Cassandra's. */
    public static @Nullable AllSSTableOpStatus garbageCollect(ColumnFamilyStore cfs) {
        return compact(cfs) ? AllSSTableOpStatus.SUCCESSFUL : null;
    }

    /** Removes what the node does not own. Null if that is Cassandra's to do. */
    public static @Nullable AllSSTableOpStatus cleanup(ColumnFamilyStore cfs) {
        PetraMemtable table = current(cfs);
        return table == null ? null : Verbs.cleanup(table, cfs);
    }

    /**
     * At the entry of a method that means nothing to an engine.
     *
     * @param method the method's name, one of {@link Refusal}
     * @throws UnsupportedOperationException for an engine table, naming it
     */
    public static void refuse(ColumnFamilyStore cfs, String method) {
        PetraMemtable table = current(cfs);
        if (table == null) return;
        Refusal refusal = Refusal.valueOf(method);
        throw Verbs.refused(table, refusal.verb(), refusal.reason());
    }

    /** {@link #refuse} for each of some tables, none meaning all of the keyspace. */
    public static void refuse(String keyspace, String[] tables, String method) {
        for (ColumnFamilyStore cfs :
                StorageService.instance.getValidColumnFamilies(true, true, keyspace, tables))
            refuse(cfs, method);
    }
}
