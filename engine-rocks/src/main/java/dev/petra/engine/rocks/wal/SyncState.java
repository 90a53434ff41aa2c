// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import org.jspecify.annotations.Nullable;

/**
 * What of a store's log is not yet synced, and who waits for it. A failed sync fails every write
 * from then on until one succeeds: what the disk did not take must not be acknowledged further.
 */
public final class SyncState {
    private final Object syncing = new Object();
    private volatile boolean pending;
    private volatile @Nullable Throwable failure;

    /** Whether the sync under way takes too long for writes to be acknowledged meanwhile. */
    private volatile boolean lagging;

    private long begun;
    private long ended;
    private long abandoned;
    private boolean closed;

    /** Whether a sync is due. None is after one that failed for good, unless a writer waits. */
    public boolean isPending() {
        Throwable failed = failure;
        return pending || (failed != null && !isForGood(failed));
    }

    private static boolean isForGood(Throwable failed) {
        return failed instanceof FailedSyncError;
    }

    /** Whether a write that was acknowledged may not be synced yet, a sync under way included. */
    public synchronized boolean isUnsettled() {
        return pending || failure != null || begun != ended;
    }

    /** A write is in the log. */
    public void written(boolean await) {
        if (await) awaitNextSync();
        else {
            if (!pending) pending = true;
            if (lagging) awaitSyncUnderWay();
        }
    }

    /**
     * The sync under way has not ended within a period: writes wait for its end, as Cassandra's do,
     * so that a power loss takes no more than a few periods.
     */
    public synchronized void lags() {
        lagging = begun != ended;
    }

    private synchronized void awaitSyncUnderWay() {
        awaitEnd(begun);
    }

    private synchronized void awaitNextSync() {
        pending = true;
        // A sync already under way may have begun before the write.
        if (!awaitEnd(begun + 1))
            throw new IllegalStateException(
                    "The store was closed, or its disk was full, while a write waited for its"
                            + " sync; the write may be lost, so do it again.");
    }

    /** Waits for the end of a sync; returns false if there will be none. */
    private synchronized boolean awaitEnd(long wanted) {
        long abandonedBefore = abandoned;
        // The write is done, so an interrupt must not have it look as if it were not.
        boolean interrupted = false;
        while (ended < wanted && abandoned == abandonedBefore && !closed) {
            try {
                wait();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) Thread.currentThread().interrupt();
        refuseAfterFailure();
        return ended >= wanted;
    }

    /** One sync at a time: its end must say nothing of another that began later. */
    public void sync(Runnable sync) {
        synchronized (syncing) {
            syncAlone(sync);
        }
    }

    private void syncAlone(Runnable sync) {
        synchronized (this) {
            pending = false;
            begun++;
        }
        Throwable failed = null;
        try {
            sync.run();
        } catch (RuntimeException | Error e) {
            failed = e;
            throw e;
        } finally {
            synchronized (this) {
                failure = failed;
                ended = begun;
                lagging = false;
                notifyAll();
            }
        }
    }

    /** Fails whoever waits now: there will be no sync for them. */
    public synchronized void abandon() {
        abandoned++;
        notifyAll();
    }

    /** The log is a new one, with nothing in it that is not synced. */
    public synchronized void renewed() {
        pending = false;
        failure = null;
    }

    /** Fails whoever waits now or will: the store is closed. */
    public synchronized void close() {
        closed = true;
        notifyAll();
    }

    public void refuseAfterFailure() {
        Throwable failed = failure;
        if (failed == null) return;
        throw new IllegalStateException(
                (isForGood(failed)
                                ? "The table takes no writes: "
                                : "The table's log could not be synced; writes are refused until a"
                                        + " sync succeeds: ")
                        + failed.getMessage(),
                failed);
    }
}
