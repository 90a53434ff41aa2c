// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import org.rocksdb.RateLimiter;
import org.rocksdb.RateLimiterMode;

/**
 * Keeps compaction to {@code compaction_throughput}. RocksDB has one budget for compaction and
 * flushes; but a flush that waits makes writers wait, so the budget grows with what is being
 * written, which is what flushes need of it. Told once a second; thread-safe.
 *
 * <p>RocksDB adds a refill's bytes at a time, and what is left of one stays when the rate falls. So
 * a refill must be small at any rate, or a limit would be void until the rest was used up.
 */
public final class CompactionThrottle implements AutoCloseable {
    private static final int REFILL_MICROS = 10_000;
    private static final int FAIRNESS = 10;

    /**
     * RocksDB's limiter has no "unlimited". This is more than its threads write, and not much more,
     * since a refill is a hundredth of it.
     */
    private static final long UNLIMITED = 4L << 30;

    /** A write buffer is flushed seconds after it was written. */
    private static final int REMEMBERED_SECONDS = 10;

    public final RateLimiter limiter =
            new RateLimiter(UNLIMITED, REFILL_MICROS, FAIRNESS, RateLimiterMode.WRITES_ONLY, false);

    private final long[] written = new long[REMEMBERED_SECONDS];
    private int at;
    private long limit = UNLIMITED;
    private boolean closed;

    /**
     * Sets the limit.
     *
     * @param bytesPerSecond of compaction alone
     */
    public synchronized void limit(long bytesPerSecond) {
        limit = Math.min(bytesPerSecond, UNLIMITED);
        apply();
    }

    /**
     * Adds to the limit what writers need to be flushed.
     *
     * @param bytes that writers wrote within the last second, in all stores
     */
    public synchronized void written(long bytes) {
        written[at++ % REMEMBERED_SECONDS] = bytes;
        if (limit < UNLIMITED) apply();
    }

    private void apply() {
        if (closed) return;
        long most = 0;
        for (long second : written) most = Math.max(most, second);
        // Twice, or a store whose flushes fell behind would never catch up.
        limiter.setBytesPerSecond(Math.min(UNLIMITED, limit + 2 * most));
    }

    @Override
    public synchronized void close() {
        closed = true;
        limiter.close();
    }
}
