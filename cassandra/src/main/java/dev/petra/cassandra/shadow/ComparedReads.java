// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs reads of clients once more, on a table and on its shadow, and compares the answers. On a
 * thread of its own, a while after the read; what does not fit into the queue is passed over.
 * Thread-safe.
 */
final class ComparedReads {
    private static final Logger logger = LoggerFactory.getLogger(ComparedReads.class);

    /** Reads that wait. */
    static final int MAX_WAITING = 256;

    /** After a read began: most clients have their answer then, and no request waits for this. */
    private static final long DELAY_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    /** Rows of a partition that are compared; a client's limit may be less. */
    private static final int MAX_ROWS = 1_000;

    private record Read(Shadow shadow, SinglePartitionReadCommand command, long due)
            implements Delayed {
        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(due - System.nanoTime(), TimeUnit.NANOSECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(
                    getDelay(TimeUnit.NANOSECONDS), other.getDelay(TimeUnit.NANOSECONDS));
        }
    }

    private final DelayQueue<Read> waiting = new DelayQueue<>();
    private final AtomicInteger size = new AtomicInteger();

    /** Begins to take them. To be called once. */
    void start() {
        Thread thread = new Thread(this::run, "PetraShadowReads");
        thread.setDaemon(true);
        thread.start();
    }

    /** Takes a client's read. Never blocks. */
    void add(Shadow shadow, SinglePartitionReadCommand command) {
        if (size.incrementAndGet() <= MAX_WAITING && shadow.isCaughtUp()) {
            waiting.add(new Read(shadow, command, System.nanoTime() + DELAY_NANOS));
            return;
        }
        size.decrementAndGet();
        shadow.statistics().passedOver.increment();
    }

    private void run() {
        while (true) {
            try {
                Read read = waiting.take();
                size.decrementAndGet();
                if (!Shadows.areStopped()) compare(read.shadow(), read.command());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            } catch (RuntimeException | Error e) {
                logger.error("A comparison failed", e);
            }
        }
    }

    private static void compare(Shadow shadow, SinglePartitionReadCommand command)
            throws InterruptedException {
        Attempt.Extent extent = Attempt.Extent.rows(Math.min(MAX_ROWS, command.limits().count()));
        Comparison.Outcome outcome = null;
        for (int pause : Attempt.PAUSES_MILLIS) {
            TimeUnit.MILLISECONDS.sleep(pause);
            ShadowCopy copy = shadow.copy();
            // Nor does this thread wait for what no attempt can compare.
            if (copy == null
                    || !copy.isCaughtUp()
                    || shadow.isPromoted()
                    || !Attempt.isComparable(shadow, command)) {
                shadow.statistics().passedOver.increment();
                return;
            }
            Attempt attempt = new Attempt(shadow, copy, command, extent);
            outcome = attempt.run();
            if (attempt.tableMicros() > 0) {
                shadow.statistics().reads.update(attempt.tableMicros(), attempt.shadowMicros());
                ShadowMetrics.read(attempt.tableMicros(), attempt.shadowMicros());
            }
            if (outcome != null) break;
        }
        shadow.count(command.partitionKey(), outcome);
    }
}
