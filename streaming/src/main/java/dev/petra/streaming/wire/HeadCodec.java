// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import dev.petra.engine.stream.StreamHead;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.UTFDataFormatException;
import java.nio.ByteBuffer;
import java.util.UUID;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.schema.TableId;

/** The content of a slice's first frame: what the stream is, and what is planned of the slice. */
public final class HeadCodec {
    private HeadCodec() {}

    /**
     * What a slice's first frame says.
     *
     * @param stream the same in all slices
     * @param bytes what the slice's blocks may have together: an estimate, not negative
     */
    public record SliceHead(StreamHead stream, long bytes) {
        /** Checks the arguments. */
        public SliceHead {
            if (bytes < 0)
                throw new IllegalArgumentException("A slice cannot have " + bytes + " bytes.");
        }
    }

    /** The head as bytes. */
    public static ByteBuffer encode(SliceHead head) {
        try (DataOutputBuffer out = new DataOutputBuffer()) {
            out.writeUTF(head.stream.engine());
            out.writeInt(head.stream.format());
            head.stream.table().serialize(out);
            out.writeUTF(head.stream.columnFamily());
            out.writeInt(head.stream.slices());
            out.writeLong(head.stream.bytes());
            out.writeLong(head.bytes);
            return ByteBuffer.wrap(out.toByteArray());
        } catch (IOException e) {
            throw new IllegalStateException("Memory cannot be written to", e);
        }
    }

    /**
     * Reads what {@link #encode} wrote.
     *
     * @throws IOException if it is something else
     */
    public static SliceHead decode(ByteBuffer bytes) throws IOException {
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(copy))) {
            SliceHead head =
                    new SliceHead(
                            new StreamHead(
                                    in.readUTF(),
                                    in.readInt(),
                                    TableId.fromUUID(new UUID(in.readLong(), in.readLong())),
                                    in.readUTF(),
                                    in.readInt(),
                                    in.readLong()),
                            in.readLong());
            if (in.available() > 0)
                throw new IOException(
                        "The head of a slice has " + in.available() + " bytes too many.");
            return head;
        } catch (EOFException | UTFDataFormatException | IllegalArgumentException e) {
            throw new IOException("The head of a slice is malformed.", e);
        }
    }
}
