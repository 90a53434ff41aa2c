// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.conformance.HostFixture;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.FBUtilities;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What the unfinished streams of a table forbid. */
class StreamGuardsTest {
    private long now = 1000;
    private long grace;
    private final StreamGuards guards = new StreamGuards(() -> now - grace);

    private static Range<Token> range(long left, long right) {
        return new Range<>(new LongToken(left), new LongToken(right));
    }

    private StreamGuards.Guard begin() {
        return guards.begin(List.of(range(0, 10)), () -> false);
    }

    private boolean mayPurge() {
        return guards.mayPurge(() -> true);
    }

    @Test
    void withoutStreamsAllMayBePurged() {
        assertThat(mayPurge()).isTrue();
        assertThat(guards.mayPurge(() -> false)).isFalse();
        assertThat(guards.gcBefore()).isEqualTo(1000);
    }

    @Test
    void nothingIsPurgedWhileSSTablesAreSentAsWell() {
        StreamGuards.Guard mixed = begin();
        StreamGuards.Guard alone = begin();
        alone.withoutSSTables();
        assertThat(mayPurge()).isFalse();
        alone.close();
        assertThat(mayPurge()).isFalse();
        mixed.close();
        mixed.close();
        assertThat(mayPurge()).isTrue();
    }

    /**
     * Their migration ends between the two questions: the answer was no, and may not be yes now.
     */
    @Test
    void nothingIsPurgedIfSSTablesGoWhileOneAsks() {
        assertThat(
                        guards.mayPurge(
                                () -> {
                                    begin();
                                    return true;
                                }))
                .isFalse();
    }

    @Test
    void whatWasNotPurgeableWhenTheOldestBeganStays() {
        StreamGuards.Guard oldest = begin();
        oldest.withoutSSTables();
        assertThat(mayPurge()).isTrue();
        now = 2000;
        StreamGuards.Guard next = begin();
        now = 3000;
        assertThat(guards.gcBefore()).isEqualTo(1000);
        oldest.close();
        assertThat(guards.gcBefore()).isEqualTo(2000);
        now = 1500;
        assertThat(guards.gcBefore()).as("a clock that was set back").isEqualTo(1500);
        now = 3000;
        next.close();
        assertThat(guards.gcBefore()).isEqualTo(3000);
    }

    /** As by ALTER TABLE, while the stream waits for its turn. */
    @Test
    void aShorterGraceMakesNothingPurgeableThatAStreamIsToSend() {
        grace = 500;
        StreamGuards.Guard guard = begin();
        grace = 100;
        assertThat(guards.gcBefore()).isEqualTo(500);
        now = 2000;
        assertThat(guards.gcBefore()).isEqualTo(500);
        grace = 1600;
        assertThat(guards.gcBefore()).as("a longer one").isEqualTo(400);
        grace = 100;
        guard.close();
        assertThat(guards.gcBefore()).isEqualTo(1900);
    }

    /** Else each repair would interrupt what purges. */
    @Test
    void aStreamThatBeginsMakesNothingUnpurgeable() {
        long before = guards.gcBefore();
        begin();
        now++;
        assertThat(guards.gcBefore()).isEqualTo(before);
    }

    /** Cassandra does not finish the streams of a session that ends while they are made. */
    @Test
    void aStreamEndsWithItsSession() {
        AtomicBoolean ended = new AtomicBoolean();
        guards.begin(List.of(), ended::get);
        now = 2000;
        assertThat(mayPurge()).isFalse();
        ended.set(true);
        assertThat(guards.gcBefore()).isEqualTo(2000);
        assertThat(mayPurge()).isTrue();
    }

    /** Else an answer might be later than the moment of a stream that it did not know of. */
    @Test
    void theClockIsReadWhereNoStreamCanBegin() {
        List<Boolean> alone = new ArrayList<>();
        StreamGuards[] asked = new StreamGuards[1];
        asked[0] =
                new StreamGuards(
                        () -> {
                            alone.add(Thread.holdsLock(asked[0]));
                            return 1000;
                        });
        asked[0].begin(List.of(), () -> false);
        assertThat(asked[0].gcBefore()).isEqualTo(1000);
        assertThat(alone).containsExactly(true, true);
    }

    /** Else the sessions that Cassandra forgets would hold stores until these are dropped. */
    @Test
    void aStreamThatBeginsLetsGoOfWhatForgottenOnesHold() {
        AtomicBoolean ended = new AtomicBoolean();
        AtomicInteger closed = new AtomicInteger();
        StreamSource source =
                new StreamSource() {
                    @Override
                    public StreamHead head() {
                        throw new UnsupportedOperationException();
                    }

                    @Override
                    public SliceReader open(int slice) {
                        throw new UnsupportedOperationException();
                    }

                    @Override
                    public void close() {
                        closed.incrementAndGet();
                    }
                };
        guards.begin(List.of(), ended::get).holds(source);
        begin().close();
        assertThat(closed).hasValue(0);
        ended.set(true);
        begin().close();
        assertThat(closed).hasValue(1);
    }

    private static void assertFails(StreamGuards.Guard guard) {
        assertThatThrownBy(guard::check)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("cleanup");
    }

    private static void assertGoesOn(StreamGuards.Guard guard) {
        assertThatCode(guard::check).doesNotThrowAnyException();
    }

    @Test
    void aCleanupThatRemovesWhatIsSentFailsTheStream() {
        Token least = Murmur3Partitioner.instance.getMinimumToken();
        StreamGuards.Guard all = guards.begin(List.of(new Range<>(least, least)), () -> false);
        StreamGuards.Guard two = guards.begin(List.of(range(0, 10), range(20, 30)), () -> false);
        StreamGuards.Guard wrapping = guards.begin(List.of(range(90, -90)), () -> false);
        guards.cleanup(List.of(new Range<>(least, least)), () -> {});
        guards.cleanup(List.of(range(0, 5), range(5, 10), range(10, 0)), () -> {});
        List.of(all, two, wrapping).forEach(StreamGuardsTest::assertGoesOn);
        guards.cleanup(List.of(new Range<>(new LongToken(90), least), range(-5, 30)), () -> {});
        assertFails(all);
        assertGoesOn(two);
        assertFails(wrapping);
        guards.cleanup(List.of(range(0, 10), range(20, 29)), () -> assertFails(two));
        assertFails(two);
        assertGoesOn(begin());
    }

    @Test
    void aStreamThatBeginsDuringACleanupFailsAsWell() {
        StreamGuards.Guard[] begun = new StreamGuards.Guard[2];
        guards.cleanup(
                List.of(range(0, 10)),
                () -> {
                    begun[0] = begin();
                    begun[1] = guards.begin(List.of(range(5, 15)), () -> false);
                });
        assertGoesOn(begun[0]);
        assertFails(begun[1]);
        assertThatThrownBy(
                        () ->
                                guards.cleanup(
                                        List.of(),
                                        () -> {
                                            throw new IllegalStateException();
                                        }))
                .isInstanceOf(IllegalStateException.class);
        assertGoesOn(begin());
    }

    /** The rest of the answer needs a node. */
    @Test
    void theStoresAsk(@TempDir Path directory) throws IOException {
        FileEngine engine = new FileEngine();
        // Of an id that no other test in this JVM has given to Cassandra's schema.
        TableMetadata table = TestTables.reference().get().unbuild().id(TableId.generate()).build();
        TableGenerations stores =
                TableGenerations.open(
                        "t",
                        TableMetadataRef.forOfflineTools(table),
                        () -> engine,
                        List.of(Files.createDirectory(directory.resolve("t-1"))),
                        Disk.REAL);
        StoreSpec spec = stores.current().writable().spec();
        AtomicInteger asked = new AtomicInteger();
        stores.streams().begin(List.of(), () -> asked.incrementAndGet() > 2);
        assertThat(spec.mayPurge().getAsBoolean()).isFalse();
        assertThat(asked).hasValue(1);
        assertThat(spec.gcBefore().getAsLong()).isPositive();
        assertThat(asked).hasValue(2);
    }

    /** The deletion that a stream was to send went, and what it hides came back by a repair. */
    @Test
    void anAlterOfTheGraceReachesAStoreWhenItsStreamsHaveEnded(@TempDir Path directory)
            throws IOException {
        FileEngine engine = new FileEngine();
        TableMetadata table =
                TestTables.reference()
                        .get()
                        .unbuild()
                        .id(TableId.generate())
                        .gcGraceSeconds(864_000)
                        .build();
        TableMetadataRef reference = HostFixture.ref(table);
        TableGenerations stores =
                TableGenerations.open(
                        "t",
                        reference,
                        () -> engine,
                        List.of(Files.createDirectory(directory.resolve("t-1"))),
                        Disk.REAL);
        StoreSpec spec = stores.current().writable().spec();
        long before = FBUtilities.nowInSeconds();
        StreamGuards.Guard guard = stores.streams().begin(List.of(), () -> false);
        long after = FBUtilities.nowInSeconds();
        HostFixture.alter(reference, table.unbuild().gcGraceSeconds(3600).build());
        assertThat(spec.gcBefore().getAsLong()).isBetween(before - 864_000, after - 864_000);
        guard.close();
        assertThat(spec.gcBefore().getAsLong()).isGreaterThanOrEqualTo(before - 3600);
    }
}
