// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.nio.ByteBuffer;
import net.jpountz.xxhash.XXHash64;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.cassandra.db.marshal.ValueAccessor;
import org.jspecify.annotations.Nullable;

/**
 * Cells with large values lie apart from their row, in a column family of their own, so that a read
 * of one column does not read the others and compaction of rows does not move them.
 *
 * <p>The row keeps everything but the value: timestamp, expiry, and the value's hash. It alone
 * decides what there is; what lies apart is only storage, written with the row in one batch, never
 * changed, and removed once no row refers to it. Its key is
 *
 * <pre>
 *   row's key ‖ column id (4) ‖ timestamp (8, sign flipped) ‖ hash (8) ‖ cell path
 * </pre>
 *
 * so that two writes of one cell at one timestamp do not overwrite each other: which of them stands
 * is decided by their values, as everywhere in Cassandra. The hash is XXH64 with seed 0.
 */
public final class LargeCells {
    /** Bytes between the row's key and the cell path. */
    public static final int SUFFIX = Integer.BYTES + 2 * Long.BYTES;

    private static final XXHash64 HASH = XXHashFactory.fastestJavaInstance().hash64();

    private LargeCells() {}

    public static <V> long hash(V value, ValueAccessor<V> accessor) {
        ByteBuffer bytes = accessor.toBuffer(value);
        return HASH.hash(bytes, bytes.position(), bytes.remaining(), 0);
    }

    /** Completes a key of which the row's part was written. */
    public static void putSuffix(
            ByteSink key, int column, long timestamp, long hash, @Nullable ByteBuffer path) {
        key.putFixed32(column);
        key.putFixed64(timestamp ^ Long.MIN_VALUE);
        key.putFixed64(hash);
        if (path != null) key.put(path);
    }
}
