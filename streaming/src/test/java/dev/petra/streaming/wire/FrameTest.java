// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.streaming.wire.Frame.Kind;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Random;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.junit.jupiter.api.Test;

class FrameTest {
    private static final Frame FRAME =
            new Frame(Kind.BLOCK, 0x0102030405060708L, 4, 9, 300, 200, 0x1112131415161718L);

    private static byte[] written(Frame frame) throws IOException {
        try (DataOutputBuffer out = new DataOutputBuffer()) {
            frame.write(out);
            return out.toByteArray();
        }
    }

    private static Frame read(byte[] bytes) throws IOException {
        try (DataInputBuffer in = new DataInputBuffer(bytes)) {
            return Frame.read(in);
        }
    }

    @Test
    void hasTheBytesOfItsFormat() throws IOException {
        byte[] bytes = written(FRAME);
        assertThat(HexFormat.of().formatHex(bytes))
                .startsWith(
                        "50545241"
                                + "0003"
                                + "0001"
                                + "0102030405060708"
                                + "00000004"
                                + "00000009"
                                + "0000012c"
                                + "000000c8"
                                + "1112131415161718")
                .hasSize(2 * Frame.BYTES);
        assertThat(ByteBuffer.wrap(bytes).getLong(40))
                .isEqualTo(Frame.hash(ByteBuffer.wrap(bytes, 0, 40)));
    }

    @Test
    void whatIsWrittenIsRead() throws IOException {
        for (Frame frame :
                new Frame[] {
                    FRAME,
                    new Frame(Kind.HEAD, -1, 4095, 0, 1 << 16, 1 << 16, -1),
                    new Frame(
                            Kind.BLOCK,
                            Long.MIN_VALUE,
                            0,
                            Integer.MAX_VALUE,
                            SliceWriter.MAX_BLOCK,
                            SliceWriter.MAX_BLOCK,
                            0),
                    new Frame(Kind.END, 0, 0, 1, 0, 0, 0)
                }) assertThat(read(written(frame))).isEqualTo(frame);
    }

    @Test
    void aChangedBitIsNoticed() throws IOException {
        for (int bit = 0; bit < 8 * Frame.BYTES; bit++) {
            byte[] damaged = written(FRAME);
            damaged[bit / 8] ^= (byte) (1 << bit % 8);
            assertThatThrownBy(() -> read(damaged))
                    .as("bit %d", bit)
                    .isInstanceOf(IOException.class)
                    .message()
                    .isNotBlank();
        }
    }

    @Test
    void aFrameThatIsTornAnywhereIsNoticed() throws IOException {
        for (int length = 0; length < Frame.BYTES; length++) {
            byte[] torn = Arrays.copyOf(written(FRAME), length);
            assertThatThrownBy(() -> read(torn))
                    .isInstanceOf(EOFException.class)
                    .hasMessageContaining("within a frame");
        }
    }

    @Test
    void anotherVersionIsNamed() throws IOException {
        byte[] older = ByteBuffer.wrap(written(FRAME)).putShort(4, (short) 2).array();
        assertThatThrownBy(() -> read(older))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("version 2")
                .hasMessageContaining("version 3");
    }

    /** A peer that lies makes the checksum fit. */
    @Test
    void numbersThatCannotBeAreRefused() throws IOException {
        long[][] lies = {
            // Kind, slice, number, plain, packed.
            {3, 0, 1, 1, 1},
            {-1, 0, 1, 1, 1},
            {1, -1, 1, 1, 1},
            {1, StreamHead.MAX_SLICES, 1, 1, 1},
            {1, 0, -1, 1, 1},
            {1, 0, 0, 1, 1},
            {0, 0, 1, 1, 1},
            {0, 0, 0, (1 << 16) + 1, 1 << 16},
            {0, 0, 0, 0, 0},
            {1, 0, 1, 0, 0},
            {1, 0, 1, -1, 1},
            {1, 0, 1, 1, -1},
            {1, 0, 1, 1, 0},
            {1, 0, 1, 1, 2},
            {1, 0, 1, 256, 1},
            {1, 0, 1, SliceWriter.MAX_BLOCK + 1, SliceWriter.MAX_BLOCK + 1},
            {1, 0, 1, SliceWriter.BLOCK + 1, SliceWriter.BLOCK},
            {1, 0, 1, Integer.MAX_VALUE, Integer.MAX_VALUE},
            {1, 0, 1, Integer.MAX_VALUE, 1},
            {0, 0, 0, Integer.MAX_VALUE, Integer.MAX_VALUE},
            {2, 0, 1, 1, 1},
            {2, 0, 0, 0, 0}
        };
        for (long[] lie : lies) {
            ByteBuffer bytes = ByteBuffer.wrap(written(FRAME));
            bytes.putShort(6, (short) lie[0])
                    .putInt(16, (int) lie[1])
                    .putInt(20, (int) lie[2])
                    .putInt(24, (int) lie[3])
                    .putInt(28, (int) lie[4]);
            bytes.putLong(40, Frame.hash(bytes.duplicate().limit(40)));
            assertThatThrownBy(() -> read(bytes.array()))
                    .as("%s", (Object) lie)
                    .isInstanceOf(IOException.class);
        }
    }

    private static ByteBuffer noise(int length) {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        return ByteBuffer.wrap(bytes);
    }

    @Test
    void whatIsPackedIsUnpacked() throws IOException {
        for (boolean direct : new boolean[] {false, true})
            for (ByteBuffer content :
                    new ByteBuffer[] {
                        noise(1), noise(5000), ByteBuffer.allocate(1 << 18), ByteBuffer.allocate(20)
                    }) {
                ByteBuffer scratch = buffer(Frame.scratch(content.remaining()), direct);
                ByteBuffer shifted = buffer(content.remaining() + 3, direct);
                shifted.position(3).put(content.duplicate()).flip().position(3);
                Frame frame = Frame.pack(Kind.BLOCK, 1, 2, 3, shifted, scratch);
                assertThat(shifted.position()).isEqualTo(3);
                assertThat(frame.plain()).isEqualTo(content.remaining());
                assertThat(frame.packed()).isEqualTo(scratch.remaining());
                assertThat(frame.unpack(scratch, buffer(frame.plain(), direct))).isEqualTo(content);
            }
        assertThat(
                        Frame.pack(
                                        Kind.BLOCK,
                                        1,
                                        2,
                                        3,
                                        ByteBuffer.allocate(1 << 18),
                                        ByteBuffer.allocate(Frame.scratch(1 << 18)))
                                .packed())
                .isLessThan(1 << 11);
        Frame end = Frame.pack(Kind.END, 1, 2, 3, ByteBuffer.allocate(0), ByteBuffer.allocate(16));
        assertThat(end.packed()).isZero();
        assertThat(end.unpack(ByteBuffer.allocate(0), ByteBuffer.allocate(0)).hasRemaining())
                .isFalse();
    }

    private static ByteBuffer buffer(int size, boolean direct) {
        return direct ? ByteBuffer.allocateDirect(size) : ByteBuffer.allocate(size);
    }

    @Test
    void bytesThatAreTornOrChangedAreNoticed() {
        for (ByteBuffer content : new ByteBuffer[] {noise(300), ByteBuffer.allocate(3000)}) {
            ByteBuffer scratch = ByteBuffer.allocate(Frame.scratch(content.remaining()));
            Frame frame = Frame.pack(Kind.BLOCK, 1, 2, 3, content, scratch);
            ByteBuffer into = ByteBuffer.allocate(content.remaining());
            for (int bit = 0; bit < 8 * frame.packed(); bit++) {
                scratch.put(bit / 8, (byte) (scratch.get(bit / 8) ^ 1 << bit % 8));
                assertThatThrownBy(() -> frame.unpack(scratch, into))
                        .isInstanceOf(IOException.class)
                        .hasMessageContaining("slice 2");
                scratch.put(bit / 8, (byte) (scratch.get(bit / 8) ^ 1 << bit % 8));
            }
            for (int length = 0; length < frame.packed(); length++) {
                ByteBuffer torn = scratch.duplicate().limit(length);
                assertThatThrownBy(() -> frame.unpack(torn, into)).isInstanceOf(IOException.class);
            }
        }
    }

    /** Bombs: the checksum fits, and the block is of another length, or is none. */
    @Test
    void aBlockThatIsNotAsLongAsItSaysIsRefused() {
        ByteBuffer zeros = ByteBuffer.allocate(3000);
        ByteBuffer scratch = ByteBuffer.allocate(Frame.scratch(3000));
        Frame honest = Frame.pack(Kind.BLOCK, 1, 2, 3, zeros, scratch);
        for (int plain : new int[] {2999, 3001, honest.packed() + 1}) {
            Frame lie = new Frame(Kind.BLOCK, 1, 2, 3, plain, honest.packed(), honest.checksum());
            ByteBuffer into = ByteBuffer.allocate(5000);
            assertThatThrownBy(() -> lie.unpack(scratch, into)).isInstanceOf(IOException.class);
            for (int i = plain; i < into.capacity(); i++) assertThat(into.get(i)).isZero();
        }
        ByteBuffer noise = noise(100);
        Frame none = new Frame(Kind.BLOCK, 1, 2, 3, 3000, 100, Frame.hash(noise));
        assertThatThrownBy(() -> none.unpack(noise, ByteBuffer.allocate(3000)))
                .isInstanceOf(IOException.class);
    }
}
