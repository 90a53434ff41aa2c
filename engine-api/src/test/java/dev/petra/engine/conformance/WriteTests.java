// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.host.Liveness;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;

/**
 * Rows, cells, deletions and their reconciliation: what was written is read, as Cassandra would
 * have it, while it is in memory, after a flush, after a compaction and after a restart. The
 * comments name the defect of the predecessor (Rocksandra) that a test would have caught.
 */
public interface WriteTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** A table of rows with two simple columns. */
    static TestTable rows() {
        return TestTable.of(
                "CREATE TABLE t (k text, c int, s text STATIC, v text, w int, PRIMARY KEY (k, c))");
    }

    /** A table with a non-frozen column of each kind. */
    static TestTable collections() {
        return TestTable.of(
                "CREATE TABLE t (k text, c int, l list<int>, s set<text>, m map<text, int>, u udt,"
                        + " sm map<int, text> STATIC, PRIMARY KEY (k, c))",
                TestTable.userType("udt", true, "a", Int32Type.instance, "b", UTF8Type.instance));
    }

    // Rows and cells

    @Test
    default void aPartitionNeverWrittenHasNothing() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").row(1).liveness().build());
        assertThat(store.everywhere(table.key("b"))).isNull();
    }

    @Test
    default void aRowIsReadAsItWasWritten() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").at(10).row(1).liveness().set("v", "x").build());
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(content.rows()).hasSize(1);
        assertThat(content.row(1).primaryKeyLivenessInfo())
                .isEqualTo(Liveness.create(10, LivenessInfo.NO_TTL, 0));
        assertThat(content.cell("v", 1).buffer()).isEqualTo(ByteBufferUtil.bytes("x"));
        assertThat(content.cell("v", 1).timestamp()).isEqualTo(10);
    }

    /** Rocksandra 3 and 11: rows of only a primary key were invisible, or gone after compaction. */
    @Test
    default void aRowOfOnlyAPrimaryKeyStays() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").at(10).row(1).liveness().build());
        Row row = store.everywhere(table.key("a")).row(1);
        assertThat(Liveness.timestamp(row.primaryKeyLivenessInfo())).isEqualTo(10);
        assertThat(row).isEmpty();
    }

    @Test
    default void aTableOfOnlyAPrimaryKeyKeepsItsRows() {
        TestTable table = TestTable.of("CREATE TABLE t (k text, c int, PRIMARY KEY (k, c))");
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").row(1).liveness().end().row(2).liveness().build());
        store.write(table.update("a").at(5).deleteRow(1).build());
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(content.row(1).deletion().isLive()).isFalse();
        assertThat(Liveness.isEmpty(content.row(2).primaryKeyLivenessInfo())).isFalse();
    }

    @Test
    default void aTableWithoutClusteringColumnsHasOneRow() {
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text, w int)");
        ComparedStore store = kit().compared(table);
        store.write(
                table.update("a").at(1).row().liveness().set("v", "x").build(),
                table.update("a").at(2).row().set("w", 5).build(),
                table.update("b").at(2).deleteRow().build(),
                table.update("c").at(2).deletePartition().build());
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(content.cell("v").timestamp()).isEqualTo(1);
        assertThat(content.cell("w").timestamp()).isEqualTo(2);
        assertThat(store.scanEverywhere()).hasSize(3);
    }

    @Test
    default void anUpdateMakesNoRowMarker() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").row(1).set("v", "x").build());
        assertThat(
                        Liveness.isEmpty(
                                store.everywhere(table.key("a")).row(1).primaryKeyLivenessInfo()))
                .isTrue();
    }

    @Test
    default void cellsOfSeveralUpdatesAreOneRow() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(1).row(1).liveness().set("v", "x").end(),
                                u -> u.at(2).row(1).set("w", 2).end(),
                                u -> u.at(3).row(1).set("v", "y").end()));
        assertThat(content.rows()).hasSize(1);
        assertThat(content.cell("v", 1).buffer()).isEqualTo(ByteBufferUtil.bytes("y"));
        assertThat(content.cell("w", 1).timestamp()).isEqualTo(2);
    }

    @Test
    default void aNullIsATombstoneAndAnEmptyValueIsAValue() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").at(3).row(1).set("v", "").set("w", null).build());
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(content.cell("v", 1).isTombstone()).isFalse();
        assertThat(content.cell("v", 1).valueSize()).isZero();
        assertThat(content.cell("w", 1).isTombstone()).isTrue();
        assertThat(content.cell("w", 1).localDeletionTime()).isEqualTo(UpdateBuilder.NOW);
    }

    @Test
    default void aCellTombstoneHidesWhatIsOlderAndIsRead() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(1).row(1).set("v", "x").end(),
                                u -> u.at(2).row(1).unset("v").end(),
                                u -> u.at(3).row(1).set("w", 3).end()));
        assertThat(content.cell("v", 1).isTombstone()).isTrue();
        assertThat(content.cell("v", 1).timestamp()).isEqualTo(2);
    }

    @Test
    default void manyColumnsKeepTheirValues() {
        // Rocksandra 9: one byte named a column, which allowed 127 of them.
        StringBuilder cql = new StringBuilder("CREATE TABLE t (k text, c int, ");
        for (int i = 0; i < 400; i++) cql.append("v").append(i).append(" int, ");
        TestTable table = TestTable.of(cql + "PRIMARY KEY (k, c))");
        ComparedStore store = kit().compared(table);
        UpdateBuilder.RowBuilder row = table.update("a").row(1);
        for (int i = 0; i < 400; i++) row.set("v" + i, i);
        store.write(row.build());
        assertThat(store.everywhere(table.key("a")).row(1)).hasSize(400);
        assertThat(store.read(table.key("a"), Slices.ALL, table.only("v399"), false).row(1))
                .hasSize(1);
    }

    @Test
    default void aLargeValueAndALargePartitionComeBackWhole() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        String large = "0123456789abcdef".repeat(1 << 16);
        store.write(table.update("a").row(1).set("v", large).set("w", 1).build());
        UpdateBuilder many = table.update("b");
        for (int i = 0; i < 3000; i++) many.row(i).liveness().set("w", i).end();
        store.write(many.build());
        assertThat(store.everywhere(table.key("a")).cell("v", 1).valueSize()).isEqualTo(1 << 20);
        assertThat(store.everywhere(table.key("b")).rows()).hasSize(3000);
    }

    @Test
    default void anEmptyUpdateChangesNothing() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").build());
        assertThat(store.everywhere(table.key("a"))).isNull();
        assertThat(store.scan()).isEmpty();
    }

    // Row deletions

    /** Rocksandra 2: row tombstones were lost in merges. */
    @Test
    default void aRowDeletionHidesWhatIsOlderWhateverTheOrder() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(1).row(1).liveness().set("v", "old").end(),
                                u -> u.at(5).deleteRow(1),
                                u -> u.at(7).row(1).set("w", 7).end(),
                                u -> u.at(2).row(1).set("w", 2).end()));
        Row row = content.row(1);
        assertThat(row.deletion().time()).isEqualTo(DeletionTime.build(5, UpdateBuilder.NOW));
        assertThat(Liveness.isEmpty(row.primaryKeyLivenessInfo())).isTrue();
        assertThat(row).hasSize(1);
        assertThat(content.cell("w", 1).timestamp()).isEqualTo(7);
    }

    /** Rocksandra 2: a row tombstone above older data was dropped, and the row came back. */
    @Test
    default void aRowDeletionOverFlushedDataStaysThroughCompaction() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").at(1).row(1).liveness().set("v", "x").build());
        store.flush();
        store.write(table.update("a").at(5).deleteRow(1).build());
        store.flush();
        Row row = store.everywhere(table.key("a")).row(1);
        assertThat(row.deletion().isLive()).isFalse();
        assertThat(row).isEmpty();
    }

    /** Rocksandra 8: a row deletion and cells in one update lost the cells. */
    @Test
    default void aRowDeletionAndNewerCellsInOneUpdateAreBothKept() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").at(1).row(1).set("v", "old").set("w", 1).build());
        store.write(
                table.update("a")
                        .row(1)
                        .at(9)
                        .deletion()
                        .at(10)
                        .liveness()
                        .set("v", "new")
                        .build());
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(content.row(1).deletion().time().markedForDeleteAt()).isEqualTo(9);
        assertThat(content.cell("v", 1).buffer()).isEqualTo(ByteBufferUtil.bytes("new"));
        assertThat(content.row(1)).hasSize(1);
    }

    @Test
    default void aRowDeletionHidesCellsOfItsOwnTimestamp() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).deleteRow(1),
                                u -> u.at(5).row(1).liveness().set("v", "x").end(),
                                u -> u.at(6).row(2).liveness().end()));
        assertThat(content.row(1)).isEmpty();
        assertThat(Liveness.isEmpty(content.row(1).primaryKeyLivenessInfo())).isTrue();
    }

    @Test
    default void ofTwoRowDeletionsOfOneTimestampTheLaterLocalTimeCounts() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).now(UpdateBuilder.NOW).deleteRow(1),
                                u -> u.at(5).now(UpdateBuilder.NOW + 9).deleteRow(1),
                                u -> u.at(4).now(UpdateBuilder.NOW + 99).deleteRow(1)));
        assertThat(content.row(1).deletion().time())
                .isEqualTo(DeletionTime.build(5, UpdateBuilder.NOW + 9));
    }

    // Partition deletions

    /** Rocksandra 1: a partition deletion was invisible until compaction. */
    @Test
    default void aPartitionDeletionIsSeenAtOnceAndHidesWhatIsOlder() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(1).row(1).liveness().set("v", "x").end(),
                                u -> u.at(1).staticRow().set("s", "x").end(),
                                u -> u.at(5).deletePartition(),
                                u -> u.at(7).row(2).liveness().set("w", 7).end()));
        assertThat(content.deletion()).isEqualTo(DeletionTime.build(5, UpdateBuilder.NOW));
        assertThat(content.staticRow().isEmpty()).isTrue();
        assertThat(content.clusterings()).hasSize(1);
        assertThat(content.hasRow(2)).isTrue();
    }

    /** Rocksandra 1: two keys of one token shared one deletion. */
    @Test
    default void twoKeysOfOneTokenShareNothing() {
        TestTable table =
                TestTable.of(
                        "CREATE TABLE t (k blob, c int, s text STATIC, v int, PRIMARY KEY (k, c))");
        ComparedStore store = kit().compared(table);
        var one = table.keyWithToken(42, 1);
        var two = table.keyWithToken(42, 2);
        var three = table.keyWithToken(43, 3);
        assertThat(one.getToken()).isEqualTo(two.getToken());
        for (var key : List.of(one, two, three))
            store.write(
                    table.update(key)
                            .at(1)
                            .row(1)
                            .liveness()
                            .set("v", 1)
                            .end()
                            .staticRow()
                            .set("s", "x")
                            .build());
        store.write(
                table.update(one)
                        .at(5)
                        .deletePartition()
                        .at(6)
                        .deleteRange(table.from(7), table.to(9))
                        .build());
        assertThat(store.everywhere(one).rows()).isEmpty();
        assertThat(store.everywhere(two).deletion().isLive()).isTrue();
        assertThat(store.everywhere(two).markers()).isEmpty();
        assertThat(store.everywhere(two).cell("v", 1).timestamp()).isEqualTo(1);
        assertThat(store.scanEverywhere()).hasSize(3);
    }

    @Test
    default void aPartitionDeletionAndAnInsertInOneUpdateAreBothKept() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").at(1).row(1).set("v", "x").end().row(2).liveness().build());
        store.write(table.update("a").at(5).deletePartition().at(6).row(1).set("v", "y").build());
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(content.deletion().markedForDeleteAt()).isEqualTo(5);
        assertThat(content.cell("v", 1).timestamp()).isEqualTo(6);
        assertThat(content.hasRow(2)).isFalse();
    }

    @Test
    default void aPartitionDeletionHidesRowDeletionsAndRangesThatItCovers() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).deletePartition(),
                                u -> u.at(4).deleteRow(1).at(6).deleteRow(2),
                                u ->
                                        u.at(5)
                                                .deleteRange(table.from(10), table.to(11))
                                                .at(7)
                                                .deleteRange(table.from(12), table.to(13))));
        assertThat(content.hasRow(1)).isFalse();
        assertThat(content.hasRow(2)).isTrue();
        assertThat(content.markers()).hasSize(2);
    }

    // Static rows

    /** Rocksandra 10: static rows were never returned, and slices decoded them as rows. */
    @Test
    default void theStaticRowIsReadWithAnySliceAndIsNoRow() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        store.write(
                table.update("a").at(1).staticRow().set("s", "x").end().row(1).liveness().build());
        store.write(table.update("b").at(1).staticRow().set("s", "y").build());
        store.write(table.update("c").at(1).row(1).liveness().build());
        assertThat(store.everywhere(table.key("a")).rows()).hasSize(1);
        assertThat(store.everywhere(table.key("b")).rows()).isEmpty();
        assertThat(store.everywhere(table.key("c")).staticRow().isEmpty()).isTrue();
        for (var slices :
                List.of(
                        table.slices(table.from(7), table.to(8)),
                        Slices.NONE,
                        table.slices(table.from(), table.before(1))))
            assertThat(
                            store.everywhere(() -> store.read(table.key("a"), slices))
                                    .staticCell("s")
                                    .buffer())
                    .isEqualTo(ByteBufferUtil.bytes("x"));
    }

    @Test
    default void staticCellsReconcileAsOthersDo() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(3).staticRow().unset("s").end(),
                                u -> u.at(2).staticRow().set("s", "x").end(),
                                u -> u.at(1).deletePartition()));
        assertThat(content.staticCell("s").isTombstone()).isTrue();
    }

    // Collections and user types

    /** Rocksandra 12: there were no collections and no user types. */
    @Test
    default void elementsOfEveryCollectionAreCellsOfTheirOwn() {
        TestTable table = collections();
        ComparedStore store = kit().compared(table);
        Object position = RandomOperations.elementOf(table.column("l").type, 1);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(1).row(1).put("m", "x", 1).put("m", "y", 2).end(),
                                u -> u.at(2).row(1).remove("m", "x").add("s", "e").end(),
                                u ->
                                        u.at(3)
                                                .row(1)
                                                .put("l", position, 5)
                                                .put("u", "a", 7)
                                                .put("u", "b", "t")
                                                .end(),
                                u -> u.at(3).staticRow().put("sm", 4, "four").end()));
        assertThat(content.complex("m", 1)).hasSize(2);
        assertThat(content.complex("s", 1)).hasSize(1);
        assertThat(content.complex("l", 1)).hasSize(1);
        assertThat(content.complex("u", 1)).hasSize(2);
        assertThat(content.staticRow()).hasSize(1);
    }

    @Test
    default void aCollectionsDeletionHidesOlderElementsOnly() {
        TestTable table = collections();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(1).row(1).put("m", "old", 1).end(),
                                u -> u.at(6).row(1).overwrite("m", Map.of("new", 2)).end(),
                                u -> u.at(3).row(1).clear("m").end(),
                                u -> u.at(9).row(1).remove("m", "gone").end()));
        assertThat(content.complex("m", 1).complexDeletion())
                .isEqualTo(DeletionTime.build(5, UpdateBuilder.NOW));
        assertThat(content.complex("m", 1)).hasSize(2);
    }

    @Test
    default void aCollectionsDeletionAloneIsRead() {
        TestTable table = collections();
        ComparedStore store = kit().compared(table);
        store.write(
                table.update("a").at(5).row(1).clear("m").clear("u").clear("l").clear("s").build());
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(content.row(1)).hasSize(4);
        assertThat(content.complex("u", 1).complexDeletion().markedForDeleteAt()).isEqualTo(5);
    }

    @Test
    default void aRowDeletionCoversACollectionsDeletionAndElements() {
        TestTable table = collections();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(4).row(1).overwrite("m", Map.of("x", 1)).end(),
                                u -> u.at(7).deleteRow(1),
                                u -> u.at(8).row(1).put("m", "y", 2).end()));
        assertThat(content.complex("m", 1).complexDeletion().isLive()).isTrue();
        assertThat(content.complex("m", 1)).hasSize(1);
    }

    @Test
    default void ofTwoDeletionsOfACollectionTheLaterCounts() {
        TestTable table = collections();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).row(1).clear("m").end(),
                                u -> u.at(5).now(UpdateBuilder.NOW + 3).row(1).clear("m").end(),
                                u -> u.at(5).row(1).put("m", "same", 1).put("u", "a", 1).end(),
                                u -> u.at(6).row(1).put("m", "later", 1).end()));
        assertThat(content.complex("m", 1).complexDeletion())
                .isEqualTo(DeletionTime.build(5, UpdateBuilder.NOW + 3));
        assertThat(content.complex("m", 1)).hasSize(1);
    }

    // Ties and times

    /** Rocksandra 7: ties were not resolved as Cassandra does, so replicas never converged. */
    @Test
    default void ofACellAndATombstoneOfOneTimestampTheTombstoneCounts() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).row(1).set("v", "zzz").end(),
                                u -> u.at(5).row(1).unset("v").end(),
                                u -> u.at(5).ttl(100).row(1).set("v", "zz").end()));
        assertThat(content.cell("v", 1).isTombstone()).isTrue();
    }

    /** Rocksandra 7. */
    @Test
    default void ofTwoValuesOfOneTimestampTheLargerCounts() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).row(1).set("v", "b").set("w", -1).end(),
                                u -> u.at(5).row(1).set("v", "bb").set("w", 1).end(),
                                u -> u.at(5).row(1).set("v", "abc").set("w", 0).end(),
                                u -> u.at(5).row(1).set("v", "").end()));
        assertThat(content.cell("v", 1).buffer()).isEqualTo(ByteBufferUtil.bytes("bb"));
        // The larger bytes, unsigned, whatever the type.
        assertThat(content.cell("w", 1).buffer()).isEqualTo(ByteBufferUtil.bytes(-1));
    }

    @Test
    default void ofAnExpiringAndALastingCellOfOneTimestampTheExpiringCounts() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).row(1).liveness().set("v", "zzz").end(),
                                u -> u.at(5).ttl(100).row(1).liveness().set("v", "a").end()));
        assertThat(content.cell("v", 1).isExpiring()).isTrue();
        assertThat(Liveness.isExpiring(content.row(1).primaryKeyLivenessInfo())).isTrue();
    }

    @Test
    default void ofTwoExpiringCellsOfOneTimestampTheLaterEndThenTheShorterTtlCounts() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).ttl(100).row(1).liveness().set("v", "zzz").end(),
                                u -> u.at(5).ttl(200).row(1).liveness().set("v", "a").end(),
                                u ->
                                        u.at(5)
                                                .now(UpdateBuilder.NOW + 150)
                                                .ttl(50)
                                                .row(1)
                                                .liveness()
                                                .set("v", "b")
                                                .end()));
        assertThat(content.cell("v", 1).ttl()).isEqualTo(50);
        assertThat(Liveness.ttl(content.row(1).primaryKeyLivenessInfo())).isEqualTo(50);
    }

    @Test
    default void ofTwoTombstonesOfOneTimestampTheLaterLocalTimeCounts() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).row(1).unset("v").end(),
                                u -> u.at(5).now(UpdateBuilder.NOW + 1).row(1).unset("v").end()));
        assertThat(content.cell("v", 1).localDeletionTime()).isEqualTo(UpdateBuilder.NOW + 1);
    }

    /** Rocksandra 7: cells with timestamps of zero and below were dropped. */
    @Test
    default void anyTimestampIsATimestamp() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        long[] timestamps = {
            Long.MIN_VALUE + 1, -1_000_000_000_000L, -1, 0, 1, 1L << 55, Long.MAX_VALUE
        };
        for (int i = 0; i < timestamps.length; i++) {
            store.write(
                    table.update("a")
                            .at(timestamps[i])
                            .row(i)
                            .liveness()
                            .set("v", "x")
                            .unset("w")
                            .build());
            store.write(table.update("b").at(timestamps[i]).row(1).set("w", i).build());
            store.write(table.update("c").at(timestamps[i]).deleteRow(i).build());
            store.write(table.update("d" + i).at(timestamps[i]).deletePartition().build());
            store.write(
                    table.update("e")
                            .at(timestamps[i])
                            .deleteRange(table.from(10 * i), table.to(10 * i + 5))
                            .build());
        }
        PartitionContent content = store.everywhere(table.key("a"));
        for (int i = 0; i < timestamps.length; i++)
            assertThat(content.cell("v", i).timestamp()).isEqualTo(timestamps[i]);
        assertThat(store.everywhere(table.key("b")).cell("w", 1).timestamp())
                .isEqualTo(Long.MAX_VALUE);
        assertThat(store.everywhere(table.key("c")).rows()).hasSize(timestamps.length);
        assertThat(store.everywhere(table.key("e")).markers()).hasSize(2 * timestamps.length);
        for (int i = 0; i < timestamps.length; i++)
            assertThat(store.everywhere(table.key("d" + i)).deletion().markedForDeleteAt())
                    .isEqualTo(timestamps[i]);
    }

    /**
     * Rocksandra 4: an expired cell became a tombstone of a later timestamp, hiding newer writes.
     */
    @Test
    default void anExpiringCellKeepsItsOwnTimestampAndHidesNothingNewer() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u ->
                                        u.at(5)
                                                .ttl(30)
                                                .row(1)
                                                .liveness()
                                                .set("v", "x")
                                                .set("w", 1)
                                                .end(),
                                u -> u.at(6).ttl(0).row(1).set("v", "y").end()));
        assertThat(content.cell("v", 1).isExpiring()).isFalse();
        assertThat(content.cell("w", 1).timestamp()).isEqualTo(5);
        assertThat(content.cell("w", 1).ttl()).isEqualTo(30);
        assertThat(content.cell("w", 1).localDeletionTime()).isEqualTo(UpdateBuilder.NOW + 30);
    }

    /** Rocksandra 5: tombstones past their grace were stripped on every merge, reads included. */
    @Test
    default void readingPurgesNothingHoweverOld() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        store.write(
                table.update("a")
                        .now(UpdateBuilder.LONG_AGO)
                        .at(5)
                        .row(1)
                        .set("v", null)
                        .ttl(10)
                        .set("w", 4)
                        .liveness()
                        .end()
                        .deleteRow(2)
                        .deleteRange(table.from(5), table.to(6))
                        .build(),
                table.update("a").now(UpdateBuilder.LONG_AGO).at(2).deletePartition().build());
        PartitionContent content = store.read(table.key("a"));
        assertThat(content.cell("v", 1).isTombstone()).isTrue();
        assertThat(content.cell("w", 1).isExpiring()).isTrue();
        assertThat(content.hasRow(2)).isTrue();
        assertThat(content.markers()).hasSize(2);
        assertThat(content.deletion().isLive()).isFalse();
    }

    @Test
    default void theUtmostLocalTimesAndTtlsComeBack() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        long last = Cell.MAX_DELETION_TIME;
        var v = table.column("v");
        var w = table.column("w");
        int ttl = 20 * 365 * 24 * 3600;
        store.write(
                table.update("a")
                        .row(1)
                        .liveness(Liveness.withExpirationTime(5, ttl, last))
                        .cell(new BufferCell(v, 5, ttl, last, ByteBufferUtil.bytes("x"), null))
                        .cell(BufferCell.tombstone(w, 5, last))
                        .end()
                        .row(2)
                        .cell(BufferCell.tombstone(v, 5, 0))
                        .cell(new BufferCell(w, 5, 1, 1, ByteBufferUtil.bytes(1), null))
                        .end()
                        .at(3)
                        .now(last)
                        .deleteRow(3)
                        .deleteRange(table.from(5), table.to(6))
                        .deletePartition()
                        .build());
        PartitionContent content = store.read(table.key("a"));
        assertThat(content.cell("v", 1).localDeletionTime()).isEqualTo(last);
        assertThat(content.cell("v", 1).ttl()).isEqualTo(ttl);
        assertThat(content.cell("w", 1).localDeletionTime()).isEqualTo(last);
        assertThat(content.cell("v", 2).localDeletionTime()).isZero();
        assertThat(content.deletion().localDeletionTime()).isEqualTo(last);
    }

    @Test
    default void anExpiredRowMarkerIsKept() {
        // A materialised view's way to delete a row by its marker.
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        LivenessInfo expired =
                Liveness.withExpirationTime(
                        5, LivenessInfo.EXPIRED_LIVENESS_TTL, UpdateBuilder.NOW);
        PartitionContent content =
                store.inAnyOrder(
                        List.of(
                                u -> u.at(5).row(1).liveness(expired).end(),
                                u -> u.at(5).ttl(100).row(1).liveness().end(),
                                u -> u.at(5).ttl(0).row(1).liveness().end()));
        assertThat(content.row(1).primaryKeyLivenessInfo()).isEqualTo(expired);
    }

    @Test
    default void rowsComeInClusteringOrderWhateverTheOrderOfWriting() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        for (int c : new int[] {5, -1, Integer.MAX_VALUE, 0, Integer.MIN_VALUE, 7})
            store.write(table.update("a").row(c).liveness().build());
        assertThat(store.everywhere(table.key("a")).clusterings())
                .containsExactly(
                        "c=" + Integer.MIN_VALUE,
                        "c=-1",
                        "c=0",
                        "c=5",
                        "c=7",
                        "c=" + Integer.MAX_VALUE);
    }

    @Test
    default void anUpdateKeepsNoHoldOnTheCallersBuffers() {
        TestTable table = rows();
        ComparedStore store = kit().compared(table);
        var value = ByteBufferUtil.bytes("before");
        var clustering = ByteBufferUtil.bytes(1);
        var update =
                table.update("a")
                        .row(Clustering.make(clustering))
                        .cell(BufferCell.live(table.column("v"), 1, value))
                        .build();
        store.store().write(update);
        value.put(0, (byte) 'X');
        clustering.put(3, (byte) 9);
        PartitionContent content =
                PartitionContent.of(
                        store.store().read(table.key("a"), Slices.ALL, table.all(), false));
        assertThat(content.cell("v", 1).buffer()).isEqualTo(ByteBufferUtil.bytes("before"));
    }

    @Test
    default void valuesMayLieInBuffersArraysSlicesOrDirectMemory() {
        TestTable table = collections();
        ComparedStore store = kit().compared(table);
        for (Carriers carrier : Carriers.values())
            store.write(
                    carrier.carry(
                            table.update(carrier.name())
                                    .at(2)
                                    .row(1)
                                    .liveness()
                                    .put("m", "x", 1)
                                    .add("s", "e")
                                    .put("u", "b", "t")
                                    .end()
                                    .staticRow()
                                    .put("sm", 4, "four")
                                    .end()
                                    .deleteRow(2)
                                    .deleteRange(table.from(3), table.before(9))
                                    .build()));
        PartitionContent first = store.everywhere(table.key(Carriers.BUILT.name()));
        for (Carriers carrier : Carriers.values())
            assertThat(store.everywhere(table.key(carrier.name())).withoutKey())
                    .isEqualTo(first.withoutKey());
    }
}
