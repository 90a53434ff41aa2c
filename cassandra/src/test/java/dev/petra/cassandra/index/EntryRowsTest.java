// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.TestTables;
import dev.petra.engine.TableStore;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;

class EntryRowsTest {
    private static final TableMetadata TABLE =
            TestTables.table(
                    "CREATE TABLE t (p int, c int, s int static, v int, PRIMARY KEY (p, c))");

    private static final DecoratedKey KEY = TABLE.partitioner.decorateKey(ByteBufferUtil.bytes(1));

    private static final Clustering<?> ROW = Clustering.make(ByteBufferUtil.bytes(1));

    private final List<String> called = new ArrayList<>();
    private final List<ColumnFilter> filters = new ArrayList<>();

    /** It has no row, and keeps what it was asked. */
    private final TableStore store =
            (TableStore)
                    Proxy.newProxyInstance(
                            TableStore.class.getClassLoader(),
                            new Class<?>[] {TableStore.class},
                            (self, method, arguments) -> {
                                called.add(method.getName());
                                filters.add((ColumnFilter) arguments[2]);
                                return null;
                            });

    private static ColumnMetadata column(String name) {
        return TABLE.getColumn(ByteBufferUtil.bytes(name));
    }

    /** All rows of a table are read; that would fill a cache. */
    @Test
    void theCacheIsLeftToReaders() {
        EntryRows rows = new EntryRows(store, column("v"));
        assertThat(rows.row(TABLE, KEY, ROW)).isNull();
        assertThat(rows.row(TABLE, KEY, Clustering.STATIC_CLUSTERING)).isNull();
        assertThat(called).containsExactly("readAside", "readAside");
    }

    /** Each row of such a partition was read by an iterator, past all its range tombstones. */
    @Test
    void staticColumnsAreReadForEntriesOfStaticRowsOnly() {
        for (String indexed : List.of("p", "c", "v")) {
            filters.clear();
            EntryRows rows = new EntryRows(store, column(indexed));
            assertThat(rows.row(TABLE, KEY, ROW)).isNull();
            assertThat(rows.row(TABLE, KEY, Clustering.STATIC_CLUSTERING)).isNull();
            assertThat(filters.get(0).fetchedColumns().statics.isEmpty()).isTrue();
            // Any of them may let it live.
            assertThat(filters.get(0).fetchedColumns().regulars.contains(column("v"))).isTrue();
            assertThat(filters.get(1).fetchedColumns().statics.contains(column("s"))).isTrue();
        }
    }
}
