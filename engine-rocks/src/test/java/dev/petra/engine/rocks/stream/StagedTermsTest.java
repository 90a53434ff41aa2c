// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.index.TermCursor;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermFunction;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.stream.StreamSink;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.RegularAndStaticColumns;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** When the entries of a stream's rows are derived: not while the table is held. */
class StagedTermsTest {
    private static final UUID ONE = new UUID(1, 1);
    private static final UUID TWO = new UUID(2, 2);
    private static final int ROWS = 5_000;

    private final TestTable table =
            TestTable.of("CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))");

    private final AtomicInteger derived = new AtomicInteger();

    @TempDir Path directory;
    private StorageEngine engine;
    private TableStore to;
    private SentStream sent;

    @BeforeEach
    void open() throws IOException {
        // All files of rows go live in one step.
        engine = Tables.engine(Map.of("memory", "32MiB", "stream_part", "256KiB"));
        TableStore from = engine.openStore(table.spec(directory.resolve("from")));
        for (int i = 0; i < ROWS; i++)
            from.write(table.update("k" + i % 3).at(1).row(i).set("v", "v").end().build());
        to = engine.openStore(table.spec(directory.resolve("to")));
        sent = SentStream.of(from);
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private StreamSink receive(TermFunction terms, UUID... indexes) throws IOException {
        for (UUID index : indexes) to.indexes().define(index);
        to.indexes().deriveBy(terms);
        StreamSink in = to.receive(sent.head(), RangeTests.everything());
        sent.stagedBy(in);
        in.verify();
        return in;
    }

    /** Of both indexes, whether they are defined or not; counts the rows. */
    private TermFunction counting(Runnable each) {
        return (key, row) -> {
            derived.incrementAndGet();
            each.run();
            ByteBuffer term = ByteBuffer.wrap(new byte[] {1});
            return List.of(
                    new TermEntry(ONE, term, row.clustering()),
                    new TermEntry(TWO, term, row.clustering()));
        };
    }

    /**
     * Else all large cells of a row were on the heap at once, and all of a stream read once more.
     */
    @Test
    void largeValuesThatNoIndexLooksAtAreNotRead() throws IOException {
        TestTable blobs =
                TestTable.of(
                        "CREATE TABLE t (k text PRIMARY KEY, v text, b blob, m map<int, blob>)");
        TableStore from = engine.openStore(blobs.spec(directory.resolve("blobs")));
        byte[] large = new byte[100_000];
        from.write(
                blobs.update("k")
                        .at(1)
                        .row()
                        .set("v", "v")
                        .set("b", ByteBuffer.wrap(large))
                        .put("m", 1, ByteBuffer.wrap(large))
                        .end()
                        .build());
        to = engine.openStore(blobs.spec(directory.resolve("blobs-to")));
        sent = SentStream.of(from);
        List<Integer> sizes = new ArrayList<>();
        TermFunction byText =
                new TermFunction() {
                    @Override
                    public List<TermEntry> entries(DecoratedKey key, Row row) {
                        for (Cell<?> cell : row.cells()) sizes.add(cell.valueSize());
                        return List.of(
                                new TermEntry(
                                        ONE, ByteBuffer.wrap(new byte[] {1}), row.clustering()));
                    }

                    @Override
                    public ColumnFilter columns(TableMetadata table) {
                        return ColumnFilter.selection(
                                table,
                                RegularAndStaticColumns.of(
                                        table.getColumn(ByteBufferUtil.bytes("v"))),
                                true);
                    }
                };
        try (StreamSink in = receive(byText, ONE)) {
            while (in.ingest()) in.prepare();
        }
        assertThat(sizes).containsExactlyInAnyOrder(0, 0, 1);
        assertThat(entries(ONE)).isOne();
    }

    private int entries(UUID index) {
        Set<Object> found = new HashSet<>();
        try (TermCursor cursor = to.indexes().scan(index, null, true, null, true)) {
            while (cursor.next()) found.add(cursor.clustering());
        }
        return found.size();
    }

    private int rows() {
        int count = 0;
        for (int k = 0; k < 3; k++)
            try (UnfilteredRowIterator rows =
                    to.read(table.key("k" + k), Slices.ALL, table.all(), false)) {
                while (rows != null && rows.hasNext()) {
                    rows.next();
                    count++;
                }
            }
        return count;
    }

    @Test
    void entriesAreDerivedOnceAndBeforeTheRowsGoLive() throws IOException {
        try (StreamSink in = receive(counting(() -> {}), ONE)) {
            assertThat(in.ingest()).as("more").isTrue();
            assertThat(derived.get()).as("by ingest").isZero();
            assertThat(rows()).isZero();
            in.prepare();
            in.prepare();
            assertThat(derived.get()).isEqualTo(ROWS);
            assertThat(entries(ONE)).isEqualTo(ROWS);
            assertThat(rows()).isZero();
            assertThat(in.ingest()).as("more").isFalse();
            assertThat(derived.get()).isEqualTo(ROWS);
            assertThat(rows()).isEqualTo(ROWS);
        }
    }

    /** No build that begins after that finds the rows, or they have entries. */
    @Test
    void rowsDoNotGoLiveWithoutEntriesOfAnIndexThatWasDefinedSince() throws IOException {
        try (StreamSink in = receive(counting(() -> {}), ONE)) {
            in.prepare();
            to.indexes().define(TWO);
            // The same again, as DROP INDEX and CREATE INDEX would do.
            to.indexes().drop(ONE);
            to.indexes().define(ONE);
            assertThat(in.ingest()).as("more").isTrue();
            assertThat(rows()).isZero();
            while (in.ingest()) in.prepare();
            assertThat(rows()).isEqualTo(ROWS);
            assertThat(entries(ONE)).isEqualTo(ROWS);
            assertThat(entries(TWO)).isEqualTo(ROWS);
        }
    }

    @Test
    void anIndexThatIsDroppedMeanwhileIsNotWaitedFor() throws IOException {
        try (StreamSink in =
                receive(
                        counting(
                                () -> {
                                    if (derived.get() == 100) to.indexes().drop(TWO);
                                }),
                        ONE,
                        TWO)) {
            while (in.ingest()) in.prepare();
            assertThat(rows()).isEqualTo(ROWS);
            assertThat(entries(ONE)).isEqualTo(ROWS);
            assertThat(to.indexes().states()).doesNotContainKey(TWO);
        }
    }

    /** Those that were written stay. */
    @Test
    void afterAStallItGoesOnWhereItWas() throws IOException {
        try (StreamSink in =
                receive(
                        counting(
                                () -> {
                                    if (derived.get() == 4_000)
                                        throw new WriteStallException("stalled");
                                }),
                        ONE)) {
            in.prepare();
            assertThat(derived.get()).isLessThanOrEqualTo(ROWS + 1_001);
            assertThat(in.ingest()).as("more").isFalse();
            assertThat(entries(ONE)).isEqualTo(ROWS);
            assertThat(rows()).isEqualTo(ROWS);
        }
    }

    @Test
    void itEndsWhenTheStreamIsClosedOrTheStoreIs() throws Exception {
        for (boolean isDrop : new boolean[] {false, true}) {
            derived.set(0);
            to = engine.openStore(table.spec(directory.resolve("to-" + isDrop)));
            AtomicReference<StreamSink> closed = new AtomicReference<>();
            Thread ending =
                    new Thread(
                            () -> {
                                if (isDrop) to.drop();
                                else closed.get().close();
                            });
            Runnable atTheTenth =
                    () -> {
                        if (derived.get() != 10) return;
                        ending.start();
                        // Until it waits for this one, after it has said so.
                        while (Set.of(Thread.State.NEW, Thread.State.RUNNABLE)
                                .contains(ending.getState())) Thread.onSpinWait();
                    };
            try (StreamSink in = receive(counting(atTheTenth), ONE)) {
                closed.set(in);
                assertThatThrownBy(in::prepare).isInstanceOf(IllegalStateException.class);
                assertThat(derived.get()).isLessThan(ROWS / 2);
                ending.join(TimeUnit.MINUTES.toMillis(2));
                assertThat(ending.isAlive()).isFalse();
            }
        }
    }

    /**
     * The sender knows an ALTER that has not come here yet. The row would get no entry: here it has
     * no live data before the ALTER comes, and has some afterwards.
     */
    @Test
    void aRowThatLivesByAColumnThatIsNotKnownYetIsRefusedUntilItIs() throws Exception {
        TestTable theirs = table.twin();
        theirs.addColumn("w", UTF8Type.instance);
        TableStore from = engine.openStore(theirs.spec(directory.resolve("newer")));
        // UPDATE: no liveness of the row's own.
        from.write(theirs.update("k0").at(1).row(1).set("w", "w").end().build());
        sent = SentStream.of(from);
        TermFunction ofLiveRows =
                (key, row) ->
                        row.hasLiveData(0, false)
                                ? List.of(
                                        new TermEntry(
                                                ONE,
                                                ByteBuffer.wrap(new byte[] {1}),
                                                row.clustering()))
                                : List.of();
        assertThatThrownBy(() -> receive(ofLiveRows, ONE))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("column w")
                .hasMessageContaining("repeat");
        table.addColumn("w", UTF8Type.instance);
        assertThat(rows()).isZero();
        try (StreamSink in = receive(ofLiveRows, ONE)) {
            while (in.ingest()) in.prepare();
        }
        assertThat(rows()).isOne();
        assertThat(entries(ONE)).isOne();
    }

    /** If it is added again, the row is there, and has to be found. */
    @Test
    void aRowThatLivesByADroppedColumnHasItsEntries() throws Exception {
        TableStore from = engine.openStore(table.twin().spec(directory.resolve("older")));
        from.write(table.update("k0").at(9).row(1).set("v", "v").end().build());
        sent = SentStream.of(from);
        table.dropColumn("v", 5);
        List<Boolean> live = new ArrayList<>();
        TermFunction terms =
                (key, row) -> {
                    live.add(row.hasLiveData(0, false));
                    return List.of();
                };
        try (StreamSink in = receive(terms, ONE)) {
            while (in.ingest()) in.prepare();
        }
        assertThat(live).containsExactly(true);
    }

    /** It failed the session, which is repeated by hand. */
    @Test
    void anAlterThatComesRightAfterTheDictionaryIsWaitedFor() throws Exception {
        TestTable theirs = table.twin();
        theirs.addColumn("w", UTF8Type.instance);
        TableStore from = engine.openStore(theirs.spec(directory.resolve("newer")));
        from.write(theirs.update("k0").at(1).row(1).set("w", "w").end().build());
        sent = SentStream.of(from);
        to.indexes().define(ONE);
        to.indexes().deriveBy(counting(() -> {}));
        StreamSink in = to.receive(sent.head(), RangeTests.everything());
        Thread receiver = Thread.currentThread();
        Thread alter =
                new Thread(
                        () -> {
                            // Until it waits for the column.
                            while (receiver.getState() != Thread.State.TIMED_WAITING)
                                Thread.onSpinWait();
                            table.addColumn("w", UTF8Type.instance);
                        });
        alter.start();
        try (in) {
            sent.stagedBy(in);
            in.verify();
            while (in.ingest()) in.prepare();
        } finally {
            alter.join();
        }
        assertThat(entries(ONE)).isOne();
    }

    /** What the schema tells to be dropped is ignored, as in Cassandra. */
    @Test
    void cellsOfADroppedColumnAreTaken() throws Exception {
        TestTable theirs = table.twin();
        theirs.addColumn("w", UTF8Type.instance);
        table.addColumn("w", UTF8Type.instance);
        table.dropColumn("w", 10);
        TableStore from = engine.openStore(theirs.spec(directory.resolve("older")));
        from.write(theirs.update("k0").at(1).row(1).liveness().set("w", "w").end().build());
        sent = SentStream.of(from);
        try (StreamSink in = receive(counting(() -> {}), ONE)) {
            while (in.ingest()) in.prepare();
        }
        assertThat(rows()).isOne();
    }

    /** Where they go live the table is locked, for writers and ALTER alike. */
    @Test
    void filesAreSyncedBeforeTheTableIsLocked() throws IOException {
        try (StreamSink in = receive(counting(() -> {}), ONE)) {
            StagedStream stream = (StagedStream) in;
            assertThat(stream.synced()).isZero();
            in.prepare();
            int synced = stream.synced();
            assertThat(synced).isPositive();
            assertThat(in.ingest()).as("more").isFalse();
            assertThat(stream.synced()).as("by ingest").isEqualTo(synced);
        }
    }

    /** The entries of one step's rows count for no other step. */
    @Test
    void eachStepOfALongStreamHasItsEntries() throws IOException {
        engine.close();
        engine = Tables.engine(Map.of("memory", "32MiB", "stream_part", "64KiB"));
        TestTable plain =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c)) WITH"
                                + " compression = {'enabled': 'false'}");
        TableStore from = engine.openStore(plain.spec(directory.resolve("long-from")));
        String value = "v".repeat(900);
        for (int i = 0; i < ROWS; i++)
            from.write(plain.update("k" + i % 3).at(1).row(i).set("v", value).end().build());
        to = engine.openStore(plain.spec(directory.resolve("long-to")));
        sent = SentStream.of(from);
        int steps = 0;
        try (StreamSink in = receive(counting(() -> {}), ONE)) {
            do {
                in.prepare();
                steps++;
            } while (in.ingest());
        }
        assertThat(steps).isGreaterThan(2);
        assertThat(entries(ONE)).isEqualTo(ROWS);
    }

    /** It was taken for damage of the store, which was to be restored from a snapshot then. */
    @Test
    void damageOfAStagedFileIsNoneOfTheStore() throws IOException {
        try (StreamSink in = receive(counting(() -> {}), ONE)) {
            Path file;
            try (var all = Files.walk(((StagedStream) in).directory())) {
                file = all.filter(Files::isRegularFile).findFirst().orElseThrow();
            }
            byte[] bytes = Files.readAllBytes(file);
            bytes[10] ^= 1;
            Files.write(file, bytes);
            assertThatThrownBy(in::prepare)
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining(file.toString())
                    .hasMessageContaining("repeat the operation that streams");
        }
        assertThat(rows()).isZero();
        to.write(table.update("k0").at(1).row(1).set("v", "v").end().build());
        assertThat(rows()).isOne();
    }

    /** Entries that have no row yet would be taken for those of former values. */
    @Test
    void nothingIsSweptFromTheFirstEntryOn() throws IOException {
        try (StreamSink in = receive(counting(() -> {}), ONE)) {
            in.prepare();
            assertThatThrownBy(() -> to.indexes().sweep(ONE, (term, key, clustering) -> false))
                    .isInstanceOf(CancellationException.class);
            assertThat(entries(ONE)).isEqualTo(ROWS);
        }
        assertThat(to.indexes().sweep(ONE, (term, key, clustering) -> false)).isEqualTo(ROWS);
    }
}
