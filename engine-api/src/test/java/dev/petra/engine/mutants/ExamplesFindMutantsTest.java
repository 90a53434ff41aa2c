// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.AlterTests;
import dev.petra.engine.conformance.Capabilities;
import dev.petra.engine.conformance.ConcurrencyTests;
import dev.petra.engine.conformance.CounterTests;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.conformance.LifecycleTests;
import dev.petra.engine.conformance.PurgeTests;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.RangeTombstoneTests;
import dev.petra.engine.conformance.ScanTests;
import dev.petra.engine.conformance.SliceTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.TypeTests;
import dev.petra.engine.conformance.WriteTests;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The test that names a rule finds the engine that breaks it. The defects of Rocksandra are here
 * under their numbers; 25, a check that could not fail, is what this class is against.
 */
final class ExamplesFindMutantsTest {
    /** A test of the kit. */
    interface Example {
        void run(EngineUnderTest kit) throws Exception;
    }

    /** An engine that is wrong in the way that its name says, and the test that must find it. */
    private record Mutant(String name, Supplier<StorageEngine> engine, Example example) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static Mutant mutant(String name, UnaryOperator<TableStore> mutation, Example example) {
        return new Mutant(name, () -> new MutantEngine(mutation), example);
    }

    static Stream<Mutant> dataMutants() {
        return Stream.of(
                mutant(
                        "1: a partition deletion is not seen",
                        Mutations::losesPartitionDeletions,
                        kit -> write(kit).aPartitionDeletionIsSeenAtOnceAndHidesWhatIsOlder()),
                mutant(
                        "1: keys of one token share a deletion",
                        Mutations::sharesDeletionsByToken,
                        kit -> write(kit).twoKeysOfOneTokenShareNothing()),
                mutant(
                        "2: row tombstones are lost",
                        Mutations.LOSES_ROW_DELETIONS,
                        kit -> write(kit).aRowDeletionHidesWhatIsOlderWhateverTheOrder()),
                mutant(
                        "2: row tombstones go in compaction",
                        Mutations::losesRowDeletionsInCompaction,
                        kit -> write(kit).aRowDeletionOverFlushedDataStaysThroughCompaction()),
                mutant(
                        "3, 11: rows of only a primary key are lost",
                        Mutations.LOSES_ROW_MARKERS,
                        kit -> write(kit).aRowOfOnlyAPrimaryKeyStays()),
                mutant(
                        "4: an expired cell hides newer writes",
                        Mutations.EXPIRES_AT_WRITE_TIME_PLUS_TTL,
                        kit -> write(kit).anExpiringCellKeepsItsOwnTimestampAndHidesNothingNewer()),
                mutant(
                        "5: reads strip tombstones",
                        Mutations.STRIPS_TOMBSTONES_ON_READ,
                        kit -> write(kit).readingPurgesNothingHoweverOld()),
                mutant(
                        "5: compaction strips tombstones within their grace",
                        Mutations::losesRowDeletionsInCompaction,
                        kit -> ((PurgeTests) () -> kit).whatIsWithinItsGraceIsKept()),
                mutant(
                        "what was being removed goes though it was forbidden",
                        Mutations::purgesThoughForbidden,
                        kit -> ((PurgeTests) () -> kit).whatMayNotGoAnyMoreStays()),
                mutant(
                        "a purge takes from readers what they began to read",
                        Mutations::purgesUnderReaders,
                        kit ->
                                ((PurgeTests) () -> kit)
                                        .aReaderThatBeganBeforeAPurgeSeesWhatThereWas()),
                mutant(
                        "6: range tombstones are ignored",
                        Mutations::ignoresRangeTombstones,
                        kit ->
                                ((RangeTombstoneTests) () -> kit)
                                        .aRangeHidesWhatIsOlderAndNotWhatIsNewer()),
                mutant(
                        "7: the first of a tie counts",
                        Mutations::firstOfATieCounts,
                        kit -> write(kit).ofTwoValuesOfOneTimestampTheLargerCounts()),
                mutant(
                        "7: the first of a tie counts, even over a tombstone",
                        Mutations::firstOfATieCounts,
                        kit -> write(kit).ofACellAndATombstoneOfOneTimestampTheTombstoneCounts()),
                mutant(
                        "7: timestamps up to zero are dropped",
                        Mutations.DROPS_TIMESTAMPS_UP_TO_ZERO,
                        kit -> write(kit).anyTimestampIsATimestamp()),
                mutant(
                        "8: a row deletion loses the cells beside it",
                        Mutations.LOSES_CELLS_BESIDE_A_ROW_DELETION,
                        kit -> write(kit).aRowDeletionAndNewerCellsInOneUpdateAreBothKept()),
                mutant(
                        "9: columns are known by position",
                        Mutations::namesColumnsByPosition,
                        kit ->
                                ((AlterTests) () -> kit)
                                        .columnsAddedBeforeBetweenAndAfterLeaveTheOthersAlone()),
                mutant(
                        "9: columns are known by position, and one is dropped",
                        Mutations::namesColumnsByPosition,
                        kit -> ((AlterTests) () -> kit).aDroppedColumnIsGoneAndTheOthersStay()),
                mutant(
                        "9: only 127 columns",
                        Mutations::losesColumnsBeyond127,
                        kit -> write(kit).manyColumnsKeepTheirValues()),
                new Mutant(
                        "9: dropped columns come back",
                        () -> Mutations.ignoresDroppedColumns(new MutantEngine(store -> store)),
                        kit ->
                                ((AlterTests) () -> kit)
                                        .aColumnAddedAgainDoesNotShowWhatIsOlderThanItsDrop()),
                mutant(
                        "10: static rows are not returned",
                        Mutations.LOSES_THE_STATIC_ROW_ON_READ,
                        kit -> write(kit).theStaticRowIsReadWithAnySliceAndIsNoRow()),
                mutant(
                        "12: deletions of collections are lost",
                        Mutations.LOSES_COLLECTION_DELETIONS,
                        kit -> write(kit).aCollectionsDeletionHidesOlderElementsOnly()),
                mutant(
                        "12: counters do not merge",
                        Mutations::ignoresOlderCounters,
                        kit -> ((CounterTests) () -> kit).shardsOfSeveralNodesAddUp()),
                mutant(
                        "13: only the first slice is read",
                        Mutations.READS_ONLY_THE_FIRST_SLICE,
                        kit -> ((SliceTests) () -> kit).everySliceOfSeveralIsRead()),
                mutant(
                        "13: in reverse is forwards",
                        Mutations.READS_FORWARDS_IN_REVERSE,
                        kit -> ((SliceTests) () -> kit).backwardsIsForwardsTurnedRound()),
                mutant(
                        "14: partition keys come back in other bytes",
                        Mutations::rewritesKeys,
                        kit ->
                                ((TypeTests) () -> kit)
                                        .everyTypeComesBackAsAPartitionKeyUnderEveryPartitioner()),
                mutant(
                        "14: clusterings come back in other bytes",
                        Mutations.rewritesClusterings(),
                        kit ->
                                ((TypeTests) () -> kit)
                                        .everyTypeOrdersAndComesBackAsAClusteringAscendingAndDescending()),
                mutant(
                        "15: scans are [left, right)",
                        Mutations::scansLeftInclusively,
                        kit -> ((ScanTests) () -> kit).everyKindOfBoundsBetweenEveryTwoPositions()),
                mutant(
                        "16: scans skip files",
                        Mutations::skipsPartitionsInScans,
                        kit ->
                                ((ScanTests) () -> kit)
                                        .aScanOfEverythingGivesEveryPartitionInTheOrderOfTokens()),
                mutant(
                        "an update is not atomic",
                        Mutations::writesRowByRow,
                        kit -> ((ConcurrencyTests) () -> kit).anUpdateIsSeenWholeOrNotAtAll()),
                mutant(
                        "markers are lost on reopening",
                        Mutations.losesMarkersOnReopening(),
                        kit -> ((LifecycleTests) () -> kit).aStoreOpenedAgainHasEverything()));
    }

    static Stream<Mutant> lifecycleMutants() {
        return Stream.of(
                mutant(
                        "20: drop leaves the files",
                        ExamplesFindMutantsTest::dropsNothing,
                        kit -> life(kit).aDroppedStoreLeavesNothingAndComesBackEmpty()),
                new Mutant(
                        "20: a table made again sees the old one's data",
                        TakesAnyDirectory::new,
                        kit -> life(kit).aDirectoryOfAnotherTableIsRefusedAndLeftAlone()),
                new Mutant(
                        "21: what is no store is made one",
                        ReplacesWhatItCannotOpen::new,
                        kit -> life(kit).aDirectoryThatIsNoStoreIsRefusedAndLeftAlone()),
                mutant(
                        "23: a closed store still answers",
                        ExamplesFindMutantsTest::answersWhenClosed,
                        kit -> life(kit).aClosedStoreRefusesEverything()),
                new Mutant(
                        "a directory is opened twice",
                        OpensTwice::new,
                        kit -> life(kit).aSecondOpenOfADirectoryIsRefused()),
                mutant(
                        "closing does not wait for readers",
                        ExamplesFindMutantsTest::closesInTheBackground,
                        kit -> life(kit).closingWaitsForReadersWhoseIteratorsStayGood()),
                mutant(
                        "a closed iterator goes on",
                        ExamplesFindMutantsTest::goesOnWhenClosed,
                        kit -> life(kit).aClosedPartitionIteratorRefusesToGoOnAndHarmsNoOther()),
                mutant(
                        "a checkpoint overwrites",
                        ExamplesFindMutantsTest::overwritesWithCheckpoints,
                        kit ->
                                life(kit)
                                        .aCheckpointIntoSomethingThatExistsIsRefusedAndLeavesItAlone()),
                mutant(
                        "a checkpoint is late",
                        ExamplesFindMutantsTest::losesWritesBeforeCheckpoints,
                        kit -> life(kit).aCheckpointIsAStoreOfItsOwn()),
                mutant(
                        "isEmpty is always true",
                        ExamplesFindMutantsTest::saysItIsEmpty,
                        kit -> life(kit).aStoreIsEmptyUntilTheFirstWriteAndNeverAfterARestart()),
                mutant(
                        "mayContain denies",
                        Mutations::mayContainDenies,
                        kit -> life(kit).mayContainNeverDeniesWhatIsThere()),
                mutant(
                        "statistics count nothing",
                        ExamplesFindMutantsTest::countsNothing,
                        kit -> life(kit).statisticsAreSane()));
    }

    static Stream<Mutant> rangeMutants() {
        return Stream.of(
                mutant(
                        "15: cleanup keeps [left, right)",
                        ExamplesFindMutantsTest::keepsLeftInclusively,
                        kit ->
                                ranges(kit)
                                        .keepingRangesExcludesTheirLeftTokensAndIncludesTheirRight()),
                mutant(
                        "cleanup does nothing",
                        ExamplesFindMutantsTest::keepsEverything,
                        kit ->
                                ranges(kit)
                                        .keepingRangesExcludesTheirLeftTokensAndIncludesTheirRight()));
    }

    @ParameterizedTest
    @MethodSource({"dataMutants", "lifecycleMutants", "rangeMutants"})
    void itsTestFindsEveryMutantAndPassesTheReference(Mutant mutant) throws Exception {
        requireFound(mutant.name(), mutant.engine(), mutant.example());
    }

    /** Requires that a test passes the reference, and fails with a mutant. */
    static void requireFound(String name, Supplier<StorageEngine> mutant, Example example)
            throws Exception {
        try (EngineUnderTest sound =
                new EngineUnderTest(() -> new MutantEngine(store -> store), Capabilities.ALL)) {
            example.run(sound);
        }
        EngineUnderTest kit = new EngineUnderTest(mutant, Capabilities.ALL);
        Throwable found = catchThrowable(() -> example.run(kit));
        assertThat(found).as(name).isNotNull();
        try {
            kit.close();
        } catch (RuntimeException e) {
            // A mutant may have taken away what closing it needs; it was found all the same.
            found.addSuppressed(e);
        }
    }

    private static WriteTests write(EngineUnderTest kit) {
        return () -> kit;
    }

    private static LifecycleTests life(EngineUnderTest kit) {
        return () -> kit;
    }

    private static RangeTests ranges(EngineUnderTest kit) {
        return () -> kit;
    }

    // Mutants that only these tests are for

    private static TableStore dropsNothing(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public void drop() {
                store.close();
            }
        };
    }

    /** Opens a directory as whatever it was first opened as. */
    private static final class TakesAnyDirectory extends MutantEngine {
        private final Map<Path, StoreSpec> specs = new HashMap<>();

        TakesAnyDirectory() {
            super(store -> store);
        }

        @Override
        public TableStore openStore(StoreSpec spec) {
            specs.putIfAbsent(spec.directory(), spec);
            return super.openStore(specs.get(spec.directory()));
        }
    }

    private static final class ReplacesWhatItCannotOpen extends MutantEngine {
        ReplacesWhatItCannotOpen() {
            super(store -> store);
        }

        @Override
        public TableStore openStore(StoreSpec spec) {
            try {
                return super.openStore(spec);
            } catch (CorruptStoreException e) {
                deleteStore(spec.directory());
                return super.openStore(spec);
            }
        }
    }

    private static final class OpensTwice extends MutantEngine {
        private final Map<Path, TableStore> stores = new HashMap<>();

        OpensTwice() {
            super(store -> store);
        }

        @Override
        public TableStore openStore(StoreSpec spec) {
            return stores.computeIfAbsent(spec.directory(), directory -> super.openStore(spec));
        }
    }

    private static TableStore answersWhenClosed(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public void flush() {
                try {
                    store.flush();
                } catch (IllegalStateException e) {
                    assertThat(e).hasMessageContaining("closed");
                }
            }
        };
    }

    private static TableStore goesOnWhenClosed(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            UnfilteredRowIterator changed(UnfilteredRowIterator partition) {
                return Mutations.listed(
                        partition, partition.partitionKey(), Mutations.unfiltereds(partition));
            }
        };
    }

    private static TableStore closesInTheBackground(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public void close() {
                Thread closing = new Thread(store::close, "closing");
                closing.setDaemon(true);
                closing.start();
            }
        };
    }

    private static TableStore overwritesWithCheckpoints(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public void checkpoint(Path target) {
                try (Stream<Path> files =
                        Files.exists(target) ? Files.walk(target) : Stream.empty()) {
                    for (Path file : files.sorted((a, b) -> b.compareTo(a)).toList())
                        Files.delete(file);
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
                store.checkpoint(target);
            }
        };
    }

    /** Checkpoints what was flushed. */
    private static TableStore losesWritesBeforeCheckpoints(TableStore store) {
        return new ForwardingStore(store) {
            private Path flushed;

            @Override
            public void flush() {
                store.flush();
                flushed = store.spec().directory().resolveSibling("flushed");
                store.checkpoint(flushed);
            }

            @Override
            public void checkpoint(Path target) {
                try {
                    Files.move(flushed, target);
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            }
        };
    }

    private static TableStore saysItIsEmpty(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public boolean isEmpty() {
                return true;
            }
        };
    }

    private static TableStore countsNothing(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public StoreStatistics statistics() {
                return new StoreStatistics(0, 0, 0, 0, 0, 0, 0, 0);
            }
        };
    }

    /** (left, right] for [left, right), as far as whole tokens go. */
    static List<Range<Token>> turned(Collection<Range<Token>> ranges) {
        return ranges.stream()
                .map(range -> new Range<>(before(range.left), before(range.right)))
                .toList();
    }

    private static Token before(Token token) {
        return token.isMinimum() ? token : TestTable.token((Long) token.getTokenValue() - 1);
    }

    private static TableStore keepsLeftInclusively(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public void retainRanges(Collection<Range<Token>> owned) {
                store.retainRanges(turned(owned));
            }
        };
    }

    private static TableStore keepsEverything(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public void retainRanges(Collection<Range<Token>> owned) {
                store.isEmpty();
            }
        };
    }
}
