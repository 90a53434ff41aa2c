// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.index.DamagedIndexException;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.io.FSWriteError;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Why one store refuses writes, and how that ends: its database is opened anew, after a full disk
 * since RocksDB refuses all writes from then on, or to make damaged indexes anew.
 *
 * <p>It is closed and opened with the lock of its {@link ReopenableDatabase}. What keeps it from
 * being closed is stopped without that lock.
 */
public final class Healing {
    private static final Logger logger = LoggerFactory.getLogger(Healing.class);
    private static final long HEAL_EVERY_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final long LEAST_PATIENCE_NANOS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long MOST_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);

    /** After reads had to wait for an attempt, they do not wait again for so many times as long. */
    private static final int READS_TO_PATIENCE = 50;

    private static final String INDEXES_DAMAGED = "its indexes are damaged";
    private static final String NO_ROOM = "no room to open it anew";

    private static final long LEAST_UNSYNCED_PAUSE_NANOS = TimeUnit.SECONDS.toNanos(10);
    private static final long MOST_PAUSE_NANOS = TimeUnit.MINUTES.toNanos(5);

    /** What goes by itself may have gone; nothing of a table can be read until that is found. */
    private static final long MOST_UNKNOWN_PAUSE_NANOS = TimeUnit.SECONDS.toNanos(30);

    private final ReopenableDatabase database;
    private final StoreSpec spec;
    private final StoreOpening opening;
    private final IndexFamily index;
    private final DiskRoom room;

    /** Why writes are refused; null while the database is well. */
    private final AtomicReference<@Nullable WritesRefused> refusal = new AtomicReference<>();

    private volatile long healAt = System.nanoTime();

    /** Whether it waits for all uses to end, so as to make damaged indexes anew. */
    private volatile boolean renewing;

    /** When that may be tried next. */
    private volatile long renewAt = System.nanoTime();

    /** How long the next attempt waits for reads that are under way; guarded by the database. */
    private long healPatience = LEAST_PATIENCE_NANOS;

    /** How long after an attempt that could not open it the next is made; guarded likewise. */
    private long openPause = HEAL_EVERY_NANOS;

    /** The same after one that could not sync the log; guarded likewise. */
    private long unsyncedPause = LEAST_UNSYNCED_PAUSE_NANOS;

    Healing(ReopenableDatabase database, StoreSpec spec, StoreOpening opening, IndexFamily index) {
        this.database = database;
        this.spec = spec;
        this.opening = opening;
        this.index = index;
        this.room = new DiskRoom(opening, spec.directory());
    }

    private String name() {
        return spec.displayName();
    }

    // Refusing writes

    /** Whether writes are not refused. */
    boolean isWell() {
        return refusal.get() == null;
    }

    /**
     * For whoever reads for long: the database is not opened anew before that has ended.
     *
     * @throws WriteStallException if it is to be opened anew, because the disk was full or a file
     *     of indexes is damaged
     */
    public void checkNotFull() {
        WritesRefused reason = refusal.get();
        if (reason != null || renewing) throw refused(reason);
    }

    /** What a sync that failed throws; before it has ended, since healing waits for that. */
    public RuntimeException notSynced(RocksDBException e) {
        WritesRefused reason = refusal.get();
        if (reason == null
                || !reason.isFullDisk()
                // Another thread's sync may just have failed.
                || database.present().log.syncFailure() != null
                || !(RocksErrors.isFull(e) || RocksErrors.isAfterFailure(e))) return failed(e);
        RuntimeException refused = refused(reason);
        refused.addSuppressed(e);
        return refused;
    }

    /**
     * What a failed write throws. If the disk is full, or a file of indexes is damaged, the
     * database is opened anew, since RocksDB refuses all writes from then on.
     */
    public RuntimeException failed(RocksDBException e) {
        // Of something that ran when it was closed, or when it was to be opened anew.
        if (RocksErrors.isShutdown(e))
            return database.isClosed() ? database.closed() : refused(refusal.get());
        if (RocksErrors.isDamage(e))
            switch (index.findDamage(database.opened(), e, this::indexIsDamaged)) {
                case FOUND -> {
                    indexIsDamaged(String.valueOf(e.getMessage()));
                    return refused(refusal.get());
                }
                case SOUGHT -> {
                    return new WriteStallException(
                            "A file of the store of "
                                    + name()
                                    + " is damaged ("
                                    + e.getMessage()
                                    + "): its indexes are read to find out whether it is one of"
                                    + " theirs. Try again.");
                }
                case NONE -> {}
            }
        database.present().log.writeFailed(e);
        if (RocksErrors.isFull(e)) diskIsFull(String.valueOf(e.getMessage()));
        return RocksErrors.onWrite(e, name(), spec.directory());
    }

    /** It is opened anew at once; behind a full disk when there is room. */
    private void indexIsDamaged(String detail) {
        if (refusal.get() != null) return;
        healAt = System.nanoTime();
        refusal.compareAndSet(null, WritesRefused.damagedIndex(detail));
    }

    /**
     * Also where writes are refused for another reason by now: only room helps then. It would not
     * mend a damaged store, whose refusal stays.
     */
    private void diskIsFull(String detail) {
        WritesRefused before = refusal.get();
        if (before != null && (before.isFullDisk() || before.isDamagedStore())) return;
        if (before == null) healAt = System.nanoTime() + HEAL_EVERY_NANOS;
        if (!refusal.compareAndSet(before, WritesRefused.fullDisk(detail))) {
            diskIsFull(detail);
            return;
        }
        logger.error(
                "The disk of {} is full ({}); writes to the table fail until there is room."
                        + " Free space: writes then go on by themselves",
                name(),
                spec.directory());
    }

    /**
     * What whoever wants to write is told.
     *
     * @param reason null if it was just opened anew, or is about to be without damaged indexes
     * @throws dev.petra.engine.rocks.wal.FailedSyncError if a sync of the log has failed
     */
    private RuntimeException refused(@Nullable WritesRefused reason) {
        Database present = database.present();
        LogSync.SyncFailure unsynced = present.isFreed() ? null : present.log.syncFailure();
        // Then it is not opened anew, whatever the reason is: nobody is to wait for that.
        if (unsynced != null)
            return RocksErrors.onWrite(
                    new LogSync.SyncFailure(
                            "The store of "
                                    + name()
                                    + " takes no writes. "
                                    + unsynced.getMessage()),
                    name(),
                    spec.directory());
        if (reason != null) return reason.exception(name(), spec.directory());
        return index.isDamaged()
                ? WritesRefused.damagedIndex(INDEXES_DAMAGED).exception(name(), spec.directory())
                : new WriteStallException(
                        "The store of " + name() + " was just opened anew. Try again.");
    }

    // Damaged indexes

    /**
     * What a failed read of indexes throws. All of them are undefined from then on, durably; what
     * is left of them goes before one is defined again.
     */
    public DamagedIndexException onIndexDamage(Exception e) {
        try {
            return index.undefine(database.catalog(), e);
        } catch (Catalog.CatalogWriteFailure f) {
            throw failed(f.error);
        }
    }

    /**
     * Makes the column family of indexes anew if its files are damaged. Ends what may take hours,
     * as a merge of files or the compaction of all. Reads and writes wait meanwhile, for a second
     * at most.
     *
     * @throws WriteStallException if that cannot be now. Writes go on until it can, unless files
     *     were being merged: RocksDB ends that only together with all else
     */
    public void renewDamagedIndex() {
        heal();
        Database busy = database.present();
        if (renewNow()) return;
        if (busy.compactions.compactingFiles() > 0) {
            refuseWritesToRenew(busy);
            stopUses(busy);
            heal();
            return;
        }
        // Behind the lock, as in healing.
        if (busy.acquire()
                && database.use(busy, present -> present.compactions.stop(), this::failed))
            renewAt = System.nanoTime();
        throw refused(null);
    }

    /** False if the database was used for longer than it was waited for. */
    private boolean renewNow() {
        synchronized (database) {
            if (database.isClosed() || !index.isDamaged()) return true;
            WritesRefused reason = refusal.get();
            if (reason != null || System.nanoTime() - renewAt < 0) throw refused(reason);
            // If it could then not be opened, writes would be refused until there is.
            if (!hasRoom()) throw RocksErrors.full(name(), spec.directory(), NO_ROOM);
            beforeRenewing(present -> present.log.checkSyncs());
            renewing = true;
            try {
                if (!database.present().closeIfIdle(MOST_PATIENCE_NANOS, this::syncToRenew)) {
                    renewAt = System.nanoTime() + READS_TO_PATIENCE * MOST_PATIENCE_NANOS;
                    return false;
                }
            } finally {
                renewing = false;
                // From here on healing opens it, if this cannot.
                if (database.present().isClosed()) indexIsDamaged(INDEXES_DAMAGED);
            }
            healed();
            return true;
        }
    }

    private void refuseWritesToRenew(Database busy) {
        synchronized (database) {
            if (database.isClosed() || database.present() != busy) return;
            healPatience = LEAST_PATIENCE_NANOS;
            indexIsDamaged(INDEXES_DAMAGED);
        }
    }

    // Opening it anew

    /**
     * Heals: opens the database anew if its disk was full and there is room again; tries this now
     * and then, see {@link RocksErrors#isFull}. Acknowledged writes are in its log, which is
     * replayed then. Without a log they would be gone: such a store takes no writes any more, and
     * is read as before.
     *
     * @throws WriteStallException if the disk is still full
     * @throws CorruptStoreException if it was closed to be opened anew, and is damaged
     */
    public void heal() {
        WritesRefused reason = refusal.get();
        // A store that was dropped has no directory to look at.
        if (reason == null || database.isClosed()) return;
        if (!mayHeal() || System.nanoTime() - healAt < 0) throw refused(reason);
        // Not one that another thread opens meanwhile.
        Database busy = database.present();
        if (healNow()) return;
        stopUses(busy);
        throw refused(reason);
    }

    /** Whether it can be opened anew without losing what is in memory only. */
    private boolean mayHeal() {
        return spec.isDurable() || database.isFreed();
    }

    /** Whether {@link #heal} is worth an attempt. */
    public boolean isDue() {
        return refusal.get() != null
                && !database.isClosed()
                && mayHeal()
                && System.nanoTime() - healAt >= 0;
    }

    /**
     * Behind the lock: one that waits for other tables' compactions may have hours to go, and a
     * throttled one some seconds until it ends.
     */
    private void stopUses(Database busy) {
        // What has ended does not keep the next attempt waiting; a merge of files may not have yet.
        if (busy.acquire()
                && database.use(busy, present -> present.compactions.stopAll(), this::failed)
                && busy.compactions.compactingFiles() == 0) healAt = System.nanoTime();
    }

    /** False if the database is read or compacted for longer than it was waited for. */
    private boolean healNow() {
        synchronized (database) {
            WritesRefused reason = refusal.get();
            if (reason == null || database.isClosed()) return true;
            // Somebody else has just tried.
            if (System.nanoTime() - healAt < 0) throw refused(reason);
            healAt = System.nanoTime() + HEAL_EVERY_NANOS;
            if (!hasRoom()) {
                if (database.isClosed()) return true;
                diskIsFull(NO_ROOM);
                throw refused(refusal.get());
            }
            // Reads wait while it is closed. One that could not be opened has no log to sync.
            if (!database.isFreed()) beforeRenewing(present -> present.log.checkSyncs());
            // Closing waits for writers, and these for a sync that cannot be.
            if (reason.isFullDisk()) database.unsynced.abandon();
            // Bounded: a reader, even this thread, may hold an iterator and want another.
            if (!database.present().closeIfIdle(healPatience, this::syncToRenew)) {
                // Others wait meanwhile: a long scan must not keep them from reading.
                healAt =
                        System.nanoTime()
                                + Math.max(HEAL_EVERY_NANOS, READS_TO_PATIENCE * healPatience);
                healPatience = Math.min(2 * healPatience, MOST_PATIENCE_NANOS);
                return false;
            }
            healPatience = LEAST_PATIENCE_NANOS;
            healed();
            return true;
        }
    }

    /** Whether there is room for it to be opened anew; false also if it was dropped meanwhile. */
    private boolean hasRoom() {
        try {
            return room.isEnough();
        } catch (IOException e) {
            // Dropped meanwhile: there is nothing to open anew.
            if (database.isClosed()) return false;
            throw new FSWriteError(e, spec.directory());
        }
    }

    /**
     * Before it is closed to be opened anew, when nobody uses it. What cannot be synced may be
     * missing then, and can be read as long as it stays open.
     */
    private void syncToRenew() {
        beforeRenewing(present -> present.log.sync());
        unsyncedPause = LEAST_UNSYNCED_PAUSE_NANOS;
        // There is nothing to sync until it is open again.
        database.unsynced.renewed();
    }

    /**
     * Something of the log, without which it is not opened anew: that is tried ever more rarely.
     */
    private void beforeRenewing(ReopenableDatabase.Chore sync) {
        try {
            sync.run(database.present());
        } catch (RocksDBException e) {
            logger.error(
                    "The store of {} is not opened anew, because its log cannot be synced: what it"
                            + " took last can be read until the node ends, and may be lost then."
                            + " Check its disk, and repair the table",
                    name(),
                    e);
            healAt = System.nanoTime() + unsyncedPause;
            renewAt = healAt;
            unsyncedPause = Math.min(2 * unsyncedPause, MOST_PAUSE_NANOS);
            throw notSynced(e);
        } catch (IOException e) {
            throw new FSWriteError(e, spec.directory());
        }
    }

    private void healed() {
        boolean damage = index.isDamaged();
        try {
            openAnew();
        } catch (CorruptStoreException e) {
            notOpened(WritesRefused.damagedStore(e), e, MOST_PAUSE_NANOS);
            throw e;
        } catch (WriteStallException e) {
            // There is no room after all: what was known before is true.
            rest(MOST_UNKNOWN_PAUSE_NANOS);
            throw e;
        } catch (RuntimeException | Error e) {
            notOpened(WritesRefused.notOpened(e), e, MOST_UNKNOWN_PAUSE_NANOS);
            throw e;
        }
        openPause = HEAL_EVERY_NANOS;
        if (damage) logger.info("The indexes of {} were dropped; writes go on", name());
        else logger.info("The disk of {} has room again; writes go on", name());
    }

    private void openAnew() {
        Opened fresh = opening.open(false, index.isDamaged());
        boolean complete = false;
        try {
            if (index.isDamaged()) index.replaceDamaged(fresh);
            complete = true;
        } catch (RocksDBException e) {
            throw RocksErrors.onWrite(e, name(), spec.directory());
        } catch (Catalog.CatalogWriteFailure e) {
            throw RocksErrors.onWrite(e.error, name(), spec.directory());
        } finally {
            if (!complete) fresh.database().close();
        }
        // A first write that failed may be in the log.
        database.dataWritten();
        index.opened();
        refusal.set(null);
        database.mark.opened();
        // Last: nobody uses it before, and what is found in it from here on counts.
        database.replace(fresh);
    }

    private void notOpened(WritesRefused reason, Throwable e, long mostPause) {
        refusal.set(reason);
        rest(mostPause);
        logger.error("The store of {} cannot be opened anew", name(), e);
    }

    /** Each attempt replays the log, and reads wait for it: the next one is made later. */
    private void rest(long mostPause) {
        healAt = System.nanoTime() + openPause;
        openPause = Math.min(2 * openPause, mostPause);
    }
}
