// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.OutgoingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.Test;

/**
 * Parts from store to store, and what is kept of a range. Rocksandra 15 took [left, right) for
 * (left, right]; 18 checked the digest after the ingest, and ingested what had been aborted.
 */
public interface StreamTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** The whole ring, unwrapped. */
    static List<Range<Token>> everything() {
        return everything(Murmur3Partitioner.instance);
    }

    /** The whole ring of a partitioner, unwrapped. */
    static List<Range<Token>> everything(IPartitioner partitioner) {
        Token minimum = partitioner.getMinimumToken();
        return List.of(new Range<>(minimum, minimum));
    }

    private static List<Range<Token>> range(long left, long right) {
        return List.of(new Range<>(TestTable.token(left), TestTable.token(right)));
    }

    private static void fill(TableStore store, TestTable table) {
        List<DecoratedKey> keys = ScanTests.keys(table);
        for (int i = 0; i < keys.size(); i++) {
            UpdateBuilder update = table.update(keys.get(i)).at(2);
            if (i % 3 == 0) update.deletePartition();
            update.at(3).row(i).liveness().set("v", i).end().deleteRow(100 + i);
            if (i % 2 == 0) update.staticRow().set("s", "s" + i).end();
            update.deleteRange(table.from(200), table.before(300));
            store.write(update.build());
            if (i == keys.size() / 2) store.flush();
        }
    }

    private static List<PartitionContent> scan(TableStore store, TestTable table) {
        return PartitionContent.listOf(
                store.scan(DataRange.allData(table.metadata().partitioner), table.all()));
    }

    private static List<DecoratedKey> keysOf(TableStore store, TestTable table) {
        return scan(store, table).stream().map(PartitionContent::key).toList();
    }

    private static List<byte[]> bytesOf(OutgoingParts parts) throws IOException {
        List<byte[]> all = new ArrayList<>();
        for (StreamPart part : parts.manifest().parts()) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            WritableByteChannel channel = Channels.newChannel(bytes);
            assertThat(parts.transferTo(part.index(), channel)).isEqualTo(part.bytes());
            assertThat(channel.isOpen()).isTrue();
            all.add(bytes.toByteArray());
        }
        return all;
    }

    private static ReadableByteChannel channel(byte[] bytes) {
        return Channels.newChannel(new ByteArrayInputStream(bytes));
    }

    /** Sends some ranges whole. */
    static void send(TableStore from, TableStore to, Collection<Range<Token>> ranges) {
        try (OutgoingParts out = from.streamOut(ranges);
                IncomingParts in = to.streamIn(out.manifest(), ranges)) {
            List<byte[]> parts = bytesOf(out);
            for (int i = parts.size() - 1; i >= 0; i--) in.receive(i, channel(parts.get(i)));
            in.verify();
            while (in.ingest()) in.awaitRoom();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private boolean refusedByName() {
        if (kit().capabilities().streams()) return false;
        TestTable table = ScanTests.table();
        TableStore store = kit().open(table);
        assertThatThrownBy(() -> store.streamOut(everything()))
                .isInstanceOf(UnsupportedOperationException.class)
                .hasMessageContaining(kit().engine().name())
                .hasMessageContaining("stream");
        StreamManifest manifest =
                new StreamManifest(
                        kit().engine().name(),
                        1,
                        table.metadata().id,
                        "t",
                        everything(),
                        ByteBuffer.allocate(0),
                        List.of());
        assertThatThrownBy(() -> store.streamIn(manifest, everything()))
                .isInstanceOf(UnsupportedOperationException.class)
                .hasMessageContaining(kit().engine().name())
                .hasMessageContaining("stream");
        return true;
    }

    @Test
    default void whatIsStreamedArrivesAsItWas() {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        fill(from, table);
        send(from, to, everything());
        assertThat(scan(to, table)).isEqualTo(scan(from, table)).hasSize(12);
        assertThat(to.isEmpty()).isFalse();
        for (DecoratedKey key : ScanTests.keys(table)) assertThat(to.mayContain(key)).isTrue();
        to.flush();
        to.compact(List.of());
        to = kit().reopen(to);
        assertThat(scan(to, table)).isEqualTo(scan(from, table));
    }

    /** Rocksandra 15: boundary partitions were not streamed. */
    @Test
    default void aRangeExcludesItsLeftTokenAndIncludesItsRight() {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        fill(from, table);
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
            List<Range<Token>> wanted = range(range[0], range[1]);
            send(from, to, wanted);
            assertThat(keysOf(to, table))
                    .as("streamed of (%d, %d]", range[0], range[1])
                    .isEqualTo(
                            ScanTests.keys(table).stream()
                                    .filter(key -> wanted.get(0).contains(key.getToken()))
                                    .toList());
            to.close();
        }
    }

    @Test
    default void severalRangesInAnyOrderAreStreamedOnceEach() {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        fill(from, table);
        List<Range<Token>> ranges = new ArrayList<>();
        ranges.addAll(range(42, 43));
        ranges.addAll(range(Long.MIN_VALUE, -1));
        ranges.addAll(range(0, 1));
        send(from, to, ranges);
        assertThat(keysOf(to, table)).hasSize(5);
    }

    @Test
    default void theManifestSaysExactlyWhatIsSent() throws IOException {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        fill(from, table);
        OutgoingParts out = from.streamOut(everything());
        try (out) {
            StreamManifest manifest = out.manifest();
            assertThat(manifest.engine()).isEqualTo(kit().engine().name());
            assertThat(manifest.table()).isEqualTo(table.metadata().id);
            assertThat(manifest.columnFamily()).isEqualTo("t");
            assertThat(manifest.ranges()).isEqualTo(everything());
            assertThat(manifest.parts()).isNotEmpty();
            List<byte[]> parts = bytesOf(out);
            for (StreamPart part : manifest.parts()) {
                byte[] bytes = parts.get(part.index());
                assertThat(part.bytes()).isEqualTo(bytes.length);
                assertThat(part.checksum())
                        .isEqualTo(
                                XXHashFactory.fastestJavaInstance()
                                        .hash64()
                                        .hash(ByteBuffer.wrap(bytes), 0));
            }
            // Again, as on a retry.
            List<byte[]> again = bytesOf(out);
            for (int i = 0; i < parts.size(); i++) assertThat(again.get(i)).isEqualTo(parts.get(i));
            assertThatThrownBy(
                            () ->
                                    out.transferTo(
                                            parts.size(),
                                            Channels.newChannel(new ByteArrayOutputStream())))
                    .isInstanceOf(IndexOutOfBoundsException.class);
        }
        out.close();
    }

    @Test
    default void whatIsWrittenAfterwardsIsNotSent() throws IOException {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        fill(from, table);
        List<PartitionContent> before = scan(from, table);
        try (OutgoingParts out = from.streamOut(everything());
                IncomingParts in = to.streamIn(out.manifest(), everything())) {
            for (DecoratedKey key : ScanTests.keys(table))
                from.write(table.update(key).at(99).deletePartition().build());
            from.write(table.update(table.keyWithToken(7, 7)).row(1).liveness().build());
            from.flush();
            from.compact(List.of());
            List<byte[]> parts = bytesOf(out);
            for (int i = 0; i < parts.size(); i++) in.receive(i, channel(parts.get(i)));
            while (in.ingest()) in.awaitRoom();
        }
        assertThat(scan(to, table)).isEqualTo(before);
    }

    @Test
    default void whatArrivesMergesWithWhatIsThere() {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        ComparedStore from = kit().compared(table);
        ComparedStore to = kit().compared(table);
        TableStore both = kit().openReference(table);
        DecoratedKey key = table.keyWithToken(5, 0);
        DecoratedKey other = table.keyWithToken(6, 0);
        var sent =
                List.of(
                        table.update(key).at(3).deletePartition().build(),
                        table.update(key).at(4).row(1).set("v", 4).build(),
                        table.update(key).at(8).deleteRow(2).build(),
                        table.update(key).at(5).deleteRange(table.from(3), table.to(4)).build(),
                        table.update(other).at(1).row(1).liveness().build());
        var there =
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
        send(from.store(), to.store(), everything());
        List<PartitionContent> expected = scan(both, table);
        assertThat(scan(to.store(), table)).isEqualTo(expected);
        to.flush();
        to.compact();
        to.reopen();
        assertThat(scan(to.store(), table)).isEqualTo(expected);
    }

    @Test
    default void writesWhileAStreamIsUnderWayAreKept() throws IOException {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        fill(from, table);
        try (OutgoingParts out = from.streamOut(everything());
                IncomingParts in = to.streamIn(out.manifest(), everything())) {
            List<byte[]> parts = bytesOf(out);
            DecoratedKey key = table.keyWithToken(77, 0);
            to.write(table.update(key).row(1).liveness().build());
            for (int i = 0; i < parts.size(); i++) in.receive(i, channel(parts.get(i)));
            to.write(table.update(key).row(2).liveness().build());
            to.flush();
            in.verify();
            to.write(table.update(key).row(3).liveness().build());
            while (in.ingest()) in.awaitRoom();
            to.write(table.update(key).row(4).liveness().build());
            assertThat(PartitionContent.of(to.read(key, Slices.ALL, table.all(), false)).rows())
                    .hasSize(4);
        }
        assertThat(scan(to, table)).hasSize(13);
    }

    /** Rocksandra 18: an aborted stream was ingested. */
    @Test
    default void nothingIsVisibleBeforeTheIngestNorAfterAnAbort() throws IOException {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        fill(from, table);
        for (boolean verified : new boolean[] {false, true}) {
            try (OutgoingParts out = from.streamOut(everything())) {
                IncomingParts in = to.streamIn(out.manifest(), everything());
                try (in) {
                    List<byte[]> parts = bytesOf(out);
                    for (int i = 0; i < parts.size(); i++) in.receive(i, channel(parts.get(i)));
                    if (verified) in.verify();
                    assertThat(scan(to, table)).isEmpty();
                    assertThat(to.isEmpty()).isTrue();
                }
                in.close();
                assertThatThrownBy(in::ingest).isInstanceOf(IllegalStateException.class);
            }
            assertThat(scan(to, table)).isEmpty();
            to = kit().reopen(to);
            assertThat(scan(to, table)).isEmpty();
            assertThat(to.isEmpty()).isTrue();
        }
        send(from, to, everything());
        assertThat(scan(to, table)).hasSize(12);
    }

    /** Rocksandra 18: the digest was checked after the ingest. */
    @Test
    default void aDamagedOrShortPartIsRefusedAndCanBeReceivedAgain() throws IOException {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        fill(from, table);
        try (OutgoingParts out = from.streamOut(everything());
                IncomingParts in = to.streamIn(out.manifest(), everything())) {
            List<byte[]> parts = bytesOf(out);
            for (int i = 0; i < parts.size(); i++) {
                int index = i;
                byte[] part = parts.get(i);
                for (int place : new int[] {0, part.length / 2, part.length - 1}) {
                    byte[] damaged = part.clone();
                    damaged[place] ^= 1;
                    assertThatThrownBy(() -> in.receive(index, channel(damaged)))
                            .isInstanceOf(IOException.class);
                }
                byte[] shortened = Arrays.copyOf(part, part.length - 1);
                assertThatThrownBy(() -> in.receive(index, channel(shortened)))
                        .isInstanceOf(IOException.class);
                assertThatThrownBy(() -> in.receive(index, channel(new byte[0])))
                        .isInstanceOf(IOException.class);
                assertThat(scan(to, table)).isEmpty();
                in.receive(index, channel(part));
                assertThatThrownBy(() -> in.receive(index, channel(part)))
                        .isInstanceOf(IllegalStateException.class);
            }
            while (in.ingest()) in.awaitRoom();
        }
        assertThat(scan(to, table)).isEqualTo(scan(from, table));
    }

    @Test
    default void aMissingPartIsNoticedBeforeAnythingIsLive() throws IOException {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        fill(from, table);
        try (OutgoingParts out = from.streamOut(everything());
                IncomingParts in = to.streamIn(out.manifest(), everything())) {
            List<byte[]> parts = bytesOf(out);
            for (int i = 1; i < parts.size(); i++) in.receive(i, channel(parts.get(i)));
            assertThatThrownBy(in::verify).isInstanceOf(IOException.class);
            assertThatThrownBy(in::ingest).isInstanceOf(IOException.class);
            assertThatThrownBy(() -> in.receive(parts.size(), channel(new byte[0])))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThat(scan(to, table)).isEmpty();
        }
        assertThat(to.isEmpty()).isTrue();
    }

    @Test
    default void keysOutsideTheOwnedRangesAreRefused() {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        fill(from, table);
        // 42 is excluded, being the left end; the keys of 43 and above are owned.
        Throwable refusal =
                catchThrowable(
                        () -> {
                            try (OutgoingParts out = from.streamOut(range(41, 43));
                                    IncomingParts in =
                                            to.streamIn(
                                                    out.manifest(), range(42, Long.MAX_VALUE))) {
                                List<byte[]> parts = bytesOf(out);
                                for (int i = 0; i < parts.size(); i++)
                                    in.receive(i, channel(parts.get(i)));
                                while (in.ingest()) in.awaitRoom();
                            }
                        });
        assertThat(refusal).isNotNull();
        assertThat(scan(to, table)).isEmpty();
        assertThat(to.isEmpty()).isTrue();
    }

    @Test
    default void partsOfSomethingElseAreRefusedBeforeAByteIsSent() {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        fill(from, table);
        TestTable otherTable = ScanTests.table();
        TableStore other = kit().open(otherTable);
        TableStore index =
                kit().engine()
                        .openStore(new StoreSpec(kit().newDirectory(), "t.i", 1, table.ref()));
        TableStore to = kit().open(table);
        try (OutgoingParts out = from.streamOut(everything())) {
            StreamManifest good = out.manifest();
            for (TableStore store : List.of(other, index))
                assertThatThrownBy(() -> store.streamIn(good, everything()))
                        .isInstanceOf(Exception.class);
            for (StreamManifest bad :
                    List.of(
                            new StreamManifest(
                                    "another",
                                    good.formatVersion(),
                                    good.table(),
                                    good.columnFamily(),
                                    good.ranges(),
                                    good.dictionary(),
                                    good.parts()),
                            new StreamManifest(
                                    good.engine(),
                                    good.formatVersion() + 1,
                                    good.table(),
                                    good.columnFamily(),
                                    good.ranges(),
                                    good.dictionary(),
                                    good.parts())))
                assertThatThrownBy(() -> to.streamIn(bad, everything()))
                        .isInstanceOf(Exception.class);
        }
        assertThat(to.isEmpty()).isTrue();
        assertThat(other.isEmpty()).isTrue();
    }

    @Test
    default void aRangeWithNothingInItIsStreamedAsNothing() {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        send(from, to, everything());
        fill(from, table);
        send(from, to, range(500, 600));
        assertThat(scan(to, table)).isEmpty();
    }

    @Test
    default void storesWhoseColumnsWereAddedInAnotherOrderUnderstandEachOther() {
        if (refusedByName()) return;
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
        send(from, to, everything());

        PartitionContent content =
                PartitionContent.of(to.read(key, Slices.ALL, second.all(), false));
        assertThat(content.cell("a", 1).buffer().getInt(0)).isEqualTo(2);
        assertThat(content.cell("v", 1).buffer().getInt(0)).isEqualTo(2);
        assertThat(content.cell("z", 1).buffer().getInt(0)).isEqualTo(3);
    }

    @Test
    default void streamsOfLargeContentArriveWhole() {
        if (refusedByName()) return;
        TestTable table = TestTable.of("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))");
        TableStore from = kit().open(table);
        TableStore to = kit().open(table);
        for (int i = 0; i < 3000; i++) {
            from.write(table.update(i).row(i).set("v", "value " + i).build());
            if (i % 1000 == 500) from.flush();
        }
        List<Range<Token>> low = range(Long.MIN_VALUE, 0);
        send(from, to, low);
        int half = scan(to, table).size();
        assertThat(half).isBetween(1000, 2000);
        send(from, to, range(0, Long.MIN_VALUE));
        assertThat(scan(to, table)).hasSize(3000).isEqualTo(scan(from, table));
    }

    // The end of a store

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

    /** Parts that were read whole. */
    record Sent(StreamManifest manifest, List<byte[]> parts) {
        static Sent of(EngineUnderTest kit, TestTable table) throws IOException {
            TableStore from = kit.open(table);
            fill(from, table);
            try (OutgoingParts out = from.streamOut(everything())) {
                return new Sent(out.manifest(), bytesOf(out));
            } finally {
                from.close();
            }
        }

        void receivedBy(IncomingParts in) throws IOException {
            for (int i = 0; i < parts.size(); i++) in.receive(i, channel(parts.get(i)));
        }
    }

    /** Issue 19, A1: parts that were verified after a drop ended the process. */
    @Test
    default void partsAreRefusedOnceTheirStoreHasEndedAtWhateverStage() throws IOException {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        Sent sent = Sent.of(kit(), table);
        for (StoreEnd end : StoreEnd.values())
            for (int stage = 0; stage < 4; stage++) {
                TableStore to = kit().open(table);
                IncomingParts in = to.streamIn(sent.manifest(), everything());
                if (stage > 0) sent.receivedBy(in);
                if (stage > 1) in.verify();
                if (stage > 2) in.ingest();
                end.of(to, kit());
                String when = end + " at stage " + stage;
                for (int time = 0; time < 2; time++) {
                    assertThatThrownBy(() -> in.receive(0, channel(sent.parts().get(0))))
                            .as(when)
                            .isInstanceOf(IllegalStateException.class);
                    assertThatThrownBy(in::verify)
                            .as(when)
                            .isInstanceOf(IllegalStateException.class);
                    assertThatThrownBy(in::ingest)
                            .as(when)
                            .isInstanceOf(IllegalStateException.class);
                    in.close();
                }
                if (end == StoreEnd.DROP) assertThat(to.spec().directory()).doesNotExist();
                TableStore again = end.after(to, kit());
                assertThat(scan(again, table))
                        .as(when)
                        .hasSize(stage > 2 && end != StoreEnd.DROP ? 12 : 0);
                again.close();
            }
    }

    @Test
    default void aStoreEndsWhileAPartArrives() throws Exception {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        Sent sent = Sent.of(kit(), table);
        for (StoreEnd end : StoreEnd.values()) {
            TableStore to = kit().open(table);
            IncomingParts in = to.streamIn(sent.manifest(), everything());
            ReadableByteChannel whole = channel(sent.parts().get(0));
            try (ReadableByteChannel interrupted =
                    new ReadableByteChannel() {
                        @Override
                        public int read(ByteBuffer bytes) throws IOException {
                            end.of(to, kit());
                            return whole.read(bytes);
                        }

                        @Override
                        public boolean isOpen() {
                            return true;
                        }

                        @Override
                        public void close() {}
                    }) {
                Throwable failure = catchThrowable(() -> in.receive(0, interrupted));
                if (failure != null)
                    assertThat(failure)
                            .isInstanceOfAny(IOException.class, IllegalStateException.class);
            }
            assertThatThrownBy(in::ingest).isInstanceOf(IllegalStateException.class);
            if (end == StoreEnd.DROP) assertThat(to.spec().directory()).doesNotExist();
            in.close();
            if (end == StoreEnd.DROP) assertThat(to.spec().directory()).doesNotExist();
            TableStore again = end.after(to, kit());
            assertThat(scan(again, table)).isEmpty();
            again.close();
        }
    }

    /** Issue 19, A1: the end at any moment of a stream, for which chance has to do. */
    @Test
    default void aStoreEndsAtAnyMomentOfAStream() throws Exception {
        if (refusedByName()) return;
        long seed = System.nanoTime();
        Random random = new Random(seed);
        TestTable table = ScanTests.table();
        Sent sent = Sent.of(kit(), table);
        for (int round = 0; round < 30; round++) {
            StoreEnd end = StoreEnd.values()[round % 3];
            TableStore to = kit().open(table);
            IncomingParts in = to.streamIn(sent.manifest(), everything());
            CompletableFuture<Void> taken =
                    CompletableFuture.runAsync(
                            () -> {
                                try (in) {
                                    sent.receivedBy(in);
                                    in.verify();
                                    in.ingest();
                                } catch (IOException e) {
                                    throw new UncheckedIOException(e);
                                }
                            });
            LockSupport.parkNanos(random.nextInt(8_000_000));
            end.of(to, kit());
            Throwable failure = catchThrowable(() -> taken.get(30, TimeUnit.SECONDS));
            if (failure != null)
                assertThat(failure.getCause())
                        .as("round %d, seed %d", round, seed)
                        .isInstanceOfAny(UncheckedIOException.class, IllegalStateException.class);
            if (end == StoreEnd.DROP) assertThat(to.spec().directory()).doesNotExist();
            TableStore again = end.after(to, kit());
            assertThat(scan(again, table).size())
                    .as("round %d, seed %d", round, seed)
                    .isIn(failure == null && end != StoreEnd.DROP ? List.of(12) : List.of(0, 12));
            again.close();
        }
    }

    /** Names of directories began anew with each opening, and those of before deleted them. */
    @Test
    default void partsOfAStoreThatWasClosedDoNotTouchThoseOfTheNext() throws IOException {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        Sent sent = Sent.of(kit(), table);
        TableStore to = kit().open(table);
        IncomingParts before = to.streamIn(sent.manifest(), everything());
        to = kit().reopen(to);
        try (IncomingParts in = to.streamIn(sent.manifest(), everything())) {
            sent.receivedBy(in);
            before.close();
            in.ingest();
        }
        assertThat(scan(to, table)).hasSize(12);
    }

    @Test
    default void whatIsSentStaysWholeWhenItsStoreEnds() throws Exception {
        if (refusedByName()) return;
        TestTable table = ScanTests.table();
        for (StoreEnd end : StoreEnd.values()) {
            TableStore from = kit().open(table);
            fill(from, table);
            OutgoingParts out = from.streamOut(everything());
            CompletableFuture<Void> ended;
            try (out) {
                List<byte[]> parts = bytesOf(out);
                ended = CompletableFuture.runAsync(() -> end.of(from, kit()));
                while (catchThrowable(from::isEmpty) == null) Thread.onSpinWait();
                List<byte[]> again = bytesOf(out);
                for (int i = 0; i < parts.size(); i++)
                    assertThat(again.get(i)).isEqualTo(parts.get(i));
            }
            ended.get(30, TimeUnit.SECONDS);
            out.close();
            if (end == StoreEnd.ENGINE_CLOSE) kit().restart();
        }
    }

    // Keeping ranges

    /** Rocksandra 15: cleanup deleted an owned boundary partition. */
    @Test
    default void keepingRangesExcludesTheirLeftTokensAndIncludesTheirRight() {
        TestTable table = ScanTests.table();
        if (!kit().capabilities().retainRanges()) {
            TableStore store = kit().open(table);
            assertThatThrownBy(() -> store.retainRanges(everything()))
                    .isInstanceOf(UnsupportedOperationException.class)
                    .hasMessageContaining(kit().engine().name())
                    .hasMessageContaining("retainRanges");
            return;
        }
        List<List<Range<Token>>> cases = new ArrayList<>();
        cases.add(everything());
        cases.add(List.of());
        cases.add(range(1, 42));
        cases.add(range(42, Long.MIN_VALUE));
        cases.add(range(Long.MIN_VALUE, Long.MIN_VALUE + 1));
        cases.add(List.of(range(42, 43).get(0), range(Long.MIN_VALUE, -1).get(0)));
        for (List<Range<Token>> owned : cases) {
            TableStore store = kit().open(table);
            fill(store, table);
            store.retainRanges(owned);
            List<DecoratedKey> expected =
                    ScanTests.keys(table).stream()
                            .filter(
                                    key ->
                                            owned.stream()
                                                    .anyMatch(
                                                            range ->
                                                                    range.contains(key.getToken())))
                            .toList();
            assertThat(keysOf(store, table)).as("kept of " + owned).isEqualTo(expected);
            for (DecoratedKey key : ScanTests.keys(table))
                assertThat(
                                PartitionContent.of(store.read(key, Slices.ALL, table.all(), false))
                                        != null)
                        .isEqualTo(expected.contains(key));
            store.compact(List.of());
            store = kit().reopen(store);
            assertThat(keysOf(store, table)).as("kept of " + owned).isEqualTo(expected);
            // What is written afterwards is not removed by what was removed before.
            store.write(table.update(table.keyWithToken(41, 0)).at(1).row(1).liveness().build());
            assertThat(keysOf(store, table)).contains(table.keyWithToken(41, 0));
            store.close();
        }
    }
}
