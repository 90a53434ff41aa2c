// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import dev.petra.cassandra.commitlog.LogReplay;
import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.index.StoreIndexes;
import dev.petra.cassandra.shadow.ShadowFactory;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.cassandra.table.Truncation;
import dev.petra.cassandra.table.Unfit;
import dev.petra.cassandra.table.WriteStalls;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.cache.CounterCacheKey;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.EmptyIterators;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.memtable.AbstractMemtableWithCommitlog;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.LazilyInitializedUnfilteredRowIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.index.transactions.UpdateTransaction;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.SSTableReadsListener;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.CacheService;
import org.apache.cassandra.tracing.Tracing;
import org.apache.cassandra.utils.NoSpamLogger;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A memtable that is the whole storage of its table: one generation in a storage engine. It is
 * never flushed to SSTables; {@link dev.petra.cassandra.migration.MigrateIn} and {@link
 * dev.petra.cassandra.migration.MigrateOut} take a table into the engine and out of it.
 *
 * <p>Cassandra finds this class by its name in {@code cassandra.yaml}:
 *
 * <pre>
 * memtable:
 *   configurations:
 *     rocks:
 *       class_name: dev.petra.cassandra.PetraMemtable
 *       parameters: {engine: rocks}
 * </pre>
 */
public final class PetraMemtable extends AbstractMemtableWithCommitlog implements EngineMemtable {
    private static final Logger logger = LoggerFactory.getLogger(PetraMemtable.class);

    private static final String ENGINE_MODE = "engine";
    private static final String SHADOW_MODE = "shadow";
    private static final String FALLBACK_MODE = "fallback";

    /** How often the log says that the replay of the commit log waits for a table. */
    private static final int REPLAY_LOG_SECONDS = 10;

    private final PetraMemtableFactory factory;
    private final ColumnFamilyStore owner;
    private final Generation generation;
    private volatile long departure;

    PetraMemtable(
            AtomicReference<CommitLogPosition> commitLogLowerBound,
            TableMetadataRef metadata,
            PetraMemtableFactory factory,
            ColumnFamilyStore owner,
            Generation generation) {
        super(metadata, commitLogLowerBound);
        this.factory = factory;
        this.owner = owner;
        this.generation = generation;
    }

    /**
     * The factory of one configuration; called by Cassandra.
     *
     * @param parameters of the configuration: {@code engine} and the engine's settings; {@code
     *     mode}, which is {@code engine}, or {@code shadow} for tables of Cassandra's own storage
     *     whose writes the engine gets as well, or {@code fallback} where it also answers reads.
     *     Emptied
     * @throws ConfigurationException if there is no such engine or mode, a setting is wrong, or the
     *     agent is missing
     */
    public static Memtable.Factory factory(Map<String, String> parameters) {
        // YAML may have read it as something else than a text.
        Object mode = ((Map<?, ?>) parameters).remove(ShadowFactory.MODE);
        return switch (mode == null ? ENGINE_MODE : mode.toString().trim()) {
            case ENGINE_MODE -> ofEngine(parameters);
            case SHADOW_MODE -> ofShadow(parameters, false);
            case FALLBACK_MODE -> ofShadow(parameters, true);
            default ->
                    throw new ConfigurationException(
                            ShadowFactory.MODE
                                    + " is '"
                                    + mode
                                    + "', but must be '"
                                    + ENGINE_MODE
                                    + "', '"
                                    + SHADOW_MODE
                                    + "' or '"
                                    + FALLBACK_MODE
                                    + "'");
        };
    }

    private static Memtable.Factory ofShadow(Map<String, String> parameters, boolean answers) {
        ShadowFactory factory = ShadowFactory.consume(parameters, answers);
        if (!DatabaseDescriptor.isDaemonInitialized()) return factory;
        // The tables are whole without it, and nothing calls a shadow then.
        if (AgentMissing.isSo())
            logger.error("Tables have no shadow on this node: {}", AgentMissing.reason());
        else {
            var unused = Engines.get(factory.engine());
        }
        return factory;
    }

    private static Memtable.Factory ofEngine(Map<String, String> parameters) {
        EngineKey engine = EngineKey.consume(parameters);
        // Offline tools read schemas as well; they need neither the engine nor the agent.
        if (!DatabaseDescriptor.isDaemonInitialized()) return new PetraMemtableFactory(engine);
        if (AgentMissing.isSo()) return AgentMissing.refuse();
        PetraMemtableFactory factory = new PetraMemtableFactory(engine);
        factory.open();
        return factory;
    }

    @Override
    public Generation generation() {
        return generation;
    }

    @Override
    public EngineKey engine() {
        return factory.engine();
    }

    // Data

    /**
     * A table on its way out of the engine is whole, and is read to build its indexes and views.
     */
    private void checkReadable() {
        if (departure == 0) Unfit.check(owner);
    }

    /**
     * Index entries are written with their row. The indexer would keep them in memory, and for
     * those that come with no indexer they are needed as well.
     *
     * <p>A record of the commit log that fails would end the start of the node. So while the log is
     * replayed, a record waits for as long as the store is stalled or its disk is full.
     */
    @Override
    public long put(PartitionUpdate update, UpdateTransaction indexer, OpOrder.Group opGroup) {
        Unfit.check(owner);
        trace("Writing {} operation(s) to storage engine {}", update.operationCount());
        indexer.start();
        try {
            if (LogReplay.isOver()) write(update);
            else WriteStalls.sitOut(() -> write(update), this::logThatReplayWaits);
        } catch (RuntimeException | Error e) {
            forgetCached(update);
            throw e;
        } finally {
            indexer.commit();
        }
        // Nothing was read, so there is no time between this write and an earlier one.
        return Long.MAX_VALUE;
    }

    /**
     * After a write that failed. Reads may see it all the same, as one whose sync has failed, and
     * Cassandra has the row cache forget the partition only after one that succeeds. And it has put
     * the new clocks of counters into the counter cache before, from which the next update would go
     * on.
     */
    private void forgetCached(PartitionUpdate update) {
        owner.invalidateCachedPartition(update.partitionKey());
        TableMetadata table = owner.metadata();
        if (!table.isCounter()) return;
        forgetCounters(table, update, update.staticRow());
        for (Row row : update) forgetCounters(table, update, row);
    }

    private static void forgetCounters(TableMetadata table, PartitionUpdate update, Row row) {
        for (Cell<?> cell : row.cells())
            if (cell.column().isCounterColumn())
                CacheService.instance.counterCache.remove(
                        CounterCacheKey.create(
                                table,
                                update.partitionKey().getKey(),
                                row.clustering(),
                                cell.column(),
                                cell.path()));
    }

    private void write(PartitionUpdate update) {
        StoreIndexes.write(owner, generation.writable(), update);
    }

    private void logThatReplayWaits(WriteStallException stall) {
        NoSpamLogger.log(
                logger,
                NoSpamLogger.Level.WARN,
                name(),
                REPLAY_LOG_SECONDS,
                TimeUnit.SECONDS,
                "The start of the node waits: the commit log has writes to {} that its store does"
                        + " not take now. The start goes on by itself when it does. {}",
                name(),
                stall.getMessage());
    }

    @Override
    public @Nullable UnfilteredRowIterator rowIterator(
            DecoratedKey key,
            Slices slices,
            ColumnFilter columns,
            boolean reversed,
            SSTableReadsListener listener) {
        checkReadable();
        TableStore store = generation.existing();
        trace("Reading {} slice(s) of a partition from storage engine {}", slices.size());
        return store == null ? null : store.read(key, slices, columns, reversed);
    }

    /**
     * Compaction asks by this whether a partition exists, and does not close what it gets: nothing
     * is opened before the first use.
     */
    @Override
    public @Nullable UnfilteredRowIterator rowIterator(DecoratedKey key) {
        checkReadable();
        TableStore store = generation.existing();
        return store == null || !store.mayContain(key) ? null : new LazyPartition(key, store);
    }

    private final class LazyPartition extends LazilyInitializedUnfilteredRowIterator {
        private final TableStore store;

        LazyPartition(DecoratedKey key, TableStore store) {
            super(key);
            this.store = store;
        }

        @Override
        protected UnfilteredRowIterator initializeIterator() {
            // Not this iterator's metadata(), which would ask here again.
            TableMetadata table = PetraMemtable.this.metadata();
            UnfilteredRowIterator rows =
                    store.read(partitionKey(), Slices.ALL, ColumnFilter.all(table), false);
            return rows == null ? EmptyIterators.unfilteredRow(table, partitionKey(), false) : rows;
        }
    }

    @Override
    public UnfilteredPartitionIterator partitionIterator(
            ColumnFilter columns, DataRange range, SSTableReadsListener listener) {
        checkReadable();
        TableStore store = generation.existing();
        trace("Scanning {} of storage engine {}", range.keyRange());
        return store == null
                ? EmptyIterators.unfilteredPartition(metadata())
                : store.scan(range, columns);
    }

    private void trace(String message, Object what) {
        if (Tracing.isTracing()) Tracing.trace(message, what, factory.engine().engine());
    }

    // What Cassandra concludes from metrics: always on the side that keeps data and tombstones

    /** As low as there is: no compaction may drop a tombstone that still shadows something here. */
    @Override
    public long getMinTimestamp() {
        return generation.isEmpty() ? NO_MIN_TIMESTAMP : Long.MIN_VALUE;
    }

    @Override
    public long getMinLocalDeletionTime() {
        return generation.isEmpty() ? Long.MAX_VALUE : 0;
    }

    @Override
    public boolean isClean() {
        return generation.isEmpty();
    }

    /** At least 1 where there is data, also from before the node started. */
    @Override
    public long operationCount() {
        return generation.isEmpty()
                ? 0
                : Math.max(1, generation.statistic(StoreStatistics::writes));
    }

    @Override
    public long partitionCount() {
        return generation.estimates().partitions();
    }

    /**
     * Cassandra adds this to what it finds on disk, where all that is in files is found already. It
     * asks all tables in turn, on a thread that much of it waits for, and that waits for no store.
     */
    @Override
    public long getLiveDataSize() {
        return generation.statistic(StoreStatistics::memoryBytes);
    }

    /** The engine's memory is its own, so that this never makes Cassandra look for it to flush. */
    @Override
    public void addMemoryUsageTo(MemoryUsage usage) {
        usage.ownsOffHeap += generation.statistic(StoreStatistics::memoryBytes);
    }

    @Override
    public void markExtraOnHeapUsed(long additionalSpace, OpOrder.Group opGroup) {
        throw indexesNotSupported();
    }

    @Override
    public void markExtraOffHeapUsed(long additionalSpace, OpOrder.Group opGroup) {
        throw indexesNotSupported();
    }

    private UnsupportedOperationException indexesNotSupported() {
        return new UnsupportedOperationException(
                "Table " + name() + " is in a storage engine: it keeps its indexes there.");
    }

    // Life cycle

    /**
     * True only when the schema takes the table out of its engine. What another reason asks for is
     * done where the reason arises: SNAPSHOT is followed by {@link #performSnapshot}, a flush by
     * {@code TableHooks.afterForceFlush}, and TRUNCATE and DROP do not ask but replace the
     * memtable.
     */
    @Override
    public boolean shouldSwitch(ColumnFamilyStore.FlushReason reason) {
        if (reason != ColumnFamilyStore.FlushReason.SCHEMA_CHANGE
                || PetraMemtableFactory.owns(metadata())) return false;
        try {
            synchronized (owner.getTracker()) {
                // TRUNCATE came first: the memtable that it made is asked by OverdueSwitches.
                if (owner.getCurrentMemtable() != this) return false;
                // Durable before anything can be written elsewhere.
                departure = generation.stores().migration().begin(factory.configuration());
            }
            return true;
        } catch (RuntimeException | FSError e) {
            NoSpamLogger.log(
                    logger,
                    NoSpamLogger.Level.ERROR,
                    "migration out of " + name(),
                    1,
                    TimeUnit.HOURS,
                    "Table {} cannot be migrated out of {} now. This is tried again within half a"
                            + " minute, and when the node is restarted.",
                    name(),
                    factory.engine(),
                    e);
            return false;
        }
    }

    @Override
    public long departure() {
        return departure;
    }

    /**
     * From now on this stands for what is left of a table in its engine, which leaves by that
     * migration.
     */
    void departBy(long migration) {
        departure = migration;
    }

    /**
     * The engine reads the table's metadata at each call. A migration to an engine with other
     * settings is refused as a statement; this is for one that came from a node which does not
     * refuse it.
     */
    @Override
    public void metadataUpdated() {
        Unfit.logIfSo(owner);
        StoreIndexes.dropFormer(owner);
        Memtable.Factory wanted = metadata().params.memtable.factory();
        if (wanted instanceof PetraMemtableFactory && !factory.equals(wanted))
            NoSpamLogger.log(
                    logger,
                    NoSpamLogger.Level.ERROR,
                    1,
                    TimeUnit.HOURS,
                    "Table {} stays in {} although its schema now says memtable '{}', which is an"
                        + " engine with other settings and was set by another node. Alter it back,"
                        + " or to a memtable of Cassandra's first.",
                    name(),
                    factory.engine(),
                    metadata().params.memtable.configurationKey());
    }

    /** Token ranges do not show in a store. */
    @Override
    public void localRangesUpdated() {}

    /**
     * Copies the data into a snapshot. When the table is being dropped this does not throw: that
     * would leave the schema half applied. The data is then kept.
     */
    @Override
    public void performSnapshot(String tag) {
        try {
            generation.stores().snapshot(generation, tag);
        } catch (RuntimeException | Error e) {
            // A user's own snapshot fails, though the table is being dropped meanwhile.
            if (!TableRegistry.isBeingDropped(owner) || !isOfDrop(tag)) throw e;
            logger.error(
                    "Snapshot '{}' of {}, which is being dropped, failed; the table's data is"
                            + " kept, not deleted",
                    tag,
                    name(),
                    e);
            generation.stores().keepInsteadOfDeleting(generation, tag);
        }
    }

    /** By its name, of {@code Keyspace.getTimestampedSnapshotNameWithPrefix}. */
    private static boolean isOfDrop(String tag) {
        return tag.startsWith(ColumnFamilyStore.SNAPSHOT_DROP_PREFIX + "-");
    }

    /**
     * When the table leaves the engine, the barrier alone decides: a write from before it goes to
     * the store, which is durable by itself. Its position may be that of other tables, which the
     * commit log has of the same mutation: behind the bound it would send a row to the next
     * memtable, Cassandra's, that is in no log. Other switches are TRUNCATE and DROP, whose next
     * memtable is an engine's; what is logged behind the bound of a TRUNCATE is replayed, and must
     * not go with the old generation.
     */
    @Override
    public boolean accepts(OpOrder.Group group, @Nullable CommitLogPosition position) {
        return super.accepts(group, departure != 0 ? null : position);
    }

    @Override
    public void switchOut(
            OpOrder.Barrier writeBarrier, AtomicReference<CommitLogPosition> upperBound) {
        // TRUNCATE ends the generation; other switches keep the data.
        if (Truncation.isRunning()) {
            end();
            // A migration out ends, too: what it would write to SSTables is truncated.
            departure = 0;
        }
        super.switchOut(writeBarrier, upperBound);
    }

    /** Does nothing where the table's next memtable is an engine's, which has ended this one. */
    private void end() {
        TableGenerations stores = generation.stores();
        if (!TableRegistry.isBeingDropped(owner)) {
            if (!stores.retire(generation)) return;
            EngineMemtables.forgetAll(owner, generation);
            TableRegistry.remove(owner);
        } else if (!stores.isDropped()) stores.drop();
    }

    @Override
    public void discard() {
        super.discard();
        generation.discard();
    }

    @Override
    public FlushablePartitionSet<?> getFlushSet(PartitionPosition from, PartitionPosition to) {
        throw new UnsupportedOperationException(
                "Table "
                        + name()
                        + " leaves "
                        + factory.engine()
                        + " by MigrateOut, not by a flush.");
    }

    private String name() {
        return generation.stores().displayName();
    }

    @Override
    public String toString() {
        return "PetraMemtable(" + generation + ")";
    }
}
