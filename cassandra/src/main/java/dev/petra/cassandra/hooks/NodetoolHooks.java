// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.index.IndexSweeps;
import dev.petra.cassandra.nodetool.CompactionActivity;
import dev.petra.cassandra.nodetool.NodetoolOperations;
import dev.petra.cassandra.nodetool.UnsupportedOperation;
import dev.petra.cassandra.shadow.Shadows;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.CompactionManager.AllSSTableOpStatus;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.IVerifier;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Join points behind {@code nodetool}. */
public final class NodetoolHooks {
    private static final Logger logger = LoggerFactory.getLogger(NodetoolHooks.class);

    private NodetoolHooks() {}

    /** What {@code nodetool compactionstats} shows. The engines' work is added. */
    public static void compactions(List<Map<String, String>> shown) {
        CompactionActivity.addTo(shown);
    }

    /** Before {@code nodetool stop} ends Cassandra's own. */
    public static void stopCompactions(String type) {
        CompactionActivity.stop(type);
    }

    /** After {@code nodetool setcompactionthroughput}. */
    public static void afterCompactionThroughput() {
        Engines.compactionThroughputChanged();
    }

    /** Compacts the whole table. True if that was done. */
    public static boolean compact(ColumnFamilyStore cfs) {
        return compact(cfs, List.of());
    }

    /** Compacts some ranges. True if that was done. */
    public static boolean compact(ColumnFamilyStore cfs, Collection<Range<Token>> ranges) {
        EngineMemtable table = EngineMemtables.current(cfs);
        if (table == null) return false;
        NodetoolOperations.compact(table, ranges);
        return isWhole(cfs);
    }

    /** Compacts some ranges, given as text. True if that was done. */
    public static boolean compact(ColumnFamilyStore cfs, String[] ranges) {
        EngineMemtable table = EngineMemtables.current(cfs);
        if (table == null) return false;
        NodetoolOperations.compact(table, cfs, ranges);
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

    /**
     * Verifies the table. Null if that is Cassandra's to do, or its part; the store is the first,
     * since what leaves it meanwhile is in SSTables then.
     */
    public static @Nullable AllSSTableOpStatus verify(
            ColumnFamilyStore cfs, IVerifier.Options options) {
        EngineMemtable table = EngineMemtables.current(cfs);
        if (table != null) return result(cfs, NodetoolOperations.verify(table, cfs, options));
        EngineMemtable departing = EngineMemtables.departing(cfs);
        // These are of SSTables alone.
        if (departing != null && !options.checkVersion && !options.mutateRepairStatus) {
            var unused = NodetoolOperations.verify(departing, cfs, options);
        }
        return null;
    }

    /**
     * Rewrites the table's files. Null if that is Cassandra's to do.
     *
     * @throws ExecutionException if that failed: {@code nodetool} takes an unchecked exception for
     *     success, it tries five times and then says nothing
     */
    public static @Nullable AllSSTableOpStatus rewrite(
            ColumnFamilyStore cfs, boolean onlyOldFormat, long newest) throws ExecutionException {
        EngineMemtable table = EngineMemtables.current(cfs);
        if (table == null) return null;
        try {
            return result(cfs, NodetoolOperations.rewrite(table, onlyOldFormat, newest));
        } catch (RuntimeException e) {
            throw new ExecutionException(e.getMessage(), e);
        }
    }

    /**
     * Removes what was deleted, what may go of the deletions, and index entries of former values.
     * Null if that is Cassandra's.
     */
    public static @Nullable AllSSTableOpStatus garbageCollect(ColumnFamilyStore cfs) {
        EngineMemtable table = EngineMemtables.current(cfs);
        if (table == null) return null;
        AtomicReference<@Nullable AllSSTableOpStatus> engines = new AtomicReference<>();
        engines.set(result(cfs, AllSSTableOpStatus.SUCCESSFUL));
        NodetoolOperations.garbageCollect(table, () -> engines.set(sweep(cfs)));
        AllSSTableOpStatus done = engines.get();
        if (done != null) return done;
        if (EngineMemtables.current(cfs) == null || !cfs.indexManager.hasIndexes()) return null;
        logger.error(
                "The indexes of {} keep the entries of former values, because SSTables of the table"
                        + " are not migrated into its storage engine; petra.migrations says why."
                        + " Repeat nodetool garbagecollect when it does not have the table",
                cfs.metadata());
        return AllSSTableOpStatus.ABORTED;
    }

    private static @Nullable AllSSTableOpStatus sweep(ColumnFamilyStore cfs) {
        if (!isWhole(cfs)) return null;
        return IndexSweeps.sweep(cfs) ? AllSSTableOpStatus.SUCCESSFUL : AllSSTableOpStatus.ABORTED;
    }

    /**
     * Removes what the node does not own. Null if that is Cassandra's to do; then {@link
     * #afterSSTables} follows.
     */
    public static @Nullable AllSSTableOpStatus cleanup(ColumnFamilyStore cfs) {
        AllSSTableOpStatus done = cleanupStores(cfs);
        if (done == null) Shadows.shrinkingBegins(cfs);
        return done;
    }

    /**
     * Not while the table is on its way into the engine or out of it: what moves meanwhile would be
     * where it was looked for already.
     */
    private static @Nullable AllSSTableOpStatus cleanupStores(ColumnFamilyStore cfs) {
        TableGenerations stores = TableRegistry.find(cfs);
        if (stores == null) return null;
        long migrations = stores.migration().begun();
        EngineMemtable table = EngineMemtables.current(cfs);
        if (table != null && !stores.migration().isUnderWay()) {
            AllSSTableOpStatus status = NodetoolOperations.cleanup(table, cfs);
            if (migrations == stores.migration().begun()) return result(cfs, status);
        }
        logger.error(
                "Cleanup of {} was aborted, because the table is being migrated into a storage"
                        + " engine or out of it, or was meanwhile. Try again when petra.migrations"
                        + " does not have it",
                stores.displayName());
        return AllSSTableOpStatus.ABORTED;
    }

    /** Before Cassandra scrubs SSTables; {@link #afterSSTables} follows. Refused as others are. */
    public static void scrub(ColumnFamilyStore cfs) {
        refuse(cfs, UnsupportedOperation.scrub.name());
        Shadows.shrinkingBegins(cfs);
    }

    /** Before Cassandra cleans up one SSTable; {@link #afterSSTables} follows. */
    public static void cleanupOfOne(ColumnFamilyStore cfs) {
        Shadows.shrinkingBegins(cfs);
    }

    /** When Cassandra has cleaned up or scrubbed SSTables, or failed to. */
    public static void afterSSTables(ColumnFamilyStore cfs) {
        Shadows.shrinkingEnds(cfs);
    }

    /**
     * Before Cassandra purges deletions of some partitions whose grace has not passed; {@link
     * #afterForceCompact} follows. Refused as others are.
     *
     * @return the table's SSTables, for that
     * @throws RuntimeException as Cassandra would a moment later, if one is no key of the table
     */
    public static Set<SSTableReader> forceCompact(ColumnFamilyStore cfs, String[] keys) {
        UnsupportedOperation operation = UnsupportedOperation.forceCompactionKeysIgnoringGcGrace;
        refuse(cfs, operation.name());
        for (String key : keys) {
            var unused = cfs.metadata().partitionKeyType.fromString(key);
        }
        overridesRules(cfs, operation);
        Shadows.shrinkingBegins(cfs);
        return cfs.getLiveSSTables();
    }

    /**
     * When it has, or failed to, or there was nothing to purge.
     *
     * @param before what {@link #forceCompact} has returned
     */
    public static void afterForceCompact(ColumnFamilyStore cfs, Set<SSTableReader> before) {
        // Any compaction of that time may have purged. In this order: what one that has just ended
        // has changed shows by then.
        if (cfs.getTracker().getCompacting().isEmpty() && cfs.getLiveSSTables().equals(before))
            Shadows.shrinkingEnds(cfs);
        else
            Shadows.purged(
                    cfs, "forcecompact may have purged deletions before their grace has passed");
    }

    /**
     * Refuses a method of Cassandra that has no meaning for an engine.
     *
     * @param method the method's name, one of {@link UnsupportedOperation}
     * @throws UnsupportedOperationException for an engine table, naming it
     */
    public static void refuse(ColumnFamilyStore cfs, String method) {
        UnsupportedOperation refusal = UnsupportedOperation.valueOf(method);
        EngineMemtable table = EngineMemtables.current(cfs);
        if (table == null) {
            if (refusal == UnsupportedOperation.setCompactionParameters)
                overridesRules(cfs, refusal);
            return;
        }
        throw NodetoolOperations.refused(table, refusal.verb(), refusal.reason());
    }

    /** By which Cassandra purges by others than the rules of the schema. */
    private static void overridesRules(ColumnFamilyStore cfs, UnsupportedOperation operation) {
        Shadows.rulesOverridden(
                cfs, operation.verb() + " was called, which may purge deletions too early");
    }
}
