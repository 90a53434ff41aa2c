// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.Arrays;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.apache.cassandra.db.DecoratedKey;

/**
 * Keeps writers of a partition's rows out while a sweep looks at a row and removes what the row
 * does not refer to. Writers do not wait for each other. Several partitions share a lock.
 */
public final class PartitionLocks {
    private static final int STRIPES = 64;

    private final ReadWriteLock[] stripes = new ReadWriteLock[STRIPES];

    PartitionLocks() {
        Arrays.setAll(stripes, i -> new ReentrantReadWriteLock());
    }

    /** Held by whoever writes what a sweep may remove, with the row that refers to it. */
    public Lock writing(DecoratedKey key) {
        return stripe(key).readLock();
    }

    /** Held by a sweep from its look at a row to the removal of what the row does not refer to. */
    public Lock sweeping(DecoratedKey key) {
        return stripe(key).writeLock();
    }

    private ReadWriteLock stripe(DecoratedKey key) {
        return stripes[Math.floorMod(key.getToken().hashCode(), STRIPES)];
    }
}
