// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.locks.LockSupport;

/**
 * Lets one thread wait until every write that had begun has ended, without a lock for the writers:
 * they count themselves into the phase they find, and the waiter changes the phase and waits until
 * nobody is left in the old one. (As in sleepable RCU. A writer that reads the phase before the
 * change and counts itself after the wait began its work after the change, which is all that is
 * promised.)
 */
public final class WriteBarrier {
    private static final int STRIPES = 16;
    private static final int STRIDE = 16; // ints: one cache line
    private static final int PHASE = STRIPES * STRIDE;

    private final AtomicIntegerArray writers = new AtomicIntegerArray(2 * PHASE);
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
            int slot =
                    phase * PHASE + ((int) Thread.currentThread().getId() & (STRIPES - 1)) * STRIDE;
            writers.incrementAndGet(slot);
            if (!held) return slot;
            writers.decrementAndGet(slot);
            awaitNotHeld();
        }
    }

    public void end(int slot) {
        writers.decrementAndGet(slot);
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
            while (count(old) != 0) LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(100));
        }
    }

    private int count(int phase) {
        int count = 0;
        for (int i = 0; i < STRIPES; i++) count += writers.get(phase * PHASE + i * STRIDE);
        return count;
    }
}
