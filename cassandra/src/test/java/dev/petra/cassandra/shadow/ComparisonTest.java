// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static dev.petra.engine.conformance.UpdateBuilder.LONG_AGO;
import static org.apache.cassandra.utils.ByteBufferUtil.bytes;
import static org.apache.cassandra.utils.ByteBufferUtil.hexToBytes;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import java.math.BigDecimal;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.WrappingUnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.utils.CounterId;
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

    /** Where the type takes them for equal, too: they are of another partition. */
    @Test
    void otherBytesOfAPartitionKey() {
        TestTable varints = TestTable.of("CREATE TABLE t (k varint PRIMARY KEY, v text)");
        for (String other : List.of("01", "0001")) {
            PartitionUpdate one =
                    varints.update(hexToBytes("01")).at(5).row().set("v", "a").end().build();
            PartitionUpdate another =
                    varints.update(hexToBytes(other)).at(5).row().set("v", "a").end().build();
            for (boolean isOneSided : List.of(false, true))
                try (UnfilteredRowIterator first = one.unfilteredIterator();
                        UnfilteredRowIterator second = another.unfilteredIterator()) {
                    Comparison comparison =
                            new Comparison(
                                    varints.metadata(), varints.all(), NOW, NOW - GRACE, false);
                    assertThat(
                                    isOneSided
                                            ? comparison.missing(first, second)
                                            : comparison.compare(first, second, 10))
                            .isEqualTo(
                                    other.equals("01")
                                            ? Comparison.Outcome.EQUAL
                                            : Comparison.Outcome.different(
                                                    "the partition's key", "0x01", "0x0001"));
                }
        }
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
                    .isEqualTo(Comparison.Result.UNDECIDED);
            PartitionUpdate newer = update().at(10).row(1).liveness().set("v", "a").end().build();
            assertThat(compare(newer, deleted, TABLE.all()).result())
                    .isEqualTo(Comparison.Result.DIFFERENT);
        }
        // A row elsewhere.
        assertThat(compare(row(7, "a"), update().at(9).now(LONG_AGO).deleteRow(1)).result())
                .isEqualTo(Comparison.Result.DIFFERENT);
    }

    private static void isUndecided(UpdateBuilder ofTable, PartitionUpdate ofShadow) {
        assertThat(compare(ofTable.build(), ofShadow, TABLE.all()).result())
                .isEqualTo(Comparison.Result.UNDECIDED);
    }

    /** Not necessarily in the other direction. */
    private static Comparison.Outcome isDifferent(UpdateBuilder ofTable, PartitionUpdate ofShadow) {
        Comparison.Outcome outcome = compare(ofTable.build(), ofShadow, TABLE.all());
        assertThat(outcome.result()).isEqualTo(Comparison.Result.DIFFERENT);
        return outcome;
    }

    private static UpdateBuilder purgeable() {
        return update().at(9).now(LONG_AGO);
    }

    /** The shadow purges nothing: its engine has lost what the table has. */
    @Test
    void aDeletionThatOnlyTheShadowLacksIsNoExcuse() {
        for (UpdateBuilder deletion :
                List.of(
                        purgeable().deletePartition(),
                        purgeable().deleteRow(1),
                        purgeable().deleteRange(TABLE.from(1), TABLE.to(5)),
                        purgeable().row(1).unset("v").end()))
            isDifferent(deletion, update().at(5).row(1).set("v", "a").end().build());
        isDifferent(
                purgeable().deletePartition(),
                update().at(5).deleteRange(TABLE.from(1), TABLE.to(5)).build());
    }

    @Test
    void aPurgedCellExcusesNoOther() {
        for (UpdateBuilder cell :
                List.of(
                        purgeable().row(1).unset("v").end(),
                        purgeable().ttl(10).row(1).set("v", "a").end())) {
            PartitionUpdate purged = cell.build();
            isUndecided(update().at(5).row(1).set("v", "a").end(), purged);
            isUndecided(update().at(5).row(1).unset("v").end(), purged);
            isDifferent(update().at(5).row(1).set("w", "a").end(), purged);
            isDifferent(update().at(5).row(1).liveness().end(), purged);
            isDifferent(update().at(5).deleteRow(1), purged);
            isDifferent(update().at(5).row(1).set("v", "a").set("w", "a").end(), purged);
        }
        PartitionUpdate element = purgeable().row(1).remove("m", "x").end().build();
        isUndecided(update().at(5).row(1).put("m", "x", "1").end(), element);
        isDifferent(update().at(5).row(1).put("m", "y", "1").end(), element);
        isDifferent(update().at(5).row(1).clear("m").end(), element);
        PartitionUpdate collection = purgeable().row(1).clear("m").end().build();
        isUndecided(update().at(5).row(1).put("m", "x", "1").end(), collection);
        isUndecided(update().at(5).row(1).clear("m").end(), collection);
        isDifferent(update().at(5).row(1).set("v", "1").end(), collection);
        PartitionUpdate marker = purgeable().ttl(10).row(1).liveness().end().build();
        isUndecided(update().at(5).row(1).liveness().end(), marker);
        isDifferent(update().at(5).row(1).set("v", "a").end(), marker);
        isDifferent(update().at(5).deleteRow(1), marker);
    }

    /** Clients do not get the cell, and the row only if it lives by that. */
    @Test
    void aRowThatLivesByWhatWasNotAskedForMayBeTooLate() {
        ColumnFilter columns = TABLE.queried(false, "v");
        PartitionUpdate late = update().at(5).row(1).set("w", "a").end().build();
        PartitionUpdate newer = update().at(10).row(1).set("w", "a").end().build();
        for (UpdateBuilder deletion :
                List.of(purgeable().row(1).unset("w").end(), purgeable().deleteRow(1))) {
            PartitionUpdate purged = deletion.build();
            assertThat(compare(late, purged, columns).result())
                    .isEqualTo(Comparison.Result.UNDECIDED);
            assertThat(compare(purged, late, columns).result())
                    .isEqualTo(Comparison.Result.DIFFERENT);
            assertThat(compare(newer, purged, columns).result())
                    .isEqualTo(Comparison.Result.DIFFERENT);
        }
        assertThat(
                        compare(
                                        update().at(5).row(1).put("m", "x", "1").end().build(),
                                        purgeable().row(1).clear("m").end().build(),
                                        columns)
                                .result())
                .isEqualTo(Comparison.Result.UNDECIDED);
    }

    private static UpdateBuilder deleted(long timestamp, long second) {
        return update().at(timestamp).now(second).row(1).unset("v").end();
    }

    /** A cell that has expired, if its TTL is less than its age. */
    private static UpdateBuilder expiring(long timestamp, long second, int ttl) {
        return update().at(timestamp).now(second).ttl(ttl).row(1).set("v", "a").end();
    }

    private static void areUndecided(UpdateBuilder one, UpdateBuilder other) {
        PartitionUpdate left = one.build();
        PartitionUpdate right = other.build();
        for (Comparison.Outcome outcome :
                List.of(compare(left, right, TABLE.all()), compare(right, left, TABLE.all()))) {
            assertThat(outcome.result()).isEqualTo(Comparison.Result.UNDECIDED);
            assertThat(outcome.kind()).isEqualTo("undecided: tie of an expired cell");
            assertThat(outcome.where()).isEqualTo("row c=1");
        }
    }

    /** Of {@code USING TIMESTAMP} and TTLs: which side has met the other before it expired. */
    @Test
    void expiredCellsOfOneTimestampAreUndecided() {
        // Each made a tombstone before it met the other's.
        areUndecided(deleted(5, NOW - 50), deleted(5, NOW - 40));
        // One is none yet: the other side's has expired no later, and was written before that.
        areUndecided(expiring(5, NOW - 50, 20), deleted(5, NOW - 60));
        areUndecided(expiring(5, NOW - 50, 20), deleted(5, NOW - 32));
        // One may be purged by its second, and the other not.
        areUndecided(expiring(5, LONG_AGO, (int) (NOW - 10 - LONG_AGO)), deleted(5, NOW - 50));
        areUndecided(deleted(5, LONG_AGO), deleted(5, NOW - 50));
        // An element of a collection.
        areUndecided(
                update().at(5).now(NOW - 50).row(1).remove("m", "x").end(),
                update().at(5).now(NOW - 40).row(1).remove("m", "x").end());
        assertThat(
                        compare(
                                        update().at(5).now(NOW - 50).staticRow().unset("s").end(),
                                        update().at(5).now(NOW - 40).staticRow().unset("s").end())
                                .result())
                .isEqualTo(Comparison.Result.UNDECIDED);
    }

    /** What is not a tie, or may be a loss that looks like one. */
    @Test
    void noLossPassesForATieOfExpiredCells() {
        // One of them lives: its side may have lost a client's deletion, or the other the cell.
        differ(expiring(5, NOW - 50, 9_000), deleted(5, NOW - 60));
        differ(update().at(5).row(1).set("v", "a").end(), deleted(5, NOW - 60));
        // Another timestamp.
        differ(deleted(5, NOW - 50), deleted(4, NOW - 40));
        differ(expiring(5, NOW - 50, 20), deleted(4, NOW - 60));
        // Nothing there, or another value of a cell that does not expire.
        differ(deleted(5, NOW - 50), update());
        differ(expiring(5, NOW - 50, 20), update());
        differ(row(1, "a"), row(1, "b"));
        // The deletion is of a second in which nothing that lost to the cell can have been written.
        differ(expiring(5, NOW - 50, 20), deleted(5, NOW - 31));
        differ(expiring(5, NOW - 50, 20), deleted(5, NOW - 10));
        // Of two that are no tombstones yet the same one wins everywhere.
        differ(
                expiring(5, NOW - 50, 20),
                update().at(5).now(NOW - 60).ttl(20).row(1).set("v", "a").end());
        // Another column, element or row.
        differ(deleted(5, NOW - 50), update().at(5).now(NOW - 40).row(1).unset("w").end());
        differ(
                update().at(5).now(NOW - 50).row(1).remove("m", "x").end(),
                update().at(5).now(NOW - 40).row(1).remove("m", "y").end());
        differ(deleted(5, NOW - 50), update().at(5).now(NOW - 40).row(2).unset("v").end());
        // Deletions of all of a collection, or of a row, which are reconciled in one way.
        differ(
                update().at(5).now(NOW - 50).row(1).clear("m").end(),
                update().at(5).now(NOW - 40).row(1).clear("m").end());
        differ(
                update().at(5).now(NOW - 50).deleteRow(1),
                update().at(5).now(NOW - 40).deleteRow(1));
    }

    @Test
    void whatDiffersBesideATieIsFound() {
        for (UpdateBuilder beside :
                List.of(
                        deleted(5, NOW - 40).row(1).set("w", "a").end(),
                        deleted(5, NOW - 40).row(2).liveness().end(),
                        deleted(5, NOW - 40).deleteRange(TABLE.from(7), TABLE.to(9)),
                        deleted(5, NOW - 40).at(4).row(1).clear("m").end()))
            differ(deleted(5, NOW - 50), beside);
        // Hidden by what the one says, and not by the other.
        differ(
                deleted(5, NOW - 50).row(1).liveness().end(),
                deleted(5, NOW - 40).at(9).deleteRow(1));
    }

    private static long micros(long second) {
        return TimeUnit.SECONDS.toMicros(second);
    }

    /** Each deletion of which the table may have kept another second than the shadow. */
    private static List<UpdateBuilder> ofSeveralSeconds(long timestamp, long second) {
        return List.of(
                deleted(timestamp, second),
                expiring(timestamp, second, 10),
                update().at(timestamp).now(second).row(1).remove("m", "x").end(),
                update().at(timestamp).now(second).deleteRange(TABLE.from(1), TABLE.to(5)));
    }

    /** As of a client that had no answer, and has sent a statement again with its timestamp. */
    @Test
    void aDeletionThatTheTableHasPurgedByAnEarlierSecondIsUndecided() {
        for (long written : new long[] {NOW - GRACE - 1, NOW - GRACE - 3_597})
            for (UpdateBuilder twice : ofSeveralSeconds(micros(written), NOW - GRACE + 3)) {
                PartitionUpdate ofShadow = twice.build();
                Comparison.Outcome outcome = compare(update().build(), ofShadow, TABLE.all());
                assertThat(outcome.result()).isEqualTo(Comparison.Result.UNDECIDED);
                assertThat(outcome.kind())
                        .isEqualTo("undecided: tie of deletions of which one was purged");
                assertThat(outcome.table()).isEmpty();
                assertThat(outcome.shadow()).isNotEmpty();
                // What the shadow lacks it has lost: it purges nothing.
                assertThat(compare(ofShadow, update().build(), TABLE.all()).result())
                        .isEqualTo(Comparison.Result.DIFFERENT);
            }
    }

    @Test
    void noOtherDeletionPassesForOneThatTheTableHasPurged() {
        long purged = micros(NOW - GRACE - 3);
        long kept = NOW - GRACE + 3;
        for (List<UpdateBuilder> each :
                List.of(
                        // Written once, or for the first time when its grace has not passed.
                        ofSeveralSeconds(micros(kept), kept),
                        ofSeveralSeconds(micros(NOW - GRACE), kept),
                        // Longer after its timestamp than anybody tries again.
                        ofSeveralSeconds(micros(kept - 3_601), kept),
                        // The timestamp is none of a clock.
                        ofSeveralSeconds(5, kept),
                        ofSeveralSeconds(-1, kept),
                        ofSeveralSeconds(Long.MAX_VALUE, kept),
                        // Of which both sides keep the same second.
                        List.of(
                                update().at(purged).now(kept).deletePartition(),
                                update().at(purged).now(kept).deleteRow(1),
                                update().at(purged).now(kept).row(1).clear("m").end())))
            for (UpdateBuilder ofShadow : each) isDifferent(update(), ofShadow.build());
        for (UpdateBuilder ofTable :
                List.of(
                        // It hides something there.
                        update().at(purged - 1).row(1).set("v", "a").put("m", "x", "y").end(),
                        update().at(purged - 1).row(1).unset("v").remove("m", "x").end(),
                        // A newer one hides it there, which the shadow has lost.
                        update().at(purged + 1).now(LONG_AGO).deletePartition(),
                        // Which the table would have purged with it.
                        update().at(purged - 1).now(LONG_AGO).deletePartition())) {
            PartitionUpdate left = ofTable.build();
            for (UpdateBuilder ofShadow : ofSeveralSeconds(purged, kept))
                assertThat(compare(left, ofShadow.build(), TABLE.all()).result())
                        .isEqualTo(Comparison.Result.DIFFERENT);
        }
        PartitionUpdate cell = deleted(purged, kept).build();
        isDifferent(update().at(purged - 1).now(LONG_AGO).row(1).unset("v").end(), cell);
        isDifferent(update().at(purged + 1).now(LONG_AGO).deleteRow(1), cell);
        for (UpdateBuilder beside : ofSeveralSeconds(purged, kept))
            isDifferent(update(), beside.at(5).now(NOW).ttl(0).row(7).liveness().end().build());
        TestTable counters =
                TestTable.of("CREATE TABLE t (k text, c int, n counter, PRIMARY KEY (k, c))");
        PartitionUpdate counter =
                counters.update("k").at(purged).now(kept).row(1).unset("n").end().build();
        Comparison comparison =
                new Comparison(counters.metadata(), counters.all(), NOW, NOW - GRACE, false);
        assertThat(
                        comparison
                                .compare(
                                        counters.update("k").build().unfilteredIterator(),
                                        counter.unfilteredIterator(),
                                        10)
                                .result())
                .isEqualTo(Comparison.Result.DIFFERENT);
    }

    private static UpdateBuilder late() {
        return update().at(5).staticRow().set("s", "a").end().row(1).liveness().end();
    }

    @Test
    void whatDiffersBehindATooLatePlaceIsFound() {
        for (UpdateBuilder deletion :
                List.of(
                        purgeable().deletePartition(),
                        purgeable().deleteRow(1).at(5).now(NOW).staticRow().set("s", "a").end(),
                        purgeable()
                                .staticRow()
                                .unset("s")
                                .end()
                                .at(5)
                                .now(NOW)
                                .row(1)
                                .liveness()
                                .end())) {
            PartitionUpdate purged = deletion.build();
            isUndecided(late(), purged);
            assertThat(isDifferent(late().at(10).row(3).set("v", "a").end(), purged).where())
                    .isEqualTo("row c=3");
        }
        UpdateBuilder ranges =
                update().at(5)
                        .deleteRange(TABLE.from(1), TABLE.before(3))
                        .deleteRange(TABLE.from(7), TABLE.to(9));
        PartitionUpdate first = purgeable().deleteRange(TABLE.from(1), TABLE.before(3)).build();
        assertThat(isDifferent(ranges, first).where()).contains("range deletion from");
    }

    @Test
    void rangeDeletionsOfOneTimestampAndOtherSeconds() {
        areEqual(
                update().at(9).now(NOW - 20).deleteRange(TABLE.from(1), TABLE.to(5)),
                update().at(9).now(NOW - 10).deleteRange(TABLE.from(1), TABLE.to(5)));
        // One of them may be purged.
        areEqual(
                purgeable().deleteRange(TABLE.from(1), TABLE.to(5)),
                update().at(9).now(NOW - 10).deleteRange(TABLE.from(1), TABLE.to(5)));
        // Of a row as well, which by its second is the later in one of them.
        areEqual(
                update().at(9)
                        .now(NOW - 20)
                        .deleteRange(TABLE.from(1), TABLE.to(5))
                        .now(NOW - 15)
                        .deleteRow(2),
                update().at(9)
                        .now(NOW - 10)
                        .deleteRange(TABLE.from(1), TABLE.to(5))
                        .now(NOW - 15)
                        .deleteRow(2));
        // Both sides reconcile those of a row or of a partition in one way.
        differ(
                update().at(9).now(NOW - 20).deleteRow(1),
                update().at(9).now(NOW - 10).deleteRow(1));
        differ(
                update().at(9).now(NOW - 20).deletePartition(),
                update().at(9).now(NOW - 10).deletePartition());
    }

    /** Clients may have written both forms; whose is shown is not Cassandra's rule either. */
    @Test
    void otherBytesOfAnEqualClusteringValue() {
        TestTable decimals =
                TestTable.of("CREATE TABLE t (k text, c decimal, v text, PRIMARY KEY (k, c))");
        Function<String, PartitionUpdate> row =
                c -> decimals.update("k").at(5).row(new BigDecimal(c)).set("v", "a").end().build();
        for (String other : List.of("1.0", "1.00"))
            assertThat(
                            new Comparison(
                                            decimals.metadata(),
                                            decimals.all(),
                                            NOW,
                                            NOW - GRACE,
                                            false)
                                    .compare(
                                            row.apply("1.0").unfilteredIterator(),
                                            row.apply(other).unfilteredIterator(),
                                            10)
                                    .result())
                    .isEqualTo(
                            other.equals("1.0")
                                    ? Comparison.Result.EQUAL
                                    : Comparison.Result.UNDECIDED);
    }

    private static PartitionUpdate counted(TestTable counters) {
        return counters.update("k")
                .row(1)
                .cell(
                        BufferCell.live(
                                counters.metadata().getColumn(bytes("n")),
                                20,
                                CounterContext.instance().createGlobal(CounterId.generate(), 1, 3)))
                .end()
                .build();
    }

    /** Cassandra leaves out the value; the row lives by the cell all the same. */
    @Test
    void aCounterThatWasNotAskedFor() {
        TestTable counters =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, n counter, o counter, PRIMARY KEY (k, c))");
        PartitionUpdate row = counted(counters);
        Transformation<UnfilteredRowIterator> skipping =
                new Transformation<>() {
                    @Override
                    protected Row applyToRow(Row read) {
                        return read.transformAndFilter(
                                (ColumnData cell) -> ((Cell<?>) cell).withSkippedValue());
                    }
                };
        assertThat(
                        new Comparison(
                                        counters.metadata(),
                                        counters.queried(false, "o"),
                                        NOW,
                                        NOW - GRACE,
                                        false)
                                .compare(
                                        Transformation.apply(row.unfilteredIterator(), skipping),
                                        Transformation.apply(row.unfilteredIterator(), skipping),
                                        10))
                .isEqualTo(Comparison.Outcome.EQUAL);
    }

    /** The deletion of a counter hides updates of whatever time, until it is purged. */
    @Test
    void aCounterThatIsUsedAfterItsDeletionWasPurged() {
        TestTable counters =
                TestTable.of("CREATE TABLE t (k text, c int, n counter, PRIMARY KEY (k, c))");
        PartitionUpdate used = counted(counters);
        PartitionUpdate deleted =
                counters.update("k").at(9).now(LONG_AGO).row(1).unset("n").end().build();
        PartitionUpdate kept = counters.update("k").at(9).row(1).unset("n").end().build();
        Comparison.Result[] results =
                Stream.of(List.of(used, deleted), List.of(deleted, used), List.of(used, kept))
                        .map(
                                sides ->
                                        new Comparison(
                                                        counters.metadata(),
                                                        counters.all(),
                                                        NOW,
                                                        NOW - GRACE,
                                                        false)
                                                .compare(
                                                        sides.get(0).unfilteredIterator(),
                                                        sides.get(1).unfilteredIterator(),
                                                        10)
                                                .result())
                        .toArray(Comparison.Result[]::new);
        assertThat(results)
                .containsExactly(
                        Comparison.Result.UNDECIDED,
                        Comparison.Result.DIFFERENT,
                        Comparison.Result.DIFFERENT);
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aRowThatIsGivenTwice(boolean isShadow) {
        PartitionUpdate row = row(1, "a").build();
        UnfilteredRowIterator twice =
                new WrappingUnfilteredRowIterator() {
                    private final UnfilteredRowIterator first = row.unfilteredIterator();
                    private final UnfilteredRowIterator second = row.unfilteredIterator();

                    @Override
                    public UnfilteredRowIterator wrapped() {
                        return first.hasNext() ? first : second;
                    }
                };
        UnfilteredRowIterator once = row.unfilteredIterator();
        Comparison.Outcome outcome =
                new Comparison(TABLE.metadata(), TABLE.all(), NOW, NOW - GRACE, false)
                        .compare(isShadow ? once : twice, isShadow ? twice : once, 10);
        assertThat(outcome.result()).isEqualTo(Comparison.Result.DIFFERENT);
        assertThat(isShadow ? outcome.shadow() : outcome.table())
                .isEqualTo("the row more than once");
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
