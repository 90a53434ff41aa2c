// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.RowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.junit.jupiter.api.Test;

/**
 * Compaction may purge what is past its grace. What a user sees may not change by it: nothing
 * deleted comes back, nothing live goes. Rocksandra 2 dropped tombstones above older data, 4 and 5
 * purged by the wrong times.
 */
public interface PurgeTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** What is alive by now, row by row, as text. */
    static List<String> live(TableStore store, TestTable table) {
        long now = System.currentTimeMillis() / 1000;
        List<String> live = new ArrayList<>();
        try (UnfilteredPartitionIterator scan =
                store.scan(DataRange.allData(table.metadata().partitioner), table.all())) {
            while (scan.hasNext())
                try (UnfilteredRowIterator partition = scan.next();
                        RowIterator rows = UnfilteredRowIterators.filter(partition, now)) {
                    String key = rows.partitionKey().toString();
                    if (!rows.staticRow().isEmpty())
                        live.add(key + " " + describe(rows.staticRow(), table));
                    while (rows.hasNext()) live.add(key + " " + describe(rows.next(), table));
                }
        }
        return live;
    }

    private static String describe(Row row, TestTable table) {
        return row.toString(table.metadata(), true);
    }

    @Test
    default void whatIsDeletedPastItsGraceStaysDeletedWhereverTheOlderDataIs() {
        for (boolean flushedBetween : new boolean[] {false, true})
            for (boolean compactedBetween : new boolean[] {false, true}) {
                TestTable table = WriteTests.rows();
                TableStore store = kit().open(table);
                for (String key : List.of("row", "cell", "range", "partition", "expiring")) {
                    UpdateBuilder update = table.update(key).at(10);
                    for (int i = 0; i < 4; i++) update.row(i).liveness().set("v", "x").end();
                    store.write(update.staticRow().set("s", "x").build());
                }
                if (flushedBetween) store.flush();
                if (compactedBetween) store.compact(List.of());
                long then = UpdateBuilder.LONG_AGO;
                store.write(table.update("row").at(20).now(then).deleteRow(1).build());
                store.write(
                        table.update("cell")
                                .at(20)
                                .now(then)
                                .row(1)
                                .unset("v")
                                .end()
                                .staticRow()
                                .unset("s")
                                .build());
                store.write(
                        table.update("range")
                                .at(20)
                                .now(then)
                                .deleteRange(table.from(1), table.to(2))
                                .build());
                store.write(table.update("partition").at(20).now(then).deletePartition().build());
                store.write(
                        table.update("expiring")
                                .at(20)
                                .now(then)
                                .ttl(60)
                                .row(1)
                                .liveness()
                                .set("v", "y")
                                .build());
                List<String> before = live(store, table);
                assertThat(before).hasSize(4 + 4 + 3 + 4);
                for (int round = 0; round < 2; round++) {
                    store.flush();
                    assertThat(live(store, table)).isEqualTo(before);
                    store.compact(List.of());
                    assertThat(live(store, table)).isEqualTo(before);
                    store = kit().reopen(store);
                    assertThat(live(store, table)).isEqualTo(before);
                }
            }
    }

    /** Rocksandra 4: an expired cell hid what was written after it. */
    @Test
    default void whatExpiredHidesNothingThatIsNewer() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        long now = System.currentTimeMillis() / 1000;
        store.write(table.update("a").at(10).now(now - 100).ttl(10).row(1).set("v", "old").build());
        store.flush();
        store.compact(List.of());
        store.write(table.update("a").at(11).row(1).set("v", "new").build());
        store.compact(List.of());
        store.flush();
        store.compact(List.of());
        assertThat(live(store, table)).hasSize(1);
    }

    @Test
    default void whatIsWithinItsGraceIsKept() {
        TestTable table = WriteTests.rows();
        ComparedStore store = kit().compared(table);
        long now = System.currentTimeMillis() / 1000;
        store.write(table.update("a").at(1).row(1).set("v", "x").end().row(2).liveness().build());
        store.flush();
        store.write(
                table.update("a")
                        .now(now - 100)
                        .at(5)
                        .deleteRow(1)
                        .row(2)
                        .unset("v")
                        .end()
                        .deleteRange(table.from(3), table.to(4))
                        .build());
        store.write(table.update("b").at(5).now(now - 100).deletePartition().build());
        store.everywhere(table.key("a"));
        store.everywhere(table.key("b"));
    }

    /** What was being removed when it was forbidden is there, or was gone already. */
    @Test
    default void whatMayNotGoAnyMoreStays() {
        for (int round = 0; round < 10; round++) {
            TestTable table = WriteTests.rows();
            AtomicBoolean mayPurge = new AtomicBoolean();
            StoreSpec spec = table.spec(kit().newDirectory());
            TableStore store =
                    kit().engine()
                            .openStore(
                                    new StoreSpec(
                                            spec.directory(),
                                            spec.columnFamily(),
                                            spec.generation(),
                                            spec.metadata(),
                                            mayPurge::get));
            for (int i = 0; i < 100; i++)
                store.write(
                        table.update("k" + i)
                                .at(20)
                                .now(UpdateBuilder.LONG_AGO)
                                .deleteRow(1)
                                .build());
            store.flush();
            mayPurge.set(true);
            CompletableFuture<Void> compaction =
                    CompletableFuture.runAsync(() -> store.compact(List.of()));
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(2L * round));
            mayPurge.set(false);
            store.stopPurging();
            List<String> deleted = stillDeleted(store, table);
            for (String key : deleted)
                store.write(table.update(key).at(10).row(1).set("v", "hidden").build());
            compaction.join();
            store.compact(List.of());
            assertThat(stillDeleted(store, table)).as("round " + round).isEqualTo(deleted);
            assertThat(live(store, table)).isEmpty();
            store.close();
        }
    }

    private static List<String> stillDeleted(TableStore store, TestTable table) {
        List<String> deleted = new ArrayList<>();
        for (int i = 0; i < 100; i++)
            try (UnfilteredRowIterator rows =
                    store.read(table.key("k" + i), Slices.ALL, table.all(), false)) {
                if (rows != null
                        && rows.hasNext()
                        && rows.next() instanceof Row row
                        && !row.deletion().isLive()) deleted.add("k" + i);
            }
        return deleted;
    }

    /** Whoever began to read before a purge reads to the end what there was. */
    @Test
    default void aReaderThatBeganBeforeAPurgeSeesWhatThereWas() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        for (int i = 0; i < 20; i++) {
            UpdateBuilder update = table.update("k" + i).at(10);
            for (int row = 0; row < 4; row++) update.row(row).liveness().set("v", "x").end();
            store.write(update.build());
            store.write(
                    table.update("k" + i)
                            .at(20)
                            .now(UpdateBuilder.LONG_AGO)
                            .deleteRow(1)
                            .row(2)
                            .unset("v")
                            .end()
                            .deleteRange(table.from(3), table.to(4))
                            .build());
        }
        store.flush();
        List<String> before = new ArrayList<>();
        List<String> after = new ArrayList<>();
        for (boolean purged : new boolean[] {false, true})
            try (UnfilteredPartitionIterator scan =
                    store.scan(DataRange.allData(table.metadata().partitioner), table.all())) {
                for (boolean first = true; scan.hasNext(); first = false)
                    try (UnfilteredRowIterator partition = scan.next()) {
                        if (first && purged) store.compact(List.of());
                        while (partition.hasNext())
                            (purged ? after : before)
                                    .add(partition.next().toString(table.metadata(), true));
                    }
            }
        assertThat(after).isEqualTo(before);
    }

    /** With timestamps that only grow, no purge at any time can be seen. */
    @Test
    default void randomHistoriesOfLongAgoLookAliveAsTheReferenceDoes() {
        long seed = Long.getLong(Differential.SEED, System.nanoTime());
        for (int history = 0; history < 20; history++) {
            Random random = new Random(seed + history);
            TestTable table = RangeTombstoneTests.table();
            TableStore store = kit().open(table);
            TableStore reference = kit().openReference(table);
            for (int time = 1; time <= 60; time++) {
                String key = "k" + random.nextInt(2);
                int c = random.nextInt(3);
                int d = random.nextInt(3);
                UpdateBuilder update =
                        table.update(key).at(time).now(UpdateBuilder.LONG_AGO + time);
                switch (random.nextInt(8)) {
                    case 0 -> update.deleteRow(c, d);
                    case 1 -> update.deleteRange(table.prefix(c));
                    case 2 -> update.row(c, d).unset("v").end();
                    case 3 -> update.ttl(5).row(c, d).liveness().set("v", time).end();
                    case 4 -> {
                        if (random.nextInt(3) == 0) update.deletePartition();
                    }
                    default -> update.row(c, d).liveness().set("v", time).end();
                }
                PartitionUpdate built = update.build();
                store.write(built);
                reference.write(built);
                switch (random.nextInt(8)) {
                    case 0 -> store.flush();
                    case 1 -> store.compact(List.of());
                    default -> {}
                }
                if (time % 10 == 0)
                    assertThat(live(store, table))
                            .as("seed " + (seed + history) + " at " + time)
                            .isEqualTo(live(reference, table));
            }
            store.close();
            reference.close();
        }
    }
}
