// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.concurrent.CancellationException;
import org.junit.jupiter.api.Test;

class SweepPaceTest {
    private static final long SECOND = 1_000_000_000;

    private long now;
    private int checks;

    private SweepPace pace() {
        // A sleep may end early.
        return new SweepPace(() -> now, nanos -> now += Math.max(1, nanos * 3 / 4));
    }

    @Test
    void workTakesATenthOfTheTimeHoweverLongItTook() {
        SweepPace pace = pace();
        for (long work : new long[] {1_000, SECOND, 100 * SECOND, 0, 3}) {
            now += work;
            long before = now;
            pace.rest(() -> {});
            assertThat(now - before).isBetween(9 * work, 9 * work + 10);
        }
    }

    @Test
    void aRestEndsWithinASecondWhenItIsNotWanted() {
        SweepPace pace = pace();
        now += 100 * SECOND;
        long before = now;
        assertThatThrownBy(
                        () ->
                                pace.rest(
                                        () -> {
                                            if (++checks == 3) throw new CancellationException();
                                        }))
                .isInstanceOf(CancellationException.class);
        assertThat(now - before).isLessThanOrEqualTo(2 * SECOND);
    }
}
