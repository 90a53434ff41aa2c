// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.DeserializationHelper;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIteratorSerializer;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.schema.TableMetadata;

/** Parts held until they are all there, then merged in under one lock. */
final class MemoryIncomingParts implements IncomingParts {
    private final MemoryStore store;
    private final StreamManifest manifest;
    private final Collection<Range<Token>> owned;
    private final ByteBuffer[] received;
    private List<PartitionUpdate> verified;
    private boolean closed;

    MemoryIncomingParts(
            MemoryStore store, StreamManifest manifest, Collection<Range<Token>> owned) {
        if (!manifest.engine().equals(MemoryEngineProvider.NAME)
                || manifest.formatVersion() != 1
                || !manifest.table().equals(store.spec().metadata().id)
                || !manifest.columnFamily().equals(store.spec().columnFamily()))
            throw new IllegalArgumentException(
                    "The store of "
                            + store.spec().displayName()
                            + " cannot take the parts of "
                            + manifest);
        this.store = store;
        this.manifest = manifest;
        this.owned = List.copyOf(owned);
        this.received = new ByteBuffer[manifest.parts().size()];
    }

    @Override
    public synchronized void receive(int index, ReadableByteChannel channel) throws IOException {
        checkOpen();
        StreamPart part = manifest.parts().get(Objects.checkIndex(index, received.length));
        if (received[index] != null)
            throw new IllegalStateException("Part " + index + " is already there.");
        ByteBuffer bytes = ByteBuffer.allocate(Math.toIntExact(part.bytes()));
        while (bytes.hasRemaining())
            if (channel.read(bytes) < 0)
                throw new EOFException("Part " + index + " ends at byte " + bytes.position());
        bytes.flip();
        if (MemoryOutgoingParts.checksum(bytes) != part.checksum())
            throw new IOException("Part " + index + " is not what the manifest says.");
        received[index] = bytes;
    }

    @Override
    public synchronized void verify() throws IOException {
        checkOpen();
        store.acquire();
        try {
            verifyAll();
        } finally {
            store.release();
        }
    }

    private void verifyAll() throws IOException {
        List<PartitionUpdate> updates = new ArrayList<>();
        for (int i = 0; i < received.length; i++) {
            if (received[i] == null) throw new IOException("Part " + i + " is missing.");
            deserialise(received[i], updates);
        }
        for (PartitionUpdate update : updates)
            if (!MemoryStore.isWithin(update.partitionKey(), owned))
                throw new IOException(
                        "Partition " + update.partitionKey() + " is outside the owned ranges.");
        verified = updates;
    }

    private void deserialise(ByteBuffer part, List<PartitionUpdate> updates) throws IOException {
        TableMetadata table = store.spec().metadata().get();
        try (DataInputBuffer in = new DataInputBuffer(part, true)) {
            while (in.available() > 0)
                try (UnfilteredRowIterator rows =
                        UnfilteredRowIteratorSerializer.serializer.deserialize(
                                in,
                                MemoryOutgoingParts.WIRE_VERSION,
                                table,
                                null,
                                DeserializationHelper.Flag.FROM_REMOTE)) {
                    updates.add(PartitionUpdate.fromIterator(rows, ColumnFilter.all(table)));
                }
        }
    }

    @Override
    public synchronized boolean ingest() throws IOException {
        checkOpen();
        store.acquire();
        try {
            if (verified == null) verifyAll();
            store.ingest(verified);
            verified = List.of();
        } finally {
            store.release();
        }
        return false;
    }

    @Override
    public synchronized void awaitRoom() {
        checkOpen();
    }

    private void checkOpen() {
        if (closed) throw new IllegalStateException("These parts are closed.");
        store.checkOpen();
    }

    @Override
    public synchronized void close() {
        closed = true;
    }
}
