// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;
import org.apache.cassandra.utils.bytecomparable.ByteComparable;
import org.apache.cassandra.utils.bytecomparable.ByteSource;

/** Copies between Cassandra's {@link ByteSource} and buffers, for types without a fast path. */
final class ComparableSource {
    static final ByteComparable.Version VERSION = ByteComparable.Version.OSS50;

    private ComparableSource() {}

    static void put(ByteSink out, ByteSource source) {
        for (int b = source.next(); b != ByteSource.END_OF_STREAM; b = source.next()) out.put(b);
    }

    /** Decodes one component from a source. */
    interface Decoder<T> {
        T decode(ByteSource.Peekable source);
    }

    /** Decodes from the buffer's position, and moves it to the end of what the decoder read. */
    static <T> T decode(ByteBuffer in, Decoder<T> decoder) {
        ByteSource bytes = () -> in.hasRemaining() ? in.get() & 0xFF : ByteSource.END_OF_STREAM;
        ByteSource.Peekable source = ByteSource.peekable(bytes);
        T value = decoder.decode(source);
        // The decoder may have peeked at the next byte or not: peek in any case, then step back.
        if (source.peek() != ByteSource.END_OF_STREAM) in.position(in.position() - 1);
        return value;
    }
}
