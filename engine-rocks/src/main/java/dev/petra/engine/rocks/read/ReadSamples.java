// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;
import org.rocksdb.PerfContext;

/**
 * How often about one in {@value #ONE_IN} reads of a store used the block cache and the bloom
 * filters. RocksDB's statistics are of all stores of an engine, and one for each store would cost
 * 64 KiB a core. But RocksDB always counts for each thread as well: these metrics are by how much
 * its counts grew during a read. A partition's rows after the first are not in it. Any thread,
 * without a lock.
 */
public final class ReadSamples {
    public static final int ONE_IN = 64;

    /** A counter of RocksDB's, and the metric that it makes. */
    private record Count(String metric, ToLongFunction<PerfContext> ofThread) {}

    private static final String CACHE_HITS = "sampled_block_cache_hits";
    private static final String CACHE_MISSES = "sampled_block_cache_misses";
    private static final String FILTER_NEGATIVES = "sampled_filter_negatives";
    private static final String FILTER_POSITIVES = "sampled_filter_positives";

    private static final List<Count> COUNTS =
            List.of(
                    new Count(CACHE_HITS, PerfContext::getBlockCacheHitCount),
                    new Count(CACHE_MISSES, PerfContext::getBlockReadCount),
                    new Count(FILTER_NEGATIVES, PerfContext::getBloomSstMissCount),
                    new Count(FILTER_POSITIVES, PerfContext::getBloomSstHitCount));

    private final LongAdder reads = new LongAdder();
    private final List<LongAdder> sums = COUNTS.stream().map(each -> new LongAdder()).toList();

    /** RocksDB's counters of one thread, which only that thread may use. */
    static final class Counters {
        private @Nullable PerfContext now;
        private int readsLeft = 1;
        private final long[] atBegin = new long[COUNTS.size()];

        /** Whether the read that begins is sampled; if so, it ends with {@link #add}. */
        boolean begin(StoreContext store) {
            if (--readsLeft > 0) return false;
            // Not at equal distances: a thread may read two tables in turn.
            readsLeft = 1 + ThreadLocalRandom.current().nextInt(2 * ONE_IN - 1);
            PerfContext counted = now;
            // The counters are the thread's: any database gives the same.
            if (counted == null) now = counted = ofThread(store);
            for (int i = 0; i < atBegin.length; i++)
                atBegin[i] = COUNTS.get(i).ofThread.applyAsLong(counted);
            return true;
        }

        private static PerfContext ofThread(StoreContext store) {
            Database database = store.acquire();
            int use = Database.stripe();
            try {
                return database.db.getPerfContext();
            } finally {
                database.release(use);
            }
        }
    }

    /** The read that this thread began is over. */
    void add(Counters begun) {
        PerfContext counted = begun.now;
        if (counted == null) throw new IllegalStateException("no read was begun");
        reads.increment();
        for (int i = 0; i < begun.atBegin.length; i++)
            sums.get(i).add(COUNTS.get(i).ofThread.applyAsLong(counted) - begun.atBegin[i]);
    }

    /** What was counted since the store was opened; a rate is missing while there is none. */
    public void putInto(Map<String, Long> metrics) {
        metrics.put("sampled_reads", reads.sum());
        for (int i = 0; i < COUNTS.size(); i++)
            metrics.put(COUNTS.get(i).metric, sums.get(i).sum());
        putPercent(metrics, "block_cache_hit_percent", CACHE_HITS, CACHE_MISSES);
        putPercent(metrics, "filter_negative_percent", FILTER_NEGATIVES, FILTER_POSITIVES);
    }

    private static void putPercent(
            Map<String, Long> metrics, String name, String part, String rest) {
        long counted = metrics.getOrDefault(part, 0L);
        long all = counted + metrics.getOrDefault(rest, 0L);
        if (all > 0) metrics.put(name, 100 * counted / all);
    }
}
