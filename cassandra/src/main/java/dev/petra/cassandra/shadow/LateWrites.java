// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.Row;
import org.jspecify.annotations.Nullable;

/**
 * Whether a table may show something that its shadow hides: what came to the table when it may
 * already have purged a deletion that is not older. The shadow purges nothing, so it has the
 * deletion. Such a copy must not take the place of its table, and once it is one it stays one.
 *
 * <p>Errs on one side only: partitions share what is remembered of them, and of deletions there are
 * at most {@link #MAX_TIMES} times for each group. So a copy may count as late that is not.
 *
 * <h2>Why none is missed</h2>
 *
 * The table shows something of timestamp {@code w}, and the shadow hides it by a deletion of
 * timestamp {@code d >= w}, only if the table has purged the deletion and what was written came
 * afterwards: while it was there, no compaction purged a deletion over it. (Compactions that do are
 * {@link PurgeRules#doubt}.) Both are noted when they come to the shadow, after they came to the
 * table, and whichever is noted second meets the other. What is noted second is noted after the
 * purge, so the deletion counts as purgeable then: the clock and the shortest grace since never go
 * back. ({@code docs/shadow-design.md} says in which case one is missed all the same.)
 *
 * <p>SSTables of the moment at which the copy began are as the table was at that moment: between
 * what is in them there is no such order. That is why {@link #copied} notes their deletions only.
 * Nothing was purged by then that had come to both: {@link ShadowCopy#watch}. And nothing is purged
 * later over something in them: a compaction that begins after that moment knows them, and one that
 * goes on then knows what is in {@link SeenByCompactions}. What may be new to it is noted as
 * written.
 *
 * <p>An expiring cell is a deletion of its timestamp: it hides what is older, is a tombstone of the
 * time of its write from its expiry on, and may be purged at once if its grace has passed by then.
 * Deletions in tables of counters count as newer than any count. That of a counter itself is purged
 * whatever is in other SSTables, so it is late with any count: what is said above is not true of
 * it.
 *
 * <p>Thread-safe.
 */
final class LateWrites {
    /** Times of deletions that are kept for each group of partitions. */
    static final int MAX_TIMES = 16;

    /** Of partitions. */
    static final int GROUPS = 256;

    /** {@link SeenByCompactions#newFrom} of what is known as a whole. */
    static final long NOTHING_NEW = Long.MAX_VALUE;

    /** {@link SeenByCompactions#newFrom} of what is not known at all. */
    static final long ALL_NEW = Long.MIN_VALUE;

    /** Of a counter itself: it hides each count, whatever its timestamp. */
    private static final long COUNTER_DELETED = Long.MAX_VALUE;

    /** Of a count, for that deletion: no other hides it. */
    private static final long COUNTED = Long.MAX_VALUE - 1;

    /** Of anything else, at most. */
    private static final long HIGHEST = Long.MAX_VALUE - 2;

    private static final long NOTHING_WRITTEN = Long.MAX_VALUE;
    private static final long NOTHING_DELETED = Long.MIN_VALUE;

    /**
     * By what the table may purge.
     *
     * @param clock in seconds, the highest that it was
     * @param grace the shortest {@code gc_grace_seconds} that it had
     */
    record Moment(long clock, int grace) {}

    /**
     * What is kept of a group.
     *
     * @param written the lowest timestamp that was written
     * @param purgeable the highest timestamp of a deletion that may have been purged
     */
    record Group(long written, long purgeable) {}

    /**
     * What is kept over a restart.
     *
     * @param grace the shortest
     * @param groups {@link #GROUPS} of them
     * @param deletions of all groups: highest timestamps of others, by the time from when on they
     *     may be purged
     * @param late why the copy is late; null if it is not
     */
    record Memory(
            int grace, List<Group> groups, SortedMap<Long, Long> deletions, @Nullable String late) {
        /** The same, and late for this reason if it is one. */
        Memory or(@Nullable String reason) {
            return late != null || reason == null
                    ? this
                    : new Memory(grace, groups, deletions, reason);
        }
    }

    private final Stripe[] stripes = new Stripe[GROUPS];
    private final AtomicInteger shortestGrace = new AtomicInteger(Integer.MAX_VALUE);
    private volatile @Nullable String late;

    LateWrites() {
        for (int i = 0; i < GROUPS; i++) stripes[i] = new Stripe();
    }

    /** Goes on where another ended. */
    LateWrites(Memory memory) {
        this();
        late = memory.late();
        shortestGrace.set(memory.grace());
        for (int i = 0; i < GROUPS; i++) {
            Stripe stripe = stripes[i];
            stripe.written = memory.groups().get(i).written();
            stripe.purgeable = memory.groups().get(i).purgeable();
            memory.deletions().forEach(stripe::add);
        }
    }

    /** Why the copy must not take the place of its table; null if nothing came too late. */
    @Nullable String reason() {
        return late;
    }

    /**
     * What there is to remember.
     *
     * @param now since the last note the grace may have been shorter for a while
     */
    Memory memory(Moment now) {
        int grace = shortestGrace.accumulateAndGet(now.grace(), Math::min);
        Stripe all = new Stripe();
        List<Group> groups = new ArrayList<>();
        for (Stripe stripe : stripes)
            synchronized (stripe) {
                // What may be purged counts for its own group only.
                stripe.passed(now.clock() - grace);
                groups.add(new Group(stripe.written, stripe.purgeable));
                stripe.deletions.forEach(all::add);
            }
        return new Memory(grace, groups, new TreeMap<>(all.deletions), late);
    }

    /**
     * Before something goes to the shadow that is copied from the table.
     *
     * @param newFrom the lowest timestamp of what came after the copy's first moment, or to a
     *     compaction of then; what is older counts as a deletion only
     */
    void copied(PartitionUpdate update, long newFrom, Moment now) {
        note(update, newFrom, now);
    }

    /** Before something else goes to the shadow. It is in the table. */
    void written(PartitionUpdate update, Moment now) {
        note(update, ALL_NEW, now);
    }

    /**
     * Before something goes to the table, which counts as {@link #written} when it is there. It is
     * late now if what it is not newer than may already have been purged.
     */
    void begins(PartitionUpdate update, Moment now) {
        if (late != null) return;
        int grace = shortestGrace.accumulateAndGet(now.grace(), Math::min);
        Contents contents = new Contents(new Stripe(), ALL_NEW, grace);
        contents.add(update);
        Stripe stripe = stripe(update);
        synchronized (stripe) {
            stripe.passed(now.clock() - grace);
            if (isHidden(contents.lowest, stripe.purgeable))
                late(reason(contents.lowest, stripe.purgeable));
        }
    }

    private Stripe stripe(PartitionUpdate update) {
        return stripes[WriteClock.stripe(update.partitionKey()) % GROUPS];
    }

    private void late(String reason) {
        synchronized (this) {
            if (late == null) late = reason;
        }
    }

    private void note(PartitionUpdate update, long newFrom, Moment now) {
        if (late != null) return;
        int grace = shortestGrace.accumulateAndGet(now.grace(), Math::min);
        Stripe stripe = stripe(update);
        synchronized (stripe) {
            stripe.passed(now.clock() - grace);
            Contents contents = new Contents(stripe, newFrom, grace);
            contents.add(update);
            if (isHidden(contents.lowest, stripe.purgeable))
                late(reason(contents.lowest, stripe.purgeable));
            else if (isHidden(stripe.written, contents.purgeable))
                late(reason(stripe.written, contents.purgeable));
            stripe.purgeable = Math.max(stripe.purgeable, contents.purgeable);
            stripe.written = Math.min(stripe.written, contents.lowest);
        }
    }

    /** Nothing is hidden by nothing, whatever its deletion. */
    private static boolean isHidden(long lowest, long purgeable) {
        return lowest != NOTHING_WRITTEN && lowest <= purgeable;
    }

    private static String reason(long written, long deletion) {
        return "something that was written (timestamp "
                + written
                + ") is not newer than a deletion ("
                + (deletion >= HIGHEST ? "of a counter" : "timestamp " + deletion)
                + ") that the table may have purged before";
    }

    /** What is remembered of some partitions. Guarded by itself. */
    private static final class Stripe {
        long written = NOTHING_WRITTEN;
        long purgeable = NOTHING_DELETED;

        /** From before when deletions may have been purged. */
        long gcBefore = Long.MIN_VALUE;

        /**
         * Deletions that may not be purged yet: the highest timestamp, by the time before which
         * they were. Both ascend: what is purged later, and is not newer, tells nothing more.
         */
        final TreeMap<Long, Long> deletions = new TreeMap<>();

        void add(long time, long timestamp) {
            Map.Entry<Long, Long> sooner = deletions.floorEntry(time);
            if (sooner != null && sooner.getValue() >= timestamp) return;
            deletions.put(time, timestamp);
            Iterator<Long> later = deletions.tailMap(time, false).values().iterator();
            while (later.hasNext() && later.next() <= timestamp) later.remove();
            if (deletions.size() > MAX_TIMES) mergeClosest();
        }

        /** Of two, the newer counts as purgeable when the older is. */
        private void mergeClosest() {
            long closest = Long.MAX_VALUE;
            long merged = deletions.firstKey();
            long with = deletions.lastKey();
            Long before = null;
            for (Long time : deletions.keySet()) {
                if (before != null && time - before < closest) {
                    closest = time - before;
                    merged = before;
                    with = time;
                }
                before = time;
            }
            Long timestamp = deletions.remove(with);
            if (timestamp != null) deletions.put(merged, timestamp);
        }

        /** Deletions from before this may be purged. */
        void passed(long time) {
            // Another may have looked at the clock later, and come here before.
            gcBefore = Math.max(gcBefore, time);
            while (!deletions.isEmpty() && deletions.firstKey() < gcBefore)
                purgeable = Math.max(purgeable, deletions.pollFirstEntry().getValue());
        }
    }

    /** The timestamps of an update. */
    private static final class Contents {
        private final Stripe stripe;
        private final long newFrom;
        private final long grace;
        private boolean isCounter;

        /** Of anything that may be new. */
        long lowest = NOTHING_WRITTEN;

        /** The highest of a deletion that may be purged. */
        long purgeable = NOTHING_DELETED;

        Contents(Stripe stripe, long newFrom, long grace) {
            this.stripe = stripe;
            this.newFrom = newFrom;
            this.grace = grace;
        }

        void add(PartitionUpdate update) {
            isCounter = update.metadata().isCounter();
            deleted(update.deletionInfo().getPartitionDeletion());
            Iterator<RangeTombstone> ranges = update.deletionInfo().rangeIterator(false);
            while (ranges.hasNext()) deleted(ranges.next().deletionTime());
            add(update.staticRow());
            for (Row row : update) add(row);
        }

        private void add(Row row) {
            LivenessInfo liveness = row.primaryKeyLivenessInfo();
            if (!liveness.isEmpty()) {
                written(liveness.timestamp());
                if (liveness.isExpiring())
                    deleted(liveness.localExpirationTime(), liveness.timestamp());
            }
            deleted(row.deletion().time());
            for (ColumnData column : row) {
                if (column instanceof ComplexColumnData collection) {
                    deleted(collection.complexDeletion());
                    for (Cell<?> cell : collection) add(cell);
                } else add((Cell<?>) column);
            }
        }

        private void add(Cell<?> cell) {
            written(cell.timestamp());
            if (isCounter) {
                counted(cell);
                return;
            }
            long time = cell.localDeletionTime();
            if (cell.isTombstone()) deleted(time, cell.timestamp());
            else if (cell.isExpiring())
                // Purged if it has expired, and was written before the grace.
                deleted(Math.max(time - cell.ttl(), time - 1 - grace), cell.timestamp());
        }

        /**
         * A deleted counter stays deleted, whatever is added later, until that is purged; and
         * whether it is purged does not depend on that. So no order of the two is a right one, and
         * what is copied counts as well.
         */
        private void counted(Cell<?> cell) {
            if (cell.isTombstone()) purgeable = COUNTER_DELETED;
            else lowest = Math.min(lowest, COUNTED);
        }

        private void written(long timestamp) {
            long bounded = Math.min(timestamp, HIGHEST);
            if (bounded >= newFrom) lowest = Math.min(lowest, bounded);
        }

        private void deleted(DeletionTime deletion) {
            if (deletion.isLive()) return;
            written(deletion.markedForDeleteAt());
            deleted(deletion.localDeletionTime(), deletion.markedForDeleteAt());
        }

        private void deleted(long time, long timestamp) {
            // What a count is merged of has other timestamps than the count.
            long hidden = isCounter ? HIGHEST : timestamp;
            if (time < stripe.gcBefore) purgeable = Math.max(purgeable, hidden);
            else stripe.add(time, hidden);
        }
    }
}
