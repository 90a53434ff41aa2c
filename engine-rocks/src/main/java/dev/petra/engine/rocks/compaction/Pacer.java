// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Lets work in the background {@link Rest}. Throws when somebody stops it, when the store closes,
 * or when its disk is full: the database is not opened anew as long as it is read.
 */
final class Pacer {
    private final StoreContext store;
    private final Database database;
    private final BooleanSupplier stopped;
    private final @Nullable Rest rest;

    /** Of work that begins now: what is stopped from now on is this. */
    Pacer(StoreContext store, Database database, boolean slowly) {
        this(store, database, slowly ? new Rest() : null);
    }

    /**
     * The same.
     *
     * @param rest null for work that does not rest
     */
    Pacer(StoreContext store, Database database, @Nullable Rest rest) {
        this.store = store;
        this.database = database;
        this.stopped = database.compactions.stopped();
        this.rest = rest;
    }

    void step() {
        check();
        store.reopenable().checkOpen();
        store.reopenable().healing.checkNotFull();
        if (rest != null) rest.afterWork();
    }

    /** Looks whether to go on, without a rest. */
    void check() {
        if (stopped.getAsBoolean()) throw database.compactions.stoppedException("purge");
    }
}
