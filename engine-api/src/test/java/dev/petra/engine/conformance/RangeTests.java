// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.TableStore;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.Test;

/** What is kept of a range. Rocksandra 15 took [left, right) for (left, right]. */
public interface RangeTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** The whole ring, unwrapped. */
    static List<Range<Token>> everything() {
        return everything(Murmur3Partitioner.instance);
    }

    /** The whole ring of a partitioner, unwrapped. */
    static List<Range<Token>> everything(IPartitioner partitioner) {
        Token minimum = partitioner.getMinimumToken();
        return List.of(new Range<>(minimum, minimum));
    }

    /** Some range, unwrapped. */
    static List<Range<Token>> range(long left, long right) {
        return List.of(new Range<>(TestTable.token(left), TestTable.token(right)));
    }

    /** Writes something of everything to each of the keys. */
    static void fill(TableStore store, TestTable table) {
        List<DecoratedKey> keys = ScanTests.keys(table);
        for (int i = 0; i < keys.size(); i++) {
            UpdateBuilder update = table.update(keys.get(i)).at(2);
            if (i % 3 == 0) update.deletePartition();
            update.at(3).row(i).liveness().set("v", i).end().deleteRow(100 + i);
            if (i % 2 == 0) update.staticRow().set("s", "s" + i).end();
            update.deleteRange(table.from(200), table.before(300));
            store.write(update.build());
            if (i == keys.size() / 2) store.flush();
        }
    }

    /** All there is. */
    static List<PartitionContent> scan(TableStore store, TestTable table) {
        return PartitionContent.listOf(
                store.scan(DataRange.allData(table.metadata().partitioner), table.all()));
    }

    /** The keys of all there is. */
    static List<DecoratedKey> keysOf(TableStore store, TestTable table) {
        return scan(store, table).stream().map(PartitionContent::key).toList();
    }

    /** Rocksandra 15: cleanup deleted an owned boundary partition. */
    @Test
    default void keepingRangesExcludesTheirLeftTokensAndIncludesTheirRight() {
        TestTable table = ScanTests.table();
        if (!kit().capabilities().retainRanges()) {
            TableStore store = kit().open(table);
            assertThatThrownBy(() -> store.retainRanges(everything()))
                    .isInstanceOf(UnsupportedOperationException.class)
                    .hasMessageContaining(kit().engine().name())
                    .hasMessageContaining("retainRanges");
            return;
        }
        List<List<Range<Token>>> cases = new ArrayList<>();
        cases.add(everything());
        cases.add(List.of());
        cases.add(range(1, 42));
        cases.add(range(42, Long.MIN_VALUE));
        cases.add(range(Long.MIN_VALUE, Long.MIN_VALUE + 1));
        cases.add(List.of(range(42, 43).get(0), range(Long.MIN_VALUE, -1).get(0)));
        for (List<Range<Token>> owned : cases) {
            TableStore store = kit().open(table);
            fill(store, table);
            store.retainRanges(owned);
            List<DecoratedKey> expected =
                    ScanTests.keys(table).stream()
                            .filter(
                                    key ->
                                            owned.stream()
                                                    .anyMatch(
                                                            range ->
                                                                    range.contains(key.getToken())))
                            .toList();
            assertThat(keysOf(store, table)).as("kept of " + owned).isEqualTo(expected);
            for (DecoratedKey key : ScanTests.keys(table))
                assertThat(
                                PartitionContent.of(store.read(key, Slices.ALL, table.all(), false))
                                        != null)
                        .isEqualTo(expected.contains(key));
            store.compact(List.of());
            store = kit().reopen(store);
            assertThat(keysOf(store, table)).as("kept of " + owned).isEqualTo(expected);
            // What is written afterwards is not removed by what was removed before.
            store.write(table.update(table.keyWithToken(41, 0)).at(1).row(1).liveness().build());
            assertThat(keysOf(store, table)).contains(table.keyWithToken(41, 0));
            store.close();
        }
    }
}
