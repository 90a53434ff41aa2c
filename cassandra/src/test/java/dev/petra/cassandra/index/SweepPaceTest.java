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
    private long timesDue = 1;

    private SweepPace pace() {
        // A sleep may end early.
        return new SweepPace(() -> now, nanos -> now += Math.max(1, nanos * 3 / 4), () -> timesDue);
    }

    /** How long it sleeps after so much work. */
    private long rest(SweepPace pace, long work) {
        now += work;
        long before = now;
        pace.rest(() -> {});
        return now - before;
    }

    @Test
    void workTakesATenthOfTheTimeHoweverLongItTook() {
        SweepPace pace = pace();
        pace.rest(() -> {});
        for (long work : new long[] {1_000, SECOND, 100 * SECOND, 0, 3})
            assertThat(rest(pace, work)).isBetween(9 * work, 9 * work + 10);
    }

    /** A sweep that waited for another of its table slept nine times as long as that. */
    @Test
    void whatPassesBeforeTheWorkBeginsIsNoWork() {
        SweepPace pace = pace();
        assertThat(rest(pace, 7_200 * SECOND)).isZero();
        assertThat(rest(pace, SECOND)).isBetween(9 * SECOND, 9 * SECOND + 10);
    }

    @Test
    void whatIsBehindSleepsLess() {
        SweepPace pace = pace();
        pace.rest(() -> {});
        timesDue = 3;
        assertThat(rest(pace, SECOND)).isBetween(3 * SECOND, 3 * SECOND + 10);
        timesDue = 9;
        assertThat(rest(pace, SECOND)).isBetween(SECOND, SECOND + 10);
        timesDue = 10;
        assertThat(rest(pace, SECOND)).isZero();
        timesDue = 0;
        assertThat(rest(pace, SECOND)).isBetween(9 * SECOND, 9 * SECOND + 10);
    }

    /** Work on a slow disk may be followed by a long sleep. */
    @Test
    void aSleepEndsWhenTheWorkFallsBehind() {
        SweepPace pace = pace();
        pace.rest(() -> {});
        now += 100 * SECOND;
        long before = now;
        pace.rest(
                () -> {
                    if (now - before > 10 * SECOND) timesDue = 20;
                });
        assertThat(now - before).isLessThan(12 * SECOND);
    }

    @Test
    void aRestEndsWithinASecondWhenItIsNotWanted() {
        SweepPace pace = pace();
        pace.rest(() -> {});
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
