// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;
import org.apache.cassandra.db.marshal.ValueAccessor;

/**
 * Cassandra's escaping of variable-length bytes (the {@code AbstractEscaper} of {@code ByteSource},
 * version OSS50), without allocating a source for each value. A run of n zero bytes is encoded as
 * {@code 00}, n-1 times {@code FE}, and {@code FF} if more bytes follow. The value ends with {@code
 * 00}, or with {@code FE} after a run of zeros. A separator follows, which is neither {@code FE}
 * nor {@code FF}. In reversed columns every byte of the encoding is inverted.
 */
final class Escapes {
    private static final int ESCAPE = 0x00;
    private static final int ZERO_CONTINUES = 0xFE;
    private static final int ZERO_DONE = 0xFF;

    private Escapes() {}

    /** Writes a value; each byte is XORed with {@code mask}: 0, or 0xFF for reversed columns. */
    static <V> void put(ByteSink out, V value, ValueAccessor<V> accessor, int mask) {
        int length = accessor.size(value);
        boolean escaped = false;
        for (int i = 0; i < length; i++) {
            int b = accessor.getByte(value, i) & 0xFF;
            if (escaped) {
                if (b == 0) {
                    out.put(ZERO_CONTINUES ^ mask);
                    continue;
                }
                out.put(ZERO_DONE ^ mask);
                escaped = false;
            }
            out.put(b ^ mask);
            if (b == 0) escaped = true;
        }
        out.put((escaped ? ZERO_CONTINUES : ESCAPE) ^ mask);
    }

    /** Reads a value and moves the buffer to its end. */
    static byte[] get(ByteBuffer in, int mask) {
        int start = in.position();
        int end = start;
        int extra = 0; // bytes of the encoding that are not data
        while (true) {
            int b = (in.get(end++) & 0xFF) ^ mask;
            if (b != ESCAPE) continue;
            extra++;
            int next = peek(in, end, mask);
            if (next != ZERO_CONTINUES && next != ZERO_DONE) break;
            while (next == ZERO_CONTINUES) next = peek(in, ++end, mask);
            if (next != ZERO_DONE) break;
            end++;
        }
        byte[] value = new byte[end - start - extra];
        in.position(end);
        if (mask == 0 && extra == 1 && in.get(end - 1) == ESCAPE) {
            // The value has no zero bytes: copy it at once.
            in.get(start, value);
            return value;
        }
        int at = start;
        for (int i = 0; i < value.length; ) {
            int b = (in.get(at++) & 0xFF) ^ mask;
            value[i++] = (byte) b;
            if (b != 0) continue;
            int next = peek(in, at, mask);
            while (next == ZERO_CONTINUES && i < value.length) {
                value[i++] = 0;
                next = peek(in, ++at, mask);
            }
            if (next == ZERO_DONE) at++;
        }
        return value;
    }

    /** Moves the buffer to where {@link #get} would. */
    static void skip(ByteBuffer in, int mask) {
        int end = in.position();
        while (true) {
            if (((in.get(end++) & 0xFF) ^ mask) != ESCAPE) continue;
            int next = peek(in, end, mask);
            while (next == ZERO_CONTINUES) next = peek(in, ++end, mask);
            if (next != ZERO_DONE) break;
            end++;
        }
        in.position(end);
    }

    private static int peek(ByteBuffer in, int at, int mask) {
        return at < in.limit() ? (in.get(at) & 0xFF) ^ mask : -1;
    }
}
