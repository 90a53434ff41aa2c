// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.stream.SentStream;
import dev.petra.engine.stream.StreamSink;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.IntegerType;
import org.apache.cassandra.db.marshal.SimpleDateType;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.RowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The 25 ways in which Rocksandra failed, by number; {@code docs/rocksandra.md} has the list. Each
 * test lets the data go through write buffers, files and compaction.
 */
class RocksandraTest {
    private static final long LONG_AGO = UpdateBuilder.LONG_AGO;

    @TempDir Path directory;
    private final StorageEngine engine = Tables.engine();
    private TestTable table =
            TestTable.of(
                    "CREATE TABLE t (k text, c int, s text static, v text, w text, m"
                            + " map<text,text>, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 3600");
    private TableStore store;

    @AfterEach
    void close() {
        engine.close();
    }

    private TableStore open() {
        return open("1", table);
    }

    private TableStore open(String name, TestTable of) {
        table = of;
        store =
                engine.openStore(
                        new StoreSpec(
                                directory.resolve(name),
                                of.metadata().name,
                                1,
                                of.ref(),
                                () -> true));
        return store;
    }

    private UpdateBuilder update(Object... key) {
        return table.update(key);
    }

    private void insert(String key, int c, long timestamp, String value) {
        store.write(update(key).at(timestamp).row(c).liveness().set("v", value).build());
    }

    private void compact() {
        store.flush();
        store.compact(List.of());
    }

    /** What a user sees now. */
    private List<String> live(DecoratedKey key, Slices slices, boolean reversed) {
        UnfilteredRowIterator rows = store.read(key, slices, table.all(), reversed);
        return rows == null ? List.of() : live(rows);
    }

    private List<String> live(UnfilteredRowIterator unfiltered) {
        List<String> live = new ArrayList<>();
        long now = System.currentTimeMillis() / 1000;
        try (RowIterator rows = UnfilteredRowIterators.filter(unfiltered, now)) {
            if (!rows.staticRow().isEmpty()) live.add("static " + values(rows.staticRow()));
            while (rows.hasNext()) live.add(values(rows.next()));
        }
        return live;
    }

    private String values(Row row) {
        String text = row.toString(table.metadata(), false);
        return text.substring(text.indexOf(": ") + 2);
    }

    private List<String> live(String key) {
        return live(table.key(key), Slices.ALL, false);
    }

    private List<DecoratedKey> keys() {
        List<DecoratedKey> keys = new ArrayList<>();
        try (UnfilteredPartitionIterator scan =
                store.scan(DataRange.allData(table.metadata().partitioner), table.all())) {
            while (scan.hasNext())
                try (UnfilteredRowIterator partition = scan.next()) {
                    keys.add(partition.partitionKey());
                }
        }
        return keys;
    }

    /** In the write buffer, in a file, compacted once and again. */
    private void everywhere(Runnable check) {
        check.run();
        store.flush();
        check.run();
        store.compact(List.of());
        check.run();
        store.compact(List.of());
        check.run();
    }

    // Deletions

    @Test
    void r01aPartitionDeletionIsSeenAtOnceAndIsItsKeysAlone() {
        open();
        DecoratedKey one = table.keyWithToken(7, 1);
        DecoratedKey other = table.keyWithToken(7, 2);
        assertThat(one.getToken()).isEqualTo(other.getToken());
        for (DecoratedKey key : List.of(one, other))
            store.write(table.update(key).at(1).row(1).liveness().set("v", "x").build());
        store.write(table.update(one).at(2).deletePartition().build());
        everywhere(
                () -> {
                    assertThat(live(one, Slices.ALL, false)).isEmpty();
                    assertThat(live(other, Slices.ALL, false)).hasSize(1);
                });
    }

    @Test
    void r02aRowDeletionOutlivesMergesAndHidesOlderDataBelowIt() {
        open();
        insert("k", 1, 5, "old");
        compact();
        store.write(update("k").at(6).now(LONG_AGO).deleteRow(1).build());
        store.flush();
        // A merge operand above older data, past its grace: it must not go alone.
        everywhere(() -> assertThat(live("k")).isEmpty());
        insert("k", 1, 5, "late");
        insert("k", 2, 5, "other");
        store.write(update("k").at(6).deleteRow(2).build());
        store.write(update("k").at(4).row(2).set("w", "older").build());
        everywhere(() -> assertThat(live("k")).noneMatch(row -> row.contains("c=2")));
    }

    @Test
    void r03rowsOfOnlyAPrimaryKeyStay() {
        open();
        for (int c = 0; c < 5; c++) store.write(update("k").at(1).row(c).liveness().build());
        everywhere(() -> assertThat(live("k")).hasSize(5));
    }

    @Test
    void r04anExpiredCellIsOfItsOwnTimestampAndExpiresByItsLocalTime() {
        open();
        long now = System.currentTimeMillis() / 1000;
        store.write(update("k").at(10).now(now - 100).ttl(10).row(1).set("v", "old").build());
        store.write(update("k").at(11).row(1).set("v", "new").build());
        // A client's clock far in the past or the future does not decide.
        store.write(update("k").at(1).now(now).ttl(600).row(2).set("v", "young").build());
        store.write(
                update("k")
                        .at(TimeUnit.SECONDS.toMicros(now + 1_000_000))
                        .now(now - 100)
                        .ttl(10)
                        .row(3)
                        .set("v", "dead")
                        .build());
        everywhere(
                () ->
                        assertThat(live("k"))
                                .hasSize(2)
                                .anyMatch(row -> row.contains("v=new"))
                                .anyMatch(row -> row.contains("v=young")));
    }

    @Test
    void r05noMergeStripsATombstoneThatStillHidesSomething() {
        open();
        insert("k", 1, 1, "old");
        compact();
        store.write(update("k").at(10).now(LONG_AGO).deleteRow(1).build());
        // Reads merge; they must not purge.
        for (int i = 0; i < 3; i++) assertThat(live("k")).isEmpty();
        try (UnfilteredRowIterator rows =
                store.read(table.key("k"), Slices.ALL, table.all(), false)) {
            assertThat(((Row) rows.next()).deletion().time().markedForDeleteAt()).isEqualTo(10);
        }
        insert("k", 1, 5, "late");
        everywhere(() -> assertThat(live("k")).isEmpty());
    }

    @Test
    void r06rangeTombstonesAreWritten() {
        open();
        for (int c = 0; c < 10; c++) insert("k", c, 1, "x");
        store.write(
                update("k")
                        .at(2)
                        .deleteRange(table.from(2), table.before(5))
                        .deleteRange(table.after(7), table.to(8))
                        .build());
        everywhere(() -> assertThat(live("k")).hasSize(6));
    }

    @Test
    void r07tiesAreDecidedAsCassandraDoesInWhateverOrder() {
        open();
        for (long timestamp : new long[] {0, -5, Long.MIN_VALUE + 1, 7}) {
            String key = "k" + timestamp;
            insert(key, 1, timestamp, "a");
            insert(key, 1, timestamp, "b");
            insert(key, 2, timestamp, "b");
            store.flush();
            insert(key, 2, timestamp, "a");
            store.write(update(key).at(timestamp).row(3).unset("v").build());
            store.write(update(key).at(timestamp).row(3).set("v", "never").build());
            store.write(update(key).at(timestamp).row(4).set("v", "never").build());
            store.flush();
            store.write(update(key).at(timestamp).row(4).unset("v").build());
            everywhere(() -> assertThat(live(key)).hasSize(2).allMatch(row -> row.contains("v=b")));
        }
    }

    // Data model

    @Test
    void r08aRowDeletionAndCellsInOneUpdateKeepTheCells() {
        open();
        insert("k", 1, 1, "old");
        store.write(update("k").at(5).row(1).deletion().at(6).liveness().set("v", "new").build());
        everywhere(
                () ->
                        assertThat(live("k"))
                                .singleElement()
                                .asString()
                                .contains("v=new")
                                .doesNotContain("old"));
    }

    @Test
    void r09twoHundredColumnsAndColumnsThatComeAndGo() {
        StringBuilder columns = new StringBuilder();
        for (int i = 0; i < 200; i++) columns.append("v").append(i).append(" text, ");
        TestTable wide =
                TestTable.of("CREATE TABLE t (k text, c int, " + columns + "PRIMARY KEY (k, c))");
        open("wide", wide);
        UpdateBuilder.RowBuilder row = update("k").at(1).row(1).liveness();
        for (int i = 0; i < 200; i++) row.set("v" + i, "value" + i);
        store.write(row.build());
        // A column that sorts before all others shifts every position.
        wide.addColumn("a", Int32Type.instance);
        wide.dropColumn("v7", 100);
        store.write(update("k").at(200).row(1).set("a", 5).build());
        everywhere(
                () ->
                        assertThat(live("k"))
                                .singleElement()
                                .asString()
                                .contains("v0=value0", "v199=value199", "v128=value128", "a=5")
                                .doesNotContain("value7 "));
    }

    @Test
    void r10staticRowsAreReturnedAndAreNoRows() {
        open();
        store.write(update("k").at(1).staticRow().set("s", "of all").build());
        insert("k", 1, 1, "x");
        everywhere(
                () ->
                        assertThat(live("k"))
                                .hasSize(2)
                                .first()
                                .asString()
                                .contains("static", "s=of all"));
        assertThat(live(table.key("k"), table.slices(table.prefix(1)), true)).hasSize(2);
    }

    @Test
    void r11anInsertOfOnlyThePrimaryKeyIsVisible() {
        open();
        store.write(update("k").at(1).row(3).liveness().build());
        everywhere(() -> assertThat(live("k")).hasSize(1));
        // And an UPDATE without a marker is gone with its last cell.
        store.write(update("u").at(1).row(3).set("v", "x").build());
        store.write(update("u").at(2).row(3).unset("v").build());
        everywhere(() -> assertThat(live("u")).isEmpty());
    }

    @Test
    void r12collectionsUserTypesTuplesDurationsAndCounters() {
        TestTable rich =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, m map<text,int>, s set<int>, l list<text>,"
                                + " u tuple<int, text>, d duration, f frozen<list<int>>, PRIMARY"
                                + " KEY (k, c))");
        open("rich", rich);
        ByteBuffer tuple = rich.column("u").type.fromString("5:x");
        ByteBuffer duration = rich.column("d").type.fromString("1mo2d3h");
        store.write(
                update("k")
                        .at(1)
                        .row(1)
                        .liveness()
                        .put("m", "a", 1)
                        .add("s", 7)
                        .set("u", tuple)
                        .set("d", duration)
                        .build());
        store.write(update("k").at(2).row(1).put("m", "b", 2).remove("m", "a").build());
        everywhere(
                () ->
                        assertThat(live("k"))
                                .singleElement()
                                .asString()
                                .contains("m={b -> 2}", "s={7", "5:x", "1mo2d3h")
                                .doesNotContain("a ->"));
    }

    @Test
    void r13everySliceIsReadAndReverseStaysInItsPartition() {
        open();
        for (int c = 0; c < 10; c++) {
            insert("k", c, 1, "k");
            insert("l", c, 1, "l");
        }
        Slices slices = table.slices(table.prefix(1), table.prefix(4), table.prefix(8));
        everywhere(
                () -> {
                    assertThat(live(table.key("k"), slices, false)).hasSize(3);
                    assertThat(live(table.key("k"), slices, true)).hasSize(3);
                    for (String key : List.of("k", "l"))
                        assertThat(live(table.key(key), Slices.ALL, true))
                                .hasSize(10)
                                .allMatch(row -> row.contains("v=" + key));
                    assertThat(live(table.key("k"), table.slices(table.from(), table.to(3)), true))
                            .hasSize(4);
                });
    }

    @Test
    void r14datesBefore1970SortFirstAndNumbersKeepTheirBytes() {
        TestTable dates =
                TestTable.of("CREATE TABLE t (k varint, c date, v int, PRIMARY KEY (k, c))");
        open("dates", dates);
        ByteBuffer padded = ByteBuffer.wrap(new byte[] {0, 0, 5});
        DecoratedKey key = dates.metadata().partitioner.decorateKey(padded);
        for (String date : List.of("1969-12-31", "1970-01-01", "-0044-03-15", "2020-01-01"))
            store.write(
                    dates.update(key)
                            .at(1)
                            .row(SimpleDateType.instance.fromString(date))
                            .liveness()
                            .build());
        everywhere(
                () -> {
                    assertThat(keys()).containsExactly(key);
                    assertThat(keys().get(0).getToken()).isEqualTo(key.getToken());
                    assertThat(live(key, Slices.ALL, false)).hasSize(4);
                });
        List<String> order = new ArrayList<>();
        try (UnfilteredRowIterator rows = store.read(key, Slices.ALL, dates.all(), false)) {
            while (rows.hasNext())
                order.add(SimpleDateType.instance.getString(rows.next().clustering().bufferAt(0)));
        }
        assertThat(order).containsExactly("-0044-03-15", "1969-12-31", "1970-01-01", "2020-01-01");
        assertThat(IntegerType.instance.compare(padded, ByteBuffer.wrap(new byte[] {5}))).isZero();
    }

    // Ranges

    /** Of streams, the kit's StreamTests have the same. */
    @Test
    void r15rangesExcludeTheirLeftTokenAndIncludeTheirRight() {
        open();
        for (long token : new long[] {9, 10, 11, 19, 20, 21})
            store.write(table.update(table.keyWithToken(token, 0)).at(1).row(1).liveness().build());
        Range<Token> owned = new Range<>(TestTable.token(10), TestTable.token(20));
        store.compact(List.of(owned));
        assertThat(keys()).hasSize(6);
        store.retainRanges(List.of(owned));
        everywhere(
                () ->
                        assertThat(keys().stream().map(key -> key.getToken().getTokenValue()))
                                .containsExactly(11L, 19L, 20L));
    }

    @Test
    void r16scansSkipNoFileWhateverItsFilter() {
        open();
        for (int file = 0; file < 6; file++) {
            for (int i = 0; i < 20; i++) insert("key " + (i * 6 + file), 1, 1, "x");
            store.flush();
        }
        assertThat(keys()).hasSize(120);
        compact();
        assertThat(keys()).hasSize(120);
    }

    @Test
    void r17scansAreInTheOrderOfTokens() {
        open();
        for (int i = 0; i < 500; i++) insert("key " + i, i % 3, 1, "x");
        everywhere(() -> assertThat(keys()).hasSize(500).isSorted());
    }

    @Test
    void r18whatIsAbortedIsNotIngestedAndLeavesNoFiles() throws Exception {
        open();
        insert("k", 1, 1, "x");
        Path staged = store.spec().directory().resolve(StoreDescriptor.STREAMS);
        SentStream sent = SentStream.of(store);
        try (StreamSink in = store.receive(sent.head(), RangeTests.everything())) {
            sent.stagedBy(in);
            in.verify();
            store.write(update("k").at(9).deletePartition().build());
            assertThat(staged).isDirectoryContaining(Files::isDirectory);
        }
        assertThat(staged).isEmptyDirectory();
        assertThat(live("k")).isEmpty();
    }

    /** Repair compares what scans give, whatever was compacted. */
    @Test
    void r19scansGiveRepairTheSameBeforeAndAfterCompaction() {
        open();
        for (int i = 0; i < 50; i++) {
            insert("key " + i % 10, i % 4, i, "v" + i);
            if (i % 7 == 0) store.write(update("key " + i % 10).at(i).deleteRow(i % 3).build());
            if (i % 11 == 0) store.flush();
        }
        AtomicReference<List<List<String>>> before = new AtomicReference<>();
        everywhere(
                () -> {
                    List<List<String>> now =
                            keys().stream().map(key -> live(key, Slices.ALL, false)).toList();
                    if (before.get() == null) before.set(now);
                    assertThat(now).isEqualTo(before.get());
                });
    }

    // Life cycle

    @Test
    void r20dropRemovesTheFilesAndANewTableOfTheNameStartsEmpty() {
        open();
        insert("k", 1, 1, "old");
        store.drop();
        assertThat(directory.resolve("1")).doesNotExist();
        TestTable again =
                TestTable.of(
                        table.metadata()
                                .unbuild()
                                .id(org.apache.cassandra.schema.TableId.generate())
                                .build());
        open("1", again);
        assertThat(live("k")).isEmpty();
        insert("k", 2, 1, "new");
        store.close();
        // And no other table's store is taken for its own.
        TestTable third =
                TestTable.of(
                        table.metadata()
                                .unbuild()
                                .id(org.apache.cassandra.schema.TableId.generate())
                                .build());
        assertThatThrownBy(() -> open("1", third)).isInstanceOf(CorruptStoreException.class);
    }

    @Test
    void r21aFailureToOpenIsAnErrorThatNamesTheStore() throws Exception {
        open();
        insert("k", 1, 1, "x");
        store.flush();
        store.close();
        Files.writeString(directory.resolve("1").resolve("CURRENT"), "MANIFEST-999999\n");
        assertThatThrownBy(this::open)
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining("ks.t")
                .hasMessageContaining(directory.resolve("1").toString());
    }

    /**
     * TRUNCATE itself is the host's ({@code LifecycleIT}): a new generation, the old one dropped.
     */
    @Test
    void r22aNewGenerationHasNeitherRowsNorDeletionsOfTheOld() {
        open();
        insert("k", 1, 1, "old");
        store.write(update("k").at(100).deletePartition().build());
        store.write(update("l").at(100).deleteRange(table.from(1), table.to(5)).build());
        store.drop();
        store =
                engine.openStore(
                        new StoreSpec(directory.resolve("2"), "t", 2, table.ref(), () -> true));
        insert("k", 1, 5, "new");
        insert("l", 2, 5, "new");
        everywhere(
                () -> {
                    assertThat(live("k")).hasSize(1);
                    assertThat(live("l")).hasSize(1);
                });
    }

    @Test
    void r23useAfterCloseIsAnErrorAndOpenReadsAreWaitedFor() throws InterruptedException {
        open();
        for (int c = 0; c < 100; c++) insert("k", c, 1, "x");
        UnfilteredRowIterator rows = store.read(table.key("k"), Slices.ALL, table.all(), false);
        Thread closer = new Thread(store::close);
        closer.start();
        Tables.await(
                "the end of reads",
                () -> catchThrowable(() -> live("k")) instanceof IllegalStateException);
        assertThat(closer.isAlive()).isTrue();
        int read = 0;
        for (; rows.hasNext(); rows.next()) read++;
        rows.close();
        closer.join();
        assertThat(read).isEqualTo(100);
        for (Runnable use :
                List.<Runnable>of(
                        () -> live("k"),
                        () -> insert("k", 1, 1, "x"),
                        this::keys,
                        store::flush,
                        () -> store.compact(List.of())))
            assertThatThrownBy(use::run)
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("closed");
    }

    /**
     * The row cache is the host's ({@code docs/operations.md}); the store itself caches no rows.
     */
    @Test
    void r24aReadSeesWhatWasJustWritten() {
        open();
        for (int i = 0; i < 200; i++) {
            insert("k", 1, i, "v" + i);
            assertThat(live("k")).singleElement().asString().contains("v=v" + i);
            if (i % 50 == 0) compact();
        }
    }

    /** Rocksandra's check compared identities, so it could not fail: this one can, and does. */
    @Test
    void r25verifyFailsOnADamagedByte() throws Exception {
        open();
        for (int i = 0; i < 500; i++) insert("key " + i, 1, 1, "value " + i * 7919L);
        compact();
        store.verify();
        store.close();
        try (var files = Files.newDirectoryStream(directory.resolve("1"), "*.sst")) {
            for (Path file : files) {
                byte[] bytes = Files.readAllBytes(file);
                if (bytes.length < 4_000) continue;
                bytes[bytes.length / 3] ^= 1;
                Files.write(file, bytes);
            }
        }
        open();
        assertThatThrownBy(store::verify)
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining(".sst");
    }

    /** Nobody is left out of the list. */
    @Test
    void allTwentyFiveAreHere() {
        Map<String, Long> numbers =
                java.util.Arrays.stream(getClass().getDeclaredMethods())
                        .map(java.lang.reflect.Method::getName)
                        .filter(name -> name.matches("r\\d\\d[a-zA-Z0-9]*"))
                        .collect(
                                java.util.stream.Collectors.groupingBy(
                                        name -> name.substring(0, 3),
                                        java.util.stream.Collectors.counting()));
        assertThat(numbers).hasSize(25);
    }
}
