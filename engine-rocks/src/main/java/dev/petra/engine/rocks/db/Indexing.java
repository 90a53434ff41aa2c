// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.index.TermFunction;
import org.jspecify.annotations.Nullable;

/** What those who write entries of a store's indexes, and those who remove them, share. */
public final class Indexing {
    private final PartitionLocks partitions = new PartitionLocks();
    private final WriteBarrier arriving = new WriteBarrier();
    private volatile @Nullable TermFunction terms;

    /**
     * Of whoever writes entries, with their rows if these are new, and of sweeps. Taken before
     * anything else that a write holds.
     */
    public PartitionLocks partitions() {
        return partitions;
    }

    /** Counts whoever derives entries of a stream's rows, until these rows are live. */
    public WriteBarrier arriving() {
        return arriving;
    }

    /** How entries are derived of rows; null until somebody has said so. */
    public @Nullable TermFunction terms() {
        return terms;
    }

    public void deriveBy(TermFunction function) {
        terms = function;
    }
}
