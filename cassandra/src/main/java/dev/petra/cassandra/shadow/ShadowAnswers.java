// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.PartitionRangeReadCommand;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.partitions.AbstractUnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.SingletonUnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.WrappingUnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.tracing.Tracing;
import org.apache.cassandra.utils.CloseableIterator;
import org.apache.cassandra.utils.NoSpamLogger;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Answers reads of clients from a shadow, in mode {@code fallback}. The table has all of it as well
 * and answers where this does not: where the answer might not be what the table would say in the
 * same moment, and where the shadow cannot be read.
 *
 * <p>An answer is what the table says in the moment in which the store fixes what the read sees:
 *
 * <ol>
 *   <li>No write of the partition was under way before, as {@link WriteClock} tells, and none has
 *       begun by after (of a range: no write of any): so what had been written is in both sides,
 *       and nothing else is in either.
 *   <li>Each SSTable that the table had before is accounted for, and by after the copy was told of
 *       no other: of one that was being copied, a part may be in the answer. One of which it is
 *       told later came after the read, for all that anybody can tell.
 *   <li>Afterwards the copy has not ended, has missed nothing, and hides nothing that the table
 *       shows ({@link Shadow#doubt}).
 * </ol>
 */
final class ShadowAnswers {
    private static final Logger logger = LoggerFactory.getLogger(ShadowAnswers.class);

    /** A read of a range looks for a moment without writes so often. */
    static final int MAX_ATTEMPTS = 3;

    /** Set where a range of the table itself is read, by a thread that compares. */
    private static final ThreadLocal<@Nullable Boolean> OF_TABLE = new ThreadLocal<>();

    private ShadowAnswers() {}

    /**
     * Answers a read of one partition.
     *
     * @return null if the table is to answer. What is returned, the caller closes
     */
    static @Nullable UnfilteredPartitionIterator answer(
            Shadow shadow, SinglePartitionReadCommand command, ReadExecutionController reading) {
        ShadowCopy copy = shadow.copy();
        if (copy == null || !mayAnswer(shadow, command, reading)) return null;
        int stripe = WriteClock.stripe(command.partitionKey());
        long moment = copy.clock.quietSince(stripe);
        // Before it is found to have all of them.
        long arrivals = copy.arrivals();
        if (moment == WriteClock.WRITING || !copy.hasAllSSTables()) return null;
        UnfilteredRowIterator rows = opened(copy, () -> Attempt.read(copy.store, command));
        if (rows == null) return null;
        try {
            if (copy.clock.isQuietSince(stripe, moment)
                    && isTheTables(shadow, copy, command, arrivals))
                return new SingletonUnfilteredPartitionIterator(new Answer(copy, rows));
        } catch (RuntimeException | Error e) {
            rows.close();
            throw e;
        }
        rows.close();
        return null;
    }

    /**
     * Answers a read of a range. Which partitions it will be is not known before, so no write of
     * any may be under way: where there is no such moment, the table answers.
     *
     * @return null if the table is to answer. What is returned, the caller closes
     */
    static @Nullable UnfilteredPartitionIterator answer(
            Shadow shadow, PartitionRangeReadCommand command, ReadExecutionController reading) {
        ShadowCopy copy = shadow.copy();
        if (copy == null
                || !copy.store.scansAreOfOneMoment()
                || !mayAnswer(shadow, command, reading)) return null;
        for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
            long moment = copy.clock.allQuietSince();
            // As for one partition.
            long arrivals = copy.arrivals();
            if (!copy.hasAllSSTables()) return null;
            if (moment == WriteClock.WRITING) continue;
            UnfilteredPartitionIterator partitions =
                    opened(
                            copy,
                            () -> copy.store.scan(command.dataRange(), command.columnFilter()));
            if (partitions == null) return null;
            boolean isQuiet;
            try {
                isQuiet = copy.clock.isAllQuietSince(moment);
                if (isQuiet && isTheTables(shadow, copy, command, arrivals))
                    return new RangeAnswer(copy, partitions);
            } catch (RuntimeException | Error e) {
                partitions.close();
                throw e;
            }
            partitions.close();
            if (isQuiet) return null;
        }
        return null;
    }

    /** Reads a range of a table itself, whatever its shadow answers. The caller closes it. */
    static UnfilteredPartitionIterator ofTable(
            ColumnFamilyStore cfs,
            PartitionRangeReadCommand command,
            ReadExecutionController reading) {
        OF_TABLE.set(true);
        try {
            return command.queryStorage(cfs, reading);
        } finally {
            OF_TABLE.remove();
        }
    }

    /** Whether this is a read by {@link #ofTable}, which is nobody's to answer. */
    static boolean isOfTable() {
        return OF_TABLE.get() != null;
    }

    /** What does not depend on the moment of the read, but may change meanwhile. */
    private static boolean mayAnswer(
            Shadow shadow, ReadCommand command, ReadExecutionController reading) {
        return !shadow.isPromoted()
                // Which part of an answer was repaired, only SSTables can tell.
                && !reading.isTrackingRepairedStatus()
                && shadow.leavesAllToTable() == null
                && Attempt.isComparable(shadow, command);
    }

    /** Whether nothing has happened but writes that keeps an answer from being the table's. */
    private static boolean isTheTables(
            Shadow shadow, ShadowCopy copy, ReadCommand command, long arrivals) {
        if (!copy.isCaughtUp()
                // It may have caught up again meanwhile.
                || copy.arrivals() != arrivals
                // Streams bring slices that do not go there, once it is the table.
                || shadow.isPromoted()
                || !Attempt.isComparable(shadow, command)
                || shadow.doubt(copy) != null) return false;
        Tracing.trace("The shadow answers");
        return true;
    }

    /** From the moment on when this returns, what the iterator gives does not change any more. */
    private static <T extends CloseableIterator<?>> @Nullable T opened(
            ShadowCopy copy, Supplier<T> opening) {
        T opened = null;
        try {
            opened = opening.get();
            // A point read fails here, where the table can still answer.
            var unused = opened.hasNext();
            return opened;
        } catch (RuntimeException | Error e) {
            if (opened != null) opened.close();
            failed(copy, e);
            return null;
        }
    }

    /** Ends a copy that cannot be read, unless it has ended. */
    static void failed(ShadowCopy copy, Throwable failure) {
        if (copy.isOver()) return;
        NoSpamLogger.log(
                logger,
                NoSpamLogger.Level.ERROR,
                1,
                TimeUnit.MINUTES,
                "The shadow of {} cannot be read; the table answers",
                copy.name,
                failure);
        copy.fault("it cannot be read: " + failure.getMessage());
    }

    /** A failure in its midst ends the shadow, and the read; the table answers the next one. */
    private static final class Answer implements WrappingUnfilteredRowIterator {
        private final ShadowCopy copy;
        private final UnfilteredRowIterator rows;

        Answer(ShadowCopy copy, UnfilteredRowIterator rows) {
            this.copy = copy;
            this.rows = rows;
        }

        @Override
        public UnfilteredRowIterator wrapped() {
            return rows;
        }

        @Override
        public boolean hasNext() {
            try {
                return rows.hasNext();
            } catch (RuntimeException | Error e) {
                throw ended(copy, e);
            }
        }

        @Override
        public Unfiltered next() {
            try {
                return rows.next();
            } catch (RuntimeException | Error e) {
                throw ended(copy, e);
            }
        }
    }

    /** The same of a range. */
    private static final class RangeAnswer extends AbstractUnfilteredPartitionIterator {
        private final ShadowCopy copy;
        private final UnfilteredPartitionIterator partitions;

        RangeAnswer(ShadowCopy copy, UnfilteredPartitionIterator partitions) {
            this.copy = copy;
            this.partitions = partitions;
        }

        @Override
        public TableMetadata metadata() {
            return partitions.metadata();
        }

        @Override
        public boolean hasNext() {
            try {
                return partitions.hasNext();
            } catch (RuntimeException | Error e) {
                throw ended(copy, e);
            }
        }

        @Override
        public UnfilteredRowIterator next() {
            try {
                return new Answer(copy, partitions.next());
            } catch (RuntimeException | Error e) {
                throw ended(copy, e);
            }
        }

        @Override
        public void close() {
            partitions.close();
        }
    }

    /**
     * No disk of the table has failed, so this is nothing for disk_failure_policy, for which
     * Cassandra looks at the causes as well.
     */
    private static IllegalStateException ended(ShadowCopy copy, Throwable failure) {
        failed(copy, failure);
        IllegalStateException ended =
                new IllegalStateException(
                        "The shadow of "
                                + copy.name
                                + " cannot be read to the end of this answer: "
                                + failure);
        ended.addSuppressed(failure);
        return ended;
    }
}
