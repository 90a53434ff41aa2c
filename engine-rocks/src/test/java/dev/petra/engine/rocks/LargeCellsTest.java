// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.PurgeProgress;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.PartitionContent;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.db.CompactionStoppedException;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.format.LargeCells;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.Lock;
import java.util.stream.Collectors;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.btree.BTree;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/** Cells with large values lie apart from their row, and nothing shows it but the cost. */
class LargeCellsTest {
    private static final int LARGE = 1_000;
    private static final TableMetadata TABLE =
            Tables.table(
                    "CREATE TABLE t (k text, c int, s blob static, a blob, b blob, m map<text,"
                            + " blob>, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 0");

    @TempDir Path directory;
    private StorageEngine engine;
    private TableStore store;

    @BeforeEach
    void open() {
        engine = Tables.engine(Map.of("memory", "32MiB", "large_cell", LARGE + "B"));
        store = Tables.open(engine, directory.resolve("1"), TABLE);
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private static ColumnMetadata column(String name) {
        return TABLE.getColumn(org.apache.cassandra.cql3.ColumnIdentifier.getInterned(name, true));
    }

    private static ByteBuffer value(int size, int fill) {
        ByteBuffer value = ByteBuffer.allocate(size);
        while (value.hasRemaining()) value.put((byte) fill);
        return value.flip();
    }

    private static Cell<?> live(String column, long timestamp, ByteBuffer value) {
        return BufferCell.live(column(column), timestamp, value);
    }

    private static Cell<?> entry(String key, long timestamp, ByteBuffer value) {
        CellPath path = CellPath.create(ByteBufferUtil.bytes(key));
        return BufferCell.live(column("m"), timestamp, value, path);
    }

    private static PartitionUpdate update(int clustering, Cell<?>... cells) {
        Row.Builder row = BTreeRow.unsortedBuilder();
        row.newRow(Clustering.make(Int32Type.instance.decompose(clustering)));
        for (Cell<?> cell : cells) row.addCell(cell);
        return update(row.build());
    }

    private static PartitionUpdate update(Row row) {
        PartitionUpdate.Builder builder =
                new PartitionUpdate.Builder(
                        TABLE, Tables.key(TABLE, "x"), TABLE.regularAndStaticColumns(), 1);
        builder.add(row);
        return builder.build();
    }

    private @Nullable Row read(int clustering, ColumnFilter filter) {
        Slice slice = Slice.make(Clustering.make(Int32Type.instance.decompose(clustering)));
        return first(store.read(Tables.key(TABLE, "x"), with(slice), filter, false));
    }

    private static Slices with(Slice slice) {
        return Slices.with(TABLE.comparator, slice);
    }

    private static @Nullable Row first(@Nullable UnfilteredRowIterator rows) {
        if (rows == null) return null;
        try (rows) {
            return rows.hasNext() ? (Row) rows.next() : null;
        }
    }

    private static ColumnFilter regulars(String... queried) {
        var builder = ColumnFilter.allRegularColumnsBuilder(TABLE, false);
        for (String name : queried) builder.add(column(name));
        return builder.build();
    }

    private @Nullable ByteBuffer valueOf(int clustering, String column) {
        Row row = read(clustering, regulars(column));
        Cell<?> cell = row == null ? null : row.getCell(column(column));
        return cell == null ? null : cell.buffer();
    }

    /** From now on, whatever fetches a value that lies apart fails. */
    private void loseBlobs() throws IOException {
        store.flush();
        store.close();
        store = Tables.open(engine, directory.resolve("1"), TABLE);
        try (var blobs = Files.newDirectoryStream(directory.resolve("1"), "*.blob")) {
            for (Path blob : blobs) Files.delete(blob);
        }
    }

    /** RocksDB's Java classes have no code of their own for a file that is not there. */
    @Test
    void aBlobFileThatIsGoneIsDamage() throws IOException {
        store.write(update(1, live("a", 1, value(LARGE, 1))));
        loseBlobs();
        assertThatThrownBy(() -> valueOf(1, "a"))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining(".blob");
    }

    private @Nullable PartitionContent content(TestTable table, String key, Slices slices) {
        PartitionContent content =
                PartitionContent.of(store.read(table.key(key), slices, table.all(), false));
        PartitionContent reversed =
                PartitionContent.of(store.read(table.key(key), slices, table.all(), true));
        assertThat(reversed == null).isEqualTo(content == null);
        return content;
    }

    /** Each read fetched them all, only to leave them out. */
    @Test
    void valuesThatADeletionHidesAreNotFetched() throws IOException {
        TestTable table = TestTable.of(TABLE);
        for (String key : List.of("x", "y")) {
            var update = table.update(key).at(5);
            update.staticRow().set("s", value(LARGE, 9)).end();
            for (int c = 1; c <= 4; c++)
                update.row(c).set("a", value(LARGE, c)).put("m", "p", value(LARGE, -c)).end();
            store.write(update.build());
        }
        // As old as what they hide, which is enough.
        store.write(table.update("x").at(5).deleteRange(table.prefix(2)).build());
        loseBlobs();
        Slices two = table.slices(table.prefix(2));
        Slices three = table.slices(table.prefix(3));
        Slices statics = Slices.NONE;
        ColumnFilter regulars = table.only("a", "m");
        assertThat(PartitionContent.of(store.read(table.key("x"), two, regulars, false)).rows())
                .isEmpty();
        assertThat(PartitionContent.of(store.read(table.key("x"), two, regulars, true)).rows())
                .isEmpty();
        assertThatThrownBy(
                        () ->
                                PartitionContent.of(
                                        store.read(table.key("x"), three, regulars, false)))
                .isInstanceOf(CorruptStoreException.class);
        assertThatThrownBy(() -> content(table, "y", statics))
                .isInstanceOf(CorruptStoreException.class);
        store.write(table.update("y").at(5).deletePartition().build());
        for (Slices slices : List.of(Slices.ALL, two, statics))
            assertThat(content(table, "y", slices)).satisfies(LargeCellsTest::isDeletedOnly);
        // By a get.
        assertThat(PartitionContent.of(store.read(table.key("y"), two, regulars, false)))
                .satisfies(LargeCellsTest::isDeletedOnly);
        store.write(table.update("y").at(6).row(3).set("a", value(LARGE, 6)).build());
        assertThat(PartitionContent.of(store.read(table.key("y"), three, regulars, false)).rows())
                .singleElement()
                .satisfies(
                        row -> assertThat(row.getCell(table.column("a")).timestamp()).isEqualTo(6));
    }

    private static void isDeletedOnly(PartitionContent content) {
        assertThat(content.deletion().markedForDeleteAt()).isEqualTo(5);
        assertThat(content.rows()).isEmpty();
        assertThat(content.staticRow().isEmpty()).isTrue();
    }

    /** Cassandra keeps such a cell in the row, and in its digest. */
    @Test
    void aValueThatARowsOwnNewerDeletionHidesIsGivenAllTheSame() {
        TestTable table = TestTable.of(TABLE);
        Row row =
                BTreeRow.create(
                        table.clustering(1),
                        LivenessInfo.EMPTY,
                        Row.Deletion.regular(DeletionTime.build(10, UpdateBuilder.NOW)),
                        BTree.singleton(live("a", 5, value(LARGE, 1))));
        store.write(update(row));
        store.write(table.update("x").at(7).deletePartition().build());
        for (ColumnFilter columns : List.of(table.all(), table.only("a"))) {
            PartitionContent content =
                    PartitionContent.of(
                            store.read(
                                    table.key("x"), table.slices(table.prefix(1)), columns, false));
            assertThat(content.rows())
                    .singleElement()
                    .satisfies(
                            each ->
                                    assertThat(each.getCell(table.column("a")).buffer())
                                            .isEqualTo(value(LARGE, 1)));
        }
    }

    /** Without a tombstone nothing was ever due. */
    @Test
    void whatIsOverwrittenGoesByItselfOnceItIsMuch() throws Exception {
        byte[] noise = new byte[20_000];
        java.util.Random random = new java.util.Random(10);
        int rows = 20;
        for (int time = 1; time <= 60; time++)
            for (int row = 0; row < rows; row++) {
                random.nextBytes(noise);
                store.write(update(row, live("a", time, ByteBuffer.wrap(noise.clone()))));
            }
        store.flush();
        long most = 12 << 20;
        Tables.await("a sweep", () -> blobBytes() < most);
        // Garbage of 8 MiB is none to be removed yet.
        assertThat((long) stored(true).size() * noise.length).isLessThan(most);
        for (int row = 0; row < rows; row++) assertThat(valueOf(row, "a")).isNotNull();
    }

    private void overwrite(int rows, int from, int to) {
        byte[] noise = new byte[20_000];
        Random random = new Random(from);
        for (int time = from; time < to; time++)
            for (int row = 0; row < rows; row++) {
                random.nextBytes(noise);
                store.write(update(row, live("a", time, ByteBuffer.wrap(noise.clone()))));
            }
        store.flush();
    }

    private void awaitFewerLargeCellsThan(int most) throws InterruptedException {
        Tables.await("a sweep", () -> stored(true).size() < most);
    }

    /** What was found to be no garbage said that nothing ever would be. */
    @Test
    void whatIsOverwrittenGoesByItselfThoughItWasOnlyAddedAtFirst() throws Exception {
        int rows = 600;
        overwrite(rows, 1, 2);
        Tables.await("the end of the sweep", () -> !Tables.tick(store));
        assertThat(stored(true).size()).isEqualTo(rows);
        overwrite(rows, 2, 7);
        // One of each stays, and less than 16 MiB, or 839, of what may be garbage waits for more.
        awaitFewerLargeCellsThan(3 * rows);
        for (int row = 0; row < rows; row++) assertThat(valueOf(row, "a")).isNotNull();
    }

    /** It was taken for looked through, and was not due again before as much came once more. */
    @Test
    void whatIsOverwrittenDuringASweepGoesByItselfToo() throws Exception {
        int rows = 600;
        // The sweep waits at its first cell, to which no row refers.
        overwrite(1, -1, 1);
        Lock writing = writing("x");
        writing.lock();
        try {
            overwrite(rows, 1, 2);
            Tables.await(
                    "the sweep",
                    () -> store.purgeProgress().phase() == PurgeProgress.Phase.SWEEPING);
            overwrite(rows, 2, 7);
        } finally {
            writing.unlock();
        }
        awaitFewerLargeCellsThan(3 * rows);
        for (int row = 0; row < rows; row++) assertThat(valueOf(row, "a")).isNotNull();
    }

    /** Every large cell would be looked at in vain, and all be taken for no garbage. */
    @Test
    void nothingIsSweptWhileFilesArriveAndThenItIs() throws Exception {
        Tables.context(store).filesBegin();
        overwrite(20, 1, 61);
        assertThat(Tables.tick(store)).isFalse();
        store.compact(List.of());
        assertThat(stored(true).size()).isEqualTo(20 * 60);
        Tables.context(store).filesEnd();
        awaitFewerLargeCellsThan(20 * 10);
    }

    /**
     * Each waited for the syncs of those before it, and for their turns while compaction was
     * behind.
     */
    @Test
    void writersOfAPartitionDoNotWaitForEachOther() throws Exception {
        Lock other = writing("x");
        other.lock();
        try {
            CompletableFuture.runAsync(() -> overwrite(1, 1, 2)).get(1, TimeUnit.MINUTES);
        } finally {
            other.unlock();
        }
        assertThat(valueOf(0, "a")).isNotNull();
    }

    /** All large cells behind it stayed, and each attempt began with the first one anew. */
    @Test
    void aRowThatCannotBeReadKeepsItsLargeCellsOnly() throws RocksDBException {
        overwrite(10, 1, 3);
        Database database = Tables.context(store).database();
        byte[] damaged;
        try (RocksIterator rows = database.db.newIterator(database.data)) {
            rows.seekToFirst();
            rows.next();
            damaged = rows.key();
        }
        database.db.put(database.data, damaged, new byte[] {1, 2, 3});
        store.compact(List.of());
        assertThat(stored(true)).hasSize(2 + 9);
    }

    /** It ended the sweep, and so each one after it. */
    @Test
    void aPartitionThatIsWrittenAllTheTimeKeepsItsLargeCellsOnly() throws RocksDBException {
        engine.close();
        engine =
                Tables.engine(
                        Map.of(
                                "memory", "32MiB",
                                "large_cell", LARGE + "B",
                                "write_stall_timeout", "200ms"));
        store = Tables.open(engine, directory.resolve("1"), TABLE);
        Lock hot = writing("x");
        String cold = "y";
        while (writing(cold).equals(hot)) cold += "y";
        for (String key : List.of("x", cold))
            for (int time = 1; time <= 3; time++) {
                var update = Tables.update(TABLE, key).timestamp(time);
                update.row(1).add("a", value(LARGE, time));
                store.write(update.build());
            }
        hot.lock();
        try {
            store.compact(List.of());
        } finally {
            hot.unlock();
        }
        assertThat(stored(true)).hasSize(3 + 1);
        store.compact(List.of());
        assertThat(stored(true)).hasSize(1 + 1);
    }

    private Lock writing(String key) {
        return Tables.context(store).largeCells().writing(Tables.key(TABLE, key));
    }

    /** The row was read for each of them, once more if it went. */
    @Test
    void aSweepReadsARowOnceForManyOfItsCells() throws Exception {
        int elements = 1_000;
        for (int time = 1; time <= 2; time++)
            for (int i = 0; i < elements; i += time)
                store.write(update(1, entry("element " + i, time, value(LARGE, i + time))));
        store.flush();
        assertThat(stored(true)).hasSize(elements * 3 / 2);
        long before = blocksLookedFor();
        store.compact(List.of());
        assertThat(stored(true)).hasSize(elements);
        assertThat(blocksLookedFor() - before).isLessThan(elements / 5);
        Row row = Objects.requireNonNull(read(1, regulars("m")));
        for (int i = 0; i < elements; i++) {
            CellPath path = CellPath.create(ByteBufferUtil.bytes("element " + i));
            assertThat(row.getCell(column("m"), path).buffer())
                    .isEqualTo(value(LARGE, i + 2 - i % 2));
        }
    }

    private long blocksLookedFor() {
        Map<String, Long> metrics = engine.metrics();
        return metrics.get("block_cache_hits") + metrics.get("block_cache_misses");
    }

    /** {@code nodetool stop COMPACTION}, which ended compactions only. */
    @Test
    void aSweepCanBeStopped() {
        for (int i = 0; i < 10; i++) store.write(update(i, live("a", i, value(LARGE, i))));
        store.write(update(0, live("a", 1, value(LARGE, 1))));
        CompletableFuture<Void> compaction;
        // The sweep waits at its first cell, to which no row refers.
        Lock writing = writing("x");
        writing.lock();
        try {
            compaction = CompletableFuture.runAsync(() -> store.compact(List.of()));
            Tables.await(
                    "the sweep",
                    () -> store.purgeProgress().phase() == PurgeProgress.Phase.SWEEPING);
            store.stopCompactions();
        } finally {
            writing.unlock();
        }
        assertThatThrownBy(compaction::join)
                .hasCauseInstanceOf(CompactionStoppedException.class)
                .hasMessageContaining("was stopped");
        store.compact(List.of());
    }

    /** A quarter must be garbage; the oldest half of all values was rewritten for one. */
    @Test
    void littleGarbageMovesNoOthers() throws RocksDBException {
        for (int file = 0; file < 10; file++) {
            for (int i = 0; i < 20; i++)
                store.write(update(20 * file + i, live("a", 1, value(LARGE, i))));
            store.flush();
        }
        store.write(update(999, live("a", 2, value(LARGE, 1))));
        store.write(update(999, live("a", 3, value(LARGE, 2))));
        store.flush();
        Set<String> before = blobs();
        store.compact(List.of());
        assertThat(blobs()).containsAll(before);
    }

    private Set<String> blobs() throws RocksDBException {
        return Tables.context(store).database().db.getLiveFiles(false).files.stream()
                .filter(file -> file.endsWith(".blob"))
                .collect(Collectors.toSet());
    }

    @Test
    void aPartitionThatIsNotThereIsNotSaidToBe() {
        store.write(update(1, live("a", 1, value(LARGE, 1))));
        for (String key : List.of("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"))
            assertThat(store.mayContain(Tables.key(TABLE, key))).isFalse();
        assertThat(store.mayContain(Tables.key(TABLE, "x"))).isTrue();
    }

    private long blobBytes() throws RocksDBException {
        Database database = Tables.context(store).database();
        return database.db.getLongProperty(database.large, "rocksdb.total-blob-file-size");
    }

    private Map<String, Integer> stored(boolean large) {
        Map<String, Integer> sizes = new HashMap<>();
        Database database = Tables.context(store).database();
        try (RocksIterator it = database.db.newIterator(large ? database.large : database.data)) {
            for (it.seekToFirst(); it.isValid(); it.next())
                sizes.put(org.apache.cassandra.utils.Hex.bytesToHex(it.key()), it.value().length);
        }
        return sizes;
    }

    @Test
    void aLargeValueLiesApartAndASmallOneWithItsRow() {
        store.write(update(1, live("a", 1, value(LARGE, 1)), live("b", 1, value(LARGE - 1, 2))));
        assertThat(stored(true).values()).containsExactly(LARGE);
        assertThat(stored(false).values())
                .singleElement()
                .satisfies(size -> assertThat(size).isBetween(LARGE, LARGE + 50));
        assertThat(valueOf(1, "a")).isEqualTo(value(LARGE, 1));
        assertThat(valueOf(1, "b")).isEqualTo(value(LARGE - 1, 2));
    }

    @Test
    void aColumnThatIsFetchedButNotQueriedIsNotReadFromWhereItLies() throws RocksDBException {
        store.write(update(1, live("a", 1, value(LARGE, 1)), live("b", 1, value(LARGE, 2))));
        // Were it read, it would be missed.
        for (String key : stored(true).keySet())
            if (key.endsWith(
                    String.format(
                            "%016x",
                            LargeCells.hash(
                                    value(LARGE, 1),
                                    org.apache.cassandra.db.marshal.ByteBufferAccessor.instance))))
                Tables.context(store)
                        .database()
                        .db
                        .delete(
                                Tables.context(store).database().large,
                                org.apache.cassandra.utils.Hex.hexToBytes(key));
        assertThat(stored(true)).hasSize(1);
        Row row = read(1, regulars("b"));
        assertThat(row).isNotNull();
        assertThat(row.getCell(column("b")).buffer()).isEqualTo(value(LARGE, 2));
        assertThat(row.getCell(column("a")).valueSize()).isZero();
        assertThat(row.getCell(column("a")).timestamp()).isEqualTo(1);
    }

    @Test
    void smallAndLargeReplaceEachOtherByTimestampInWhateverOrder() {
        int[] sizes = {3, LARGE, 7, LARGE + 1, 0};
        List<Integer> order = new ArrayList<>(List.of(0, 1, 2, 3, 4));
        Random random = new Random(1);
        for (int round = 0; round < 30; round++) {
            java.util.Collections.shuffle(order, random);
            for (int i : order) store.write(update(round, live("a", i, value(sizes[i], i))));
            assertThat(valueOf(round, "a")).describedAs("order %s", order).isEqualTo(value(0, 0));
            store.write(update(round, live("a", 9, value(LARGE + 5, 9))));
            assertThat(valueOf(round, "a")).isEqualTo(value(LARGE + 5, 9));
        }
        store.flush();
        assertThat(valueOf(3, "a")).isEqualTo(value(LARGE + 5, 9));
    }

    @Test
    void atOneTimestampTheLargerValueStandsWhereverItLies() {
        ByteBuffer small = value(10, 9);
        store.write(update(1, live("a", 5, value(LARGE, 3))));
        store.write(update(1, live("a", 5, value(LARGE, 4))));
        assertThat(valueOf(1, "a")).isEqualTo(value(LARGE, 4));
        store.write(update(1, live("a", 5, small)));
        assertThat(valueOf(1, "a")).isEqualTo(small);
        store.flush();
        store.write(update(1, live("a", 5, value(LARGE, 8))));
        assertThat(valueOf(1, "a")).isEqualTo(small);
        store.write(update(1, BufferCell.tombstone(column("a"), 5, 1)));
        assertThat(read(1, ColumnFilter.all(TABLE)).getCell(column("a")).isTombstone()).isTrue();
    }

    @Test
    void elementsOfCollectionsAndStaticsToo() {
        store.write(update(1, entry("p", 1, value(LARGE, 1)), entry("q", 1, value(5, 2))));
        store.write(update(1, entry("p", 2, value(LARGE * 2, 3))));
        Row.Builder row = BTreeRow.unsortedBuilder();
        row.newRow(Clustering.STATIC_CLUSTERING);
        row.addCell(live("s", 1, value(LARGE, 7)));
        store.write(update(row.build()));
        for (int i = 0; i < 2; i++) {
            try (UnfilteredRowIterator rows =
                    store.read(
                            Tables.key(TABLE, "x"), Slices.ALL, ColumnFilter.all(TABLE), false)) {
                assertThat(rows.staticRow().getCell(column("s")).buffer())
                        .isEqualTo(value(LARGE, 7));
                Row found = (Row) rows.next();
                assertThat(
                                found.getCell(
                                                column("m"),
                                                CellPath.create(ByteBufferUtil.bytes("p")))
                                        .buffer())
                        .isEqualTo(value(LARGE * 2, 3));
                assertThat(
                                found.getCell(
                                                column("m"),
                                                CellPath.create(ByteBufferUtil.bytes("q")))
                                        .buffer())
                        .isEqualTo(value(5, 2));
            }
            store.flush();
        }
    }

    @Test
    void compactionRemovesThoseNoRowRefersTo() {
        for (int i = 0; i < 20; i++) store.write(update(i % 2, live("a", i, value(LARGE, i))));
        store.write(update(2, live("a", 1, value(LARGE, 1))));
        store.write(
                update(
                        BTreeRow.emptyDeletedRow(
                                Clustering.make(Int32Type.instance.decompose(2)),
                                Row.Deletion.regular(DeletionTime.build(5, 1_000)))));
        assertThat(stored(true)).hasSize(21);
        store.flush();
        store.compact(List.of());
        assertThat(stored(true)).hasSize(2);
        assertThat(valueOf(0, "a")).isEqualTo(value(LARGE, 18));
        assertThat(valueOf(1, "a")).isEqualTo(value(LARGE, 19));
    }

    @Test
    void anIteratorSeesWhatWasThereWhenItWasOpenedThoughItIsSweptMeanwhile() {
        for (int i = 0; i < 3; i++) store.write(update(i, live("a", 1, value(LARGE, i))));
        store.flush();
        try (UnfilteredRowIterator rows =
                store.read(Tables.key(TABLE, "x"), Slices.ALL, ColumnFilter.all(TABLE), false)) {
            for (int i = 0; i < 3; i++) store.write(update(i, live("a", 2, value(LARGE, 50 + i))));
            store.compact(List.of());
            assertThat(stored(true)).hasSize(3);
            for (int i = 0; i < 3; i++)
                assertThat(((Row) rows.next()).getCell(column("a")).buffer())
                        .isEqualTo(value(LARGE, i));
        }
    }

    @Test
    void writersOfTheSameCellAgainAndTheSweepDoNotLoseIt() throws Exception {
        var stop = new java.util.concurrent.atomic.AtomicBoolean();
        Thread sweeper =
                new Thread(
                        () -> {
                            while (!stop.get()) store.compact(List.of());
                        });
        sweeper.start();
        try {
            for (int i = 1; i < 400; i++) {
                // Replaced, and then the row deleted, so that both cells are swept now and then.
                store.write(update(1, live("a", 3L * i, value(LARGE, 1))));
                store.write(update(1, live("a", 3L * i + 1, value(LARGE, 2))));
                store.write(update(1, live("a", 3L * i + 1, value(LARGE, 2))));
                assertThat(valueOf(1, "a")).describedAs("round %d", i).isEqualTo(value(LARGE, 2));
            }
        } finally {
            stop.set(true);
            sweeper.join();
        }
        assertThat(valueOf(1, "a")).isEqualTo(value(LARGE, 2));
    }

    /** What one replica streams to another, and what repair splits, is estimated by that. */
    @Test
    void estimatesOfRangesHaveTheirBytes() {
        Random random = new Random(1);
        byte[] noise = new byte[1_500];
        // RocksDB sizes ranges by blocks, in which there are more than a hundred keys.
        for (int k = 0; k < 5_000; k++) {
            random.nextBytes(noise);
            PartitionUpdate.SimpleBuilder update = Tables.update(TABLE, "k" + k);
            update.row(1).add("a", ByteBuffer.wrap(noise.clone()));
            store.write(update.build());
        }
        Token least = TABLE.partitioner.getMinimumToken();
        Token middle = new Murmur3Partitioner.LongToken(0);
        for (boolean flushed : new boolean[] {false, true}) {
            if (flushed) store.compact(List.of());
            // RocksDB sizes a part of a write buffer by heights that it draws at random.
            for (Range<Token> range :
                    List.of(
                            new Range<>(least, least),
                            new Range<>(least, middle),
                            new Range<>(middle, least)))
                assertThat(store.estimate(range).meanPartitionBytes())
                        .as("%s, flushed %s", range, flushed)
                        .isBetween(flushed ? 700L : 150L, flushed ? 3_500L : 15_000L);
        }
    }

    @Test
    void theyAreInCheckpointsAndSurviveReopening() {
        store.write(update(1, live("a", 1, value(LARGE, 1))));
        Path copy = directory.resolve("copy");
        store.checkpoint(copy);
        store.close();
        for (Path path : List.of(directory.resolve("1"), copy)) {
            store = Tables.open(engine, path, TABLE);
            assertThat(valueOf(1, "a")).isEqualTo(value(LARGE, 1));
            store.verify();
            store.close();
        }
    }

    @Test
    void aStoreOfFormat1OpensAndTakesLargeCells() throws Exception {
        store.write(update(1, live("a", 1, value(3, 1))));
        store.flush();
        Database database = Tables.context(store).database();
        database.db.dropColumnFamily(database.large);
        store.close();
        Path file = directory.resolve("1").resolve(StoreDescriptor.NAME);
        Tables.describe(directory.resolve("1"), "format=2", "format=1");
        store = Tables.open(engine, directory.resolve("1"), TABLE);
        assertThat(Files.readString(file)).contains("format=2");
        store.write(update(2, live("a", 1, value(LARGE, 1))));
        assertThat(valueOf(1, "a")).isEqualTo(value(3, 1));
        assertThat(valueOf(2, "a")).isEqualTo(value(LARGE, 1));
    }

    /** What is rewritten is an option of the column family, and the other one sets it back. */
    @Test
    void allAreRewrittenThoughASweepDropsGarbageMeanwhile() throws Exception {
        for (int file = 0; file < 10; file++) {
            store.write(update(file, live("a", 1, value(LARGE, file))));
            store.flush();
        }
        Database database = Tables.context(store).database();
        AtomicBoolean done = new AtomicBoolean();
        CompletableFuture<Void> sweeping =
                CompletableFuture.runAsync(
                        () -> {
                            while (!done.get())
                                Tables.context(store)
                                        .reopenable()
                                        .maintain(
                                                all ->
                                                        all.compactions.compactLarge(
                                                                0,
                                                                BottommostLevelCompaction
                                                                        .kForceOptimized));
                        });
        try {
            for (int round = 0; round < 50; round++) {
                Set<String> before = blobs();
                database.compactions.compactLarge(1, BottommostLevelCompaction.kForce);
                assertThat(blobs()).isNotEmpty().doesNotContainAnyElementsOf(before);
            }
        } finally {
            done.set(true);
        }
        sweeping.get();
    }
}
