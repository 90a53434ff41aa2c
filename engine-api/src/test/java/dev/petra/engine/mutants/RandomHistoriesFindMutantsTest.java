// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.conformance.Capabilities;
import dev.petra.engine.conformance.Differential;
import dev.petra.engine.conformance.EngineUnderTest;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Random histories, from fixed seeds, find every engine that is wrong about data. */
final class RandomHistoriesFindMutantsTest {
    /** So many histories at the most. */
    private static final int HISTORIES = 100;

    static Set<String> mutants() {
        return NamedMutations.ofRows();
    }

    @ParameterizedTest
    @MethodSource("mutants")
    void everyMutantIsFound(String mutant) {
        try (Differential differential = differential(mutant)) {
            for (int seed = 0; seed < HISTORIES; seed++) {
                try {
                    differential.check(seed);
                } catch (AssertionError found) {
                    assertThat(found).hasMessageContaining("Seed " + seed);
                    return;
                }
            }
        }
        throw new AssertionError("Nothing found that " + mutant + " in " + HISTORIES);
    }

    @Test
    void theReferenceItselfIsNotFound() {
        try (Differential differential = differential(NamedMutations.NONE)) {
            for (int seed = 0; seed < HISTORIES; seed++) differential.check(seed);
        }
    }

    private static Differential differential(String mutant) {
        // The same in each engine that is opened: one remembers which directories were.
        UnaryOperator<StorageEngine> mutation = NamedMutations.of(mutant);
        return Differential.quick(
                () ->
                        new EngineUnderTest(
                                () -> mutation.apply(new MutantEngine(store -> store)),
                                Capabilities.ALL));
    }
}
