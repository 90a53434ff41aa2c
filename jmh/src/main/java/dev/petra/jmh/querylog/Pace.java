// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.util.BitSet;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.Histogram;

/**
 * Asks one node what a log has, at the speed of the log or a multiple of it. A request's time
 * counts from when it was due: if the node stands still for a second, everything that was due in
 * that second waited, and is seen to have waited. What fails has no time, and is counted. Used
 * once.
 */
public final class Pace {
    private static final long HIGHEST_NANOS = TimeUnit.MINUTES.toNanos(10);
    private static final int DIGITS = 3;
    private static final int LATE_FOR = 20;

    private final Player player;
    private final double speed;
    private final int mostAtOnce;
    private final Semaphore free;
    private final Histogram reads = new Histogram(HIGHEST_NANOS, DIGITS);
    private final Histogram writes = new Histogram(HIGHEST_NANOS, DIGITS);
    private final Map<String, Long> errors = new TreeMap<>();
    private final BitSet failed = new BitSet();
    private double rate;

    /**
     * @param speed 1 for that of the log, 2 for twice as fast; 0 for the next request as soon as
     *     one of those under way is answered
     * @param mostAtOnce how many are under way at once at most; those that are due then wait
     */
    public Pace(Player player, double speed, int mostAtOnce) {
        this.player = player;
        this.speed = speed;
        this.mostAtOnce = mostAtOnce;
        this.free = new Semaphore(mostAtOnce);
    }

    /**
     * Asks the next ones, and returns when all are answered.
     *
     * @param most how many
     */
    public void run(Selection selection, long most) {
        Selection.Selected next = most > 0 ? selection.next() : null;
        if (next == null) return;
        long first = next.query().startedMillis();
        long start = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LATE_FOR);
        long due = start;
        long asked = 0;
        while (next != null) {
            // A log has requests in the order of their answers: some began before the last one.
            if (speed > 0) due = Math.max(due, start + nanos(next.query().startedMillis() - first));
            await(due);
            free.acquireUninterruptibly();
            ask(next, selection.selected(), speed > 0 ? due : System.nanoTime());
            next = ++asked < most ? selection.next() : null;
        }
        free.acquireUninterruptibly(mostAtOnce);
        free.release(mostAtOnce);
        if (speed > 0 && due > start) {
            // What has failed is in no other figure.
            rate = (asked - failed().cardinality()) / ((due - start) / 1e9);
        }
    }

    private long nanos(long millis) {
        return (long) (TimeUnit.MILLISECONDS.toNanos(millis) / speed);
    }

    private static void await(long due) {
        for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime())
            LockSupport.parkNanos(left);
    }

    private void ask(Selection.Selected selected, long number, long due) {
        player.ask(selected.query())
                .whenComplete(
                        (rows, error) -> {
                            try {
                                if (error == null) take(selected.isRead(), System.nanoTime() - due);
                                else fail(number, Answer.of(null, error).kind());
                            } finally {
                                free.release();
                            }
                        });
    }

    private synchronized void take(boolean isRead, long nanos) {
        (isRead ? reads : writes).recordValue(Math.min(nanos, HIGHEST_NANOS));
    }

    private synchronized void fail(long number, String kind) {
        errors.merge(kind, 1L, Long::sum);
        failed.set((int) Math.min(number, Integer.MAX_VALUE - 1));
    }

    /** Times of reads that were answered, in nanoseconds. */
    public synchronized Histogram reads() {
        return reads.copy();
    }

    /** Times of everything else that was answered. */
    public synchronized Histogram writes() {
        return writes.copy();
    }

    /** How many failed, by kind of error. */
    public synchronized Map<String, Long> errors() {
        return new TreeMap<>(errors);
    }

    /** Which failed: their numbers among those that were selected, from 1. */
    public synchronized BitSet failed() {
        return (BitSet) failed.clone();
    }

    /** Requests that were due a second; 0 if each came when another was answered. */
    public double rate() {
        return rate;
    }
}
