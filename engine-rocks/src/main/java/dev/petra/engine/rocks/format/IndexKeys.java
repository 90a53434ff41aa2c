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
 * The keys of an index's entries: the index's number, the term, the partition's position, then the
 * row's kind and clustering as in its own key. The term is escaped, so that none is a prefix of
 * another; what follows it is a separator.
 *
 * <p>The value is empty, unless the key does not give back the clustering's bytes: then it has
 * them.
 */
public final class IndexKeys {
    private static final byte[] NOTHING = {};

    private IndexKeys() {}

    /** Writes what all keys of an index begin with; that of the next number is behind them all. */
    public static void putIndex(ByteSink out, int number) {
        out.putFixed32(number);
    }

    /** Writes the key just before, or just behind, all entries of a term. */
    public static void putBound(ByteSink out, int number, ByteBuffer term, boolean behind) {
        putTerm(out, number, term);
        out.put(behind ? ByteSource.GT_NEXT_COMPONENT : ByteSource.LT_NEXT_COMPONENT);
    }

    private static void putTerm(ByteSink out, int number, ByteBuffer term) {
        putIndex(out, number);
        Escapes.put(out, term, ByteBufferAccessor.instance, 0);
    }

    /**
     * Writes an entry's key.
     *
     * @param position of its partition, as in the keys of its rows
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
     * Writes the key of a place between entries.
     *
     * @param clustering null for the begin of the partition
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

    /** Writes an entry's value. */
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
     * Whether this byte, behind the bytes of a term, begins a position and goes on with no term.
     */
    public static boolean isTermEnd(byte behind) {
        return (behind & 0xFF) <= ByteSource.GT_NEXT_COMPONENT;
    }

    /** Reads the term of a key, leaving the buffer behind it. */
    public static byte[] getTerm(ByteBuffer key) {
        key.position(Integer.BYTES);
        return Escapes.get(key, 0);
    }

    /** Leaves the buffer where {@link #getTerm} would. */
    public static void skipTerm(ByteBuffer key) {
        key.position(Integer.BYTES);
        Escapes.skip(key, 0);
    }

    /**
     * Reads the clustering behind the position.
     *
     * @param count of the table's clustering columns
     * @throws RuntimeException of several kinds if it is malformed
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
