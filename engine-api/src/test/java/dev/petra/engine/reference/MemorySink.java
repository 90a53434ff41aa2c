// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import dev.petra.engine.stream.SliceStages;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;

/** Slices held until they are all there, then merged in under one lock. */
final class MemorySink implements StreamSink {
    private final MemoryStore store;
    private final Collection<Range<Token>> owned;
    private final SliceStages<List<PartitionUpdate>> slices;
    private boolean live;
    private boolean closed;

    MemorySink(MemoryStore store, StreamHead head, Collection<Range<Token>> owned) {
        if (!head.engine().equals(MemoryEngineProvider.NAME)
                || head.format() != MemorySource.FORMAT
                || !head.table().equals(store.spec().metadata().id)
                || !head.columnFamily().equals(store.spec().columnFamily()))
            throw new IllegalArgumentException(
                    "The store of " + store.spec().displayName() + " cannot take " + head);
        this.store = store;
        this.owned = List.copyOf(owned);
        this.slices = new SliceStages<>(store.spec().displayName(), head.slices());
    }

    private synchronized void checkOpen() {
        if (closed) throw new IllegalStateException("This stream is closed.");
        store.checkOpen();
    }

    @Override
    public synchronized SliceWriter begin(int slice) {
        checkOpen();
        slices.begin(slice);
        return new Writer(slice);
    }

    @Override
    public synchronized void verify() throws IOException {
        checkOpen();
        slices.all();
    }

    @Override
    public synchronized boolean ingest() throws IOException {
        verify();
        if (live) throw new IllegalStateException("All is live already.");
        store.acquire();
        try {
            List<PartitionUpdate> all = new ArrayList<>();
            slices.all().forEach(all::addAll);
            store.ingest(all);
            live = true;
        } finally {
            store.release();
        }
        return false;
    }

    @Override
    public void prepare() {
        checkOpen();
    }

    @Override
    public synchronized void close() {
        closed = true;
    }

    private final class Writer implements SliceWriter {
        private final int slice;
        private final List<PartitionUpdate> updates = new ArrayList<>();

        /** Whether it can take more. */
        private boolean open = true;

        private boolean whole;

        Writer(int slice) {
            this.slice = slice;
        }

        @Override
        public void take(ByteBuffer block) throws IOException {
            check();
            // Until this block is known to be good.
            open = false;
            if (block.remaining() < Integer.BYTES) throw new IOException("This is no block.");
            int checksum = block.getInt();
            // Copied: Cassandra's own reading takes a read-only buffer for one off the heap.
            byte[] bytes = new byte[block.remaining()];
            ByteBuffer content = ByteBuffer.wrap(bytes);
            block.get(bytes);
            if (MemorySource.checksum(content) != checksum)
                throw new IOException("This is no block.");
            for (PartitionUpdate update :
                    MemoryPartitions.deserialise(content, store.spec().metadata().get())) {
                if (!MemoryStore.isWithin(update.partitionKey(), owned))
                    throw new IOException(
                            "Partition " + update.partitionKey() + " is outside the owned ranges.");
                updates.add(update);
            }
            open = true;
        }

        private void check() {
            checkOpen();
            if (!open) throw new IllegalStateException("Slice " + slice + " takes no more.");
        }

        @Override
        public void end() {
            check();
            slices.staged(slice, updates);
            open = false;
            whole = true;
        }

        @Override
        public void close() {
            open = false;
            if (!whole) slices.torn(slice);
            // Closed again, it must not free a slice that another has begun.
            whole = true;
        }
    }
}
