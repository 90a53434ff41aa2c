// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import org.HdrHistogram.Histogram;
import org.junit.jupiter.api.Test;

class TailTest {
    private static final Run RUN =
            new Run("emp", Access.Level.LOCAL, "G1", "openLoop", Engine.ROCKS);

    private static Histogram of(int seconds) {
        Histogram times = new Histogram(3);
        for (int i = 0; i < 10_000; i++) times.recordValue(i < 9_980 ? 1000 : 50_000_000);
        times.setStartTimeStamp(0);
        times.setEndTimeStamp(seconds * 1000L);
        return times;
    }

    @Test
    void theThousandthNeedsAMinute() {
        assertThat(Tail.percentiles(59)).doesNotContain(99.9).contains(99, 100);
        assertThat(Tail.percentiles(60)).contains(99.9);
    }

    @Test
    void roundsThatAreTooShortHaveItTogether() {
        Figures figures = new Figures();
        Histogram all = Tail.plus(Tail.plus(null, of(20)), of(20));
        figures.addTail(RUN, "read ", "", all);
        assertThat(figures.all()).isEmpty();
        figures.addTail(RUN, "read ", "", Tail.plus(all, of(20)));
        assertThat(figures.all())
                .singleElement()
                .satisfies(
                        figure -> {
                            assertThat(figure.metric()).isEqualTo("read P99.9 of all rounds");
                            assertThat(figure.median()).isBetween(49_900.0, 50_100.0);
                        });
    }

    @Test
    void roundsThatAreLongEnoughHaveTheirOwn() {
        Figures figures = new Figures();
        figures.add(RUN, "read P99.9", "us", 1);
        figures.addTail(RUN, "read ", "", of(120));
        assertThat(figures.all()).hasSize(1);
    }

    @Test
    void keysAreOthersInEachRoundAndForEachOperation() {
        Run other = new Run("emp", Access.Level.LOCAL, "G1", "read", Engine.ROCKS);
        Run same = new Run("emp", Access.Level.LOCAL, "G1", "openLoop", Engine.LEGACY);
        assertThat(RUN.seed(7, 1)).isEqualTo(same.seed(7, 1));
        assertThat(RUN.seed(7, 1)).isNotEqualTo(RUN.seed(7, 2)).isNotEqualTo(other.seed(7, 1));
        assertThat(RUN.seed(8, 1)).isNotEqualTo(RUN.seed(7, 1));
    }
}
