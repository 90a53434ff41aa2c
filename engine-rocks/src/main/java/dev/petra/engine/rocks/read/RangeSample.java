// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.RangeEstimate;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.RocksErrors;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import dev.petra.engine.rocks.format.TokenRanges;
import java.nio.ByteBuffer;
import org.rocksdb.RocksDBException;
import org.rocksdb.SizeApproximationFlag;

/**
 * Estimates how many partitions a range of keys has: counts the first ones, and takes the rest to
 * be like them. RocksDB knows bytes of any range, but counts rows, not partitions.
 */
public final class RangeSample {
    /** The most partitions that are counted: some milliseconds of seeks. */
    private static final int MOST = 1_024;

    private RangeSample() {}

    public static RangeEstimate estimate(StoreContext store, TokenRanges.KeyRange range) {
        // What is estimated is often far more than is read again.
        try (Cursor cursor = new Cursor(store, new ScanBounds(range.to(), true))) {
            ByteSink position = cursor.partitionSink();
            cursor.seek(Keys.direct(range.from()));
            long counted = 0;
            boolean isAll = true;
            while (cursor.isValid()) {
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
            long large = largeBytes(store, cursor.database(), range.from(), range.to());
            if (isAll) return new RangeEstimate(counted, (bytes + large) / counted);
            ByteBuffer reached = cursor.key();
            byte[] sampled = new byte[reached.remaining()];
            reached.get(sampled);
            // RocksDB counts whole blocks: a sample smaller than one has 0 bytes.
            long sample = Math.max(1, bytes(cursor.database(), range.from(), sampled));
            long partitions = Math.max(counted, (long) ((double) counted * bytes / sample));
            return new RangeEstimate(partitions, (bytes + large) / partitions);
        }
    }

    private static long bytes(Database database, byte[] from, byte[] to) {
        return database.approximateBytes(
                database.data,
                from,
                to,
                SizeApproximationFlag.INCLUDE_FILES,
                SizeApproximationFlag.INCLUDE_MEMTABLES);
    }

    /**
     * The bytes of large cells in a range. RocksDB does not know these for blob files: the range
     * has the same part of them as of the files with their keys.
     */
    static long largeBytes(StoreContext store, Database database, byte[] from, byte[] to) {
        if (!store.catalog().has(Catalog.Flag.LARGE_CELLS)) return 0;
        try {
            long buffered =
                    database.approximateBytes(
                            database.large, from, to, SizeApproximationFlag.INCLUDE_MEMTABLES);
            long keys =
                    database.approximateBytes(
                            database.large, from, to, SizeApproximationFlag.INCLUDE_FILES);
            long all = database.db.getLongProperty(database.large, "rocksdb.live-sst-files-size");
            long values =
                    database.db.getLongProperty(database.large, "rocksdb.live-blob-file-size");
            double share = all == 0 ? 0 : Math.min(1, (double) keys / all);
            return buffered + (long) (share * (all + values));
        } catch (RocksDBException e) {
            throw RocksErrors.onRead(e, store.name(), store.directory());
        }
    }
}
