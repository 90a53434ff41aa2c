// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.host.Liveness;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/**
 * Slices from store to store, which are read while they are sent. Rocksandra 18 checked what came
 * after the ingest, and ingested what had been aborted.
 */
public interface StreamTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** Each list of ranges as a slice. */
    @SafeVarargs
    private static List<SliceRanges> slices(List<Range<Token>>... ranges) {
        List<SliceRanges> slices = new ArrayList<>();
        for (List<Range<Token>> slice : ranges) slices.add(new SliceRanges(slice, 1000));
        return slices;
    }

    /** The ring in three; tokens of {@link ScanTests#keys} are at the borders. */
    private static List<SliceRanges> thirds() {
        return slices(
                RangeTests.range(Long.MIN_VALUE, 0),
                RangeTests.range(0, 42),
                RangeTests.range(42, Long.MIN_VALUE));
    }

    private static List<Range<Token>> ranges(List<SliceRanges> slices) {
        return slices.stream().flatMap(slice -> slice.ranges().stream()).toList();
    }

    /** Moves one slice whole. */
    private static void move(StreamSource out, StreamSink in, int slice) throws IOException {
        try (SliceReader reader = out.open(slice);
                SliceWriter writer = in.begin(slice)) {
            for (ByteBuffer block = reader.next(); block != null; block = reader.next())
                writer.take(block);
            writer.end();
        }
    }

    private static void goLive(StreamSink in) throws IOException {
        while (in.ingest()) in.prepare();
    }

    /** Moves slices whole, the last one first. */
    static void send(TableStore from, TableStore to, List<SliceRanges> slices) {
        try (StreamSource out = from.send(slices);
                StreamSink in = to.receive(out.head(), ranges(slices))) {
            for (int i = slices.size() - 1; i >= 0; i--) move(out, in, i);
            in.verify();
            goLive(in);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static TestTable textTable(String options) {
        return TestTable.of(
                "CREATE TABLE t (k int, c int, s text STATIC, v text, PRIMARY KEY (k, c))"
                        + options);
    }

    private static String text(Random random, int length) {
        StringBuilder text = new StringBuilder(length);
        while (text.length() < length) text.append((char) (' ' + random.nextInt(90)));
        return text.toString();
    }

    /** Over two megabytes, which no engine gives in one block. */
    private static void fillWithMuch(TableStore store, TestTable table) {
        Random random = new Random(1);
        for (int i = 0; i < 300; i++) {
            store.write(table.update(i).row(i).set("v", text(random, 8000)).build());
            if (i == 150) store.flush();
        }
    }

    /** How a store ends; a truncated table's is dropped. */
    enum StoreEnd {
        /** With its data kept. */
        CLOSE,

        /** With its data deleted. */
        DROP,

        /** With all stores of the engine. */
        ENGINE_CLOSE;

        void of(TableStore store, EngineUnderTest kit) {
            switch (this) {
                case CLOSE -> store.close();
                case DROP -> store.drop();
                case ENGINE_CLOSE -> kit.engine().close();
            }
        }

        /** Opens the store again. */
        TableStore after(TableStore store, EngineUnderTest kit) {
            if (this == ENGINE_CLOSE) kit.restart();
            return kit.engine().openStore(store.spec());
        }
    }

    private boolean refusesSlices() {
        if (kit().capabilities().streams()) return false;
        TestTable table = ScanTests.table();
        TableStore store = kit().open(table);
        String engine = kit().engine().name();
        StreamHead head = new StreamHead(engine, 1, table.metadata().id, "t", 1, 0);
        for (Throwable refusal :
                new Throwable[] {
                    catchThrowable(() -> store.send(thirds())),
                    catchThrowable(() -> store.sizes(RangeTests.everything()))
                })
            assertThat(refusal)
                    .isInstanceOf(UnsupportedOperationException.class)
                    .hasMessageContaining(engine);
        // Which may take what another sends that can.
        assertThatThrownBy(() -> store.receive(head, RangeTests.everything()))
                .isInstanceOfAny(
                        UnsupportedOperationException.class, IllegalArgumentException.class)
                .hasMessageContaining(engine);
        return true;
    }

    @Test
    default void slicesArriveAsTheyWere() {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        RangeTests.fill(from, table);
        send(from, to, thirds());
        assertThat(RangeTests.scan(to, table)).isEqualTo(RangeTests.scan(from, table)).hasSize(12);
        assertThat(to.isEmpty()).isFalse();
        for (DecoratedKey key : ScanTests.keys(table)) assertThat(to.mayContain(key)).isTrue();
        to.flush();
        to.compact(List.of());
        to = kit().reopen(to);
        assertThat(RangeTests.scan(to, table)).isEqualTo(RangeTests.scan(from, table));
    }

    /** Rocksandra 15: boundary partitions were not streamed. */
    @Test
    default void aSliceExcludesItsLeftTokenAndIncludesItsRight() {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        RangeTests.fill(from, table);
        long[][] ranges = {
            {1, 42},
            {42, 43},
            {41, 42},
            {Long.MIN_VALUE, Long.MIN_VALUE + 1},
            {Long.MAX_VALUE - 1, Long.MAX_VALUE},
            {43, Long.MIN_VALUE},
            {2, 40}
        };
        for (long[] range : ranges) {
            TableStore to = kit().open(table);
            List<Range<Token>> wanted = RangeTests.range(range[0], range[1]);
            send(from, to, slices(wanted));
            assertThat(RangeTests.keysOf(to, table))
                    .as("sent of (%d, %d]", range[0], range[1])
                    .isEqualTo(
                            ScanTests.keys(table).stream()
                                    .filter(key -> wanted.get(0).contains(key.getToken()))
                                    .toList());
            to.close();
        }
    }

    @Test
    default void aSliceHasEachOfItsRangesAndNothingBetween() {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        RangeTests.fill(from, table);
        List<Range<Token>> first = new ArrayList<>(RangeTests.range(Long.MIN_VALUE, -1));
        first.addAll(RangeTests.range(0, 1));
        send(from, to, slices(first, RangeTests.range(42, 43)));
        assertThat(RangeTests.keysOf(to, table))
                .hasSize(5)
                .isEqualTo(
                        ScanTests.keys(table).stream()
                                .filter(
                                        key ->
                                                first.get(0).contains(key.getToken())
                                                        || first.get(1).contains(key.getToken())
                                                        || key.equals(table.keyWithToken(43, 0)))
                                .toList());
    }

    @Test
    default void theHeadSaysWhatComesAndNothingElseCanBeAskedFor() throws IOException {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore store = kit().open(table);
        RangeTests.fill(store, table);
        try (StreamSource out = store.send(thirds());
                StreamSink in = store.receive(out.head(), RangeTests.everything())) {
            assertThat(out.head().engine()).isEqualTo(kit().engine().name());
            assertThat(out.head().table()).isEqualTo(table.metadata().id);
            assertThat(out.head().columnFamily()).isEqualTo("t");
            assertThat(out.head().slices()).isEqualTo(3);
            assertThat(out.head().bytes()).isEqualTo(3000);
            for (int none : new int[] {-1, 3}) {
                assertThatThrownBy(() -> out.open(none))
                        .isInstanceOf(IndexOutOfBoundsException.class);
                assertThatThrownBy(() -> in.begin(none))
                        .isInstanceOf(IndexOutOfBoundsException.class);
            }
        }
        SliceRanges slice = thirds().get(1);
        for (List<SliceRanges> bad : List.of(List.<SliceRanges>of(), List.of(slice, slice)))
            assertThatThrownBy(() -> store.send(bad)).isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    default void sizesAreOfEachRangeInItsPlace() {
        if (refusesSlices()) return;
        TestTable table = textTable("");
        TableStore store = kit().open(table);
        assertThat(store.sizes(List.of())).isEmpty();
        fillWithMuch(store, table);
        store.flush();
        List<Range<Token>> ranges = new ArrayList<>(RangeTests.range(5, 6));
        ranges.addAll(RangeTests.everything());
        ranges.addAll(RangeTests.range(0, Long.MIN_VALUE));
        // Of a file with few rows it may only be known whether a range meets it: such files are
        // merged in the background.
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(2);
        long[] sizes = store.sizes(ranges);
        while (sizes[2] > sizes[1] * 4 / 5 && System.nanoTime() - end < 0) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
            sizes = store.sizes(ranges);
        }
        assertThat(sizes).hasSize(3);
        assertThat(sizes[0]).isBetween(0L, sizes[1] / 2);
        assertThat(sizes[1]).isGreaterThan(1 << 20);
        assertThat(sizes[2]).isBetween(sizes[1] / 5, sizes[1] * 4 / 5);
    }

    @Test
    default void slicesMergeWithWhatIsThere() {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        TableStore both = kit().openReference(table);
        DecoratedKey key = table.keyWithToken(5, 0);
        DecoratedKey other = table.keyWithToken(6, 0);
        List<PartitionUpdate> sent =
                List.of(
                        table.update(key).at(3).deletePartition().build(),
                        table.update(key).at(4).row(1).set("v", 4).build(),
                        table.update(key).at(8).deleteRow(2).build(),
                        table.update(key).at(5).deleteRange(table.from(3), table.to(4)).build(),
                        table.update(other).at(1).row(1).liveness().build());
        List<PartitionUpdate> there =
                List.of(
                        table.update(key).at(2).row(1).liveness().set("v", 2).build(),
                        table.update(key).at(9).row(2).set("v", 9).build(),
                        table.update(key).at(6).row(3).set("v", 6).build(),
                        table.update(key).at(4).row(4).set("v", 4).build(),
                        table.update(other).at(3).staticRow().set("s", "x").build());
        sent.forEach(from::write);
        there.forEach(to::write);
        to.flush();
        sent.forEach(both::write);
        there.forEach(both::write);
        // What comes again, as from a second replica, changes nothing.
        for (int time = 0; time < 2; time++) {
            send(from, to, thirds());
            assertThat(RangeTests.scan(to, table)).isEqualTo(RangeTests.scan(both, table));
        }
        to.flush();
        to.compact(List.of());
        to = kit().reopen(to);
        assertThat(RangeTests.scan(to, table)).isEqualTo(RangeTests.scan(both, table));
    }

    @Test
    default void writesWhileSlicesComeAreKept() throws IOException {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        RangeTests.fill(from, table);
        DecoratedKey key = table.keyWithToken(77, 0);
        try (StreamSource out = from.send(thirds());
                StreamSink in = to.receive(out.head(), RangeTests.everything())) {
            for (int i = 0; i < 3; i++) {
                to.write(table.update(key).row(i).liveness().build());
                move(out, in, i);
            }
            to.flush();
            in.verify();
            to.write(table.update(key).row(3).liveness().build());
            goLive(in);
            to.write(table.update(key).row(4).liveness().build());
        }
        assertThat(PartitionContent.of(to.read(key, Slices.ALL, table.all(), false)).rows())
                .hasSize(5);
        assertThat(RangeTests.scan(to, table)).hasSize(13);
    }

    /** Rocksandra 18: an aborted stream was ingested. */
    @Test
    default void slicesAreInvisibleBeforeTheIngestAndGoneAfterAnAbort() throws IOException {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        RangeTests.fill(from, table);
        for (boolean whole : new boolean[] {false, true}) {
            try (StreamSource out = from.send(thirds())) {
                StreamSink in = to.receive(out.head(), RangeTests.everything());
                SliceWriter begun = in.begin(0);
                try (in) {
                    try (SliceReader reader = out.open(0)) {
                        begun.take(reader.next());
                    }
                    assertNothing(to, table);
                    for (int i = 1; i < 3; i++) move(out, in, i);
                    assertNothing(to, table);
                    if (whole) {
                        begun.end();
                        in.verify();
                        in.verify();
                        assertNothing(to, table);
                    }
                }
                in.close();
                assertThatThrownBy(begun::end).isInstanceOf(IllegalStateException.class);
                begun.close();
                assertThatThrownBy(() -> in.begin(0)).isInstanceOf(IllegalStateException.class);
                assertThatThrownBy(in::verify).isInstanceOf(IllegalStateException.class);
                assertThatThrownBy(in::ingest).isInstanceOf(IllegalStateException.class);
                assertThatThrownBy(in::prepare).isInstanceOf(IllegalStateException.class);
            }
            assertNothing(to, table);
            to = kit().reopen(to);
            assertNothing(to, table);
        }
        send(from, to, thirds());
        assertThat(RangeTests.scan(to, table)).hasSize(12);
    }

    private static void assertNothing(TableStore store, TestTable table) {
        assertThat(RangeTests.scan(store, table)).isEmpty();
        assertThat(store.isEmpty()).isTrue();
    }

    @Test
    default void aSliceThatIsTornIsGoneAndMayComeAgain() throws IOException {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        RangeTests.fill(from, table);
        TableStore other = kit().open(table);
        other.write(table.update(table.keyWithToken(-77, 0)).row(1).liveness().build());
        try (StreamSource out = from.send(thirds());
                StreamSource torn = other.send(thirds());
                StreamSink in = to.receive(out.head(), RangeTests.everything())) {
            for (int i = 1; i < 3; i++) move(out, in, i);
            SliceWriter writer = in.begin(0);
            try (SliceReader reader = torn.open(0)) {
                writer.take(reader.next());
            }
            assertThatThrownBy(() -> in.begin(0)).isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(in::verify).isInstanceOf(IOException.class);
            writer.close();
            assertThatThrownBy(in::verify).isInstanceOf(IOException.class);
            assertThatThrownBy(in::ingest).isInstanceOf(IOException.class);
            assertThatThrownBy(writer::end).isInstanceOf(IllegalStateException.class);
            move(out, in, 0);
            writer.close();
            assertThatThrownBy(() -> in.begin(0)).isInstanceOf(IllegalStateException.class);
            goLive(in);
            assertThatThrownBy(in::ingest).isInstanceOf(IllegalStateException.class);
        }
        assertThat(RangeTests.scan(to, table)).isEqualTo(RangeTests.scan(from, table));
    }

    @Test
    default void aMissingSliceIsNoticedBeforeAnythingIsLive() throws IOException {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        RangeTests.fill(from, table);
        for (int missing = 0; missing < 3; missing++) {
            TableStore to = kit().open(table);
            try (StreamSource out = from.send(thirds());
                    StreamSink in = to.receive(out.head(), RangeTests.everything())) {
                for (int i = 0; i < 3; i++) if (i != missing) move(out, in, i);
                assertThatThrownBy(in::verify).isInstanceOf(IOException.class);
                assertThatThrownBy(in::ingest).isInstanceOf(IOException.class);
            }
            assertNothing(to, table);
            to.close();
        }
    }

    @Test
    default void keysThatTheNodeDoesNotOwnAreNotTaken() {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        RangeTests.fill(from, table);
        // 42 is excluded, being the left end; the keys of 43 and above are owned.
        assertThatThrownBy(
                        () -> {
                            try (StreamSource out = from.send(slices(RangeTests.range(41, 43)));
                                    StreamSink in =
                                            to.receive(
                                                    out.head(),
                                                    RangeTests.range(42, Long.MAX_VALUE))) {
                                move(out, in, 0);
                                goLive(in);
                            }
                        })
                .isInstanceOf(IOException.class);
        assertNothing(to, table);
    }

    @Test
    default void slicesOfSomethingElseAreRefusedByTheirHead() {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore to = kit().open(table);
        TestTable otherTable = ScanTests.table();
        TableStore other = kit().open(otherTable);
        TableStore index =
                kit().engine()
                        .openStore(new StoreSpec(kit().newDirectory(), "t.i", 1, table.ref()));
        StreamHead good;
        try (StreamSource out = to.send(thirds())) {
            good = out.head();
        }
        for (TableStore store : List.of(other, index)) assertRefused(store, good);
        assertRefused(
                to,
                new StreamHead("another", good.format(), good.table(), good.columnFamily(), 1, 0));
        assertRefused(
                to,
                new StreamHead(
                        good.engine(), good.format() + 1, good.table(), good.columnFamily(), 1, 0));
    }

    private static void assertRefused(TableStore store, StreamHead head) {
        assertThatThrownBy(() -> store.receive(head, RangeTests.everything()).close())
                .isInstanceOf(IllegalArgumentException.class)
                .message()
                .isNotBlank();
    }

    @Test
    default void aSliceWithNothingInItIsASlice() throws IOException {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        send(from, to, thirds());
        RangeTests.fill(from, table);
        List<SliceRanges> none = slices(RangeTests.range(500, 600));
        try (StreamSource out = from.send(none);
                SliceReader reader = out.open(0)) {
            while (reader.next() != null) Thread.onSpinWait();
            assertThat(reader.next()).isNull();
        }
        send(from, to, none);
        assertThat(RangeTests.scan(to, table)).isEmpty();
    }

    @Test
    default void slicesOfAStoreWhoseColumnsHaveAnotherOrderAreUnderstood() {
        if (refusesSlices()) return;
        TestTable first = ScanTests.table();
        TestTable second = first.twin();
        TableStore from = kit().open(first);
        TableStore to = kit().open(second);
        DecoratedKey key = first.keyWithToken(1, 1);
        first.addColumn("a", Int32Type.instance);
        from.write(first.update(key).at(2).row(1).set("a", 2).set("v", 2).build());
        first.addColumn("z", Int32Type.instance);
        from.write(first.update(key).at(3).row(1).set("z", 3).build());
        second.addColumn("z", Int32Type.instance);
        to.write(second.update(key).at(1).row(1).set("z", 1).build());
        second.addColumn("a", Int32Type.instance);
        to.write(second.update(key).at(1).row(1).set("a", 1).set("v", 1).build());
        send(from, to, thirds());

        PartitionContent content =
                PartitionContent.of(to.read(key, Slices.ALL, second.all(), false));
        assertThat(content.cell("a", 1).buffer().getInt(0)).isEqualTo(2);
        assertThat(content.cell("v", 1).buffer().getInt(0)).isEqualTo(2);
        assertThat(content.cell("z", 1).buffer().getInt(0)).isEqualTo(3);
    }

    @Test
    default void aColumnAddedWhileASliceIsReadIsUnderstood() throws IOException {
        if (refusesSlices()) return;
        TestTable table = textTable("");
        TestTable twin = table.twin();
        TableStore from = kit().open(table);
        TableStore to = kit().open(twin);
        fillWithMuch(from, table);
        try (StreamSource out = from.send(slices(RangeTests.everything()));
                StreamSink in = to.receive(out.head(), RangeTests.everything());
                SliceReader reader = out.open(0);
                SliceWriter writer = in.begin(0)) {
            writer.take(reader.next());
            table.addColumn("a", UTF8Type.instance);
            twin.addColumn("a", UTF8Type.instance);
            for (int i = 0; i < 300; i++)
                from.write(table.update(i).at(2).row(i).set("a", "new").build());
            for (ByteBuffer block = reader.next(); block != null; block = reader.next())
                writer.take(block);
            writer.end();
            goLive(in);
        }
        // Those that were read before may come without it.
        for (int i = 0; i < 300; i++) to.write(twin.update(i).at(2).row(i).set("a", "new").build());
        assertThat(RangeTests.scan(to, twin)).isEqualTo(RangeTests.scan(from, table));
    }

    @Test
    default void slicesOfManyBlocksArriveWholeSideBySide() throws Exception {
        if (refusesSlices()) return;
        TestTable table = textTable("");
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        fillWithMuch(from, table);
        AtomicInteger blocks = new AtomicInteger();
        try (StreamSource out = from.send(thirds());
                StreamSink in = to.receive(out.head(), RangeTests.everything())) {
            List<CompletableFuture<Void>> moved = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                int slice = i;
                moved.add(
                        CompletableFuture.runAsync(
                                () -> blocks.addAndGet(moveByCopies(out, in, slice))));
            }
            for (CompletableFuture<Void> each : moved) each.get(2, TimeUnit.MINUTES);
            goLive(in);
        }
        assertThat(blocks.get()).isGreaterThan(3);
        assertThat(RangeTests.scan(to, table)).hasSize(300).isEqualTo(RangeTests.scan(from, table));
    }

    /** Moves a slice by copies off the heap, as they come from a connection, in larger buffers. */
    private static int moveByCopies(StreamSource out, StreamSink in, int slice) {
        int blocks = 0;
        try (SliceReader reader = out.open(slice);
                SliceWriter writer = in.begin(slice)) {
            for (ByteBuffer block = reader.next(); block != null; block = reader.next()) {
                assertThat(block.remaining()).isBetween(1, SliceWriter.BLOCK);
                ByteBuffer copy = ByteBuffer.allocateDirect(block.remaining() + 10);
                copy.position(7).put(block).flip().position(7);
                writer.take(copy);
                assertThat(copy.hasRemaining()).isFalse();
                blocks++;
            }
            writer.end();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return blocks;
    }

    /** As {@code petra load} does for several nodes. */
    @Test
    default void aSliceIsReadForSeveralReceivers() throws IOException {
        if (refusesSlices()) return;
        TestTable table = textTable("");
        TableStore from = kit().open(table);
        TableStore first = kit().open(table);
        TableStore second = kit().open(table);
        fillWithMuch(from, table);
        try (StreamSource out = from.send(slices(RangeTests.everything()));
                StreamSink in = first.receive(out.head(), RangeTests.everything());
                StreamSink other = second.receive(out.head(), RangeTests.everything());
                SliceReader reader = out.open(0);
                SliceWriter writer = in.begin(0)) {
            writer.take(reader.next());
            move(out, other, 0);
            for (ByteBuffer block = reader.next(); block != null; block = reader.next())
                writer.take(block);
            writer.end();
            goLive(in);
            goLive(other);
        }
        assertThat(RangeTests.scan(first, table)).isEqualTo(RangeTests.scan(from, table));
        assertThat(RangeTests.scan(second, table)).isEqualTo(RangeTests.scan(from, table));
    }

    @Test
    default void aBlockThatIsNoneIsRefusedAndTheSliceMayComeAgain() throws IOException {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        RangeTests.fill(from, table);
        byte[] noise = new byte[1000];
        new Random(1).nextBytes(noise);
        try (StreamSource out = from.send(thirds());
                StreamSink in = to.receive(out.head(), RangeTests.everything())) {
            byte[] block = Recorded.of(out).blocks().get(0).get(0);
            for (ByteBuffer bad :
                    List.of(
                            ByteBuffer.allocate(0),
                            ByteBuffer.wrap(noise),
                            ByteBuffer.allocate(1000),
                            ByteBuffer.wrap(block, 0, block.length - 1),
                            ByteBuffer.wrap(block, 1, block.length - 1)))
                try (SliceWriter writer = in.begin(0)) {
                    assertThatThrownBy(() -> writer.take(bad)).isInstanceOf(IOException.class);
                    assertThatThrownBy(() -> writer.take(ByteBuffer.wrap(block)))
                            .isInstanceOf(IllegalStateException.class);
                    assertThatThrownBy(writer::end).isInstanceOf(IllegalStateException.class);
                }
            for (int i = 0; i < 3; i++) move(out, in, i);
            goLive(in);
        }
        assertThat(RangeTests.scan(to, table)).isEqualTo(RangeTests.scan(from, table));
    }

    // What a slice has of a store that changes

    /** The rows of a version, which hide those of the one before. */
    private static PartitionUpdate version(TestTable table, int key, long version, String text) {
        UpdateBuilder update = table.update(key).at(2 * version).deletePartition();
        update.at(2 * version + 1).staticRow().set("s", text).end();
        for (int i = 0; i < 10; i++) update.row(i).liveness().set("v", text).end();
        return update.build();
    }

    @Test
    default void aPartitionIsOfOneMoment() throws IOException {
        if (refusesSlices()) return;
        TestTable table = textTable("");
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        String text = text(new Random(1), 3000);
        int partitions = 50;
        for (int i = 0; i < partitions; i++) from.write(version(table, i, 1, text));
        try (StreamSource out = from.send(slices(RangeTests.everything()));
                StreamSink in = to.receive(out.head(), RangeTests.everything());
                SliceReader reader = out.open(0);
                SliceWriter writer = in.begin(0)) {
            long version = 1;
            for (ByteBuffer block = reader.next(); block != null; block = reader.next()) {
                writer.take(block);
                version++;
                for (int i = 0; i < partitions; i++) from.write(version(table, i, version, text));
                if (version % 3 == 0) from.flush();
            }
            assertThat(version).as("blocks").isGreaterThan(3);
            writer.end();
            goLive(in);
        }
        List<PartitionContent> received = RangeTests.scan(to, table);
        assertThat(received).hasSize(partitions);
        for (PartitionContent partition : received) {
            Set<Long> timestamps = new HashSet<>();
            timestamps.add(partition.deletion().markedForDeleteAt() + 1);
            timestamps.add(partition.staticCell("s").timestamp());
            for (Row row : partition.rows())
                timestamps.add(Liveness.timestamp(row.primaryKeyLivenessInfo()));
            assertThat(timestamps).as("timestamps of %s", partition.key()).hasSize(1);
            assertThat(partition.rows()).hasSize(10);
        }
    }

    @Test
    default void whatIsThereWhenItBeginsIsSentOrReplaced() throws IOException {
        if (refusesSlices()) return;
        long seed = System.nanoTime();
        Random random = new Random(seed);
        TestTable table = textTable(" WITH gc_grace_seconds = 0");
        TableStore from = kit().open(table);
        // As the host forbids it to purge while it receives.
        TableStore to =
                kit().engine()
                        .openStore(
                                new StoreSpec(
                                        kit().newDirectory(), "t", 1, table.ref(), () -> false));
        TableStore all = kit().openReference(table);
        long timestamp = 1;
        for (int i = 0; i < 40; i++) {
            UpdateBuilder update = table.update(i).at(timestamp++);
            for (int c = 0; c < 20; c++) update.row(c).set("v", text(random, 2000)).end();
            PartitionUpdate built = update.build();
            from.write(built);
            all.write(built);
            if (i % 15 == 14) from.flush();
        }
        int blocks = 0;
        try (StreamSource out = from.send(thirds());
                StreamSink in = to.receive(out.head(), RangeTests.everything())) {
            for (int i = 0; i < 3; i++)
                try (SliceReader reader = out.open(i);
                        SliceWriter writer = in.begin(i)) {
                    for (ByteBuffer block = reader.next(); block != null; block = reader.next()) {
                        writer.take(block);
                        blocks++;
                        for (int n = 0; n < 20; n++) {
                            PartitionUpdate change = change(table, random, timestamp++);
                            for (TableStore store : List.of(from, to, all)) store.write(change);
                        }
                        if (random.nextInt(3) == 0) from.flush();
                        // After the first block too: by chance alone some runs had no compaction.
                        if (blocks % 5 == 1) from.compact(List.of());
                    }
                    writer.end();
                }
            goLive(in);
        }
        assertThat(blocks).isGreaterThan(3);
        assertThat(PurgeTests.live(to, table))
                .as("seed %d", seed)
                .isEqualTo(PurgeTests.live(all, table));
    }

    private static PartitionUpdate change(TestTable table, Random random, long timestamp) {
        UpdateBuilder update =
                table.update(random.nextInt(40)).at(timestamp).now(UpdateBuilder.LONG_AGO);
        int row = random.nextInt(20);
        return switch (random.nextInt(8)) {
            case 0 -> update.deletePartition().build();
            case 1 -> update.deleteRange(table.from(row), table.to()).build();
            case 2, 3 -> update.deleteRow(row).build();
            case 4 -> update.staticRow().set("s", "s" + timestamp).end().build();
            default -> update.row(row).set("v", text(random, 500)).build();
        };
    }

    // The end of a store

    /** Slices that were read whole. */
    record Recorded(StreamHead head, List<List<byte[]>> blocks) {
        static Recorded of(StreamSource out) throws IOException {
            List<List<byte[]>> slices = new ArrayList<>();
            for (int i = 0; i < out.head().slices(); i++)
                try (SliceReader reader = out.open(i)) {
                    slices.add(rest(reader));
                }
            return new Recorded(out.head(), slices);
        }

        static Recorded of(EngineUnderTest kit, TestTable table) throws IOException {
            TableStore from = kit.open(table);
            RangeTests.fill(from, table);
            try (StreamSource out = from.send(thirds())) {
                return of(out);
            } finally {
                from.close();
            }
        }

        static List<byte[]> rest(SliceReader reader) throws IOException {
            List<byte[]> blocks = new ArrayList<>();
            for (ByteBuffer block = reader.next(); block != null; block = reader.next()) {
                byte[] bytes = new byte[block.remaining()];
                block.get(bytes);
                blocks.add(bytes);
            }
            return blocks;
        }

        void takenBy(StreamSink in) throws IOException {
            for (int i = 0; i < blocks.size(); i++)
                try (SliceWriter writer = in.begin(i)) {
                    takenBy(writer, blocks.get(i));
                }
        }

        static void takenBy(SliceWriter writer, Collection<byte[]> blocks) throws IOException {
            for (byte[] block : blocks) writer.take(ByteBuffer.wrap(block));
            writer.end();
        }
    }

    @Test
    default void slicesAreRefusedOnceTheirStoreHasEndedAtWhateverStage() throws IOException {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        Recorded sent = Recorded.of(kit(), table);
        for (StoreEnd end : StoreEnd.values())
            for (int stage = 0; stage < 4; stage++) {
                TableStore to = kit().open(table);
                StreamSink in = to.receive(sent.head(), RangeTests.everything());
                SliceWriter begun = in.begin(0);
                if (stage > 0) {
                    begun.close();
                    sent.takenBy(in);
                }
                if (stage > 1) in.verify();
                if (stage > 2) in.ingest();
                end.of(to, kit());
                String when = end + " at stage " + stage;
                byte[] block = sent.blocks().get(0).get(0);
                for (int time = 0; time < 2; time++) {
                    assertThatThrownBy(() -> begun.take(ByteBuffer.wrap(block)))
                            .as(when)
                            .isInstanceOf(IllegalStateException.class);
                    assertThatThrownBy(begun::end)
                            .as(when)
                            .isInstanceOf(IllegalStateException.class);
                    assertThatThrownBy(() -> in.begin(1))
                            .as(when)
                            .isInstanceOf(IllegalStateException.class);
                    assertThatThrownBy(in::verify)
                            .as(when)
                            .isInstanceOf(IllegalStateException.class);
                    assertThatThrownBy(in::ingest)
                            .as(when)
                            .isInstanceOf(IllegalStateException.class);
                    in.close();
                    begun.close();
                }
                if (end == StoreEnd.DROP) assertThat(to.spec().directory()).doesNotExist();
                TableStore again = end.after(to, kit());
                assertThat(RangeTests.scan(again, table))
                        .as(when)
                        .hasSize(stage > 2 && end != StoreEnd.DROP ? 12 : 0);
                again.close();
            }
    }

    /** The store, or the sink alone, ends while another thread gives it blocks. */
    @Test
    default void slicesEndAtAnyMoment() throws Exception {
        if (refusesSlices()) return;
        long seed = System.nanoTime();
        Random random = new Random(seed);
        TestTable table = ScanTests.table();
        Recorded sent = Recorded.of(kit(), table);
        // The last: the sink alone.
        List<@Nullable StoreEnd> ends =
                Arrays.asList(StoreEnd.CLOSE, StoreEnd.DROP, StoreEnd.ENGINE_CLOSE, null);
        for (int round = 0; round < 32; round++) {
            StoreEnd end = ends.get(round % 4);
            TableStore to = kit().open(table);
            StreamSink in = to.receive(sent.head(), RangeTests.everything());
            CompletableFuture<Void> taken =
                    CompletableFuture.runAsync(
                            () -> {
                                try (in) {
                                    sent.takenBy(in);
                                    in.verify();
                                    goLive(in);
                                } catch (IOException e) {
                                    throw new UncheckedIOException(e);
                                }
                            });
            LockSupport.parkNanos(random.nextInt(8_000_000));
            if (end == null) in.close();
            else end.of(to, kit());
            Throwable failure = catchThrowable(() -> taken.get(2, TimeUnit.MINUTES));
            if (failure != null)
                assertThat(failure.getCause())
                        .as("round %d, seed %d", round, seed)
                        .isInstanceOfAny(UncheckedIOException.class, IllegalStateException.class);
            if (end == StoreEnd.DROP) assertThat(to.spec().directory()).doesNotExist();
            TableStore again = end == null ? kit().reopen(to) : end.after(to, kit());
            assertThat(RangeTests.scan(again, table).size())
                    .as("round %d, seed %d", round, seed)
                    .isIn(failure == null && end != StoreEnd.DROP ? List.of(12) : List.of(0, 12));
            again.close();
        }
    }

    @Test
    default void slicesOfAStoreThatWasClosedDoNotTouchThoseOfTheNext() throws IOException {
        if (refusesSlices()) return;
        TestTable table = ScanTests.table();
        Recorded sent = Recorded.of(kit(), table);
        TableStore to = kit().open(table);
        StreamSink before = to.receive(sent.head(), RangeTests.everything());
        SliceWriter begun = before.begin(0);
        begun.take(ByteBuffer.wrap(sent.blocks().get(0).get(0)));
        to = kit().reopen(to);
        try (StreamSink in = to.receive(sent.head(), RangeTests.everything())) {
            sent.takenBy(in);
            begun.close();
            before.close();
            goLive(in);
        }
        assertThat(RangeTests.scan(to, table)).hasSize(12);
    }

    @Test
    default void whatIsSentOutlivesADrop() throws IOException {
        if (refusesSlices()) return;
        TestTable table = textTable("");
        TableStore from = kit().open(table);
        fillWithMuch(from, table);
        TableStore to = kit().open(table);
        List<PartitionContent> expected = RangeTests.scan(from, table);
        try (StreamSource out = from.send(thirds());
                StreamSink in = to.receive(out.head(), RangeTests.everything())) {
            try (SliceReader reader = out.open(0);
                    SliceWriter writer = in.begin(0)) {
                writer.take(reader.next());
                Throwable later = catchThrowable(from::drop);
                if (later != null) assertThat(later).isInstanceOf(IllegalStateException.class);
                assertThatThrownBy(from::isEmpty).isInstanceOf(IllegalStateException.class);
                assertThatThrownBy(() -> from.send(thirds()))
                        .isInstanceOf(IllegalStateException.class);
                Recorded.takenBy(writer, Recorded.rest(reader));
            }
            for (int i = 1; i < 3; i++) move(out, in, i);
            goLive(in);
        }
        from.drop();
        assertThat(from.spec().directory()).doesNotExist();
        assertThat(RangeTests.scan(to, table)).isEqualTo(expected);
    }

    @Test
    default void nothingIsReadOnceItsStoreOrItsStreamIsClosed() throws IOException {
        if (refusesSlices()) return;
        for (StoreEnd end : new StoreEnd[] {StoreEnd.CLOSE, StoreEnd.ENGINE_CLOSE, null}) {
            TestTable table = textTable("");
            TableStore from = kit().open(table);
            fillWithMuch(from, table);
            StreamSource out = from.send(thirds());
            SliceReader reader = out.open(0);
            SliceReader unread = out.open(1);
            assertThat(reader.next()).isNotNull();
            if (end == null) out.close();
            else end.of(from, kit());
            for (int time = 0; time < 2; time++) {
                assertThatThrownBy(reader::next).isInstanceOf(IllegalStateException.class);
                assertThatThrownBy(unread::next).isInstanceOf(IllegalStateException.class);
                assertThatThrownBy(() -> out.open(0)).isInstanceOf(IllegalStateException.class);
                reader.close();
                out.close();
            }
            unread.close();
            TableStore again = end == null ? from : end.after(from, kit());
            assertThat(RangeTests.scan(again, table)).hasSize(300);
            again.close();
        }
    }

    @Test
    default void aSliceThatIsClosedEarlyLeavesTheOthersAlone() throws IOException {
        if (refusesSlices()) return;
        TestTable table = textTable("");
        TableStore from = kit().open(table);
        fillWithMuch(from, table);
        try (StreamSource out = from.send(thirds());
                SliceReader other = out.open(2)) {
            SliceReader reader = out.open(0);
            assertThat(reader.next()).isNotNull();
            reader.close();
            reader.close();
            assertThatThrownBy(reader::next).isInstanceOf(IllegalStateException.class);
            assertThat(other.next()).isNotNull();
        }
        // Closing waits for readers: it would hang on a leak.
        assertThat(RangeTests.scan(kit().reopen(from), table)).hasSize(300);
    }
}
