// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Turns of threads, one at a time, in the order in which they came. Who waits keeps its place while
 * it looks now and then whether it is still to wait; a fair semaphore would have it leave the queue
 * for that, and those that came later pass it. Thread-safe.
 */
final class Turns {
    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    /** The first has its turn. */
    private final Queue<Thread> queue = new ConcurrentLinkedQueue<>();

    /**
     * Waits for a turn, which {@link #end} ends. An interrupt does not end the wait: the thread
     * stays interrupted.
     *
     * @param end until when, as {@link System#nanoTime}
     * @param look asked while it waits, at once and then now and then; what it throws ends that
     * @return false if the turn did not come
     */
    boolean await(long end, Runnable look) {
        Thread self = Thread.currentThread();
        boolean isInterrupted = false;
        boolean isMine = false;
        queue.add(self);
        try {
            while (true) {
                isMine = queue.peek() == self;
                if (isMine) return true;
                look.run();
                long left = end - System.nanoTime();
                if (left <= 0) return false;
                LockSupport.parkNanos(this, Math.min(left, LOOK_NANOS));
                isInterrupted |= Thread.interrupted();
            }
        } finally {
            if (!isMine) leave(self);
            if (isInterrupted) self.interrupt();
        }
    }

    /** Ends this thread's turn. */
    void end() {
        leave(Thread.currentThread());
    }

    private void leave(Thread self) {
        queue.remove(self);
        // Also of one that only waited: it may have become the first meanwhile.
        Thread first = queue.peek();
        if (first != null) LockSupport.unpark(first);
    }

    /** Whether any waits behind the one whose turn it is. */
    boolean areAwaited() {
        return queue.size() > 1;
    }
}
