// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import static dev.petra.cassandra.Hollow.proxy;
import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.PetraMemtableFactory;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.migration.TableLifecycle;
import dev.petra.cassandra.shadow.Shadows;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.cassandra.table.Truncation;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.schema.MemtableParams;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SchemaHooksTest {
    private static final EngineKey ENGINE = new EngineKey("rocks", new EngineSettings(Map.of()));

    @TempDir Path table;
    private int dropped;

    private static EngineMemtable memtable(Generation generation, long departure) {
        return proxy(
                EngineMemtable.class,
                (self, method, arguments) ->
                        switch (method.getName()) {
                            case "departure" -> departure;
                            case "generation" -> generation;
                            case "equals" -> self == arguments[0];
                            case "hashCode" -> 1;
                            default -> throw new UnsupportedOperationException(method.getName());
                        });
    }

    private static TableMetadata altered() {
        MemtableParams params = Hollow.of(MemtableParams.class);
        Hollow.set(params, MemtableParams.class, "factory", new PetraMemtableFactory(ENGINE));
        Hollow.set(params, MemtableParams.class, "configurationKey", "rocks");
        return TestTables.table("CREATE TABLE t (p int PRIMARY KEY)")
                .unbuild()
                .memtable(params)
                .build();
    }

    /**
     * With {@code durable_writes = false} DROP replaces the memtable. By the schema the next one is
     * the engine's, and stands for the dropped table: what was on its way out was taken for ended,
     * and its store was open until the node was restarted.
     */
    @Test
    void aStoreGoesWithItsTableThoughAnAlterBackCouldNotBegin() {
        TableMetadataRef metadata = TableMetadataRef.forOfflineTools(altered());
        TableStore store =
                proxy(
                        TableStore.class,
                        (self, method, arguments) -> {
                            if (method.getName().equals("drop")) dropped++;
                            return null;
                        });
        StorageEngine engine = proxy(StorageEngine.class, (self, method, arguments) -> store);
        TableGenerations stores =
                TableGenerations.open("t", metadata, () -> engine, List.of(table), Disk.REAL);
        Generation leaving = stores.current();
        assertThat(leaving.writable()).isSameAs(store);
        long departure = stores.migration().begin("rocks");
        assertThat(table.resolve(StoreLocation.NAME)).isDirectory();

        // DROP takes it out of the keyspace first.
        Keyspace keyspace = Hollow.of(Keyspace.class);
        Hollow.set(keyspace, Keyspace.class, "columnFamilyStores", new ConcurrentHashMap<>());
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        EngineMemtable departing = memtable(leaving, departure);
        Tracker tracker = new Tracker(cfs, departing, false);
        Hollow.set(cfs, ColumnFamilyStore.class, "keyspace", keyspace);
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", metadata);
        Hollow.set(cfs, ColumnFamilyStore.class, "name", "t");
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        TableRegistry.put(cfs, stores);
        try {
            Generation next;
            Truncation.begin();
            try {
                next = Objects.requireNonNull(TableLifecycle.next(cfs, ENGINE));
            } finally {
                Truncation.end();
            }
            tracker.switchMemtable(true, memtable(next, 0));
            tracker.markFlushing(departing);
            assertThat(Shadows.of(metadata.id)).isNull();
            // Else no table has memtables, for those who ask.
            Hollow.set(null, DatabaseDescriptor.class, "daemonInitialized", true);
            try {
                SchemaHooks.afterUnload(cfs);
            } finally {
                Hollow.set(null, DatabaseDescriptor.class, "daemonInitialized", false);
            }
        } finally {
            TableRegistry.remove(cfs);
        }
        assertThat(dropped).isEqualTo(1);
        assertThat(tracker.getView().flushingMemtables).isEmpty();
        assertThat(table.resolve(StoreLocation.NAME)).doesNotExist();
    }

    /** Where the schema does not name the engine, as while a migration out of it lasts. */
    @Test
    void whatAnEngineHasLeftInADirectoryThatIsPassedOverIsMissing() throws IOException {
        TableMetadata metadata = TestTables.table("CREATE TABLE t (p int PRIMARY KEY)");
        Path hidden = table.resolve(metadata.getTableDirectoryName());
        Path used = Files.createDirectories(table.resolve("t"));
        Files.createDirectories(hidden);
        assertThat(SchemaHooks.missing(List.of(used), metadata)).isNull();
        Files.createDirectory(hidden.resolve(StoreLocation.NAME));
        assertThat(SchemaHooks.missing(List.of(used), metadata))
                .contains(hidden.toString(), used.toString());
    }
}
