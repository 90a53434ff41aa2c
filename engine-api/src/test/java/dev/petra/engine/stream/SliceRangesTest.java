// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.conformance.TestTable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableId;
import org.junit.jupiter.api.Test;

/** What can be no plan of a stream is none. */
final class SliceRangesTest {
    private static final long MIN = Long.MIN_VALUE;

    private static Range<Token> range(long left, long right) {
        return new Range<>(TestTable.token(left), TestTable.token(right));
    }

    @SafeVarargs
    private static SliceRanges slice(Range<Token>... ranges) {
        List<Range<Token>> all = new ArrayList<>();
        for (Range<Token> range : ranges) all.add(range);
        return new SliceRanges(all, 1);
    }

    @Test
    void theRingInOrderIsAStream() {
        assertThatCode(() -> SliceRanges.check(List.of(slice(range(MIN, MIN)))))
                .doesNotThrowAnyException();
        assertThatCode(
                        () ->
                                SliceRanges.check(
                                        List.of(
                                                slice(range(MIN, -5), range(-5, 0)),
                                                slice(range(0, 1)),
                                                slice(range(7, 9), range(9, MIN)))))
                .doesNotThrowAnyException();
    }

    @Test
    void aSliceHasRangesInOrder() {
        assertThatThrownBy(() -> slice()).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> slice(range(5, 1))).hasMessageContaining("wraps");
        assertThatThrownBy(() -> slice(range(5, 5))).hasMessageContaining("wraps");
        assertThatThrownBy(() -> slice(range(5, 6), range(1, 2))).hasMessageContaining("behind");
        assertThatThrownBy(() -> slice(range(5, 7), range(6, 8))).hasMessageContaining("behind");
        assertThatThrownBy(() -> slice(range(5, MIN), range(6, 8))).hasMessageContaining("behind");
        assertThatThrownBy(() -> new SliceRanges(List.of(range(1, 2)), -1))
                .hasMessageContaining("-1");
    }

    @Test
    void slicesFollowEachOther() {
        assertThatThrownBy(() -> SliceRanges.check(List.of())).hasMessageContaining("not 0");
        SliceRanges low = slice(range(1, 2));
        SliceRanges high = slice(range(2, 3));
        assertThatThrownBy(() -> SliceRanges.check(List.of(high, low)))
                .hasMessageContaining("behind");
        assertThatThrownBy(() -> SliceRanges.check(List.of(low, low)))
                .hasMessageContaining("behind");
        assertThatThrownBy(() -> SliceRanges.check(Collections.nCopies(4097, low)))
                .hasMessageContaining("4097");
    }

    @Test
    void aHeadHasASliceAndNoNegativeSize() {
        TableId table = TableId.generate();
        assertThatThrownBy(() -> new StreamHead("e", 1, table, "t", 0, 1))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> new StreamHead("e", 1, table, "t", 4097, 1))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> new StreamHead("e", 1, table, "t", 1, -1))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatCode(() -> new StreamHead("e", 1, table, "t", 4096, 0))
                .doesNotThrowAnyException();
    }
}
