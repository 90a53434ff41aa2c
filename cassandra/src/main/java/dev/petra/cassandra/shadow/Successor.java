// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.engine.TableStore;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.jspecify.annotations.Nullable;

/**
 * The store that is to become a table's: a copy of its shadow as of one moment, and what would have
 * been written to the shadow since. That is kept in memory until the copy is open. Thread-safe.
 */
final class Successor {
    /** Heap that updates which are kept may hold. */
    static final long MAX_BYTES = Math.max(64L << 20, Runtime.getRuntime().maxMemory() / 32);

    private final Deque<PartitionUpdate> kept = new ArrayDeque<>();
    private long keptBytes;
    private @Nullable TableStore store;
    private volatile @Nullable String failure;

    /** Whether what it is made of has ended; then it is of no use either. */
    private final BooleanSupplier isOver;

    Successor(BooleanSupplier isOver) {
        this.isOver = isOver;
    }

    /** Why it lacks something; null if it does not. */
    @Nullable String failure() {
        return failure;
    }

    /** It lacks something. */
    void fail(String reason) {
        synchronized (this) {
            if (failure == null) failure = reason;
            kept.clear();
            keptBytes = 0;
        }
    }

    /** Takes what the shadow has. Throws nothing. */
    void write(PartitionUpdate update) {
        TableStore opened;
        synchronized (this) {
            if (failure != null || isOver.getAsBoolean()) return;
            opened = store;
            if (opened == null) {
                keep(update);
                return;
            }
        }
        write(opened, update);
    }

    private void keep(PartitionUpdate update) {
        keptBytes += DoubledWrites.heapBytes(update);
        if (keptBytes > MAX_BYTES) fail("writes came faster than it could be opened");
        else kept.add(update);
    }

    private void write(TableStore opened, PartitionUpdate update) {
        String refused =
                StalledWrites.write(opened, update, () -> failure != null || isOver.getAsBoolean());
        if (refused != null) fail(refused);
    }

    /**
     * Writes what was kept, and has writes go there from now on. Those that end while this goes on
     * are there when it has returned.
     *
     * @param check called now and then; what it throws ends this
     */
    void open(TableStore opened, Runnable check) {
        while (true) {
            Deque<PartitionUpdate> batch;
            synchronized (this) {
                if (failure != null) return;
                if (kept.isEmpty()) {
                    store = opened;
                    return;
                }
                batch = new ArrayDeque<>(kept);
                kept.clear();
            }
            for (PartitionUpdate update : batch) {
                check.run();
                write(opened, update);
                synchronized (this) {
                    keptBytes -= DoubledWrites.heapBytes(update);
                }
            }
        }
    }
}
