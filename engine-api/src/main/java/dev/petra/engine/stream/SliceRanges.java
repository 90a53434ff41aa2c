// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import java.util.List;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;

/**
 * One slice of a stream that is planned: what goes over one connection, and is received as a whole.
 *
 * @param ranges (left, right], at least one; unwrapped, in the order of the ring, without overlap
 * @param bytes what its blocks may have together: an estimate, not negative
 */
public record SliceRanges(List<Range<Token>> ranges, long bytes) {
    /** Checks the arguments. */
    public SliceRanges {
        ranges = List.copyOf(ranges);
        if (ranges.isEmpty()) throw new IllegalArgumentException("A slice without ranges.");
        if (bytes < 0)
            throw new IllegalArgumentException("A slice cannot have " + bytes + " bytes.");
        Range<Token> before = null;
        for (Range<Token> range : ranges) {
            if (range.isTrulyWrapAround())
                throw new IllegalArgumentException(range + " wraps around the ring.");
            if (before != null) checkOrder(before, range);
            before = range;
        }
    }

    /**
     * Checks that slices are those of one stream: from 1 to {@link StreamHead#MAX_SLICES}, each
     * behind the one before it.
     *
     * @throws IllegalArgumentException if they are not
     */
    public static void check(List<SliceRanges> slices) {
        if (slices.isEmpty() || slices.size() > StreamHead.MAX_SLICES)
            throw new IllegalArgumentException(
                    "A stream has 1 to "
                            + StreamHead.MAX_SLICES
                            + " slices, not "
                            + slices.size()
                            + ".");
        for (int i = 1; i < slices.size(); i++) {
            List<Range<Token>> before = slices.get(i - 1).ranges;
            checkOrder(before.get(before.size() - 1), slices.get(i).ranges.get(0));
        }
    }

    private static void checkOrder(Range<Token> before, Range<Token> range) {
        // A range that ends at the minimum ends with the ring.
        if (before.right.isMinimum() || before.right.compareTo(range.left) > 0)
            throw new IllegalArgumentException(range + " is not behind " + before + ".");
    }
}
