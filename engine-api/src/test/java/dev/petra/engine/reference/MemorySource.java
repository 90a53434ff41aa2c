// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSource;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32;
import org.apache.cassandra.db.DecoratedKey;

/**
 * Partitions as they are when their block is read. A block is a CRC32 of what follows, then whole
 * partitions.
 */
final class MemorySource implements StreamSource {
    static final int FORMAT = 1;

    /** Small, so that a little content makes several. */
    private static final int BLOCK = 16 << 10;

    private final MemoryStore store;
    private final List<SliceRanges> slices;
    private final StreamHead head;
    private volatile boolean closed;

    MemorySource(MemoryStore store, List<SliceRanges> slices) {
        SliceRanges.check(slices);
        this.store = store;
        this.slices = List.copyOf(slices);
        this.head =
                new StreamHead(
                        MemoryEngineProvider.NAME,
                        FORMAT,
                        store.spec().metadata().id,
                        store.spec().columnFamily(),
                        slices.size(),
                        slices.stream().mapToLong(SliceRanges::bytes).sum());
    }

    static int checksum(ByteBuffer bytes) {
        CRC32 crc = new CRC32();
        crc.update(bytes.duplicate());
        return (int) crc.getValue();
    }

    @Override
    public StreamHead head() {
        checkOpen();
        return head;
    }

    private void checkOpen() {
        if (closed) throw new IllegalStateException("This stream is closed.");
        store.checkReadable();
    }

    @Override
    public SliceReader open(int slice) {
        checkOpen();
        return new Reader(slices.get(slice));
    }

    @Override
    public void close() {
        closed = true;
    }

    private final class Reader implements SliceReader {
        private final SliceRanges slice;
        private DecoratedKey last;
        private byte[] block = {};
        private boolean readerClosed;

        Reader(SliceRanges slice) {
            this.slice = slice;
        }

        @Override
        public synchronized ByteBuffer next() {
            if (readerClosed) throw new IllegalStateException("This slice is closed.");
            checkOpen();
            forget();
            ByteBuffer content = null;
            for (MemoryPartition live : store.behind(last)) {
                // A copy is of one moment.
                MemoryPartition partition = live.copy(store.spec().metadata());
                if (MemoryStore.isWithin(partition.partitionKey(), slice.ranges())
                        && !partition.isEmpty()) {
                    byte[] bytes = MemoryPartitions.serialise(List.of(partition));
                    if (content == null)
                        content = ByteBuffer.allocate(Math.max(BLOCK, bytes.length));
                    if (content.remaining() < bytes.length) break;
                    content.put(bytes);
                }
                last = partition.partitionKey();
            }
            if (content == null) return null;
            content.flip();
            ByteBuffer whole = ByteBuffer.allocate(4 + content.limit());
            whole.putInt(checksum(content)).put(content).flip();
            block = whole.array();
            return whole.asReadOnlyBuffer();
        }

        /** Whoever kept the block that was handed out shall notice. */
        private void forget() {
            Arrays.fill(block, (byte) -1);
        }

        @Override
        public synchronized void close() {
            readerClosed = true;
            forget();
        }
    }
}
