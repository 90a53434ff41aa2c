// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.fuzz;

import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.utils.Clock;

/**
 * The node's clock ({@code -Dcassandra.clock}): stands still, so that both tables' statements have
 * one local time, until a step moves it. Durations run on.
 */
public final class FuzzClock implements Clock {
    /** In 2033; {@code -Dfuzz.clock} for a process that goes on where another ended. */
    private static final AtomicLong MILLIS =
            new AtomicLong(Long.getLong("fuzz.clock", 2_000_000_000_000L));

    static void move(long millis) {
        MILLIS.addAndGet(millis);
    }

    static long millis() {
        return MILLIS.get();
    }

    @Override
    public long nanoTime() {
        return System.nanoTime();
    }

    @Override
    public long currentTimeMillis() {
        return MILLIS.get();
    }
}
