// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.concurrent.atomic.AtomicLong;

/** The longest time in which no request of a loop was answered. Used by many threads at once. */
final class Gap {
    /** Its metric. */
    static final String METRIC = "longest time without an answer";

    private final AtomicLong last = new AtomicLong();
    private final AtomicLong longest = new AtomicLong();

    /** The loop begins; nothing was answered before. */
    void begin(long nanos) {
        last.set(nanos);
    }

    /** A request is answered; of two at the same time, the later may be told first. */
    void answered(long nanos) {
        long gap = nanos - last.getAndAccumulate(nanos, Math::max);
        if (gap > longest.get()) longest.accumulateAndGet(gap, Math::max);
    }

    double millis() {
        return longest.get() / 1e6;
    }
}
