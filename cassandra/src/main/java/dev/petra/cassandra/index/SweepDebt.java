// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Decides when a store is swept next: after a number of written index entries that is a share of
 * the entries it has. The cost of sweeps is therefore in proportion to writes. The share is small
 * while sweeps remove many entries, and doubles up to a limit while they remove few.
 *
 * <p>Thread-safe.
 */
final class SweepDebt {
    /** Fewer written entries than this are never worth a sweep. */
    private static final long FEW = 10_000;

    private static final double SMALLEST_SHARE = 0.5;
    private static final double LARGEST_SHARE = 4;

    /** A sweep that removes less than this share of the entries was too early. */
    private static final double WORTH = 0.1;

    private static final long UNKNOWN = -1;

    private final LongAdder written = new LongAdder();

    /** How many of these were written before a sweep began that has ended. */
    private long paid;

    private final double part;
    private double share = SMALLEST_SHARE;
    private long due = UNKNOWN;

    /** Whether an index was built since {@link #due} was set: there are more entries then. */
    private boolean isBuilt;

    /** The background sweep that is under way, or was interrupted; null if there is none. */
    private @Nullable Sweep interrupted;

    /**
     * For a store that was just opened. How much was written since its last sweep is not known, so
     * it starts with a random part of what makes a sweep due: otherwise a node that is restarted
     * often would never sweep.
     *
     * @param part random, from 0 to 1
     */
    SweepDebt(double part) {
        this.part = part;
    }

    private long due(long entries) {
        return Math.max(FEW, (long) (share * entries));
    }

    void written(int entries) {
        written.add(entries);
    }

    /** An index was built, whose entries do not count as written. */
    synchronized void built() {
        isBuilt = true;
    }

    /**
     * Returns whether a sweep is due.
     *
     * @param entries estimates how many entries the store has; called by the first call only, and
     *     the first after {@link #built}, which are never by a write
     */
    synchronized boolean isDue(LongSupplier entries) {
        if (due == UNKNOWN) {
            due = due(entries.getAsLong());
            written.add((long) (part * due));
        } else if (isBuilt) {
            due = Math.max(due, due(entries.getAsLong()));
        }
        isBuilt = false;
        return owed() >= due;
    }

    private long owed() {
        return written.sum() - paid;
    }

    /**
     * Returns how many times as many entries as make a sweep due were written since the last sweep
     * began that has ended. More than once or twice where a sweep takes longer than it takes to
     * write them.
     *
     * @param entries as for {@link #isDue}
     */
    synchronized long timesDue(LongSupplier entries) {
        return isDue(entries) ? owed() / due : 0;
    }

    /**
     * What a sweep did.
     *
     * @param looked how many entries it read
     * @param removed how many of these it removed
     */
    record Swept(long looked, long removed) {}

    /** A sweep of all indexes, which may be interrupted. One thread at a time. */
    static final class Sweep {
        /** How many entries were written before it began. */
        private final long before;

        private final Set<Long> done = new HashSet<>();
        private long looked;
        private long removed;
        private boolean passedOver;

        private Sweep(long before) {
            this.before = before;
        }

        /** Whether it has swept this incarnation of an index. */
        boolean isDone(long incarnation) {
            return done.contains(incarnation);
        }

        void done(long incarnation) {
            done.add(incarnation);
        }

        /** Says that there are more entries than it reads: an index is not complete yet. */
        void passedOver() {
            passedOver = true;
        }

        /** Counts entries that it has read, and those of them that it has removed. */
        void add(long entries, long gone) {
            looked += entries;
            removed += gone;
        }
    }

    /**
     * Sweeps. Only if that ends without an exception, what was written before it began counts as
     * swept.
     *
     * @param anew false to go on with a sweep that an exception has ended, if there is one
     * @param entries as for {@link #isDue}
     * @return what it did, from its beginning on
     */
    Swept pay(boolean anew, LongSupplier entries, Consumer<Sweep> work) {
        Sweep sweep = begin(anew);
        work.accept(sweep);
        Swept swept = new Swept(sweep.looked, sweep.removed);
        paid(sweep.before, swept, sweep.passedOver ? entries.getAsLong() : 0);
        return swept;
    }

    private synchronized Sweep begin(boolean anew) {
        if (!anew && interrupted != null) return interrupted;
        Sweep sweep = new Sweep(written.sum());
        if (!anew) interrupted = sweep;
        return sweep;
    }

    private synchronized void paid(long before, Swept swept, long atLeast) {
        interrupted = null;
        share =
                swept.removed >= WORTH * swept.looked
                        ? SMALLEST_SHARE
                        : Math.min(LARGEST_SHARE, 2 * share);
        due = due(Math.max(swept.looked - swept.removed, atLeast));
        // Of two that ran at once, the later one has paid for the other's.
        paid = Math.max(paid, before);
    }
}
