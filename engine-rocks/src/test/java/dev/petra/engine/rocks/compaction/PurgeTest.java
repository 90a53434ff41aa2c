// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.engine.PurgeProgress;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.CompactionStoppedException;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.InterruptedThread;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import dev.petra.engine.rocks.nativelib.Reconciler;
import dev.petra.engine.rocks.read.Cursor;
import dev.petra.engine.rocks.read.PartitionHeader;
import dev.petra.engine.rocks.read.ReadContext;
import dev.petra.engine.rocks.stream.SentStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.Lock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.utils.FBUtilities;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.CompactionOptions;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Snapshot;

/** What gc_grace has passed over goes, to the last byte, and never what still hides something. */
class PurgeTest {
    private static final long LONG_AGO = UpdateBuilder.LONG_AGO;

    @TempDir Path directory;
    private final TestTable table =
            TestTable.of(
                    "CREATE TABLE t (k text, c int, s text static, v text, w text, m"
                            + " map<text,text>, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 3600");
    private final AtomicBoolean mayPurge = new AtomicBoolean(true);
    private StorageEngine engine =
            Tables.engine(Map.of("memory", "32MiB", "large_cell", "100B", "purge_interval", "1d"));
    private TableStore store;

    /** It purges by itself then. */
    private void openWithShortInterval() {
        engine.close();
        engine =
                Tables.engine(
                        Map.of("memory", "32MiB", "large_cell", "100B", "purge_interval", "1s"));
        open();
    }

    private TableStore open() {
        return open(mayPurge::get);
    }

    private TableStore open(BooleanSupplier mayPurgeNow) {
        store =
                engine.openStore(
                        new StoreSpec(directory.resolve("1"), "t", 1, table.ref(), mayPurgeNow));
        return store;
    }

    private void reopen() {
        store.close();
        open();
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private UpdateBuilder update(String key) {
        return table.update(key);
    }

    private String read(String key) {
        UnfilteredRowIterator rows = store.read(table.key(key), Slices.ALL, table.all(), false);
        return Tables.text(rows);
    }

    /** What RocksDB holds, key by key. */
    private Map<String, String> stored() {
        HexFormat hex = HexFormat.of();
        Map<String, String> stored = new TreeMap<>();
        Database database = Tables.context(store).database();
        for (var family : List.of(database.data, database.large))
            try (RocksIterator it = database.db.newIterator(family)) {
                for (it.seekToFirst(); it.isValid(); it.next())
                    stored.put(hex.formatHex(it.key()), hex.formatHex(it.value()));
            }
        return stored;
    }

    private void rows(String key, int from, int to, long timestamp) {
        for (int i = from; i < to; i++)
            store.write(
                    update(key)
                            .at(timestamp)
                            .row(i)
                            .liveness()
                            .set("v", "v" + i)
                            .set("w", "w".repeat(200))
                            .put("m", "p", "q")
                            .build());
    }

    /** Without what lies above it: as RocksDB may choose, and compactRange never does. */
    private void compactTheBottomAlone() throws RocksDBException {
        Database database = Tables.context(store).database();
        List<String> bottom =
                database.db.getLiveFilesMetaData().stream()
                        .filter(file -> file.level() == 6)
                        .filter(
                                file ->
                                        Arrays.equals(
                                                file.columnFamilyName(),
                                                RocksDB.DEFAULT_COLUMN_FAMILY))
                        .map(LiveFileMetaData::fileName)
                        .toList();
        assertThat(bottom).isNotEmpty();
        try (CompactionOptions options = new CompactionOptions()) {
            database.db.compactFiles(options, database.data, bottom, 6, -1, null);
        }
    }

    /** A store of which the host says what may be purged. */
    private void openBefore(AtomicLong gcBefore) {
        store = engine.openStore(table.spec(directory.resolve("1"), gcBefore::get));
    }

    private void compact() {
        store.flush();
        store.compact(List.of());
    }

    /**
     * A stream that began then is still read: what was needed then must reach its receiver,
     * whatever gc_grace is by now.
     */
    @Test
    void whatTheHostKeepsStays() {
        long now = FBUtilities.nowInSeconds();
        AtomicLong gcBefore = new AtomicLong(now - 1000);
        openBefore(gcBefore);
        store.write(update("before").at(1).now(now - 1001).deleteRow(1).build());
        store.write(update("since").at(1).now(now - 999).deleteRow(1).build());
        store.write(update("since").at(1).now(now - 999).deletePartition().build());
        compact();
        table.alter(table.metadata().unbuild().gcGraceSeconds(0).build());
        compact();
        assertThat(stored()).isNotEmpty();
        assertThat(read("before")).isEmpty();
        assertThat(read("since")).isNotEmpty();
        gcBefore.set(now);
        compact();
        assertThat(stored()).isEmpty();
    }

    @Test
    void aDeletedRowLeavesNothing() {
        open();
        rows("x", 0, 3, 1);
        store.write(update("x").at(2).now(LONG_AGO).deleteRow(0).deleteRow(1).deleteRow(2).build());
        compact();
        assertThat(stored()).isEmpty();
    }

    @Test
    void deletedCellsElementsAndCollectionsLeaveNothing() {
        open();
        store.write(
                update("x")
                        .at(1)
                        .row(1)
                        .set("v", "a")
                        .set("w", "b")
                        .put("m", "p", "q")
                        .end()
                        .staticRow()
                        .set("s", "t")
                        .build());
        compact();
        store.write(
                update("x")
                        .at(2)
                        .now(LONG_AGO)
                        .row(1)
                        .unset("v")
                        .unset("w")
                        .clear("m")
                        .end()
                        .staticRow()
                        .unset("s")
                        .build());
        assertThat(read("x")).isNotEmpty();
        compact();
        assertThat(stored()).isEmpty();
    }

    @Test
    void whatExpiredLongAgoLeavesNothing() {
        open();
        store.write(
                update("x")
                        .at(1)
                        .now(LONG_AGO)
                        .ttl(60)
                        .row(1)
                        .liveness()
                        .set("v", "a")
                        .set("w", "w".repeat(200))
                        .build());
        compact();
        assertThat(stored()).isEmpty();
    }

    @Test
    void whatExpiredWithinItsGraceKeepsATombstoneWithoutTheValue() {
        open();
        long now = System.currentTimeMillis() / 1000;
        store.write(
                update("x").at(1).now(now - 100).ttl(10).row(1).set("v", "z".repeat(90)).build());
        compact();
        assertThat(stored()).hasSize(1);
        assertThat(stored().values().iterator().next()).hasSizeLessThan(90);
        assertThat(read("x")).contains("[v=<tombstone>");
    }

    @Test
    void aDeletedPartitionLeavesNothing() {
        open();
        rows("x", 0, 50, 1);
        rows("y", 0, 5, 1);
        store.write(update("x").at(1).staticRow().set("s", "t").build());
        Map<String, String> others = new TreeMap<>();
        stored().forEach((key, value) -> others.put(key, value));
        store.write(update("x").at(2).now(LONG_AGO).deletePartition().build());
        String before = read("x");
        assertThat(before).hasLineCount(1);
        compact();
        assertThat(read("x")).isEmpty();
        assertThat(read("y")).hasLineCount(6);
        // 5 rows and 5 large cells of the other partition.
        assertThat(stored()).hasSize(10);
        assertThat(others).containsAllEntriesOf(stored());
    }

    /** A deletion wins over what is as old as it. */
    @Test
    void whatHasTheTimestampOfTheDeletionAboveItStaysHidden() {
        open();
        rows("partition", 0, 3, 5);
        rows("range", 0, 3, 5);
        store.write(update("partition").at(5).staticRow().set("s", "x").end().build());
        compact();
        store.write(update("partition").at(5).now(LONG_AGO).deletePartition().build());
        store.write(
                update("range")
                        .at(5)
                        .now(LONG_AGO)
                        .deleteRange(table.from(0), table.to(3))
                        .build());
        compact();
        compact();
        assertThat(read("partition")).isEmpty();
        assertThat(read("range")).isEmpty();
        assertThat(stored()).isEmpty();
    }

    @Test
    void aRangeTombstoneAndItsRowsLeaveNothing() {
        open();
        rows("x", 0, 50, 1);
        store.write(
                update("x")
                        .at(2)
                        .now(LONG_AGO)
                        .deleteRange(table.from(10), table.to(49))
                        .deleteRange(table.from(0), table.before(10))
                        .build());
        assertThat(read("x")).doesNotContain("[v=");
        compact();
        assertThat(stored()).isEmpty();
    }

    @Test
    void deletionsOfRowsNewerThanThoseThatCoverThemStay() {
        open();
        rows("x", 0, 4, 1);
        rows("x", 2, 4, 9);
        store.write(update("x").at(5).now(LONG_AGO).deletePartition().build());
        store.write(update("x").at(10).deleteRow(3).build());
        compact();
        assertThat(read("x")).hasLineCount(3).contains("del=").contains("v=v2");
        assertThat(read("x").lines().skip(1)).noneMatch(line -> line.contains("c=0"));
    }

    @Test
    void nothingGoesBeforeItsGrace() {
        open();
        rows("x", 0, 3, 1);
        store.write(update("x").at(2).deleteRow(0).build());
        store.write(update("x").at(2).deleteRange(table.from(1), table.to(1)).build());
        store.write(update("y").at(2).deletePartition().build());
        String x = read("x");
        String y = read("y");
        compact();
        compact();
        assertThat(read("x")).isEqualTo(x);
        assertThat(read("y")).isEqualTo(y);
    }

    @Test
    void nothingGoesWhileTheHostForbidsIt() {
        mayPurge.set(false);
        open();
        store.write(update("x").at(2).now(LONG_AGO).deleteRow(0).build());
        store.write(update("y").at(2).now(LONG_AGO).deletePartition().build());
        compact();
        assertThat(read("x")).contains("del=");
        assertThat(stored()).hasSize(2);
        mayPurge.set(true);
        compact();
        assertThat(stored()).isEmpty();
    }

    /** What a compaction had removed, and not shown yet, went all the same. */
    @Test
    void aPurgeUnderWayLetsNothingGoOnceTheHostForbidsIt() throws Exception {
        forbidInTheMiddle(() -> mayPurge.set(false));
    }

    /** As where the clock was ahead and is set back, or gc_grace grows. */
    @Test
    void aPurgeUnderWayLetsNothingGoOnceLessMayGo() throws Exception {
        forbidInTheMiddle(
                () -> table.alter(table.metadata().unbuild().gcGraceSeconds(1 << 30).build()));
    }

    /**
     * The prohibition comes when the purge has asked what to push down: nothing is rewritten yet,
     * so there is nothing to wait for.
     */
    @Test
    void whatCoversOtherKeysStaysOnceTheHostForbidsItBeforeTheyGo() {
        Thread test = Thread.currentThread();
        AtomicInteger asked = new AtomicInteger();
        mayPurge.set(false);
        open(
                () -> {
                    if (!mayPurge.get()) return false;
                    // Once for the clock, once whether to purge at all.
                    if (Thread.currentThread() == test && asked.incrementAndGet() == 3) {
                        mayPurge.set(false);
                        store.stopPurging();
                    }
                    return true;
                });
        coverings();
        mayPurge.set(true);
        store.compact(List.of());
        assertThat(asked.get()).isEqualTo(3);
        assertThat(mayPurge.get()).isFalse();
        whatCameAfterwardsIsHidden();
    }

    /** Between the two nothing runs that could be stopped. */
    @Test
    void whatCoversOtherKeysStaysOnceTheHostForbidsItBeforeTheirCompactionBegins()
            throws RocksDBException {
        mayPurge.set(false);
        open();
        coverings();
        compact();
        mayPurge.set(true);
        StoreContext context = Tables.context(store);
        Database database = context.database();
        PurgePermission permission = new PurgePermission(context);
        permission.clock(database);
        Reconciler reconciler = context.reconciler();
        reconciler.maxPurgeable(reconciler.activeMaxPurgeable(), Long.MAX_VALUE);
        assertThat(permission.letCoversGo(permission.gcBefore(), permission.restrictions()))
                .isTrue();
        mayPurge.set(false);
        permission.clock(database);
        assertThat(Purge.force(database, null, null)).isTrue();
        whatCameAfterwardsIsHidden();
    }

    private void coverings() {
        rows("partition", 0, 3, 1);
        rows("range", 0, 3, 1);
        store.write(update("partition").at(10).now(LONG_AGO).deletePartition().build());
        store.write(
                update("range")
                        .at(10)
                        .now(LONG_AGO)
                        .deleteRange(table.from(0), table.to(9))
                        .build());
    }

    /** As from an SSTable, of which the host knows that nothing goes that hides it. */
    private void whatCameAfterwardsIsHidden() {
        for (String key : List.of("partition", "range")) {
            store.write(update(key).at(5).row(7).set("v", "hidden").build());
            assertThat(read(key)).doesNotContain("hidden");
        }
    }

    private void forbidInTheMiddle(Runnable forbid) throws Exception {
        engine.close();
        // It must not begin a purge by itself.
        engine = Tables.engine(Map.of("memory", "32MiB", "purge_interval", "1d"));
        open();
        // With more to rewrite each time, until it is met in the middle.
        for (int attempt = 0; attempt < 20; attempt++) {
            int many = 100 << Math.min(attempt, 7);
            deletions(many);
            TableStore purged = store;
            long before = Tables.context(purged).reconciler().purged();
            var compaction = CompletableFuture.runAsync(() -> purged.compact(List.of()));
            while (Tables.context(purged).reconciler().purged() < before + 10
                    && !compaction.isDone()) Thread.onSpinWait();
            forbid.run();
            store.stopPurging();
            Map<String, String> deleted = deleted(many);
            for (String key : deleted.keySet())
                // As from an SSTable that is moved in.
                store.write(update(key).at(5).row(0).set("v", "hidden").build());
            compaction.get();
            Tables.tick(store);
            store.compact(List.of());
            assertThat(deleted(many)).isEqualTo(deleted);
            // And it goes on when it may.
            table.alter(table.metadata().unbuild().gcGraceSeconds(3600).build());
            mayPurge.set(true);
            store.compact(List.of());
            assertThat(deleted(many)).isEmpty();
            if (!deleted.isEmpty()) return;
        }
        throw new AssertionError("it was never met in the middle");
    }

    /** Each stream cancelled it, and it began anew: with enough of them it never ended. */
    @Test
    void aStreamThatArrivesCancelsNoCompaction() {
        assertThat(
                        isCancelledBy(
                                context -> {
                                    context.filesBegin();
                                    Tables.tick(store);
                                    context.filesEnd();
                                }))
                .isFalse();
    }

    /** By then nothing might go because of the stream, so that there was no less than before. */
    @Test
    void theHostForbidsItAlsoWhileAStreamArrives() {
        assertThat(
                        isCancelledBy(
                                context -> {
                                    context.filesBegin();
                                    Tables.tick(store);
                                    mayPurge.set(false);
                                }))
                .isTrue();
        Tables.context(store).filesEnd();
    }

    /** Whether a compaction that was asked for is, at the next tick after something. */
    private boolean isCancelledBy(Consumer<StoreContext> what) {
        open();
        Database database = Tables.context(store).database();
        Tables.tick(store);
        try (CompactRangeOptions compaction = new CompactRangeOptions().setCanceled(false)) {
            database.compactions.purgeBegins(compaction);
            what.accept(Tables.context(store));
            Tables.tick(store);
            boolean isCancelled = compaction.canceled();
            assertThat(database.compactions.purgeEnded(compaction)).isEqualTo(isCancelled);
            return isCancelled;
        }
    }

    /** It reported success, and the deletions stayed. */
    @Test
    void aPurgeThatWasAskedForGoesOnAfterAStream() throws Exception {
        var compaction = purgeThatAStreamMeets();
        // It neither gives up nor begins again and again.
        assertThatThrownBy(() -> compaction.get(500, TimeUnit.MILLISECONDS))
                .isInstanceOf(TimeoutException.class);
        Tables.context(store).filesEnd();
        compaction.get();
        assertThat(stored()).isEmpty();
    }

    /** What it was to remove stays from then on, and nobody has looked at the clock meanwhile. */
    @Test
    void aPurgeThatAShortStreamMeetsIsRepeated() throws Exception {
        var compaction =
                purgeThatMeets(
                        context -> {
                            context.filesBegin();
                            context.reconciler().lowerMaxPurgeable(Long.MIN_VALUE);
                            context.filesEnd();
                        });
        compaction.get();
        assertThat(stored()).isEmpty();
    }

    @Test
    void aPurgeThatWaitsForAStreamCanBeStopped() {
        var compaction = purgeThatAStreamMeets();
        Tables.await(
                "the wait",
                () -> {
                    store.stopCompactions();
                    return compaction.isDone();
                });
        assertThatThrownBy(compaction::get).hasCauseInstanceOf(CompactionStoppedException.class);
        Tables.context(store).filesEnd();
        store.compact(List.of());
        assertThat(stored()).isEmpty();
    }

    /** A purge that stands still in its midst, until it is let go. */
    private final class HeldPurge {
        private final AtomicReference<Thread> purging = new AtomicReference<>();
        private final AtomicInteger asked = new AtomicInteger();
        final CountDownLatch isHeld = new CountDownLatch(1);
        final CountDownLatch goesOn = new CountDownLatch(1);

        /** What the store asks its host. */
        boolean mayPurge() {
            // The third time it has begun, and asks what to push down.
            if (Thread.currentThread() == purging.get() && asked.incrementAndGet() == 3) {
                isHeld.countDown();
                Uninterruptibles.awaitUninterruptibly(goesOn);
            }
            return true;
        }

        CompletableFuture<Void> begin() {
            return CompletableFuture.runAsync(
                    () -> {
                        purging.set(Thread.currentThread());
                        store.compact(List.of());
                    });
        }
    }

    /** It began when the other had ended, which the same command stops. */
    @Test
    void aPurgeThatWaitsForAnotherCanBeStopped() throws Exception {
        HeldPurge held = new HeldPurge();
        open(held::mayPurge);
        rows("x", 0, 3, 1);
        store.write(update("x").at(2).now(LONG_AGO).deleteRow(0).deleteRow(1).deleteRow(2).build());
        var first = held.begin();
        try {
            held.isHeld.await();
            var second = CompletableFuture.runAsync(() -> store.compact(List.of()));
            Tables.await(
                    "the end of the one that waits",
                    () -> {
                        store.stopCompactions();
                        return second.isDone();
                    });
            assertThatThrownBy(second::get).hasCauseInstanceOf(CompactionStoppedException.class);
            assertThat(first.isDone()).isFalse();
        } finally {
            held.goesOn.countDown();
        }
        assertThatThrownBy(first::get).hasCauseInstanceOf(CompactionStoppedException.class);
        store.compact(List.of());
        assertThat(stored()).isEmpty();
    }

    /** It took all of a processor for as long as the other ran. */
    @Test
    void aPurgeThatWaitsForAnotherDoesNotSpinIfItIsInterrupted() throws Exception {
        HeldPurge held = new HeldPurge();
        open(held::mayPurge);
        rows("x", 0, 3, 1);
        store.write(update("x").at(2).now(LONG_AGO).deleteRow(0).deleteRow(1).deleteRow(2).build());
        var first = held.begin();
        AtomicBoolean isOver = new AtomicBoolean();
        try {
            held.isHeld.await();
            InterruptedThread.waits(
                    () -> {
                        assertThatThrownBy(() -> store.compact(List.of()))
                                .isInstanceOf(CompactionStoppedException.class);
                        isOver.set(true);
                    },
                    () ->
                            Tables.await(
                                    "the end of the one that waits",
                                    () -> {
                                        store.stopCompactions();
                                        return isOver.get();
                                    }));
        } finally {
            held.goesOn.countDown();
        }
        assertThatThrownBy(first::get).hasCauseInstanceOf(CompactionStoppedException.class);
    }

    /** As if it had been forbidden before. */
    @Test
    void aPurgeThatTheHostForbidsMeanwhileIsACompaction() throws Exception {
        var compaction = purgeThatAStreamMeets();
        mayPurge.set(false);
        Tables.context(store).filesEnd();
        compaction.get();
        assertThat(stored()).isNotEmpty();
        assertThat(Tables.context(store).database().dataFiles())
                .hasSize(1)
                .allMatch(file -> file.level() == 6);
    }

    /** One that waits for a write that had begun, and then has a stream before its end. */
    private CompletableFuture<Void> purgeThatAStreamMeets() {
        return purgeThatMeets(
                context -> {
                    context.filesBegin();
                    Tables.tick(store);
                });
    }

    private CompletableFuture<Void> purgeThatMeets(Consumer<StoreContext> what) {
        engine.close();
        // It must not begin a purge by itself.
        engine = Tables.engine(Map.of("memory", "32MiB", "purge_interval", "1d"));
        open();
        rows("x", 0, 3, 1);
        store.flush();
        store.write(update("x").at(2).now(LONG_AGO).deleteRow(0).deleteRow(1).deleteRow(2).build());
        StoreContext context = Tables.context(store);
        Reconciler reconciler = context.reconciler();
        int next = 1 - reconciler.activeMaxPurgeable();
        int write = context.room().writers.begin();
        TableStore purged = store;
        var compaction = CompletableFuture.runAsync(() -> purged.compact(List.of()));
        Tables.await("the purge", () -> reconciler.maxPurgeable(next) == Long.MAX_VALUE);
        what.accept(context);
        context.room().writers.end(write);
        return compaction;
    }

    /** A client that read such a row made a purge rewrite all of its slice again. */
    @Test
    void whatAReadMergesIsNothingThatTheFilterMissed() throws RocksDBException {
        mayPurge.set(false);
        open();
        store.write(update("x").at(1).now(LONG_AGO).row(1).unset("v").build());
        compact();
        mayPurge.set(true);
        Tables.tick(store);
        store.write(update("x").at(1000).row(1).set("w", "newer").build());
        Reconciler reconciler = Tables.context(store).reconciler();
        reconciler.maxPurgeable(reconciler.activeMaxPurgeable(), 500);
        reconciler.watch(true);
        try {
            for (int i = 0; i < 100; i++) assertThat(read("x")).contains("w=newer");
            assertThat(reconciler.leftovers()).isZero();
            // What the compaction itself merges is.
            Database database = Tables.context(store).database();
            assertThat(
                            database.compactions.tryCompact(
                                    database.data, null, null, BottommostLevelCompaction.kForce))
                    .isTrue();
            assertThat(reconciler.leftovers()).isOne();
        } finally {
            reconciler.watch(false);
        }
    }

    private void deletions(int partitions) {
        byte[] noise = new byte[10_000];
        mayPurge.set(false);
        for (int i = 0; i < partitions; i++) {
            new Random(i).nextBytes(noise);
            store.write(
                    update("live" + i)
                            .at(1)
                            .row(0)
                            .set("w", HexFormat.of().formatHex(noise))
                            .build());
            store.write(update("p" + i).at(10).now(LONG_AGO).deletePartition().build());
            store.write(update("r" + i).at(10).now(LONG_AGO).deleteRow(0).build());
            store.write(
                    update("t" + i)
                            .at(10)
                            .now(LONG_AGO)
                            .deleteRange(table.from(0), table.to(9))
                            .build());
        }
        compact();
        mayPurge.set(true);
        Tables.tick(store);
    }

    private Map<String, String> deleted(int partitions) {
        Map<String, String> deleted = new TreeMap<>();
        for (int i = 0; i < partitions; i++)
            for (String kind : List.of("p", "r", "t")) {
                String content = read(kind + i);
                if (!content.isEmpty()) deleted.put(kind + i, content);
            }
        return deleted;
    }

    /** Why {@code ArchitectureTest} forbids them. */
    @Test
    void aSnapshotOfRocksDbsWouldShowWhatIsDeleted() throws RocksDBException {
        open();
        rows("x", 0, 1, 1);
        store.write(
                update("x").at(2).now(LONG_AGO).deleteRange(table.from(0), table.to(9)).build());
        Database database = Tables.context(store).database();
        try (Snapshot snapshot = database.db.getSnapshot()) {
            compact();
            List<Integer> kinds = new ArrayList<>();
            try (ReadOptions options = Database.newReadOptions().setSnapshot(snapshot);
                    RocksIterator it = database.db.newIterator(database.data, options)) {
                for (it.seekToFirst(); it.isValid(); it.next()) {
                    ByteBuffer key = ByteBuffer.wrap(it.key());
                    Tables.context(store).partitionKeys().get(key);
                    kinds.add(key.get() & 0xFF);
                }
            }
            database.db.releaseSnapshot(snapshot);
            // The row, and no deletion of it.
            assertThat(kinds).containsExactly(KeyKind.ROW);
        }
        assertThat(read("x")).contains("del=deletedAt=2").doesNotContain("v=v0");
    }

    /** Rows, and the values that lie apart from them. */
    @Test
    void whoeverBeganToReadReadsToTheEndWhatThereWas() throws Exception {
        open();
        for (String key : List.of("x", "y", "z")) {
            rows(key, 0, 100, 1);
            store.write(
                    update(key)
                            .at(2)
                            .now(LONG_AGO)
                            .deleteRange(table.from(90), table.to(95))
                            .build());
        }
        String slice = read("y");
        String scan = scanned(store.scan(all(), table.all()), () -> {});
        UnfilteredRowIterator rows = store.read(table.key("y"), Slices.ALL, table.all(), false);
        assertThat(rows.hasNext()).isTrue();
        String again =
                scanned(
                        store.scan(all(), table.all()),
                        () -> {
                            for (String key : List.of("x", "y", "z"))
                                store.write(
                                        update(key).at(5).now(LONG_AGO).deletePartition().build());
                            compact();
                            compact();
                            assertThat(stored()).isEmpty();
                        });
        assertThat(again).isEqualTo(scan);
        assertThat(Tables.text(rows)).isEqualTo(slice);
        assertThat(read("y")).isEmpty();
    }

    private DataRange all() {
        return DataRange.allData(table.metadata().partitioner);
    }

    /** Does something behind the first partition's first row. */
    private static String scanned(UnfilteredPartitionIterator scan, Runnable meanwhile) {
        StringBuilder text = new StringBuilder();
        try (scan) {
            for (boolean first = true; scan.hasNext(); first = false) {
                UnfilteredRowIterator partition = scan.next();
                if (first) {
                    assertThat(partition.hasNext()).isTrue();
                    meanwhile.run();
                }
                text.append(Tables.text(partition));
            }
        }
        return text.toString();
    }

    private long rangeTombstones(String key) {
        ByteSink position = new ByteSink();
        Tables.context(store).partitionKeys().put(position, table.key(key));
        position.put(KeyKind.RANGE);
        ByteBuffer prefix = position.flipped();
        long count = 0;
        try (Cursor cursor = new ReadContext(Tables.context(store), table.all()).open()) {
            for (cursor.seek(prefix.duplicate());
                    cursor.isValid() && Keys.startsWith(cursor.key(), prefix);
                    cursor.next()) count++;
        }
        return count;
    }

    private SupersededRanges supersededRanges() {
        StoreContext context = Tables.context(store);
        return new SupersededRanges(context, new DataFiles(context));
    }

    private byte[] position(String key) {
        ByteSink position = new ByteSink();
        Tables.context(store).partitionKeys().put(position, table.key(key));
        return position.copy(0, position.position());
    }

    /** As of a queue; within their grace, and though the host forbids any purge. */
    @Test
    void rangeTombstonesThatNewerOnesHideGoOnceTheyAreMany() throws Exception {
        mayPurge.set(false);
        open();
        int many = 3_000;
        for (int i = 1; i <= many; i++) {
            store.write(update("q").at(i).row(i).set("v", "v" + i).build());
            store.write(
                    update("q").at(i).deleteRange(ClusteringBound.BOTTOM, table.before(i)).build());
        }
        assertThat(rangeTombstones("q")).isEqualTo(many);
        String before = read("q");
        Tables.await(
                "one range tombstone",
                () -> {
                    assertThat(read("q")).isEqualTo(before);
                    return rangeTombstones("q") == 1;
                });
        assertThat(read("q")).isEqualTo(before);
        store.write(update("q").at(many - 1).row(7).set("v", "hidden").build());
        assertThat(read("q")).doesNotContain("hidden");
        reopen();
        assertThat(read("q")).doesNotContain("hidden").contains("v" + many);
        assertThat(rangeTombstones("q")).isEqualTo(1);
    }

    /**
     * Or a write that synced itself just before would say of the removal too that it is durable,
     * and after a power loss the log would be taken for damaged.
     */
    @Test
    void theirRemovalIsNotTakenForSynced() throws Exception {
        open();
        store.write(update("q").at(1).deleteRange(ClusteringBound.BOTTOM, table.before(5)).build());
        store.write(update("q").at(2).deleteRange(ClusteringBound.BOTTOM, table.before(9)).build());
        store.syncLog();
        assertThat(Tables.context(store).room().isAsideSynced()).isTrue();
        var found = supersededRanges().find(position("q"));
        assertThat(supersededRanges().remove(Tables.context(store).database(), found)).isEqualTo(1);
        assertThat(Tables.context(store).room().isAsideSynced()).isFalse();
        store.syncLog();
        assertThat(Tables.context(store).room().isAsideSynced()).isTrue();
    }

    /** It has the same key. */
    @Test
    void oneThatIsWrittenAgainMeanwhileStays() throws Exception {
        open();
        store.write(update("q").at(1).deleteRange(ClusteringBound.BOTTOM, table.before(5)).build());
        store.write(update("q").at(2).deleteRange(ClusteringBound.BOTTOM, table.before(9)).build());
        var found = supersededRanges().find(position("q"));
        assertThat(found).hasSize(1);
        store.write(update("q").at(3).deleteRange(ClusteringBound.BOTTOM, table.before(5)).build());
        assertThat(supersededRanges().remove(Tables.context(store).database(), found)).isZero();
        assertThat(rangeTombstones("q")).isEqualTo(2);
    }

    /**
     * The one that hides it goes with the purge, as it is past its grace, and the younger one below
     * hides from then on.
     */
    @Test
    void noneThatAnotherHidesGoesWhileAPurgeRuns() throws Exception {
        HeldPurge held = new HeldPurge();
        open(held::mayPurge);
        store.write(update("q").at(5).deleteRange(ClusteringBound.BOTTOM, table.before(5)).build());
        store.write(
                update("q")
                        .at(9)
                        .now(LONG_AGO)
                        .deleteRange(ClusteringBound.BOTTOM, table.before(9))
                        .build());
        StoreContext context = Tables.context(store);
        var compaction = held.begin();
        try {
            held.isHeld.await();
            context.superseded().met(500, 1, Keys.direct(position("q")));
            assertThat(context.superseded().isThere()).isTrue();
            Tables.removeHidden(store);
        } finally {
            held.goesOn.countDown();
        }
        compaction.get();
        store.write(update("q").at(4).row(3).set("v", "hidden").build());
        assertThat(read("q")).doesNotContain("hidden");
        assertThat(rangeTombstones("q")).isOne();
    }

    @Test
    void whatRandomRangeTombstonesHideStaysHidden() throws Exception {
        open();
        long seed = System.nanoTime();
        Random random = new Random(seed);
        long removed = 0;
        for (int history = 0; history < 100; history++) {
            String key = "k" + history;
            for (int i = 0; i < 12; i++) {
                int from = random.nextInt(12);
                UpdateBuilder update = update(key).at(1 + random.nextInt(9));
                switch (random.nextInt(3)) {
                    case 0 -> update.deleteRange(ClusteringBound.BOTTOM, table.before(from));
                    case 1 ->
                            update.deleteRange(
                                    table.from(from), table.to(from + random.nextInt(6)));
                    default ->
                            update.deleteRange(
                                    table.from(from), table.before(from + 1 + random.nextInt(6)));
                }
                store.write(update.build());
            }
            List<Long> before = hidden(key);
            removed +=
                    supersededRanges()
                            .remove(
                                    Tables.context(store).database(),
                                    supersededRanges().find(position(key)));
            assertThat(hidden(key)).as("seed " + seed + ", " + history).isEqualTo(before);
        }
        assertThat(removed).isGreaterThan(100);
    }

    /** Up to which timestamp each row is hidden. */
    private List<Long> hidden(String key) throws Exception {
        ReadContext context = new ReadContext(Tables.context(store), table.all());
        List<Long> hidden = new ArrayList<>();
        try (Cursor cursor = context.open()) {
            ByteBuffer prefix = ByteBuffer.wrap(position(key));
            ByteBuffer direct = ByteBuffer.allocateDirect(prefix.remaining()).put(prefix).flip();
            cursor.seek(direct.duplicate());
            PartitionHeader header =
                    PartitionHeader.read(cursor, direct, context, Slices.ALL, false);
            for (int row = -1; row < 25; row++) {
                RangeTombstone over =
                        header.deletions()
                                .rangeCovering(Clustering.make(Int32Type.instance.decompose(row)));
                hidden.add(over == null ? 0 : over.deletionTime().markedForDeleteAt());
            }
        }
        return hidden;
    }

    /** Nobody could stop it, or wait for it. */
    @Test
    void aCompactionThatRocksDbBeginsRemovesNoDeletion() throws Exception {
        engine.close();
        engine = Tables.engine(Map.of("memory", "32MiB", "purge_interval", "1d"));
        open();
        mayPurge.set(false);
        rows("x", 0, 3, 1);
        store.write(update("x").at(0).now(LONG_AGO).deleteRow(7).build());
        compact();
        mayPurge.set(true);
        // By time and by timestamps it may go: what is written from here on is newer.
        Reconciler reconciler = Tables.context(store).reconciler();
        reconciler.clock(FBUtilities.nowInSeconds(), FBUtilities.nowInSeconds());
        for (int index = 0; index < 2; index++) reconciler.maxPurgeable(index, Long.MAX_VALUE);
        for (int i = 0; i < 6; i++) {
            // On both sides of it, so that its file is merged with these.
            rows("x", 0, 1, 1);
            rows("x", 10, 11, 1);
            store.flush();
        }
        Database database = Tables.context(store).database();
        Tables.await("a compaction", () -> level0Files(database) < 4);
        assertThat(Tables.context(store).reconciler().purged()).isZero();
        store.compact(List.of());
        assertThat(Tables.context(store).reconciler().purged()).isPositive();
    }

    private static int level0Files(Database database) throws RocksDBException {
        String files = database.db.getProperty(database.data, "rocksdb.num-files-at-level0");
        return Integer.parseInt(files);
    }

    @Test
    void alteringGcGraceIsFollowedAtOnce() {
        open();
        long now = System.currentTimeMillis() / 1000;
        store.write(update("x").at(2).now(now - 600).deleteRow(0).build());
        compact();
        assertThat(stored()).hasSize(1);
        table.alter(table.metadata().unbuild().gcGraceSeconds(60).build());
        compact();
        assertThat(stored()).isEmpty();
    }

    /** The deletion lies at the bottom, what it hides came later, and is not merged with it. */
    @Test
    void whatArrivedLateStaysHidden() throws RocksDBException {
        for (boolean flushed : new boolean[] {false, true}) {
            open();
            String key = "late" + flushed;
            rows(key, 0, 3, 1);
            mayPurge.set(false);
            store.write(update(key).at(10).now(LONG_AGO).deleteRow(0).build());
            store.write(update(key).at(10).now(LONG_AGO).row(1).unset("v").build());
            store.write(
                    update(key)
                            .at(10)
                            .now(LONG_AGO)
                            .deleteRange(table.from(2), table.to(2))
                            .build());
            compact();
            compact();
            mayPurge.set(true);
            rows(key, 0, 3, 5);
            String before = read(key);
            assertThat(before).contains("v=<tombstone>").doesNotContain("v=v0");
            if (flushed) store.flush();
            // Whatever RocksDB compacts by itself, and however often.
            Tables.tick(store);
            for (int i = 0; i < 3; i++) compactTheBottomAlone();
            assertThat(read(key)).doesNotContain("v=v0").doesNotContain("v=v1");
            store.compact(List.of());
            store.compact(List.of());
            assertThat(read(key)).doesNotContain("v=v");
            store.close();
        }
    }

    /** A purge has kept the deletion, for its grace; what it hides comes after that. */
    @ParameterizedTest
    @ValueSource(strings = {"nothing", "a write", "a stream"})
    void whatArrivesBetweenTwoPurgesStaysHidden(String arrival) throws Exception {
        AtomicLong gcBefore = new AtomicLong(LONG_AGO);
        openBefore(gcBefore);
        rows("late", 0, 1, 1);
        store.write(update("late").at(10).now(LONG_AGO).deleteRow(0).build());
        compact();
        assertThat(read("late")).isNotEmpty();
        if (arrival.equals("a write")) rows("late", 0, 1, 5);
        if (arrival.equals("a stream")) {
            TableStore sender = engine.openStore(table.spec(directory.resolve("2")));
            sender.write(update("late").at(5).row(0).liveness().set("v", "v0").build());
            SentStream.of(sender).ingestedBy(store);
        }
        gcBefore.set(FBUtilities.nowInSeconds());
        Tables.tick(store);
        compactTheBottomAlone();
        if (arrival.equals("nothing")) assertThat(read("late")).isEmpty();
        else assertThat(read("late")).isNotEmpty().doesNotContain("v=v0");
        compact();
        assertThat(read("late")).isEmpty();
    }

    /** Another compaction has pushed nothing down. */
    @Test
    void whatCoversOtherKeysGoesOnlyByAPurge() throws RocksDBException {
        AtomicLong gcBefore = new AtomicLong(LONG_AGO);
        openBefore(gcBefore);
        rows("p", 0, 3, 1);
        rows("r", 0, 3, 1);
        store.write(update("p").at(10).now(LONG_AGO).deletePartition().build());
        store.write(
                update("r").at(10).now(LONG_AGO).deleteRange(table.from(0), table.to(3)).build());
        compact();
        String p = read("p");
        String r = read("r");
        assertThat(p).contains("deletedAt=10");
        assertThat(r).contains("10");
        gcBefore.set(FBUtilities.nowInSeconds());
        Tables.tick(store);
        compactTheBottomAlone();
        assertThat(read("p")).isEqualTo(p);
        assertThat(read("r")).isEqualTo(r);
        compact();
        assertThat(stored()).isEmpty();
    }

    /** It is seen only then: what hides it might be gone by that time. */
    @Test
    void aWriteLowersWhatMayGoBeforeItIsInTheStore() throws Exception {
        open();
        store.flush();
        Database database = Tables.context(store).database();
        database.setOptions(database.data, Map.of("write_buffer_size", "65536"));
        Reconciler reconciler = Tables.context(store).reconciler();
        reconciler.maxPurgeable(0, Long.MAX_VALUE);
        AtomicBoolean stop = new AtomicBoolean();
        AtomicLong writing = new AtomicLong();
        CompletableFuture<Void> writer;
        // Nothing is flushed, until there is no room for writes.
        database.db.pauseBackgroundWork();
        try {
            writer =
                    CompletableFuture.runAsync(
                            () -> {
                                for (long time = 1_000_000; !stop.get(); time--) {
                                    writing.set(time);
                                    rows("x", 0, 1, time);
                                }
                            });
            Tables.await(
                    "a write that waits",
                    () -> database.db.getLongProperty("rocksdb.is-write-stopped") == 1);
            Tables.await("its limit", () -> reconciler.maxPurgeable(0) == writing.get());
            assertThat(writer).isNotDone();
        } finally {
            stop.set(true);
            database.db.continueBackgroundWork();
        }
        writer.get();
    }

    /**
     * Before all that was written has been merged at the bottom, its limits are those of before.
     */
    @Test
    void aPurgeThatHasNotMergedAllYetLetsNothingGo() throws Exception {
        open();
        mayPurge.set(false);
        rows("late", 0, 1, 1);
        rows("covered", 0, 3, 1);
        store.write(update("late").at(10).now(LONG_AGO).deleteRow(0).build());
        compact();
        compact();
        rows("late", 0, 1, 5);
        store.write(update("covered").at(2).now(LONG_AGO).deletePartition().build());
        store.flush();
        mayPurge.set(true);
        Tables.tick(store);
        Database database = Tables.context(store).database();
        Reconciler reconciler = Tables.context(store).reconciler();
        // What it pushes down it cannot flush.
        database.db.pauseBackgroundWork();
        CompletableFuture<Void> purging;
        try {
            purging = CompletableFuture.runAsync(() -> store.compact(List.of()));
            Tables.await(
                    "its flush",
                    () -> store.purgeProgress().phase() == PurgeProgress.Phase.SETTLING);
            long before = reconciler.purged();
            compactTheBottomAlone();
            assertThat(reconciler.purged()).isEqualTo(before);
            assertThat(read("late")).doesNotContain("v=v0");
        } finally {
            database.db.continueBackgroundWork();
        }
        purging.get();
        assertThat(read("late")).isEmpty();
        assertThat(read("covered")).isEmpty();
    }

    /** Such a write may be in no file yet, and has lowered the limits that were there before. */
    @Test
    void aPurgeWaitsForWritesThatBeganBefore() throws Exception {
        open();
        rows("x", 0, 1, 1);
        store.write(update("x").at(10).now(LONG_AGO).deleteRow(0).build());
        compact();
        StoreContext context = Tables.context(store);
        Reconciler reconciler = context.reconciler();
        reconciler.lowerMaxPurgeable(5);
        CompletableFuture<Void> purging;
        int other = context.room().writers.begin();
        try {
            int next = 1 - reconciler.activeMaxPurgeable();
            purging = CompletableFuture.runAsync(() -> store.compact(List.of()));
            Tables.await("the purge", () -> reconciler.maxPurgeable(next) == Long.MAX_VALUE);
            assertThatThrownBy(() -> purging.get(500, TimeUnit.MILLISECONDS))
                    .isInstanceOf(TimeoutException.class);
        } finally {
            context.room().writers.end(other);
        }
        purging.get();
    }

    @Test
    void aReopenedStorePurgesNothingUntilItIsSettled() throws RocksDBException {
        open();
        rows("x", 0, 1, 1);
        compact();
        mayPurge.set(false);
        store.write(update("x").at(10).now(LONG_AGO).deleteRow(0).build());
        compact();
        rows("x", 0, 1, 5);
        store.flush();
        reopen();
        mayPurge.set(true);
        Tables.tick(store);
        // The bottom alone, without what lies above.
        assertThat(Tables.context(store).reconciler().purged()).isZero();
        compactTheBottomAlone();
        assertThat(Tables.context(store).reconciler().purged()).isZero();
        assertThat(read("x")).doesNotContain("v=v0");
        store.compact(List.of());
        assertThat(read("x")).isEmpty();
    }

    /** A sweep reads all of their files before any is rewritten. */
    @Test
    void aDamagedFileOfLargeCellsStopsNoWrites() throws RocksDBException {
        mayPurge.set(false);
        open();
        rows("x", 0, 300, 1);
        rows("x", 0, 300, 2);
        store.flush();
        reopen();
        Database database = Tables.context(store).database();
        for (LiveFileMetaData file : database.db.getLiveFilesMetaData())
            if (Arrays.equals(file.columnFamilyName(), database.large.getName()))
                Tables.damage(store, file.fileName());
        LargeCellSweep sweep = new LargeCellSweep(Tables.context(store));
        Pacer pace = new Pacer(Tables.context(store), database, false);
        assertThatThrownBy(() -> sweep.run(database, pace)).isInstanceOf(RocksDBException.class);
        writesGoOn("y");
    }

    /** RocksDB refuses all writes after a compaction that met damage. */
    private void writesGoOn(String key) {
        store.write(update(key).at(3).row(1).set("v", "after").build());
        store.flush();
        assertThat(read(key)).contains("after");
    }

    @Test
    void rangeTombstonesThatNewerOnesHideGoBesideADamagedFile() throws RocksDBException {
        mayPurge.set(false);
        open();
        String last = "0";
        for (int i = 0; i < 200; i++) {
            rows("" + i, 0, 20, 1);
            if (table.key("" + i).compareTo(table.key(last)) > 0) last = "" + i;
        }
        compact();
        String key = last;
        List<LiveFileMetaData> bottom = Tables.context(store).database().dataFiles();
        assertThat(bottom).hasSize(1);
        for (int i = 1; i <= 3; i++)
            store.write(update(key).at(i).deleteRange(table.from(400), table.to(400 + i)).build());
        reopen();
        // In the first block; that partition is in the last one.
        Tables.damage(store, bottom.get(0).fileName());
        StoreContext context = Tables.context(store);
        context.superseded().met(1000, 0, ByteBuffer.wrap(position(key)));
        supersededRanges().run(context.database());
        writesGoOn(key);
        assertThat(rangeTombstones(key)).isEqualTo(1);
    }

    /** A purge may take hours. */
    @Test
    void aPurgeOfOneTableDoesNotHoldUpRangeTombstonesOfAnother() throws Exception {
        openWithShortInterval();
        rows("x", 0, 3, 1);
        store.write(update("x").at(2).now(LONG_AGO).deleteRow(1).build());
        TableStore busy = store;
        int other = Tables.context(busy).room().writers.begin();
        try {
            Tables.await(
                    "the purge", () -> busy.purgeProgress().phase() != PurgeProgress.Phase.IDLE);
            store = engine.openStore(new StoreSpec(directory.resolve("2"), "t", 1, table.ref()));
            for (int i = 1; i <= 1_000; i++)
                store.write(
                        update("q")
                                .at(i)
                                .deleteRange(ClusteringBound.BOTTOM, table.before(i))
                                .build());
            Tables.await(
                    "one range tombstone",
                    () -> {
                        read("q");
                        return rangeTombstones("q") == 1;
                    });
            assertThat(busy.purgeProgress().phase()).isNotEqualTo(PurgeProgress.Phase.IDLE);
        } finally {
            Tables.context(busy).room().writers.end(other);
        }
    }

    /** Only who removes a large cell keeps others from writing the same. */
    @Test
    void aSweepHoldsNoWriterUpForWhatStays() throws Exception {
        mayPurge.set(false);
        open();
        rows("x", 0, 20, 1);
        Database database = Tables.context(store).database();
        LargeCellSweep sweep = new LargeCellSweep(Tables.context(store));
        Pacer pace = new Pacer(Tables.context(store), database, false);
        CompletableFuture<Void> sweeping;
        Lock writing = Tables.context(store).largeCells().writing(table.key("x"));
        writing.lock();
        try {
            sweeping =
                    CompletableFuture.runAsync(
                            () ->
                                    Tables.context(store)
                                            .reopenable()
                                            .maintain(all -> sweep.run(all, pace)));
            Tables.await("the end of the sweep", sweeping::isDone);
        } finally {
            writing.unlock();
        }
        sweeping.get();
    }

    /** And not after every purge. */
    @Test
    void largeCellsAreLookedThroughWhereMuchWasPurged() throws RocksDBException {
        open();
        rows("x", 0, 20, 1);
        compact();
        LargeCellSweep sweep = new LargeCellSweep(Tables.context(store));
        Database database = Tables.context(store).database();
        for (int row = 0; row < 6; row += 3) {
            for (int i = row; i < row + 3; i++)
                store.write(update("x").at(2).now(LONG_AGO).deleteRow(i).build());
            compact();
            assertThat(sweep.isDue(database)).isEqualTo(row > 0);
        }
        sweep.run(database, new Pacer(Tables.context(store), database, false));
        assertThat(sweep.isDue(database)).isFalse();
    }

    @Test
    void itHappensByItselfAlsoAfterARestart() throws InterruptedException {
        openWithShortInterval();
        rows("x", 0, 3, 1);
        store.write(update("x").at(2).now(LONG_AGO).deletePartition().build());
        mayPurge.set(false);
        reopen();
        mayPurge.set(true);
        Tables.await("the purge", () -> stored().isEmpty());
        Tables.await("its report", () -> store.purgeProgress().removed() > 0);
        assertThat(store.purgeProgress().waitsSinceSeconds()).isPositive();
    }

    @Test
    void aStoreWithoutAnythingToPurgeIsNeverDue() throws RocksDBException {
        openWithShortInterval();
        rows("x", 0, 3, 1);
        compact();
        assertThat(Tables.tick(store)).isFalse();
        reopen();
        assertThat(Tables.tick(store)).isFalse();
        assertThat(Tables.context(store).catalog().purge()).isNull();
    }

    /** Not at once after each start, and yet one day although the node is started every hour. */
    @Test
    void theFirstIntervalCountsFromTheFirstThingToPurge() throws RocksDBException {
        try (StorageEngine patient = Tables.engine(Map.of("purge_interval", "1d"))) {
            StoreSpec spec =
                    new StoreSpec(directory.resolve("2"), "t", 1, table.ref(), mayPurge::get);
            TableStore first = patient.openStore(spec);
            first.write(update("x").at(2).now(LONG_AGO).deletePartition().build());
            assertThat(Tables.tick(first)).isFalse();
            String began = Tables.context(first).catalog().purge();
            assertThat(began).isNotNull();
            first.close();
            TableStore again = patient.openStore(spec);
            assertThat(Tables.tick(again)).isFalse();
            assertThat(Tables.context(again).catalog().purge()).isEqualTo(began);
        }
    }

    @Test
    void itPurgesWhileOthersWrite() throws InterruptedException {
        open();
        rows("x", 0, 3, 1);
        store.write(update("x").at(2).now(LONG_AGO).deletePartition().build());
        AtomicBoolean stop = new AtomicBoolean();
        Thread writer =
                new Thread(
                        () -> {
                            for (int i = 0; !stop.get(); i++)
                                store.write(
                                        update("y" + i % 50)
                                                .at(1_000 + i)
                                                .row(1)
                                                .set("v", "z")
                                                .build());
                        });
        writer.start();
        try {
            long before = Tables.context(store).reconciler().purged();
            store.compact(List.of());
            assertThat(Tables.context(store).reconciler().purged()).isGreaterThan(before);
        } finally {
            stop.set(true);
            writer.join();
        }
        assertThat(read("x")).isEmpty();
    }

    @Test
    void writersAndPurgesTogetherLoseNothing() throws InterruptedException {
        open();
        AtomicBoolean stop = new AtomicBoolean();
        Thread purger =
                new Thread(
                        () -> {
                            while (!stop.get()) store.compact(List.of());
                        });
        purger.start();
        try {
            for (int round = 0; round < 300; round++) {
                long timestamp = 10L * round;
                String key = "k" + round % 7;
                rows(key, 0, 2, timestamp + 1);
                switch (round % 3) {
                    case 0 ->
                            store.write(
                                    update(key)
                                            .at(timestamp + 5)
                                            .now(LONG_AGO)
                                            .deletePartition()
                                            .build());
                    case 1 ->
                            store.write(
                                    update(key)
                                            .at(timestamp + 5)
                                            .now(LONG_AGO)
                                            .deleteRange(table.from(0), table.to(1))
                                            .build());
                    default ->
                            store.write(
                                    update(key)
                                            .at(timestamp + 5)
                                            .now(LONG_AGO)
                                            .deleteRow(0)
                                            .deleteRow(1)
                                            .build());
                }
                rows(key, 1, 2, timestamp + 9);
                String text = read(key);
                assertThat(text).describedAs("round %d", round).contains("v=v1");
                assertThat(text).describedAs("round %d", round).doesNotContain("v=v0");
            }
        } finally {
            stop.set(true);
            purger.join();
        }
        compact();
        for (int i = 0; i < 7; i++) {
            assertThat(read("k" + i)).contains("v=v1").doesNotContain("v=v0");
            assertThat(read("k" + i)).hasLineCount(2);
        }
    }

    /** As in Cassandra's compaction, which never writes what a purged deletion had hidden. */
    @Test
    void aYoungerDeletionOfALowerTimestampGoesWithTheOneAboveIt() {
        open();
        store.write(update("x").at(8).now(LONG_AGO).deletePartition().build());
        store.write(update("x").at(6).row(1).deletion().build());
        store.write(update("x").at(9).row(2).deletion().build());
        compact();
        compact();
        assertThat(read("x"))
                .contains("deletedAt=9,")
                .doesNotContain("deletedAt=6,")
                .hasLineCount(2);
    }

    /** Cassandra takes 1.0 and 1.00 for one element; native code, which knows no types, for two. */
    @Test
    void anElementRemovedByAnotherFormOfItsKeyDoesNotComeBack() {
        TestTable decimals =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, m map<decimal,text>, v text, PRIMARY KEY"
                                + " (k, c)) WITH gc_grace_seconds = 3600");
        StoreSpec spec =
                new StoreSpec(directory.resolve("2"), "t", 1, decimals.ref(), mayPurge::get);
        store = engine.openStore(spec);
        store.write(
                decimals.update("x").at(1).row(1).put("m", new BigDecimal("1.0"), "old").build());
        assertThat(text(decimals)).contains("old");
        BigDecimal otherForm = new BigDecimal("1.00");
        store.write(
                decimals.update("x")
                        .at(2)
                        .now(LONG_AGO)
                        .row(1)
                        .remove("m", otherForm)
                        .unset("v")
                        .build());
        assertThat(text(decimals)).doesNotContain("old");
        compact();
        compact();
        // It was purged: the other tombstone is gone.
        assertThat(Tables.context(store).reconciler().purged()).isPositive();
        assertThat(text(decimals)).doesNotContain("old");
    }

    private String text(TestTable of) {
        return Tables.text(store.read(of.key("x"), Slices.ALL, of.all(), false));
    }
}
