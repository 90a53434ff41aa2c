// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.TableStore;
import dev.petra.engine.index.TermCursor;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermFunction;
import dev.petra.engine.index.TermIndexes;
import dev.petra.engine.index.TermIndexes.State;
import dev.petra.engine.stream.SliceRanges;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** Indexes by term: an entry is never missing, and they come in order. */
public interface IndexTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** An index. */
    UUID ONE = new UUID(0x1111L, 1);

    /** Another. */
    UUID TWO = new UUID(0x2222L, 2);

    private static TestTable table() {
        return TestTable.of(
                "CREATE TABLE t (k text, c int, s text STATIC, v text, PRIMARY KEY (k, c))");
    }

    private static ByteBuffer term(String text) {
        return ByteBufferUtil.bytes(text);
    }

    private static TermEntry entry(TestTable table, String term, Object... clustering) {
        return new TermEntry(ONE, term(term), table.clustering(clustering));
    }

    /** Writes a row and the entry of its value. */
    private static void write(TableStore store, TestTable table, String key, int c, String value) {
        store.write(
                table.update(key).row(c).set("v", value).end().build(),
                List.of(entry(table, value, c)));
    }

    private static void build(TableStore store, UUID index) {
        assertThat(store.indexes().setBuilt(index, store.indexes().setBuilding(index))).isTrue();
    }

    /** An entry of a cursor, as text. */
    private static String shown(TestTable table, TermCursor cursor) {
        Clustering<?> clustering = cursor.clustering();
        StringBuilder bytes = new StringBuilder();
        for (ByteBuffer component : clustering.getBufferArray())
            bytes.append(component == null ? "null" : ByteBufferUtil.bytesToHex(component))
                    .append(' ');
        return ByteBufferUtil.bytesToHex(cursor.term())
                + " "
                + ByteBufferUtil.bytesToHex(cursor.key().getKey())
                + " "
                + cursor.key().getToken()
                + " "
                + clustering.kind()
                + " "
                + bytes
                + table.metadata().name;
    }

    private static List<String> all(TestTable table, TermCursor cursor) {
        List<String> found = new ArrayList<>();
        try (cursor) {
            while (cursor.next()) found.add(shown(table, cursor));
            assertThat(cursor.next()).isFalse();
        }
        return found;
    }

    private static List<String> all(TableStore store, TestTable table, UUID index) {
        return all(table, store.indexes().scan(index, null, true, null, true));
    }

    /** Keys and clusterings of one term, as text. */
    private static List<String> rowsOf(TableStore store, TestTable table, String term) {
        List<String> rows = new ArrayList<>();
        try (TermCursor cursor = store.indexes().scan(ONE, term(term), true, term(term), true)) {
            while (cursor.next())
                rows.add(
                        table.metadata().partitionKeyType.getString(cursor.key().getKey())
                                + ":"
                                + cursor.clustering().toString(table.metadata()));
        }
        return rows;
    }

    /** Whether this engine has indexes; one that has none refuses by name. */
    private boolean supported() {
        assertThat(kit().engine().hasIndexes()).isEqualTo(kit().capabilities().indexes());
        TestTable table = table();
        TableStore store = kit().open(table);
        assertThat(store.hasIndexes()).isEqualTo(kit().capabilities().indexes());
        if (store.hasIndexes()) return true;
        assertThatThrownBy(store::indexes).isInstanceOf(UnsupportedOperationException.class);
        assertThatThrownBy(() -> write(store, table, "k", 1, "v"))
                .isInstanceOf(UnsupportedOperationException.class);
        assertThat(RangeTests.keysOf(store, table)).isEmpty();
        store.write(table.update("k").row(1).set("v", "v").end().build(), List.of());
        assertThat(RangeTests.keysOf(store, table)).hasSize(1);
        return false;
    }

    /** And those that are not of this index are not. */
    @Test
    default void rowsAreFoundByTheirTerms() {
        if (!supported()) return;
        TestTable table = table();
        TableStore store = kit().open(table);
        store.indexes().define(ONE);
        store.indexes().define(TWO);
        write(store, table, "k", 2, "a");
        write(store, table, "k", 1, "a");
        write(store, table, "k", 3, "ab");
        store.write(
                table.update("k").staticRow().set("s", "x").end().build(),
                List.of(
                        new TermEntry(ONE, term("a"), Clustering.STATIC_CLUSTERING),
                        new TermEntry(TWO, term("a"), table.clustering(7))));
        assertThat(rowsOf(store, table, "a")).containsExactly("k:STATIC", "k:c=1", "k:c=2");
        assertThat(rowsOf(store, table, "ab")).containsExactly("k:c=3");
        assertThat(rowsOf(store, table, "b")).isEmpty();
        assertThat(all(store, table, TWO)).hasSize(1);
        assertThat(RangeTests.keysOf(store, table)).hasSize(1);
    }

    /** Definitions, states and entries outlive a restart, flushed or not. */
    @Test
    default void indexesOutliveARestart() {
        if (!supported()) return;
        TestTable table = table();
        TableStore store = kit().open(table);
        assertThat(store.indexes().states()).isEmpty();
        store.indexes().define(ONE);
        store.indexes().define(TWO);
        assertThat(store.indexes().states())
                .isEqualTo(Map.of(ONE, State.BUILDING, TWO, State.BUILDING));
        build(store, ONE);
        store.indexes().define(ONE);
        write(store, table, "k", 1, "a");
        store.flush();
        write(store, table, "k", 2, "a");
        store = kit().reopen(store);
        assertThat(store.indexes().states())
                .isEqualTo(Map.of(ONE, State.BUILT, TWO, State.BUILDING));
        assertThat(rowsOf(store, table, "a")).containsExactly("k:c=1", "k:c=2");
        write(store, table, "k", 3, "a");
        assertThat(rowsOf(store, table, "a")).containsExactly("k:c=1", "k:c=2", "k:c=3");
    }

    /** Whoever forgot to define an index on a store would miss all that was written. */
    @Test
    default void anEntryOfAnUnknownIndexAppliesNothing() {
        if (!supported()) return;
        TestTable table = table();
        TableStore store = kit().open(table);
        PartitionUpdate update = table.update("k").row(1).set("v", "a").end().build();
        List<TermEntry> both =
                List.of(entry(table, "a", 1), new TermEntry(TWO, term("a"), table.clustering(1)));
        assertThatThrownBy(() -> store.write(update, both))
                .isInstanceOf(IllegalArgumentException.class);
        store.indexes().define(ONE);
        assertThatThrownBy(() -> store.write(update, both))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> store.indexes().add(table.key("k"), both))
                .isInstanceOf(IllegalArgumentException.class);
        assertThat(RangeTests.keysOf(store, table)).isEmpty();
        assertThat(all(store, table, ONE)).isEmpty();
        assertThatThrownBy(() -> all(store, table, TWO))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> store.indexes().setBuilding(TWO))
                .isInstanceOf(IllegalArgumentException.class);
        assertThat(store.indexes().setBuilt(TWO, 1)).isFalse();
    }

    /** Its entries are gone, later ones are ignored, and the next of that id begins empty. */
    @Test
    default void aDroppedIndexIsGone() {
        if (!supported()) return;
        TestTable table = table();
        TableStore store = kit().open(table);
        store.indexes().drop(ONE);
        store.indexes().define(TWO);
        store.indexes().define(ONE);
        build(store, ONE);
        write(store, table, "k", 1, "a");
        store.flush();
        write(store, table, "k", 2, "a");
        store.indexes().drop(ONE);
        store.indexes().drop(ONE);
        store.indexes().removeLeft();
        assertThat(store.indexes().states()).containsOnlyKeys(TWO);
        write(store, table, "k", 3, "a");
        store.indexes().add(table.key("k"), List.of(entry(table, "a", 4)));
        store = kit().reopen(store);
        assertThat(store.indexes().states()).containsOnlyKeys(TWO);
        write(store, table, "k", 5, "a");
        assertThat(all(store, table, TWO)).isEmpty();
        TableStore reopened = store;
        assertThatThrownBy(() -> rowsOf(reopened, table, "a"))
                .isInstanceOf(IllegalArgumentException.class);
        store.indexes().define(ONE);
        assertThat(store.indexes().states()).containsEntry(ONE, State.BUILDING);
        assertThat(all(store, table, ONE)).isEmpty();
        write(store, table, "k", 6, "a");
        store = kit().reopen(store);
        assertThat(rowsOf(store, table, "a")).containsExactly("k:c=6");
        try (UnfilteredRowIterator rows =
                store.read(table.key("k"), Slices.ALL, table.all(), false)) {
            assertThat(rows).toIterable().hasSize(5);
        }
    }

    /** A reader that comes back after a drop and a definition knows that it is another index. */
    @Test
    default void eachDefinitionIsToldFromTheOthers() {
        if (!supported()) return;
        TableStore store = kit().open(table());
        TableStore before = store;
        assertThatThrownBy(() -> before.indexes().incarnation(ONE))
                .isInstanceOf(IllegalArgumentException.class);
        Set<Long> known = new HashSet<>();
        for (int i = 0; i < 3; i++) {
            store.indexes().define(ONE);
            long incarnation = store.indexes().incarnation(ONE);
            store.indexes().define(TWO);
            store.indexes().define(ONE);
            build(store, ONE);
            store = kit().reopen(store);
            assertThat(store.indexes().incarnation(ONE)).isEqualTo(incarnation);
            assertThat(known.add(incarnation)).isTrue();
            store.indexes().drop(ONE);
            if (i == 1) store = kit().reopen(store);
        }
    }

    /** The end of a build that stood says nothing of what began since. */
    @Test
    default void aBuildEndsOnlyWhatItBegan() {
        if (!supported()) return;
        TableStore store = kit().open(table());
        store.indexes().define(ONE);
        store.indexes().define(TWO);
        long first = store.indexes().setBuilding(ONE);
        long second = store.indexes().setBuilding(ONE);
        assertThat(store.indexes().setBuilding(TWO)).isNotIn(first, second);
        assertThat(store.indexes().setBuilt(ONE, first)).isFalse();
        assertThat(store.indexes().states()).containsEntry(ONE, State.BUILDING);
        assertThat(store.indexes().setBuilt(TWO, second)).as("of another index").isFalse();
        assertThat(store.indexes().setBuilt(ONE, second)).isTrue();
        assertThat(store.indexes().states())
                .isEqualTo(Map.of(ONE, State.BUILT, TWO, State.BUILDING));
        long third = store.indexes().setBuilding(ONE);
        assertThat(store.indexes().states()).containsEntry(ONE, State.BUILDING);
        store.indexes().drop(ONE);
        assertThat(store.indexes().setBuilt(ONE, third)).isFalse();
        store.indexes().define(ONE);
        assertThat(store.indexes().setBuilt(ONE, third)).as("defined again").isFalse();
        assertThat(store.indexes().states()).containsEntry(ONE, State.BUILDING);
        long fourth = store.indexes().setBuilding(ONE);
        store = kit().reopen(store);
        assertThat(store.indexes().setBuilt(ONE, fourth)).as("opened anew").isFalse();
        assertThat(store.indexes().states())
                .isEqualTo(Map.of(ONE, State.BUILDING, TWO, State.BUILDING));
        build(store, ONE);
        store = kit().reopen(store);
        assertThat(store.indexes().states()).containsEntry(ONE, State.BUILT);
    }

    /** A cursor shows the moment of its opening; it keeps the store open. */
    @Test
    default void aCursorIsOfOneMoment() {
        if (!supported()) return;
        TestTable table = table();
        TableStore store = kit().open(table);
        store.indexes().define(ONE);
        store.indexes().define(TWO);
        write(store, table, "k", 2, "b");
        try (TermCursor cursor = store.indexes().scan(ONE, null, true, null, true)) {
            write(store, table, "k", 1, "a");
            write(store, table, "k", 3, "c");
            store.flush();
            assertThatThrownBy(cursor::term).isInstanceOf(IllegalStateException.class);
            assertThat(cursor.next()).isTrue();
            ByteBuffer term = cursor.term();
            DecoratedKey key = cursor.key();
            Clustering<?> clustering = cursor.clustering();
            store.indexes().drop(ONE);
            assertThat(cursor.next()).isFalse();
            assertThat(cursor.next()).isFalse();
            assertThatThrownBy(cursor::key).isInstanceOf(IllegalStateException.class);
            assertThat(term).isEqualTo(term("b"));
            assertThat(key).isEqualTo(table.key("k"));
            assertThat(clustering).isEqualTo(table.clustering(2));
        }
        assertThatThrownBy(closed(store, TWO)::next).isInstanceOf(IllegalStateException.class);
        store.close();
        assertThatThrownBy(store::indexes).isInstanceOf(IllegalStateException.class);
    }

    private static TermCursor closed(TableStore store, UUID index) {
        try (TermCursor cursor = store.indexes().scan(index, null, true, null, true)) {
            return cursor;
        }
    }

    /** Entries alone, as a build brings them. */
    @Test
    default void entriesAreAddedToRowsThatAreThere() {
        if (!supported()) return;
        TestTable table = table();
        TableStore store = kit().open(table);
        store.write(table.update("k").row(1).set("v", "a").end().row(2).liveness().end().build());
        store.indexes().define(ONE);
        store.indexes().add(table.key("k"), List.of(entry(table, "a", 1), entry(table, "", 2)));
        build(store, ONE);
        store = kit().reopen(store);
        assertThat(rowsOf(store, table, "a")).containsExactly("k:c=1");
        assertThat(rowsOf(store, table, "")).containsExactly("k:c=2");
        assertThat(store.indexes().bytes(ONE)).isGreaterThanOrEqualTo(0);
        assertThat(estimated(store, "", "b")).isGreaterThanOrEqualTo(0);
        // No range.
        assertThat(estimated(store, "b", "a")).isZero();
        TermIndexes indexes = store.indexes();
        assertThatThrownBy(() -> indexes.entries(TWO, null, true, null, true))
                .isInstanceOf(IllegalArgumentException.class);
    }

    private static long estimated(TableStore store, String from, String to) {
        return store.indexes().entries(ONE, term(from), true, term(to), true);
    }

    /** As a snapshot has them. */
    @Test
    default void aCheckpointHasItsIndexes() {
        if (!supported()) return;
        TestTable table = table();
        TableStore store = kit().open(table);
        store.indexes().define(ONE);
        build(store, ONE);
        write(store, table, "k", 1, "a");
        Path copy = kit().newDirectory();
        store.checkpoint(copy);
        write(store, table, "k", 2, "a");
        TableStore copied = kit().engine().openStore(table.spec(copy));
        assertThat(copied.indexes().states()).isEqualTo(Map.of(ONE, State.BUILT));
        assertThat(rowsOf(copied, table, "a")).containsExactly("k:c=1");
        assertThat(rowsOf(store, table, "a")).containsExactly("k:c=1", "k:c=2");
    }

    /** Of a column's value as it was written. */
    private static TermFunction byValue() {
        return (key, row) -> {
            List<TermEntry> entries = new ArrayList<>();
            for (ColumnMetadata column : row.columns()) {
                var cell = row.getCell(column);
                if (cell != null && !cell.isTombstone())
                    entries.add(new TermEntry(ONE, cell.buffer(), row.clustering()));
            }
            return entries;
        };
    }

    /** What comes by a stream is indexed, or does not come. */
    @Test
    default void receivedRowsAreIndexed() {
        if (!supported() || !kit().capabilities().streams()) return;
        TestTable table = table();
        TableStore from = kit().open(table);
        String large = "L".repeat(100_000);
        for (int i = 0; i < 100; i++)
            from.write(
                    table.update("k" + i % 10)
                            .at(i)
                            .row(i)
                            .set("v", i == 50 ? large : "v" + i % 7)
                            .end()
                            .staticRow()
                            .set("s", "s" + i)
                            .end()
                            .build());
        TableStore to = kit().open(table.twin());
        List<SliceRanges> everything = List.of(new SliceRanges(RangeTests.everything(), 1000));
        to.indexes().define(ONE);
        assertThatThrownBy(() -> StreamTests.send(from, to, everything))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("index");
        assertThat(RangeTests.keysOf(to, table)).isEmpty();
        to.indexes().deriveBy(byValue());
        StreamTests.send(from, to, everything);
        for (int i = 0; i < 100; i++)
            assertThat(rowsOf(to, table, i == 50 ? large : "v" + i % 7))
                    .contains("k" + i % 10 + ":c=" + i);
        for (int i = 90; i < 100; i++)
            assertThat(rowsOf(to, table, "s" + i)).containsExactly("k" + i % 10 + ":STATIC");
        TableStore reopened = kit().reopen(to);
        assertThat(rowsOf(reopened, table, "v3")).hasSize(14);
        assertThatThrownBy(() -> StreamTests.send(from, reopened, everything))
                .as("nothing derives them since it was opened again")
                .isInstanceOf(IllegalArgumentException.class);
    }

    /** What no row confirms goes, and nothing else. */
    @Test
    default void aSweepRemovesWhatNoRowConfirms() {
        if (!supported()) return;
        TestTable table = table();
        TableStore store = kit().open(table);
        store.indexes().define(ONE);
        for (int i = 0; i < 3000; i++) write(store, table, "k" + i % 3, i, "v" + i % 2);
        long removed =
                store.indexes()
                        .sweep(
                                ONE,
                                (term, key, clustering) ->
                                        clustering.bufferAt(0).getInt(0) % 5 != 0
                                                && term.equals(
                                                        term(
                                                                "v"
                                                                        + clustering
                                                                                        .bufferAt(0)
                                                                                        .getInt(0)
                                                                                % 2)));
        assertThat(removed).isEqualTo(600);
        assertThat(all(store, table, ONE)).hasSize(2400);
        assertThat(rowsOf(store, table, "v1")).hasSize(1200).contains("k1:c=1");
    }

    /** An entry that is written again while a sweep looks at its row is there afterwards. */
    @Test
    default void aSweepLeavesWhatIsWrittenAgain() throws Exception {
        if (!supported()) return;
        TestTable table = table();
        TableStore store = kit().open(table);
        store.indexes().define(ONE);
        writeAt(10, store, table, "a");
        writeAt(20, store, table, "b");
        CountDownLatch looked = new CountDownLatch(1);
        CompletableFuture<Void> writer =
                CompletableFuture.runAsync(
                        () -> {
                            try {
                                looked.await();
                            } catch (InterruptedException e) {
                                throw new IllegalStateException(e);
                            }
                            writeAt(30, store, table, "a");
                        });
        store.indexes()
                .sweep(
                        ONE,
                        (term, key, clustering) -> {
                            ByteBuffer value = valueOf(store, table, key, clustering);
                            looked.countDown();
                            // It may have to wait for the sweep; if it does not, it is done now.
                            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(300));
                            return term.equals(value);
                        });
        writer.get(1, TimeUnit.MINUTES);
        assertThat(rowsOf(store, table, "a")).containsExactly("k:c=1");
    }

    private static void writeAt(long timestamp, TableStore store, TestTable table, String value) {
        store.write(
                table.update("k").at(timestamp).row(1).set("v", value).end().build(),
                List.of(entry(table, value, 1)));
    }

    private static @Nullable ByteBuffer valueOf(
            TableStore store, TestTable table, DecoratedKey key, Clustering<?> clustering) {
        Slices one = Slices.with(table.metadata().comparator, table.prefix(clustering.bufferAt(0)));
        try (UnfilteredRowIterator rows = store.read(key, one, table.all(), false)) {
            if (rows == null || !rows.hasNext()) return null;
            var cell = ((Row) rows.next()).getCell(table.column("v"));
            return cell == null ? null : cell.buffer();
        }
    }

    /** Whoever sees a row finds it by its term. */
    @Test
    default void noRowIsSeenWithoutItsEntry() throws Exception {
        if (!supported()) return;
        TestTable table = table();
        TableStore store = kit().open(table);
        store.indexes().define(ONE);
        AtomicInteger begun = new AtomicInteger();
        AtomicInteger seen = new AtomicInteger();
        CompletableFuture<Void> writer =
                CompletableFuture.runAsync(
                        () -> {
                            // More, where the reader has no processor for so long.
                            for (int i = 0; i < 2000 || (seen.get() == 0 && i < 200_000); i++) {
                                begun.set(i);
                                write(store, table, "k" + i, i, "v" + i);
                                if (i == 1000) store.flush();
                            }
                        });
        while (!writer.isDone()) {
            int i = begun.get();
            if (valueOf(store, table, table.key("k" + i), table.clustering(i)) == null) continue;
            seen.incrementAndGet();
            assertThat(rowsOf(store, table, "v" + i)).containsExactly("k" + i + ":c=" + i);
        }
        writer.get(1, TimeUnit.MINUTES);
        assertThat(seen).hasPositiveValue();
    }

    /** Against the reference: any terms, any clusterings, any bounds, any places. */
    @Test
    default void entriesComeInOrder() {
        if (!supported()) return;
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (String columns :
                List.of(
                        "k int, c int, v text, PRIMARY KEY (k, c)",
                        "k blob PRIMARY KEY, v text",
                        "k text, c varint, d text, v text, s text STATIC,"
                                + " PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC",
                        "k int, c decimal, d double, e blob, v text, PRIMARY KEY (k, c, d, e)",
                        "k int, c frozen<tuple<int, text>>, d boolean, v text, PRIMARY KEY (k, c,"
                                + " d)) WITH CLUSTERING ORDER BY (c DESC, d ASC"))
            entriesComeInOrder(TestTable.of("CREATE TABLE t (" + columns + ")"), random, seed);
    }

    private void entriesComeInOrder(TestTable table, Random random, long seed) {
        TableStore store = kit().open(table);
        TableStore reference = kit().openReference(table.twin());
        Map<DecoratedKey, List<Clustering<?>>> written = new HashMap<>();
        for (TableStore each : List.of(store, reference)) {
            each.indexes().define(TWO);
            each.indexes().define(ONE);
        }
        for (int i = 0; i < 400; i++) {
            DecoratedKey key = randomKey(table, random);
            List<TermEntry> entries = new ArrayList<>();
            for (int n = random.nextInt(3); n >= 0; n--) {
                Clustering<?> clustering = randomClustering(table, random);
                written.computeIfAbsent(key, each -> new ArrayList<>()).add(clustering);
                entries.add(
                        new TermEntry(
                                random.nextInt(4) == 0 ? TWO : ONE,
                                randomTerm(random),
                                clustering));
            }
            for (TableStore each : List.of(store, reference)) each.indexes().add(key, entries);
            if (i == 200) store.flush();
        }
        List<DecoratedKey> keys = List.copyOf(written.keySet());
        for (int i = 0; i < 200; i++) {
            ByteBuffer from = random.nextInt(5) == 0 ? null : randomTerm(random);
            ByteBuffer to = random.nextInt(5) == 0 ? null : randomTerm(random);
            boolean fromInclusive = random.nextBoolean();
            boolean toInclusive = random.nextBoolean();
            String what =
                    "%s, seed %d, %s %s to %s %s"
                            .formatted(
                                    table.metadata(), seed, from, fromInclusive, to, toInclusive);
            List<String> expected =
                    all(table, reference.indexes().scan(ONE, from, fromInclusive, to, toInclusive));
            assertThat(all(table, store.indexes().scan(ONE, from, fromInclusive, to, toInclusive)))
                    .as(what)
                    .isEqualTo(expected);
            try (TermCursor is = store.indexes().scan(ONE, from, fromInclusive, to, toInclusive);
                    TermCursor should =
                            reference.indexes().scan(ONE, from, fromInclusive, to, toInclusive)) {
                for (int n = 0; n < 20; n++) {
                    boolean found;
                    if (random.nextBoolean()) {
                        found = is.next();
                        assertThat(found).as(what).isEqualTo(should.next());
                    } else {
                        ByteBuffer term = randomTerm(random);
                        DecoratedKey key = keys.get(random.nextInt(keys.size()));
                        PartitionPosition position =
                                switch (random.nextInt(6)) {
                                    case 0 -> key.getToken().minKeyBound();
                                    case 1 -> key.getToken().maxKeyBound();
                                    default -> key;
                                };
                        List<Clustering<?>> known = written.get(key);
                        Clustering<?> clustering =
                                random.nextInt(4) == 0 || position != key
                                        ? null
                                        : known.get(random.nextInt(known.size()));
                        found = is.seek(term, position, clustering);
                        assertThat(found)
                                .as("%s, to %s %s %s", what, term, position, clustering)
                                .isEqualTo(should.seek(term, position, clustering));
                    }
                    if (found)
                        assertThat(shown(table, is)).as(what).isEqualTo(shown(table, should));
                }
            }
        }
    }

    private static DecoratedKey randomKey(TestTable table, Random random) {
        byte[] bytes = new byte[4];
        bytes[3] = (byte) random.nextInt(8);
        return table.metadata().partitioner.decorateKey(ByteBuffer.wrap(bytes));
    }

    private static ByteBuffer randomTerm(Random random) {
        byte[] bytes = new byte[random.nextInt(4)];
        byte[] any = {0, 0, 1, 0x20, 0x40, 0x60, 'a', (byte) 0xFE, (byte) 0xFF};
        for (int i = 0; i < bytes.length; i++) bytes[i] = any[random.nextInt(any.length)];
        return ByteBuffer.wrap(bytes);
    }

    private static Clustering<?> randomClustering(TestTable table, Random random) {
        if (table.metadata().hasStaticColumns() && random.nextInt(4) == 0)
            return Clustering.STATIC_CLUSTERING;
        if (table.metadata().comparator.size() == 0) return Clustering.EMPTY;
        ByteBuffer[] values =
                table.metadata().comparator.subtypes().stream()
                        .map(type -> ByteBuffer.wrap(randomValue(type.asCQL3Type(), random)))
                        .toArray(ByteBuffer[]::new);
        return Clustering.make(values);
    }

    private static byte[] randomValue(Object type, Random random) {
        int small = random.nextInt(4) - 2;
        return switch (type.toString()) {
            case "int" -> ByteBuffer.allocate(4).putInt(small).array();
            // With a byte that is not needed, now and then.
            case "varint" ->
                    random.nextInt(3) == 0
                            ? new byte[] {(byte) (small >> 8), (byte) small}
                            : new byte[] {(byte) small};
            // 1.0 and 1.00 are one value.
            case "decimal" ->
                    random.nextBoolean()
                            ? new byte[] {0, 0, 0, 1, 10}
                            : new byte[] {0, 0, 0, 2, 100};
            case "double" ->
                    ByteBuffer.allocate(8)
                            .putDouble(random.nextInt(3) == 0 ? Double.NaN : small)
                            .array();
            case "boolean" -> new byte[] {(byte) random.nextInt(3)};
            case "frozen<tuple<int, text>>" ->
                    random.nextBoolean()
                            ? new byte[] {0, 0, 0, 4, 0, 0, 0, (byte) random.nextInt(3)}
                            : new byte[] {0, 0, 0, 4, 0, 0, 0, 1, -1, -1, -1, -1};
            default -> randomTerm(random).array();
        };
    }
}
