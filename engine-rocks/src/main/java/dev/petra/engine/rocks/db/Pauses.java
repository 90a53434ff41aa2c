// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import com.google.common.util.concurrent.Uninterruptibles;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Of threads that look again and again for something that no other thread tells them of. */
public final class Pauses {
    private Pauses() {}

    /**
     * Parks for so long, also if another thread wakes it meanwhile, as who leaves a queue does.
     * Also if the thread is interrupted, which would not park at all and look without a pause; to
     * the millisecond then, and it stays interrupted.
     */
    public static void park(long nanos) {
        long end = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = end - System.nanoTime())
            if (Thread.currentThread().isInterrupted())
                Uninterruptibles.sleepUninterruptibly(left, TimeUnit.NANOSECONDS);
            else LockSupport.parkNanos(left);
    }
}
