// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.marshal.ByteArrayAccessor;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.utils.bytecomparable.ByteSource;
import org.jspecify.annotations.Nullable;

/**
 * Encodes and decodes the entries of indexes. A key is the number of the index, the term, the
 * partition's position, and the row's kind and clustering as in the row's key. The term is escaped,
 * and a separator follows: so no term is a prefix of another.
 *
 * <p>The value is empty, unless decoding the key does not return the written bytes of the
 * clustering. Then the value has them.
 */
public final class IndexKeys {
    private static final byte[] NOTHING = {};

    private IndexKeys() {}

    /**
     * Writes the prefix of all keys of an index. The prefix of the next number sorts after all of
     * them.
     */
    public static void putIndex(ByteSink out, int number) {
        out.putFixed32(number);
    }

    /** Writes a bound that sorts just before or just after all entries of a term. */
    public static void putBound(ByteSink out, int number, ByteBuffer term, boolean behind) {
        putTerm(out, number, term);
        out.put(behind ? ByteSource.GT_NEXT_COMPONENT : ByteSource.LT_NEXT_COMPONENT);
    }

    private static void putTerm(ByteSink out, int number, ByteBuffer term) {
        putIndex(out, number);
        Escapes.put(out, term, ByteBufferAccessor.instance, 0);
    }

    /**
     * Writes the key of an entry.
     *
     * @param position the encoded position of the partition, as in the keys of its rows
     */
    public static void put(
            ByteSink out,
            int number,
            ByteBuffer term,
            ByteBuffer position,
            ClusteringKeys clusterings,
            Clustering<?> clustering) {
        putTerm(out, number, term);
        out.put(position);
        putRow(out, clusterings, clustering);
    }

    private static void putRow(ByteSink out, ClusteringKeys clusterings, Clustering<?> clustering) {
        if (isStatic(clustering)) {
            out.put(KeyKind.STATIC);
            return;
        }
        out.put(KeyKind.ROW);
        clusterings.put(out, clustering);
    }

    /**
     * Writes the key that a scan seeks to: that of an entry, or a bound between entries.
     *
     * @param clustering null for the first entry of the partition; ignored if the position is a
     *     bound between partitions
     */
    public static void putPlace(
            ByteSink out,
            int number,
            ByteBuffer term,
            PartitionKeys positions,
            PartitionPosition position,
            ClusteringKeys clusterings,
            @Nullable Clustering<?> clustering) {
        putTerm(out, number, term);
        positions.putPosition(out, position);
        if (clustering != null && position instanceof DecoratedKey)
            putRow(out, clusterings, clustering);
    }

    private static boolean isStatic(Clustering<?> clustering) {
        return clustering.kind() == Clustering.Kind.STATIC_CLUSTERING;
    }

    /** Writes the value of an entry. */
    public static void putValue(
            ByteSink out, ClusteringKeys clusterings, Clustering<?> clustering) {
        if (!isStatic(clustering) && !clusterings.isExact(clustering)) putWritten(out, clustering);
    }

    private static <V> void putWritten(ByteSink out, Clustering<V> clustering) {
        for (int i = 0; i < clustering.size(); i++) {
            V component = clustering.get(i);
            if (component == null) {
                out.putVarint(0);
                continue;
            }
            out.putVarint(1L + clustering.accessor().size(component));
            out.put(component, clustering.accessor());
        }
    }

    /**
     * Whether a term ends before this byte. A position or a bound begins with at most {@code 60}; a
     * longer term that begins with the same bytes goes on with {@code FE} or {@code FF}.
     *
     * @param behind the byte after the bytes of an escaped term
     */
    public static boolean isTermEnd(byte behind) {
        return (behind & 0xFF) <= ByteSource.GT_NEXT_COMPONENT;
    }

    /** Reads the term of a key that begins at 0, and moves the buffer to the end of the term. */
    public static byte[] getTerm(ByteBuffer key) {
        key.position(Integer.BYTES);
        return Escapes.get(key, 0);
    }

    /** Moves the buffer to where {@link #getTerm} would. */
    public static void skipTerm(ByteBuffer key) {
        key.position(Integer.BYTES);
        Escapes.skip(key, 0);
    }

    /**
     * Reads the clustering of an entry.
     *
     * @param key the entry's key, at the end of the partition's position
     * @param value the entry's value
     * @param count the number of the table's clustering columns
     * @throws RuntimeException of several kinds if the key or the value is malformed
     */
    public static Clustering<?> getClustering(
            ByteBuffer key, byte[] value, ClusteringKeys clusterings, int count) {
        int kind = key.get() & 0xFF;
        if (kind == KeyKind.STATIC) return Clustering.STATIC_CLUSTERING;
        if (kind != KeyKind.ROW) throw new IllegalArgumentException("kind " + kind);
        Clustering<?> clustering = clusterings.getClustering(key);
        if (count == 0) return Clustering.EMPTY;
        return value.length == 0 ? clustering : written(ByteBuffer.wrap(value), count);
    }

    @SuppressWarnings("NullAway") // Cassandra's clusterings hold nulls
    private static Clustering<?> written(ByteBuffer in, int count) {
        byte[][] values = new byte[count][];
        for (int i = 0; i < count; i++) {
            int length = length(in);
            if (length == 0) continue;
            if (length - 1 > in.remaining())
                throw new IllegalArgumentException("length " + (length - 1));
            values[i] = length == 1 ? NOTHING : new byte[length - 1];
            in.get(values[i]);
        }
        return ByteArrayAccessor.factory.clustering(values);
    }

    private static int length(ByteBuffer in) {
        int length = 0;
        for (int shift = 0; shift < Integer.SIZE - 4; shift += 7) {
            byte next = in.get();
            length |= (next & 0x7F) << shift;
            if (next >= 0) return length;
        }
        throw new IllegalArgumentException("varint too long");
    }
}
