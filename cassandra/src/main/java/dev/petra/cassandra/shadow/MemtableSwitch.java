// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * The switch of a table's memtable to its store, for which late writes wait. Each side notes before
 * it looks: a write that it is late, and then whether there is a switch; a switch that it has
 * begun, and then whether a write was late. So one of the two sees the other. Thread-safe.
 */
final class MemtableSwitch {
    private volatile @Nullable CountDownLatch underWay;

    /** Before somebody asks, for the last time, whether something was late. Idempotent. */
    void begin() {
        if (underWay == null) underWay = new CountDownLatch(1);
    }

    /** When what the table shows is what its next memtable shows as well. Idempotent. */
    void end() {
        CountDownLatch present = underWay;
        underWay = null;
        if (present != null) present.countDown();
    }

    /**
     * Waits for the end of a switch that is under way, when a write was noted to be late.
     *
     * @return false if that did not come within the time
     */
    boolean await(Duration most) throws InterruptedException {
        CountDownLatch present = underWay;
        return present == null || present.await(most.toNanos(), TimeUnit.NANOSECONDS);
    }
}
