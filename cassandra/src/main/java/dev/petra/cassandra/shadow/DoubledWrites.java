// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes writes to shadows, on threads of its own: what an engine does keeps no client waiting. The
 * queue is bounded; a shadow whose write finds no room drops out. Thread-safe.
 */
final class DoubledWrites {
    private static final Logger logger = LoggerFactory.getLogger(DoubledWrites.class);

    /** Heap that the waiting writes of all shadows hold; a single write may hold more. */
    static final long MAX_BYTES = 64L << 20;

    // Upper bounds, in bytes, of the heap that each takes besides its data: objects, references to
    // them and buffers around bytes.
    private static final int PER_UPDATE = 512;
    private static final int PER_ROW = 320;
    private static final int PER_CLUSTERING_VALUE = 96;
    private static final int PER_COLLECTION = 128;
    private static final int PER_CELL = 160;
    private static final int PER_CELL_PATH = 112;
    private static final int PER_RANGE = 640;

    /**
     * How long the first thread sleeps when it has taken all, unless clients read from one of these
     * shadows. A thread that is woken for each write costs more processor than the write.
     */
    private static final long REST_MILLIS = 1;

    /** Threads that take writes when the first does not keep up. */
    private static final int HELPERS = 3;

    /** So many waiting writes call a helper. */
    private static final int CALLS_HELP = 256;

    /** As do waiting writes that hold so many bytes. */
    private static final long CALLS_HELP_BYTES = MAX_BYTES / 8;

    /** A helper also looks this often: the first may be held up by an engine that is behind. */
    private static final long LOOKS_MILLIS = 100;

    /** One write in so many is timed, since clocks and counters cost as well. */
    static final int TIMED_ONE_IN = 16;

    /**
     * A write that is under way.
     *
     * @param copy where it goes to
     * @param stripe of its partition, in the store's {@link WriteClock}
     * @param update what is written
     * @param bytes of heap that it holds, at most
     * @param group in {@link ShadowStore#underWay}
     * @param timedFrom when it went on to the table, by {@link System#nanoTime}; 0 if it is not
     *     timed
     * @param tableNanos how long the table took; 0 before it has it, and if it is not timed
     */
    record Doubled(
            ShadowStore copy,
            int stripe,
            PartitionUpdate update,
            long bytes,
            OpOrder.Group group,
            long timedFrom,
            long tableNanos) {
        /** Before it goes to the table. */
        static Doubled begin(ShadowStore copy, PartitionUpdate update) {
            int stripe = WriteClock.stripe(update.partitionKey());
            // In this order: there is memory for it before the group starts, and it is timed last.
            return new Doubled(
                    copy,
                    stripe,
                    update,
                    heapBytes(update),
                    start(copy, stripe, update),
                    timeSome(),
                    0);
        }

        private static OpOrder.Group start(ShadowStore copy, int stripe, PartitionUpdate update) {
            OpOrder.Group group = copy.underWay.start();
            copy.clock.begin(stripe);
            copy.begins(update);
            return group;
        }

        private static long timeSome() {
            boolean isTimed = ThreadLocalRandom.current().nextInt(TIMED_ONE_IN) == 0;
            return isTimed ? System.nanoTime() | 1 : 0;
        }

        /** When the table has it. */
        Doubled isInTable() {
            if (timedFrom == 0) return this;
            long nanos = Math.max(1, System.nanoTime() - timedFrom);
            return new Doubled(copy, stripe, update, bytes, group, timedFrom, nanos);
        }

        /** When it is in the shadow, or the shadow has dropped out. */
        void end() {
            copy.clock.end(stripe);
            group.close();
        }
    }

    /**
     * How much heap an update holds, at most, if its values share no memory with anything larger.
     * Cassandra's own count cannot be asked here: it fails by an assertion where a value is in a
     * read-only buffer.
     */
    static long heapBytes(PartitionUpdate update) {
        long ranges = update.deletionInfo().rangeCount();
        int clusterings = update.metadata().comparator.size();
        long bytes =
                PER_UPDATE
                        + update.partitionKey().getKey().remaining()
                        + update.deletionInfo().dataSize()
                        + ranges * (PER_RANGE + 2L * clusterings * PER_CLUSTERING_VALUE);
        bytes += heapBytes(update.staticRow());
        for (Row row : update) bytes += heapBytes(row) + (long) clusterings * PER_CLUSTERING_VALUE;
        return bytes;
    }

    private static long heapBytes(Row row) {
        if (row.isEmpty()) return 0;
        return row.accumulate(
                (column, bytes) -> bytes + overhead(column), (long) PER_ROW + row.dataSize());
    }

    private static long overhead(ColumnData column) {
        if (column instanceof ComplexColumnData collection)
            return PER_COLLECTION + (long) collection.cellsCount() * (PER_CELL + PER_CELL_PATH);
        return PER_CELL;
    }

    private final BlockingQueue<Doubled> waiting = new LinkedBlockingQueue<>();
    private final AtomicLong waitingBytes = new AtomicLong();

    private final Semaphore calls = new Semaphore(0);
    private final long looksMillis;
    private final long restMillis;

    DoubledWrites() {
        this(LOOKS_MILLIS, REST_MILLIS);
    }

    /** For tests. */
    DoubledWrites(long looksMillis, long restMillis) {
        this.looksMillis = looksMillis;
        this.restMillis = restMillis;
    }

    /** Begins to take them. To be called once. */
    void start() {
        start(1, this::take);
        for (int i = 1; i <= HELPERS; i++) start(1 + i, this::help);
    }

    private interface Work {
        void run() throws InterruptedException;
    }

    private static void start(int number, Work work) {
        Thread thread =
                new Thread(
                        () -> {
                            try {
                                work.run();
                            } catch (InterruptedException e) {
                                logger.error("A thread that writes to shadows was interrupted", e);
                                Thread.currentThread().interrupt();
                            }
                        },
                        "PetraShadowWrites-" + number);
        thread.setDaemon(true);
        thread.start();
    }

    /** Takes a write that the table has. Never blocks. */
    void add(Doubled write) {
        write.copy().queued.incrementAndGet();
        long bytes = waitingBytes.addAndGet(write.bytes());
        // One that is larger than the bound is taken alone.
        boolean isTaken = false;
        try {
            if (bytes <= MAX_BYTES || bytes == write.bytes()) {
                isTaken = waiting.add(write.isInTable());
                if ((bytes >= CALLS_HELP_BYTES || waiting.size() >= CALLS_HELP)
                        && calls.hasQueuedThreads()) calls.release();
            } else {
                write.copy().fault("writes came faster than its engine takes them");
            }
        } finally {
            // There may be no memory for the queue either.
            if (!isTaken) {
                waitingBytes.addAndGet(-write.bytes());
                done(write);
            }
        }
    }

    /** Heap that waiting writes hold, at most. */
    long waitingBytes() {
        return waitingBytes.get();
    }

    private static void done(Doubled write) {
        write.end();
        write.copy().queued.decrementAndGet();
    }

    private void take() throws InterruptedException {
        while (true) {
            boolean mayRest = true;
            for (Doubled write = waiting.take(); write != null; write = waiting.poll()) {
                mayRest &= !write.copy().answers;
                finish(write);
            }
            if (mayRest) TimeUnit.MILLISECONDS.sleep(restMillis);
        }
    }

    private void help() throws InterruptedException {
        while (true) {
            var unused = calls.tryAcquire(looksMillis, TimeUnit.MILLISECONDS);
            for (Doubled write = waiting.poll(); write != null; write = waiting.poll())
                finish(write);
        }
    }

    /** Throws nothing: there are others. */
    private void finish(Doubled write) {
        ShadowStore copy = write.copy();
        try {
            copy.doubled(write.update(), write.tableNanos());
        } catch (RuntimeException | Error e) {
            logger.error("A write to the shadow of {} failed", copy.name, e);
            copy.fault("a write to it failed: " + e);
        } finally {
            waitingBytes.addAndGet(-write.bytes());
            done(write);
        }
    }
}
