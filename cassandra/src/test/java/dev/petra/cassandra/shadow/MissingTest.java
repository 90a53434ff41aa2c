// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static dev.petra.engine.conformance.UpdateBuilder.LONG_AGO;
import static org.apache.cassandra.utils.ByteBufferUtil.bytes;
import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.utils.CounterId;
import org.junit.jupiter.api.Test;

/** What counts as missing in a store, example by example. */
class MissingTest {
    private static final long NOW = UpdateBuilder.NOW + 100;
    private static final long GRACE = 864_000;

    private static final TestTable TABLE =
            TestTable.of(
                    "CREATE TABLE t (k text, c int, s text STATIC, v text, w text, m map<text,"
                            + " text>, PRIMARY KEY (k, c))");

    /** Each kind of thing that can be written, on its own. */
    private static final List<UnaryOperator<UpdateBuilder>> KINDS =
            List.of(
                    update -> update.row(1).liveness().end(),
                    update -> update.ttl(9_000).row(1).liveness().end(),
                    update -> update.row(1).set("v", "a").end(),
                    update -> update.ttl(9_000).row(1).set("v", "a").end(),
                    // Expired, and within its grace.
                    update -> update.ttl(10).row(1).set("v", "a").end(),
                    update -> update.ttl(10).row(1).liveness().end(),
                    update -> update.row(1).unset("v").end(),
                    update -> update.row(1).put("m", "x", "y").end(),
                    update -> update.row(1).remove("m", "x").end(),
                    update -> update.row(1).clear("m").end(),
                    update -> update.staticRow().set("s", "a").end(),
                    update -> update.staticRow().unset("s").end(),
                    update -> update.deleteRow(1),
                    update -> update.deleteRange(TABLE.from(1), TABLE.to(5)),
                    UpdateBuilder::deletePartition);

    private static UpdateBuilder update() {
        return TABLE.update("k");
    }

    private static Comparison.Outcome missing(UpdateBuilder snapshot, UpdateBuilder store) {
        return missing(TABLE, snapshot.build(), store.build());
    }

    private static Comparison.Outcome missing(
            TestTable table, PartitionUpdate snapshot, PartitionUpdate store) {
        try (UnfilteredRowIterator first = snapshot.unfilteredIterator();
                UnfilteredRowIterator second = store.unfilteredIterator()) {
            return new Comparison(table.metadata(), table.all(), NOW, NOW - GRACE, false)
                    .missing(first, second);
        }
    }

    private static void nothing(UpdateBuilder snapshot, UpdateBuilder store) {
        assertThat(missing(snapshot, store)).isEqualTo(Comparison.Outcome.EQUAL);
    }

    private static Comparison.Outcome something(UpdateBuilder snapshot, UpdateBuilder store) {
        Comparison.Outcome outcome = missing(snapshot, store);
        assertThat(outcome.result()).isEqualTo(Comparison.Result.DIFFERENT);
        assertThat(outcome.table()).isNotEmpty();
        return outcome;
    }

    @Test
    void eachKindIsFound() {
        for (UnaryOperator<UpdateBuilder> kind : KINDS) {
            something(kind.apply(update().at(5)), update());
            something(kind.apply(update().at(5)), update().at(9).row(7).liveness().end());
            nothing(kind.apply(update().at(5)), kind.apply(update().at(5)));
        }
    }

    @Test
    void whatOnlyTheStoreHasIsNone() {
        for (UnaryOperator<UpdateBuilder> kind : KINDS) {
            nothing(update(), kind.apply(update().at(5)));
            nothing(
                    update().at(9).row(7).liveness().set("v", "a").end(),
                    kind.apply(update().at(9).row(7).liveness().set("v", "a").end().at(5)));
        }
    }

    @Test
    void whatIsNewerInTheStoreIsNone() {
        for (UnaryOperator<UpdateBuilder> kind : KINDS) {
            nothing(kind.apply(update().at(5)), kind.apply(update().at(6)));
            something(kind.apply(update().at(6)), kind.apply(update().at(5)));
        }
    }

    private static UpdateBuilder row() {
        return update().at(5).row(1).liveness().set("v", "a").put("m", "x", "y").end();
    }

    @Test
    void whatTheStoreHasDeletedIsNone() {
        for (UnaryOperator<UpdateBuilder> kind : KINDS) {
            nothing(kind.apply(update().at(5)), update().at(5).deletePartition());
            nothing(
                    kind.apply(update().at(5)),
                    update().at(6).deletePartition().row(1).liveness().end());
            something(kind.apply(update().at(6)), update().at(5).deletePartition());
        }
        nothing(row(), update().at(5).deleteRow(1));
        nothing(row(), update().at(5).deleteRange(TABLE.from(0), TABLE.to(1)));
        something(row(), update().at(5).deleteRange(TABLE.from(0), TABLE.before(1)));
        something(row(), update().at(9).deleteRow(2));
        // Of three things one.
        Comparison.Outcome outcome =
                something(row(), update().at(6).row(1).unset("v").clear("m").end());
        assertThat(outcome.where()).isEqualTo("row c=1");
        assertThat(outcome.table()).isEqualTo("row @5");
        assertThat(outcome.shadow()).isEmpty();
    }

    @Test
    void whatIsWrittenOverByAnotherTimeToLiveOrTieIsAsTheStoreWouldHaveIt() {
        nothing(
                update().at(5).row(1).set("v", "a").end(),
                update().at(5).row(1).set("v", "b").end());
        something(
                update().at(5).row(1).set("v", "b").end(),
                update().at(5).row(1).set("v", "a").end());
        nothing(update().at(5).row(1).set("v", "b").end(), update().at(5).row(1).unset("v").end());
        something(
                update().at(5).row(1).unset("v").end(), update().at(5).row(1).set("v", "b").end());
    }

    /** A deletion of the snapshot that the store lacks, with what it hid there. */
    @Test
    void whatIsBackInTheStoreIsFoundByItsDeletion() {
        for (UpdateBuilder deletion :
                List.of(
                        update().at(9).deletePartition(),
                        update().at(9).deleteRow(1),
                        update().at(9).deleteRange(TABLE.from(1), TABLE.to(5)))) {
            Comparison.Outcome outcome = something(deletion, row());
            assertThat(outcome.table()).contains("deletion @9");
        }
    }

    @Test
    void rangeDeletionsOfBothSidesAreJoined() {
        nothing(
                update().at(5).deleteRange(TABLE.from(1), TABLE.to(9)),
                update().at(5)
                        .deleteRange(TABLE.from(1), TABLE.before(3))
                        .at(6)
                        .deleteRange(TABLE.from(3), TABLE.to(12)));
        Comparison.Outcome outcome =
                something(
                        update().at(5).deleteRange(TABLE.from(1), TABLE.to(9)),
                        update().at(5)
                                .deleteRange(TABLE.from(1), TABLE.before(3))
                                .at(6)
                                .deleteRange(TABLE.after(3), TABLE.to(12)));
        assertThat(outcome.where()).isEqualTo("range deletion from EXCL_END_BOUND(3)");
        // Its end counts too.
        something(
                update().at(5).deleteRange(TABLE.from(1), TABLE.to(9)),
                update().at(5).deleteRange(TABLE.from(1), TABLE.to(8)));
    }

    @Test
    void whatMayBePurgedIsNotMissed() {
        for (UnaryOperator<UpdateBuilder> kind : KINDS) {
            UpdateBuilder old = kind.apply(update().at(5).now(LONG_AGO));
            // All but what lives without an end.
            if (Stream.of(0, 2, 7, 10).anyMatch(live -> KINDS.get(live) == kind))
                something(old, update());
            else nothing(old, update());
        }
    }

    /** Written since the store had purged the deletion, or back since it was lost. */
    @Test
    void whatAPurgeableDeletionOfTheSnapshotHidesInTheStoreTellsNothing() {
        for (UpdateBuilder purgeable :
                List.of(
                        update().at(9).now(LONG_AGO).deletePartition(),
                        update().at(9).now(LONG_AGO).deleteRow(1),
                        update().at(9).now(LONG_AGO).deleteRange(TABLE.from(1), TABLE.to(5)),
                        update().at(9).now(LONG_AGO).row(1).unset("v").end(),
                        update().at(9).now(LONG_AGO).ttl(10).row(1).set("v", "z").end(),
                        update().at(9).now(LONG_AGO).row(1).clear("m").end()))
            assertThat(missing(purgeable, row()).result()).isEqualTo(Comparison.Result.UNDECIDED);
        // What is lost besides is found.
        something(update().at(9).now(LONG_AGO).deleteRow(1).row(2).set("v", "b").end(), row());
    }

    private static final TestTable COUNTERS =
            TestTable.of("CREATE TABLE t (k text, c int, n counter, PRIMARY KEY (k, c))");

    private static PartitionUpdate counted(long timestamp, ByteBuffer context) {
        return COUNTERS.update("k")
                .row(1)
                .cell(
                        BufferCell.live(
                                COUNTERS.metadata().getColumn(bytes("n")), timestamp, context))
                .end()
                .build();
    }

    @Test
    void counters() {
        CounterContext contexts = CounterContext.instance();
        CounterId one = CounterId.fromInt(1);
        CounterId other = CounterId.fromInt(2);
        PartitionUpdate before = counted(5, contexts.createGlobal(one, 1, 3));
        PartitionUpdate after =
                counted(
                        7,
                        contexts.merge(
                                contexts.createGlobal(one, 2, 8),
                                contexts.createGlobal(other, 1, 4)));
        PartitionUpdate lost = counted(9, contexts.createGlobal(other, 1, 4));
        PartitionUpdate deleted = COUNTERS.update("k").at(9).row(1).unset("n").end().build();
        PartitionUpdate nothing = COUNTERS.update("k").build();
        assertThat(missing(COUNTERS, before, after)).isEqualTo(Comparison.Outcome.EQUAL);
        assertThat(missing(COUNTERS, before, deleted)).isEqualTo(Comparison.Outcome.EQUAL);
        for (PartitionUpdate store : List.of(lost, nothing))
            assertThat(missing(COUNTERS, before, store).result())
                    .isEqualTo(Comparison.Result.DIFFERENT);
        assertThat(missing(COUNTERS, after, before).result())
                .isEqualTo(Comparison.Result.DIFFERENT);
        assertThat(missing(COUNTERS, deleted, before).result())
                .isEqualTo(Comparison.Result.DIFFERENT);
    }
}
