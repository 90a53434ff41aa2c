// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import java.util.function.BooleanSupplier;
import java.util.function.LongConsumer;
import java.util.function.Supplier;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.rows.BaseRowIterator;
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.WrappingUnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.io.FSError;

/**
 * One side of a comparison: how long it takes to read. Ends by {@link TooLong} when that may not go
 * on, since whoever reads a table keeps its memtables, and those of other tables, from being freed.
 * For one thread.
 */
final class Timed implements WrappingUnfilteredRowIterator {
    /** Not an error of a side. */
    static final class TooLong extends RuntimeException {
        private static final long serialVersionUID = 1;

        TooLong() {
            super("A comparison took too long", null, false, false);
        }
    }

    /** What a row counts for besides its data. */
    private static final int PER_ROW = 64;

    private final UnfilteredRowIterator rows;
    private final BooleanSupplier mayGoOn;
    private final LongConsumer read;
    private long nanos;

    private Timed(
            UnfilteredRowIterator rows, BooleanSupplier mayGoOn, LongConsumer read, long nanos) {
        this.rows = rows;
        this.mayGoOn = mayGoOn;
        this.read = read;
        this.nanos = nanos;
    }

    /**
     * Opens it.
     *
     * @param mayGoOn asked before each row
     * @param read told of the bytes of each row
     * @throws Comparison.SideFailure if that fails
     * @throws TooLong if what opens it says so
     */
    static Timed open(
            Supplier<UnfilteredRowIterator> opening,
            boolean isShadow,
            BooleanSupplier mayGoOn,
            LongConsumer read) {
        long begin = System.nanoTime();
        try {
            return new Timed(opening.get(), mayGoOn, read, System.nanoTime() - begin);
        } catch (TooLong e) {
            throw e;
        } catch (RuntimeException | FSError | AssertionError e) {
            throw new Comparison.SideFailure(isShadow, e);
        }
    }

    /** Ends a read by {@link TooLong} unless it may go on. */
    static void check(BooleanSupplier mayGoOn) {
        if (!mayGoOn.getAsBoolean()) throw new TooLong();
    }

    /**
     * For one source of a merged read, whose rows may all be hidden by another.
     *
     * @param mayGoOn asked with each row
     * @param read told of the bytes of each row
     */
    static Transformation<BaseRowIterator<?>> ofEach(BooleanSupplier mayGoOn, LongConsumer read) {
        return new Transformation<>() {
            @Override
            protected Row applyToRow(Row row) {
                read.accept(size(row));
                check(mayGoOn);
                return row;
            }

            @Override
            protected RangeTombstoneMarker applyToMarker(RangeTombstoneMarker marker) {
                read.accept(size(marker));
                check(mayGoOn);
                return marker;
            }
        };
    }

    private static int size(Unfiltered read) {
        return PER_ROW + (read instanceof Row row ? row.dataSize() : 0);
    }

    @Override
    public UnfilteredRowIterator wrapped() {
        return rows;
    }

    /** With it, or with the static row, some begin to read. */
    @Override
    public DeletionTime partitionLevelDeletion() {
        return timed(rows::partitionLevelDeletion);
    }

    @Override
    public Row staticRow() {
        return timed(rows::staticRow);
    }

    @Override
    public boolean hasNext() {
        check(mayGoOn);
        return timed(rows::hasNext);
    }

    @Override
    public Unfiltered next() {
        Unfiltered next = timed(rows::next);
        read.accept(size(next));
        return next;
    }

    private <T> T timed(Supplier<T> reading) {
        long begin = System.nanoTime();
        try {
            return reading.get();
        } finally {
            nanos += System.nanoTime() - begin;
        }
    }

    /** How long it took so far. */
    long nanos() {
        return nanos;
    }
}
