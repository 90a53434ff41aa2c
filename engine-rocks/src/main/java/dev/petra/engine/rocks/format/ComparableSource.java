// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import org.apache.cassandra.utils.bytecomparable.ByteComparable;
import org.apache.cassandra.utils.bytecomparable.ByteSource;
import org.jspecify.annotations.Nullable;

/** Copies between Cassandra's {@link ByteSource} and buffers, for types without a fast path. */
final class ComparableSource {
    static final ByteComparable.Version VERSION = ByteComparable.Version.OSS50;

    private ComparableSource() {}

    static void put(ByteSink out, ByteSource source) {
        for (int b = source.next(); b != ByteSource.END_OF_STREAM; b = source.next()) out.put(b);
    }

    /** Those of a buffer. Cassandra's decimal would read behind their end for ever. */
    private static final class Bytes implements ByteSource {
        private final ByteBuffer in;
        private boolean isOver;

        Bytes(ByteBuffer in) {
            this.in = in;
        }

        @Override
        public int next() {
            if (in.hasRemaining()) return in.get() & 0xFF;
            if (isOver) throw new BufferUnderflowException();
            isOver = true;
            return END_OF_STREAM;
        }
    }

    /** Decodes one component from a source. */
    interface Decoder<T> {
        T decode(ByteSource.@Nullable Peekable source);
    }

    /**
     * Decodes from the buffer's position, and moves it to the end of what the decoder read.
     *
     * @throws IllegalArgumentException if the bytes are none of the decoder's
     */
    static <T> T decode(ByteBuffer in, Decoder<T> decoder) {
        ByteSource.Peekable source = ByteSource.peekable(new Bytes(in));
        T value = decode(decoder, source);
        // The decoder may have peeked at the next byte or not: peek in any case, then step back.
        if (source.peek() != ByteSource.END_OF_STREAM) in.position(in.position() - 1);
        return value;
    }

    /** Cassandra's types say in many ways that they do not know some bytes. */
    static <T> T decode(Decoder<T> decoder, ByteSource.@Nullable Peekable source) {
        try {
            return decoder.decode(source);
        } catch (RuntimeException | AssertionError e) {
            throw new IllegalArgumentException("a stored key cannot be decoded: " + e, e);
        }
    }
}
