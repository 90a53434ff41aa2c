// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import org.rocksdb.Cache;
import org.rocksdb.RateLimiter;
import org.rocksdb.Statistics;
import org.rocksdb.WriteBufferManager;

/**
 * What all databases of a process share. The engine owns it, and closes it after the databases.
 *
 * @param limiter of flushes and compactions
 * @param statistics RocksDB's counters
 */
record SharedResources(
        RocksSettings settings,
        Cache cache,
        WriteBufferManager writeBuffers,
        RateLimiter limiter,
        Statistics statistics) {}
