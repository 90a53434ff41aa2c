// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.management.ThreadMXBean;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import dev.petra.engine.rocks.nativelib.Reconciler;
import dev.petra.engine.rocks.read.Cursor;
import dev.petra.engine.rocks.read.ReadContext;
import dev.petra.engine.rocks.stream.SentStream;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.BufferClusteringBound;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.marshal.DecimalType;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.RowIterator;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;
import org.rocksdb.Status;

/** Range tombstones past their grace go, and files that have none of them stay as they are. */
class OldRangesTest extends PurgeFixture {
    private static final long LONG_AGO = UpdateBuilder.LONG_AGO;

    /** {@code -Dpetra.ranges=1000000} for so many beside each other. */
    private static final int APART = Integer.getInteger("petra.ranges", 5_000);

    private static final int BATCH = 1_000;
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private static final String LEVELED = "LeveledCompactionStrategy";
    private static final String UNIVERSAL = "UnifiedCompactionStrategy";

    private void open(String strategy) {
        table =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, v text, s text static, PRIMARY KEY (k, c))"
                                + " WITH gc_grace_seconds = 3600 AND compression = {'enabled':"
                                + " 'false'} AND compaction = {'class': '"
                                + strategy
                                + "'}");
        open();
    }

    private void fill(String key, int rows) {
        for (int row = 0; row < rows; row++)
            store.write(table.update(key).at(1).row(row).set("v", noise(row)).build());
    }

    private void delete(String key, int from, int to, long timestamp, long localTime) {
        store.write(
                table.update(key)
                        .at(timestamp)
                        .now(localTime)
                        .deleteRange(table.from(from), table.to(to))
                        .build());
    }

    private byte[] position(String key) {
        ByteSink position = new ByteSink();
        Tables.context(store).partitionKeys().put(position, table.key(key));
        return position.copy(0, position.position());
    }

    private int ranges(String key) {
        byte[] prefix = Keys.withKind(position(key), KeyKind.RANGE);
        ByteBuffer direct = ByteBuffer.allocateDirect(prefix.length).put(prefix).flip();
        int count = 0;
        try (Cursor cursor = new ReadContext(Tables.context(store), table.all()).open()) {
            for (cursor.seek(direct.duplicate());
                    cursor.isValid() && Keys.startsWith(cursor.key(), direct);
                    cursor.next()) count++;
        }
        return count;
    }

    /** What a query of a partition would return. */
    private Map<Integer, String> live(String key) {
        Map<Integer, String> live = new TreeMap<>();
        try (UnfilteredRowIterator rows =
                store.read(table.key(key), Slices.ALL, table.all(), false)) {
            while (rows != null && rows.hasNext()) {
                Unfiltered next = rows.next();
                if (next instanceof Row row && row.hasLiveData(0, false))
                    live.put(
                            ByteBufferUtil.toInt(row.clustering().bufferAt(0)),
                            row.getCell(table.column("v")).buffer().toString()
                                    + row.getCell(table.column("v")).timestamp());
            }
        }
        return live;
    }

    /** It was taken for damage of the file that had the range tombstone, which stayed for good. */
    @Test
    void anErrorOfTheirRemovalIsNotOneOfTheirFile() throws RocksDBException {
        open(LEVELED);
        delete("k", 0, 9, 2, LONG_AGO);
        settle();
        String file = database().dataFiles().get(0).fileName();
        RocksDBException error =
                new RocksDBException(
                        "another file",
                        new Status(Status.Code.Corruption, Status.SubCode.None, ""));
        assertThatThrownBy(
                        () ->
                                held.eachOldRange(
                                        database(),
                                        file,
                                        LONG_AGO + 1,
                                        () -> false,
                                        position -> {
                                            throw error;
                                        }))
                .isSameAs(error);
    }

    /** It rests by itself, and was rested for once more, in which nobody could stop it. */
    @Test
    void whatTheirRemovalTakesIsNotRestedFor() throws RocksDBException {
        open(LEVELED);
        held = new DataFiles(Tables.context(store), this::rest);
        for (int i = 0; i < 700; i++) delete("k" + i, 0, 9, 2, LONG_AGO);
        store.flush();
        String file = database().dataFiles().get(0).fileName();
        int[] partitions = new int[1];
        assertThat(
                        held.eachOldRange(
                                database(),
                                file,
                                LONG_AGO + 1,
                                () -> false,
                                position -> {
                                    if (partitions[0]++ == 0)
                                        nanoTime.addAndGet(TimeUnit.HOURS.toNanos(1));
                                }))
                .isEqualTo(Long.MAX_VALUE);
        assertThat(rests).containsExactly(TimeUnit.MILLISECONDS.toNanos(100));
        assertThat(partitions[0]).isEqualTo(700);
    }

    /** What was seen of a file is not all that there is. */
    @Test
    void damageAmongThemEndsTheLookAtTheirFile() throws RocksDBException {
        open(LEVELED);
        delete("j", 0, 9, 2, UpdateBuilder.NOW);
        for (int i = 0; i < 2_000; i++) delete("k", 2 * i, 2 * i + 1, 2, LONG_AGO);
        store.flush();
        LiveFileMetaData file = database().dataFiles().get(0);
        Tables.damage(store, file.fileName(), file.size() / 2);
        assertThat(
                        held.eachOldRange(
                                database(),
                                file.fileName(),
                                LONG_AGO + 1,
                                () -> false,
                                position -> {
                                    throw new AssertionError("not all of it was seen");
                                }))
                .isEqualTo(Long.MAX_VALUE);
    }

    @ParameterizedTest
    @ValueSource(strings = {LEVELED, UNIVERSAL})
    void theyGoAndTheOtherFilesStay(String strategy) throws RocksDBException {
        open(strategy);
        for (int i = 0; i < 150; i++) fill("k" + i, 100);
        settle();
        delete("k1", 0, 49, 2, LONG_AGO);
        delete("k2", 20, 30, 2, LONG_AGO);
        delete("k2", 25, 60, 3, LONG_AGO);
        delete("k3", 5, 9, 2, UpdateBuilder.NOW);
        delete("k4", 5, 9, 2, LONG_AGO);
        // Newer than what hides the rest.
        store.write(table.update("k1").at(5).row(7).set("v", "newer").build());
        store.write(table.update("k4").at(1).staticRow().set("s", "static").build());
        settle();
        Map<String, Map<Integer, String>> read = new HashMap<>();
        for (int i = 0; i < 150; i++) read.put("k" + i, live("k" + i));
        assertThat(read.get("k1")).hasSize(51).containsKey(7);
        assertThat(read.get("k2")).hasSize(59);
        Map<String, Long> files = files();
        assertThat(files).hasSizeGreaterThan(50);

        purge();
        assertThat(round.wantsWhole()).isFalse();
        for (String key : new String[] {"k1", "k2", "k4"}) assertThat(ranges(key)).isZero();
        assertThat(ranges("k3")).isOne();
        read.forEach((key, rows) -> assertThat(live(key)).as(key).isEqualTo(rows));
        Map<String, Long> gone = new HashMap<>(files);
        gone.keySet().removeAll(files().keySet());
        assertThat(sum(gone)).isLessThan(sum(files) / 10);

        // What was hidden goes as what deletions of rows hide.
        int before = entries();
        mayPurge.set(true);
        permission.clock(database());
        store.compact(List.of());
        store.compact(List.of());
        assertThat(entries()).isLessThan(before - 80);
        read.forEach((key, rows) -> assertThat(live(key)).as(key).isEqualTo(rows));
        store.close();
        open();
        read.forEach((key, rows) -> assertThat(live(key)).as(key).isEqualTo(rows));
    }

    /** In one purge, where they hide much of a file. */
    @ParameterizedTest
    @ValueSource(strings = {LEVELED, UNIVERSAL})
    void whatTheyHideGoesWithThem(String strategy) throws RocksDBException {
        open(strategy);
        fill("large", 2000);
        settle();
        delete("large", 100, 1899, 2, LONG_AGO);
        settle();
        long bytes = sum(files());
        purge();
        assertThat(ranges("large")).isZero();
        assertThat(live("large")).hasSize(200);
        assertThat(sum(files())).isLessThan(bytes / 2);
        // What was merged leaves empty rows, which the filter meets the next time.
        purge();
        assertThat(entries()).isBetween(200, 400);
        assertThat(live("large")).hasSize(200);
    }

    /**
     * More than are kept in memory, one over the other, and more beside each other: sent, received,
     * opened again and removed.
     */
    @Test
    void manyOfAPartitionGo() throws Exception {
        open(LEVELED);
        fill("q", 300);
        for (int i = 0; i < 9000; i++) delete("q", i % 250, i % 250 + i % 7, 2 + i, LONG_AGO + i);
        int before = ranges("q");
        assertThat(before).isGreaterThan(1000);
        for (int from = 0; from < APART; from += BATCH) {
            UpdateBuilder update = table.update("q").at(2).now(LONG_AGO);
            for (int i = from; i < Math.min(APART, from + BATCH); i++)
                update.deleteRange(table.from(1000 + i), table.to(1000 + i));
            store.write(update.build());
        }
        settle();
        Map<Integer, String> read = live("q");
        timed("close and open", this::reopen);
        timed("send and receive", () -> receive(SentStream.of(store)));
        assertThat(ranges("q")).isGreaterThanOrEqualTo(APART + before);
        assertThat(live("q")).isEqualTo(read);
        timed("purge", this::purge);
        assertThat(ranges("q")).isZero();
        assertThat(live("q")).isEqualTo(read);
    }

    private void reopen() {
        store.close();
        open();
    }

    /** In another store, which is the one from here on. */
    private void receive(SentStream sent) throws IOException {
        store.close();
        open(2);
        assertThat(ranges("q")).isZero();
        sent.ingestedBy(store);
    }

    private interface Step {
        void run() throws Exception;
    }

    private static void timed(String name, Step step) throws Exception {
        long began = System.nanoTime();
        long before = THREADS.getCurrentThreadAllocatedBytes();
        step.run();
        System.out.printf(
                "OldRangesTest: %,d ranges, %s: %,d ms, %,d KiB allocated%n",
                APART,
                name,
                (System.nanoTime() - began) / 1_000_000,
                (THREADS.getCurrentThreadAllocatedBytes() - before) >> 10);
    }

    private OldRanges.Run begin() {
        return begin(Long.MAX_VALUE);
    }

    private OldRanges.Run begin(long gcBefore) {
        mayPurge.set(true);
        permission.clock(database());
        StoreContext context = Tables.context(store);
        Reconciler reconciler = context.reconciler();
        int mark = 1 - reconciler.activeMaxPurgeable();
        reconciler.maxPurgeable(mark, Long.MAX_VALUE);
        context.room().writers.awaitThoseBegun();
        return new OldRanges(context, permission, held)
        .new Run(
                database(),
                Math.min(gcBefore, permission.gcBefore()),
                mark,
                permission.restrictions());
    }

    private OldRanges.Chunk handDown(OldRanges.Run run, String key) throws RocksDBException {
        return run.handDown(position(key), Keys.withKind(position(key), KeyKind.RANGE));
    }

    /** Too late to be pushed down to, and hidden all the same; by an equal timestamp, too. */
    @ParameterizedTest
    @ValueSource(longs = {4, 5})
    void whatIsWrittenMeanwhileKeepsWhatHidesIt(long timestamp) throws RocksDBException {
        open(LEVELED);
        fill("k", 10);
        delete("k", 0, 4, 5, LONG_AGO);
        delete("k", 6, 7, 1, LONG_AGO);
        OldRanges.Run run = begin();
        OldRanges.Chunk chunk = handDown(run, "k");
        assertThat(chunk.old()).hasSize(2);
        store.write(table.update("k").at(timestamp).row(3).set("v", "late").build());
        run.remove(chunk.old());
        // The older one hides nothing that is written from here on.
        assertThat(run.removed()).isOne();
        assertThat(ranges("k")).isOne();
        assertThat(live("k").keySet()).containsExactly(5, 8, 9);
        // Not even now: such a write may come again.
        run.remove(chunk.old());
        assertThat(ranges("k")).isOne();
        purge();
        assertThat(ranges("k")).isZero();
        assertThat(live("k").keySet()).containsExactly(5, 8, 9);
    }

    /** Also beside one that is past it. */
    @Test
    void whatIsWithinItsGraceStays() throws RocksDBException {
        open(LEVELED);
        fill("k", 10);
        delete("k", 0, 1, 5, LONG_AGO);
        delete("k", 4, 5, 5, LONG_AGO + 1);
        OldRanges.Run run = begin(LONG_AGO + 1);
        OldRanges.Chunk chunk = handDown(run, "k");
        assertThat(chunk.old()).hasSize(1);
        run.remove(chunk.old());
        assertThat(ranges("k")).isOne();
        assertThat(live("k").keySet()).containsExactly(2, 3, 6, 7, 8, 9);
        run = begin(LONG_AGO + 2);
        run.remove(handDown(run, "k").old());
        assertThat(ranges("k")).isZero();
    }

    /** The deletion of a row, which they would leave, wins over newer counts. */
    @Test
    void thoseOfCounterTablesStay() throws RocksDBException {
        table =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, v counter, PRIMARY KEY (k, c)) WITH"
                                + " gc_grace_seconds = 3600");
        open();
        delete("k", 0, 4, 5, LONG_AGO);
        settle();
        purge();
        assertThat(ranges("k")).isOne();
    }

    @Test
    void oneThatIsWrittenAgainMeanwhileStays() throws RocksDBException {
        open(LEVELED);
        fill("k", 10);
        delete("k", 0, 4, 5, LONG_AGO);
        OldRanges.Run run = begin();
        OldRanges.Chunk chunk = handDown(run, "k");
        delete("k", 0, 4, 9, UpdateBuilder.NOW);
        run.remove(chunk.old());
        assertThat(ranges("k")).isOne();
        store.write(table.update("k").at(8).row(3).set("v", "hidden").build());
        assertThat(live("k")).hasSize(5);
    }

    @Test
    void noneGoesOnceTheHostForbidsIt() throws RocksDBException {
        open(LEVELED);
        fill("k", 10);
        delete("k", 0, 4, 5, LONG_AGO);
        OldRanges.Run run = begin();
        OldRanges.Chunk chunk = handDown(run, "k");
        mayPurge.set(false);
        permission.clock(database());
        run.remove(chunk.old());
        assertThat(run.removed()).isZero();
        assertThat(ranges("k")).isOne();
        assertThat(live("k")).hasSize(5);
    }

    /** A file is looked through again only when there is something old in it that was young. */
    @Test
    void aFileIsLookedThroughOnce() throws RocksDBException {
        open(LEVELED);
        fill("k", 10);
        delete("k", 0, 4, 5, LONG_AGO);
        delete("k", 5, 6, 5, UpdateBuilder.NOW);
        store.flush();
        LiveFileMetaData file = database().dataFiles().get(0);
        int[] partitions = new int[1];
        long next =
                held.eachOldRange(
                        database(),
                        file.fileName(),
                        LONG_AGO + 1,
                        () -> false,
                        position -> partitions[0]++);
        assertThat(next).isEqualTo(UpdateBuilder.NOW);
        assertThat(partitions[0]).isOne();
        assertThat(
                        held.eachOldRange(
                                database(),
                                "/999999.sst",
                                LONG_AGO + 1,
                                () -> false,
                                position -> {
                                    throw new AssertionError("there is no such file");
                                }))
                .isEqualTo(Long.MIN_VALUE);
    }

    /** What a write of an old timestamp kept, of another partition even, goes the next time. */
    @Test
    void whatWasKeptInOnePurgeGoesInTheNext() throws RocksDBException {
        open(LEVELED);
        fill("k", 10);
        delete("k", 0, 4, 5, LONG_AGO);
        settle();
        mayPurge.set(true);
        permission.clock(database());
        // As a hint that arrives before the range tombstones are looked at.
        BooleanSupplier late =
                () -> {
                    if (!arrived)
                        store.write(table.update("other").at(4).row(1).set("v", "hint").build());
                    arrived = true;
                    return false;
                };
        StoreContext context = Tables.context(store);
        OldRanges ranges = new OldRanges(context, permission, held);
        assertThat(remove(ranges, late)).isZero();
        assertThat(arrived).isTrue();
        assertThat(ranges("k")).isOne();
        assertThat(remove(ranges, () -> false)).isOne();
        assertThat(ranges("k")).isZero();
        assertThat(live("k").keySet()).containsExactly(5, 6, 7, 8, 9);
    }

    private boolean arrived;

    /** As {@link PurgeRound} does it. */
    private long remove(OldRanges ranges, BooleanSupplier meanwhile) throws RocksDBException {
        StoreContext context = Tables.context(store);
        Reconciler reconciler = context.reconciler();
        int mark = 1 - reconciler.activeMaxPurgeable();
        reconciler.maxPurgeable(mark, Long.MAX_VALUE);
        context.room().writers.awaitThoseBegun();
        store.flush();
        List<LiveFileMetaData> files = database().dataFiles();
        return ranges.remove(
                database(),
                PurgeRound.candidates(
                        context,
                        database(),
                        files,
                        Objects.requireNonNull(held.learn(database(), files, true, () -> false))),
                permission.gcBefore(),
                mark,
                permission.restrictions(),
                meanwhile);
    }

    /** Bounds of every kind, in reversed order, of values with several forms. */
    @ParameterizedTest
    @ValueSource(strings = {LEVELED, UNIVERSAL})
    void nothingIsReadThatTheyHid(String strategy) throws RocksDBException {
        table =
                TestTable.of(
                        "CREATE TABLE t (k text, a decimal, b int, v text, s text static, m"
                            + " map<int, text>, PRIMARY KEY (k, a, b)) WITH CLUSTERING ORDER BY (a"
                            + " DESC, b ASC) AND gc_grace_seconds = 3600 AND compaction = {'class':"
                            + " '"
                                + strategy
                                + "'}");
        open();
        long seed = Long.getLong("petra.seed", System.nanoTime());
        Random random = new Random(seed);
        long timestamp = 1;
        int removed = 0;
        for (int epoch = 0; epoch < 25; epoch++) {
            mayPurge.set(false);
            permission.clock(database());
            for (int i = 0; i < 80; i++) {
                timestamp += 2;
                UpdateBuilder update = table.update("k" + random.nextInt(2)).at(timestamp);
                int what = random.nextInt(10);
                if (what < 6) {
                    UpdateBuilder.RowBuilder row = update.row(decimal(random), random.nextInt(4));
                    if (random.nextBoolean()) row.liveness();
                    if (random.nextBoolean()) row.set("v", "v" + timestamp);
                    if (random.nextInt(3) == 0) row.put("m", random.nextInt(3), "m" + timestamp);
                    store.write(row.build());
                } else if (what == 6) {
                    store.write(update.staticRow().set("s", "s" + timestamp).build());
                } else if (what == 7) {
                    store.flush();
                } else {
                    update.now(random.nextInt(4) == 0 ? UpdateBuilder.NOW : LONG_AGO + i);
                    store.write(update.deleteRange(anySlice(random)).build());
                }
            }
            if (random.nextInt(4) == 0) settle();
            String where = "seed " + seed + ", " + epoch;
            List<String> before = contents();
            int ranges = ranges("k0") + ranges("k1");
            purge();
            removed += ranges - ranges("k0") - ranges("k1");
            assertThat(contents()).as(where).isEqualTo(before);
            if (random.nextInt(4) == 0) {
                store.compact(List.of());
                assertThat(contents()).as(where).isEqualTo(before);
            }
        }
        assertThat(removed).as("seed " + seed).isGreaterThan(50);
    }

    private static BigDecimal decimal(Random random) {
        return new BigDecimal(
                new String[] {"1", "1.0", "1.00", "2", "2.0", "-3", "0", "0.0"}[random.nextInt(8)]);
    }

    private Slice anySlice(Random random) {
        BigDecimal a = decimal(random);
        BigDecimal b = decimal(random);
        // The highest comes first.
        BigDecimal first = a.compareTo(b) > 0 ? a : b;
        BigDecimal last = a.compareTo(b) > 0 ? b : a;
        int from = random.nextInt(4);
        int to = from + random.nextInt(3);
        return switch (random.nextInt(8)) {
            case 0 -> table.prefix(a);
            case 1 -> Slice.make(table.from(a, from), table.to(a, to));
            case 2 -> Slice.make(table.after(a, from), table.to(a));
            case 3 -> Slice.make(table.from(a), table.before(a, to));
            case 4 -> Slice.make(table.from(first), table.to(last));
            case 5 -> Slice.make(BufferClusteringBound.BOTTOM, table.to(last));
            case 6 -> Slice.make(table.after(first), BufferClusteringBound.TOP);
            default -> Slice.make(table.from(first, from), table.to(last, to));
        };
    }

    /** All that a query would return, with timestamps, by slices and row by row. */
    private List<String> contents() {
        List<String> contents = new ArrayList<>();
        for (String key : new String[] {"k0", "k1"}) {
            Set<Clustering<?>> clusterings = new LinkedHashSet<>();
            read(key, Slices.ALL, contents, clusterings);
            List<String> single = new ArrayList<>();
            for (Clustering<?> one : clusterings)
                read(
                        key,
                        Slices.with(table.metadata().comparator, Slice.make(one)),
                        single,
                        new HashSet<>());
            contents.addAll(single);
        }
        return contents;
    }

    private void read(String key, Slices slices, List<String> contents, Set<Clustering<?>> met) {
        try (UnfilteredRowIterator partition =
                store.read(table.key(key), slices, table.all(), false)) {
            if (partition == null) return;
            try (RowIterator rows = UnfilteredRowIterators.filter(partition, 0)) {
                if (!rows.staticRow().isEmpty())
                    contents.add(key + " " + rows.staticRow().toString(table.metadata(), true));
                while (rows.hasNext()) {
                    Row row = rows.next();
                    met.add(row.clustering());
                    contents.add(canonical(row));
                }
            }
        }
    }

    /**
     * A row has the form of its clustering that its oldest write had, as in Cassandra. If that
     * write is hidden and goes, it has the form of the next.
     */
    private String canonical(Row row) {
        BigDecimal first = DecimalType.instance.compose(row.clustering().bufferAt(0));
        return row.toString(table.metadata(), true)
                .replaceFirst("a=[-.0-9]+", "a=" + first.stripTrailingZeros().toPlainString());
    }
}
