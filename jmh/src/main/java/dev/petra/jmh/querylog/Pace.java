// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.Histogram;

/**
 * Asks one node what a log has, at the speed of the log or a multiple of it. A request's time
 * counts from when it was due: if the node stands still for a second, everything that was due in
 * that second waited, and is seen to have waited. Used once.
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

    /** Asks everything, and returns when all is answered. */
    public void run(Selection selection) {
        Selection.Selected next = selection.next();
        if (next == null) return;
        long first = next.query().startedMillis();
        long start = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LATE_FOR);
        long due = start;
        for (; next != null; next = selection.next()) {
            // A log has requests in the order of their answers: some began before the last one.
            if (speed > 0) due = Math.max(due, start + nanos(next.query().startedMillis() - first));
            await(due);
            free.acquireUninterruptibly();
            ask(next, speed > 0 ? due : System.nanoTime());
        }
        free.acquireUninterruptibly(mostAtOnce);
        free.release(mostAtOnce);
        if (speed > 0 && due > start) rate = selection.selected() / ((due - start) / 1e9);
    }

    private long nanos(long millis) {
        return (long) (TimeUnit.MILLISECONDS.toNanos(millis) / speed);
    }

    private static void await(long due) {
        for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime())
            LockSupport.parkNanos(left);
    }

    private void ask(Selection.Selected selected, long due) {
        player.ask(selected.query())
                .whenComplete(
                        (rows, failed) -> {
                            take(selected.isRead(), System.nanoTime() - due);
                            if (failed != null) fail(Answer.of(null, failed).kind());
                            free.release();
                        });
    }

    private synchronized void take(boolean isRead, long nanos) {
        (isRead ? reads : writes).recordValue(Math.min(nanos, HIGHEST_NANOS));
    }

    private synchronized void fail(String kind) {
        errors.merge(kind, 1L, Long::sum);
    }

    /** Times of reads, in nanoseconds. */
    public synchronized Histogram reads() {
        return reads.copy();
    }

    /** Times of everything else. */
    public synchronized Histogram writes() {
        return writes.copy();
    }

    /** How many failed, by kind of error. */
    public synchronized Map<String, Long> errors() {
        return new TreeMap<>(errors);
    }

    /** Requests that were due a second; 0 if each came when another was answered. */
    public double rate() {
        return rate;
    }
}
