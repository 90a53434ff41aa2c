// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import dev.petra.engine.stream.StreamManifest;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import net.jpountz.lz4.LZ4Factory;

/**
 * What Jazzer calls with bytes of its own, and watches which branches they take. Whatever they are,
 * a decoder answers by what they say, or by an {@link IOException} with a reason; anything else
 * that is thrown ends the process. The first byte says which decoder; checksums and digests are
 * made to fit, since no fuzzer finds those.
 */
final class DecoderFuzz {
    /** Of the heap, for a manifest of the greatest length: with each part's record. */
    private static final long MOST_HEAP = 129L << 20;

    private DecoderFuzz() {}

    /** Called by Jazzer, which knows it by its name. */
    public static void fuzzerTestOneInput(byte[] input) throws IOException {
        if (input.length == 0) return;
        byte[] bytes = Arrays.copyOfRange(input, 1, input.length);
        try {
            switch (input[0] & 3) {
                case 0 -> frame(bytes);
                case 1 -> manifest(bytes);
                case 2 -> packed(bytes);
                default -> pieces(ByteBuffer.wrap(bytes));
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
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        frame.write(new DataOutputStream(written));
        check(
                Arrays.equals(written.toByteArray(), Arrays.copyOf(bytes, Frame.BYTES)),
                "another frame is written than was read");
    }

    private static void manifest(byte[] plain) throws IOException {
        StreamManifest read = ManifestCodec.decode(plain);
        check(read.parts().size() <= plain.length / ManifestCodec.LEAST_PART, "too many parts");
        check(
                ManifestCodec.decode(ManifestCodec.encode(read)).equals(read),
                "another manifest is written than was read");
    }

    /** Length and LZ4 block, whatever they are. */
    private static void packed(byte[] packed) throws IOException {
        Frame frame = piece(Frame.hash(ByteBuffer.wrap(packed)), 0, 1, packed.length);
        ManifestAssembly assembly = ManifestAssembly.begin(frame);
        check(assembly.add(frame, packed), "the only piece is not all");
        check(assembly.heapBytes() < MOST_HEAP, "takes more of the heap than is allowed");
        assembly.manifest();
    }

    private static Frame piece(long digest, int number, int count, long bytes) {
        return new Frame(Frame.Kind.MANIFEST, digest, number, count, bytes);
    }

    /** Frames of pieces in an order of the input's, each of 4 bytes: which one, and its length. */
    private static void pieces(ByteBuffer in) throws IOException {
        if (in.remaining() < 2) return;
        byte[] whole = new byte[ManifestPieces.PIECE];
        int count = 1 + (in.get() & 3);
        int last = in.get() & 0xFF;
        ManifestAssembly assembly = ManifestAssembly.begin(piece(7, 0, count, 1));
        int taken = 0;
        while (in.remaining() >= 2) {
            int number = in.get() & 7;
            int lie = in.get();
            boolean isLast = number == count - 1;
            int bytes = (isLast ? last : whole.length) + (lie & 3);
            if (number >= count || bytes > whole.length + 1) continue;
            Frame frame = piece(7 + (lie & 4), number, count + (lie >> 3 & 1), bytes);
            boolean complete = assembly.add(frame, Arrays.copyOf(whole, bytes));
            check((lie & 4) == 0 && frame.count() == count, "a piece of another manifest is taken");
            check(++taken <= count, "a piece is taken twice");
            // All pieces are zeros: their digest is none of these.
            check(!complete, "damaged pieces are taken");
        }
    }

    /** Where to begin. */
    static List<byte[]> seeds(StreamManifest manifest) throws IOException {
        ByteArrayOutputStream frame = new ByteArrayOutputStream();
        new Frame(Frame.Kind.PART, 1, 4, 9, 300).write(new DataOutputStream(frame));
        byte[] plain = ManifestCodec.encode(manifest);
        byte[] block = LZ4Factory.fastestInstance().fastCompressor().compress(plain);
        return List.of(
                seed(0, frame.toByteArray()),
                seed(1, plain),
                seed(
                        2,
                        ByteBuffer.allocate(Integer.BYTES + block.length)
                                .putInt(plain.length)
                                .put(block)
                                .array()),
                seed(3, new byte[] {1, 9, 1, 0, 0, 0}),
                seed(3, new byte[] {1, 9, 0, 0, 0, 0}),
                seed(3, new byte[] {0, 9, 0, 4}));
    }

    private static byte[] seed(int decoder, byte[] bytes) {
        return ByteBuffer.allocate(1 + bytes.length).put((byte) decoder).put(bytes).array();
    }
}
