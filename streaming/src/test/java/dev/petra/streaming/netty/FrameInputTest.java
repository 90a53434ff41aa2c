// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.netty;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.streaming.wire.Frame;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.embedded.EmbeddedChannel;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.net.AsyncStreamingInputPlus;
import org.junit.jupiter.api.Test;

class FrameInputTest {
    private static final int BYTES = 50;

    private static byte[] sent() throws IOException {
        try (DataOutputBuffer out = new DataOutputBuffer()) {
            new Frame(Frame.Kind.PART, 1, 0, 1, BYTES).write(out);
            for (int i = 0; i < BYTES; i++) out.write(i);
            return out.toByteArray();
        }
    }

    private static ByteBuffer receive(AsyncStreamingInputPlus input, int room) throws IOException {
        Frame frame = Frame.read(input);
        long[] progress = new long[2];
        FrameInput channel =
                new FrameInput(
                        frame,
                        input,
                        (of, bytes, delta) -> {
                            progress[0] = bytes;
                            progress[1] += delta;
                        });
        ByteBuffer all = ByteBuffer.allocateDirect(BYTES + 9);
        ByteBuffer some = ByteBuffer.allocate(room);
        while (channel.read(some) >= 0) {
            all.put(some.flip());
            some.clear();
        }
        assertThat(progress).containsExactly(BYTES, BYTES);
        channel.close();
        assertThat(channel.isOpen()).isTrue();
        return all.flip();
    }

    /** Torn at every byte into two buffers of the network's, and read in pieces of any size. */
    @Test
    void buffersEndAnywhere() throws IOException {
        byte[] sent = sent();
        for (int cut = 0; cut <= sent.length; cut++)
            for (int room : new int[] {1, 7, BYTES, BYTES + 5}) {
                EmbeddedChannel channel = new EmbeddedChannel();
                AsyncStreamingInputPlus input = new AsyncStreamingInputPlus(channel);
                // An empty one means the end.
                if (cut > 0) input.append(Unpooled.copiedBuffer(sent, 0, cut));
                if (cut < sent.length)
                    input.append(Unpooled.copiedBuffer(sent, cut, sent.length - cut));
                input.append(Unpooled.copiedBuffer(new byte[] {99}));
                ByteBuffer received = receive(input, room);
                assertThat(received.remaining()).isEqualTo(BYTES);
                for (int i = 0; i < BYTES; i++) assertThat(received.get(i)).isEqualTo((byte) i);
                assertThat(input.readByte()).isEqualTo((byte) 99);
                input.requestClosure();
                input.close();
                channel.close().syncUninterruptibly();
            }
    }

    @Test
    void aConnectionThatEndsEarlyIsAFailureAtEachByte() throws IOException {
        byte[] sent = sent();
        for (int length = 0; length < sent.length; length++) {
            EmbeddedChannel channel = new EmbeddedChannel();
            AsyncStreamingInputPlus input = new AsyncStreamingInputPlus(channel);
            if (length > 0) input.append(Unpooled.copiedBuffer(sent, 0, length));
            input.requestClosure();
            assertThatThrownBy(() -> receive(input, 16))
                    .as("%d", length)
                    .isInstanceOf(EOFException.class)
                    .hasMessageContaining("ends");
            channel.close().syncUninterruptibly();
        }
    }

    @Test
    void aSlowPeerIsWaitedFor() throws Exception {
        byte[] sent = sent();
        EmbeddedChannel channel = new EmbeddedChannel();
        AsyncStreamingInputPlus input = new AsyncStreamingInputPlus(channel);
        CompletableFuture<ByteBuffer> received =
                CompletableFuture.supplyAsync(
                        () -> {
                            try {
                                return receive(input, 16);
                            } catch (IOException e) {
                                throw new java.io.UncheckedIOException(e);
                            }
                        },
                        task -> new Thread(task).start());
        for (byte b : sent) {
            assertThat(received).isNotDone();
            ByteBuf one = Unpooled.buffer(1).writeByte(b);
            input.append(one);
        }
        assertThat(received.join().remaining()).isEqualTo(BYTES);
    }
}
