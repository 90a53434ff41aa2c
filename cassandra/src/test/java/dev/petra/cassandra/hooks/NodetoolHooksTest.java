// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import static dev.petra.cassandra.Hollow.proxy;
import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.HollowMemtable;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
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
        Tracker tracker = Tracker.newDummyTracker();
        tracker.reset(HollowMemtable.of(stores, 1));
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", metadata);
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        assertThat(NodetoolHooks.verify(cfs, IVerifier.options().build())).isNull();
        assertThat(verified).isEqualTo(1);
    }
}
