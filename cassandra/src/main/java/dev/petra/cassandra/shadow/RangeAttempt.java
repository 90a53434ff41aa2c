// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.LongConsumer;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.BufferDecoratedKey;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.EmptyIterators;
import org.apache.cassandra.db.PartitionRangeReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.DataLimits;
import org.apache.cassandra.db.filter.RowFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;

/**
 * One attempt to read the first partitions of a range from a table and from its shadow, and to
 * compare them one by one, each as of one moment: also those that only one side finds, or finds in
 * the range. Nobody waits for it. For one thread; to be run once.
 */
class RangeAttempt {
    /** Partitions of one read that are compared. */
    static final int MAX_PARTITIONS = 100;

    /** Of the shadow's answer; no partition is begun behind that. */
    private static final long MAX_BYTES = 1L << 20;

    /**
     * A partition.
     *
     * @param outcome null if it was written meanwhile
     */
    record Compared(DecoratedKey key, Comparison.@Nullable Outcome outcome) {}

    private final Shadow shadow;
    private final ShadowCopy copy;
    private final PartitionRangeReadCommand command;
    private final TableMetadata table;
    private final int maxRows;
    private final List<Compared> compared = new ArrayList<>();
    private long bytes;
    private boolean isTooLong;

    /**
     * @param command what is read; its limit counts for nothing
     * @param maxRows that are live in the table, of each partition
     */
    RangeAttempt(Shadow shadow, ShadowCopy copy, PartitionRangeReadCommand command, int maxRows) {
        this.shadow = shadow;
        this.copy = copy;
        this.command = command;
        this.maxRows = maxRows;
        this.table = shadow.cfs.metadata();
    }

    /**
     * Runs it.
     *
     * @return the partitions that were compared, none of an empty range; null if there is no moment
     *     of which the two answers are, or there is no answer
     */
    @Nullable List<Compared> run() {
        long arrivals = copy.arrivalsIfCaughtUp();
        if (arrivals == ShadowCopy.NOT_CAUGHT_UP) return null;
        // Which partitions it will be is not known yet.
        long[] moments = copy.clock.quietSince();
        if (!Attempt.isAlike(command.metadata(), table)) return null;
        long now = Attempt.ahead(nowInSeconds(), shadow);
        try {
            compare(now, moments);
        } catch (Comparison.SideFailure e) {
            Attempt.failed(shadow, copy, e);
            return null;
        }
        isTooLong = nowInSeconds() > now;
        return Attempt.isAsBefore(shadow, copy, table, arrivals) && !isTooLong ? compared : null;
    }

    /** Whether it took so long that another attempt would be of no use. */
    boolean isTooLong() {
        return isTooLong;
    }

    /** Another in tests. */
    long nowInSeconds() {
        return FBUtilities.nowInSeconds();
    }

    private void compare(long now, long[] moments) {
        ClusteringIndexFilter filter = filter(command.dataRange());
        DataRange range =
                new DataRange(
                        command.dataRange().keyRange(),
                        new ClusteringIndexSliceFilter(
                                filter.getSlices(table), filter.isReversed()));
        PartitionRangeReadCommand whole =
                PartitionRangeReadCommand.create(
                        table,
                        now,
                        command.columnFilter(),
                        RowFilter.none(),
                        DataLimits.NONE,
                        range);
        BooleanSupplier isInTime =
                Attempt.isInTime(copy, DatabaseDescriptor.getRangeRpcTimeout(TimeUnit.NANOSECONDS));
        try (ReadExecutionController reading = controller(whole);
                Partitions ofTable = new Partitions(ofTable(whole, reading), false);
                Partitions ofShadow =
                        new Partitions(
                                () -> copy.store.scan(range, command.columnFilter()), true)) {
            while (compared.size() < MAX_PARTITIONS
                    && bytes < MAX_BYTES
                    && isInTime.getAsBoolean()) {
                DecoratedKey key = first(ofTable.key(), ofShadow.key());
                if (key == null) break;
                Comparison.Outcome outcome = compare(key, now, isInTime, ofTable, ofShadow);
                int stripe = WriteClock.stripe(key);
                boolean isQuiet =
                        moments[stripe] != WriteClock.WRITING
                                && copy.clock.isQuietSince(stripe, moments[stripe]);
                compared.add(new Compared(key, isQuiet ? outcome : null));
            }
            shadow.statistics().ranges.update(ofTable.nanos, ofShadow.nanos);
        }
    }

    private Comparison.Outcome compare(
            DecoratedKey key,
            long now,
            BooleanSupplier isInTime,
            Partitions ofTable,
            Partitions ofShadow) {
        Comparison comparison = Attempt.comparison(shadow, table, command, now);
        try (Timed left = ofTable.take(key, isInTime, any -> {});
                Timed right = ofShadow.take(key, isInTime, read -> bytes += read)) {
            try {
                return comparison.compare(left, right, maxRows);
            } finally {
                ofTable.nanos += left.nanos();
                ofShadow.nanos += right.nanos();
            }
        } catch (Timed.TooLong e) {
            return Comparison.Outcome.TOO_LONG;
        }
    }

    /** That of whole partitions: a page may have begun within the first. */
    private static ClusteringIndexFilter filter(DataRange range) {
        // No partition has this key.
        return range.clusteringIndexFilter(
                new BufferDecoratedKey(
                        range.startKey().getToken(), ByteBufferUtil.EMPTY_BYTE_BUFFER));
    }

    /** Another in tests. */
    ReadExecutionController controller(PartitionRangeReadCommand whole) {
        return whole.executionController();
    }

    /** What the table has. Another in tests. */
    Opening ofTable(PartitionRangeReadCommand whole, ReadExecutionController reading) {
        return () -> ShadowAnswers.ofTable(shadow.cfs, whole, reading);
    }

    /** Opens the partitions of one side. */
    @FunctionalInterface
    interface Opening {
        UnfilteredPartitionIterator open();
    }

    private @Nullable DecoratedKey first(@Nullable DecoratedKey one, @Nullable DecoratedKey other) {
        DecoratedKey first =
                one == null || (other != null && other.compareTo(one) < 0) ? other : one;
        // What is in a memtable is freed when it is closed.
        return first == null
                ? null
                : table.partitioner.decorateKey(ByteBufferUtil.clone(first.getKey()));
    }

    /** Those of one side, one after another. */
    private final class Partitions implements AutoCloseable {
        private final boolean isShadow;
        private @Nullable UnfilteredPartitionIterator all;
        private @Nullable UnfilteredRowIterator next;

        /** How long this side took so far. */
        private long nanos;

        Partitions(Opening opening, boolean isShadow) {
            this.isShadow = isShadow;
            find(() -> all = opening.open());
        }

        private void find(Runnable search) {
            long begin = System.nanoTime();
            KeyWalk.find(isShadow, search);
            nanos += System.nanoTime() - begin;
        }

        /** The key of the next one; null behind the last. */
        @Nullable DecoratedKey key() {
            UnfilteredPartitionIterator rest = all;
            if (next == null && rest != null)
                find(() -> next = rest.hasNext() ? rest.next() : null);
            return next == null ? null : next.partitionKey();
        }

        /** The next one if it is that; an empty one otherwise. The caller closes it. */
        Timed take(DecoratedKey key, BooleanSupplier mayGoOn, LongConsumer read) {
            return Timed.open(
                    () -> {
                        UnfilteredRowIterator rows = next;
                        if (rows == null || !rows.partitionKey().equals(key))
                            return EmptyIterators.unfilteredRow(table, key, command.isReversed());
                        next = null;
                        return rows;
                    },
                    isShadow,
                    mayGoOn,
                    read);
        }

        @Override
        @SuppressWarnings("try") // both are closed, whatever the first throws
        public void close() {
            try (UnfilteredPartitionIterator last = all;
                    UnfilteredRowIterator first = next) {
                next = null;
                all = null;
            }
        }
    }
}
