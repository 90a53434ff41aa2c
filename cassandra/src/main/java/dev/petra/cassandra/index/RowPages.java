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
 * Reads all rows with live data of a store, a page at a time. A page is as of its own moment, or of
 * an earlier one; a row that is there all the while is in one of them. One thread at a time.
 *
 * <p>Each read of a partition reads all range tombstones of that partition first. So that a large
 * partition is not read in as many reads as it has pages, a read of it is kept open for one page,
 * the next for two, then four, and so on. Between two partitions nothing is open. Whoever waits
 * closes the read by {@link #rest}: a store that a full disk has stopped is opened anew only when
 * nobody reads it.
 */
final class RowPages implements AutoCloseable {
    /** A row, also a static one. */
    record Found(DecoratedKey key, Row row) {}

    /** What a row without any cell counts, live or not: many of these end a page as well. */
    private static final long ROW_BYTES = 64;

    /** For how many pages a read stays open at most: files that it reads are kept for so long. */
    private static final int MOST_PAGES = 1 << 10;

    private final TableStore store;
    private final TableMetadata table;
    private final ColumnFilter columns;
    private final long pageBytes;
    private final Runnable checkpoint;

    /** The partition of the last page's end, and its last row there; null before the first page. */
    private @Nullable DecoratedKey lastKey;

    /** Null if all of the partition was read. */
    private @Nullable Clustering<?> lastRow;

    private boolean atEnd;

    /** The read that is open; null if none is. */
    private @Nullable UnfilteredPartitionIterator scan;

    /** The partition that it is in; null if it is in none. */
    private @Nullable UnfilteredRowIterator partition;

    /** For how many pages a read of a partition's rest stays open. */
    private int pagesOfRead = 1;

    /** For how many more pages the read that is open stays so. */
    private int pagesLeft;

    /**
     * @param pageBytes a page ends with the row by which it has as many, of values and of what rows
     *     take by themselves
     * @param checkpoint called now and then, where deleted rows are read as well; what it throws
     *     ends the page
     */
    RowPages(
            TableStore store,
            TableMetadata table,
            ColumnFilter columns,
            long pageBytes,
            Runnable checkpoint) {
        this.store = store;
        this.table = table;
        this.columns = columns;
        this.pageBytes = pageBytes;
        this.checkpoint = checkpoint;
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
        boolean staysOpen = false;
        try {
            List<Found> page = read(opened());
            pagesLeft--;
            staysOpen = lastRow != null && pagesLeft > 0;
            // Not where a read fails, which may be for hours.
            if (pagesLeft == 0) pagesOfRead = Math.min(2 * pagesOfRead, MOST_PAGES);
            return page;
        } finally {
            if (!staysOpen) rest();
        }
    }

    /** The read that is open, or another from where the last page ended. */
    private UnfilteredPartitionIterator opened() {
        UnfilteredPartitionIterator open = scan;
        if (open != null) return open;
        pagesLeft = lastRow == null ? 1 : pagesOfRead;
        open = store.scanAside(rest(lastKey, lastRow), columns, checkpoint);
        scan = open;
        return open;
    }

    private List<Found> read(UnfilteredPartitionIterator partitions) {
        List<Found> page = new ArrayList<>();
        long bytes = 0;
        // Its static row was in an earlier page.
        DecoratedKey resumed = lastRow == null ? null : lastKey;
        while (true) {
            UnfilteredRowIterator rows = partition;
            if (rows == null) {
                if (!partitions.hasNext()) break;
                rows = partitions.next();
                partition = rows;
                DecoratedKey key = rows.partitionKey();
                if (!key.equals(resumed)) {
                    pagesOfRead = 1;
                    pagesLeft = 1;
                    bytes += add(page, key, rows.staticRow());
                }
            }
            while (rows.hasNext()) {
                // Deletions give no terms.
                if (!(rows.next() instanceof Row row)) continue;
                bytes += add(page, rows.partitionKey(), row);
                if (bytes < pageBytes) continue;
                lastKey = rows.partitionKey();
                // Without clustering columns it is the only row: there is no slice behind it.
                lastRow = row.clustering().size() == 0 ? null : row.clustering();
                return page;
            }
            leavePartition();
            bytes += ROW_BYTES;
            if (bytes < pageBytes) continue;
            lastKey = rows.partitionKey();
            lastRow = null;
            return page;
        }
        atEnd = true;
        return page;
    }

    private static long add(List<Found> page, DecoratedKey key, Row row) {
        if (!RowTerms.hasLiveData(row)) return ROW_BYTES;
        page.add(new Found(key, row));
        return ROW_BYTES + row.dataSize();
    }

    private DataRange rest(@Nullable DecoratedKey key, @Nullable Clustering<?> row) {
        DataRange all = DataRange.allData(table.partitioner);
        if (key == null) return all;
        PartitionPosition end = table.partitioner.getMinimumToken().minKeyBound();
        return row == null
                ? DataRange.forKeyRange(new Range<>(key, end))
                : all.forPaging(new Bounds<>(key, end), table.comparator, row, false);
    }

    private void leavePartition() {
        UnfilteredRowIterator open = partition;
        partition = null;
        if (open != null) open.close();
    }

    /** Closes the read that is open, if any: the next page opens another. */
    void rest() {
        UnfilteredPartitionIterator open = scan;
        scan = null;
        try {
            leavePartition();
        } finally {
            if (open != null) open.close();
        }
    }

    @Override
    public void close() {
        rest();
    }
}
