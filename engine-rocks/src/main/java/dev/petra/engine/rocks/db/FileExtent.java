// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.nio.ByteBuffer;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.rocksdb.AbstractRocksIterator;
import org.rocksdb.RocksDBException;

/**
 * When what is in a data file was written, and until when it matters.
 *
 * @param lowest timestamp, microseconds; {@link Long#MAX_VALUE} if nothing is in it
 * @param highest timestamp, microseconds; {@link Long#MIN_VALUE} if nothing is in it
 * @param end the highest local time, in seconds: {@link Long#MAX_VALUE} if something neither
 *     expires nor is a deletion, {@link Long#MIN_VALUE} if nothing is in it
 */
public record FileExtent(long lowest, long highest, long end) {
    /** Of a file with something unreadable, which may be as old as anything and stays. */
    public static final FileExtent UNKNOWN =
            new FileExtent(Long.MIN_VALUE, Long.MIN_VALUE, Long.MAX_VALUE);

    private static final int AT_ONCE = 1 << 14;

    /** Whether all of it expired, or was deleted, before a time. */
    public boolean hasEnded(long seconds) {
        return end < seconds;
    }

    /**
     * Of all that an iterator comes to.
     *
     * @param stopped looked at now and then
     * @return null if it was stopped
     * @throws MalformedFragment if a value is malformed
     */
    public static @Nullable FileExtent of(AbstractRocksIterator<?> entries, BooleanSupplier stopped)
            throws RocksDBException {
        long[] fields = {Long.MAX_VALUE, Long.MIN_VALUE, Long.MIN_VALUE};
        while (entries.isValid()) {
            if (stopped.getAsBoolean()) return null;
            String error = Reconciler.extend(entries, AT_ONCE, fields);
            if (error != null) throw new MalformedFragment(error);
        }
        entries.status();
        return new FileExtent(fields[0], fields[1], fields[2]);
    }

    byte[] encode() {
        return ByteBuffer.allocate(3 * Long.BYTES)
                .putLong(lowest)
                .putLong(highest)
                .putLong(end)
                .array();
    }

    static FileExtent decode(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        return new FileExtent(in.getLong(), in.getLong(), in.getLong());
    }
}
