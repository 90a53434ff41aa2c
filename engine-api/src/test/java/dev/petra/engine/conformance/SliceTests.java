// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.junit.jupiter.api.Test;

/**
 * Slices of a partition, forwards and backwards. Rocksandra 13 read only the first slice, and a
 * reverse scan with an open end walked forwards.
 */
public interface SliceTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /**
     * A store with a partition of rows, ranges and deletions, some of it flushed; and a neighbour.
     */
    private ComparedStore rich(TestTable table) {
        ComparedStore store = kit().compared(table);
        store.write(RangeTombstoneTests.grid(table, "a"));
        store.write(RangeTombstoneTests.grid(table, "b"));
        store.flush();
        store.write(
                table.update("a")
                        .at(5)
                        .deleteRow(1, 2)
                        .deleteRange(table.from(2, 2), table.before(3))
                        .at(6)
                        .row(2, 2)
                        .liveness()
                        .end()
                        .deleteRange(table.prefix(4))
                        .build());
        return store;
    }

    @Test
    default void everySingleSliceSelectsWhatLiesInIt() {
        TestTable table = RangeTombstoneTests.table();
        ComparedStore store = rich(table);
        for (Slice slice : RangeTombstoneTests.everySlice(table))
            store.read(table.key("a"), table.slices(slice));
    }

    @Test
    default void openEndsReachTheEndsOfTheirPartitionAndNoFurther() {
        TestTable table = RangeTombstoneTests.table();
        ComparedStore store = kit().compared(table);
        for (String key : List.of("a", "b", "c")) store.write(RangeTombstoneTests.grid(table, key));
        for (String key : List.of("a", "b", "c")) {
            assertThat(read(store, key, table.slices(table.from(), table.to())).rows()).hasSize(12);
            assertThat(read(store, key, table.slices(table.from(3), table.to())).rows()).hasSize(6);
            assertThat(read(store, key, table.slices(table.after(3), table.to())).rows())
                    .hasSize(3);
            assertThat(read(store, key, table.slices(table.from(), table.to(1))).rows()).hasSize(3);
            assertThat(read(store, key, table.slices(table.from(), table.before(1)))).isNull();
            assertThat(read(store, key, table.slices(table.after(4), table.to()))).isNull();
        }
    }

    private static PartitionContent read(ComparedStore store, String key, Slices slices) {
        return store.everywhere(() -> store.read(store.table().key(key), slices));
    }

    /** Rocksandra 13: only the first slice of a query was read. */
    @Test
    default void everySliceOfSeveralIsRead() {
        TestTable table = RangeTombstoneTests.table();
        ComparedStore store = kit().compared(table);
        store.write(RangeTombstoneTests.grid(table, "a"));
        Slices slices =
                table.slices(
                        table.prefix(1, 1),
                        Slice.make(table.from(2, 3), table.to(2, 2)),
                        table.prefix(3),
                        table.prefix(4, 3),
                        table.prefix(4, 1));
        PartitionContent content = read(store, "a", slices);
        assertThat(content.rows()).hasSize(1 + 2 + 3 + 2);
    }

    @Test
    default void severalSlicesClipRangesEachForItself() {
        TestTable table = RangeTombstoneTests.table();
        ComparedStore store = kit().compared(table);
        store.write(RangeTombstoneTests.grid(table, "a"));
        store.write(table.update("a").at(5).deleteRange(table.from(1), table.to(4)).build());
        Slices slices = table.slices(table.prefix(1, 1), table.prefix(2), table.prefix(3, 2));
        assertThat(read(store, "a", slices).markers()).hasSize(6);
    }

    @Test
    default void randomSetsOfSlicesOfARichPartition() {
        TestTable table = RangeTombstoneTests.table();
        ComparedStore store = rich(table);
        List<Slice> all = RangeTombstoneTests.everySlice(table);
        for (int i = 0; i < all.size(); i++)
            for (int j = i + 1; j < all.size(); j += 7) {
                Slice first = all.get(i);
                Slice second = all.get(j);
                if (table.metadata().comparator.compare(first.end(), second.start()) < 0)
                    store.read(table.key("a"), table.slices(first, second));
            }
    }

    @Test
    default void backwardsIsForwardsTurnedRound() {
        TestTable table = RangeTombstoneTests.table();
        ComparedStore store = kit().compared(table);
        store.write(RangeTombstoneTests.grid(table, "a"));
        List<Slices> queries =
                List.of(
                        Slices.ALL,
                        table.slices(table.prefix(2)),
                        table.slices(table.from(), table.to(2)),
                        table.slices(table.from(2, 2), table.to()),
                        table.slices(table.prefix(1), table.prefix(3), table.prefix(4, 2)));
        store.everywhere(
                () -> {
                    for (Slices slices : queries) {
                        var key = table.key("a");
                        List<Unfiltered> forwards =
                                store.read(key, slices, table.all(), false).unfiltereds();
                        List<Unfiltered> backwards =
                                store.read(key, slices, table.all(), true).unfiltereds();
                        assertThat(backwards).hasSameSizeAs(forwards);
                        for (int i = 0; i < forwards.size(); i++)
                            assertThat(backwards.get(forwards.size() - 1 - i))
                                    .isEqualTo(forwards.get(i));
                    }
                    return null;
                });
    }

    @Test
    default void noSlicesGiveTheDeletionAndTheStaticRowAlone() {
        TestTable table = WriteTests.rows();
        ComparedStore store = kit().compared(table);
        store.write(
                table.update("a")
                        .at(1)
                        .deletePartition()
                        .at(2)
                        .staticRow()
                        .set("s", "x")
                        .end()
                        .row(1)
                        .liveness()
                        .end()
                        .deleteRange(table.from(3), table.to(4))
                        .build());
        PartitionContent content = read(store, "a", Slices.NONE);
        assertThat(content.deletion().isLive()).isFalse();
        assertThat(content.staticRow().isEmpty()).isFalse();
        assertThat(content.unfiltereds()).isEmpty();
    }

    @Test
    default void slicesThatSelectNothingOfAPartitionGiveNothing() {
        TestTable table = WriteTests.rows();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").row(1).liveness().build());
        for (Slices slices : List.of(Slices.NONE, table.slices(table.from(5), table.to(6))))
            assertThat(read(store, "a", slices)).isNull();
    }

    @Test
    default void theIteratorSaysWhatItIs() {
        TestTable table = WriteTests.rows();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").at(3).deletePartition().row(1).set("v", "x").build());
        for (boolean reversed : new boolean[] {false, true})
            try (UnfilteredRowIterator rows =
                    store.store().read(table.key("a"), Slices.ALL, table.only("v"), reversed)) {
                assertThat(rows.isReverseOrder()).isEqualTo(reversed);
                assertThat(rows.partitionKey()).isEqualTo(table.key("a"));
                assertThat(rows.metadata().id).isEqualTo(table.metadata().id);
                assertThat(rows.partitionLevelDeletion().markedForDeleteAt()).isEqualTo(3);
                assertThat(table.metadata().regularAndStaticColumns().includes(rows.columns()))
                        .isTrue();
            }
    }

    @Test
    default void anIteratorClosedEarlyIsClosed() {
        TestTable table = RangeTombstoneTests.table();
        ComparedStore store = rich(table);
        for (int i = 0; i < 50; i++)
            try (UnfilteredRowIterator rows =
                    store.store().read(table.key("a"), Slices.ALL, table.all(), i % 2 == 0)) {
                assertThat(rows.next()).isNotNull();
            }
        // Closing waits for readers: it would hang on a leak.
        store.reopen();
        store.read(table.key("a"));
    }

    @Test
    default void writesDuringAnIterationDoNotDisturbIt() {
        TestTable table = RangeTombstoneTests.table();
        ComparedStore store = kit().compared(table);
        store.write(RangeTombstoneTests.grid(table, "a"));
        try (UnfilteredRowIterator rows =
                store.store().read(table.key("a"), Slices.ALL, table.all(), false)) {
            rows.next();
            store.write(table.update("a").at(9).deletePartition().build());
            store.flush();
            store.compact();
            int count = 1;
            for (; rows.hasNext(); count++) rows.next();
            assertThat(count).isEqualTo(12);
            assertThat(rows.partitionLevelDeletion().isLive()).isTrue();
        }
        assertThat(store.read(table.key("a")).rows()).isEmpty();
        assertThat(store.scan(DataRange.allData(table.metadata().partitioner), table.all()))
                .hasSize(1);
    }
}
