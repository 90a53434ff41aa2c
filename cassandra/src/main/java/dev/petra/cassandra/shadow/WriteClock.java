// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.cassandra.db.DecoratedKey;

/**
 * Tells whether a partition was written while it was read twice, once from the table and once from
 * its shadow. No writer ever waits.
 *
 * <p>A write counts as begun before it goes to the table, and as ended when it is in the shadow
 * too, or has failed. Partitions share counters, so a write of another may count as well.
 *
 * <h2>Why an interval without writes is one</h2>
 *
 * A reader takes {@code ended}, then {@code begun}; reads both sides if the two are equal; and
 * takes {@code begun} again. The writes that had ended are among those that had begun by the second
 * look, and there were as many, so they are the same: none was under way then. If {@code begun} is
 * the same at the third look, none has begun in between. A write that begins later goes to neither
 * side before that look. So each write is in both answers, or in none.
 */
final class WriteClock {
    /** Partitions that share counters are so many apart; 64 KiB of counters for a table. */
    private static final int STRIPES = 4096;

    /** What {@link #quietSince} returns while a write is under way. */
    static final long WRITING = -1;

    private final AtomicLongArray begun = new AtomicLongArray(STRIPES);
    private final AtomicLongArray ended = new AtomicLongArray(STRIPES);

    static int stripe(DecoratedKey key) {
        int hash = key.getKey().hashCode() * 0x9E3779B9;
        return hash >>> (Integer.SIZE - Integer.numberOfTrailingZeros(STRIPES));
    }

    /** Before a write goes to the table. */
    void begin(int stripe) {
        begun.incrementAndGet(stripe);
    }

    /** When it is in the shadow. */
    void end(int stripe) {
        ended.incrementAndGet(stripe);
    }

    /** A moment without a write of a partition, for {@link #isQuietSince}; or {@link #WRITING}. */
    long quietSince(int stripe) {
        long done = ended.get(stripe);
        long all = begun.get(stripe);
        return done == all ? all : WRITING;
    }

    /** The same for all stripes, each at a moment of its own. */
    long[] quietSince() {
        long[] moments = new long[STRIPES];
        for (int stripe = 0; stripe < STRIPES; stripe++) moments[stripe] = quietSince(stripe);
        return moments;
    }

    /**
     * A moment without any write, for {@link #isAllQuietSince}; or {@link #WRITING}. Of no counter
     * more have ended than have begun, and none goes back: where the sums are equal, all were.
     */
    long allQuietSince() {
        long done = sum(ended);
        long all = sum(begun);
        return done == all ? all : WRITING;
    }

    /** Whether no write of any partition has begun since then. */
    boolean isAllQuietSince(long moment) {
        // What was read comes before this look.
        VarHandle.acquireFence();
        return sum(begun) == moment;
    }

    private static long sum(AtomicLongArray counters) {
        long sum = 0;
        for (int stripe = 0; stripe < STRIPES; stripe++) sum += counters.get(stripe);
        return sum;
    }

    /** Whether no write has begun since then. */
    boolean isQuietSince(int stripe, long moment) {
        // What was read comes before this look.
        VarHandle.acquireFence();
        return begun.get(stripe) == moment;
    }
}
