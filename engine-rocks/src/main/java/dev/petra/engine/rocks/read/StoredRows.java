// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.RegularAndStaticColumns;
import org.apache.cassandra.db.rows.AbstractUnfilteredRowIterator;
import org.apache.cassandra.db.rows.EncodingStats;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * The rows that are read of a partition, until they are closed. An iterator that was at its end
 * stays there: some of Cassandra's iterators ask once more after they closed what they wrap.
 */
abstract class StoredRows extends AbstractUnfilteredRowIterator {
    private boolean over;
    private boolean closed;

    StoredRows(
            TableMetadata table,
            DecoratedKey key,
            DeletionTime deletion,
            RegularAndStaticColumns columns,
            Row staticRow,
            boolean reversed) {
        super(table, key, deletion, columns, staticRow, reversed, EncodingStats.NO_STATS);
    }

    private void checkOpen() {
        if (closed && !over) throw new IllegalStateException("The iterator is closed.");
    }

    @Override
    protected @Nullable Unfiltered endOfData() {
        over = true;
        return super.endOfData();
    }

    @Override
    public boolean hasNext() {
        checkOpen();
        return super.hasNext();
    }

    @Override
    public Unfiltered next() {
        checkOpen();
        return super.next();
    }

    @Override
    public void close() {
        closed = true;
    }
}
