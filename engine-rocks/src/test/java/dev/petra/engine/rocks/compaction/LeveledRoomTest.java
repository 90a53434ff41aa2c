// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;

/**
 * How much room leveled compaction takes beside the data while it keeps up with writes: that of
 * some files, however many there are.
 */
class LeveledRoomTest {
    private static final int FILE = 64 << 10;
    private static final int THREADS = 2;

    /** {@code max_compaction_bytes} is 25 times the size of a file, by RocksDB's default. */
    private static final int FILES = 25;

    private static final int BASE = 10 * FILE;
    private static final int WRITE_BUFFER = 256 << 10;

    /**
     * Those are rewritten together: level 0, of up to 8 files here, and the one that follows it.
     */
    private static final int FIRST_LEVELS = 8 * WRITE_BUFFER + 2 * BASE;

    @TempDir Path directory;

    @Test
    void leveledCompactionNeedsRoomForAFewFiles() throws Exception {
        TestTable table =
                TestTable.of(
                        "CREATE TABLE t (k int PRIMARY KEY, v blob) WITH compression ="
                                + " {'enabled': 'false'} AND compaction = {'class':"
                                + " 'LeveledCompactionStrategy'}");
        try (StorageEngine engine =
                Tables.engine(
                        Map.of(
                                "memory",
                                "32MiB",
                                "write_buffer",
                                WRITE_BUFFER / 1024 + "KiB",
                                "background_threads",
                                "" + THREADS,
                                "rocksdb_options",
                                "target_file_size_base="
                                        + FILE
                                        + ";max_bytes_for_level_base="
                                        + BASE))) {
            TableStore store = engine.openStore(table.spec(directory.resolve("1")));
            Database database = Tables.context(store).database();
            AtomicBoolean ended = new AtomicBoolean();
            long[] most = {0};
            Thread sampler =
                    new Thread(
                            () -> {
                                while (!ended.get()) most[0] = Math.max(most[0], beside(database));
                            });
            sampler.start();
            SplittableRandom random = new SplittableRandom(1);
            for (int i = 0; i < 20_000; i++) {
                byte[] value = new byte[1_000];
                random.nextBytes(value);
                var row = table.update(random.nextInt(1 << 30)).at(1).row();
                // Else its levels grow, and one compaction may rewrite nearly everything.
                if (i % 500 == 0)
                    Tables.await("the end of compactions", () -> isCompacted(database));
                store.write(row.set("v", ByteBuffer.wrap(value)).build());
            }
            store.flush();
            ended.set(true);
            sampler.join();
            long live = live(database);
            System.out.printf(
                    "LeveledRoomTest: %,d bytes of data in files of %,d, %d threads: at most %,d"
                            + " bytes beside it%n",
                    live, FILE, THREADS, most[0]);
            assertThat(live).isGreaterThan(250L * FILE);
            assertThat(most[0]).isLessThan(THREADS * FILES * (long) FILE + FIRST_LEVELS);
        }
    }

    private static boolean isCompacted(Database database) throws RocksDBException {
        return database.db.getLongProperty(database.data, "rocksdb.compaction-pending") == 0
                && database.db.getLongProperty("rocksdb.num-running-compactions") == 0;
    }

    private static long live(Database database) {
        return database.dataFiles().stream().mapToLong(LiveFileMetaData::size).sum();
    }

    /** What files take that are being written, or are not deleted yet. */
    private long beside(Database database) {
        long before = live(database);
        long all = 0;
        try (var files = Files.newDirectoryStream(directory.resolve("1"), "*.sst")) {
            for (Path file : files) all += size(file);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        return all - before;
    }

    private static long size(Path file) throws IOException {
        try {
            return Files.size(file);
        } catch (NoSuchFileException e) {
            return 0;
        }
    }
}
