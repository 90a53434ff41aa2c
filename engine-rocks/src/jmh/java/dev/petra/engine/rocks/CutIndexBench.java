// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import com.sun.management.OperatingSystemMXBean;
import dev.petra.engine.DirectoryTree;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Random;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.Cache;
import org.rocksdb.CompressionType;
import org.rocksdb.FlushOptions;
import org.rocksdb.HyperClockCache;
import org.rocksdb.IndexType;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.Statistics;
import org.rocksdb.TableProperties;
import org.rocksdb.TickerType;
import org.rocksdb.WriteOptions;

/**
 * Point reads of one thread from plain RocksDB with the engine's options for files, with the index
 * and filter of each file whole, and cut into blocks, by the size of the block cache: from one that
 * holds all to one that holds a quarter of the indexes and filters. What is not in the cache comes
 * from the page cache. {@code mvn -pl engine-rocks -am -P index-bench verify -DskipTests}
 */
public final class CutIndexBench {
    private static final int ROWS = Integer.getInteger("bench.rows", 10_000_000);
    private static final int VALUE = Integer.getInteger("bench.value", 100);
    private static final int READS = 200_000;
    private static final double BITS = 9.6;
    private static final int[] CACHE_MIB = {2048, 64, 14, 10, 6, 3};

    private final boolean cut;
    private final Path directory;

    private CutIndexBench(boolean cut, Path directory) {
        this.cut = cut;
        this.directory = directory;
    }

    public static void main(String[] arguments) throws Exception {
        RocksDB.loadLibrary();
        Path root = Files.createTempDirectory("index-bench");
        try {
            CutIndexBench whole = new CutIndexBench(false, root.resolve("whole"));
            CutIndexBench parts = new CutIndexBench(true, root.resolve("cut"));
            whole.fill();
            parts.fill();
            for (int mib : CACHE_MIB)
                for (int round = 0; round < 2; round++) {
                    whole.read(mib);
                    parts.read(mib);
                }
        } finally {
            DirectoryTree.delete(root);
        }
    }

    private interface Body {
        void run(RocksDB db) throws RocksDBException;
    }

    private void open(Cache cache, Statistics statistics, Body body) throws RocksDBException {
        try (BloomFilter filter = new BloomFilter(BITS, false);
                Options options =
                        new Options()
                                .setCreateIfMissing(true)
                                .setStatistics(statistics)
                                .setLevelCompactionDynamicLevelBytes(true)
                                .setCompressionType(CompressionType.LZ4_COMPRESSION)
                                .setTableFormatConfig(
                                        new BlockBasedTableConfig()
                                                .setBlockCache(cache)
                                                .setFilterPolicy(filter)
                                                .setFormatVersion(6)
                                                .setBlockSize(16 << 10)
                                                .setOptimizeFiltersForMemory(true)
                                                .setCacheIndexAndFilterBlocks(true)
                                                .setCacheIndexAndFilterBlocksWithHighPriority(true)
                                                .setPinTopLevelIndexAndFilter(true)
                                                .setMetadataBlockSize(4 << 10)
                                                .setIndexType(
                                                        cut
                                                                ? IndexType.kTwoLevelIndexSearch
                                                                : IndexType.kBinarySearch)
                                                .setPartitionFilters(cut));
                RocksDB db = RocksDB.open(options, directory.toString())) {
            body.run(db);
        }
    }

    private void fill() throws RocksDBException {
        try (Cache cache = cache(64);
                Statistics statistics = new Statistics();
                WriteOptions unlogged = new WriteOptions().setDisableWAL(true);
                FlushOptions flush = new FlushOptions()) {
            open(
                    cache,
                    statistics,
                    db -> {
                        Random random = new Random(1);
                        byte[] value = new byte[VALUE];
                        for (int i = 0; i < ROWS; i++) {
                            random.nextBytes(value);
                            db.put(unlogged, key(i), value);
                        }
                        db.flush(flush);
                        db.compactRange();
                        long index = 0;
                        long filter = 0;
                        long data = 0;
                        for (TableProperties file : db.getPropertiesOfAllTables().values()) {
                            index += file.getIndexSize();
                            filter += file.getFilterSize();
                            data += file.getDataSize();
                        }
                        System.out.printf(
                                Locale.ROOT,
                                "%s: data %d MiB, index %.2f %% of it, filter %.2f %%%n",
                                name(),
                                data >> 20,
                                100.0 * index / data,
                                100.0 * filter / data);
                    });
        }
    }

    private void read(int mib) throws RocksDBException {
        try (Cache cache = cache(mib);
                Statistics statistics = new Statistics()) {
            open(
                    cache,
                    statistics,
                    db -> {
                        Random random = new Random(2);
                        // Until a large cache holds all.
                        read(db, random, (mib > 1024 ? 10 : 1) * READS);
                        statistics.reset();
                        long cpu = cpu();
                        read(db, random, READS);
                        System.out.printf(
                                Locale.ROOT,
                                "%s, cache %d MiB: %.1f us of processor a read; fetched a read:"
                                        + " index %d B, filter %d B, data %d B%n",
                                name(),
                                mib,
                                (cpu() - cpu) / 1e3 / READS,
                                a(statistics, TickerType.BLOCK_CACHE_INDEX_BYTES_INSERT),
                                a(statistics, TickerType.BLOCK_CACHE_FILTER_BYTES_INSERT),
                                a(statistics, TickerType.BLOCK_CACHE_DATA_BYTES_INSERT));
                    });
        }
    }

    private static void read(RocksDB db, Random random, int times) throws RocksDBException {
        for (int i = 0; i < times; i++)
            if (db.get(key(random.nextInt(ROWS))) == null) throw new IllegalStateException();
    }

    private static long a(Statistics statistics, TickerType ticker) {
        return statistics.getTickerCount(ticker) / READS;
    }

    private static Cache cache(int mib) {
        return new HyperClockCache((long) mib << 20, 0, -1, false);
    }

    private String name() {
        return cut ? "cut" : "whole";
    }

    private static long cpu() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    /** In the order of tokens, which are as good as random. */
    private static byte[] key(int i) {
        return ByteBuffer.allocate(20)
                .putLong(i * 0x9E3779B97F4A7C15L)
                .putInt(i)
                .putLong(i)
                .array();
    }
}
