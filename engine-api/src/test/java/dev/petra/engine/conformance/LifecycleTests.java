// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.stream.SliceRanges;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.LocalPartitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.schema.TableMetadata;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;

/** Opening, closing, dropping: of stores and of the engine. */
public interface LifecycleTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    private static void write(TableStore store, TestTable table, String key, int row) {
        store.write(table.update(key).row(row).liveness().set("v", "x").build());
    }

    private static PartitionContent read(TableStore store, TestTable table, String key) {
        return PartitionContent.of(store.read(table.key(key), Slices.ALL, table.all(), false));
    }

    private static PartitionContent found(TableStore store, TestTable table, String key) {
        PartitionContent content = read(store, table, key);
        if (content == null) throw new AssertionError("Nothing is there of partition " + key);
        return content;
    }

    // Opening

    @Test
    default void openingMakesTheDirectory() {
        TestTable table = WriteTests.rows();
        Path directory = kit().newDirectory();
        try (TableStore store = kit().engine().openStore(table.spec(directory))) {
            assertThat(directory).isDirectory();
            assertThat(store.spec().directory()).isEqualTo(directory);
            assertThat(store.isEmpty()).isTrue();
        }
    }

    @Test
    default void aStoreOpenedAgainHasEverything() {
        TestTable table = WriteTests.rows();
        ComparedStore store = kit().compared(table);
        for (int round = 0; round < 5; round++) {
            store.write(
                    table.update("a")
                            .at(round)
                            .row(round)
                            .liveness()
                            .set("v", "x")
                            .end()
                            .deleteRange(table.from(10 * round + 10), table.to(10 * round + 15))
                            .staticRow()
                            .set("s", "x" + round)
                            .build());
            store.write(table.update("b" + round).at(round).deletePartition().build());
            if (round % 2 == 0) store.flush();
            store.reopen();
            assertThat(store.read(table.key("a")).rows()).hasSize(round + 1);
            assertThat(store.scan()).hasSize(round + 2);
        }
    }

    @Test
    default void anEngineOpenedAgainHasEverything() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        write(store, table, "a", 1);
        StoreSpec spec = store.spec();
        kit().restart();
        TableStore again = kit().engine().openStore(spec);
        assertThat(found(again, table, "a").rows()).hasSize(1);
    }

    @Test
    default void aSecondOpenOfADirectoryIsRefused() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        write(store, table, "a", 1);
        assertThatThrownBy(() -> kit().engine().openStore(store.spec()))
                .isInstanceOf(IllegalStateException.class);
        assertThat(found(store, table, "a").rows()).hasSize(1);
    }

    /** Rocksandra 20: the path was by name, and a table made again saw the old one's data. */
    @Test
    default void aDirectoryOfAnotherTableIsRefusedAndLeftAlone() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        write(store, table, "a", 1);
        StoreSpec spec = store.spec();
        store.close();
        Path directory = spec.directory();
        TestTable sameNameAgain = WriteTests.rows();
        TableMetadata metadata = table.metadata();
        TestTable otherPartitioner =
                TestTable.of(
                        metadata.unbuild()
                                .partitioner(new LocalPartitioner(metadata.partitionKeyType))
                                .build());
        List<StoreSpec> others =
                List.of(
                        sameNameAgain.spec(directory),
                        new StoreSpec(directory, "t.index", 1, table.ref()),
                        new StoreSpec(directory, "t", 2, table.ref()),
                        otherPartitioner.spec(directory));
        for (StoreSpec other : others)
            assertThatThrownBy(() -> kit().engine().openStore(other))
                    .as("opening " + other)
                    .isInstanceOf(CorruptStoreException.class)
                    .hasMessageContaining(directory.getFileName().toString());
        TableStore again = kit().engine().openStore(spec);
        assertThat(found(again, table, "a").rows()).hasSize(1);
    }

    /** Rocksandra 21: a failure to open was printed and ignored. */
    @Test
    default void aDirectoryThatIsNoStoreIsRefusedAndLeftAlone() throws IOException {
        TestTable table = WriteTests.rows();
        Path directory = Files.createDirectory(kit().newDirectory());
        Path file = Files.writeString(directory.resolve("letter.txt"), "hello");
        assertThatThrownBy(() -> kit().engine().openStore(table.spec(directory)))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining(directory.getFileName().toString());
        assertThat(directory).isDirectoryContaining(file::equals);
        assertThat(file).hasContent("hello");
    }

    @Test
    default void storesOfOneEngineShareNoData() {
        TestTable table = WriteTests.rows();
        TestTable index = WriteTests.rows();
        TableStore one = kit().open(table);
        TableStore two =
                kit().engine().openStore(new StoreSpec(kit().newDirectory(), "t", 2, table.ref()));
        TableStore three = kit().open(index);
        write(one, table, "a", 1);
        write(three, index, "a", 3);
        assertThat(read(two, table, "a")).isNull();
        assertThat(found(three, index, "a").hasRow(3)).isTrue();
        one.drop();
        assertThat(found(three, index, "a").hasRow(3)).isTrue();
        write(two, table, "a", 2);
        assertThat(found(two, table, "a").hasRow(1)).isFalse();
    }

    // Empty

    @Test
    default void aStoreIsEmptyUntilTheFirstWriteAndNeverAfterARestart() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        assertThat(store.isEmpty()).isTrue();
        store = kit().reopen(store);
        assertThat(store.isEmpty()).isTrue();
        assertThat(read(store, table, "a")).isNull();
        store.write(table.update("a").deletePartition().build());
        assertThat(store.isEmpty()).isFalse();
        store = kit().reopen(store);
        assertThat(store.isEmpty()).isFalse();
        store.flush();
        store.compact(List.of());
        store = kit().reopen(store);
        assertThat(store.isEmpty()).isFalse();
    }

    @Test
    default void mayContainNeverDeniesWhatIsThere() {
        TestTable table = WriteTests.rows();
        ComparedStore store = kit().compared(table);
        for (int i = 0; i < 200; i++) {
            UpdateBuilder update = table.update("key " + i);
            switch (i % 5) {
                case 0 -> update.deletePartition();
                case 1 -> update.staticRow().set("s", "x").end();
                case 2 -> update.deleteRange(table.from(1), table.to(2));
                case 3 -> update.deleteRow(1);
                default -> update.row(1).set("v", "x").end();
            }
            store.write(update.build());
        }
        store.everywhere(
                () -> {
                    for (int i = 0; i < 200; i++)
                        assertThat(store.store().mayContain(table.key("key " + i))).isTrue();
                    return null;
                });
    }

    // Closing

    /** Rocksandra 23: use after close crashed. */
    @Test
    default void aClosedStoreRefusesEverything() {
        TestTable table = WriteTests.rows();
        TableStore closed = kit().open(table);
        write(closed, table, "a", 1);
        closed.close();
        checkRefusals(table, closed);
        closed.close();
        TableStore dropped = kit().open(table);
        write(dropped, table, "a", 1);
        dropped.drop();
        checkRefusals(table, dropped);
    }

    private void checkRefusals(TestTable table, TableStore store) {
        Map<String, ThrowingCallable> calls = new LinkedHashMap<>();
        calls.put("write", () -> write(store, table, "b", 1));
        calls.put("read", () -> read(store, table, "a"));
        calls.put(
                "scan",
                () -> store.scan(DataRange.allData(table.metadata().partitioner), table.all()));
        calls.put("mayContain", () -> store.mayContain(table.key("a")));
        calls.put("isEmpty", store::isEmpty);
        calls.put("syncLog", store::syncLog);
        calls.put("flush", store::flush);
        calls.put("compact", () -> store.compact(List.of()));
        calls.put("checkpoint", () -> store.checkpoint(kit().newDirectory()));
        calls.put("verify", store::verify);
        calls.put("statistics", store::statistics);
        if (kit().capabilities().retainRanges())
            calls.put("retainRanges", () -> store.retainRanges(List.of()));
        if (kit().capabilities().streams()) {
            calls.put("sizes", () -> store.sizes(RangeTests.everything()));
            calls.put(
                    "send", () -> store.send(List.of(new SliceRanges(RangeTests.everything(), 0))));
        }
        calls.forEach(
                (name, call) ->
                        assertThatThrownBy(call)
                                .as(name)
                                .isInstanceOf(IllegalStateException.class));
    }

    @Test
    default void closingWaitsForReadersWhoseIteratorsStayGood() throws Exception {
        checkReadersDuring(TableStore::close);
    }

    @Test
    default void droppingWaitsForReadersWhoseIteratorsStayGood() throws Exception {
        checkReadersDuring(
                store -> {
                    while (true) {
                        try {
                            store.drop();
                            return;
                        } catch (IllegalStateException e) {
                            // Read for longer than it waits: whoever drops asks again.
                            LockSupport.parkNanos(1_000_000);
                        }
                    }
                });
    }

    @Test
    default void closingTheEngineWaitsForReaders() throws Exception {
        checkReadersDuring(store -> kit().engine().close());
        kit().restart();
    }

    private void checkReadersDuring(Consumer<TableStore> end) throws Exception {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        UpdateBuilder update = table.update("a");
        for (int i = 0; i < 2000; i++) update.row(i).liveness().set("v", "value " + i).end();
        store.write(update.build());
        write(store, table, "b", 1);
        UnfilteredRowIterator rows = store.read(table.key("a"), Slices.ALL, table.all(), false);
        UnfilteredPartitionIterator scan =
                store.scan(DataRange.allData(table.metadata().partitioner), table.all());
        CompletableFuture<Void> ended = new CompletableFuture<>();
        Thread ending =
                new Thread(
                        () -> {
                            try {
                                end.accept(store);
                                ended.complete(null);
                            } catch (RuntimeException | Error e) {
                                ended.completeExceptionally(e);
                            }
                        },
                        "ending");
        ending.start();
        List<PartitionContent> scanned;
        PartitionContent content;
        try {
            assertThatThrownBy(() -> ended.get(200, TimeUnit.MILLISECONDS))
                    .as("waiting for readers")
                    .isInstanceOf(TimeoutException.class);
        } finally {
            content = PartitionContent.of(rows);
            scanned = PartitionContent.listOf(scan);
        }
        assertThat(content.rows()).hasSize(2000);
        assertThat(scanned).hasSize(2);
        ended.get(2, TimeUnit.MINUTES);
        assertThatThrownBy(() -> read(store, table, "a")).isInstanceOf(IllegalStateException.class);
    }

    @Test
    default void closingTheEngineClosesItsStoresAndLosesNothing() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        write(store, table, "a", 1);
        kit().engine().close();
        kit().engine().close();
        assertThatThrownBy(() -> read(store, table, "a")).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(() -> kit().engine().openStore(store.spec()))
                .isInstanceOf(IllegalStateException.class);
        kit().restart();
        assertThat(found(kit().engine().openStore(store.spec()), table, "a").rows()).hasSize(1);
    }

    /** Metrics and settings are asked of an engine to the very end of a node. */
    @Test
    default void aClosedEngineStillAnswers() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        write(store, table, "a", 1);
        var engine = kit().engine();
        engine.close();
        for (int time = 0; time < 2; time++) {
            engine.compactionThroughput(1 << 20);
            engine.compactionThroughput(Long.MAX_VALUE);
            engine.walSync(WalSync.PERIODIC, Duration.ofSeconds(1));
            assertThat(engine.statistics()).isNotNull();
            assertThat(engine.metrics()).isNotNull();
            assertThat(engine.backgroundTasks()).isEmpty();
            assertThat(engine.settingsInForce()).isNotNull();
            engine.close();
        }
        kit().restart();
    }

    // Iterators

    /** One that went on after it was closed read memory that was another's. */
    @Test
    default void aClosedPartitionIteratorRefusesToGoOnAndHarmsNoOther() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        fillForIterators(store, table);
        List<Slices> slices =
                List.of(
                        Slices.ALL,
                        table.slices(table.from(5), table.to(5)),
                        table.slices(table.prefix(1), table.prefix(5), table.prefix(300)));
        for (String key : List.of("a", "ranges"))
            for (Slices each : slices)
                for (boolean reversed : new boolean[] {false, true})
                    for (int steps : new int[] {0, 1, 2, 40, 10_000}) {
                        UnfilteredRowIterator closed =
                                store.read(table.key(key), each, table.all(), reversed);
                        for (int i = 0; i < steps && closed.hasNext(); i++) closed.next();
                        // One that knows its next row already.
                        if (steps == 40) assertThat(closed.hasNext()).isIn(true, false);
                        closed.close();
                        closed.close();
                        checkOthersBeside(closed, store, table);
                        closed.close();
                        checkOthersBeside(closed, store, table);
                    }
    }

    private static void fillForIterators(TableStore store, TestTable table) {
        for (String key : List.of("a", "b", "ranges")) {
            UpdateBuilder update = table.update(key).staticRow().set("s", key).end();
            for (int i = 0; i < 400; i++)
                update.row(i).liveness().set("v", key + " value " + i).end();
            if (key.equals("ranges"))
                for (int i = 0; i < 400; i += 10)
                    update.at(9).deleteRange(table.from(i), table.to(i + 3));
            store.write(update.build());
        }
    }

    /** One that was at its end may say so; none gives anything more. */
    private static void checkClosed(UnfilteredRowIterator rows) {
        try {
            assertThat(rows.hasNext()).isFalse();
            assertThatThrownBy(rows::next).isInstanceOf(NoSuchElementException.class);
        } catch (IllegalStateException e) {
            assertThatThrownBy(rows::next).isInstanceOf(IllegalStateException.class);
        }
    }

    private static void checkOthersBeside(
            UnfilteredRowIterator closed, TableStore store, TestTable table) {
        int rows = 0;
        try (UnfilteredRowIterator other =
                store.read(table.key("b"), Slices.ALL, table.all(), false)) {
            while (other.hasNext()) {
                if (rows < 3 || rows == 200) checkClosed(closed);
                String row = other.next().toString(table.metadata(), true);
                assertThat(row).contains("b value " + rows);
                rows++;
            }
        }
        assertThat(rows).isEqualTo(400);
    }

    @Test
    default void aClosedScanRefusesToGoOnAndSoDoItsPartitions() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        fillForIterators(store, table);
        DataRange everything = DataRange.allData(table.metadata().partitioner);
        for (int partitions = 0; partitions <= 3; partitions++)
            for (int steps : new int[] {0, 1, 40, 10_000}) {
                UnfilteredPartitionIterator scan = store.scan(everything, table.all());
                UnfilteredRowIterator last = null;
                for (int i = 0; i < partitions; i++) {
                    assertThat(scan.hasNext()).isTrue();
                    last = scan.next();
                    for (int j = 0; j < steps && last.hasNext(); j++) last.next();
                    last.close();
                    // Over the same cursor, perhaps, as the partitions that are to come.
                    checkClosed(last);
                    last.close();
                }
                scan.close();
                scan.close();
                if (last != null) checkOthersBeside(last, store, table);
                assertThatThrownBy(scan::hasNext).isInstanceOf(IllegalStateException.class);
                assertThatThrownBy(scan::next).isInstanceOf(IllegalStateException.class);
            }
        // One of a scan that was closed before it.
        UnfilteredPartitionIterator scan = store.scan(everything, table.all());
        UnfilteredRowIterator partition = scan.next();
        partition.next();
        scan.close();
        assertThatThrownBy(
                        () -> {
                            while (partition.hasNext()) partition.next();
                        })
                .isInstanceOf(IllegalStateException.class);
        partition.close();
    }

    // Dropping

    /** Rocksandra 20: DROP TABLE left the files, and the data came back. */
    @Test
    default void aDroppedStoreLeavesNothingAndComesBackEmpty() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        write(store, table, "a", 1);
        store.flush();
        write(store, table, "b", 1);
        StoreSpec spec = store.spec();
        store.drop();
        assertThat(spec.directory()).doesNotExist();
        store.drop();
        TableStore again = kit().engine().openStore(spec);
        assertThat(again.isEmpty()).isTrue();
        assertThat(read(again, table, "a")).isNull();
    }

    @Test
    default void aClosedStoreCanBeDropped() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        write(store, table, "a", 1);
        store.close();
        store.drop();
        assertThat(store.spec().directory()).doesNotExist();
    }

    @Test
    default void deletingAStoreThatIsNotOpenRemovesItsFiles() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        write(store, table, "a", 1);
        Path directory = store.spec().directory();
        assertThatThrownBy(() -> kit().engine().deleteStore(directory))
                .isInstanceOf(IllegalStateException.class);
        assertThat(found(store, table, "a").rows()).hasSize(1);
        store.close();
        kit().engine().deleteStore(directory);
        assertThat(directory).doesNotExist();
        kit().engine().deleteStore(directory);
    }

    // Maintenance

    @Test
    default void maintenanceOfAnEmptyStoreIsHarmless() {
        TestTable table = WriteTests.rows();
        ComparedStore store = kit().compared(table);
        for (int i = 0; i < 2; i++) {
            store.store().syncLog();
            store.flush();
            store.compact();
            store.store().verify();
        }
        assertThat(store.store().isEmpty()).isTrue();
        assertThat(store.scanEverywhere()).isEmpty();
    }

    @Test
    default void maintenanceChangesNoAnswer() {
        TestTable table = RangeTombstoneTests.table();
        ComparedStore store = kit().compared(table);
        for (int i = 0; i < 30; i++) {
            store.write(RangeTombstoneTests.grid(table, "a" + i % 10));
            store.write(
                    table.update("a" + i % 7)
                            .at(i)
                            .deleteRange(table.from(i % 4), table.to(i % 4 + 1))
                            .deleteRow(i % 5, 2)
                            .build());
            switch (i % 4) {
                case 0 -> store.store().syncLog();
                case 1 -> store.flush();
                case 2 ->
                        store.store()
                                .compact(
                                        List.of(
                                                new Range<>(
                                                        TestTable.token(-i * 1_000_000L),
                                                        TestTable.token(i * 1_000_000L))));
                default -> store.compact();
            }
            store.scan();
        }
        store.store().verify();
        assertThat(store.scanEverywhere()).hasSize(10);
    }

    @Test
    default void everySyncModeTakesWritesAndChangesWhileOpen() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        int row = 0;
        for (WalSync mode :
                List.of(WalSync.BATCH, WalSync.GROUP, WalSync.PERIODIC, WalSync.BATCH)) {
            kit().engine().walSync(mode, Duration.ofMillis(5));
            write(store, table, "a", row++);
            store.syncLog();
            write(store, table, "a", row++);
        }
        store = kit().reopen(store);
        assertThat(found(store, table, "a").rows()).hasSize(row);
    }

    @Test
    default void aThroughputLimitLetsWorkBeDone() {
        TestTable table = WriteTests.rows();
        ComparedStore store = kit().compared(table);
        kit().engine().compactionThroughput(64L << 20);
        store.write(table.update("a").row(1).set("v", "x".repeat(100_000)).build());
        assertThat(store.everywhere(table.key("a")).rows()).hasSize(1);
        kit().engine().compactionThroughput(Long.MAX_VALUE);
        store.everywhere(table.key("a"));
    }

    // Checkpoints

    @Test
    default void aCheckpointIsAStoreOfItsOwn() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        write(store, table, "flushed", 1);
        store.flush();
        write(store, table, "fresh", 1);
        store.write(table.update("deleted").at(5).deletePartition().build());
        Path target = kit().newDirectory();
        store.checkpoint(target);
        write(store, table, "later", 1);
        store.write(table.update("flushed").at(9).deletePartition().build());
        TableStore copy = kit().engine().openStore(table.spec(target));
        assertThat(found(copy, table, "flushed").rows()).hasSize(1);
        assertThat(found(copy, table, "fresh").rows()).hasSize(1);
        assertThat(found(copy, table, "deleted").deletion().isLive()).isFalse();
        assertThat(read(copy, table, "later")).isNull();
        assertThat(copy.isEmpty()).isFalse();
        write(copy, table, "copy's own", 1);
        copy.compact(List.of());
        assertThat(read(store, table, "copy's own")).isNull();
        store.drop();
        copy = kit().reopen(copy);
        assertThat(found(copy, table, "flushed").rows()).hasSize(1);
        assertThat(found(copy, table, "copy's own").rows()).hasSize(1);
    }

    @Test
    default void aCheckpointOfAnEmptyStoreIsAnEmptyStore() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        Path target = kit().newDirectory();
        store.checkpoint(target);
        TableStore copy = kit().engine().openStore(table.spec(target));
        assertThat(copy.isEmpty()).isTrue();
    }

    @Test
    default void aCheckpointIntoSomethingThatExistsIsRefusedAndLeavesItAlone() throws IOException {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        write(store, table, "a", 1);
        Path empty = Files.createDirectory(kit().newDirectory());
        Path full = Files.createDirectory(kit().newDirectory());
        Files.writeString(full.resolve("letter.txt"), "hello");
        Path file = Files.writeString(kit().newDirectory(), "hello");
        for (Path target : List.of(empty, full, file))
            assertThatThrownBy(() -> store.checkpoint(target)).isInstanceOf(Throwable.class);
        assertThat(empty).isEmptyDirectory();
        try (Stream<Path> files = Files.list(full)) {
            assertThat(files).hasSize(1);
        }
        assertThat(full.resolve("letter.txt")).hasContent("hello");
        assertThat(file).hasContent("hello");
        assertThat(found(store, table, "a").rows()).hasSize(1);
    }

    @Test
    default void aCheckpointWithoutAPlaceFailsAndLeavesNothing() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        write(store, table, "a", 1);
        Path missing = kit().newDirectory();
        assertThatThrownBy(() -> store.checkpoint(missing.resolve("below").resolve("it")))
                .isInstanceOf(Throwable.class);
        assertThat(missing.resolve("below").resolve("it")).doesNotExist();
        assertThat(found(store, table, "a").rows()).hasSize(1);
    }

    // Statistics

    @Test
    default void statisticsAreSane() {
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        StoreStatistics before = store.statistics();
        for (int i = 0; i < 500; i++) write(store, table, "key " + i, i);
        for (int i = 0; i < 50; i++) read(store, table, "key " + i);
        StoreStatistics after = store.statistics();
        assertThat(after.writes() - before.writes()).isEqualTo(500);
        assertThat(after.reads() - before.reads()).isEqualTo(50);
        store.flush();
        StoreStatistics flushed = store.statistics();
        assertThat(flushed.estimatedPartitions()).isBetween(1L, 5000L);
        assertThat(flushed.estimatedKeys()).isBetween(1L, 50_000L);
        for (StoreStatistics statistics : List.of(before, after, flushed)) {
            assertThat(statistics.liveDataBytes()).isNotNegative();
            assertThat(statistics.diskBytes()).isGreaterThanOrEqualTo(statistics.liveDataBytes());
            assertThat(statistics.memoryBytes()).isNotNegative();
            assertThat(statistics.pendingCompactionBytes()).isNotNegative();
        }
        var engine = kit().engine().statistics();
        assertThat(engine.openStores()).isEqualTo(1);
        assertThat(engine.memoryBudgetBytes()).isPositive();
        assertThat(engine.cacheBytes()).isNotNegative();
        assertThat(engine.writeBufferBytes()).isNotNegative();
        store.close();
        assertThat(kit().engine().statistics().openStores()).isZero();
    }

    // Damage

    @Test
    default void aDamagedFileIsNoticedAndNamed() throws IOException {
        if (!kit().capabilities().findsDamage()) return;
        TestTable table = WriteTests.rows();
        TableStore store = kit().open(table);
        // Random, so that compression leaves it the largest file there is.
        Random random = new Random(1);
        for (int i = 0; i < 2000; i++) {
            byte[] value = new byte[200];
            random.nextBytes(value);
            store.write(table.update("key " + i).row(i).set("v", ByteBuffer.wrap(value)).build());
        }
        store.flush();
        store.compact(List.of());
        store.verify();
        StoreSpec spec = store.spec();
        store.close();
        for (Path file = largestFile(spec.directory()); ; file = largestFile(spec.directory())) {
            byte[] bytes = Files.readAllBytes(file);
            bytes[bytes.length / 3] ^= 0x10;
            Files.write(file, bytes);
            Throwable thrown = catchThrowable(() -> verifyAnew(spec));
            if (thrown == null) {
                // No file of the store: a compaction left it, which the close ended.
                assertThat(file).doesNotExist();
                continue;
            }
            assertThat(thrown)
                    .isInstanceOf(CorruptStoreException.class)
                    .hasMessageContaining(file.getFileName().toString());
            return;
        }
    }

    private void verifyAnew(StoreSpec spec) {
        try (TableStore again = kit().engine().openStore(spec)) {
            again.verify();
        }
    }

    /** But for logs, which may hold what does not count any more. */
    private static Path largestFile(Path directory) throws IOException {
        Path largest = null;
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file :
                    files.filter(Files::isRegularFile)
                            .filter(file -> !file.toString().endsWith(".log"))
                            .toList())
                if (largest == null || Files.size(file) > Files.size(largest)) largest = file;
        }
        assertThat(largest).as("a data file").isNotNull();
        return largest;
    }
}
