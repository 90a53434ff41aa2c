// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Tables that nobody writes to share the write buffers with the others. RocksDB, when these are
 * full, flushes the table that is written to, however little is in it.
 */
class IdleTablesTest {
    private static final int TABLES = 90;
    private static final int WRITES = 2_000;
    private static final long WRITE_BUFFERS = 16 << 20;

    @TempDir Path directory;

    private final Random random = new Random(1);
    private final List<TableMetadata> tables = new ArrayList<>();
    private final List<TableStore> stores = new ArrayList<>();

    private StorageEngine engine(int count) {
        StorageEngine engine =
                Tables.engine(Map.of("memory", "64MiB", "write_buffers", WRITE_BUFFERS + "B"));
        for (int t = 0; t < count; t++) {
            tables.add(Tables.table("CREATE TABLE t" + t + " (k int PRIMARY KEY, v blob)"));
            stores.add(Tables.open(engine, directory.resolve("" + t), tables.get(t)));
        }
        return engine;
    }

    private void write(int t, int key, int bytes) {
        byte[] value = new byte[bytes];
        random.nextBytes(value);
        PartitionUpdate.SimpleBuilder update = Tables.update(tables.get(t), key);
        update.row().add("v", ByteBuffer.wrap(value));
        stores.get(t).write(update.build());
    }

    private long writeBuffers() {
        return stores.stream().mapToLong(store -> ((RocksStore) store).memoryBytes()).sum();
    }

    private long files() {
        long files = 0;
        for (TableStore store : stores) files += store.fileStatistics().files();
        return files;
    }

    /** With 90 tables open, 2,000 small writes once made 1,564 files. */
    @Test
    void idleTablesDoNotHaveOthersFlushed() {
        try (StorageEngine engine = engine(TABLES)) {
            long empty = writeBuffers();
            for (int t = 0; t < TABLES; t++) write(t, 0, 100);
            long oneRow = writeBuffers();
            System.out.println(
                    "IdleTablesTest: a table's write buffers take "
                            + empty / TABLES
                            + " B, with one row "
                            + oneRow / TABLES
                            + " B");
            assertThat(empty / TABLES).isLessThan(16 << 10);
            assertThat(oneRow / TABLES).isLessThan(64 << 10);
            for (int i = 0; i < WRITES; i++) write(i % 10, i, 100);
            // 25 KB of rows each, in blocks that are not much larger.
            assertThat((writeBuffers() - oneRow) / 10).isLessThan(256 << 10);
            assertThat(files()).isZero();
            assertThat(engine.metrics()).containsEntry("stall_microseconds", 0L);
        }
    }

    /** Each holds a share of the write buffers: the largest are flushed until there is room. */
    @Test
    void whatIdleTablesHoldIsFlushedBeforeOthersMustBe() throws InterruptedException {
        int idle = 30;
        try (StorageEngine engine = engine(idle + 1)) {
            // All together a tenth more than there is room for.
            for (int t = 0; t < idle; t++) for (int i = 0; i < 60; i++) write(t, i, 10_000);
            Tables.await("a flush", () -> writeBuffers() <= WRITE_BUFFERS * 3 / 4);
            long before = files();
            for (int i = 0; i < WRITES; i++) write(idle, i, 100);
            assertThat(stores.get(idle).fileStatistics().files()).isZero();
            assertThat(files() - before).isLessThan(5);
            assertThat(engine.metrics()).containsEntry("stall_microseconds", 0L);
        }
    }

    /** Only the table that is written to is synced, however many were. */
    @ParameterizedTest
    @EnumSource(WalSync.class)
    void tablesAtRestCostNoSyncs(WalSync mode) {
        int atRest = 20;
        try (StorageEngine engine = engine(atRest + 1)) {
            engine.walSync(mode, Duration.ofMillis(1));
            for (int t = 0; t <= atRest; t++) write(t, 0, 100);
            RocksStore busy = (RocksStore) stores.get(atRest);
            Tables.await(
                    "the syncs of all",
                    () -> stores.stream().noneMatch(store -> ((RocksStore) store).isUnsettled()));
            long before = engine.metrics().get("log_syncs");
            for (int i = 1; i <= 5; i++) {
                write(atRest, i, 100);
                Tables.await("its sync", () -> !busy.isUnsettled());
                for (TableStore store : stores) assertThat(Tables.tick(store)).isFalse();
            }
            assertThat(engine.metrics().get("log_syncs") - before).isEqualTo(5);
        }
    }

    /** What is reserved counts. A table of one row once took 78 MB. */
    @Test
    void aTableOfAFewRowsTakesLittleDisk() throws Exception {
        int few = 10;
        try (StorageEngine engine = Tables.engine()) {
            for (int t = 0; t < few; t++) {
                tables.add(Tables.table("CREATE TABLE t" + t + " (k int PRIMARY KEY, v blob)"));
                stores.add(Tables.open(engine, directory.resolve("" + t), tables.get(t)));
                for (int i = 0; i < 100; i++) write(t, i, 100);
            }
            assertThat(diskBytes() / few).isLessThan(1 << 20);
            stores.forEach(TableStore::flush);
            assertThat(diskBytes() / few).isLessThan(1 << 20);
        }
        assertThat(diskBytes() / few).isLessThan(1 << 20);
    }

    private long diskBytes() throws IOException, InterruptedException {
        Process usage =
                new ProcessBuilder("du", "-s", "--block-size=1", directory.toString()).start();
        try (BufferedReader out = usage.inputReader()) {
            long bytes = Long.parseLong(out.readLine().split("\\s", 2)[0]);
            assertThat(usage.waitFor()).isZero();
            return bytes;
        }
    }
}
