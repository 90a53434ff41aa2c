// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.PetraMemtableFactory;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.engine.EngineKey;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.schema.MemtableParams;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.Test;

class DataHooksTest {
    /** A table whose memtable is not an engine's, though its schema may say so. */
    private static ColumnFamilyStore table(Memtable.Factory factory) {
        MemtableParams params = Hollow.of(MemtableParams.class);
        Hollow.set(params, MemtableParams.class, "factory", factory);
        Hollow.set(params, MemtableParams.class, "configurationKey", "test");
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        Hollow.set(
                cfs,
                ColumnFamilyStore.class,
                "metadata",
                TableMetadataRef.forOfflineTools(
                        TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)")
                                .unbuild()
                                .memtable(params)
                                .build()));
        return cfs;
    }

    /** The commit log forgot its rows, which were in Cassandra's memtable only. */
    @Test
    void aTableOnItsWayIntoAnEngineNeedsTheCommitLog() {
        ColumnFamilyStore onItsWay = table(new PetraMemtableFactory(Hollow.of(EngineKey.class)));
        assertThat(DataHooks.writesAreDurable(onItsWay, true)).isFalse();
        assertThat(DataHooks.writesAreDurable(onItsWay, false)).isFalse();
    }

    @Test
    void whatOtherConfigurationsSayIsLeft() {
        ColumnFamilyStore other =
                table(
                        (bound, metadata, owner) -> {
                            throw new UnsupportedOperationException();
                        });
        assertThat(DataHooks.writesAreDurable(other, true)).isTrue();
        assertThat(DataHooks.writesAreDurable(other, false)).isFalse();
    }
}
