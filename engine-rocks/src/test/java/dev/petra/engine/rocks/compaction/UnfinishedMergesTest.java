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
        byte[] value = new byte[8 << 10];
        for (int i = 0; i < 16 * 128; i++) {
            random.nextBytes(value);
            PartitionUpdate.SimpleBuilder update = Tables.update(table, i);
            update.row().add("v", ByteBuffer.wrap(value.clone()));
            store.write(update.build());
        }
        store.flush();
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
            engine.compactionThroughput(MIB);
            CompletableFuture<Void> compact =
                    CompletableFuture.runAsync(() -> store.compact(List.of()));
            Tables.await("the compaction", () -> UnfinishedMerges.on(disk) > 8 * MIB);
            assertThat(UnfinishedMerges.on(Files.getFileStore(Path.of("/proc")))).isZero();
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
            try (UnfinishedMerges.OfFiles first = UnfinishedMerges.begin(directory, 5);
                    UnfinishedMerges.OfFiles second = UnfinishedMerges.begin(directory, 5);
                    UnfinishedMerges.OfFiles dropped = UnfinishedMerges.begin(gone, 7)) {
                assertThat(UnfinishedMerges.on(disk)).isEqualTo(10);
            }
            assertThat(UnfinishedMerges.on(disk)).isZero();
        }
    }
}
