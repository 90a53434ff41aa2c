// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static dev.petra.engine.conformance.UpdateBuilder.LONG_AGO;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.WrappingUnfilteredRowIterator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What counts as a difference, example by example, forwards and in reverse. */
class ComparisonTest {
    private static final long NOW = UpdateBuilder.NOW + 100;
    private static final long GRACE = 864_000;

    private static final TestTable TABLE =
            TestTable.of(
                    "CREATE TABLE t (k text, c int, s text STATIC, v text, w text, m map<text,"
                            + " text>, PRIMARY KEY (k, c))");

    private static UpdateBuilder update() {
        return TABLE.update("k");
    }

    /** A row as an INSERT writes it. */
    private static UpdateBuilder row(int c, String v) {
        return update().at(5).row(c).liveness().set("v", v).end();
    }

    private static Comparison.Outcome compare(UpdateBuilder left, UpdateBuilder right) {
        return compare(left.build(), right.build(), TABLE.all());
    }

    private static Comparison.Outcome compare(
            PartitionUpdate left, PartitionUpdate right, ColumnFilter columns) {
        Comparison.Outcome forwards = compare(left, right, columns, false);
        Comparison.Outcome backwards = compare(left, right, columns, true);
        assertThat(backwards.result()).isEqualTo(forwards.result());
        return forwards;
    }

    private static Comparison.Outcome compare(
            PartitionUpdate left, PartitionUpdate right, ColumnFilter columns, boolean reversed) {
        try (UnfilteredRowIterator ofTable =
                        left.unfilteredIterator(columns, Slices.ALL, reversed);
                UnfilteredRowIterator ofShadow =
                        right.unfilteredIterator(columns, Slices.ALL, reversed)) {
            return new Comparison(TABLE.metadata(), columns, NOW, NOW - GRACE, reversed)
                    .compare(ofTable, ofShadow, 1_000);
        }
    }

    private static void areEqual(UpdateBuilder one, UpdateBuilder other) {
        PartitionUpdate left = one.build();
        PartitionUpdate right = other.build();
        assertThat(compare(left, right, TABLE.all())).isEqualTo(Comparison.Outcome.EQUAL);
        assertThat(compare(right, left, TABLE.all())).isEqualTo(Comparison.Outcome.EQUAL);
    }

    private static Comparison.Outcome differ(UpdateBuilder one, UpdateBuilder other) {
        PartitionUpdate left = one.build();
        PartitionUpdate right = other.build();
        Comparison.Outcome outcome = compare(left, right, TABLE.all());
        assertThat(outcome.result()).isEqualTo(Comparison.Result.DIFFERENT);
        assertThat(compare(right, left, TABLE.all()).result())
                .isEqualTo(Comparison.Result.DIFFERENT);
        return outcome;
    }

    /** A row may have megabytes in thousands of cells; a hundred differences are kept. */
    @Test
    void textsAreCut() {
        UpdateBuilder.RowBuilder row = update().at(5).row(1).set("v", "v".repeat(100_000));
        for (int i = 0; i < 5_000; i++) row.put("m", i + "p".repeat(10_000), "e".repeat(1_000));
        Comparison.Outcome outcome = differ(row.end(), update());
        assertThat(outcome.table()).hasSizeLessThan(10_000).endsWith(" more");
        assertThat(Comparison.shortened("k".repeat(65_535)))
                .hasSizeLessThan(1_000)
                .endsWith("(65535 characters)");
        assertThat(Comparison.shortened("k")).isEqualTo("k");
    }

    /** Which says nothing of either side, and must not end the shadow. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aComparisonThatMayNotGoOnEnds(boolean isShadow) {
        AtomicInteger asked = new AtomicInteger();
        PartitionUpdate rows = row(1, "a").row(2).liveness().end().build();
        try (UnfilteredRowIterator bounded =
                        Timed.open(
                                () -> rows.unfilteredIterator(TABLE.all(), Slices.ALL, false),
                                isShadow,
                                () -> asked.incrementAndGet() < 2,
                                bytes -> {});
                UnfilteredRowIterator free =
                        rows.unfilteredIterator(TABLE.all(), Slices.ALL, false)) {
            Comparison comparison =
                    new Comparison(TABLE.metadata(), TABLE.all(), NOW, NOW - GRACE, false);
            assertThatThrownBy(
                            () ->
                                    comparison.compare(
                                            isShadow ? free : bounded,
                                            isShadow ? bounded : free,
                                            1_000))
                    .isInstanceOf(Timed.TooLong.class);
        }
    }

    /** Clients get no cells of a dropped column, whatever is in the files. */
    @Test
    void droppedColumnsAreNotCompared() {
        ColumnFilter without =
                ColumnFilter.all(
                        TABLE.metadata()
                                .unbuild()
                                .removeRegularOrStaticColumn(
                                        ColumnIdentifier.getInterned("w", true))
                                .build());
        PartitionUpdate left = row(1, "a").at(5).row(1).set("w", "x").end().build();
        PartitionUpdate right = row(1, "a").build();
        assertThat(compare(left, right, without)).isEqualTo(Comparison.Outcome.EQUAL);
        assertThat(compare(left, right, TABLE.all()).result())
                .isEqualTo(Comparison.Result.DIFFERENT);
    }

    // Differences

    @Test
    void values() {
        Comparison.Outcome outcome = differ(row(1, "a"), row(1, "b"));
        assertThat(outcome.where()).isEqualTo("row c=1");
        assertThat(outcome.table()).isEqualTo("v = 0x61 @5");
        assertThat(outcome.shadow()).isEqualTo("v = 0x62 @5");
    }

    @Test
    void timestampsAndTtls() {
        differ(row(1, "a"), update().at(6).row(1).liveness().set("v", "a").end());
        differ(row(1, "a"), update().at(5).ttl(9_000).row(1).liveness().set("v", "a").end());
        differ(
                update().at(5).ttl(9_000).row(1).set("v", "a").end(),
                update().at(5).ttl(9_001).row(1).set("v", "a").end());
    }

    @Test
    void missingRowsCellsAndMarkers() {
        differ(row(1, "a"), update());
        differ(update().at(5).row(1).liveness().end(), update());
        differ(row(1, "a"), update().at(5).row(1).set("v", "a").end());
        differ(row(1, "a"), update().at(5).row(1).liveness().end());
        differ(update().at(5).staticRow().set("s", "a").end(), update());
        differ(update().at(5).row(1).put("m", "x", "y").end(), update());
        differ(
                row(1, "a").row(2).liveness().end().row(3).liveness().end(),
                row(1, "a").row(3).liveness().end());
    }

    @Test
    void deletions() {
        differ(update().at(5).deletePartition(), update());
        differ(update().at(5).deletePartition(), update().at(6).deletePartition());
        differ(update().at(5).deleteRow(1), update());
        differ(update().at(5).row(1).unset("v").end(), update());
        differ(update().at(5).row(1).clear("m").end(), update());
        differ(update().at(5).deleteRange(TABLE.from(1), TABLE.to(5)), update());
        differ(
                update().at(5).deleteRange(TABLE.from(1), TABLE.to(5)),
                update().at(5).deleteRange(TABLE.from(1), TABLE.before(5)));
        differ(
                update().at(5).deleteRange(TABLE.from(1), TABLE.to(5)),
                update().at(5).deleteRange(TABLE.after(1), TABLE.to(5)));
        differ(
                update().at(5).deleteRange(TABLE.from(1), TABLE.to(5)),
                update().at(6).deleteRange(TABLE.from(1), TABLE.to(5)));
    }

    @Test
    void whatADeletionHidesInTheOneOnly() {
        differ(
                update().at(9).deleteRow(1).at(5).row(1).set("v", "a").end(),
                update().at(9).deleteRow(1).at(10).row(1).set("v", "a").end());
        differ(
                update().at(9)
                        .deleteRange(TABLE.from(), TABLE.to())
                        .at(10)
                        .row(1)
                        .set("v", "a")
                        .end(),
                update().at(9).deleteRange(TABLE.from(), TABLE.to()));
    }

    // No differences

    @Test
    void whatADeletionHides() {
        areEqual(
                update().at(9).deletePartition(),
                update().at(9).deletePartition().at(5).row(1).liveness().set("v", "a").end());
        areEqual(
                update().at(9).deletePartition(),
                update().at(9).deletePartition().at(5).deleteRange(TABLE.from(1), TABLE.to(2)));
        areEqual(
                update().at(9).deletePartition(),
                update().at(9).deletePartition().at(9).deleteRow(1));
        areEqual(
                update().at(9).deleteRange(TABLE.from(1), TABLE.to(5)),
                update().at(9).deleteRange(TABLE.from(1), TABLE.to(5)).at(9).deleteRow(3));
        areEqual(
                update().at(9).deletePartition(),
                update().at(9).deletePartition().at(8).staticRow().set("s", "a").end());
        areEqual(
                update().at(9).row(1).clear("m").end(),
                update().at(9).row(1).clear("m").at(9).put("m", "x", "y").end());
    }

    @Test
    void aRangeInPieces() {
        areEqual(
                update().at(9).deleteRange(TABLE.from(1), TABLE.to(5)),
                update().at(9)
                        .deleteRange(TABLE.from(1), TABLE.before(3))
                        .deleteRange(TABLE.from(3), TABLE.to(5)));
    }

    @Test
    void anExpiredCellAndItsTombstone() {
        areEqual(
                update().at(5).ttl(10).now(NOW - 20).row(1).set("v", "a").end(),
                update().at(5).now(NOW - 20).row(1).unset("v").end());
    }

    @Test
    void whatMayBePurged() {
        areEqual(update(), update().at(5).now(LONG_AGO).deletePartition());
        areEqual(update(), update().at(5).now(LONG_AGO).deleteRow(1));
        areEqual(update(), update().at(5).now(LONG_AGO).deleteRange(TABLE.from(1), TABLE.to(5)));
        areEqual(row(1, "a"), row(1, "a").now(LONG_AGO).row(1).unset("w").end());
        areEqual(row(1, "a"), row(1, "a").now(LONG_AGO).at(3).deleteRow(1));
        areEqual(
                update(),
                update().at(5).now(LONG_AGO).ttl(10).row(1).liveness().set("v", "a").end());
    }

    @Test
    void columnsThatWereNotAskedFor() {
        ColumnFilter columns = TABLE.queried(false, "v");
        PartitionUpdate with = row(1, "a").row(1).set("w", "b").end().build();
        assertThat(compare(with, row(1, "a").build(), columns)).isEqualTo(Comparison.Outcome.EQUAL);
        // Here the row lives by it.
        PartitionUpdate alone = update().at(5).row(1).set("w", "b").end().build();
        assertThat(compare(alone, update().build(), columns).result())
                .isEqualTo(Comparison.Result.DIFFERENT);
    }

    // What tells nothing

    @Test
    void aWriteThatIsOlderThanAPurgedDeletion() {
        for (UpdateBuilder deletion :
                new UpdateBuilder[] {
                    update().at(9).now(LONG_AGO).deletePartition(),
                    update().at(9).now(LONG_AGO).deleteRow(1),
                    update().at(9).now(LONG_AGO).deleteRange(TABLE.from(1), TABLE.to(5))
                }) {
            PartitionUpdate deleted = deletion.build();
            PartitionUpdate late = row(1, "a").build();
            assertThat(compare(late, deleted, TABLE.all()).result())
                    .isEqualTo(Comparison.Result.TOO_LATE);
            PartitionUpdate newer = update().at(10).row(1).liveness().set("v", "a").end().build();
            assertThat(compare(newer, deleted, TABLE.all()).result())
                    .isEqualTo(Comparison.Result.DIFFERENT);
        }
        // A row elsewhere.
        assertThat(compare(row(7, "a"), update().at(9).now(LONG_AGO).deleteRow(1)).result())
                .isEqualTo(Comparison.Result.DIFFERENT);
    }

    @Test
    void itEndsBehindSoManyRows() {
        PartitionUpdate one = row(1, "a").row(2).set("v", "a").end().build();
        PartitionUpdate other = row(1, "a").row(2).set("v", "b").end().build();
        Comparison comparison =
                new Comparison(TABLE.metadata(), TABLE.all(), NOW, NOW - GRACE, false);
        assertThat(comparison.compare(one.unfilteredIterator(), other.unfilteredIterator(), 1))
                .isEqualTo(Comparison.Outcome.EQUAL);
        assertThat(
                        comparison
                                .compare(one.unfilteredIterator(), other.unfilteredIterator(), 2)
                                .where())
                .isEqualTo("row c=2");
    }

    @Test
    void aSideThatCannotBeReadIsNamed() {
        UnfilteredRowIterator broken =
                new WrappingUnfilteredRowIterator() {
                    @Override
                    public UnfilteredRowIterator wrapped() {
                        return row(1, "a").build().unfilteredIterator();
                    }

                    @Override
                    public Unfiltered next() {
                        throw new IllegalStateException("damaged");
                    }
                };
        Comparison comparison =
                new Comparison(TABLE.metadata(), TABLE.all(), NOW, NOW - GRACE, false);
        UnfilteredRowIterator good = row(1, "a").build().unfilteredIterator();
        assertThatThrownBy(() -> comparison.compare(good, broken, 10))
                .isInstanceOfSatisfying(
                        Comparison.SideFailure.class,
                        failure -> assertThat(failure.isShadow).isTrue());
        UnfilteredRowIterator another = row(1, "a").build().unfilteredIterator();
        assertThatThrownBy(() -> comparison.compare(broken, another, 10))
                .isInstanceOfSatisfying(
                        Comparison.SideFailure.class,
                        failure -> assertThat(failure.isShadow).isFalse());
    }
}
