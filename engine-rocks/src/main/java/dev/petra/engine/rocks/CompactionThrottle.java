// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import org.rocksdb.RateLimiter;
import org.rocksdb.RateLimiterMode;

/**
 * Keeps compaction to {@code compaction_throughput}. RocksDB has one budget for compaction and
 * flushes; but a flush that waits makes writers wait, so the budget grows with what is being
 * written, which is what flushes need of it. Told once a second; thread-safe.
 */
final class CompactionThrottle implements AutoCloseable {
    private static final int REFILL_MICROS = 100_000;
    private static final int FAIRNESS = 10;

    /** RocksDB has no word for "unlimited"; a tebibyte a second never waits. */
    private static final long UNLIMITED = 1L << 40;

    /** A write buffer is flushed seconds after it was written. */
    private static final int REMEMBERED_SECONDS = 10;

    final RateLimiter limiter =
            new RateLimiter(UNLIMITED, REFILL_MICROS, FAIRNESS, RateLimiterMode.WRITES_ONLY, false);

    private final long[] written = new long[REMEMBERED_SECONDS];
    private int at;
    private long limit = UNLIMITED;

    /**
     * @param bytesPerSecond of compaction alone
     */
    synchronized void limit(long bytesPerSecond) {
        limit = Math.min(bytesPerSecond, UNLIMITED);
        apply();
    }

    /**
     * @param bytes that writers wrote within the last second, in all stores
     */
    synchronized void written(long bytes) {
        written[at++ % REMEMBERED_SECONDS] = bytes;
        if (limit < UNLIMITED) apply();
    }

    private void apply() {
        long most = 0;
        for (long second : written) most = Math.max(most, second);
        // Twice, or a store whose flushes fell behind would never catch up.
        limiter.setBytesPerSecond(Math.min(UNLIMITED, limit + 2 * most));
    }

    @Override
    public void close() {
        limiter.close();
    }
}
