// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringComparator;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.ByteArrayAccessor;
import org.apache.cassandra.db.marshal.ValueAccessor;
import org.apache.cassandra.utils.bytecomparable.ByteSource;
import org.jspecify.annotations.Nullable;

/**
 * Encodes and decodes the last part of a row's key, its clustering, in the byte-comparable form of
 * {@link ClusteringComparator#asByteComparable}. An encoded bound of a slice sorts between the
 * clusterings before and after it.
 *
 * <p>Some types have several byte forms of one value (varint, decimal, boolean, NaNs, tuples with
 * trailing nulls). All of them have the same key. {@link #isExact} tells whether decoding the key
 * returns the written bytes; if not, the value of the row carries them.
 */
public final class ClusteringKeys {
    private final KeyComponent[] components;

    public ClusteringKeys(ClusteringComparator comparator) {
        this(comparator, KeyComponent::of);
    }

    private ClusteringKeys(
            ClusteringComparator comparator, Function<AbstractType<?>, KeyComponent> component) {
        List<AbstractType<?>> types = comparator.subtypes();
        this.components = new KeyComponent[types.size()];
        for (int i = 0; i < components.length; i++) components[i] = component.apply(types.get(i));
    }

    /**
     * How former versions wrote clusterings, which took an empty field of a tuple for null; null
     * where they wrote all as now.
     */
    public static @Nullable ClusteringKeys former(ClusteringComparator comparator) {
        return comparator.subtypes().stream().anyMatch(KeyComponent::hasFormerForm)
                ? new ClusteringKeys(comparator, KeyComponent::former)
                : null;
    }

    /** Writes a clustering or a bound. */
    public void put(ByteSink out, ClusteringPrefix<?> prefix) {
        putAll(out, prefix);
    }

    private <V> void putAll(ByteSink out, ClusteringPrefix<V> prefix) {
        ValueAccessor<V> accessor = prefix.accessor();
        for (int i = 0, n = prefix.size(); i < n; i++) {
            V value = prefix.get(i);
            if (value == null) out.put(ByteSource.NEXT_COMPONENT_NULL);
            else components[i].put(out, value, accessor);
        }
        out.put(prefix.kind().asByteComparableValue(ComparableSource.VERSION));
    }

    /** Reads a full clustering and moves the buffer to its end. */
    public Clustering<?> getClustering(ByteBuffer in) {
        byte[][] values = new byte[components.length][];
        for (int i = 0; i < values.length; i++) values[i] = getComponent(in, in.get() & 0xFF, i);
        int end = in.get() & 0xFF;
        if (end != ByteSource.TERMINATOR)
            throw new IllegalArgumentException("a clustering ends in byte " + end);
        return ByteArrayAccessor.factory.clustering(values);
    }

    /** Reads a bound and moves the buffer to its end. */
    public ClusteringBound<?> getBound(ByteBuffer in, boolean isEnd) {
        byte[][] values = new byte[components.length][];
        int count = 0;
        while (true) {
            int b = in.get() & 0xFF;
            if (b == ByteSource.LT_NEXT_COMPONENT || b == ByteSource.GT_NEXT_COMPONENT) {
                boolean before = b == ByteSource.LT_NEXT_COMPONENT;
                ClusteringPrefix.Kind kind =
                        isEnd
                                ? before
                                        ? ClusteringPrefix.Kind.EXCL_END_BOUND
                                        : ClusteringPrefix.Kind.INCL_END_BOUND
                                : before
                                        ? ClusteringPrefix.Kind.INCL_START_BOUND
                                        : ClusteringPrefix.Kind.EXCL_START_BOUND;
                return ByteArrayAccessor.factory.bound(kind, Arrays.copyOf(values, count));
            }
            if (count == values.length)
                throw new IllegalArgumentException("a bound has too many components");
            values[count] = getComponent(in, b, count);
            count++;
        }
    }

    /** Moves the buffer to the end of a bound. For most types, it allocates nothing. */
    public void skipBound(ByteBuffer in) {
        for (int i = 0; ; i++) {
            int b = in.get() & 0xFF;
            if (b == ByteSource.LT_NEXT_COMPONENT || b == ByteSource.GT_NEXT_COMPONENT) return;
            if (i == components.length)
                throw new IllegalArgumentException("a bound has too many components");
            if (b != ByteSource.NEXT_COMPONENT_NULL) components[i].skip(in, b);
        }
    }

    /**
     * Compares two encoded bounds or clusterings. None of them is a prefix of another.
     *
     * @param in begins with the first; what follows it is ignored
     * @param other contains the second and nothing else
     */
    public static int compareBounds(ByteBuffer in, ByteBuffer other) {
        int at = in.mismatch(other);
        if (at < 0 || at == other.remaining()) return 0;
        return Keys.compare(in, other);
    }

    @SuppressWarnings("NullAway") // Cassandra's clusterings hold nulls
    private byte[] getComponent(ByteBuffer in, int separator, int i) {
        return separator == ByteSource.NEXT_COMPONENT_NULL
                ? null
                : components[i].get(in, separator);
    }

    /** Whether decoding the key of a clustering or bound returns exactly the bytes that it has. */
    public boolean isExact(ClusteringPrefix<?> prefix) {
        return isAllExact(prefix);
    }

    private <V> boolean isAllExact(ClusteringPrefix<V> prefix) {
        for (int i = 0, n = prefix.size(); i < n; i++) {
            V value = prefix.get(i);
            if (value != null && !components[i].isExact(value, prefix.accessor())) return false;
        }
        return true;
    }
}
