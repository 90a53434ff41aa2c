// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.engine.TableStore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The store that a table's writes go to as well, until it has missed one. Thread-safe. */
class ShadowStore {
    private static final Logger logger = LoggerFactory.getLogger(ShadowStore.class);

    /** Why one ended. */
    record End(String reason, boolean isFault) {}

    final TableStore store;
    final WriteClock clock = new WriteClock();

    /** Writes that are to go to the store yet. */
    final AtomicInteger queued = new AtomicInteger();

    /** Writes that have begun, and did not go to the table, the queue and the store yet. */
    final OpOrder underWay = new OpOrder();

    final String name;

    /** Whether clients read from it: then a write must not wait until others are there. */
    volatile boolean answers;

    /** Of some of its writes. Those of its shadow, if they are to outlast it: set before any. */
    Latencies writeLatencies = new Latencies(null);

    private volatile @Nullable End end;

    private volatile @Nullable Successor successor;

    /** Of what had begun when it had ended; null before that is asked. */
    private volatile @Nullable BooleanSupplier toldAtEnd;

    ShadowStore(String name, TableStore store) {
        this.name = name;
        this.store = store;
    }

    /** Whether it has missed something. */
    final boolean isOver() {
        return end != null;
    }

    /** Why it ended, or null. */
    final @Nullable End end() {
        return end;
    }

    /** Ends it: something that the table has is not here, or the reverse. */
    final void fault(String reason) {
        end(new End(reason, true));
    }

    /** Ends it, which is no fault: rests do not grow by it. */
    final void end(String reason) {
        end(new End(reason, false));
    }

    private void end(End reason) {
        synchronized (this) {
            if (end != null) return;
            end = reason;
        }
        logger.info("The shadow of {} has dropped out: {}", name, reason.reason());
    }

    /**
     * To be asked whether all writes that have begun by now are over: they are here, or it has
     * dropped out. Whatever begins later does not count.
     */
    final BooleanSupplier toldOfAll() {
        OpOrder.Barrier barrier = underWay.newBarrier();
        barrier.issue();
        return barrier.getSyncPoint()::isFinished;
    }

    /**
     * Whether it has ended, and all writes that had begun by then are over: nothing goes to it or
     * to its {@link #successor} any more.
     */
    final boolean isQuiet() {
        if (!isOver()) return false;
        BooleanSupplier told = toldAtEnd;
        // Whoever begins later sees that it has ended.
        if (told == null) toldAtEnd = told = toldOfAll();
        return told.getAsBoolean();
    }

    /** Where writes go instead, but for those that are under way. From then on it lacks them. */
    final void successor(Successor next) {
        successor = next;
    }

    /** {@link #successor(Successor)}; null if it gets writes itself. */
    final @Nullable Successor successor() {
        return successor;
    }

    /** Before a write goes to the table. Throws nothing. */
    void begins(PartitionUpdate update) {}

    /** Looks at what went to the table. Throws nothing. */
    void looked(PartitionUpdate update) {}

    /**
     * Looks at what went to the table, and writes it. Throws nothing.
     *
     * @param tableNanos how long the table took, to be counted together with how long the store
     *     does; 0 if that is not measured
     */
    final void doubled(PartitionUpdate update, long tableNanos) {
        looked(update);
        long begin = tableNanos > 0 ? System.nanoTime() : 0;
        // What goes to a successor may be kept in memory only.
        if (write(update) && tableNanos > 0 && successor == null)
            writeLatencies.update(tableNanos, System.nanoTime() - begin);
    }

    /** Writes to the store. False if it has dropped out, or does by this. Throws nothing. */
    final boolean write(PartitionUpdate update) {
        Successor next = successor;
        if (next != null) next.write(update);
        else {
            String refused = StalledWrites.write(store, update, this::isOver);
            if (refused != null) fault(refused);
        }
        return !isOver();
    }
}
