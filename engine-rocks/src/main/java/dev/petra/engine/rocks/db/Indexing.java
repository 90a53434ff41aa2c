// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.index.TermFunction;
import java.util.Arrays;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.apache.cassandra.db.DecoratedKey;
import org.jspecify.annotations.Nullable;

/** What those who write entries of a store's indexes, and those who remove them, share. */
public final class Indexing {
    private static final int STRIPES = 64;

    private final ReadWriteLock[] partitions = new ReadWriteLock[STRIPES];
    private final WriteBarrier arriving = new WriteBarrier();
    private volatile @Nullable TermFunction terms;

    public Indexing() {
        Arrays.setAll(partitions, i -> new ReentrantReadWriteLock());
    }

    /**
     * Held by whoever writes entries of this partition, with their rows if these are new. Taken
     * before anything else that a write holds.
     */
    public Lock writing(DecoratedKey key) {
        return partition(key).readLock();
    }

    /** Held by a sweep from its look at a row to the removal of the row's entry. */
    public Lock sweeping(DecoratedKey key) {
        return partition(key).writeLock();
    }

    private ReadWriteLock partition(DecoratedKey key) {
        return partitions[Math.floorMod(key.getToken().hashCode(), STRIPES)];
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
