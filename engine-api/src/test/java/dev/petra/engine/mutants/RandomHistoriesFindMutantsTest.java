// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.Capabilities;
import dev.petra.engine.conformance.Differential;
import dev.petra.engine.conformance.EngineUnderTest;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Random histories, from fixed seeds, find every engine that is wrong about data. */
final class RandomHistoriesFindMutantsTest {
    /** So many histories at the most. */
    private static final int HISTORIES = 100;

    /** An engine that is wrong in the way that its name says. */
    private record Mutant(String name, Supplier<StorageEngine> engine) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static Mutant mutant(String name, UnaryOperator<TableStore> mutation) {
        return new Mutant(name, () -> new MutantEngine(mutation));
    }

    static Stream<Mutant> mutants() {
        UnaryOperator<TableStore> reopening = Mutations.losesMarkersOnReopening();
        return Stream.of(
                mutant("loses row deletions", Mutations.LOSES_ROW_DELETIONS),
                mutant("loses partition deletions", Mutations::losesPartitionDeletions),
                mutant("ignores range tombstones", Mutations::ignoresRangeTombstones),
                mutant("loses row markers", Mutations.LOSES_ROW_MARKERS),
                mutant("loses static rows", Mutations.LOSES_STATIC_ROWS),
                mutant("loses the static row on read", Mutations.LOSES_THE_STATIC_ROW_ON_READ),
                mutant(
                        "loses cells beside a row deletion",
                        Mutations.LOSES_CELLS_BESIDE_A_ROW_DELETION),
                mutant("loses collection deletions", Mutations.LOSES_COLLECTION_DELETIONS),
                mutant("forgets TTLs", Mutations.FORGETS_TTLS),
                mutant("drops timestamps up to zero", Mutations.DROPS_TIMESTAMPS_UP_TO_ZERO),
                mutant("loses empty values", Mutations.LOSES_EMPTY_VALUES),
                mutant("the first of a tie counts", Mutations::firstOfATieCounts),
                mutant("shares deletions by token", Mutations::sharesDeletionsByToken),
                mutant("rewrites clusterings", Mutations.rewritesClusterings()),
                mutant("rewrites keys", Mutations::rewritesKeys),
                mutant("strips tombstones on read", Mutations.STRIPS_TOMBSTONES_ON_READ),
                mutant("expires at write time plus TTL", Mutations.EXPIRES_AT_WRITE_TIME_PLUS_TTL),
                mutant("loses closing markers", Mutations.LOSES_CLOSING_MARKERS),
                mutant("loses boundaries", Mutations.LOSES_BOUNDARIES),
                mutant("reads only the first slice", Mutations.READS_ONLY_THE_FIRST_SLICE),
                mutant(
                        "reads slices forwards in reverse",
                        Mutations.READS_SLICES_FORWARDS_IN_REVERSE),
                mutant("reads forwards in reverse", Mutations.READS_FORWARDS_IN_REVERSE),
                mutant(
                        "takes every bound for inclusive",
                        Mutations.TAKES_EVERY_BOUND_FOR_INCLUSIVE),
                mutant("clips no range tombstones", Mutations.CLIPS_NO_RANGE_TOMBSTONES),
                mutant("reads all columns", Mutations.READS_ALL_COLUMNS),
                mutant(
                        "keeps values that are not queried",
                        Mutations.KEEPS_VALUES_THAT_ARE_NOT_QUERIED),
                mutant("mayContain denies", Mutations::mayContainDenies),
                mutant("scans left inclusively", Mutations::scansLeftInclusively),
                mutant("scans without clustering filter", Mutations::scansWithoutClusteringFilter),
                mutant("skips partitions in scans", Mutations::skipsPartitionsInScans),
                new Mutant("ignores dropped columns", Mutations::ignoresDroppedColumns),
                mutant("names columns by position", Mutations::namesColumnsByPosition),
                mutant("loses tombstones in compaction", Mutations::losesTombstonesInCompaction),
                mutant("loses markers on reopening", reopening));
    }

    @ParameterizedTest
    @MethodSource("mutants")
    void everyMutantIsFound(Mutant mutant) {
        try (Differential differential = Differential.quick(() -> open(mutant))) {
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
        Mutant none = mutant("nothing", store -> store);
        try (Differential differential = Differential.quick(() -> open(none))) {
            for (int seed = 0; seed < HISTORIES; seed++) differential.check(seed);
        }
    }

    private static EngineUnderTest open(Mutant mutant) {
        return new EngineUnderTest(mutant.engine(), Capabilities.ALL);
    }
}
