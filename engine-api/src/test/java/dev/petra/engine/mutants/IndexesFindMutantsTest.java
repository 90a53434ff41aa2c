// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.conformance.IndexTests;
import dev.petra.engine.index.SweepCheck;
import dev.petra.engine.index.TermCursor;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermFunction;
import dev.petra.engine.index.TermIndexes;
import dev.petra.engine.mutants.ExamplesFindMutantsTest.Example;
import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Indexes that do something wrong are found by the test that is there for it. A deletion writes no
 * entry, and Cassandra leaves out what no row confirms: so no mutant forgets the entry of a
 * deletion, or shows one that is stale. What is left of both is a sweep that removes nothing.
 */
final class IndexesFindMutantsTest {
    private static IndexTests of(EngineUnderTest kit) {
        return () -> kit;
    }

    private static Arguments writing(
            String name, UnaryOperator<TableStore> mutation, Example example) {
        return Arguments.of(Named.of(name, mutation), example);
    }

    private static Arguments indexing(
            String name, UnaryOperator<TermIndexes> mutation, Example example) {
        return writing(
                name,
                store ->
                        new ForwardingStore(store) {
                            @Override
                            public TermIndexes indexes() {
                                return mutation.apply(super.indexes());
                            }
                        },
                example);
    }

    /** A sweep that asks this instead. */
    private static Arguments sweeping(String name, SweepCheck wrong) {
        return indexing(
                name,
                indexes ->
                        new ForwardingIndexes(indexes) {
                            @Override
                            public long sweep(UUID index, SweepCheck check) {
                                return super.sweep(index, wrong);
                            }
                        },
                kit -> of(kit).aSweepRemovesWhatNoRowConfirms());
    }

    static Stream<Arguments> mutants() {
        return Stream.of(
                writing(
                        "a write forgets its entries",
                        store ->
                                new ForwardingStore(store) {
                                    @Override
                                    public void write(
                                            PartitionUpdate update, List<TermEntry> entries) {
                                        super.write(update);
                                    }
                                },
                        kit -> of(kit).rowsAreFoundByTheirTerms()),
                writing(
                        "a write forgets its last entry",
                        Mutations::forgetsIndexEntries,
                        kit -> of(kit).rowsAreFoundByTheirTerms()),
                writing(
                        "what is written during a build has no entries",
                        store ->
                                new ForwardingStore(store) {
                                    @Override
                                    public void write(
                                            PartitionUpdate update, List<TermEntry> entries) {
                                        super.write(
                                                update,
                                                entries.stream()
                                                        .filter(entry -> !isBuilding(entry))
                                                        .toList());
                                    }

                                    private boolean isBuilding(TermEntry entry) {
                                        return store.indexes().states().get(entry.index())
                                                == TermIndexes.State.BUILDING;
                                    }
                                },
                        kit -> of(kit).rowsAreFoundByTheirTerms()),
                writing(
                        "entries come after their row",
                        store ->
                                new ForwardingStore(store) {
                                    @Override
                                    public void write(
                                            PartitionUpdate update, List<TermEntry> entries) {
                                        super.write(update);
                                        store.indexes().add(update.partitionKey(), entries);
                                    }
                                },
                        kit -> of(kit).anEntryOfAnUnknownIndexAppliesNothing()),
                indexing(
                        "an index that is defined again is being built",
                        indexes ->
                                new ForwardingIndexes(indexes) {
                                    @Override
                                    public void define(UUID index) {
                                        super.define(index);
                                        var unused = super.setBuilding(index);
                                    }
                                },
                        kit -> of(kit).indexesOutliveARestart()),
                indexing(
                        "a drop keeps the entries",
                        indexes ->
                                new ForwardingIndexes(indexes) {
                                    @Override
                                    public void drop(UUID index) {
                                        if (!states().containsKey(index)) return;
                                        var unused = super.setBuilding(index);
                                    }
                                },
                        kit -> of(kit).aDroppedIndexIsGone()),
                indexing(
                        "any build ends the latest",
                        indexes ->
                                new ForwardingIndexes(indexes) {
                                    @Override
                                    public boolean setBuilt(UUID index, long build) {
                                        return states().containsKey(index)
                                                && super.setBuilt(index, super.setBuilding(index));
                                    }
                                },
                        kit -> of(kit).aBuildEndsOnlyWhatItBegan()),
                indexing(
                        "streams bring no entries",
                        indexes ->
                                new ForwardingIndexes(indexes) {
                                    @Override
                                    public void deriveBy(TermFunction function) {
                                        super.deriveBy((key, row) -> List.of());
                                    }
                                },
                        kit -> of(kit).receivedRowsAreIndexed()),
                indexing(
                        "static rows that streams bring have no entries",
                        indexes ->
                                new ForwardingIndexes(indexes) {
                                    @Override
                                    public void deriveBy(TermFunction function) {
                                        super.deriveBy(
                                                (key, row) ->
                                                        row.isStatic()
                                                                ? List.of()
                                                                : function.entries(key, row));
                                    }
                                },
                        kit -> of(kit).receivedRowsAreIndexed()),
                indexing(
                        "bounds are inclusive",
                        indexes ->
                                new ForwardingIndexes(indexes) {
                                    @Override
                                    public TermCursor scan(
                                            UUID index,
                                            @Nullable ByteBuffer from,
                                            boolean fromInclusive,
                                            @Nullable ByteBuffer to,
                                            boolean toInclusive) {
                                        return super.scan(index, from, true, to, true);
                                    }
                                },
                        kit -> of(kit).entriesComeInOrder()),
                sweeping("a sweep removes nothing", (term, key, row) -> true),
                sweeping("a sweep removes all", (term, key, row) -> false),
                indexing(
                        "a sweep removes what was stale when it looked, and is not any more",
                        indexes ->
                                new ForwardingIndexes(indexes) {
                                    @Override
                                    public long sweep(UUID index, SweepCheck check) {
                                        Set<List<Object>> stale = stale(this, index, check);
                                        return super.sweep(
                                                index,
                                                (term, key, row) ->
                                                        !stale.contains(List.of(term, key, row)));
                                    }
                                },
                        kit -> of(kit).aSweepLeavesWhatIsWrittenAgain()),
                writing(
                        "a sweep removes some that are confirmed",
                        Mutations::sweepsTooMuch,
                        kit -> of(kit).aSweepRemovesWhatNoRowConfirms()));
    }

    private static Set<List<Object>> stale(TermIndexes in, UUID index, SweepCheck check) {
        Set<List<Object>> stale = new HashSet<>();
        try (TermCursor entries = in.scan(index, null, true, null, true)) {
            while (entries.next())
                if (!check.isConfirmed(entries.term(), entries.key(), entries.clustering()))
                    stale.add(List.of(entries.term(), entries.key(), entries.clustering()));
        }
        return stale;
    }

    @ParameterizedTest
    @MethodSource("mutants")
    void itsTestFindsEveryMutant(UnaryOperator<TableStore> mutation, Example example)
            throws Exception {
        ExamplesFindMutantsTest.requireFound(
                mutation.toString(), () -> new MutantEngine(mutation), example);
    }
}
