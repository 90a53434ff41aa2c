// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.rocks.Tables;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.DBOptions;
import org.rocksdb.FlushOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.WALRecoveryMode;
import org.rocksdb.WriteOptions;

/**
 * A database of which one column family was flushed, and the other needs a log that ends in
 * something else than its last record.
 */
class TornEndTest {
    @TempDir Path directory;

    @BeforeAll
    static void load() {
        // Loads RocksDB.
        Tables.engine(Map.of()).close();
    }

    /** RocksDB, with two column families. */
    private static final class Families implements AutoCloseable {
        final List<ColumnFamilyHandle> handles = new ArrayList<>();
        final RocksDB database;
        private final DBOptions options =
                new DBOptions()
                        .setCreateIfMissing(true)
                        .setCreateMissingColumnFamilies(true)
                        .setRecycleLogFileNum(1)
                        .setAllowFAllocate(false)
                        .setWalRecoveryMode(WALRecoveryMode.PointInTimeRecovery);

        Families(Path directory) throws RocksDBException {
            this.database =
                    RocksDB.open(
                            options,
                            directory.toString(),
                            List.of(
                                    new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY),
                                    new ColumnFamilyDescriptor("other".getBytes(UTF_8))),
                            handles);
        }

        void put(int family, String key) throws RocksDBException {
            try (WriteOptions synced = new WriteOptions().setSync(true)) {
                database.put(handles.get(family), synced, key.getBytes(UTF_8), new byte[] {1});
            }
        }

        boolean has(int family, String key) throws RocksDBException {
            return database.get(handles.get(family), key.getBytes(UTF_8)) != null;
        }

        void flushFirst() throws RocksDBException {
            try (FlushOptions wait = new FlushOptions().setWaitForFlush(true)) {
                database.flush(wait, handles.get(0));
            }
        }

        @Override
        public void close() {
            handles.forEach(ColumnFamilyHandle::close);
            database.close();
            options.close();
        }
    }

    private static Path lastLog(Path database) throws IOException {
        try (var files = Files.list(database)) {
            return files.filter(file -> file.toString().endsWith(".log"))
                    .max(Path::compareTo)
                    .orElseThrow();
        }
    }

    private static void copy(Path from, Path to) throws IOException {
        Files.createDirectory(to);
        try (var files = Files.list(from)) {
            for (Path file : files.toList()) Files.copy(file, to.resolve(file.getFileName()));
        }
    }

    private record Crashed(Path directory, Path log) {}

    /** What is left of a process that ended just after a flush. */
    private Crashed crashed() throws Exception {
        Path live = directory.resolve("live");
        Path copy = directory.resolve("copy");
        Path log;
        try (Families families = new Families(live)) {
            families.put(1, "unflushed");
            // Logs are written over from the third on.
            for (int i = 0; i < 4; i++) {
                for (int key = 0; key < 5; key++) families.put(0, "k" + key);
                if (i < 3) families.flushFirst();
            }
            families.put(0, "last");
            log = copy.resolve(lastLog(live).getFileName());
            families.flushFirst();
            // It waits for what runs, so that no file goes while it is copied.
            families.database.pauseBackgroundWork();
            copy(live, copy);
            families.database.continueBackgroundWork();
        }
        assertThat(log).exists();
        assertThat(lastLog(copy)).isEmptyFile().isNotEqualTo(log);
        return new Crashed(copy, log);
    }

    private static void assertRefused(Path copy) {
        assertThatThrownBy(() -> new Families(copy).close())
                .isInstanceOf(RocksDBException.class)
                .hasMessageContaining("inconsistency");
    }

    private static void assertWhole(Path copy) throws Exception {
        LogCheck.run(copy);
        try (Families families = new Families(copy)) {
            assertThat(families.has(1, "unflushed")).isTrue();
            assertThat(families.has(0, "last")).isTrue();
        }
    }

    private static void append(Path log, byte[] bytes) throws IOException {
        Files.write(log, bytes, StandardOpenOption.APPEND);
    }

    /** The file system had not yet noted the new length of a log that is written over. */
    @Test
    void recordsOfAFormerLogBehindTheLastAreNoLoss() throws Exception {
        Crashed crashed = crashed();
        // Of the same length, so that they are where records begin.
        byte[] record = new byte[28];
        System.arraycopy(Files.readAllBytes(crashed.log), 0, record, 0, record.length);
        record[7]--;
        append(crashed.log, record);
        Path refused = directory.resolve("refused");
        copy(crashed.directory, refused);
        assertRefused(refused);
        assertWhole(crashed.directory);
    }

    /** The disk was full: the write failed, and what there was of it stayed. */
    @Test
    void aRecordThatCouldNotBeWrittenWholeIsNoLoss() throws Exception {
        Crashed crashed = crashed();
        append(crashed.log, new byte[] {1, 2, 3, 4, 100, 0, 5, 0, 0, 0, 0, 9, 9});
        Path refused = directory.resolve("refused");
        copy(crashed.directory, refused);
        assertRefused(refused);
        assertWhole(crashed.directory);
    }

    /** An interrupt closed the file, which passed for an error of the disk. */
    @Test
    void aThreadThatIsInterruptedCutsTheLogAsWell() throws Exception {
        Crashed crashed = crashed();
        byte[] whole = Files.readAllBytes(crashed.log);
        append(crashed.log, new byte[] {1, 2, 3, 4, 100, 0, 5, 0, 0, 0, 0, 9, 9});
        Thread.currentThread().interrupt();
        try {
            LogCheck.run(crashed.directory);
        } finally {
            assertThat(Thread.interrupted()).as("it stays interrupted").isTrue();
        }
        assertThat(crashed.log).hasBinaryContent(whole);
        assertWhole(crashed.directory);
    }

    @Test
    void aRecordThatIsDamagedIsALoss() throws Exception {
        Crashed crashed = crashed();
        byte[] log = Files.readAllBytes(crashed.log);
        log[log.length - 1] ^= 1;
        Files.write(crashed.log, log);
        LogCheck.run(crashed.directory);
        assertThat(crashed.log).hasBinaryContent(log);
        assertRefused(crashed.directory);
    }
}
