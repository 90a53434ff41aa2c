// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.stream.StreamHead;
import dev.petra.streaming.wire.HeadCodec.SliceHead;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.UUID;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;

class HeadCodecTest {
    private static final SliceHead HEAD =
            new SliceHead(
                    new StreamHead(
                            "rocks",
                            3,
                            TableId.fromUUID(
                                    UUID.fromString("00112233-4455-6677-8899-aabbccddeeff")),
                            "emp",
                            7,
                            300),
                    44);

    private static byte[] encoded() {
        return ByteBufferUtil.getArray(HeadCodec.encode(HEAD));
    }

    @Test
    void hasTheBytesOfItsFormat() {
        assertThat(HexFormat.of().formatHex(encoded()))
                .isEqualTo(
                        "0005726f636b73"
                                + "00000003"
                                + "00112233445566778899aabbccddeeff"
                                + "0003656d70"
                                + "00000007"
                                + "000000000000012c"
                                + "000000000000002c");
    }

    @Test
    void whatIsEncodedIsDecoded() throws IOException {
        assertThat(HeadCodec.decode(HeadCodec.encode(HEAD))).isEqualTo(HEAD);
        assertThat(HeadCodec.decode(HeadCodec.encode(HEAD).asReadOnlyBuffer())).isEqualTo(HEAD);
    }

    @Test
    void whatIsTornOrTooLongIsRefused() {
        byte[] whole = encoded();
        for (int length = 0; length <= whole.length + 1; length++) {
            ByteBuffer other = ByteBuffer.wrap(Arrays.copyOf(whole, length));
            if (length != whole.length)
                assertThatThrownBy(() -> HeadCodec.decode(other))
                        .as("%d bytes", length)
                        .isInstanceOf(IOException.class)
                        .hasMessageContaining("head of a slice");
        }
    }

    /** The checksum of a frame notices it; here it is something else, or refused. */
    @Test
    void aChangedBitIsAnotherHeadOrNone() {
        for (int bit = 0; bit < 8 * encoded().length; bit++) {
            byte[] changed = encoded();
            changed[bit / 8] ^= (byte) (1 << bit % 8);
            try {
                assertThat(HeadCodec.decode(ByteBuffer.wrap(changed))).isNotEqualTo(HEAD);
            } catch (IOException refused) {
                assertThat(refused).hasMessageContaining("head of a slice");
            }
        }
    }

    @Test
    void numbersThatCannotBeAreRefused() {
        int slices = 7 + 4 + 16 + 5;
        for (int lie : new int[] {0, -1, 4097, Integer.MAX_VALUE})
            assertThatThrownBy(
                            () -> HeadCodec.decode(ByteBuffer.wrap(encoded()).putInt(slices, lie)))
                    .isInstanceOf(IOException.class);
        for (int place : new int[] {slices + 4, slices + 12})
            assertThatThrownBy(
                            () -> HeadCodec.decode(ByteBuffer.wrap(encoded()).putLong(place, -1)))
                    .isInstanceOf(IOException.class);
    }
}
