// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.FullDisk;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.index.DamagedIndexException;
import dev.petra.engine.rocks.nativelib.Reconciler;
import dev.petra.engine.rocks.wal.SyncMark;
import dev.petra.engine.rocks.wal.SyncState;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.cassandra.io.FSWriteError;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The database of one store, from its opening to its close: opened anew after a full disk, since
 * RocksDB refuses all writes from then on, and given other options when the table's have changed.
 */
public final class ReopenableDatabase {
    private static final Logger logger = LoggerFactory.getLogger(ReopenableDatabase.class);
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

    private static final long LEAST_ROOM = 4 << 20;

    /** As many files as it takes at least to open a store: a MANIFEST, logs, options, data. */
    private static final int TRIAL_FILES = 8;

    private final SharedResources resources;
    private final StoreSpec spec;
    private final Reconciler reconciler;
    private final StoreOpening opening;
    private final IndexFamily index;
    private final FollowedOptions options;
    private final IndexVolumeShare share;

    /** What of the log is not synced yet; for {@link StoreSync}. */
    final SyncState unsynced = new SyncState();

    /** The note of what is; for {@link StoreSync}. */
    final SyncMark mark;

    private volatile Opened opened;
    private volatile boolean hasData;

    /** Why writes are refused; null while the database is well. */
    private final AtomicReference<@Nullable Refusal> refusal = new AtomicReference<>();

    private volatile long healAt = System.nanoTime();

    /** Whether it waits for all uses to end, so as to make damaged indexes anew. */
    private volatile boolean renewing;

    /** When that may be tried next. */
    private volatile long renewAt = System.nanoTime();

    /** How long the next attempt waits for reads that are under way; guarded by this. */
    private long healPatience = LEAST_PATIENCE_NANOS;

    /** How long after an attempt that could not open it the next is made; guarded by this. */
    private long openPause = HEAL_EVERY_NANOS;

    /** The same after one that could not sync the log; guarded by this. */
    private long unsyncedPause = LEAST_UNSYNCED_PAUSE_NANOS;

    /** Whether the store is closed for good; false while the database is opened anew. */
    private volatile boolean closed;

    /** The holds that are neither closed nor broken. None is added once the store is closed. */
    private final Set<Hold> holds = ConcurrentHashMap.newKeySet();

    /**
     * Opens the database.
     *
     * @param create whether there must be none yet; otherwise there must be one
     */
    public ReopenableDatabase(
            SharedResources resources,
            StoreSpec spec,
            WriteStallRetry room,
            Reconciler reconciler,
            boolean create) {
        this.resources = resources;
        this.spec = spec;
        this.reconciler = reconciler;
        this.opening = new StoreOpening(resources, spec, room, reconciler);
        this.index = new IndexFamily(opening, spec, room);
        this.options = new FollowedOptions(this, resources, spec);
        this.share = new IndexVolumeShare(resources.indexes());
        this.mark = new SyncMark(spec.directory());
        this.opened = opening.open(create, false);
        boolean complete = false;
        try {
            this.hasData = StoreOpening.hasData(opened.database());
            // Of a new one there is nothing to say.
            if (!create) mark.opened();
            complete = true;
        } catch (RocksDBException e) {
            throw onRead(e);
        } finally {
            if (!complete) opened.database().close();
        }
    }

    String name() {
        return spec.displayName();
    }

    SharedResources resources() {
        return resources;
    }

    // Use

    /**
     * The database to use now, of which no use is counted: for whoever has counted one, and for
     * tests. Blocks only while it is opened anew, after a full disk.
     *
     * @throws IllegalStateException if the store is closed
     */
    public Database database() {
        Database database = opened.database();
        if (!database.isClosed()) return database;
        if (closed) throw closed();
        return reopened();
    }

    /** The same, with one use counted: {@link Database#release} of this thread's stripe ends it. */
    public Database acquire() {
        while (true) {
            Database database = database();
            if (database.acquire()) return database;
        }
    }

    Catalog catalog() {
        return opened.catalog();
    }

    public boolean isClosed() {
        return closed;
    }

    /** Whether it is closed to be opened anew, which syncs it before. */
    public boolean isFreed() {
        return opened.database().isFreed();
    }

    /** Whether there is no database now: for good, or while it is opened anew. */
    public boolean isShut() {
        return opened.database().isClosed();
    }

    /** {@link Compactions#compactingFiles}. */
    public long compactingFiles() {
        return opened.database().compactions.compactingFiles();
    }

    public void checkOpen() {
        if (closed) throw closed();
    }

    private IllegalStateException closed() {
        return new IllegalStateException("The store of " + name() + " is closed.");
    }

    /** Whether it is open, and its disk was not full when something was last written. */
    public boolean isWritable() {
        return !closed && refusal.get() == null;
    }

    /**
     * For whoever reads for long: the database is not opened anew before that has ended.
     *
     * @throws WriteStallException if it is to be opened anew, because the disk was full or a file
     *     of indexes is damaged
     */
    public void checkNotFull() {
        Refusal reason = refusal.get();
        if (reason != null || renewing) throw refused(reason);
    }

    /** What a sync that failed throws; before it has ended, since healing waits for that. */
    public RuntimeException notSynced(RocksDBException e) {
        Refusal reason = refusal.get();
        if (reason == null
                || !reason.isFullDisk()
                // Another thread's sync may just have failed.
                || opened.database().log.syncFailure() != null
                || !(RocksErrors.isFull(e) || RocksErrors.isAfterFailure(e))) return failed(e);
        RuntimeException refused = refused(reason);
        refused.addSuppressed(e);
        return refused;
    }

    /** Whether anything was ever written to it; never false wrongly. */
    public boolean hasData() {
        return hasData;
    }

    /** Data was written. */
    public void dataWritten() {
        if (!hasData) hasData = true;
    }

    /** Something to do with the database. */
    public interface Work<T> {
        T run(Database database) throws RocksDBException, IOException;
    }

    /** The same without a result. */
    public interface Chore {
        void run(Database database) throws RocksDBException, IOException;
    }

    private <T> T use(Work<T> work, Function<RocksDBException, RuntimeException> failed) {
        return use(acquire(), work, failed);
    }

    /**
     * @param database of which a use was counted, which this ends
     * @param failed makes of RocksDB's errors what is thrown
     */
    private <T> T use(
            Database database, Work<T> work, Function<RocksDBException, RuntimeException> failed) {
        int use = Database.stripe();
        try {
            return run(database, work, failed);
        } finally {
            database.release(use);
        }
    }

    private <T> T run(
            Database database, Work<T> work, Function<RocksDBException, RuntimeException> failed) {
        try {
            return work.run(database);
        } catch (RocksDBException e) {
            throw failed.apply(e);
        } catch (Catalog.CatalogWriteFailure e) {
            throw failed.apply(e.error);
        } catch (IOException e) {
            throw new FSWriteError(e, spec.directory());
        }
    }

    /**
     * Syncs the log, which is no use: see {@link Database#beginSync}.
     *
     * @return false if the store is closed
     */
    boolean sync(Chore chore) {
        Database database = present();
        while (!database.beginSync()) {
            if (closed) return false;
            try {
                database = database();
            } catch (IllegalStateException e) {
                if (closed) return false;
                throw e;
            }
        }
        try {
            return run(database, work(chore), this::failed);
        } finally {
            database.endSync();
        }
    }

    /** Does something that writes with the database, as one use of it. */
    public <T> T write(Work<T> work) {
        return use(work, this::failed);
    }

    /** The same of what writes and gives nothing. */
    public void maintain(Chore chore) {
        write(work(chore));
    }

    private static Work<Boolean> work(Chore chore) {
        return database -> {
            chore.run(database);
            return true;
        };
    }

    /** The same of what reads only. */
    public <T> T measure(Work<T> work) {
        return use(work, this::onRead);
    }

    /**
     * The same of what may write; it does not wait for the database to be opened anew.
     *
     * @param otherwise what it gives where nothing can be written or the store is closed
     */
    public <T> T ifWritable(T otherwise, Work<T> work) {
        if (!isWritable()) return otherwise;
        Database database = opened.database();
        return database.acquire() ? use(database, work, this::failed) : otherwise;
    }

    /** What a failed read throws. */
    public RuntimeException onRead(RocksDBException e) {
        return RocksErrors.onRead(e, name(), spec.directory());
    }

    /**
     * What a failed write throws. If the disk is full, or a file of indexes is damaged, the
     * database is opened anew, since RocksDB refuses all writes from then on.
     */
    public RuntimeException failed(RocksDBException e) {
        // Of something that ran when it was closed, or when it was to be opened anew.
        if (RocksErrors.isShutdown(e)) return closed ? closed() : refused(refusal.get());
        if (RocksErrors.isDamage(e))
            switch (index.findDamage(opened, e, this::indexIsDamaged)) {
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
        opened.database().log.writeFailed(e);
        if (RocksErrors.isFull(e)) diskIsFull(String.valueOf(e.getMessage()));
        return RocksErrors.onWrite(e, name(), spec.directory());
    }

    /** It is opened anew at once; behind a full disk when there is room. */
    private void indexIsDamaged(String detail) {
        if (refusal.get() != null) return;
        healAt = System.nanoTime();
        refusal.compareAndSet(null, Refusal.damagedIndex(detail));
    }

    /**
     * Also where writes are refused for another reason by now: only room helps then. It would not
     * mend a damaged store, whose refusal stays.
     */
    private void diskIsFull(String detail) {
        Refusal before = refusal.get();
        if (before != null && (before.isFullDisk() || before.isDamagedStore())) return;
        if (before == null) healAt = System.nanoTime() + HEAL_EVERY_NANOS;
        if (!refusal.compareAndSet(before, Refusal.fullDisk(detail))) {
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
    private RuntimeException refused(@Nullable Refusal reason) {
        Database present = opened.database();
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
                ? Refusal.damagedIndex(INDEXES_DAMAGED).exception(name(), spec.directory())
                : new WriteStallException(
                        "The store of " + name() + " was just opened anew. Try again.");
    }

    // Indexes

    /**
     * What a failed read of indexes throws. All of them are undefined from then on, durably; what
     * is left of them goes before one is defined again.
     */
    public DamagedIndexException onIndexDamage(Exception e) {
        try {
            return index.undefine(catalog(), e);
        } catch (Catalog.CatalogWriteFailure f) {
            throw failed(f.error);
        }
    }

    /**
     * The indexes that were undefined because of damage. Who defines one removes it first.
     * Thread-safe.
     */
    public Set<UUID> lostIndexes() {
        return index.lost();
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
        Database busy = opened.database();
        if (renewNow()) return;
        if (busy.compactions.compactingFiles() > 0) {
            refuseWritesToRenew(busy);
            stopUses(busy);
            heal();
            return;
        }
        // Behind the lock, as in healing.
        if (busy.acquire() && use(busy, present -> present.compactions.stop(), this::failed))
            renewAt = System.nanoTime();
        throw refused(null);
    }

    /** False if the database was used for longer than it was waited for. */
    private synchronized boolean renewNow() {
        if (closed || !index.isDamaged()) return true;
        Refusal reason = refusal.get();
        if (reason != null || System.nanoTime() - renewAt < 0) throw refused(reason);
        // If it could then not be opened, writes would be refused until there is.
        if (!hasRoom()) throw RocksErrors.full(name(), spec.directory(), NO_ROOM);
        beforeRenewing(present -> present.log.checkSyncs());
        renewing = true;
        try {
            if (!opened.database().closeIfIdle(MOST_PATIENCE_NANOS, this::syncToRenew)) {
                renewAt = System.nanoTime() + READS_TO_PATIENCE * MOST_PATIENCE_NANOS;
                return false;
            }
        } finally {
            renewing = false;
            // From here on healing opens it, if this cannot.
            if (opened.database().isClosed()) indexIsDamaged(INDEXES_DAMAGED);
        }
        healed();
        return true;
    }

    private synchronized void refuseWritesToRenew(Database busy) {
        if (closed || opened.database() != busy) return;
        healPatience = LEAST_PATIENCE_NANOS;
        indexIsDamaged(INDEXES_DAMAGED);
    }

    /**
     * Makes the column family of indexes, unless there is one.
     *
     * @param database of which the caller has counted a use
     */
    public void addIndex(Database database) throws RocksDBException {
        index.add(database, opened.files());
    }

    /**
     * Makes it anew, and removes the one that is there: a file that no compaction could read too.
     *
     * @param database of which the caller has counted a use; nobody else uses it
     */
    public void renewIndex(Database database) throws RocksDBException {
        index.renew(database, opened.files());
    }

    // Reading for long

    /**
     * Keeps the store readable until that is closed, also if the store is dropped.
     *
     * @throws IllegalStateException if the store is closed
     */
    public synchronized Hold hold() {
        checkOpen();
        Hold hold = new Hold(this);
        holds.add(hold);
        return hold;
    }

    /** {@link Hold#close}. */
    void release(Hold hold) {
        holds.remove(hold);
    }

    /** {@link Hold#lease}. */
    Lease lease(Hold hold, ReadOptions options) {
        // Closing has the lock for as long as it waits for reads.
        checkHeld(hold);
        synchronized (this) {
            checkHeld(hold);
            // A store that is dropped is there for those who hold it.
            Database database = closed ? opened.database() : database();
            Lease lease;
            try {
                lease = database.lease(options);
            } catch (RocksDBException e) {
                throw onRead(e);
            }
            // Dropped while its disk was full and it could not be opened anew.
            if (lease == null) throw closed();
            return lease;
        }
    }

    /** {@link Hold#check}. */
    void checkHeld(Hold hold) {
        if (holds.contains(hold)) return;
        checkOpen();
        throw new IllegalStateException("The store of " + name() + " is not held any more.");
    }

    // Opening it anew

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
        hasData = true;
        index.opened();
        refusal.set(null);
        mark.opened();
        // Last: nobody uses it before, and what is found in it from here on counts.
        opened = fresh;
    }

    private synchronized Database reopened() {
        Refusal reason = refusal.get();
        if (!opened.database().isClosed()) return opened.database();
        if (reason == null) throw closed();
        // An attempt to open it anew failed; reads must not wait for a write to try again.
        heal();
        return opened.database();
    }

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
        Refusal reason = refusal.get();
        // A store that was dropped has no directory to look at.
        if (reason == null || closed) return;
        if (!mayHeal() || System.nanoTime() - healAt < 0) throw refused(reason);
        // Not one that another thread opens meanwhile.
        Database busy = opened.database();
        if (healNow()) return;
        stopUses(busy);
        throw refused(reason);
    }

    /** Whether it can be opened anew without losing what is in memory only. */
    private boolean mayHeal() {
        return spec.isDurable() || opened.database().isFreed();
    }

    /**
     * Behind the lock: one that waits for other tables' compactions may have hours to go, and a
     * throttled one some seconds until it ends.
     */
    private void stopUses(Database busy) {
        // What has ended does not keep the next attempt waiting; a merge of files may not have yet.
        if (busy.acquire()
                && use(busy, present -> present.compactions.stopAll(), this::failed)
                && busy.compactions.compactingFiles() == 0) healAt = System.nanoTime();
    }

    /** False if the database is read or compacted for longer than it was waited for. */
    private synchronized boolean healNow() {
        Refusal reason = refusal.get();
        if (reason == null || closed) return true;
        // Somebody else has just tried.
        if (System.nanoTime() - healAt < 0) throw refused(reason);
        healAt = System.nanoTime() + HEAL_EVERY_NANOS;
        if (!hasRoom()) {
            if (closed) return true;
            diskIsFull(NO_ROOM);
            throw refused(refusal.get());
        }
        // Reads wait while it is closed. One that could not be opened has no log to sync.
        if (!opened.database().isFreed()) beforeRenewing(present -> present.log.checkSyncs());
        // Closing waits for writers, and these for a sync that cannot be.
        if (reason.isFullDisk()) unsynced.abandon();
        // Bounded: a reader, even this thread, may hold an iterator and want another.
        if (!opened.database().closeIfIdle(healPatience, this::syncToRenew)) {
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

    /**
     * Before it is closed to be opened anew, when nobody uses it. What cannot be synced may be
     * missing then, and can be read as long as it stays open.
     */
    private void syncToRenew() {
        beforeRenewing(present -> present.log.sync());
        unsyncedPause = LEAST_UNSYNCED_PAUSE_NANOS;
        // There is nothing to sync until it is open again.
        unsynced.renewed();
    }

    /**
     * Something of the log, without which it is not opened anew: that is tried ever more rarely.
     */
    private void beforeRenewing(Chore sync) {
        try {
            sync.run(opened.database());
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
            notOpened(Refusal.damagedStore(e), e, MOST_PAUSE_NANOS);
            throw e;
        } catch (WriteStallException e) {
            // There is no room after all: what was known before is true.
            rest(MOST_UNKNOWN_PAUSE_NANOS);
            throw e;
        } catch (RuntimeException | Error e) {
            notOpened(Refusal.notOpened(e), e, MOST_UNKNOWN_PAUSE_NANOS);
            throw e;
        }
        openPause = HEAL_EVERY_NANOS;
        if (damage) logger.info("The indexes of {} were dropped; writes go on", name());
        else logger.info("The disk of {} has room again; writes go on", name());
    }

    private void notOpened(Refusal reason, Throwable e, long mostPause) {
        refusal.set(reason);
        rest(mostPause);
        logger.error("The store of {} cannot be opened anew", name(), e);
    }

    /** Each attempt replays the log, and reads wait for it: the next one is made later. */
    private void rest(long mostPause) {
        healAt = System.nanoTime() + openPause;
        openPause = Math.min(2 * openPause, mostPause);
    }

    /** Whether {@link #heal} is worth an attempt. */
    public boolean isHealDue() {
        return refusal.get() != null && !closed && mayHeal() && System.nanoTime() - healAt >= 0;
    }

    /**
     * Whether it may be closed to be opened anew: else it could not be read. Replay writes what is
     * in the log once more, as a data file.
     */
    private boolean hasRoom() {
        try {
            long needed = LEAST_ROOM;
            for (Path file : opening.files("*.log")) needed += size(file);
            return Files.getFileStore(spec.directory()).getUsableSpace() > needed && takesFiles();
        } catch (IOException e) {
            // Dropped meanwhile: there is nothing to open anew.
            if (closed) return false;
            throw new FSWriteError(e, spec.directory());
        }
    }

    /**
     * Whether the disk takes new files. One without inodes, or whose quota is used up, has free
     * bytes all the same.
     */
    private boolean takesFiles() throws IOException {
        byte[] part = new byte[(int) LEAST_ROOM / TRIAL_FILES];
        // Of zeros, a file system may store nothing.
        ThreadLocalRandom.current().nextBytes(part);
        List<SeekableByteChannel> files = new ArrayList<>();
        try {
            for (int number = 0; number < TRIAL_FILES; number++) {
                SeekableByteChannel file =
                        Files.newByteChannel(
                                spec.directory().resolve("trial" + number),
                                StandardOpenOption.CREATE,
                                StandardOpenOption.WRITE,
                                StandardOpenOption.DELETE_ON_CLOSE);
                files.add(file);
                ByteBuffer left = ByteBuffer.wrap(part);
                while (left.hasRemaining()) file.write(left);
            }
            return true;
        } catch (ClosedByInterruptException e) {
            // Whoever ends this thread does not want to know.
            return false;
        } catch (IOException e) {
            if (FullDisk.isSaidBy(e.getMessage())) return false;
            throw e;
        } finally {
            for (SeekableByteChannel file : files) file.close();
        }
    }

    /** 0 for a log that RocksDB, which another thread just opens anew, has replayed and removed. */
    private static long size(Path log) throws IOException {
        try {
            return Files.size(log);
        } catch (NoSuchFileException e) {
            return 0;
        }
    }

    // Options

    /** Whether files are merged by time windows, as they are where RocksDB has one level. */
    public boolean hasWindows() {
        Opened present = opened;
        return present.universal() && present.files().compaction().window() != null;
    }

    /** Whether RocksDB merges whole sorted runs only, or nothing by itself. */
    public boolean isCompactedBySize() {
        return opened.universal();
    }

    /** Whether files are merged without being asked. */
    public boolean isCompacting() {
        return opened.files().automatic();
    }

    public CompactionSettings compaction() {
        return opened.files().compaction();
    }

    /**
     * How files outside of the database are written and read. The store does not end before the
     * caller has closed it.
     *
     * @throws IllegalStateException if the store is closed
     */
    public TableOptions.ForSst sstOptions() {
        return opening.sstOptions(acquire(), opened.files());
    }

    /**
     * Files that are written from now on are as the table's options ask, which may have changed.
     */
    public void followTable() {
        share.count(this);
        options.follow();
        options.followBacklog();
    }

    /** The one that is open, or was last. Its options are those of the table when it was opened. */
    Database present() {
        return opened.database();
    }

    /** Does something with the database, and returns whether it could: not unless it is open. */
    synchronized boolean ifOpen(Consumer<Opened> what) {
        Opened present = opened;
        if (!isWritable() || !present.database().acquire()) return false;
        try {
            what.accept(present);
        } finally {
            present.database().release(Database.stripe());
        }
        return true;
    }

    /** {@link FollowedOptions}; false if it is to be tried again. */
    boolean writeFiles(FileOptions wanted) {
        return options.isTold(opened, wanted)
                || ifOpen(
                        present -> {
                            if (options.tell(present, wanted)) opened = present.writing(wanted);
                        });
    }

    // The end

    /** Closes it for good, unless it is closed, and breaks holds; the log was synced before. */
    public synchronized void close(long patienceNanos) {
        if (closed) return;
        // First: whoever finds its hold broken is told why.
        closed = true;
        holds.clear();
        closeToDrop(patienceNanos);
    }

    /**
     * Closes it for good before its files are deleted. May be called again after it has failed.
     *
     * @throws IllegalStateException if it is held, without waiting, or read for longer than that;
     *     it is closed to all others then
     */
    public synchronized void closeToDrop(long patienceNanos) {
        closed = true;
        // Closing waits for writers, and these for a sync.
        unsynced.close();
        int held = holds.size();
        if (held > 0) {
            opened.database().refuse();
            throw new IllegalStateException(
                    "The store of " + name() + " cannot be closed: " + held + " hold it.");
        }
        free(patienceNanos);
    }

    private void free(long patienceNanos) {
        opened.database().compactions.end();
        try {
            opened.database().close(patienceNanos);
        } finally {
            mark.close();
        }
        share.end();
        reconciler.close();
    }
}
