// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.HiddenNotice;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ClusteringKeys;
import dev.petra.engine.rocks.format.FragmentReader;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.format.RowLayout;
import dev.petra.engine.rocks.format.SimpleCells;
import dev.petra.engine.rocks.format.TokenRanges;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DeletionInfo;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.MutableDeletionInfo;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * What decoding needs to know, for one read: the table as it is now, its columns' ids, what is
 * wanted. Bytes that do not decode become an error that names the table and the key.
 */
public final class ReadContext {
    /** Between two checkpoints. */
    private static final int STEPS = 256;

    private final StoreContext store;
    private final boolean aside;
    private final TableMetadata table;
    private final ClusteringKeys clusterings;

    /** The layout by the columns as of the moment that is read; null until that is fixed. */
    private @Nullable RowLayout form;

    final ColumnFilter filter;

    /** Null where every regular column is fetched: nothing to ask then. */
    private final @Nullable ColumnFilter fetchedRegulars;

    private final @Nullable ColumnFilter fetchedStatics;

    /** Null while no cell of the table lies apart from its row. */
    private @Nullable LargeReader large;

    private final SimpleCells cells = new SimpleCells();
    private final Runnable checkpoint;

    /** Entries that were read. */
    private int steps;

    /** Whether rows without complex columns and deletions need no further filtering. */
    private final boolean plain;

    /** Whether the filter fetches columns that the table has dropped. */
    private final boolean fetchesDropped;

    public ReadContext(StoreContext store, ColumnFilter filter) {
        this(store, filter, false, () -> {});
    }

    /**
     * @param aside whether large values that a get reads stay out of the block cache
     * @param checkpoint called now and then while the rows and range tombstones of a partition are
     *     read; what it throws ends the read
     */
    ReadContext(StoreContext store, ColumnFilter filter, boolean aside, Runnable checkpoint) {
        this.store = store;
        this.aside = aside;
        this.checkpoint = checkpoint;
        this.table = store.table();
        this.clusterings = store.catalog().layout(table).clusterings;
        this.filter = filter;
        this.fetchedRegulars = filter.fetchesAllColumns(false) ? null : filter;
        this.fetchedStatics = filter.fetchesAllColumns(true) ? null : filter;
        this.plain = filter.allFetchedColumnsAreQueried() && table.droppedColumns.isEmpty();
        this.fetchesDropped = fetchesDropped();
    }

    private boolean fetchesDropped() {
        for (DroppedColumn dropped : table.droppedColumns.values())
            if (table.getColumn(dropped.column.name) == null
                    && filter.fetchedColumns().contains(dropped.column)) return true;
        return false;
    }

    /** Opens a cursor over all keys, whose entries this decodes from now on. */
    public Cursor open() {
        return opened(new Cursor(store));
    }

    /** The same, for whoever reads everything once: the block cache is left to others. */
    public Cursor openAside() {
        return open(new ScanBounds(TokenRanges.last(), true));
    }

    /**
     * The same within bounds.
     *
     * @param bounds which the cursor closes
     */
    Cursor open(CursorBounds bounds) {
        return opened(new Cursor(store, bounds));
    }

    private Cursor opened(Cursor cursor) {
        boolean complete = false;
        try {
            fixed();
            complete = true;
            return cursor;
        } finally {
            if (!complete) cursor.close();
        }
    }

    /**
     * What is read is fixed: by an open cursor, or a get that has returned. A column's id is
     * assigned before its first cell is written, so from now on every id that can be met is known;
     * one that was assigned meanwhile must not be skipped as unknown.
     */
    private RowLayout fixed() {
        RowLayout fixed =
                fetchesDropped
                        ? store.catalog().layoutWithDropped(table)
                        : store.catalog().layout(table);
        form = fixed;
        if (large == null && store.catalog().has(Catalog.Flag.LARGE_CELLS))
            large = new LargeReader(store, filter, aside);
        return fixed;
    }

    private RowLayout layout() {
        RowLayout fixed = form;
        if (fixed == null) throw new IllegalStateException("no cursor was opened by this");
        return fixed;
    }

    /** A row or range tombstone comes next, which the caller may not get to see. */
    void step() {
        if (++steps % STEPS == 0) checkpoint.run();
    }

    TableMetadata table() {
        return table;
    }

    public ClusteringKeys clusterings() {
        return clusterings;
    }

    boolean wantsStatics() {
        return !filter.fetchedColumns().statics.isEmpty();
    }

    FragmentReader.PartitionRecord partition(ByteBuffer key, ByteBuffer value) {
        try {
            return FragmentReader.partition(value);
        } catch (MalformedFragment e) {
            throw malformed(e, key.position(0));
        }
    }

    /**
     * Decodes the static row under a cursor.
     *
     * @param deletions with the partition's, by which the caller filters it
     */
    Row staticRow(Cursor cursor, DeletionInfo deletions) {
        try {
            at(cursor, cursor.key(), Clustering.STATIC_CLUSTERING, deletions);
            return FragmentReader.row(
                    cursor.value(),
                    Clustering.STATIC_CLUSTERING,
                    layout(),
                    fetchedStatics,
                    large,
                    cells);
        } catch (MalformedFragment e) {
            throw malformed(e, cursor.key());
        }
    }

    /** Whether a range tombstone, whose bounds these are, meets a slice; it is behind none. */
    boolean isWanted(WantedRanges wanted, Cursor cursor, ByteBuffer bounds) {
        try {
            return wanted.isWanted(bounds, cursor.value());
        } catch (MalformedFragment
                | IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw malformed(e, cursor.key());
        }
    }

    /**
     * Decodes the range tombstone under a cursor.
     *
     * @param bounds the key from its start bound on
     */
    public RangeTombstone range(Cursor cursor, ByteBuffer bounds) {
        try {
            ClusteringBound<?> start = clusterings.getBound(bounds, false);
            ClusteringBound<?> end = clusterings.getBound(bounds, true);
            FragmentReader.RangeRecord record =
                    FragmentReader.range(cursor.value(), Slice.make(start, end));
            return new RangeTombstone(record.slice(), record.deletion());
        } catch (MalformedFragment
                | IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw malformed(e, cursor.key());
        }
    }

    /**
     * Decodes the row under a cursor, not filtered beyond its columns; it may be empty then.
     *
     * @param clusteringAt where in the key the clustering begins
     * @param deletions by which the caller filters the row
     */
    Row row(Cursor cursor, int clusteringAt, DeletionInfo deletions) {
        ByteBuffer key = cursor.key();
        try {
            key.position(clusteringAt);
            Clustering<?> clustering = clusterings.getClustering(key);
            at(cursor, key, clustering, deletions);
            return FragmentReader.row(
                    cursor.value(), clustering, layout(), fetchedRegulars, large, cells);
        } catch (MalformedFragment
                | IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw malformed(e, cursor.key());
        }
    }

    private void at(
            Cursor cursor, ByteBuffer key, Clustering<?> clustering, DeletionInfo deletions) {
        if (large != null) large.at(cursor.large(), key, clustering, deletions);
    }

    /**
     * Decodes a row that a get has found.
     *
     * @param deletion the partition's, by which the caller filters the row
     * @return null if a value that lies apart was removed since: it must be read from a snapshot
     */
    @Nullable Row row(
            Database database,
            ByteBuffer key,
            ByteBuffer value,
            Clustering<?> clustering,
            DeletionTime deletion) {
        try {
            RowLayout fixed = fixed();
            if (large != null)
                large.at(database, key, clustering, new MutableDeletionInfo(deletion));
            Row row = FragmentReader.row(value, clustering, fixed, fetchedRegulars, large, cells);
            return large != null && large.missed() ? null : row;
        } catch (MalformedFragment e) {
            throw malformed(e, key.position(0));
        }
    }

    /**
     * Decodes a row of a file whose columns have the ids of this store, and whose large cells are
     * live.
     *
     * @param key from the kind on
     */
    public Row row(Database database, byte[] rowKey, ByteBuffer key, byte[] value) {
        try {
            RowLayout fixed = fixed();
            Clustering<?> clustering =
                    (key.get() & 0xFF) == KeyKind.STATIC
                            ? Clustering.STATIC_CLUSTERING
                            : clusterings.getClustering(key);
            if (large != null)
                large.at(database, ByteBuffer.wrap(rowKey), clustering, DeletionInfo.LIVE);
            return FragmentReader.row(
                    ByteBuffer.wrap(value), clustering, fixed, fetchedRegulars, large, cells);
        } catch (MalformedFragment
                | IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw malformed(e, ByteBuffer.wrap(rowKey));
        }
    }

    /** As {@code AbstractBTreePartition} does it: what the deletion shadows is left out. */
    @Nullable Row filtered(Row row, DeletionTime deletion) {
        // Nothing of it was fetched; Row.filter, finding nothing to leave out, would return it.
        if (row.isEmpty()) return null;
        if (plain && deletion.isLive() && !row.hasComplex()) return row;
        return row.filter(filter, deletion, false, table);
    }

    /** A read has met range tombstones of the partition at this position; so many were left. */
    void metRanges(int count, int left, ByteBuffer prefix) {
        store.superseded().met(count, left, prefix);
    }

    /** What rows of a partition are hidden one after the other is told to. */
    HiddenNotice hidden() {
        return store.hidden();
    }

    Row filteredStatic(PartitionHeader header) {
        if (header.staticRow().isEmpty()) return Rows.EMPTY_STATIC_ROW;
        Row row = header.staticRow().filter(filter, header.deletion(), false, table);
        return row == null ? Rows.EMPTY_STATIC_ROW : row;
    }

    CorruptStoreException unknownKind(Cursor cursor, int kind) {
        return malformed(
                new IllegalArgumentException("a key of unknown kind " + kind), cursor.key());
    }

    private CorruptStoreException malformed(RuntimeException e, ByteBuffer key) {
        return store.malformed(e, key);
    }
}
