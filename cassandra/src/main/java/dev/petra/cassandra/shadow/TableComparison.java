// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import com.google.common.util.concurrent.RateLimiter;
import dev.petra.cassandra.table.CompactionInfos;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringPrefix;
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
import org.apache.cassandra.utils.FBUtilities;
import org.apache.cassandra.utils.TimeUUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Compares all partitions of a table, or of a range of its tokens, with its shadow: one after the
 * other, in pieces of bounded size, each piece as of one moment. A partition that is written
 * whenever it is looked at, or cannot be read in time, is looked at once more at the end. Run once,
 * by {@link TableComparisons}; all else is thread-safe.
 */
public class TableComparison {
    private static final Logger logger = LoggerFactory.getLogger(TableComparison.class);

    /** Of both sides, in one piece. */
    private static final long MAX_BYTES = 1L << 20;

    private static final long MIN_BYTES = 256;

    /** After an attempt in which the partition was written, the next is so much smaller. */
    private static final int SHRINKS = 8;

    /**
     * Of one piece: one of a few rows is quiet sooner or later if it is written 1,000 times a
     * second.
     */
    private static final int ATTEMPTS = 20;

    /**
     * Of a piece of which not one place could be compared in time: a disk that is slow once must
     * not make a partition one that is not comparable.
     */
    private static final int SLOW_ATTEMPTS = 3;

    // What it costs to look for a partition, and to open an SSTable for its keys, as bytes.
    private static final int PER_READ = 4 << 10;
    private static final int PER_SSTABLE = 64 << 10;

    /** Bytes in a second where {@code compaction_throughput} has no limit. */
    private static final double UNLIMITED = 16 << 20;

    /** What is asked of the limiter at once. */
    private static final int CHUNK = 64 << 10;

    /** Partitions that are looked at once more. */
    static final int MAX_AGAIN = 10_000;

    private static final long MAX_AGAIN_BYTES = 4L << 20;

    private static final int SHOWN_KEYS = 10;
    private static final int WAIT_MILLIS = 100;

    /** Writes that are in the shadow soon. */
    private static final int SHORT_QUEUE = 256;

    /** Before an attempt; an engine may be behind for long. */
    private static final long QUEUE_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);

    /** Why a partition could not be compared. */
    private enum Reason {
        WRITTEN("written in each attempt"),
        TOO_LONG("could not be read within read_request_timeout"),
        UNDECIDED(
                "differ only as Cassandra's replicas may, by what is not newer than a deletion past"
                        + " gc_grace_seconds or by the bytes of equal clustering values"),
        UNREADABLE("could not be read, see the log");

        final String text;

        Reason(String text) {
            this.text = text;
        }
    }

    /**
     * What is behind a place of a partition, or all of it.
     *
     * @param isUndecided whether something up to that place is
     */
    private record Rest(
            DecoratedKey key, @Nullable ClusteringPrefix<?> after, boolean isUndecided) {}

    /** It ends early. */
    private static final class Ended extends Exception {
        private static final long serialVersionUID = 1;

        final String reason;

        Ended(String reason) {
            super(reason, null, false, false);
            this.reason = reason;
        }
    }

    private final Shadow shadow;
    private final ShadowCopy copy;
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
    private final List<Rest> again = new ArrayList<>();
    private long againBytes;
    private volatile String state = "waits for another comparison";
    private String phase = "compares";
    private volatile double tokensDone;
    private volatile long endedAt;
    private volatile boolean isComplete;
    private volatile boolean isStopped;
    private boolean hasStarted;

    /**
     * @param rangeText as the operator has given it
     * @param ranges that do not wrap
     */
    TableComparison(Shadow shadow, ShadowCopy copy, String rangeText, List<Range<Token>> ranges) {
        this.shadow = shadow;
        this.copy = copy;
        this.rangeText = rangeText;
        this.ranges = List.copyOf(ranges);
    }

    // What it is

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
                shadow.cfs.metadata(),
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

    /** Compares all of it. Throws nothing. */
    void run() {
        if (!start()) return;
        String result;
        try {
            logger.info("Comparing {} with its shadow", shadow.name);
            for (Range<Token> range : ranges) compare(range);
            compareAgain();
            isComplete = true;
            result = "complete";
        } catch (Ended e) {
            result = e.reason;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            result = "interrupted";
        } catch (Comparison.SideFailure e) {
            // A store that was dropped cannot be read either.
            String end = end();
            if (end == null) {
                logger.error("The keys of {} or of its shadow cannot be read", shadow.name, e);
                if (e.isShadow) copy.fault("it cannot be read: " + e.getMessage());
            }
            result = end != null ? end : "ended: the keys cannot be read: " + e.getMessage();
        } catch (RuntimeException | Error e) {
            logger.error("The comparison of {} with its shadow failed", shadow.name, e);
            result = "failed: " + e;
        }
        again.clear();
        end(result);
    }

    private void end(String result) {
        state = result;
        endedAt = System.currentTimeMillis();
        logger.info(
                "The comparison of {} with its shadow is over: {}. Partitions compared: {}, equal:"
                        + " {}, different: {}, not comparable: {}{}",
                shadow.name,
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
        KeyWalk walk =
                new KeyWalk(shadow.cfs, copy.store, range, () -> Timed.check(() -> end() == null));
        while (!walk.isOver()) {
            phase = "compares";
            awaitCaughtUp();
            SortedSet<DecoratedKey> keys = next(walk);
            throttle((long) PER_SSTABLE * walk.opened());
            for (DecoratedKey key : keys) compare(new Rest(key, null, false), false);
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

    private void compareAgain() throws Ended, InterruptedException {
        phase = "compares once more what was written or slow";
        for (Rest rest : again) compare(rest, true);
    }

    /** Compares a partition, or what is behind a place of it, piece by piece. */
    private void compare(Rest rest, boolean isLast) throws Ended, InterruptedException {
        DecoratedKey key = rest.key();
        ClusteringPrefix<?> after = rest.after();
        boolean isUndecided = rest.isUndecided();
        long maxBytes = MAX_BYTES;
        int failed = 0;
        int slow = 0;
        while (true) {
            awaitCaughtUp();
            Attempt attempt = attempt(key, after, maxBytes);
            Comparison.Outcome outcome = attempt.run();
            throttle(PER_READ + attempt.bytes());
            check();
            ClusteringPrefix<?> reached = attempt.reached();
            if (outcome != null && outcome.result() != Comparison.Result.TOO_LONG) {
                boolean isEqual = outcome.result() == Comparison.Result.EQUAL;
                count(key, isEqual && isUndecided ? Comparison.Outcome.UNDECIDED : outcome);
                return;
            }
            if (outcome != null && reached == null) {
                if (++slow == SLOW_ATTEMPTS) {
                    if (isLast || !addAgain(new Rest(key, after, isUndecided)))
                        count(key, Reason.TOO_LONG);
                    return;
                }
            } else if (outcome != null && reached != null && attempt.isOfOneMoment()) {
                isUndecided |= attempt.isUndecided();
                if (isEnd(shadow.cfs.metadata(), reached)) {
                    count(
                            key,
                            isUndecided ? Comparison.Outcome.UNDECIDED : Comparison.Outcome.EQUAL);
                    return;
                }
                after = reached;
                failed = 0;
                slow = 0;
                maxBytes = Math.min(MAX_BYTES, 2 * maxBytes);
            } else if (copy.isCaughtUp()) {
                if (++failed == ATTEMPTS) {
                    if (attempt.isUnreadable()) count(key, Reason.UNREADABLE);
                    else if (isLast || !addAgain(new Rest(key, after, isUndecided)))
                        count(key, Reason.WRITTEN);
                    return;
                }
                awaitShortQueue();
                List<Integer> pauses = Attempt.PAUSES_MILLIS;
                TimeUnit.MILLISECONDS.sleep(pauses.get(failed % pauses.size()));
                // The shorter it takes, the likelier it is that nothing is written meanwhile.
                maxBytes = Math.max(MIN_BYTES, maxBytes / SHRINKS);
            }
        }
    }

    /** To be overridden by tests. */
    Attempt attempt(DecoratedKey key, @Nullable ClusteringPrefix<?> after, long maxBytes) {
        TableMetadata table = shadow.cfs.metadata();
        SinglePartitionReadCommand command =
                SinglePartitionReadCommand.create(
                        table,
                        FBUtilities.nowInSeconds(),
                        key,
                        ColumnFilter.all(table),
                        new ClusteringIndexSliceFilter(slicesBehind(table, after), false));
        return new Attempt(shadow, copy, command, Attempt.Extent.piece(after, maxBytes));
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

    private boolean addAgain(Rest rest) {
        ClusteringPrefix<?> after = rest.after();
        int bytes = rest.key().getKey().remaining() + (after == null ? 0 : after.dataSize());
        if (again.size() >= MAX_AGAIN || againBytes + bytes > MAX_AGAIN_BYTES) return false;
        again.add(rest);
        againBytes += bytes;
        return true;
    }

    private void count(DecoratedKey key, Comparison.Outcome outcome) {
        switch (outcome.result()) {
            case UNDECIDED -> count(key, Reason.UNDECIDED);
            case TOO_LONG -> throw new IllegalArgumentException(outcome.toString());
            case EQUAL, DIFFERENT -> {
                shadow.count(key, outcome);
                (outcome.result() == Comparison.Result.EQUAL ? equal : different).increment();
                compared.increment();
            }
        }
    }

    private void count(DecoratedKey key, Reason reason) {
        shadow.count(key, null);
        synchronized (notComparable) {
            notComparable.merge(reason, 1L, Long::sum);
            if (notComparableKeys.size() < SHOWN_KEYS) notComparableKeys.add(shadow.shown(key));
            else if (notComparableKeys.size() == SHOWN_KEYS) notComparableKeys.add("…");
        }
        compared.increment();
    }

    private void awaitCaughtUp() throws Ended, InterruptedException {
        check();
        while (!copy.isCaughtUp()) {
            state =
                    Shadows.isShrinking(shadow.cfs)
                            ? "waits until cleanup or scrub of the table is over"
                            : "waits until the shadow has copied what a stream or an import has"
                                    + " brought";
            TimeUnit.MILLISECONDS.sleep(WAIT_MILLIS);
            check();
        }
        state = phase;
    }

    /**
     * A write counts as under way until it is in the shadow: one that waits behind many others must
     * not make its partition one that is always written.
     */
    private void awaitShortQueue() throws Ended, InterruptedException {
        long deadline = System.nanoTime() + QUEUE_PATIENCE_NANOS;
        while (copy.queued.get() > SHORT_QUEUE && System.nanoTime() - deadline < 0) {
            TimeUnit.MILLISECONDS.sleep(1);
            check();
        }
    }

    private void check() throws Ended {
        String end = end();
        if (end != null) throw new Ended(end);
    }

    /** Why it must end, or null. */
    private @Nullable String end() {
        if (Shadows.areStopped()) return "ended: the node is being drained";
        if (isStopped) return "ended by nodetool stop";
        ShadowStore.End end = copy.end();
        return end == null ? null : "ended: the shadow has dropped out: " + end.reason();
    }

    /**
     * At a quarter of {@code compaction_throughput}. Of a limiter of its own: from that of
     * compactions, one large request is served before all small ones of a compaction. Nothing is
     * open meanwhile.
     */
    private void throttle(long bytes) throws Ended {
        double rate = bytesPerSecond(DatabaseDescriptor.getCompactionThroughputBytesPerSec());
        if (limiter.getRate() != rate) limiter.setRate(rate);
        for (long left = bytes; left > 0; left -= CHUNK) {
            limiter.acquire((int) Math.min(left, CHUNK));
            check();
        }
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
