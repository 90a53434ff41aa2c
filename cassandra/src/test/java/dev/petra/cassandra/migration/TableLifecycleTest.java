// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import static dev.petra.cassandra.Hollow.proxy;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.codahale.metrics.Counter;
import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.engine.OpenEngines;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.cassandra.table.Truncation;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.view.TableViews;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.metrics.TableMetrics;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

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
        stores = TestTables.withoutEngine(metadata, table);
        Keyspace keyspace = Hollow.of(Keyspace.class);
        Hollow.set(keyspace, Keyspace.class, "columnFamilyStores", tables);
        Hollow.set(cfs, ColumnFamilyStore.class, "keyspace", keyspace);
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", metadata);
        Hollow.set(cfs, ColumnFamilyStore.class, "name", "t");
        Hollow.set(cfs, ColumnFamilyStore.class, "data", Tracker.newDummyTracker());
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

    /** A switch that cannot succeed would be a flush for nothing. */
    @Test
    void aTableThatLeavesIsNotPreparedToComeBackBeforeThatCanBeNoted() throws IOException {
        long out = stores.migration().begin("rocks");
        Path inTheWay = Files.createDirectories(table.resolve("rocksdb/MOVING.next"));
        assertThatThrownBy(() -> TableLifecycle.prepareArrival(cfs, ENGINE))
                .isInstanceOf(FSWriteError.class);
        Files.delete(inTheWay);
        TableLifecycle.prepareArrival(cfs, ENGINE);
        assertThat(stores.migration().isCurrent(out)).isTrue();
    }

    /** A table without anything in an engine. */
    private void leaveEngine() {
        TableRegistry.remove(cfs);
        Directories directories = Hollow.of(Directories.class);
        Hollow.set(directories, Directories.class, "dataPaths", new File[] {new File(table)});
        TableViews views = Hollow.of(TableViews.class);
        Hollow.set(views, TableViews.class, "views", List.of());
        Hollow.set(cfs, ColumnFamilyStore.class, "directories", directories);
        Hollow.set(cfs, ColumnFamilyStore.class, "viewManager", views);
    }

    /** The folders that are some table's. */
    private static Set<Path> owned() throws ReflectiveOperationException {
        Field owners =
                Class.forName(TableGenerations.class.getPackageName() + ".StoreFolders")
                        .getDeclaredField("owners");
        owners.setAccessible(true);
        Set<Path> owned = new HashSet<>();
        for (Object folder : ((Map<?, ?>) owners.get(null)).keySet()) owned.add((Path) folder);
        return owned;
    }

    /** Nobody could have used it before a restart, though all of it is in Cassandra's storage. */
    @ParameterizedTest
    @ValueSource(strings = {"rocksdb/MOVING.next", "rocksdb/7"})
    void aTableWhoseWayIntoAnEngineCannotBeginStaysWhereItIs(String obstacle) throws Exception {
        leaveEngine();
        Path inTheWay = Files.createDirectories(table.resolve(obstacle));
        assertThat(TableLifecycle.next(cfs, ENGINE)).isNull();
        assertThat(TableRegistry.contains(cfs)).isFalse();
        assertThatThrownBy(() -> TableLifecycle.prepareArrival(cfs, ENGINE))
                .isInstanceOfAny(FSWriteError.class, IllegalStateException.class);
        // Nobody would forget it if the table were dropped now.
        assertThat(owned()).noneMatch(folder -> folder.startsWith(table));
        Files.delete(inTheWay);
        // A flush may have asked, or TRUNCATE or DROP.
        assertThat(TableLifecycle.next(cfs, ENGINE)).isNull();
        TableLifecycle.prepareArrival(cfs, ENGINE);
        assertThat(TableRegistry.contains(cfs)).isFalse();
        assertThat(TableLifecycle.next(cfs, ENGINE)).isNotNull();
        TableGenerations arriving = Objects.requireNonNull(TableRegistry.find(cfs));
        assertThat(arriving.migration().isUnderWay()).isTrue();
        // The one that has begun ends with its next step, as by an ALTER back.
        assertThat(arriving.migration().begin("rocks")).isEqualTo(2);
    }

    /** It was opened every half a minute to be looked at, which replays and writes. */
    @Test
    void whatIsInTheWayIsNotOpenedAgainUntilItIsAnother() throws Exception {
        leaveEngine();
        AtomicInteger opened = new AtomicInteger();
        TableStore store =
                proxy(
                        TableStore.class,
                        (self, method, arguments) ->
                                method.getName().equals("isEmpty") ? false : null);
        EngineKey engine = new EngineKey("counted", new EngineSettings(Map.of()));
        Map<EngineKey, StorageEngine> engines = OpenEngines.map();
        engines.put(
                engine,
                proxy(
                        StorageEngine.class,
                        (self, method, arguments) -> {
                            if (!method.getName().equals("openStore")) return null;
                            opened.incrementAndGet();
                            return store;
                        }));
        try {
            Path generation = Files.createDirectories(table.resolve("rocksdb/1"));
            Files.writeString(table.resolve("rocksdb/LIVE"), "1\n");
            assertThat(TableLifecycle.next(cfs, engine)).isNull();
            for (int time = 0; time < 2; time++) isInTheWay(engine);
            assertThat(opened).hasValue(1);
            // As with the whole folder: what is said to be there would be missing.
            Path created = table.resolve("rocksdb/CREATED");
            Files.delete(created);
            Files.move(generation, table.resolve("elsewhere"));
            Files.createDirectory(generation);
            for (int time = 0; time < 2; time++) isInTheWay(engine);
            assertThat(opened).hasValue(2);
            Files.delete(created);
            Files.delete(generation);
            TableLifecycle.prepareArrival(cfs, engine);
            assertThat(opened).hasValue(2);
        } finally {
            engines.remove(engine);
        }
    }

    private void isInTheWay(EngineKey engine) {
        assertThatThrownBy(() -> TableLifecycle.prepareArrival(cfs, engine))
                .hasMessageContaining("There was data of an engine already");
    }

    /** Its migration never ended, and the commit log had each write, until its disk was full. */
    @Test
    void aTableWithAMemtableThatCouldNotBeFlushedStaysWhereItIs() {
        leaveEngine();
        Memtable failed = cassandras(new AtomicBoolean());
        cfs.getTracker().reset(cassandras(new AtomicBoolean()));
        Hollow.set(cfs.getTracker().getView(), View.class, "flushingMemtables", List.of(failed));
        TableMetrics metrics = Hollow.of(TableMetrics.class);
        Counter flushes = new Counter();
        Hollow.set(metrics, TableMetrics.class, "pendingFlushes", flushes);
        // Of the table's end.
        for (String counted : List.of("liveDiskSpaceUsed", "totalDiskSpaceUsed"))
            Hollow.set(metrics, TableMetrics.class, counted, new Counter());
        Hollow.set(cfs, ColumnFamilyStore.class, "metric", metrics);
        // Cassandra counts the flush for which it asks.
        flushes.inc();
        assertThat(TableLifecycle.next(cfs, ENGINE)).isNull();
        flushes.dec();
        assertThatThrownBy(() -> TableLifecycle.prepareArrival(cfs, ENGINE))
                .hasMessageContaining("A flush of ks.t has failed")
                .hasMessageContaining("restart the node, then the table goes in by itself");
        assertThat(table.resolve("rocksdb")).doesNotExist();
        // Were it being flushed, it would be gone in a moment.
        flushes.inc();
        TableLifecycle.prepareArrival(cfs, ENGINE);
        flushes.inc();
        assertThat(TableLifecycle.next(cfs, ENGINE)).isNotNull();
        // The migration that has begun ends with its next step, as by an ALTER back.
        assertThat(Objects.requireNonNull(TableRegistry.find(cfs)).migration().begin("rocks"))
                .isEqualTo(2);
    }

    /** It waited up to half a minute, with the reason of the former ALTER. */
    @Test
    void aTableThatIsAlteredBackAndInAgainDoesNotWait() throws IOException {
        leaveEngine();
        AtomicBoolean isAltered = new AtomicBoolean(true);
        cfs.getTracker().reset(cassandras(isAltered));
        Path inTheWay = Files.createDirectories(table.resolve("rocksdb/MOVING.next"));
        assertThat(TableLifecycle.next(cfs, ENGINE)).isNull();
        Files.delete(inTheWay);
        // The next memtable was made by that ALTER, and is flushed.
        isAltered.set(false);
        assertThat(TableLifecycle.next(cfs, ENGINE)).isNull();
        isAltered.set(true);
        assertThat(TableLifecycle.next(cfs, ENGINE)).isNotNull();
        // The migration that has begun ends with its next step, as by an ALTER back.
        assertThat(Objects.requireNonNull(TableRegistry.find(cfs)).migration().begin("rocks"))
                .isEqualTo(2);
    }

    /**
     * A memtable of Cassandra's own.
     *
     * @param isAltered whether the schema is another than when it was made
     */
    private static Memtable cassandras(AtomicBoolean isAltered) {
        return proxy(
                Memtable.class,
                (self, method, arguments) ->
                        switch (method.getName()) {
                            case "shouldSwitch" -> isAltered.get();
                            case "equals" -> self == arguments[0];
                            case "hashCode" -> 1;
                            default -> throw new UnsupportedOperationException(method.getName());
                        });
    }
}
