// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.common.primitives.ImmutableLongArray;
import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.index.DamagedIndexException;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.compaction.TimeWindows.Candidate;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.CompactionSettings;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.FileExtent;
import dev.petra.engine.rocks.db.ReopenableDatabase;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.TimeWindow;
import dev.petra.engine.rocks.nativelib.Reconciler;
import dev.petra.engine.rocks.stream.SentStream;
import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;
import org.assertj.core.api.Condition;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.CompactionOptions;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/** Files of one window are merged, expired ones go, and nothing that one hides comes back. */
class TimeWindowsTest {
    private static final long LONG_AGO = UpdateBuilder.LONG_AGO;
    private static final long MINUTE = 60_000_000;
    private static final UUID INDEX = new UUID(0, 1);

    private static final String TABLE =
            "CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 0"
                    + " AND compaction = {'class': 'TimeWindowCompactionStrategy',"
                    + " 'compaction_window_unit': 'MINUTES', 'compaction_window_size': 1,"
                    + " 'expired_sstable_check_frequency_seconds': 1, 'enabled': '%s'}";

    @TempDir Path directory;
    private TestTable table = TestTable.of(TABLE.formatted(false));
    private final AtomicBoolean mayPurge = new AtomicBoolean(true);
    private StorageEngine engine = engine();
    private TableStore store;

    private static StorageEngine engine() {
        return Tables.engine(
                Map.of("memory", "32MiB", "large_cell", "1KiB", "purge_interval", "1s"));
    }

    private void open() {
        open(mayPurge::get);
    }

    private void open(BooleanSupplier mayPurgeNow) {
        store =
                engine.openStore(
                        new StoreSpec(directory.resolve("1"), "t", 1, table.ref(), mayPurgeNow));
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private UpdateBuilder update(String key) {
        return table.update(key);
    }

    private String read(String key) {
        return Tables.text(store.read(table.key(key), Slices.ALL, table.all(), false));
    }

    private void live(String key, int row, long timestamp) {
        store.write(
                update(key)
                        .at(timestamp)
                        .row(row)
                        .set("v", "live " + row + " at " + timestamp)
                        .build());
    }

    /** What has long expired. */
    private void expired(String key, int row, long timestamp) {
        store.write(
                update(key)
                        .at(timestamp)
                        .now(LONG_AGO)
                        .ttl(10)
                        .row(row)
                        .set("v", "expired " + row)
                        .build());
    }

    private List<LiveFileMetaData> files() {
        return Tables.context(store).database().dataFiles();
    }

    private int entries() {
        int entries = 0;
        try (RocksIterator it =
                Tables.context(store)
                        .database()
                        .db
                        .newIterator(Tables.context(store).database().data)) {
            for (it.seekToFirst(); it.isValid(); it.next()) entries++;
        }
        return entries;
    }

    // What is merged

    /** Only a purge asks how much of a file may go. */
    @Test
    void whatAnEarlierVersionReadIsNotReadAgain() throws RocksDBException {
        open();
        for (int window = 0; window < 3; window++) {
            live("k", window, window * MINUTE);
            store.flush();
        }
        Tables.compactWindows(store);
        Catalog catalog = Tables.context(store).catalog();
        var extents = catalog.extents();
        assertThat(extents).hasSize(3);
        extents.forEach(
                (file, extent) ->
                        catalog.setExtent(
                                file,
                                new FileExtent(extent.lowest(), extent.highest(), extent.end())));
        store.close();
        open();
        Tables.compactWindows(store);
        assertThat(Tables.context(store).catalog().extents().values())
                .hasSize(3)
                .noneMatch(FileExtent::knowsGarbage);
    }

    @Test
    void aWindowThatIsOverIsMergedAndOthersAreNot() {
        open();
        for (int window = 0; window < 3; window++)
            for (int file = 0; file < 3; file++) {
                live("k", 10 * window + file, window * MINUTE + file);
                store.flush();
            }
        String before = read("k");
        assertThat(files()).hasSize(9);
        Tables.compactWindows(store);
        // One for each that is over, and of the newest three, which are too few.
        assertThat(files()).hasSize(5).allMatch(file -> file.level() == 0);
        assertThat(read("k")).isEqualTo(before);
        live("k", 29, 2 * MINUTE + 9);
        store.flush();
        Tables.compactWindows(store);
        assertThat(files()).hasSize(3);
        assertThat(entries()).isEqualTo(10);
    }

    private static CompactionSettings settings(int fewest, int most) {
        return new CompactionSettings(true, 10, 1, fewest, most, 50, new TimeWindow(100, 1));
    }

    private static List<String> pick(CompactionSettings settings, long... bytesAndHighest) {
        List<Candidate> files = new ArrayList<>();
        for (int i = 0; i < bytesAndHighest.length; i += 2)
            files.add(
                    new Candidate(
                            Integer.toString(i / 2),
                            Math.abs(bytesAndHighest[i]),
                            bytesAndHighest[i + 1],
                            bytesAndHighest[i] < 0));
        return TimeWindows.pick(files, new TimeWindow(100, 1), settings);
    }

    @Test
    void neighboursOfAWindowArePicked() {
        assertThat(pick(settings(4, 32))).isEmpty();
        assertThat(pick(settings(4, 32), 10, 250, 10, 150, 10, 50)).isEmpty();
        // Too few of the newest window, all of the one before.
        assertThat(pick(settings(4, 32), 10, 250, 10, 210, 10, 199, 9999, 100, 1, 50))
                .containsExactly("2", "3");
        assertThat(pick(settings(2, 32), 10, 250, 10, 210, 10, 199)).containsExactly("0", "1");
        // Not across one of another window, and not with one that is being merged.
        assertThat(pick(settings(4, 32), 1, 250, 1, 150, 1, 50, 1, 151)).isEmpty();
        assertThat(pick(settings(4, 32), 1, 250, 1, 150, -1, 151, 1, 151)).isEmpty();
        assertThat(pick(settings(4, 32), 1, -1, 1, -100, 1, -101, 1, -200))
                .containsExactly("2", "3");
    }

    /** What came of the first merge was in all that followed. */
    @Test
    void ofTooManyTheSmallestArePicked() {
        assertThat(pick(settings(4, 3), 1, 250, 9, 150, 1, 151, 1, 152))
                .containsExactly("1", "2", "3");
        assertThat(pick(settings(4, 3), 1, 250, 9, 150, 2, 151, 1, 152, 1, 153))
                .containsExactly("3", "4");
        assertThat(pick(settings(4, 2), 1, 250, 1, 150)).isEmpty();
        CompactionSettings settings = settings(4, 32);
        List<Candidate> files = new ArrayList<>();
        files.add(new Candidate("newest", 1, 250, false));
        for (int i = 0; i < 1000; i++) files.add(new Candidate("file " + i, 1, 150, false));
        long merged = 0;
        int merges = 0;
        while (files.size() > 2) {
            List<String> picked = TimeWindows.pick(files, new TimeWindow(100, 1), settings);
            assertThat(picked).hasSizeBetween(2, 32);
            int from = 0;
            while (!files.get(from).name().equals(picked.get(0))) from++;
            List<Candidate> some = files.subList(from, from + picked.size());
            assertThat(some).extracting(Candidate::name).isEqualTo(picked);
            long bytes = some.stream().mapToLong(Candidate::bytes).sum();
            some.clear();
            files.add(from, new Candidate("merge " + merges++, bytes, 150, false));
            merged += bytes;
        }
        assertThat(merges).isEqualTo(33);
        assertThat(merged).isEqualTo(2_000);
    }

    @Test
    void ofTheNewestWindowThoseOfLikeSizeArePicked() {
        // 30 is more than half as large again as what comes before it.
        assertThat(pick(settings(3, 32), 10, 1, 10, 1, 31, 1, 30, 1, 30, 1, 99, 1))
                .containsExactly("2", "3", "4", "5");
        assertThat(pick(settings(3, 32), 10, 1, 10, 1, 30, 1, 200, 1))
                .containsExactly("0", "1", "2");
        assertThat(pick(settings(3, 32), 1, 1, 2, 1, 5, 1, 13, 1)).isEmpty();
    }

    // What expires

    @Test
    void aFileInWhichEverythingHasExpiredGoesWhole() {
        open();
        for (int i = 0; i < 100; i++) expired("k" + i, i, i);
        store.write(update("x").at(50).now(LONG_AGO).deletePartition().build());
        store.write(update("y").at(50).now(LONG_AGO).deleteRow(1).build());
        store.flush();
        live("k1", 7, MINUTE);
        store.flush();
        String before = read("k1");
        assertThat(before).contains("live 7", "expired 1");
        Tables.compactWindows(store);
        assertThat(files()).hasSize(1);
        assertThat(read("k1")).contains("live 7").doesNotContain("expired");
        assertThat(entries()).isEqualTo(1);
        assertThat(read("x")).isEmpty();
    }

    /** Between its two compactions nothing of it is seen, and the next process ends the work. */
    @Test
    void aCrashInTheMiddleLeavesNothingToSee() throws RocksDBException {
        open();
        expired("k", 1, 1);
        expired("k", 2, 1);
        store.write(update("p").at(1).now(LONG_AGO).deletePartition().build());
        store.flush();
        compactOnce(2);
        assertThat(entries()).isEqualTo(3);
        store.close();
        open();
        assertThat(read("k")).isEmpty();
        assertThat(read("p")).isEmpty();
        try (UnfilteredPartitionIterator all =
                store.scan(DataRange.allData(table.metadata().partitioner), table.all())) {
            // As it may be wherever everything in one was deleted; Cassandra leaves them out.
            while (all.hasNext())
                try (UnfilteredRowIterator partition = all.next()) {
                    assertThat(partition.isEmpty()).isTrue();
                }
        }
        live("k", 1, 3);
        assertThat(read("k")).contains("live 1").doesNotContain("expired");
        store.flush();
        Tables.compactWindows(store);
        assertThat(files()).hasSize(1);
        assertThat(entries()).isEqualTo(1);
    }

    /** The only file, as the first of the two compactions does by which it goes. */
    private void compactOnce(long maxPurgeable) throws RocksDBException {
        Database database = Tables.context(store).database();
        LiveFileMetaData file = files().get(0);
        Tables.context(store).reconciler().clock(FBUtilities.nowInSeconds(), 0);
        Tables.context(store).reconciler().maxPurgeable(0, maxPurgeable);
        Reconciler.purgeHere(FBUtilities.nowInSeconds(), 0);
        try (CompactionOptions options = new CompactionOptions()) {
            database.db.compactFiles(
                    options, database.data, List.of(file.fileName()), file.level(), -1, null);
        } finally {
            Reconciler.purgeNowhere();
        }
    }

    /** Their record was gone, by which a read of one row knows that there are any. */
    @Test
    void aCrashInTheMiddleLeavesNoRangeTombstonesThatSomeReadsDoNotSee() throws RocksDBException {
        open();
        store.write(
                update("k").at(5).now(LONG_AGO).deleteRange(table.from(1), table.to(3)).build());
        store.flush();
        compactOnce(6);
        assertThat(entries()).isEqualTo(2);
        live("k", 2, 1);
        assertThat(read("k")).doesNotContain("live");
        Slices row = table.slices(table.from(2), table.to(2));
        assertThat(Tables.text(store.read(table.key("k"), row, table.all(), false)))
                .doesNotContain("live");
    }

    /** Or a read of one row would not see those that a write of meanwhile keeps. */
    @Test
    void rangeTombstonesGoWithTheirRecord() throws Exception {
        mayPurge.set(false);
        open();
        for (int batch = 0; batch < 100; batch++) {
            UpdateBuilder update = update("k").at(5).now(LONG_AGO);
            for (int c = 1_000 * batch; c < 1_000 * (batch + 1); c++)
                update.deleteRange(table.from(2 * c), table.to(2 * c));
            store.write(update.build());
        }
        store.compact(List.of());
        assertThat(files()).hasSize(1);
        assertThat(entries()).isEqualTo(100_001);
        Reconciler reconciler = Tables.context(store).reconciler();
        long before = reconciler.purged();
        AtomicBoolean ended = new AtomicBoolean();
        CompletableFuture<Void> late =
                CompletableFuture.runAsync(
                        () -> {
                            while (reconciler.purged() == before && !ended.get())
                                Thread.onSpinWait();
                            reconciler.lowerMaxPurgeable(0, 1);
                        });
        try {
            compactOnce(6);
        } finally {
            ended.set(true);
        }
        late.get();
        assertThat(entries()).isZero();
    }

    @Test
    void itStaysWhereAnythingElsewhereIsAsOld() {
        open();
        live("k", 1, 5);
        live("p", 1, 5);
        store.flush();
        expired("k", 1, 10);
        store.write(update("p").at(10).now(LONG_AGO).deletePartition().build());
        store.flush();
        String k = read("k");
        String p = read("p");
        assertThat(k).contains("expired 1").doesNotContain("live");
        // Twice: the second time nothing is new.
        for (int time = 0; time < 2; time++) {
            Tables.compactWindows(store);
            assertThat(read("k")).isEqualTo(k);
            assertThat(read("p")).isEqualTo(p);
        }
    }

    @Test
    void whatIsNotInAFileYetCountsToo() {
        open();
        expired("k", 1, 10);
        store.flush();
        live("k", 1, 10);
        String before = read("k");
        Tables.compactWindows(store);
        assertThat(read("k")).isEqualTo(before);
        assertThat(entries()).isEqualTo(1);
    }

    /** A write that began before may be in no file, and one that begins later is in none. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void whatIsWrittenMeanwhileCountsToo(boolean isOlder) throws Exception {
        open();
        expired("k", 1, 10);
        store.flush();
        StoreContext context = Tables.context(store);
        CompletableFuture<Void> dropping;
        int other = context.room().writers.begin();
        try {
            int next = 1 - context.reconciler().activeMaxPurgeable();
            dropping = CompletableFuture.runAsync(() -> Tables.compactWindows(store));
            Tables.await(
                    "the look at the files",
                    () -> context.reconciler().maxPurgeable(next) == Long.MAX_VALUE);
            context.reconciler().lowerMaxPurgeable(isOlder ? 10 : 11);
            assertThatThrownBy(() -> dropping.get(500, TimeUnit.MILLISECONDS))
                    .isInstanceOf(TimeoutException.class);
        } finally {
            context.room().writers.end(other);
        }
        dropping.get();
        assertThat(files()).hasSize(isOlder ? 1 : 0);
    }

    /** ALTER comes between the question whether it is due and its begin. */
    @Test
    void aTableThatHasNoWindowsAnyMoreIsLeftAlone() throws RocksDBException {
        open();
        live("k", 1, 1);
        store.flush();
        StoreContext context = Tables.context(store);
        DataFiles held = new DataFiles(context);
        TimeWindows windows = new TimeWindows(new Purge(context, held), held);
        windows.run(
                context.database(), new CompactionSettings(false, 10, 1L << 26, 4, 32, 50, null));
        assertThat(files()).hasSize(1);
    }

    /** As one that is damaged: it was counted as if it went. */
    @Test
    void whatStaysInAFileThatCannotGoCountsToo() throws RocksDBException {
        open();
        expired("j", 1, 9);
        store.flush();
        expired("k", 1, 10);
        store.flush();
        TimeWindows windows = windows();
        List<LiveFileMetaData> files = files();
        assertThat(windows.learn(Tables.context(store).database(), files)).isTrue();
        String damaged = files.get(1).fileName();
        long now = FBUtilities.nowInSeconds();
        long[] limit = new long[1];
        assertThat(windows.expired(files, file -> true, now, Long.MAX_VALUE, limit)).hasSize(2);
        assertThat(limit).containsExactly(Long.MAX_VALUE);
        assertThat(
                        windows.expired(
                                files,
                                file -> !file.fileName().equals(damaged),
                                now,
                                Long.MAX_VALUE,
                                limit))
                .isEmpty();
        assertThat(limit).containsExactly(9);
    }

    /** Each may take hours, and what hides it was in the second: it showed. */
    @Test
    void whatIsWrittenBetweenTwoDropsCountsToo() throws RocksDBException {
        open();
        expired("j", 1, 9);
        store.flush();
        store.write(update("k").at(10).now(LONG_AGO).deleteRow(1).build());
        store.flush();
        // It says what time it is.
        Tables.tick(store);
        TimeWindows windows = windows();
        List<LiveFileMetaData> files = files();
        assertThat(windows.learn(Tables.context(store).database(), files)).isTrue();
        Tables.context(store).reconciler().maxPurgeable(1, Long.MAX_VALUE);
        assertThat(drop(windows, files.get(1))).isTrue();
        live("k", 1, 5);
        String before = read("k");
        assertThat(before).doesNotContain("live");
        assertThat(drop(windows, files.get(0))).isFalse();
        assertThat(read("k")).isEqualTo(before);
        // Not even rewritten.
        assertThat(files())
                .extracting(LiveFileMetaData::fileName)
                .containsExactly(files.get(0).fileName());
        store.flush();
        Tables.compactWindows(store);
        assertThat(read("k")).isEqualTo(before);
    }

    /** The filter looks for each entry, whatever was computed of the file. */
    @Test
    void anEntryThatTheLimitsDoNotCoverStays() throws RocksDBException {
        open();
        expired("j", 1, 9);
        expired("k", 1, 10);
        expired("l", 1, 11);
        store.flush();
        // It says what time it is.
        Tables.tick(store);
        StoreContext context = Tables.context(store);
        assertThat(windows().learn(context.database(), files())).isTrue();
        // Wrong on purpose: it is believed.
        for (String file : context.catalog().extents().keySet())
            context.catalog().setExtent(file, new FileExtent(9, 9, LONG_AGO));
        TimeWindows windows = windows();
        assertThat(windows.learn(context.database(), files())).isTrue();
        context.reconciler().maxPurgeable(1, 10);
        assertThat(drop(windows, files().get(0))).isFalse();
        assertThat(read("j")).doesNotContain("ts=9");
        assertThat(read("k")).contains("ts=10");
        assertThat(read("l")).contains("ts=11");
    }

    private TimeWindows windows() {
        DataFiles held = new DataFiles(Tables.context(store));
        return new TimeWindows(new Purge(Tables.context(store), held), held);
    }

    /** By the second max purgeable timestamp. */
    private boolean drop(TimeWindows windows, LiveFileMetaData file) throws RocksDBException {
        StoreContext context = Tables.context(store);
        return windows.drop(
                context.database(), file, FBUtilities.nowInSeconds(), context.reconciler(), 1);
    }

    /** It would be rewritten, to no end. */
    @Test
    void aboveAFileThatCannotGoNoneIsTried() throws RocksDBException {
        mayPurge.set(false);
        open();
        live("k", 1, 1);
        store.flush();
        Tables.compactWindows(store);
        // Wrong on purpose: it is believed.
        Catalog catalog = Tables.context(store).catalog();
        for (String file : catalog.extents().keySet())
            catalog.setExtent(file, new FileExtent(1, 1, LONG_AGO));
        store.close();
        open();
        expired("k", 2, MINUTE);
        store.flush();
        String above = files().get(0).fileName();
        String before = read("k");
        mayPurge.set(true);
        Tables.compactWindows(store);
        assertThat(files()).hasSize(2).extracting(LiveFileMetaData::fileName).contains(above);
        assertThat(read("k")).isEqualTo(before);
    }

    @Test
    void oneThatStaysKeepsThoseThatItMayHideFrom() {
        open();
        // Merged with nothing: each in a window of its own.
        expired("a", 1, MINUTE / 2);
        expired("a", 2, 1);
        store.flush();
        expired("b", 1, MINUTE / 3);
        expired("b", 2, 2 * MINUTE - 1);
        store.flush();
        live("c", 1, MINUTE);
        live("c", 2, 3 * MINUTE);
        store.flush();
        String a = read("a");
        String b = read("b");
        Tables.compactWindows(store);
        assertThat(files()).hasSize(3);
        assertThat(read("a")).isEqualTo(a);
        assertThat(read("b")).isEqualTo(b);
    }

    /** Until its grace has passed, as the host says. */
    @Test
    void whatExpiredWithinItsGraceStays() {
        AtomicLong gcBefore = new AtomicLong(LONG_AGO + 10);
        store = engine.openStore(table.spec(directory.resolve("1"), gcBefore::get));
        expired("k", 1, 1);
        store.flush();
        Tables.compactWindows(store);
        assertThat(files()).hasSize(1);
        assertThat(read("k")).contains("expired 1");
        gcBefore.incrementAndGet();
        Tables.compactWindows(store);
        assertThat(files()).isEmpty();
    }

    @Test
    void whatMayNotBePurgedStays() {
        mayPurge.set(false);
        open();
        expired("k", 1, 1);
        store.flush();
        Tables.compactWindows(store);
        assertThat(files()).hasSize(1);
        mayPurge.set(true);
        Tables.compactWindows(store);
        assertThat(files()).isEmpty();
    }

    /** The answer by which it was found is old when it is to go. */
    @Test
    void whatMayNotBePurgedAnyMoreStays() {
        Thread test = Thread.currentThread();
        AtomicInteger asked = new AtomicInteger();
        BooleanSupplier answer =
                () -> {
                    if (Thread.currentThread() != test || !mayPurge.get()) return false;
                    if (asked.incrementAndGet() == 2) {
                        mayPurge.set(false);
                        store.stopPurging();
                    }
                    return true;
                };
        mayPurge.set(false);
        open(answer);
        expired("k", 1, 1);
        store.flush();
        mayPurge.set(true);
        Tables.compactWindows(store);
        assertThat(asked.get()).isEqualTo(2);
        assertThat(files()).hasSize(1);
        assertThat(read("k")).contains("expired 1");
    }

    /** Of its files some are live, with a deletion, and others not yet, with what it deletes. */
    @Test
    void whatAStreamBringsThatBeginsMeanwhileStays() {
        Thread test = Thread.currentThread();
        AtomicInteger asked = new AtomicInteger();
        open(
                () -> {
                    // By then it is known that none arrives.
                    if (Thread.currentThread() == test && asked.incrementAndGet() == 2) {
                        Tables.context(store).filesBegin();
                        store.write(update("k").at(10).now(LONG_AGO).deletePartition().build());
                        store.flush();
                    }
                    return true;
                });
        Tables.compactWindows(store);
        assertThat(asked.get()).isGreaterThanOrEqualTo(2);
        live("k", 1, 5);
        Tables.context(store).filesEnd();
        assertThat(read("k")).doesNotContain("live");
        assertThat(files()).hasSize(1);
    }

    /**
     * A prohibition waits for the purge of an expired file, and not for the merge of a window: what
     * that had removed, and not shown yet, would go all the same.
     */
    @Test
    void whatIsMergedLosesNoDeletion() {
        AtomicLong gcBefore = new AtomicLong(LONG_AGO);
        store = engine.openStore(table.spec(directory.resolve("1"), gcBefore::get));
        store.write(update("k").at(2).now(LONG_AGO).deleteRow(1).build());
        // From here on the limits are those of what is written.
        store.compact(List.of());
        assertThat(read("k")).contains("deletedAt=2");
        // So often that the write buffer gets the row as it is below it.
        for (int time = 0; time < 70; time++) live("k", 1, 100 + time);
        store.flush();
        live("k", 2, 200);
        store.flush();
        live("k", 3, 2 * MINUTE);
        store.flush();
        gcBefore.incrementAndGet();
        Tables.tick(store);
        String before = read("k");
        assertThat(before).contains("deletedAt=2");
        int files = files().size();
        Tables.compactWindows(store);
        assertThat(files()).hasSize(files - 1);
        assertThat(read("k")).isEqualTo(before);
        // As it would be merged with what is below it.
        assertThat(Tables.context(store).reconciler().purged()).isZero();
    }

    /** What cannot be read may be as old as anything: it and all that has expired stays. */
    @Test
    void aMalformedEntryKeepsItsFileAndEndsNothingElse() throws RocksDBException {
        open();
        live("bad", 1, 1);
        byte[] key = Tables.firstKey(store);
        Tables.context(store)
                .database()
                .db
                .put(Tables.context(store).database().data, key, new byte[] {4, -1});
        store.flush();
        expired("k", 1, MINUTE);
        store.flush();
        for (int file = 0; file < 3; file++) {
            live("k", 10 + file, (2 + file / 2) * MINUTE + file);
            store.flush();
        }
        for (int time = 0; time < 2; time++) {
            Tables.compactWindows(store);
            // The unreadable, the expired, one for the window that is over, and the newest.
            assertThat(files()).hasSize(4);
            assertThat(read("k")).contains("live 10", "live 11", "live 12");
            assertThat(entries()).isEqualTo(5);
            assertThat(Tables.context(store).catalog().extents())
                    .hasSize(3)
                    .doesNotContainValue(FileExtent.UNKNOWN);
            store.close();
            open();
        }
        // Deleted without being read.
        Tables.context(store).database().db.delete(Tables.context(store).database().data, key);
        store.compact(List.of());
        Tables.compactWindows(store);
        assertThat(read("k")).contains("live 10").doesNotContain("expired 1");
    }

    @Test
    void whatWasDeletedWithinItsGraceStays() {
        open();
        expired("k", 2, 1);
        store.flush();
        store.write(update("k").at(MINUTE).deleteRow(1).build());
        store.flush();
        Tables.compactWindows(store);
        assertThat(files()).hasSize(1);
        assertThat(read("k")).contains("del");
        assertThat(entries()).isEqualTo(1);
    }

    @Test
    void filesOfOtherLevelsGoToo() {
        open();
        expired("k", 1, 1);
        live("k", 2, MINUTE);
        mayPurge.set(false);
        store.compact(List.of());
        mayPurge.set(true);
        assertThat(files()).allMatch(file -> file.level() == 6);
        Tables.compactWindows(store);
        // It has something live in it.
        assertThat(entries()).isEqualTo(2);
        store.compact(List.of());
        assertThat(entries()).isEqualTo(1);
        mayPurge.set(false);
        store.write(update("k").at(2 * MINUTE).now(LONG_AGO).deleteRow(2).build());
        store.compact(List.of());
        mayPurge.set(true);
        assertThat(files()).hasSize(1).allMatch(file -> file.level() == 6);
        Tables.compactWindows(store);
        assertThat(files()).isEmpty();
    }

    /** RocksDB puts it to the bottom, where no files are merged. */
    @Test
    void theFileOfAStreamThatOverlapsNothingGoesToo() throws IOException {
        open();
        TableStore from = engine.openStore(table.spec(directory.resolve("2")));
        from.write(update("k").at(1).now(LONG_AGO).ttl(10).row(1).set("v", "expired").build());
        SentStream.of(from).ingestedBy(store);
        assertThat(files()).hasSize(1).allMatch(file -> file.level() > 0);
        Tables.compactWindows(store);
        assertThat(files()).isEmpty();
    }

    /** Where an older file stays, nothing above it can go: its entries might have to be merged. */
    @Test
    void aboveAnOlderFileThatStaysNoneGoes() {
        mayPurge.set(false);
        open();
        Database database = Tables.context(store).database();
        database.setOptions(database.data, Map.of("target_file_size_base", "20000"));
        List<String> keys = new ArrayList<>();
        for (int i = 0; i < 900; i++) keys.add("k" + i);
        keys.sort(Comparator.comparing(table::key));
        Random random = new Random(7);
        for (int i = 0; i < keys.size(); i++) {
            StringBuilder value = new StringBuilder();
            while (value.length() < 200) value.append((char) ('a' + random.nextInt(26)));
            // Files of the last keys have nothing live in them, and are older than what shares its
            // file with something live.
            boolean live = i < 300;
            int expired = keys.size() - i;
            store.write(
                    update(keys.get(i))
                            .at(live ? MINUTE : expired)
                            .now(live ? UpdateBuilder.NOW : LONG_AGO)
                            .ttl(live ? 0 : 10)
                            .row(1)
                            .set("v", value.toString())
                            .build());
        }
        store.compact(List.of());
        int below = files().size();
        assertThat(below).isGreaterThan(6);
        expired(keys.get(150), 2, 300);
        store.flush();
        List<String> above =
                files().stream()
                        .filter(file -> file.level() == 0)
                        .map(LiveFileMetaData::fileName)
                        .toList();
        assertThat(above).hasSize(1);
        mayPurge.set(true);
        Tables.compactWindows(store);
        assertThat(files()).extracting(LiveFileMetaData::fileName).containsAll(above);
        assertThat(files()).hasSizeLessThan(below);
        assertThat(read(keys.get(899))).isEmpty();
        assertThat(read(keys.get(150))).contains("expired 2");
        // Nor does a file below it that may hide what is in it.
        assertThat(read(keys.get(500))).isNotEmpty();
    }

    @Test
    void whatFilesHoldIsReadOnceAndForgottenWithThem() throws Exception {
        open();
        live("k", 1, 7);
        live("k", 2, 5);
        store.flush();
        Tables.compactWindows(store);
        assertThat(Tables.context(store).catalog().extents())
                .hasSize(1)
                .hasValueSatisfying(
                        new Condition<>(
                                extent ->
                                        extent.lowest() == 5
                                                && extent.highest() == 7
                                                && extent.end() == Long.MAX_VALUE,
                                "5 to 7"));
        // Wrong on purpose: it is believed.
        FileExtent wrong = new FileExtent(1, 2, 3, 4, 2, 0, ImmutableLongArray.of(3, 2, 4));
        String file = Tables.context(store).catalog().extents().keySet().iterator().next();
        Tables.context(store).catalog().setExtent(file, wrong);
        store.close();
        open();
        mayPurge.set(false);
        Tables.compactWindows(store);
        assertThat(Tables.context(store).catalog().extents()).containsEntry(file, wrong);
        // And does no harm: what it does not cover is not removed.
        mayPurge.set(true);
        Tables.compactWindows(store);
        assertThat(entries()).isEqualTo(2);
        live("k", 3, 8);
        store.flush();
        store.compact(List.of());
        Tables.compactWindows(store);
        assertThat(Tables.context(store).catalog().extents()).hasSize(1).doesNotContainKey(file);
    }

    @Test
    void valuesThatLieApartAreSweptAfterwards() throws InterruptedException {
        open();
        store.write(
                update("k").at(1).now(LONG_AGO).ttl(10).row(1).set("v", "x".repeat(5_000)).build());
        store.flush();
        Tables.compactWindows(store);
        assertThat(entries()).isZero();
        Tables.await(
                "a compaction",
                () -> {
                    try (RocksIterator it =
                            Tables.context(store)
                                    .database()
                                    .db
                                    .newIterator(Tables.context(store).database().large)) {
                        it.seekToFirst();
                        return !it.isValid();
                    }
                });
    }

    @Test
    void itHappensByItself() throws InterruptedException {
        table = TestTable.of(TABLE.formatted(true));
        open();
        expired("k", 1, 1);
        store.flush();
        for (int i = 0; i < 2; i++) {
            live("k", i, MINUTE + i);
            store.flush();
        }
        live("k", 9, 2 * MINUTE);
        store.flush();
        Tables.await("a compaction", () -> files().size() == 2);
        assertThat(read("k")).contains("live 0", "live 1", "live 9").doesNotContain("expired");
    }

    @Test
    void aStoreClosesWhileAWindowIsMerged() {
        CompletableFuture<Void> merging = mergeForLong();
        String before = read("k1");
        int files = files().size();
        store.close();
        merging.join();
        open();
        // Had it waited for the end, they would be fewer.
        assertThat(files()).hasSize(files);
        assertThat(read("k1")).isEqualTo(before);
    }

    /** Writes were refused until the merge was done, which may take hours. */
    @Test
    void aStoreWhoseDiskWasFullGoesOnThoughAWindowIsMerged() {
        CompletableFuture<Void> merging = mergeForLong();
        healsWithoutTheMerge(merging, Tables.noSpace(), "is full");
    }

    /** The same of a store that drops its indexes because a file of them is damaged. */
    @Test
    void aStoreWhoseIndexesAreDamagedGoesOnThoughAWindowIsMerged() {
        CompletableFuture<Void> merging = mergeForLong();
        store.indexes().define(INDEX);
        store.write(
                update("k3").at(2 * MINUTE).row(1).set("v", "x").build(),
                List.of(new TermEntry(INDEX, ByteBufferUtil.bytes("x"), table.clustering(1))));
        store.flush();
        healsWithoutTheMerge(
                merging, Tables.damagedIndex(store), "A file of the indexes of ks.t is damaged");
        assertThat(store.indexes().lost()).containsExactly(INDEX);
    }

    /** Which a read has found: writes went on until the rebuild. */
    @Test
    void aDamagedIndexIsDefinedAgainThoughAWindowIsMerged() {
        CompletableFuture<Void> merging = mergeForLong();
        int files = files().size();
        ReopenableDatabase reopenable = withIndex();
        damage(reopenable);
        assertThat(reopenable.isWritable()).isTrue();
        Tables.await("the definition", this::isDefinedAgain);
        merging.join();
        assertThat(files()).hasSize(files);
        live("k2", 10, 2 * MINUTE);
        store.flush();
    }

    /** As a purge reads files, or a compaction of all runs: for hours, in between reads wait. */
    @Test
    void aDamagedIndexIsDefinedAgainThoughTheStoreIsUsedForLong() {
        open();
        live("k1", 9, 2 * MINUTE);
        ReopenableDatabase reopenable = withIndex();
        damage(reopenable);
        CountDownLatch began = new CountDownLatch(1);
        CompletableFuture<Void> using =
                CompletableFuture.runAsync(
                        () ->
                                reopenable.maintain(
                                        database -> {
                                            began.countDown();
                                            while (true) {
                                                reopenable.healing.checkNotFull();
                                                LockSupport.parkNanos(
                                                        TimeUnit.MILLISECONDS.toNanos(1));
                                            }
                                        }));
        Uninterruptibles.awaitUninterruptibly(began);
        Tables.await("the definition", this::isDefinedAgain);
        assertThatThrownBy(using::join).hasMessageContaining("damaged");
        live("k2", 10, 2 * MINUTE);
        store.flush();
    }

    /** Each of them ends within a second, but there is always one: writes went without for 15 s. */
    @Test
    void aDamagedIndexIsDefinedAgainBesideReadsThatOverlap() {
        open();
        live("k1", 9, 2 * MINUTE);
        ReopenableDatabase reopenable = withIndex();
        AtomicBoolean ended = new AtomicBoolean();
        CountDownLatch began = new CountDownLatch(3);
        List<CompletableFuture<Void>> reads = new ArrayList<>();
        for (int reader = 0; reader < 3; reader++)
            reads.add(CompletableFuture.runAsync(() -> readOverAndOver(reopenable, began, ended)));
        Uninterruptibles.awaitUninterruptibly(began);
        damage(reopenable);
        Tables.await(
                "the definition",
                () -> {
                    boolean isDefined = isDefinedAgain();
                    assertThat(reopenable.isWritable()).isTrue();
                    return isDefined;
                });
        ended.set(true);
        reads.forEach(CompletableFuture::join);
    }

    private static void readOverAndOver(
            ReopenableDatabase reopenable, CountDownLatch began, AtomicBoolean ended) {
        while (!ended.get()) {
            var unused =
                    reopenable.measure(
                            database -> {
                                began.countDown();
                                Uninterruptibles.sleepUninterruptibly(400, TimeUnit.MILLISECONDS);
                                return true;
                            });
        }
    }

    private ReopenableDatabase withIndex() {
        store.indexes().define(INDEX);
        return Tables.context(store).reopenable();
    }

    /** As a read finds it. */
    private static void damage(ReopenableDatabase reopenable) {
        assertThat(reopenable.healing.onIndexDamage(new RocksDBException("damaged")))
                .isInstanceOf(DamagedIndexException.class);
    }

    private boolean isDefinedAgain() {
        try {
            store.indexes().define(INDEX);
            return true;
        } catch (WriteStallException e) {
            assertThat(e).hasMessageContaining("Try again");
            return false;
        }
    }

    private void healsWithoutTheMerge(
            CompletableFuture<Void> merging, RocksDBException failure, String reason) {
        String before = read("k1");
        int files = files().size();
        ReopenableDatabase reopenable = Tables.context(store).reopenable();
        // It is not opened anew before this use of it has ended.
        reopenable.maintain(
                database -> {
                    assertThat(reopenable.healing.failed(failure))
                            .isInstanceOf(WriteStallException.class);
                    assertThat(reopenable.isWritable()).isFalse();
                    // By which what takes long says why it ends.
                    assertThatThrownBy(reopenable.healing::checkNotFull)
                            .hasMessageContaining(reason);
                });
        Tables.await("the healing", reopenable::isWritable);
        // It throws nothing: what the healing ended is not damaged, and is merged another time.
        merging.join();
        assertThat(files()).hasSize(files);
        assertThat(read("k1")).isEqualTo(before);
        live("k2", 10, 2 * MINUTE);
        store.flush();
    }

    /** Cassandra would take it for a broken disk, and disk_failure_policy might end the node. */
    @Test
    void aFlushThatIsEndedWithAMergeIsStalled() {
        CompletableFuture<Void> merging = mergeForLong();
        live("k2", 10, 2 * MINUTE);
        ReopenableDatabase reopenable = Tables.context(store).reopenable();
        assertThatThrownBy(
                        () ->
                                reopenable.maintain(
                                        database -> {
                                            assertThat(reopenable.healing.failed(Tables.noSpace()))
                                                    .isInstanceOf(WriteStallException.class);
                                            merging.join();
                                            database.flush();
                                        }))
                .isInstanceOf(WriteStallException.class)
                .hasMessageContaining("full");
        Tables.await("the healing", reopenable::isWritable);
        store.flush();
        assertThat(read("k2")).contains("live 10");
    }

    /** As where the node stops, or the table is truncated or dropped. */
    @Test
    void aFlushThatMeetsTheEndOfItsStoreFindsItClosed() {
        CompletableFuture<Void> merging = mergeForLong();
        live("k2", 10, 2 * MINUTE);
        List<CompletableFuture<Void>> closing = new ArrayList<>();
        assertThatThrownBy(
                        () ->
                                Tables.context(store)
                                        .reopenable()
                                        .maintain(
                                                database -> {
                                                    closing.add(
                                                            CompletableFuture.runAsync(
                                                                    store::close));
                                                    merging.join();
                                                    database.flush();
                                                }))
                .isInstanceOf(IllegalStateException.class)
                .hasMessage("The store of ks.t is closed.");
        closing.get(0).join();
        open();
        assertThat(read("k2")).contains("live 10");
    }

    /** RocksDB does not track the thread; merges of other tables would find the same room. */
    @Test
    void aMergeTakesRoomUntilItHasEnded() throws Exception {
        CompletableFuture<Void> merging = mergeForLong();
        FileStore disk = Files.getFileStore(directory);
        assertThat(UnfinishedMerges.on(disk)).isGreaterThan(20 << 20);
        engine.compactionThroughput(Long.MAX_VALUE);
        merging.join();
        Tables.await("the end", () -> UnfinishedMerges.on(disk) == 0);
    }

    /** Two files of a window that is over. */
    private CompletableFuture<Void> mergeForLong() {
        open();
        Random random = new Random(7);
        byte[] noise = new byte[500];
        for (int file = 0; file < 2; file++) {
            for (int i = 0; i < 400; i++) {
                UpdateBuilder update = update("k" + i).at(file);
                for (int row = 0; row < 50; row++) {
                    random.nextBytes(noise);
                    update.row(row).set("v", new String(noise, ISO_8859_1)).end();
                }
                store.write(update.build());
            }
            store.flush();
        }
        live("k1", 9, 2 * MINUTE);
        store.flush();
        // For a while an engine's compactions may write as much as was written to it, and more.
        engine.close();
        engine = engine();
        // Half a minute. RocksDB ends a merge behind the megabyte that it writes.
        engine.compactionThroughput(1_000_000);
        open();
        CompletableFuture<Void> merging =
                CompletableFuture.runAsync(() -> Tables.compactWindows(store));
        Tables.await(
                "a compaction", () -> files().stream().anyMatch(LiveFileMetaData::beingCompacted));
        assertThat(engine.backgroundTasks())
                .singleElement()
                .satisfies(task -> assertThat(task.totalBytes()).isGreaterThan(20 << 20));
        return merging;
    }

    /** RocksDB refuses all writes after a compaction that met damage. */
    @Test
    void aDamagedFileStopsNeitherWritesNorOtherWindows() {
        open();
        for (int row = 0; row < 200; row++) live("k", row, row);
        store.flush();
        String old = files().get(0).fileName();
        // What it holds is known before it is damaged.
        Tables.compactWindows(store);
        Tables.damage(store, old);
        for (int window : new int[] {0, 1, 1, 2}) {
            live("k", 1000, window * MINUTE + 999);
            store.flush();
        }
        List<String> before = files().stream().map(LiveFileMetaData::fileName).toList();
        Tables.compactWindows(store);
        assertThat(files()).hasSize(before.size() - 1);
        assertThat(files()).anyMatch(file -> file.fileName().equals(old));
        live("k", 1001, 3 * MINUTE);
        store.flush();
        live("k", 1002, 2 * MINUTE);
        live("k", 1003, 4 * MINUTE);
        store.flush();
        int files = files().size();
        Tables.compactWindows(store);
        assertThat(files()).hasSize(files);
        assertThat(files()).anyMatch(file -> file.fileName().equals(old));
    }

    /** Each interval; in a table of which a window expires a day, all of it was read every day. */
    @Test
    void largeCellsAreNotSweptUntilEnoughMayBeGarbage() throws RocksDBException {
        open();
        Purge purge = new Purge(Tables.context(store), new DataFiles(Tables.context(store)));
        for (int row = 0; row < 8; row++)
            store.write(update("k").at(1).row(row).set("v", "x".repeat(5_000)).build());
        store.write(update("k").at(2).row(1).set("v", "y".repeat(5_000)).build());
        store.flush();
        purge.run(Tables.context(store).database(), true);
        assertThat(large()).isEqualTo(9);
        store.compact(List.of());
        assertThat(large()).isEqualTo(8);
    }

    private int large() {
        int large = 0;
        Database database = Tables.context(store).database();
        try (RocksIterator it = database.db.newIterator(database.large)) {
            for (it.seekToFirst(); it.isValid(); it.next()) large++;
        }
        return large;
    }
}
