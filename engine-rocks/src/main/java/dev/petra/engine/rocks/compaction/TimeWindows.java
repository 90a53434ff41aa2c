// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import com.google.common.collect.Lists;
import dev.petra.engine.rocks.db.CompactionSettings;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.FileExtent;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.rocks.db.TimeWindow;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileReader;
import org.rocksdb.SstFileReaderIterator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What {@code TimeWindowCompactionStrategy} asks of one store, and RocksDB has not: files are
 * merged only with those of their window, and a file of which everything has expired goes whole.
 *
 * <p>RocksDB's own compaction is off then. All files stay where flushes put them, in level 0, where
 * neighbours are merged; so a window's files that have others between them stay apart. What a file
 * holds is read from it once, after it was written, and remembered in the catalog.
 *
 * <p>Runs on one thread at a time.
 */
public final class TimeWindows {
    private static final Logger logger = LoggerFactory.getLogger(TimeWindows.class);

    /** At most so many merges before it is looked again what has expired. */
    private static final int MERGES = 16;

    private final StoreContext store;
    private final Purge purge;
    private final Map<String, FileExtent> extents = new HashMap<>();

    /** What was left of files that were purged, which a second time would not change. */
    private final Set<String> remains = new HashSet<>();

    private boolean recalled;
    private volatile String seen = "";
    private volatile long lookAt = System.nanoTime();

    public TimeWindows(StoreContext store, Purge purge) {
        this.store = store;
        this.purge = purge;
    }

    /** Whether there may be something to do: another number of files, or time has passed. */
    public boolean isDue(Database database) throws RocksDBException {
        return System.nanoTime() - lookAt >= 0 || !seen.equals(files(database));
    }

    private static String files(Database database) throws RocksDBException {
        return database.db.getProperty(database.data, "rocksdb.num-files-at-level0");
    }

    /** Lets go what has expired, and merges what should be. */
    public synchronized void run(Database database, CompactionSettings shape)
            throws RocksDBException {
        TimeWindow window = Objects.requireNonNull(shape.window());
        lookAt = System.nanoTime() + TimeUnit.SECONDS.toNanos(window.checkSeconds());
        seen = files(database);
        if (!purge.dropExpired(database, this)) return;
        for (int merges = 0; merges < MERGES; merges++) {
            List<LiveFileMetaData> files = database.dataFiles();
            if (!learn(database, files)) return;
            List<String> picked = pick(levelZero(files), window, shape);
            if (picked.isEmpty()) return;
            Reconciler.purgeNothingHere();
            try {
                if (compact(database, picked, 0) == null) return;
            } finally {
                Reconciler.purgeNowhere();
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
                                file.beingCompacted()));
        return candidates;
    }

    /**
     * A file that may be merged.
     *
     * @param highest timestamp
     * @param busy whether it is being merged already
     */
    record Candidate(String name, long bytes, long highest, boolean busy) {}

    /**
     * Chooses neighbours to merge: of a window that is over all, of the newest some that are alike
     * in size, as RocksDB does by size.
     *
     * @param files the newest first, as RocksDB has them
     * @return the names of two or more; none if there is nothing to do
     */
    static List<String> pick(List<Candidate> files, TimeWindow window, CompactionSettings shape) {
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
                            ? names(files.subList(from, Math.min(to, from + shape.most())))
                            : alike(files.subList(from, to), shape);
            if (picked.size() > 1) return picked;
            from = to;
        }
        return List.of();
    }

    /** The first neighbours of which each is not much larger than all before it together. */
    private static List<String> alike(List<Candidate> files, CompactionSettings shape) {
        for (int from = 0; from + shape.fewest() <= files.size(); from++) {
            long bytes = files.get(from).bytes;
            int to = from + 1;
            while (to < Math.min(files.size(), from + shape.most())
                    && files.get(to).bytes <= bytes * (100 + shape.tolerance()) / 100)
                bytes += files.get(to++).bytes;
            if (to - from >= shape.fewest()) return names(files.subList(from, to));
        }
        return List.of();
    }

    private static List<String> names(Collection<Candidate> files) {
        return files.stream().map(Candidate::name).toList();
    }

    /**
     * Merges files into one.
     *
     * @return the names of what came of them; null if one is being merged already, or is gone
     */
    private @Nullable List<String> compact(Database database, List<String> files, int level)
            throws RocksDBException {
        try {
            return database.compactFiles(files, level, bytes(database, files));
        } catch (RocksDBException e) {
            if (!database.isClosing() && areThere(database, files)) throw e;
            logger.debug("{} of {} are merged another time", files, store.name(), e);
            return null;
        }
    }

    private static long bytes(Database database, Collection<String> names) {
        long bytes = 0;
        for (LiveFileMetaData file : database.dataFiles())
            if (names.contains(file.fileName())) bytes += file.size();
        return bytes;
    }

    /** Whether all files are, and nobody merges one of them. */
    private static boolean areThere(Database database, Collection<String> names) {
        Set<String> missing = new HashSet<>(names);
        for (LiveFileMetaData file : database.dataFiles())
            if (!file.beingCompacted()) missing.remove(file.fileName());
        return missing.isEmpty();
    }

    // What has expired

    /**
     * What may go, since nothing outside of it is as old as anything in it: in the order in which
     * to let it go, the oldest files first. In level 0 none above one that stays: RocksDB gives up
     * no entries that might be merged with what an older file has.
     *
     * @param files all of them
     * @param maxPurgeable the lowest timestamp of what is in no file
     * @param limit set to the lowest timestamp of all that stays, wherever it is
     */
    List<LiveFileMetaData> expired(
            List<LiveFileMetaData> files, long gcBefore, long maxPurgeable, long[] limit) {
        List<LiveFileMetaData> expired = new ArrayList<>();
        for (LiveFileMetaData file : files)
            if (extent(file).hasEnded(gcBefore)
                    && !file.beingCompacted()
                    && !remains.contains(file.fileName())) expired.add(file);
            else maxPurgeable = Math.min(maxPurgeable, extent(file).lowest());
        // One that stays for another's sake may be what a third has to stay for.
        for (boolean changed = true; changed; ) {
            changed = false;
            for (var it = expired.iterator(); it.hasNext(); ) {
                FileExtent extent = extent(it.next());
                if (extent.highest() < maxPurgeable) continue;
                maxPurgeable = Math.min(maxPurgeable, extent.lowest());
                it.remove();
                changed = true;
            }
        }
        limit[0] = maxPurgeable;
        List<LiveFileMetaData> oldest = new ArrayList<>();
        boolean stays = false;
        for (LiveFileMetaData file : Lists.reverse(files)) {
            if (stays && file.level() == 0) break;
            if (expired.contains(file)) oldest.add(file);
            else stays = true;
        }
        return oldest;
    }

    /**
     * Lets a file go of which everything may.
     *
     * @param maxPurgeable the lowest timestamp of all that stays
     * @return false if it is being merged already, or the store is being closed
     */
    boolean drop(Database database, LiveFileMetaData file, long gcBefore, long maxPurgeable)
            throws RocksDBException {
        List<String> left = List.of(file.fileName());
        Reconciler.purgeHere(gcBefore, maxPurgeable);
        try {
            // The first time merges what is to be merged, to next to nothing; the second time
            // removes that.
            for (int time = 0; time < 2 && !left.isEmpty(); time++) {
                List<String> made = compact(database, left, file.level());
                if (made == null) return false;
                left = made.stream().map(name -> name.substring(name.lastIndexOf('/'))).toList();
            }
        } finally {
            Reconciler.purgeNowhere();
        }
        remains.addAll(left);
        return left.isEmpty();
    }

    // What files hold

    /** Never asked of a file that {@link #learn} was not told of. */
    private FileExtent extent(LiveFileMetaData file) {
        return Objects.requireNonNull(extents.get(file.fileName()), file.fileName());
    }

    /**
     * Reads what is not known yet, and forgets files that are gone.
     *
     * @return false if the store is being closed, or a file went meanwhile
     */
    boolean learn(Database database, Collection<LiveFileMetaData> files) throws RocksDBException {
        if (!recalled) {
            extents.putAll(store.catalog().extents());
            recalled = true;
        }
        Set<String> names = new HashSet<>();
        files.forEach(file -> names.add(file.fileName()));
        for (String gone : extents.keySet().stream().filter(n -> !names.contains(n)).toList()) {
            store.catalog().forgetExtent(gone);
            extents.remove(gone);
        }
        remains.retainAll(names);
        for (String name : names) {
            if (extents.containsKey(name)) continue;
            FileExtent extent = read(database, name);
            if (extent == null) return false;
            // What is unknown is looked at again after a start.
            if (!extent.equals(FileExtent.UNKNOWN)) store.catalog().setExtent(name, extent);
            extents.put(name, extent);
        }
        return true;
    }

    private @Nullable FileExtent read(Database database, String name) throws RocksDBException {
        try (TableOptions.ForSst options = store.reopenable().sstOptions();
                SstFileReader reader = new SstFileReader(options.data());
                ReadOptions how = Database.newReadOptions().setFillCache(false)) {
            reader.open(store.directory().resolve(name.substring(1)).toString());
            try (SstFileReaderIterator it = reader.newIterator(how)) {
                it.seekToFirst();
                return FileExtent.of(it, database::isClosing);
            }
        } catch (MalformedFragment e) {
            logger.error(
                    "File {} of {} in {} has a malformed entry. No file of the table is let go as"
                        + " expired while that one is there: restore the table from a snapshot, or"
                        + " rebuild the node from the others.",
                    name,
                    store.name(),
                    store.directory(),
                    e);
            return FileExtent.UNKNOWN;
        } catch (RocksDBException e) {
            if (areThere(database, List.of(name))) throw e;
            return null;
        }
    }
}
