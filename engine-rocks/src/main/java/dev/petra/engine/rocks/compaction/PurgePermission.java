// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import org.apache.cassandra.utils.FBUtilities;

/**
 * What may be purged by now: what is as old as the host says, if it allows it and no stream is
 * arriving.
 *
 * <p>If that becomes less, purges end and the compactions that were asked for remove nothing more.
 * If the host allows less, as where it forbids it, gc_grace is longer or the clock was set back,
 * these are cancelled too: what they have removed and not yet installed must not show. A stream
 * cancels none: each ingest lowers the max purgeable timestamps first, so whatever compaction takes
 * in the stream's files removes nothing, and what was removed before comes too early for a stream
 * as it does for a write.
 */
final class PurgePermission {
    private final StoreContext store;

    /** Held while it is asked what may go, so that no older answer overwrites a newer one. */
    private final Object asking = new Object();

    /** Before which local time something may go, as last answered; guarded by {@link #asking}. */
    private long permitted;

    /** The same by the host alone, whether or not a stream arrives; guarded by {@link #asking}. */
    private long permittedByHost;

    /** How often it became less; guarded by {@link #asking}. */
    private long restrictions;

    PurgePermission(StoreContext store) {
        this.store = store;
    }

    /** Before which local time something may go; 0 if nothing may. */
    long gcBefore() {
        return store.isArriving() ? 0 : gcBeforeOfHost();
    }

    /** The same, whether or not a stream arrives. */
    long gcBeforeOfHost() {
        if (!store.spec().mayPurge().getAsBoolean()) return 0;
        return Math.max(0, store.spec().gcBefore().getAsLong());
    }

    /**
     * Tells the compaction filter what time it is and what may go. If the host allows less than
     * before, nothing that was removed since, and nobody misses yet, goes any more.
     */
    void clock(Database database) {
        synchronized (asking) {
            long byHost = gcBeforeOfHost();
            long gcBefore = store.isArriving() ? 0 : byHost;
            store.reconciler().clock(FBUtilities.nowInSeconds(), gcBefore);
            boolean forbids = byHost < permittedByHost;
            if (forbids || gcBefore < permitted) {
                restrictions++;
                store.reconciler().lowerCovers(gcBefore);
            }
            if (forbids) database.compactions.stopPurges();
            permitted = gcBefore;
            permittedByHost = byHost;
        }
    }

    /**
     * How often less was allowed than before, also for a moment; for the methods that look whether
     * that changed. A stream that comes and goes between two looks at the clock counts as well:
     * what is purged meanwhile may remove nothing.
     */
    long restrictions() {
        synchronized (asking) {
            return restrictions + store.streamsBegun();
        }
    }

    /** Lets go what covers other keys, unless less may go by now than when that was pushed down. */
    boolean letCoversGo(long gcBefore, long restrictionsBefore) {
        synchronized (asking) {
            if (restrictions() != restrictionsBefore) return false;
            store.reconciler().covers(gcBefore);
            return true;
        }
    }

    /** Begins to purge files, unless less may go by now than when they were found. */
    boolean begin(Database database, Object files, long restrictionsBefore) {
        synchronized (asking) {
            if (restrictions() != restrictionsBefore) return false;
            database.compactions.purgeBegins(files);
            return true;
        }
    }
}
