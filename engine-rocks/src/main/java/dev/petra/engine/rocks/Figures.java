// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.FileStatistics;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ColumnFamilyMetaData;
import org.rocksdb.LevelMetaData;
import org.rocksdb.RocksDBException;

/** What operators see of one store beyond what every engine has; docs/operations.md explains it. */
final class Figures {
    private Figures() {}

    static Map<String, Long> of(Database database, Reconciler reconciler, ReadSamples samples)
            throws RocksDBException {
        Map<String, Long> figures = new LinkedHashMap<>();
        ColumnFamilyMetaData files = database.db.getColumnFamilyMetaData(database.data);
        for (LevelMetaData level : files.levels()) {
            figures.put("level_" + level.level() + "_files", (long) level.files().size());
            figures.put("level_" + level.level() + "_bytes", level.size());
        }
        property(figures, database, "index_and_filter_bytes", "estimate-table-readers-mem");
        property(figures, database, "unflushed_entries", "num-entries-active-mem-table");
        property(figures, database, "write_buffers_being_flushed", "num-immutable-mem-table");
        property(figures, database, "flushes_running", "num-running-flushes");
        property(figures, database, "compactions_running", "num-running-compactions");
        property(figures, database, "writes_stopped", "is-write-stopped");
        property(figures, database, "delayed_write_bytes_per_second", "actual-delayed-write-rate");
        property(figures, database, "background_errors", "background-errors");
        Map<String, String> stalls = database.db.getMapProperty(database.data, "rocksdb.cfstats");
        figures.put("stalls_delayed", number(stalls.get("total-delays")));
        figures.put("stalls_stopped", number(stalls.get("total-stops")));
        figures.put("large_files", large(database, "num-blob-files"));
        figures.put("large_bytes", large(database, "total-blob-file-size"));
        figures.put("large_garbage_bytes", large(database, "live-blob-file-garbage-size"));
        samples.putInto(figures);
        figures.put("merges", reconciler.merges());
        figures.put("malformed", reconciler.malformed());
        figures.put("purged", reconciler.purged());
        figures.put("expired", reconciler.expired());
        figures.put("rows_removed", reconciler.removed());
        return figures;
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
            Map<String, Long> figures, Database database, String name, String property)
            throws RocksDBException {
        figures.put(name, database.db.getLongProperty(database.data, "rocksdb." + property));
    }

    private static long large(Database database, String property) throws RocksDBException {
        return database.db.getLongProperty(database.large, "rocksdb." + property);
    }

    private static long number(@Nullable String value) {
        return value == null ? 0 : Long.parseLong(value);
    }
}
