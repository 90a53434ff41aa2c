// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.DataInputPlus;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.io.util.DataOutputPlus;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * What comes before the bytes of a part on the wire: the manifest of all parts, so that each can be
 * the first to come, and which of them it is. {@code docs/FORMAT.md} has its bytes.
 *
 * @param manifest of the engine's
 * @param encoded the manifest's bytes; not to be changed
 * @param digest of these, by which the parts of one manifest are told from those of another
 * @param index of the part
 */
record PartHeader(StreamManifest manifest, ByteBuffer encoded, long digest, int index) {
    /**
     * In the header of Cassandra's own, where it says when an SSTable was repaired: what follows is
     * a part. A time before all others.
     */
    static final long MARK = Long.MIN_VALUE | 0x5045545241L;

    private static final int MAGIC = 0x50545241;
    private static final int MOST_BYTES = 64 << 20;

    /** Bytes of a part in the list of them, at least. */
    private static final int LEAST_PART = 24;

    /** One for each part. */
    static List<PartHeader> of(StreamManifest manifest) throws IOException {
        ByteBuffer encoded = encode(manifest);
        long digest = digest(encoded);
        List<PartHeader> headers = new ArrayList<>();
        for (StreamPart part : manifest.parts())
            headers.add(new PartHeader(manifest, encoded, digest, part.index()));
        return headers;
    }

    void write(DataOutputPlus out) throws IOException {
        out.writeInt(MAGIC);
        out.writeInt(encoded.remaining());
        out.write(encoded.duplicate());
        out.writeInt(index);
        out.writeLong(digest ^ index);
    }

    /**
     * Reads what {@link #write} wrote.
     *
     * @throws IOException if it is something else, or damaged
     */
    static PartHeader read(DataInputPlus in) throws IOException {
        int magic = in.readInt();
        int size = in.readInt();
        if (magic != MAGIC || size < 0 || size > MOST_BYTES)
            throw new IOException(
                    "A part of a stream begins with %08x, %d.".formatted(magic, size));
        byte[] bytes = new byte[size];
        in.readFully(bytes);
        int index = in.readInt();
        ByteBuffer encoded = ByteBuffer.wrap(bytes);
        long digest = digest(encoded);
        if (in.readLong() != (digest ^ index))
            throw new IOException("The header of a part of a stream is damaged.");
        StreamManifest manifest = decode(bytes);
        if (index < 0 || index >= manifest.parts().size())
            throw new IOException(
                    "A stream of " + manifest.parts().size() + " parts has no part " + index + ".");
        return new PartHeader(manifest, encoded, digest, index);
    }

    /** The part that follows. */
    StreamPart part() {
        return manifest.parts().get(index);
    }

    /** How the part is called in what operators see. */
    String name() {
        return "%s-%s part %d of %d"
                .formatted(
                        manifest.columnFamily(),
                        manifest.table(),
                        index + 1,
                        manifest.parts().size());
    }

    private static long digest(ByteBuffer bytes) {
        return XXHashFactory.fastestInstance()
                .hash64()
                .hash(bytes, bytes.position(), bytes.remaining(), 0);
    }

    private static ByteBuffer encode(StreamManifest manifest) throws IOException {
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
            return ByteBuffer.wrap(out.toByteArray());
        }
    }

    /** Cassandra's own writers take a read-only buffer for one outside of the heap, and crash. */
    private static void write(ByteBuffer bytes, DataOutputPlus out) throws IOException {
        byte[] copy = ByteBufferUtil.getArray(bytes);
        out.writeInt(copy.length);
        out.write(copy);
    }

    /** Without the ranges: the receiver knows what it may have. */
    private static StreamManifest decode(byte[] bytes) throws IOException {
        try (DataInputBuffer in = new DataInputBuffer(bytes)) {
            String engine = in.readUTF();
            int format = in.readInt();
            TableId table = TableId.deserialize(in);
            String columnFamily = in.readUTF();
            ByteBuffer dictionary = bytes(in);
            int count = in.readInt();
            if (count < 0 || count > in.available() / LEAST_PART)
                throw new IOException("A stream says that it has " + count + " parts.");
            List<StreamPart> parts = new ArrayList<>(count);
            for (int i = 0; i < count; i++)
                parts.add(new StreamPart(i, in.readLong(), in.readLong(), bytes(in), bytes(in)));
            return new StreamManifest(
                    engine, format, table, columnFamily, List.of(), dictionary, parts);
        } catch (IllegalArgumentException e) {
            throw new IOException("The manifest of a stream is malformed.", e);
        }
    }

    /** Cassandra's own readers take memory for as many bytes as a peer says that there are. */
    private static ByteBuffer bytes(DataInputBuffer in) throws IOException {
        int length = in.readInt();
        if (length < 0 || length > in.available())
            throw new IOException("A stream says that a text of it has " + length + " bytes.");
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return ByteBuffer.wrap(bytes);
    }
}
