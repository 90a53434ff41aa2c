// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ch.qos.logback.classic.Level;
import dev.petra.cassandra.commitlog.LogReplay;
import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.ColumnFamilyStore.FlushReason;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.memtable.AbstractMemtable;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.view.TableViews;
import org.apache.cassandra.index.transactions.UpdateTransaction;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Which memtable a write goes to, and what becomes of one that a store does not take. */
class PetraMemtableTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)");
    private static final CommitLogPosition BEHIND_THE_BOUND = new CommitLogPosition(1, 200);

    /** Tells what its row cache is to forget. Only to be made hollow. */
    private static class Table extends ColumnFamilyStore {
        private List<DecoratedKey> forgotten;

        Table() {
            super(null, "t", null, TestTables.reference(), null, false, false, false);
        }

        @Override
        public void invalidateCachedPartition(DecoratedKey key) {
            forgotten.add(key);
        }
    }

    private final PetraMemtable memtable = Hollow.of(PetraMemtable.class);
    private final Table owner = Hollow.of(Table.class);
    private final OpOrder order = new OpOrder();
    private final OpOrder.Barrier barrier = order.newBarrier();

    /** As Cassandra switches memtables, up to where the barrier is issued. */
    private void switchOut() {
        AtomicReference<CommitLogPosition> bound = new AtomicReference<>();
        memtable.switchOut(barrier, bound);
        bound.set(new Memtable.LastCommitLogPosition(new CommitLogPosition(1, 100)));
    }

    /**
     * The position is of the other tables of the mutation. In Cassandra's memtable the row would be
     * in no log, and a crash before its flush would lose it.
     */
    @Test
    void aWriteThatBeganBeforeAnAlterGoesToTheEngineWhateverElseItsMutationLogs() {
        memtable.departBy(1);
        try (OpOrder.Group before = order.start()) {
            switchOut();
            assertThat(memtable.accepts(before, null)).isTrue();
            assertThat(memtable.accepts(before, BEHIND_THE_BOUND)).isTrue();
            barrier.issue();
            assertThat(memtable.accepts(before, BEHIND_THE_BOUND)).isTrue();
        }
    }

    @Test
    void aWriteThatBeganAfterAnAlterGoesToTheNextMemtable() {
        memtable.departBy(1);
        switchOut();
        barrier.issue();
        try (OpOrder.Group after = order.start()) {
            assertThat(memtable.accepts(after, null)).isFalse();
            assertThat(memtable.accepts(after, BEHIND_THE_BOUND)).isFalse();
        }
    }

    /**
     * TRUNCATE notes its bound: what is logged behind it is replayed, so it must not go with the
     * old generation. The next one is in the engine too, which needs no log.
     */
    @Test
    void aWriteThatIsLoggedBehindATruncationGoesToTheNextGeneration() {
        try (OpOrder.Group before = order.start()) {
            switchOut();
            assertThat(memtable.accepts(before, BEHIND_THE_BOUND)).isFalse();
            assertThat(memtable.accepts(before, null)).isTrue();
        }
    }

    @AfterEach
    void replayEnds() {
        Hollow.set(null, LogReplay.class, "over", false);
    }

    /** The store's writes fail for as often as it is said. Returns how many there were. */
    private AtomicInteger stalled(int times) {
        AtomicInteger writes = new AtomicInteger();
        TableStore store =
                (TableStore)
                        Proxy.newProxyInstance(
                                getClass().getClassLoader(),
                                new Class<?>[] {TableStore.class},
                                (proxy, method, arguments) ->
                                        switch (method.getName()) {
                                            case "hasIndexes" -> false;
                                            case "write" -> {
                                                if (writes.incrementAndGet() <= times)
                                                    throw new WriteStallException("full");
                                                yield null;
                                            }
                                            default ->
                                                    throw new UnsupportedOperationException(
                                                            method.getName());
                                        });
        standFor(store);
        TableViews views = Hollow.of(TableViews.class);
        Hollow.set(views, TableViews.class, "views", List.of());
        owner.forgotten = new ArrayList<>();
        Hollow.set(owner, ColumnFamilyStore.class, "metadata", TestTables.reference());
        Hollow.set(owner, ColumnFamilyStore.class, "viewManager", views);
        Hollow.set(memtable, PetraMemtable.class, "owner", owner);
        return writes;
    }

    /** Has the memtable be that of a store. */
    private void standFor(TableStore store) {
        TableGenerations stores = Hollow.of(TableGenerations.class);
        Hollow.set(stores, TableGenerations.class, "displayName", "ks.t");
        Generation generation = Hollow.of(Generation.class);
        Hollow.set(generation, Generation.class, "store", store);
        Hollow.set(generation, Generation.class, "stores", stores);
        Hollow.set(memtable, PetraMemtable.class, "generation", generation);
    }

    private void put() {
        try (OpOrder.Group group = order.start()) {
            PartitionUpdate update =
                    PartitionUpdate.simpleBuilder(TABLE, 1).timestamp(5).delete().build();
            assertThat(memtable.put(update, UpdateTransaction.NO_OP, group))
                    .isEqualTo(Long.MAX_VALUE);
        }
    }

    /** Cassandra asks all memtables in turn, also where it frees memory, and would wait for it. */
    @Test
    void aStoreThatIsShutIsNotAskedForItsMemory() {
        List<String> asked = new ArrayList<>();
        standFor(
                Hollow.proxy(
                        TableStore.class,
                        (self, method, arguments) -> {
                            asked.add(method.getName());
                            if (method.getName().equals("isShut")) return true;
                            throw new IllegalStateException("The store is closed.");
                        }));
        Memtable.MemoryUsage usage = Memtable.newMemoryUsage();
        memtable.addMemoryUsageTo(usage);
        assertThat(usage.ownsOffHeap).isZero();
        assertThat(memtable.getLiveDataSize()).isZero();
        assertThat(asked).containsOnly("isShut");
    }

    /** A record that fails would end the start of the node. */
    @Test
    void aRecordOfTheCommitLogWaitsUntilItsStoreTakesIt() {
        AtomicInteger writes = stalled(3);
        put();
        assertThat(writes).hasValue(4);
    }

    /** It is asked every half a minute, and wrote a stack into the log each time. */
    @Test
    void aWayOutThatCannotBeginIsLoggedOnceAnHour() {
        var unused = stalled(0);
        Tracker tracker = Tracker.newDummyTracker();
        tracker.reset(memtable);
        Hollow.set(owner, ColumnFamilyStore.class, "data", tracker);
        Hollow.set(memtable, AbstractMemtable.class, "metadata", TestTables.reference());
        EngineKey engine = new EngineKey("rocks", new EngineSettings(Map.of()));
        Hollow.set(memtable, PetraMemtable.class, "factory", new PetraMemtableFactory(engine));
        try (CapturedLog log = new CapturedLog(PetraMemtable.class, Level.ERROR)) {
            // No configuration is for the engine.
            for (int time = 0; time < 3; time++)
                assertThat(memtable.shouldSwitch(FlushReason.SCHEMA_CHANGE)).isFalse();
            assertThat(log.messages())
                    .singleElement()
                    .asString()
                    .startsWith("Table ks.t cannot be migrated out of");
        }
    }

    @Test
    void aWriteThatIsStalledAfterTheReplayFails() {
        AtomicInteger writes = stalled(3);
        LogReplay.ended();
        assertThatThrownBy(this::put).isInstanceOf(WriteStallException.class);
        assertThat(writes).hasValue(1);
    }

    /** Where its sync has failed it is in the store: reads with a row cache went on without it. */
    @Test
    void aWriteThatFailsLeavesNothingInTheRowCache() {
        var unused = stalled(1);
        LogReplay.ended();
        assertThatThrownBy(this::put).isInstanceOf(WriteStallException.class);
        assertThat(owner.forgotten)
                .containsExactly(TABLE.partitioner.decorateKey(ByteBufferUtil.bytes(1)));
        put();
        // Cassandra does the rest.
        assertThat(owner.forgotten).hasSize(1);
    }
}
