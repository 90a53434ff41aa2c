// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;

/** Compares keys as RocksDB does, as unsigned bytes from position to limit. */
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
}
