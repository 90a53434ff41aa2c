// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.StoreContext;
import java.util.concurrent.locks.LockSupport;

/**
 * Lets work in the background rest as long as it worked. Throws when the store closes, or when its
 * disk is full: the database is not opened anew as long as it is read.
 */
final class Pacer {
    private static final int EVERY = 256;

    private final StoreContext store;
    private final boolean slowly;
    private int steps;
    private long since = System.nanoTime();

    Pacer(StoreContext store, boolean slowly) {
        this.store = store;
        this.slowly = slowly;
    }

    void step() {
        if (++steps % EVERY != 0) return;
        store.reopenable().checkOpen();
        store.reopenable().checkNotFull();
        if (slowly) LockSupport.parkNanos(System.nanoTime() - since);
        since = System.nanoTime();
    }
}
