// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.rocks.Tables;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.RocksDBException;

/** What a disk has free is not that of one merge alone. */
class UnfinishedMergesTest {
    private static final long MIB = 1 << 20;

    @TempDir Path directory;

    /** Compacted only when that is asked for. */
    private final TableMetadata table =
            Tables.table(
                    "CREATE TABLE t (k int PRIMARY KEY, v blob) WITH compaction = {'class':"
                            + " 'LeveledCompactionStrategy', 'enabled': false}");

    private TableStore open(StorageEngine engine) {
        return Tables.open(engine, directory.resolve("1"), table);
    }

    private void fill(TableStore store) {
        Random random = new Random(1);
        // Small: RocksDB says how much it has read after each 1,000 entries.
        byte[] value = new byte[1 << 10];
        for (int i = 0; i < 16 * 1024; i++) {
            random.nextBytes(value);
            PartitionUpdate.SimpleBuilder update = Tables.update(table, i);
            update.row().add("v", ByteBuffer.wrap(value.clone()));
            store.write(update.build());
        }
        store.flush();
        // To one file: of many, all would be read ahead at once.
        store.compact(List.of());
    }

    @Test
    void aCompactionOfRocksDbsTakesRoomForWhatItHasNotRead() throws Exception {
        try (StorageEngine engine = Tables.engine()) {
            fill(open(engine));
        }
        FileStore disk = Files.getFileStore(directory);
        // Another, which has not seen these writes: they make room for flushes.
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = open(engine);
            assertThat(UnfinishedMerges.on(disk)).isZero();
            engine.compactionThroughput(2 * MIB);
            CompletableFuture<Void> compact =
                    CompletableFuture.runAsync(() -> store.compact(List.of()));
            Tables.await("the compaction", () -> UnfinishedMerges.on(disk) > 8 * MIB);
            assertThat(UnfinishedMerges.on(Files.getFileStore(Path.of("/proc")))).isZero();
            Tables.await(
                    "the part that is read",
                    () -> UnfinishedMerges.on(disk) < 6 * MIB && UnfinishedMerges.on(disk) > MIB);
            engine.compactionThroughput(Long.MAX_VALUE);
            compact.get(2, TimeUnit.MINUTES);
            Tables.await("the end", () -> UnfinishedMerges.on(disk) == 0);
        }
    }

    @Test
    @SuppressWarnings("try") // the merges are counted, not used, and the engine loads RocksDB
    void aMergeOfFilesTakesItsRoomUntilItEnds() throws IOException, RocksDBException {
        FileStore disk = Files.getFileStore(directory);
        Path gone = directory.resolve("gone");
        try (StorageEngine engine = Tables.engine()) {
            try (UnfinishedMerges.Taken first = UnfinishedMerges.begin(directory, 5);
                    UnfinishedMerges.Taken second = UnfinishedMerges.begin(directory, 5);
                    UnfinishedMerges.Taken dropped = UnfinishedMerges.begin(gone, 7)) {
                assertThat(UnfinishedMerges.on(disk)).isEqualTo(10);
            }
            assertThat(UnfinishedMerges.on(disk)).isZero();
        }
    }

    /** By RocksDB or as files: whatever of it has begun. */
    @Test
    @SuppressWarnings("try") // the merges are counted, not used, and the engine loads RocksDB
    void whatIsReservedForAMergeCountsOnce() throws IOException, RocksDBException {
        FileStore disk = Files.getFileStore(directory);
        try (StorageEngine engine = Tables.engine()) {
            try (UnfinishedMerges.Taken room = UnfinishedMerges.reserve(directory, 8)) {
                assertThat(UnfinishedMerges.on(disk)).isEqualTo(8);
                try (UnfinishedMerges.Taken merge = UnfinishedMerges.begin(directory, 5)) {
                    assertThat(UnfinishedMerges.on(disk)).isEqualTo(8);
                }
                try (UnfinishedMerges.Taken merge = UnfinishedMerges.begin(directory, 9)) {
                    assertThat(UnfinishedMerges.on(disk)).isEqualTo(9);
                }
            }
            assertThat(UnfinishedMerges.on(disk)).isZero();
        }
    }
}
