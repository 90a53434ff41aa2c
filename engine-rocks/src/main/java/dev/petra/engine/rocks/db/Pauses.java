// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import com.google.common.util.concurrent.Uninterruptibles;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Of threads that look again and again for something that no other thread tells them of. */
final class Pauses {
    private Pauses() {}

    /**
     * Parks. Also if the thread is interrupted, which would not park at all and look without a
     * pause; to the millisecond then, and it stays interrupted.
     */
    static void park(long nanos) {
        if (Thread.currentThread().isInterrupted())
            Uninterruptibles.sleepUninterruptibly(nanos, TimeUnit.NANOSECONDS);
        else LockSupport.parkNanos(nanos);
    }
}
