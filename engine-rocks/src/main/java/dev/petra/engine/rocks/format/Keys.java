// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;
import java.util.Arrays;

/** Makes keys, and compares them as RocksDB does, as unsigned bytes from position to limit. */
public final class Keys {
    private Keys() {}

    public static int compare(ByteBuffer a, ByteBuffer b) {
        int at = a.mismatch(b);
        if (at < 0) return 0;
        if (at == a.remaining()) return -1;
        if (at == b.remaining()) return 1;
        return Integer.compare(a.get(a.position() + at) & 0xFF, b.get(b.position() + at) & 0xFF);
    }

    public static boolean startsWith(ByteBuffer key, ByteBuffer prefix) {
        int at = key.mismatch(prefix);
        return at < 0 || at == prefix.remaining();
    }

    /**
     * What the keys of one kind in a partition begin with.
     *
     * @param position the partition's
     * @param kind of {@link KeyKind}
     */
    public static byte[] withKind(byte[] position, int kind) {
        byte[] key = Arrays.copyOf(position, position.length + 1);
        key[position.length] = (byte) kind;
        return key;
    }

    /** A copy in native memory, as cursors want it. */
    public static ByteBuffer direct(byte[] key) {
        return ByteBuffer.allocateDirect(key.length).put(key).flip();
    }
}
