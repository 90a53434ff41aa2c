// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import dev.petra.streaming.wire.Frame;
import dev.petra.streaming.wire.ManifestPieces;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ReadableByteChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.schema.TableId;
import org.junit.jupiter.api.Test;

class IncomingSessionTest {
    private static final Duration SHORT = Duration.ofMillis(50);

    private final List<Recorded> opened = new ArrayList<>();

    /** Says what was done with it. */
    private static final class Recorded implements IncomingParts {
        final StreamManifest manifest;
        final List<String> calls = new ArrayList<>();
        int steps = 2;

        Recorded(StreamManifest manifest) {
            this.manifest = manifest;
        }

        @Override
        public synchronized void receive(int index, ReadableByteChannel channel)
                throws IOException {
            ByteBuffer bytes = ByteBuffer.allocate((int) manifest.parts().get(index).bytes());
            while (bytes.hasRemaining())
                if (channel.read(bytes) < 0) throw new IOException("early");
            calls.add("receive " + index);
        }

        @Override
        public void verify() throws IOException {
            calls.add("verify");
            long received = calls.stream().filter(call -> call.startsWith("receive")).count();
            if (received < manifest.parts().size()) throw new IOException("missing");
        }

        @Override
        public boolean ingest() {
            calls.add("ingest");
            return --steps > 0;
        }

        @Override
        public void awaitRoom() {
            calls.add("room");
        }

        @Override
        public void close() {
            calls.add("close");
        }
    }

    private IncomingSession session() {
        return new IncomingSession(this::open, SHORT);
    }

    private IncomingParts open(StreamManifest manifest) {
        Recorded parts = new Recorded(manifest);
        opened.add(parts);
        return parts;
    }

    private static StreamManifest manifest(int parts) {
        List<StreamPart> all = new ArrayList<>();
        ByteBuffer key = ByteBuffer.allocate(1);
        for (int i = 0; i < parts; i++) all.add(new StreamPart(i, 10 + i, i, key, key));
        return new StreamManifest(
                "e", 1, TableId.fromUUID(new UUID(1, parts)), "t", List.of(), key, all);
    }

    private static ReadableByteChannel bytes(long count) {
        return Channels.newChannel(new ByteArrayInputStream(new byte[(int) count]));
    }

    private static void send(IncomingSession session, ManifestPieces pieces) throws IOException {
        byte[] piece = new byte[pieces.piece(0).remaining()];
        pieces.piece(0).get(piece);
        session.receive(pieces.frame(0), Channels.newChannel(new ByteArrayInputStream(piece)));
    }

    private static Frame part(ManifestPieces pieces, int index, int count) {
        return new Frame(Frame.Kind.PART, pieces.digest(), index, count, 10 + index);
    }

    @Test
    void allIsCheckedBeforeAnythingGoesLive() throws IOException {
        ManifestPieces one = ManifestPieces.of(manifest(1));
        ManifestPieces two = ManifestPieces.of(manifest(2));
        IncomingSession session = session();
        assertThat(session.isEmpty()).isTrue();
        send(session, one);
        send(session, two);
        session.receive(part(two, 1, 2), bytes(11));
        session.receive(part(one, 0, 1), bytes(10));
        assertThat(session.isEmpty()).isFalse();
        // One is missing.
        assertThatThrownBy(session::ingest).isInstanceOf(IOException.class);
        for (Recorded parts : opened)
            assertThat(parts.calls).doesNotContain("ingest").endsWith("close");
    }

    @Test
    void eachStreamGoesLiveInItsSteps() throws IOException {
        ManifestPieces one = ManifestPieces.of(manifest(1));
        IncomingSession session = session();
        send(session, one);
        session.receive(part(one, 0, 1), bytes(10));
        session.ingest();
        assertThat(opened.get(0).calls)
                .containsExactly(
                        "receive 0", "verify", "room", "ingest", "room", "ingest", "close");
        assertThat(session.isEmpty()).isTrue();
        session.close();
        assertThatThrownBy(() -> send(session, one)).hasMessageContaining("over");
        assertThatThrownBy(() -> session.receive(part(one, 0, 1), bytes(10)))
                .hasMessageContaining("over");
    }

    @Test
    void partsThatAreNotWhatTheManifestSaysAreRefused() throws IOException {
        ManifestPieces two = ManifestPieces.of(manifest(2));
        try (IncomingSession session = session()) {
            send(session, two);
            assertThatThrownBy(() -> send(session, two)).isInstanceOf(IOException.class);
            for (Frame lie :
                    List.of(
                            part(two, 2, 3),
                            part(two, 0, 1),
                            new Frame(Frame.Kind.PART, two.digest(), 0, 2, 11)))
                assertThatThrownBy(() -> session.receive(lie, bytes(lie.bytes())))
                        .as("%s", lie)
                        .isInstanceOf(IOException.class);
            assertThat(opened.get(0).calls).isEmpty();
        }
    }

    @Test
    void aPartWhoseManifestNeverComesIsGivenUp() throws IOException {
        ManifestPieces one = ManifestPieces.of(manifest(1));
        try (IncomingSession session = session()) {
            assertThatThrownBy(() -> session.receive(part(one, 0, 1), bytes(10)))
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("did not come");
        }
    }

    /** The first part, by a thread that waits for the manifest by now. */
    private static CompletableFuture<Void> receiveWaiting(
            IncomingSession session, ManifestPieces pieces) {
        CompletableFuture<Void> received = new CompletableFuture<>();
        Thread waiting =
                new Thread(
                        () -> {
                            try {
                                session.receive(part(pieces, 0, 1), bytes(10));
                                received.complete(null);
                            } catch (IOException e) {
                                received.completeExceptionally(e);
                            }
                        });
        waiting.start();
        while (waiting.getState() != Thread.State.TIMED_WAITING) Thread.onSpinWait();
        return received;
    }

    @Test
    void aSessionThatEndsWakesWhoWaits() throws Exception {
        ManifestPieces one = ManifestPieces.of(manifest(1));
        IncomingSession session = new IncomingSession(this::open);
        CompletableFuture<Void> received = receiveWaiting(session, one);
        session.close();
        assertThatThrownBy(() -> received.get(1, TimeUnit.MINUTES))
                .cause()
                .isInstanceOf(IOException.class)
                .hasMessageContaining("over");
    }

    @Test
    void aManifestInPartIsNotTakenForNothing() throws IOException {
        Frame half = new Frame(Frame.Kind.MANIFEST, 7, 0, 2, 1 << 20);
        IncomingSession session = session();
        session.receive(half, bytes(1 << 20));
        assertThat(session.isEmpty()).isFalse();
        assertThatThrownBy(session::ingest).hasMessageContaining("as a whole");
    }

    /** What decompresses to much is counted as much, and given back at the end. */
    @Test
    void manifestsThatDecompressToMuchAreRefused() throws IOException {
        ByteBuffer zeros = ByteBuffer.allocate(60 << 20);
        for (int session = 0; session < 2; session++)
            try (IncomingSession one = session()) {
                assertThatThrownBy(
                                () -> {
                                    for (int i = 1; i < 100; i++) {
                                        StreamManifest manifest =
                                                new StreamManifest(
                                                        "e",
                                                        1,
                                                        TableId.fromUUID(new UUID(1, i)),
                                                        "t",
                                                        List.of(),
                                                        ByteBuffer.allocate(0),
                                                        List.of(
                                                                new StreamPart(
                                                                        0,
                                                                        i,
                                                                        i,
                                                                        zeros,
                                                                        ByteBuffer.allocate(0))));
                                        send(one, ManifestPieces.of(manifest));
                                    }
                                })
                        .isInstanceOf(IOException.class)
                        .hasMessageContaining("of the heap");
                // One of them at least.
                assertThat(opened).hasSizeGreaterThan(session);
            }
    }

    @Test
    void aPartThatOvertakesItsManifestWaitsForIt() throws Exception {
        ManifestPieces one = ManifestPieces.of(manifest(1));
        try (IncomingSession session = new IncomingSession(this::open)) {
            CompletableFuture<Void> received = receiveWaiting(session, one);
            assertThat(received).isNotDone();
            send(session, one);
            received.get(1, TimeUnit.MINUTES);
            assertThat(opened.get(0).calls).containsExactly("receive 0");
        }
    }

    /** The table went while it was opened. */
    @Test
    void whatIsOpenedTooLateIsClosed() {
        IncomingSession[] session = new IncomingSession[1];
        session[0] =
                new IncomingSession(
                        manifest -> {
                            session[0].close();
                            return open(manifest);
                        });
        assertThatThrownBy(() -> send(session[0], ManifestPieces.of(manifest(1))))
                .hasMessageContaining("over");
        assertThat(opened.get(0).calls).containsExactly("close");
    }

    @Test
    void manifestsWithoutEndAreRefused() {
        try (IncomingSession session = session()) {
            assertThatThrownBy(
                            () -> {
                                for (int i = 0; i < 10_000; i++)
                                    session.receive(
                                            new Frame(Frame.Kind.MANIFEST, i, 0, 2, 1 << 20),
                                            bytes(1 << 20));
                            })
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("of the heap");
        }
        try (IncomingSession session = session()) {
            assertThatThrownBy(
                            () -> {
                                for (int i = 1; i < 1_000; i++)
                                    send(session, ManifestPieces.of(manifest(i)));
                            })
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("more than 256 streams");
        }
    }
}
