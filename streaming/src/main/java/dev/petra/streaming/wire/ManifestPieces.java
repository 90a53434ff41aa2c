// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import dev.petra.engine.stream.StreamManifest;
import java.nio.ByteBuffer;
import net.jpountz.lz4.LZ4Factory;

/**
 * A manifest as it is sent: compressed by LZ4, and cut into pieces of at most {@value #PIECE}
 * bytes. Immutable.
 */
public final class ManifestPieces {
    /** Bytes of each piece but the last. */
    static final int PIECE = 1 << 20;

    private final ByteBuffer bytes;
    private final long digest;

    private ManifestPieces(ByteBuffer bytes) {
        this.bytes = bytes.asReadOnlyBuffer();
        this.digest = Frame.hash(bytes);
    }

    /**
     * Encodes a manifest.
     *
     * @throws ManifestTooLargeException if no receiver would take it
     */
    public static ManifestPieces of(StreamManifest manifest) throws ManifestTooLargeException {
        byte[] plain = ManifestCodec.encode(manifest);
        byte[] packed = LZ4Factory.fastestInstance().fastCompressor().compress(plain);
        return new ManifestPieces(
                ByteBuffer.allocate(Integer.BYTES + packed.length)
                        .putInt(plain.length)
                        .put(packed)
                        .flip());
    }

    /** By which all frames of the stream know each other. */
    public long digest() {
        return digest;
    }

    /** How many pieces there are; at least one. */
    public int count() {
        return (bytes.remaining() + PIECE - 1) / PIECE;
    }

    /** A piece; read-only. */
    public ByteBuffer piece(int number) {
        int begin = number * PIECE;
        return bytes.slice(begin, Math.min(PIECE, bytes.remaining() - begin));
    }

    /** What comes before a piece. */
    public Frame frame(int number) {
        return new Frame(Frame.Kind.MANIFEST, digest, number, count(), piece(number).remaining());
    }
}
