// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.common.primitives.ImmutableLongArray;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.compaction.PurgeChoice.Candidate;
import dev.petra.engine.rocks.compaction.PurgeChoice.Chosen;
import dev.petra.engine.rocks.compaction.PurgeChoice.Tried;
import dev.petra.engine.rocks.db.FileExtent;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.StoreDirectory;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.FBUtilities;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/** A purge in the background rewrites what has something to remove, and uncovers nothing. */
@Tag("slow")
class PurgeRoundTest extends PurgeFixture {
    private static final long LONG_AGO = UpdateBuilder.LONG_AGO;
    private static final long FILE_BYTES = 64L << 20;
    private static final String LEVELED = "LeveledCompactionStrategy";
    private static final String UNIVERSAL = "UnifiedCompactionStrategy";

    /** Whether what the engine does by itself may, once a second, tell the filter what may go. */
    private volatile boolean engineMay = true;

    PurgeRoundTest() {
        table = table(LEVELED);
    }

    private static TestTable table(String strategy) {
        return TestTable.of(
                "CREATE TABLE t (k text, c int, v text, w text, PRIMARY KEY (k, c)) WITH"
                        + " gc_grace_seconds = 3600 AND compression = {'enabled': 'false'} AND"
                        + " compaction = {'class': '"
                        + strategy
                        + "'}");
    }

    @Override
    boolean mayPurge() {
        return super.mayPurge()
                && (engineMay || !Thread.currentThread().getName().equals("petra-tick"));
    }

    private PurgeSchedule schedule() {
        return new PurgeSchedule(Tables.context(store), permission);
    }

    private void fill(int rows) {
        for (int i = 0; i < rows; i++)
            store.write(table.update("k").at(1).row(i).set("v", noise(i)).build());
        settle();
    }

    private void delete(int from, int to, int step) {
        for (int i = from; i < to; i += step)
            store.write(table.update("k").at(2).now(LONG_AGO).deleteRow(i).build());
        settle();
    }

    @ParameterizedTest
    @ValueSource(strings = {LEVELED, UNIVERSAL})
    void onlyFilesInWhichAFifthMayGoAreRewritten(String strategy) throws RocksDBException {
        table = table(strategy);
        open();
        fill(20_000);
        // A hundredth all over, and a hundredth in one place.
        delete(0, 20_000, 100);
        delete(10_001, 10_200, 1);
        int before = entries();
        assertThat(before).isEqualTo(20_000);
        Map<String, Long> files = files();
        assertThat(files).hasSizeGreaterThan(100);
        assertThat(purge()).isTrue();
        Map<String, Long> gone = new HashMap<>(files);
        gone.keySet().removeAll(files().keySet());
        assertThat(gone).isNotEmpty();
        assertThat(sum(gone)).isLessThan(sum(files) / 20);
        assertThat(entries()).isBetween(before - 210, before - 150);
        // And there is nothing to be done a second time.
        Map<String, Long> left = files();
        assertThat(purge()).isFalse();
        assertThat(files()).isEqualTo(left);
    }

    @Test
    void whatIsThinGoesBitByBitAfterThirtyIntervals() throws RocksDBException {
        open();
        fill(20_000);
        delete(0, 20_000, 10);
        Map<String, Long> files = files();
        int before = entries();
        // Not yet.
        assertThat(choose(0)).isEmpty();
        for (int i = 0; i < 40; i++) {
            Map<String, Long> then = files();
            purge();
            then.keySet().removeAll(files().keySet());
            assertThat(sum(then)).isLessThan(sum(files) / 30 + 40_000);
        }
        assertThat(entries()).isEqualTo(before - 2000);
    }

    /** What deletions hide below them goes when both are merged, within their grace too. */
    @ParameterizedTest
    @ValueSource(strings = {LEVELED, UNIVERSAL})
    void whatDeletionsHideBelowThemGoes(String strategy) throws RocksDBException {
        table = table(strategy);
        open();
        fill(2000);
        for (int i = 0; i < 2000; i += 2) store.write(table.update("k").at(2).deleteRow(i).build());
        store.flush();
        long before = sum(files());
        assertThat(purge()).isTrue();
        assertThat(sum(files())).isLessThan(before * 7 / 10);
        assertThat(entries()).isEqualTo(2000);
        // And that is not tried again.
        Map<String, Long> left = files();
        assertThat(purge()).isFalse();
        assertThat(files()).isEqualTo(left);
    }

    @Test
    void whatFewDeletionsHideWaits() throws RocksDBException {
        open();
        fill(2000);
        for (int i = 0; i < 2000; i += 10)
            store.write(table.update("k").at(2).deleteRow(i).build());
        store.flush();
        assertThat(purge()).isFalse();
    }

    @Test
    void anEmptyTableIsLeftByOneThatWasDeleted() throws RocksDBException {
        // A file that is being merged waits for the next purge.
        table = table(LEVELED + "', 'enabled': 'false");
        open();
        fill(500);
        delete(0, 500, 1);
        purge();
        assertThat(entries()).isZero();
        // Never compacted: what was merged on the way passes the filter the next time.
        for (int i = 0; i < 50; i++) {
            store.write(table.update("k").at(3).row(i).set("v", "x").build());
            store.flush();
            store.write(table.update("k").at(4).now(LONG_AGO).deleteRow(i).build());
        }
        purge();
        purge();
        assertThat(entries()).isZero();
    }

    @Test
    void nothingGoesOnceTheHostForbidsIt() throws RocksDBException {
        open();
        fill(500);
        delete(0, 500, 1);
        mayPurge.set(true);
        permission.clock(database());
        boolean complete =
                round.run(
                        database(),
                        part -> {},
                        (files, gcBefore) -> {
                            mayPurge.set(false);
                            permission.clock(database());
                            return new PurgeChoice(files, gcBefore, FILE_BYTES, Map.of())
                                    .choose(gcBefore);
                        });
        assertThat(complete).isFalse();
        assertThat(entries()).isEqualTo(500);
    }

    /** Also where what a purge left is older than anything. */
    @Test
    void nothingIsDueWhileTheHostForbidsIt() throws RocksDBException {
        // Its own interval must not begin when the test has set another.
        engineMay = false;
        open();
        for (int row = 0; row < 50; row++)
            store.write(table.update("k").at(2).now(LONG_AGO).deleteRow(row).build());
        purge();
        assertThat(Tables.context(store).purgeable().get()).isEqualTo(Long.MIN_VALUE);
        Map<String, Long> files = files();
        assertThat(files).isNotEmpty();
        Tables.context(store).catalog().setPurge("1");
        assertThat(schedule().isDue()).isTrue();
        mayPurge.set(false);
        assertThat(schedule().isDue()).isFalse();
        store.close();
        // Nor once it is forbidden just when it begins.
        AtomicInteger asked = new AtomicInteger();
        store =
                engine.openStore(
                        new StoreSpec(
                                directory.resolve("1"),
                                "t",
                                1,
                                table.ref(),
                                () -> asked.incrementAndGet() <= 2));
        new Purge(Tables.context(store), new DataFiles(Tables.context(store)))
                .run(database(), true);
        assertThat(asked.get()).isGreaterThan(2);
        assertThat(files()).isEqualTo(files);
    }

    /** A write may begin while others are waited for; it is not in the files that are read. */
    @Test
    void whatAWriteBringsMeanwhileIsRemembered() throws Exception {
        open();
        StoreContext context = Tables.context(store);
        mayPurge.set(true);
        permission.clock(database());
        int other = context.room().writers.begin();
        CompletableFuture<Boolean> running;
        try {
            int mark = 1 - context.reconciler().activeMaxPurgeable();
            running =
                    CompletableFuture.supplyAsync(
                            () -> {
                                try {
                                    return round.run(database(), part -> {});
                                } catch (RocksDBException e) {
                                    throw new CompletionException(e);
                                }
                            });
            Tables.await(
                    "the round", () -> context.reconciler().maxPurgeable(mark) == Long.MAX_VALUE);
            context.purgeable().written(LONG_AGO);
            // What that write writes may be in no file yet.
            assertThatThrownBy(() -> running.get(500, TimeUnit.MILLISECONDS))
                    .isInstanceOf(TimeoutException.class);
        } finally {
            context.room().writers.end(other);
        }
        running.get();
        assertThat(context.purgeable().get()).isEqualTo(LONG_AGO);
    }

    /** A file that cannot be read does not keep the garbage of others. */
    @Test
    void oneSetThatFailsDoesNotEndTheRound() throws RocksDBException {
        open();
        fill(2000);
        delete(300, 500, 1);
        delete(1500, 1700, 1);
        mayPurge.set(true);
        permission.clock(database());
        List<Chosen> sets = new ArrayList<>();
        round.run(
                database(),
                part -> {},
                (files, gcBefore) -> {
                    sets.addAll(new PurgeChoice(files, gcBefore, FILE_BYTES, Map.of()).choose(0));
                    Tables.damage(store, sets.get(0).names().get(0));
                    return sets;
                });
        assertThat(sets).hasSizeGreaterThan(1);
        assertThat(files()).containsKeys(sets.get(0).names().toArray(String[]::new));
        for (Chosen set : sets.subList(1, sets.size()))
            assertThat(files()).doesNotContainKeys(set.names().toArray(String[]::new));
        writesGoOn();
        // Nor is it tried again.
        Map<String, Long> before = files();
        purge();
        assertThat(files()).containsKeys(sets.get(0).names().toArray(String[]::new));
        assertThat(files().keySet()).containsAll(before.keySet());
    }

    /** RocksDB refuses all writes after a compaction that met damage. */
    private void writesGoOn() {
        store.write(table.update("k").at(3).row(1).set("v", "after").build());
        store.flush();
    }

    @Test
    void aPurgeOfAllOfATableRewritesNothingWhileAFileIsDamaged() throws Exception {
        open();
        fill(2000);
        delete(300, 500, 1);
        mayPurge.set(true);
        // The engine's own interval begins before.
        Tables.tick(store);
        // A purge of all of it goes on, as after a restart.
        Tables.context(store).catalog().setPurge("1 00");
        Map<String, Long> before = files();
        Path damaged = directory.resolve("1" + before.keySet().iterator().next());
        byte[] whole = Files.readAllBytes(damaged);
        Tables.damage(store, "/" + damaged.getFileName());
        StoreContext context = Tables.context(store);
        for (int i = 0; i < 2; i++) {
            new Purge(context, held).run(database(), true);
            assertThat(files()).isEqualTo(before);
        }
        Files.write(damaged, whole);
        new Purge(context, new DataFiles(context)).run(database(), true);
        assertThat(files().keySet()).doesNotContainAnyElementsOf(before.keySet());
        assertThat(entries()).isEqualTo(1800);
        writesGoOn();
    }

    /** What is written while it runs is as old as what it removes. */
    @Test
    void whatIsWrittenMeanwhileKeepsWhatHidesIt() throws RocksDBException {
        open();
        fill(500);
        delete(0, 500, 1);
        mayPurge.set(true);
        permission.clock(database());
        round.run(
                database(),
                part -> {},
                (files, gcBefore) -> {
                    store.write(table.update("k").at(1).row(7).set("v", "hidden").build());
                    return new PurgeChoice(files, gcBefore, FILE_BYTES, Map.of()).choose(gcBefore);
                });
        assertThat(entries()).isEqualTo(500);
        assertThat(live().toString()).isEqualTo("{}");
    }

    /** What is in no file when it begins may be as old as what it removes. */
    @Test
    void whatIsInNoFileKeepsWhatHidesIt() throws RocksDBException {
        open();
        fill(500);
        delete(0, 500, 1);
        store.write(table.update("k").at(1).row(7).set("v", "hidden").build());
        mayPurge.set(true);
        permission.clock(database());
        round.run(
                database(),
                part -> {},
                (files, gcBefore) ->
                        new PurgeChoice(files, gcBefore, FILE_BYTES, Map.of()).choose(gcBefore));
        assertThat(live().toString()).isEqualTo("{}");
    }

    private List<Chosen> choose(long oldBefore) throws RocksDBException {
        List<Chosen> chosen = new ArrayList<>();
        mayPurge.set(true);
        permission.clock(database());
        round.run(
                database(),
                part -> {},
                (files, gcBefore) -> {
                    chosen.addAll(
                            new PurgeChoice(files, gcBefore, FILE_BYTES, Map.of())
                                    .choose(oldBefore));
                    return List.of();
                });
        return chosen;
    }

    @Test
    void whatFilesHoldIsReadOnceAndOnlyAGuess() throws RocksDBException {
        open();
        fill(500);
        delete(0, 500, 50);
        assertThat(purge()).isFalse();
        var extents = extents();
        assertThat(extents).hasSameSizeAs(files());
        // Wrong on purpose: it is believed, and does no harm.
        extents.forEach(
                (file, extent) ->
                        Tables.context(store)
                                .catalog()
                                .setExtent(
                                        file,
                                        new FileExtent(
                                                extent.lowest(),
                                                extent.highest(),
                                                extent.end(),
                                                10,
                                                1,
                                                0,
                                                ImmutableLongArray.of(LONG_AGO, 2, 10))));
        store.close();
        open();
        int before = entries();
        Map<String, Long> files = files();
        assertThat(purge()).isTrue();
        assertThat(files()).doesNotContainKeys(files.keySet().toArray(String[]::new));
        assertThat(entries()).isEqualTo(before - 10);
        // By a version that counted no garbage: it is read anew.
        for (String file : extents().keySet())
            Tables.context(store).catalog().setExtent(file, new FileExtent(1, 2, Long.MAX_VALUE));
        store.close();
        open();
        delete(0, 500, 1);
        assertThat(purge()).isTrue();
        assertThat(entries()).isZero();
    }

    private Map<String, FileExtent> extents() throws RocksDBException {
        return Tables.context(store).catalog().extents();
    }

    /**
     * The log in a checkpoint may be newer than its list of files. Here it has extents of files of
     * the numbers to come, in which nothing was as old as what these get.
     */
    @Test
    void whatAnotherFileOfTheSameNameHeldUncoversNothing() throws RocksDBException {
        open();
        delete(0, 100, 1);
        assertThat(held.learn(database(), database().dataFiles(), true, () -> false)).isNotEmpty();
        long newest =
                files().keySet().stream()
                        .mapToLong(name -> Long.parseLong(name.replaceAll("\\D", "")))
                        .max()
                        .orElseThrow();
        FileExtent younger =
                new FileExtent(1_000, 1_000, Long.MAX_VALUE, 10, 1, 0, ImmutableLongArray.of());
        for (long number = newest + 1; number < newest + 60; number++) {
            String name = "/%06d.sst".formatted(number);
            for (String file : new String[] {name, name + " 1234 5"})
                Tables.context(store).catalog().setExtent(file, younger);
        }
        store.close();
        open();
        // Late, as a hint is; the deletion is still here.
        store.write(table.update("k").at(1).row(7).set("v", "hidden").build());
        permission.clock(database());
        store.flush();
        purge();
        assertThat(Tables.text(store.read(table.key("k"), Slices.ALL, table.all(), false)))
                .doesNotContain("hidden");
    }

    @Test
    void aFileThatCannotBeReadKeepsNoneOfTheOthers() throws RocksDBException {
        open();
        fill(2_000);
        delete(1_500, 1_700, 1);
        List<LiveFileMetaData> all = database().dataFiles();
        all.sort(Comparator.comparing(LiveFileMetaData::smallestKey, Arrays::compareUnsigned));
        String damaged = all.get(0).fileName();
        Tables.damage(store, damaged);
        Map<String, Long> before = files();
        purge();
        assertThat(files()).isNotEqualTo(before).containsKey(damaged);
        assertThat(extents().keySet()).noneMatch(file -> file.startsWith(damaged + " "));
    }

    @Test
    void aClockThatWasAheadOnceDoesNotKeepPurgesAway() {
        // Its own interval must not begin when the test has set another.
        engineMay = false;
        open();
        store.write(table.update("k").at(2).now(LONG_AGO).deleteRow(1).build());
        mayPurge.set(true);
        permission.clock(database());
        long now = FBUtilities.nowInSeconds();
        long tenYears = 10L * 365 * 86_400;
        Tables.context(store).catalog().setPurge(Long.toString(now));
        Tables.context(store).catalog().setWholePurge(now);
        assertThat(schedule().isDue()).isFalse();
        assertThat(schedule().isWholeDue()).isFalse();
        Tables.context(store).catalog().setPurge(Long.toString(now + tenYears));
        Tables.context(store).catalog().setWholePurge(now + tenYears);
        assertThat(schedule().isDue()).isTrue();
        assertThat(schedule().isWholeDue()).isTrue();
    }

    /** What cannot be removed is not rewritten again and again. */
    @Test
    void aFileThatWasRewrittenInVainIsLetBe() throws RocksDBException {
        open();
        fill(500);
        delete(0, 500, 1);
        engineMay = false;
        mayPurge.set(true);
        permission.clock(database());
        boolean rewritten =
                round.run(
                        database(),
                        part -> {},
                        (files, gcBefore) -> {
                            // Nothing goes, for once.
                            Tables.context(store).reconciler().clock(LONG_AGO, 0);
                            store.write(table.update("z").at(5).row(1).set("v", "x").build());
                            return new PurgeChoice(files, gcBefore, FILE_BYTES, Map.of())
                                    .choose(gcBefore);
                        });
        assertThat(rewritten).isTrue();
        assertThat(entries()).isEqualTo(501);
        Map<String, Long> files = files();
        // Nor for the sake of what is written elsewhere.
        store.write(table.update("z").at(6).row(2).set("v", "x").build());
        assertThat(purge()).isFalse();
        assertThat(files()).containsAllEntriesOf(files);
    }

    /** Of elements that may have one name in several forms, what an older one keeps. */
    @ParameterizedTest
    @ValueSource(ints = {1, 3})
    void whatAnOlderElementKeepsIsNotCounted(int live) throws RocksDBException {
        table =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, s set<double>, v text, PRIMARY KEY (k, c))"
                                + " WITH gc_grace_seconds = 3600");
        open();
        for (int row = 0; row < 50; row++) {
            store.write(table.update("k").at(live).row(row).add("s", 0.5).build());
            var removed = table.update("k").at(2).now(LONG_AGO).row(row);
            for (int i = 1; i <= 20; i++) removed = removed.remove("s", (double) i);
            store.write(removed.build());
        }
        settle();
        assertThat(purge()).isEqualTo(live == 3);
        assertThat(onlyFile().firstTime()).isEqualTo(Long.MAX_VALUE);
    }

    /** What a write of an old timestamp kept goes the next time. */
    @Test
    void whatMayNotGoByNowIsNotRewritten() throws RocksDBException {
        open();
        fill(500);
        delete(0, 500, 1);
        mayPurge.set(true);
        permission.clock(database());
        Map<String, Long> files = files();
        boolean rewritten =
                round.run(
                        database(),
                        part -> {},
                        (all, gcBefore) -> {
                            Tables.context(store).reconciler().lowerMaxPurgeable(0);
                            return new PurgeChoice(all, gcBefore, FILE_BYTES, Map.of())
                                    .choose(gcBefore);
                        });
        assertThat(rewritten).isFalse();
        assertThat(files()).isEqualTo(files);
        assertThat(purge()).isTrue();
        assertThat(entries()).isZero();
    }

    @Test
    void onlyWhatPassedTheFilterInVainIsLetBe() {
        FileExtent held = new FileExtent(1, 2, 3, 1000, 10, 0, ImmutableLongArray.of(3, 2, 1000));
        Chosen set = set(candidate("1", 6, 0, 9, 1000, held));
        assertThat(Tried.of(set, 1000, 10, 7, 6)).isEqualTo(new Tried(1000));
        assertThat(Tried.of(set, 801, 10, 7, 6)).isNotNull();
        assertThat(Tried.of(set, 800, 10, 7, 6)).isNull();
        assertThat(Tried.of(set, 1000, 10, Long.MAX_VALUE, 6)).isEqualTo(new Tried(1000));
        // What a write kept may go the next time.
        assertThat(Tried.of(set, 1000, 10, 2, 6)).isEqualTo(new Tried(0));
        Chosen upper =
                set(candidate("2", 5, 0, 9, 1000, held), candidate("1", 6, 0, 9, 1000, held));
        assertThat(Tried.of(upper, 2000, 10, 7, 6)).isNull();
        assertThat(new Tried(1000).isOld(1199)).isFalse();
        assertThat(new Tried(1000).isOld(1200)).isTrue();
    }

    /** Whatever size files have. */
    @Test
    void aThinFileIsNeverTooLarge() {
        FileExtent held = new FileExtent(1, 2, 3, 1000, 10, 0, ImmutableLongArray.of(3, 2, 100));
        List<Candidate> one = List.of(candidate("1", 6, 0, 9, 2L << 30, held));
        assertThat(new PurgeChoice(one, 10, 1L << 30, Map.of()).choose(10)).hasSize(1);
        assertThat(new PurgeChoice(one, 10, 1L << 29, Map.of()).choose(10)).isEmpty();
        assertThat(new PurgeChoice(one, 10, 1L << 30, Map.of()).choose(3)).isEmpty();
        one = List.of(candidate("1", 6, 0, 9, 512L << 20, held));
        assertThat(new PurgeChoice(one, 10, 1, Map.of()).choose(10)).hasSize(1);
    }

    /** What is too much for one set waits for a purge of all, which is rare. */
    @Test
    void aSetHasAtMostTwentyFiveFiles() {
        FileExtent garbage = new FileExtent(5, 6, 3, 1000, 10, 0, ImmutableLongArray.of(3, 6, 500));
        FileExtent live =
                new FileExtent(5, 6, Long.MAX_VALUE, 1000, 10, 0, ImmutableLongArray.of());
        for (int below : new int[] {24, 25}) {
            List<Candidate> files = new ArrayList<>();
            // As much as all of it goes.
            files.add(candidate("top", 5, 0, 1000, FILE_BYTES, garbage));
            for (int i = 0; i < below; i++)
                files.add(candidate("bottom" + i, 6, 10 * i, 10 * i + 9, FILE_BYTES, garbage));
            PurgeChoice choice = new PurgeChoice(files, 10, FILE_BYTES, Map.of());
            List<Chosen> sets = choice.choose(10);
            assertThat(sets).hasSize(below == 24 ? 1 : 0);
            for (Chosen set : sets) assertThat(set.files()).hasSize(25);
            assertThat(choice.wantsWhole()).isEqualTo(below == 25);
        }
        // Not if it is not worth it.
        List<Candidate> files = new ArrayList<>();
        files.add(candidate("top", 5, 0, 1000, FILE_BYTES, garbage));
        for (int i = 0; i < 25; i++)
            files.add(candidate("bottom" + i, 6, 10 * i, 10 * i + 9, FILE_BYTES, live));
        PurgeChoice choice = new PurgeChoice(files, 10, FILE_BYTES, Map.of());
        assertThat(choice.choose(3)).isEmpty();
        assertThat(choice.wantsWhole()).isFalse();
    }

    @Test
    void aPurgeOfAllIsDueOnceInThirtyIntervals() {
        open();
        PurgeSchedule schedule = schedule();
        assertThat(schedule.isWholeDue()).isTrue();
        schedule.wholeEnded();
        assertThat(schedule.isWholeDue()).isFalse();
        // Nor for a restart.
        store.write(table.update("k").at(2).now(LONG_AGO).deleteRow(1).build());
        long now = FBUtilities.nowInSeconds();
        for (int intervals : new int[] {0, 29, 30}) {
            if (intervals > 0)
                Tables.context(store)
                        .catalog()
                        .setWholePurge(now - TimeUnit.DAYS.toSeconds(intervals));
            store.close();
            open();
            assertThat(schedule().isWholeDue()).isEqualTo(intervals == 30);
        }
    }

    /** Of many files each would make a set of all, with what lies above and is older. */
    @Test
    void whatOnlyAPurgeOfAllWouldRemoveAsksForIt() {
        FileExtent garbage = new FileExtent(5, 6, 3, 1000, 10, 0, ImmutableLongArray.of(3, 6, 500));
        FileExtent live =
                new FileExtent(5, 6, Long.MAX_VALUE, 1000, 10, 0, ImmutableLongArray.of());
        FileExtent old = new FileExtent(1, 6, Long.MAX_VALUE, 1000, 10, 0, ImmutableLongArray.of());
        for (int share : new int[] {3, 5}) {
            List<Candidate> files = new ArrayList<>();
            files.add(candidate("top", 0, 0, 1_000_000, FILE_BYTES, old));
            for (int i = 0; i < 40_000; i++)
                files.add(
                        candidate(
                                "bottom" + i,
                                6,
                                10 * i,
                                10 * i + 9,
                                FILE_BYTES,
                                i % 10 < share ? garbage : live));
            PurgeChoice choice = new PurgeChoice(files, 10, FILE_BYTES, Map.of());
            assertThat(choice.choose(3)).isEmpty();
            assertThat(choice.wantsWhole()).isEqualTo(share == 5);
        }
    }

    /** Nothing else of level 0 is merged meanwhile. */
    @Test
    void aSetWithLevelZeroIsSmaller() {
        FileExtent garbage = new FileExtent(5, 6, 3, 1000, 10, 0, ImmutableLongArray.of(3, 6, 500));
        for (long mebibytes : new long[] {512, 513}) {
            List<Candidate> files = new ArrayList<>();
            files.add(candidate("1", 0, 0, 9, (mebibytes - 256) << 20, garbage));
            files.add(candidate("2", 6, 0, 9, 256 << 20, garbage));
            PurgeChoice choice = new PurgeChoice(files, 10, FILE_BYTES, Map.of());
            assertThat(choice.choose(3)).hasSize(mebibytes == 512 ? 1 : 0);
            assertThat(choice.wantsWhole()).isEqualTo(mebibytes == 513);
        }
    }

    /** What waited for long, and would wait for ever. */
    @Test
    void whatNoSetReachesAsksForAPurgeOfAll() {
        FileExtent garbage =
                new FileExtent(5, 6, 3, 1000, 10, 0, ImmutableLongArray.of(3, 6, 1000));
        FileExtent live =
                new FileExtent(5, 6, Long.MAX_VALUE, 1000, 10, 0, ImmutableLongArray.of());
        List<Candidate> files = new ArrayList<>();
        files.add(candidate("top", 5, 0, 1000, FILE_BYTES, garbage));
        for (int i = 0; i < 60; i++)
            files.add(candidate("bottom" + i, 6, 10 * i, 10 * i + 9, FILE_BYTES, live));
        assertThat(wantsWhole(files, 3, Map.of())).isFalse();
        assertThat(wantsWhole(files, 10, Map.of())).isTrue();
        // What would go was tried.
        assertThat(wantsWhole(files, 10, Map.of("top", new Tried(FILE_BYTES)))).isFalse();
        files.add(candidate("unreadable", 6, 5000, 5001, 1, FileExtent.UNKNOWN));
        assertThat(wantsWhole(files, 10, Map.of())).isFalse();

        // Thin files, of which a part may not go for what lies above them.
        FileExtent thin =
                new FileExtent(5, 6, 3, 1000, 10, 0, ImmutableLongArray.of(2, 5, 10, 3, 7, 10));
        for (long above : new long[] {7, 8}) {
            FileExtent top =
                    new FileExtent(above, 9, Long.MAX_VALUE, 1000, 1, 0, ImmutableLongArray.of());
            files.clear();
            files.add(candidate("top", 0, 0, 1000, 1, top));
            for (int i = 0; i < 60; i++)
                files.add(candidate("bottom" + i, 6, 10 * i, 10 * i + 9, FILE_BYTES, thin));
            PurgeChoice choice = new PurgeChoice(files, 10, FILE_BYTES, Map.of());
            assertThat(choice.choose(10)).hasSize(2);
            assertThat(choice.wantsWhole()).isEqualTo(above == 7);
        }
    }

    private static boolean wantsWhole(
            List<Candidate> files, long oldBefore, Map<String, Tried> tried) {
        PurgeChoice choice = new PurgeChoice(files, 10, FILE_BYTES, tried);
        assertThat(choice.choose(oldBefore)).isEmpty();
        return choice.wantsWhole();
    }

    @Test
    void thinFilesHaveTheirTurnByNumber() {
        FileExtent thin = new FileExtent(1, 2, 3, 1000, 10, 0, ImmutableLongArray.of(3, 2, 100));
        List<Candidate> files = new ArrayList<>();
        files.add(candidate("/1000000.sst", 6, 0, 9, FILE_BYTES, thin));
        files.add(candidate("/999999.sst", 6, 10, 19, FILE_BYTES, thin));
        assertThat(new PurgeChoice(files, 10, FILE_BYTES, Map.of()).choose(10).get(0).names())
                .containsExactly("/999999.sst");
    }

    /** However files are found, sets and limits are as if each had been asked. */
    @Test
    void setsAreAsIfEachFileHadBeenAsked() {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (int round = 0; round < 300; round++) {
            List<Candidate> files = new ArrayList<>();
            for (int level = 0; level < 4; level++) {
                int key = random.nextInt(20);
                int count = random.nextInt(8);
                for (int i = 0; i < count; i++) {
                    if (level == 0) key = random.nextInt(60);
                    int to = key + random.nextInt(12);
                    FileExtent held = new FileExtent(random.nextInt(100), 100, 3);
                    files.add(candidate(level + "." + i, level, key, to, 1, held));
                    // Neighbours may have a key in common.
                    key = to + random.nextInt(3);
                }
            }
            PurgeChoice choice = new PurgeChoice(files, 10, FILE_BYTES, Map.of());
            for (Candidate seedFile : files) {
                List<Candidate> set = choice.closed(List.of(seedFile));
                assertThat(set)
                        .as("seed " + seed)
                        .containsExactlyInAnyOrderElementsOf(closed(files, seedFile));
                ByteBuffer from = Collections.min(set, BY_FROM).from();
                ByteBuffer to = Collections.max(set, BY_TO).to();
                long limit = Long.MAX_VALUE;
                for (Candidate file : files)
                    if (!set.contains(file) && file.overlaps(from, to))
                        limit = Math.min(limit, file.held().lowest());
                Chosen chosen = choice.chosen(set);
                assertThat(chosen.limit()).as("seed " + seed).isEqualTo(limit);
                assertThat(chosen.from()).isEqualTo(from);
                assertThat(chosen.to()).isEqualTo(to);
            }
        }
    }

    private static final Comparator<Candidate> BY_FROM =
            Comparator.comparing(Candidate::from, ByteBufferUtil::compareUnsigned);
    private static final Comparator<Candidate> BY_TO =
            Comparator.comparing(Candidate::to, ByteBufferUtil::compareUnsigned);

    private static Set<Candidate> closed(List<Candidate> files, Candidate seed) {
        Set<Candidate> set = new HashSet<>(Set.of(seed));
        boolean older = false;
        for (Candidate file : files) {
            older |= file.equals(seed);
            if (older && file.level() == 0) set.add(file);
        }
        for (int level = Math.max(1, seed.level()); level < 4; level++)
            for (boolean grew = true; grew; ) {
                ByteBuffer from = Collections.min(set, BY_FROM).from();
                ByteBuffer to = Collections.max(set, BY_TO).to();
                grew = false;
                for (Candidate file : files)
                    if (file.level() == level && file.overlaps(from, to)) grew |= set.add(file);
            }
        return set;
    }

    private static Candidate candidate(
            String name, int level, int from, int to, long bytes, FileExtent held) {
        return new Candidate(
                name,
                level,
                ByteBufferUtil.bytes(from),
                ByteBufferUtil.bytes(to),
                bytes,
                held,
                false,
                0);
    }

    private static Chosen set(Candidate... files) {
        return new PurgeChoice(List.of(files), 10, FILE_BYTES, Map.of()).chosen(List.of(files));
    }

    @Test
    void nothingGoesThatAnUnreadableFileOverlaps() throws RocksDBException {
        open();
        fill(500);
        delete(0, 500, 1);
        byte[] first = Tables.firstKey(store);
        byte[] key = Arrays.copyOf(first, first.length + 1);
        database().db.put(database().data, key, new byte[] {4, -1});
        store.flush();
        purge();
        // Files of which all keys are above it may go.
        assertThat(database().db.get(database().data, first)).isNotNull();
        assertThat(Tables.context(store).catalog().extents()).hasSizeLessThan(files().size());
    }

    @Test
    void whoStopsCompactionsStopsTheReadingOfFiles() throws Exception {
        open();
        fill(100);
        delete(0, 100, 1);
        AtomicReference<Thread> thread = new AtomicReference<>();
        CompletableFuture<Boolean> running;
        DataFiles reading = held;
        synchronized (reading) {
            running =
                    CompletableFuture.supplyAsync(
                            () -> {
                                thread.set(Thread.currentThread());
                                try {
                                    return purge();
                                } catch (RocksDBException e) {
                                    throw new CompletionException(e);
                                }
                            });
            Tables.await(
                    "the reading",
                    () -> thread.get() != null && thread.get().getState() == Thread.State.BLOCKED);
            database().compactions.stop();
        }
        assertThat(running.get()).isFalse();
        assertThat(Tables.context(store).catalog().extents()).isEmpty();
        assertThat(purge()).isTrue();
    }

    @Test
    void whoStopsCompactionsStopsItToo() {
        open();
        Object set = new Object();
        database().compactions.purgeBegins(set);
        assertThat(database().compactions.purgeEnded(set)).isFalse();
        database().compactions.purgeBegins(set);
        database().compactions.stop();
        assertThat(database().compactions.purgeEnded(set)).isTrue();
        assertThat(database().compactions.purgeEnded(set)).isFalse();
    }

    @Test
    void nothingGoesWhileFilesArrive() throws RocksDBException {
        open();
        fill(100);
        delete(0, 100, 1);
        Tables.context(store).filesBegin();
        assertThat(purge()).isFalse();
        assertThat(entries()).isEqualTo(100);
        Tables.context(store).filesEnd();
        assertThat(purge()).isTrue();
        assertThat(entries()).isZero();
    }

    /** Garbage is never counted too early, too old, or twice. */
    @Test
    void garbageIsNotOverestimated() throws Exception {
        open();
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (int file = 0; file < 20; file++) {
            Map<Integer, long[]> deletions = new HashMap<>();
            int times = 1 + random.nextInt(60);
            for (int row = 0; row < 300; row++) {
                long timestamp = 1L + random.nextInt(100);
                long localTime = LONG_AGO + 1000L * random.nextInt(times);
                UpdateBuilder update = table.update("k").at(timestamp).now(localTime);
                if (random.nextInt(3) == 0) {
                    store.write(update.row(row).set("v", noise(row)).build());
                    continue;
                }
                store.write(update.deleteRow(row).build());
                deletions.put(row, new long[] {localTime, timestamp});
            }
            store.flush();
            FileExtent extent = onlyFile();
            Map<Integer, Integer> bytes = entryBytes();
            assertThat(extent.bytes())
                    .isEqualTo(bytes.values().stream().mapToInt(Integer::intValue).sum());
            for (int i = 0; i < 200; i++) {
                long gcBefore =
                        i == 0 ? Long.MAX_VALUE : LONG_AGO + 1000L * random.nextInt(times + 1);
                long limit = i == 0 ? Long.MAX_VALUE : random.nextInt(110);
                long truth = 0;
                for (var each : deletions.entrySet())
                    if (each.getValue()[0] < gcBefore && each.getValue()[1] < limit)
                        truth += bytes.get(each.getKey());
                long counted = Math.round(extent.share(gcBefore, limit) * (double) extent.bytes());
                assertThat(counted).as("seed " + seed).isLessThanOrEqualTo(truth);
                if (i == 0) assertThat(counted).as("seed " + seed).isEqualTo(truth);
                // Few times are kept apart.
                if (times <= 16 && limit > 100)
                    assertThat(counted).as("seed " + seed).isEqualTo(truth);
            }
            store.close();
            StoreDirectory.delete(directory.resolve("1"));
            open();
        }
    }

    /** However many times there are, and in whatever order, none drags all others along. */
    @ParameterizedTest
    @ValueSource(strings = {"random", "ascending", "descending"})
    void garbageOfManyTimesIsCountedOverTime(String order) throws RocksDBException {
        open();
        long seed = System.nanoTime();
        Random random = new Random(seed);
        int month = 30 * 24 * 3600;
        int rows = 5000;
        long[] times = random.ints(rows, 0, month).asLongStream().sorted().toArray();
        List<Long> inOrder = new ArrayList<>(Arrays.stream(times).boxed().toList());
        if (order.equals("random")) Collections.shuffle(inOrder, random);
        if (order.equals("descending")) Collections.reverse(inOrder);
        // One that is far from all others.
        inOrder.set(rows / 2, 10L * 365 * 24 * 3600);
        for (int row = 0; row < rows; row++)
            store.write(
                    table.update("k")
                            .at(2)
                            .now(LONG_AGO - 2L * month + inOrder.get(row))
                            .deleteRow(row)
                            .build());
        store.flush();
        FileExtent extent = onlyFile();
        for (int tenth = 1; tenth <= 10; tenth++) {
            long until = (long) month * tenth / 10;
            double truth =
                    (double) inOrder.stream().filter(time -> time < until).count() / (double) rows;
            double counted = extent.share(LONG_AGO - 2L * month + until, Long.MAX_VALUE);
            assertThat(counted)
                    .as(order + ", seed " + seed + ", " + tenth)
                    .isBetween(truth - 0.15, truth + 0.01);
        }
    }

    /** What is purged of a row that stays is counted, so that its file's turn comes. */
    @Test
    void whatGoesOfLiveRowsIsCounted() throws RocksDBException {
        table =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, v text, m map<text,text>, PRIMARY KEY (k,"
                                + " c)) WITH gc_grace_seconds = 3600");
        open();
        store.write(table.update("k").at(1).now(LONG_AGO + 1).deleteRow(1).build());
        store.write(table.update("k").at(1).now(LONG_AGO + 2).row(2).clear("m").build());
        store.write(table.update("k").at(1).now(LONG_AGO).ttl(3).row(3).liveness().build());
        store.write(table.update("k").at(1).now(LONG_AGO + 4).row(4).unset("v").build());
        for (int row = 1; row <= 4; row++)
            store.write(table.update("k").at(2).row(row).put("m", "p", "q").build());
        settle();
        assertThat(onlyFile().garbage().asList())
                .containsExactly(
                        LONG_AGO + 1,
                        1L,
                        5L,
                        LONG_AGO + 2,
                        1L,
                        5L,
                        LONG_AGO + 3,
                        1L,
                        5L,
                        LONG_AGO + 4,
                        1L,
                        1L);
        mayPurge.set(true);
        permission.clock(database());
        round.run(
                database(),
                part -> {},
                (files, gcBefore) ->
                        List.of(new PurgeChoice(files, gcBefore, 1, Map.of()).chosen(files)));
        assertThat(onlyFile().garbage().asList()).isEmpty();
        assertThat(entries()).isEqualTo(4);
    }

    private List<Candidate> candidates(
            List<LiveFileMetaData> files, Map<String, FileExtent> extents) throws RocksDBException {
        return PurgeRound.candidates(Tables.context(store), database(), files, extents);
    }

    private FileExtent onlyFile() throws RocksDBException {
        DataFiles held = new DataFiles(Tables.context(store));
        Map<String, FileExtent> extents = held(held, database().dataFiles());
        assertThat(extents).hasSize(1);
        return extents.values().iterator().next();
    }

    private Map<String, FileExtent> held(DataFiles held, List<LiveFileMetaData> files)
            throws RocksDBException {
        return Objects.requireNonNull(held.learn(database(), files, true, () -> false));
    }

    /** Whoever asks about other files meanwhile takes nothing away. */
    @Test
    void whatWasLearnedOfFilesIsKept() throws RocksDBException {
        open();
        fill(500);
        DataFiles held = new DataFiles(Tables.context(store));
        List<LiveFileMetaData> all = database().dataFiles();
        assertThat(all).hasSizeGreaterThan(1);
        Map<String, FileExtent> extents = held(held, all);
        assertThat(held(held, all.subList(0, 1))).hasSize(1);
        assertThat(extents).hasSameSizeAs(all);
        assertThat(candidates(all, extents)).hasSameSizeAs(all);
    }

    /** A file that went is no reason not to read the others. */
    @Test
    void whatIsStillThereIsReadAllTheSame() throws Exception {
        open();
        fill(500);
        List<LiveFileMetaData> before = database().dataFiles();
        assertThat(before).hasSizeGreaterThan(2);
        String gone = before.get(before.size() / 2).fileName();
        DataFiles held = new DataFiles(Tables.context(store));
        assertThat(held.compact(database(), List.of(gone), 6, 0)).hasSize(1);
        assertThat(Files.exists(directory.resolve("1" + gone))).isFalse();
        assertThat(held.learn(database(), before, true, () -> false)).isNull();
        assertThat(Tables.context(store).catalog().extents()).hasSize(before.size() - 1);
        List<LiveFileMetaData> after = database().dataFiles();
        assertThat(held(held, after)).hasSameSizeAs(after);
    }

    /** RocksDB moves a file down by itself between the look at the files and the merge. */
    @Test
    void aFileThatWasMovedBelowIsMergedAnotherTime() throws Exception {
        open();
        fill(500);
        DataFiles held = new DataFiles(Tables.context(store));
        String file = database().dataFiles().get(0).fileName();
        List<String> moved = Objects.requireNonNull(held.compact(database(), List.of(file), 6, 0));
        assertThat(held.compact(database(), moved, 5, 0)).isNull();
        assertThat(files()).containsKey(moved.get(0));
    }

    /** Files that are merged faster than they are read are found in the end. */
    @Test
    void filesThatComeAndGoAreLearned() throws Exception {
        open();
        fill(2000);
        delete(0, 2000, 1);
        AtomicBoolean stop = new AtomicBoolean();
        CompletableFuture<Void> merger =
                CompletableFuture.runAsync(
                        () -> {
                            Random random = new Random(1);
                            while (!stop.get()) {
                                try {
                                    compactSomething(random);
                                } catch (RocksDBException e) {
                                    throw new CompletionException(e);
                                }
                            }
                        });
        try {
            for (int i = 0; i < 20; i++) {
                AtomicBoolean learned = new AtomicBoolean();
                mayPurge.set(true);
                permission.clock(database());
                round.run(
                        database(),
                        part -> {},
                        (files, gcBefore) -> {
                            learned.set(true);
                            return List.of();
                        });
                assertThat(learned).isTrue();
            }
        } finally {
            stop.set(true);
            merger.get();
        }
    }

    @Test
    void theLowestTimestampOfAnEntryCounts() throws RocksDBException {
        open();
        store.write(table.update("k").at(9).row(1).set("v", "x").build());
        store.write(table.update("k").at(5).row(1).set("w", "x").build());
        store.flush();
        assertThat(onlyFile().lowest()).isEqualTo(5);
        assertThat(onlyFile().highest()).isEqualTo(9);
    }

    private Map<Integer, Integer> entryBytes() throws RocksDBException {
        Map<Integer, Integer> bytes = new HashMap<>();
        int row = 0;
        try (RocksIterator it = database().db.newIterator(database().data)) {
            for (it.seekToFirst(); it.isValid(); it.next())
                bytes.put(row++, it.key().length + it.value().length);
        }
        return bytes;
    }

    // Random histories

    private record Value(long timestamp, String text) {}

    private final Map<String, Value> cells = new TreeMap<>();
    private final Map<String, Long> deleted = new HashMap<>();
    private final Map<String, Long> deletedPartitions = new HashMap<>();

    /** What a query would return. */
    private Map<String, String> live() {
        Map<String, String> live = new TreeMap<>();
        for (String key : List.of("k", "a", "b", "c"))
            try (UnfilteredRowIterator rows =
                    store.read(table.key(key), Slices.ALL, table.all(), false)) {
                while (rows != null && rows.hasNext()) {
                    Unfiltered next = rows.next();
                    if (next.isRangeTombstoneMarker()) continue;
                    Row row = (Row) next;
                    for (Cell<?> cell : row.cells())
                        if (!cell.isTombstone() && !cell.isExpiring())
                            live.put(
                                    key
                                            + ByteBufferUtil.toInt(row.clustering().bufferAt(0))
                                            + cell.column().name,
                                    string(cell));
                }
            }
        return live;
    }

    private static String string(Cell<?> cell) {
        try {
            return ByteBufferUtil.string(cell.buffer());
        } catch (CharacterCodingException e) {
            throw new AssertionError(e);
        }
    }

    private Map<String, String> expected() {
        Map<String, String> live = new TreeMap<>();
        cells.forEach(
                (cell, value) -> {
                    long hidden =
                            Math.max(
                                    deleted.getOrDefault(cell.substring(0, cell.length() - 1), 0L),
                                    deletedPartitions.getOrDefault(cell.substring(0, 1), 0L));
                    if (value.timestamp > hidden && !value.text.isEmpty())
                        live.put(cell, value.text);
                });
        return live;
    }

    private void writeSomething(Random random, long timestamp) {
        String key = List.of("a", "b", "c").get(random.nextInt(3));
        int row = random.nextInt(60);
        String column = random.nextBoolean() ? "v" : "w";
        UpdateBuilder update = table.update(key).at(timestamp);
        // Some may not go yet.
        if (random.nextInt(4) > 0) update = update.now(LONG_AGO);
        String text = "";
        if (random.nextInt(20) == 0) {
            int to = row + random.nextInt(20);
            store.write(update.deleteRange(table.from(row), table.to(to)).build());
            for (int each = row; each <= to; each++)
                deleted.merge(key + each, timestamp, Math::max);
            return;
        }
        if (random.nextInt(40) == 0) {
            store.write(update.deletePartition().build());
            deletedPartitions.merge(key, timestamp, Math::max);
            return;
        }
        switch (random.nextInt(5)) {
            case 0 -> {
                store.write(update.deleteRow(row).build());
                deleted.merge(key + row, timestamp, Math::max);
                return;
            }
            case 1 -> store.write(update.row(row).unset(column).build());
            case 2 -> store.write(update.ttl(10).row(row).set(column, noise(timestamp)).build());
            default -> {
                text = noise(timestamp).substring(random.nextInt(190));
                // So many that the write buffer gets the row as it is below it.
                int times = random.nextInt(20) == 0 ? 70 : 1;
                PartitionUpdate written = update.row(row).set(column, text).build();
                for (int i = 0; i < times; i++) store.write(written);
            }
        }
        cells.merge(
                key + row + column,
                new Value(timestamp, text),
                (a, b) -> a.timestamp > b.timestamp ? a : b);
    }

    /** Any files, to any level below them. */
    private void compactSomething(Random random) throws RocksDBException {
        List<LiveFileMetaData> files = database().dataFiles();
        if (files.isEmpty()) return;
        LiveFileMetaData file = files.get(random.nextInt(files.size()));
        int level = Math.max(1, file.level()) + random.nextInt(7 - Math.max(1, file.level()));
        new DataFiles(Tables.context(store))
                .compact(database(), List.of(file.fileName()), level, 4_000);
    }

    private List<Chosen> anything(List<Candidate> files, Random random) {
        PurgeChoice choice = new PurgeChoice(files, Long.MAX_VALUE, FILE_BYTES, Map.of());
        List<Chosen> sets = new ArrayList<>();
        Set<String> taken = new HashSet<>();
        for (int i = 0; i < 3 && !files.isEmpty(); i++) {
            List<Candidate> seed = List.of(files.get(random.nextInt(files.size())));
            // RocksDB adds to it by itself too.
            Chosen set = choice.chosen(random.nextBoolean() ? choice.closed(seed) : seed);
            if (set.names().stream().noneMatch(taken::contains)) sets.add(set);
            taken.addAll(set.names());
        }
        return sets;
    }

    /** What a set has is what RocksDB merges, on each level, and nothing besides. */
    @ParameterizedTest
    @ValueSource(strings = {LEVELED, UNIVERSAL})
    void aClosedSetIsWhatIsMerged(String strategy) throws Exception {
        table = table(strategy + "', 'enabled': 'false");
        open();
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (int i = 0; i < 150; i++) {
            int from = random.nextInt(1000);
            for (int j = 0; j < 30; j++)
                store.write(
                        table.update("k")
                                .at(i)
                                .row(from + random.nextInt(1 + random.nextInt(300)))
                                .set("v", noise(j))
                                .build());
            store.flush();
            if (random.nextInt(3) == 0) compactSomething(random);
            if (random.nextInt(3) > 0) continue;
            DataFiles held = new DataFiles(Tables.context(store));
            List<LiveFileMetaData> all = database().dataFiles();
            List<Candidate> files = candidates(all, held(held, all));
            PurgeChoice choice = new PurgeChoice(files, 0, FILE_BYTES, Map.of());
            Candidate seedFile = files.get(random.nextInt(files.size()));
            Chosen set = choice.chosen(choice.closed(List.of(seedFile)));
            Set<String> gone = files().keySet();
            assertThat(held.compact(database(), set.names(), 6, 4_000)).isNotNull();
            gone.removeAll(files().keySet());
            assertThat(gone)
                    .as("seed " + seed + ", " + i)
                    .containsExactlyInAnyOrderElementsOf(set.names());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {LEVELED, UNIVERSAL})
    void whateverIsRewrittenNothingComesBack(String strategy) throws RocksDBException {
        table = table(strategy);
        open();
        long seed = System.nanoTime();
        Random random = new Random(seed);
        long purged = 0;
        int epochs = 30 * Tables.LENGTH;
        for (int epoch = 1; epoch <= epochs; epoch++) {
            // Timestamps in any order, but above all that a purge may have seen.
            List<Long> timestamps = new ArrayList<>();
            for (long i = 0; i < 150; i++) timestamps.add(1000L * epoch + i);
            Collections.shuffle(timestamps, random);
            mayPurge.set(false);
            permission.clock(database());
            for (long timestamp : timestamps) {
                writeSomething(random, timestamp);
                switch (random.nextInt(40)) {
                    case 0 -> store.flush();
                    case 1, 2 -> compactSomething(random);
                    default -> {}
                }
            }
            if (random.nextInt(10) == 0) settle();
            if (random.nextInt(10) == 0) {
                purged += Tables.context(store).reconciler().purged();
                store.close();
                open();
            }
            mayPurge.set(true);
            permission.clock(database());
            for (int i = random.nextInt(3); i >= 0; i--) {
                if (random.nextInt(5) == 0) store.compact(List.of());
                else if (random.nextBoolean()) purge();
                else
                    round.run(database(), part -> {}, (files, gcBefore) -> anything(files, random));
                assertThat(live()).as("seed " + seed + ", " + epoch).isEqualTo(expected());
            }
        }
        purged += Tables.context(store).reconciler().purged();
        assertThat(purged).as("seed " + seed).isGreaterThan(epochs * 1000L / 60);
        settle();
        assertThat(live()).as("seed " + seed).isEqualTo(expected());
    }
}
