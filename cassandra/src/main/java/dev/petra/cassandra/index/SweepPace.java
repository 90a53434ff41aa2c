// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.function.LongSupplier;

/**
 * How long work in the background rests, so that it takes a tenth of the time: nine times as long
 * as it has worked, waiting for the disk included. On a slow disk, where the work takes longest, it
 * rests longest. One thread at a time.
 */
final class SweepPace {
    private static final int REST = 9;

    /** How long a rest is at most before it is asked whether to go on, in nanoseconds. */
    private static final long NAP_NANOS = 1_000_000_000;

    /** Sleeps for so many nanoseconds, or less. */
    @FunctionalInterface
    interface Sleeper {
        void sleep(long nanos);
    }

    private final LongSupplier clock;
    private final Sleeper sleeper;
    private long workBegan;

    /**
     * Begins the work.
     *
     * @param clock in nanoseconds, as {@link System#nanoTime}
     */
    SweepPace(LongSupplier clock, Sleeper sleeper) {
        this.clock = clock;
        this.sleeper = sleeper;
        this.workBegan = clock.getAsLong();
    }

    /**
     * Rests for what was worked since the last rest.
     *
     * @param check called at the begin and once a second; throws to end the rest and the work
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
