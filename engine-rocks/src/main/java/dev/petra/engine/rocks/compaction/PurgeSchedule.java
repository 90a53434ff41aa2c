// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.StoreContext;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.utils.FBUtilities;
import org.apache.cassandra.utils.Hex;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;

/**
 * When a store is purged next, and where an earlier purge that was cut short goes on. The catalog
 * has it from one process to the next: "when the interval began [where to resume]".
 */
final class PurgeSchedule {
    static final long REST_NANOS = TimeUnit.MINUTES.toNanos(10);

    private final StoreContext store;
    private final PurgePermission permission;

    /** In seconds: when the last purge ended, or there was first something to purge; 0: not yet. */
    private volatile long intervalBegan;

    /** When a purge in the background may begin again, by {@link System#nanoTime}. */
    private volatile long restsUntil = System.nanoTime();

    private volatile byte @Nullable [] resumeAt;

    /** In seconds: when the last purge of all of the table ended; 0: not yet. */
    private volatile long wholeEnded;

    PurgeSchedule(StoreContext store, PurgePermission permission) {
        this.store = store;
        this.permission = permission;
        if (store.catalog().has(Catalog.Flag.TOMBSTONES)) recall();
    }

    private void recall() {
        // What was written since the last purge ended is not known any more.
        store.purgeable().written(0);
        try {
            wholeEnded = store.catalog().wholePurge();
            String state = store.catalog().purge();
            if (state == null) return;
            String[] words = state.split(" ", -1);
            intervalBegan = Long.parseLong(words[0]);
            if (words.length > 1) resumeAt = Hex.hexToBytes(words[1]);
        } catch (RocksDBException e) {
            throw store.reopenable().onRead(e);
        }
    }

    private void remember() {
        byte[] resume = resumeAt;
        store.catalog()
                .setPurge(intervalBegan + (resume == null ? "" : " " + Hex.bytesToHex(resume)));
    }

    /** In seconds: when the last purge ended, or there was first something to purge; 0: not yet. */
    long intervalBegan() {
        return intervalBegan;
    }

    /** Where to go on with an earlier one; null if none was cut short. */
    byte @Nullable [] resumeAt() {
        return resumeAt;
    }

    /** All before this key was purged; null for all there is. */
    void reached(byte @Nullable [] key) {
        resumeAt = key;
        if (key != null) remember();
    }

    /** There is nothing to be gone on with. */
    void forgetResume() {
        resumeAt = null;
    }

    /** The next interval begins. */
    void ended() {
        intervalBegan = FBUtilities.nowInSeconds();
        remember();
    }

    /** Lets none begin in the background for a while, after one that failed or was stopped. */
    void rest() {
        restsUntil =
                System.nanoTime()
                        + Math.min(REST_NANOS, TimeUnit.SECONDS.toNanos(intervalSeconds()));
    }

    boolean isResting() {
        return System.nanoTime() - restsUntil < 0;
    }

    boolean isDue() {
        long gcBefore = permission.gcBefore();
        // Nothing may go; also not what a merge left empty, which is older than any time.
        if (gcBefore == 0) return false;
        if (resumeAt != null) return true;
        if (store.purgeable().get() >= gcBefore) return false;
        if (intervalBegan == 0)
            // The first interval; remembered, for a node that is restarted every day.
            ended();
        return isOver(intervalBegan, intervalSeconds());
    }

    /** The last one was of all of the table. */
    void wholeEnded() {
        wholeEnded = FBUtilities.nowInSeconds();
        store.catalog().setWholePurge(wholeEnded);
    }

    /** Whether all of the table may be purged: it costs what the rotation of thin files does. */
    boolean isWholeDue() {
        return isOver(wholeEnded, PurgeChoice.PATIENCE * intervalSeconds());
    }

    private static boolean isOver(long began, long seconds) {
        long since = FBUtilities.nowInSeconds() - began;
        // Less than nothing if the clock was ahead then.
        return since < 0 || since >= seconds;
    }

    /** How long at least between two purges. */
    long intervalSeconds() {
        return TimeUnit.MILLISECONDS.toSeconds(store.settings().purgeIntervalMillis());
    }
}
