// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.function.LongSupplier;

/**
 * Slows background work down to a tenth of the time: after each piece of work it sleeps nine times
 * as long as that took, and less where the work is behind. Waiting for the disk counts as work, so
 * on a slow or busy disk it sleeps longer. One thread at a time.
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
    private final LongSupplier timesDue;
    private boolean hasBegun;
    private long workBegan;

    /**
     * @param clock in nanoseconds, as {@link System#nanoTime}
     * @param timesDue as {@link SweepDebt#timesDue}: the sleeps are shorter by as much, and there
     *     are none from ten times on
     */
    SweepPace(LongSupplier clock, Sleeper sleeper, LongSupplier timesDue) {
        this.clock = clock;
        this.sleeper = sleeper;
        this.timesDue = timesDue;
    }

    /**
     * Sleeps for the work that was done since the last call. The first call does not sleep: until
     * then the work may have waited for other work.
     *
     * @param check called at the beginning and about once a second; throws to end the sleep and the
     *     work
     */
    void rest(Runnable check) {
        long restBegan = clock.getAsLong();
        long worked = hasBegun ? restBegan - workBegan : 0;
        check.run();
        long left = rest(worked);
        while (left > 0) {
            sleeper.sleep(Math.min(left, NAP_NANOS));
            check.run();
            left = rest(worked) - (clock.getAsLong() - restBegan);
        }
        hasBegun = true;
        workBegan = clock.getAsLong();
    }

    private long rest(long worked) {
        return REST / Math.max(1, timesDue.getAsLong()) * worked;
    }
}
