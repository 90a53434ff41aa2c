// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import dev.petra.engine.host.Liveness;
import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.ListType;
import org.apache.cassandra.db.marshal.MapType;
import org.apache.cassandra.db.marshal.SetType;
import org.apache.cassandra.db.marshal.UserType;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * Builds one update of one partition, tersely and exactly: nothing is added that was not asked for
 * (a row without {@link RowBuilder#liveness} has none), and no clock is read.
 *
 * <pre>{@code
 * table.update("k").at(10).row(1).liveness().set("v", "x").end().deletePartition().build()
 * }</pre>
 *
 * <p>Timestamp, TTL and "now" count for everything that follows. Rows of the same clustering are
 * merged, as the statements of a batch are.
 */
public final class UpdateBuilder {
    /**
     * The local time, in seconds, of whatever is not given another: in 2036, so that nothing has
     * expired and no tombstone may be purged while a test runs.
     */
    public static final long NOW = 2_100_000_000L;

    /** A local time of long ago: what was deleted then may be purged, what expired then is dead. */
    public static final long LONG_AGO = 1_500_000_000L;

    private final TableMetadata table;
    private final PartitionUpdate.Builder update;
    private long timestamp = 1;
    private int ttl;
    private long now = NOW;

    UpdateBuilder(TableMetadata table, DecoratedKey key) {
        this.table = table;
        this.update = new PartitionUpdate.Builder(table, key, table.regularAndStaticColumns(), 4);
    }

    /** The timestamp of what follows, 1 at first. */
    public UpdateBuilder at(long timestamp) {
        this.timestamp = timestamp;
        return this;
    }

    /** The TTL of what follows; 0, as at first, for none. */
    public UpdateBuilder ttl(int ttl) {
        this.ttl = ttl;
        return this;
    }

    /** The local time of what follows: local deletion times, and what TTLs count from. */
    public UpdateBuilder now(long seconds) {
        this.now = seconds;
        return this;
    }

    /** Deletes the partition. */
    public UpdateBuilder deletePartition() {
        update.addPartitionDeletion(DeletionTime.build(timestamp, now));
        return this;
    }

    /** Deletes a slice. */
    public UpdateBuilder deleteRange(Slice slice) {
        update.add(new RangeTombstone(slice, DeletionTime.build(timestamp, now)));
        return this;
    }

    /** Deletes a slice. */
    public UpdateBuilder deleteRange(ClusteringBound<?> start, ClusteringBound<?> end) {
        return deleteRange(Slice.make(start, end));
    }

    /** Starts a row, by its clustering values. */
    public RowBuilder row(Object... clustering) {
        return row(table.comparator.make(clustering));
    }

    /** Starts a row. */
    public RowBuilder row(Clustering<?> clustering) {
        return new RowBuilder(clustering);
    }

    /** Starts the static row. */
    public RowBuilder staticRow() {
        return new RowBuilder(Clustering.STATIC_CLUSTERING);
    }

    /** Deletes a row. */
    public UpdateBuilder deleteRow(Object... clustering) {
        return row(clustering).deletion().end();
    }

    /** The update. */
    public PartitionUpdate build() {
        return update.build();
    }

    /** One row of the update. A deletion comes first: it would otherwise drop what it deletes. */
    public final class RowBuilder {
        private final Row.Builder row = BTreeRow.unsortedBuilder();
        private final boolean isStatic;

        private RowBuilder(Clustering<?> clustering) {
            isStatic = clustering == Clustering.STATIC_CLUSTERING;
            row.newRow(clustering);
        }

        /** As {@link UpdateBuilder#at}. */
        public RowBuilder at(long timestamp) {
            UpdateBuilder.this.at(timestamp);
            return this;
        }

        /** As {@link UpdateBuilder#ttl}. */
        public RowBuilder ttl(int seconds) {
            UpdateBuilder.this.ttl(seconds);
            return this;
        }

        /** As {@link UpdateBuilder#now}. */
        public RowBuilder now(long seconds) {
            UpdateBuilder.this.now(seconds);
            return this;
        }

        /** Marks the row live, as INSERT does. */
        public RowBuilder liveness() {
            row.addPrimaryKeyLivenessInfo(Liveness.create(timestamp, ttl, now));
            return this;
        }

        /** Marks the row with this liveness. */
        public RowBuilder liveness(LivenessInfo info) {
            row.addPrimaryKeyLivenessInfo(info);
            return this;
        }

        /** Deletes the row. */
        public RowBuilder deletion() {
            row.addRowDeletion(Row.Deletion.regular(DeletionTime.build(timestamp, now)));
            return this;
        }

        /** Sets a simple column; null deletes it. */
        public RowBuilder set(String column, Object value) {
            ColumnMetadata c = column(column);
            return value == null
                    ? cell(BufferCell.tombstone(c, timestamp, now))
                    : cell(live(c, TestTable.bytes(c.type, value), null));
        }

        /** Deletes a simple column. */
        public RowBuilder unset(String column) {
            return cell(BufferCell.tombstone(column(column), timestamp, now));
        }

        /** Sets one entry of a map, field of a user type, or list element (by its time uuid). */
        public RowBuilder put(String column, Object element, Object value) {
            ColumnMetadata c = column(column);
            return cell(live(c, TestTable.bytes(valueType(c, element), value), path(c, element)));
        }

        /** Adds an element to a set. */
        public RowBuilder add(String column, Object element) {
            ColumnMetadata c = column(column);
            return cell(live(c, ByteBufferUtil.EMPTY_BYTE_BUFFER, path(c, element)));
        }

        /** Deletes one entry, field or element. */
        public RowBuilder remove(String column, Object element) {
            ColumnMetadata c = column(column);
            return cell(BufferCell.tombstone(c, timestamp, now, path(c, element)));
        }

        /** Deletes a whole collection: at the timestamp as it is, where CQL would take one less. */
        public RowBuilder clear(String column) {
            row.addComplexDeletion(column(column), DeletionTime.build(timestamp, now));
            return this;
        }

        /** Deletes a whole collection as CQL does before it sets one: one microsecond before. */
        public RowBuilder clearBefore(String column) {
            row.addComplexDeletion(column(column), DeletionTime.build(timestamp - 1, now));
            return this;
        }

        /**
         * Overwrites a whole map as CQL does: a deletion one microsecond before, and the entries.
         */
        public RowBuilder overwrite(String column, Map<?, ?> entries) {
            clearBefore(column);
            entries.forEach((element, value) -> put(column, element, value));
            return this;
        }

        /** Adds a cell as it is. */
        public RowBuilder cell(Cell<?> cell) {
            row.addCell(cell);
            return this;
        }

        /** Ends the row. */
        public UpdateBuilder end() {
            update.add(row.build());
            return UpdateBuilder.this;
        }

        /** Ends the row and the update. */
        public PartitionUpdate build() {
            return end().build();
        }

        private Cell<?> live(ColumnMetadata column, ByteBuffer value, CellPath path) {
            return ttl == 0
                    ? BufferCell.live(column, timestamp, value, path)
                    : BufferCell.expiring(column, timestamp, ttl, now, value, path);
        }

        private ColumnMetadata column(String name) {
            ColumnMetadata column = table.getColumn(ByteBufferUtil.bytes(name));
            if (column == null || column.isStatic() != isStatic)
                throw new IllegalArgumentException("no such column in this row: " + name);
            return column;
        }
    }

    private static CellPath path(ColumnMetadata column, Object element) {
        AbstractType<?> type = column.type;
        if (type instanceof UserType udt) {
            for (int i = 0; i < udt.size(); i++)
                if (udt.fieldNameAsString(i).equals(element))
                    return CellPath.create(ByteBufferUtil.bytes((short) i));
            throw new IllegalArgumentException("no field " + element);
        }
        AbstractType<?> elementType;
        if (type instanceof MapType<?, ?> map) elementType = map.getKeysType();
        else if (type instanceof SetType<?> set) elementType = set.getElementsType();
        else if (type instanceof ListType<?> list) elementType = list.nameComparator();
        else throw new IllegalArgumentException(column + " is not a collection");
        return CellPath.create(TestTable.bytes(elementType, element));
    }

    static AbstractType<?> valueType(ColumnMetadata column, Object element) {
        AbstractType<?> type = column.type;
        if (type instanceof UserType udt) {
            for (int i = 0; i < udt.size(); i++)
                if (udt.fieldNameAsString(i).equals(element)) return udt.fieldType(i);
            throw new IllegalArgumentException("no field " + element);
        }
        if (type instanceof MapType<?, ?> map) return map.getValuesType();
        if (type instanceof ListType<?> list) return list.getElementsType();
        throw new IllegalArgumentException(column + " has no values");
    }
}
