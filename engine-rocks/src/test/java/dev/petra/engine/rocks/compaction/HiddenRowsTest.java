// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.HiddenNotice;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import dev.petra.engine.rocks.read.Cursor;
import dev.petra.engine.rocks.read.PartitionHeader;
import dev.petra.engine.rocks.read.ReadContext;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.utils.FBUtilities;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/**
 * Rows that the deletion of their partition or a range tombstone hides leave the disk before {@code
 * gc_grace_seconds} has passed; what hides them stays, and nothing that is read changes.
 */
class HiddenRowsTest extends PurgeFixture {
    private static final List<String> KEYS = List.of("a", "b", "c");

    HiddenRowsTest() {
        table = table("LeveledCompactionStrategy");
    }

    private static TestTable table(String strategy) {
        return TestTable.of(
                "CREATE TABLE t (k text, c int, d int, s text static, v text, w text,"
                        + " PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND"
                        + " gc_grace_seconds = 3600 AND compression = {'enabled': 'false'} AND"
                        + " compaction = {'class': '"
                        + strategy
                        + "'}");
    }

    private String read() {
        StringBuilder all = new StringBuilder();
        for (String key : KEYS) all.append(key).append(": ").append(read(key)).append('\n');
        return all.toString();
    }

    private String read(String key) {
        return Tables.text(store.read(table.key(key), Slices.ALL, table.all(), false));
    }

    private void compact() {
        mayPurge.set(true);
        permission.clock(database());
        store.compact(List.of());
    }

    private UpdateBuilder young(String key, long timestamp) {
        return table.update(key).at(timestamp).now(FBUtilities.nowInSeconds());
    }

    private void fill(String key, int rows) {
        for (int c = 0; c < rows; c++)
            store.write(table.update(key).at(1).row(c, 0).set("v", noise(c)).build());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "LeveledCompactionStrategy",
                "SizeTieredCompactionStrategy",
                "UnifiedCompactionStrategy"
            })
    void aCompactionOfAllTakesThem(String strategy) {
        table = table(strategy);
        open();
        for (String key : KEYS) fill(key, 2_000);
        store.write(table.update("b").at(1).staticRow().set("s", "static").build());
        settle();
        store.write(
                young("a", 2).deleteRange(Slice.make(table.from(1_499), table.to(500))).build());
        store.write(young("b", 2).deletePartition().build());
        store.write(young("b", 3).row(7, 7).set("v", "new").build());
        // Of one row a part is newer.
        store.write(young("a", 3).row(600, 0).set("w", "new").build());
        String before = read();
        compact();
        assertThat(read()).isEqualTo(before);
        // Of "a" 1,000 rows, the one of which a part is newer, the record and the tombstone; of "b"
        // the record and the new row.
        assertThat(entries()).isEqualTo(1_000 + 1 + 2 + 2 + 2_000);
        // What comes late is hidden as before.
        store.write(table.update("a").at(1).row(700, 0).set("v", "late").build());
        store.write(table.update("b").at(1).row(700, 0).set("v", "late").build());
        assertThat(read()).isEqualTo(before);
        compact();
        store.close();
        open();
        assertThat(read()).isEqualTo(before);
    }

    /** And not what another table's compaction may take. */
    @Test
    void nothingGoesWithoutBeingAskedFor() {
        open();
        fill("a", 2_000);
        store.write(young("a", 2).deletePartition().build());
        settle();
        assertThat(entries()).isEqualTo(2_001);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aReadThatStepsOverManyHasThemTaken(boolean reversed) throws RocksDBException {
        open();
        fill("a", 4_000);
        fill("b", 4_000);
        settle();
        // What is merged by a compaction does not pass its filter: it takes another one.
        fill("a", 4_000);
        int half = 2_000;
        store.write(
                young("a", 2)
                        .deleteRange(
                                reversed
                                        ? Slice.make(ClusteringBound.BOTTOM, table.to(half))
                                        : Slice.make(table.from(half), ClusteringBound.TOP))
                        .build());
        String before = read("a");
        int entries = entries();
        Tables.text(store.read(table.key("a"), Slices.ALL, table.all(), reversed));
        Tables.await("the removal", () -> entries() < entries - 1_900);
        assertThat(read("a")).isEqualTo(before);
        store.write(
                table.update("a").at(1).row(reversed ? 3_000 : 1_000, 0).set("v", "late").build());
        assertThat(read("a")).isEqualTo(before);
    }

    /** What hides them may go with that, and a row that comes behind it is hidden by nothing. */
    @Test
    void noneGoesWhileAPurgeRuns() throws Exception {
        open();
        fill("a", 4_000);
        settle();
        store.write(young("a", 2).deletePartition().build());
        store.flush();
        int entries = entries();
        mayPurge.set(true);
        CountDownLatch isHeld = new CountDownLatch(1);
        CountDownLatch goesOn = new CountDownLatch(1);
        AtomicInteger asked = new AtomicInteger();
        var compaction =
                CompletableFuture.runAsync(
                        () -> {
                            Thread purging = Thread.currentThread();
                            asks =
                                    () -> {
                                        if (Thread.currentThread() != purging
                                                || asked.incrementAndGet() != 3) return;
                                        isHeld.countDown();
                                        Uninterruptibles.awaitUninterruptibly(goesOn);
                                    };
                            store.compact(List.of());
                        });
        try {
            isHeld.await();
            assertThat(read("a")).doesNotContain("v=");
            assertThat(Tables.context(store).hidden().isThere()).isTrue();
            Tables.removeHidden(store);
            assertThat(entries()).isEqualTo(entries);
            assertThat(Tables.context(store).hidden().isThere()).isTrue();
        } finally {
            goesOn.countDown();
        }
        compaction.get();
    }

    private volatile Runnable asks = () -> {};

    @Override
    boolean mayPurge() {
        asks.run();
        return super.mayPurge();
    }

    /** What is told is what was stepped over in one go, not what was returned around it. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aReadTellsOfHiddenRowsOnly(boolean reversed) throws RocksDBException {
        // Nothing takes it away.
        table = table("LeveledCompactionStrategy', 'enabled': 'false");
        open();
        fill("a", 9_000);
        store.write(
                young("a", 2).deleteRange(Slice.make(table.from(5_999), table.to(3_000))).build());
        Tables.text(store.read(table.key("a"), Slices.ALL, table.all(), reversed));
        HiddenNotice.Part part = Tables.context(store).hidden().take();
        assertThat(part).isNotNull();
        assertThat(part.position()).isEqualTo(position("a"));
        long rows = 0;
        try (RocksIterator it = database().db.newIterator(database().data)) {
            for (it.seek(part.from());
                    it.isValid() && Arrays.compareUnsigned(it.key(), part.to()) <= 0;
                    it.next()) rows++;
        }
        assertThat(rows).isBetween(2_900L, 3_000L);
        // Fewer are not worth it.
        store.write(young("a", 1).deleteRange(Slice.make(table.from(999), table.to(100))).build());
        Tables.text(
                store.read(
                        table.key("a"),
                        table.slices(table.from(999), table.to(0)),
                        table.all(),
                        reversed));
        assertThat(Tables.context(store).hidden().isThere()).isFalse();
    }

    /** A deleted counter wins over a newer count, whatever hides it. */
    @Test
    void nothingOfCountersGoes() {
        table =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, d int, n counter, PRIMARY KEY (k, c, d))");
        open();
        store.write(young("a", 5).row(1, 0).unset("n").build());
        settle();
        store.write(young("a", 10).deleteRange(table.prefix(1)).build());
        compact();
        // The record, the range tombstone, the row.
        assertThat(entries()).isEqualTo(3);
    }

    /** As cleanup takes away a deletion and what it hides, and the node gets the range back. */
    @Test
    void whatIsHiddenByADeletionThatMayBeGoneStays() throws RocksDBException {
        open();
        fill("a", 100);
        settle();
        store.write(young("a", 2).deletePartition().build());
        store.flush();
        ReadContext context =
                new ReadContext(Tables.context(store), ColumnFilter.all(table.metadata()));
        ByteBuffer prefix = Keys.direct(position("a"));
        ByteSink position = new ByteSink();
        position.put(ByteBuffer.wrap(position("a")));
        for (boolean ended : new boolean[] {true, false}) {
            HiddenKeys hidden =
                    new HiddenKeys(
                            Tables.context(store), Long.MIN_VALUE, null, HiddenKeys.FIRST, 1_000);
            try (Cursor cursor = context.open()) {
                cursor.seek(prefix.duplicate());
                hidden.add(
                        position,
                        PartitionHeader.read(cursor, prefix, context, Slices.ALL, true),
                        true,
                        context.clusterings());
            }
            if (ended) Tables.context(store).reconciler().endHiding();
            hidden.hide();
            Purge.force(database(), null, null);
            assertThat(entries()).isEqualTo(ended ? 101 : 1);
            Tables.context(store).reconciler().hideNothing();
        }
    }

    /** Or, with many deletions, those of the last partitions would never have their turn. */
    @Test
    void whatHidesNothingTakesNoRoom() throws RocksDBException {
        open();
        for (String key : KEYS) {
            fill(key, 100);
            store.write(table.update(key).at(1).staticRow().set("s", "static").build());
            store.write(young(key, 2).deletePartition().build());
        }
        settle();
        // Room for one range: a partition's static row, or its rows.
        CoveringDeletions covering =
                new CoveringDeletions(Tables.context(store), Long.MAX_VALUE, 1);
        for (int time = 0; time < 2 * KEYS.size(); time++) {
            Pacer pace = new Pacer(Tables.context(store), database(), false);
            covering.run(database(), 1, pace).hide();
            Purge.force(database(), null, null);
            Tables.context(store).reconciler().hideNothing();
        }
        assertThat(entries()).isEqualTo(KEYS.size());
    }

    /** The same of deletions of which all rows are newer: what has no room has its turn later. */
    @Test
    void whatHasNoRoomHasItsTurn() throws RocksDBException {
        open();
        for (String key : KEYS) {
            store.write(young(key, 2).deletePartition().build());
            store.write(young(key, 3).row(1, 1).set("v", "new").build());
            fill(key, 100);
            // Several ranges of one partition.
            for (int c = 10; c < 90; c += 20)
                store.write(young(key, 4).deleteRange(table.prefix(c)).build());
        }
        settle();
        CoveringDeletions covering =
                new CoveringDeletions(Tables.context(store), Long.MAX_VALUE, 1);
        // Each of the four is a range, and what is before, between and behind them.
        for (int time = 0; time < 9 * KEYS.size(); time++) {
            Pacer pace = new Pacer(Tables.context(store), database(), false);
            HiddenKeys hidden = covering.run(database(), 1, pace);
            hidden.hide();
            Purge.force(database(), null, null);
            covering.taken(hidden);
            Tables.context(store).reconciler().hideNothing();
        }
        // The record, the tombstones, the new row.
        assertThat(entries()).isEqualTo(6 * KEYS.size());
    }

    /** Only whether there is one is asked: a large one would be read whole, each time. */
    @Test
    void staticRowsAreNotDecoded() throws RocksDBException {
        open();
        fill("a", 100);
        store.write(table.update("a").at(1).staticRow().set("s", "static").build());
        store.write(young("a", 2).deletePartition().build());
        store.write(table.update("b").at(1).staticRow().set("s", "static").build());
        store.write(young("c", 2).deletePartition().build());
        settle();
        byte[] key = Keys.withKind(position("b"), KeyKind.STATIC);
        byte[] malformed = {1, 99, 99, 99};
        database().db.put(database().data, key, malformed);
        compact();
        // The records of "a" and "c", and what cannot be read.
        assertThat(entries()).isEqualTo(3);
        assertThat(database().db.get(database().data, key)).isEqualTo(malformed);
    }

    /** Reads of other rows told of them, each second, and each time it failed. */
    @Test
    void whatCannotBeReadIsNotTriedAgainAtOnce() throws Exception {
        table = table("LeveledCompactionStrategy', 'enabled': 'false");
        open();
        fill("a", 4_000);
        store.write(
                young("a", 2).deleteRange(Slice.make(table.from(3_999), table.to(2_000))).build());
        store.write(young("a", 2).deleteRange(Slice.make(table.from(100), table.to(50))).build());
        settle();
        byte[] ranges = Keys.withKind(position("a"), KeyKind.RANGE);
        byte[] last = ranges;
        try (RocksIterator it = database().db.newIterator(database().data)) {
            for (it.seek(ranges);
                    it.isValid() && Arrays.equals(Arrays.copyOf(it.key(), ranges.length), ranges);
                    it.next()) last = it.key();
        }
        database().db.put(database().data, last, new byte[] {3, 99});
        Tables.text(
                store.read(
                        table.key("a"),
                        table.slices(table.from(3_999), table.to(2_001)),
                        table.all(),
                        false));
        HiddenRows removal = new HiddenRows(Tables.context(store), held);
        assertThat(removal.isDue()).isTrue();
        HiddenNotice.Part part = Tables.context(store).hidden().take();
        Tables.context(store).hidden().met(null, part);
        assertThatThrownBy(() -> removal.run(database())).isInstanceOf(CorruptStoreException.class);
        Tables.context(store).hidden().met(null, part);
        assertThat(removal.isDue()).isFalse();
    }

    /** An hour would be too long: another merge may end in a moment. */
    @Test
    @SuppressWarnings("try") // the other merge is counted, not used
    void whatHasNoRoomOnTheDiskIsTriedAgainSoon() throws RocksDBException {
        table = table("LeveledCompactionStrategy', 'enabled': 'false");
        open();
        fill("a", 4_000);
        settle();
        store.write(
                young("a", 2).deleteRange(Slice.make(table.from(3_999), table.to(2_000))).build());
        Tables.text(store.read(table.key("a"), Slices.ALL, table.all(), false));
        HiddenNotice notice = Tables.context(store).hidden();
        HiddenNotice.Part part = notice.take();
        assertThat(part).isNotNull();
        int entries = entries();
        Map<String, Long> files = files();
        AtomicLong clock = new AtomicLong();
        HiddenRows removal = new HiddenRows(Tables.context(store), held, clock::get);
        notice.met(null, part);
        try (UnfinishedMerges.Taken other = UnfinishedMerges.begin(directory, Long.MAX_VALUE / 2)) {
            removal.run(database());
        }
        // Not even a flush.
        assertThat(files()).isEqualTo(files);
        notice.met(null, part);
        assertThat(removal.isDue()).isFalse();
        clock.addAndGet(TimeUnit.MINUTES.toNanos(11));
        assertThat(removal.isDue()).isTrue();
        removal.run(database());
        assertThat(entries()).isLessThan(entries - 1_900);
    }

    private Slice randomSlice(Random random) {
        int c = random.nextInt(12);
        int other = random.nextInt(12);
        int d = random.nextInt(4);
        return switch (random.nextInt(7)) {
            case 0 -> table.prefix(c);
            case 1 -> table.prefix(c, d);
            case 2 -> Slice.make(table.from(c, d), table.to(c));
            case 3 -> Slice.make(table.after(c, d), table.to(c));
            case 4 -> Slice.make(table.from(Math.max(c, other)), table.to(Math.min(c, other)));
            case 5 ->
                    Slice.make(
                            table.after(Math.max(c, other) + 1), table.before(Math.min(c, other)));
            default -> Slice.make(table.from(c), ClusteringBound.TOP);
        };
    }

    /** Bounds of all kinds, timestamps in any order, young deletions and old ones. */
    @ParameterizedTest
    @ValueSource(strings = {"LeveledCompactionStrategy", "UnifiedCompactionStrategy"})
    void nothingThatIsReadChanges(String strategy) {
        table = table(strategy);
        open();
        long seed = Long.getLong("petra.seed", System.nanoTime());
        Random random = new Random(seed);
        for (int round = 0; round < 60; round++) {
            for (int i = 0; i < 60; i++) {
                String key = KEYS.get(random.nextInt(KEYS.size()));
                UpdateBuilder update = young(key, 1 + random.nextInt(100));
                int c = random.nextInt(12);
                int d = random.nextInt(4);
                String column = random.nextBoolean() ? "v" : "w";
                switch (random.nextInt(16)) {
                    case 0, 1 -> update.deleteRange(randomSlice(random));
                    case 2 -> {
                        if (random.nextInt(4) == 0) update.deletePartition();
                        else update.row(c, d).liveness();
                    }
                    case 3 -> update.deleteRow(c, d);
                    case 4 -> update.staticRow().set("s", "s" + i);
                    case 5 -> update.row(c, d).unset(column);
                    default -> update.row(c, d).set(column, "x" + i);
                }
                store.write(update.build());
                if (random.nextInt(30) == 0) store.flush();
            }
            String before = read();
            String what = "-Dpetra.seed=" + seed + ", round " + round;
            if (random.nextInt(3) == 0) settle();
            assertThat(read()).as(what).isEqualTo(before);
            compact();
            assertThat(read()).as(what).isEqualTo(before);
            // Rows that are there have something that is read.
            if (random.nextInt(3) > 0) continue;
            for (String key : KEYS) assertThat(rowKeys(key)).as(what).isEqualTo(rowsRead(key));
        }
    }

    private long rowsRead(String key) {
        long rows = 0;
        try (var all = store.read(table.key(key), Slices.ALL, table.all(), false)) {
            while (all != null && all.hasNext()) if (all.next().isRow()) rows++;
        }
        return rows;
    }

    private long rowKeys(String key) {
        byte[] rows = Keys.withKind(position(key), KeyKind.ROW);
        long count = 0;
        try (var it = database().db.newIterator(database().data)) {
            for (it.seek(rows); it.isValid(); it.next(), count++)
                if (!Arrays.equals(Arrays.copyOf(it.key(), rows.length), rows)) break;
        }
        return count;
    }

    private byte[] position(String key) {
        ByteSink position = new ByteSink();
        Tables.context(store).partitionKeys().put(position, table.key(key));
        return position.copy(0, position.position());
    }
}
