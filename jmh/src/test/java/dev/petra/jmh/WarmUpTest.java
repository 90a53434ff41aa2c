// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.Test;

class WarmUpTest {
    private static WarmUp run(int most, Double... rates) {
        Deque<Double> left = new ArrayDeque<>(List.of(rates));
        WarmUp warmUp = WarmUp.run(left::remove, most);
        assertThat(left).hasSize(rates.length - warmUp.windows());
        return warmUp;
    }

    @Test
    void itEndsWhenTwiceInSuccessionAsMuchIsDone() {
        assertThat(run(8, 10.0, 50.0, 80.0, 100.0, 95.0, 90.0)).isEqualTo(new WarmUp(5, true));
        assertThat(run(8, 100.0, 111.0, 100.0)).isEqualTo(new WarmUp(2, true));
        assertThat(run(8, 100.0, 112.0, 100.0, 100.0)).isEqualTo(new WarmUp(4, true));
    }

    @Test
    void whoeverIsNeverSteadyIsToldSo() {
        assertThat(run(3, 10.0, 20.0, 40.0, 40.0)).isEqualTo(new WarmUp(3, false));
        assertThat(run(1, 10.0)).isEqualTo(new WarmUp(1, false));
        assertThat(run(2, 0.0, 0.0)).isEqualTo(new WarmUp(2, false));
        assertThat(run(0)).isEqualTo(new WarmUp(0, false));
    }
}
