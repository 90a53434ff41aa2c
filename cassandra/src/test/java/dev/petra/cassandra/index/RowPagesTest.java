// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CancellationException;
import java.util.stream.Stream;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.schema.ColumnMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RowPagesTest {
    @TempDir Path directory;

    private final StorageEngine engine =
            new MemoryEngineProvider().open(new EngineSettings(Map.of()));

    private static TestTable table(String order) {
        return TestTable.of(
                "CREATE TABLE t (k text, c int, d int, s text STATIC, u text STATIC, v text, w"
                        + " text, PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY "
                        + order);
    }

    private TableStore store(TestTable table) {
        return engine.openStore(table.spec(directory.resolve("store")));
    }

    private static ColumnFilter columns(TestTable table, String... indexed) {
        List<ColumnMetadata> all = Stream.of(indexed).map(table::column).toList();
        return RowTerms.columns(table.metadata(), all);
    }

    private static String shown(TestTable table, RowPages.Found found) {
        return table.metadata().partitionKeyType.getString(found.key().getKey())
                + ":"
                + found.row().clustering().toString(table.metadata());
    }

    private static List<String> all(TestTable table, RowPages pages) {
        List<String> all = new ArrayList<>();
        while (!pages.areOver())
            for (RowPages.Found found : pages.next()) all.add(shown(table, found));
        return all;
    }

    /** Of several orders, pages from one row to all. */
    @Test
    void eachRowIsReadOnceWhateverTheSizeOfPages() {
        for (String order : List.of("(c ASC, d ASC)", "(c DESC, d ASC)", "(c ASC, d DESC)")) {
            TestTable table = table(order);
            TableStore store = store(table);
            Set<String> expected = new TreeSet<>();
            for (int k = 0; k < 5; k++) {
                if (k % 2 == 0)
                    store.write(table.update("k" + k).staticRow().set("s", "s").end().build());
                // One has its static row only, one is large.
                for (int i = 0; i < (k == 2 ? 0 : k == 3 ? 200 : 3); i++)
                    store.write(table.update("k" + k).row(i / 7, i % 7).liveness().end().build());
            }
            store.write(table.update("k3").at(9_000_000).deleteRow(4, 4).build());
            for (int c = 10; c <= 12; c++)
                store.write(table.update("k3").at(9_000_000).deleteRange(table.prefix(c)).build());
            store.write(table.update("gone").at(9_000_000).deletePartition().build());
            for (int k = 0; k < 5; k++) {
                if (k % 2 == 0) expected.add("k" + k + ":STATIC");
                for (int i = 0; i < (k == 2 ? 0 : k == 3 ? 200 : 3); i++) {
                    int c = i / 7;
                    boolean deleted = k == 3 && ((c == 4 && i % 7 == 4) || (c >= 10 && c <= 12));
                    if (!deleted) expected.add("k" + k + ":c=" + c + ", d=" + i % 7);
                }
            }
            for (long bytes : new long[] {1, 100, 1_000, 1 << 20}) {
                List<String> found = all(table, pages(store, table, columns(table, "v"), bytes));
                assertThat(found).as(order + " " + bytes).doesNotHaveDuplicates();
                assertThat(new TreeSet<>(found)).as(order + " " + bytes).isEqualTo(expected);
            }
            store.drop();
        }
    }

    /** Where a page ended with the only row of its partition, the next page failed. */
    @Test
    void eachRowOfATableWithoutClusteringIsReadOnce() {
        TestTable table = TestTable.of("CREATE TABLE t (k text PRIMARY KEY, v text)");
        TableStore store = store(table);
        Set<String> expected = new TreeSet<>();
        for (int k = 0; k < 10; k++) {
            store.write(table.update("k" + k).row().set("v", "v".repeat(k * 20)).end().build());
            expected.add("k" + k + ":EMPTY");
        }
        for (long bytes = 1; bytes < 1_000; bytes += 20) {
            List<String> found = all(table, pages(store, table, columns(table, "v"), bytes));
            assertThat(found).as("pages of %d", bytes).doesNotHaveDuplicates();
            assertThat(new TreeSet<>(found)).as("pages of %d", bytes).isEqualTo(expected);
        }
    }

    /** The column may be added again: then the row is there, and has to be found by its key. */
    @Test
    void aRowThatLivesByADroppedColumnIsRead() {
        TestTable table = table("(c ASC, d ASC)");
        TableStore store = store(table);
        store.write(table.update("k").at(9).row(1, 1).set("w", "newer").end().build());
        store.write(table.update("k").at(9).staticRow().set("u", "newer").end().build());
        store.write(table.update("k").at(4).row(1, 2).set("w", "older").end().build());
        store.write(table.update("l").at(4).staticRow().set("u", "older").end().build());
        table.dropColumn("w", 5);
        table.dropColumn("u", 5);
        assertThat(all(table, pages(store, table, columns(table, "v"), 1 << 20)))
                .containsExactlyInAnyOrder("k:STATIC", "k:c=1, d=1");
    }

    private static RowPages pages(
            TableStore store, TestTable table, ColumnFilter columns, long bytes) {
        return new RowPages(store, table.metadata(), columns, bytes, () -> {});
    }

    /** The reads of a store. */
    private static final class Reads {
        int all;
        int open;

        TableStore of(TableStore store) {
            return (TableStore)
                    Proxy.newProxyInstance(
                            TableStore.class.getClassLoader(),
                            new Class<?>[] {TableStore.class},
                            (proxy, method, arguments) -> {
                                Object result = method.invoke(store, arguments);
                                if (!(result instanceof UnfilteredPartitionIterator all))
                                    return result;
                                this.all++;
                                open++;
                                return new ClosingPartitions(all, () -> open--);
                            });
        }
    }

    /** A partition with 128 pages of ten rows and then many with two pages each. */
    private static void fill(TestTable table, TableStore store) {
        String value = "v".repeat(1_000);
        for (int i = 0; i < 1_280; i++)
            store.write(table.update("a").row(i, 0).set("v", value).end().build());
        for (int k = 0; k < 20; k++)
            for (int i = 0; i < 15; i++)
                store.write(table.update("k" + k).row(i, 0).set("v", value).end().build());
    }

    /** Each read reads all range tombstones of the partition. */
    @Test
    void aLargePartitionIsReadInFewReads() {
        TestTable table = table("(c ASC, d ASC)");
        TableStore store = store(table);
        fill(table, store);
        Reads reads = new Reads();
        try (RowPages pages = pages(reads.of(store), table, columns(table, "v"), 10_000)) {
            int count = 0;
            int rows = 0;
            while (!pages.areOver()) {
                List<RowPages.Found> page = pages.next();
                assertThat(page).hasSizeLessThanOrEqualTo(10);
                rows += page.size();
                count++;
            }
            assertThat(rows).isEqualTo(1_280 + 20 * 15);
            assertThat(count).isGreaterThanOrEqualTo(128 + 20);
            assertThat(reads.all).isLessThan(8 + 40);
            assertThat(reads.open).isZero();
        }
    }

    /** A store that a full disk has stopped is opened anew only when nobody reads it. */
    @Test
    void nothingIsOpenWhileWhoeverReadsWaits() {
        TestTable table = table("(c ASC, d ASC)");
        TableStore store = store(table);
        fill(table, store);
        Reads reads = new Reads();
        RowPages pages = pages(reads.of(store), table, columns(table, "v"), 10_000);
        boolean wasOpen = false;
        int rows = 0;
        for (int count = 0; !pages.areOver(); count++) {
            rows += pages.next().size();
            wasOpen |= reads.open > 0;
            if (count % 3 == 0) {
                pages.rest();
                assertThat(reads.open).isZero();
            }
        }
        assertThat(wasOpen).isTrue();
        assertThat(rows).isEqualTo(1_280 + 20 * 15);
    }

    /** A full disk ends each attempt: ten a second, for hours. */
    @Test
    void whatEndsAReadDoesNotChangeHowLongTheNextOnesAre() {
        TestTable table = table("(c ASC, d ASC)");
        TableStore store = store(table);
        fill(table, store);
        Reads reads = new Reads();
        boolean[] full = new boolean[1];
        Runnable each =
                () -> {
                    if (full[0]) throw new WriteStallException("full");
                };
        RowPages pages =
                new RowPages(reads.of(store), table.metadata(), columns(table, "v"), 10_000, each);
        int rows = 0;
        boolean isInLarge = false;
        while (!isInLarge) {
            List<RowPages.Found> page = pages.next();
            rows += page.size();
            isInLarge = !page.isEmpty() && shown(table, page.get(page.size() - 1)).startsWith("a:");
        }
        full[0] = true;
        for (int i = 0; i < 40; i++)
            assertThatThrownBy(pages::next).isInstanceOf(WriteStallException.class);
        full[0] = false;
        int before = reads.all;
        while (!pages.areOver()) rows += pages.next().size();
        assertThat(rows).isEqualTo(1_280 + 20 * 15);
        assertThat(reads.all - before).isLessThan(10 + 40);
    }

    @Test
    void aPageThatWasEndedIsReadAgain() {
        TestTable table = table("(c ASC, d ASC)");
        TableStore store = store(table);
        fill(table, store);
        Reads reads = new Reads();
        int[] asked = new int[1];
        Runnable each =
                () -> {
                    if (++asked[0] % 5 == 0) throw new CancellationException();
                };
        RowPages pages =
                new RowPages(reads.of(store), table.metadata(), columns(table, "v"), 30_000, each);
        List<String> found = new ArrayList<>();
        int ended = 0;
        while (!pages.areOver())
            try {
                for (RowPages.Found row : pages.next()) found.add(shown(table, row));
            } catch (CancellationException e) {
                ended++;
                assertThat(reads.open).isZero();
            }
        assertThat(ended).isPositive();
        assertThat(found).hasSize(1_280 + 20 * 15).doesNotHaveDuplicates();
    }

    /** A column without an index is read without its value, and makes its row live. */
    @Test
    void aRowThatLivesByACellWithoutAnIndexIsThereAndItsValueIsNot() {
        TestTable table = table("(c ASC, d ASC)");
        TableStore store = store(table);
        store.write(table.update("k").row(1, 1).set("w", "large").end().build());
        store.write(table.update("k").row(2, 2).set("v", "a").set("w", "large").end().build());
        store.write(table.update("l").staticRow().set("u", "large").end().build());
        RowPages pages = pages(store, table, columns(table, "k", "c", "v", "s"), 1 << 20);
        List<RowPages.Found> page = pages.next();
        assertThat(page.stream().map(found -> shown(table, found)))
                .containsExactlyInAnyOrder("k:c=1, d=1", "k:c=2, d=2", "l:STATIC");
        for (RowPages.Found found : page) {
            Row row = found.row();
            for (var cell : row.cells())
                assertThat(cell.valueSize())
                        .as(cell.column().toString())
                        .isEqualTo(cell.column().name.toString().equals("v") ? 1 : 0);
        }
    }
}
