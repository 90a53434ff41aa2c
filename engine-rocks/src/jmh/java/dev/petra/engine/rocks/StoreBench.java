// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.host.Liveness;
import dev.petra.engine.rocks.db.StoreDirectory;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.KeyKind;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;
import org.openjdk.jmh.infra.Blackhole;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;

/**
 * The store against bare RocksDB, on the same database and the same keys: what the layers between
 * cost. Run {@code main}, with the number of threads as the argument.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 2)
@Measurement(iterations = 5, time = 2)
@Fork(1)
public class StoreBench {
    private static final int PARTITIONS = 100_000;
    private static final int WIDE_ROWS = 10_000;
    private static final int SLICE = 100;
    private static final int TEXT = 150;

    private final TableMetadata emp =
            Tables.table(
                    "CREATE TABLE emp (emp_uname text PRIMARY KEY, emp_dept text, emp_first text,"
                            + " emp_last text, emp_more text)");
    private final TableMetadata series =
            Tables.table("CREATE TABLE series (k text, c int, v text, PRIMARY KEY (k, c))");
    private final ColumnFilter allOfEmp = ColumnFilter.all(emp);
    private final ColumnFilter allOfSeries = ColumnFilter.all(series);

    private Path directory;
    private StorageEngine engine;
    private TableStore empStore;
    private TableStore seriesStore;
    private TableStore deletedStore;
    private TableStore deletedUnflushedStore;
    private List<DecoratedKey> keys;
    private byte[][] rawKeys;
    private byte[] rawValue;
    private List<ColumnMetadata> columns;
    private DecoratedKey wide;
    private byte[] widePrefix;
    private ReadOptions readOptions;
    private WriteOptions writeOptions;

    /** Buffers of one thread. */
    @State(Scope.Thread)
    public static class Buffers {
        final ByteBuffer key = ByteBuffer.allocateDirect(1 << 10);
        final ByteBuffer value = ByteBuffer.allocateDirect(16 << 10);
        final WriteBatch batch = new WriteBatch();
    }

    /** Loads both tables, flushes and compacts them, and reads all once. */
    @Setup(Level.Trial)
    public void load() throws IOException, RocksDBException {
        directory = Files.createTempDirectory("store-bench");
        engine = Tables.engine(Map.of("memory", "1GiB"));
        empStore = Tables.open(engine, directory.resolve("emp"), emp);
        seriesStore = Tables.open(engine, directory.resolve("series"), series);
        columns = new ArrayList<>();
        emp.regularColumns().forEach(columns::add);
        keys = new ArrayList<>();
        rawKeys = new byte[PARTITIONS][];
        for (int i = 0; i < PARTITIONS; i++) {
            DecoratedKey key = Tables.key(emp, "user" + i);
            keys.add(key);
            empStore.write(row(key, i));
            ByteSink sink = new ByteSink();
            Tables.context(empStore).partitionKeys().put(sink, key);
            sink.put(KeyKind.ROW);
            sink.put(0x38);
            rawKeys[i] = sink.copy(0, sink.position());
        }
        wide = Tables.key(series, "wide");
        for (int i = 0; i < WIDE_ROWS; i++) {
            var update = Tables.update(series, "wide");
            update.row(i).add("v", "x".repeat(100));
            seriesStore.write(update.build());
        }
        ByteSink sink = new ByteSink();
        Tables.context(seriesStore).partitionKeys().put(sink, wide);
        sink.put(KeyKind.ROW);
        widePrefix = sink.copy(0, sink.position());
        deletedStore = deleted("deleted");
        deletedUnflushedStore = deleted("unflushed");
        for (TableStore store : List.of(empStore, seriesStore, deletedStore)) {
            store.flush();
            store.compact(List.of());
        }
        rawValue = Tables.context(empStore).database().db.get(rawKeys[0]);
        readOptions = new ReadOptions();
        writeOptions = new WriteOptions();
    }

    /** A queue: written and deleted, one by one. */
    private TableStore deleted(String name) {
        TableStore store = Tables.open(engine, directory.resolve(name), series);
        for (int i = 0; i < WIDE_ROWS; i++) {
            var written = Tables.update(series, "wide").timestamp(i);
            written.row(i).add("v", "x".repeat(100));
            store.write(written.build());
            var gone = Tables.update(series, "wide").timestamp(i + 1);
            gone.row(i).delete();
            store.write(gone.build());
        }
        return store;
    }

    private PartitionUpdate row(DecoratedKey key, int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        var row = BTreeRow.sortedBuilder();
        row.newRow(Clustering.EMPTY);
        row.addPrimaryKeyLivenessInfo(Liveness.create(seed, LivenessInfo.NO_TTL, 0));
        for (ColumnMetadata column : columns) {
            byte[] text = new byte[TEXT];
            for (int i = 0; i < TEXT; i++) text[i] = (byte) ('a' + random.nextInt(26));
            row.addCell(BufferCell.live(column, seed, ByteBuffer.wrap(text)));
        }
        return PartitionUpdate.singleRowUpdate(emp, key, row.build());
    }

    @TearDown(Level.Trial)
    public void close() {
        readOptions.close();
        writeOptions.close();
        engine.close();
        StoreDirectory.delete(directory);
    }

    @Benchmark
    public int readRowStore() {
        DecoratedKey key = keys.get(ThreadLocalRandom.current().nextInt(PARTITIONS));
        int bytes = 0;
        try (UnfilteredRowIterator rows = empStore.read(key, Slices.ALL, allOfEmp, false)) {
            Row row = (Row) rows.next();
            for (Cell<?> cell : row.cells()) bytes += cell.valueSize();
        }
        return bytes;
    }

    @Benchmark
    public int readRowBare(Buffers buffers) throws RocksDBException {
        byte[] key = rawKeys[ThreadLocalRandom.current().nextInt(PARTITIONS)];
        RocksDB db = Tables.context(empStore).database().db;
        return db.get(
                Tables.context(empStore).database().data,
                readOptions,
                buffers.key.clear().put(key).flip(),
                buffers.value.clear());
    }

    @Benchmark
    public void writeRowStore(Prepared prepared) {
        empStore.write(prepared.next());
    }

    @Benchmark
    public void writeRowBare(Buffers buffers) throws RocksDBException {
        byte[] key = rawKeys[ThreadLocalRandom.current().nextInt(PARTITIONS)];
        buffers.batch.clear();
        buffers.batch.merge(key, rawValue);
        Tables.context(empStore).database().db.write(writeOptions, buffers.batch);
    }

    /** Updates made before, so that only the store's part is measured. */
    @State(Scope.Thread)
    public static class Prepared {
        private final List<PartitionUpdate> updates = new ArrayList<>();
        private int next;

        @Setup(Level.Trial)
        public void prepare(StoreBench bench) {
            for (int i = 0; i < 10_000; i++)
                updates.add(
                        bench.row(
                                bench.keys.get(ThreadLocalRandom.current().nextInt(PARTITIONS)),
                                i));
        }

        PartitionUpdate next() {
            next = (next + 1) % updates.size();
            return updates.get(next);
        }
    }

    @Benchmark
    @OperationsPerInvocation(SLICE)
    public void sliceStore(Blackhole hole) {
        int from = ThreadLocalRandom.current().nextInt(WIDE_ROWS - SLICE);
        Slice slice =
                Slice.make(
                        ClusteringBound.inclusiveStartOf(
                                Clustering.make(ByteBufferUtil.bytes(from))),
                        ClusteringBound.exclusiveEndOf(
                                Clustering.make(ByteBufferUtil.bytes(from + SLICE))));
        Slices slices = Slices.with(series.comparator, slice);
        try (UnfilteredRowIterator rows = seriesStore.read(wide, slices, allOfSeries, false)) {
            while (rows.hasNext()) hole.consume(rows.next());
        }
    }

    @Benchmark
    @OperationsPerInvocation(SLICE)
    public void sliceBare(Buffers buffers, Blackhole hole) {
        int from = ThreadLocalRandom.current().nextInt(WIDE_ROWS - SLICE);
        RocksDB db = Tables.context(seriesStore).database().db;
        try (RocksIterator it =
                db.newIterator(Tables.context(seriesStore).database().data, readOptions)) {
            buffers.key.clear().put(widePrefix).put((byte) 0x40).putInt(from ^ Integer.MIN_VALUE);
            it.seek(buffers.key.flip());
            for (int i = 0; i < SLICE && it.isValid(); i++, it.next()) {
                hole.consume(it.key(buffers.key.clear()));
                hole.consume(it.value(buffers.value.clear()));
            }
        }
    }

    @Benchmark
    @OperationsPerInvocation(WIDE_ROWS)
    public void sliceDeleted(Blackhole hole) {
        all(deletedStore, hole);
    }

    @Benchmark
    @OperationsPerInvocation(WIDE_ROWS)
    public void sliceDeletedUnflushed(Blackhole hole) {
        all(deletedUnflushedStore, hole);
    }

    private void all(TableStore store, Blackhole hole) {
        try (UnfilteredRowIterator rows = store.read(wide, Slices.ALL, allOfSeries, false)) {
            while (rows.hasNext()) hole.consume(rows.next());
        }
    }

    /** Runs with the number of threads given, 1 by default. */
    public static void main(String[] args) throws RunnerException {
        new Runner(
                        new OptionsBuilder()
                                .include(StoreBench.class.getSimpleName())
                                .threads(args.length > 0 ? Integer.parseInt(args[0]) : 1)
                                .addProfiler(GCProfiler.class)
                                .build())
                .run();
    }
}
