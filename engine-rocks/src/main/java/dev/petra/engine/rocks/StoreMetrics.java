// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.FileStatistics;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.nativelib.Reconciler;
import dev.petra.engine.rocks.read.ReadSamples;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyMetaData;
import org.rocksdb.LevelMetaData;
import org.rocksdb.RocksDBException;

/** What operators see of one store beyond what every engine has; docs/operations.md explains it. */
final class StoreMetrics {
    private StoreMetrics() {}

    /**
     * Bytes of write buffers.
     *
     * @param active of those that take writes
     * @param all of these and of those being flushed
     * @param isEmpty whether nothing is in the active ones
     */
    record Buffers(long active, long all, boolean isEmpty) {
        static final Buffers NONE = new Buffers(0, 0, true);
    }

    static Buffers buffers(Database database) throws RocksDBException {
        return new Buffers(
                userData(database, "cur-size-active-mem-table"),
                writeBufferBytes(database),
                userData(database, "num-entries-active-mem-table") == 0);
    }

    static long writeBufferBytes(Database database) throws RocksDBException {
        return userData(database, "cur-size-all-mem-tables");
    }

    /**
     * @param writes how many there were
     * @param reads how many there were
     */
    static StoreStatistics statistics(Database database, long writes, long reads)
            throws RocksDBException {
        long keys = data(database, "estimate-num-keys");
        return new StoreStatistics(
                keys,
                keys,
                data(database, "estimate-live-data-size") + large(database, "live-blob-file-size"),
                userData(database, "total-sst-files-size")
                        + large(database, "total-blob-file-size"),
                writeBufferBytes(database),
                data(database, "estimate-pending-compaction-bytes"),
                writes,
                reads);
    }

    static Map<String, Long> all(Database database, Reconciler reconciler, ReadSamples samples)
            throws RocksDBException {
        Map<String, Long> metrics = new LinkedHashMap<>();
        ColumnFamilyMetaData files = database.db.getColumnFamilyMetaData(database.data);
        for (LevelMetaData level : files.levels()) {
            metrics.put("level_" + level.level() + "_files", (long) level.files().size());
            metrics.put("level_" + level.level() + "_bytes", level.size());
        }
        property(metrics, database, "index_and_filter_bytes", "estimate-table-readers-mem");
        property(metrics, database, "unflushed_entries", "num-entries-active-mem-table");
        property(metrics, database, "write_buffers_being_flushed", "num-immutable-mem-table");
        property(metrics, database, "flushes_running", "num-running-flushes");
        property(metrics, database, "compactions_running", "num-running-compactions");
        property(metrics, database, "writes_stopped", "is-write-stopped");
        property(metrics, database, "delayed_write_bytes_per_second", "actual-delayed-write-rate");
        property(metrics, database, "background_errors", "background-errors");
        Map<String, String> stalls = database.db.getMapProperty(database.data, "rocksdb.cfstats");
        metrics.put("stalls_delayed", number(stalls.get("total-delays")));
        metrics.put("stalls_stopped", number(stalls.get("total-stops")));
        metrics.put("large_files", large(database, "num-blob-files"));
        metrics.put("large_bytes", large(database, "total-blob-file-size"));
        metrics.put("large_garbage_bytes", large(database, "live-blob-file-garbage-size"));
        metrics.put("index_bytes", index(database, "total-sst-files-size"));
        metrics.put("index_entries", index(database, "estimate-num-keys"));
        samples.putInto(metrics);
        metrics.put("merges", reconciler.merges());
        metrics.put("malformed", reconciler.malformed());
        metrics.put("purged", reconciler.purged());
        metrics.put("expired", reconciler.expired());
        metrics.put("rows_removed", reconciler.removed());
        return metrics;
    }

    static FileStatistics files(Database database) throws RocksDBException {
        long files = 0;
        for (LevelMetaData level : database.db.getColumnFamilyMetaData(database.data).levels())
            files += level.files().size();
        Map<String, String> properties =
                database.db.getMapProperty(database.data, "rocksdb.aggregated-table-properties");
        return new FileStatistics(
                files,
                number(properties.get("raw_key_size")) + number(properties.get("raw_value_size")),
                number(properties.get("data_size")),
                number(properties.get("filter_size")));
    }

    private static void property(
            Map<String, Long> metrics, Database database, String name, String property)
            throws RocksDBException {
        metrics.put(name, data(database, property));
    }

    private static long data(Database database, String property) throws RocksDBException {
        return database.db.getLongProperty(database.data, "rocksdb." + property);
    }

    private static long large(Database database, String property) throws RocksDBException {
        return database.db.getLongProperty(database.large, "rocksdb." + property);
    }

    /** 0 if the store has none. */
    private static long index(Database database, String property) throws RocksDBException {
        ColumnFamilyHandle family = database.index();
        return family == null ? 0 : database.db.getLongProperty(family, "rocksdb." + property);
    }

    /** The sum over all column families but the catalog. */
    private static long userData(Database database, String property) throws RocksDBException {
        return data(database, property) + large(database, property) + index(database, property);
    }

    private static long number(@Nullable String value) {
        return value == null ? 0 : Long.parseLong(value);
    }
}
