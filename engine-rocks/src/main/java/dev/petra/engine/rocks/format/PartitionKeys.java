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
 * Encodes and decodes the first part of every key, the partition's position: token and partition
 * key, in the byte-comparable form of {@link DecoratedKey#asComparableBytes}. A position ends in a
 * terminator, so that none is a prefix of another. It contains the bytes of the partition key,
 * escaped, so that decoding returns exactly these bytes.
 *
 * <p>The tokens of a {@link LocalPartitioner}, which are values of a type, are encoded by {@link
 * KeyComponent}. Murmur3 tokens have a fast path, which a property test compares with Cassandra's
 * form.
 */
public final class PartitionKeys {
    /**
     * The length of the key prefix in bloom filters: a separator and a Murmur3 token, or as many
     * bytes of another token.
     */
    public static final int PREFIX = 1 + Long.BYTES;

    private final IPartitioner partitioner;
    private final boolean murmur3;

    /** Encodes the tokens of a {@link LocalPartitioner}, which are values of a type; else null. */
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

    /** Writes the position of a partition, or of a bound between partitions. */
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

    /**
     * Reads the partition key of a stored key and moves the buffer to the end of the position.
     *
     * @throws RuntimeException of several kinds if the position is malformed
     */
    public DecoratedKey get(ByteBuffer key) {
        Token token = getToken(key);
        expect(key.get() & 0xFF, ByteSource.NEXT_COMPONENT);
        ByteBuffer bytes = ByteBuffer.wrap(Escapes.get(key, 0));
        expect(key.get() & 0xFF, ByteSource.TERMINATOR);
        // A local token is decoded to its canonical form: take it from the partition key instead.
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
