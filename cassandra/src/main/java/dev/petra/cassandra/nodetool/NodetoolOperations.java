// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.nodetool;

import dev.petra.cassandra.host.Host;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.cassandra.table.TokenRange;
import dev.petra.engine.TableStore;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.compaction.CompactionManager.AllSSTableOpStatus;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.IVerifier;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.JVMStabilityInspector;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What {@code nodetool} asks of an engine table: done by the engine, or refused by name.
 *
 * <p>Exceptions cross JMX to a {@code nodetool} that has none of our classes, so they are of types
 * that it knows and carry their whole meaning in the message.
 */
public final class NodetoolOperations {
    private static final Logger logger = LoggerFactory.getLogger(NodetoolOperations.class);

    private NodetoolOperations() {}

    /** {@code nodetool flush}. */
    public static void flush(EngineMemtable table) {
        run(table, "flush", TableStore::flush);
    }

    /** Makes everything written durable, for whatever would otherwise rely on a flush. */
    public static void syncLog(EngineMemtable table) {
        run(table, "sync of the log", TableStore::syncLog);
    }

    /**
     * {@code nodetool compact}.
     *
     * @param ranges empty for the whole table; wrapping ones are unwrapped
     */
    public static void compact(EngineMemtable table, Collection<Range<Token>> ranges) {
        List<Range<Token>> unwrapped = new ArrayList<>();
        ranges.forEach(range -> unwrapped.addAll(range.unwrap()));
        run(table, "compact", store -> store.compact(unwrapped));
    }

    /**
     * {@code nodetool garbagecollect}.
     *
     * @param sweep of the indexes; not called where nothing was ever written
     */
    public static void garbageCollect(EngineMemtable table, Runnable sweep) {
        run(table, "garbagecollect", store -> store.collectGarbage(sweep));
    }

    /** {@code nodetool compact -st -et} in its JMX form, {@code left:right}. */
    public static void compact(EngineMemtable table, ColumnFamilyStore cfs, String... ranges) {
        List<Range<Token>> parsed = new ArrayList<>();
        for (String range : ranges) parsed.add(TokenRange.parse(cfs.getPartitioner(), range));
        if (parsed.isEmpty())
            throw new IllegalArgumentException("No token range was given, as <left>:<right>.");
        compact(table, parsed);
    }

    /**
     * {@code nodetool verify}: every block against its checksum; with {@code --extended-verify}
     * every entry as well, and with {@code --check-tokens} whether the node owns it.
     */
    public static AllSSTableOpStatus verify(
            EngineMemtable table, ColumnFamilyStore cfs, IVerifier.Options options) {
        if (options.checkVersion || options.mutateRepairStatus)
            throw refused(
                    table,
                    "verify --check-version and --rsc",
                    "its files have neither a version of Cassandra's nor a repair status");
        run(
                table,
                "verify",
                store -> {
                    store.verify();
                    if (options.extendedVerification) readAll(store, cfs.metadata());
                    if (options.checkOwnsTokens) checkTokens(store, cfs);
                });
        return AllSSTableOpStatus.SUCCESSFUL;
    }

    private static void readAll(TableStore store, TableMetadata metadata) {
        try (UnfilteredPartitionIterator partitions =
                store.scanAside(
                        DataRange.allData(metadata.partitioner),
                        ColumnFilter.all(metadata),
                        () -> {})) {
            while (partitions.hasNext())
                try (UnfilteredRowIterator partition = partitions.next()) {
                    while (partition.hasNext()) partition.next();
                }
        }
    }

    private static void checkTokens(TableStore store, ColumnFamilyStore cfs) {
        TableMetadata metadata = cfs.metadata();
        Token least = metadata.partitioner.getMinimumToken();
        List<Range<Token>> owned = Range.normalize(ranges(cfs));
        Token from = least;
        if (owned.isEmpty()) checkEmpty(store, metadata, DataRange.allData(metadata.partitioner));
        for (Range<Token> range : owned) {
            if (!from.equals(range.left))
                checkEmpty(store, metadata, DataRange.forTokenRange(new Range<>(from, range.left)));
            from = range.right;
        }
        // The least token ends the ring as well.
        if (!from.equals(least))
            checkEmpty(store, metadata, DataRange.forTokenRange(new Range<>(from, least)));
    }

    private static void checkEmpty(TableStore store, TableMetadata metadata, DataRange range) {
        try (UnfilteredPartitionIterator partitions =
                store.scan(range, ColumnFilter.all(metadata))) {
            while (partitions.hasNext())
                try (UnfilteredRowIterator partition = partitions.next()) {
                    if (!partition.isEmpty())
                        throw new IllegalStateException(
                                "it holds partition "
                                        + metadata.partitionKeyType.getString(
                                                partition.partitionKey().getKey())
                                        + ", whose token "
                                        + partition.partitionKey().getToken()
                                        + " this node does not own. If the ring is as it should"
                                        + " be, 'nodetool cleanup' removes it.");
                }
        }
    }

    /** What this node owns, unwrapped, in no certain order. */
    private static List<Range<Token>> ranges(ColumnFamilyStore cfs) {
        List<Range<Token>> owned = new ArrayList<>();
        StorageService.instance
                .getLocalReplicas(cfs.getKeyspaceName())
                .ranges()
                .forEach(range -> owned.addAll(range.unwrap()));
        return owned;
    }

    /**
     * {@code nodetool upgradesstables} and {@code recompress_sstables}.
     *
     * @param onlyOldFormat without {@code -a}; there is none: a store is of the newest format once
     *     it is open
     * @param newest what is not newer, in milliseconds since 1970; only without a limit
     */
    public static AllSSTableOpStatus rewrite(
            EngineMemtable table, boolean onlyOldFormat, long newest) {
        if (newest != Long.MAX_VALUE)
            throw refused(
                    table,
                    "upgradesstables with --max-timestamp",
                    "its files are rewritten all or none");
        if (!onlyOldFormat) run(table, "upgradesstables", TableStore::rewrite);
        return AllSSTableOpStatus.SUCCESSFUL;
    }

    /** {@code nodetool cleanup}. */
    public static AllSSTableOpStatus cleanup(EngineMemtable table, ColumnFamilyStore cfs) {
        String keyspace = cfs.getKeyspaceName();
        StorageService service = StorageService.instance;
        if (!service.isJoined())
            throw refused(
                    table,
                    "cleanup",
                    "the node has not joined the ring, so that it is not known what it owns");
        if (Host.current().hasPendingRanges(keyspace)) {
            logger.info(
                    "Cleanup of {} cannot run while the node has pending ranges",
                    table.generation().stores().displayName());
            return AllSSTableOpStatus.ABORTED;
        }
        List<Range<Token>> owned = ranges(cfs);
        StreamGuards streams = table.generation().stores().streams();
        Runnable stillOwned =
                () -> {
                    if (!Host.current().hasPendingRanges(keyspace)
                            && Set.copyOf(ranges(cfs)).equals(Set.copyOf(owned))) return;
                    throw new IllegalStateException(
                            "the ranges of the node changed while it waited for the store, and"
                                    + " nothing was removed. Try again when no node joins, leaves"
                                    + " or moves.");
                };
        run(
                table,
                "cleanup",
                store -> streams.cleanup(owned, () -> store.retainRanges(owned, stillOwned)));
        cfs.cleanupCache();
        return AllSSTableOpStatus.SUCCESSFUL;
    }

    /** The error of an operation that an engine does not support, or not yet. */
    public static UnsupportedOperationException refused(
            EngineMemtable table, String verb, String reason) {
        return new UnsupportedOperationException(
                verb
                        + " cannot be done on table "
                        + table.generation().stores().displayName()
                        + ", which is in storage engine '"
                        + table.engine().engine()
                        + "': "
                        + reason
                        + ". For the other tables of the keyspace, name them in the command.");
    }

    private static void run(EngineMemtable table, String verb, Consumer<TableStore> work) {
        String name = table.generation().stores().displayName();
        try {
            TableStore store = table.generation().existing();
            // Nothing was ever written, so there is nothing to do.
            if (store != null) work.accept(store);
            TableRegistry.countDiskSpace(name);
            table.generation().filesChanged();
        } catch (UnsupportedOperationException e) {
            throw refused(table, verb, String.valueOf(e.getMessage()));
        } catch (RuntimeException e) {
            logger.error("{} of {} failed", verb, name, e);
            throw new RuntimeException(verb + " of " + name + " failed: " + e.getMessage());
        } catch (FSError e) {
            JVMStabilityInspector.inspectThrowable(e);
            throw e;
        }
    }
}
