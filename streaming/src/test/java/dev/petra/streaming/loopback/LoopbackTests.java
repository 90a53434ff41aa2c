// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.loopback;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.conformance.PartitionContent;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.streaming.staging.IncomingSlices;
import dev.petra.streaming.staging.OutgoingSlice;
import dev.petra.streaming.staging.SlicePlan;
import dev.petra.streaming.wire.Frame;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * Slices from store to store by Cassandra's own streaming connections, without a node. A connection
 * ends at any byte, or a peer does not keep to the protocol: the session fails with a reason, the
 * receiver is as it was, and nothing stays behind.
 */
public abstract class LoopbackTests {
    private static final OutgoingSlice.Check WHOLE = () -> {};
    private static final OutgoingSlice.Progress UNTOLD = bytes -> {};
    private static final IncomingSlices.Listener UNHEARD = (slice, head) -> UNTOLD;

    private final EngineUnderTest kit;
    private final TestTable table =
            TestTable.of("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))");

    /**
     * @param kit of the engine that the tests are about; one that streams slices
     */
    protected LoopbackTests(EngineUnderTest kit) {
        this.kit = kit;
    }

    @AfterEach
    void close() {
        kit.close();
    }

    /** Some hundred kilobytes, half of which can be packed. */
    private TableStore filled() {
        TableStore store = kit.open(table);
        Random random = new Random(1);
        for (int i = 0; i < 40; i++) {
            StringBuilder text = new StringBuilder();
            while (text.length() < 6000)
                text.append(i % 2 == 0 ? "a" : (char) (' ' + random.nextInt(90)));
            store.write(table.update(i).row(i).set("v", text.toString()).build());
        }
        store.flush();
        return store;
    }

    private List<PartitionContent> content(TableStore store) {
        return PartitionContent.listOf(
                store.scan(DataRange.allData(table.metadata().partitioner), table.all()));
    }

    private static IncomingSlices session(TableStore to) {
        return new IncomingSlices(head -> to.receive(head, RangeTests.everything()));
    }

    /** At least three, whatever the engine's estimates are. */
    private static List<OutgoingSlice> slices(TableStore from) {
        List<SliceRanges> plan = new ArrayList<>();
        long before = Long.MIN_VALUE;
        for (long token : new long[] {0, 1L << 61, Long.MIN_VALUE}) {
            plan.addAll(SlicePlan.of(from, RangeTests.range(before, token), 1 << 30, 1));
            before = token;
        }
        assertThat(plan).hasSize(3);
        return OutgoingSlice.of(from.send(plan), plan);
    }

    private static void write(OutgoingSlice slice, Loopback connection) {
        try {
            slice.write(connection.output(), Loopback.UNLIMITED, WHOLE, UNTOLD);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The directories of a store that have something in them. */
    private static List<Path> directories(TableStore store) throws IOException {
        try (Stream<Path> all = Files.walk(store.spec().directory())) {
            return all.filter(Files::isDirectory).filter(each -> !isEmpty(each)).sorted().toList();
        }
    }

    private static boolean isEmpty(Path directory) {
        try (Stream<Path> entries = Files.list(directory)) {
            return entries.findAny().isEmpty();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Test
    void aStreamArrivesByOneConnection() throws Exception {
        TableStore from = filled();
        TableStore to = kit.open(table.twin());
        try (IncomingSlices session = session(to);
                Loopback connection = new Loopback()) {
            for (OutgoingSlice slice : slices(from)) {
                long[] moved = new long[1];
                CompletableFuture<Long> written =
                        CompletableFuture.supplyAsync(
                                () -> {
                                    try {
                                        return slice.write(
                                                connection.output(),
                                                Loopback.UNLIMITED,
                                                WHOLE,
                                                bytes -> moved[0] += bytes);
                                    } catch (IOException e) {
                                        throw new UncheckedIOException(e);
                                    }
                                },
                                task -> new Thread(task).start());
                long received = session.receive(connection.input(), UNHEARD);
                assertThat(written.get(1, TimeUnit.MINUTES)).isEqualTo(received);
                assertThat(moved[0]).isEqualTo(received);
                assertThat(content(to)).isEmpty();
                slice.finish();
            }
            session.ingest();
            assertThat(content(to)).isEqualTo(content(from)).hasSize(40);
        }
    }

    /** Each slice by a connection of its own, at once. */
    @Test
    void slicesArriveInAnyOrder() throws Exception {
        TableStore from = filled();
        TableStore to = kit.open(table.twin());
        List<OutgoingSlice> slices = new ArrayList<>(slices(from));
        Collections.reverse(slices);
        List<Loopback> connections = new ArrayList<>();
        try (IncomingSlices session = session(to)) {
            List<CompletableFuture<Void>> received = new ArrayList<>();
            for (OutgoingSlice slice : slices) {
                Loopback connection = new Loopback();
                connections.add(connection);
                received.add(
                        CompletableFuture.runAsync(
                                () -> {
                                    try {
                                        session.receive(connection.input(), UNHEARD);
                                    } catch (IOException e) {
                                        throw new UncheckedIOException(e);
                                    }
                                },
                                task -> new Thread(task).start()));
                write(slice, connection);
                slice.finish();
            }
            for (CompletableFuture<Void> each : received) each.get(1, TimeUnit.MINUTES);
            session.ingest();
            assertThat(content(to)).isEqualTo(content(from)).hasSize(40);
        } finally {
            connections.forEach(Loopback::close);
        }
    }

    /** The connection ends, or the bytes are damaged, anywhere. */
    @Test
    void aTornOrDamagedStreamLeavesNothing() throws Exception {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        TableStore from = filled();
        TableStore to = kit.open(table.twin());
        to.write(table.update(99).at(1).row(9_999).set("v", "mine").build());
        List<PartitionContent> before = content(to);
        List<Path> directories = directories(to);
        byte[] whole = bytes(from);
        for (int trial = 0; trial < 24; trial++) {
            byte[] sent;
            int place = random.nextInt(whole.length);
            boolean torn = trial % 2 == 0;
            if (torn) sent = Arrays.copyOf(whole, place);
            else {
                sent = whole.clone();
                sent[place] ^= (byte) (1 << random.nextInt(8));
            }
            String what = "%s at %d of %d, seed %d".formatted(torn, place, whole.length, seed);
            assertThatThrownBy(() -> take(to, sent)).as(what).isInstanceOf(IOException.class);
            assertThat(content(to)).as(what).isEqualTo(before);
            assertThat(directories(to)).as(what).isEqualTo(directories);
        }
    }

    /** Each frame is whole, and is not where it should be. */
    @Test
    void framesOutOfPlaceLeaveNothing() throws Exception {
        TableStore from = filled();
        TableStore to = kit.open(table.twin());
        to.write(table.update(99).at(1).row(9_999).set("v", "mine").build());
        List<PartitionContent> before = content(to);
        List<Path> directories = directories(to);
        List<List<byte[]>> slices = frames(bytes(from));
        List<byte[]> first = slices.get(0);
        assertThat(first).hasSizeGreaterThan(3);
        List<byte[]> all = slices.stream().flatMap(List::stream).toList();

        List<byte[]> twice = new ArrayList<>(all);
        twice.addAll(first);
        List<byte[]> exchanged = new ArrayList<>(all);
        Collections.swap(exchanged, 1, 2);
        List<byte[]> leftOut = new ArrayList<>(all);
        leftOut.remove(2);
        List<byte[]> behindTheEnd = new ArrayList<>(all);
        behindTheEnd.add(first.get(1));
        List<byte[]> ofAnother = new ArrayList<>(all);
        ofAnother.set(2, slices.get(1).get(2));
        List<byte[]> incomplete = all.subList(0, all.size() - slices.get(2).size());
        Map<String, List<byte[]>> wrong =
                Map.of(
                        "comes again", twice,
                        "where frame 1", exchanged,
                        "where frame 2", leftOut,
                        "begins with", behindTheEnd,
                        "where frame 2 of", ofAnother,
                        "", incomplete);
        for (Map.Entry<String, List<byte[]>> each : wrong.entrySet()) {
            String what = each.getKey();
            assertThatThrownBy(() -> take(to, joined(each.getValue())))
                    .as(what)
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining(what);
            assertThat(content(to)).as(what).isEqualTo(before);
            assertThat(directories(to)).as(what).isEqualTo(directories);
        }
        // What they were made of is taken.
        take(to, joined(all));
        assertThat(content(to)).hasSize(41);
    }

    /** Takes all slices that some bytes have, and makes them live. */
    private static void take(TableStore to, byte[] sent) throws Exception {
        try (IncomingSlices session = session(to);
                Loopback connection = new Loopback()) {
            CompletableFuture<Void> written =
                    CompletableFuture.runAsync(
                            () -> {
                                try {
                                    connection.output().write(ByteBuffer.wrap(sent));
                                    connection.output().flush();
                                } catch (IOException e) {
                                    throw new UncheckedIOException(e);
                                } finally {
                                    connection.cut();
                                }
                            },
                            task -> new Thread(task).start());
            try {
                for (long left = sent.length; left > 0; )
                    left -= session.receive(connection.input(), UNHEARD);
                session.ingest();
            } catch (IOException e) {
                if (!session.isEmpty())
                    assertThatThrownBy(session::ingest).isInstanceOf(IOException.class);
                throw e;
            } finally {
                connection.cut();
                // It may have failed, as the reader has.
                written.handle((done, failure) -> failure).get(1, TimeUnit.MINUTES);
            }
        }
    }

    /** Of each slice its frames, with what follows each. */
    private static List<List<byte[]>> frames(byte[] sent) throws IOException {
        List<List<byte[]>> slices = new ArrayList<>();
        DataInputBuffer in = new DataInputBuffer(sent);
        while (in.available() > 0) {
            Frame frame = Frame.read(in);
            if (frame.kind() == Frame.Kind.HEAD) slices.add(new ArrayList<>());
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            frame.write(new DataOutputStream(bytes));
            byte[] content = new byte[frame.packed()];
            in.readFully(content);
            bytes.write(content);
            slices.get(slices.size() - 1).add(bytes.toByteArray());
        }
        return slices;
    }

    private static byte[] joined(List<byte[]> frames) {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        frames.forEach(all::writeBytes);
        return all.toByteArray();
    }

    /** All slices, as they go over a connection. */
    private static byte[] bytes(TableStore from) throws Exception {
        try (Loopback connection = new Loopback()) {
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            for (OutgoingSlice slice : slices(from)) {
                CompletableFuture<Void> written =
                        CompletableFuture.runAsync(
                                () -> write(slice, connection), task -> new Thread(task).start());
                Frame read;
                do {
                    read = Frame.read(connection.input());
                    read.write(new DataOutputStream(all));
                    byte[] bytes = new byte[read.packed()];
                    connection.input().readFully(bytes);
                    all.write(bytes);
                } while (read.kind() != Frame.Kind.END);
                written.get(1, TimeUnit.MINUTES);
                slice.finish();
            }
            return all.toByteArray();
        }
    }

    /** What was read is not all that was asked for: the receiver does not take it for whole. */
    @Test
    void aSliceThatIsNotWholeDoesNotEnd() throws Exception {
        TableStore from = filled();
        TableStore to = kit.open(table.twin());
        int[] checks = new int[1];
        int[] frames = new int[1];
        for (boolean atEnd : new boolean[] {false, true})
            try (IncomingSlices session = session(to);
                    Loopback connection = new Loopback()) {
                OutgoingSlice slice = slices(from).get(0);
                int most = checks[0];
                checks[0] = 0;
                CompletableFuture<Void> written =
                        CompletableFuture.runAsync(
                                () -> {
                                    try {
                                        slice.write(
                                                connection.output(),
                                                Loopback.UNLIMITED,
                                                () -> {
                                                    if (++checks[0] == (atEnd ? most : -1))
                                                        throw new IOException("taken away");
                                                },
                                                bytes -> frames[0]++);
                                    } catch (IOException e) {
                                        throw new UncheckedIOException(e);
                                    } finally {
                                        if (atEnd) connection.cut();
                                    }
                                },
                                task -> new Thread(task).start());
                if (atEnd) {
                    assertThatThrownBy(() -> session.receive(connection.input(), UNHEARD))
                            .isInstanceOf(IOException.class)
                            .hasMessageContaining("ends");
                    assertThatThrownBy(() -> written.get(1, TimeUnit.MINUTES))
                            .hasMessageContaining("taken away");
                    assertThatThrownBy(session::ingest).isInstanceOf(IOException.class);
                } else {
                    session.receive(connection.input(), UNHEARD);
                    written.get(1, TimeUnit.MINUTES);
                    // Before each block and the end; the other frame is the head.
                    assertThat(checks[0]).isEqualTo(frames[0] - 1).isGreaterThan(1);
                }
            }
        assertThat(content(to)).isEmpty();
    }

    /** The slices hold the sender's store until the last is finished. */
    @Test
    void theLastSliceReleasesTheStore() throws Exception {
        TableStore from = filled();
        TableStore to = kit.open(table.twin());
        List<OutgoingSlice> slices = slices(from);
        OutgoingSlice last = slices.get(0);
        for (OutgoingSlice slice : slices.subList(1, 3)) {
            slice.finish();
            slice.finish();
        }
        try (IncomingSlices session = session(to);
                Loopback connection = new Loopback()) {
            CompletableFuture<Void> written =
                    CompletableFuture.runAsync(
                            () -> write(last, connection), task -> new Thread(task).start());
            session.receive(connection.input(), UNHEARD);
            written.get(1, TimeUnit.MINUTES);
            last.finish();
            assertThatThrownBy(() -> write(last, connection))
                    .isInstanceOf(IllegalStateException.class);
        }
    }
}
