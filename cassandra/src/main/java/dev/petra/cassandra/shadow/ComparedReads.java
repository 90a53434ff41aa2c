// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.List;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.db.PartitionRangeReadCommand;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs reads of clients once more, on a table and on its shadow, and compares the answers: of one
 * partition, or of the first of a range. On a thread of its own, a while after the read; what does
 * not fit into the queue is passed over. Thread-safe.
 */
final class ComparedReads {
    private static final Logger logger = LoggerFactory.getLogger(ComparedReads.class);

    /** Reads that wait. */
    static final int MAX_WAITING = 256;

    /** After the node gave its answer: most clients have it then, and no request waits for this. */
    private static final long DELAY_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    /** Rows of a partition that are compared; a client's limit may be less. */
    private static final int MAX_ROWS = 1_000;

    private record Read(Shadow shadow, ReadCommand command, long due) implements Delayed {
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

    /** A client's read, which is taken when its answer was gone through. */
    private final class AnsweredRead extends Transformation<UnfilteredRowIterator> {
        private final Shadow shadow;
        private final ReadCommand command;

        AnsweredRead(Shadow shadow, ReadCommand command) {
            this.shadow = shadow;
            this.command = command;
        }

        @Override
        protected void onClose() {
            try {
                add(shadow, command);
            } catch (RuntimeException | Error e) {
                logger.error("A read of {} is not compared", shadow, e);
            }
        }
    }

    /**
     * Takes a client's read when its answer is closed.
     *
     * @return the answer, for whoever asked
     */
    UnfilteredPartitionIterator addWhenClosed(
            Shadow shadow, ReadCommand command, UnfilteredPartitionIterator answer) {
        return Transformation.apply(answer, new AnsweredRead(shadow, command));
    }

    /** Takes a client's read. Never blocks. */
    void add(Shadow shadow, ReadCommand command) {
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

    private static void compare(Shadow shadow, ReadCommand command) throws InterruptedException {
        int maxRows = Math.min(MAX_ROWS, command.limits().count());
        for (int pause : Attempt.PAUSES_MILLIS) {
            TimeUnit.MILLISECONDS.sleep(pause);
            ShadowCopy copy = shadow.copy();
            // Nor does this thread wait for what no attempt can compare.
            if (copy == null
                    || !copy.isCaughtUp()
                    || shadow.isPromoted()
                    || !isComparable(shadow, command)) {
                shadow.statistics().passedOver.increment();
                return;
            }
            boolean isCompared =
                    command instanceof SinglePartitionReadCommand single
                            ? compare(shadow, copy, single, maxRows)
                            : compare(shadow, copy, (PartitionRangeReadCommand) command, maxRows);
            if (isCompared) return;
        }
        shadow.results.countNotComparable();
    }

    private static boolean isComparable(Shadow shadow, ReadCommand command) {
        // Of a partition in a row cache a range may lack deletions.
        boolean isCached =
                command instanceof PartitionRangeReadCommand && shadow.cfs.isRowCacheEnabled();
        return !isCached && Attempt.isComparable(shadow, command);
    }

    /** Returns false if there was no moment of which both answers are. */
    private static boolean compare(
            Shadow shadow, ShadowCopy copy, SinglePartitionReadCommand command, int maxRows) {
        Attempt attempt = new Attempt(shadow, copy, command, Attempt.Extent.rows(maxRows));
        Comparison.Outcome outcome = attempt.run();
        if (attempt.tableNanos() > 0)
            shadow.statistics().reads.update(attempt.tableNanos(), attempt.shadowNanos());
        if (outcome == null) return false;
        shadow.results.count(copy, command.partitionKey(), outcome);
        return true;
    }

    /** The same; each partition counts for itself. */
    private static boolean compare(
            Shadow shadow, ShadowCopy copy, PartitionRangeReadCommand command, int maxRows) {
        RangeAttempt attempt = new RangeAttempt(shadow, copy, command, maxRows);
        List<RangeAttempt.Compared> compared = attempt.run();
        if (compared == null) {
            if (attempt.isTooLong()) shadow.results.countNotComparable();
            return attempt.isTooLong();
        }
        for (RangeAttempt.Compared each : compared)
            shadow.results.count(copy, each.key(), each.outcome());
        return true;
    }
}
