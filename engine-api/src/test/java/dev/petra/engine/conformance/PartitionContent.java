// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import dev.petra.engine.host.Liveness;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * What an iterator of one partition gave, in order: the partition deletion, the static row, rows
 * and range-tombstone markers. Two are equal if Cassandra's own {@code equals} says so of every
 * piece; statistics do not count.
 *
 * <p>While it is read, the iterator is checked as the host would check it: everything strictly in
 * its order, every range tombstone opened, closed by its own deletion time and not left open, no
 * empty row, and {@code columns()} naming every column that appears.
 *
 * <p>Normalised, because Cassandra itself gives either answer for the same data:
 *
 * <ol>
 *   <li>A deletion of a whole collection that is as old as its column's drop is left out: a
 *       memtable shows it (CASSANDRA's {@code ComplexColumnData.filter} knows of dropped cells
 *       only), an SSTable does not ({@code DeserializationHelper.isDroppedComplexDeletion}).
 *   <li>A boundary between two range tombstones of one deletion time is left out, as {@code
 *       RowAndDeletionMergeIterator} does (CASSANDRA-14894).
 *   <li>A partition with nothing in it is no partition.
 * </ol>
 */
public final class PartitionContent {
    private final TableMetadata table;
    private final DecoratedKey key;
    private final DeletionTime deletion;
    private final Row staticRow;
    private final List<Unfiltered> unfiltereds;

    private PartitionContent(
            TableMetadata table,
            DecoratedKey key,
            DeletionTime deletion,
            Row staticRow,
            List<Unfiltered> unfiltereds) {
        this.table = table;
        this.key = key;
        this.deletion = deletion;
        this.staticRow = staticRow;
        this.unfiltereds = unfiltereds;
    }

    /** Reads an iterator to its end and closes it; null, and nothing in it, is null. */
    public static PartitionContent of(UnfilteredRowIterator partition) {
        if (partition == null) return null;
        try (partition) {
            PartitionContent content = consume(partition);
            return content.isEmpty() ? null : content;
        }
    }

    /** Reads partitions to the end and closes all; what is empty is left out. */
    public static List<PartitionContent> listOf(UnfilteredPartitionIterator partitions) {
        List<PartitionContent> contents = new ArrayList<>();
        try (partitions) {
            DecoratedKey previous = null;
            while (partitions.hasNext()) {
                try (UnfilteredRowIterator partition = partitions.next()) {
                    DecoratedKey key = partition.partitionKey();
                    if (previous != null && previous.compareTo(key) >= 0)
                        throw new AssertionError(
                                "Partitions out of order: " + key + " after " + previous);
                    previous = key;
                    PartitionContent content = consume(partition);
                    if (!content.isEmpty()) contents.add(content);
                }
            }
        }
        return contents;
    }

    private static PartitionContent consume(UnfilteredRowIterator partition) {
        TableMetadata table = partition.metadata();
        boolean reversed = partition.isReverseOrder();
        Row staticRow = normalise(partition.staticRow(), table);
        if (staticRow == null) staticRow = Rows.EMPTY_STATIC_ROW;
        check(
                staticRow.isStatic(),
                partition,
                "has a static row that is none: " + place(staticRow));
        checkColumns(partition, staticRow);
        List<Unfiltered> unfiltereds = new ArrayList<>();
        Unfiltered previous = null;
        DeletionTime open = null;
        while (partition.hasNext()) {
            Unfiltered next = partition.next();
            if (previous != null) {
                int order = table.comparator.compare(previous, next);
                check(
                        reversed ? order > 0 : order < 0,
                        partition,
                        "is out of order: " + place(next) + " after " + place(previous));
            }
            previous = next;
            if (next instanceof RangeTombstoneMarker marker) {
                if (marker.isClose(reversed)) {
                    check(open != null, partition, "closes what is not open: " + place(marker));
                    check(
                            open.equals(marker.closeDeletionTime(reversed)),
                            partition,
                            "closes another deletion than " + open + ": " + place(marker));
                    open = null;
                }
                if (marker.isOpen(reversed)) {
                    check(open == null, partition, "opens twice: " + place(marker));
                    open = marker.openDeletionTime(reversed);
                }
                if (!isNoOp(marker)) unfiltereds.add(marker);
            } else {
                Row row = (Row) next;
                check(!row.isStatic(), partition, "has a static row among its rows");
                check(!row.isEmpty(), partition, "has an empty row " + place(row));
                checkColumns(partition, row);
                Row normal = normalise(row, table);
                if (normal != null) unfiltereds.add(normal);
            }
        }
        check(open == null, partition, "leaves a range tombstone open");
        return new PartitionContent(
                table,
                partition.partitionKey(),
                partition.partitionLevelDeletion(),
                staticRow,
                unfiltereds);
    }

    private static String place(Unfiltered unfiltered) {
        StringBuilder out = new StringBuilder(unfiltered.clustering().kind().toString());
        for (ByteBuffer value : unfiltered.clustering().getBufferArray())
            out.append(' ').append(value == null ? "null" : hex(value));
        return out.toString();
    }

    private static boolean isNoOp(RangeTombstoneMarker marker) {
        return marker.isBoundary()
                && marker.openDeletionTime(false).equals(marker.closeDeletionTime(false));
    }

    private static Row normalise(Row row, TableMetadata table) {
        if (table.droppedColumns.isEmpty() || row.isEmpty()) return row;
        return HostFixture.transform(
                row,
                data -> {
                    if (!(data instanceof ComplexColumnData complex)) return data;
                    DroppedColumn dropped = table.droppedColumns.get(complex.column().name.bytes);
                    DeletionTime deletion = complex.complexDeletion();
                    if (dropped == null
                            || deletion.isLive()
                            || deletion.markedForDeleteAt() > dropped.droppedTime) return data;
                    return complex.transformAndFilter(DeletionTime.LIVE, cell -> cell);
                });
    }

    private static void checkColumns(UnfilteredRowIterator partition, Row row) {
        for (ColumnData data : row)
            check(
                    partition.columns().columns(row.isStatic()).contains(data.column()),
                    partition,
                    "has data of " + data.column() + ", which its columns() do not name");
    }

    private static void check(boolean holds, UnfilteredRowIterator partition, String complaint) {
        if (!holds)
            throw new AssertionError("Partition " + partition.partitionKey() + " " + complaint);
    }

    /** Whether there is nothing at all. */
    public boolean isEmpty() {
        return deletion.isLive() && staticRow.isEmpty() && unfiltereds.isEmpty();
    }

    /** The key. */
    public DecoratedKey key() {
        return key;
    }

    /** The partition deletion, perhaps {@link DeletionTime#LIVE}. */
    public DeletionTime deletion() {
        return deletion;
    }

    /** The static row, perhaps empty. */
    public Row staticRow() {
        return staticRow;
    }

    /** Rows and markers, in order. */
    public List<Unfiltered> unfiltereds() {
        return unfiltereds;
    }

    /** The rows alone. */
    public List<Row> rows() {
        return unfiltereds.stream().filter(Unfiltered::isRow).map(Row.class::cast).toList();
    }

    /** The markers alone. */
    public List<RangeTombstoneMarker> markers() {
        return unfiltereds.stream()
                .filter(Unfiltered::isRangeTombstoneMarker)
                .map(RangeTombstoneMarker.class::cast)
                .toList();
    }

    /** The row of that clustering; an error if there is none. */
    public Row row(Object... clustering) {
        return find(clustering)
                .orElseThrow(
                        () ->
                                new AssertionError(
                                        "No row " + Arrays.toString(clustering) + ": " + this));
    }

    /** Whether there is a row of that clustering, be it only a deletion. */
    public boolean hasRow(Object... clustering) {
        return find(clustering).isPresent();
    }

    private Optional<Row> find(Object... clustering) {
        Clustering<?> wanted = table.comparator.make(clustering);
        return rows().stream()
                .filter(row -> table.comparator.compare(row.clustering(), wanted) == 0)
                .findFirst();
    }

    /** The cell of a simple column; an error if there is none. */
    public Cell<?> cell(String column, Object... clustering) {
        return cellOf(row(clustering), column);
    }

    /** The cell of a simple static column; an error if there is none. */
    public Cell<?> staticCell(String column) {
        return cellOf(staticRow, column);
    }

    private Cell<?> cellOf(Row row, String column) {
        ColumnMetadata metadata = table.getColumn(ByteBufferUtil.bytes(column));
        Cell<?> cell = metadata == null ? null : row.getCell(metadata);
        if (cell == null) throw new AssertionError("No cell " + column + ": " + this);
        return cell;
    }

    /** The column data of a row by its name; an error if there is none. */
    public ComplexColumnData complex(String column, Object... clustering) {
        ColumnMetadata metadata = table.getColumn(ByteBufferUtil.bytes(column));
        ComplexColumnData data =
                metadata == null ? null : row(clustering).getComplexColumnData(metadata);
        if (data == null) throw new AssertionError("No " + column + ": " + this);
        return data;
    }

    /** The same without the key: for comparing partitions with each other. */
    public String withoutKey() {
        String text = toString();
        int end = text.indexOf('\n');
        return end < 0 ? "" : text.substring(end);
    }

    /** Each clustering as CQL would print its values, for rows in order. */
    public List<String> clusterings() {
        return rows().stream().map(row -> row.clustering().toString(table)).toList();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof PartitionContent that
                && key.getKey().equals(that.key.getKey())
                && key.getToken().equals(that.key.getToken())
                && deletion.equals(that.deletion)
                && staticRow.equals(that.staticRow)
                && unfiltereds.equals(that.unfiltereds);
    }

    @Override
    public int hashCode() {
        return Objects.hash(key, deletion, unfiltereds.size());
    }

    /** Everything that counts for equality, a line for each row, marker, cell and deletion. */
    @Override
    public String toString() {
        StringBuilder out = new StringBuilder("partition ");
        out.append(hex(key.getKey())).append(" token ").append(key.getToken());
        if (!deletion.isLive()) out.append("\n  deleted ").append(describe(deletion));
        if (!staticRow.isEmpty()) describe(staticRow, out);
        for (Unfiltered unfiltered : unfiltereds) {
            if (unfiltered instanceof Row row) describe(row, out);
            else {
                out.append("\n  marker ").append(unfiltered.clustering().kind());
                describeValues(unfiltered, out);
                RangeTombstoneMarker marker = (RangeTombstoneMarker) unfiltered;
                if (marker.isClose(false))
                    out.append(" closes ").append(describe(marker.closeDeletionTime(false)));
                if (marker.isOpen(false))
                    out.append(" opens ").append(describe(marker.openDeletionTime(false)));
            }
        }
        return out.toString();
    }

    private void describe(Row row, StringBuilder out) {
        out.append(row.isStatic() ? "\n  static row" : "\n  row");
        describeValues(row, out);
        if (!Liveness.isEmpty(row.primaryKeyLivenessInfo()))
            out.append(" live ").append(row.primaryKeyLivenessInfo());
        if (!row.deletion().isLive())
            out.append(row.deletion().isShadowable() ? " shadowably deleted " : " deleted ")
                    .append(describe(row.deletion().time()));
        for (ColumnData data : row) {
            if (data instanceof ComplexColumnData complex) {
                out.append("\n    ").append(data.column().name);
                if (!complex.complexDeletion().isLive())
                    out.append(" deleted ").append(describe(complex.complexDeletion()));
                for (Cell<?> cell : complex) describe(cell, out);
            } else describe((Cell<?>) data, out);
        }
    }

    private static void describe(Cell<?> cell, StringBuilder out) {
        ColumnMetadata column = cell.column();
        out.append("\n    ").append(column.name);
        if (cell.path() != null) out.append('[').append(hex(cell.path().get(0))).append(']');
        out.append(cell.isTombstone() ? " tombstone" : " = " + hex(cell.buffer()));
        out.append(" @").append(cell.timestamp());
        if (cell.ttl() != Cell.NO_TTL) out.append(" ttl ").append(cell.ttl());
        if (cell.localDeletionTime() != Cell.NO_DELETION_TIME)
            out.append(" local ").append(cell.localDeletionTime());
    }

    private void describeValues(Unfiltered unfiltered, StringBuilder out) {
        List<AbstractType<?>> types = table.comparator.subtypes();
        for (int i = 0; i < unfiltered.clustering().size() && !types.isEmpty(); i++) {
            ByteBuffer value = unfiltered.clustering().bufferAt(i);
            out.append(i == 0 ? " " : ":").append(value == null ? "null" : hex(value));
        }
    }

    private static String describe(DeletionTime deletion) {
        return "@" + deletion.markedForDeleteAt() + " local " + deletion.localDeletionTime();
    }

    private static String hex(ByteBuffer bytes) {
        if (bytes.remaining() == 0) return "''";
        String hex = ByteBufferUtil.bytesToHex(bytes);
        return hex.length() <= 80
                ? hex
                : hex.substring(0, 76) + "… (" + bytes.remaining() + " bytes)";
    }
}
