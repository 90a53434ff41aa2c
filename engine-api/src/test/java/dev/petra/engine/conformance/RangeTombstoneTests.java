// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.junit.jupiter.api.Test;

/** Deletions of slices. Rocksandra 6 ignored them silently on write. */
public interface RangeTombstoneTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** A table with two clustering columns, the second one descending. */
    static TestTable table() {
        return TestTable.of(
                "CREATE TABLE t (k text, c int, d int, v int, PRIMARY KEY (k, c, d))"
                        + " WITH CLUSTERING ORDER BY (c ASC, d DESC)");
    }

    /** Rows (1,1) to (4,3), written at 1. */
    static PartitionUpdate grid(TestTable table, String key) {
        UpdateBuilder update = table.update(key).at(1);
        for (int c = 1; c <= 4; c++)
            for (int d = 1; d <= 3; d++) update.row(c, d).liveness().set("v", 10 * c + d).end();
        return update.build();
    }

    /** Bounds of every kind and length around the rows of the grid. */
    static List<ClusteringBound<?>> bounds(TestTable table, boolean start) {
        List<ClusteringBound<?>> bounds = new ArrayList<>();
        bounds.add(start ? table.from() : table.to());
        for (Object[] values :
                new Object[][] {{1}, {2}, {4}, {9}, {1, 9}, {2, 2}, {2, 3}, {3, 1}, {4, 0}}) {
            bounds.add(start ? table.from(values) : table.to(values));
            bounds.add(start ? table.after(values) : table.before(values));
        }
        return bounds;
    }

    /** Every slice between two of these bounds that is not empty. */
    static List<Slice> everySlice(TestTable table) {
        List<Slice> slices = new ArrayList<>();
        for (ClusteringBound<?> start : bounds(table, true))
            for (ClusteringBound<?> end : bounds(table, false)) {
                Slice slice = Slice.make(start, end);
                if (!slice.isEmpty(table.metadata().comparator)) slices.add(slice);
            }
        return slices;
    }

    @Test
    default void aRangeOfEveryKindOfBoundsHidesExactlyItsRows() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        List<Slice> slices = everySlice(table);
        for (int i = 0; i < slices.size(); i++) {
            store.write(grid(table, "p" + i));
            store.write(table.update("p" + i).at(5).deleteRange(slices.get(i)).build());
        }
        store.everywhere(
                () -> {
                    for (int i = 0; i < slices.size(); i++) {
                        PartitionContent content = store.read(table.key("p" + i));
                        assertThat(content.markers()).hasSize(2);
                        Slice slice = slices.get(i);
                        assertThat(content.rows())
                                .noneMatch(
                                        row ->
                                                slice.includes(
                                                        table.metadata().comparator,
                                                        row.clustering()));
                    }
                    return null;
                });
    }

    @Test
    default void aRangeHidesWhatIsOlderAndNotWhatIsNewer() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(1).row(1, 1).liveness().set("v", 1).end(),
                                u -> u.at(5).deleteRange(table.prefix(1)),
                                u -> u.at(7).row(1, 2).set("v", 2).end(),
                                u -> u.at(5).row(1, 3).set("v", 3).end()));
        assertThat(content.rows()).hasSize(1);
        assertThat(content.cell("v", 1, 2).timestamp()).isEqualTo(7);
    }

    @Test
    default void overlappingRangesGiveBoundariesWhateverTheOrder() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).deleteRange(table.from(1), table.to(5)),
                                u -> u.at(7).deleteRange(table.from(3), table.to(8)),
                                u -> u.at(6).deleteRange(table.after(4), table.before(10)),
                                u -> u.at(1).row(9, 1).liveness().end()));
        assertThat(content.markers()).hasSize(4);
        assertThat(content.markers().stream().filter(marker -> marker.isBoundary()).count())
                .isEqualTo(2);
        assertThat(content.rows()).isEmpty();
    }

    @Test
    default void adjacentRangesMeetInABoundary() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).deleteRange(table.from(1), table.to(3)),
                                u -> u.at(6).deleteRange(table.after(3), table.before(5)),
                                u -> u.at(7).deleteRange(table.from(5), table.to(6))));
        assertThat(content.markers()).hasSize(4);
    }

    @Test
    default void adjacentRangesOfOneDeletionAreOne() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).deleteRange(table.from(1), table.to(3)),
                                u -> u.at(5).deleteRange(table.after(3), table.to(6)),
                                u -> u.at(5).deleteRange(table.from(2), table.to(4))));
        assertThat(content.markers()).hasSize(2);
    }

    @Test
    default void anOlderRangeInsideANewerOneIsNotSeen() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(7).deleteRange(table.from(1), table.to(9)),
                                u -> u.at(5).deleteRange(table.from(3), table.to(4)),
                                u -> u.at(6).deleteRange(table.prefix(5, 5))));
        assertThat(content.markers()).hasSize(2);
    }

    @Test
    default void aNewerRangeInsideAnOlderOneSplitsIt() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).deleteRange(table.from(1), table.to(9)),
                                u -> u.at(7).deleteRange(table.from(3), table.before(4)),
                                u -> u.at(6).deleteRange(table.prefix(5, 5))));
        assertThat(content.markers()).hasSize(6);
    }

    @Test
    default void rangesAndPartitionDeletionAndRowDeletionsTogether() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        store.write(grid(table, "a"));
        store.write(
                table.update("a")
                        .at(2)
                        .deletePartition()
                        .at(3)
                        .deleteRange(table.from(1), table.to(2))
                        .at(2)
                        .deleteRange(table.from(3), table.to(4))
                        .at(4)
                        .deleteRow(1, 1)
                        .at(3)
                        .deleteRow(1, 2)
                        .at(5)
                        .row(1, 3)
                        .liveness()
                        .build());
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(content.markers()).hasSize(2);
        assertThat(content.rows()).hasSize(2);
    }

    @Test
    default void manyRangesInOnePartitionAreAllKept() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        for (int i = 0; i < 300; i++)
            store.write(
                    table.update("a")
                            .at(i % 7)
                            .deleteRange(table.from(3 * i), table.before(3 * i + 1 + i % 4))
                            .build());
        assertThat(store.everywhere(table.key("a")).markers()).hasSizeGreaterThan(300);
    }

    @Test
    default void everySliceOfEveryRangeIsClipped() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        store.write(grid(table, "a"));
        store.write(
                table.update("a")
                        .at(5)
                        .deleteRange(table.after(1), table.to(2, 2))
                        .at(6)
                        .deleteRange(table.from(2, 3), table.before(4))
                        .at(7)
                        .deleteRange(table.prefix(4, 1))
                        .build());
        store.everywhere(
                () -> {
                    for (Slice slice : everySlice(table))
                        store.read(table.key("a"), table.slices(slice));
                    return null;
                });
    }
}
