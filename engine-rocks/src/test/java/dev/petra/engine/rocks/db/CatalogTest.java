// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.conformance.PartitionContent;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.RocksDBException;

/** New entries while others need some, too, and while the store takes no writes. */
class CatalogTest {
    private final TestTable table =
            TestTable.of("CREATE TABLE t (k int PRIMARY KEY, v text, w text, x text)");

    @TempDir Path directory;
    private StorageEngine engine;
    private TableStore store;

    private void open(String timeout) {
        engine = Tables.engine(Map.of("memory", "32MiB", "write_stall_timeout", timeout));
        store = engine.openStore(table.spec(directory.resolve("store")));
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private PartitionUpdate update(int key, String column) {
        return table.update(key).at(1).row().set(column, "value").build();
    }

    private void write(int key, String column) {
        store.write(update(key, column));
    }

    private List<PartitionContent> content(TableStore of) {
        return PartitionContent.listOf(
                of.scan(DataRange.allData(table.metadata().partitioner), table.all()));
    }

    private Catalog catalog() {
        return Tables.context(store).catalog();
    }

    private List<Integer> ids() {
        return catalog().columns().values().stream()
                .map(entry -> Integer.parseInt(entry.substring(0, entry.indexOf(' '))))
                .sorted()
                .toList();
    }

    /** Writes stop at the one file in level 0. */
    private void stop() throws RocksDBException {
        write(0, "v");
        store.flush();
        Tables.context(store).database().db.pauseBackgroundWork();
        Tables.levelZero(Tables.context(store).database(), 1, 1, 1);
    }

    private void goOn() throws RocksDBException {
        Tables.levelZero(Tables.context(store).database(), 4, 20, 36);
        Tables.context(store).database().db.continueBackgroundWork();
    }

    /** Once the table was altered, readers waited for it, too. */
    @Test
    void aWriteThatWaitsWithANewEntryHoldsUpNoReader() throws Exception {
        open("1m");
        FutureTask<Boolean> writing =
                new FutureTask<>(
                        () -> {
                            write(1, "w");
                            return true;
                        });
        stop();
        try {
            Thread writer = new Thread(writing);
            writer.start();
            Tables.await("the write", () -> writer.getState() == Thread.State.TIMED_WAITING);
            table.addColumn("y", UTF8Type.instance);
            CompletableFuture<List<PartitionContent>> reading =
                    CompletableFuture.supplyAsync(() -> content(store));
            assertThat(reading.get(20, TimeUnit.SECONDS)).hasSize(1);
            assertThat(writing).isNotDone();
            assertThat(ids()).as("what may lack in the catalog").containsExactly(0);
        } finally {
            goOn();
        }
        writing.get(1, TimeUnit.MINUTES);
        assertThat(content(store)).hasSize(2);
        assertThat(ids()).containsExactly(0, 1);
    }

    /** Each had a thread of the node's until all before it had failed, and then its own time. */
    @Test
    void writesThatNeedNewEntriesDoNotWaitOneAfterTheOther() throws Exception {
        open("4s");
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<Throwable>> writes = new ArrayList<>();
        stop();
        try {
            long began = System.nanoTime();
            for (int i = 0; i < 12; i++) {
                PartitionUpdate update =
                        i % 2 == 0
                                ? update(i, "w")
                                : table.update(i).at(1).deletePartition().build();
                writes.add(threads.submit(() -> catchThrowable(() -> store.write(update))));
            }
            List<String> refused = new ArrayList<>();
            for (Future<Throwable> write : writes) {
                Throwable refusal = write.get(2, TimeUnit.MINUTES);
                assertThat(refusal).isInstanceOf(WriteStallException.class);
                refused.add(refusal.getMessage());
            }
            assertThat(System.nanoTime() - began).isLessThan(TimeUnit.SECONDS.toNanos(20));
            assertThat(refused)
                    .as("told at once, as other writes")
                    .filteredOn(message -> message.contains("4 wait already"))
                    .hasSizeGreaterThanOrEqualTo(8);
            assertThat(catalog().flags()).isZero();
        } finally {
            goOn();
            threads.shutdown();
        }
        store.write(table.update(1).at(1).deletePartition().build());
        assertThat(catalog().has(Catalog.Flag.PARTITION_RECORDS)).isTrue();
        assertThat(catalog().has(Catalog.Flag.TOMBSTONES)).isTrue();
        assertThat(catalog().has(Catalog.Flag.LARGE_CELLS)).isFalse();
    }

    /** The next id is how many there are, also for versions before this one. */
    @Test
    void idsHaveNoGapsThoughWritesOfNewColumnsFail() throws Exception {
        open("500ms");
        stop();
        try {
            for (String column : List.of("w", "x"))
                assertThatThrownBy(() -> write(1, column)).isInstanceOf(WriteStallException.class);
            assertThat(ids()).containsExactly(0);
        } finally {
            goOn();
        }
        write(2, "x");
        assertThat(ids()).containsExactly(0, 1, 2);
        store.close();
        store = engine.openStore(table.spec(directory.resolve("store")));
        assertThat(ids()).containsExactly(0, 1, 2);
        table.addColumn("y", UTF8Type.instance);
        for (String column : List.of("y", "w")) write(3, column);
        assertThat(ids()).containsExactly(0, 1, 2, 3);
        List<PartitionContent> content = content(store);
        assertThat(content).hasSize(3);
        store.close();
        store = engine.openStore(table.spec(directory.resolve("store")));
        assertThat(content(store)).isEqualTo(content);
    }

    @Test
    void columnsThatAreNewToSeveralWritersHaveOneIdEach() throws Exception {
        open("30s");
        List<String> columns = new ArrayList<>();
        for (int i = 0; i < 30; i++) columns.add("c" + i);
        for (String column : columns) table.addColumn(column, UTF8Type.instance);
        int writers = 8;
        List<CompletableFuture<Void>> writes = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(writers);
        for (int w = 0; w < writers; w++) {
            int key = w;
            List<String> shuffled = new ArrayList<>(columns);
            Collections.shuffle(shuffled, new Random(w));
            writes.add(
                    CompletableFuture.runAsync(
                            () -> shuffled.forEach(column -> write(key, column)), threads));
        }
        threads.shutdown();
        writes.forEach(CompletableFuture::join);
        assertThat(ids()).hasSize(30).doesNotHaveDuplicates().startsWith(0).endsWith(29);
        store.close();
        store = engine.openStore(table.spec(directory.resolve("store")));
        TableStore alone = engine.openStore(table.spec(directory.resolve("alone")));
        for (int w = 0; w < writers; w++)
            for (String column : columns) alone.write(update(w, column));
        assertThat(content(store)).isEqualTo(content(alone));
    }
}
