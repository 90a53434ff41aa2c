// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.util.List;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.context.CounterContext.ContextState;
import org.apache.cassandra.utils.CounterId;
import org.junit.jupiter.api.Test;

/** Counters: their contexts merge shard by shard. Rocksandra 12 threw. */
public interface CounterTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** A table of counters. */
    static TestTable table() {
        return TestTable.of(
                "CREATE TABLE t (k text, c int, n counter, o counter, s counter STATIC,"
                        + " PRIMARY KEY (k, c))");
    }

    /** A context of one shard, as Cassandra has written them since 2.1. */
    static ByteBuffer global(int node, long clock, long count) {
        ContextState state = ContextState.allocate(1, 0, 0);
        state.writeGlobal(CounterId.fromInt(node), clock, count);
        return state.context;
    }

    /** The sum that a cell stands for. */
    static long total(PartitionContent content, String column, int row) {
        return CounterContext.instance().total(content.cell(column, row));
    }

    @Test
    default void shardsOfSeveralNodesAddUp() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(1).row(1).set("n", global(1, 1, 5)).end(),
                                u -> u.at(4).row(1).set("n", global(2, 1, 7)).end(),
                                u -> u.at(3).row(1).set("n", global(1, 2, 6)).end(),
                                u ->
                                        u.at(2)
                                                .row(1)
                                                .set("o", global(3, 1, -4))
                                                .end()
                                                .staticRow()
                                                .set("s", global(3, 1, 1))
                                                .end()));
        assertThat(total(content, "n", 1)).isEqualTo(13);
        assertThat(content.cell("n", 1).timestamp()).isEqualTo(4);
        assertThat(total(content, "o", 1)).isEqualTo(-4);
        assertThat(CounterContext.instance().total(content.staticCell("s"))).isEqualTo(1);
    }

    @Test
    default void shardsOfOldFormatsMergeByTheirOwnRules() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        for (int i = 1; i <= 3; i++) {
            ContextState state = ContextState.allocate(0, 1, 1);
            state.writeLocal(CounterId.fromInt(1), i, 10L * i);
            state.writeRemote(CounterId.fromInt(2), i, 100L * i);
            store.write(table.update("a").at(i).row(1).set("n", state.context).build());
        }
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(total(content, "n", 1)).isEqualTo(10 + 20 + 30 + 300);
    }

    @Test
    default void aTombstoneOfACounterCountsWhateverItsTimestamp() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(9).row(1).set("n", global(1, 1, 5)).end(),
                                u -> u.at(3).row(1).unset("n").end(),
                                u -> u.at(8).row(1).set("n", global(1, 2, 6)).end()));
        assertThat(content.cell("n", 1).isTombstone()).isTrue();
    }

    @Test
    default void deletionsHideOlderCounters() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").at(1).row(1).set("n", global(1, 1, 5)).build());
        store.write(table.update("a").at(1).row(2).set("n", global(1, 1, 5)).build());
        store.write(table.update("a").at(1).row(3).set("n", global(1, 1, 5)).build());
        store.write(
                table.update("a")
                        .at(2)
                        .deleteRow(1)
                        .deleteRange(table.from(2), table.to(2))
                        .build());
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(content.rows()).hasSize(2);
        store.write(table.update("a").at(2).deletePartition().build());
        assertThat(store.everywhere(table.key("a")).rows()).isEmpty();
    }

    @Test
    default void aCounterThatIsNotQueriedIsMergedThoughItsValueIsLeftOut() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        store.write(
                table.update("a")
                        .at(1)
                        .row(1)
                        .set("n", global(1, 1, 5))
                        .set("o", global(1, 1, 5))
                        .build());
        store.write(table.update("a").at(2).row(1).set("n", global(2, 1, 5)).build());
        PartitionContent content =
                store.everywhere(
                        () ->
                                store.read(
                                        table.key("a"),
                                        Slices.ALL,
                                        table.queried(true, "o"),
                                        false));
        assertThat(content.cell("n", 1).valueSize()).isZero();
        assertThat(total(content, "o", 1)).isEqualTo(5);
    }

    @Test
    default void manyIncrementsAddUp() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        for (int i = 1; i <= 200; i++) {
            store.write(table.update("a").at(i).row(1).set("n", global(i % 3, i, 10L * i)).build());
            if (i % 50 == 0) store.flush();
        }
        assertThat(total(store.everywhere(table.key("a")), "n", 1)).isEqualTo(1980 + 1990 + 2000);
    }
}
