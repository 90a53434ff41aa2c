// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.function.LongSupplier;

/**
 * Slows background work down to a tenth of the time: after each piece of work it sleeps nine times
 * as long as that took. Waiting for the disk counts as work, so on a slow or busy disk it sleeps
 * longer. One thread at a time.
 */
final class SweepPace {
    private static final int REST = 9;

    /** The longest sleep between two calls of the check, in nanoseconds. */
    private static final long NAP_NANOS = 1_000_000_000;

    /** Sleeps for at most so many nanoseconds. */
    @FunctionalInterface
    interface Sleeper {
        void sleep(long nanos);
    }

    private final LongSupplier clock;
    private final Sleeper sleeper;
    private long workBegan;

    /**
     * Starts to measure the first piece of work.
     *
     * @param clock in nanoseconds, as {@link System#nanoTime}
     */
    SweepPace(LongSupplier clock, Sleeper sleeper) {
        this.clock = clock;
        this.sleeper = sleeper;
        this.workBegan = clock.getAsLong();
    }

    /**
     * Sleeps for the work that was done since the last call.
     *
     * @param check called at the beginning and about once a second; throws to end the sleep and the
     *     work
     */
    void rest(Runnable check) {
        long restBegan = clock.getAsLong();
        long rest = REST * (restBegan - workBegan);
        check.run();
        long left = rest;
        while (left > 0) {
            sleeper.sleep(Math.min(left, NAP_NANOS));
            check.run();
            left = rest - (clock.getAsLong() - restBegan);
        }
        workBegan = clock.getAsLong();
    }
}
