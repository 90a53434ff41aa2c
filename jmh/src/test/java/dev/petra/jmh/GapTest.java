// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class GapTest {
    private static double millis(long... answers) {
        Gap gap = new Gap();
        gap.begin(-5_000_000);
        for (long answer : answers) gap.answered(answer);
        return gap.millis();
    }

    @Test
    void theLongestTimeIsBetweenTwoAnswersOfAnyThreads() {
        assertThat(millis(0, 2_000_000, 9_000_000, 10_000_000)).isEqualTo(7);
        assertThat(millis(0, 9_000_000, 2_000_000, 10_000_000)).isEqualTo(9);
    }

    @Test
    void untilTheFirstAnswerThereIsNoneEither() {
        assertThat(millis()).isZero();
        assertThat(millis(1_000_000, 2_000_000)).isEqualTo(6);
    }
}
