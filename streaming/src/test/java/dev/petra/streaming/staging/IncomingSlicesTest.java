// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.stream.BlockMemory;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.streaming.wire.Frame;
import dev.petra.streaming.wire.Frame.Kind;
import dev.petra.streaming.wire.HeadCodec;
import dev.petra.streaming.wire.HeadCodec.SliceHead;
import io.netty.buffer.Unpooled;
import io.netty.channel.embedded.EmbeddedChannel;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.net.AsyncStreamingInputPlus;
import org.apache.cassandra.schema.TableId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.Timeout.ThreadMode;

class IncomingSlicesTest {
    private static final Duration SHORT = Duration.ofMillis(50);

    private final List<Recorded> opened = new ArrayList<>();

    /** Says what was done with it. */
    private static final class Recorded implements StreamSink {
        final StreamHead head;
        final List<String> calls = new CopyOnWriteArrayList<>();
        int ended;
        int steps = 2;
        Runnable whilePrepared = () -> {};
        Runnable whileIngested = () -> {};

        Recorded(StreamHead head) {
            this.head = head;
        }

        @Override
        public SliceWriter begin(int slice) {
            calls.add("begin " + slice);
            return new SliceWriter() {
                private boolean whole;

                @Override
                public void take(ByteBuffer block) {
                    byte[] bytes = new byte[block.remaining()];
                    block.get(bytes);
                    calls.add("take " + Arrays.hashCode(bytes));
                }

                @Override
                public void end() {
                    whole = true;
                    ended++;
                    calls.add("end " + slice);
                }

                @Override
                public void close() {
                    if (!whole) calls.add("torn " + slice);
                }
            };
        }

        @Override
        public void verify() throws IOException {
            calls.add("verify");
            if (ended < head.slices()) throw new IOException("missing");
        }

        @Override
        public boolean ingest() {
            calls.add("ingest");
            whileIngested.run();
            return --steps > 0;
        }

        @Override
        public void prepare() {
            calls.add("room");
            whilePrepared.run();
        }

        @Override
        public void close() {
            calls.add("close");
        }
    }

    private IncomingSlices session() {
        return new IncomingSlices(this::open);
    }

    private IncomingSlices session(IdleLimit idle, BlockMemory large) {
        return new IncomingSlices("/10.0.0.7", "ks.t", idle, this::open, large);
    }

    private StreamSink open(StreamHead head) {
        Recorded sink = new Recorded(head);
        opened.add(sink);
        return sink;
    }

    private static StreamHead head(int slices) {
        return new StreamHead("e", 1, TableId.fromUUID(new UUID(1, 2)), "t", slices, 9);
    }

    /** Frames as a peer makes them, that lies where it likes. */
    private static final class Peer {
        final DataOutputBuffer out = new DataOutputBuffer();
        final long stream;

        Peer(long stream) {
            this.stream = stream;
        }

        Peer frame(Kind kind, int slice, int number, ByteBuffer content) {
            ByteBuffer scratch = ByteBuffer.allocate(Frame.scratch(content.remaining()));
            boolean large = content.remaining() > SliceWriter.BLOCK;
            Frame frame =
                    large
                            ? Frame.asItIs(kind, stream, slice, number, content)
                            : Frame.pack(kind, stream, slice, number, content, scratch);
            try {
                frame.write(out);
                out.write(large ? content.duplicate() : scratch);
            } catch (IOException e) {
                throw new AssertionError(e);
            }
            return this;
        }

        Peer head(int slice, StreamHead head) {
            return frame(Kind.HEAD, slice, 0, HeadCodec.encode(new SliceHead(head, 5)));
        }

        Peer block(int slice, int number, ByteBuffer content) {
            return frame(Kind.BLOCK, slice, number, content);
        }

        Peer end(int slice, int number) {
            return frame(Kind.END, slice, number, ByteBuffer.allocate(0));
        }

        byte[] bytes() {
            return out.toByteArray();
        }
    }

    private static ByteBuffer noise(int length) {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        return ByteBuffer.wrap(bytes);
    }

    private static String taken(ByteBuffer block) {
        byte[] bytes = new byte[block.remaining()];
        block.duplicate().get(bytes);
        return "take " + Arrays.hashCode(bytes);
    }

    /** A slice of two blocks, of which one can be packed. */
    private static Peer slice(long stream, int slice, int slices) {
        return new Peer(stream)
                .head(slice, head(slices))
                .block(slice, 1, noise(100))
                .block(slice, 2, ByteBuffer.allocate(90))
                .end(slice, 3);
    }

    private static long receive(IncomingSlices session, byte[] bytes) throws IOException {
        long[] moved = new long[1];
        try (DataInputBuffer in = new DataInputBuffer(bytes)) {
            long read = session.receive(in, (slice, head) -> delta -> moved[0] += delta);
            assertThat(moved[0]).isEqualTo(read);
            return read;
        }
    }

    @Test
    void allIsCheckedBeforeAnythingGoesLive() throws IOException {
        IncomingSlices session = session();
        assertThat(session.isEmpty()).isTrue();
        receive(session, slice(1, 0, 1).bytes());
        receive(session, slice(2, 1, 2).bytes());
        assertThat(session.isEmpty()).isFalse();
        // One is missing.
        assertThatThrownBy(session::ingest).isInstanceOf(IOException.class);
        assertThat(opened).hasSize(2);
        for (Recorded sink : opened)
            assertThat(sink.calls).doesNotContain("ingest").endsWith("close");
    }

    @Test
    void eachStreamGoesLiveInItsSteps() throws IOException {
        IncomingSlices session = session();
        byte[] bytes = slice(1, 0, 1).bytes();
        assertThat(receive(session, bytes)).isEqualTo(bytes.length);
        session.ingest();
        assertThat(opened.get(0).calls)
                .containsExactly(
                        "begin 0",
                        taken(noise(100)),
                        taken(ByteBuffer.allocate(90)),
                        "end 0",
                        "verify",
                        "room",
                        "ingest",
                        "room",
                        "ingest",
                        "close");
        assertThat(session.isEmpty()).isTrue();
        session.close();
        assertThatThrownBy(() -> receive(session, bytes)).hasMessageContaining("over");
        assertThatThrownBy(session::ingest).hasMessageContaining("over");
    }

    /** Cassandra aborts no receiver that has all: the rest went live, for hours maybe. */
    @Test
    @Timeout(value = 4, unit = TimeUnit.MINUTES, threadMode = ThreadMode.SEPARATE_THREAD)
    void nothingGoesLiveOnceTheSessionHasFailed() throws IOException {
        AtomicBoolean failed = new AtomicBoolean();
        IncomingSlices session = session();
        receive(session, slice(1, 0, 1).bytes());
        Recorded sink = opened.get(0);
        sink.whileIngested = () -> failed.set(true);
        assertFails(session, failed);
        assertThat(sink.calls).containsOnlyOnce("ingest");
        awaitClose(sink);
    }

    @Test
    @Timeout(value = 4, unit = TimeUnit.MINUTES, threadMode = ThreadMode.SEPARATE_THREAD)
    void aStepThatWaitsEndsOnceTheSessionHasFailed() throws IOException {
        AtomicBoolean failed = new AtomicBoolean();
        IncomingSlices session = session();
        receive(session, slice(1, 0, 1).bytes());
        Recorded sink = opened.get(0);
        sink.whilePrepared =
                () -> {
                    failed.set(true);
                    awaitClose(sink);
                    throw new IllegalStateException("This stream is closed.");
                };
        assertFails(session, failed);
        assertThat(sink.calls).doesNotContain("ingest");
    }

    /** From then on it asked without a pause until the session was over. */
    @Test
    void whoAsksWhetherTheSessionHasFailedPausesAlsoIfItIsInterrupted() throws IOException {
        AtomicInteger asked = new AtomicInteger();
        Thread ingests = Thread.currentThread();
        IncomingSlices session = session();
        receive(session, slice(1, 0, 1).bytes());
        opened.get(0).whilePrepared = () -> sleep(500);
        session.ingest(
                () -> {
                    if (Thread.currentThread() != ingests && asked.incrementAndGet() == 1)
                        Thread.currentThread().interrupt();
                    return false;
                });
        // Once a second.
        assertThat(asked).hasValueLessThan(20);
    }

    private static void assertFails(IncomingSlices session, AtomicBoolean failed) {
        assertThatThrownBy(() -> session.ingest(failed::get))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("failed before all of it was live");
    }

    private static void awaitClose(Recorded sink) {
        while (!sink.calls.contains("close")) sleep(1);
    }

    @Test
    void aSliceWithoutBlocksIsOne() throws IOException {
        try (IncomingSlices session = session()) {
            receive(session, new Peer(1).head(0, head(1)).end(0, 1).bytes());
            session.ingest();
        }
        assertThat(opened.get(0).calls).startsWith("begin 0", "end 0", "verify");
    }

    /** Torn into two buffers of the network's at every byte. */
    @Test
    void buffersEndAnywhere() throws IOException {
        byte[] sent = slice(1, 0, 1).bytes();
        for (int cut = 1; cut < sent.length; cut++) {
            EmbeddedChannel channel = new EmbeddedChannel();
            try (IncomingSlices session = session();
                    AsyncStreamingInputPlus input = new AsyncStreamingInputPlus(channel)) {
                input.append(Unpooled.copiedBuffer(sent, 0, cut));
                input.append(Unpooled.copiedBuffer(sent, cut, sent.length - cut));
                input.append(Unpooled.copiedBuffer(new byte[] {99}));
                assertThat(session.receive(input, (slice, head) -> bytes -> {}))
                        .isEqualTo(sent.length);
                assertThat(input.readByte()).isEqualTo((byte) 99);
                input.requestClosure();
            }
            channel.close().syncUninterruptibly();
        }
        for (Recorded sink : opened)
            assertThat(sink.calls).isEqualTo(opened.get(0).calls).contains("end 0");
    }

    @Test
    void aSliceThatIsTornOrDamagedAnywhereDoesNotEnd() throws IOException {
        byte[] sent = slice(1, 0, 1).bytes();
        for (int length = 0; length < sent.length; length++) {
            EmbeddedChannel channel = new EmbeddedChannel();
            try (IncomingSlices session = session();
                    AsyncStreamingInputPlus input = new AsyncStreamingInputPlus(channel)) {
                if (length > 0) input.append(Unpooled.copiedBuffer(sent, 0, length));
                input.requestClosure();
                assertThatThrownBy(() -> session.receive(input, (slice, head) -> bytes -> {}))
                        .as("%d bytes", length)
                        .isInstanceOf(IOException.class)
                        .hasMessageContaining("ends");
            }
            channel.close().syncUninterruptibly();
            int bit = length % 8;
            byte[] damaged = sent.clone();
            damaged[length] ^= (byte) (1 << bit);
            try (IncomingSlices session = session()) {
                assertThatThrownBy(() -> receive(session, damaged))
                        .as("byte %d, bit %d", length, bit)
                        .isInstanceOf(IOException.class);
            }
        }
        assertThat(opened).hasSizeGreaterThan(100);
        for (Recorded sink : opened)
            assertThat(sink.calls).doesNotContain("end 0").endsWith("torn 0", "close");
    }

    @Test
    void framesThatAreOutOfTheirPlaceAreRefused() {
        ByteBuffer block = noise(10);
        StreamHead two = head(2);
        Peer[] lies = {
            new Peer(1).block(0, 1, block),
            new Peer(1).end(0, 1),
            new Peer(1).head(2, two).end(2, 1),
            new Peer(1).head(0, two).block(0, 2, block).end(0, 3),
            new Peer(1).head(0, two).block(0, 1, block).block(0, 1, block).end(0, 2),
            new Peer(1).head(0, two).block(0, 1, block).end(0, 3),
            new Peer(1).head(0, two).block(1, 1, block).end(0, 2),
            new Peer(1).head(0, two).head(0, two).end(0, 1),
            new Peer(1).frame(Kind.HEAD, 0, 0, block),
        };
        for (int i = 0; i < lies.length; i++) {
            byte[] lie = lies[i].bytes();
            try (IncomingSlices session = session()) {
                assertThatThrownBy(() -> receive(session, lie))
                        .as("lie %d", i)
                        .isInstanceOf(IOException.class)
                        .message()
                        .isNotBlank();
            }
        }
        Peer another = new Peer(1).head(0, two);
        byte[] mixed = another.bytes();
        byte[] of = new Peer(2).block(0, 1, block).bytes();
        byte[] both = Arrays.copyOf(mixed, mixed.length + of.length);
        System.arraycopy(of, 0, both, mixed.length, of.length);
        try (IncomingSlices session = session()) {
            assertThatThrownBy(() -> receive(session, both)).isInstanceOf(IOException.class);
        }
        for (Recorded sink : opened)
            assertThat(sink.calls).noneMatch(call -> call.startsWith("end"));
    }

    /** Of the slice that has ended, and of one that has not begun. */
    @Test
    void whatComesBehindTheEndOfASliceIsRefused() throws IOException {
        Peer[] behind = {
            slice(1, 0, 2).block(0, 4, noise(10)),
            slice(1, 0, 2).end(0, 4),
            slice(1, 0, 2).end(0, 3),
            slice(1, 0, 2).block(1, 1, noise(10)),
            slice(1, 0, 2).head(0, head(2)).end(0, 1),
        };
        for (Peer peer : behind)
            try (IncomingSlices session = session();
                    DataInputBuffer in = new DataInputBuffer(peer.bytes())) {
                session.receive(in, (slice, head) -> bytes -> {});
                assertThatThrownBy(() -> session.receive(in, (slice, head) -> bytes -> {}))
                        .isInstanceOf(IOException.class)
                        .message()
                        .isNotBlank();
            }
        assertThat(opened).hasSize(behind.length);
        for (Recorded sink : opened)
            assertThat(sink.calls)
                    .doesNotContain("ingest")
                    .containsOnlyOnce("end 0")
                    .endsWith("close");
    }

    /**
     * It neither sends nor closes: who ends the session does not wait for it, and gives back the
     * memory of a block of which nothing comes. Cassandra closes the connections that a session
     * knows; a connection whose first slice is under way is none of them yet.
     */
    @Test
    @Timeout(value = 4, unit = TimeUnit.MINUTES, threadMode = ThreadMode.SEPARATE_THREAD)
    void aPeerThatStallsHoldsNothing() throws Exception {
        Peer peer = new Peer(1).head(0, head(1)).block(0, 1, noise(5 << 19));
        byte[] sent = Arrays.copyOf(peer.bytes(), peer.bytes().length - 1);
        BlockMemory room = new BlockMemory(3, SHORT);
        EmbeddedChannel channel = new EmbeddedChannel();
        try (AsyncStreamingInputPlus input = new AsyncStreamingInputPlus(channel)) {
            input.append(Unpooled.wrappedBuffer(sent));
            IncomingSlices session = session(new IdleLimit(Duration.ZERO), room);
            CompletableFuture<Long> stalled =
                    beside(() -> session.receive(input, (slice, head) -> bytes -> {}));
            while (room.freeMebibytes() > 0) sleep(1);
            session.close();
            assertThat(opened.get(0).calls).contains("close").doesNotContain("end 0");
            assertThatThrownBy(() -> stalled.get(1, TimeUnit.MINUTES)).hasMessageContaining("ends");
            assertThat(room.freeMebibytes()).isEqualTo(3);
            assertThat(opened.get(0).calls).doesNotContain("end 0", "ingest");
            try (IncomingSlices next = session()) {
                receive(next, slice(2, 0, 1).bytes());
                next.ingest();
            }
        }
        channel.close().syncUninterruptibly();
    }

    /** What it was to send of a large block is not waited for, either. */
    @Test
    @Timeout(value = 4, unit = TimeUnit.MINUTES, threadMode = ThreadMode.SEPARATE_THREAD)
    void aPeerThatSendsNothingForTooLongEndsItsSession() throws Exception {
        byte[] sent = new Peer(1).head(0, head(1)).block(0, 1, noise(5 << 19)).bytes();
        BlockMemory room = new BlockMemory(3, SHORT);
        // Long enough for what is there to be taken before.
        IdleLimit limit = new IdleLimit(Duration.ofSeconds(1));
        for (int length : new int[] {0, 20, Frame.BYTES, sent.length - 1, sent.length}) {
            EmbeddedChannel channel = new EmbeddedChannel();
            try (IncomingSlices session = session(limit, room);
                    AsyncStreamingInputPlus input = new AsyncStreamingInputPlus(channel)) {
                if (length > 0) input.append(Unpooled.copiedBuffer(sent, 0, length));
                assertThatThrownBy(() -> session.receive(input, (slice, head) -> bytes -> {}))
                        .as("%d bytes", length)
                        .isInstanceOf(IOException.class)
                        .hasMessageContaining("/10.0.0.7 sent no bytes of ks.t");
                assertThat(room.freeMebibytes()).isEqualTo(3);
                assertThatThrownBy(session::ingest).hasMessageContaining("sent no bytes");
            }
            channel.close().syncUninterruptibly();
        }
        for (Recorded sink : opened)
            assertThat(sink.calls).doesNotContain("end 0").endsWith("torn 0", "close");
    }

    /** Longer together than the limit, as where it is throttled; and this end is slow, too. */
    @Test
    @Timeout(value = 4, unit = TimeUnit.MINUTES, threadMode = ThreadMode.SEPARATE_THREAD)
    void aSlowPeerIsWaitedFor() throws Exception {
        // A piece may come late by some seconds more, on a machine that does other things.
        long limitMillis = 5_000;
        byte[] sent = new Peer(1).head(0, head(1)).block(0, 1, noise(5 << 19)).end(0, 2).bytes();
        IncomingSlices session =
                new IncomingSlices(
                        "/10.0.0.7",
                        "ks.t",
                        new IdleLimit(Duration.ofMillis(limitMillis)),
                        head -> {
                            sleep(limitMillis * 3 / 2);
                            return open(head);
                        });
        EmbeddedChannel channel = new EmbeddedChannel();
        try (session;
                AsyncStreamingInputPlus input = new AsyncStreamingInputPlus(channel)) {
            CompletableFuture<Long> received =
                    beside(() -> session.receive(input, (slice, head) -> bytes -> {}));
            int piece = 1 << 17;
            for (int at = 0; at < sent.length; at += piece) {
                sleep(limitMillis * 3 / 2 * piece / sent.length);
                input.append(Unpooled.copiedBuffer(sent, at, Math.min(piece, sent.length - at)));
            }
            assertThat(received.get(1, TimeUnit.MINUTES)).isEqualTo(sent.length);
            session.ingest();
            input.requestClosure();
        }
        channel.close().syncUninterruptibly();
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void slicesThatDoNotFitTogetherAreRefused() throws IOException {
        try (IncomingSlices session = session()) {
            receive(session, slice(1, 0, 2).bytes());
            assertThatThrownBy(() -> receive(session, slice(1, 0, 2).bytes()))
                    .hasMessageContaining("again");
            assertThatThrownBy(() -> receive(session, slice(1, 1, 3).bytes()))
                    .hasMessageContaining("one stream");
            // All slices are there.
            receive(session, slice(1, 1, 2).bytes());
            assertThatThrownBy(session::ingest).hasMessageContaining("one stream");
        }
        assertThat(opened).hasSize(1);
        assertThat(opened.get(0).calls).doesNotContain("ingest");
    }

    @Test
    void aSessionHasSoManyStreams() throws IOException {
        try (IncomingSlices session = session()) {
            for (int stream = 0; stream < 256; stream++)
                receive(session, slice(stream, 0, 1).bytes());
            assertThatThrownBy(() -> receive(session, slice(256, 0, 1).bytes()))
                    .hasMessageContaining("256");
        }
        assertThat(opened).hasSize(256);
    }

    /** What all sessions take of direct memory for large blocks is bounded. */
    @Test
    void largeBlocksWaitForEachOther() throws Exception {
        ByteBuffer block = noise(5 << 19);
        byte[] sent = new Peer(1).head(0, head(1)).block(0, 1, block).end(0, 2).bytes();
        BlockMemory room = new BlockMemory(3, SHORT);
        try (IncomingSlices session = session(new IdleLimit(Duration.ZERO), room)) {
            receive(session, sent);
            assertThat(opened.get(0).calls).contains(taken(block), "end 0");
            assertThat(room.freeMebibytes()).isEqualTo(3);
        }
        room.acquire(1 << 20, () -> {});
        try (IncomingSlices session = session(new IdleLimit(Duration.ZERO), room)) {
            assertThatThrownBy(() -> receive(session, sent)).hasMessageContaining("memory");
            // Small ones do not wait.
            receive(session, slice(2, 0, 1).bytes());
        }
        // Its bytes do not come: what was taken is given back.
        room.release(1 << 20);
        try (IncomingSlices session = session(new IdleLimit(Duration.ZERO), room)) {
            assertThatThrownBy(() -> receive(session, Arrays.copyOf(sent, sent.length / 2)))
                    .hasMessageContaining("ends");
        }
        assertThat(room.freeMebibytes()).isEqualTo(3);
    }

    @Test
    void aStoreThatCannotTakeItFailsAllSlices() {
        IncomingSlices.Target none =
                head -> {
                    throw new IllegalArgumentException("no such table");
                };
        try (IncomingSlices session = new IncomingSlices(none)) {
            assertThatThrownBy(() -> receive(session, slice(1, 0, 2).bytes()))
                    .hasMessageContaining("no such table");
            assertThatThrownBy(() -> receive(session, slice(1, 1, 2).bytes()))
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("no such table");
            assertThatThrownBy(session::ingest).hasMessageContaining("no such table");
        }
    }

    /**
     * The session ends while the store of its stream is opened, and a second slice waits for it.
     */
    @Test
    void whatIsOpenedTooLateIsClosedAndWakesWhoWaits() throws Exception {
        CountDownLatch opening = new CountDownLatch(1);
        CountDownLatch go = new CountDownLatch(1);
        IncomingSlices session =
                new IncomingSlices(
                        head -> {
                            opening.countDown();
                            try {
                                go.await();
                            } catch (InterruptedException e) {
                                throw new IOException(e);
                            }
                            return open(head);
                        });
        CompletableFuture<Long> first = receiveBeside(session, slice(1, 0, 2));
        opening.await();
        CompletableFuture<Long> second = receiveBeside(session, slice(1, 1, 2));
        session.close();
        assertThatThrownBy(() -> second.get(1, TimeUnit.MINUTES)).hasMessageContaining("over");
        go.countDown();
        assertThatThrownBy(() -> first.get(1, TimeUnit.MINUTES)).hasMessageContaining("over");
        assertThat(opened.get(0).calls).containsExactly("close");
    }

    private static CompletableFuture<Long> receiveBeside(IncomingSlices session, Peer peer) {
        return beside(() -> receive(session, peer.bytes()));
    }

    private static CompletableFuture<Long> beside(Callable<Long> receiving) {
        CompletableFuture<Long> received = new CompletableFuture<>();
        new Thread(
                        () -> {
                            try {
                                received.complete(receiving.call());
                            } catch (Throwable e) {
                                received.completeExceptionally(e);
                            }
                        })
                .start();
        return received;
    }
}
