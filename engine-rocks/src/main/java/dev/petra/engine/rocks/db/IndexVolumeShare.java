// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksDBException;

/** What one store has of the engine's {@link IndexVolume}. Any thread. */
final class IndexVolumeShare {
    private static final long COUNT_EVERY_NANOS = TimeUnit.MINUTES.toNanos(10);
    private static final String FILE_PROPERTIES = "rocksdb.aggregated-table-properties";

    private final IndexVolume volume;
    private final AtomicLong counted = new AtomicLong();
    private volatile long countedAt = System.nanoTime() - COUNT_EVERY_NANOS;

    IndexVolumeShare(IndexVolume volume) {
        this.volume = volume;
    }

    /** Counts it anew now and then: seldom, because RocksDB asks each file. */
    void count(ReopenableDatabase of) {
        long now = System.nanoTime();
        if (now - countedAt < COUNT_EVERY_NANOS) return;
        countedAt = now;
        of.ifWritable(
                false,
                database -> {
                    long bytes = 0;
                    for (ColumnFamilyHandle family : database.families())
                        bytes += indexBytes(database, family);
                    // Within the use, for whose end the close waits: behind that it has nothing.
                    set(bytes);
                    return true;
                });
    }

    /** The store is closed, and has nothing any more. */
    void end() {
        set(0);
    }

    private void set(long bytes) {
        volume.add(bytes - counted.getAndSet(bytes));
    }

    /** The bytes of the indexes and filters of a column family's files. */
    private static long indexBytes(Database database, ColumnFamilyHandle family)
            throws RocksDBException {
        Map<String, String> sums = database.db.getMapProperty(family, FILE_PROPERTIES);
        return Long.parseLong(sums.getOrDefault("index_size", "0"))
                + Long.parseLong(sums.getOrDefault("filter_size", "0"));
    }
}
