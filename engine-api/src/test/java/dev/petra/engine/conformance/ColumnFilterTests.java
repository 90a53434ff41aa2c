// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.junit.jupiter.api.Test;

/** Which columns are read: fetched against queried, elements of collections, static ones. */
public interface ColumnFilterTests {
    /** The engine that the tests are about. */
    EngineUnderTest kit();

    /** A store with one row of everything, and a partition deletion below it. */
    private ComparedStore filled(TestTable table) {
        ComparedStore store = kit().compared(table);
        store.write(
                table.update("a")
                        .at(1)
                        .deletePartition()
                        .at(2)
                        .row(1)
                        .set("v", "old")
                        .set("w", 1)
                        .put("m", "a", 1)
                        .end()
                        .at(5)
                        .row(1)
                        .liveness()
                        .put("m", "b", 2)
                        .put("m", "c", 3)
                        .add("x", "e")
                        .end()
                        .at(6)
                        .row(1)
                        .set("v", "new")
                        .end()
                        .staticRow()
                        .set("s", "s")
                        .set("t", 4)
                        .end()
                        .row(2)
                        .set("w", 2)
                        .end()
                        .row(3)
                        .clear("m")
                        .build());
        return store;
    }

    private static TestTable table() {
        return TestTable.of(
                "CREATE TABLE t (k text, c int, s text STATIC, t int STATIC, v text, w int,"
                        + " m map<text, int>, x set<text>, PRIMARY KEY (k, c))");
    }

    private static PartitionContent read(ComparedStore store, ColumnFilter filter) {
        return store.everywhere(
                () -> {
                    store.read(store.table().key("a"), Slices.ALL, filter, true);
                    return store.read(store.table().key("a"), Slices.ALL, filter, false);
                });
    }

    @Test
    default void everyColumnAloneIsRead() {
        TestTable table = table();
        ComparedStore store = filled(table);
        for (String column : List.of("s", "t", "v", "w", "m", "x")) read(store, table.only(column));
        assertThat(read(store, table.only("v")).row(1)).hasSize(1);
        assertThat(read(store, table.only("v")).staticRow().isEmpty()).isTrue();
    }

    @Test
    default void aRowWithNothingSelectedIsReadForItsMarkerOnly() {
        TestTable table = table();
        ComparedStore store = filled(table);
        PartitionContent content = read(store, table.only("s"));
        assertThat(content.hasRow(1)).isTrue();
        assertThat(content.row(1)).isEmpty();
        assertThat(content.hasRow(2)).isFalse();
        assertThat(content.hasRow(3)).isFalse();
        assertThat(content.staticRow()).hasSize(1);
    }

    @Test
    default void whatIsFetchedAndNotQueriedComesWithoutItsValue() {
        TestTable table = table();
        ComparedStore store = filled(table);
        PartitionContent content = read(store, table.queried(true, "w"));
        // Older than the row's marker, and so not needed to know that the row is live.
        assertThat(content.row(1).getCell(table.column("w"))).isNotNull();
        assertThat(content.cell("v", 1).valueSize()).isZero();
        assertThat(content.staticRow()).hasSize(2);
        assertThat(content.staticCell("s").valueSize()).isZero();
        PartitionContent without = read(store, table.queried(false, "w", "t"));
        assertThat(without.staticRow()).hasSize(1);
    }

    @Test
    default void everySetOfColumnsQueriedOrFetched() {
        TestTable table = table();
        ComparedStore store = filled(table);
        List<String> columns = List.of("s", "t", "v", "w", "m", "x");
        for (int set = 0; set < 1 << columns.size(); set++) {
            int chosen = set;
            String[] names =
                    columns.stream()
                            .filter(name -> (chosen & 1 << columns.indexOf(name)) != 0)
                            .toArray(String[]::new);
            for (ColumnFilter filter :
                    List.of(
                            table.only(names),
                            table.queried(true, names),
                            table.queried(false, names)))
                store.read(table.key("a"), Slices.ALL, filter, set % 2 == 0);
        }
        store.flush();
        read(store, ColumnFilter.selection(table.metadata().regularAndStaticColumns()));
        read(store, ColumnFilter.NONE);
    }

    @Test
    default void elementsOfACollectionAreSelectedByPath() {
        TestTable table = table();
        ComparedStore store = filled(table);
        var m = table.column("m");
        var x = table.column("x");
        var a = TestTable.path(UTF8Type.instance, "a");
        var b = TestTable.path(UTF8Type.instance, "b");
        var c = TestTable.path(UTF8Type.instance, "c");
        PartitionContent one = read(store, ColumnFilter.selectionBuilder().select(m, b).build());
        assertThat(one.complex("m", 1)).hasSize(1);
        PartitionContent slice =
                read(store, ColumnFilter.selectionBuilder().slice(m, a, b).add(x).build());
        assertThat(slice.complex("m", 1)).hasSize(2);
        assertThat(slice.complex("m", 3).complexDeletion().isLive()).isFalse();
        read(
                store,
                ColumnFilter.selectionBuilder()
                        .select(m, a)
                        .slice(m, c, c)
                        .select(x, TestTable.path(UTF8Type.instance, "none"))
                        .build());
        read(
                store,
                ColumnFilter.allRegularColumnsBuilder(table.metadata(), true).select(m, c).build());
        read(
                store,
                ColumnFilter.allRegularColumnsBuilder(table.metadata(), false)
                        .slice(m, b, c)
                        .add(table.column("s"))
                        .build());
    }

    @Test
    default void cellsUnderADeletionStayHiddenWhateverIsSelected() {
        TestTable table = table();
        ComparedStore store = kit().compared(table);
        store.write(table.update("a").at(1).row(1).liveness().set("v", "x").set("w", 1).build());
        store.write(table.update("a").at(5).deleteRow(1).build());
        store.write(table.update("b").at(1).row(1).set("v", "x").build());
        store.write(table.update("b").at(5).deleteRange(table.from(1), table.to(2)).build());
        assertThat(read(store, table.only("w")).row(1)).isEmpty();
        assertThat(
                        store.everywhere(
                                        () ->
                                                store.read(
                                                        table.key("b"),
                                                        Slices.ALL,
                                                        table.only("v"),
                                                        false))
                                .rows())
                .isEmpty();
    }

    @Test
    default void fieldsOfAUserTypeAreAllReadWithTheirColumn() {
        TestTable table =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, u udt, v int, PRIMARY KEY (k, c))",
                        TestTable.userType(
                                "udt", true, "a", Int32Type.instance, "b", UTF8Type.instance));
        ComparedStore store = kit().compared(table);
        store.write(
                table.update("a")
                        .at(2)
                        .row(1)
                        .liveness()
                        .put("u", "a", 1)
                        .put("u", "b", "x")
                        .set("v", 1)
                        .build());
        assertThat(read(store, table.only("u")).complex("u", 1)).hasSize(2);
        read(store, table.queried(true, "v"));
    }
}
