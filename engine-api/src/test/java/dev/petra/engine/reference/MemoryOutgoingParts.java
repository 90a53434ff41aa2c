// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import dev.petra.engine.stream.OutgoingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIteratorSerializer;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.net.MessagingService;

/** At most one part: the partitions one after the other, as Cassandra puts them on the wire. */
final class MemoryOutgoingParts implements OutgoingParts {
    /** Which wire format the partitions are in. */
    static final int WIRE_VERSION = MessagingService.current_version;

    private final MemoryStore store;
    private final StreamManifest manifest;
    private final ByteBuffer content;
    private boolean closed;

    MemoryOutgoingParts(MemoryStore store, Collection<Range<Token>> ranges) {
        this.store = store;
        List<MemoryPartition> partitions = store.copyOf(ranges);
        this.content = serialise(partitions);
        this.manifest =
                new StreamManifest(
                        MemoryEngineProvider.NAME,
                        1,
                        store.spec().metadata().id,
                        store.spec().columnFamily(),
                        List.copyOf(ranges),
                        ByteBuffer.allocate(0),
                        partitions.isEmpty()
                                ? List.of()
                                : List.of(
                                        new StreamPart(
                                                0,
                                                content.remaining(),
                                                checksum(content),
                                                key(partitions.get(0)),
                                                key(partitions.get(partitions.size() - 1)))));
    }

    private static ByteBuffer key(MemoryPartition partition) {
        return partition.partitionKey().getKey();
    }

    static long checksum(ByteBuffer bytes) {
        return XXHashFactory.fastestJavaInstance().hash64().hash(bytes.duplicate(), 0);
    }

    private static ByteBuffer serialise(List<MemoryPartition> partitions) {
        try (DataOutputBuffer out = new DataOutputBuffer()) {
            for (MemoryPartition partition : partitions)
                try (UnfilteredRowIterator rows = partition.unfilteredIterator()) {
                    UnfilteredRowIteratorSerializer.serializer.serialize(
                            rows, null, out, WIRE_VERSION, partition.rowCount());
                }
            return ByteBuffer.wrap(out.toByteArray());
        } catch (IOException e) {
            throw new AssertionError("memory does not fail", e);
        }
    }

    @Override
    public StreamManifest manifest() {
        return manifest;
    }

    @Override
    public long transferTo(int index, WritableByteChannel channel) throws IOException {
        if (closed) throw new IllegalStateException("These parts are closed.");
        Objects.checkIndex(index, manifest.parts().size());
        ByteBuffer bytes = content.duplicate();
        while (bytes.hasRemaining()) channel.write(bytes);
        return content.remaining();
    }

    @Override
    public void close() {
        if (!closed) store.release();
        closed = true;
    }
}
