// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Lets work in the background rest as long as it worked, but never for long at once. Throws when
 * somebody stops it, when the store closes, or when its disk is full: the database is not opened
 * anew as long as it is read.
 */
final class Pacer {
    private static final long REST_AFTER_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

    /** Nobody can stop one that rests; and between two steps hours may pass that need no rest. */
    private static final long MOST_REST_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    private final StoreContext store;
    private final Database database;
    private final BooleanSupplier stopped;
    private final boolean slowly;
    private long since = System.nanoTime();

    /** Of work that begins now: what is stopped from now on is this. */
    Pacer(StoreContext store, Database database, boolean slowly) {
        this.store = store;
        this.database = database;
        this.stopped = database.compactions.stopped();
        this.slowly = slowly;
    }

    void step() {
        check();
        store.reopenable().checkOpen();
        store.reopenable().healing.checkNotFull();
        if (!slowly) return;
        long worked = System.nanoTime() - since;
        if (worked < REST_AFTER_NANOS) return;
        rest(worked);
        since = System.nanoTime();
    }

    /** Rests as long as somebody worked, but never for long. */
    static void rest(long workedNanos) {
        LockSupport.parkNanos(Math.min(workedNanos, MOST_REST_NANOS));
    }

    /** Looks whether to go on, without a rest. */
    void check() {
        if (stopped.getAsBoolean()) throw database.compactions.stoppedException("purge");
    }
}
