// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.rocks.db.StoreDirectory;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.rocksdb.PerfContext;

/**
 * Slices of partitions each of which lies in one of 30 files, with all blocks in the cache and with
 * a cache that is too small for them. Prints the processor's time, the median of several rounds,
 * and how many blocks a read asked for and how many of these were not in the cache.
 */
final class SliceBench {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final int FILES = 30;
    private static final int PARTITIONS = 100;
    private static final int ROWS = 120;
    private static final int ROUNDS = 9;
    private static final int READS = 400;

    private static final TableMetadata TABLE =
            Tables.table(
                    "CREATE TABLE t (k text, c int, s text static, v text, PRIMARY KEY (k, c)) WITH"
                            + " compaction = {'class': 'LeveledCompactionStrategy', 'enabled':"
                            + " false} AND bloom_filter_fp_chance = 0.01");

    private final TableStore store;
    private final SplittableRandom random = new SplittableRandom(1);
    private final ColumnFilter all = ColumnFilter.all(TABLE);
    private final ColumnFilter rows =
            ColumnFilter.selectionBuilder().add(TABLE.getColumn(ByteBufferUtil.bytes("v"))).build();

    private SliceBench(TableStore store) {
        this.store = store;
    }

    private interface Read {
        void run();
    }

    /** Runs it. */
    public static void main(String[] args) throws IOException {
        Path directory = Files.createTempDirectory("slice-bench");
        try {
            for (String memory : List.of("1GiB", "16MiB")) run(directory.resolve(memory), memory);
        } finally {
            StoreDirectory.delete(directory);
        }
    }

    private static void run(Path directory, String memory) {
        try (StorageEngine engine =
                Tables.engine(Map.of("memory", memory, "write_buffer", "4MiB"))) {
            SliceBench bench = new SliceBench(Tables.open(engine, directory, TABLE));
            double write = bench.load();
            System.out.printf(
                    "memory %s: %d files, %d B of filters, %.2f us a write%n",
                    memory, FILES, bench.store.fileStatistics().filterBytes(), write);
            bench.measure();
        }
    }

    /** Returns the microseconds a write. */
    private double load() {
        long nanos = 0;
        SplittableRandom text = new SplittableRandom(2);
        for (int file = 0; file < FILES; file++) {
            List<PartitionUpdate> updates = new ArrayList<>();
            for (int k = 0; k < PARTITIONS; k++)
                for (int c = -1; c < ROWS; c++) {
                    var update = Tables.update(TABLE, "k" + file + "-" + k);
                    if (c < 0) update.row().add("s", "static");
                    else update.row(c).add("v", text(text));
                    updates.add(update.build());
                }
            long from = THREADS.getCurrentThreadCpuTime();
            updates.forEach(store::write);
            nanos += THREADS.getCurrentThreadCpuTime() - from;
            store.flush();
        }
        return nanos / 1e3 / ((double) FILES * PARTITIONS * (ROWS + 1));
    }

    /** That does not compress well. */
    private static String text(SplittableRandom random) {
        return Long.toHexString(random.nextLong()).repeat(2)
                + Long.toHexString(random.nextLong())
                + Long.toHexString(random.nextLong());
    }

    private void measure() {
        Map<String, Read> reads = new LinkedHashMap<>();
        reads.put("point read", () -> read(slice(1, true), rows, false));
        for (int count : new int[] {1, 10, 100})
            reads.put("slice, rows " + count, () -> read(slice(count, false), rows, false));
        reads.put("slice, backwards 10", () -> read(slice(10, false), rows, true));
        reads.put("static row", () -> read(Slices.NONE, all, false));
        reads.put(
                "absent partition",
                () -> read("no" + random.nextInt(1 << 20), slice(10, false), rows, false));
        double[][] times = new double[reads.size()][ROUNDS];
        double[] asked = new double[reads.size()];
        double[] missed = new double[reads.size()];
        PerfContext counts = Tables.context(store).database().db.getPerfContext();
        for (int round = -2; round < ROUNDS; round++) {
            int each = 0;
            for (Read read : reads.values()) {
                long hits = counts.getBlockCacheHitCount();
                long misses = counts.getBlockReadCount();
                long from = THREADS.getCurrentThreadCpuTime();
                for (int i = 0; i < READS; i++) read.run();
                long nanos = THREADS.getCurrentThreadCpuTime() - from;
                if (round >= 0) times[each][round] = nanos / 1e3 / READS;
                hits = counts.getBlockCacheHitCount() - hits;
                misses = counts.getBlockReadCount() - misses;
                asked[each] = (double) (hits + misses) / READS;
                missed[each++] = (double) misses / READS;
            }
        }
        int each = 0;
        for (String name : reads.keySet()) {
            Arrays.sort(times[each]);
            System.out.printf(
                    "%-20s %8.1f us (%.1f to %.1f), %.1f blocks, %.1f not in the cache%n",
                    name,
                    times[each][ROUNDS / 2],
                    times[each][0],
                    times[each][ROUNDS - 1],
                    asked[each],
                    missed[each]);
            each++;
        }
    }

    private Slices slice(int rows, boolean whole) {
        Clustering<?> from = clustering(random.nextInt(ROWS - rows));
        Clustering<?> to = clustering(ByteBufferUtil.toInt(from.bufferAt(0)) + rows);
        return Slices.with(
                TABLE.comparator,
                whole
                        ? Slice.make(from)
                        : Slice.make(
                                ClusteringBound.inclusiveStartOf(from),
                                ClusteringBound.exclusiveEndOf(to)));
    }

    private static Clustering<?> clustering(int c) {
        return Clustering.make(ByteBufferUtil.bytes(c));
    }

    private void read(Slices slices, ColumnFilter columns, boolean reversed) {
        String key = "k" + random.nextInt(FILES) + "-" + random.nextInt(PARTITIONS);
        read(key, slices, columns, reversed);
    }

    private void read(String key, Slices slices, ColumnFilter columns, boolean reversed) {
        try (UnfilteredRowIterator found =
                store.read(Tables.key(TABLE, key), slices, columns, reversed)) {
            if (found != null) while (found.hasNext()) found.next();
        }
    }
}
