// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.DeserializationHelper;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIteratorSerializer;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.net.MessagingService;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.memory.ByteBufferCloner;

/**
 * What the values of an update may lie in. An engine gets buffers from CQL, arrays from the network
 * and from SSTables, and slices of anything; direct memory from an off-heap memtable.
 */
enum Carriers {
    /** Whatever the builder made: heap buffers that begin with their array. */
    BUILT,
    /** Arrays, as from another node. */
    ARRAYS,
    /** Heap buffers in the middle of their arrays. */
    SLICES,
    /** Direct buffers. */
    DIRECT;

    /** The same update in this carrier. */
    PartitionUpdate carry(PartitionUpdate update) {
        return switch (this) {
            case BUILT -> update;
            case ARRAYS -> received(update);
            case SLICES -> copied(update, size -> middle(ByteBuffer.allocate(size + 9), size));
            case DIRECT ->
                    copied(update, size -> middle(ByteBuffer.allocateDirect(size + 9), size));
        };
    }

    private static ByteBuffer middle(ByteBuffer room, int size) {
        return room.position(5).slice().limit(size);
    }

    private static PartitionUpdate received(PartitionUpdate update) {
        TableMetadata table = update.metadata();
        int version = MessagingService.current_version;
        try (DataOutputBuffer out = new DataOutputBuffer();
                UnfilteredRowIterator rows = update.unfilteredIterator()) {
            UnfilteredRowIteratorSerializer.serializer.serialize(
                    rows, null, out, version, update.rowCount());
            try (DataInputBuffer in = new DataInputBuffer(out.toByteArray());
                    UnfilteredRowIterator read =
                            UnfilteredRowIteratorSerializer.serializer.deserialize(
                                    in, version, table, null, DeserializationHelper.Flag.LOCAL)) {
                return PartitionUpdate.fromIterator(read, ColumnFilter.selection(update.columns()));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Makes room for a value. */
    private interface Room {
        ByteBuffer allocate(int size);
    }

    private static PartitionUpdate copied(PartitionUpdate update, Room room) {
        ByteBufferCloner cloner =
                new ByteBufferCloner() {
                    @Override
                    public ByteBuffer allocate(int size) {
                        return room.allocate(size);
                    }
                };
        DecoratedKey key =
                update.metadata()
                        .partitioner
                        .decorateKey(cloner.clone(update.partitionKey().getKey()));
        PartitionUpdate.Builder copy =
                new PartitionUpdate.Builder(update.metadata(), key, update.columns(), 4);
        copy.addPartitionDeletion(update.partitionLevelDeletion());
        update.deletionInfo().clone(cloner).rangeIterator(false).forEachRemaining(copy::add);
        if (!update.staticRow().isEmpty()) copy.add(update.staticRow().clone(cloner));
        for (Row row : update) copy.add(row.clone(cloner));
        return copy.build();
    }
}
