// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.LoadingCache;
import dev.petra.engine.RangeEstimate;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How many partitions a generation has, about, and what they are like. The store is asked again
 * when the answer is old, which costs some reads, of a large table as of a small one: the keys of
 * up to 1,024 partitions, and some MiB of up to 64. Thread-safe.
 */
public final class Estimates {
    private static final Logger logger = LoggerFactory.getLogger(Estimates.class);

    /** Exporters read all metrics all the time. */
    private static final long OLD_NANOS = TimeUnit.MINUTES.toNanos(10);

    /** How often partitions are counted, at most, of a table that grows or shrinks. */
    private static final long SOON_NANOS = TimeUnit.SECONDS.toNanos(10);

    /** By which part a table has changed that is counted again. */
    private static final long CHANGED = 20;

    /** How long ranges are remembered of a table that changes by less than that. */
    private static final long OLD_RANGES_NANOS = TimeUnit.HOURS.toNanos(1);

    /** More than a node has, also with 256 tokens. */
    private static final int MOST_RANGES = 4_096;

    /**
     * @param keys how many keys there were
     * @param at when the partitions were counted
     * @param checked when it was seen that the keys have not changed much since
     */
    private record Count(long partitions, long keys, long at, long checked) {}

    /**
     * @param keys how many keys there were
     * @param bytes how many bytes of live data
     * @param at when that was
     * @param known what was estimated since
     */
    private record Ranges(long keys, long bytes, long at, Map<Range<Token>, RangeEstimate> known) {
        boolean areOf(StoreStatistics now, long nanos) {
            if (known.size() > MOST_RANGES) return false;
            long keysChanged = Math.abs(now.estimatedKeys() - keys);
            long bytesChanged = Math.abs(now.liveDataBytes() - bytes);
            // A table at rest is not read again at all.
            if (keysChanged == 0 && bytesChanged == 0) return true;
            return nanos - at < OLD_RANGES_NANOS
                    && keysChanged <= keys / CHANGED
                    && bytesChanged <= bytes / CHANGED;
        }
    }

    /**
     * One thread at a time reads the partitions of a table; who else asks gets what it found. What
     * is old is read again in the background, and is no answer any more when it is twice as old.
     */
    private static final LoadingCache<Estimates, PartitionSample> SAMPLES =
            Caffeine.newBuilder()
                    .weakKeys()
                    .refreshAfterWrite(OLD_NANOS, TimeUnit.NANOSECONDS)
                    .expireAfterWrite(2 * OLD_NANOS, TimeUnit.NANOSECONDS)
                    .build(Estimates::read);

    private final Generation generation;
    private final AtomicBoolean refreshing = new AtomicBoolean();
    private volatile long refreshed = System.nanoTime() - SOON_NANOS;
    private volatile @Nullable Count count;
    private volatile @Nullable Ranges ranges;

    Estimates(Generation generation) {
        this.generation = generation;
    }

    /** How many partitions there are. Mostly known; else reads the store. */
    public long partitions() {
        Count known = count;
        long now = System.nanoTime();
        if (known != null && (now - known.checked() < SOON_NANOS || generation.isShut()))
            return known.partitions();
        long keys = generation.statistic(StoreStatistics::estimatedKeys);
        if (known != null
                && now - known.at() < OLD_NANOS
                && Math.abs(keys - known.keys()) <= known.keys() / CHANGED) {
            count = new Count(known.partitions(), known.keys(), known.at(), now);
            return known.partitions();
        }
        long partitions = generation.measure(Estimates::count, 0L);
        // A table without partitions will soon have some, so this is not remembered.
        if (partitions > 0) count = new Count(partitions, keys, now, now);
        return partitions;
    }

    private static long count(TableStore store) {
        Token least = store.spec().metadata().get().partitioner.getMinimumToken();
        RangeEstimate all = store.estimate(new Range<>(least, least));
        return all.partitions();
    }

    /**
     * What is known of token ranges, for who estimates others to add to. Another one, without any,
     * when the table has changed. Reads counters.
     *
     * @param store of this generation
     */
    Map<Range<Token>, RangeEstimate> ranges(TableStore store) {
        StoreStatistics statistics = store.statistics();
        long now = System.nanoTime();
        Ranges present = ranges;
        if (present == null || !present.areOf(statistics, now)) {
            present =
                    new Ranges(
                            statistics.estimatedKeys(),
                            statistics.liveDataBytes(),
                            now,
                            new ConcurrentHashMap<>());
            ranges = present;
        }
        return present.known();
    }

    /** Some of the partitions. Mostly known; else reads the store. */
    public PartitionSample sample() {
        PartitionSample sample = SAMPLES.get(this);
        return sample == null ? PartitionSample.none() : sample;
    }

    /** Null if there is nothing yet, which will soon be something. */
    private static @Nullable PartitionSample read(Estimates of) {
        PartitionSample now = of.generation.measure(PartitionSample::of, PartitionSample.none());
        return now.isEmpty() ? null : now;
    }

    /**
     * {@link #partitions} as they were known last, 0 if they never were. Never reads the store, but
     * has it read in the background where that is old: for those who must not wait.
     */
    public long knownPartitions() {
        refresh();
        Count known = count;
        return known == null ? 0 : known.partitions();
    }

    /** {@link #sample} as it was known last, likewise. */
    public PartitionSample knownSample() {
        refresh();
        PartitionSample known = SAMPLES.getIfPresent(this);
        return known == null ? PartitionSample.none() : known;
    }

    private void refresh() {
        long now = System.nanoTime();
        if (now - refreshed < SOON_NANOS
                || generation.isEmpty()
                || !refreshing.compareAndSet(false, true)) return;
        refreshed = now;
        var unused =
                CompletableFuture.runAsync(
                                () -> {
                                    long partitions = partitions();
                                    if (partitions > 0) sample();
                                })
                        .whenComplete(
                                (done, failure) -> {
                                    refreshing.set(false);
                                    if (failure != null)
                                        logger.warn(
                                                "The number and the sizes of the partitions of {}"
                                                        + " cannot be estimated; its metrics keep"
                                                        + " the last estimates",
                                                generation,
                                                failure);
                                });
    }
}
