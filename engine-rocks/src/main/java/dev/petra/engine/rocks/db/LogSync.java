// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.rocks.wal.LogDirectory;
import dev.petra.engine.rocks.wal.LogFiles;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes durable what was written to one database: syncs its log, and does so beside RocksDB where
 * that does it no more. Once a sync has failed, no later one counts. Any thread.
 */
public final class LogSync {
    private static final Logger logger = LoggerFactory.getLogger(LogSync.class);

    /** How long a writer may take from an error of RocksDB's until it says so. */
    private static final long FULL_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);

    private final String name;
    private final Database database;
    private final StoreLog log;
    private final LogDirectory names;

    /** Whether what is written goes to the log; otherwise only a flush makes it durable. */
    private final boolean isLogged;

    /** Whether the log found no room for a write: RocksDB syncs it no more. */
    private volatile boolean logFull;

    /** Held while logs are synced beside RocksDB. */
    private final Object forcing = new Object();

    /**
     * @param log of RocksDB's
     * @param names of the database's logs, which is closed with it
     * @param isLogged whether what is written goes to the log
     */
    LogSync(String name, Database database, StoreLog log, LogDirectory names, boolean isLogged) {
        this.name = name;
        this.database = database;
        this.log = log;
        this.names = names;
        this.isLogged = isLogged;
    }

    /**
     * Makes durable what was written before: by a flush where there is no log. Fails for good once
     * a sync has failed, in whatever thread of RocksDB's.
     *
     * @return false if the log ends with a write that failed, for which there was no room. What was
     *     acknowledged is durable all the same
     */
    public boolean sync() throws RocksDBException {
        if (!isLogged) {
            // Its files, and the manifest that names them, are synced by then.
            database.flush();
            return true;
        }
        long version = database.version();
        boolean whole = syncWal();
        if (!whole) {
            forceLogs();
            // It waits for a sync of RocksDB's that is under way: the kernel may have told that one
            // what it did not tell ours.
            var unused = syncWal();
        }
        forceNames(version);
        // RocksDB syncs the directory anew, and in recovering from an error logs too.
        checkSyncs();
        return whole;
    }

    /**
     * The same of a write that has synced itself, as far as RocksDB may not know that it failed.
     */
    void syncNames() throws RocksDBException {
        if (!isLogged) return;
        long version = database.version();
        forceNames(version);
        checkSyncs();
    }

    /** False if RocksDB does not sync the log any more, because it found no room for a write. */
    private boolean syncWal() throws RocksDBException {
        try {
            database.db.syncWal();
            return true;
        } catch (RocksDBException e) {
            if (RocksErrors.isLogFull(e)) logFull = true;
            else if (!RocksErrors.isAfterFailure(e)) log.syncFailed(String.valueOf(e.getMessage()));
            checkSyncs();
            if (!isLogFull()) throw e;
            return false;
        }
    }

    /** Throws if a sync of the log has failed. That is not to be taken for a full disk. */
    void checkSyncs() throws RocksDBException {
        SyncFailure failure = syncFailure();
        if (failure != null) throw failure;
    }

    /** The first sync of the log that has failed; null if none has. */
    @Nullable SyncFailure syncFailure() {
        String failure = log.syncFailure();
        return failure == null
                ? null
                : new SyncFailure(
                        "A sync of the log has failed, and nothing is taken from then on until the"
                            + " node is started anew. Check the disk, and repair the table then: "
                                + failure);
    }

    /** No later sync counts. */
    static final class SyncFailure extends RocksDBException {
        private static final long serialVersionUID = 1;

        SyncFailure(String message) {
            super(message);
        }
    }

    /** What a write failed with that may say something of the log. */
    void writeFailed(RocksDBException e) {
        if (RocksErrors.isLogFull(e)) logFull = true;
        String message = String.valueOf(e.getMessage());
        if (RocksErrors.isLogSync(message)) log.syncFailed(message);
    }

    private void forceLogs() throws RocksDBException {
        // Who comes next is not told by the kernel what this one is told.
        synchronized (forcing) {
            checkSyncs();
            try {
                LogFiles.force(Path.of(database.db.getName()));
            } catch (LogFiles.FailedForce e) {
                log.syncFailed(String.valueOf(e.getMessage()));
                checkSyncs();
            } catch (IOException e) {
                // Nothing of a sync has failed, and the next one tries again.
                throw new RocksDBException("The log cannot be opened to be synced: " + e);
            }
        }
    }

    /**
     * A descriptor that is lost may have been told of a failure: whatever it is, it is for good.
     */
    private void forceNames(long version) throws RocksDBException {
        try {
            names.force(version);
        } catch (IOException e) {
            log.syncFailed(e.toString());
            checkSyncs();
        }
    }

    /** The writer that found no room may be about to say so. */
    boolean isLogFull() {
        long end = System.nanoTime() + FULL_PATIENCE_NANOS;
        // Who uses it no more has said so.
        while (!logFull && database.isUsed() && System.nanoTime() - end < 0)
            Pauses.park(TimeUnit.MILLISECONDS.toNanos(1));
        return logFull;
    }

    /** What was written since the last sync; false if that could not be. */
    boolean syncBeforeClosing() {
        // Nobody relies on more than what was synced: it is not flushed to be closed or dropped.
        if (!isLogged) return true;
        try {
            var unused = sync();
            return true;
        } catch (RocksDBException | RuntimeException e) {
            logger.error(
                    "The log of {} could not be synced when it was closed: its last writes may be"
                            + " lost. Check its disk, and repair the table",
                    name,
                    e);
            return false;
        }
    }
}
