// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.engine.TableStore;
import java.nio.file.Path;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * The shadow of a table that was altered into an engine, for whoever takes it into the table's
 * store there. For one thread.
 *
 * <pre>
 *   announce()                  before the first write goes to the engine
 *   of(), seal(), toldOfAll()   when all writes do: it has what was written before
 *   freeze(), moment()          while nobody can change the SSTables
 *   store(), openPart()
 *   doubt()                     before the SSTables go
 *   end()
 * </pre>
 */
public final class ShadowSource {
    /**
     * As of when the table may have purged deletions, in seconds since 1970.
     *
     * @param clock the highest that it was
     * @param gcBefore deletions from before this may have been purged; no others
     */
    public record Moment(long clock, long gcBefore) {
        /**
         * Whether that is more than a table purges now, because its {@code gc_grace_seconds} was
         * shorter, or the clock went back: deletions that may have been purged before, and are
         * there, must stay, and so must cells that had expired by that clock and have not yet.
         *
         * @param now the clock
         */
        public boolean isBeyond(TableMetadata table, long now) {
            return clock > now || gcBefore > now - table.params.gcGraceSeconds;
        }

        /** Removes all those, and nothing else, from partitions that are read whole. */
        public Transformation<UnfilteredRowIterator> purge(TableMetadata table) {
            return new ExactPurge(table, this);
        }
    }

    private final Shadow shadow;
    private final ShadowCopy copy;

    private ShadowSource(Shadow shadow, ShadowCopy copy) {
        this.shadow = shadow;
        this.copy = copy;
    }

    /**
     * To be called before the first write goes to the table's engine: the table's shadow, if it has
     * one, is kept until {@link #end}. Throws nothing and does not block: the caller holds the
     * table's memtables.
     */
    public static void announce(ColumnFamilyStore cfs) {
        Shadows.promote(cfs);
    }

    /**
     * What {@link #announce} has kept; null if the table had no shadow, or that has dropped out.
     */
    public static @Nullable ShadowSource of(ColumnFamilyStore cfs) {
        Shadow shadow = Shadows.promoted(cfs);
        // One that began later has not seen all writes to the engine.
        ShadowCopy copy = shadow == null ? null : shadow.promotedCopy();
        return shadow == null || copy == null ? null : new ShadowSource(shadow, copy);
    }

    /** Ends the shadow of a table whose promotion is over, if there is one, and deletes it. */
    public static void end(ColumnFamilyStore cfs) {
        Shadow shadow = Shadows.promoted(cfs);
        if (shadow != null) Shadows.promotionEnds(shadow);
    }

    /**
     * Why it may not be what the table is, or may hide what was written to the table since {@link
     * #announce}, or let it show; null if there is no such doubt. What was written last counts once
     * it was {@link #toldOfAll told} of it.
     */
    public @Nullable String doubt() {
        ShadowStore.End end = copy.end();
        if (end != null) return "it has dropped out: " + end.reason();
        if (shadow.copy() != copy) return "it was made anew";
        if (shadow.statistics().different.sum() > 0) return "it had another answer than the table";
        String late = shadow.lateWrite();
        return late != null ? late : shadow.lateSincePromoted(copy);
    }

    /** Writes that begin from now on do not go to it, but it looks at them. */
    public void seal() {
        copy.seal();
    }

    /**
     * To be asked whether it was told of all writes whose groups of {@code Keyspace.writeOrder} had
     * begun before a barrier that was awaited before this call. Whatever begins later does not
     * count.
     */
    public BooleanSupplier toldOfAll() {
        return copy.toldOfAll();
    }

    /**
     * Has it stay as it is, if it has what is in these SSTables, which nobody can change until this
     * has returned; and if so, from here on.
     */
    public boolean freeze(Set<SSTableReader> sstables) {
        return copy.freeze(sstables);
    }

    /** As of when the table may have purged, until now. */
    public Moment moment() {
        return shadow.purgeMoment();
    }

    /** What it has, with all deletions. */
    public TableStore store() {
        return copy.store;
    }

    /**
     * Makes an empty store beside it, for {@link #drop}; one at a time. A start deletes what a
     * crash leaves of it.
     *
     * @param part counts them, from 1
     */
    public TableStore openPart(int part) {
        return shadow.openPart(copy, part);
    }

    /** Deletes what {@link #openPart} has made. */
    public void drop(TableStore part) {
        try {
            part.drop();
        } finally {
            shadow.partIsClosed();
        }
    }

    /**
     * Why so many bytes more are too much for the disk of this directory of the table, or for the
     * shadow's own; or null.
     */
    public @Nullable String lackOfRoom(Path tableDirectory, long bytes, long ownBytes) {
        return shadow.lackOfRoom(tableDirectory, bytes, ownBytes);
    }
}
