// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSource;
import java.io.DataInput;
import java.io.DataOutput;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import net.jpountz.lz4.LZ4Compressor;
import net.jpountz.lz4.LZ4Exception;
import net.jpountz.lz4.LZ4Factory;
import net.jpountz.xxhash.XXHashFactory;

/**
 * What comes before each piece of a slice: {@value #BYTES} bytes, then {@code packed} others.
 *
 * @param kind what follows
 * @param stream which stream it is of: a random number
 * @param slice its place among the slices of the stream, from 0
 * @param number of the frame in its slice: 0 is the head, and the end's says how many came
 * @param plain bytes of the content
 * @param packed bytes that follow: as many as the content's if they are the content, else an LZ4
 *     block of it. What is larger than a block of several entries is not packed: to pack it, and to
 *     unpack it, would take as much of the heap again
 * @param checksum xxHash64 of the bytes that follow
 */
public record Frame(
        Kind kind, long stream, int slice, int number, int plain, int packed, long checksum) {
    /** The version of this protocol. A node that speaks another is sent SSTables. */
    public static final int VERSION = 3;

    /** The bytes of a frame. */
    public static final int BYTES = 48;

    /** The most bytes of a head's content. */
    static final int MOST_HEAD = 1 << 16;

    /** No LZ4 block is packed better. */
    static final int BEST_RATIO = 255;

    private static final int MAGIC = 0x50545241;

    /** What a frame announces. */
    public enum Kind {
        /** What the stream is, first in each slice. */
        HEAD(0, 1, MOST_HEAD),
        /** A block, which the engine reads. */
        BLOCK(1, 1, SliceWriter.MAX_BLOCK),
        /** That this was all of the slice. */
        END(2, 0, 0);

        private final int code;
        private final int least;
        private final int most;

        Kind(int code, int least, int most) {
            this.code = code;
            this.least = least;
            this.most = most;
        }

        private static Kind of(int code) throws IOException {
            for (Kind kind : values()) if (kind.code == code) return kind;
            throw new IOException("A frame of a stream is of unknown kind " + code + ".");
        }
    }

    /** Checks the arguments. */
    public Frame {
        if (slice < 0
                || slice >= StreamHead.MAX_SLICES
                || number < 0
                || kind == Kind.HEAD != (number == 0)
                || plain < kind.least
                || plain > kind.most
                || packed < kind.least
                || packed > plain
                || plain > (long) BEST_RATIO * packed
                || (plain > SliceWriter.BLOCK && packed != plain))
            throw new IllegalArgumentException(
                    "%s %d of slice %d, %d bytes in %d"
                            .formatted(kind, number, slice, plain, packed));
    }

    /**
     * Packs a piece, if that makes it smaller; a large one goes {@link #asItIs}.
     *
     * @param content from position to limit, which stay
     * @param scratch where it may be packed: at least {@link #scratch} bytes from its beginning
     * @return the frame; what follows it is then in {@code scratch}, from 0 to the limit
     */
    public static Frame pack(
            Kind kind, long stream, int slice, int number, ByteBuffer content, ByteBuffer scratch) {
        int plain = content.remaining();
        scratch.clear();
        int packed =
                plain == 0
                        ? 0
                        : compressor()
                                .compress(
                                        content,
                                        content.position(),
                                        plain,
                                        scratch,
                                        0,
                                        scratch.capacity());
        if (packed >= plain) {
            packed = plain;
            scratch.put(content.duplicate());
        }
        scratch.position(0).limit(packed);
        return new Frame(kind, stream, slice, number, plain, packed, Frame.hash(scratch));
    }

    /** The frame of a piece that is sent as it is, from position to limit, which stay. */
    public static Frame asItIs(Kind kind, long stream, int slice, int number, ByteBuffer content) {
        int bytes = content.remaining();
        return new Frame(kind, stream, slice, number, bytes, bytes, Frame.hash(content));
    }

    /** Bytes that {@link #pack} may need for a content. */
    public static int scratch(int plain) {
        return compressor().maxCompressedLength(plain);
    }

    private static LZ4Compressor compressor() {
        return LZ4Factory.fastestInstance().fastCompressor();
    }

    /**
     * Unpacks what followed this frame.
     *
     * @param bytes what followed, from position to limit, which stay
     * @param content where it may be unpacked: of at least {@code plain} bytes
     * @return the content, from position to limit: in {@code content}, or in {@code bytes}
     * @throws IOException if the bytes are not what the frame says
     */
    public ByteBuffer unpack(ByteBuffer bytes, ByteBuffer content) throws IOException {
        if (bytes.remaining() != packed || Frame.hash(bytes) != checksum)
            throw new IOException(
                    "%s %d of slice %d of a stream is damaged.".formatted(kind, number, slice));
        if (packed == plain) return bytes.duplicate();
        int length;
        try {
            length =
                    LZ4Factory.fastestInstance()
                            .safeDecompressor()
                            .decompress(bytes, bytes.position(), packed, content, 0, plain);
        } catch (LZ4Exception e) {
            throw new IOException(
                    "%s %d of slice %d of a stream cannot be unpacked."
                            .formatted(kind, number, slice),
                    e);
        }
        if (length != plain)
            throw new IOException(
                    "%s %d of slice %d of a stream has %d bytes, not %d."
                            .formatted(kind, number, slice, length, plain));
        return content.duplicate().clear().limit(plain);
    }

    /** Writes the frame, and not what it announces. */
    public void write(DataOutput out) throws IOException {
        ByteBuffer frame = ByteBuffer.allocate(BYTES);
        write(frame);
        out.write(frame.array());
    }

    /** Writes the frame, and not what it announces, from the buffer's position. */
    public void write(ByteBuffer out) {
        ByteBuffer written = out.slice();
        out.putInt(MAGIC)
                .putShort((short) VERSION)
                .putShort((short) kind.code)
                .putLong(stream)
                .putInt(slice)
                .putInt(number)
                .putInt(plain)
                .putInt(packed)
                .putLong(checksum)
                .putLong(Frame.hash(written.limit(BYTES - Long.BYTES)));
    }

    /**
     * Reads what {@link #write} wrote.
     *
     * @throws IOException if it is something else, damaged, or of another version
     */
    public static Frame read(DataInput in) throws IOException {
        byte[] bytes = new byte[BYTES];
        try {
            in.readFully(bytes);
        } catch (EOFException | ClosedChannelException e) {
            EOFException ended = new EOFException("A stream ends within a frame.");
            ended.initCause(e);
            throw ended;
        }
        ByteBuffer frame = ByteBuffer.wrap(bytes);
        int magic = frame.getInt();
        int version = frame.getShort();
        // Before the checksum, whose place another version may have changed.
        if (magic != MAGIC || version != VERSION)
            throw new IOException(
                    ("A stream begins with %08x, version %d; this node reads %08x, version %d. Both"
                                    + " nodes must run the same version of Petra, or stream as"
                                    + " SSTables (-D%s=false).")
                            .formatted(
                                    magic, version, MAGIC, VERSION, StreamSource.SLICES_PROPERTY));
        long hash = Frame.hash(ByteBuffer.wrap(bytes, 0, BYTES - Long.BYTES));
        if (frame.getLong(BYTES - Long.BYTES) != hash)
            throw new IOException("A frame of a stream is damaged.");
        Kind kind = Kind.of(frame.getShort());
        try {
            return new Frame(
                    kind,
                    frame.getLong(),
                    frame.getInt(),
                    frame.getInt(),
                    frame.getInt(),
                    frame.getInt(),
                    frame.getLong());
        } catch (IllegalArgumentException e) {
            throw new IOException("A frame of a stream is malformed: " + e.getMessage(), e);
        }
    }

    /** xxHash64 (seed 0) of what remains. */
    static long hash(ByteBuffer bytes) {
        return XXHashFactory.fastestInstance()
                .hash64()
                .hash(bytes, bytes.position(), bytes.remaining(), 0);
    }
}
