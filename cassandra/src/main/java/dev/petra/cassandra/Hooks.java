// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import com.codahale.metrics.Gauge;
import com.google.common.collect.Iterables;
import com.google.common.collect.Ordering;
import dev.petra.engine.RangeEstimate;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.concurrent.ScheduledExecutors;
import org.apache.cassandra.config.CassandraRelevantProperties;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
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
import org.apache.cassandra.schema.SchemaConstants;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.streaming.TableStreamManager;
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

    /** How long DROP, which holds up the schema, waits for its files to be deleted. */
    private static final Duration DROP_PATIENCE = Duration.ofSeconds(5);

    /** How often Cassandra's metrics are told how large the tables are, besides after each verb. */
    private static final int DISK_SPACE_SECONDS = 10;

    private Hooks() {}

    private static @Nullable PetraMemtable current(ColumnFamilyStore cfs) {
        // No tracker: the table is still under construction. No memtable: an offline tool.
        if (cfs.getTracker() == null || !DatabaseDescriptor.isDaemonInitialized()) return null;
        return cfs.getCurrentMemtable() instanceof PetraMemtable memtable ? memtable : null;
    }

    /** As {@link #current}, also if only a part of the data is still in the engine. */
    private static @Nullable PetraMemtable any(ColumnFamilyStore cfs) {
        PetraMemtable table = current(cfs);
        return table != null || !DatabaseDescriptor.isDaemonInitialized()
                ? table
                : Moves.departing(cfs);
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
        if (!TableRegistry.isEmpty()) Allocator.check();
        Moves.start();
        if (DatabaseDescriptor.isIncrementalBackupsEnabled() && !TableRegistry.isEmpty())
            logger.warn(
                    "incremental_backups does not include the tables in storage engines: take"
                            + " snapshots of them");
        if (LogArchive.isConfigured() && !TableRegistry.isEmpty())
            logger.warn(
                    "The commit logs that commitlog_archiving.properties archives or restores do"
                            + " not include the tables in storage engines: take and restore"
                            + " snapshots of them");
        every(DISK_SPACE_SECONDS, TableRegistry::countDiskSpace);
        every(1, StreamPeers::publish);
        List<Path> directories = new ArrayList<>();
        for (String directory : DatabaseDescriptor.getNonLocalSystemKeyspacesDataFileLocations())
            directories.add(Path.of(directory));
        try {
            OrphanStores.remove(
                    StartupCheck.tableDirectories(directories),
                    id -> Schema.instance.getTableMetadata(id) != null,
                    schemaDoubt(),
                    OrphanStores.ttl(),
                    FBUtilities.now());
        } catch (IOException e) {
            logger.error("The data directories cannot be searched for stores of dropped tables", e);
        }
    }

    private static void every(int seconds, Runnable task) {
        var unused =
                ScheduledExecutors.optionalTasks.scheduleWithFixedDelay(
                        task, 0, seconds, TimeUnit.SECONDS);
    }

    private static @Nullable String schemaDoubt() {
        if (Schema.instance.getUserKeyspaces().isEmpty()) return "the schema has no tables at all";
        // A crash while the tables of the schema are flushed leaves tables without columns.
        return CassandraRelevantProperties.IGNORE_CORRUPTED_SCHEMA_TABLES.getBoolean()
                ? "the node leaves out what it cannot read of the schema"
                : null;
    }

    /** What {@code nodetool compactionstats} shows. The engines' work is added. */
    public static void compactions(List<Map<String, String>> shown) {
        Activity.addTo(shown);
    }

    /** Before {@code nodetool stop} ends Cassandra's own. */
    public static void stopCompactions(String type) {
        Activity.stop(type);
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
        if (!stock || current(cfs) == null) return stock;
        return !ReplayPlan.isMade() && Moves.areWritesOurs(cfs);
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
     * When a table was opened. Data that is in an engine although the table belongs elsewhere now,
     * by its schema or by {@code cassandra.yaml}, is moved out.
     *
     * @throws IllegalStateException while the node starts, if there is such data and it cannot be
     *     read, or it is not known whether it belongs there: the table would look empty
     */
    public static void afterOpen(ColumnFamilyStore cfs) {
        TableMetadata table = cfs.metadata.get();
        if (!DatabaseDescriptor.isDaemonInitialized()
                || table.isIndex()
                || PetraMemtableFactory.owns(table)
                || table.params.memtable.factory() instanceof AgentMissing) return;
        bringBack(cfs);
        for (Path directory : TableRegistry.directories(cfs)) {
            StoreDirectory store = new StoreDirectory(directory, Disk.REAL);
            MoveMark mark = store.moveMark();
            if (mark == null && !store.holdsData()) continue;
            if (store.isKept()) {
                logger.error(
                        "{} has data of a dropped table that could not be moved to a snapshot, and"
                                + " table {} has its id; it is left alone",
                        directory,
                        cfs);
                continue;
            }
            PetraMemtableFactory reader = readerOf(table, mark);
            if (reader != null) TableRegistry.resumeDeparture(cfs, reader);
            else cannotBeRead(table, store);
        }
    }

    private static void bringBack(ColumnFamilyStore cfs) {
        try {
            OrphanStores.bringBack(TableRegistry.directories(cfs));
        } catch (RuntimeException | FSError e) {
            // As in cannotBeRead.
            if (!StorageService.instance.isDaemonSetupCompleted()) throw e;
            logger.error("Table {} may have data in a storage engine that it lacks", cfs, e);
        }
    }

    /**
     * By which configuration a store is read whose table is not the engine's. Null if what the
     * schema names is missing in {@code cassandra.yaml}: then the table may well be the engine's.
     */
    private static @Nullable PetraMemtableFactory readerOf(
            TableMetadata table, @Nullable MoveMark mark) {
        if (!PetraMemtableFactory.isConfigured(table.params.memtable.configurationKey()))
            return null;
        PetraMemtableFactory marked =
                mark == null ? null : PetraMemtableFactory.named(mark.configuration());
        return marked != null ? marked : PetraMemtableFactory.any();
    }

    private static void cannotBeRead(TableMetadata table, StoreDirectory store) {
        String message =
                "Table "
                        + table
                        + " has its data in a storage engine, in "
                        + store
                        + ", but its memtable configuration '"
                        + table.params.memtable.configurationKey()
                        + "' is not in cassandra.yaml of this node, which would show an empty"
                        + " table. Add that configuration, with the class "
                        + PetraMemtable.class.getName()
                        + ", or move the directory away.";
        if (!StorageService.instance.isDaemonSetupCompleted())
            throw new IllegalStateException(message);
        // Throwing here would leave the schema half applied on this node.
        logger.error(message);
    }

    /**
     * When a memtable is to be flushed to SSTables, and no write goes to it any more. One of a
     * system table may say of writes to an engine that they are done: these are synced first.
     *
     * @return whether that is done otherwise: what is in an engine goes by {@link MoveOut}, which
     *     neither keeps the flushes of other tables waiting nor begins anew after a crash
     */
    public static boolean flushMemtable(ColumnFamilyStore cfs, Memtable memtable) {
        if (cfs.metadata.keyspace.equals(SchemaConstants.SYSTEM_KEYSPACE_NAME))
            CommitLogOrder.beforeFlush(Engines.opened());
        if (!(memtable instanceof PetraMemtable table) || table.departure() == 0) return false;
        Moves.begin(new MoveOut(cfs, table.generation().stores(), table.departure(), table));
        return true;
    }

    // Data

    /**
     * Before a mutation is appended to the commit log, in the write's group of {@code
     * Keyspace.writeOrder}. While a memtable of Cassandra's is alive beside the engine's, the write
     * may go to either, so it goes to the log as well.
     *
     * @return its position, or null if Cassandra is to append what the tables' configurations say
     */
    public static @Nullable CommitLogPosition logInstead(Mutation mutation) {
        boolean moving = false;
        for (PartitionUpdate update : mutation.getPartitionUpdates())
            moving |= owns(update) && !skipsLog(update);
        if (!moving) return null;
        Set<TableId> skipping = new HashSet<>();
        for (PartitionUpdate update : mutation.getPartitionUpdates())
            if (owns(update) && skipsLog(update)) skipping.add(update.metadata().id);
        // The last flush may just have ended.
        return skipping.containsAll(mutation.getTableIds())
                ? null
                : CommitLog.instance.add(mutation.without(skipping));
    }

    private static boolean owns(PartitionUpdate update) {
        return PetraMemtableFactory.owns(update.metadata());
    }

    private static boolean skipsLog(PartitionUpdate update) {
        ColumnFamilyStore cfs = ColumnFamilyStore.getIfExists(update.metadata().id);
        return cfs == null || Moves.areWritesOurs(cfs);
    }

    /**
     * When the records of a section of the commit log are complete, and before they are made valid.
     *
     * @throws org.apache.cassandra.io.FSError if an engine cannot sync what they rely on
     */
    public static void beforeCommitLogMarker() {
        CommitLogOrder.beforeMarker(Engines::opened);
    }

    /**
     * Before a mutation is applied. Checks what the commit log would have checked, if it skips it.
     *
     * @throws org.apache.cassandra.exceptions.MutationExceededMaxSizeException if it is too large
     */
    public static void beforeWrite(Mutation mutation, boolean durable) {
        if (!durable) return;
        CommitLogOrder.note(mutation);
        for (PartitionUpdate update : mutation.getPartitionUpdates()) {
            if (!owns(update)) continue;
            // Computed once per mutation; the coordinator and the verb handler ask for it as well.
            mutation.validateSize(
                    MessagingService.current_version, CommitLogSegment.ENTRY_OVERHEAD_SIZE);
            return;
        }
    }

    /**
     * Before a read on this node. What is in an engine is in no index and in no view, so that they
     * would show less than there is, and never ask the table.
     *
     * @throws RuntimeException for an index of an engine table, or a view of one
     */
    public static void beforeRead(ReadCommand command) {
        TableMetadata table = command.metadata();
        if (!table.indexes.isEmpty() || table.isView())
            Unfit.checkRead(table, command.indexQueryPlan() != null);
    }

    /** Instead of Cassandra's streams. */
    public static TableStreamManager streamManager(
            ColumnFamilyStore cfs, TableStreamManager stock) {
        PetraMemtable table = any(cfs);
        return table == null ? stock : new PetraStreamManager(cfs, table, stock);
    }

    /** Instead of Cassandra's repairs. */
    public static TableRepairManager repairManager(
            ColumnFamilyStore cfs, TableRepairManager stock) {
        PetraMemtable table = any(cfs);
        return table == null ? stock : new PetraRepairManager(cfs, table, stock);
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

    /** What Cassandra estimates of a table's partitions, and the engine's. Never blocks. */
    public static long estimateKeys(ColumnFamilyStore cfs, long stock) {
        PetraMemtable table = current(cfs);
        return table == null ? stock : stock + table.generation().estimates().knownPartitions();
    }

    /**
     * How many cells a partition has on average. Never blocks: the coordinator of a range read
     * decides by it how many replicas it asks at a time.
     *
     * @param stock of Cassandra's own part of the table, 0 if it has none
     */
    public static int meanCellsPerPartition(ColumnFamilyStore cfs, int stock) {
        PetraMemtable table = current(cfs);
        if (table == null || stock != 0) return stock;
        PartitionSample sample = table.generation().estimates().knownSample();
        return sample.isEmpty() ? 0 : (int) Math.min(Integer.MAX_VALUE, sample.cells().mean());
    }

    /** How many partitions lie in a range. */
    public static long estimatedKeysForRange(
            ColumnFamilyStore cfs, Range<Token> range, long stock) {
        PetraMemtable table = current(cfs);
        return table == null ? stock : stock + Verbs.estimate(table, range).partitions();
    }

    /** Some keys of a range. */
    public static Iterable<DecoratedKey> keySamples(
            ColumnFamilyStore cfs, Range<Token> range, Iterable<DecoratedKey> stock) {
        PetraMemtable table = current(cfs);
        if (table == null) return stock;
        return Iterables.concat(
                stock, table.generation().measure(store -> KeySamples.of(store, range), List.of()));
    }

    /**
     * What the engine has in a range that auto-repair is about to split by what Cassandra has.
     *
     * @return how many partitions, and how many bytes
     */
    public static long[] repairEstimate(String keyspace, String table, Range<Token> range) {
        ColumnFamilyStore cfs = ColumnFamilyStore.getIfExists(keyspace, table);
        PetraMemtable ours = cfs == null ? null : current(cfs);
        if (ours == null) return new long[2];
        RangeEstimate estimate = Verbs.estimate(ours, range);
        return new long[] {
            estimate.partitions(), estimate.partitions() * estimate.meanPartitionBytes()
        };
    }

    /**
     * Around {@code nodetool import} and {@code refresh}: what comes is live at once, and moved
     * into the store. Called before and after.
     */
    public static void importing(ColumnFamilyStore cfs) {
        if (current(cfs) != null) TableRegistry.moveIn(cfs);
    }

    /**
     * Instead of a gauge of a table that Cassandra is about to register.
     *
     * @param table as keyspace.columnfamily
     */
    public static <T> Gauge<T> gauge(String table, String name, Gauge<T> stock) {
        return TableGauges.over(table, name, stock);
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
        if (table == null) return;
        table.generation().stores().countTruncation();
        // With auto_snapshot off Cassandra has already dropped it, before it came here.
        // One without rows may have parts that are about to come into it.
        if (!table.isClean() || table.generation().hasStore())
            FBUtilities.waitOnFuture(cfs.dumpMemtable());
    }

    /**
     * When TRUNCATE begins; what it returns is for {@link #afterTruncate}.
     *
     * @return what to give that method: how many there were before, or -1 outside of an engine
     * @throws IllegalStateException while the table is being moved: a crash between the end of the
     *     SSTables and that of the store would leave one without the other
     */
    public static long beforeTruncate(ColumnFamilyStore cfs) {
        TableStores stores = TableRegistry.find(cfs);
        if (stores != null && stores.isMoving())
            throw new IllegalStateException(
                    "TRUNCATE of "
                            + stores.displayName()
                            + " cannot be done while the table is being moved into a storage engine"
                            + " or out of it: see petra.moves, and try again when that is over.");
        return stores == null ? -1 : stores.truncations();
    }

    /**
     * When TRUNCATE would report success.
     *
     * @throws IllegalStateException if it has not happened: Cassandra gives up without a word when
     *     it cannot stop a compaction. Or if that is not known: of a table that left its engine
     *     meanwhile there may be rows in SSTables that are newer than those which it removes
     */
    public static void afterTruncate(ColumnFamilyStore cfs, long before) {
        TableStores stores = TableRegistry.find(cfs);
        if (stores == null && before >= 0)
            throw new IllegalStateException(
                    "TRUNCATE of "
                            + cfs.getKeyspaceName()
                            + "."
                            + cfs.getTableName()
                            + " may not have removed all: the table was moved out of its storage"
                            + " engine, or dropped, meanwhile. Try again.");
        if (stores != null && stores.truncations() == Math.max(0, before))
            throw new IllegalStateException(
                    "TRUNCATE of "
                            + cfs.getKeyspaceName()
                            + "."
                            + cfs.getTableName()
                            + " did not happen: a compaction could not be stopped. Try again.");
    }

    /**
     * Up to where the commit log is not replayed for a table, when Cassandra notes it.
     *
     * @param position what Cassandra would note; after TRUNCATE it may be from before the table was
     *     moved into its engine, and what was logged on the way would come back
     */
    public static CommitLogPosition truncationPosition(
            ColumnFamilyStore cfs, CommitLogPosition position) {
        PetraMemtable table = any(cfs);
        if (table == null) return position;
        CommitLogPosition noted = SystemKeyspace.getTruncatedPosition(cfs.metadata.id);
        CommitLogPosition latest =
                noted == null ? position : Ordering.natural().max(position, noted);
        // While it is moved, what was logged before may be in a memtable of Cassandra's alone.
        return table.generation().stores().isMoving()
                ? latest
                : Ordering.natural().max(latest, table.getCommitLogLowerBound());
    }

    /** When DROP has unloaded a table: its files are gone on return, readers permitting. */
    public static void afterUnload(ColumnFamilyStore cfs) {
        TableStores stores = TableRegistry.find(cfs);
        if (stores == null) return;
        PetraMemtable departing = Moves.departing(cfs);
        if (current(cfs) != null) {
            // While the table is being moved Cassandra asks for a flush instead.
            if (stores.current().isLive()) FBUtilities.waitOnFuture(cfs.dumpMemtable());
        } else if (departing != null && TableRegistry.dropDeparting(cfs)) {
            Moves.awaitStep(stores, DROP_PATIENCE);
            cfs.getTracker().replaceFlushed(departing, List.of());
            departing.generation().discard();
        }
        TableRegistry.remove(cfs);
        try {
            if (!stores.awaitDisposed(DROP_PATIENCE))
                logger.warn(
                        "The files of {}, which was dropped, are not yet deleted; they go with the"
                                + " table's last reader",
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

    /**
     * Before a snapshot. What is on its way out of an engine goes with it, and nothing is moved
     * until {@link #snapshotEnds}.
     *
     * @return what to give that method
     */
    public static @Nullable Object snapshotBegins(ColumnFamilyStore cfs, String tag) {
        TableStores stores = TableRegistry.find(cfs);
        if (stores == null) return null;
        stores.lockContent();
        try {
            PetraMemtable departing = current(cfs) == null ? Moves.departing(cfs) : null;
            if (departing != null) departing.performSnapshot(tag);
            return stores;
        } catch (RuntimeException | Error e) {
            stores.unlockContent();
            throw e;
        }
    }

    /** The end of {@link #snapshotBegins}, also after an exception in between. */
    public static void snapshotEnds(@Nullable Object begun) {
        if (begun instanceof TableStores stores) stores.unlockContent();
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
        return isWhole(cfs);
    }

    /** Compacts some ranges, given as text. True if that was done. */
    public static boolean compact(ColumnFamilyStore cfs, String[] ranges) {
        PetraMemtable table = current(cfs);
        if (table == null) return false;
        Verbs.compact(table, cfs, ranges);
        return isWhole(cfs);
    }

    /** Whether the engine has all of the table's data; else Cassandra does its part as well. */
    private static boolean isWhole(ColumnFamilyStore cfs) {
        return cfs.getLiveSSTables().isEmpty();
    }

    private static @Nullable AllSSTableOpStatus result(
            ColumnFamilyStore cfs, AllSSTableOpStatus engines) {
        return engines == AllSSTableOpStatus.SUCCESSFUL && !isWhole(cfs) ? null : engines;
    }

    /** Verifies the table. Null if that is Cassandra's to do. */
    public static @Nullable AllSSTableOpStatus verify(
            ColumnFamilyStore cfs, IVerifier.Options options) {
        PetraMemtable table = current(cfs);
        return table == null ? null : result(cfs, Verbs.verify(table, cfs, options));
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
            return result(cfs, Verbs.rewrite(table, onlyOldFormat, newest));
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
        return table == null ? null : result(cfs, Verbs.cleanup(table, cfs));
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
}
