// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static dev.petra.engine.rocks.Tables.key;
import static dev.petra.engine.rocks.Tables.open;
import static dev.petra.engine.rocks.Tables.text;
import static dev.petra.engine.rocks.Tables.update;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.RangeEstimate;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.format.RowLayout;
import dev.petra.engine.rocks.read.Cursor;
import dev.petra.engine.rocks.read.ReadContext;
import dev.petra.engine.rocks.read.ReadSamples;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.RocksDBException;

/** What is this engine's own, beyond the conformance kit: files, damage, handles. */
class RocksStoreTest {
    private static final TableMetadata TABLE =
            Tables.table("CREATE TABLE emp (k text, c int, v text, PRIMARY KEY (k, c))");

    @TempDir Path directory;
    private StorageEngine engine;

    @BeforeEach
    void open_() {
        engine = Tables.engine();
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private Path store() {
        return directory.resolve("rocksdb").resolve("1");
    }

    private void fill(TableStore store, int rows) {
        for (int i = 0; i < rows; i++) {
            var update = update(TABLE, "k" + i % 10);
            update.row(i).add("v", "value " + i);
            store.write(update.build());
        }
    }

    private static String read(TableStore store, String key) {
        return text(store.read(key(TABLE, key), Slices.ALL, ColumnFilter.all(TABLE), false));
    }

    @Test
    void whatWasWrittenIsReadBackAfterReopening() {
        TableStore store = open(engine, store(), TABLE);
        fill(store, 100);
        String before = read(store, "k3");
        assertThat(before).contains("value 93");
        store.close();
        assertThat(read(open(engine, store(), TABLE), "k3")).isEqualTo(before);
    }

    /**
     * A prepared statement brings the version that it was prepared with, a read the newest: each
     * once had the other's layout built anew, under a lock.
     */
    @Test
    void versionsOfATableWithTheSameColumnsHaveOneForm() {
        TableStore store = open(engine, store(), TABLE);
        fill(store, 1);
        RowLayout form = Tables.context(store).catalog().layout(TABLE);
        TableMetadata commented = TABLE.unbuild().comment("another").build();
        TableMetadata wider = TABLE.unbuild().addRegularColumn("w", UTF8Type.instance).build();
        assertThat(Tables.context(store).catalog().layout(commented)).isSameAs(form);
        RowLayout wide = Tables.context(store).catalog().layout(wider);
        assertThat(wide).isNotSameAs(form);
        for (int i = 0; i < 3; i++) {
            assertThat(Tables.context(store).catalog().layout(TABLE)).isSameAs(form);
            assertThat(Tables.context(store).catalog().layout(commented)).isSameAs(form);
            assertThat(Tables.context(store).catalog().layout(wider)).isSameAs(wide);
        }
        // More of them than are kept.
        for (int i = 0; i < 20; i++)
            assertThat(
                            Tables.context(store)
                                    .catalog()
                                    .layout(TABLE.unbuild().comment("of " + i).build()))
                    .isSameAs(form);
        PartitionUpdate.SimpleBuilder update = update(wider, "k0");
        update.row(0).add("w", "wide");
        store.write(update.build());
        RowLayout known = Tables.context(store).catalog().layout(wider);
        assertThat(known.id(wider.getColumn(UTF8Type.instance.decompose("w")))).isEqualTo(1);
        assertThat(known.column(1)).isNotNull();
        assertThat(Tables.context(store).catalog().layout(TABLE).column(1)).isNull();
    }

    @Test
    void estimatesOfRanges() {
        TableStore store = open(engine, store(), TABLE);
        Token least = TABLE.partitioner.getMinimumToken();
        Range<Token> all = new Range<>(least, least);
        assertThat(store.estimate(all)).isEqualTo(new RangeEstimate(0, 0));
        for (int partition = 0; partition < 5_000; partition++)
            for (int row = 0; row < 3; row++) {
                var update = update(TABLE, "k" + partition);
                update.row(row).add("v", "value ".repeat(30) + partition);
                store.write(update.build());
            }
        Token middle = new Murmur3Partitioner.LongToken(0);
        for (boolean flushed : new boolean[] {false, true}) {
            if (flushed) store.compact(List.of());
            // RocksDB sizes a part of a write buffer by heights that it draws at random.
            for (Range<Token> half :
                    List.of(new Range<>(least, middle), new Range<>(middle, least)))
                assertThat(store.estimate(half).partitions())
                        .isBetween(flushed ? 1_500L : 1_000L, flushed ? 4_000L : 6_250L);
            assertThat(store.estimate(all).partitions())
                    .isBetween(flushed ? 3_500L : 2_000L, flushed ? 7_000L : 12_500L);
        }
        assertThat(store.estimate(all).meanPartitionBytes()).isBetween(20L, 600L);
        // So few that all of them are counted.
        Range<Token> few =
                new Range<>(
                        new Murmur3Partitioner.LongToken(0),
                        new Murmur3Partitioner.LongToken(1L << 58));
        long exact =
                IntStream.range(0, 5_000)
                        .filter(i -> few.contains(key(TABLE, "k" + i).getToken()))
                        .count();
        assertThat(store.estimate(few).partitions()).isEqualTo(exact);
    }

    @Test
    void aCopyIsAStoreOfItsOwn() throws IOException {
        TableStore store = open(engine, store(), TABLE);
        fill(store, 10);
        store.flush();
        // In the log only.
        fill(store, 20);
        TableMetadata other = TABLE.unbuild().id(TableId.generate()).build();
        StoreSpec copy = Tables.spec(directory.resolve("copy"), other);
        assertThatThrownBy(() -> engine.copyStore(store(), copy))
                .isInstanceOf(IllegalStateException.class);
        store.close();
        engine.copyStore(store(), copy);
        try (TableStore copied = engine.openStore(copy)) {
            assertThat(read(copied, "k3")).contains("value 3", "value 13");
            var update = update(other, "k3").timestamp(2_000_000);
            update.row(3).add("v", "changed");
            copied.write(update.build());
            copied.compact(List.of());
            assertThat(read(copied, "k3")).contains("changed");
        }
        TableStore again = open(engine, store(), TABLE);
        assertThat(read(again, "k3")).contains("value 3", "value 13").doesNotContain("changed");
        again.close();

        StoreSpec third = Tables.spec(directory.resolve("third"), other);
        assertThatThrownBy(() -> engine.copyStore(directory, third))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining("is no store of this engine");
        Path file = store().resolve(StoreDescriptor.NAME);
        String text = Files.readString(file);
        Tables.describe(store(), "Murmur3", "Random");
        assertThatThrownBy(() -> engine.copyStore(store(), third))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining("says partitioner");
        Files.writeString(file, text);
        Tables.describe(store(), "ready", "creating");
        assertThatThrownBy(() -> engine.copyStore(store(), third))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining("never completed");
        assertThat(third.directory()).doesNotExist();
    }

    /** A store whose disk fails for a moment would be taken for one that is being created. */
    @Test
    void whatCannotBeLookedAtIsNotMissing() throws IOException {
        Path loop = directory.resolve("loop");
        Files.createSymbolicLink(loop, loop);
        assertThatThrownBy(() -> new StoreDescriptor(Tables.spec(loop, TABLE)).prepare())
                .isInstanceOf(FSReadError.class);
    }

    /** Of two tables that one thread reads in turn, each has its own. */
    @Test
    void readsAreSampledForEachTable() {
        TableMetadata table =
                TableMetadata.builder("ks", "points")
                        .addPartitionKeyColumn("k", UTF8Type.instance)
                        .addRegularColumn("v", UTF8Type.instance)
                        .build();
        TableStore full = open(engine, store(), table);
        TableStore empty = open(engine, directory.resolve("empty"), table);
        assertThat(full.metrics())
                .containsEntry("sampled_reads", 0L)
                .doesNotContainKey("block_cache_hit_percent");
        for (int i = 0; i < 1_000; i++) {
            var update = update(table, "k" + i);
            update.row().add("v", "value " + i);
            full.write(update.build());
        }
        full.flush();
        full.compact(List.of());
        for (int i = 0; i < 200 * ReadSamples.ONE_IN; i++) {
            DecoratedKey key = key(table, (i % 4 == 0 ? "k" : "absent") + i % 1_000);
            for (TableStore store : List.of(full, empty)) {
                UnfilteredRowIterator rows =
                        store.read(key, Slices.ALL, ColumnFilter.all(table), false);
                if (rows != null) rows.close();
            }
        }
        Map<String, Long> metrics = full.metrics();
        assertThat(metrics.get("sampled_reads")).isBetween(100L, 400L);
        assertThat(metrics.get("sampled_filter_negatives"))
                .isBetween(metrics.get("sampled_reads") / 2, metrics.get("sampled_reads"));
        assertThat(metrics.get("filter_negative_percent")).isBetween(50L, 95L);
        assertThat(metrics.get("sampled_block_cache_hits")).isPositive();
        assertThat(metrics.get("block_cache_hit_percent")).isGreaterThan(50L);
        assertThat(empty.metrics().get("sampled_reads")).isBetween(100L, 400L);
        assertThat(empty.metrics())
                .containsEntry("sampled_block_cache_hits", 0L)
                .containsEntry("sampled_filter_positives", 0L);
    }

    @Test
    void metrics() throws RocksDBException {
        TableStore store = open(engine, store(), TABLE);
        fill(store, 100);
        assertThat(store.metrics()).containsEntry("unflushed_entries", 100L);
        store.flush();
        store.compact(List.of());
        Map<String, Long> metrics = store.metrics();
        assertThat(metrics).containsEntry("unflushed_entries", 0L).containsEntry("merges", 0L);
        assertThat(metrics.get("level_6_files")).isEqualTo(1);
        assertThat(metrics.get("level_6_bytes")).isPositive();
        assertThat(metrics.get("index_and_filter_bytes")).isNotNegative();
        // Read from a text, where a name that is not there would look like none.
        assertThat(
                        Tables.context(store)
                                .database()
                                .db
                                .getMapProperty(
                                        Tables.context(store).database().data, "rocksdb.cfstats"))
                .containsKeys("total-delays", "total-stops");
        store.close();
        assertThatThrownBy(store::metrics).isInstanceOf(IllegalStateException.class);
    }

    private static Cursor cursor(TableStore store) {
        return new ReadContext(Tables.context(store), ColumnFilter.all(TABLE)).open();
    }

    /** Whoever drops it must not wait: it may hold up the whole node. */
    @Test
    void aStoreThatIsReadIsDroppedOnceItsReaderEnds() {
        TableStore store = open(engine, store(), TABLE);
        fill(store, 1);
        Cursor outlives = cursor(store);
        assertThatThrownBy(store::drop).isInstanceOf(IllegalStateException.class);
        assertThat(store.spec().directory()).isNotEmptyDirectory();
        assertThatThrownBy(() -> open(engine, store(), TABLE))
                .hasMessageContaining("is already open");
        assertThatThrownBy(() -> cursor(store)).isInstanceOf(IllegalStateException.class);
        outlives.close();
        store.drop();
        assertThat(store.spec().directory()).doesNotExist();
        assertThat(open(engine, store(), TABLE).isEmpty()).isTrue();
    }

    /** As TRUNCATE does, for which whoever collects garbage ends. */
    @Test
    void aStoreIsDroppedWhileItsGarbageIsCollected() throws Exception {
        AtomicReference<Thread> collector = new AtomicReference<>();
        CountDownLatch isCollecting = new CountDownLatch(1);
        CountDownLatch isDropped = new CountDownLatch(1);
        StoreSpec plain = Tables.spec(store(), TABLE);
        TableStore store =
                engine.openStore(
                        new StoreSpec(
                                plain.directory(),
                                plain.columnFamily(),
                                1,
                                plain.metadata(),
                                () -> {
                                    // Others ask now and then, and are not to wait.
                                    if (Thread.currentThread() != collector.get()) return true;
                                    isCollecting.countDown();
                                    Uninterruptibles.awaitUninterruptibly(isDropped);
                                    return true;
                                }));
        fill(store, 10);
        store.write(update(TABLE, "k1").delete().build());
        AtomicBoolean isSwept = new AtomicBoolean();
        CompletableFuture<Void> collecting =
                CompletableFuture.runAsync(
                        () -> {
                            collector.set(Thread.currentThread());
                            store.collectGarbage(() -> isSwept.set(true));
                        });
        try {
            assertThat(isCollecting.await(1, TimeUnit.MINUTES)).isTrue();
            assertThatThrownBy(store::drop).isInstanceOf(IllegalStateException.class);
        } finally {
            isDropped.countDown();
        }
        assertThatThrownBy(() -> collecting.get(1, TimeUnit.MINUTES))
                .hasCauseInstanceOf(IllegalStateException.class)
                .hasMessageContaining("closed");
        assertThat(isSwept).isFalse();
        store.drop();
        assertThat(store()).doesNotExist();
        assertThatThrownBy(() -> store.collectGarbage(() -> {}))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("is closed");
        assertThat(store()).doesNotExist();
        assertThat(open(engine, store(), TABLE).isEmpty()).isTrue();
    }

    /** Between the rows and the files of its indexes nothing is in use. */
    @Test
    void aStoreIsDroppedWhileItsIndexesAreSwept() {
        TableStore store = open(engine, store(), TABLE);
        fill(store, 10);
        store.collectGarbage(store::drop);
        assertThat(store()).doesNotExist();
        assertThat(open(engine, store(), TABLE).isEmpty()).isTrue();
    }

    @Test
    void aReaderThatNeverEndsDoesNotHoldUpClosingForEver() {
        TableStore store = open(engine, store(), TABLE);
        fill(store, 1);
        Cursor leaked = cursor(store);
        Database database = leaked.database();
        assertThatThrownBy(() -> ((RocksStore) store).close(1))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("1 reads, writes or syncs have not ended");
        assertThatThrownBy(() -> cursor(store)).isInstanceOf(IllegalStateException.class);
        // Only a test can: the next process could open it.
        leaked.close();
        database.close();
        assertThat(read(open(engine, store(), TABLE), "k0")).contains("value 0");
    }

    @Test
    void anotherTablesDirectoryIsRefusedAndLeftAlone() throws IOException {
        open(engine, store(), TABLE).close();
        List<String> before = files();
        TableMetadata other = TABLE.unbuild().id(TableId.generate()).build();
        assertThatThrownBy(() -> open(engine, store(), other))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining(TABLE.id.toString())
                .hasMessageContaining("table_id");
        assertThat(files()).isEqualTo(before);
    }

    @Test
    void aNewerFormatIsRefusedAndLeftAlone() throws IOException {
        open(engine, store(), TABLE).close();
        Tables.describe(store(), "format=2", "format=4");
        List<String> before = files();
        assertThatThrownBy(() -> open(engine, store(), TABLE))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining("format 4")
                .hasMessageContaining("Use the version that wrote it");
        assertThat(files()).isEqualTo(before);
    }

    @Test
    void aForeignDirectoryIsRefusedAndLeftAlone() throws IOException {
        Files.createDirectories(store());
        Files.writeString(store().resolve("letters.txt"), "private");
        assertThatThrownBy(() -> open(engine, store(), TABLE))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining("no store of this engine");
        assertThat(files()).containsExactly("letters.txt");
    }

    @Test
    void aCrashDuringCreationIsCleanedUp() throws IOException {
        open(engine, store(), TABLE).close();
        Tables.describe(store(), "state=ready", "state=creating");
        TableStore store = open(engine, store(), TABLE);
        assertThat(store.isEmpty()).isTrue();
        fill(store, 10);
    }

    /** Else one flipped bit deleted the store, without a word. */
    @ParameterizedTest
    @ValueSource(strings = {"state=rfady", "stbte=ready", "state=ready ", "state=creatinf"})
    void aStateThatIsNoneDeletesNothing(String state) throws IOException {
        TableStore store = open(engine, store(), TABLE);
        fill(store, 10);
        store.close();
        Path file = store().resolve(StoreDescriptor.NAME);
        String sound = Files.readString(file);
        Tables.describe(store(), "state=ready", state);
        var before = files();
        assertThatThrownBy(() -> open(engine, store(), TABLE))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining(file + " is damaged");
        assertThat(files()).containsExactlyInAnyOrderElementsOf(before);
        Files.writeString(file, sound);
        assertThat(open(engine, store(), TABLE).isEmpty()).isFalse();
    }

    @Test
    void aCrashBeforeTheDirectorySaysWhoseItIsIsCleanedUp() throws IOException {
        Files.createDirectories(store());
        Files.writeString(store().resolve(StoreDescriptor.NAME + ".tmp"), "format=");
        TableStore store = open(engine, store(), TABLE);
        assertThat(store.isEmpty()).isTrue();
        fill(store, 10);
        assertThat(files())
                .contains(StoreDescriptor.NAME)
                .doesNotContain(StoreDescriptor.NAME + ".tmp");
    }

    @Test
    void aFlippedByteInAnSstIsReportedAndDoesNotEndTheProcess() throws IOException {
        TableStore store = open(engine, store(), TABLE);
        fill(store, 1_000);
        store.flush();
        store.close();
        Path sst = firstDataSst();
        try (RandomAccessFile file = new RandomAccessFile(sst.toFile(), "rw")) {
            file.seek(100);
            int b = file.read();
            file.seek(100);
            file.write(b ^ 0x01);
        }
        TableStore damaged = open(engine, store(), TABLE);
        assertThatThrownBy(damaged::verify)
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining(sst.getFileName().toString())
                .hasMessageContaining("ks.emp");
        assertThatThrownBy(
                        () -> {
                            for (int i = 0; i < 10; i++) read(damaged, "k" + i);
                        })
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining("Restore it from a snapshot");
    }

    @Test
    void aMissingSstIsReported() throws IOException {
        TableStore store = open(engine, store(), TABLE);
        fill(store, 1_000);
        store.flush();
        store.close();
        Path sst = firstDataSst();
        Files.delete(sst);
        assertThatThrownBy(() -> open(engine, store(), TABLE))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining(sst.getFileName().toString());
    }

    @Test
    void aMissingManifestIsReportedNotTakenForANewStore() throws IOException {
        TableStore store = open(engine, store(), TABLE);
        fill(store, 10);
        store.close();
        Files.delete(store().resolve("CURRENT"));
        assertThatThrownBy(() -> open(engine, store(), TABLE))
                .isInstanceOfAny(CorruptStoreException.class, Error.class)
                .hasMessageContaining("CURRENT");
    }

    @Test
    void closingWaitsForAnOpenIterator() throws InterruptedException {
        TableStore store = open(engine, store(), TABLE);
        fill(store, 100);
        UnfilteredRowIterator rows =
                store.read(key(TABLE, "k1"), Slices.ALL, ColumnFilter.all(TABLE), false);
        Thread closer = new Thread(store::drop);
        closer.start();
        Tables.await(
                "the end of reads",
                () -> catchThrowable(() -> read(store, "k1")) instanceof IllegalStateException);
        assertThat(rows.next()).isNotNull();
        rows.close();
        closer.join();
        // It may have waited for as long as it does.
        store.drop();
        assertThat(store()).doesNotExist();
    }

    @Test
    void aWriteThatHadToWaitForRoomIsWrittenWhole() throws Exception {
        engine.close();
        engine =
                Tables.engine(
                        java.util.Map.of(
                                "memory", "32MiB",
                                "write_buffer", "64KiB",
                                "write_stall_timeout", "2m"));
        TableStore store = open(engine, store(), TABLE);
        Tables.context(store).database().db.pauseBackgroundWork();
        Thread writer = new Thread(() -> fill(store, 5_000));
        writer.start();
        writer.join(500);
        assertThat(writer.isAlive()).describedAs("waits for room").isTrue();
        Tables.context(store).database().db.continueBackgroundWork();
        writer.join();
        for (int i = 0; i < 10; i++) {
            String rows = read(store, "k" + i);
            for (int j = i; j < 5_000; j += 10) assertThat(rows).contains("v=value " + j + " ts");
        }
    }

    @Test
    void closingFailsTheWritersThatWaitForAGroupsSync() throws Exception {
        engine.walSync(WalSync.GROUP, Duration.ofHours(1));
        TableStore store = open(engine, store(), TABLE);
        List<Throwable> failures = new java.util.concurrent.CopyOnWriteArrayList<>();
        Thread writer =
                new Thread(
                        () -> {
                            try {
                                fill(store, 1_000_000);
                            } catch (RuntimeException e) {
                                failures.add(e);
                            }
                        });
        writer.start();
        writer.join(200);
        Thread closer = new Thread(store::close);
        closer.start();
        // It waits for no group's sync, which comes after an hour.
        closer.join(TimeUnit.MINUTES.toMillis(2));
        assertThat(closer.isAlive()).isFalse();
        writer.join();
        assertThat(failures).hasSize(1).first().isInstanceOf(IllegalStateException.class);
    }

    /**
     * One row is read by two gets here, the partition's record and the row; an update that deletes
     * the partition and writes the row anew comes between them.
     */
    @Test
    void aRowIsNeverReadWithoutTheDeletionThatCameWithIt() throws Exception {
        TableMetadata table =
                Tables.table("CREATE TABLE t (k int, c int, a int, b int, PRIMARY KEY (k, c))");
        TableStore store = open(engine, store(), table);
        AtomicBoolean stop = new AtomicBoolean();
        AtomicInteger written = new AtomicInteger();
        Thread writer =
                new Thread(
                        () -> {
                            for (int i = 1; !stop.get(); i++) {
                                // Another partition now and then: few fragments in each row.
                                var both = update(table, i / 20).timestamp(3L * i);
                                both.row(1).add("a", i).add("b", i);
                                store.write(both.build());
                                var anew = update(table, i / 20).timestamp(3L * i + 1).delete();
                                anew.timestamp(3L * i + 2).row(1).add("a", -i);
                                store.write(anew.build());
                                written.set(i);
                            }
                        });
        ColumnFilter all = ColumnFilter.all(table);
        Slices row =
                Slices.with(table.comparator, Slice.make(Clustering.make(ByteBufferUtil.bytes(1))));
        writer.start();
        int seen = 0;
        long end = System.nanoTime() + 1_500_000_000L;
        while ((System.nanoTime() < end || seen <= 100) && writer.isAlive()) {
            int partition = written.get() / 20;
            try (UnfilteredRowIterator rows = store.read(key(table, partition), row, all, false)) {
                if (rows == null || !rows.hasNext()) continue;
                Row found = (Row) rows.next();
                var a = found.getCell(table.getColumn(ByteBufferUtil.bytes("a")));
                var b = found.getCell(table.getColumn(ByteBufferUtil.bytes("b")));
                int valueOfA = ByteBufferUtil.toInt(a.buffer());
                if (valueOfA < 0) assertThat(b).describedAs("b beside a = %d", valueOfA).isNull();
                else assertThat(ByteBufferUtil.toInt(b.buffer())).isEqualTo(valueOfA);
                seen++;
            }
        }
        stop.set(true);
        writer.join();
        assertThat(seen).isGreaterThan(100);
    }

    @Test
    void groupSyncAcknowledgesEveryWriter() throws InterruptedException {
        engine.walSync(WalSync.GROUP, Duration.ofMillis(5));
        TableStore store = open(engine, store(), TABLE);
        List<Thread> writers =
                java.util.stream.IntStream.range(0, 4)
                        .mapToObj(i -> new Thread(() -> fill(store, 20)))
                        .toList();
        writers.forEach(Thread::start);
        for (Thread writer : writers) writer.join();
        assertThat(store.statistics().writes()).isEqualTo(80);
    }

    private Path firstDataSst() throws IOException {
        try (var files = Files.list(store())) {
            return files.filter(f -> f.toString().endsWith(".sst"))
                    .max(java.util.Comparator.comparingLong(f -> f.toFile().length()))
                    .orElseThrow();
        }
    }

    private List<String> files() throws IOException {
        try (var files = Files.list(store())) {
            return files.map(f -> f.getFileName().toString()).sorted().toList();
        }
    }
}
