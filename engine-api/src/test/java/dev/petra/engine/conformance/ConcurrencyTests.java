// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.TableStore;
import dev.petra.engine.host.Liveness;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.rows.Row;
import org.junit.jupiter.api.Test;

/** Several threads at once: an update is seen whole or not at all, and none is lost. */
public interface ConcurrencyTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** How long each of these tests works. */
    long MILLIS = 700;

    /** Runs tasks side by side to their end and passes on what fails. */
    private static void together(List<Callable<Void>> tasks) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(tasks.size());
        try {
            List<Future<Void>> futures = new ArrayList<>();
            for (Callable<Void> task : tasks) futures.add(threads.submit(task));
            for (Future<Void> future : futures) future.get(4, TimeUnit.MINUTES);
        } finally {
            threads.shutdownNow();
            assertThat(threads.awaitTermination(2, TimeUnit.MINUTES)).isTrue();
        }
    }

    private static PartitionContent read(TableStore store, TestTable table, String key) {
        return PartitionContent.of(store.read(table.key(key), Slices.ALL, table.all(), false));
    }

    private static PartitionContent found(TableStore store, TestTable table, String key) {
        PartitionContent content = read(store, table, key);
        if (content == null) throw new AssertionError("Nothing is there of partition " + key);
        return content;
    }

    private static Set<Long> timestamps(PartitionContent content) {
        Set<Long> timestamps = new HashSet<>();
        for (Row row : content.rows())
            timestamps.add(Liveness.timestamp(row.primaryKeyLivenessInfo()));
        if (!content.staticRow().isEmpty()) timestamps.add(content.staticCell("s").timestamp());
        return timestamps;
    }

    @Test
    default void anUpdateIsSeenWholeOrNotAtAll() throws Exception {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        AtomicBoolean done = new AtomicBoolean();
        Callable<Void> writer =
                () -> {
                    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(MILLIS);
                    for (long time = 2; System.nanoTime() < end; time += 2) {
                        UpdateBuilder update = table.update("a").at(time);
                        update.deletePartition().at(time + 1);
                        for (int i = 0; i < 10; i++) update.row(i).liveness().end();
                        store.write(update.staticRow().set("s", "x").build());
                        if (time % 200 == 0) store.flush();
                    }
                    done.set(true);
                    return null;
                };
        Callable<Void> reader =
                () -> {
                    while (!done.get()) {
                        PartitionContent content = read(store, table, "a");
                        if (content != null) check(content);
                    }
                    return null;
                };
        Callable<Void> scanner =
                () -> {
                    while (!done.get())
                        for (PartitionContent content :
                                PartitionContent.listOf(
                                        store.scan(
                                                DataRange.allData(table.metadata().partitioner),
                                                table.all()))) check(content);
                    return null;
                };
        together(List.of(writer, reader, reader, scanner));
    }

    private static void check(PartitionContent content) {
        assertThat(content.rows()).as("rows of one update").hasSize(10);
        assertThat(timestamps(content))
                .as("timestamps of one update")
                .containsExactly(content.deletion().markedForDeleteAt() + 1);
    }

    @Test
    default void everyAcknowledgedUpdateIsReadableAtOnceAndForEver() throws Exception {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        int writers = 4;
        AtomicInteger[] acknowledged = new AtomicInteger[writers];
        AtomicBoolean done = new AtomicBoolean();
        AtomicInteger running = new AtomicInteger(writers);
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int w = 0; w < writers; w++) {
            int writer = w;
            acknowledged[w] = new AtomicInteger();
            tasks.add(
                    () -> {
                        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(MILLIS);
                        try {
                            for (int i = 0; System.nanoTime() < end; i++) {
                                // Two writers share each partition.
                                store.write(
                                        table.update("p" + writer / 2)
                                                .at(i)
                                                .row(i * writers + writer)
                                                .liveness()
                                                .set("v", "x")
                                                .build());
                                acknowledged[writer].set(i + 1);
                                assertThat(hasRow(store, table, writer, i * writers + writer))
                                        .isTrue();
                            }
                        } finally {
                            if (running.decrementAndGet() == 0) done.set(true);
                        }
                        return null;
                    });
        }
        tasks.add(
                () -> {
                    while (!done.get()) {
                        for (int w = 0; w < writers; w++) {
                            int last = acknowledged[w].get();
                            if (last > 0)
                                assertThat(hasRow(store, table, w, (last - 1) * writers + w))
                                        .isTrue();
                        }
                    }
                    return null;
                });
        tasks.add(
                () -> {
                    while (!done.get()) {
                        store.flush();
                        store.compact(List.of());
                        store.statistics();
                    }
                    return null;
                });
        together(tasks);
        TableStore again = kit().reopen(store);
        for (int p = 0; p < writers / 2; p++)
            assertThat(found(again, table, "p" + p).rows())
                    .hasSize(acknowledged[2 * p].get() + acknowledged[2 * p + 1].get());
    }

    private static boolean hasRow(TableStore store, TestTable table, int writer, int row) {
        PartitionContent content =
                PartitionContent.of(
                        store.read(
                                table.key("p" + writer / 2),
                                table.slices(table.prefix(row)),
                                table.all(),
                                false));
        return content != null && content.hasRow(row);
    }

    @Test
    default void updatesOfOneRowByManyWritersAllCount() throws Exception {
        TestTable table = CounterTests.table();
        TableStore store = kit().open(table);
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int w = 1; w <= 4; w++) {
            int writer = w;
            tasks.add(
                    () -> {
                        for (int i = 1; i <= 200; i++)
                            store.write(
                                    table.update("a")
                                            .at(i)
                                            .row(1)
                                            .set("n", CounterTests.global(writer, i, i))
                                            .build());
                        return null;
                    });
        }
        together(tasks);
        TableStore again = kit().reopen(store);
        assertThat(CounterTests.total(found(again, table, "a"), "n", 1)).isEqualTo(4 * 200);
    }

    @Test
    default void manyStoresAreOpenedUsedAndClosedSideBySide() throws Exception {
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int t = 0; t < 3; t++) {
            List<Path> directories = new ArrayList<>();
            for (int i = 0; i < 4; i++) directories.add(kit().newDirectory());
            tasks.add(
                    () -> {
                        for (Path directory : directories) {
                            TestTable table = WriteTests.rows();
                            for (int round = 0; round < 3; round++)
                                try (TableStore store =
                                        kit().engine().openStore(table.spec(directory))) {
                                    store.write(table.update("a").row(round).liveness().build());
                                    assertThat(found(store, table, "a").rows()).hasSize(round + 1);
                                }
                            kit().engine().deleteStore(directory);
                        }
                        return null;
                    });
        }
        together(tasks);
        assertThat(kit().engine().statistics().openStores()).isZero();
    }
}
