// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.rocks.format.PartitionKeys;
import dev.petra.engine.rocks.nativelib.Reconciler;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.ChecksumType;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.CompactionOptionsUniversal;
import org.rocksdb.CompressionOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.Env;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.WALRecoveryMode;

/**
 * RocksDB's options for one store. Everything that matters is set here and nowhere else, since
 * RocksDB's defaults differ between versions. Owns the native option objects.
 */
public final class TableOptions {
    static final byte[] CATALOG = "catalog".getBytes(StandardCharsets.UTF_8);
    static final byte[] LARGE = "large".getBytes(StandardCharsets.UTF_8);
    static final byte[] INDEX = "index".getBytes(StandardCharsets.UTF_8);

    /**
     * How often a key may be merged in the write buffer before the write itself reconciles it: so
     * many fragments a read may meet there, and no more.
     */
    public static final String MERGE_LIMIT = "max_successive_merges";

    /** As long as no large rows are written bit by bit. */
    public static final int LEAST_MERGE_LIMIT = 64;

    /**
     * The write buffers of a table at once: one is written to, the others are being flushed. From 4
     * on RocksDB would slow writers down before the last is full.
     */
    private static final int WRITE_BUFFERS = 3;

    /** As many write buffers' worth of log is kept at most; more than {@link #WRITE_BUFFERS}. */
    private static final int LOGS = 4;

    private static final long BLOB_FILE_BYTES = 64 << 20;
    public static final double BLOB_AGE_CUTOFF = 0.5;
    private static final double BLOB_GARBAGE = 0.5;

    /**
     * The share of a full write buffer that a filter on its keys takes. It is there from the first
     * row on, so only a table that fills its buffers has one.
     */
    public static final String BUSY_FILTER = "memtable_prefix_bloom_size_ratio";

    public static final double BUSY_FILTER_RATIO = 0.02;

    /** A write buffer grows by these: one row takes one. RocksDB's own would be a MiB. */
    private static final long LARGEST_ARENA_BLOCK = 64 << 10;

    private static final long SMALLEST_ARENA_BLOCK = 4 << 10;

    private static final long CATALOG_BUFFER = 64 << 10;

    /** Of files in level 0. */
    private static final int NO_LIMIT = 1 << 30;

    private static final int INDEX_PART_BYTES = 4 << 10;

    /** Where that of indexes is among the column families, if it is. */
    static final int INDEX_AT = 3;

    private static final int FORMAT_VERSION = 6;
    private static final long BYTES_PER_SYNC = 1 << 20;

    /** Or a few times what it takes to name all files, where that is more. */
    private static final long MANIFEST_BYTES = 4 << 20;

    final DBOptions database;
    final StoreLog log;
    final List<ColumnFamilyDescriptor> columnFamilies = new ArrayList<>();
    private final List<AutoCloseable> owned = new ArrayList<>();

    /**
     * @param name of the table, for its log
     * @param clustered whether a partition may have several rows: filters know partitions then
     * @param direct whether data files are read past the page cache
     * @param indexed whether there is a column family of indexes
     * @param logged whether what is written goes to the log
     * @param create whether there must be no database yet; otherwise there must be one
     */
    TableOptions(
            String name,
            SharedResources resources,
            Reconciler reconciler,
            FileOptions files,
            boolean clustered,
            boolean direct,
            boolean indexed,
            boolean logged,
            boolean create) {
        RocksSettings settings = resources.settings();
        this.database =
                own(newDatabaseOptions())
                        .setCreateIfMissing(create)
                        // Stores of format 1 have no column family for large cells; that of
                        // indexes is missing if a crash came before it was made.
                        .setCreateMissingColumnFamilies(true)
                        .setErrorIfExists(create)
                        .setEnv(Env.getDefault())
                        .setParanoidChecks(true)
                        .setWriteBufferManager(resources.writeBuffers())
                        .setRateLimiter(resources.limiter())
                        .setMaxBackgroundJobs(settings.backgroundThreads() + 1)
                        // Every file's index is at hand; range deletions need it too.
                        .setMaxOpenFiles(-1)
                        // A prefix of what was written, whatever the disk kept of the rest; that
                        // it is not less than what was synced, LogCheck has looked at before.
                        .setWalRecoveryMode(WALRecoveryMode.PointInTimeRecovery)
                        // A missing file is an error, and not left out.
                        .setBestEffortsRecovery(false)
                        // A sync of a log that is written over is cheaper, since the file system
                        // has no new blocks to note. But each page of it that memory no longer
                        // has is read first, while all other writers wait: 30 µs a write instead
                        // of 3. So only where each write waits for a sync. Recovery tells old
                        // records from new ones by the log's number in each, and that nothing is
                        // missing between two logs by their sequence numbers: what takes one that
                        // is not in the log, an ingest, flushes the logs before. A write that is
                        // never in the log is refused then.
                        .setRecycleLogFileNum(
                                logged && resources.eachWriteSynced().getAsBoolean() ? 1 : 0)
                        // Else RocksDB flushes what is not in the log when it is closed, also for a
                        // store that is dropped, and ignores its error.
                        .setAvoidFlushDuringShutdown(true)
                        // A log as large as a write buffer, reserved at once, is 75 MB for each
                        // table that takes one row.
                        .setAllowFAllocate(false)
                        // A column family that is hardly written to must not hold on to all logs
                        // since it was: a restart reads them, and none would be written over.
                        .setMaxTotalWalSize(LOGS * settings.writeBuffer())
                        // Files are written through the page cache all the same.
                        .setUseDirectReads(direct)
                        .setBytesPerSync(BYTES_PER_SYNC)
                        // It is read at each opening, and copied for each snapshot.
                        .setMaxManifestFileSize(MANIFEST_BYTES)
                        .setStatsDumpPeriodSec(0)
                        // A history of all counters every ten minutes, of each table: the same
                        // ones, outside of the budget, and nobody reads it.
                        .setStatsPersistPeriodSec(0)
                        .setStatsHistoryBufferSize(0)
                        .setStatistics(resources.statistics())
                        .setEnableThreadTracking(true);
        this.log = own(new StoreLog(name));
        database.setLogger(log);
        columnFamilies.add(
                new ColumnFamilyDescriptor(
                        RocksDB.DEFAULT_COLUMN_FAMILY,
                        data(resources, reconciler, files, clustered)));
        columnFamilies.add(
                new ColumnFamilyDescriptor(
                        CATALOG,
                        own(new ColumnFamilyOptions())
                                .setWriteBufferSize(CATALOG_BUFFER)
                                .setArenaBlockSize(SMALLEST_ARENA_BLOCK)
                                // A few KB are no reason to hold up writes of the table.
                                .setLevel0SlowdownWritesTrigger(NO_LIMIT)
                                .setLevel0StopWritesTrigger(NO_LIMIT)));
        columnFamilies.add(new ColumnFamilyDescriptor(LARGE, large(resources, files, direct)));
        if (indexed) columnFamilies.add(new ColumnFamilyDescriptor(INDEX, index(resources, files)));
    }

    private static DBOptions newDatabaseOptions() {
        try (Options options = new Options()) {
            // Only through such options can the native part be reached.
            Reconciler.ignoreWriteBuffersInRecovery(options);
            return new DBOptions(options);
        }
    }

    /** The descriptor of the column family of indexes, where there is one. */
    ColumnFamilyDescriptor index() {
        return columnFamilies.get(INDEX_AT);
    }

    private ColumnFamilyOptions data(
            SharedResources resources,
            Reconciler reconciler,
            FileOptions files,
            boolean clustered) {
        try (Options options = new Options()) {
            // Only through such options can the native part be reached.
            reconciler.install(options, true);
            ColumnFamilyOptions family =
                    common(own(new ColumnFamilyOptions(options)), resources, files, true)
                            .setMaxSuccessiveMerges(LEAST_MERGE_LIMIT);
            files.compaction().applyTo(family, own(new CompactionOptionsUniversal()));
            if (clustered) family.useFixedLengthPrefixExtractor(PartitionKeys.PREFIX);
            return family;
        }
    }

    /**
     * Keys in ordinary files, values in blob files, which compaction does not rewrite; so these are
     * small, and leveled whatever the table has.
     */
    private ColumnFamilyOptions large(
            SharedResources resources, FileOptions files, boolean direct) {
        ColumnFamilyOptions family;
        try (Options options = new Options()) {
            // Otherwise the page cache has them.
            if (direct) Reconciler.setBlobCache(options, resources.cache());
            family = own(new ColumnFamilyOptions(options));
        }
        return common(family, resources, files, true)
                .setTtl(CompactionSettings.MOVES_DOWN_AFTER)
                .setPeriodicCompactionSeconds(0)
                .setEnableBlobFiles(true)
                .setMinBlobSize(0)
                .setBlobFileSize(BLOB_FILE_BYTES)
                .setBlobCompressionType(files.compression())
                .setEnableBlobGarbageCollection(true)
                .setBlobGarbageCollectionAgeCutoff(BLOB_AGE_CUTOFF)
                .setBlobGarbageCollectionForceThreshold(BLOB_GARBAGE);
    }

    /** Entries are only looked for by where they lie, which no filter knows of. */
    private ColumnFamilyOptions index(SharedResources resources, FileOptions files) {
        return common(own(new ColumnFamilyOptions()), resources, files, false)
                .setTtl(CompactionSettings.MOVES_DOWN_AFTER)
                .setPeriodicCompactionSeconds(0);
    }

    private ColumnFamilyOptions common(
            ColumnFamilyOptions options,
            SharedResources resources,
            FileOptions files,
            boolean filtered) {
        RocksSettings settings = resources.settings();
        BlockBasedTableConfig table =
                new BlockBasedTableConfig()
                        .setBlockCache(resources.cache())
                        .setFormatVersion(FORMAT_VERSION)
                        .setChecksumType(ChecksumType.kXXH3)
                        .setWholeKeyFiltering(true)
                        .setOptimizeFiltersForMemory(true)
                        // Counted into the cache's budget, and kept before data blocks.
                        .setCacheIndexAndFilterBlocks(true)
                        .setCacheIndexAndFilterBlocksWithHighPriority(true)
                        // Filters and indexes are cut into parts, which a list on top names.
                        .setMetadataBlockSize(INDEX_PART_BYTES)
                        .setPinTopLevelIndexAndFilter(true);
        BloomFilter filter = filtered ? files.newFilter() : null;
        if (filter != null) own(filter);
        files.applyTo(options, table, own(new CompressionOptions()), filter);
        LevelZeroLimits limits =
                LevelZeroLimits.of(
                        Math.max(
                                LevelZeroLimits.trigger(settings.rocksdbOptions()),
                                files.compaction().fewest()),
                        0);
        return options.setTableFormatConfig(table)
                .setLevel0SlowdownWritesTrigger(limits.slowdown())
                .setLevel0StopWritesTrigger(limits.stop())
                .setWriteBufferSize(settings.writeBuffer())
                .setArenaBlockSize(
                        Math.max(
                                SMALLEST_ARENA_BLOCK,
                                Math.min(LARGEST_ARENA_BLOCK, settings.writeBuffer() / 256)))
                .setMaxWriteBufferNumber(WRITE_BUFFERS)
                // LevelZeroLimits slow writes down, and nothing else.
                .setSoftPendingCompactionBytesLimit(0)
                .setHardPendingCompactionBytesLimit(0)
                .setLevelCompactionDynamicLevelBytes(true)
                .setMemtableWholeKeyFiltering(true)
                .setMemtablePrefixBloomSizeRatio(0);
    }

    /**
     * The options of sst files outside of a database, of rows and of large cells. They refer to
     * what the store and its engine own, so they count as a use of the database until they are
     * closed, which must be after whatever reads or writes by them.
     */
    public record ForSst(Options data, Options large, TableOptions all, Database database, int use)
            implements AutoCloseable {
        /**
         * @param database of which a use was counted, which {@link #close} ends
         */
        static ForSst of(TableOptions all, Database database, int use) {
            return new ForSst(
                    new Options(all.database, all.columnFamilies.get(0).getOptions()),
                    new Options(all.database, all.columnFamilies.get(2).getOptions()),
                    all,
                    database,
                    use);
        }

        @Override
        public void close() {
            data.close();
            large.close();
            all.close();
            database.release(use);
        }
    }

    private <T extends AutoCloseable> T own(T handle) {
        owned.add(handle);
        return handle;
    }

    /** The native objects, in the order in which to close them. */
    List<AutoCloseable> owned() {
        List<AutoCloseable> reversed = new ArrayList<>(owned);
        Collections.reverse(reversed);
        return reversed;
    }

    void close() {
        for (AutoCloseable handle : owned()) {
            try {
                handle.close();
            } catch (Exception e) {
                throw new IllegalStateException("closing " + handle, e);
            }
        }
    }
}
