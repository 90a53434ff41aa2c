// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Compares a table with its shadow, each piece as of one moment. A partition that is written
 * whenever it is looked at, or cannot be read in time, is looked at once more at the end.
 */
class ShadowComparison extends TableComparison {
    private static final Logger logger = LoggerFactory.getLogger(ShadowComparison.class);

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

    /** Partitions that are looked at once more. */
    private static final int MAX_AGAIN = 10_000;

    private static final long MAX_AGAIN_BYTES = 4L << 20;

    private static final int WAIT_MILLIS = 100;

    /** Writes that are in the shadow soon. */
    private static final int SHORT_QUEUE = 256;

    private static final Comparison.Outcome MISSED =
            Comparison.Outcome.different(
                    "the partition",
                    "its key is found among all keys",
                    "the store's scan of all keys does not find the partition; a read of it does");

    /** Before an attempt; an engine may be behind for long. */
    private static final long QUEUE_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);

    /**
     * What is behind a place of a partition, or all of it.
     *
     * @param undecided the first that is so up to that place, or null
     */
    private record Rest(
            DecoratedKey key,
            @Nullable ClusteringPrefix<?> after,
            Comparison.@Nullable Outcome undecided) {}

    private final Shadow shadow;
    private final ShadowCopy copy;
    private final List<Rest> again = new ArrayList<>();
    private long againBytes;
    private String phase = "compares";

    /**
     * @param rangeText as the operator has given it
     * @param ranges that do not wrap
     */
    ShadowComparison(Shadow shadow, ShadowCopy copy, String rangeText, List<Range<Token>> ranges) {
        super(shadow.cfs, "its shadow", rangeText, ranges);
        this.shadow = shadow;
        this.copy = copy;
    }

    @Override
    @Nullable String reasonToEnd() {
        ShadowStore.End end = copy.end();
        if (end != null) return "ended: the shadow has dropped out: " + end.reason();
        return shadow.isPromoted() ? "ended: the table was altered into its storage engine" : null;
    }

    @Override
    String failed(Comparison.SideFailure failure) {
        logger.error("The keys of {} or of its shadow cannot be read", name, failure);
        if (failure.isShadow) copy.fault("it cannot be read: " + failure.getMessage());
        return "ended: the keys cannot be read: " + failure.getMessage();
    }

    @Override
    KeyWalk walk(Range<Token> range) {
        return new KeyWalk(cfs, copy.store, range, () -> Timed.check(() -> end() == null));
    }

    @Override
    void compareAll() throws Ended, InterruptedException {
        try {
            super.compareAll();
            phase = "compares once more what was written or slow";
            for (Rest rest : again) compare(rest, true);
        } finally {
            again.clear();
        }
    }

    @Override
    void compare(DecoratedKey key) throws Ended, InterruptedException {
        compare(new Rest(key, null, null), false);
    }

    /**
     * Looks for partitions that the shadow has, and that are not found where it is read by ranges.
     * All that was written when such a key is looked for once more was in the shadow then, and
     * nothing comes to it until it is read: see {@link WriteClock}.
     */
    @Override
    Set<DecoratedKey> countMissed(KeyWalk walk) throws Ended, InterruptedException {
        Set<DecoratedKey> missed = new TreeSet<>();
        Map<DecoratedKey, Long> quiet = new HashMap<>();
        if (walk.onlyInTable().isEmpty()) return missed;
        awaitShortQueue();
        long arrivals = copy.arrivalsIfCaughtUp();
        for (DecoratedKey key : walk.onlyInTable()) {
            long moment = copy.clock.quietSince(WriteClock.stripe(key));
            if (moment != WriteClock.WRITING) quiet.put(key, moment);
        }
        if (quiet.isEmpty() || arrivals == ShadowCopy.NOT_CAUGHT_UP) return missed;
        try {
            for (DecoratedKey key : walk.missedAgain(copy.store, quiet.keySet())) {
                throttle(PER_READ);
                long moment = Objects.requireNonNull(quiet.get(key));
                // The clock after the read.
                if (isInStore(key)
                        && copy.clock.isQuietSince(WriteClock.stripe(key), moment)
                        && copy.arrivalsIfCaughtUp() == arrivals) {
                    count(key, MISSED);
                    missed.add(key);
                }
            }
        } catch (Timed.TooLong e) {
            check();
            throw e;
        }
        return missed;
    }

    private boolean isInStore(DecoratedKey key) {
        AtomicBoolean found = new AtomicBoolean();
        KeyWalk.find(
                true,
                () -> {
                    try (UnfilteredRowIterator rows =
                            Attempt.readAside(
                                    copy.store,
                                    command(cfs.metadata(), FBUtilities.nowInSeconds(), key, null),
                                    () -> Timed.check(() -> end() == null))) {
                        found.set(!rows.isEmpty());
                    }
                });
        return found.get();
    }

    /** Compares a partition, or what is behind a place of it, piece by piece. */
    private void compare(Rest rest, boolean isLast) throws Ended, InterruptedException {
        DecoratedKey key = rest.key();
        ClusteringPrefix<?> after = rest.after();
        Comparison.Outcome undecided = rest.undecided();
        long maxBytes = MAX_BYTES;
        int failed = 0;
        int slow = 0;
        while (true) {
            awaitReady();
            Attempt attempt = attempt(key, after, maxBytes);
            Comparison.Outcome outcome = attempt.run();
            throttle(PER_READ + attempt.bytes());
            check();
            ClusteringPrefix<?> reached = attempt.reached();
            if (outcome != null && outcome.result() != Comparison.Result.TOO_LONG) {
                boolean isEqual = outcome.result() == Comparison.Result.EQUAL;
                count(key, isEqual && undecided != null ? undecided : outcome);
                return;
            }
            if (outcome != null && reached == null) {
                if (++slow == SLOW_ATTEMPTS) {
                    if (isLast || !addAgain(new Rest(key, after, undecided)))
                        count(key, Reason.TOO_LONG);
                    return;
                }
            } else if (outcome != null && reached != null && attempt.isOfOneMoment()) {
                if (undecided == null) undecided = attempt.undecided();
                if (isEnd(cfs.metadata(), reached)) {
                    count(key, undecided == null ? Comparison.Outcome.EQUAL : undecided);
                    return;
                }
                after = reached;
                failed = 0;
                slow = 0;
                maxBytes = Math.min(MAX_BYTES, 2 * maxBytes);
            } else if (copy.isCaughtUp()) {
                if (++failed == ATTEMPTS) {
                    if (attempt.isUnreadable()) count(key, Reason.UNREADABLE);
                    else if (isLast || !addAgain(new Rest(key, after, undecided)))
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
        return new Attempt(
                shadow,
                copy,
                command(cfs.metadata(), FBUtilities.nowInSeconds(), key, after),
                Attempt.Extent.piece(after, maxBytes));
    }

    private boolean addAgain(Rest rest) {
        ClusteringPrefix<?> after = rest.after();
        Comparison.Outcome undecided = rest.undecided();
        int bytes =
                rest.key().getKey().remaining()
                        + (after == null ? 0 : after.dataSize())
                        + (undecided == null
                                ? 0
                                : undecided.table().length() + undecided.shadow().length());
        if (again.size() >= MAX_AGAIN || againBytes + bytes > MAX_AGAIN_BYTES) return false;
        again.add(rest);
        againBytes += bytes;
        return true;
    }

    private void count(DecoratedKey key, Comparison.Outcome outcome) {
        switch (outcome.result()) {
            case UNDECIDED -> {
                shadow.results.count(copy, key, outcome);
                super.count(key, Reason.UNDECIDED);
            }
            case TOO_LONG -> throw new IllegalArgumentException(outcome.toString());
            case EQUAL, DIFFERENT -> {
                shadow.results.count(copy, key, outcome);
                count(outcome.result() == Comparison.Result.EQUAL);
            }
        }
    }

    @Override
    void count(DecoratedKey key, Reason reason) {
        shadow.results.count(copy, key, null);
        super.count(key, reason);
    }

    @Override
    void awaitReady() throws Ended, InterruptedException {
        check();
        while (!copy.isCaughtUp()) {
            state(
                    Shadows.isShrinking(cfs)
                            ? "waits until cleanup, scrub or forcecompact of the table is over"
                            : "waits until the shadow has copied what a stream or an import has"
                                    + " brought");
            TimeUnit.MILLISECONDS.sleep(WAIT_MILLIS);
            check();
        }
        state(phase);
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
}
