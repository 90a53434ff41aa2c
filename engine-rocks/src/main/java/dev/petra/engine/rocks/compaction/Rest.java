// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongConsumer;
import java.util.function.LongSupplier;

/**
 * Lets work in the background rest as long as it worked, but never for long at once: nobody can
 * stop one that rests, and between two steps hours may pass that need no rest.
 */
final class Rest {
    private static final long AFTER_NANOS = TimeUnit.MILLISECONDS.toNanos(5);
    private static final long MOST_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    private final LongSupplier nanoTime;
    private final LongConsumer park;
    private long since;

    /** Of work that begins now. */
    Rest() {
        this(System::nanoTime, LockSupport::parkNanos);
    }

    /**
     * @param nanoTime as {@link System#nanoTime}
     * @param park as {@link LockSupport#parkNanos(long)}
     */
    Rest(LongSupplier nanoTime, LongConsumer park) {
        this.nanoTime = nanoTime;
        this.park = park;
        this.since = nanoTime.getAsLong();
    }

    /** After some work: rests for what came since it rested last, if that is long enough. */
    void afterWork() {
        long worked = nanoTime.getAsLong() - since;
        if (worked < AFTER_NANOS) return;
        park.accept(Math.min(worked, MOST_NANOS));
        since = nanoTime.getAsLong();
    }
}
