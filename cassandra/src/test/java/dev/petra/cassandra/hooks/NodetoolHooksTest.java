// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.List;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.io.sstable.IVerifier;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NodetoolHooksTest {
    @TempDir Path table;
    private int verified;

    private static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(
                Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }

    /** The SSTables of a table on its way out are a part of it, which may be none yet. */
    @Test
    void verifyReadsTheStoreOfATableOnItsWayOut() {
        TableMetadataRef metadata =
                TableMetadataRef.forOfflineTools(
                        TestTables.table("CREATE TABLE t (p int PRIMARY KEY)"));
        TableStore store =
                proxy(
                        TableStore.class,
                        (self, method, arguments) -> {
                            if (method.getName().equals("verify")) verified++;
                            return null;
                        });
        StorageEngine engine = proxy(StorageEngine.class, (self, method, arguments) -> store);
        TableGenerations stores =
                TableGenerations.open("t", metadata, () -> engine, List.of(table), Disk.REAL);
        assertThat(stores.current().writable()).isSameAs(store);
        EngineMemtable departing =
                proxy(
                        EngineMemtable.class,
                        (self, method, arguments) ->
                                switch (method.getName()) {
                                    case "departure" -> 1L;
                                    case "generation" -> stores.current();
                                    case "equals" -> self == arguments[0];
                                    case "hashCode" -> 1;
                                    default ->
                                            throw new UnsupportedOperationException(
                                                    method.getName());
                                });
        Tracker tracker = Tracker.newDummyTracker();
        tracker.reset(departing);
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", metadata);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        assertThat(NodetoolHooks.verify(cfs, IVerifier.options().build())).isNull();
        assertThat(verified).isEqualTo(1);
    }
}
