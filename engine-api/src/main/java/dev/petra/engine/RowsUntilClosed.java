// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import java.util.NoSuchElementException;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.WrappingUnfilteredRowIterator;

/**
 * Rows that an engine gives out until they, or the scan that they are part of, are closed. From
 * then on {@link #hasNext} and {@link #next} throw {@link IllegalStateException}, as {@link
 * TableStore} demands. For engines whose own iterators do not see to that. Not thread-safe.
 */
public final class RowsUntilClosed implements WrappingUnfilteredRowIterator {
    private final UnfilteredRowIterator rows;
    private final BooleanSupplier open;
    private final Runnable onClose;
    private boolean over;
    private boolean closed;

    /**
     * @param rows closed with this
     * @param open whether what the rows are part of is open still
     * @param onClose runs once, when this is closed, after the rows are
     */
    public RowsUntilClosed(UnfilteredRowIterator rows, BooleanSupplier open, Runnable onClose) {
        this.rows = rows;
        this.open = open;
        this.onClose = onClose;
    }

    @Override
    public UnfilteredRowIterator wrapped() {
        return rows;
    }

    private UnfilteredRowIterator open() {
        if (closed || !open.getAsBoolean())
            throw new IllegalStateException("The iterator is closed.");
        return rows;
    }

    /** Stays false once it was false, also after {@link #close}. */
    @Override
    public boolean hasNext() {
        if (over) return false;
        boolean more = open().hasNext();
        over = !more;
        return more;
    }

    @Override
    public Unfiltered next() {
        if (!hasNext()) throw new NoSuchElementException();
        return rows.next();
    }

    /** Idempotent. */
    @Override
    public void close() {
        if (closed) return;
        closed = true;
        try {
            rows.close();
        } finally {
            onClose.run();
        }
    }
}
