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
import dev.petra.engine.stream.StreamHead;
import dev.petra.streaming.staging.IdleLimit;
import dev.petra.streaming.staging.IncomingSlices;
import dev.petra.streaming.staging.OutgoingSlice;
import dev.petra.streaming.staging.SlicePlan;
import dev.petra.streaming.wire.Frame;
import dev.petra.streaming.wire.HeadCodec;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import net.jpountz.lz4.LZ4Factory;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.Timeout.ThreadMode;

/**
 * Slices from store to store by Cassandra's own streaming connections, without a node. A connection
 * ends at any byte, or a peer does not keep to the protocol: the session fails with a reason, the
 * receiver is as it was, and nothing stays behind.
 */
public abstract class LoopbackTests {
    private static final OutgoingSlice.Check WHOLE = () -> {};
    private static final OutgoingSlice.Progress UNTOLD = bytes -> {};
    private static final IncomingSlices.Listener UNHEARD = (slice, head) -> UNTOLD;

    private static final IdleLimit SOON = new IdleLimit(Duration.ofMillis(500));

    private static final int MOST = Integer.MAX_VALUE;

    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());

    /** Of a frame: docs/FORMAT.md has them. */
    private static final int VERSION_AT = 4;

    private static final int PLAIN_AT = 24;
    private static final int CHECKSUM_AT = 32;

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

    private static IncomingSlices session(TableStore to, IdleLimit idle) {
        return new IncomingSlices(
                "/10.0.0.7", "ks.t", idle, head -> to.receive(head, RangeTests.everything()));
    }

    private static IncomingSlices session(TableStore to) {
        return new IncomingSlices(head -> to.receive(head, RangeTests.everything()));
    }

    /** Three where that many thirds have rows, whatever the engine's estimates are. */
    private static List<OutgoingSlice> slices(TableStore from) {
        List<SliceRanges> plan = new ArrayList<>();
        long before = Long.MIN_VALUE;
        for (long token : new long[] {0, 1L << 61, Long.MIN_VALUE}) {
            plan.addAll(SlicePlan.of(from, RangeTests.range(before, token), 1 << 30, 1));
            before = token;
        }
        return OutgoingSlice.of(from.send(plan), plan);
    }

    private static void write(OutgoingSlice slice, Loopback connection) {
        try {
            slice.write(
                    connection.output(), Loopback.UNLIMITED, WHOLE, UNTOLD, Patience.withoutEnd());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The directories of a store that have something in them. */
    private static Set<Path> directories(TableStore store) throws IOException {
        Path root = store.spec().directory();
        Set<Path> directories = new TreeSet<>();
        Files.walkFileTree(
                root,
                new SimpleFileVisitor<Path>() {
                    @Override
                    public FileVisitResult preVisitDirectory(
                            Path directory, BasicFileAttributes attributes) {
                        return directory.equals(root)
                                ? FileVisitResult.CONTINUE
                                : visitFile(directory, attributes);
                    }

                    @Override
                    public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
                        directories.add(Objects.requireNonNull(file.getParent()));
                        return FileVisitResult.CONTINUE;
                    }

                    @Override
                    public FileVisitResult visitFileFailed(Path file, IOException e)
                            throws IOException {
                        // The engine may have removed one of its own since it was listed.
                        if (!(e instanceof NoSuchFileException)) throw e;
                        return FileVisitResult.CONTINUE;
                    }
                });
        return directories;
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
                                                bytes -> moved[0] += bytes,
                                                Patience.withoutEnd());
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

    /** The connection ends, or a bit is another, at each byte of a few small rows. */
    @Test
    void aStreamThatIsTornOrDamagedAtAnyByteLeavesNothing() throws Exception {
        TableStore from = kit.open(table);
        for (int i = 0; i < 6; i++) from.write(table.update(i).row(i).set("v", "it " + i).build());
        from.flush();
        TableStore to = mine();
        byte[] whole = bytes(from);
        Random random = new Random(SEED);
        Untouched untouched = new Untouched(to);
        for (int place = 0; place < whole.length; place++) {
            // Where nothing was sent, nothing is missing.
            if (place > 0) untouched.by(torn(whole, place), "torn at " + place);
            untouched.by(damaged(whole, place, random), "damaged at " + place);
        }
        // What they were made of is taken.
        take(to, whole);
        assertThat(content(to)).hasSize(7);
    }

    /** The same at places that are drawn, of slices of several blocks. */
    @Test
    void aLargeStreamThatIsTornOrDamagedLeavesNothing() throws Exception {
        TableStore from = filled();
        TableStore to = mine();
        byte[] whole = bytes(from);
        Random random = new Random(SEED);
        Untouched untouched = new Untouched(to);
        for (int trial = 0; trial < 12; trial++) {
            int torn = random.nextInt(whole.length);
            untouched.by(torn(whole, torn), "torn at " + torn);
            int damaged = random.nextInt(whole.length);
            untouched.by(damaged(whole, damaged, random), "damaged at " + damaged);
        }
    }

    /** A store that has one row. */
    private TableStore mine() {
        TableStore to = kit.open(table.twin());
        to.write(table.update(99).at(1).row(9_999).set("v", "mine").build());
        return to;
    }

    private static byte[] torn(byte[] whole, int place) {
        return Arrays.copyOf(whole, place);
    }

    private static byte[] damaged(byte[] whole, int place, Random random) {
        byte[] damaged = whole.clone();
        damaged[place] ^= (byte) (1 << random.nextInt(8));
        return damaged;
    }

    /** A store that takes nothing of what it is sent. */
    private final class Untouched {
        private final TableStore to;
        private final List<PartitionContent> before;
        private final Set<Path> directories;

        Untouched(TableStore to) throws IOException {
            this.to = to;
            this.before = content(to);
            this.directories = directories(to);
        }

        void by(byte[] sent, String how) throws IOException {
            String what = how + ", -Dpetra.seed=" + SEED;
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
        Set<Path> directories = directories(to);
        List<List<byte[]>> slices = frames(bytes(from));
        assertThat(slices).hasSize(3);
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

    /** All checksums fit, and what the frames say is what no store sends. */
    @Test
    void framesThatLieLeaveNothing() throws Exception {
        TableStore from = filled();
        TableStore to = kit.open(table.twin());
        to.write(table.update(99).at(1).row(9_999).set("v", "mine").build());
        List<PartitionContent> before = content(to);
        Set<Path> directories = directories(to);
        List<List<byte[]>> slices = frames(bytes(from));
        List<byte[]> all = slices.stream().flatMap(List::stream).toList();
        // The one before it is staged by then.
        byte[] block = all.get(2);
        byte[] zeros = LZ4Factory.fastestInstance().fastCompressor().compress(new byte[100_000]);
        TableId other = TableId.fromUUID(new UUID(1, 2));
        List<byte[]> ofAnother = new ArrayList<>();
        for (List<byte[]> slice : slices) {
            ofAnother.add(ofTable(slice.get(0), other));
            ofAnother.addAll(slice.subList(1, slice.size()));
        }

        Map<String, List<byte[]>> wrong = new LinkedHashMap<>();
        wrong.put("version 99;", instead(all, 2, version(block, 99)));
        wrong.put("%d bytes in %<d".formatted(MOST), instead(all, 2, lengths(block, MOST, MOST)));
        wrong.put(MOST + " bytes in 16", instead(all, 2, lengths(block, MOST, 16)));
        // Where a content may be large, and is not packed.
        wrong.put((1 << 28) + " bytes in 16", instead(all, 2, lengths(block, 1 << 28, 16)));
        // More than LZ4 packs into so few.
        wrong.put("5000 bytes in 16", instead(all, 2, lengths(block, 5_000, 16)));
        wrong.put("cannot be unpacked", instead(all, 2, packed(block, 1_000, zeros)));
        wrong.put("has 100000 bytes, not 100001", instead(all, 2, packed(block, 100_001, zeros)));
        wrong.put("Slices of one stream", instead(all, slices.get(0).size(), ofAnother));
        wrong.put(other.toString(), ofAnother);
        for (Map.Entry<String, List<byte[]>> each : wrong.entrySet()) {
            String what = each.getKey();
            assertThatThrownBy(() -> take(to, joined(each.getValue())))
                    .as(what)
                    .isInstanceOfAny(IOException.class, IllegalArgumentException.class)
                    .hasMessageContaining(what);
            assertThat(content(to)).as(what).isEqualTo(before);
            assertThat(directories(to)).as(what).isEqualTo(directories);
        }
        // A bomb that fits its frame, and is no block.
        assertThatThrownBy(() -> take(to, joined(instead(all, 2, packed(block, 100_000, zeros)))))
                .isInstanceOf(IOException.class);
        assertThat(content(to)).isEqualTo(before);
        assertThat(directories(to)).isEqualTo(directories);
        take(to, joined(all));
        assertThat(content(to)).hasSize(41);
    }

    private static List<byte[]> instead(List<byte[]> frames, int place, byte[] frame) {
        List<byte[]> changed = new ArrayList<>(frames);
        changed.set(place, frame);
        return changed;
    }

    private static List<byte[]> instead(List<byte[]> frames, int place, List<byte[]> of) {
        return instead(frames, place, of.get(place));
    }

    private static byte[] version(byte[] frame, int version) {
        byte[] bytes = frame.clone();
        ByteBuffer.wrap(bytes).putShort(VERSION_AT, (short) version);
        return sealed(bytes);
    }

    private static byte[] lengths(byte[] frame, int plain, int packed) {
        byte[] bytes = frame.clone();
        ByteBuffer.wrap(bytes).putInt(PLAIN_AT, plain).putInt(PLAIN_AT + Integer.BYTES, packed);
        return sealed(bytes);
    }

    /** The frame with another content, which it says is unpacked so long. */
    private static byte[] packed(byte[] frame, int plain, byte[] content) {
        byte[] bytes = Arrays.copyOf(frame, Frame.BYTES + content.length);
        System.arraycopy(content, 0, bytes, Frame.BYTES, content.length);
        ByteBuffer.wrap(bytes).putLong(CHECKSUM_AT, hash(content, 0, content.length));
        return lengths(bytes, plain, content.length);
    }

    private static byte[] ofTable(byte[] frame, TableId other) throws IOException {
        DataInputBuffer in = new DataInputBuffer(frame);
        Frame head = Frame.read(in);
        byte[] bytes = new byte[head.packed()];
        in.readFully(bytes);
        HeadCodec.SliceHead said =
                HeadCodec.decode(
                        head.unpack(ByteBuffer.wrap(bytes), ByteBuffer.allocate(head.plain())));
        StreamHead stream = said.stream();
        byte[] content =
                ByteBufferUtil.getArray(
                        HeadCodec.encode(
                                new HeadCodec.SliceHead(
                                        new StreamHead(
                                                stream.engine(),
                                                stream.format(),
                                                other,
                                                stream.columnFamily(),
                                                stream.slices(),
                                                stream.bytes()),
                                        said.bytes())));
        return packed(frame, content.length, content);
    }

    /** With the checksum of the frame itself. */
    private static byte[] sealed(byte[] frame) {
        int end = Frame.BYTES - Long.BYTES;
        ByteBuffer.wrap(frame).putLong(end, hash(frame, 0, end));
        return frame;
    }

    private static long hash(byte[] bytes, int from, int length) {
        return XXHashFactory.fastestInstance().hash64().hash(bytes, from, length, 0);
    }

    /** It sends some of a slice and no more, and keeps the connection. */
    @Test
    @Timeout(value = 4, unit = TimeUnit.MINUTES, threadMode = ThreadMode.SEPARATE_THREAD)
    void aPeerThatStallsLeavesNothing() throws Exception {
        TableStore from = filled();
        TableStore to = kit.open(table.twin());
        to.write(table.update(99).at(1).row(9_999).set("v", "mine").build());
        List<PartitionContent> before = content(to);
        Set<Path> directories = directories(to);
        List<byte[]> first = frames(bytes(from)).get(0);
        byte[] head = first.get(0);
        byte[] within = joined(first.subList(0, 3));
        for (byte[] sent :
                List.of(
                        Arrays.copyOf(head, Frame.BYTES - 1),
                        Arrays.copyOf(head, head.length - 1),
                        head,
                        joined(first.subList(0, 2)),
                        Arrays.copyOf(within, within.length - 1))) {
            String what = sent.length + " bytes";
            try (IncomingSlices session = session(to, SOON);
                    Loopback connection = new Loopback()) {
                connection.output().write(ByteBuffer.wrap(sent));
                connection.output().flush();
                assertThatThrownBy(() -> session.receive(connection.input(), UNHEARD))
                        .as(what)
                        // Cassandra takes the end of a connection for a node that went away.
                        .isInstanceOf(IOException.class)
                        .isNotInstanceOf(EOFException.class)
                        .hasMessageContainingAll("/10.0.0.7 sent no bytes of ks.t", "idle_seconds");
                assertThatThrownBy(session::ingest).as(what).hasMessageContaining("no bytes");
            }
            assertThat(content(to)).as(what).isEqualTo(before);
            assertThat(directories(to)).as(what).isEqualTo(directories);
        }
        take(to, bytes(from));
        assertThat(content(to)).hasSize(41);
    }

    /** It takes no bytes: the store is not held for it. */
    @Test
    @Timeout(value = 4, unit = TimeUnit.MINUTES, threadMode = ThreadMode.SEPARATE_THREAD)
    void aReceiverThatStallsReleasesTheStore() throws Exception {
        TableStore from = filled();
        List<OutgoingSlice> slices = slices(from);
        slices.subList(1, 3).forEach(OutgoingSlice::finish);
        try (Loopback connection = new Loopback(1 << 12);
                IdleLimit.Wait wait =
                        SOON.watch("/10.0.0.7 took no bytes", why -> connection.cutSoon())) {
            assertThatThrownBy(
                            () ->
                                    slices.get(0)
                                            .write(
                                                    connection.output(),
                                                    Loopback.UNLIMITED,
                                                    WHOLE,
                                                    UNTOLD,
                                                    wait))
                    // Whoever cuts the connection knows why.
                    .isInstanceOf(EOFException.class)
                    .hasMessageContainingAll("/10.0.0.7 took no bytes", "idle_seconds");
        }
        slices.get(0).finish();
        from.drop();
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
            } catch (IOException | IllegalArgumentException e) {
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
                                                bytes -> frames[0]++,
                                                Patience.withoutEnd());
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
