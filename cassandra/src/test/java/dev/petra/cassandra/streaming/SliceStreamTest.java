// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.streaming.staging.IdleLimit;
import dev.petra.streaming.staging.IncomingSlices;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.streaming.OutgoingStream;
import org.apache.cassandra.streaming.ProgressInfo;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.StreamingDataOutputPlusFixed;
import org.apache.cassandra.utils.concurrent.Future;
import org.apache.cassandra.utils.concurrent.ImmediateFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What Cassandra is told of a slice, when it fails, and how long it keeps its store. */
class SliceStreamTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int, large blob)");
    private static final List<Range<Token>> ALL =
            List.of(
                    new Range<>(
                            TABLE.partitioner.getMinimumToken(),
                            TABLE.partitioner.getMinimumToken()));

    private final StorageEngine engine =
            StorageEngines.open(
                    "rocks", new EngineSettings(Map.of("memory", "64MiB", "stream_part", "64KiB")));
    private final StreamGuards guards = new StreamGuards(() -> 1000);
    private final Session session = new Session();
    private boolean ended;

    @TempDir Path directory;
    private TableStore store;

    /** Remembers what it is told of bytes that moved: how many, and of how many. */
    private static final class Session extends TestSession {
        private final List<long[]> told = new ArrayList<>();
        private final CompletableFuture<Throwable> error = new CompletableFuture<>();

        @Override
        public Future<?> onError(Throwable e) {
            state(StreamSession.State.FAILED);
            error.complete(e);
            return ImmediateFuture.success(null);
        }

        @Override
        public void progress(
                String name, ProgressInfo.Direction direction, long bytes, long delta, long total) {
            assertThat(name).matches("t-.* slice \\d+ of \\d+");
            assertThat(direction).isEqualTo(ProgressInfo.Direction.OUT);
            told.add(new long[] {bytes, total});
        }
    }

    private static class Output extends StreamingDataOutputPlusFixed {
        Output() {
            super(ByteBuffer.allocate(4 << 20));
        }

        @Override
        public int writeToChannel(Write write, RateLimiter limiter) throws IOException {
            ByteBuffer[] lent = new ByteBuffer[1];
            write.write(size -> lent[0] = ByteBuffer.allocate(size));
            int bytes = lent[0].remaining();
            write(lent[0]);
            return bytes;
        }

        @Override
        public void flush() {}

        byte[] bytes() {
            return Arrays.copyOf(buffer.array(), buffer.position());
        }

        int written() {
            return buffer.position();
        }
    }

    @BeforeEach
    void open() {
        store =
                engine.openStore(
                        new StoreSpec(
                                directory.resolve("1"),
                                "t",
                                1,
                                TableMetadataRef.forOfflineTools(TABLE)));
        for (int p = 0; p < 100; p++) {
            PartitionUpdate.SimpleBuilder update =
                    PartitionUpdate.simpleBuilder(TABLE, p).timestamp(1);
            update.row().add("v", p);
            store.write(update.build());
        }
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private OutgoingStream stream() {
        StreamGuards.Guard guard = guards.begin(ALL, () -> ended);
        List<OutgoingStream> streams =
                PetraStreamManager.create(
                        guard,
                        List::of,
                        () -> PetraStreamManager.slices(engine, store, ALL, guard));
        assertThat(streams).hasSize(1);
        return streams.get(0);
    }

    @Test
    void itsSizeIsKnownWhenItIsSent() throws IOException {
        OutgoingStream stream = stream();
        assertThat(stream.getEstimatedSize()).isPositive();
        Output output = new Output();
        stream.write(session, output, 0);
        assertThat(stream.getEstimatedSize()).isEqualTo(output.written());
        int last = session.told.size() - 1;
        assertThat(session.told.get(last)).containsExactly(output.written(), output.written());
        assertThat(session.told.subList(0, last))
                .hasSize(4)
                .allSatisfy(each -> assertThat(each[0]).isLessThan(each[1]));
    }

    @Test
    void aCleanupFailsItBeforeItsEnd() throws IOException {
        OutgoingStream stream = stream();
        stream.write(session, new Output(), 0);
        guards.cleanup(List.of(), () -> {});
        assertThatThrownBy(() -> stream.write(session, new Output(), 0))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("cleanup");
    }

    @Test
    void nothingIsReadForASessionThatHasEnded() {
        OutgoingStream stream = stream();
        session.state(StreamSession.State.FAILED);
        assertThatThrownBy(() -> stream.write(session, new Output(), 0))
                .isInstanceOf(EOFException.class);
    }

    /** It keeps the connection: Cassandra would wait, and the store be held, as long as it does. */
    @Test
    void aPeerThatTakesNothingEndsTheSession() throws Exception {
        List<SliceRanges> plan = SliceStream.plan(engine, store, ALL);
        SliceStream stream =
                SliceStream.of(
                                store.send(plan),
                                plan,
                                () -> {},
                                new IdleLimit(Duration.ofMillis(200)))
                        .get(0);
        Output full =
                new Output() {
                    @Override
                    public int writeToChannel(Write write, RateLimiter limiter) throws IOException {
                        // A session that fails closes its connections, and such waits end.
                        session.error.join();
                        throw new ClosedChannelException();
                    }
                };
        assertThatThrownBy(() -> stream.write(session, full, 0))
                // Such a one Cassandra does not take for another failure of the session.
                .isInstanceOf(EOFException.class)
                .hasMessageContaining("took no bytes of");
        assertThat(session.error.join())
                .isInstanceOf(IOException.class)
                .isNotInstanceOf(EOFException.class)
                .hasMessageContainingAll(
                        session.peer + " took no bytes of t-", "slice 1 of 1", "idle_seconds");
        stream.finish();
        store.drop();
    }

    /** Cassandra looks for the JVM's error among the causes, and ends the process. */
    @Test
    void aBlockThatFindsNoMemoryEndsItsSessionOnly() {
        OutgoingStream stream = stream();
        Output without =
                new Output() {
                    @Override
                    public int writeToChannel(Write write, RateLimiter limiter) throws IOException {
                        return super.writeToChannel(
                                buffers ->
                                        write.write(
                                                size -> {
                                                    throw new OutOfMemoryError("on purpose");
                                                }),
                                limiter);
                    }
                };
        assertThatThrownBy(() -> stream.write(session, without, 0))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("-XX:MaxDirectMemorySize")
                .hasNoCause();
        stream.finish();
    }

    @Test
    void aStoreThatIsDroppedIsSentAndThenGoes() throws IOException {
        OutgoingStream stream = stream();
        assertThatThrownBy(store::drop).isInstanceOf(IllegalStateException.class);
        guards.releaseEnded();
        Output output = new Output();
        stream.write(session, output, 0);
        assertThat(output.written()).isGreaterThan(100);
        stream.finish();
        store.drop();
        assertThat(directory.resolve("1")).doesNotExist();
    }

    /** Cassandra forgets to finish what it has made for a session that failed meanwhile. */
    @Test
    void aSessionThatHasEndedHoldsNoStore() {
        OutgoingStream stream = stream();
        assertThatThrownBy(store::drop).isInstanceOf(IllegalStateException.class);
        ended = true;
        assertThat(guards.mayPurge(() -> true)).isTrue();
        guards.releaseEnded();
        store.drop();
        assertThat(directory.resolve("1")).doesNotExist();
        stream.finish();
    }

    @Test
    void severalArriveAsOneStream() throws IOException {
        Random random = new Random(1);
        for (int p = 0; p < 500; p++) {
            byte[] value = new byte[4_000];
            random.nextBytes(value);
            PartitionUpdate.SimpleBuilder update =
                    PartitionUpdate.simpleBuilder(TABLE, p).timestamp(1);
            update.row().add("large", ByteBuffer.wrap(value));
            store.write(update.build());
        }
        store.flush();
        TableStore other =
                engine.openStore(
                        new StoreSpec(
                                directory.resolve("other"),
                                "t",
                                1,
                                TableMetadataRef.forOfflineTools(TABLE)));
        List<String> names = new ArrayList<>();
        try (StreamGuards.Guard guard = guards.begin(ALL, () -> false);
                IncomingSlices in = new IncomingSlices(head -> other.receive(head, ALL))) {
            List<OutgoingStream> streams = PetraStreamManager.slices(engine, store, ALL, guard);
            assertThat(streams).hasSizeGreaterThan(2);
            for (OutgoingStream stream : streams) {
                Output output = new Output();
                stream.write(session, output, 0);
                stream.finish();
                try (DataInputBuffer input = new DataInputBuffer(output.bytes())) {
                    in.receive(
                            input,
                            (slice, head) -> {
                                names.add(SliceProgress.name("t", slice, head.stream()));
                                return bytes -> {};
                            });
                }
            }
            assertThat(names).isEqualTo(streams.stream().map(OutgoingStream::getName).toList());
            assertThat(partitions(other)).isZero();
            in.ingest();
        }
        assertThat(partitions(other)).isEqualTo(partitions(store)).isEqualTo(500);
        store.drop();
    }

    private static int partitions(TableStore store) {
        int count = 0;
        try (UnfilteredPartitionIterator all =
                store.scan(DataRange.allData(TABLE.partitioner), ColumnFilter.all(TABLE))) {
            for (; all.hasNext(); count++) all.next().close();
        }
        return count;
    }

    @Test
    void anEmptyStoreSendsNothing() {
        store.drop();
        store =
                engine.openStore(
                        new StoreSpec(
                                directory.resolve("1"),
                                "t",
                                1,
                                TableMetadataRef.forOfflineTools(TABLE)));
        StreamGuards.Guard guard = guards.begin(ALL, () -> false);
        assertThat(PetraStreamManager.slices(engine, store, ALL, guard)).isEmpty();
        store.drop();
    }
}
