// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;
import net.jpountz.xxhash.XXHash64;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.cassandra.db.marshal.ValueAccessor;
import org.jspecify.annotations.Nullable;

/**
 * Large values are stored in the column family {@code large}, apart from their rows, so that a read
 * of one column does not read the others, and compaction of rows does not rewrite them.
 *
 * <p>The row keeps everything of the cell but the value: timestamp, expiry, and a hash of the
 * value. The row alone decides which cells exist. An entry in {@code large} is written in one batch
 * with its row, never changed, and removed when no row refers to it any more. Its key is
 *
 * <pre>
 *   row's key ‖ column id (4) ‖ timestamp (8, sign flipped) ‖ hash (8) ‖ cell path
 * </pre>
 *
 * The hash is in the key because two writes of a cell with the same timestamp must not overwrite
 * each other: as everywhere in Cassandra, their values decide which one wins. It is XXH64 with seed
 * 0.
 */
public final class LargeCells {
    /** The number of bytes between the row's key and the cell path. */
    public static final int SUFFIX = Integer.BYTES + 2 * Long.BYTES;

    private static final XXHash64 HASH = XXHashFactory.fastestJavaInstance().hash64();

    private LargeCells() {}

    public static <V> long hash(V value, ValueAccessor<V> accessor) {
        ByteBuffer bytes = accessor.toBuffer(value);
        return HASH.hash(bytes, bytes.position(), bytes.remaining(), 0);
    }

    /** Completes the key of a large value, after the row's key was written. */
    public static void putSuffix(
            ByteSink key, int column, long timestamp, long hash, @Nullable ByteBuffer path) {
        key.putFixed32(column);
        key.putFixed64(timestamp ^ Long.MIN_VALUE);
        key.putFixed64(hash);
        if (path != null) key.put(path);
    }
}
