// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import org.apache.cassandra.utils.FBUtilities;

/**
 * What may be purged by now: what is older than {@code gc_grace_seconds} as of the host's moment,
 * if the host allows it and no stream is arriving. If that becomes less, as where the host forbids
 * it, gc_grace is longer or the clock was set back, what may be removing more begins anew.
 */
final class PurgePermission {
    private final StoreContext store;

    /** Held while it is asked what may go, so that no older answer overwrites a newer one. */
    private final Object asking = new Object();

    /** Before which local time something may go, as last answered; guarded by {@link #asking}. */
    private long permitted;

    /** How often it became less; guarded by {@link #asking}. */
    private long restrictions;

    PurgePermission(StoreContext store) {
        this.store = store;
    }

    /** Before which local time something may go; 0 if nothing may. */
    long gcBefore() {
        if (store.isArriving() || !store.spec().mayPurge().getAsBoolean()) return 0;
        return Math.max(
                0, store.spec().purgeAsOf().getAsLong() - store.table().params.gcGraceSeconds);
    }

    /**
     * Tells the compaction filter what time it is and what may go. If that is less than before,
     * nothing that was removed since, and nobody misses yet, goes any more.
     */
    void clock(Database database) {
        synchronized (asking) {
            long gcBefore = gcBefore();
            store.reconciler().clock(FBUtilities.nowInSeconds(), gcBefore);
            if (gcBefore < permitted) {
                restrictions++;
                store.reconciler().lowerCovers(gcBefore);
                database.stopPurges();
            }
            permitted = gcBefore;
        }
    }

    /** How often less was allowed than before; for the methods that look whether that changed. */
    long restrictions() {
        synchronized (asking) {
            return restrictions;
        }
    }

    /** Lets go what covers other keys, unless less may go by now than when that was pushed down. */
    boolean letCoversGo(long gcBefore, long restrictionsBefore) {
        synchronized (asking) {
            if (restrictions != restrictionsBefore) return false;
            store.reconciler().covers(gcBefore);
            return true;
        }
    }

    /** Begins to purge files, unless less may go by now than when they were found. */
    boolean begin(Database database, Object files, long restrictionsBefore) {
        synchronized (asking) {
            if (restrictions != restrictionsBefore) return false;
            database.purgeBegins(files);
            return true;
        }
    }
}
