// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.LongAdder;
import org.jspecify.annotations.Nullable;
import org.rocksdb.PerfContext;
import org.rocksdb.RocksDB;

/**
 * What about one in {@value #ONE_IN} reads of a store asked of the block cache and of bloom
 * filters. RocksDB's statistics are of all stores of an engine, and one for each store would cost
 * 64 KiB a core; but it counts for each thread as well, always, and here is by how much that grew
 * during a read. A partition's rows after the first are not in it. Any thread, without a lock.
 */
final class ReadSamples {
    static final int ONE_IN = 64;

    private final LongAdder reads = new LongAdder();
    private final LongAdder cacheHits = new LongAdder();
    private final LongAdder cacheMisses = new LongAdder();
    private final LongAdder filterNegatives = new LongAdder();
    private final LongAdder filterPositives = new LongAdder();

    /** RocksDB's counters of one thread, which only that thread may use. */
    static final class Counters {
        private @Nullable PerfContext now;
        private int readsLeft = 1;
        private long cacheHits;
        private long cacheMisses;
        private long filterNegatives;
        private long filterPositives;

        /** Whether the read that begins is one of those; if so, it ends with {@link #add}. */
        boolean begin(RocksDB any) {
            if (--readsLeft > 0) return false;
            // Not at equal distances: a thread may read two tables in turn.
            readsLeft = 1 + ThreadLocalRandom.current().nextInt(2 * ONE_IN - 1);
            PerfContext counted = now;
            if (counted == null) now = counted = any.getPerfContext();
            cacheHits = counted.getBlockCacheHitCount();
            cacheMisses = counted.getBlockReadCount();
            filterNegatives = counted.getBloomSstMissCount();
            filterPositives = counted.getBloomSstHitCount();
            return true;
        }
    }

    /** The read that this thread began is over. */
    void add(Counters begun) {
        PerfContext counted = begun.now;
        if (counted == null) throw new IllegalStateException("no read was begun");
        reads.increment();
        cacheHits.add(counted.getBlockCacheHitCount() - begun.cacheHits);
        cacheMisses.add(counted.getBlockReadCount() - begun.cacheMisses);
        filterNegatives.add(counted.getBloomSstMissCount() - begun.filterNegatives);
        filterPositives.add(counted.getBloomSstHitCount() - begun.filterPositives);
    }

    /** What was counted since the store was opened; a rate is missing while there is none. */
    void putInto(Map<String, Long> figures) {
        long hits = cacheHits.sum();
        long misses = cacheMisses.sum();
        long negatives = filterNegatives.sum();
        long positives = filterPositives.sum();
        figures.put("sampled_reads", reads.sum());
        figures.put("sampled_block_cache_hits", hits);
        figures.put("sampled_block_cache_misses", misses);
        figures.put("sampled_filter_negatives", negatives);
        figures.put("sampled_filter_positives", positives);
        if (hits + misses > 0) figures.put("block_cache_hit_percent", 100 * hits / (hits + misses));
        if (negatives + positives > 0)
            figures.put("filter_negative_percent", 100 * negatives / (negatives + positives));
    }
}
