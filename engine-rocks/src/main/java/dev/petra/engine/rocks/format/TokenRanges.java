// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;

/** Converts token ranges, (left, right], to ranges of keys, [from, to). */
public final class TokenRanges {
    /** The lowest key: it sorts before every stored key. */
    private static final byte[] FIRST = {};

    private static final byte[] LAST = {(byte) KeyKind.END};

    private TokenRanges() {}

    /** A key that sorts after every stored key. */
    public static byte[] last() {
        return LAST.clone();
    }

    /** A range of keys, {@code from} included, {@code to} excluded. */
    @SuppressWarnings("ArrayRecordComponent") // passed on to RocksDB, never compared
    public record KeyRange(byte[] from, byte[] to) {}

    /** The key ranges of the token ranges, in ascending order, unwrapped and merged. */
    public static List<KeyRange> of(Collection<Range<Token>> ranges, PartitionKeys keys) {
        List<KeyRange> result = new ArrayList<>();
        for (Range<Token> range : Range.normalize(ranges))
            result.add(new KeyRange(left(range, keys), right(range, keys)));
        return result;
    }

    /** The key ranges outside of the token ranges, in ascending order. */
    public static List<KeyRange> gaps(Collection<Range<Token>> ranges, PartitionKeys keys) {
        List<KeyRange> result = new ArrayList<>();
        byte[] from = FIRST;
        for (KeyRange range : of(ranges, keys)) {
            add(result, from, range.from);
            from = range.to;
        }
        add(result, from, LAST);
        return result;
    }

    private static void add(List<KeyRange> result, byte[] from, byte[] to) {
        if (java.util.Arrays.compareUnsigned(from, to) < 0) result.add(new KeyRange(from, to));
    }

    private static byte[] left(Range<Token> range, PartitionKeys keys) {
        return range.left.isMinimum() ? FIRST : bytes(range.left.maxKeyBound(), keys);
    }

    private static byte[] right(Range<Token> range, PartitionKeys keys) {
        return range.right.isMinimum() ? LAST : bytes(range.right.maxKeyBound(), keys);
    }

    private static byte[] bytes(PartitionPosition position, PartitionKeys keys) {
        ByteSink sink = new ByteSink();
        keys.putPosition(sink, position);
        return sink.copy(0, sink.position());
    }
}
