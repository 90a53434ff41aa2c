// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.WalSync;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.compaction.PurgeChoice.Candidate;
import dev.petra.engine.rocks.compaction.PurgeChoice.Chosen;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.FileExtent;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;

/** What deleted partitions hide goes from the files that have much of it, and from no others. */
class DeletedPartitionsTest extends PurgeFixture {
    private static final long LONG_AGO = UpdateBuilder.LONG_AGO;
    private static final String LEVELED = "LeveledCompactionStrategy";
    private static final String UNIVERSAL = "UnifiedCompactionStrategy";
    private static final String MEMORY_ENTRIES = "rocksdb.num-entries-active-mem-table";

    private void open(String columns, String strategy) {
        table =
                TestTable.of(
                        "CREATE TABLE t ("
                                + columns
                                + ") WITH gc_grace_seconds = 3600 AND compression = {'enabled':"
                                + " 'false'} AND compaction = {'class': '"
                                + strategy
                                + "'}");
        open();
    }

    /** Whatever the files hold. */
    private void rewriteAll() throws RocksDBException {
        mayPurge.set(true);
        permission.clock(database());
        round.run(
                database(),
                part -> {},
                (files, gcBefore) ->
                        List.of(
                                new PurgeChoice(files, gcBefore, 64 << 20, Map.of())
                                        .chosen(files)));
    }

    private String read(String key) {
        StringBuilder text = new StringBuilder();
        try (UnfilteredRowIterator rows =
                store.read(table.key(key), Slices.ALL, table.all(), false)) {
            if (rows == null) return "";
            text.append(rows.partitionLevelDeletion()).append(rows.staticRow());
            while (rows.hasNext())
                text.append('\n').append(rows.next().toString(table.metadata(), true, true));
        }
        return text.toString();
    }

    private List<String> byToken(int keys) {
        return IntStream.range(0, keys)
                .mapToObj(i -> "key" + i)
                .sorted(Comparator.comparing(key -> table.key(key)))
                .toList();
    }

    /** Two in a hundred partitions; within their grace too, where others go. */
    @ParameterizedTest
    @ValueSource(strings = {LEVELED, UNIVERSAL})
    void onlyFilesWithMuchThatIsHiddenAreRewritten(String strategy) throws RocksDBException {
        open("k text PRIMARY KEY, v text", strategy);
        int keys = 20_000;
        List<String> byToken = byToken(keys);
        for (String key : byToken)
            store.write(table.update(key).at(1).row().set("v", noise(key.hashCode())).build());
        settle();
        for (int i = 0; i < keys; i += 100) delete(byToken.get(i), UpdateBuilder.NOW);
        for (int i = 10_001; i < 10_200; i++)
            delete(byToken.get(i), i % 2 == 0 ? LONG_AGO : UpdateBuilder.NOW);
        settle();
        Map<String, Long> files = files();
        assertThat(files).hasSizeGreaterThan(100);
        int before = entries();
        Map<String, String> read = new TreeMap<>();
        for (String key : byToken) read.put(key, read(key));
        assertThat(purge()).isTrue();
        Map<String, Long> gone = new HashMap<>(files);
        gone.keySet().removeAll(files().keySet());
        assertThat(sum(gone)).isBetween(1L, sum(files) / 20);
        // The deletions stay.
        assertThat(entries()).isBetween(before - 210, before - 150);
        for (String key : byToken) assertThat(read(key)).isEqualTo(read.get(key));
        Map<String, Long> left = files();
        assertThat(purge()).isFalse();
        assertThat(files()).isEqualTo(left);
        // They are too little to rewrite all of it for them.
        assertThat(round.wantsWhole()).isFalse();
    }

    private void delete(String key, long localTime) {
        store.write(table.update(key).at(2).now(localTime).deletePartition().build());
    }

    /** Its deletion is in another file than most of what it hides. */
    @ParameterizedTest
    @ValueSource(strings = {LEVELED, UNIVERSAL})
    void aDeletedPartitionLargerThanAFileGoes(String strategy) throws RocksDBException {
        open("k text, c int, v text, PRIMARY KEY (k, c)", strategy);
        for (String key : List.of("before", "large", "other", "k1", "k2"))
            for (int row = 0; row < (key.equals("large") ? 2000 : 300); row++)
                store.write(table.update(key).at(1).row(row).set("v", noise(row)).build());
        // One that is newer.
        store.write(table.update("large").at(3).row(1000).set("v", "stays").build());
        settle();
        store.write(table.update("large").at(2).deletePartition().build());
        Map<String, String> read = new HashMap<>();
        for (String key : List.of("before", "large", "other", "k1", "k2")) read.put(key, read(key));
        for (int i = 0; i < 3; i++) purge();
        // What is not hidden, the deletion, and the few that share a file with others.
        assertThat(entries()).isBetween(4 * 300 + 2, 4 * 300 + 300);
        for (String key : read.keySet()) assertThat(read(key)).isEqualTo(read.get(key));
    }

    /** A deletion that came while the purge ran is in the log, and files are synced without it. */
    @Test
    void whatHidesIsDurableBeforeWhatIsHiddenGoes() throws RocksDBException {
        engine.walSync(WalSync.PERIODIC, Duration.ofHours(1));
        open("k text, c int, v text, PRIMARY KEY (k, c)", LEVELED);
        for (int row = 0; row < 2000; row++)
            store.write(table.update("large").at(1).row(row).set("v", noise(row)).build());
        settle();
        mayPurge.set(true);
        permission.clock(database());
        int before = entries();
        List<Long> synced = new ArrayList<>();
        round.run(
                database(),
                // Before each set.
                part -> synced.add(synced()),
                (files, gcBefore) -> {
                    store.write(table.update("large").at(2).deletePartition().build());
                    PurgeChoice choice = new PurgeChoice(files, gcBefore, 64 << 20, Map.of());
                    return files.stream()
                            .sorted(Comparator.comparing(Candidate::from).reversed())
                            .limit(2)
                            .map(file -> choice.chosen(List.of(file)))
                            .toList();
                });
        assertThat(entries()).isLessThan(before - 10);
        assertThat(database().db.getLongProperty(database().data, MEMORY_ENTRIES)).isOne();
        assertThat(synced).hasSize(2).isSorted().doesNotHaveDuplicates();
    }

    /** How often a log was. */
    private long synced() {
        try {
            String counters = database().db.getProperty("rocksdb.options-statistics");
            Matcher count =
                    Pattern.compile("rocksdb.wal.synced COUNT : ([0-9]+)").matcher(counters);
            assertThat(count.find()).isTrue();
            return Long.parseLong(count.group(1));
        } catch (RocksDBException e) {
            throw new AssertionError(e);
        }
    }

    /** Rows go from the files below a reader that was there before their deletion. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void whoBeganToReadBeforeADeletionReadsToTheEnd(boolean large) throws RocksDBException {
        open("k text, c int, v text, PRIMARY KEY (k, c)", LEVELED);
        for (int row = 0; row < 500; row++)
            store.write(
                    table.update("a")
                            .at(1)
                            .row(row)
                            .set("v", noise(row).repeat(large && row % 10 == 0 ? 100 : 1))
                            .build());
        settle();
        String before = read("a");
        try (UnfilteredRowIterator rows =
                store.read(table.key("a"), Slices.ALL, table.all(), false)) {
            StringBuilder text = new StringBuilder();
            text.append(rows.partitionLevelDeletion()).append(rows.staticRow());
            text.append('\n').append(rows.next().toString(table.metadata(), true, true));
            store.write(table.update("a").at(2).deletePartition().build());
            for (int i = 0; i < 3; i++) purge();
            assertThat(entries()).isOne();
            while (rows.hasNext())
                text.append('\n').append(rows.next().toString(table.metadata(), true, true));
            assertThat(text.toString()).isEqualTo(before);
        }
        assertThat(read("a")).doesNotContain("v=");
    }

    /** A cleanup that did not end leaves deletions in files that are there no more. */
    @Test
    void whatACleanupRemovedHidesNothing() throws RocksDBException {
        open("k text PRIMARY KEY, v text", LEVELED + "', 'enabled': 'false");
        store.write(table.update("a").at(2).deletePartition().build());
        settle();
        Database database = database();
        database.db.deleteRange(database.data, new byte[] {0}, new byte[] {-1});
        store.write(table.update("a").at(1).row().set("v", "x").build());
        store.flush();
        String before = read("a");
        assertThat(before).contains("v=x");
        rewriteAll();
        assertThat(read("a")).isEqualTo(before);
    }

    @Test
    void counterTablesKeepWhatIsHidden() throws RocksDBException {
        open("k text PRIMARY KEY, v counter", LEVELED);
        store.write(table.update("a").at(2).now(LONG_AGO).deletePartition().build());
        settle();
        mayPurge.set(true);
        Tables.context(store).purgeable().written(LONG_AGO);
        reopen();
        // The engine's own interval begins before.
        Tables.tick(store);
        Tables.context(store).catalog().setPurge("1");
        new Purge(Tables.context(store), new DataFiles(Tables.context(store)))
                .run(database(), true);
        // By a purge of all of the table, as ever.
        assertThat(Tables.context(store).catalog().wholePurge()).isPositive();
        assertThat(entries()).isZero();
    }

    /** A deleted counter wins over a newer count, so it must not go before that. */
    @Test
    void deletedCountersStay() throws RocksDBException {
        open("k text PRIMARY KEY, v counter", LEVELED);
        store.write(table.update("a").at(1).row().unset("v").build());
        store.write(table.update("a").at(2).deletePartition().build());
        settle();
        rewriteAll();
        assertThat(entries()).isEqualTo(2);
    }

    private void reopen() {
        store.close();
        open();
    }

    @Test
    void oldRangeTombstonesHaveAllOfTheTablePurged() throws RocksDBException {
        open("k text, c int, v text, PRIMARY KEY (k, c)", LEVELED);
        for (int row = 0; row < 100; row++)
            store.write(table.update("a").at(1).row(row).set("v", noise(row)).build());
        store.write(table.update("a").at(2).deleteRange(table.from(10), table.to(90)).build());
        purgeInBackground();
        assertThat(Tables.context(store).catalog().wholePurge()).isZero();
        store.write(
                table.update("a")
                        .at(3)
                        .now(LONG_AGO)
                        .deleteRange(table.from(10), table.to(90))
                        .build());
        purgeInBackground();
        assertThat(Tables.context(store).catalog().wholePurge()).isPositive();
        // And the record of the partition, which the younger one wrote too.
        assertThat(entries()).isEqualTo(19 + 1);
    }

    /** They would be there for each purge of tables that are deleted from every day. */
    @Test
    void rangeTombstonesAskForNoPurgeOfAll() throws RocksDBException {
        open("k text, c int, v text, PRIMARY KEY (k, c)", LEVELED);
        for (int row = 0; row < 100; row++)
            store.write(table.update("a").at(1).row(row).set("v", noise(row)).build());
        store.write(
                table.update("a")
                        .at(2)
                        .now(LONG_AGO)
                        .deleteRange(table.from(10), table.to(20))
                        .build());
        settle();
        String before = read("a");
        purgeInBackground();
        assertThat(read("a")).isNotEqualTo(before).doesNotContain("marker");
        assertThat(Tables.context(store).catalog().wholePurge()).isZero();
    }

    private void purgeInBackground() throws RocksDBException {
        mayPurge.set(true);
        reopen();
        // The engine's own interval begins before.
        Tables.tick(store);
        Tables.context(store).catalog().setPurge("1");
        new Purge(Tables.context(store), new DataFiles(Tables.context(store)))
                .run(database(), true);
    }

    /** Records that wait for long, and are much, are worth a purge of all of the table. */
    @Test
    void manyOldDeletionsAskForAPurgeOfAll() throws RocksDBException {
        open("k text PRIMARY KEY, v text", LEVELED);
        for (int i = 0; i < 500; i++) {
            store.write(table.update("k" + i).at(1).row().set("v", noise(i)).build());
            if (i % 10 == 0) delete("k" + i, LONG_AGO);
        }
        settle();
        purge();
        assertThat(round.wantsWhole()).isTrue();
        purgeInBackground();
        assertThat(Tables.context(store).catalog().wholePurge()).isPositive();
        assertThat(entries()).isEqualTo(450);
    }

    /** Extents of versions before are read anew. */
    @Test
    void whatVersionsBeforeCountedIsCountedAnew() throws RocksDBException {
        open("k text PRIMARY KEY, v text", LEVELED);
        for (int i = 0; i < 100; i++)
            store.write(table.update("k" + i).at(1).row().set("v", noise(i)).build());
        for (int i = 0; i < 100; i++) delete("k" + i, UpdateBuilder.NOW);
        settle();
        purge();
        Map<String, FileExtent> extents = Tables.context(store).catalog().extents();
        assertThat(extents).isNotEmpty();
        assertThat(extents.values()).allMatch(FileExtent::knowsGarbage);
        assertThat(extents.values()).allMatch(extent -> extent.covers().bytes() > 0);
    }

    /**
     * Of the same timestamp a deletion hides all but a row's deletion that was made later, and a
     * collection's that was not made earlier.
     */
    @ParameterizedTest
    @ValueSource(longs = {LONG_AGO, UpdateBuilder.NOW})
    void whatIsAsOldAsTheDeletionIsHiddenAsReadsHideIt(long localTime) throws RocksDBException {
        open("k text, c int, v text, m map<text, text>, PRIMARY KEY (k, c)", LEVELED);
        table.alter(table.metadata().unbuild().gcGraceSeconds(1_000_000_000).build());
        store.write(table.update("a").at(2).now(localTime).deletePartition().build());
        for (long deleted : List.of(LONG_AGO, UpdateBuilder.NOW)) {
            int row = deleted == LONG_AGO ? 0 : 10;
            store.write(table.update("a").at(2).now(deleted).deleteRow(row).build());
            store.write(table.update("a").at(2).now(deleted).row(row + 1).clear("m").build());
            store.write(table.update("a").at(2).now(deleted).row(row + 2).unset("v").build());
        }
        store.write(table.update("a").at(2).row(20).liveness().set("v", "x").build());
        store.write(table.update("a").at(3).row(21).liveness().set("v", "x").build());
        settle();
        String before = read("a");
        rewriteAll();
        assertThat(read("a")).isEqualTo(before);
        // The deletion, the newer row, and those.
        assertThat(entries()).isEqualTo(localTime == LONG_AGO ? 5 : 3);
    }

    // Random histories

    private void writeSomething(Random random, long timestamp) {
        String key = List.of("a", "b", "c").get(random.nextInt(3));
        UpdateBuilder update = table.update(key).at(timestamp);
        if (random.nextInt(3) == 0) update = update.now(LONG_AGO);
        int row = random.nextInt(40);
        int element = random.nextInt(3);
        switch (random.nextInt(12)) {
            case 0 -> {
                if (random.nextInt(3) == 0) store.write(update.deletePartition().build());
            }
            case 1 -> store.write(update.deleteRow(row).build());
            case 2 -> store.write(update.row(row).unset("v").build());
            case 3 ->
                    store.write(update.row(row).put("m", "e" + element, noise(timestamp)).build());
            case 4 -> store.write(update.row(row).remove("m", "e" + element).build());
            case 5 -> store.write(update.row(row).clear("m").build());
            case 6 -> store.write(update.staticRow().set("s", noise(timestamp)).build());
            case 7 -> store.write(update.row(row).liveness().set("v", noise(timestamp)).build());
            case 8 -> {
                // So many that the write buffer gets the row as it is below it.
                for (int i = 0; i < 70; i++)
                    store.write(
                            table.update(key)
                                    .at(timestamp)
                                    .row(row)
                                    .set("v", noise(timestamp))
                                    .build());
            }
            case 9 ->
                    store.write(
                            table.update(key)
                                    .at(timestamp)
                                    .ttl(10)
                                    .row(row)
                                    .set("v", noise(timestamp))
                                    .build());
            default -> store.write(update.row(row).set("v", noise(timestamp)).build());
        }
    }

    private void compactSomething(Random random) throws RocksDBException {
        List<LiveFileMetaData> files = database().dataFiles();
        if (files.isEmpty()) return;
        LiveFileMetaData file = files.get(random.nextInt(files.size()));
        int level = Math.max(1, file.level()) + random.nextInt(7 - Math.max(1, file.level()));
        new DataFiles(Tables.context(store))
                .compact(database(), List.of(file.fileName()), level, 4_000);
    }

    private List<Chosen> anything(List<Candidate> files, Random random) {
        if (files.isEmpty()) return List.of();
        PurgeChoice choice = new PurgeChoice(files, Long.MAX_VALUE, 64 << 20, Map.of());
        List<Candidate> seed = List.of(files.get(random.nextInt(files.size())));
        return List.of(choice.chosen(random.nextBoolean() ? choice.closed(seed) : seed));
    }

    /** To the byte, as long as nothing is old enough to be purged. */
    @ParameterizedTest
    @ValueSource(strings = {LEVELED, UNIVERSAL})
    void whateverIsRewrittenReadsAreTheSame(String strategy) throws RocksDBException {
        open(
                "k text, c int, s text static, v text, m map<text, text>, PRIMARY KEY (k, c)",
                strategy);
        long seed = System.nanoTime();
        Random random = new Random(seed);
        long hidden = 0;
        table.alter(table.metadata().unbuild().gcGraceSeconds(1_000_000_000).build());
        for (int epoch = 1; epoch <= 40; epoch++) {
            List<Long> timestamps = new ArrayList<>();
            // Each for two writes: which wins depends on what they are.
            for (long i = 0; i < 100; i++) timestamps.add(100L * epoch + i / 2);
            Collections.shuffle(timestamps, random);
            for (long timestamp : timestamps) {
                writeSomething(random, timestamp);
                switch (random.nextInt(40)) {
                    case 0 -> store.flush();
                    case 1, 2 -> compactSomething(random);
                    default -> {}
                }
            }
            mayPurge.set(true);
            permission.clock(database());
            for (int i = random.nextInt(3); i >= 0; i--) {
                Map<String, String> read = new TreeMap<>();
                for (String key : List.of("a", "b", "c")) read.put(key, read(key));
                long before = Tables.context(store).reconciler().purged();
                // A write in the middle takes along what it finds below it.
                round.run(database(), part -> {}, (files, gcBefore) -> anything(files, random));
                hidden += Tables.context(store).reconciler().purged() - before;
                for (String key : read.keySet())
                    assertThat(read(key))
                            .as("seed " + seed + ", " + epoch)
                            .isEqualTo(read.get(key));
            }
        }
        assertThat(hidden).as("seed " + seed).isGreaterThan(100);
    }
}
