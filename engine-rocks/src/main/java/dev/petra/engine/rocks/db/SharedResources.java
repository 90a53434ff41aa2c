// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.concurrent.atomic.LongAdder;
import java.util.function.BooleanSupplier;
import org.rocksdb.Cache;
import org.rocksdb.RateLimiter;
import org.rocksdb.Statistics;
import org.rocksdb.WriteBufferManager;

/**
 * What all databases of a process share. The engine owns it, and closes it after the databases.
 *
 * @param limiter of flushes and compactions
 * @param statistics RocksDB's counters
 * @param indexes of the data files of all stores
 * @param directReads where data files are read past the page cache
 * @param stalledNanos in which a writer of a store waited because its compaction was behind
 * @param eachWriteSynced whether the log is synced for each write or few
 */
public record SharedResources(
        RocksSettings settings,
        Cache cache,
        WriteBufferManager writeBuffers,
        RateLimiter limiter,
        Statistics statistics,
        IndexVolume indexes,
        DirectReads directReads,
        LongAdder stalledNanos,
        BooleanSupplier eachWriteSynced) {}
