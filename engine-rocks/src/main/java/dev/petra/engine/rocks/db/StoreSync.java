// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.WalSync;
import dev.petra.engine.rocks.wal.SyncMark;
import dev.petra.engine.rocks.wal.SyncState;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** When the writes of one store are durable: its log's syncs, and the note of what they covered. */
public final class StoreSync {
    private static final Logger logger = LoggerFactory.getLogger(StoreSync.class);

    private final ReopenableDatabase database;
    private final WriteStallRetry room;
    private final SyncState unsynced;
    private final SyncMark mark;

    public StoreSync(ReopenableDatabase database, WriteStallRetry room) {
        this.database = database;
        this.room = room;
        this.unsynced = database.unsynced;
        this.mark = database.mark;
    }

    /** Refuses writes as long as the last sync has failed. */
    public void refuseAfterFailure() {
        unsynced.refuseAfterFailure();
    }

    /** A write is in the log; waits for its sync where the mode says so. */
    public void written(Database database, WalSync mode) throws RocksDBException {
        if (mode != WalSync.BATCH) unsynced.written(mode == WalSync.GROUP);
        else if (!isMarked(database)) unsynced.written(false);
    }

    /** Whether it is noted that a write which synced itself is durable. */
    private boolean isMarked(Database database) throws RocksDBException {
        long sequence = database.db.getLatestSequenceNumber();
        if (mark.covers(sequence)) return true;
        database.log.syncNames();
        // Only then is nothing before it that was not synced.
        if (!room.isAsideSynced()) return false;
        return mark.set(database.db, database.families(), sequence, false);
    }

    public void syncLog() {
        if (!database.sync(this::syncLog)) database.checkOpen();
    }

    private void syncLog(Database database) throws RocksDBException {
        long aside = room.asideEnded();
        long sequence = database.db.getLatestSequenceNumber();
        boolean whole = database.log.sync();
        room.asideSynced(aside);
        // Of a log that ends with half a write nothing is noted: that is no damage.
        if (whole) mark.set(database.db, database.families(), sequence, true);
    }

    /**
     * Files were ingested: from here on the store does not open without them.
     *
     * @param sequence up to which everything is in data files
     */
    public void ingested(Database database, long sequence) {
        mark.ingested(database.db, database.families(), sequence);
    }

    /** Whether there is something to sync. */
    public boolean isPending() {
        return !database.isClosed() && unsynced.isPending();
    }

    /** Whether something acknowledged may not be durable yet, a sync under way included. */
    public boolean isUnsettled() {
        return !database.isClosed() && unsynced.isUnsettled();
    }

    /** {@link SyncState#lags}. */
    public void lags() {
        unsynced.lags();
    }

    /**
     * Syncs, and wakes the writers that wait for it.
     *
     * @throws dev.petra.engine.WriteStallException if that failed because the disk is full
     */
    public void sync() {
        // Closing has synced it, dropping has no need to.
        if (!database.sync(each -> unsynced.sync(() -> syncOf(each))))
            logger.debug("The store of {} was closed before it was synced", database.name());
    }

    private void syncOf(Database each) {
        try {
            syncLog(each);
        } catch (RocksDBException e) {
            throw database.healing.notSynced(e);
        }
    }
}
