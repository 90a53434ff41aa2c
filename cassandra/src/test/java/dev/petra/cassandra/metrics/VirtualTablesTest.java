// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.metrics;

import static dev.petra.cassandra.Hollow.proxy;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.common.collect.Iterators;
import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.engine.PurgeProgress;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.cql3.statements.schema.CreateTableStatement;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.virtual.AbstractVirtualTable;
import org.apache.cassandra.exceptions.InvalidRequestException;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class VirtualTablesTest {
    @TempDir Path directory;

    private final List<ColumnFamilyStore> registered = new ArrayList<>();

    /** The tables that were measured. */
    private final List<String> measured = new ArrayList<>();

    private Object measure(String table, Object result) {
        measured.add(table);
        return result;
    }

    private void register(String keyspace, String table) throws IOException {
        String name = keyspace + "." + table;
        String id = "11111111-2222-3333-4444-55555555555" + registered.size();
        TableMetadataRef metadata =
                TableMetadataRef.forOfflineTools(
                        CreateTableStatement.parse(
                                        "CREATE TABLE " + table + " (p int PRIMARY KEY)", keyspace)
                                .id(TableId.fromString(id))
                                .build());
        TableStore store =
                proxy(
                        TableStore.class,
                        (self, method, arguments) ->
                                switch (method.getName()) {
                                    case "metrics" -> measure(name, Map.of("files", 1L));
                                    case "statistics" ->
                                            measure(
                                                    name,
                                                    new StoreStatistics(1, 1, 1, 1, 0, 0, 0, 0));
                                    case "purgeProgress" -> PurgeProgress.NONE;
                                    default -> null;
                                });
        StorageEngine engine = proxy(StorageEngine.class, (self, method, arguments) -> store);
        TableGenerations stores =
                TableGenerations.open(
                        table,
                        metadata,
                        () -> engine,
                        List.of(Files.createDirectory(directory.resolve(name))),
                        Disk.REAL);
        assertThat(stores.current().writable()).isSameAs(store);
        ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", metadata);
        Hollow.set(cfs, ColumnFamilyStore.class, "name", table);
        TableRegistry.put(cfs, stores);
        registered.add(cfs);
    }

    @BeforeEach
    void registerTables() throws IOException {
        // Without it, Cassandra has no partitioner.
        assertThat(TestTables.reference()).isNotNull();
        register("one", "t");
        register("one", "u");
        register("other", "t");
        measured.clear();
    }

    @AfterEach
    void forgetTables() {
        registered.forEach(TableRegistry::remove);
    }

    private static int rows(AbstractVirtualTable table, ByteBuffer key) {
        int rows = 0;
        try (UnfilteredPartitionIterator partitions =
                table.select(
                        table.metadata().partitioner.decorateKey(key),
                        new ClusteringIndexSliceFilter(Slices.ALL, false),
                        ColumnFilter.all(table.metadata()))) {
            while (partitions.hasNext())
                try (UnfilteredRowIterator partition = partitions.next()) {
                    rows += Iterators.size(partition);
                }
        }
        return rows;
    }

    /** A query for one table, every few seconds, had each of a thousand tables measured. */
    @Test
    void whoAsksForTheMetricsOfOneTableHasNoOtherMeasured() {
        CompositeType key = CompositeType.getInstance(UTF8Type.instance, UTF8Type.instance);
        assertThat(rows(VirtualTables.metrics(), key.decompose("one", "u"))).isEqualTo(1);
        assertThat(measured).containsExactly("one.u");
        assertThat(rows(VirtualTables.metrics(), key.decompose("other", "u"))).isZero();
        assertThat(measured).containsExactly("one.u");
    }

    @Test
    void whoAsksForTheTablesOfAKeyspaceHasNoOtherMeasured() {
        assertThat(rows(VirtualTables.tables(), UTF8Type.instance.decompose("one"))).isEqualTo(2);
        assertThat(measured).containsExactlyInAnyOrder("one.t", "one.u");
    }

    /** A shadow is made anew by one statement, and by no other. */
    @Test
    void ofShadowsNothingElseCanBeWritten() {
        AbstractVirtualTable shadow = VirtualTables.shadow();
        PartitionUpdate.SimpleBuilder other =
                PartitionUpdate.simpleBuilder(shadow.metadata(), "ks");
        other.row("t").add("state", "caught up");
        PartitionUpdate.SimpleBuilder more = PartitionUpdate.simpleBuilder(shadow.metadata(), "ks");
        more.row("t").add("state", "anew").add("different", 0L);
        PartitionUpdate.SimpleBuilder deleted =
                PartitionUpdate.simpleBuilder(shadow.metadata(), "ks");
        deleted.row("t").delete();
        PartitionUpdate.SimpleBuilder all = PartitionUpdate.simpleBuilder(shadow.metadata(), "ks");
        all.delete();
        for (PartitionUpdate.SimpleBuilder each : List.of(other, more, deleted, all)) {
            PartitionUpdate update = each.build();
            assertThatThrownBy(() -> shadow.apply(update))
                    .isInstanceOf(InvalidRequestException.class)
                    .hasMessageContaining("state = 'anew'");
        }
    }

    /** Each column that {@code docs/operations.md} has for operators. */
    @Test
    void aShadowHasLatenciesOfBothSidesForEachKindOfRequest() {
        List<String> expected = new ArrayList<>();
        for (String side : List.of("table", "shadow"))
            for (String kind : List.of("read", "range", "write"))
                for (String part : List.of("p50", "p95", "p99", "p999", "max"))
                    expected.add(side + "_" + kind + "_micros_" + part);
        List<String> columns = new ArrayList<>();
        for (ColumnMetadata column : VirtualTables.shadow().metadata().regularColumns())
            columns.add(column.name.toString());
        assertThat(columns)
                .filteredOn(name -> name.contains("_micros_"))
                .containsExactlyInAnyOrderElementsOf(expected);
        assertThat(columns)
                .contains(
                        "table_bytes",
                        "shadow_bytes",
                        "memtable_heap_bytes",
                        "memtable_off_heap_bytes",
                        "shadow_write_buffer_bytes");
    }

    @Test
    void whoAsksForAllHasAllMeasured() {
        assertThat(VirtualTables.metrics().data().isEmpty()).isFalse();
        assertThat(measured).containsExactlyInAnyOrder("one.t", "one.u", "other.t");
    }
}
