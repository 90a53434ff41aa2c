// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSource;
import dev.petra.streaming.loopback.Loopback;
import dev.petra.streaming.loopback.Patience;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.schema.TableId;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Blocks go from the sender's engine to the receiver's without an array of the heap. */
class BlocksOffHeapTest {
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private static final int SLICES = 32;

    /** Of a slice, less than an array for one of its small blocks would take. */
    private static final long MOST_BYTES = 32 << 10;

    private static final List<ByteBuffer> BLOCKS =
            List.of(
                    half(120 << 10, new Random(1)),
                    half(SliceWriter.BLOCK, new Random(2)),
                    half(SliceWriter.BLOCK + 70_001, new Random(3)));

    @BeforeAll
    static void buffersOfConnectionsNeedSettings() {
        DatabaseDescriptor.clientInitialization(false);
    }

    /** Of which LZ4 takes away about a half. */
    private static ByteBuffer half(int size, Random random) {
        ByteBuffer block = ByteBuffer.allocateDirect(size);
        while (block.remaining() >= Integer.BYTES)
            block.putInt(block.position() % 800 < 400 ? 0 : random.nextInt());
        return block.clear();
    }

    @Test
    void neitherEndPutsBlocksOnTheHeap() throws Exception {
        // The first time classes are loaded.
        run();
        long[] allocated = run();
        assertThat(allocated[0]).as("bytes of the sender").isLessThan(SLICES * MOST_BYTES);
        assertThat(allocated[1]).as("bytes of the receiver").isLessThan(SLICES * MOST_BYTES);
    }

    /** What each end has allocated on the heap. */
    private static long[] run() throws Exception {
        List<SliceRanges> plan = new ArrayList<>();
        for (long i = 0; i < SLICES; i++)
            plan.add(
                    new SliceRanges(
                            List.of(
                                    new Range<>(
                                            new Murmur3Partitioner.LongToken(i),
                                            new Murmur3Partitioner.LongToken(i + 1))),
                            0));
        List<OutgoingSlice> slices = OutgoingSlice.of(new Source(), plan);
        Sink sink = new Sink();
        try (Loopback connection = new Loopback();
                IncomingSlices session = new IncomingSlices(head -> sink)) {
            CompletableFuture<Long> sender =
                    CompletableFuture.supplyAsync(
                            () -> allocated(() -> send(slices, connection)),
                            task -> new Thread(task).start());
            long received =
                    allocated(
                            () -> {
                                for (int i = 0; i < SLICES; i++)
                                    session.receive(
                                            connection.input(), (slice, head) -> bytes -> {});
                            });
            assertThat(sink.taken).isEqualTo(SLICES * BLOCKS.size());
            return new long[] {sender.get(1, TimeUnit.MINUTES), received};
        }
    }

    private interface Work {
        void run() throws IOException;
    }

    private static long allocated(Work work) {
        long before = THREADS.getCurrentThreadAllocatedBytes();
        try {
            work.run();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return THREADS.getCurrentThreadAllocatedBytes() - before;
    }

    private static void send(List<OutgoingSlice> slices, Loopback connection) throws IOException {
        try {
            for (OutgoingSlice slice : slices)
                slice.write(
                        connection.output(),
                        Loopback.UNLIMITED,
                        () -> {},
                        bytes -> {},
                        Patience.withoutEnd());
        } catch (IOException e) {
            connection.cut();
            throw e;
        }
    }

    private static final class Source implements StreamSource {
        @Override
        public StreamHead head() {
            return new StreamHead("e", 1, TableId.fromUUID(new UUID(1, 2)), "t", SLICES, 0);
        }

        @Override
        public SliceReader open(int slice) {
            return new SliceReader() {
                private int next;

                @Override
                public ByteBuffer next() {
                    return next == BLOCKS.size() ? null : BLOCKS.get(next++).duplicate();
                }

                @Override
                public void close() {}
            };
        }

        @Override
        public void close() {}
    }

    private static final class Sink extends OneSliceSink {
        int taken;

        @Override
        public void take(ByteBuffer block) {
            assertThat(block.isDirect()).isTrue();
            assertThat(block.equals(BLOCKS.get(taken++ % BLOCKS.size()))).isTrue();
            block.position(block.limit());
        }
    }
}
