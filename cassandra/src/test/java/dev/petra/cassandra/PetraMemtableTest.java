// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.junit.jupiter.api.Test;

/** Which memtable a write goes to. */
class PetraMemtableTest {
    private static final CommitLogPosition BEHIND_THE_BOUND = new CommitLogPosition(1, 200);

    static {
        // The classes of memtables need the configuration.
        TestTables.reference();
    }

    private final PetraMemtable memtable = Hollow.of(PetraMemtable.class);
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
}
