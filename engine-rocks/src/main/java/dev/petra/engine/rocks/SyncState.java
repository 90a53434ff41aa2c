// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import org.apache.cassandra.utils.concurrent.UncheckedInterruptedException;
import org.jspecify.annotations.Nullable;

/**
 * What of a store's log is not yet synced, and who waits for it. A failed sync fails every write
 * from then on until one succeeds: what the disk did not take must not be acknowledged further.
 */
final class SyncState {
    private volatile boolean pending;
    private volatile @Nullable Throwable failure;
    private long begun;
    private long ended;
    private boolean closed;

    boolean isPending() {
        return pending || failure != null;
    }

    /** A write is in the log. */
    void written(boolean await) {
        if (await) awaitNextSync();
        else if (!pending) pending = true;
    }

    private synchronized void awaitNextSync() {
        pending = true;
        // A sync already under way may have begun before the write.
        long wanted = begun + 1;
        while (ended < wanted && !closed) {
            try {
                wait();
            } catch (InterruptedException e) {
                throw new UncheckedInterruptedException(e);
            }
        }
        refuseAfterFailure();
        if (ended < wanted)
            throw new IllegalStateException(
                    "The store was closed while a write waited for its sync; it may be lost.");
    }

    void sync(Runnable sync) {
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
                notifyAll();
            }
        }
    }

    /** The log is a new one, with nothing in it that is not synced. */
    synchronized void renewed() {
        pending = false;
        failure = null;
    }

    synchronized void wakeAll() {
        closed = true;
        notifyAll();
    }

    void refuseAfterFailure() {
        Throwable failed = failure;
        if (failed != null)
            throw new IllegalStateException(
                    "The log could not be synced; writes are refused until it can: "
                            + failed.getMessage(),
                    failed);
    }
}
