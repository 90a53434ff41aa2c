// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.EmptyIterators;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
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

    /** By then the client has its answer. */
    private static final long DELAY_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    /** Rows of a partition that are compared; a client's limit may be less. */
    private static final int MAX_ROWS = 1_000;

    /**
     * How far ahead of the clock answers are compared, in seconds: neither side has compacted by a
     * clock that is further, so that a cell that expires is a tombstone to both.
     */
    private static final int AHEAD_SECONDS = 5;

    /** Between one attempt and the next, where the partition was written meanwhile. */
    private static final int[] PAUSES_MILLIS = {0, 1, 10, 50, 200};

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
        Comparison.Outcome outcome = null;
        for (int pause : PAUSES_MILLIS) {
            TimeUnit.MILLISECONDS.sleep(pause);
            ShadowCopy copy = shadow.copy();
            if (copy == null || !copy.isCaughtUp()) {
                shadow.statistics().passedOver.increment();
                return;
            }
            outcome = attempt(shadow, copy, command);
            if (outcome != null) break;
        }
        count(shadow, command, outcome);
    }

    /** Equal for a while, which a read of a client may take as well. */
    private static boolean mayGoOn(ShadowCopy copy, long deadline) {
        return System.nanoTime() - deadline < 0 && !copy.isOver() && !Shadows.areStopped();
    }

    /** Compares once; null if there is no moment of which the two answers are. */
    private static Comparison.@Nullable Outcome attempt(
            Shadow shadow, ShadowCopy copy, SinglePartitionReadCommand command) {
        int stripe = WriteClock.stripe(command.partitionKey());
        long arrivals = copy.arrivals();
        long moment = copy.clock.quietSince(stripe);
        if (moment == WriteClock.WRITING) return null;
        TableMetadata table = shadow.cfs.metadata();
        if (!command.metadata().equals(table)) return null;
        // A clock that has gone back may have been ahead of itself when something was compacted.
        long now = Math.max(FBUtilities.nowInSeconds(), shadow.latest()) + AHEAD_SECONDS;
        Comparison.Outcome outcome;
        try {
            outcome = compare(shadow, copy, table, now, command);
        } catch (Comparison.SideFailure e) {
            if (e.isShadow && !copy.isOver()) {
                logger.error("{} cannot be read", shadow, e);
                copy.fault("it cannot be read: " + e.getMessage());
            }
            return null;
        } catch (Timed.TooLong e) {
            return Comparison.Outcome.TOO_LONG;
        }
        // The clock first, by which all that was read comes before.
        boolean isOfOneMoment =
                copy.clock.isQuietSince(stripe, moment)
                        && copy.hasAllSSTables()
                        && copy.arrivals() == arrivals
                        && shadow.copy() == copy
                        && shadow.cfs.metadata().equals(table)
                        && FBUtilities.nowInSeconds() <= now;
        return isOfOneMoment ? outcome : null;
    }

    private static Comparison.Outcome compare(
            Shadow shadow,
            ShadowCopy copy,
            TableMetadata table,
            long now,
            SinglePartitionReadCommand command) {
        ColumnFamilyStore cfs = shadow.cfs;
        DecoratedKey key = command.partitionKey();
        ClusteringIndexFilter filter = command.clusteringIndexFilter();
        Slices slices = filter.getSlices(table);
        boolean reversed = filter.isReversed();
        // As slices: by names, Cassandra passes over older deletions where newer cells are enough.
        SinglePartitionReadCommand whole =
                SinglePartitionReadCommand.create(
                        table,
                        now,
                        key,
                        command.columnFilter(),
                        new ClusteringIndexSliceFilter(slices, reversed));
        Comparison comparison =
                new Comparison(
                        table,
                        command.columnFilter(),
                        now,
                        Math.max(shadow.gcBefore(), now - table.params.gcGraceSeconds),
                        reversed);
        long deadline =
                System.nanoTime() + DatabaseDescriptor.getReadRpcTimeout(TimeUnit.NANOSECONDS);
        try (ReadExecutionController reading = whole.executionController();
                Timed ofTable =
                        Timed.open(
                                () -> whole.queryMemtableAndDisk(cfs, reading),
                                false,
                                () -> mayGoOn(copy, deadline));
                Timed ofShadow =
                        Timed.open(
                                () -> {
                                    UnfilteredRowIterator rows =
                                            copy.store.read(
                                                    key, slices, command.columnFilter(), reversed);
                                    return rows == null
                                            ? EmptyIterators.unfilteredRow(table, key, reversed)
                                            : rows;
                                },
                                true,
                                () -> mayGoOn(copy, deadline))) {
            Comparison.Outcome outcome =
                    comparison.compare(
                            ofTable, ofShadow, Math.min(MAX_ROWS, command.limits().count()));
            shadow.statistics().tableMicros.update(ofTable.micros());
            shadow.statistics().shadowMicros.update(ofShadow.micros());
            return outcome;
        }
    }

    private static void count(
            Shadow shadow,
            SinglePartitionReadCommand command,
            Comparison.@Nullable Outcome outcome) {
        ShadowStatistics statistics = shadow.statistics();
        Comparison.Result result = outcome == null ? null : outcome.result();
        if (result == Comparison.Result.EQUAL) statistics.equal.increment();
        else if (outcome == null || result != Comparison.Result.DIFFERENT)
            statistics.notComparable.increment();
        else {
            statistics.different.increment();
            shadow.add(
                    new Differences.Difference(
                            System.currentTimeMillis(),
                            Comparison.shortened(
                                    shadow.cfs
                                            .metadata()
                                            .partitionKeyType
                                            .getString(command.partitionKey().getKey())),
                            outcome.where(),
                            outcome.table(),
                            outcome.shadow()));
        }
        statistics.compared.increment();
    }
}
