// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.Iterator;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Turns of threads, one at a time, in the order in which they came. Who waits keeps its place while
 * it looks now and then whether it is still to wait, and while it does what needs no turn; a fair
 * semaphore would have it leave the queue for that, and those that came later pass it. Thread-safe.
 */
final class Turns {
    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    /** The first has its turn. */
    private final Queue<Thread> queue = new ConcurrentLinkedQueue<>();

    /** Takes a place behind all others, until {@link #leave}. */
    void join() {
        queue.add(Thread.currentThread());
    }

    /** Whether it is this thread's turn, which it is until it leaves. */
    boolean isMine() {
        return queue.peek() == Thread.currentThread();
    }

    /**
     * Waits for this thread's turn, or until it needs none. An interrupt does not end the wait: the
     * thread stays interrupted.
     *
     * @param end until when, as {@link System#nanoTime}
     * @param isOver whether nobody needs a turn now
     * @param look asked while it waits, at once and then now and then; what it throws ends that
     * @return false if neither was so in time
     */
    boolean await(long end, BooleanSupplier isOver, Runnable look) {
        boolean isInterrupted = false;
        try {
            while (!isMine() && !isOver.getAsBoolean()) {
                look.run();
                long left = end - System.nanoTime();
                if (left <= 0) return false;
                LockSupport.parkNanos(this, Math.min(left, LOOK_NANOS));
                isInterrupted |= Thread.interrupted();
            }
            return true;
        } finally {
            if (isInterrupted) Thread.currentThread().interrupt();
        }
    }

    /** Gives up this thread's place, and its turn. */
    void leave() {
        queue.remove(Thread.currentThread());
        // Also of one that only waited: it may have become the first meanwhile.
        Thread first = queue.peek();
        if (first != null) LockSupport.unpark(first);
    }

    /** Has the one behind this thread look at once. */
    void wakeNext() {
        Iterator<Thread> all = queue.iterator();
        while (all.hasNext())
            if (all.next() == Thread.currentThread()) {
                if (all.hasNext()) LockSupport.unpark(all.next());
                return;
            }
    }

    /** Whether any waits behind the one whose turn it is. */
    boolean areAwaited() {
        return queue.size() > 1;
    }
}
