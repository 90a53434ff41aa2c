// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class FigureTest {
    private static Figure of(List<Double> values) {
        return new Figure("emp", "local", "read", "G1", "rocks", "P99", "us", values);
    }

    private static Figure of(String values) {
        return of(Stream.of(values.split(" ", -1)).map(Double::valueOf).toList());
    }

    /**
     * By the tables of the test: for 4 and 4 values U is at most 0, for 5 and 5 2, for 5 and 8 6.
     */
    @ParameterizedTest
    @CsvSource({
        "1 2 3, 4 5 6, false",
        "1 2 3 4, 5 6 7 8, true",
        "5 6 7 8, 1 2 3 4, true",
        "1 2 3 5, 4 6 7 8, false",
        "1 2 3 4 5, 6 7 8 9 10, true",
        "1 2 3 4 8, 6 7 8.5 9 10, true",
        "1 2 3 4 8.7, 6 7 8.5 9 10, false",
        "1 2 3 4 8, 6 7 8 9 10, false",
        "1 2 3 4 8, 5 6 7 7.5 9 10 11 12, true",
        "1 2 3 4 10.5, 5 6 7 8.5 9 10 11 12, true",
        "1 2 3 4 11.5, 5 6 7 8.5 9 10 11 12, false",
        "1 1 1 1, 1 1 1 1, false"
    })
    void differencesAreToldFromChance(String mine, String its, boolean differ) {
        assertThat(of(mine).differsFrom(of(its))).isEqualTo(differ);
        assertThat(of(its).differsFrom(of(mine))).isEqualTo(differ);
    }

    @Test
    void enginesThatAreAlikeAreCalledDifferentInOneOfTwentyCases() {
        SplittableRandom random = new SplittableRandom(7);
        int different = 0;
        for (int i = 0; i < 10_000; i++)
            if (of(random.doubles(6).boxed().toList())
                    .differsFrom(of(random.doubles(6).boxed().toList()))) different++;
        // Exactly 4.1 %: the next possible figure of six and six values is above five.
        assertThat(different).isBetween(350, 480);
    }
}
