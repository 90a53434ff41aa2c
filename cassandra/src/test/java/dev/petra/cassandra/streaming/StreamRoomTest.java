// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.petra.cassandra.streaming.StreamRoom.Incoming;
import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.function.ToLongFunction;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.streaming.ProgressInfo;
import org.apache.cassandra.streaming.SessionInfo;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.StreamSummary;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StreamRoomTest {
    private static final int SLICES = 64;
    private static final long PLANNED = 3_000;

    @TempDir Path directory;

    private Incoming table(String name, long bytes) {
        return new Incoming(name, directory, bytes);
    }

    private static ThrowingCallable checking(long ongoing, long free, Incoming... incoming) {
        return () ->
                StreamRoom.check(
                        "/127.0.0.2:7000", List.of(incoming), disk -> ongoing, disk -> free);
    }

    @Test
    void whatFitsIsTaken() {
        assertThatCode(checking(10, 110, table("ks.t", 60), table("ks.u", 40)))
                .doesNotThrowAnyException();
        assertThatCode(checking(10, 0, table("ks.t", 0))).doesNotThrowAnyException();
        assertThatCode(checking(10, 0, table("ks.t", -1))).doesNotThrowAnyException();
        assertThatCode(checking(10, 0)).doesNotThrowAnyException();
    }

    @Test
    void tablesTogetherAndWithOtherStreamsMustFit() {
        assertThatThrownBy(checking(10, 109, table("ks.t", 40), table("ks.u", 60)))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("from /127.0.0.2:7000")
                .hasMessageContaining("needs 100 bytes on the disk of " + directory)
                .hasMessageContaining("table ks.u needs 60")
                .hasMessageContaining("other streams need 10 more")
                .hasMessageContaining("109 bytes are free");
    }

    @Test
    void sizesThatOverflowDoNotFit() {
        assertThatThrownBy(
                        checking(
                                Long.MAX_VALUE,
                                Long.MAX_VALUE - 1,
                                table("ks.t", Long.MAX_VALUE),
                                table("ks.u", Long.MAX_VALUE)))
                .hasMessageContaining("table ks.t");
    }

    /** A bootstrap of a node with several disks is not refused for what goes to the others. */
    @Test
    void otherSessionsFillAllDisksOfTheNode() throws IOException {
        Path memory = Path.of("/dev/shm");
        assumeTrue(Files.isDirectory(memory), "no second disk");
        FileStore first = Files.getFileStore(directory);
        FileStore second = Files.getFileStore(memory);
        assumeTrue(!second.equals(first), "no second disk");
        ToLongFunction<FileStore> both = StreamRoom.others(100, Set.of(first, second));
        assertThat(both.applyAsLong(first)).isEqualTo(50);
        ToLongFunction<FileStore> one = StreamRoom.others(100, Set.of(second));
        assertThat(one.applyAsLong(first)).isZero();
        assertThat(one.applyAsLong(second)).isEqualTo(100);
        assertThat(StreamRoom.others(-1, Set.of(first)).applyAsLong(first)).isZero();
    }

    private static SessionInfo session(StreamSession.State state) {
        InetAddressAndPort peer = InetAddressAndPort.getLoopbackAddress();
        TableId table = TableId.fromString("11111111-2222-3333-4444-555555555555");
        return new SessionInfo(
                peer,
                0,
                peer,
                List.of(new StreamSummary(table, SLICES, SLICES * PLANNED)),
                List.of(),
                state,
                null);
    }

    private static void come(SessionInfo session, String name, long bytes, long total) {
        session.updateProgress(
                new ProgressInfo(
                        InetAddressAndPort.getLoopbackAddress(),
                        0,
                        name,
                        ProgressInfo.Direction.IN,
                        bytes,
                        bytes,
                        total));
    }

    /** Slices come packed, and what was planned are bytes of files. */
    @Test
    void whatASessionBringsYetGoesByTheSlicesThatHaveCome() {
        for (long each : new long[] {PLANNED / 3, PLANNED * 3}) {
            SessionInfo session = session(StreamSession.State.STREAMING);
            assertThat(StreamRoom.left(session)).isEqualTo(SLICES * PLANNED);
            for (int slice = 1; slice <= SLICES; slice++) {
                String name = "t-1 slice %d of %d".formatted(slice, SLICES);
                come(session, name, each / 2, each);
                assertThat(StreamRoom.left(session))
                        .isBetween((SLICES - slice) * PLANNED, (SLICES - slice + 1) * PLANNED);
                come(session, name, each, each);
                assertThat(StreamRoom.left(session))
                        .isCloseTo((SLICES - slice) * PLANNED, within(1L));
            }
            assertThat(StreamRoom.left(session)).isZero();
        }
    }

    /** One may be much larger than all others. */
    @Test
    void whatASessionBringsYetGoesByTheBytesOfSSTables() {
        SessionInfo session = session(StreamSession.State.STREAMING);
        come(session, "/data/ks/t-1/nb-1-big-Data.db", 60 * PLANNED, 60 * PLANNED);
        assertThat(StreamRoom.left(session)).isEqualTo((SLICES - 60) * PLANNED);
        come(session, "/data/ks/t-1/nb-2-big-Data.db", 3 * PLANNED, 4 * PLANNED);
        assertThat(StreamRoom.left(session)).isEqualTo(PLANNED);
    }

    /** It sends them by section, and has planned with bytes of its own files. */
    @Test
    void sstablesThatAStoreWritesAreOfAnotherSizeThanPlanned() {
        for (long each : new long[] {PLANNED / 3, PLANNED * 3}) {
            SessionInfo session = session(StreamSession.State.STREAMING);
            for (int i = 0; i < SLICES; i++) {
                assertThat(StreamRoom.left(session)).as("%d of %d bytes", i, each).isPositive();
                come(session, "ks/t-" + i, each, each);
            }
            assertThat(StreamRoom.left(session)).isZero();
        }
    }

    /** Of another table, which is in no engine there. */
    @Test
    void sstablesBySectionCountBesideSlices() {
        SessionInfo session = session(StreamSession.State.STREAMING);
        come(session, "t-1 slice 1 of 9", PLANNED, PLANNED);
        for (int i = 0; i < SLICES / 2; i++) come(session, "ks/u-" + i, PLANNED, PLANNED);
        assertThat(StreamRoom.left(session))
                .isCloseTo((SLICES - SLICES / 2 - 1) * PLANNED, within(1L));
    }

    /** Cassandra plans and counts each component of such an SSTable as a file. */
    @Test
    void ofSSTablesThatComeWholeNothingIsLeftInTheEnd() {
        List<String> components = List.of("Data", "Index", "Filter", "Statistics");
        for (int slices : new int[] {0, 4}) {
            SessionInfo session = session(StreamSession.State.STREAMING);
            for (int slice = 1; slice <= slices; slice++)
                come(session, "t-1 slice %d of 4".formatted(slice), PLANNED / 2, PLANNED / 2);
            int sstables = (SLICES - slices) / components.size();
            for (int i = 1; i <= sstables; i++) {
                assertThat(StreamRoom.left(session)).isPositive();
                // All that the plan has, in its largest file.
                long data = SLICES * PLANNED / sstables;
                for (String component : components) {
                    long bytes = component.equals("Data") ? data : 0;
                    String name = "/data/ks/t-1/nb-%d-big-%s.db".formatted(i, component);
                    come(session, name, bytes, bytes);
                }
            }
            assertThat(StreamRoom.left(session)).isZero();
        }
    }

    /** Cassandra keeps the plan of one that failed while others of its operation go on. */
    @Test
    void aSessionThatHasEndedBringsNothing() {
        assertThat(StreamRoom.left(session(StreamSession.State.FAILED))).isZero();
        assertThat(StreamRoom.left(session(StreamSession.State.COMPLETE))).isZero();
    }

    /** Then the stream itself finds out. */
    @Test
    void whatIsNotKnownRefusesNothing() {
        Incoming none = new Incoming("ks.t", directory.resolve("none"), 1_000);
        assertThatCode(checking(0, 0, none)).doesNotThrowAnyException();
        assertThatThrownBy(checking(0, 1, none, table("ks.u", 2))).hasMessageContaining("ks.u");
        assertThatCode(
                        () ->
                                StreamRoom.check(
                                        "peer",
                                        List.of(table("ks.t", 1)),
                                        disk -> 0,
                                        disk -> {
                                            throw new FSReadError(
                                                    new IOException("on purpose"), "disk");
                                        }))
                .doesNotThrowAnyException();
    }

    @Test
    void eachDiskHasItsOwnRoom() throws IOException {
        Path memory = Path.of("/dev/shm");
        assumeTrue(Files.isDirectory(memory), "no second disk");
        FileStore second = Files.getFileStore(memory);
        assumeTrue(!second.equals(Files.getFileStore(directory)), "no second disk");
        ToLongFunction<FileStore> free = disk -> disk.equals(second) ? 60 : 50;
        List<Incoming> fits = List.of(table("ks.t", 45), new Incoming("ks.u", memory, 55));
        StreamRoom.check("peer", fits, disk -> 5, free);
        assertThatThrownBy(() -> StreamRoom.check("peer", fits, disk -> 6, free))
                .hasMessageContaining("other streams need 6 more");
        assertThatThrownBy(
                        () ->
                                StreamRoom.check(
                                        "peer",
                                        List.of(
                                                table("ks.t", 45),
                                                new Incoming("ks.u", memory, 61)),
                                        disk -> 0,
                                        free))
                .hasMessageContaining("ks.u needs 61")
                .hasMessageContaining("60 bytes are free");
    }
}
