// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.concurrent.atomic.AtomicLong;

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
    private final long limit;
    private final AtomicLong bytes = new AtomicLong();
    private volatile boolean large;

    /**
     * @param memory of the block cache and the write buffers, in bytes
     */
    public IndexVolume(long memory) {
        // The other half is for write buffers and rows; files that exist are not cut at once.
        this.limit = memory / 2;
    }

    /** A store has so many bytes more, or fewer. */
    void add(long change) {
        if (bytes.addAndGet(change) > limit) large = true;
    }

    /** Whether it is, or was since the engine was started: options do not go to and fro. */
    boolean isLarge() {
        return large;
    }
}
