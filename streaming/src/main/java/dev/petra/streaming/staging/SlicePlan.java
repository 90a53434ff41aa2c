// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import dev.petra.engine.TableStore;
import dev.petra.engine.stream.SliceRanges;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.function.Function;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.LocalPartitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableMetadata;

/** Cuts ranges into slices, before any of them is read. */
public final class SlicePlan {
    /** The estimates for a slice; each reads a few index blocks. */
    private static final int BISECTIONS = 4;

    /** A range of the ring, and what is estimated to be in it. */
    private record Piece(Range<Token> range, long bytes) {}

    private SlicePlan() {}

    /**
     * Plans slices of about the same size.
     *
     * @param ranges in any order; they may overlap and wrap around the ring
     * @param target bytes of a slice, if that does not make too many
     * @param most slices
     * @return at least one, which have the ranges together; none if the store has nothing in them
     */
    public static List<SliceRanges> of(
            TableStore store, Collection<Range<Token>> ranges, long target, int most) {
        List<Range<Token>> normal = Range.normalize(ranges);
        if (normal.stream().noneMatch(range -> holds(store, range))) return List.of();
        TableMetadata table = store.spec().metadata().get();
        return of(store::sizes, table.partitioner, normal, target, most);
    }

    /**
     * Whether a store has anything in a range. An estimate of 0 does not tell: write buffers and
     * small files count for nothing.
     */
    private static boolean holds(TableStore store, Range<Token> range) {
        ColumnFilter columns = ColumnFilter.all(store.spec().metadata().get());
        try (UnfilteredPartitionIterator found =
                store.scan(DataRange.forTokenRange(range), columns)) {
            return found.hasNext();
        }
    }

    static List<SliceRanges> of(
            Function<List<Range<Token>>, long[]> sizes,
            IPartitioner partitioner,
            List<Range<Token>> ranges,
            long target,
            int most) {
        PriorityQueue<Piece> pieces =
                new PriorityQueue<>(Comparator.comparingLong(Piece::bytes).reversed());
        List<Piece> whole = new ArrayList<>(pieces(sizes, ranges));
        long total = whole.stream().mapToLong(Piece::bytes).sum();
        long goal = Math.max(Math.max(1, target), total / most);
        pieces.addAll(whole);
        whole.clear();
        int left = partitioner instanceof LocalPartitioner ? 0 : BISECTIONS * most;
        while (!pieces.isEmpty() && pieces.peek().bytes > goal && left-- > 0) {
            Piece largest = pieces.remove();
            Range<Token> range = largest.range;
            Token middle = partitioner.midpoint(range.left, range.right);
            if (middle.equals(range.left) || middle.equals(range.right) || !range.contains(middle))
                whole.add(largest);
            else
                pieces.addAll(
                        pieces(
                                sizes,
                                List.of(
                                        new Range<>(range.left, middle),
                                        new Range<>(middle, range.right))));
        }
        whole.addAll(pieces);
        whole.sort(Comparator.comparing(piece -> piece.range.left));
        return grouped(whole, goal, most);
    }

    private static List<Piece> pieces(
            Function<List<Range<Token>>, long[]> sizes, List<Range<Token>> ranges) {
        long[] bytes = sizes.apply(ranges);
        List<Piece> pieces = new ArrayList<>(bytes.length);
        for (int i = 0; i < bytes.length; i++) pieces.add(new Piece(ranges.get(i), bytes[i]));
        return pieces;
    }

    /** Neighbours together: each where its middle is, if all lay end to end. */
    private static List<SliceRanges> grouped(List<Piece> pieces, long goal, int most) {
        long total = pieces.stream().mapToLong(Piece::bytes).sum();
        long count = Math.min(most, Math.max(1, (total + goal - 1) / goal));
        List<SliceRanges> slices = new ArrayList<>();
        List<Range<Token>> ranges = new ArrayList<>();
        long bytes = 0;
        long before = 0;
        long slice = 0;
        for (Piece piece : pieces) {
            double middle = before + piece.bytes / 2.0;
            long in = total == 0 ? 0 : Math.min(count - 1, (long) (middle * count / total));
            if (in != slice && !ranges.isEmpty()) {
                slices.add(new SliceRanges(Range.normalize(ranges), bytes));
                ranges.clear();
                bytes = 0;
            }
            slice = in;
            ranges.add(piece.range);
            bytes += piece.bytes;
            before += piece.bytes;
        }
        slices.add(new SliceRanges(Range.normalize(ranges), bytes));
        return slices;
    }
}
