// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import java.util.List;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.memtable.Memtable;
import org.jspecify.annotations.Nullable;

/** Finds the memtables of a table that are in a storage engine. */
public final class EngineMemtables {
    private EngineMemtables() {}

    /** The table's current memtable, or null if that is not in an engine. */
    public static @Nullable EngineMemtable current(ColumnFamilyStore cfs) {
        // No tracker: the table is still under construction. No memtable: an offline tool.
        if (cfs.getTracker() == null || !DatabaseDescriptor.isDaemonInitialized()) return null;
        return cfs.getCurrentMemtable() instanceof EngineMemtable memtable ? memtable : null;
    }

    /** As {@link #current}, also if only a part of the data is still in the engine. */
    public static @Nullable EngineMemtable any(ColumnFamilyStore cfs) {
        EngineMemtable table = current(cfs);
        return table != null || !DatabaseDescriptor.isDaemonInitialized() ? table : departing(cfs);
    }

    /** As {@link #any(ColumnFamilyStore)}, as of a moment. */
    public static @Nullable EngineMemtable any(View view) {
        return view.getCurrentMemtable() instanceof EngineMemtable memtable
                ? memtable
                : departing(view);
    }

    /**
     * Whether all writes to a table go to its engine. While a memtable of Cassandra's is alive, or
     * being flushed, some still go there.
     */
    public static boolean areWritesOurs(ColumnFamilyStore cfs) {
        View view = cfs.getTracker().getView();
        for (Memtable live : view.liveMemtables)
            if (!(live instanceof EngineMemtable)) return false;
        for (Memtable flushing : view.flushingMemtables)
            if (!(flushing instanceof EngineMemtable)) return false;
        return true;
    }

    /**
     * Whether a memtable of Cassandra's is there whose flush has failed. Cassandra flushes it no
     * more, and keeps it until the node is restarted: {@link #areWritesOurs} stays false until
     * then. One beside flushes that are under way may not be found.
     *
     * @param begun how many flushes of the table Cassandra has counted that have not switched its
     *     memtable yet: 1 where it asks for the next one
     */
    public static boolean hasFailedFlush(ColumnFamilyStore cfs, int begun) {
        View before = cfs.getTracker().getView();
        if (cassandrasFlushing(before) == 0) return false;
        // Asked before the memtables: one whose flush ends in between is counted, and not found.
        long running = cfs.metric.pendingFlushes.getCount() - begun;
        View now = cfs.getTracker().getView();
        // A flush that began in between is not counted, and has switched the memtable.
        return now.getCurrentMemtable() == before.getCurrentMemtable()
                && cassandrasFlushing(now) > running;
    }

    private static long cassandrasFlushing(View view) {
        return view.flushingMemtables.stream()
                .filter(memtable -> !(memtable instanceof EngineMemtable))
                .count();
    }

    /** Whether the current memtable is Cassandra's, so that the engine is not read. */
    public static boolean isCassandrasCurrent(ColumnFamilyStore cfs) {
        List<Memtable> live = cfs.getTracker().getView().liveMemtables;
        return !live.isEmpty() && !(live.get(live.size() - 1) instanceof EngineMemtable);
    }

    /** The memtable of ours that is migrated out of its engine, or null. */
    public static @Nullable EngineMemtable departing(ColumnFamilyStore cfs) {
        return cfs.getTracker() == null ? null : departing(cfs.getTracker().getView());
    }

    /** As {@link #departing(ColumnFamilyStore)}, as of a moment. */
    public static @Nullable EngineMemtable departing(View view) {
        for (Memtable flushing : view.flushingMemtables)
            if (flushing instanceof EngineMemtable ours) return ours;
        for (Memtable live : view.liveMemtables)
            if (live instanceof EngineMemtable ours && ours.departure() != 0) return ours;
        return null;
    }

    /**
     * Takes a memtable of ours out of those that are read because they are on their way out.
     * Idempotent: the end of its migration, TRUNCATE and DROP may each be the first.
     */
    public static void forget(ColumnFamilyStore cfs, EngineMemtable memtable) {
        TableRegistry.exclusively(
                () -> {
                    if (cfs.getTracker().getView().flushingMemtables.contains(memtable))
                        cfs.getTracker().replaceFlushed(memtable, List.of());
                    return null;
                });
    }

    /**
     * Before the data of a generation is deleted: takes all memtables that stand for it out of
     * those that are read because they are on their way out. A table that was altered out of its
     * engine, back, and out again has several. Left there, they would be read when their store is
     * gone. Idempotent.
     */
    public static void forgetAll(ColumnFamilyStore cfs, Generation generation) {
        for (Memtable flushing : cfs.getTracker().getView().flushingMemtables)
            if (flushing instanceof EngineMemtable ours && ours.generation() == generation)
                forget(cfs, ours);
    }
}
