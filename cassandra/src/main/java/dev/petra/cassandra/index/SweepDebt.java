// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

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
    private final double part;
    private double share = SMALLEST_SHARE;
    private long due = UNKNOWN;

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

    /**
     * Returns whether a sweep is due.
     *
     * @param entries estimates how many entries the store has; called by the first call only, which
     *     is never by a write
     */
    synchronized boolean isDue(LongSupplier entries) {
        if (due == UNKNOWN) {
            due = due(entries.getAsLong());
            written.add((long) (part * due));
        }
        return written.sum() >= due;
    }

    /**
     * What a sweep did.
     *
     * @param looked how many entries it read
     * @param removed how many of these it removed
     */
    record Swept(long looked, long removed) {}

    /**
     * Sweeps. Only if that ends without an exception, what was written before it counts as swept.
     *
     * @return what it did
     */
    Swept pay(Supplier<Swept> sweep) {
        long before = written.sum();
        Swept swept = sweep.get();
        paid(before, swept);
        return swept;
    }

    private synchronized void paid(long before, Swept swept) {
        share =
                swept.removed >= WORTH * swept.looked
                        ? SMALLEST_SHARE
                        : Math.min(LARGEST_SHARE, 2 * share);
        due = due(swept.looked - swept.removed);
        written.add(-before);
    }
}
