// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.concurrent.TimeUnit;

/**
 * Lets one thread wait until every write that had begun has ended, without a lock for the writers:
 * they count themselves into the phase they find, and the waiter changes the phase and waits until
 * nobody is left in the old one. (As in sleepable RCU. A writer that reads the phase before the
 * change and counts itself after the wait began its work after the change, which is all that is
 * promised.)
 */
public final class WriteBarrier {
    private static final long PAUSE_NANOS = TimeUnit.MICROSECONDS.toNanos(100);

    /** The writers of each phase. */
    private final StripedCounter[] writers = {new StripedCounter(), new StripedCounter()};

    private volatile int phase;
    private volatile boolean held;

    /** Something to do while no write runs. */
    public interface Alone<E extends Exception> {
        void run() throws E;
    }

    /**
     * Begins a write; waits while {@link #alone} runs. Not within another write.
     *
     * @return what to give to {@link #end}
     */
    public int begin() {
        while (true) {
            int slot = slot();
            if (enter(slot)) return slot;
            awaitNotHeld();
        }
    }

    /** Where a write that begins now is counted. */
    int slot() {
        return StripedCounter.stripe() << 1 | phase;
    }

    /** Counts a write, unless it has to wait. */
    boolean enter(int slot) {
        writers[slot & 1].increment(slot >> 1);
        if (!held) return true;
        end(slot);
        return false;
    }

    public void end(int slot) {
        writers[slot & 1].decrement(slot >> 1);
    }

    /** Whoever holds the writers up has this object's lock. */
    private synchronized void awaitNotHeld() {
        assert !held;
    }

    /** Runs something while no write does: those that have begun end before, others wait. */
    public synchronized <E extends Exception> void alone(Alone<E> work) throws E {
        held = true;
        try {
            awaitThoseBegun();
            work.run();
        } finally {
            held = false;
        }
    }

    /** Waits until every write that had begun before the call has ended. */
    public synchronized void awaitThoseBegun() {
        // Twice: a writer may have read the phase and not yet counted itself when it changed
        // before.
        for (int i = 0; i < 2; i++) {
            int old = phase;
            phase = 1 - old;
            while (writers[old].sum() != 0) Pauses.park(PAUSE_NANOS);
        }
    }
}
