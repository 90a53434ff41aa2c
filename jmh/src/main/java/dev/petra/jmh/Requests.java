// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.Date;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;

/** A workload's requests as Cassandra's objects. */
final class Requests {
    private final Workload workload;
    private final TableMetadata table;
    private final List<ColumnMetadata> columns;
    private final AtomicLong clock = new AtomicLong(System.currentTimeMillis() * 1000);

    /** What a read selects. */
    final ColumnFilter filter;

    /** The only column of it; null where it selects all. */
    private final @Nullable ColumnMetadata selected;

    Requests(Workload workload, TableMetadata table) {
        this.workload = workload;
        this.table = table;
        this.columns = workload.columns().stream().map(column -> column(column[0])).toList();
        if (workload.selected().isEmpty()) {
            this.filter = ColumnFilter.all(table);
            this.selected = null;
        } else {
            this.selected = column(workload.selected().get(0));
            // As SELECT of some columns does: the others are fetched for their liveness only.
            ColumnFilter.Builder builder = ColumnFilter.allRegularColumnsBuilder(table, false);
            workload.selected().forEach(name -> builder.add(column(name)));
            this.filter = builder.build();
        }
    }

    private ColumnMetadata column(String name) {
        ColumnMetadata column = table.getColumn(ByteBufferUtil.bytes(name));
        if (column == null) throw new IllegalArgumentException("no column " + name);
        return column;
    }

    @SuppressWarnings("unchecked")
    private static ByteBuffer bytes(ColumnMetadata column, Object value) {
        if (value instanceof ByteBuffer bytes) return bytes;
        AbstractType<Object> type = (AbstractType<Object>) column.type.unwrap();
        return type.decompose(value instanceof Instant instant ? Date.from(instant) : value);
    }

    /** The bytes of a value of a row, by the column's place. */
    ByteBuffer bytes(int column, Object value) {
        return bytes(columns.get(column), value);
    }

    DecoratedKey key(long number) {
        return table.partitioner.decorateKey(bytes(columns.get(0), workload.key(number)));
    }

    /** With a time later than any before. */
    PartitionUpdate update(long number, int version) {
        Object[] values = workload.row(number, version);
        long timestamp = clock.incrementAndGet();
        Row.Builder row = BTreeRow.unsortedBuilder();
        int regular = 1 + workload.clusterings();
        row.newRow(
                regular == 1
                        ? Clustering.EMPTY
                        : Clustering.make(bytes(columns.get(1), values[1])));
        row.addPrimaryKeyLivenessInfo(LivenessInfo.create(timestamp, 0));
        for (int i = regular; i < values.length; i++)
            row.addCell(
                    BufferCell.live(columns.get(i), timestamp, bytes(columns.get(i), values[i])));
        return PartitionUpdate.singleRowUpdate(
                table,
                table.partitioner.decorateKey(bytes(columns.get(0), values[0])),
                row.build());
    }

    /** Takes a row that was read, with the values that were selected. */
    void check(Row row, ReadCheck check) {
        long head = 0;
        long bytes = 0;
        boolean first = true;
        for (Cell<?> cell : row.cells()) {
            if (selected != null && !selected.equals(cell.column())) continue;
            if (first) head = head(cell);
            first = false;
            bytes += cell.valueSize();
        }
        check.row(workload.clusterings() == 0 ? 0 : clustering(row.clustering()), head, bytes);
    }

    private static <V> long head(Cell<V> cell) {
        return cell.valueSize() < Long.BYTES ? 0 : cell.accessor().getLong(cell.value(), 0);
    }

    private static <V> long clustering(Clustering<V> clustering) {
        V value = clustering.get(0);
        return clustering.accessor().size(value) == Long.BYTES
                ? clustering.accessor().toLong(value)
                : clustering.accessor().toInt(value);
    }

    /** Fails if a read brings another partition than was asked for. */
    static void check(DecoratedKey found, DecoratedKey asked) {
        if (!found.equals(asked))
            throw new IllegalStateException("partition " + found + " instead of " + asked);
    }
}
