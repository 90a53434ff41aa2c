// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.List;
import org.jspecify.annotations.Nullable;
import org.rocksdb.InfoLogLevel;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * RocksDB's own log of one store, in Cassandra's log: warnings and errors, and everything else if
 * DEBUG is on for this class when the store is opened. Called on RocksDB's threads, with its lock
 * held.
 */
public final class StoreLog extends org.rocksdb.Logger {
    private static final Logger logger = LoggerFactory.getLogger(StoreLog.class);

    /**
     * Warnings that are expected: of the end of each log that was written over another, when a
     * store is opened; and of each file that is read outside of the database.
     */
    private static final List<String> EXPECTED = List.of("possibly recycled", "Tail prefetch size");

    /**
     * Of {@code DBImpl::SyncWalImpl}, whichever thread syncs, while all others that sync wait. The
     * exception is a sync that was not tried, because the log had an error before, or has no room
     * for what it is to write first.
     */
    private static final String SYNC_FAILED = "WAL Sync error";

    /** Of {@code Checkpoint}: what could not be synced is not the store's. */
    private static final String CHECKPOINT_FAILED = "Snapshot failed -- ";

    private final String name;

    /** What the first sync that failed said; null if none has. */
    private volatile @Nullable String syncFailure;

    StoreLog(String name) {
        super(logger.isDebugEnabled() ? InfoLogLevel.INFO_LEVEL : InfoLogLevel.WARN_LEVEL);
        this.name = name;
    }

    /**
     * What the first sync of the log said that has failed, in any thread: what the disk has refused
     * then may be gone, whatever a later sync says. Null if none has.
     */
    @Nullable String syncFailure() {
        return syncFailure;
    }

    /** A sync has failed. That is said once: nobody tries again, and no write is taken. */
    synchronized void syncFailed(String error) {
        if (syncFailure != null) return;
        syncFailure = error;
        logger.error(
                "The log of {} could not be synced ({}), so that its last writes may be lost. The"
                        + " table takes no writes until the node is started anew. Check its disk,"
                        + " and repair the table then",
                name,
                error);
    }

    @Override
    protected void log(InfoLogLevel level, String message) {
        boolean failed =
                message.contains(SYNC_FAILED)
                        && !RocksErrors.isAfterFailure(message)
                        && !RocksErrors.isLogFull(message);
        // Of the directory, by which a log has its name, RocksDB says nothing else.
        if (failed || (RocksErrors.isLogSync(message) && !message.contains(CHECKPOINT_FAILED)))
            syncFailed(message);
        if (EXPECTED.stream().anyMatch(message::contains)) logger.debug("{}: {}", name, message);
        else log(message, level);
    }

    private void log(String message, InfoLogLevel level) {
        switch (level) {
            case WARN_LEVEL -> logger.warn("{}: {}", name, message);
            case ERROR_LEVEL, FATAL_LEVEL -> logger.error("{}: {}", name, message);
            default -> logger.debug("{}: {}", name, message);
        }
    }
}
