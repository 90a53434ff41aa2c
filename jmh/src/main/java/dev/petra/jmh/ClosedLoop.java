// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.SplittableRandom;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.HdrHistogram.ConcurrentHistogram;
import org.HdrHistogram.Histogram;
import org.jspecify.annotations.Nullable;

/**
 * A number of requests that are always under way, without a thread for each: the next follows when
 * one is answered. A client that waits in threads takes a good part of the processors from the node
 * beside it.
 */
final class ClosedLoop {
    private final ClientAccess access;
    private final Workload workload;
    private final double readShare;
    private final long seed;
    private final AtomicReference<@Nullable Throwable> failure = new AtomicReference<>();

    /** Times of reads, in nanoseconds. */
    final Histogram reads = new ConcurrentHistogram(OpenLoop.HIGHEST_NANOS, OpenLoop.DIGITS);

    /** Times of writes, in nanoseconds. */
    final Histogram writes = new ConcurrentHistogram(OpenLoop.HIGHEST_NANOS, OpenLoop.DIGITS);

    final Gap gap = new Gap();

    /**
     * @param readShare 0 to 1
     * @param seed of the keys
     */
    ClosedLoop(ClientAccess access, Workload workload, double readShare, long seed) {
        this.access = access;
        this.workload = workload;
        this.readShare = readShare;
        this.seed = seed;
    }

    /** Runs for a time, and returns when the last request is answered. */
    void run(int inFlight, long seconds) {
        long start = System.nanoTime();
        long end = start + TimeUnit.SECONDS.toNanos(seconds);
        gap.begin(start);
        CountDownLatch ended = new CountDownLatch(inFlight);
        SplittableRandom seeds = new SplittableRandom(seed);
        for (int i = 0; i < inFlight; i++) next(seeds.split(), end, ended);
        try {
            ended.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
        Throwable failed = failure.get();
        if (failed != null) throw new IllegalStateException("a request failed", failed);
    }

    /** Sends one, and after it the next. */
    private void next(SplittableRandom random, long end, CountDownLatch ended) {
        long began = System.nanoTime();
        if (began - end >= 0 || failure.get() != null) {
            ended.countDown();
            return;
        }
        boolean reads = random.nextDouble() < readShare;
        CompletionStage<?> answer;
        try {
            answer = reads ? access.readLater(workload.any(random)) : write(random);
        } catch (RuntimeException | Error e) {
            failure.compareAndSet(null, e);
            ended.countDown();
            return;
        }
        var unused =
                answer.whenComplete(
                                (done, failed) -> {
                                    if (failed != null) {
                                        failure.compareAndSet(null, failed);
                                        return;
                                    }
                                    long now = System.nanoTime();
                                    gap.answered(now);
                                    (reads ? this.reads : writes).recordValue(now - began);
                                })
                        .whenComplete(
                                (done, failed) -> {
                                    if (failed != null) failure.compareAndSet(null, failed);
                                    next(random, end, ended);
                                });
    }

    private CompletionStage<?> write(SplittableRandom random) {
        Written written = workload.written();
        long number = written.begin(random);
        return access.writeLater(number, written.version(number))
                .thenRun(() -> written.end(number));
    }
}
