// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.PurgeProgress;
import dev.petra.engine.PurgeProgress.Phase;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.CompactionStoppedException;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.Pauses;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.KeyComponent;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.cassandra.db.marshal.CollectionType;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes from one store deletions and expired values that are older than {@code gc_grace_seconds},
 * and never one that still hides something older. {@code docs/architecture.md} has the rules with
 * examples.
 *
 * <h2>Phases</h2>
 *
 * <ol>
 *   <li>A new max purgeable timestamp begins: the lowest timestamp of anything written from now on.
 *       Every write that began before is waited for.
 *   <li>Covering: a partition's deletion, or a range tombstone, hides other keys. Each that may go
 *       is pushed down, as a deletion of the row, to every row that has anything it hides. That
 *       changes nothing that can be seen, and is durable before the next phase.
 *   <li>Settling: everything written before the max purgeable timestamp began is merged into one
 *       entry a key, at the bottom. From then on, what may lie above an entry was written after the
 *       max purgeable timestamp began, so a tombstone below the max purgeable timestamp hides
 *       nothing outside of its own entry.
 *   <li>Purging: the entries at the bottom are rewritten through the compaction filter, which
 *       removes tombstones older than gc_grace and below the max purgeable timestamp, and what
 *       younger covering deletions hide, which stay.
 *   <li>Sweeping: large cells that no row refers to any more are removed.
 * </ol>
 *
 * One at a time. What an earlier purge had reached before the process ended is not rewritten again.
 */
public final class Purge {
    private static final Logger logger = LoggerFactory.getLogger(Purge.class);
    private static final long SLICE_BYTES = 512L << 20;

    /** How often one that was asked for begins, at most, without getting any further. */
    private static final int MOST_ATTEMPTS = 5;

    private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

    private final StoreContext store;
    private final PurgePermission permission;
    private final PurgeSchedule schedule;
    private final CoveringDeletions covering;
    private final LargeCellSweep sweep;
    private final ExpiredFiles expired;
    private final PurgeRound round;
    private final DataFiles held;
    private final ReentrantLock running = new ReentrantLock();

    private volatile Phase phase = Phase.IDLE;
    private volatile double done;

    public Purge(StoreContext store, DataFiles held) {
        this.store = store;
        this.permission = new PurgePermission(store);
        this.schedule = new PurgeSchedule(store, permission);
        this.covering = new CoveringDeletions(store);
        this.sweep = new LargeCellSweep(store);
        this.expired = new ExpiredFiles(store, permission);
        this.round = new PurgeRound(store, permission, schedule, held);
        this.held = held;
    }

    public PurgeProgress progress() {
        return new PurgeProgress(
                phase, done, schedule.intervalBegan(), store.reconciler().purged());
    }

    /** Tells the compaction filter what time it is and what may go. */
    public void clock(Database database) {
        permission.clock(database);
    }

    /** The same; then waits for purges that began while more was allowed. */
    public void stop(Database database) {
        permission.clock(database);
        database.compactions.awaitStoppedPurges();
    }

    /** Lets none begin in the background for a while, after one that failed or was stopped. */
    public void rest() {
        schedule.rest();
    }

    public boolean isDue(Database database) throws RocksDBException {
        return !schedule.isResting() && (schedule.isDue() || sweep.isDue(database));
    }

    /**
     * Compacts the whole table and purges it.
     *
     * <p>In the background it gives up when a stream begins to arrive, or when the host allows less
     * to go than when it began; it is done again later. One that was asked for waits for the
     * stream, and goes on with what may go by then. If that is nothing because the host forbids it,
     * it compacts the table without purging it, as it does where that was forbidden before.
     *
     * @param background whether to go slowly, and to go on where an earlier one was cut short
     * @throws CompactionStoppedException if it was stopped, the store is being closed, or one that
     *     was asked for was kept from its end again and again
     */
    public void run(Database database, boolean background) throws RocksDBException {
        // Before it waits for another, which may take hours: who stops compactions stops both.
        Pacer pace = new Pacer(store, database, background);
        while (!running.tryLock()) {
            // One that was asked for may wait for a stream, and other tables for this thread.
            if (background) return;
            pause(pace);
        }
        try {
            pace.check();
            permission.clock(database);
            if (background && store.reopenable().hasWindows()) {
                // With time windows whole files are dropped; what is left are their large cells.
                schedule.forgetResume();
                if (sweep.isDue(database)) sweep(database, pace);
                schedule.ended();
                return;
            }
            if (background && !schedule.isDue()) {
                sweep(database, pace);
                return;
            }
            if (!store.catalog().has(Catalog.Flag.TOMBSTONES) || permission.gcBefore() == 0) {
                // There is nothing to purge now, and nobody has asked for a compaction.
                if (background) return;
                if (store.isArriving())
                    logger.info(
                            "{} is compacted without a purge, because a stream brings it rows",
                            store.name());
                compactOnly(database, pace);
                return;
            }
            // A purge of the whole table that was cut short goes on below.
            if (background && !hidesCounters() && schedule.resumeAt() == null) {
                phase = Phase.PURGING;
                round.run(database, part -> done = part);
                // It was stopped, or may not go on.
                if (schedule.isResting()) return;
                if (sweep.isDue(database)) sweep(database, pace);
                boolean whole = round.wantsWhole() && schedule.isWholeDue();
                if (!whole || permission.gcBefore() == 0) return;
            }
            boolean purged =
                    background
                            ? purgeAllIfPossible(database, pace)
                            : purgeAll(database, false, pace);
            if (purged) sweep(database, pace);
        } finally {
            phase = Phase.IDLE;
            done = 0;
            running.unlock();
        }
    }

    /**
     * If all files can be read, and the disk has room for what they become, which is taken only as
     * long as they are rewritten.
     *
     * @return false if it was not brought to its end
     */
    private boolean purgeAllIfPossible(Database database, Pacer pace) throws RocksDBException {
        phase = Phase.PURGING;
        List<String> names = database.dataFiles().stream().map(LiveFileMetaData::fileName).toList();
        try (UnfinishedMerges.Taken room = reserve(database, names)) {
            if (room != null
                    && held.areWhole(database, names, held.pacing(database.compactions.stopped())))
                return purgeAll(database, true, pace);
            schedule.rest();
            return false;
        }
    }

    /** By size, all files become others at once; else a slice after another, which needs little. */
    private UnfinishedMerges.@Nullable Taken reserve(Database database, List<String> names)
            throws RocksDBException {
        return store.reopenable().isCompactedBySize()
                ? held.reserve(database, names)
                : UnfinishedMerges.reserve(store.directory(), 0);
    }

    /**
     * All of it but the sweep.
     *
     * @return false if it was not brought to its end
     */
    private boolean purgeAll(Database database, boolean background, Pacer pace)
            throws RocksDBException {
        long started = System.nanoTime();
        long before = store.reconciler().purged();
        // What is done is done from here on.
        if (!background) schedule.forgetResume();
        boolean purged = purge(database, background, background, pace);
        byte[] reached = null;
        for (int attempts = 1; !purged; attempts++) {
            if (background) return false;
            awaitStreams(pace);
            permission.clock(database);
            if (permission.gcBeforeOfHost() == 0) {
                logger.info(
                        "{} is compacted without the rest of its purge, which is forbidden by now",
                        store.name());
                compactOnly(database, pace);
                return false;
            }
            if (!Arrays.equals(reached, schedule.resumeAt())) attempts = 0;
            reached = schedule.resumeAt();
            if (attempts == MOST_ATTEMPTS) throw keptFromItsEnd();
            purged = purge(database, false, true, pace);
        }
        logger.info(
                "Purged {} in {} ms: {} deletions and expired values removed",
                store.name(),
                TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - started),
                store.reconciler().purged() - before);
        return true;
    }

    /** Merges all there is, and removes what the filter may remove meanwhile. */
    private void compactOnly(Database database, Pacer pace) throws RocksDBException {
        database.compactions.compact(
                database.data, null, null, BottommostLevelCompaction.kForceOptimized);
        sweep(database, pace);
    }

    /** Waits until no files of a stream are about to become live. */
    private void awaitStreams(Pacer pace) {
        if (store.isArriving())
            logger.info("The purge of {} waits for a stream that brings rows", store.name());
        while (store.isArriving()) pause(pace);
    }

    /** Waits a moment for what keeps a purge that was asked for from going on. */
    private void pause(Pacer pace) {
        pace.check();
        store.reopenable().checkOpen();
        store.reopenable().healing.checkNotFull();
        Pauses.park(PAUSE_NANOS);
    }

    private CompactionStoppedException keptFromItsEnd() {
        return new CompactionStoppedException(
                "The purge of "
                        + store.name()
                        + " began "
                        + MOST_ATTEMPTS
                        + " times and was kept from its end each time, as by a stream or because"
                        + " less might be purged than when it began. Its log has the reasons."
                        + " Repeat it later.");
    }

    /** Whether a partition's deletion may hide what only a purge of all of the table removes. */
    private boolean hidesCounters() {
        return store.table().isCounter() && store.catalog().has(Catalog.Flag.PARTITION_RECORDS);
    }

    /**
     * Drops files in which everything has expired; see {@link ExpiredFiles#drop}. Not during a
     * purge, which may take hours: windows are merged meanwhile.
     *
     * @return whether to go on
     */
    boolean dropExpired(Database database, TimeWindows windows) throws RocksDBException {
        if (!running.tryLock()) return true;
        try {
            return expired.drop(database, windows);
        } finally {
            running.unlock();
        }
    }

    /** Removes range tombstones that newer ones hide, while no purge can remove these. */
    public void removeSuperseded(Database database, SupersededRanges ranges)
            throws RocksDBException {
        whileNoneRuns(() -> ranges.run(database));
    }

    /** Removes rows that covering deletions hide, while no purge can remove these. */
    public void removeHidden(Database database, HiddenRows rows) throws RocksDBException {
        whileNoneRuns(() -> rows.run(database));
    }

    private interface Removal {
        void run() throws RocksDBException;
    }

    /** Not at all while one runs: it is asked again every second. */
    private void whileNoneRuns(Removal removal) throws RocksDBException {
        if (!running.tryLock()) return;
        try {
            removal.run();
        } finally {
            running.unlock();
        }
    }

    private void sweep(Database database, Pacer pace) throws RocksDBException {
        if (!sweep.isPossible()) return;
        phase = Phase.SWEEPING;
        pace.check();
        sweep.run(database, pace);
    }

    /**
     * @param resume whether to go on where an earlier one was cut short
     * @return false if it was not brought to its end, and may be begun again
     */
    private boolean purge(Database database, boolean background, boolean resume, Pacer pace)
            throws RocksDBException {
        long restrictions = permission.restrictions();
        Reconciler reconciler = store.reconciler();
        // Before writes are waited for: what is not waited for must not be forgotten.
        long oldestBefore = store.purgeable().reset();
        boolean complete = false;
        try {
            int next = 1 - reconciler.activeMaxPurgeable();
            reconciler.maxPurgeable(next, Long.MAX_VALUE);
            // Asked after the max purgeable timestamp began: streams that begin to arrive later
            // lower it.
            if (store.isArriving()) return false;
            store.room().writers.awaitThoseBegun();
            long gcBefore = permission.gcBefore();
            HiddenKeys hidden = null;
            if (gcBefore > 0 && store.catalog().has(Catalog.Flag.PARTITION_RECORDS)) {
                phase = Phase.COVERING;
                hidden = covering.run(database, gcBefore, pace);
            }

            pace.check();
            phase = Phase.SETTLING;
            // Before the flush: what is written during it may stay in the write buffer.
            long flushed = database.db.getLatestSequenceNumber();
            database.flush();
            pace.check();
            database.compactions.compact(
                    database.data, null, null, BottommostLevelCompaction.kSkip);
            if (!isSettled(database, flushed)) {
                logger.warn(
                        "{} was not purged: compaction did not bring everything to the bottommost"
                                + " level. The purge is tried again",
                        store.name());
                return false;
            }
            // Only now: all that lies below the max purgeable timestamp was written to columns
            // known by now.
            if (hasLoosePaths(store.table())) reconciler.loosePaths();
            reconciler.activeMaxPurgeable(next);

            pace.check();
            phase = Phase.PURGING;
            reconciler.resetKept();
            boolean resumed = resume && schedule.resumeAt() != null;
            // What hides it is in files by now.
            if (hidden != null) hidden.hide();
            reconciler.watch(true);
            try {
                if (!permission.letCoversGo(gcBefore, restrictions)
                        || !rewrite(database, resume, restrictions)) {
                    logger.info(
                            "The purge of {} ended early, because less may be purged than when it"
                                    + " began; it begins again later",
                            store.name());
                    return false;
                }
            } finally {
                reconciler.watch(false);
                reconciler.covers(0);
                reconciler.hideNothing();
            }
            // One that is cut short has the same the next time, when it is resumed.
            if (hidden != null) covering.taken(hidden);
            // What a resumed one had rewritten before is not known in this process.
            store.purgeable().written(resumed ? 0 : reconciler.kept());
            schedule.ended();
            schedule.wholeEnded();
            complete = true;
            return true;
        } finally {
            if (!complete) {
                store.purgeable().written(oldestBefore);
                // Or the next would begin within a second.
                if (background) schedule.rest();
            }
        }
    }

    /** Whether some collection's elements may have names of several byte forms. */
    static boolean hasLoosePaths(TableMetadata table) {
        for (ColumnMetadata column : table.regularAndStaticColumns())
            if (isLoose(column)) return true;
        // One that is added again has its old cells, where they are newer than the drop.
        for (DroppedColumn dropped : table.droppedColumns.values())
            if (isLoose(dropped.column)) return true;
        return false;
    }

    private static boolean isLoose(ColumnMetadata column) {
        return column.isComplex()
                && column.type instanceof CollectionType<?> collection
                && !KeyComponent.hasOneForm(collection.nameComparator());
    }

    /** Whether all that was written up to a sequence number is at the bottom. */
    private static boolean isSettled(Database database, long sequence) {
        int bottommost = database.bottommostLevel();
        for (LiveFileMetaData file : database.dataFiles())
            if (file.level() < bottommost && file.smallestSeqno() <= sequence) return false;
        return true;
    }

    /**
     * Rewrites the bottom through the filter, slice by slice.
     *
     * @return false if less may go than before, and so it was not all rewritten
     */
    private boolean rewrite(Database database, boolean resume, long restrictionsBefore)
            throws RocksDBException {
        byte[] from = resume ? schedule.resumeAt() : null;
        List<byte[]> bounds = bounds(database, from, SLICE_BYTES);
        for (int i = 0; i <= bounds.size(); i++) {
            done = (double) i / (bounds.size() + 1);
            byte[] to = i < bounds.size() ? bounds.get(i) : null;
            if (!rewrite(database, store.reconciler(), from, to)
                    || permission.restrictions() != restrictionsBefore) return false;
            from = to;
            schedule.reached(to);
        }
        return true;
    }

    /**
     * Rewrites a range of keys through the filter, twice where it is to be seen that the first time
     * left something; while the reconciler watches.
     *
     * @return false if less may go than before, and so it was not all rewritten
     */
    static boolean rewrite(
            Database database, Reconciler reconciler, byte @Nullable [] from, byte @Nullable [] to)
            throws RocksDBException {
        long leftovers = reconciler.leftovers();
        boolean complete = force(database, from, to);
        // What was merged just now did not pass the filter.
        if (!complete || reconciler.leftovers() == leftovers) return complete;
        return force(database, from, to);
    }

    static boolean force(Database database, byte @Nullable [] from, byte @Nullable [] to)
            throws RocksDBException {
        return database.compactions.tryCompact(
                database.data, from, to, BottommostLevelCompaction.kForce);
    }

    /** Where to cut the bottom into slices: the first key of each but the first. */
    List<byte[]> bounds(Database database, byte @Nullable [] from, long sliceBytes) {
        // Of whole runs RocksDB compacts all, whatever range it is given.
        if (store.reopenable().isCompactedBySize()) return List.of();
        int bottommost = database.bottommostLevel();
        List<LiveFileMetaData> files = database.dataFiles();
        files.removeIf(file -> file.level() != bottommost);
        files.sort(Comparator.comparing(LiveFileMetaData::smallestKey, Arrays::compareUnsigned));
        List<byte[]> bounds = new ArrayList<>();
        long bytes = 0;
        for (int i = 0; i < files.size(); i++) {
            LiveFileMetaData file = files.get(i);
            if (from != null && Arrays.compareUnsigned(file.largestKey(), from) < 0) continue;
            bytes += file.size();
            if (bytes < sliceBytes) continue;
            // The record that there are range tombstones goes with them: a purge may end here.
            if (i + 1 < files.size() && isInHeader(files.get(i + 1).smallestKey())) continue;
            // Not that key itself, or its file would be rewritten with both slices.
            bounds.add(Arrays.copyOf(file.largestKey(), file.largestKey().length + 1));
            bytes = 0;
        }
        return bounds;
    }

    /** Whether it is behind the record of its partition and before its rows. */
    private boolean isInHeader(byte[] key) {
        byte[] record = DataFiles.recordKey(store, key);
        if (record == null) return false;
        int kind = key[record.length - 1] & 0xFF;
        return kind > KeyKind.PARTITION && kind < KeyKind.ROW;
    }
}
