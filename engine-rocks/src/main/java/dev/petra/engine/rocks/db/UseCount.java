// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

/**
 * Counts the uses of what may be freed only when it is closed and nobody uses it.
 *
 * <p>A user first counts itself, then looks whether it is closed; the closer first says closed,
 * then looks at the count. One of the two sees the other, as in Dekker's algorithm: both accesses
 * are volatile.
 */
final class UseCount {
    private final StripedCounter users = new StripedCounter();
    private volatile boolean closed;

    /**
     * Counts one use by the current thread.
     *
     * @return false if it is closed, and nothing was counted
     */
    boolean acquire() {
        int stripe = StripedCounter.stripe();
        users.increment(stripe);
        if (!closed) return true;
        users.decrement(stripe);
        return false;
    }

    /**
     * Ends one use; from any thread.
     *
     * @param stripe of the thread that acquired it
     */
    void release(int stripe) {
        users.decrement(stripe);
    }

    /** Refuses new uses. It may be freed once {@link #count} was 0. */
    void close() {
        closed = true;
    }

    /** Takes new uses again; nothing was freed. */
    void reopen() {
        closed = false;
    }

    boolean isClosed() {
        return closed;
    }

    /** The number of uses that have not ended. */
    int count() {
        return users.sum();
    }
}
