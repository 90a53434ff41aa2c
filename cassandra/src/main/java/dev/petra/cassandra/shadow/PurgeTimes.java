// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.utils.FBUtilities;

/**
 * By when a table may have purged deletions, and taken cells for expired: the latest since its
 * shadow began, also before a restart, since {@code gc_grace_seconds} may have grown, or the clock
 * have gone back. Thread-safe.
 */
final class PurgeTimes {
    private final ColumnFamilyStore cfs;

    /** The highest that a clock of the table's compactions may have shown, in seconds. */
    private volatile long latest;

    private volatile long gcBefore;

    PurgeTimes(ColumnFamilyStore cfs) {
        this.cfs = cfs;
    }

    /** Deletions from before this may have been purged in the table. */
    synchronized void noteGcBefore(long time) {
        gcBefore = Math.max(gcBefore, time);
    }

    /** What it is now. */
    synchronized void note() {
        latest = Math.max(latest, FBUtilities.nowInSeconds());
        noteGcBefore(latest - cfs.metadata().params.gcGraceSeconds);
    }

    /** Goes on with what a clean stop has noted. */
    synchronized void resume(ShadowFolder.Closed closed) {
        latest = closed.latest();
        noteGcBefore(closed.gcBefore());
        note();
    }

    /** Deletions from before this may have been purged in the table. */
    long gcBefore() {
        return gcBefore;
    }

    /**
     * By when neither side has taken a cell for expired yet, in seconds: the clock, or what it was
     * before it went back.
     */
    long latest() {
        return latest;
    }

    /** By what the table may purge now. */
    LateWrites.Moment moment() {
        note();
        return new LateWrites.Moment(latest, Shadows.shortestGrace(cfs.metadata()));
    }
}
