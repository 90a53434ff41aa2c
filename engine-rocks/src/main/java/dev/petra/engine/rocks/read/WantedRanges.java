// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.ClusteringKeys;
import dev.petra.engine.rocks.format.FragmentReader;
import java.nio.ByteBuffer;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;

/**
 * Which of a partition's range tombstones meet the slices of a read. They come by their start, and
 * are compared as they are stored: what is not wanted is not decoded, and costs no object.
 *
 * <p>Those that only touch a slice are wanted too: of two forms of one value, as 1.0 and 1.00, a
 * bound that ends there may be the one that is read.
 */
final class WantedRanges {
    /** Enough bytes for the two bounds of most range tombstones. */
    private static final int INITIAL = 64;

    private final ClusteringKeys clusterings;
    private final Slices slices;
    private final ByteSink bounds;

    /** The first slice that does not end before the range tombstone seen last. */
    private int slice = -1;

    private ByteBuffer start;
    private ByteBuffer end;
    private final Neighbours neighbours = new Neighbours();

    /**
     * @param bounds for those of the slices; in use as long as this is
     */
    WantedRanges(ClusteringKeys clusterings, Slices slices, ByteSink bounds) {
        this.clusterings = clusterings;
        this.slices = slices;
        this.bounds = bounds;
        this.start = this.end = bounds.get();
        nextSlice();
    }

    private void nextSlice() {
        slice++;
        if (slice == slices.size()) return;
        Slice next = slices.get(slice);
        bounds.clear();
        clusterings.put(bounds, next.start());
        int startLength = bounds.position();
        clusterings.put(bounds, next.end());
        ByteBuffer both = bounds.flipped();
        start = both.slice(0, startLength);
        end = both.slice(startLength, both.limit() - startLength);
    }

    /**
     * Whether this one, and so all that follow, begin behind the last slice.
     *
     * @param range its start bound and its end bound, and nothing else; not moved
     */
    boolean isBehind(ByteBuffer range) {
        while (slice < slices.size() && ClusteringKeys.compareBounds(range, end) > 0) nextSlice();
        return slice == slices.size();
    }

    /**
     * Whether one that is not behind the last slice meets a slice.
     *
     * @param range as above
     * @param value what is stored under it
     */
    boolean isWanted(ByteBuffer range, ByteBuffer value) {
        if (ClusteringKeys.compareBounds(range, start) >= 0) return true;
        int startsAt = range.position();
        clusterings.skipBound(range);
        boolean wanted = ClusteringKeys.compareBounds(range, start) >= 0;
        int startLength = range.position() - startsAt;
        long timestamp = FragmentReader.oldestRangeTimestamp(value);
        neighbours.met(range.position(startsAt), startLength, timestamp, wanted);
        return wanted;
    }

    /** How many were not wanted. */
    int unwanted() {
        return neighbours.unwanted;
    }

    /**
     * How many of these a newer one hides wholly, as far as is seen by comparing each with the one
     * before it: enough to find out that a partition has many.
     */
    int hidden() {
        return neighbours.hidden;
    }

    /** Compares range tombstones that begin before a slice. */
    private static final class Neighbours {
        int unwanted;
        int hidden;

        // The last one that was not hidden by the one before it.

        private ByteBuffer last = ByteBuffer.allocate(INITIAL).limit(0);
        private int lastStartLength = Integer.MAX_VALUE; // there is none yet
        private long lastTimestamp = Long.MIN_VALUE;
        private boolean isLastWanted;

        /**
         * The next one.
         *
         * @param range its start bound and its end bound, and nothing else; not moved
         */
        void met(ByteBuffer range, int startLength, long timestamp, boolean wanted) {
            if (!wanted) unwanted++;
            if (range.mismatch(last) >= lastStartLength) {
                // The two have one start, and this one reaches further.
                if (timestamp > lastTimestamp && !isLastWanted) hidden++;
            } else if (timestamp < lastTimestamp && isWithinLast(range, startLength)) {
                if (!wanted) hidden++;
                return;
            }
            int length = range.remaining();
            if (length > last.capacity()) last = ByteBuffer.allocate(2 * length);
            last.clear().put(0, range, range.position(), length).limit(length);
            lastStartLength = startLength;
            lastTimestamp = timestamp;
            isLastWanted = wanted;
        }

        private boolean isWithinLast(ByteBuffer range, int startLength) {
            int startsAt = range.position();
            range.position(startsAt + startLength);
            last.position(lastStartLength);
            boolean within = ClusteringKeys.compareBounds(range, last) <= 0;
            range.position(startsAt);
            last.position(0);
            return within;
        }
    }
}
