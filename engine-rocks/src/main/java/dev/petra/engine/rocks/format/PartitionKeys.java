// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;
import org.apache.cassandra.db.BufferDecoratedKey;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.marshal.ByteBufferAccessor;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.LocalPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.utils.bytecomparable.ByteSource;
import org.jspecify.annotations.Nullable;

/**
 * The first part of every key: the partition's position, token then key, in the byte-comparable
 * form of {@link DecoratedKey#asComparableBytes}. It ends in a terminator, so no position is a
 * prefix of another; and it holds the key's own bytes, escaped, so they come back as they were.
 *
 * <p>Murmur3 tokens have a fast path, held equal to Cassandra's form by a property test.
 */
public final class PartitionKeys {
    /** Bytes of a key that filters know it by: a Murmur3 token with what is before it. */
    public static final int PREFIX = 1 + Long.BYTES;

    private final IPartitioner partitioner;
    private final boolean murmur3;

    /** How tokens are written that are values of a type: those of hidden index tables. */
    private final @Nullable KeyComponent localToken;

    public PartitionKeys(IPartitioner partitioner) {
        this.partitioner = partitioner;
        this.murmur3 = partitioner instanceof Murmur3Partitioner;
        this.localToken =
                partitioner instanceof LocalPartitioner
                        ? KeyComponent.of(partitioner.getTokenValidator())
                        : null;
    }

    /** Writes the position of a partition. */
    public void put(ByteSink out, DecoratedKey key) {
        putToken(out, key.getToken());
        out.put(ByteSource.NEXT_COMPONENT);
        Escapes.put(out, key.getKey(), ByteBufferAccessor.instance, 0);
        out.put(ByteSource.TERMINATOR);
    }

    /** Writes a position that may be a bound between partitions. */
    public void putPosition(ByteSink out, PartitionPosition position) {
        if (position instanceof DecoratedKey key) {
            put(out, key);
            return;
        }
        putToken(out, position.getToken());
        out.put(
                ((Token.KeyBound) position).isMinimumBound
                        ? ByteSource.LT_NEXT_COMPONENT
                        : ByteSource.GT_NEXT_COMPONENT);
    }

    private void putToken(ByteSink out, Token token) {
        if (murmur3) {
            out.put(ByteSource.NEXT_COMPONENT);
            out.putFixed64((long) token.getTokenValue() ^ Long.MIN_VALUE);
        } else if (localToken != null) {
            localToken.put(out, (ByteBuffer) token.getTokenValue(), ByteBufferAccessor.instance);
        } else {
            out.put(ByteSource.NEXT_COMPONENT);
            ComparableSource.put(out, token.asComparableBytes(ComparableSource.VERSION));
        }
    }

    /** Reads the partition a stored key belongs to; leaves the buffer behind the position. */
    public DecoratedKey get(ByteBuffer key) {
        Token token = getToken(key);
        expect(key.get() & 0xFF, ByteSource.NEXT_COMPONENT);
        ByteBuffer bytes = ByteBuffer.wrap(Escapes.get(key, 0));
        expect(key.get() & 0xFF, ByteSource.TERMINATOR);
        // A token that is a value comes back in its canonical form; the key has the written one.
        return localToken == null
                ? new BufferDecoratedKey(token, bytes)
                : partitioner.decorateKey(bytes);
    }

    private Token getToken(ByteBuffer key) {
        int separator = key.get() & 0xFF;
        if (localToken != null)
            return partitioner.getToken(ByteBuffer.wrap(localToken.get(key, separator)));
        expect(separator, ByteSource.NEXT_COMPONENT);
        if (murmur3) return new Murmur3Partitioner.LongToken(key.getLong() ^ Long.MIN_VALUE);
        return ComparableSource.decode(
                key,
                source ->
                        partitioner
                                .getTokenFactory()
                                .fromComparableBytes(source, ComparableSource.VERSION));
    }

    private static void expect(int found, int wanted) {
        if (found != wanted)
            throw new IllegalArgumentException(
                    "a stored key has byte " + found + " where " + wanted + " belongs");
    }
}
