// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.junit.jupiter.api.Test;

class FrameTest {
    private static final Frame FRAME = new Frame(Frame.Kind.PART, 0x0102030405060708L, 4, 9, 300);

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

    /** The worked bytes of docs/FORMAT.md. */
    @Test
    void hasTheBytesOfItsFormat() throws IOException {
        assertThat(HexFormat.of().formatHex(written(FRAME)))
                .startsWith("50545241" + "0002" + "0001" + "0102030405060708" + "00000004")
                .contains("00000009" + "000000000000012c")
                .hasSize(2 * Frame.BYTES);
    }

    @Test
    void whatIsWrittenIsRead() throws IOException {
        assertThat(read(written(FRAME))).isEqualTo(FRAME);
        Frame largest = new Frame(Frame.Kind.MANIFEST, -1, 0, 1, Long.MAX_VALUE);
        assertThat(read(written(largest))).isEqualTo(largest);
    }

    @Test
    void aChangedBitIsNoticed() throws IOException {
        for (int bit = 0; bit < 8 * Frame.BYTES; bit++) {
            byte[] damaged = written(FRAME);
            damaged[bit / 8] ^= (byte) (1 << bit % 8);
            assertThatThrownBy(() -> read(damaged))
                    .as("bit %d", bit)
                    .isInstanceOf(IOException.class);
        }
    }

    @Test
    void anotherVersionIsNamed() throws IOException {
        byte[] newer = ByteBuffer.wrap(written(FRAME)).putShort(4, (short) 3).array();
        assertThatThrownBy(() -> read(newer))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("version 3")
                .hasMessageContaining("version 2");
    }

    /** A peer that lies makes the checksum fit. */
    @Test
    void numbersThatCannotBeAreRefused() throws IOException {
        long[][] lies = {
            // Kind, number, count, bytes.
            {2, 0, 1, 1},
            {-1, 0, 1, 1},
            {1, 1, 1, 1},
            {1, -1, 1, 1},
            {1, 0, 0, 1},
            {1, 0, -1, 1},
            {1, 0, 1, -1},
            {1, Integer.MAX_VALUE, Integer.MAX_VALUE, 1}
        };
        for (long[] lie : lies) {
            ByteBuffer bytes = ByteBuffer.wrap(written(FRAME));
            bytes.putShort(6, (short) lie[0])
                    .putInt(16, (int) lie[1])
                    .putInt(20, (int) lie[2])
                    .putLong(24, lie[3]);
            bytes.putLong(32, Frame.hash(bytes.duplicate().limit(32)));
            assertThatThrownBy(() -> read(bytes.array()))
                    .as("%s", (Object) lie)
                    .isInstanceOf(IOException.class);
        }
    }
}
