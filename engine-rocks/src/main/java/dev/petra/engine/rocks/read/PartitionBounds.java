// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.ClusteringKeys;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.PartitionKeys;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.jspecify.annotations.Nullable;
import org.rocksdb.DirectSlice;
import org.rocksdb.ReadOptions;

/**
 * Keeps a cursor within one partition: files and write buffers that have nothing of it are not
 * looked into, and nothing is read behind what was asked for.
 *
 * <h2>Why no row is missed</h2>
 *
 * Filters are asked for the first {@value PartitionKeys#PREFIX} bytes of a key: Murmur3's token, or
 * as much of another one. RocksDB then gives what lies under these bytes exactly, and something or
 * nothing of all else. So a read may rely on filters only if all keys that it seeks and all that it
 * wants have these bytes in common: where they are within the partition's position. The bounds are
 * within it too, and cut off all else. Where the position is shorter, as of short keys under a
 * {@code ByteOrderedPartitioner}, the order is total. Filters of files that were written with other
 * prefixes, or with none, RocksDB does not ask.
 *
 * <h2>Why no value that lies apart is missed</h2>
 *
 * Its key is that of its row and more ({@link dev.petra.engine.rocks.format.LargeCells}). The row's
 * key is no prefix of the upper bound: they differ in the kind, or a clustering is compared with
 * the end of a slice, and none of these is a prefix of another ({@link ClusteringKeys}). So where
 * they differ first the row's key has the lower byte, and with it whatever begins with that key.
 * The filters of these values know no prefixes.
 *
 * <p>One read at a time. What is native is kept for the next one: as many as {@value #SPARES}.
 */
final class PartitionBounds implements CursorBounds {
    private static final int SPARES = 64;
    private static final int STRIDE = 16; // references: at least one cache line
    private static final int PROBES = 4;
    private static final AtomicReferenceArray<@Nullable PartitionBounds> SPARE =
            new AtomicReferenceArray<>(SPARES * STRIDE);

    private final ByteSink keys = new ByteSink();
    private final ReadOptions options = Database.newReadOptions();
    private boolean isTotalOrder = true;

    /** Both begin where {@link #keys} do: the partition's position is a prefix of the upper one. */
    private DirectSlice lower;

    private DirectSlice upper;

    /** The buffer that the bounds point into. */
    private ByteBuffer bounded;

    private ByteBuffer position;

    private PartitionBounds() {
        this.bounded = this.position = keys.flipped();
        this.lower = new DirectSlice(bounded, 0);
        this.upper = new DirectSlice(bounded, 0);
        options.setIterateLowerBound(lower).setIterateUpperBound(upper);
    }

    /** The bounds of a whole partition. */
    static PartitionBounds of(PartitionKeys partitions, DecoratedKey key) {
        PartitionBounds bounds = take();
        boolean complete = false;
        try {
            int length = bounds.begin(partitions, key);
            bounds.keys.put(KeyKind.END);
            bounds.complete(length);
            complete = true;
            return bounds;
        } finally {
            if (!complete) bounds.close();
        }
    }

    /** The bounds of a partition up to the end of the last slice. */
    static PartitionBounds of(
            PartitionKeys partitions, DecoratedKey key, ClusteringKeys clusterings, Slices slices) {
        PartitionBounds bounds = take();
        boolean complete = false;
        try {
            int length = bounds.begin(partitions, key);
            bounds.keys.put(KeyKind.ROW);
            if (slices.size() > 0)
                clusterings.put(bounds.keys, slices.get(slices.size() - 1).end());
            bounds.complete(length);
            complete = true;
            return bounds;
        } finally {
            if (!complete) bounds.close();
        }
    }

    private int begin(PartitionKeys partitions, DecoratedKey key) {
        keys.clear();
        partitions.put(keys, key);
        return keys.position();
    }

    @SuppressWarnings("ReferenceEquality") // whether the keys lie elsewhere now
    private void complete(int positionLength) {
        int length = keys.position();
        ByteBuffer all = keys.flipped();
        if (all != bounded) {
            lower.close();
            upper.close();
            bounded = all;
            lower = new DirectSlice(all, 0);
            upper = new DirectSlice(all, 0);
            options.setIterateLowerBound(lower).setIterateUpperBound(upper);
        }
        lower.setLength(positionLength);
        upper.setLength(length);
        boolean totalOrder = positionLength < PartitionKeys.PREFIX;
        if (totalOrder != isTotalOrder) options.setTotalOrderSeek(totalOrder);
        isTotalOrder = totalOrder;
        position = all.slice(0, positionLength);
    }

    /** The partition's: what the keys of it begin with. */
    ByteBuffer position() {
        return position;
    }

    @Override
    public ReadOptions options() {
        return options;
    }

    private static PartitionBounds take() {
        for (int probe = 0; probe < PROBES; probe++) {
            int at = place(probe);
            if (SPARE.get(at) == null) continue;
            PartitionBounds spare = SPARE.getAndSet(at, null);
            if (spare != null) return spare;
        }
        return new PartitionBounds();
    }

    private static int place(int probe) {
        return (((int) Thread.currentThread().getId() + probe) & (SPARES - 1)) * STRIDE;
    }

    @Override
    public void close() {
        // A large one is for others then; nothing looks at the bounds before they are set anew.
        keys.release();
        for (int probe = 0; probe < PROBES; probe++) {
            int at = place(probe);
            if (SPARE.get(at) == null && SPARE.compareAndSet(at, null, this)) return;
        }
        options.close();
        lower.close();
        upper.close();
    }
}
