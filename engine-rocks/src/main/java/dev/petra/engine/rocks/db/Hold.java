// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import org.rocksdb.ReadOptions;

/**
 * Keeps a store readable for one that reads for hours, as a stream does, and is in nobody's way:
 *
 * <ul>
 *   <li>a store that is dropped is closed to all others at once, and goes when no one holds it;
 *   <li>a database is opened anew after a full disk all the same, and read on by another lease;
 *   <li>a store that is closed breaks the hold, unless it was dropped before.
 * </ul>
 *
 * <p>It can be used, and closed, by any thread at any time.
 */
public final class Hold implements AutoCloseable {
    private final ReopenableDatabase database;

    Hold(ReopenableDatabase database) {
        this.database = database;
    }

    /**
     * Opens iterators over what the store has now. They pin files and write buffers as any
     * iterators do: whoever reads for long takes another lease now and then.
     *
     * <p>Waits while the database is opened anew, which replays its log.
     *
     * @param options of the iterators; what they refer to must live until the lease is closed
     * @throws dev.petra.engine.WriteStallException if the disk is full, and the database could not
     *     be opened anew
     * @throws IllegalStateException if the store or this is closed
     */
    public Lease lease(ReadOptions options) {
        return database.lease(this, options);
    }

    /**
     * Checks that a lease can be asked for.
     *
     * @throws IllegalStateException if the store or this is closed
     */
    public void check() {
        database.checkHeld(this);
    }

    /**
     * Waits for nothing. Leases that are open stay so; they are revoked when the store goes.
     * Idempotent.
     */
    @Override
    public void close() {
        database.release(this);
    }
}
