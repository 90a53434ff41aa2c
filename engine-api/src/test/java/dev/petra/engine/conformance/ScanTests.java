// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.dht.ExcludingBounds;
import org.apache.cassandra.dht.IncludingExcludingBounds;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.Test;

/**
 * Ranges of partitions. Rocksandra 15 took [left, right) for (left, right], 16 skipped files, 17
 * came out of token order.
 */
public interface ScanTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** A table of blob keys, for which a token can be chosen. */
    static TestTable table() {
        return TestTable.of(
                "CREATE TABLE t (k blob, c int, s text STATIC, v int, PRIMARY KEY (k, c))");
    }

    /** Tokens at the ends, in the middle and next to each other; 42 is of two keys. */
    static List<DecoratedKey> keys(TestTable table) {
        List<DecoratedKey> keys = new ArrayList<>();
        for (long token :
                new long[] {
                    Long.MIN_VALUE + 1,
                    -1_000_000_007L,
                    -1,
                    0,
                    1,
                    41,
                    42,
                    43,
                    1L << 40,
                    Long.MAX_VALUE - 1,
                    Long.MAX_VALUE
                }) keys.add(table.keyWithToken(token, 0));
        keys.add(table.keyWithToken(42, 1));
        return keys.stream().sorted().toList();
    }

    private ComparedStore filled(TestTable table) {
        ComparedStore store = kit().compared(table);
        List<DecoratedKey> keys = keys(table);
        for (int i = 0; i < keys.size(); i++) {
            UpdateBuilder update = table.update(keys.get(i)).at(2);
            if (i % 3 == 0) update.deletePartition();
            update.at(3).row(1).liveness().set("v", i).end().row(5).liveness().end();
            if (i % 2 == 0) update.staticRow().set("s", "s" + i).end();
            if (i % 4 == 0) update.deleteRange(table.from(7), table.to(9));
            store.write(update.build());
            if (i == keys.size() / 2) store.flush();
        }
        return store;
    }

    private static DataRange range(AbstractBounds<PartitionPosition> bounds) {
        return new DataRange(bounds, new ClusteringIndexSliceFilter(Slices.ALL, false));
    }

    /** Rocksandra 16 and 17. */
    @Test
    default void aScanOfEverythingGivesEveryPartitionInTheOrderOfTokens() {
        TestTable table = table();
        ComparedStore store = filled(table);
        assertThat(store.scanEverywhere().stream().map(PartitionContent::key).toList())
                .isEqualTo(keys(table));
    }

    @Test
    default void everyKindOfBoundsBetweenEveryTwoPositions() {
        TestTable table = table();
        ComparedStore store = filled(table);
        List<PartitionPosition> positions = new ArrayList<>();
        for (DecoratedKey key : keys(table)) {
            positions.add(key.getToken().minKeyBound());
            positions.add(key);
            positions.add(key.getToken().maxKeyBound());
        }
        positions.add(TestTable.token(500).minKeyBound());
        positions.add(TestTable.token(500).maxKeyBound());
        positions.add(TestTable.token(Long.MIN_VALUE).minKeyBound());
        store.flush();
        for (PartitionPosition left : positions)
            for (PartitionPosition right : positions) {
                if (left.compareTo(right) <= 0 || right.isMinimum())
                    store.scan(range(new Bounds<>(left, right)), table.all());
                if (left.compareTo(right) < 0 || right.isMinimum()) {
                    store.scan(range(new Range<>(left, right)), table.all());
                    store.scan(range(new ExcludingBounds<>(left, right)), table.all());
                    store.scan(range(new IncludingExcludingBounds<>(left, right)), table.all());
                }
            }
    }

    /** Rocksandra 15: ranges are (left, right]. */
    @Test
    default void aTokenRangeExcludesItsLeftTokenAndIncludesItsRight() {
        TestTable table = table();
        ComparedStore store = filled(table);
        DataRange range =
                DataRange.forTokenRange(new Range<>(TestTable.token(1), TestTable.token(42)));
        assertThat(
                        store.everywhere(() -> store.scan(range, table.all())).stream()
                                .map(content -> (Long) content.key().getToken().getTokenValue()))
                .containsExactly(41L, 42L, 42L);
    }

    @Test
    default void aRangeFromOrToTheMinimumTokenIsOpenThere() {
        TestTable table = table();
        ComparedStore store = filled(table);
        Token minimum = table.metadata().partitioner.getMinimumToken();
        Token middle = TestTable.token(0);
        List<PartitionContent> low =
                store.scan(DataRange.forTokenRange(new Range<>(minimum, middle)), table.all());
        List<PartitionContent> high =
                store.scan(DataRange.forTokenRange(new Range<>(middle, minimum)), table.all());
        assertThat(low).hasSize(4);
        assertThat(high).hasSize(8);
    }

    @Test
    default void theTwoHalvesOfAWrappingRangeAreAllOfIt() {
        TestTable table = table();
        ComparedStore store = filled(table);
        List<PartitionContent> all = new ArrayList<>();
        for (Range<Token> part :
                new Range<Token>(TestTable.token(42), TestTable.token(-1)).unwrap())
            all.addAll(store.scan(DataRange.forTokenRange(part), table.all()));
        assertThat(all).hasSize(4 + 3);
    }

    @Test
    default void severalRangesAreScannedOneBehindTheOther() {
        TestTable table = table();
        ComparedStore store = filled(table);
        List<Range<Token>> ranges =
                List.of(
                        new Range<Token>(TestTable.token(43), TestTable.token(-1)),
                        new Range<Token>(TestTable.token(2), TestTable.token(40)),
                        new Range<Token>(TestTable.token(41), TestTable.token(42)));
        store.everywhere(
                () -> {
                    List<PartitionContent> all = new ArrayList<>();
                    for (Range<Token> part : Range.normalize(ranges))
                        all.addAll(store.scan(DataRange.forTokenRange(part), table.all()));
                    assertThat(all).hasSize(3 + 2 + 3);
                    assertThat(
                                    PartitionContent.listOf(
                                            store.store().scanAside(ranges, table.all(), () -> {})))
                            .isEqualTo(all);
                    return null;
                });
    }

    @Test
    default void aScanReadsWhatItsFilterSelectsOfEachPartition() {
        TestTable table = table();
        ComparedStore store = filled(table);
        List<ClusteringIndexFilter> filters = new ArrayList<>();
        for (boolean reversed : new boolean[] {false, true})
            filters.addAll(
                    List.of(
                            new ClusteringIndexSliceFilter(
                                    table.slices(table.prefix(5), table.prefix(8)), reversed),
                            new ClusteringIndexSliceFilter(
                                    table.slices(table.from(2), table.to()), reversed),
                            new ClusteringIndexSliceFilter(Slices.NONE, reversed),
                            table.names(
                                    reversed,
                                    table.clustering(1),
                                    table.clustering(4),
                                    table.clustering(8)),
                            table.names(reversed, table.clustering(5))));
        store.everywhere(
                () -> {
                    for (ClusteringIndexFilter filter : filters) {
                        DataRange all = DataRange.allData(table.metadata().partitioner, filter);
                        store.scan(all, table.all());
                        store.scan(all, table.only("v"));
                        store.scan(all, table.queried(true, "s"));
                    }
                    return null;
                });
    }

    @Test
    default void aScanForPagingContinuesInsideItsFirstPartition() {
        TestTable table = table();
        ComparedStore store = filled(table);
        List<DecoratedKey> keys = keys(table);
        for (boolean reversed : new boolean[] {false, true})
            for (boolean inclusive : new boolean[] {false, true}) {
                DataRange page =
                        DataRange.allData(
                                        table.metadata().partitioner,
                                        new ClusteringIndexSliceFilter(Slices.ALL, reversed))
                                .forPaging(
                                        new Bounds<>(keys.get(2), keys.get(8)),
                                        table.metadata().comparator,
                                        table.clustering(reversed ? 5 : 1),
                                        inclusive);
                List<PartitionContent> contents =
                        store.everywhere(() -> store.scan(page, table.all()));
                assertThat(contents).hasSize(7);
                assertThat(contents.get(0).rows()).hasSize(inclusive ? 2 : 1);
                assertThat(contents.get(1).rows()).hasSize(2);
            }
    }

    @Test
    default void aScanMayBeEndedAnywhere() {
        TestTable table = table();
        ComparedStore store = filled(table);
        DataRange all = DataRange.allData(table.metadata().partitioner);
        for (int partitions = 0; partitions <= 12; partitions++)
            for (int rows = 0; rows <= 2; rows++)
                try (UnfilteredPartitionIterator scan = store.store().scan(all, table.all())) {
                    for (int i = 0; i < partitions; i++)
                        try (UnfilteredRowIterator partition = scan.next()) {
                            for (int j = 0; j < rows; j++) partition.next();
                        }
                    assertThat(scan.hasNext()).isEqualTo(partitions < 12);
                }
        // Closing waits for readers: it would hang on a leak.
        store.reopen();
        assertThat(store.scan()).hasSize(12);
    }

    @Test
    default void askingTwiceForTheNextChangesNothing() {
        TestTable table = table();
        ComparedStore store = filled(table);
        int count = 0;
        try (UnfilteredPartitionIterator scan =
                store.store().scan(DataRange.allData(table.metadata().partitioner), table.all())) {
            while (scan.hasNext()) {
                assertThat(scan.hasNext()).isTrue();
                try (UnfilteredRowIterator partition = scan.next()) {
                    assertThat(partition.partitionKey()).isEqualTo(keys(table).get(count));
                    count++;
                }
            }
        }
        assertThat(count).isEqualTo(12);
    }

    @Test
    default void partitionsOfOnlyADeletionOrAStaticRowAreScanned() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        store.write(
                table.update(table.keyWithToken(1, 0)).deletePartition().build(),
                table.update(table.keyWithToken(2, 0)).staticRow().set("s", "x").build(),
                table.update(table.keyWithToken(3, 0))
                        .deleteRange(table.from(1), table.to(2))
                        .build(),
                table.update(table.keyWithToken(4, 0)).deleteRow(1).build());
        assertThat(store.scanEverywhere()).hasSize(4);
        DataRange none =
                DataRange.allData(
                        table.metadata().partitioner,
                        new ClusteringIndexSliceFilter(Slices.NONE, false));
        assertThat(store.everywhere(() -> store.scan(none, table.all()))).hasSize(2);
    }

    @Test
    default void anEmptyStoreScansToNothing() {
        TestTable table = table();
        assertThat(kit().compared(table).scanEverywhere()).isEmpty();
    }

    @Test
    default void aScanOfManyPartitionsMissesNone() {
        TestTable table = TestTable.of("CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))");
        ComparedStore store = kit().compared(table);
        for (int i = 0; i < 2000; i++) {
            store.write(table.update(i).row(1).liveness().set("v", i).build());
            if (i % 700 == 699) store.flush();
        }
        assertThat(store.scanEverywhere()).hasSize(2000);
        Token half = TestTable.token(0);
        Token minimum = table.metadata().partitioner.getMinimumToken();
        int low =
                store.scan(DataRange.forTokenRange(new Range<>(minimum, half)), table.all()).size();
        int high =
                store.scan(DataRange.forTokenRange(new Range<>(half, minimum)), table.all()).size();
        assertThat(low + high).isEqualTo(2000);
    }
}
