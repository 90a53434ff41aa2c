// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.DeserializationHelper;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIteratorSerializer;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.net.MessagingService;
import org.apache.cassandra.schema.TableMetadata;

/** Partitions one after the other, as Cassandra puts them on the wire. */
final class MemoryPartitions {
    /** Which wire format the partitions are in. */
    private static final int WIRE_VERSION = MessagingService.current_version;

    private MemoryPartitions() {}

    static byte[] serialise(List<MemoryPartition> partitions) {
        try (DataOutputBuffer out = new DataOutputBuffer()) {
            for (MemoryPartition partition : partitions)
                try (UnfilteredRowIterator rows = partition.unfilteredIterator()) {
                    UnfilteredRowIteratorSerializer.serializer.serialize(
                            rows, null, out, WIRE_VERSION, partition.rowCount());
                }
            return out.toByteArray();
        } catch (IOException e) {
            throw new AssertionError("memory does not fail", e);
        }
    }

    static List<PartitionUpdate> deserialise(ByteBuffer bytes, TableMetadata table)
            throws IOException {
        List<PartitionUpdate> updates = new ArrayList<>();
        try (DataInputBuffer in = new DataInputBuffer(bytes, true)) {
            while (in.available() > 0)
                try (UnfilteredRowIterator rows =
                        UnfilteredRowIteratorSerializer.serializer.deserialize(
                                in,
                                WIRE_VERSION,
                                table,
                                null,
                                DeserializationHelper.Flag.FROM_REMOTE)) {
                    updates.add(PartitionUpdate.fromIterator(rows, ColumnFilter.all(table)));
                }
        }
        return updates;
    }
}
