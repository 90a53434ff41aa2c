// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.cassandra.table.Truncation;
import dev.petra.engine.EngineSettings;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a migration, a TRUNCATE and an import do when they meet. */
class TableLifecycleTest {
    private static final EngineKey ENGINE = new EngineKey("rocks", new EngineSettings(Map.of()));
    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final ConcurrentMap<TableId, ColumnFamilyStore> tables = new ConcurrentHashMap<>();
    @TempDir Path table;
    private TableGenerations stores = Hollow.of(TableGenerations.class);

    @BeforeEach
    void open() {
        TableMetadataRef metadata =
                TableMetadataRef.forOfflineTools(
                        TestTables.table("CREATE TABLE t (p int PRIMARY KEY)"));
        stores =
                TableGenerations.open(
                        "t",
                        metadata,
                        () -> {
                            throw new UnsupportedOperationException();
                        },
                        List.of(table),
                        Disk.REAL);
        Keyspace keyspace = Hollow.of(Keyspace.class);
        Hollow.set(keyspace, Keyspace.class, "columnFamilyStores", tables);
        Hollow.set(cfs, ColumnFamilyStore.class, "keyspace", keyspace);
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", metadata);
        Hollow.set(cfs, ColumnFamilyStore.class, "name", "t");
        tables.put(metadata.id, cfs);
        TableRegistry.put(cfs, stores);
    }

    @AfterEach
    void close() {
        TableRegistry.remove(cfs);
    }

    /** It finds no SSTable to migrate until the import has checked all of them. */
    @Test
    void theMigrationThatAnImportAnnouncesMayEndBeforeTheImportDoes() {
        long migration = stores.migration().begin("rocks");
        StreamGuards.Guard guard = Objects.requireNonNull(TableLifecycle.importBegins(cfs));
        assertThat(stores.migration().arrived(migration)).isTrue();
        assertThat(stores.streams().mayPurge(() -> true)).isFalse();
        guard.close();
        assertThat(stores.streams().mayPurge(() -> true)).isTrue();
    }

    private void truncate() {
        Truncation.begin();
        try {
            var unused = TableLifecycle.next(cfs, ENGINE);
        } finally {
            Truncation.end();
        }
    }

    /** After a crash there would be SSTables without the deletions that the store has for them. */
    @Test
    void aTruncateDoesNotEndTheStoreOfAMigrationThatWasJustAnnounced() {
        long migration = stores.migration().begin("rocks");
        Generation before = stores.current();
        assertThatThrownBy(this::truncate).hasMessageContaining("petra.migrations");
        assertThat(stores.current()).isSameAs(before);
        assertThat(stores.migration().arrived(migration)).isTrue();
        truncate();
        assertThat(stores.current()).isNotSameAs(before);
    }

    @Test
    void aDropDoesNotWaitForAMigration() {
        var unused = stores.migration().begin("rocks");
        tables.clear();
        truncate();
        assertThat(stores.isDropped()).isTrue();
    }
}
