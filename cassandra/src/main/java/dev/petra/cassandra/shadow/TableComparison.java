// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import com.google.common.util.concurrent.RateLimiter;
import dev.petra.cassandra.table.CompactionInfos;
import dev.petra.cassandra.table.Throttle;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.TimeUUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Compares all partitions of a table, or of a range of its tokens, with something else: one after
 * the other, in pieces of bounded size, throttled. Run once, by {@link TableComparisons}; all else
 * is thread-safe.
 */
public abstract class TableComparison {
    private static final Logger logger = LoggerFactory.getLogger(TableComparison.class);

    /** Of both sides, in one piece. */
    static final long MAX_BYTES = 1L << 20;

    // What it costs to look for a partition, and to open an SSTable for its keys, as bytes.
    static final int PER_READ = 4 << 10;
    private static final int PER_SSTABLE = 64 << 10;

    /** Bytes in a second where {@code compaction_throughput} has no limit. */
    private static final double UNLIMITED = 16 << 20;

    private static final int SHOWN_KEYS = 10;

    /** Why a partition could not be compared. */
    enum Reason {
        WRITTEN("written in each attempt"),
        TOO_LONG("could not be read within read_request_timeout and four seconds"),
        UNDECIDED(
                "differ only as Cassandra's replicas may, by what is not newer than a deletion past"
                        + " gc_grace_seconds, by since when an expired cell is gone, by the second"
                        + " of a deletion that the table has purged, or by the bytes of equal"
                        + " clustering values"),
        UNREADABLE("could not be read, see the log"),
        MISSING_OR_PURGED(
                "lack something that is missing or was purged since: the snapshot is older than the"
                        + " shortest gc_grace_seconds, or the table may have purged before that, so"
                        + " a later deletion may be gone together with what it hid");

        final String text;

        Reason(String text) {
            this.text = text;
        }
    }

    /** It ends early. */
    static final class Ended extends Exception {
        private static final long serialVersionUID = 1;

        final String reason;

        Ended(String reason) {
            super(reason, null, false, false);
            this.reason = reason;
        }
    }

    final ColumnFamilyStore cfs;
    final String name;
    private final String with;
    private final String rangeText;
    private final List<Range<Token>> ranges;
    private final long startedAt = System.currentTimeMillis();
    private final TimeUUID id = TimeUUID.Generator.nextTimeUUID();
    private final LongAdder compared = new LongAdder();
    private final LongAdder equal = new LongAdder();
    private final LongAdder different = new LongAdder();
    private final Map<Reason, Long> notComparable = new EnumMap<>(Reason.class);
    private final List<String> notComparableKeys = new ArrayList<>();
    private final RateLimiter limiter = RateLimiter.create(UNLIMITED);
    private volatile String state = "waits for another comparison";
    private volatile double tokensDone;
    private volatile long endedAt;
    private volatile boolean isComplete;
    private volatile boolean isStopped;
    private boolean hasStarted;

    /**
     * @param with what the table is compared with, for the log
     * @param rangeText as the operator has given it
     * @param ranges that do not wrap
     */
    TableComparison(
            ColumnFamilyStore cfs, String with, String rangeText, List<Range<Token>> ranges) {
        this.cfs = cfs;
        this.name = cfs.metadata.toString();
        this.with = with;
        this.rangeText = rangeText;
        this.ranges = List.copyOf(ranges);
    }

    // What it is

    /** The table's keyspace. */
    public String keyspace() {
        return cfs.metadata.keyspace;
    }

    /** The table. */
    public String table() {
        return cfs.metadata.name;
    }

    /** The snapshot that the table is compared with; empty: its shadow. */
    public String snapshot() {
        return "";
    }

    /** The range of tokens; empty for all. */
    public String tokenRange() {
        return rangeText;
    }

    /** What it does, or why it has ended. */
    public String state() {
        endUnlessStarted();
        return state;
    }

    /** Whether all partitions were looked at. */
    public boolean isComplete() {
        return isComplete;
    }

    /** Partitions that were compared, or were not comparable. */
    public long compared() {
        return compared.sum();
    }

    /** Partitions that are equal. */
    public long equal() {
        return equal.sum();
    }

    /** Partitions that differ. */
    public long different() {
        return different.sum();
    }

    /** Some differences, in a line each, which nothing else shows; or empty. */
    public String differences() {
        return "";
    }

    /** Partitions that could not be compared. */
    public long notComparable() {
        synchronized (notComparable) {
            return notComparable.values().stream().mapToLong(each -> each).sum();
        }
    }

    /** How many partitions could not be compared for which reason, and some keys; or empty. */
    public String notComparableBecause() {
        synchronized (notComparable) {
            if (notComparable.isEmpty()) return "";
            return notComparable.entrySet().stream()
                            .map(each -> each.getValue() + " " + each.getKey().text)
                            .collect(Collectors.joining("; "))
                    + "; partition keys: "
                    + String.join(", ", notComparableKeys);
        }
    }

    /** The part of the tokens that is done, from 0 to 1; 0 where a partitioner cannot tell. */
    public double tokensDone() {
        return tokensDone;
    }

    /** When it was started, in milliseconds since 1970. */
    public long startedAtMillis() {
        return startedAt;
    }

    /** When it has ended, in milliseconds since 1970; 0 while it has not. */
    public long endedAtMillis() {
        endUnlessStarted();
        return endedAt;
    }

    /** Whether it has ended. */
    boolean isOver() {
        return endedAtMillis() != 0;
    }

    /** One that waits for another, which may take days, ends at once. */
    private synchronized void endUnlessStarted() {
        if (hasStarted || endedAt != 0) return;
        String end = end();
        if (end != null) end(end);
    }

    /** Whether it may run now. */
    private synchronized boolean start() {
        endUnlessStarted();
        hasStarted = endedAt == 0;
        return hasStarted;
    }

    /** For {@code nodetool compactionstats}. */
    CompactionInfo info() {
        long done = compared();
        double part = tokensDone;
        return CompactionInfos.withoutSSTables(
                cfs.metadata(),
                OperationType.UNKNOWN,
                done,
                // It is not known how many there are.
                part > 0 ? Math.max(done, Math.round(done / part)) : done,
                CompactionInfo.Unit.KEYS,
                id);
    }

    /** {@code nodetool stop}. */
    void stop() {
        isStopped = true;
    }

    // The work

    /** Why it must end by itself, or null. */
    abstract @Nullable String reasonToEnd();

    /**
     * A side cannot be read, and it need not end for another reason.
     *
     * @return why it ends
     */
    abstract String failed(Comparison.SideFailure failure);

    /** Finds the keys of a range. */
    abstract KeyWalk walk(Range<Token> range);

    /** Waits until something can be compared. Called before keys are looked for. */
    abstract void awaitReady() throws Ended, InterruptedException;

    /** Counts and returns those of the last keys that differ before anything is compared. */
    Set<DecoratedKey> countMissed(KeyWalk walk) throws Ended, InterruptedException {
        return Set.of();
    }

    /** Compares and counts one partition. */
    abstract void compare(DecoratedKey key) throws Ended, InterruptedException;

    /** Compares all ranges, by {@link #compare(Range)}, and what is left behind that. */
    void compareAll() throws Ended, InterruptedException {
        for (Range<Token> range : ranges) compare(range);
    }

    /** What it says when all is compared. */
    String completed() {
        return "complete";
    }

    /** Compares all of it. Throws nothing. */
    void run() {
        if (!start()) return;
        String result;
        try {
            logger.info("Comparing {} with {}", name, with);
            compareAll();
            isComplete = true;
            result = completed();
        } catch (Ended e) {
            result = e.reason;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            result = "interrupted";
        } catch (Comparison.SideFailure e) {
            // A store that was dropped cannot be read either.
            String end = end();
            result = end != null ? end : failed(e);
        } catch (RuntimeException | Error e) {
            logger.error("The comparison of {} with {} failed", name, with, e);
            result = "failed: " + e;
        }
        end(result);
    }

    private void end(String result) {
        state = result;
        endedAt = System.currentTimeMillis();
        logger.info(
                "The comparison of {} with {} is over: {}. Partitions compared: {}, equal: {},"
                        + " different: {}, not comparable: {}{}",
                name,
                with,
                result,
                compared(),
                equal(),
                different(),
                notComparable(),
                notComparable() == 0 ? "" : " (" + notComparableBecause() + ")");
    }

    private void compare(Range<Token> range) throws Ended, InterruptedException {
        double before = tokensDone;
        double all = ranges.stream().mapToDouble(each -> size(each.left, each.right)).sum();
        KeyWalk walk = walk(range);
        while (!walk.isOver()) {
            awaitReady();
            SortedSet<DecoratedKey> keys = next(walk);
            throttle((long) PER_SSTABLE * walk.opened());
            keys.removeAll(countMissed(walk));
            for (DecoratedKey key : keys) compare(key);
            Token done = walk.isOver() ? range.right : walk.token();
            if (all > 0) tokensDone = before + size(range.left, done) / all;
        }
    }

    private SortedSet<DecoratedKey> next(KeyWalk walk) throws Ended {
        try {
            return walk.next();
        } catch (Timed.TooLong e) {
            check();
            throw e;
        }
    }

    private static double size(Token left, Token right) {
        // Others do not say how far two tokens are apart.
        return left.getPartitioner().splitter().isPresent() ? left.size(right) : 0;
    }

    /** What reads a partition behind a place, or all of it. */
    static SinglePartitionReadCommand command(
            TableMetadata table, long now, DecoratedKey key, @Nullable ClusteringPrefix<?> after) {
        return SinglePartitionReadCommand.create(
                table,
                now,
                key,
                ColumnFilter.all(table),
                new ClusteringIndexSliceFilter(slicesBehind(table, after), false));
    }

    /** All that is behind a place, and a range's bound that is at it. */
    static Slices slicesBehind(TableMetadata table, @Nullable ClusteringPrefix<?> place) {
        if (place == null) return Slices.ALL;
        ClusteringBound<?> start =
                place.kind().comparedToClustering < 0
                        ? ClusteringBound.inclusiveStartOf(place)
                        : ClusteringBound.exclusiveStartOf(place);
        return Slices.with(table.comparator, Slice.make(start, ClusteringBound.TOP));
    }

    /** Whether nothing can be behind it. */
    static boolean isEnd(TableMetadata table, ClusteringPrefix<?> place) {
        return table.comparator.size() == 0
                || (place.size() == 0 && place.kind().comparedToClustering > 0);
    }

    /** Counts a partition that was compared. */
    void count(boolean isEqual) {
        (isEqual ? equal : different).increment();
        compared.increment();
    }

    /** Counts a partition that was not. */
    void count(DecoratedKey key, Reason reason) {
        synchronized (notComparable) {
            notComparable.merge(reason, 1L, Long::sum);
            if (notComparableKeys.size() < SHOWN_KEYS)
                notComparableKeys.add(Comparison.shown(cfs.metadata(), key));
            else if (notComparableKeys.size() == SHOWN_KEYS) notComparableKeys.add("…");
        }
        compared.increment();
    }

    void state(String now) {
        state = now;
    }

    void check() throws Ended {
        String end = end();
        if (end != null) throw new Ended(end);
    }

    /** Why it must end, or null. */
    @Nullable String end() {
        if (Shadows.areStopped()) return "ended: the node is being drained";
        return isStopped ? "ended by nodetool stop" : reasonToEnd();
    }

    /**
     * At a quarter of {@code compaction_throughput}. Of a limiter of its own: from that of
     * compactions, one large request is served before all small ones of a compaction. Nothing is
     * open meanwhile.
     */
    void throttle(long bytes) throws Ended {
        double rate = bytesPerSecond(DatabaseDescriptor.getCompactionThroughputBytesPerSec());
        if (limiter.getRate() != rate) limiter.setRate(rate);
        Throttle.await(limiter, bytes, () -> end() != null);
        check();
    }

    /**
     * How much is read in a second.
     *
     * @param compaction what compactions may; 0 without a limit
     */
    static double bytesPerSecond(double compaction) {
        return compaction == 0 ? UNLIMITED : compaction / 4;
    }
}
