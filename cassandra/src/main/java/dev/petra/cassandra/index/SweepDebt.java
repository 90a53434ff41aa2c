// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;

/**
 * How many index entries were written to a store since it was swept, and how many may be before it
 * is swept again: in proportion to what it has, so that each written entry pays for a few looks at
 * entries. Fewer while sweeps find much to remove, more while they do not.
 *
 * <p>Thread-safe.
 */
final class SweepDebt {
    /** Entries that are not worth a sweep. */
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
     * Of a store that was just opened. What was written before is not known, so it owes a part by
     * chance: a node that is often started again would otherwise never sweep.
     *
     * @param part from 0 to 1
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

    long written() {
        return written.sum();
    }

    /**
     * Whether it is to be swept.
     *
     * @param entries about how many it has; asked the first time only, and not by who writes
     */
    synchronized boolean isDue(LongSupplier entries) {
        if (due == UNKNOWN) {
            due = due(entries.getAsLong());
            written.add((long) (part * due));
        }
        return written.sum() >= due;
    }

    /**
     * A sweep is complete.
     *
     * @param before {@link #written} when it began
     */
    synchronized void swept(long before, long looked, long removed) {
        share = removed >= WORTH * looked ? SMALLEST_SHARE : Math.min(LARGEST_SHARE, 2 * share);
        due = due(looked - removed);
        written.add(-before);
    }
}
