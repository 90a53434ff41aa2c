// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.PetraMemtable;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.streaming.staging.IncomingSlices;
import dev.petra.streaming.wire.Frame;
import dev.petra.streaming.wire.HeadCodec;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.streaming.CassandraStreamReceiver;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.SecondaryIndexManager;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.big.BigTableReader;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.DataOutputBuffer;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.streaming.StreamOperation;
import org.apache.cassandra.streaming.StreamSession;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class PetraStreamReceiverTest {
    private static final StreamGuards GUARDS = new StreamGuards(() -> 1000);

    /** Whether a deletion might be purged whenever Cassandra was asked for an index. */
    private static final List<Boolean> mayPurge = new ArrayList<>();

    /** What happens while an index is built. */
    private static Runnable whileBuilt = () -> {};

    /** Of a table whose indexes lack what they are built for. */
    static class Indexes extends SecondaryIndexManager {
        Indexes(ColumnFamilyStore cfs) {
            super(cfs);
        }

        @Override
        public boolean validateSSTableAttachedIndexes(
                Collection<SSTableReader> sstables,
                boolean throwOnIncomplete,
                boolean validateChecksum) {
            mayPurge.add(GUARDS.mayPurge(() -> true));
            return false;
        }

        @Override
        public void buildSSTableAttachedIndexesBlocking(Collection<SSTableReader> sstables) {
            mayPurge.add(GUARDS.mayPurge(() -> true));
            whileBuilt.run();
        }

        @Override
        public Index.@Nullable Group getIndexGroup(Index.Group.Key key) {
            return null;
        }
    }

    static class Table extends ColumnFamilyStore {
        Table(TableMetadataRef metadata) {
            super(null, "t", null, metadata, null, false, false, false);
        }

        @Override
        public String getKeyspaceName() {
            return "ks";
        }
    }

    @BeforeEach
    void forget() {
        mayPurge.clear();
    }

    private static ColumnFamilyStore table() {
        TableGenerations stores = Hollow.of(TableGenerations.class);
        Hollow.set(stores, TableGenerations.class, "streams", GUARDS);
        Generation generation = Hollow.of(Generation.class);
        Hollow.set(generation, Generation.class, "stores", stores);
        PetraMemtable memtable = Hollow.of(PetraMemtable.class);
        Hollow.set(memtable, PetraMemtable.class, "generation", generation);
        Tracker tracker = Tracker.newDummyTracker();
        tracker.reset(memtable);
        ColumnFamilyStore cfs = Hollow.of(Table.class);
        Hollow.set(cfs, ColumnFamilyStore.class, "name", "t");
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", TestTables.reference());
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        Memtable.Factory factory =
                (bound, metadata, owner) -> {
                    throw new UnsupportedOperationException();
                };
        Hollow.set(cfs, ColumnFamilyStore.class, "memtableFactory", factory);
        Hollow.set(cfs, ColumnFamilyStore.class, "indexManager", Hollow.of(Indexes.class));
        return cfs;
    }

    private static StreamSession session() {
        return new TestSession() {
            @Override
            public StreamOperation streamOperation() {
                return StreamOperation.BOOTSTRAP;
            }
        };
    }

    private static PetraStreamReceiver withSSTables(StreamSession session) {
        PetraStreamReceiver receiver = new PetraStreamReceiver(table(), session, 1);
        Hollow.set(
                receiver,
                CassandraStreamReceiver.class,
                "sstables",
                new ArrayList<>(List.of(Hollow.of(BigTableReader.class))));
        return receiver;
    }

    private static void assertFails(PetraStreamReceiver receiver, String why) {
        // Only where there is a node, tables have memtables; Cassandra's classes are loaded
        // without.
        Hollow.set(null, DatabaseDescriptor.class, "daemonInitialized", true);
        try {
            assertThatThrownBy(receiver::finished).hasMessageContaining(why);
        } finally {
            Hollow.set(null, DatabaseDescriptor.class, "daemonInitialized", false);
        }
    }

    private static void failOnPurpose() {
        throw new IllegalStateException("on purpose");
    }

    /**
     * A migration that finds no SSTables ends, and these are live only when their indexes are
     * built, which takes minutes: a deletion might go that hides what they have.
     */
    @Test
    void noDeletionIsPurgedWhileIndexesOfReceivedSSTablesAreBuilt() {
        whileBuilt = PetraStreamReceiverTest::failOnPurpose;
        assertFails(withSSTables(session()), "on purpose");
        assertThat(mayPurge).containsExactly(false, false);
        assertThat(GUARDS.mayPurge(() -> true)).isTrue();
    }

    /** Cassandra aborts no receiver that has all: indexes were built, and purges waited for it. */
    @Test
    void noIndexIsBuiltOnceTheSessionHasFailed() {
        StreamSession session = session();
        whileBuilt = () -> session.state(StreamSession.State.FAILED);
        assertFails(withSSTables(session), "failed before these were live");
        // That it is asked for, and the build in which it failed.
        assertThat(mayPurge).hasSize(2);
        assertThat(GUARDS.mayPurge(() -> true)).isTrue();
        assertFails(withSSTables(session), "failed before these were live");
        assertThat(mayPurge).hasSize(2);
    }

    /** They may have deletions that hide what is in the slices. */
    @Test
    void theSSTablesOfAFailedSessionFollowItsSlicesThatAreLive() {
        StreamSession session = session();
        session.state(StreamSession.State.FAILED);
        whileBuilt = PetraStreamReceiverTest::failOnPurpose;
        PetraStreamReceiver receiver = withSSTables(session);
        Hollow.set(receiver, PetraStreamReceiver.class, "count", new AtomicInteger(1));
        assertFails(receiver, "on purpose");
    }

    /** Cassandra aborts no receiver that has all: the rest went live, for hours maybe. */
    @Test
    void noSliceGoesLiveOnceTheSessionHasFailed() throws IOException {
        StreamSession session = session();
        List<String> calls = new CopyOnWriteArrayList<>();
        StreamSink sink =
                Hollow.proxy(
                        StreamSink.class,
                        (proxy, method, arguments) -> {
                            calls.add(method.getName());
                            return switch (method.getName()) {
                                case "begin" ->
                                        Hollow.proxy(SliceWriter.class, (to, call, with) -> null);
                                case "prepare" -> {
                                    session.state(StreamSession.State.FAILED);
                                    yield null;
                                }
                                case "ingest" -> false;
                                default -> null;
                            };
                        });
        PetraStreamReceiver receiver = new PetraStreamReceiver(table(), session, 1);
        Hollow.set(receiver, PetraStreamReceiver.class, "slices", new IncomingSlices(head -> sink));
        try (DataInputBuffer input = new DataInputBuffer(emptySlice())) {
            receiver.receive(input, (slice, head) -> bytes -> {});
        }
        assertThatThrownBy(receiver::finished)
                .isInstanceOf(UncheckedIOException.class)
                .hasMessageContaining("failed before all of it was live");
        assertThat(calls).contains("prepare").doesNotContain("ingest");
    }

    private static byte[] emptySlice() throws IOException {
        StreamHead head = new StreamHead("e", 1, TestTables.reference().id, "t", 1, 0);
        try (DataOutputBuffer out = new DataOutputBuffer()) {
            write(out, Frame.Kind.HEAD, 0, HeadCodec.encode(new HeadCodec.SliceHead(head, 0)));
            write(out, Frame.Kind.END, 1, ByteBuffer.allocate(0));
            return out.toByteArray();
        }
    }

    private static void write(DataOutputBuffer out, Frame.Kind kind, int number, ByteBuffer content)
            throws IOException {
        ByteBuffer packed = ByteBuffer.allocate(Frame.scratch(content.remaining()));
        Frame.pack(kind, 7, 0, number, content, packed).write(out);
        out.write(packed);
    }
}
