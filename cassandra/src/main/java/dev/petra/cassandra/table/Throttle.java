// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import com.google.common.util.concurrent.RateLimiter;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.compaction.CompactionManager;

/** Waits for a limiter's permits, in chunks: who else asks waits for one at most. */
public final class Throttle {
    static final int CHUNK = 64 << 10;

    private Throttle() {}

    /**
     * As {@code compaction_throughput} wants it.
     *
     * @param stopped asked before each chunk: whether to wait for no more
     */
    public static void asCompactions(long bytes, BooleanSupplier stopped) {
        await(CompactionManager.instance.getRateLimiter(), bytes, stopped);
    }

    /** The same, with a limiter of one's own. */
    public static void await(RateLimiter limiter, long bytes, BooleanSupplier stopped) {
        for (long left = bytes; left > 0 && !stopped.getAsBoolean(); left -= CHUNK)
            limiter.acquire((int) Math.min(left, CHUNK));
    }
}
