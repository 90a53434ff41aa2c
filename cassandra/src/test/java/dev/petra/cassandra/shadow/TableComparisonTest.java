// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.mutants.NamedMutations;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringPrefix;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The order of attempts, whose results are made up, and how a comparison ends. */
class TableComparisonTest {
    private static final TestTable TABLE =
            TestTable.of("CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))");

    @TempDir Path directory;

    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final StorageEngine engine =
            new MemoryEngineProvider().open(new EngineSettings(Map.of()));

    @SuppressWarnings("NullAway.Init")
    private Shadow shadow;

    @SuppressWarnings("NullAway.Init")
    private ShadowCopy copy;

    private final Tracker tracker = Tracker.newDummyTracker();
    private final TableMetadataRef reference = TableMetadataRef.forOfflineTools(TABLE.metadata());

    @SuppressWarnings("NullAway.Init")
    private TableStore store;

    private int attempts;

    @BeforeEach
    void open() {
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", reference);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        Hollow.set(cfs, ColumnFamilyStore.class, "readOrdering", new OpOrder());
        store = engine.openStore(TABLE.spec(directory.resolve("store")));
        for (int i = 0; i < 2; i++) write("k" + i);
        shadow =
                new Shadow(
                        cfs,
                        ShadowFactory.consume(new HashMap<>(Map.of("engine", "rocks")), false),
                        null);
        copy(store);
    }

    private void copy(TableStore of) {
        copy = new ShadowCopy(cfs, of, 1, new LateWrites(), () -> new LateWrites.Moment(0, 0));
        Hollow.set(copy, ShadowCopy.class, "caughtUp", true);
    }

    private void write(String key) {
        store.write(TABLE.update(key).row(1).set("v", "x").end().build());
    }

    /** The table has so many, in an SSTable. */
    private void partitionsOfTable(int number) {
        TreeSet<DecoratedKey> keys = new TreeSet<>();
        for (int i = 0; i < number; i++) keys.add(TABLE.key("k" + i));
        tracker.addInitialSSTables(List.of(KeyWalkTest.sstable(directory, reference, 1, keys)));
    }

    @AfterEach
    void close() {
        tracker.getView().liveSSTables().forEach(each -> each.selfRef().release());
        engine.close();
    }

    private static final Comparison.Outcome LATE =
            Comparison.Outcome.undecided(Comparison.Undecided.LATE, "row c=1", "", "");

    private record Piece(
            Comparison.Result result, @Nullable ClusteringPrefix<?> reached, boolean isUndecided) {}

    private static Piece piece(Comparison.Result result) {
        return new Piece(result, null, false);
    }

    private TableComparison comparison(int slowAttempts) {
        return comparison(
                (key, number) -> {
                    boolean isSlow = key.equals(TABLE.key("k1")) && number < slowAttempts;
                    return piece(isSlow ? Comparison.Result.TOO_LONG : Comparison.Result.EQUAL);
                });
    }

    /**
     * One whose attempts are made up.
     *
     * @param pieces for each attempt of a partition, which are counted from 0
     */
    private TableComparison comparison(BiFunction<DecoratedKey, Integer, Piece> pieces) {
        Token minimum = Murmur3Partitioner.instance.getMinimumToken();
        return new ShadowComparison(shadow, copy, "", List.of(new Range<>(minimum, minimum))) {
            @Override
            Attempt attempt(DecoratedKey key, @Nullable ClusteringPrefix<?> after, long maxBytes) {
                SinglePartitionReadCommand command =
                        SinglePartitionReadCommand.create(
                                TABLE.metadata(),
                                0,
                                key,
                                TABLE.all(),
                                new ClusteringIndexSliceFilter(Slices.ALL, false));
                Piece piece = pieces.apply(key, key.equals(TABLE.key("k1")) ? attempts++ : 0);
                return new Attempt(shadow, copy, command, Attempt.Extent.piece(after, maxBytes)) {
                    @Override
                    Comparison.Outcome run() {
                        return new Comparison.Outcome(piece.result(), "", "", "", "");
                    }

                    @Override
                    @Nullable ClusteringPrefix<?> reached() {
                        return piece.reached();
                    }

                    @Override
                    Comparison.@Nullable Outcome undecided() {
                        return piece.isUndecided() ? LATE : null;
                    }

                    @Override
                    boolean isOfOneMoment() {
                        return true;
                    }
                };
            }
        };
    }

    /** Something arrived since whoever makes the attempt has looked. */
    @Test
    void nothingIsReadWhileTheShadowHasNotCaughtUp() {
        SinglePartitionReadCommand command =
                SinglePartitionReadCommand.create(
                        TABLE.metadata(),
                        0,
                        TABLE.key("k1"),
                        TABLE.all(),
                        new ClusteringIndexSliceFilter(Slices.ALL, false));
        Attempt attempt =
                new Attempt(shadow, copy, command, Attempt.Extent.piece(null, Long.MAX_VALUE));
        Hollow.set(copy, ShadowCopy.class, "caughtUp", false);
        assertThat(attempt.run()).isNull();
        assertThat(attempt.isUnreadable()).isFalse();
        assertThat(attempt.bytes()).isZero();
    }

    /** A piece of k1 that is too late, and then what comes of the rest. */
    @ParameterizedTest
    @CsvSource({"EQUAL, UNDECIDED", "UNDECIDED, UNDECIDED", "DIFFERENT, DIFFERENT"})
    void aPieceThatIsTooLateIsNotTheEnd(Comparison.Result ofRest, Comparison.Result ofAll) {
        TableComparison comparison =
                comparison(
                        (key, number) -> {
                            if (!key.equals(TABLE.key("k1"))) return piece(Comparison.Result.EQUAL);
                            // Three times slow: the rest is taken again at the end.
                            return number == 0
                                    ? new Piece(
                                            Comparison.Result.TOO_LONG, TABLE.clustering(1), true)
                                    : number < 5
                                            ? piece(Comparison.Result.TOO_LONG)
                                            : piece(ofRest);
                        });
        comparison.run();
        assertThat(comparison.state()).isEqualTo("complete");
        assertThat(comparison.compared()).isEqualTo(2);
        assertThat(comparison.equal()).isEqualTo(1);
        assertThat(comparison.different()).isEqualTo(ofAll == Comparison.Result.DIFFERENT ? 1 : 0);
        assertThat(comparison.notComparableBecause())
                .isEqualTo(
                        ofAll == Comparison.Result.UNDECIDED
                                ? "1 differ only as Cassandra's replicas may, by what is not newer"
                                        + " than a deletion past gc_grace_seconds, by since when an"
                                        + " expired cell is gone, by the second of a deletion that"
                                        + " the table has purged, or by the bytes of equal"
                                        + " clustering values; partition keys: k1"
                                : "");
        boolean isUndecided = ofAll == Comparison.Result.UNDECIDED;
        assertThat(shadow.statistics().undecided.sum()).isEqualTo(isUndecided ? 1 : 0);
        assertThat(shadow.statistics().notComparable.sum()).isZero();
        assertThat(shadow.statistics().compared.sum()).isEqualTo(2);
    }

    /** The end of a partition may be reached by a piece that finds no time for more. */
    @Test
    void aLastPieceThatIsTooLateCounts() {
        TableComparison comparison =
                comparison(
                        (key, number) ->
                                key.equals(TABLE.key("k1"))
                                        ? new Piece(
                                                Comparison.Result.TOO_LONG,
                                                ClusteringBound.TOP,
                                                true)
                                        : piece(Comparison.Result.EQUAL));
        comparison.run();
        assertThat(comparison.notComparable()).isEqualTo(1);
        assertThat(comparison.equal()).isEqualTo(1);
    }

    @Test
    void aPartitionThatIsSlowOnceIsComparedAllTheSame() {
        for (int slow : List.of(1, 2, 3, 5)) {
            attempts = 0;
            TableComparison comparison = comparison(slow);
            comparison.run();
            assertThat(comparison.state()).isEqualTo("complete");
            assertThat(comparison.equal()).isEqualTo(2);
            assertThat(comparison.compared()).isEqualTo(2);
            assertThat(attempts).isEqualTo(slow + 1);
        }
    }

    @Test
    void aPartitionThatIsAlwaysSlowIsNotComparable() {
        TableComparison comparison = comparison(Integer.MAX_VALUE);
        comparison.run();
        assertThat(comparison.isComplete()).isTrue();
        assertThat(comparison.equal()).isEqualTo(1);
        assertThat(comparison.notComparable()).isEqualTo(1);
        assertThat(comparison.notComparableBecause())
                .isEqualTo(
                        "1 could not be read within read_request_timeout and four seconds;"
                                + " partition keys: k1");
        // Three times, and three times at the end.
        assertThat(attempts).isEqualTo(6);
    }

    /** Reads of the partition find it, and so do comparisons. */
    @Test
    void aPartitionThatOnlyTheStoresScanDoesNotFindDiffers() {
        partitionsOfTable(10);
        StorageEngine mutant = NamedMutations.of("skips-partitions-in-scans").apply(engine);
        store = mutant.openStore(TABLE.spec(directory.resolve("mutant")));
        for (int i = 0; i < 10; i++) write("k" + i);
        copy(store);
        TableComparison comparison = comparison(0);
        comparison.run();
        assertThat(comparison.state()).isEqualTo("complete");
        assertThat(comparison.compared()).isEqualTo(10);
        assertThat(comparison.different()).isEqualTo(1);
        assertThat(comparison.equal()).isEqualTo(9);
        assertThat(shadow.differences())
                .singleElement()
                .satisfies(each -> assertThat(each.shadow()).contains("scan of all keys"));
    }

    /** The comparison of the partition itself is made up here, and would find it. */
    @Test
    void whatIsNotInTheStoreAtAllIsNoFaultOfItsScan() {
        partitionsOfTable(3);
        comparesEqual(3);
    }

    /** What the store gives when it is walked once more was on its way before. */
    @Test
    void whatTheStoreGivesTheSecondTimeIsNoDifference() {
        partitionsOfTable(3);
        AtomicInteger walks = new AtomicInteger();
        copy(
                beforeScans(
                        isOfOne -> {
                            if (!isOfOne && walks.incrementAndGet() == 2) write("k2");
                        }));
        comparesEqual(3);
        assertThat(walks).hasValue(2);
    }

    /** The table has it first, as always; it comes to the shadow before that is read. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void whatComesBehindTheWalksIsNoDifference(boolean isWrite) {
        partitionsOfTable(3);
        int stripe = WriteClock.stripe(TABLE.key("k2"));
        AtomicInteger reads = new AtomicInteger();
        copy(
                beforeScans(
                        isOfOne -> {
                            if (!isOfOne) return;
                            reads.incrementAndGet();
                            if (isWrite) copy.clock.begin(stripe);
                            // As copied from an SSTable that has arrived.
                            else Hollow.set(copy, ShadowCopy.class, "arrivals", 1L);
                            write("k2");
                            if (isWrite) copy.clock.end(stripe);
                        }));
        comparesEqual(3);
        assertThat(reads).hasValue(1);
    }

    /** Nor is it read: what is on its way is not there yet. */
    @Test
    void whatIsOnItsWayIsNotLookedFor() {
        partitionsOfTable(3);
        AtomicInteger scans = new AtomicInteger();
        copy(beforeScans(isOfOne -> scans.incrementAndGet()));
        copy.clock.begin(WriteClock.stripe(TABLE.key("k2")));
        comparesEqual(3);
        assertThat(scans).hasValue(1);
    }

    private void comparesEqual(int partitions) {
        TableComparison comparison = comparison(0);
        comparison.run();
        assertThat(comparison.state()).isEqualTo("complete");
        assertThat(comparison.equal()).isEqualTo(partitions);
        assertThat(comparison.compared()).isEqualTo(partitions);
    }

    /** The store, with something done before it is scanned for all keys or for one. */
    private TableStore beforeScans(Consumer<Boolean> todo) {
        return (TableStore)
                Proxy.newProxyInstance(
                        TableStore.class.getClassLoader(),
                        new Class<?>[] {TableStore.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("scanAside"))
                                todo.accept(
                                        ((DataRange) arguments[0]).keyRange() instanceof Bounds);
                            return method.invoke(store, arguments);
                        });
    }

    /** Nobody could begin another until the one that it waits for has ended. */
    @Test
    void oneThatWaitsEndsWithItsShadow() {
        TableComparison waiting = comparison(0);
        assertThat(waiting.isOver()).isFalse();
        assertThat(waiting.endedAtMillis()).isZero();
        copy.end("the table was truncated");
        assertThat(waiting.endedAtMillis()).isPositive();
        assertThat(waiting.isOver()).isTrue();
        assertThat(waiting.state())
                .isEqualTo("ended: the shadow has dropped out: the table was truncated");
        long endedAt = waiting.endedAtMillis();
        waiting.run();
        assertThat(waiting.endedAtMillis()).isEqualTo(endedAt);
        assertThat(waiting.compared()).isZero();
    }

    /** Slices of a stream go to the engine and not to the shadow from then on. */
    @Test
    void oneThatRunsEndsWhenItsTableIsAlteredIntoItsEngine() {
        TableComparison comparison =
                comparison(
                        (key, number) -> {
                            shadow.promote();
                            return piece(Comparison.Result.DIFFERENT);
                        });
        comparison.run();
        assertThat(comparison.state())
                .isEqualTo("ended: the table was altered into its storage engine");
        assertThat(comparison.isComplete()).isFalse();
        assertThat(comparison.compared()).isZero();
        assertThat(shadow.differences()).isEmpty();
    }

    @Test
    void oneThatWaitsIsStopped() {
        TableComparison waiting = comparison(0);
        waiting.stop();
        assertThat(waiting.isOver()).isTrue();
        assertThat(waiting.state()).isEqualTo("ended by nodetool stop");
    }

    @Test
    void compactionsAreLeftThreeQuarters() {
        assertThat(TableComparison.bytesPerSecond(64 << 20)).isEqualTo(16 << 20);
        assertThat(TableComparison.bytesPerSecond(0)).isEqualTo(16 << 20);
    }
}
