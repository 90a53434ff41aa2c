// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/**
 * Iterators over rows and large cells as of one moment, for whoever reads for long: unlike a use
 * that is counted, they do not keep their database from being freed. Whoever frees it, to open it
 * anew after a full disk or for good, closes them first, whether or not they are being read: the
 * lease is <em>revoked</em> then, and its reader asks its {@link Hold} for another.
 *
 * <h2>Locks</h2>
 *
 * The iterators are read and closed under the lease's lock, so they are never closed in the middle
 * of a native call. Whoever frees a database has the locks of its {@link ReopenableDatabase} and of
 * the {@link Database} already when it asks for this one. So a reading, which has this one, must
 * not ask for the database, nor for another lease; and it must be short, since the table's reads
 * and writes wait for it where the database is opened anew.
 */
public final class Lease implements AutoCloseable {
    /** The database's, of which this is one until it is closed. */
    private final Set<Lease> all;

    private final RocksIterator rows;
    private final RocksIterator large;

    /** Whether the iterators are closed; guarded by this. */
    private boolean ended;

    /** By the reader, not by whoever frees the database; guarded by this. */
    private boolean closed;

    Lease(Set<Lease> all, RocksIterator rows, RocksIterator large) {
        this.all = all;
        this.rows = rows;
        this.large = large;
    }

    /** What is done with the iterators. */
    public interface Reading<T> {
        T read(RocksIterator rows, RocksIterator large) throws RocksDBException;
    }

    /**
     * Reads on, where the iterators were left. They are not to be used outside of this.
     *
     * @param reading short, and it asks the store for nothing else; see above
     * @return null if the lease was revoked, and nothing was read
     * @throws IllegalStateException if the lease is closed
     */
    public synchronized <T> @Nullable T read(Reading<T> reading) throws RocksDBException {
        if (closed) throw new IllegalStateException("The lease is closed.");
        return ended ? null : reading.read(rows, large);
    }

    /** Closes the iterators, once what reads them now is done. */
    synchronized void revoke() {
        if (ended) return;
        ended = true;
        rows.close();
        large.close();
    }

    /** From any thread; waits for a reading that is under way. Idempotent. */
    @Override
    public void close() {
        synchronized (this) {
            closed = true;
            revoke();
        }
        // Not before: until then the database must not be freed without it.
        all.remove(this);
    }
}
