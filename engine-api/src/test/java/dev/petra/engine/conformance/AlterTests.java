// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.DroppedColumns;
import dev.petra.engine.TableStore;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.BytesType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.MapType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;

/**
 * ALTER TABLE while there is data: columns are known by what they are, not by where they stand.
 * Rocksandra 9 named cells by their position in the current list of columns.
 */
public interface AlterTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** A table whose columns all have one type, so that a mix-up would not show as an error. */
    private static TestTable table() {
        return TestTable.of(
                "CREATE TABLE t (k text, c int, b text, d text, f text, s text STATIC,"
                        + " PRIMARY KEY (k, c))");
    }

    private static void write(ComparedStore store, long timestamp, String... columns) {
        UpdateBuilder.RowBuilder row = store.table().update("a").at(timestamp).row(1);
        for (String column : columns) row.set(column, column + timestamp);
        store.write(row.build());
    }

    private static String value(PartitionContent content, String column) {
        return UTF8Type.instance.getString(content.cell(column, 1).buffer());
    }

    @Test
    default void columnsAddedBeforeBetweenAndAfterLeaveTheOthersAlone() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        write(store, 1, "b", "d", "f");
        table.addColumn("a", UTF8Type.instance);
        write(store, 2, "a", "d");
        store.flush();
        table.addColumn("c1", UTF8Type.instance);
        table.addColumn("z", UTF8Type.instance);
        table.addStaticColumn("r", UTF8Type.instance);
        write(store, 3, "c1", "z", "f");
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(value(content, "a")).isEqualTo("a2");
        assertThat(value(content, "b")).isEqualTo("b1");
        assertThat(value(content, "c1")).isEqualTo("c13");
        assertThat(value(content, "d")).isEqualTo("d2");
        assertThat(value(content, "f")).isEqualTo("f3");
        assertThat(value(content, "z")).isEqualTo("z3");
    }

    @Test
    default void aDroppedColumnIsGoneAndTheOthersStay() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        write(store, 1, "b", "d", "f");
        table.dropColumn("b", 5);
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(content.row(1)).hasSize(2);
        assertThat(value(content, "d")).isEqualTo("d1");
        write(store, 6, "f");
        assertThat(value(store.everywhere(table.key("a")), "f")).isEqualTo("f6");
        store.read(table.key("a"), Slices.ALL, table.only("f"), false);
    }

    @Test
    default void aColumnAddedAgainDoesNotShowWhatIsOlderThanItsDrop() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        write(store, 3, "b", "d");
        table.dropColumn("b", 5);
        store.flush();
        table.addColumn("b", UTF8Type.instance);
        assertThat(store.everywhere(table.key("a")).row(1)).hasSize(1);
        write(store, 5, "b");
        assertThat(store.everywhere(table.key("a")).row(1)).hasSize(1);
        write(store, 6, "b");
        assertThat(value(store.everywhere(table.key("a")), "b")).isEqualTo("b6");
    }

    @Test
    default void aColumnAddedAgainShowsWhatIsNewerThanItsDrop() {
        // Written with a timestamp of the future, or on its way while the column was dropped.
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        write(store, 9, "b");
        write(store, 4, "b", "d");
        table.dropColumn("b", 5);
        store.everywhere(table.key("a"));
        table.addColumn("b", UTF8Type.instance);
        assertThat(value(store.everywhere(table.key("a")), "b")).isEqualTo("b9");
    }

    /** For whoever has to know what a row has when its column is added again. */
    @Test
    default void cellsOfADroppedColumnThatAreNewerThanItsDropAreReadByWhoeverFetchesIt() {
        TestTable table = table();
        TableStore store = kit().open(table);
        store.write(table.update("a").at(9).row(1).set("b", "b9").end().build());
        store.write(table.update("a").at(4).row(2).set("b", "b4").end().build());
        store.write(table.update("a").at(9).row(3).set("b", "b9").set("d", "d9").end().build());
        store.write(table.update("a").at(9).staticRow().set("s", "s9").end().build());
        store.flush();
        table.dropColumn("b", 5);
        table.dropColumn("s", 5);
        ColumnFilter also = ColumnFilter.all(DroppedColumns.addedAgain(table.metadata()));
        assertThat(rows(store, table, also)).isEqualTo("s=s9; 1 b=b9; 3 b=b9 d=d9; ");
        table.addColumn("b", UTF8Type.instance);
        assertThat(rows(store, table, table.all())).isEqualTo("1 b=b9; 3 b=b9 d=d9; ");
        assertThat(rows(store, table, also)).isEqualTo("s=s9; 1 b=b9; 3 b=b9 d=d9; ");
    }

    private static String rows(TableStore store, TestTable table, ColumnFilter columns) {
        StringBuilder shown = new StringBuilder();
        try (UnfilteredRowIterator rows = store.read(table.key("a"), Slices.ALL, columns, false)) {
            if (rows == null) return "";
            if (!rows.staticRow().isEmpty()) show(rows.staticRow(), shown);
            while (rows.hasNext()) {
                Row row = (Row) rows.next();
                shown.append(row.clustering().bufferAt(0).getInt(0)).append(' ');
                show(row, shown);
            }
        }
        return shown.toString();
    }

    private static void show(Row row, StringBuilder to) {
        List<String> cells = new ArrayList<>();
        for (Cell<?> cell : row.cells())
            cells.add(cell.column().name + "=" + UTF8Type.instance.getString(cell.buffer()));
        to.append(String.join(" ", cells)).append("; ");
    }

    @Test
    default void updatesMadeBeforeAnAlterAreAppliedAfterIt() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        TestTable before = table.twin();
        table.dropColumn("b", 5);
        table.addColumn("a", UTF8Type.instance);
        store.write(
                before.update("a").at(9).row(1).set("b", "b9").set("d", "d9").build(),
                before.update("a").at(3).row(2).set("b", "b3").build(),
                before.update("a").at(3).row(3).set("f", "f3").build());
        write(store, 9, "a");
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(value(content, "d")).isEqualTo("d9");
        assertThat(value(content, "a")).isEqualTo("a9");
        assertThat(content.hasRow(2)).isFalse();
        table.addColumn("b", UTF8Type.instance);
        assertThat(value(store.everywhere(table.key("a")), "b")).isEqualTo("b9");
    }

    @Test
    default void aDroppedStaticColumnIsGone() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        store.write(
                table.update("a").at(3).staticRow().set("s", "x").end().row(1).liveness().build());
        table.dropColumn("s", 5);
        assertThat(store.everywhere(table.key("a")).staticRow().isEmpty()).isTrue();
        table.addStaticColumn("s", UTF8Type.instance);
        assertThat(store.everywhere(table.key("a")).staticRow().isEmpty()).isTrue();
        store.write(table.update("a").at(7).staticRow().set("s", "y").build());
        assertThat(store.everywhere(table.key("a")).staticCell("s").timestamp()).isEqualTo(7);
    }

    @Test
    default void aDroppedCollectionIsGoneElementByElement() {
        TestTable table =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, m map<text, int>, v text,"
                                + " PRIMARY KEY (k, c))");
        ComparedStore store = kit().compared(table);
        store.write(
                table.update("a")
                        .at(3)
                        .row(1)
                        .clear("m")
                        .at(4)
                        .put("m", "old", 1)
                        .at(9)
                        .put("m", "new", 2)
                        .set("v", "x")
                        .build());
        table.dropColumn("m", 5);
        assertThat(store.everywhere(table.key("a")).row(1)).hasSize(1);
        table.addColumn("m", MapType.getInstance(UTF8Type.instance, Int32Type.instance, true));
        assertThat(store.everywhere(table.key("a")).complex("m", 1)).hasSize(1);
    }

    @Test
    default void aRowOfOnlyADroppedColumnIsGoneAndItsMarkerStays() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        store.write(
                table.update("a")
                        .at(3)
                        .row(1)
                        .set("b", "x")
                        .end()
                        .row(2)
                        .liveness()
                        .set("b", "y")
                        .build());
        table.dropColumn("b", 5);
        table.addColumn("b", UTF8Type.instance);
        PartitionContent content = store.everywhere(table.key("a"));
        assertThat(content.hasRow(1)).isFalse();
        assertThat(content.row(2)).isEmpty();
    }

    @Test
    default void manyAltersLeaveEveryColumnItsOwn() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        for (int i = 0; i < 60; i++) {
            table.addColumn("x" + (59 - i), i % 2 == 0 ? UTF8Type.instance : BytesType.instance);
            store.write(
                    table.update("a")
                            .at(i)
                            .row(1)
                            .set("x" + (59 - i), ByteBufferUtil.bytes("value " + i))
                            .build());
            if (i % 3 == 2) table.dropColumn("x" + (59 - i), 100);
            if (i % 10 == 9) store.reopen();
        }
        PartitionContent content = store.everywhere(table.key("a"));
        for (int i = 0; i < 60; i++)
            if (i % 3 != 2)
                assertThat(content.cell("x" + (59 - i), 1).buffer())
                        .isEqualTo(ByteBufferUtil.bytes("value " + i));
        assertThat(content.row(1)).hasSize(40);
    }
}
