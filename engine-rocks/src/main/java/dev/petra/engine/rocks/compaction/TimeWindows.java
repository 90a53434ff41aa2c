// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import com.google.common.collect.Lists;
import dev.petra.engine.rocks.db.CompactionSettings;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.FileExtent;
import dev.petra.engine.rocks.db.TimeWindow;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;

/**
 * What {@code TimeWindowCompactionStrategy} asks of one store, and RocksDB has not: files are
 * merged only with those of their window, and a file of which everything has expired goes whole.
 *
 * <p>RocksDB's own compaction is off then. Files stay where flushes put them, in level 0, where
 * neighbours are merged; so a window's files that have others between them stay apart. A stream's
 * files that overlap nothing go to the bottom, where none are merged. What a file holds is read
 * from it once, after it was written, and remembered in the catalog.
 *
 * <p>Runs on one thread at a time.
 */
public final class TimeWindows {
    /** At most so many merges before it is looked again what has expired. */
    private static final int MERGES = 16;

    private final Purge purge;
    private final DataFiles held;

    /** What was left of files that were purged, which a second time would not change. */
    private final Set<String> remains = new HashSet<>();

    /** The extents of the files that there were last, by the name of the file. */
    private Map<String, FileExtent> extents = Map.of();

    private volatile String seen = "";
    private volatile long lookAt = System.nanoTime();

    public TimeWindows(Purge purge, DataFiles held) {
        this.purge = purge;
        this.held = held;
    }

    /** Whether there may be something to do: another number of files, or time has passed. */
    public boolean isDue(Database database) throws RocksDBException {
        return System.nanoTime() - lookAt >= 0 || !seen.equals(files(database));
    }

    private static String files(Database database) throws RocksDBException {
        return database.db.getProperty(database.data, "rocksdb.num-files-at-level0");
    }

    /** Lets go what has expired, and merges what should be. */
    public synchronized void run(Database database, CompactionSettings settings)
            throws RocksDBException {
        TimeWindow window = settings.window();
        // The table was altered since somebody asked whether this is due.
        if (window == null) return;
        lookAt = System.nanoTime() + TimeUnit.SECONDS.toNanos(window.checkSeconds());
        seen = files(database);
        if (!purge.dropExpired(database, this)) return;
        for (int merges = 0; merges < MERGES; merges++) {
            List<LiveFileMetaData> files = database.dataFiles();
            if (!learn(database, files)) return;
            List<String> picked = pick(levelZero(files), window, settings);
            if (picked.isEmpty()) return;
            try (UnfinishedMerges.Taken room = held.reserve(database, picked)) {
                if (room == null) return;
                if (!held.areWhole(database, picked, database.compactions::isClosing)) {
                    // Others are merged without it.
                    if (held.isDamaged(picked)) continue;
                    return;
                }
                Reconciler.purgeNothingHere();
                try {
                    if (held.compact(database, picked, 0, 0) == null) return;
                } finally {
                    Reconciler.purgeNowhere();
                }
            }
            seen = files(database);
        }
        // There may be more.
        lookAt = System.nanoTime();
    }

    /** Those that are merged here, the newest first. */
    private List<Candidate> levelZero(List<LiveFileMetaData> files) {
        List<Candidate> candidates = new ArrayList<>();
        for (LiveFileMetaData file : files)
            if (file.level() == 0)
                candidates.add(
                        new Candidate(
                                file.fileName(),
                                file.size(),
                                extent(file).highest(),
                                file.beingCompacted() || held.isDamaged(List.of(file.fileName()))));
        return candidates;
    }

    /**
     * A file that may be merged.
     *
     * @param highest timestamp
     * @param busy whether it is being merged already, or cannot be because it is damaged
     */
    record Candidate(String name, long bytes, long highest, boolean busy) {}

    /**
     * Chooses neighbours to merge: of a window that is over all, the smallest first; of the newest
     * some that are alike in size, as RocksDB does by size.
     *
     * @param files the newest first, as RocksDB has them
     * @return the names of two or more; none if there is nothing to do
     */
    static List<String> pick(
            List<Candidate> files, TimeWindow window, CompactionSettings settings) {
        long newest =
                files.stream()
                        .mapToLong(file -> window.number(file.highest))
                        .max()
                        .orElse(Long.MIN_VALUE);
        for (int from = 0; from < files.size(); ) {
            Candidate first = files.get(from);
            long number = window.number(first.highest);
            int to = from + 1;
            while (to < files.size()
                    && !first.busy
                    && !files.get(to).busy
                    && window.number(files.get(to).highest) == number) to++;
            List<String> picked =
                    number < newest
                            ? smallest(files.subList(from, to), settings.most())
                            : alike(files.subList(from, to), settings);
            if (picked.size() > 1) return picked;
            from = to;
        }
        return List.of();
    }

    /**
     * All, if they are not too many for one merge; else the neighbours with the fewest bytes, so
     * that what came of a merge is not in each that follows. The first merge is of so few that each
     * later one can be of the most.
     */
    private static List<String> smallest(List<Candidate> files, int most) {
        int count = files.size() <= most ? files.size() : (files.size() - 2) % (most - 1) + 2;
        int least = 0;
        long bytes = 0;
        long leastBytes = Long.MAX_VALUE;
        for (int to = 1; to <= files.size(); to++) {
            bytes += files.get(to - 1).bytes;
            if (to < count) continue;
            if (bytes < leastBytes) {
                least = to - count;
                leastBytes = bytes;
            }
            bytes -= files.get(to - count).bytes;
        }
        return names(files.subList(least, least + count));
    }

    /** The first neighbours of which each is not much larger than all before it together. */
    private static List<String> alike(List<Candidate> files, CompactionSettings settings) {
        for (int from = 0; from + settings.fewest() <= files.size(); from++) {
            long bytes = files.get(from).bytes;
            int to = from + 1;
            while (to < Math.min(files.size(), from + settings.most())
                    && files.get(to).bytes <= bytes * (100 + settings.tolerance()) / 100)
                bytes += files.get(to++).bytes;
            if (to - from >= settings.fewest()) return names(files.subList(from, to));
        }
        return List.of();
    }

    private static List<String> names(Collection<Candidate> files) {
        return files.stream().map(Candidate::name).toList();
    }

    // What has expired

    /**
     * What may go, since nothing outside of it is as old as anything in it: in the order in which
     * to let it go, the oldest files first. In level 0 none above one that stays: RocksDB gives up
     * no entries that might be merged with what an older file has.
     *
     * @param files all of them
     * @param mayGo false of those that stay for another reason, as one that is damaged
     * @param maxPurgeable the lowest timestamp of what is in no file
     * @param limit set to the lowest timestamp of all that stays, wherever it is
     */
    List<LiveFileMetaData> expired(
            List<LiveFileMetaData> files,
            Predicate<LiveFileMetaData> mayGo,
            long gcBefore,
            long maxPurgeable,
            long[] limit) {
        List<LiveFileMetaData> oldestFirst = Lists.reverse(files);
        Set<LiveFileMetaData> going = new LinkedHashSet<>();
        for (LiveFileMetaData file : oldestFirst)
            if (extent(file).hasEnded(gcBefore)
                    && !file.beingCompacted()
                    && !remains.contains(file.fileName())
                    && mayGo.test(file)) going.add(file);
        // One that stays for another's sake may be what a third has to stay for.
        long before;
        do {
            before = maxPurgeable;
            boolean stays = false;
            for (LiveFileMetaData file : oldestFirst) {
                boolean isAbove = stays && file.level() == 0;
                if (going.contains(file) && !isAbove && extent(file).highest() < maxPurgeable)
                    continue;
                going.remove(file);
                stays = true;
                maxPurgeable = Math.min(maxPurgeable, extent(file).lowest());
            }
        } while (maxPurgeable < before);
        limit[0] = maxPurgeable;
        return List.copyOf(going);
    }

    /**
     * Whether a file can be read. A large one takes a while.
     *
     * @return false if it is damaged, the disk is full, or the store is being closed
     */
    boolean isWhole(Database database, LiveFileMetaData file) throws RocksDBException {
        return held.areWhole(database, List.of(file.fileName()), database.compactions::isClosing);
    }

    /**
     * Lets a file go of which everything may.
     *
     * @param mark of the max purgeable timestamp: the lowest of all that stays, and of what is
     *     written meanwhile
     * @return false if some of it stays, or it is being merged already, or the store is being
     *     closed
     */
    boolean drop(
            Database database,
            LiveFileMetaData file,
            long gcBefore,
            Reconciler reconciler,
            int mark)
            throws RocksDBException {
        // It would be read and written in vain.
        if (extent(file).highest() >= reconciler.maxPurgeable(mark)) return false;
        @Nullable List<String> left = List.of(file.fileName());
        Reconciler.purgeHere(gcBefore, mark);
        try {
            // The first time merges what is to be merged, to next to nothing; the second time
            // removes that.
            for (int time = 0; time < 2 && !left.isEmpty(); time++) {
                left = held.compact(database, left, file.level(), 0);
                if (left == null) return false;
            }
        } finally {
            Reconciler.purgeNowhere();
        }
        // What only a write of meanwhile has kept goes another time.
        if (extent(file).highest() < reconciler.maxPurgeable(mark)) remains.addAll(left);
        return left.isEmpty();
    }

    // What files hold

    /** The lowest timestamp in a file. */
    long lowest(LiveFileMetaData file) {
        return extent(file).lowest();
    }

    private FileExtent extent(LiveFileMetaData file) {
        return Objects.requireNonNull(extents.get(file.fileName()));
    }

    /**
     * To be called before these are asked about.
     *
     * @return false if the store is being closed, or a file went meanwhile
     */
    boolean learn(Database database, Collection<LiveFileMetaData> files) throws RocksDBException {
        remains.retainAll(files.stream().map(LiveFileMetaData::fileName).toList());
        Map<String, FileExtent> learned =
                held.learn(database, files, false, database.compactions::isClosing);
        if (learned != null) extents = learned;
        return learned != null;
    }
}
