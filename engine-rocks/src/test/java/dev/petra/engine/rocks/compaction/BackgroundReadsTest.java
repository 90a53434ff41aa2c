// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.index.SweepCheck;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.ReopenableDatabase;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.PerfContext;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/** What reads all of a table in the background is in nobody's way. */
@Tag("slow")
class BackgroundReadsTest {
    private static final long LONG_AGO = UpdateBuilder.LONG_AGO;
    private static final String OPTIONS =
            " WITH gc_grace_seconds = 3600 AND compression = {'enabled': 'false'}";

    /** So many rows are in the cache. */
    private static final int READ_AGAIN = 200;

    @TempDir Path directory;

    private static String noise(long seed) {
        byte[] noise = new byte[1_000];
        new Random(seed).nextBytes(noise);
        return HexFormat.of().formatHex(noise);
    }

    /** A store with 4,000 partitions of 2 KB, whose files nobody has read yet. */
    private TableStore filled(StorageEngine engine, TestTable table, PartitionUpdate... more) {
        TableStore store = engine.openStore(table.spec(directory.resolve("t")));
        for (int i = 0; i < 4_000; i++)
            store.write(table.update("k" + i).at(1).row().set("v", noise(i)).build());
        for (PartitionUpdate update : more) store.write(update);
        store.flush();
        store.close();
        return engine.openStore(table.spec(directory.resolve("t")));
    }

    /** All of it is read; that would fill a cache. */
    @Test
    void whoHandsDownLeavesTheCacheToReaders() throws RocksDBException {
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)" + OPTIONS);
        try (StorageEngine engine = Tables.engine(Map.of("memory", "64MiB"))) {
            PartitionUpdate deletion =
                    table.update("k1").at(2).now(LONG_AGO).deletePartition().build();
            TableStore store = filled(engine, table, deletion);
            Database database = Tables.context(store).database();
            int files = database.dataFiles().size();
            long before = cacheUsage(store);
            Pacer pace = new Pacer(Tables.context(store), database, false);
            new CoveringDeletions(Tables.context(store)).run(database, LONG_AGO + 1, pace);
            assertThat(cacheUsage(store) - before).isLessThan(1 << 20);
            // The push-down took place.
            store.flush();
            assertThat(database.dataFiles()).hasSize(files + 1);
        }
    }

    /** An iterator that is open for hours keeps files that nobody needs. */
    @Test
    void aSweepOfLargeCellsThatOpensItsIteratorAgainLooksAtAll() throws RocksDBException {
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)");
        try (StorageEngine engine = Tables.engine(Map.of())) {
            TableStore store = engine.openStore(table.spec(directory.resolve("t")));
            for (int time = 1; time <= 3; time++)
                for (int i = 0; i < 50; i++)
                    store.write(
                            table.update("k" + i)
                                    .at(time)
                                    .row()
                                    .set("v", time + "x".repeat(100_000))
                                    .build());
            StoreContext context = Tables.context(store);
            Database database = context.database();
            assertThat(largeCells(database)).isEqualTo(150);
            AtomicLong now = new AtomicLong();
            new LargeCellSweep(context, () -> now.addAndGet(TimeUnit.MINUTES.toNanos(2)))
                    .run(database, new Pacer(context, database, false));
            assertThat(largeCells(database)).isEqualTo(50);
            for (int i = 0; i < 50; i++)
                try (var rows = store.read(table.key("k" + i), Slices.ALL, table.all(), false)) {
                    assertThat(((Row) rows.next()).cells().iterator().next().valueSize())
                            .isEqualTo(100_001);
                }
        }
    }

    /** It would read all large cells again and again, as long as streams come. */
    @Test
    void aSweepOfLargeCellsThatMetAStreamRests() throws RocksDBException {
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)" + OPTIONS);
        try (StorageEngine engine = Tables.engine(Map.of("large_cell", "100KiB"))) {
            TableStore store = engine.openStore(table.spec(directory.resolve("t")));
            StoreContext context = Tables.context(store);
            Database database = context.database();
            // Nor does the engine sweep by itself meanwhile.
            context.filesBegin();
            for (int time = 1; time <= 2; time++)
                for (int i = 0; i < 5; i++)
                    store.write(
                            table.update("k" + i)
                                    .at(time)
                                    .row()
                                    .set("v", noise(time).repeat(1_000))
                                    .build());
            store.flush();
            AtomicLong now = new AtomicLong();
            LargeCellSweep sweep = new LargeCellSweep(context, now::get);
            sweep.run(database, new Pacer(context, database, false));
            assertThat(largeCells(database)).isEqualTo(10);
            context.filesEnd();
            assertThat(sweep.isDue(database)).isFalse();
            now.addAndGet(TimeUnit.SECONDS.toNanos(10) - 1);
            assertThat(sweep.isDue(database)).isFalse();
            now.incrementAndGet();
            assertThat(sweep.isDue(database)).isTrue();
            sweep.run(database, new Pacer(context, database, false));
            assertThat(largeCells(database)).isEqualTo(5);
        }
    }

    private static int largeCells(Database database) throws RocksDBException {
        int count = 0;
        try (RocksIterator it = database.db.newIterator(database.large)) {
            for (it.seekToFirst(); it.isValid(); it.next()) count++;
            it.status();
        }
        return count;
    }

    /** As a repair does, or an export to SSTables. */
    @Test
    void whoScansAsideLeavesTheCacheToReaders() throws RocksDBException {
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)" + OPTIONS);
        try (StorageEngine engine = Tables.engine(Map.of("memory", "64MiB"))) {
            TableStore store = filled(engine, table);
            DataRange all = DataRange.allData(table.metadata().partitioner);
            long before = cacheUsage(store);
            assertThat(count(store.scanAside(all, table.all()))).isEqualTo(4_000);
            assertThat(cacheUsage(store) - before).isLessThan(1 << 20);
        }
    }

    /**
     * An index build reads deleted rows and range tombstones without getting to see them. It has to
     * end meanwhile where it is stopped.
     */
    @Test
    void whoScansAsideIsAskedAmongDeletedRowsAndRangeTombstonesToo() {
        TestTable table =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))" + OPTIONS);
        try (StorageEngine engine = Tables.engine(Map.of())) {
            TableStore store = engine.openStore(table.spec(directory.resolve("t")));
            for (int c = 0; c < 2_000; c++) {
                store.write(table.update("rows").at(1).row(c).set("v", "v").end().build());
                store.write(
                        table.update("ranges")
                                .at(1)
                                .now(LONG_AGO)
                                .deleteRange(table.prefix(2 * c))
                                .build());
            }
            store.write(table.update("rows").at(2).now(LONG_AGO).deletePartition().build());
            DataRange all = DataRange.allData(table.metadata().partitioner);
            AtomicInteger asked = new AtomicInteger();
            assertThat(count(store.scanAside(all, table.all(), asked::incrementAndGet)))
                    .isEqualTo(4_000);
            assertThat(asked.get()).isBetween(2 + 14, 2 + 20);
            for (int at = 1; at < asked.get(); at++) {
                AtomicInteger left = new AtomicInteger(at);
                Runnable end =
                        () -> {
                            if (left.decrementAndGet() == 0) throw new CancellationException();
                        };
                assertThatThrownBy(
                                () -> {
                                    try (var scan = store.scanAside(all, table.all(), end)) {
                                        while (scan.hasNext())
                                            try (var rows = scan.next()) {
                                                while (rows.hasNext()) rows.next();
                                            }
                                    }
                                })
                        .isInstanceOf(CancellationException.class);
            }
            // Nobody reads it any more.
            store.drop();
        }
    }

    /** All of it would drive out what others read; a small range is kept for who reads it again. */
    @Test
    void whoScansATableLeavesTheCacheToReaders() throws RocksDBException {
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)" + OPTIONS);
        try (StorageEngine engine = Tables.engine(Map.of("memory", "64MiB"))) {
            TableStore store = filled(engine, table);
            DataRange all = DataRange.allData(table.metadata().partitioner);
            long before = cacheUsage(store);
            assertThat(count(store.scan(all, table.all()))).isEqualTo(4_000);
            assertThat(cacheUsage(store) - before).isLessThan(1 << 20);
            Murmur3Partitioner murmur = Murmur3Partitioner.instance;
            Token end = new LongToken(Long.MIN_VALUE + (1L << 60));
            DataRange part = DataRange.forTokenRange(new Range<>(murmur.getMinimumToken(), end));
            int rows = count(store.scan(part, table.all()));
            assertThat(rows).isBetween(100, 600);
            assertThat(cacheUsage(store) - before).isGreaterThan(rows * 2_000L);
        }
    }

    private interface Reading {
        void run() throws Exception;
    }

    /** The cache has room for a third of it, and what others read again is still there. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void whatReadsATableLargerThanTheCacheDrivesNothingOut(boolean isOfLargeCells)
            throws Exception {
        int partitions = isOfLargeCells ? 16_000 : 64_000;
        int copies = isOfLargeCells ? 4 : 1;
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)" + OPTIONS);
        TestTable small = TestTable.of("CREATE TABLE u (k text PRIMARY KEY, v text)" + OPTIONS);
        try (StorageEngine engine =
                Tables.engine(
                        Map.of(
                                "memory",
                                "32MiB",
                                "large_cell",
                                isOfLargeCells ? "4KiB" : "1MiB",
                                "direct_reads",
                                "" + isOfLargeCells))) {
            TableStore store = engine.openStore(table.spec(directory.resolve("t")));
            TableStore other = engine.openStore(small.spec(directory.resolve("u")));
            for (int i = 0; i < partitions; i++) {
                String value = noise(i).repeat(copies);
                store.write(table.update("k" + i).at(1).row().set("v", value).build());
                if (i >= READ_AGAIN) continue;
                other.write(small.update("k" + i).at(1).row().set("v", value).build());
            }
            other.flush();
            // Nothing is merged any more behind it.
            store.flush();
            store.compact(List.of());
            StoreContext context = Tables.context(store);
            Database database = context.database();
            // Only then the cache has large cells.
            if (isOfLargeCells) assumeThat(isReadDirectly()).isTrue();
            DataRange all = DataRange.allData(table.metadata().partitioner);
            Map<String, Reading> readings = new LinkedHashMap<>();
            readings.put(
                    "a scan",
                    () -> assertThat(count(store.scan(all, table.all()))).isEqualTo(partitions));
            // As a client reads all of a table.
            readings.put(
                    "a scan by ranges",
                    () ->
                            assertThat(byRanges(32, part -> store.scan(part, table.all())))
                                    .isEqualTo(partitions));
            // However small they are.
            readings.put(
                    "a repair by ranges",
                    () ->
                            assertThat(byRanges(512, part -> store.scanAside(part, table.all())))
                                    .isEqualTo(partitions));
            readings.put("a stream", () -> assertThat(sent(store)).isGreaterThan(3 * (32L << 20)));
            readings.put(
                    "a look at what files hold",
                    () ->
                            new DataFiles(context)
                                    .learn(database, database.dataFiles(), true, () -> false));
            readings.put(
                    "a push-down",
                    () ->
                            new CoveringDeletions(context)
                                    .run(
                                            database,
                                            LONG_AGO + 1,
                                            new Pacer(context, database, false)));
            readings.put(
                    "a sweep",
                    () ->
                            new LargeCellSweep(context)
                                    .run(database, new Pacer(context, database, false)));
            read(store, table);
            read(other, small);
            assertThat(read(store, table) + read(other, small)).as("before").isZero();
            for (Map.Entry<String, Reading> reading : readings.entrySet()) {
                reading.getValue().run();
                assertThat(read(store, table) + read(other, small)).as(reading.getKey()).isZero();
            }
            // It makes other files.
            store.compact(List.of());
            assertThat(read(other, small)).as("a compaction").isZero();
        }
    }

    /** Past the page cache, which not every file system can. */
    private boolean isReadDirectly() throws IOException {
        try (DirectoryStream<Path> all =
                Files.newDirectoryStream(directory.resolve("t"), "OPTIONS-*")) {
            for (Path options : all)
                if (Files.readString(options).contains("use_direct_reads=true")) return true;
            return false;
        }
    }

    /** How many blocks and large cells the reads of some rows took from files. */
    private static long read(TableStore store, TestTable table) {
        PerfContext counts = Tables.context(store).database().db.getPerfContext();
        long before = counts.getBlockReadCount() + counts.getBlobReadCount();
        for (int i = 0; i < READ_AGAIN; i++)
            try (var rows = store.read(table.key("k" + i), Slices.ALL, table.all(), false)) {
                assertThat(rows.hasNext()).isTrue();
            }
        return counts.getBlockReadCount() + counts.getBlobReadCount() - before;
    }

    private static int byRanges(int ranges, Function<DataRange, UnfilteredPartitionIterator> scan) {
        Token left = Murmur3Partitioner.instance.getMinimumToken();
        int rows = 0;
        for (int i = 1; i <= ranges; i++) {
            Token right =
                    i == ranges
                            ? new LongToken(Long.MAX_VALUE)
                            : new LongToken(Long.MIN_VALUE + i * (Long.MAX_VALUE / ranges * 2));
            rows += count(scan.apply(DataRange.forTokenRange(new Range<>(left, right))));
            left = right;
        }
        return rows;
    }

    private static long sent(TableStore store) throws IOException {
        long bytes = 0;
        try (StreamSource source =
                        store.send(List.of(new SliceRanges(RangeTests.everything(), 0)));
                SliceReader reader = source.open(0)) {
            for (ByteBuffer block = reader.next(); block != null; block = reader.next())
                bytes += block.remaining();
        }
        return bytes;
    }

    private static long cacheUsage(TableStore store) throws RocksDBException {
        return Tables.context(store).database().db.getLongProperty("rocksdb.block-cache-usage");
    }

    private static int count(UnfilteredPartitionIterator partitions) {
        int count = 0;
        try (partitions) {
            while (partitions.hasNext())
                try (UnfilteredRowIterator rows = partitions.next()) {
                    while (rows.hasNext()) {
                        rows.next();
                        count++;
                    }
                }
        }
        return count;
    }

    /** It may read for hours, and writes are refused until the database is opened anew. */
    @Test
    void whatReadsForLongEndsWhereTheDiskIsFull() throws Exception {
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)" + OPTIONS);
        AtomicBoolean stop = new AtomicBoolean();
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = engine.openStore(table.spec(directory.resolve("t")));
            ReopenableDatabase reopenable = Tables.context(store).reopenable();
            CountDownLatch reading = new CountDownLatch(1);
            CompletableFuture<Void> purge =
                    CompletableFuture.runAsync(
                            () ->
                                    reopenable.maintain(
                                            database -> {
                                                Pacer pace =
                                                        new Pacer(
                                                                Tables.context(store),
                                                                database,
                                                                true);
                                                reading.countDown();
                                                while (!stop.get()) pace.step();
                                            }));
            reading.await();
            try {
                assertThat(reopenable.healing.failed(Tables.noSpace()))
                        .isInstanceOf(WriteStallException.class);
                Tables.heal(reopenable);
            } finally {
                stop.set(true);
            }
            assertThatThrownBy(purge::get).hasCauseInstanceOf(WriteStallException.class);
            store.write(table.update("a").at(1).row().set("v", "x").build());
        }
    }

    /** So may whoever looks what files hold. */
    @Test
    void whoReadsFilesEndsWhereTheDiskIsFull() throws Exception {
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)" + OPTIONS);
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = engine.openStore(table.spec(directory.resolve("t")));
            store.write(table.update("a").at(1).row().set("v", "x").build());
            store.flush();
            ReopenableDatabase reopenable = Tables.context(store).reopenable();
            CountDownLatch reading = new CountDownLatch(1);
            BooleanSupplier stopped =
                    () -> {
                        reading.countDown();
                        while (reopenable.isWritable()) Thread.onSpinWait();
                        return false;
                    };
            CompletableFuture<Void> learning =
                    CompletableFuture.runAsync(
                            () ->
                                    reopenable.maintain(
                                            database ->
                                                    new DataFiles(Tables.context(store))
                                                            .learn(
                                                                    database,
                                                                    database.dataFiles(),
                                                                    true,
                                                                    stopped)));
            reading.await();
            assertThat(reopenable.healing.failed(Tables.noSpace()))
                    .isInstanceOf(WriteStallException.class);
            assertThatThrownBy(learning::get).hasCauseInstanceOf(WriteStallException.class);
            Tables.heal(reopenable);
            store.write(table.update("b").at(1).row().set("v", "x").build());
        }
    }

    /** The row of each large cell is read. */
    @Test
    void aSweepLeavesTheCacheToReaders() throws RocksDBException {
        TestTable table =
                TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text, w text)" + OPTIONS);
        try (StorageEngine engine =
                Tables.engine(Map.of("memory", "64MiB", "large_cell", "3KiB"))) {
            PartitionUpdate[] large = new PartitionUpdate[4_000];
            for (int i = 0; i < large.length; i++)
                large[i] = table.update("k" + i).at(1).row().set("w", "x".repeat(3_100)).build();
            TableStore store = filled(engine, table, large);
            Database database = Tables.context(store).database();
            long before = cacheUsage(store);
            Pacer pace = new Pacer(Tables.context(store), database, false);
            new LargeCellSweep(Tables.context(store)).run(database, pace);
            assertThat(cacheUsage(store) - before).isLessThan(1 << 20);
        }
    }

    /** It reads all entries, and the row of each, of which the small part is in the cache. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void entriesAndLargeValuesThatASweepReadsAreNotInTheCache(boolean isWide)
            throws RocksDBException {
        TestTable table =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k"
                                + (isWide ? ", c" : "")
                                + "))"
                                + OPTIONS);
        UUID index = new UUID(1, 1);
        try (StorageEngine engine =
                Tables.engine(Map.of("memory", "64MiB", "large_cell", "1KiB"))) {
            TableStore writing = engine.openStore(table.spec(directory.resolve("t")));
            writing.indexes().define(index);
            for (int i = 0; i < 4_000; i++) {
                UpdateBuilder update = table.update("k" + i).at(1);
                UpdateBuilder.RowBuilder row = isWide ? update.row(1) : update.row();
                ByteBuffer term = ByteBufferUtil.bytes(noise(i).substring(0, 1_000));
                writing.write(
                        row.set("v", noise(i)).end().build(),
                        List.of(
                                new TermEntry(
                                        index,
                                        term,
                                        isWide ? table.clustering(1) : Clustering.EMPTY)));
            }
            writing.flush();
            writing.close();
            TableStore store = engine.openStore(table.spec(directory.resolve("t")));
            long reads = store.statistics().reads();
            long before = cacheUsage(store);
            AtomicInteger looked = new AtomicInteger();
            SweepCheck check =
                    (term, key, clustering) -> {
                        looked.incrementAndGet();
                        return hasValue(store.readAside(key, Slices.ALL, table.all(), false));
                    };
            assertThat(store.indexes().sweep(index, check)).isZero();
            assertThat(looked).hasValue(4_000);
            assertThat(cacheUsage(store) - before).isLessThan(1 << 20);
            assertThat(store.statistics().reads()).isEqualTo(reads);
        }
    }

    private static boolean hasValue(UnfilteredRowIterator read) {
        try (read) {
            return ((Row) read.next()).cells().iterator().next().valueSize() == 2_000;
        }
    }

    private static void awaitSequence(
            Database database, long number, CompletableFuture<Void> writing) {
        while (database.db.getLatestSequenceNumber() < number && !writing.isDone())
            Thread.onSpinWait();
    }

    /** It may take hours, and what an open iterator sees stays on the disk. */
    @Test
    void whoHandsDownKeepsNoFileForLong() throws Exception {
        // With more each time, until it is met in the middle.
        for (int attempt = 0; attempt < 4; attempt++)
            if (isMetWhileItHandsDown("t" + attempt, 20_000 << attempt)) return;
        throw new AssertionError("it was never met in the middle");
    }

    private boolean isMetWhileItHandsDown(String name, int partitions) throws Exception {
        TestTable table = TestTable.of("CREATE TABLE t (k int PRIMARY KEY, v text)" + OPTIONS);
        try (StorageEngine engine = Tables.engine()) {
            TableStore store = engine.openStore(table.spec(directory.resolve(name)));
            for (int k = 0; k < partitions; k++) {
                store.write(table.update(k).at(1).row().set("v", "v").build());
                store.write(table.update(k).at(2).now(LONG_AGO).deletePartition().build());
            }
            store.flush();
            StoreContext context = Tables.context(store);
            Database database = context.database();
            Path first = directory.resolve(name + database.dataFiles().get(0).fileName());
            long before = database.db.getLatestSequenceNumber();
            CompletableFuture<Void> handing =
                    CompletableFuture.runAsync(
                            () ->
                                    context.reopenable()
                                            .maintain(
                                                    all ->
                                                            new CoveringDeletions(context, 0, 0)
                                                                    .run(
                                                                            all,
                                                                            LONG_AGO + 1,
                                                                            new Pacer(
                                                                                    context, all,
                                                                                    false))));
            awaitSequence(database, before + 1, handing);
            context.room()
                    .writers
                    .<RocksDBException>alone(
                            () ->
                                    database.compactions.compact(
                                            database.data,
                                            null,
                                            null,
                                            BottommostLevelCompaction.kForce));
            // It is past the partition at which it had to wait.
            awaitSequence(database, database.db.getLatestSequenceNumber() + 3, handing);
            boolean[] met = new boolean[1];
            context.room()
                    .writers
                    .<RuntimeException>alone(
                            () -> {
                                // It cannot end meanwhile, as it cannot write.
                                met[0] =
                                        database.db.getLatestSequenceNumber() - before < partitions;
                                Tables.await("the end of the file", () -> !Files.exists(first));
                                if (met[0]) assertThat(handing).isNotDone();
                            });
            handing.get();
            // The catalog may have got entries besides.
            assertThat(database.db.getLatestSequenceNumber() - before)
                    .isBetween((long) partitions, partitions + 100L);
            return met[0];
        }
    }
}
