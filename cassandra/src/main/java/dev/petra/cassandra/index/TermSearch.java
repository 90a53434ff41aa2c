// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import dev.petra.cassandra.index.KeySource.Keys;
import dev.petra.engine.index.TermCursor;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.index.sai.utils.PrimaryKey;
import org.jspecify.annotations.Nullable;

/**
 * Finds the keys that the entries of one term, or of a range of terms, lead to. Each batch opens
 * its own cursor and reads the entries as of that moment. A sweep between two batches removes no
 * entry whose row still has the term.
 *
 * @param cursors opens a cursor, each time over the same terms
 * @param keys makes keys as the index does
 * @param wantedRange the partitions to search
 * @param hasStaticRows whether an entry may be of a static row
 * @param mostBytes a batch ends early once its keys take more bytes
 * @param checkpoint called every few hundred entries; may throw to end the search
 */
record TermSearch(
        Supplier<TermCursor> cursors,
        PrimaryKey.Factory keys,
        AbstractBounds<PartitionPosition> wantedRange,
        boolean hasStaticRows,
        long mostBytes,
        Runnable checkpoint) {
    /** How many entries are read between two checkpoints. */
    private static final int CHECKED = 256;

    /** About what the objects of a key take, beside its bytes. */
    private static final int KEY_OVERHEAD = 256;

    /** How many unwanted entries in a row are stepped over before the cursor seeks. */
    private static final int STEPS = 8;

    /**
     * The place within each term where a search begins.
     *
     * @param row null for the beginning of the partition, its static row included
     */
    private record Place(PartitionPosition partition, @Nullable PrimaryKey row) {
        boolean seek(TermCursor cursor, ByteBuffer term) {
            return cursor.seek(term, partition, row == null ? null : row.clustering());
        }

        boolean isBehind(PrimaryKey key) {
            return row == null
                    ? key.partitionKey().compareTo(partition) < 0
                    : key.compareTo(row, true) < 0;
        }
    }

    /**
     * Finds the keys of one term, which are in the order of keys already.
     *
     * @param term the only term of the cursors
     */
    KeySource inOneTerm(ByteBuffer term) {
        return (after, target, limit) -> nextOfTerm(term, after, target, limit);
    }

    /**
     * Finds the keys of a range of terms. The entries are in the order of terms, so each batch
     * reads all terms, each from the place where the search is, and keeps the smallest keys. That
     * takes memory for one batch, and one pass over the terms per batch.
     */
    KeySource inManyTerms() {
        return this::nextOfAll;
    }

    private Keys nextOfTerm(
            ByteBuffer term, @Nullable PrimaryKey after, @Nullable PrimaryKey target, int limit) {
        List<PrimaryKey> found = new ArrayList<>();
        long bytes = 0;
        Place begin = begin(after, target);
        try (TermCursor cursor = cursors.get()) {
            boolean isThere = begin.seek(cursor, term);
            for (int read = 0; isThere && found.size() < limit && bytes <= mostBytes; read++) {
                if (read % CHECKED == 0) checkpoint.run();
                if (isBehindRange(cursor)) return new Keys(found, true);
                PrimaryKey key = key(cursor);
                if (isWanted(key, after, target)) {
                    found.add(key);
                    bytes += bytes(key);
                    if (target != null && isStaticBefore(key, target)) {
                        // The rows between it and the target are not wanted.
                        isThere = cursor.seek(term, target.partitionKey(), target.clustering());
                        continue;
                    }
                }
                isThere = cursor.next();
            }
            return new Keys(found, !isThere);
        }
    }

    private Keys nextOfAll(@Nullable PrimaryKey after, @Nullable PrimaryKey target, int limit) {
        TreeSet<PrimaryKey> found = new TreeSet<>();
        long bytes = 0;
        // The smallest key that had no room: it and all keys after it are left to the next batch.
        PrimaryKey end = null;
        Place begin = begin(after, target);
        try (TermCursor cursor = cursors.get()) {
            boolean isThere = cursor.next();
            int steps = 0;
            for (int read = 0; isThere; read++) {
                if (read % CHECKED == 0) checkpoint.run();
                PrimaryKey key = key(cursor);
                boolean isBehind =
                        isBehindRange(cursor) || (end != null && key.compareTo(end) >= 0);
                if (!isBehind && isWanted(key, after, target)) {
                    if (found.add(key)) bytes += bytes(key);
                    while (found.size() > limit || (bytes > mostBytes && found.size() > 1)) {
                        end = found.pollLast();
                        bytes -= bytes(end);
                    }
                    steps = 0;
                    isThere = cursor.next();
                } else if (++steps <= STEPS || !(isBehind || begin.isBehind(key))) {
                    isThere = cursor.next();
                } else {
                    steps = 0;
                    ByteBuffer term = cursor.term();
                    isThere = begin.seek(cursor, isBehind ? following(term) : term);
                }
            }
        }
        return new Keys(new ArrayList<>(found), end == null);
    }

    private static int bytes(PrimaryKey key) {
        int clustering = key.kind() == PrimaryKey.Kind.WIDE ? key.clustering().dataSize() : 0;
        return KEY_OVERHEAD + key.partitionKey().getKey().remaining() + clustering;
    }

    /** Returns the first place where a wanted key can be. */
    private Place begin(@Nullable PrimaryKey after, @Nullable PrimaryKey target) {
        Place begin = new Place(wantedRange.left, null);
        PrimaryKey first = target == null || isAtOrBehind(after, target) ? after : target;
        if (first == null) return begin;
        PartitionPosition partition =
                first.kind() == PrimaryKey.Kind.TOKEN
                        ? first.token().minKeyBound()
                        : first.partitionKey();
        if (partition.compareTo(begin.partition()) < 0) return begin;
        // The static row of the target's partition is wanted too, unless an earlier batch had it.
        boolean fromBegin =
                first.kind() != PrimaryKey.Kind.WIDE
                        || (first == target
                                && hasStaticRows
                                && (after == null || !isSamePartition(after, target)));
        return new Place(partition, fromBegin ? null : first);
    }

    private static boolean isAtOrBehind(@Nullable PrimaryKey key, PrimaryKey target) {
        return key != null && key.compareTo(target, true) >= 0;
    }

    private static boolean isSamePartition(PrimaryKey one, PrimaryKey other) {
        return one.partitionKey().equals(other.partitionKey());
    }

    private static boolean isStaticBefore(PrimaryKey key, PrimaryKey target) {
        return key.kind() == PrimaryKey.Kind.STATIC
                && target.kind() == PrimaryKey.Kind.WIDE
                && isSamePartition(key, target);
    }

    private boolean isWanted(
            PrimaryKey key, @Nullable PrimaryKey after, @Nullable PrimaryKey target) {
        return wantedRange.contains(key.partitionKey())
                && (after == null || key.compareTo(after, true) > 0)
                && (target == null || key.compareTo(target, false) >= 0);
    }

    private boolean isBehindRange(TermCursor cursor) {
        return !wantedRange.right.isMinimum() && cursor.key().compareTo(wantedRange.right) > 0;
    }

    private PrimaryKey key(TermCursor cursor) {
        if (!keys.hasClusteringColumns()) return keys.create(cursor.key());
        Clustering<?> clustering = cursor.clustering();
        // SAI compares with this object by reference.
        boolean isStatic = clustering.kind() == ClusteringPrefix.Kind.STATIC_CLUSTERING;
        return keys.create(cursor.key(), isStatic ? Clustering.STATIC_CLUSTERING : clustering);
    }

    /** The smallest term after a term. */
    private static ByteBuffer following(ByteBuffer term) {
        ByteBuffer bytes = ByteBuffer.allocate(term.remaining() + 1);
        bytes.put(term.duplicate()).put((byte) 0);
        return bytes.flip();
    }
}
