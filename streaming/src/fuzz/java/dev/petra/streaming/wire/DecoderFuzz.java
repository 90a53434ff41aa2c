// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.streaming.staging.SlicesFuzz;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import net.jpountz.lz4.LZ4Factory;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * What Jazzer calls with bytes of its own, and watches which branches they take. Whatever they are,
 * a decoder answers by what they say, or by an {@link IOException} with a reason; anything else
 * that is thrown ends the process. The first byte says which decoder, or a session that is sent
 * slices; checksums are made to fit, since no fuzzer finds those.
 */
final class DecoderFuzz {
    private DecoderFuzz() {}

    /** Called by Jazzer, which knows it by its name. */
    public static void fuzzerTestOneInput(byte[] input) throws IOException {
        if (input.length == 0) return;
        byte[] bytes = Arrays.copyOfRange(input, 1, input.length);
        try {
            switch (input[0] & 3) {
                case 0 -> frame(bytes);
                case 1 -> head(bytes);
                case 2 -> block(ByteBuffer.wrap(bytes));
                default -> SlicesFuzz.receive(bytes);
            }
        } catch (IOException refused) {
            check(refused.getMessage() != null || refused.getCause() != null, "no reason");
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    private static void frame(byte[] bytes) throws IOException {
        if (bytes.length >= Frame.BYTES) {
            int end = Frame.BYTES - Long.BYTES;
            ByteBuffer.wrap(bytes).putLong(end, Frame.hash(ByteBuffer.wrap(bytes, 0, end)));
        }
        Frame frame = Frame.read(new DataInputStream(new ByteArrayInputStream(bytes)));
        check(
                frame.packed() == frame.plain() || frame.plain() <= SliceWriter.BLOCK,
                "unpacks to more than a block");
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        frame.write(new DataOutputStream(written));
        check(
                Arrays.equals(written.toByteArray(), Arrays.copyOf(bytes, Frame.BYTES)),
                "another frame is written than was read");
    }

    private static void head(byte[] bytes) throws IOException {
        HeadCodec.SliceHead head = HeadCodec.decode(ByteBuffer.wrap(bytes));
        check(
                HeadCodec.decode(HeadCodec.encode(head)).equals(head),
                "another head is written than was read");
    }

    /** How long it is unpacked, 2 bytes, and an LZ4 block, whatever it is. */
    private static void block(ByteBuffer in) throws IOException {
        if (in.remaining() < 3) return;
        int plain = in.getShort() & 0xFFFF;
        Frame frame;
        try {
            frame = new Frame(Frame.Kind.BLOCK, 1, 0, 1, plain, in.remaining(), Frame.hash(in));
        } catch (IllegalArgumentException e) {
            // No such frame is read.
            return;
        }
        ByteBuffer room = ByteBuffer.allocate(plain + 1);
        ByteBuffer content = frame.unpack(in, room);
        check(content.remaining() == plain, "a block of another length");
        check(room.get(plain) == 0, "bytes behind the block");
    }

    /** Where to begin. */
    static List<byte[]> seeds() throws IOException {
        ByteArrayOutputStream frame = new ByteArrayOutputStream();
        new Frame(Frame.Kind.BLOCK, 1, 4, 9, 300, 200, 7).write(new DataOutputStream(frame));
        TableId table = TableId.fromUUID(new UUID(1, 2));
        byte[] head =
                ByteBufferUtil.getArray(
                        HeadCodec.encode(
                                new HeadCodec.SliceHead(
                                        new StreamHead("e", 1, table, "t", 3, 300), 100)));
        byte[] block = LZ4Factory.fastestInstance().fastCompressor().compress(head);
        return List.of(
                seed(0, frame.toByteArray()),
                seed(1, head),
                seed(
                        2,
                        ByteBuffer.allocate(Short.BYTES + block.length)
                                .putShort((short) head.length)
                                .put(block)
                                .array()),
                seed(3, SlicesFuzz.seed()));
    }

    private static byte[] seed(int decoder, byte[] bytes) {
        return ByteBuffer.allocate(1 + bytes.length).put((byte) decoder).put(bytes).array();
    }
}
