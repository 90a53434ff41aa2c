// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.concurrent.atomic.AtomicIntegerArray;

/**
 * A count of what has begun and not ended, over stripes: threads on many cores do not share a cache
 * line. What has begun on a stripe ends on it, so that no stripe is below zero, and all that was
 * counted before {@link #sum} and has not ended is in it. (A LongAdder does not promise that: it
 * may add to one cell and subtract from another.)
 */
final class StripedCounter {
    private static final int STRIPES = 16;
    private static final int STRIDE = 16; // ints: one cache line

    private final AtomicIntegerArray counts = new AtomicIntegerArray(STRIPES * STRIDE);

    /** The current thread's. */
    static int stripe() {
        return ((int) Thread.currentThread().getId() & (STRIPES - 1)) * STRIDE;
    }

    void increment(int stripe) {
        counts.incrementAndGet(stripe);
    }

    void decrement(int stripe) {
        counts.decrementAndGet(stripe);
    }

    int sum() {
        int sum = 0;
        for (int i = 0; i < STRIPES; i++) sum += counts.get(i * STRIDE);
        return sum;
    }
}
