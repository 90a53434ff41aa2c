// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.FileExtent;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;

/**
 * Chooses which files to rewrite, to be rid of what may go in them. {@code docs/architecture.md}
 * has the rules. It decides what a purge costs, never what it removes: that is the compaction
 * filter's.
 */
final class PurgeChoice {
    /** Where so much of the bytes goes, it costs at most five times as much as it brings. */
    static final double DENSE = 0.2;

    /** What is less has to wait for so many intervals, and for its turn. */
    static final int PATIENCE = 30;

    /**
     * With less than that, what waited for so long costs more than it is worth: in its file, or in
     * all of the table.
     */
    static final double THIN = 0.005;

    /** Sets have at most so many bytes, or those of so many files: they cannot be stopped. */
    private static final long MOST_BYTES = 512L << 20;

    /**
     * With files of level 0: RocksDB merges nothing else of that level meanwhile, and holds writes
     * up when it has too many files.
     */
    private static final long MOST_LEVEL_ZERO_BYTES = 512L << 20;

    private static final int MOST_DENSE_FILES = 25;
    private static final int MOST_THIN_FILES = 2;

    /**
     * A data file.
     *
     * @param from its first key
     * @param to its last key
     * @param bytes on disk
     * @param busy whether it is being merged
     * @param hidden how many bytes of keys and values at its beginning are hidden by a deletion of
     *     their partition in another file
     */
    record Candidate(
            String name,
            int level,
            ByteBuffer from,
            ByteBuffer to,
            long bytes,
            FileExtent held,
            boolean busy,
            long hidden) {
        /** Part of what it holds, in bytes on disk. */
        double part(long ofHeld) {
            return ofHeld == 0 ? 0 : (double) bytes * Math.min(1, (double) ofHeld / held.bytes());
        }

        boolean overlaps(ByteBuffer first, ByteBuffer last) {
            return ByteBufferUtil.compareUnsigned(from, last) <= 0
                    && ByteBufferUtil.compareUnsigned(first, to) <= 0;
        }
    }

    /**
     * Files that are rewritten together.
     *
     * @param from the first key of them
     * @param to the last key of them
     * @param limit the lowest timestamp of anything between these keys in another file
     * @param bytes of the files
     * @param droppable bytes of them that may go, about
     */
    record Chosen(
            List<Candidate> files,
            ByteBuffer from,
            ByteBuffer to,
            long limit,
            long bytes,
            long droppable) {
        List<String> names() {
            return files.stream().map(Candidate::name).toList();
        }

        double share() {
            return (double) droppable / (double) bytes;
        }

        boolean isDense() {
            return droppable > 0 && share() >= DENSE;
        }

        /** Whether it would be if nothing old lay above it. */
        boolean wouldBeDense(long gcBefore) {
            return PurgeChoice.droppable(files, gcBefore, Long.MAX_VALUE) >= DENSE * (double) bytes;
        }

        /** The same where nothing may go above a timestamp. */
        Chosen below(long maxPurgeable, long gcBefore) {
            if (maxPurgeable >= limit) return this;
            long less = Math.min(droppable, PurgeChoice.droppable(files, gcBefore, maxPurgeable));
            return new Chosen(files, from, to, maxPurgeable, bytes, less);
        }
    }

    /**
     * What rewriting a file's ancestors did not remove.
     *
     * @param droppable bytes that might go
     */
    record Tried(long droppable) {
        /**
         * What is left of a set that was rewritten to the end; null if rewriting it may have been
         * worth it, or may be the next time: what is merged on its way to the bottom does not pass
         * the filter.
         *
         * @param left bytes of what came of it
         * @param maxPurgeable as of when it had been rewritten
         */
        static @Nullable Tried of(
                Chosen set, long left, long gcBefore, long maxPurgeable, int bottommost) {
            if ((set.bytes - left) * 5 >= set.droppable
                    || set.files.stream().anyMatch(file -> file.level < bottommost)) return null;
            // Writes of old timestamps may have kept it, and do not the next time.
            return new Tried(set.below(maxPurgeable, gcBefore).droppable);
        }

        /** Whether that may be different by now. Writes alone do not make it so. */
        boolean isOld(long nextDroppable) {
            return nextDroppable >= droppable + droppable / 5;
        }
    }

    /** The names of files are numbers: of six digits, or of more. */
    private static final Comparator<String> BY_AGE =
            Comparator.comparingInt(String::length).thenComparing(Comparator.naturalOrder());

    /** Those of level 0 by age, the newest first; of others by key. */
    private final List<List<Candidate>> levels = new ArrayList<>();

    /** The bytes of the first file, of the first two, and so on, for each level. */
    private final List<long[]> sums = new ArrayList<>();

    private final long gcBefore;
    private final long fileBytes;
    private final Map<String, Tried> tried;
    private boolean wantsWhole;

    /**
     * @param files all there are, those of level 0 by age, the newest first
     * @param gcBefore local times before it are past their grace
     * @param fileBytes of a file of the bottommost level, at most
     */
    PurgeChoice(List<Candidate> files, long gcBefore, long fileBytes, Map<String, Tried> tried) {
        for (Candidate file : files) {
            while (levels.size() <= file.level) levels.add(new ArrayList<>());
            levels.get(file.level).add(file);
        }
        // Neighbours may have a key in common, no more.
        for (int level = 1; level < levels.size(); level++)
            levels.get(level)
                    .sort(
                            Comparator.comparing(Candidate::from, ByteBufferUtil::compareUnsigned)
                                    .thenComparing(Candidate::to, ByteBufferUtil::compareUnsigned));
        for (List<Candidate> level : levels) {
            long[] sum = new long[level.size() + 1];
            for (int i = 0; i < level.size(); i++) sum[i + 1] = sum[i] + level.get(i).bytes;
            sums.add(sum);
        }
        this.gcBefore = gcBefore;
        this.fileBytes = fileBytes;
        this.tried = tried;
    }

    /**
     * Sets that have no file in common, in the order in which to rewrite them.
     *
     * @param oldBefore local times before it have waited long enough to go from thin files too
     */
    List<Chosen> choose(long oldBefore) {
        List<Chosen> dense = new ArrayList<>();
        List<Chosen> thin = new ArrayList<>();
        // For each file: below which timestamp old data goes with a set, now or in its turn.
        Map<String, Long> reached = new HashMap<>();
        double blocked = 0;
        List<Candidate> files = levels.stream().flatMap(List::stream).toList();
        long bytes = bytes(files);
        for (Candidate file : files) {
            if (file.held().share(gcBefore, Long.MAX_VALUE) == 0
                    && file.held().deletions() == 0
                    && file.hidden == 0) continue;
            List<Candidate> set = closed(List.of(file));
            Chosen chosen = chosen(set);
            if (!chosen.isDense() && chosen.wouldBeDense(gcBefore)) {
                // An older timestamp above it is all that keeps it.
                List<Candidate> around =
                        closed(around(set), Math.max(MOST_BYTES, MOST_DENSE_FILES * fileBytes));
                if (around == null || bytes(around) > most(around, MOST_DENSE_FILES)) {
                    blocked += (double) garbage(List.of(file), gcBefore, Long.MAX_VALUE);
                } else {
                    Chosen whole = chosen(around);
                    if (whole.isDense()) chosen = whole;
                }
            }
            // Another time, or never.
            if (isBusy(set) || isVain(file, chosen)) reached.put(file.name, Long.MAX_VALUE);
            else if (chosen.isDense()) {
                if (chosen.bytes <= most(chosen.files, MOST_DENSE_FILES)) dense.add(chosen);
                else wantsWhole = true;
            } else if (chosen.droppable > 0
                    && chosen.bytes <= most(chosen.files, MOST_THIN_FILES)
                    && garbage(set, oldBefore, chosen.limit) >= THIN * (double) chosen.bytes)
                thin.add(chosen);
        }
        for (List<Chosen> sets : List.of(dense, thin))
            for (Chosen set : sets)
                for (String name : set.names()) reached.merge(name, set.limit, Math::max);
        double left = 0;
        for (Candidate file : files) {
            long limit = reached.getOrDefault(file.name, Long.MIN_VALUE);
            left += (double) garbage(List.of(file), oldBefore, Long.MAX_VALUE);
            left -= (double) garbage(List.of(file), oldBefore, limit);
            FileExtent.Covers covers = file.held().covers();
            if (covers.from() < oldBefore) left += file.part(covers.bytes());
        }
        wantsWhole |= blocked > 0 && blocked >= DENSE * (double) bytes;
        wantsWhole |= left > 0 && left >= THIN * (double) bytes;
        // Nothing is purged that an unreadable file may have.
        wantsWhole &= files.stream().noneMatch(PurgeChoice::isUnreadable);
        dense.sort(Comparator.comparingDouble(set -> -set.share()));
        // Those that were written longest ago.
        thin.sort(Comparator.comparing(set -> set.files.get(set.files.size() - 1).name(), BY_AGE));
        Set<String> taken = new HashSet<>();
        List<Chosen> all = new ArrayList<>();
        for (Chosen set : dense) if (take(set, taken)) all.add(set);
        long budget = bytes / PATIENCE;
        for (Chosen set : thin) {
            if (budget <= 0) break;
            if (!take(set, taken)) continue;
            budget -= set.bytes;
            all.add(set);
        }
        return all;
    }

    /** Whether there is much that only a purge of all of the table would remove. */
    boolean wantsWhole() {
        return wantsWhole;
    }

    private static long bytes(List<Candidate> files) {
        return files.stream().mapToLong(Candidate::bytes).sum();
    }

    private static boolean take(Chosen set, Set<String> taken) {
        List<String> names = set.names();
        return Collections.disjoint(names, taken) && taken.addAll(names);
    }

    /** Whether no more may go of a set than what did not go the last time. */
    private boolean isVain(Candidate file, Chosen set) {
        Tried before = tried.get(file.name());
        return before != null && !before.isOld(set.droppable);
    }

    private static boolean isUnreadable(Candidate file) {
        return file.held.equals(FileExtent.UNKNOWN);
    }

    /** Whether nothing of a set goes now: a file is being merged, or cannot be read. */
    private static boolean isBusy(List<Candidate> set) {
        return set.stream().anyMatch(file -> file.busy || isUnreadable(file));
    }

    /**
     * How many bytes a set may have.
     *
     * @param files or those of so many files
     */
    private long most(List<Candidate> set, int files) {
        if (set.get(0).level == 0) return MOST_LEVEL_ZERO_BYTES;
        return Math.max(MOST_BYTES, files * fileBytes);
    }

    /** A set, and all that overlaps it. */
    private List<Candidate> around(List<Candidate> set) {
        Bounds bounds = new Bounds(set);
        List<Candidate> around = new ArrayList<>();
        for (int level = 0; level < levels.size(); level++)
            around.addAll(overlapping(level, bounds));
        return around;
    }

    /**
     * With all that RocksDB merges to bring these to the bottom: on each level below the first what
     * overlaps, of level 0 all that is older.
     */
    List<Candidate> closed(List<Candidate> seeds) {
        return Objects.requireNonNull(closed(seeds, Long.MAX_VALUE));
    }

    /** The same; null if it has more bytes than that. */
    private @Nullable List<Candidate> closed(List<Candidate> seeds, long most) {
        List<Candidate> set = new ArrayList<>();
        Bounds bounds = new Bounds(seeds);
        int top = seeds.stream().mapToInt(Candidate::level).min().orElse(0);
        if (top == 0) {
            Set<Candidate> named = same(seeds);
            boolean older = false;
            for (Candidate file : levels.get(0)) {
                older |= named.contains(file);
                if (older) set.add(file);
            }
            bounds.add(set);
        }
        long bytes = bytes(set);
        for (int level = Math.max(1, top); level < levels.size(); level++) {
            // Files of a level may have one key in common, and with it a third.
            for (boolean grew = true; grew; ) {
                if (bytes + overlappingBytes(level, bounds) > most) return null;
                grew = bounds.add(overlapping(level, bounds));
            }
            bytes += overlappingBytes(level, bounds);
            set.addAll(overlapping(level, bounds));
        }
        return bytes > most ? null : set;
    }

    private List<Candidate> overlapping(int level, Bounds bounds) {
        List<Candidate> files = levels.get(level);
        if (level == 0)
            return files.stream().filter(file -> file.overlaps(bounds.from, bounds.to)).toList();
        return files.subList(first(files, bounds), end(files, bounds));
    }

    /** The bytes of the files that overlap, in a level that is not 0. */
    private long overlappingBytes(int level, Bounds bounds) {
        List<Candidate> files = levels.get(level);
        long[] sum = sums.get(level);
        return sum[end(files, bounds)] - sum[first(files, bounds)];
    }

    private static int first(List<Candidate> files, Bounds bounds) {
        return count(files, file -> ByteBufferUtil.compareUnsigned(file.to, bounds.from) < 0);
    }

    private static int end(List<Candidate> files, Bounds bounds) {
        return count(files, file -> ByteBufferUtil.compareUnsigned(file.from, bounds.to) <= 0);
    }

    /** How many, of which something holds, come before those of which it does not. */
    private static int count(List<Candidate> files, Predicate<Candidate> holds) {
        int low = 0;
        for (int high = files.size(); low < high; ) {
            int middle = (low + high) >>> 1;
            if (holds.test(files.get(middle))) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    private static Set<Candidate> same(List<Candidate> files) {
        Set<Candidate> same = Collections.newSetFromMap(new IdentityHashMap<>());
        same.addAll(files);
        return same;
    }

    /** What goes with some files; nothing, if one is being merged or cannot be read. */
    Chosen chosen(List<Candidate> set) {
        Set<Candidate> named = same(set);
        Bounds bounds = new Bounds(set);
        long limit = Long.MAX_VALUE;
        for (int level = 0; level < levels.size(); level++)
            for (Candidate file : overlapping(level, bounds))
                if (!named.contains(file)) limit = Math.min(limit, file.held().lowest());
        return new Chosen(
                set,
                bounds.from,
                bounds.to,
                limit,
                bytes(set),
                isBusy(set) ? 0 : droppable(set, gcBefore, limit));
    }

    private static long droppable(List<Candidate> set, long gcBefore, long limit) {
        return Math.min(bytes(set), garbage(set, gcBefore, limit) + hidden(set));
    }

    /**
     * What deletions hide in the lowest files of a set, if each hides a row there: it goes when
     * they are merged, grace or not. They are guessed at once, for they are down there then.
     */
    private static long hidden(List<Candidate> set) {
        int last = set.size() - 1;
        int lowest = set.get(last).level;
        double deletions = 0;
        double bytes = 0;
        double entries = 0;
        for (int i = 0; i <= last; i++) {
            Candidate file = set.get(i);
            if (i == last || (lowest > 0 && file.level == lowest)) {
                bytes += (double) file.bytes;
                entries += (double) file.held.entries();
            } else {
                deletions += (double) file.held.deletions();
            }
        }
        return entries == 0 ? 0 : (long) (bytes * Math.min(1, deletions / entries));
    }

    private static long garbage(List<Candidate> set, long gcBefore, long limit) {
        double garbage = 0;
        for (Candidate file : set) {
            garbage += (double) file.bytes() * file.held().share(gcBefore, limit);
            // Whatever is elsewhere.
            if (limit > Long.MIN_VALUE) garbage += file.part(file.hidden);
        }
        return (long) garbage;
    }

    /** The first and the last key of some files, of which there is one at least. */
    private static final class Bounds {
        ByteBuffer from;
        ByteBuffer to;

        Bounds(List<Candidate> files) {
            from = files.get(0).from;
            to = files.get(0).to;
            add(files);
        }

        /** Returns whether that made more of them. */
        boolean add(List<Candidate> files) {
            boolean grew = false;
            for (Candidate file : files) {
                if (ByteBufferUtil.compareUnsigned(file.from, from) < 0) {
                    from = file.from;
                    grew = true;
                }
                if (ByteBufferUtil.compareUnsigned(file.to, to) > 0) {
                    to = file.to;
                    grew = true;
                }
            }
            return grew;
        }
    }
}
