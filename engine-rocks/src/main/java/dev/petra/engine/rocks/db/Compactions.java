// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.rocks.nativelib.ManualCompactions;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.CompactionOptions;
import org.rocksdb.RocksDBException;

/**
 * The compactions of one database that are asked for, and how they are stopped: by an operator, by
 * whoever lets less be purged from then on, and by whoever closes the database. Those that RocksDB
 * begins by itself are not among them. Any thread.
 */
public final class Compactions {
    /** How long those are waited for that were told to end, before they are told again. */
    private static final long STOPPED_MILLIS = 50;

    private final String name;
    private final Database database;

    /** Those that were asked for, run now, and were not told to end; guarded by itself. */
    private final Set<CompactRangeOptions> compactions =
            Collections.newSetFromMap(new IdentityHashMap<>());

    /** The same, whether or not they were told to end; guarded by {@link #compactions}. */
    private final Set<CompactRangeOptions> running =
            Collections.newSetFromMap(new IdentityHashMap<>());

    /**
     * All that runs now and may remove deletions, and whether it was told to end since. Guarded by
     * {@link #compactions}, which is notified when something leaves.
     */
    private final Map<Object, Boolean> purges = new HashMap<>();

    private volatile boolean closing;

    /** How many wait in {@link #endStopped}; guarded by {@link #compactions}. */
    private int ending;

    /** How often {@link #stop} was called; guarded by {@link #compactions}. */
    private volatile int stops;

    /** Held while the values of large cells are compacted with another share of them rewritten. */
    final ReentrantLock rewritingLarge = new ReentrantLock();

    /** The bytes that {@link #compactFiles} merges now; 0 if it does not. */
    private final AtomicLong compactingFiles = new AtomicLong();

    Compactions(String name, Database database) {
        this.name = name;
        this.database = database;
    }

    /**
     * Merges a range of keys, as far down as it goes, and removes what may go.
     *
     * @throws CompactionStoppedException if it was stopped, or the store is being closed
     */
    public void compact(
            ColumnFamilyHandle family,
            byte @Nullable [] from,
            byte @Nullable [] to,
            BottommostLevelCompaction bottommost)
            throws RocksDBException {
        // What may not be removed any more stays, and the compaction begins anew.
        boolean complete = false;
        while (!complete) complete = tryCompact(family, from, to, bottommost);
    }

    /** The same; returns false if it ended with others, as {@link #stopPurges} asks. */
    public boolean tryCompact(
            ColumnFamilyHandle family,
            byte @Nullable [] from,
            byte @Nullable [] to,
            BottommostLevelCompaction bottommost)
            throws RocksDBException {
        try (CompactRangeOptions options =
                new CompactRangeOptions()
                        .setBottommostLevelCompaction(bottommost)
                        .setExclusiveManualCompaction(false)
                        .setAllowWriteStall(false)
                        // The compaction looks at it only if it was set before it began.
                        .setCanceled(false)) {
            synchronized (compactions) {
                whileOthersEnd();
                if (closing) throw new CompactionStoppedException("compaction", name, true, null);
                compactions.add(options);
                running.add(options);
                if (family.getID() == database.data.getID()) purges.put(options, false);
            }
            boolean stopped = false;
            try {
                database.db.compactRange(family, from, to, options);
                return true;
            } catch (RocksDBException e) {
                synchronized (compactions) {
                    // By whoever stops all, or else by whoever stops purges.
                    stopped = !compactions.contains(options);
                }
                if (stopped) throw new CompactionStoppedException("compaction", name, closing, e);
                if (options.canceled() || RocksErrors.isIncomplete(e)) return false;
                throw e;
            } finally {
                synchronized (compactions) {
                    compactions.remove(options);
                    running.remove(options);
                }
                purgeEnded(options);
            }
        }
    }

    /** Until {@link #endStopped} is done. The caller has the monitor of {@link #compactions}. */
    private void whileOthersEnd() {
        boolean interrupted = false;
        while (ending > 0 && !closing) {
            try {
                compactions.wait();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) Thread.currentThread().interrupt();
    }

    /**
     * Waits until the compactions that were told to end, and are in RocksDB's hands, have ended:
     * not one that still flushes. One that waits for a thread of RocksDB's pool, which other tables
     * may keep for hours, does not look whether it should: it is taken out of the queue, with all
     * others of this database, which begin anew.
     */
    private void endStopped() {
        synchronized (compactions) {
            ending++;
        }
        try {
            ManualCompactions.end(database.db);
        } finally {
            synchronized (compactions) {
                ending--;
                compactions.notifyAll();
            }
        }
    }

    /** Counts something, until {@link #purgeEnded}, that may remove deletions. */
    public void purgeBegins(Object what) {
        synchronized (compactions) {
            purges.put(what, false);
        }
    }

    /**
     * Nothing that it removed shows from now on that does not show by now.
     *
     * @return whether it was to end since it began
     */
    public boolean purgeEnded(Object what) {
        synchronized (compactions) {
            boolean ending = Boolean.TRUE.equals(purges.remove(what));
            compactions.notifyAll();
            return ending;
        }
    }

    /**
     * Stops what may remove deletions and can be stopped: nothing of what it removed shows then. To
     * be called when the filter knows already that less may go.
     */
    public void stopPurges() {
        synchronized (compactions) {
            purges.replaceAll((what, ending) -> true);
            for (Object what : purges.keySet())
                if (what instanceof CompactRangeOptions options) options.setCanceled(true);
        }
    }

    /** Waits until all has ended that {@link #stopPurges} has met. */
    public void awaitStoppedPurges() {
        boolean interrupted = false;
        while (isAnyStopped(Object.class)) {
            // Again and again: one that is flushing, or between two levels, is not met by it.
            if (isAnyStopped(CompactRangeOptions.class)) endStopped();
            synchronized (compactions) {
                try {
                    if (purges.containsValue(true)) compactions.wait(STOPPED_MILLIS);
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) Thread.currentThread().interrupt();
    }

    /** Whether a purge of that kind runs that was told to end. */
    private boolean isAnyStopped(Class<?> kind) {
        synchronized (compactions) {
            return purges.entrySet().stream()
                    .anyMatch(purge -> purge.getValue() && kind.isInstance(purge.getKey()));
        }
    }

    /**
     * Merges files, on the thread that calls.
     *
     * @param fileBytes of each file that comes of them, about; 0 for one file
     * @param bytes of the files
     * @return the names of what came of them; null if the database is being closed
     */
    public @Nullable List<String> compactFiles(
            List<String> files, int level, long fileBytes, long bytes) throws RocksDBException {
        long counted = Math.max(1, bytes);
        compactingFiles.addAndGet(counted);
        // What the thread may purge, no other thread would know of.
        try (CompactionOptions options = new CompactionOptions().setMaxSubcompactions(1)) {
            if (fileBytes > 0) options.setOutputFileSizeLimit(fileBytes);
            if (closing) return null;
            return database.db.compactFiles(options, database.data, files, level, -1, null);
        } finally {
            compactingFiles.addAndGet(-counted);
        }
    }

    /** The bytes that {@link #compactFiles} merges now; 0 if it does not. */
    long compactingFiles() {
        return compactingFiles.get();
    }

    /**
     * Compacts all large cells. One at a time, since what is rewritten is an option of all.
     *
     * @param part of the blob files, the oldest ones, that is rewritten: 0 to 1
     * @throws CompactionStoppedException if it was stopped, also while it waited for another, or
     *     the store is being closed
     */
    public void compactLarge(double part, BottommostLevelCompaction bottommost)
            throws RocksDBException {
        BooleanSupplier stopped = stopped();
        rewritingLarge.lock();
        try {
            if (stopped.getAsBoolean()) throw stoppedException("compaction");
            compactLargeAlone(part, bottommost);
        } finally {
            rewritingLarge.unlock();
        }
    }

    /** The same, unless one is under way, which may take hours. False if it was not done. */
    public boolean tryCompactLarge(double part, BottommostLevelCompaction bottommost)
            throws RocksDBException {
        if (!rewritingLarge.tryLock()) return false;
        try {
            compactLargeAlone(part, bottommost);
            return true;
        } finally {
            rewritingLarge.unlock();
        }
    }

    private void compactLargeAlone(double part, BottommostLevelCompaction bottommost)
            throws RocksDBException {
        try {
            collectBlobs(part);
            compact(database.large, null, null, bottommost);
        } finally {
            collectBlobs(TableOptions.BLOB_AGE_CUTOFF);
        }
    }

    private void collectBlobs(double part) {
        database.setOptions(
                database.large,
                Map.of("blob_garbage_collection_age_cutoff", Double.toString(part)));
    }

    /**
     * Ends compactions that were asked for, and waits for that. Those who asked get an exception.
     *
     * @return whether there were any
     */
    public boolean stop() {
        boolean any = tellToStop();
        if (any) endStopped();
        return any;
    }

    /**
     * Ends what keeps the database from being closed though nobody reads it. It can only be read or
     * closed from then on, if files were being merged.
     *
     * @return whether there was anything
     */
    boolean stopAll() {
        boolean any = stop();
        return endCompactionsOfFiles() || any;
    }

    /** RocksDB can end such a compaction only together with all that it does. */
    private boolean endCompactionsOfFiles() {
        if (compactingFiles() == 0) return false;
        database.db.cancelAllBackgroundWork(false);
        return true;
    }

    /** Returns whether there were any. */
    private boolean tellToStop() {
        synchronized (compactions) {
            boolean any = !running.isEmpty();
            stops++;
            for (CompactRangeOptions options : compactions) options.setCanceled(true);
            compactions.clear();
            purges.replaceAll((what, ending) -> true);
            return any;
        }
    }

    /** The same as {@link #stopAll}, and lets none begin: closing must not wait for them. */
    void end() {
        closing = true;
        stop();
        var unused = endCompactionsOfFiles();
    }

    /** For what {@link #stopped} ends. */
    public CompactionStoppedException stoppedException(String what) {
        return new CompactionStoppedException(what, name, closing, null);
    }

    /** Whether what begins now should end: closed, or who stops compactions stops it too. */
    public BooleanSupplier stopped() {
        int before = stops;
        return () -> closing || stops != before;
    }

    /** Whether what takes long should end. */
    public boolean isClosing() {
        return closing;
    }
}
