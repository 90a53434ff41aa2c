// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How many bytes the indexes and filters of the data files of all stores of an engine take, and
 * whether that is so much that the block cache may not hold them. Any thread.
 *
 * <p>The index and the filter of a file are a block each, of up to half a MB for a file of 64 MiB.
 * While the cache holds them all that is the fastest. When it does not, a read fetches half a MB to
 * find one row. Cut into blocks of 4 KiB they cost each read in memory about a microsecond more,
 * and what is fetched stays small ({@code CutIndexBench}).
 */
public final class IndexVolume {
    private static final Logger logger = LoggerFactory.getLogger(IndexVolume.class);

    private final long limit;
    private final AtomicLong bytes = new AtomicLong();
    private final AtomicBoolean large = new AtomicBoolean();

    /**
     * @param memory of the block cache and the write buffers, in bytes
     */
    public IndexVolume(long memory) {
        // The other half is for write buffers and rows; files that exist are not cut at once.
        this.limit = memory / 2;
    }

    /** A store has so many bytes more, or fewer. */
    void add(long change) {
        long all = bytes.addAndGet(change);
        if (all <= limit || !large.compareAndSet(false, true)) return;
        logger.info(
                "The indexes and filters of the data files of all tables take {} MiB, and 'memory'"
                    + " has {} MiB for them: files that are written from now on have theirs cut"
                    + " into blocks, and a read may fetch some of these, too. With a larger memory"
                    + " they stay whole from the next start on.",
                all >> 20,
                limit >> 20);
    }

    /** Whether it is, or was since the engine was started: options do not go to and fro. */
    boolean isLarge() {
        return large.get();
    }
}
