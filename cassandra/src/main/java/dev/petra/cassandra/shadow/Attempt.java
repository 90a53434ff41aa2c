// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.engine.TableStore;
import java.lang.reflect.Method;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.EmptyIterators;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.lifecycle.SSTableSet;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.BaseRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.WrappingUnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.FBUtilities;
import org.apache.cassandra.utils.NoSpamLogger;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One attempt to read a partition, or a part of it, from a table and from its shadow, and to
 * compare the two answers as of one moment: {@code docs/shadow-design.md} says why they are. Nobody
 * waits for it. For one thread; to be run once.
 */
class Attempt {
    private static final boolean LOOKS_INTO_SOURCES = findLooksIntoSources();

    private static final Logger logger = LoggerFactory.getLogger(Attempt.class);

    /** Before each attempt, where the partition was written during the one before. */
    static final List<Integer> PAUSES_MILLIS = List.of(0, 1, 10, 50, 200);

    /**
     * How far ahead of the clock answers are compared, in seconds: neither side has compacted by a
     * clock that is further, so that a cell that expires is a tombstone to both.
     */
    static final int AHEAD_SECONDS = 5;

    /**
     * How much an attempt compares.
     *
     * @param after the place behind which it begins, or null: at the partition's beginning
     * @param maxRows that are live in the table
     * @param maxBytes of both sides; it ends after that, but not before one place was compared
     * @param isAside whether the shadow's block cache is left alone, and the shadow looks at the
     *     clock among deleted rows too
     */
    record Extent(
            @Nullable ClusteringPrefix<?> after, int maxRows, long maxBytes, boolean isAside) {
        /** What a client has read. */
        static Extent rows(int maxRows) {
            return new Extent(null, maxRows, Long.MAX_VALUE, false);
        }

        /** A piece of a partition. */
        static Extent piece(@Nullable ClusteringPrefix<?> after, long maxBytes) {
            return new Extent(after, Integer.MAX_VALUE, maxBytes, true);
        }
    }

    private final Shadow shadow;
    private final ShadowCopy copy;
    private final SinglePartitionReadCommand command;
    private final Extent extent;
    private final TableMetadata table;
    private @Nullable ClusteringPrefix<?> reached;
    private boolean isOfOneMoment;
    private boolean isUnreadable;
    private Comparison.@Nullable Outcome undecided;
    private long bytes;
    private long tableNanos;
    private long shadowNanos;

    /**
     * @param command what is read; its limit counts for nothing
     */
    Attempt(Shadow shadow, ShadowCopy copy, SinglePartitionReadCommand command, Extent extent) {
        this.shadow = shadow;
        this.copy = copy;
        this.command = command;
        this.extent = extent;
        this.table = shadow.cfs.metadata();
    }

    /**
     * Runs it.
     *
     * @return null if there is no moment of which the two answers are, or there is no answer.
     *     {@link Comparison.Outcome#TOO_LONG} may be of more than one moment
     */
    Comparison.@Nullable Outcome run() {
        int stripe = WriteClock.stripe(command.partitionKey());
        long arrivals = copy.arrivalsIfCaughtUp();
        if (arrivals == ShadowCopy.NOT_CAUGHT_UP) return null;
        long moment = copy.clock.quietSince(stripe);
        if (moment == WriteClock.WRITING || !isAlike(command.metadata(), table)) return null;
        long now = ahead(nowInSeconds(), shadow);
        Comparison.Outcome outcome;
        try {
            outcome = compare(now);
        } catch (Comparison.SideFailure e) {
            isUnreadable = true;
            failed(shadow, copy, e);
            return null;
        }
        // The clock first, by which all that was read comes before.
        isOfOneMoment =
                copy.clock.isQuietSince(stripe, moment)
                        && isAsBefore(shadow, copy, table, arrivals)
                        && nowInSeconds() <= now;
        return isOfOneMoment || outcome.result() == Comparison.Result.TOO_LONG ? outcome : null;
    }

    /** A time as of which both are read: see {@link #AHEAD_SECONDS}. */
    static long ahead(long nowInSec, Shadow shadow) {
        // A clock that has gone back may have been ahead of itself when something was compacted.
        return Math.max(nowInSec, shadow.times.latest()) + AHEAD_SECONDS;
    }

    /**
     * Whether nothing but writes has changed the table or its shadow, or what the two mean.
     *
     * @param arrivals {@link ShadowCopy#arrivalsIfCaughtUp} from before
     */
    static boolean isAsBefore(Shadow shadow, ShadowCopy copy, TableMetadata table, long arrivals) {
        return copy.hasAllSSTables()
                && copy.arrivalsIfCaughtUp() == arrivals
                && shadow.copy() == copy
                // Since then streams bring slices, which the shadow does not get.
                && !shadow.isPromoted()
                && shadow.cfs.metadata().equals(table);
    }

    /**
     * Whether a read may be compared at all: another attempt helps where this is true. A statement
     * keeps the table's definition as it was when it was prepared, and Cassandra prepares none anew
     * for most options, the memtable's among them.
     */
    static boolean isComparable(Shadow shadow, ReadCommand command) {
        return isAlike(command.metadata(), shadow.cfs.metadata());
    }

    /** Whether what is stored has the same answer to a read by both; options may differ. */
    static boolean isAlike(TableMetadata one, TableMetadata other) {
        return one.id.equals(other.id)
                && one.partitioner.equals(other.partitioner)
                && one.flags.equals(other.flags)
                && one.partitionKeyColumns().equals(other.partitionKeyColumns())
                && one.clusteringColumns().equals(other.clusteringColumns())
                && one.regularAndStaticColumns().equals(other.regularAndStaticColumns())
                && one.droppedColumns.equals(other.droppedColumns);
    }

    /** One side could not be read. */
    static void failed(Shadow shadow, ShadowCopy copy, Comparison.SideFailure failure) {
        if (!failure.isShadow) {
            NoSpamLogger.log(
                    logger,
                    NoSpamLogger.Level.WARN,
                    1,
                    TimeUnit.MINUTES,
                    "A partition of {} cannot be compared, because the table cannot be read: {}",
                    shadow.name,
                    failure.toString());
            return;
        }
        if (copy.isOver()) return;
        logger.error("{} cannot be read", shadow, failure);
        copy.fault("it cannot be read: " + failure.getMessage());
    }

    /** Another in tests. */
    long nowInSeconds() {
        return FBUtilities.nowInSeconds();
    }

    /** Reads both sides as of a time that is ahead of the clock, in seconds. Another in tests. */
    Comparison.Outcome compare(long now) {
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
        Comparison comparison = comparison(shadow, table, command, now);
        BooleanSupplier isInTime =
                isInTime(copy, DatabaseDescriptor.getReadRpcTimeout(TimeUnit.NANOSECONDS));
        BooleanSupplier mayGoOn =
                () ->
                        isInTime.getAsBoolean()
                                && (bytes < extent.maxBytes() || !isProgress(comparison.reached()));
        try (ReadExecutionController reading = whole.executionController();
                Timed ofTable =
                        Timed.open(
                                () -> ofTable(whole, reading, isInTime),
                                false,
                                mayGoOn,
                                any -> {});
                Timed ofShadow =
                        Timed.open(
                                () ->
                                        extent.isAside()
                                                ? readAside(
                                                        copy.store,
                                                        whole,
                                                        () -> Timed.check(isInTime))
                                                : read(copy.store, whole),
                                true,
                                mayGoOn,
                                this::add)) {
            Comparison.Outcome outcome;
            try {
                outcome = comparison.compare(ofTable, ofShadow, extent.maxRows());
            } catch (Timed.TooLong e) {
                outcome = Comparison.Outcome.TOO_LONG;
            }
            tableNanos = ofTable.nanos();
            shadowNanos = ofShadow.nanos();
            undecided = comparison.undecided();
            ClusteringPrefix<?> last = comparison.reached();
            // What is in a memtable is freed when this has been closed.
            reached = last != null && isProgress(last) ? last.retainable() : null;
            return outcome;
        } catch (Timed.TooLong e) {
            return Comparison.Outcome.TOO_LONG;
        }
    }

    /** Compares answers to a read of a table as of a time, in seconds. */
    static Comparison comparison(
            Shadow shadow, TableMetadata table, ReadCommand command, long now) {
        return new Comparison(
                table,
                command.columnFilter(),
                now,
                Math.max(shadow.times.gcBefore(), now - table.params.gcGraceSeconds),
                command.isReversed());
    }

    /**
     * For how long sides may be read, in nanoseconds: behind that the clock may be later than what
     * they are read as of.
     */
    static long mostNanos(long timeoutNanos) {
        return Math.min(timeoutNanos, TimeUnit.SECONDS.toNanos(AHEAD_SECONDS - 1));
    }

    /** Whether sides may be read on: for so long from now, while the copy and the node last. */
    static BooleanSupplier isInTime(ShadowCopy copy, long timeoutNanos) {
        long deadline = System.nanoTime() + mostNanos(timeoutNanos);
        return () -> System.nanoTime() - deadline < 0 && !copy.isOver() && !Shadows.areStopped();
    }

    /** Cassandra 5.0.6 does not let its sources be looked into. */
    private static boolean findLooksIntoSources() {
        for (Method method : SinglePartitionReadCommand.class.getMethods())
            if (method.getName().equals("queryMemtableAndDisk") && method.getParameterCount() == 4)
                return true;
        return false;
    }

    /** Looks at the clock with each row of each source: a deletion may hide millions of them. */
    private UnfilteredRowIterator ofTable(
            SinglePartitionReadCommand whole,
            ReadExecutionController reading,
            BooleanSupplier isInTime) {
        if (!LOOKS_INTO_SOURCES) return whole.queryMemtableAndDisk(shadow.cfs, reading);
        Transformation<BaseRowIterator<?>> each = Timed.ofEach(isInTime, this::add);
        return whole.queryMemtableAndDisk(
                shadow.cfs,
                shadow.cfs.select(View.select(SSTableSet.LIVE, whole.partitionKey())),
                // What is thrown here would leave the source open.
                source -> each,
                reading);
    }

    /** What a store has of a partition, as a client reads it. */
    static UnfilteredRowIterator read(TableStore store, SinglePartitionReadCommand command) {
        ClusteringIndexFilter filter = command.clusteringIndexFilter();
        UnfilteredRowIterator rows =
                store.read(
                        command.partitionKey(),
                        filter.getSlices(command.metadata()),
                        command.columnFilter(),
                        filter.isReversed());
        return rows == null ? none(command) : rows;
    }

    /**
     * What a store has of a partition, for whoever reads all of a table.
     *
     * @param checkpoint as of {@link TableStore#scanAside(DataRange, ColumnFilter, Runnable)}
     */
    static UnfilteredRowIterator readAside(
            TableStore store, SinglePartitionReadCommand command, Runnable checkpoint) {
        Bounds<PartitionPosition> key =
                new Bounds<>(command.partitionKey(), command.partitionKey());
        UnfilteredPartitionIterator scan =
                store.scanAside(
                        new DataRange(key, command.clusteringIndexFilter()),
                        command.columnFilter(),
                        checkpoint);
        try {
            UnfilteredRowIterator rows = scan.hasNext() ? scan.next() : none(command);
            return new WrappingUnfilteredRowIterator() {
                @Override
                public UnfilteredRowIterator wrapped() {
                    return rows;
                }

                @Override
                public void close() {
                    try (scan) {
                        rows.close();
                    }
                }
            };
        } catch (RuntimeException | Error e) {
            scan.close();
            throw e;
        }
    }

    /** That there is nothing. */
    static UnfilteredRowIterator none(SinglePartitionReadCommand command) {
        return EmptyIterators.unfilteredRow(
                command.metadata(), command.partitionKey(), command.isReversed());
    }

    private void add(long read) {
        bytes += read;
    }

    private boolean isProgress(@Nullable ClusteringPrefix<?> position) {
        return isProgress(table, position, extent.after());
    }

    /** Whether a place is behind the one where a piece began; null is the partition's begin. */
    static boolean isProgress(
            TableMetadata table,
            @Nullable ClusteringPrefix<?> place,
            @Nullable ClusteringPrefix<?> after) {
        return place != null && (after == null || table.comparator.compare(place, after) > 0);
    }

    // What came of it

    /** Whether all that was compared is of one moment, also if there was no time for the rest. */
    boolean isOfOneMoment() {
        return isOfOneMoment;
    }

    /** The last place that was compared, if that is behind where it began. */
    @Nullable ClusteringPrefix<?> reached() {
        return reached;
    }

    /** The first of what was compared that is {@link Comparison.Result#UNDECIDED}, or null. */
    Comparison.@Nullable Outcome undecided() {
        return undecided;
    }

    /** Whether one of the sides could not be read. */
    boolean isUnreadable() {
        return isUnreadable;
    }

    /** About how much was read of both sides. */
    long bytes() {
        return bytes;
    }

    /** How long the table took. */
    long tableNanos() {
        return tableNanos;
    }

    /** How long the shadow took. */
    long shadowNanos() {
        return shadowNanos;
    }
}
