// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import dev.petra.engine.stream.StreamManifest;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.TreeMap;
import net.jpountz.lz4.LZ4Exception;
import net.jpountz.lz4.LZ4Factory;

/**
 * A manifest on its way in, from pieces that arrive in any order. What it takes of the heap is
 * bounded, whatever the peer says. Used by one thread at a time.
 */
public final class ManifestAssembly {
    /** LZ4 makes no byte from less than a 255th of one. */
    private static final int MOST_RATIO = 255;

    private static final int MOST_PIECES =
            1
                    + (Integer.BYTES
                                    + LZ4Factory.fastestInstance()
                                            .fastCompressor()
                                            .maxCompressedLength(ManifestCodec.MOST_BYTES))
                            / ManifestPieces.PIECE;

    /** A part's record, with two buffers and their views. */
    private static final long HEAP_OF_A_PART = 256;

    private static final byte[] NOTHING = new byte[0];

    private final long digest;
    private final int count;
    private final Map<Integer, byte[]> pieces = new TreeMap<>();
    private boolean complete;
    private byte[] packed = NOTHING;

    private ManifestAssembly(long digest, int count) {
        this.digest = digest;
        this.count = count;
    }

    /**
     * For the manifest of which this is a piece.
     *
     * @throws IOException if it is said to have more pieces than any
     */
    public static ManifestAssembly begin(Frame frame) throws IOException {
        if (frame.count() > MOST_PIECES)
            throw new IOException(
                    "The manifest of a stream is said to have " + frame.count() + " pieces.");
        return new ManifestAssembly(frame.digest(), frame.count());
    }

    /**
     * Refuses a piece before its bytes are read.
     *
     * @throws IOException if it is none of this manifest, of a wrong length, or there already
     */
    public void check(Frame frame) throws IOException {
        boolean last = frame.number() == frame.count() - 1;
        if (frame.digest() != digest
                || frame.count() != count
                || frame.bytes() > ManifestPieces.PIECE
                || (!last && frame.bytes() < ManifestPieces.PIECE)
                || complete
                || pieces.containsKey(frame.number()))
            throw new IOException(
                    "The manifest of a stream has no such piece, or had it already: " + frame);
    }

    /**
     * Takes a piece.
     *
     * @param bytes as many as the frame says; not to be changed
     * @return whether this was the last piece that was missing
     * @throws IOException as {@link #check}, or if all pieces together are damaged
     */
    public boolean add(Frame frame, byte[] bytes) throws IOException {
        check(frame);
        pieces.put(frame.number(), bytes);
        if (pieces.size() < count) return false;
        int size = pieces.values().stream().mapToInt(piece -> piece.length).sum();
        packed = new byte[size];
        ByteBuffer end = ByteBuffer.wrap(packed);
        pieces.values().forEach(end::put);
        pieces.clear();
        complete = true;
        if (Frame.hash(ByteBuffer.wrap(packed)) != digest)
            throw new IOException("The manifest of a stream is damaged.");
        return true;
    }

    /**
     * Bytes of the heap that the manifest takes at most, once it is decompressed.
     *
     * @throws IOException if the peer says what cannot be
     */
    public long heapBytes() throws IOException {
        long length = plainLength();
        return length
                + HEAP_OF_A_PART
                        * Math.min(ManifestCodec.MOST_PARTS, length / ManifestCodec.LEAST_PART);
    }

    private int plainLength() throws IOException {
        int length = packed.length - Integer.BYTES;
        int size = length < 0 ? -1 : ByteBuffer.wrap(packed).getInt();
        if (size < 0 || size > ManifestCodec.MOST_BYTES || size > (long) MOST_RATIO * length)
            throw new IOException(
                    "The manifest of a stream is said to have %d bytes, of %d compressed."
                            .formatted(size, length));
        return size;
    }

    /**
     * The manifest; once, when all pieces are there.
     *
     * @throws IOException if all pieces together are no manifest
     */
    public StreamManifest manifest() throws IOException {
        byte[] plain = new byte[plainLength()];
        byte[] compressed = packed;
        packed = NOTHING;
        try {
            int decompressed =
                    LZ4Factory.fastestInstance()
                            .safeDecompressor()
                            .decompress(
                                    compressed,
                                    Integer.BYTES,
                                    compressed.length - Integer.BYTES,
                                    plain,
                                    0);
            if (decompressed != plain.length)
                throw new IOException("The manifest of a stream is cut short.");
        } catch (LZ4Exception e) {
            throw new IOException("The manifest of a stream cannot be decompressed.", e);
        }
        return ManifestCodec.decode(plain);
    }
}
