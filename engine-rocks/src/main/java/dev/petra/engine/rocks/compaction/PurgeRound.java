// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.compaction.PurgeChoice.Candidate;
import dev.petra.engine.rocks.compaction.PurgeChoice.Chosen;
import dev.petra.engine.rocks.compaction.PurgeChoice.Tried;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.FileExtent;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.FragmentReader;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.DoubleConsumer;
import org.jspecify.annotations.Nullable;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A purge that rewrites only files in which enough may go.
 *
 * <p>A max purgeable timestamp of its own begins; every write that began before is waited for, and
 * what was written is flushed. So all of it is in the files there are then, of which it is known
 * what they hold. Some of them are merged to the bottom. A tombstone in these that is below the
 * lowest timestamp of every other file that overlaps them, and below the max purgeable timestamp,
 * hides nothing outside of its own entry.
 *
 * <p>What the deletion of a partition hides in them goes too. The deletion stays, since it covers
 * other keys: a purge of all of the table removes it. Range tombstones are removed before, wherever
 * they are ({@link OldRanges}).
 */
final class PurgeRound {
    private static final Logger logger = LoggerFactory.getLogger(PurgeRound.class);

    private static final String FILE_PROPERTIES = "rocksdb.aggregated-table-properties";
    private static final byte[] NONE = {};

    /** Files come and go while they are read. */
    private static final int ATTEMPTS = 4;

    private final StoreContext store;
    private final PurgePermission permission;
    private final PurgeSchedule schedule;
    private final DataFiles held;
    private final OldRanges oldRanges;

    /** Files that came of a rewrite which took away much less than was expected. */
    private final Map<String, Tried> tried = new HashMap<>();

    private boolean wantsWhole;

    PurgeRound(
            StoreContext store,
            PurgePermission permission,
            PurgeSchedule schedule,
            DataFiles held) {
        this.store = store;
        this.permission = permission;
        this.schedule = schedule;
        this.held = held;
        this.oldRanges = new OldRanges(store, permission, held);
    }

    /**
     * To be called while no other purge runs.
     *
     * @param progress told how much of it is done, 0 to 1
     * @return whether anything was rewritten
     */
    boolean run(Database database, DoubleConsumer progress) throws RocksDBException {
        long waited = PurgeChoice.PATIENCE * schedule.intervalSeconds();
        wantsWhole = false;
        return run(
                database,
                progress,
                (files, gcBefore) -> {
                    PurgeChoice choice = new PurgeChoice(files, gcBefore, fileBytes(), tried);
                    List<Chosen> sets = choice.choose(gcBefore - waited);
                    wantsWhole = choice.wantsWhole();
                    return sets;
                });
    }

    /** Whether the last one left much that only a purge of all of the table would remove. */
    boolean wantsWhole() {
        return wantsWhole;
    }

    /** Which files are rewritten; whichever are, nothing that is hidden shows. */
    interface Choice {
        List<Chosen> of(List<Candidate> files, long gcBefore);
    }

    boolean run(Database database, DoubleConsumer progress, Choice choice) throws RocksDBException {
        long started = System.nanoTime();
        BooleanSupplier stopped = database.compactions.stopped();
        long restrictions = permission.restrictions();
        Reconciler reconciler = store.reconciler();
        // Before writes are waited for: what is not waited for must not be forgotten.
        long oldestBefore = store.purgeable().reset();
        boolean complete = false;
        try {
            int mark = 1 - reconciler.activeMaxPurgeable();
            reconciler.maxPurgeable(mark, Long.MAX_VALUE);
            store.room().writers.awaitThoseBegun();
            // 0 while parts arrive; those that begin to arrive later lower the max purgeable
            // timestamp.
            long gcBefore = permission.gcBefore();
            if (gcBefore == 0) return false;
            database.flush();
            List<Candidate> files = learn(database, stopped);
            if (files == null) return false;
            long ranges = oldRanges.remove(database, files, gcBefore, mark, restrictions, stopped);
            if (ranges < 0) return false;
            if (ranges > 0) {
                // With the deletions of rows that they left, more of the files may go.
                database.flush();
                files = learn(database, stopped);
                if (files == null) return false;
            }
            if (Purge.hasLoosePaths(store.table())) reconciler.loosePaths();
            List<Chosen> sets = choice.of(files, gcBefore);
            long purgedBefore = reconciler.purged();
            long rewritten = 0;
            long gone = 0;
            RocksDBException failure = null;
            boolean ended = false;
            for (int i = 0; i < sets.size() && !ended; i++) {
                progress.accept((double) i / sets.size());
                Chosen chosen = sets.get(i);
                try {
                    // Not after the purge has begun: who forbids purges waits for its end.
                    if (!held.areWhole(database, chosen.names(), stopped)) continue;
                } catch (RocksDBException e) {
                    failure = added(failure, e);
                    continue;
                }
                // What was written meanwhile may keep too much of it, until the next time.
                Chosen set = chosen.below(reconciler.maxPurgeable(mark), gcBefore);
                if (set.droppable() < chosen.droppable() && !set.isDense()) continue;
                ended = stopped.getAsBoolean() || !permission.begin(database, set, restrictions);
                if (ended) break;
                List<String> made = null;
                try {
                    made = rewrite(database, set, gcBefore, mark);
                } catch (RocksDBException e) {
                    // That one file cannot be read is no reason to keep the garbage of others.
                    failure = added(failure, e);
                } finally {
                    // Of what a stream kept in them it is not known that it was in vain.
                    ended =
                            database.compactions.purgeEnded(set)
                                    || permission.restrictions() != restrictions;
                }
                if (made == null || ended) continue;
                long left = bytes(database, made);
                rewritten += set.bytes();
                gone += set.bytes() - left;
                Tried vain =
                        Tried.of(
                                set,
                                left,
                                gcBefore,
                                reconciler.maxPurgeable(mark),
                                database.bottommostLevel());
                if (vain != null) for (String name : made) tried.put(name, vain);
            }
            List<Candidate> after = files;
            if (ended) after = null;
            else if (!sets.isEmpty()) after = learn(database, stopped);
            if (after != null) {
                for (Candidate file : after) store.purgeable().written(file.held().firstTime());
                schedule.ended();
            }
            if (rewritten > 0)
                logger.info(
                        "Purged {} in {} ms: {} deletions and expired values removed; {} bytes of"
                                + " files rewritten, which are {} less now",
                        store.name(),
                        TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - started),
                        reconciler.purged() - purgedBefore,
                        rewritten,
                        gone);
            if (failure != null) throw failure;
            complete = after != null;
            return complete && rewritten > 0;
        } finally {
            if (!complete) {
                store.purgeable().written(oldestBefore);
                schedule.rest();
            }
        }
    }

    /**
     * All files as of one moment, and what they hold.
     *
     * @return null if it was stopped
     */
    private @Nullable List<Candidate> learn(Database database, BooleanSupplier stopped)
            throws RocksDBException {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            List<Candidate> files = learnOnce(database, stopped);
            if (files != null || stopped.getAsBoolean()) return files;
        }
        // Not much is left to be read: as long as that takes, no file goes.
        database.db.disableFileDeletions();
        try {
            return learnOnce(database, stopped);
        } finally {
            database.db.enableFileDeletions();
        }
    }

    private @Nullable List<Candidate> learnOnce(Database database, BooleanSupplier stopped)
            throws RocksDBException {
        List<LiveFileMetaData> files = database.dataFiles();
        Map<String, FileExtent> extents = held.learn(database, files, true, stopped);
        if (extents == null) return null;
        tried.keySet().retainAll(extents.keySet());
        return candidates(store, database, files, extents);
    }

    static List<Candidate> candidates(
            StoreContext store,
            Database database,
            List<LiveFileMetaData> files,
            Map<String, FileExtent> extents)
            throws RocksDBException {
        List<Candidate> candidates = new ArrayList<>();
        for (LiveFileMetaData file : files) {
            FileExtent held = Objects.requireNonNull(extents.get(file.fileName()));
            candidates.add(
                    new Candidate(
                            file.fileName(),
                            file.level(),
                            ByteBuffer.wrap(file.smallestKey()),
                            ByteBuffer.wrap(file.largestKey()),
                            file.size(),
                            held,
                            file.beingCompacted(),
                            hidden(store, database, file, held)));
        }
        return candidates;
    }

    /** How much a file begins with that its partition's deletion hides, which is in another. */
    private static long hidden(
            StoreContext store, Database database, LiveFileMetaData file, FileExtent held)
            throws RocksDBException {
        FileExtent.Head head = held.head();
        if (head.bytes() < PurgeChoice.THIN * (double) held.bytes()
                || head.bytes() == 0
                || !store.catalog().has(Catalog.Flag.PARTITION_RECORDS)) return 0;
        byte[] key = DataFiles.recordKey(store, file.smallestKey());
        byte[] record = key == null ? null : record(database, key);
        if (record == null) return 0;
        try {
            long deleted =
                    FragmentReader.partition(ByteBuffer.wrap(record))
                            .deletion()
                            .markedForDeleteAt();
            return head.highest() <= deleted ? head.bytes() : 0;
        } catch (MalformedFragment e) {
            logger.debug("What {} begins with is kept", file.fileName(), e);
            return 0;
        }
    }

    /** Whether files have deletions of ranges: a cleanup has not ended, or was stopped. */
    private static boolean hasRangeDeletions(Database database) throws RocksDBException {
        Map<String, String> sums = database.db.getMapProperty(database.data, FILE_PROPERTIES);
        return !"0".equals(sums.get("num_range_deletions"));
    }

    private static byte @Nullable [] record(Database database, byte[] key) throws RocksDBException {
        return database.db.get(database.data, database.readOptions, key);
    }

    private static RocksDBException added(@Nullable RocksDBException failure, RocksDBException e) {
        if (failure == null) return e;
        failure.addSuppressed(e);
        return failure;
    }

    /** Returns the names of what came of it; null if it could not be done. */
    private @Nullable List<String> rewrite(Database database, Chosen set, long gcBefore, int mark)
            throws RocksDBException {
        Reconciler.purgeRangeHere(
                gcBefore, set.limit(), mark, set.from().array(), set.to().array());
        try {
            // A deleted counter wins over a newer count, whatever hides it.
            if (!store.table().isCounter()) hide(database, set);
            return held.compact(database, set.names(), database.bottommostLevel(), fileBytes());
        } finally {
            Reconciler.purgeNowhere();
        }
    }

    /** What the deletions of partitions hide in files that this thread is going to merge goes. */
    private void hide(Database database, Chosen set) throws RocksDBException {
        byte[] key = DataFiles.recordKey(store, set.from().array());
        byte[] record = key == null ? null : record(database, key);
        // It may be in the log only: after a loss of power nothing would hide what is elsewhere of
        // rows whose own deletions are gone.
        if (record != null) database.log.sync();
        // Behind the sync, which may take long: of what is written from here on nothing is in the
        // files.
        if (hasRangeDeletions(database)) return;
        if (key == null || record == null) Reconciler.coverHere(NONE, NONE);
        else Reconciler.coverHere(key, record);
    }

    private long fileBytes() {
        return store.reopenable().compaction().fileBytes();
    }

    private static long bytes(Database database, List<String> names) {
        long bytes = 0;
        for (LiveFileMetaData file : database.dataFiles())
            if (names.contains(file.fileName())) bytes += file.size();
        return bytes;
    }
}
