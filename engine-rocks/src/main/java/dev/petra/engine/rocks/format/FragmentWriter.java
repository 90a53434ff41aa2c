// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import static dev.petra.engine.rocks.format.Fragments.*;

import dev.petra.engine.host.Liveness;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.marshal.ValueAccessor;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.Row;
import org.jspecify.annotations.Nullable;

/** Writes {@link Fragments} to a sink. It is reused. Not thread-safe. */
public final class FragmentWriter {
    /** Gives the ids of columns, and assigns an id to a column without one. */
    public interface Columns {
        int id(org.apache.cassandra.schema.ColumnMetadata column);
    }

    /** Takes the large values, which are stored apart from their row; see {@link LargeCells}. */
    public interface LargeSink {
        <V> void put(
                int column,
                @Nullable CellPath path,
                long timestamp,
                long hash,
                V value,
                ValueAccessor<V> by);

        /** The number of bytes from which a value is large. */
        int threshold();
    }

    private final ByteSink out;
    private final LargeSink large;
    private long base;
    private long minTimestamp;
    private long minLocalTime;
    private LivenessInfo liveness = LivenessInfo.EMPTY;

    // The expiry of the row, which its cells mostly have as well.
    private boolean isExpiring;
    private int ttl;
    private long expiration;

    private ColumnData[] columns = new ColumnData[16];
    private long[] order = new long[16];

    public FragmentWriter(ByteSink out, LargeSink large) {
        this.out = out;
        this.large = large;
        begin();
    }

    /** Resets {@link #minTimestamp()} and {@link #minLocalTime()}. */
    public void begin() {
        minTimestamp = Long.MAX_VALUE;
        minLocalTime = Long.MAX_VALUE;
    }

    /** The lowest timestamp of anything written since {@link #begin()}, in microseconds. */
    public long minTimestamp() {
        return minTimestamp;
    }

    /**
     * The lowest local deletion or expiration time written since {@link #begin()}, in seconds since
     * 1970; {@link Long#MAX_VALUE} if nothing was written that can ever be purged.
     */
    public long minLocalTime() {
        return minLocalTime;
    }

    /**
     * Writes a regular or static row.
     *
     * @param carryClustering whether to write the clustering's bytes, because decoding the key does
     *     not return them
     * @return whether there is anything in the row; a fragment is written in any case
     */
    public boolean row(Row row, Columns ids, boolean carryClustering) {
        liveness = row.primaryKeyLivenessInfo();
        DeletionTime deletion = row.deletion().time();
        int count = collect(row, ids);
        boolean isEmpty = count == 0 && Liveness.isEmpty(liveness) && deletion.isLive();
        base = baseTimestamp(deletion, count);
        if (!isEmpty) minTimestamp = Math.min(minTimestamp, base);

        int head = ROW;
        if (!Liveness.isEmpty(liveness)) head |= ROW_LIVENESS;
        isExpiring = Liveness.isExpiring(liveness);
        if (isExpiring) head |= ROW_EXPIRING;
        if (!deletion.isLive()) head |= ROW_DELETION;
        if (row.deletion().isShadowable() && !deletion.isLive()) head |= ROW_SHADOWABLE;
        if (carryClustering) head |= ROW_CLUSTERING;
        out.put(head);
        int body = out.position();
        out.putFixed64(base);
        if (isExpiring) {
            ttl = Liveness.ttl(liveness);
            expiration = Liveness.localExpirationTime(liveness);
            out.putVarint(ttl);
            putLocalTime(expiration);
        }
        if (!deletion.isLive()) putDeletion(deletion);
        if (carryClustering) putPrefix(row.clustering());
        for (int i = 0; i < count; i++) putColumn((int) (order[i] >>> 32), columns[(int) order[i]]);
        finish(body);
        Arrays.fill(columns, 0, count, null);
        return !isEmpty;
    }

    /** Sorts the columns by their ids: unlike the schema's order, this order never changes. */
    private int collect(Row row, Columns ids) {
        int count = 0;
        for (ColumnData data : row) {
            if (isNothing(data)) continue;
            if (count == columns.length) {
                columns = Arrays.copyOf(columns, 2 * count);
                order = Arrays.copyOf(order, 2 * count);
            }
            columns[count] = data;
            order[count] = ((long) ids.id(data.column()) << 32) | count;
            count++;
        }
        for (int i = 1; i < count; i++)
            if (order[i] < order[i - 1]) {
                Arrays.sort(order, 0, count);
                break;
            }
        return count;
    }

    /**
     * A collection that was set to null at CQL's lowest timestamp: its deletion, which is one
     * lower, is none.
     */
    private static boolean isNothing(ColumnData data) {
        return data instanceof ComplexColumnData complex
                && complex.complexDeletion().isLive()
                && complex.cellsCount() == 0;
    }

    private long baseTimestamp(DeletionTime deletion, int count) {
        if (!Liveness.isEmpty(liveness)) return Liveness.timestamp(liveness);
        if (!deletion.isLive()) return deletion.markedForDeleteAt();
        if (count == 0) return 0;
        ColumnData first = columns[(int) order[0]];
        if (first instanceof Cell<?> cell) return cell.timestamp();
        ComplexColumnData complex = (ComplexColumnData) first;
        if (!complex.complexDeletion().isLive())
            return complex.complexDeletion().markedForDeleteAt();
        return complex.iterator().next().timestamp();
    }

    private void putColumn(int id, ColumnData data) {
        if (data instanceof Cell<?> cell) {
            out.putVarint((long) id << 1);
            putCell(id, cell);
            return;
        }
        ComplexColumnData complex = (ComplexColumnData) data;
        out.putVarint((long) id << 1 | COLUMN_COMPLEX);
        DeletionTime deletion = complex.complexDeletion();
        out.put(deletion.isLive() ? 0 : COMPLEX_DELETION);
        if (!deletion.isLive()) putDeletion(deletion);
        out.putVarint(complex.cellsCount());
        for (Cell<?> cell : complex) {
            CellPath path = cell.path();
            ByteBuffer bytes = path.get(0);
            out.putVarint(bytes.remaining());
            out.put(bytes);
            putCell(id, cell);
        }
    }

    private <V> void putCell(int id, Cell<V> cell) {
        V value = cell.value();
        ValueAccessor<V> accessor = cell.accessor();
        int length = accessor.size(value);
        int flags = 0;
        boolean apart = length >= large.threshold() && !cell.isCounterCell() && !cell.isTombstone();
        if (apart) flags |= CELL_LARGE;
        else if (length > 0) flags |= CELL_VALUE;
        if (cell.timestamp() != base) {
            flags |= CELL_TIMESTAMP;
            minTimestamp = Math.min(minTimestamp, cell.timestamp());
        }
        if (cell.isTombstone()) flags |= CELL_TOMBSTONE;
        else if (cell.isExpiring()) {
            flags |= CELL_EXPIRING;
            if (isExpiring && cell.ttl() == ttl && cell.localDeletionTime() == expiration)
                flags |= CELL_ROW_EXPIRY;
        }
        if (cell.isCounterCell()) flags |= CELL_COUNTER;
        out.put(flags);
        if ((flags & CELL_TIMESTAMP) != 0) out.putZigzag(cell.timestamp() - base);
        if ((flags & CELL_EXPIRING) != 0 && (flags & CELL_ROW_EXPIRY) == 0)
            out.putVarint(cell.ttl());
        if ((flags & (CELL_EXPIRING | CELL_TOMBSTONE)) != 0 && (flags & CELL_ROW_EXPIRY) == 0)
            putLocalTime(cell.localDeletionTime());
        if (apart) {
            long hash = LargeCells.hash(value, accessor);
            out.putFixed64(hash);
            large.put(id, cell.path(), cell.timestamp(), hash, value, accessor);
        } else if (length > 0) {
            out.putVarint(length);
            out.put(value, accessor);
        }
    }

    /**
     * Writes a partition's record.
     *
     * @param deletion of the partition; live if it has none
     * @param ranges the highest timestamp and the highest local deletion time of the partition's
     *     range tombstones; live if there are none
     */
    public void partition(DeletionTime deletion, DeletionTime ranges) {
        int head = PARTITION;
        if (!deletion.isLive()) head |= PARTITION_DELETION;
        if (!ranges.isLive()) head |= PARTITION_RANGES;
        out.put(head);
        int body = out.position();
        if (!deletion.isLive()) putFixedDeletion(deletion);
        if (!ranges.isLive()) putFixedDeletion(ranges);
        finish(body);
    }

    private void putFixedDeletion(DeletionTime deletion) {
        out.putFixed64(deletion.markedForDeleteAt());
        putLocalTime(deletion.localDeletionTime());
        minTimestamp = Math.min(minTimestamp, deletion.markedForDeleteAt());
    }

    /**
     * Writes a range tombstone.
     *
     * @param carryBounds whether to write the bounds' bytes, because decoding the key does not
     *     return them
     */
    public void range(
            DeletionTime deletion,
            ClusteringPrefix<?> start,
            ClusteringPrefix<?> end,
            boolean carryBounds) {
        out.put(RANGE | (carryBounds ? RANGE_BOUNDS : 0));
        int body = out.position();
        putFixedDeletion(deletion);
        if (carryBounds) {
            putPrefix(start);
            putPrefix(end);
        }
        finish(body);
    }

    private void finish(int body) {
        out.insertVarint(body, out.position() - body);
    }

    private void putDeletion(DeletionTime deletion) {
        out.putZigzag(deletion.markedForDeleteAt() - base);
        minTimestamp = Math.min(minTimestamp, deletion.markedForDeleteAt());
        putLocalTime(deletion.localDeletionTime());
    }

    private void putLocalTime(long seconds) {
        minLocalTime = Math.min(minLocalTime, seconds);
        out.putFixed32(Cell.deletionTimeLongToUnsignedInteger(seconds));
    }

    private <V> void putPrefix(ClusteringPrefix<V> prefix) {
        out.putVarint(prefix.size());
        for (int i = 0; i < prefix.size(); i++) {
            V value = prefix.get(i);
            if (value == null) {
                out.putVarint(0);
                continue;
            }
            int length = prefix.accessor().size(value);
            out.putVarint(length + 1L);
            out.put(value, prefix.accessor());
        }
    }
}
