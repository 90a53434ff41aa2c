// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.loopback;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.conformance.PartitionContent;
import dev.petra.engine.conformance.ScanTests;
import dev.petra.engine.conformance.StreamTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.streaming.netty.FrameOutput;
import dev.petra.streaming.staging.IncomingSession;
import dev.petra.streaming.staging.OutgoingFrame;
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
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.stream.Stream;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * From store to store by Cassandra's own streaming connections, without a node. A connection ends
 * at any byte, or a peer does not keep to the protocol: the session fails with a reason, the
 * receiver is as it was, and nothing stays behind.
 */
public abstract class LoopbackTests {
    private final EngineUnderTest kit;

    /**
     * @param kit of the engine that the tests are about; one that streams
     */
    protected LoopbackTests(EngineUnderTest kit) {
        this.kit = kit;
    }

    @AfterEach
    void close() {
        kit.close();
    }

    private TableStore filled(TestTable table) {
        TableStore store = kit.open(table);
        int i = 0;
        for (DecoratedKey key : ScanTests.keys(table))
            store.write(table.update(key).at(2).row(i).liveness().set("v", i++).end().build());
        store.flush();
        return store;
    }

    private static List<PartitionContent> content(TableStore store, TestTable table) {
        return PartitionContent.listOf(
                store.scan(DataRange.allData(table.metadata().partitioner), table.all()));
    }

    private static IncomingSession session(TableStore to) {
        return new IncomingSession(manifest -> to.streamIn(manifest, StreamTests.everything()));
    }

    private static List<OutgoingFrame> frames(TableStore from) throws IOException {
        return OutgoingFrame.of(from.streamOut(StreamTests.everything()));
    }

    private static Frame receive(IncomingSession session, Loopback connection) throws IOException {
        return session.receivePart(connection.input(), (frame, bytes, delta) -> {});
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
    void aStreamArrivesByOneConnection() throws IOException {
        TestTable table = ScanTests.table();
        TableStore from = filled(table);
        TableStore to = kit.open(table.twin());
        try (IncomingSession session = session(to);
                Loopback connection = new Loopback()) {
            for (OutgoingFrame frame : frames(from)) {
                frame.write(connection.output(), FrameOutput.UNLIMITED);
                receive(session, connection);
                assertThat(content(to, table)).isEmpty();
                frame.finish();
            }
            session.ingest();
            assertThat(content(to, table)).isEqualTo(content(from, table)).isNotEmpty();
        }
    }

    /** Each part by a connection of its own, at once. */
    @Test
    void framesArriveInAnyOrder() throws IOException {
        TestTable table = ScanTests.table();
        TableStore from = filled(table);
        TableStore to = kit.open(table.twin());
        List<OutgoingFrame> frames = new ArrayList<>(frames(from));
        Collections.reverse(frames);
        List<Loopback> connections = new ArrayList<>();
        try (IncomingSession session = session(to)) {
            List<CompletableFuture<Void>> received = new ArrayList<>();
            for (OutgoingFrame frame : frames) {
                Loopback connection = new Loopback();
                connections.add(connection);
                received.add(
                        CompletableFuture.runAsync(
                                () -> {
                                    try {
                                        receive(session, connection);
                                    } catch (IOException e) {
                                        throw new CompletionException(e);
                                    }
                                },
                                task -> new Thread(task).start()));
                frame.write(connection.output(), FrameOutput.UNLIMITED);
                frame.finish();
            }
            received.forEach(CompletableFuture::join);
            session.ingest();
            assertThat(content(to, table)).isEqualTo(content(from, table)).isNotEmpty();
        } finally {
            connections.forEach(Loopback::close);
        }
    }

    /** The connection ends, or the bytes are damaged, anywhere. */
    @Test
    void aTornOrDamagedStreamLeavesNothing() throws IOException {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        TestTable table = ScanTests.table();
        TableStore from = filled(table);
        TableStore to = kit.open(table.twin());
        DecoratedKey mine = ScanTests.keys(table).get(0);
        to.write(table.update(mine).at(1).row(9_999).liveness().set("v", 1).end().build());
        List<PartitionContent> before = content(to, table);
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
            try (IncomingSession session = session(to);
                    Loopback connection = new Loopback()) {
                ByteBuffer bytes = ByteBuffer.wrap(sent);
                while (bytes.hasRemaining()) {
                    int size = Math.min(1 << 15, bytes.remaining());
                    connection
                            .output()
                            .writeToChannel(
                                    buffers -> {
                                        buffers.get(size)
                                                .put(bytes.slice(bytes.position(), size))
                                                .flip();
                                        bytes.position(bytes.position() + size);
                                    },
                                    FrameOutput.UNLIMITED);
                }
                connection.output().flush();
                connection.cut();
                assertThatThrownBy(
                                () -> {
                                    while (true) receive(session, connection);
                                })
                        .as(what)
                        .isInstanceOf(IOException.class);
                if (!session.isEmpty())
                    assertThatThrownBy(session::ingest).as(what).isInstanceOf(IOException.class);
            }
            assertThat(content(to, table)).as(what).isEqualTo(before);
            assertThat(directories(to)).as(what).isEqualTo(directories);
        }
    }

    private static byte[] bytes(TableStore from) throws IOException {
        try (Loopback connection = new Loopback()) {
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            for (OutgoingFrame frame : frames(from)) {
                frame.write(connection.output(), FrameOutput.UNLIMITED);
                Frame read;
                do {
                    read = Frame.read(connection.input());
                    read.write(new DataOutputStream(all));
                    byte[] bytes = new byte[Math.toIntExact(read.bytes())];
                    connection.input().readFully(bytes);
                    all.write(bytes);
                } while (read.kind() == Frame.Kind.MANIFEST);
                frame.finish();
            }
            return all.toByteArray();
        }
    }

    /** The parts pin the sender's store until the last frame is finished. */
    @Test
    void theLastFrameReleasesTheParts() throws IOException {
        TestTable table = ScanTests.table();
        List<OutgoingFrame> frames = frames(filled(table));
        try (Loopback connection = new Loopback()) {
            for (OutgoingFrame frame : frames) {
                frame.write(connection.output(), FrameOutput.UNLIMITED);
                frame.finish();
                frame.finish();
            }
            OutgoingFrame last = frames.get(frames.size() - 1);
            assertThatThrownBy(() -> last.write(connection.output(), FrameOutput.UNLIMITED))
                    .isInstanceOfAny(IOException.class, IllegalStateException.class);
        }
    }
}
