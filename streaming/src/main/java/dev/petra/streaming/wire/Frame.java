// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import net.jpountz.xxhash.XXHashFactory;

/**
 * What comes before the bytes of a part, or of a piece of the manifest: {@value #BYTES} bytes.
 *
 * @param kind what follows
 * @param digest of the manifest, by which the frames of one stream know each other
 * @param number of the part or the piece, from 0
 * @param count how many of this kind the stream has; at least 1
 * @param bytes how many follow
 */
public record Frame(Kind kind, long digest, int number, int count, long bytes) {
    /** Of this protocol. A node that speaks another is sent SSTables. */
    public static final int VERSION = 2;

    /** Of a frame. */
    public static final int BYTES = 40;

    private static final int MAGIC = 0x50545241;

    /** What a frame announces. */
    public enum Kind {
        /** A piece of the manifest. */
        MANIFEST(0),
        /** A part. */
        PART(1);

        private final int code;

        Kind(int code) {
            this.code = code;
        }

        private static Kind of(int code) throws IOException {
            for (Kind kind : values()) if (kind.code == code) return kind;
            throw new IOException("A frame of a stream of parts is of unknown kind " + code + ".");
        }
    }

    /** Checks the arguments. */
    public Frame {
        if (count < 1 || number < 0 || number >= count || bytes < 0)
            throw new IllegalArgumentException(
                    "%s %d of %d, %d bytes".formatted(kind, number, count, bytes));
    }

    /** Writes the frame, and not what it announces. */
    public void write(DataOutput out) throws IOException {
        ByteBuffer frame =
                ByteBuffer.allocate(BYTES)
                        .putInt(MAGIC)
                        .putShort((short) VERSION)
                        .putShort((short) kind.code)
                        .putLong(digest)
                        .putInt(number)
                        .putInt(count)
                        .putLong(bytes);
        frame.putLong(hash(frame.duplicate().flip()));
        out.write(frame.array());
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
            EOFException ended = new EOFException("A stream of parts ends within a frame.");
            ended.initCause(e);
            throw ended;
        }
        ByteBuffer frame = ByteBuffer.wrap(bytes);
        int magic = frame.getInt();
        int version = frame.getShort();
        // Before the checksum, whose place another version may have changed.
        if (magic != MAGIC || version != VERSION)
            throw new IOException(
                    "A stream of parts begins with %08x, version %d; this node reads %08x, version %d. Both nodes must run the same version of Petra, or stream as SSTables (-Dpetra.stream.parts=false)."
                            .formatted(magic, version, MAGIC, VERSION));
        long hash = hash(ByteBuffer.wrap(bytes, 0, BYTES - Long.BYTES));
        if (frame.getLong(BYTES - Long.BYTES) != hash)
            throw new IOException("A frame of a stream of parts is damaged.");
        Kind kind = Kind.of(frame.getShort());
        try {
            return new Frame(
                    kind, frame.getLong(), frame.getInt(), frame.getInt(), frame.getLong());
        } catch (IllegalArgumentException e) {
            throw new IOException("A frame of a stream of parts is malformed.", e);
        }
    }

    /** xxHash64 (seed 0) of what remains. */
    static long hash(ByteBuffer bytes) {
        return XXHashFactory.fastestInstance()
                .hash64()
                .hash(bytes, bytes.position(), bytes.remaining(), 0);
    }
}
