// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.FileExtent;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.rocksdb.FlushOptions;

/** Sequence numbers that an ingest takes are in no log; recovery must not meet the gap. */
class IngestLogsTest {
    private static final TableMetadata TABLE =
            Tables.table("CREATE TABLE t (k int PRIMARY KEY, v text)");
    @TempDir Path directory;

    private static void write(TableStore store, int key) {
        var update = Tables.update(TABLE, key);
        update.row().add("v", "x".repeat(100));
        store.write(update.build());
    }

    private static boolean has(TableStore store, int key) {
        try (UnfilteredRowIterator rows =
                store.read(Tables.key(TABLE, key), Slices.ALL, ColumnFilter.all(TABLE), false)) {
            return rows != null && rows.hasNext();
        }
    }

    /**
     * A column family whose flush is under way when another's begins a log goes on asking for the
     * log before, although nothing of it is needed.
     */
    @ParameterizedTest
    @EnumSource(
            value = WalSync.class,
            names = {"PERIODIC", "BATCH"})
    void aLogThatIsStillAskedForIsFollowedByNoGap(WalSync mode) throws Exception {
        try (StorageEngine engine = Tables.engine(Map.of("memory", "32MiB"))) {
            // Stores that are opened in batch mode write over old logs.
            engine.walSync(mode, Duration.ofHours(1));
            TableStore from = Tables.open(engine, directory.resolve("from"), TABLE);
            TableStore to = Tables.open(engine, directory.resolve("to"), TABLE);
            engine.walSync(WalSync.PERIODIC, Duration.ofHours(1));
            for (int i = 0; i < 100; i++) write(from, i);
            int stale = 0;
            for (int i = 0; i < 10; i++) {
                // In batch mode logs are written over from the second on.
                write(to, 0);
                to.flush();
                try (FlushOptions options = new FlushOptions().setWaitForFlush(false)) {
                    Tables.context(to).catalog().setExtent("/none", new FileExtent(1, 2, 3));
                    Database database = Tables.context(to).database();
                    database.db.flush(options, database.catalog);
                    write(to, 1_000);
                    to.flush();
                    long asked =
                            database.db.getLongProperty(
                                    database.data, "rocksdb.min-log-number-to-keep");
                    if (logsFrom(asked) > 1) stale++;
                }
                SentStream.of(from).ingestedBy(to);
                for (int key = 2_000; key < 2_010; key++) write(to, key);
                to.syncLog();
                Path crashed;
                // Or a compaction removes a file between the copy of the MANIFEST and its own.
                Tables.context(to).database().db.pauseBackgroundWork();
                try {
                    crashed = Tables.crashed(to, directory.resolve("crashed" + i));
                } finally {
                    Tables.context(to).database().db.continueBackgroundWork();
                }
                try (TableStore opened = Tables.open(engine, crashed, TABLE)) {
                    for (int key = 2_000; key < 2_010; key++) assertThat(has(opened, key)).isTrue();
                    assertThat(has(opened, 99)).isTrue();
                }
            }
            // Else it is no test.
            assertThat(stale).isPositive();
        }
    }

    private int logsFrom(long number) throws Exception {
        int count = 0;
        try (var files = Files.newDirectoryStream(directory.resolve("to"), "*.log")) {
            for (Path file : files)
                if (Long.parseLong(String.valueOf(file.getFileName()).replace(".log", ""))
                        >= number) count++;
        }
        return count;
    }
}
