// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.HiddenNotice;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.ClusteringKeys;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.nativelib.Reconciler;
import dev.petra.engine.rocks.read.PartitionHeader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.Slice;
import org.jspecify.annotations.Nullable;

/**
 * Ranges of keys of rows that partitions' deletions and range tombstones hide. A compaction that
 * rewrites such a row takes away what is hidden of it, within {@code gc_grace_seconds} too, as
 * Cassandra's does: the deletion stays, and hides whatever of the row is elsewhere or comes late.
 */
final class HiddenKeys {
    /** Of what is packed. What has no room stays on disk, hidden. */
    static final int MOST_BYTES = 16 << 20;

    /** No key is before it. */
    @SuppressWarnings("MutablePublicArray") // it has nothing that could change
    static final byte[] FIRST = {};

    private static final int HEAD = 2 * Integer.BYTES + 2 * Long.BYTES;

    /** The first key, the first key behind the range, and what hides all between them. */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    private record Range(byte[] from, byte[] to, DeletionTime deletion) {}

    private final StoreContext store;
    private final long epoch;
    private final List<Range> ranges = new ArrayList<>();
    private final long since;
    private final HiddenNotice.@Nullable Part part;
    private final int mostBytes;
    private final byte[] begin;
    private int bytes;

    /** From where on there was no room; null if there was for all. */
    private byte @Nullable [] left;

    /**
     * Begins before the deletions are read.
     *
     * @param since what deletions of this local time or a later one hide; those before do not stay
     *     for certain
     * @param part ranges that do not meet it are left out; null for none
     * @param begin what is before this key is left out
     * @param mostBytes of what is packed
     */
    HiddenKeys(
            StoreContext store,
            long since,
            HiddenNotice.@Nullable Part part,
            byte[] begin,
            int mostBytes) {
        this.store = store;
        this.epoch = store.reconciler().hidingEpoch();
        this.since = since;
        this.part = part;
        this.begin = begin;
        this.mostBytes = mostBytes;
    }

    /**
     * Adds what hides rows of a partition; partitions in the order of their keys.
     *
     * @param position the partition's, which is put back
     * @param hasRows whether it has rows besides the static one; what hides none takes no room
     */
    void add(
            ByteSink position,
            PartitionHeader header,
            boolean hasRows,
            ClusteringKeys clusterings) {
        // A deleted counter wins over a newer count, whatever hides it.
        if (store.table().isCounter() || left != null) return;
        DeletionTime partition = header.deletion();
        if (!partition.isLive() && header.hasStatic())
            add(
                    CoveringDeletions.withKind(position, KeyKind.STATIC),
                    CoveringDeletions.withKind(position, KeyKind.RANGE),
                    partition);
        if (!hasRows) return;
        byte[] from = CoveringDeletions.withKind(position, KeyKind.ROW);
        Iterator<RangeTombstone> tombstones = header.deletions().rangeIterator(false);
        while (tombstones.hasNext()) {
            RangeTombstone tombstone = tombstones.next();
            Slice slice = tombstone.deletedSlice();
            byte[] begin = CoveringDeletions.bound(position, slice.start(), clusterings);
            byte[] end = CoveringDeletions.bound(position, slice.end(), clusterings);
            DeletionTime deletion = tombstone.deletionTime();
            add(from, begin, partition);
            add(begin, end, deletion.supersedes(partition) ? deletion : partition);
            from = end;
        }
        add(from, CoveringDeletions.withKind(position, KeyKind.END), partition);
    }

    private void add(byte[] from, byte[] to, DeletionTime deletion) {
        if (deletion.isLive() || deletion.localDeletionTime() < since || left != null) return;
        if (Arrays.compareUnsigned(to, begin) <= 0) return;
        if (part != null
                && (Arrays.compareUnsigned(to, part.from()) <= 0
                        || Arrays.compareUnsigned(from, part.to()) > 0)) return;
        if (bytes >= mostBytes) {
            left = from;
            return;
        }
        ranges.add(new Range(from, to, deletion));
        bytes += HEAD + from.length + to.length;
    }

    /** From which key on there was no room; the first of all if there was for all. */
    byte[] left() {
        return left == null ? FIRST : left;
    }

    boolean isEmpty() {
        return ranges.isEmpty();
    }

    /** Has compactions take away what is hidden, until {@link Reconciler#hideNothing}. */
    void hide() {
        store.reconciler().hide(isEmpty() ? null : packed(), epoch);
    }

    private byte[] packed() {
        byte[] packed = new byte[bytes];
        ByteBuffer out = ByteBuffer.wrap(packed).order(ByteOrder.nativeOrder());
        for (Range range : ranges) {
            out.putInt(range.from.length).putInt(range.to.length);
            out.putLong(range.deletion.markedForDeleteAt());
            out.putLong(range.deletion.localDeletionTime());
            out.put(range.from).put(range.to);
        }
        return packed;
    }
}
