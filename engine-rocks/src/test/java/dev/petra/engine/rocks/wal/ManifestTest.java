// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.rocks.Tables;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.FlushOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/** Which data files a MANIFEST names. */
class ManifestTest {
    @TempDir Path directory;

    @BeforeAll
    static void load() {
        // Loads RocksDB.
        Tables.engine(Map.of()).close();
    }

    private static void flush(RocksDB db, ColumnFamilyHandle family) throws RocksDBException {
        db.put(family, "k".getBytes(UTF_8), "v".getBytes(UTF_8));
        try (FlushOptions wait = new FlushOptions().setWaitForFlush(true)) {
            db.flush(wait, family);
        }
    }

    private Path database() {
        return directory.resolve("db");
    }

    private Path place(Manifest.DataFile file) {
        return database().resolve("%06d.sst".formatted(file.number()));
    }

    /** RocksDB has deleted them: they are not missing. */
    @Test
    void theFilesOfADroppedColumnFamilyAreForgotten() throws Exception {
        try (Options options = new Options().setCreateIfMissing(true);
                RocksDB db = RocksDB.open(options, database().toString());
                ColumnFamilyHandle rows = db.getDefaultColumnFamily()) {
            flush(db, rows);
            try (ColumnFamilyHandle other =
                    db.createColumnFamily(new ColumnFamilyDescriptor("other".getBytes(UTF_8)))) {
                flush(db, other);
                assertThat(Manifest.dataFiles(database())).hasSize(2);
                db.dropColumnFamily(other);
            }
            flush(db, rows);
            List<Manifest.DataFile> named = Manifest.dataFiles(database());
            assertThat(named).hasSize(2);
            for (Manifest.DataFile file : named)
                assertThat(Files.size(place(file))).isEqualTo(file.bytes());
        }
    }

    /** Nor is it deleted while a file is missing that it may be. */
    @Test
    void aStagedFileThatCannotBeReadIsNotInTheWayOfOthers() throws Exception {
        try (Options options = new Options().setCreateIfMissing(true);
                RocksDB db = RocksDB.open(options, database().toString());
                ColumnFamilyHandle rows = db.getDefaultColumnFamily()) {
            flush(db, rows);
        }
        Path lost = place(Manifest.dataFiles(database()).get(0));
        Path whole = Files.move(lost, directory.resolve("whole.sst"));
        byte[] bytes = Files.readAllBytes(whole);
        Path damaged = directory.resolve("damaged.sst");
        Files.write(damaged, new byte[bytes.length]);
        assertThat(LostLinks.restoreStaged(database(), List.of(damaged))).isFalse();
        assertThat(LostLinks.restoreStaged(database(), List.of(damaged, whole))).isTrue();
        assertThat(Files.readAllBytes(lost)).isEqualTo(bytes);
    }
}
