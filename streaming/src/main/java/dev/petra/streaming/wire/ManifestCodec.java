// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.UTFDataFormatException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.io.util.DataOutputPlus;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.utils.ByteBufferUtil;

/** A manifest as bytes, before it is compressed. */
final class ManifestCodec {
    /** Of a manifest: what a receiver takes of its heap for one. */
    static final int MOST_BYTES = 64 << 20;

    /** Each takes some hundred bytes of a receiver's heap. */
    static final int MOST_PARTS = 1 << 18;

    /** A receiver takes more; what has more parts than this goes as SSTables. */
    static final int MOST_SENT_PARTS =
            Math.min(MOST_PARTS, Integer.getInteger("petra.stream.max_parts", MOST_PARTS));

    /** Bytes of a part in the list of them, at least. */
    static final int LEAST_PART = 24;

    private ManifestCodec() {}

    /**
     * Without the ranges: the receiver knows what it may have.
     *
     * @throws ManifestTooLargeException if no receiver would take it
     */
    static byte[] encode(StreamManifest manifest) throws ManifestTooLargeException {
        long size = manifest.dictionary().remaining();
        for (StreamPart part : manifest.parts())
            size += LEAST_PART + part.firstKey().remaining() + part.lastKey().remaining();
        if (size > MOST_BYTES - (1 << 18) || manifest.parts().size() > MOST_SENT_PARTS)
            throw new ManifestTooLargeException(manifest.parts().size(), size);
        try (DataOutputBuffer out = new DataOutputBuffer()) {
            out.writeUTF(manifest.engine());
            out.writeInt(manifest.formatVersion());
            manifest.table().serialize(out);
            out.writeUTF(manifest.columnFamily());
            write(manifest.dictionary(), out);
            out.writeInt(manifest.parts().size());
            for (StreamPart part : manifest.parts()) {
                out.writeLong(part.bytes());
                out.writeLong(part.checksum());
                write(part.firstKey(), out);
                write(part.lastKey(), out);
            }
            return out.toByteArray();
        } catch (IOException e) {
            throw new IllegalStateException("Memory cannot be written to", e);
        }
    }

    /** Cassandra's own writers take a read-only buffer for one outside of the heap, and crash. */
    private static void write(ByteBuffer bytes, DataOutputPlus out) throws IOException {
        byte[] copy = ByteBufferUtil.getArray(bytes);
        out.writeInt(copy.length);
        out.write(copy);
    }

    /**
     * Reads what {@link #encode} wrote. The manifest refers to the bytes, which must not change.
     *
     * @throws IOException if it is something else
     */
    static StreamManifest decode(byte[] bytes) throws IOException {
        try {
            ByteBuffer in = ByteBuffer.wrap(bytes);
            String engine = text(in);
            int format = in.getInt();
            TableId table = TableId.fromUUID(new UUID(in.getLong(), in.getLong()));
            String columnFamily = text(in);
            ByteBuffer dictionary = slice(in, in.getInt());
            int count = in.getInt();
            if (count < 0 || count > MOST_PARTS || count > in.remaining() / LEAST_PART)
                throw new IOException("A stream says that it has " + count + " parts.");
            List<StreamPart> parts = new ArrayList<>(count);
            for (int i = 0; i < count; i++)
                parts.add(
                        new StreamPart(
                                i,
                                in.getLong(),
                                in.getLong(),
                                slice(in, in.getInt()),
                                slice(in, in.getInt())));
            if (in.hasRemaining())
                throw new IOException(
                        "The manifest of a stream has " + in.remaining() + " bytes too many.");
            return new StreamManifest(
                    engine, format, table, columnFamily, List.of(), dictionary, parts);
        } catch (BufferUnderflowException | IllegalArgumentException e) {
            throw new IOException("The manifest of a stream is malformed.", e);
        }
    }

    private static ByteBuffer slice(ByteBuffer in, int length) throws IOException {
        if (length < 0 || length > in.remaining())
            throw new IOException("A stream says that a text of it has " + length + " bytes.");
        ByteBuffer slice = in.slice(in.position(), length);
        in.position(in.position() + length);
        return slice;
    }

    /** As {@link java.io.DataOutput#writeUTF}: two bytes of length, and modified UTF-8. */
    private static String text(ByteBuffer in) throws IOException {
        int length = in.duplicate().getShort() & 0xffff;
        byte[] bytes = ByteBufferUtil.getArray(slice(in, Short.BYTES + length));
        try (DataInputStream data = new DataInputStream(new ByteArrayInputStream(bytes))) {
            return data.readUTF();
        } catch (UTFDataFormatException e) {
            throw new IOException("The manifest of a stream is malformed.", e);
        }
    }
}
