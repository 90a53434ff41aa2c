// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.metrics;

import com.codahale.metrics.Histogram;
import com.codahale.metrics.Snapshot;
import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.host.Host;
import dev.petra.cassandra.migration.Migration;
import dev.petra.cassandra.migration.Migrations;
import dev.petra.cassandra.migration.TableLifecycle;
import dev.petra.cassandra.shadow.Differences;
import dev.petra.cassandra.shadow.Latencies;
import dev.petra.cassandra.shadow.Shadow;
import dev.petra.cassandra.shadow.ShadowStatistics;
import dev.petra.cassandra.shadow.Shadows;
import dev.petra.cassandra.shadow.TableComparison;
import dev.petra.cassandra.shadow.TableComparisons;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.engine.EngineStatistics;
import dev.petra.engine.PurgeProgress;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.BooleanType;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.marshal.DoubleType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.LongType;
import org.apache.cassandra.db.marshal.TimestampType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.virtual.AbstractVirtualTable;
import org.apache.cassandra.db.virtual.SimpleDataSet;
import org.apache.cassandra.db.virtual.VirtualKeyspace;
import org.apache.cassandra.db.virtual.VirtualKeyspaceRegistry;
import org.apache.cassandra.db.virtual.VirtualTable;
import org.apache.cassandra.dht.LocalPartitioner;
import org.apache.cassandra.exceptions.InvalidRequestException;
import org.apache.cassandra.schema.TableMetadata;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The virtual keyspace {@code petra}: what this node's engines and their tables hold and do.
 *
 * <p>Each query reads the metrics anew, of one partition those of that partition only. A table that
 * cannot be used, or has no store yet, has a row that says so, and no metrics.
 */
public final class VirtualTables {
    public static final String KEYSPACE = "petra";

    private static final String TOKEN_RANGE = "token_range";
    private static final String SNAPSHOT = "snapshot";
    private static final String STATE = "state";
    private static final String ANEW = "anew";

    // How long requests took, by side and kind.
    private static final String OF_TABLE = "table_";
    private static final String OF_SHADOW = "shadow_";
    private static final Map<String, Function<ShadowStatistics, Latencies>> LATENCIES =
            Map.of(
                    "read_micros_", statistics -> statistics.reads,
                    "range_micros_", statistics -> statistics.ranges,
                    "write_micros_", statistics -> statistics.writes);
    private static final Map<String, Double> PERCENTILES =
            Map.of("p50", 0.5, "p95", 0.95, "p99", 0.99, "p999", 0.999);
    private static final String MAX = "max";

    private static final Logger logger = LoggerFactory.getLogger(VirtualTables.class);

    private VirtualTables() {}

    /** Registers the virtual tables, unless there is a keyspace of that name. To be called once. */
    public static void register() {
        if (Host.current().keyspace(KEYSPACE) != null) {
            logger.warn(
                    "There is a keyspace '{}', so the engines' virtual tables cannot be seen. Drop"
                            + " that keyspace and restart the node to see them",
                    KEYSPACE);
            return;
        }
        VirtualKeyspaceRegistry.instance.register(
                new VirtualKeyspace(
                        KEYSPACE,
                        List.of(
                                engines(),
                                engineMetrics(),
                                settings(),
                                tables(),
                                metrics(),
                                migrations(),
                                shadow(),
                                shadowDifferences(),
                                comparisons())));
    }

    /** One whose partition key is one text, unless another partitioner is set. */
    private static TableMetadata.Builder table(String name, String comment) {
        return TableMetadata.builder(KEYSPACE, name)
                .comment(comment)
                .partitioner(new LocalPartitioner(UTF8Type.instance))
                .kind(TableMetadata.Kind.VIRTUAL);
    }

    /** The partitions that a query asks for. */
    @FunctionalInterface
    private interface Asked {
        /**
         * @param key of a partition, all of it
         */
        boolean has(String... key);
    }

    private static class Table extends AbstractVirtualTable {
        private final BiConsumer<SimpleDataSet, Asked> rows;

        /**
         * @param rows adds those of partitions that are asked for
         */
        Table(TableMetadata metadata, BiConsumer<SimpleDataSet, Asked> rows) {
            super(metadata);
            this.rows = rows;
        }

        private DataSet data(Asked asked) {
            SimpleDataSet result = new SimpleDataSet(metadata());
            rows.accept(result, asked);
            return result;
        }

        @Override
        public DataSet data() {
            return data(key -> true);
        }

        /** Without this, who asks for one table would have all measured. */
        @Override
        public DataSet data(DecoratedKey partition) {
            List<String> asked = new ArrayList<>();
            if (metadata().partitionKeyType instanceof CompositeType composite)
                for (ByteBuffer part : composite.split(partition.getKey()))
                    asked.add(UTF8Type.instance.compose(part));
            else asked.add(UTF8Type.instance.compose(partition.getKey()));
            return data(key -> asked.equals(List.of(key)));
        }
    }

    private static VirtualTable engines() {
        return new Table(
                table("engines", "storage engines of this node")
                        .addPartitionKeyColumn("engine", UTF8Type.instance)
                        .addRegularColumn("version", UTF8Type.instance)
                        .addRegularColumn("open_tables", Int32Type.instance)
                        .addRegularColumn("memory_bytes", LongType.instance)
                        .addRegularColumn("cache_bytes", LongType.instance)
                        .addRegularColumn("write_buffer_bytes", LongType.instance)
                        .build(),
                (result, asked) ->
                        Engines.forEach(
                                (key, engine) -> {
                                    if (!asked.has(key.toString())) return;
                                    EngineStatistics now = engine.statistics();
                                    result.row(key.toString())
                                            .column("version", engine.version())
                                            .column("open_tables", now.openStores())
                                            .column("memory_bytes", now.memoryBudgetBytes())
                                            .column("cache_bytes", now.cacheBytes())
                                            .column("write_buffer_bytes", now.writeBufferBytes());
                                }));
    }

    private static VirtualTable engineMetrics() {
        return ofEachEngine(
                "engine_metrics",
                "the engines' own metrics, on this node",
                "metric",
                LongType.instance,
                StorageEngine::metrics);
    }

    private static VirtualTable settings() {
        return ofEachEngine(
                "settings",
                "settings in force of this node's storage engines",
                "name",
                UTF8Type.instance,
                StorageEngine::settingsInForce);
    }

    /** A table of what each engine has by name. */
    private static <T> VirtualTable ofEachEngine(
            String name,
            String comment,
            String key,
            AbstractType<T> type,
            Function<StorageEngine, Map<String, T>> values) {
        return new Table(
                table(name, comment)
                        .addPartitionKeyColumn("engine", UTF8Type.instance)
                        .addClusteringColumn(key, UTF8Type.instance)
                        .addRegularColumn("value", type)
                        .build(),
                (result, asked) ->
                        Engines.forEach(
                                (engine, storage) -> {
                                    if (!asked.has(engine.toString())) return;
                                    values.apply(storage)
                                            .forEach(
                                                    (each, value) ->
                                                            result.row(engine.toString(), each)
                                                                    .column("value", value));
                                }));
    }

    static AbstractVirtualTable tables() {
        return new Table(
                table("tables", "tables in storage engines, on this node")
                        .addPartitionKeyColumn("keyspace_name", UTF8Type.instance)
                        .addClusteringColumn("table_name", UTF8Type.instance)
                        .addRegularColumn("generation", LongType.instance)
                        .addRegularColumn("usable", BooleanType.instance)
                        .addRegularColumn("failure", UTF8Type.instance)
                        .addRegularColumn("rows_estimate", LongType.instance)
                        .addRegularColumn("live_bytes", LongType.instance)
                        .addRegularColumn("disk_bytes", LongType.instance)
                        .addRegularColumn("write_buffer_bytes", LongType.instance)
                        .addRegularColumn("pending_compaction_bytes", LongType.instance)
                        .addRegularColumn("writes", LongType.instance)
                        .addRegularColumn("reads", LongType.instance)
                        .addRegularColumn("purge_phase", UTF8Type.instance)
                        .addRegularColumn("purge_done", DoubleType.instance)
                        .addRegularColumn("purge_waits_since", TimestampType.instance)
                        .addRegularColumn("purged", LongType.instance)
                        .build(),
                (result, asked) ->
                        TableRegistry.forEach(
                                (table, stores) -> {
                                    if (asked.has(stores.keyspace()))
                                        addTable(result, table, stores);
                                }));
    }

    @SuppressWarnings("JavaUtilDate") // what Cassandra's type of timestamps is made from
    private static void addTable(SimpleDataSet result, String table, TableGenerations stores) {
        Generation generation = stores.current();
        Throwable failure = stores.failure();
        result.row(stores.keyspace(), table)
                .column("generation", generation.number())
                .column("usable", failure == null);
        if (failure != null) {
            result.column("failure", String.valueOf(failure.getMessage()));
            return;
        }
        withStore(
                generation,
                store -> {
                    StoreStatistics now = store.statistics();
                    PurgeProgress purge = store.purgeProgress();
                    result.column("rows_estimate", now.estimatedKeys())
                            .column("live_bytes", now.liveDataBytes())
                            .column("disk_bytes", now.diskBytes())
                            .column("write_buffer_bytes", now.memoryBytes())
                            .column("pending_compaction_bytes", now.pendingCompactionBytes())
                            .column("writes", now.writes())
                            .column("reads", now.reads())
                            .column("purge_phase", purge.phase().name())
                            .column("purge_done", purge.done())
                            .column("purged", purge.removed());
                    if (purge.waitsSinceSeconds() > 0)
                        result.column(
                                "purge_waits_since", new Date(purge.waitsSinceSeconds() * 1_000));
                });
    }

    static AbstractVirtualTable metrics() {
        return new Table(
                table("metrics", "the engines' own metrics of each table, on this node")
                        .partitioner(
                                new LocalPartitioner(
                                        CompositeType.getInstance(
                                                UTF8Type.instance, UTF8Type.instance)))
                        .addPartitionKeyColumn("keyspace_name", UTF8Type.instance)
                        .addPartitionKeyColumn("table_name", UTF8Type.instance)
                        .addClusteringColumn("metric", UTF8Type.instance)
                        .addRegularColumn("value", LongType.instance)
                        .build(),
                (result, asked) ->
                        TableRegistry.forEach(
                                (table, stores) -> {
                                    if (asked.has(stores.keyspace(), table))
                                        addMetrics(result, table, stores);
                                }));
    }

    private static void addMetrics(SimpleDataSet result, String table, TableGenerations stores) {
        withStore(
                stores.current(),
                store ->
                        store.metrics()
                                .forEach(
                                        (metric, value) ->
                                                result.row(stores.keyspace(), table, metric)
                                                        .column("value", value)));
    }

    private static VirtualTable migrations() {
        return new Table(
                table(
                                "migrations",
                                "tables being migrated into an engine or out of it, on this node")
                        .addPartitionKeyColumn("keyspace_name", UTF8Type.instance)
                        .addClusteringColumn("table_name", UTF8Type.instance)
                        .addClusteringColumn("direction", UTF8Type.instance)
                        .addRegularColumn("done_bytes", LongType.instance)
                        .addRegularColumn("left_bytes", LongType.instance)
                        .addRegularColumn(STATE, UTF8Type.instance)
                        .build(),
                (result, asked) -> {
                    TableLifecycle.forEachWaiting(
                            table -> {
                                String keyspace = table.cfs().getKeyspaceName();
                                if (!asked.has(keyspace)) return;
                                result.row(keyspace, table.cfs().getTableName(), "in")
                                        .column("done_bytes", table.doneBytes())
                                        .column("left_bytes", table.leftBytes())
                                        .column(STATE, table.state());
                            });
                    TableLifecycle.forEachLeaving(
                            (table, generation) -> {
                                String keyspace = table.getKeyspaceName();
                                if (!asked.has(keyspace)) return;
                                result.row(keyspace, table.getTableName(), "out")
                                        .column("done_bytes", 0L)
                                        .column("left_bytes", liveBytes(generation))
                                        .column(
                                                STATE,
                                                "waiting for writes and flushes that began before"
                                                        + " it");
                            });
                    for (Migration migration : Migrations.now()) {
                        if (!asked.has(migration.cfs.getKeyspaceName())) continue;
                        result.row(
                                        migration.cfs.getKeyspaceName(),
                                        migration.cfs.getTableName(),
                                        migration.direction())
                                .column("done_bytes", migration.doneBytes())
                                .column("left_bytes", migration.bytesLeft())
                                .column(STATE, migration.state());
                    }
                });
    }

    private static long liveBytes(Generation generation) {
        return generation.statistic(StoreStatistics::liveDataBytes);
    }

    static AbstractVirtualTable shadow() {
        TableMetadata.Builder table =
                table("shadow", "tables that an engine shadows, on this node")
                        .addPartitionKeyColumn("keyspace_name", UTF8Type.instance)
                        .addClusteringColumn("table_name", UTF8Type.instance)
                        .addRegularColumn("caught_up", BooleanType.instance)
                        .addRegularColumn(STATE, UTF8Type.instance)
                        .addRegularColumn("late_write", UTF8Type.instance)
                        .addRegularColumn("copies", LongType.instance)
                        .addRegularColumn("left_bytes", LongType.instance)
                        .addRegularColumn("queued_writes", LongType.instance)
                        .addRegularColumn("compared", LongType.instance)
                        .addRegularColumn("equal", LongType.instance)
                        .addRegularColumn("different", LongType.instance)
                        .addRegularColumn("undecided", LongType.instance)
                        .addRegularColumn("not_comparable", LongType.instance)
                        .addRegularColumn("passed_over", LongType.instance)
                        .addRegularColumn("answers", UTF8Type.instance)
                        .addRegularColumn("answered", LongType.instance)
                        .addRegularColumn("left_to_table", LongType.instance)
                        .addRegularColumn("table_bytes", LongType.instance)
                        .addRegularColumn("shadow_bytes", LongType.instance)
                        .addRegularColumn("shadow_write_buffer_bytes", LongType.instance)
                        .addRegularColumn("memtable_heap_bytes", LongType.instance)
                        .addRegularColumn("memtable_off_heap_bytes", LongType.instance);
        for (String side : List.of(OF_TABLE, OF_SHADOW))
            for (String kind : LATENCIES.keySet()) {
                for (String name : PERCENTILES.keySet())
                    table.addRegularColumn(side + kind + name, DoubleType.instance);
                table.addRegularColumn(side + kind + MAX, LongType.instance);
            }
        return new ShadowTable(
                table.build(),
                (result, asked) -> {
                    for (Shadow shadow : Shadows.all())
                        if (asked.has(shadow.keyspace())) addShadow(result, shadow);
                });
    }

    /** To set the {@code state} of a shadow to {@code anew} has it made anew. */
    private static final class ShadowTable extends Table {
        ShadowTable(TableMetadata metadata, BiConsumer<SimpleDataSet, Asked> rows) {
            super(metadata, rows);
        }

        @Override
        public void apply(PartitionUpdate update) {
            String keyspace = UTF8Type.instance.compose(update.partitionKey().getKey());
            List<String> tables = new ArrayList<>();
            for (Row row : update) {
                if (!isAnew(row)) throw wrong();
                tables.add(UTF8Type.instance.compose(row.clustering().bufferAt(0)));
            }
            if (tables.isEmpty() || !update.deletionInfo().isLive()) throw wrong();
            for (String table : tables) Shadows.anew(keyspace, table);
        }

        private static boolean isAnew(Row row) {
            List<Cell<?>> cells = new ArrayList<>();
            row.cells().forEach(cells::add);
            return row.deletion().isLive()
                    && cells.size() == 1
                    && !cells.get(0).isTombstone()
                    && cells.get(0).column().name.toString().equals(STATE)
                    && UTF8Type.instance.compose(cells.get(0).buffer()).equals(ANEW);
        }

        private static InvalidRequestException wrong() {
            return new InvalidRequestException(
                    "All that can be written here is a shadow's state = 'anew', which has it made"
                            + " anew");
        }
    }

    private static void addShadow(SimpleDataSet result, Shadow shadow) {
        ShadowStatistics statistics = shadow.statistics();
        Memtable.MemoryUsage memtables = shadow.memtableMemory();
        result.row(shadow.keyspace(), shadow.table())
                .column("caught_up", shadow.isCaughtUp())
                .column(STATE, shadow.state())
                .column("late_write", shadow.lateWrite())
                .column("copies", shadow.copies())
                .column("left_bytes", shadow.bytesLeft())
                .column("queued_writes", shadow.queuedWrites())
                .column("compared", statistics.compared.sum())
                .column("equal", statistics.equal.sum())
                .column("different", statistics.different.sum())
                .column("undecided", statistics.undecided.sum())
                .column("not_comparable", statistics.notComparable.sum())
                .column("passed_over", statistics.passedOver.sum())
                .column("answers", shadow.answers())
                .column("answered", statistics.answered.sum())
                .column("left_to_table", statistics.leftToTable.sum())
                .column("table_bytes", shadow.tableBytes())
                .column("shadow_bytes", shadow.diskBytes())
                .column("shadow_write_buffer_bytes", shadow.writeBufferBytes())
                .column("memtable_heap_bytes", memtables.ownsOnHeap)
                .column("memtable_off_heap_bytes", memtables.ownsOffHeap);
        LATENCIES.forEach(
                (kind, of) -> {
                    Latencies latencies = of.apply(statistics);
                    addTimes(result, OF_TABLE + kind, latencies.tableMicros);
                    addTimes(result, OF_SHADOW + kind, latencies.shadowMicros);
                });
    }

    private static void addTimes(SimpleDataSet result, String prefix, Histogram micros) {
        Snapshot now = micros.getSnapshot();
        PERCENTILES.forEach((name, part) -> result.column(prefix + name, now.getValue(part)));
        result.column(prefix + MAX, now.getMax());
    }

    @SuppressWarnings("JavaUtilDate") // what Cassandra's type of timestamps is made from
    private static VirtualTable shadowDifferences() {
        return new Table(
                table("shadow_differences", "the last differences of tables and their shadows")
                        .addPartitionKeyColumn("keyspace_name", UTF8Type.instance)
                        .addClusteringColumn("table_name", UTF8Type.instance)
                        .addClusteringColumn("number", Int32Type.instance)
                        .addRegularColumn("found_at", TimestampType.instance)
                        .addRegularColumn("kind", UTF8Type.instance)
                        .addRegularColumn("partition_key", UTF8Type.instance)
                        .addRegularColumn("place", UTF8Type.instance)
                        .addRegularColumn("only_in_table", UTF8Type.instance)
                        .addRegularColumn("only_in_shadow", UTF8Type.instance)
                        .build(),
                (result, asked) -> {
                    for (Shadow shadow : Shadows.all()) {
                        if (!asked.has(shadow.keyspace())) continue;
                        int number = 0;
                        for (Differences.Difference each : shadow.differences())
                            result.row(shadow.keyspace(), shadow.table(), ++number)
                                    .column("found_at", new Date(each.atMillis()))
                                    .column("kind", each.kind())
                                    .column("partition_key", each.key())
                                    .column("place", each.where())
                                    .column("only_in_table", each.table())
                                    .column("only_in_shadow", each.shadow());
                    }
                });
    }

    /** Its rows are the comparisons that were begun last; to insert one begins it. */
    private static VirtualTable comparisons() {
        return new Comparisons(
                table("comparisons", "comparisons of whole tables with shadows or snapshots")
                        .addPartitionKeyColumn("keyspace_name", UTF8Type.instance)
                        .addClusteringColumn("table_name", UTF8Type.instance)
                        .addRegularColumn(TOKEN_RANGE, UTF8Type.instance)
                        .addRegularColumn(SNAPSHOT, UTF8Type.instance)
                        .addRegularColumn(STATE, UTF8Type.instance)
                        .addRegularColumn("complete", BooleanType.instance)
                        .addRegularColumn("compared", LongType.instance)
                        .addRegularColumn("equal", LongType.instance)
                        .addRegularColumn("different", LongType.instance)
                        .addRegularColumn("differences", UTF8Type.instance)
                        .addRegularColumn("not_comparable", LongType.instance)
                        .addRegularColumn("not_comparable_because", UTF8Type.instance)
                        .addRegularColumn("tokens_done", DoubleType.instance)
                        .addRegularColumn("started_at", TimestampType.instance)
                        .addRegularColumn("ended_at", TimestampType.instance)
                        .build());
    }

    private static final class Comparisons extends AbstractVirtualTable {
        Comparisons(TableMetadata metadata) {
            super(metadata);
        }

        @Override
        @SuppressWarnings("JavaUtilDate") // what Cassandra's type of timestamps is made from
        public DataSet data() {
            SimpleDataSet result = new SimpleDataSet(metadata());
            for (TableComparison each : TableComparisons.all()) {
                // First, so that the other columns are the last ones if it has ended.
                long endedAt = each.endedAtMillis();
                result.row(each.keyspace(), each.table())
                        .column(TOKEN_RANGE, each.tokenRange())
                        .column(SNAPSHOT, each.snapshot())
                        .column(STATE, each.state())
                        .column("complete", each.isComplete())
                        .column("compared", each.compared())
                        .column("equal", each.equal())
                        .column("different", each.different())
                        .column("differences", each.differences())
                        .column("not_comparable", each.notComparable())
                        .column("not_comparable_because", each.notComparableBecause())
                        .column("tokens_done", each.tokensDone())
                        .column("started_at", new Date(each.startedAtMillis()));
                if (endedAt != 0) result.column("ended_at", new Date(endedAt));
            }
            return result;
        }

        @Override
        public void apply(PartitionUpdate update) {
            String keyspace = UTF8Type.instance.compose(update.partitionKey().getKey());
            if (!update.deletionInfo().isLive()) throw noDeletion();
            for (Row row : update) {
                if (!row.deletion().isLive()) throw noDeletion();
                String range = "";
                String snapshot = "";
                for (Cell<?> cell : row.cells()) {
                    String column = cell.column().name.toString();
                    if (cell.isTombstone()
                            || (!column.equals(TOKEN_RANGE) && !column.equals(SNAPSHOT)))
                        throw new InvalidRequestException(
                                "A comparison is begun with a keyspace_name, a table_name; if not"
                                        + " all is to be compared, a token_range; and if not with"
                                        + " its shadow, a snapshot");
                    String value = UTF8Type.instance.compose(cell.buffer());
                    if (column.equals(SNAPSHOT)) snapshot = value;
                    else range = value;
                }
                String table = UTF8Type.instance.compose(row.clustering().bufferAt(0));
                TableComparisons.begin(keyspace, table, range, snapshot);
            }
        }

        private static InvalidRequestException noDeletion() {
            return new InvalidRequestException("'nodetool stop UNKNOWN' ends a comparison");
        }
    }

    private static void withStore(Generation generation, Consumer<TableStore> use) {
        if (generation.failure() != null) return;
        generation.measure(
                store -> {
                    use.accept(store);
                    return true;
                },
                false);
    }
}
