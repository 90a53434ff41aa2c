// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.Histogram;

/**
 * Requests at a fixed rate, whether or not earlier ones are answered. A request's time counts from
 * when it was due: if the engine stands still for a second, everything that was due in that second
 * waited, and is seen to have waited.
 */
final class OpenLoop {
    /** The longest time that a histogram of requests holds. */
    static final long HIGHEST_NANOS = TimeUnit.MINUTES.toNanos(2);

    /** How exactly it holds times: decimal digits. */
    static final int DIGITS = 3;

    /** As many may be waiting at once. */
    static final int CLIENTS = 16;

    /** Rates besides the usual one, in percent of the slowest engine's closed loop. */
    static final List<Integer> SWEEP = List.of(25, 50, 75, 100, 125, 150, 200);

    /** Into how many pieces the time of a run is cut. */
    static final int SLOTS = 200;

    private final Access access;
    private final Workload workload;
    private final double readShare;
    private final int clients;
    private final long seed;

    /** Times of reads, in nanoseconds. */
    final Histogram reads = new Histogram(HIGHEST_NANOS, DIGITS);

    /** Times of writes, in nanoseconds. */
    final Histogram writes = new Histogram(HIGHEST_NANOS, DIGITS);

    /** The slowest request of those that were due in a piece of the time, in nanoseconds. */
    final AtomicLongArray slowest = new AtomicLongArray(SLOTS);

    final Gap gap = new Gap();

    /** When {@link #end} was called. */
    private volatile long last = Long.MAX_VALUE;

    /** How the metrics of a rate of {@link #SWEEP} end. */
    static String at(int percent) {
        return " at " + percent + " %";
    }

    /**
     * @param readShare 0 to 1
     * @param seed of the keys
     */
    OpenLoop(Access access, Workload workload, double readShare, long seed) {
        this(access, workload, readShare, seed, CLIENTS);
    }

    /**
     * @param clients as many as may be waiting at once; each request of one waits for its
     *     predecessor
     */
    OpenLoop(Access access, Workload workload, double readShare, long seed, int clients) {
        this.access = access;
        this.workload = workload;
        this.readShare = readShare;
        this.seed = seed;
        this.clients = clients;
    }

    /**
     * As many requests as are answered, for a time.
     *
     * @return how many of them in a second
     */
    double runClosed(long seconds) {
        long began = System.nanoTime();
        run(Double.POSITIVE_INFINITY, seconds);
        return (reads.getTotalCount() + writes.getTotalCount()) * 1e9 / (System.nanoTime() - began);
    }

    /**
     * Runs for a time, and returns when the last request is answered.
     *
     * @param rate requests a second; infinite for the next as soon as one is answered
     */
    void run(double rate, long seconds) {
        double nanosApart = 1e9 / rate;
        AtomicLong next = new AtomicLong();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        long start = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(20);
        long end = start + TimeUnit.SECONDS.toNanos(seconds);
        gap.begin(start);
        Thread[] threads = new Thread[clients];
        SplittableRandom seeds = new SplittableRandom(seed);
        for (int i = 0; i < clients; i++) {
            SplittableRandom random = seeds.split();
            threads[i] =
                    new Thread(
                            () -> {
                                try {
                                    client(random, next, start, nanosApart, end, failure);
                                } catch (Throwable t) {
                                    failure.compareAndSet(null, t);
                                }
                            },
                            "client-" + i);
            threads[i].start();
        }
        try {
            for (Thread thread : threads) thread.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
        Throwable failed = failure.get();
        if (failed != null) throw new IllegalStateException("a request failed", failed);
    }

    /** Ends the run early: what is due by now is still asked. */
    void end() {
        last = System.nanoTime();
    }

    private void client(
            SplittableRandom random,
            AtomicLong next,
            long start,
            double nanosApart,
            long end,
            AtomicReference<Throwable> failure) {
        Histogram ownReads = new Histogram(HIGHEST_NANOS, DIGITS);
        Histogram ownWrites = new Histogram(HIGHEST_NANOS, DIGITS);
        while (failure.get() == null) {
            long due =
                    nanosApart == 0
                            ? System.nanoTime()
                            : start + (long) (next.getAndIncrement() * nanosApart);
            if (due >= end || due >= last) break;
            await(due);
            if (random.nextDouble() < readShare) {
                access.read(workload.any(random));
                ownReads.recordValue(took(due, start, end));
            } else {
                workload.written().write(access, random);
                ownWrites.recordValue(took(due, start, end));
            }
        }
        synchronized (this) {
            reads.add(ownReads);
            writes.add(ownWrites);
        }
    }

    private long took(long due, long start, long end) {
        long now = System.nanoTime();
        gap.answered(now);
        long nanos = now - due;
        int slot = (int) ((double) (due - start) / (end - start) * SLOTS);
        slowest.accumulateAndGet(Math.max(0, Math.min(SLOTS - 1, slot)), nanos, Math::max);
        return nanos;
    }

    /**
     * Sleeps, and wakes some 50 µs late, which all engines' times have in them. To spin instead
     * would take the processor from the engine.
     */
    private static void await(long due) {
        for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime())
            LockSupport.parkNanos(left);
    }
}
