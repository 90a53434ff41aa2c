// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.WrappingUnfilteredRowIterator;
import org.apache.cassandra.tracing.Tracing;
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
 *       begun by after: so what had been written is in both sides, and nothing else is in either.
 *   <li>Each SSTable that the table had before is accounted for, and by after the copy was told of
 *       no other: of one that was being copied, a part may be in the answer. One of which it is
 *       told later came after the read, for all that anybody can tell.
 *   <li>Afterwards the copy has not ended, has missed nothing, and hides nothing that the table
 *       shows ({@link Shadow#doubt}).
 * </ol>
 */
final class ShadowAnswers {
    private static final Logger logger = LoggerFactory.getLogger(ShadowAnswers.class);

    private ShadowAnswers() {}

    /**
     * Answers a read.
     *
     * @return null if the table is to answer. What is returned, the caller closes
     */
    static @Nullable UnfilteredRowIterator answer(
            Shadow shadow, SinglePartitionReadCommand command, ReadExecutionController reading) {
        ShadowCopy copy = shadow.copy();
        if (copy == null
                || shadow.isPromoted()
                // Which part of an answer was repaired, only SSTables can tell.
                || reading.isTrackingRepairedStatus()
                || shadow.leavesAllToTable() != null
                || !Attempt.isComparable(shadow, command)) return null;
        int stripe = WriteClock.stripe(command.partitionKey());
        long moment = copy.clock.quietSince(stripe);
        // Before it is found to have all of them.
        long arrivals = copy.arrivals();
        if (moment == WriteClock.WRITING || !copy.hasAllSSTables()) return null;
        UnfilteredRowIterator rows = read(copy, command);
        if (rows == null) return null;
        try {
            if (copy.clock.isQuietSince(stripe, moment)
                    && copy.isCaughtUp()
                    // It may have caught up again meanwhile.
                    && copy.arrivals() == arrivals
                    // Streams bring slices that do not go there, once it is the table.
                    && !shadow.isPromoted()
                    && Attempt.isComparable(shadow, command)
                    && shadow.doubt(copy) == null) {
                Tracing.trace("The shadow answers");
                return new Answer(copy, rows);
            }
        } catch (RuntimeException | Error e) {
            rows.close();
            throw e;
        }
        rows.close();
        return null;
    }

    /** From the moment on when this returns, what the iterator gives does not change any more. */
    private static @Nullable UnfilteredRowIterator read(
            ShadowCopy copy, SinglePartitionReadCommand command) {
        UnfilteredRowIterator rows = null;
        try {
            rows = Attempt.read(copy.store, command);
            // A point read fails here, where the table can still answer.
            var unused = rows.hasNext();
            return rows;
        } catch (RuntimeException | Error e) {
            if (rows != null) rows.close();
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
                throw ended(e);
            }
        }

        @Override
        public Unfiltered next() {
            try {
                return rows.next();
            } catch (RuntimeException | Error e) {
                throw ended(e);
            }
        }

        /**
         * No disk of the table has failed, so this is nothing for disk_failure_policy, for which
         * Cassandra looks at the causes as well.
         */
        private IllegalStateException ended(Throwable failure) {
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
}
