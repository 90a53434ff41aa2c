// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.shadow.ShadowSource.Moment;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import java.util.stream.Stream;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What is removed from a shadow that becomes its table. */
class ShadowSourceTest {
    private static final long NOW = UpdateBuilder.NOW;
    private static final TestTable TABLE =
            TestTable.of(
                    "CREATE TABLE t (k text, c int, s text STATIC, v text, m map<text, text>,"
                            + " PRIMARY KEY (k, c)) WITH gc_grace_seconds = 100");

    /** It would be removed by no compaction from then on. */
    @Test
    void moreThanTheTablePurgesNowIsBeyond() {
        assertThat(new Moment(NOW, NOW - 100).isBeyond(TABLE.metadata(), NOW)).isFalse();
        assertThat(new Moment(NOW, NOW - 100).isBeyond(TABLE.metadata(), NOW + 5)).isFalse();
        // Its grace was shorter.
        assertThat(new Moment(NOW, NOW - 99).isBeyond(TABLE.metadata(), NOW)).isTrue();
        // Cells would be taken for expired that are not.
        assertThat(new Moment(NOW + 1, NOW - 100).isBeyond(TABLE.metadata(), NOW)).isTrue();
        // The clock went back.
        assertThat(new Moment(NOW, NOW - 100).isBeyond(TABLE.metadata(), NOW - 1)).isTrue();
    }

    private static UpdateBuilder update() {
        return TABLE.update("k").at(10).now(NOW);
    }

    static Stream<PartitionUpdate> deletions() {
        return Stream.of(
                update().deletePartition().build(),
                update().deleteRange(TABLE.from(1), TABLE.to(5)).build(),
                update().deleteRow(1).build(),
                update().row(1).unset("v").end().build(),
                update().staticRow().unset("s").end().build(),
                update().row(1).clear("m").end().build(),
                update().row(1).remove("m", "x").end().build());
    }

    @ParameterizedTest
    @MethodSource("deletions")
    void eachKindOfDeletionGoesByTheSecond(PartitionUpdate deletion) {
        assertThat(left(deletion, new Moment(NOW + 100, NOW))).isEqualTo(deletion);
        assertThat(left(deletion, new Moment(NOW + 101, NOW + 1)).isEmpty()).isTrue();
    }

    /** A tombstone of the time of its write, from its expiry on. */
    @Test
    void anExpiredCellGoesByWhenItWasWritten() {
        PartitionUpdate cell = update().ttl(50).row(1).set("v", "x").end().build();
        assertThat(left(cell, new Moment(NOW + 49, NOW + 1))).isEqualTo(cell);
        assertThat(left(cell, new Moment(NOW + 50, NOW + 1)).isEmpty()).isTrue();
        assertThat(left(cell, new Moment(NOW + 50, NOW)).isEmpty()).isFalse();
    }

    private static PartitionUpdate left(PartitionUpdate update, Moment moment) {
        try (UnfilteredRowIterator rows =
                Transformation.apply(update.unfilteredIterator(), moment.purge(TABLE.metadata()))) {
            return PartitionUpdate.fromIterator(rows, TABLE.all());
        }
    }
}
