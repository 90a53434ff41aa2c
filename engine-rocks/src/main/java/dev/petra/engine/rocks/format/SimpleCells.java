// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import dev.petra.engine.host.Liveness;
import java.util.Arrays;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.utils.BulkIterator;
import org.apache.cassandra.utils.btree.BTree;
import org.apache.cassandra.utils.btree.UpdateFunction;
import org.jspecify.annotations.Nullable;

/**
 * Collects the cells of a row without complex columns, in the order of the columns, and builds the
 * row. It is reused for one row after another, which costs less than Cassandra's row builders. Not
 * thread-safe.
 */
public final class SimpleCells implements BulkIterator<ColumnData> {
    private static final int FEW = 8;

    private @Nullable ColumnData[] cells = new ColumnData[FEW];
    private int count;
    private int taken;
    private long minDeletionTime;

    /** Begins a row. */
    void clear() {
        count = 0;
        minDeletionTime = Long.MAX_VALUE;
    }

    void add(Cell<?> cell) {
        if (count == cells.length) cells = Arrays.copyOf(cells, 2 * count);
        cells[count++] = cell;
        minDeletionTime = Math.min(minDeletionTime, minDeletionTime(cell));
    }

    /** Adds them to the builder of a row that has other columns, too. */
    void addTo(Row.Builder builder) {
        for (int i = 0; i < count; i++) if (cells[i] instanceof Cell<?> cell) builder.addCell(cell);
    }

    private static long minDeletionTime(Cell<?> cell) {
        return cell.isTombstone() ? Long.MIN_VALUE : cell.localDeletionTime();
    }

    /**
     * Builds the row. It has the same minimal deletion time as {@link BTreeRow#create(Clustering,
     * LivenessInfo, Row.Deletion, Object[])} would compute.
     */
    Row row(Clustering<?> clustering, LivenessInfo liveness, Row.Deletion deletion) {
        taken = 0;
        Object[] tree = BTree.build(this, count, UpdateFunction.noOp());
        long ofLiveness =
                Liveness.isExpiring(liveness)
                        ? Liveness.localExpirationTime(liveness)
                        : Cell.MAX_DELETION_TIME;
        long min = deletion.isLive() ? Math.min(minDeletionTime, ofLiveness) : Long.MIN_VALUE;
        return BTreeRow.create(clustering, liveness, deletion, tree, min);
    }

    @Override
    public void fetch(Object[] into, int offset, int count) {
        System.arraycopy(cells, taken, into, offset, count);
        taken += count;
    }

    @Override
    public ColumnData next() {
        ColumnData next = cells[taken++];
        if (next == null) throw new IllegalStateException("beyond the last cell");
        return next;
    }
}
