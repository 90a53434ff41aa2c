// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import dev.petra.engine.TableStore;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * Reads all rows with live data of a store, a page at a time. Nothing is open between two pages: a
 * store that a full disk has stopped is opened anew only when nobody reads it. A page is as of its
 * own moment; a row that is there all the while is in one of them. One thread at a time.
 */
final class RowPages {
    /** A row, also a static one. */
    record Found(DecoratedKey key, Row row) {}

    /** What a row without any cell counts, live or not: many of these end a page as well. */
    private static final long ROW_BYTES = 64;

    private final TableStore store;
    private final TableMetadata table;
    private final ColumnFilter columns;
    private final long pageBytes;

    /** The partition that was read last, and its last row; null before the first. */
    private @Nullable DecoratedKey lastKey;

    /** Null if all of the partition was read. */
    private @Nullable Clustering<?> lastRow;

    private boolean atEnd;

    /**
     * @param pageBytes a page ends with the row by which it has as many, of values and of what rows
     *     take by themselves
     */
    RowPages(TableStore store, TableMetadata table, ColumnFilter columns, long pageBytes) {
        this.store = store;
        this.table = table;
        this.columns = columns;
        this.pageBytes = pageBytes;
    }

    /** Whether there is no further page. */
    boolean areOver() {
        return atEnd;
    }

    /**
     * Reads the next page. May be empty, also if others follow: where rows were deleted. After an
     * exception the same page can be read again.
     */
    List<Found> next() {
        List<Found> page = new ArrayList<>();
        long bytes = 0;
        DecoratedKey resumed = lastRow == null ? null : lastKey;
        DecoratedKey key = lastKey;
        try (UnfilteredPartitionIterator partitions = store.scanAside(rest(), columns)) {
            while (partitions.hasNext()) {
                try (UnfilteredRowIterator partition = partitions.next()) {
                    key = partition.partitionKey();
                    // It comes with each page of its partition.
                    if (!key.equals(resumed)) bytes += add(page, key, partition.staticRow());
                    while (partition.hasNext()) {
                        // Deletions give no terms.
                        if (!(partition.next() instanceof Row row)) continue;
                        bytes += add(page, key, row);
                        if (bytes < pageBytes) continue;
                        lastKey = key;
                        lastRow = row.clustering();
                        return page;
                    }
                }
                bytes += ROW_BYTES;
                if (bytes < pageBytes) continue;
                lastKey = key;
                lastRow = null;
                return page;
            }
        }
        atEnd = true;
        return page;
    }

    private static long add(List<Found> page, DecoratedKey key, Row row) {
        if (!RowTerms.hasLiveData(row)) return ROW_BYTES;
        page.add(new Found(key, row));
        return ROW_BYTES + row.dataSize();
    }

    private DataRange rest() {
        DataRange all = DataRange.allData(table.partitioner);
        DecoratedKey key = lastKey;
        if (key == null) return all;
        PartitionPosition end = table.partitioner.getMinimumToken().minKeyBound();
        Clustering<?> row = lastRow;
        return row == null
                ? DataRange.forKeyRange(new Range<>(key, end))
                : all.forPaging(new Bounds<>(key, end), table.comparator, row, false);
    }
}
