// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import java.nio.ByteBuffer;
import org.apache.cassandra.db.marshal.ValueAccessor;

/**
 * Cassandra's escaping of variable-length bytes (the {@code AbstractEscaper} of {@code ByteSource},
 * version OSS50), without an object per byte source: a run of n zero bytes is {@code 00} followed
 * by n-1 times {@code FE}, then {@code FF} where more bytes follow; the end is {@code 00}, after
 * {@code FE} if the last byte was zero. Reversed columns invert every byte.
 */
final class Escapes {
    private static final int ESCAPE = 0x00;
    private static final int ZERO_CONTINUES = 0xFE;
    private static final int ZERO_DONE = 0xFF;

    private Escapes() {}

    /** Writes a value, each byte xor {@code mask} (0, or 0xFF for reversed columns). */
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
        if (escaped) out.put(ZERO_CONTINUES ^ mask);
        out.put(ESCAPE ^ mask);
    }

    /** Reads a value, leaving the buffer behind its end. */
    static byte[] get(ByteBuffer in, int mask) {
        int start = in.position();
        int end = start;
        int zerosEscaped = 0;
        // First pass: find the end and how many bytes of the encoding are not data.
        while (true) {
            int b = (in.get(end++) & 0xFF) ^ mask;
            if (b != ESCAPE) continue;
            int next = end < in.limit() ? (in.get(end) & 0xFF) ^ mask : -1;
            if (next != ZERO_CONTINUES && next != ZERO_DONE) break;
            while (next == ZERO_CONTINUES) {
                end++;
                next = (in.get(end) & 0xFF) ^ mask;
            }
            if (next == ZERO_DONE) {
                end++;
                zerosEscaped++;
            } else {
                // FE … FE 00: the last FE stands for no byte of its own, the 00 ends.
                end++;
                zerosEscaped++;
                break;
            }
        }
        byte[] value = new byte[end - start - 1 - zerosEscaped];
        in.position(end);
        if (mask == 0 && zerosEscaped == 0) {
            in.get(start, value);
            return value;
        }
        int at = start;
        for (int i = 0; i < value.length; ) {
            int b = (in.get(at++) & 0xFF) ^ mask;
            value[i++] = (byte) b;
            if (b != 0) continue;
            int next = (in.get(at) & 0xFF) ^ mask;
            while (next == ZERO_CONTINUES && i < value.length) {
                value[i++] = 0;
                next = (in.get(++at) & 0xFF) ^ mask;
            }
            if (next == ZERO_DONE) at++;
        }
        return value;
    }
}
