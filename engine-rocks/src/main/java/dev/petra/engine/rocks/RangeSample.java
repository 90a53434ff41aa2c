// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.RangeEstimate;
import java.nio.ByteBuffer;
import java.util.List;
import org.rocksdb.Range;
import org.rocksdb.SizeApproximationFlag;
import org.rocksdb.Slice;

/**
 * Estimates how many partitions a range of keys has: counts the first ones, and takes the rest to
 * be like them. RocksDB knows bytes of any range, but counts rows, not partitions.
 */
final class RangeSample {
    /** Some milliseconds' worth of seeks. */
    private static final int MOST = 1_024;

    private RangeSample() {}

    static RangeEstimate estimate(RocksStore store, TokenRanges.KeyRange range) {
        try (Cursor cursor = new Cursor(store)) {
            ByteBuffer end = direct(range.to());
            ByteSink position = cursor.partitionSink();
            cursor.seek(direct(range.from()));
            long counted = 0;
            boolean isAll = true;
            while (cursor.isValid() && Keys.compare(cursor.key(), end) < 0) {
                if (counted == MOST) {
                    isAll = false;
                    break;
                }
                counted++;
                ByteBuffer key = cursor.key();
                store.partitionKeys().get(key);
                position.clear();
                position.put(key.slice(0, key.position()));
                position.put(KeyKind.END);
                cursor.seek(position.flipped());
            }
            if (counted == 0) return new RangeEstimate(0, 0);
            long bytes = bytes(cursor.database(), range.from(), range.to());
            if (isAll) return new RangeEstimate(counted, bytes / counted);
            ByteBuffer reached = cursor.key();
            byte[] sampled = new byte[reached.remaining()];
            reached.get(sampled);
            // Of blocks as a whole: a sample of less than one has none.
            long sample = Math.max(1, bytes(cursor.database(), range.from(), sampled));
            long partitions = Math.max(counted, (long) ((double) counted * bytes / sample));
            return new RangeEstimate(partitions, bytes / partitions);
        }
    }

    private static ByteBuffer direct(byte[] bytes) {
        return ByteBuffer.allocateDirect(bytes.length).put(bytes).flip();
    }

    private static long bytes(Database database, byte[] from, byte[] to) {
        try (Slice start = new Slice(from);
                Slice end = new Slice(to)) {
            return database.db
                    .getApproximateSizes(
                            database.data,
                            List.of(new Range(start, end)),
                            SizeApproximationFlag.INCLUDE_FILES,
                            SizeApproximationFlag.INCLUDE_MEMTABLES)[0];
        }
    }
}
