// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.engine.TableStore;
import dev.petra.engine.host.Liveness;
import dev.petra.engine.index.DamagedIndexException;
import dev.petra.engine.index.TermCursor;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringComparator;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.filter.ClusteringIndexNamesFilter;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.rows.AbstractUnfilteredRowIterator;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.EncodingStats;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.RowIterator;
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.exceptions.QueryCancelledException;
import org.apache.cassandra.index.IndexNotAvailableException;
import org.apache.cassandra.index.internal.CassandraIndex;
import org.apache.cassandra.schema.ColumnMetadata;
import org.jspecify.annotations.Nullable;

/**
 * What a query by one of Cassandra's legacy indexes finds of a value: the entries of the table's
 * store, as rows of the hidden table, together with the live rows that the hidden table has. That
 * has some while a part of the table is in SSTables.
 *
 * <p>An entry of the store only tells where to look, so no timestamps are compared: what was
 * deleted in the hidden table may have been written to the store since. Cassandra reads each row
 * that is found here, and passes over it if it does not have the value.
 *
 * <p>A row is found once, however many of its cells have the value: Cassandra takes its second
 * entry for one without a row, and deletes it from the hidden table.
 */
public final class LegacyHits extends AbstractUnfilteredRowIterator {
    private static final int SMALLEST_BATCH = 64;
    private static final int LARGEST_BATCH = 4_096;

    /** Of the keys of a batch, which may be large. */
    private static final long MOST_BYTES = 8 << 20;

    private record Hit(DecoratedKey key, Clustering<?> clustering) {}

    private final IndexUse use;
    private final ReadCommand command;
    private final AbstractBounds<PartitionPosition> range;
    private final ByteBuffer term;
    private final long nowInSec;
    private final boolean withoutStaticRows;
    private final RowIterator hidden;

    /** The last wanted row of the last partition, or a bound behind it; null if all are. */
    private final @Nullable ClusteringPrefix<?> end;

    private final ClusteringComparator rows;

    /** How many columns of the hidden table tell one row from another. */
    private final int rowColumns;

    private final Deque<Hit> batch = new ArrayDeque<>();
    private int batchSize = SMALLEST_BATCH;

    /** Where the next batch begins. */
    private PartitionPosition position;

    private @Nullable Clustering<?> clustering;

    /** The last entry that was read: the next batch may begin with it. */
    private @Nullable Hit last;

    private boolean atEnd;
    private @Nullable Row nextHidden;
    private @Nullable Row nextOurs;
    private @Nullable Row returned;

    LegacyHits(
            IndexUse use,
            DecoratedKey value,
            ReadCommand command,
            UnfilteredRowIterator fromHiddenTable) {
        super(
                fromHiddenTable.metadata(),
                value,
                DeletionTime.LIVE,
                fromHiddenTable.columns(),
                Rows.EMPTY_STATIC_ROW,
                false,
                EncodingStats.NO_STATS);
        this.use = use;
        this.command = command;
        this.term = value.getKey();
        this.nowInSec = command.nowInSec();
        this.rowColumns =
                LegacyTerms.rowColumns(command.metadata(), use.index().getIndexedColumn());
        this.withoutStaticRows = hasConditionOnClustering(command);
        this.range = range(command);
        this.position = range.left;
        this.clustering = first(use.index(), command, range.left);
        this.end = end(use.index(), command, range.right);
        this.rows = command.metadata().comparator;
        this.hidden = UnfilteredRowIterators.filter(fromHiddenTable, nowInSec);
    }

    /**
     * The memtable whose store a query is to ask besides the hidden table, or null. To be asked for
     * before the hidden table is read: what is migrated out of the engine meanwhile may be missing
     * in the rows that were read of the hidden table.
     */
    public static @Nullable EngineMemtable memtable(ColumnFamilyStore cfs) {
        return EngineMemtables.any(cfs.getTracker().getView());
    }

    /**
     * Adds the entries of the store.
     *
     * @param memtable of {@link #memtable}
     * @param value that is looked for
     * @param hidden what the hidden table has; closed with the result, or if this fails
     * @throws IndexNotAvailableException if the index lacks rows of the store
     */
    public static UnfilteredRowIterator add(
            CassandraIndex index,
            EngineMemtable memtable,
            DecoratedKey value,
            ReadCommand command,
            UnfilteredRowIterator hidden) {
        boolean complete = false;
        try {
            // Cassandra refuses ORDER BY in queries by such an index.
            if (hidden.isReverseOrder())
                throw new UnsupportedOperationException("An index is read in one direction only");
            TableStore store = memtable.generation().existing();
            UnfilteredRowIterator all =
                    store == null
                            ? hidden
                            : new LegacyHits(IndexUse.of(index, store), value, command, hidden);
            complete = true;
            return all;
        } finally {
            if (!complete) hidden.close();
        }
    }

    /**
     * Whether some clustering column has to have a value, which a static row does not have. An
     * index on a part of the partition key finds static rows as well. Cassandra compares the
     * clustering that they lack, and fails.
     */
    private static boolean hasConditionOnClustering(ReadCommand command) {
        return command.rowFilter().getExpressions().stream()
                .anyMatch(expression -> expression.column().isClusteringColumn());
    }

    private static AbstractBounds<PartitionPosition> range(ReadCommand command) {
        if (!(command instanceof SinglePartitionReadCommand single))
            return command.dataRange().keyRange();
        return new Bounds<>(single.partitionKey(), single.partitionKey());
    }

    /** Which rows of a partition are wanted; null where the static row stands for every row. */
    private static @Nullable ClusteringIndexFilter wanted(
            CassandraIndex index, ReadCommand command, PartitionPosition position) {
        return position instanceof DecoratedKey key && !index.getIndexedColumn().isStatic()
                ? command.clusteringIndexFilter(key)
                : null;
    }

    /** Where the wanted rows of the first partition begin; null for its begin. */
    private static @Nullable Clustering<?> first(
            CassandraIndex index, ReadCommand command, PartitionPosition position) {
        ClusteringIndexFilter wanted = wanted(index, command, position);
        if (wanted instanceof ClusteringIndexNamesFilter names)
            return names.requestedRows().isEmpty() ? null : names.requestedRows().first();
        if (!(wanted instanceof ClusteringIndexSliceFilter slices)) return null;
        if (slices.requestedSlices().size() == 0) return null;
        ClusteringBound<?> start = slices.requestedSlices().get(0).start();
        return start.size() < command.metadata().comparator.size() || start.size() == 0
                ? null
                : Clustering.make(start.getBufferArray());
    }

    /** Where the wanted rows of the last partition end; null for its end. */
    private static @Nullable ClusteringPrefix<?> end(
            CassandraIndex index, ReadCommand command, PartitionPosition position) {
        ClusteringIndexFilter wanted = wanted(index, command, position);
        if (wanted instanceof ClusteringIndexNamesFilter names)
            return names.requestedRows().isEmpty() ? null : names.requestedRows().last();
        if (!(wanted instanceof ClusteringIndexSliceFilter slices)) return null;
        Slices all = slices.requestedSlices();
        return all.size() == 0 ? null : all.get(all.size() - 1).end();
    }

    @Override
    @SuppressWarnings("NullAway") // Cassandra's clusterings hold nulls
    protected Unfiltered computeNext() {
        while (true) {
            // Cassandra looks when it has found a row, which it may never do among stale entries.
            // Writes, flushes and changes of the schema wait for the query.
            if (command.isAborted()) throw new QueryCancelledException(command);
            if (nextHidden == null && hidden.hasNext()) nextHidden = hidden.next();
            if (nextOurs == null) nextOurs = ours();
            Row next = smaller(nextHidden, nextOurs);
            if (next == null) return endOfData();
            if (next == nextHidden) nextHidden = null;
            else nextOurs = null;
            if (withoutStaticRows && isOfStaticRow(next)) continue;
            if (returned != null && compare(returned, next) == 0) continue;
            returned = next;
            return next;
        }
    }

    private @Nullable Row smaller(@Nullable Row one, @Nullable Row other) {
        if (one == null || other == null) return one == null ? other : one;
        return compare(one, other) <= 0 ? one : other;
    }

    /** Of an index on a part of the partition key: that on a static column finds partitions. */
    private boolean isOfStaticRow(Row hit) {
        ColumnMetadata column = use.index().getIndexedColumn();
        return column.isPartitionKey()
                && metadata.comparator.size() > 1
                && hit.clustering().bufferAt(1) == null;
    }

    private int compare(Row one, Row other) {
        return metadata.comparator.compare(one.clustering(), other.clustering(), rowColumns);
    }

    private @Nullable Row ours() {
        if (batch.isEmpty() && !atEnd) read();
        Hit hit = batch.poll();
        return hit == null
                ? null
                : BTreeRow.noCellLiveRow(
                        LegacyTerms.hidden(use.index(), hit.key, hit.clustering),
                        Liveness.create(Long.MIN_VALUE + 1, LivenessInfo.NO_TTL, nowInSec));
    }

    /**
     * Reads the next batch. Nothing is open when it returns, as rows are read then: a store that a
     * full disk has stopped is opened anew only when nobody reads it.
     */
    private void read() {
        long bytes = 0;
        try (TermCursor cursor = use.open(term)) {
            boolean isThere = cursor.seek(term, position, clustering);
            while (isThere && batch.size() < batchSize && bytes <= MOST_BYTES) {
                DecoratedKey key = cursor.key();
                Hit hit = new Hit(key, cursor.clustering());
                if (isBehindAll(hit)) {
                    isThere = false;
                    break;
                }
                if (!hit.equals(last)) {
                    batch.add(hit);
                    bytes += key.getKey().remaining() + hit.clustering.dataSize();
                }
                last = hit;
                position = key;
                clustering = hit.clustering;
                isThere = cursor.next();
            }
            atEnd = !isThere;
            batchSize = Math.min(2 * batchSize, LARGEST_BATCH);
        } catch (DamagedIndexException e) {
            throw use.damaged(e);
        }
    }

    private boolean isBehindAll(Hit hit) {
        if (range.right.isMinimum()) return false;
        int order = hit.key.compareTo(range.right);
        if (order != 0 || end == null || hit.clustering == Clustering.STATIC_CLUSTERING)
            return order > 0;
        return rows.compare(hit.clustering, end) > 0;
    }

    @Override
    public void close() {
        hidden.close();
    }
}
