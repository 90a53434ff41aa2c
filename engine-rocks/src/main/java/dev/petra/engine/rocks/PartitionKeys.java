// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import java.nio.ByteBuffer;
import org.apache.cassandra.db.BufferDecoratedKey;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.utils.bytecomparable.ByteSource;
import org.apache.cassandra.utils.bytecomparable.ByteSourceInverse;

/**
 * The first part of every key: the partition's position, token then key, in the byte-comparable
 * form of {@link DecoratedKey#asComparableBytes}. It ends in a terminator, so no position is a
 * prefix of another; and it holds the key's own bytes, escaped, so they come back as they were.
 *
 * <p>Murmur3 tokens have a fast path, held equal to Cassandra's form by a property test.
 */
final class PartitionKeys {
    private static final int MURMUR3_KEY_AT = 1 + Long.BYTES + 1;

    private final IPartitioner partitioner;
    private final boolean murmur3;

    PartitionKeys(IPartitioner partitioner) {
        this.partitioner = partitioner;
        this.murmur3 = partitioner instanceof Murmur3Partitioner;
    }

    /** Writes the position of a partition. */
    void put(ByteSink out, DecoratedKey key) {
        if (!murmur3) {
            ComparableSource.put(out, key.asComparableBytes(ComparableSource.VERSION));
            return;
        }
        out.put(ByteSource.NEXT_COMPONENT);
        out.putFixed64((long) key.getToken().getTokenValue() ^ Long.MIN_VALUE);
        out.put(ByteSource.NEXT_COMPONENT);
        Escapes.put(out, key.getKey(), ByteBufferAccessor.instance, 0);
        out.put(ByteSource.TERMINATOR);
    }

    /** Writes a position that may be a bound between partitions. */
    void putPosition(ByteSink out, PartitionPosition position) {
        if (position instanceof DecoratedKey key) put(out, key);
        else ComparableSource.put(out, position.asComparableBytes(ComparableSource.VERSION));
    }

    /** Reads the partition a stored key belongs to; leaves the buffer behind the position. */
    DecoratedKey get(ByteBuffer key) {
        if (!murmur3)
            return ComparableSource.decode(
                    key,
                    source -> {
                        Token token =
                                partitioner
                                        .getTokenFactory()
                                        .fromComparableBytes(
                                                ByteSourceInverse.nextComponentSource(source),
                                                ComparableSource.VERSION);
                        byte[] bytes =
                                ByteSourceInverse.getUnescapedBytes(
                                        ByteSourceInverse.nextComponentSource(source));
                        expect(source.next(), ByteSource.TERMINATOR);
                        return new BufferDecoratedKey(token, ByteBuffer.wrap(bytes));
                    });
        int start = key.position();
        expect(key.get(start) & 0xFF, ByteSource.NEXT_COMPONENT);
        long token = key.getLong(start + 1) ^ Long.MIN_VALUE;
        expect(key.get(start + 1 + Long.BYTES) & 0xFF, ByteSource.NEXT_COMPONENT);
        key.position(start + MURMUR3_KEY_AT);
        byte[] bytes = Escapes.get(key, 0);
        expect(key.get() & 0xFF, ByteSource.TERMINATOR);
        return new BufferDecoratedKey(
                new Murmur3Partitioner.LongToken(token), ByteBuffer.wrap(bytes));
    }

    private static void expect(int found, int wanted) {
        if (found != wanted)
            throw new IllegalArgumentException(
                    "a stored key has byte " + found + " where " + wanted + " belongs");
    }
}
