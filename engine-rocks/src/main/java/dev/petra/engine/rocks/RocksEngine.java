// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.BackgroundTask;
import dev.petra.engine.EngineStatistics;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.rocks.compaction.CompactionThrottle;
import dev.petra.engine.rocks.db.DirectReads;
import dev.petra.engine.rocks.db.FileOptions;
import dev.petra.engine.rocks.db.IndexVolume;
import dev.petra.engine.rocks.db.RocksSettings;
import dev.petra.engine.rocks.db.SharedResources;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.db.StoreDirectory;
import dev.petra.engine.rocks.wal.LogSyncer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableParams;
import org.jspecify.annotations.Nullable;
import org.rocksdb.Cache;
import org.rocksdb.Env;
import org.rocksdb.HistogramType;
import org.rocksdb.HyperClockCache;
import org.rocksdb.Priority;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.Statistics;
import org.rocksdb.TickerType;
import org.rocksdb.WriteBufferManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What all stores of a process share. */
final class RocksEngine implements StorageEngine {
    /** About how many files a receiver writes for a slice. */
    private static final int SLICE_FILES = 8;

    private static final Logger logger = LoggerFactory.getLogger(RocksEngine.class);

    /** The {@code memory} of all open engines. */
    static final AtomicLong MEMORY_IN_USE = new AtomicLong();

    private static final Map<String, TickerType> COUNTED = new LinkedHashMap<>();

    static {
        COUNTED.put("block_cache_hits", TickerType.BLOCK_CACHE_HIT);
        COUNTED.put("block_cache_misses", TickerType.BLOCK_CACHE_MISS);
        COUNTED.put("bloom_filter_negatives", TickerType.BLOOM_FILTER_USEFUL);
        COUNTED.put("bloom_filter_positives", TickerType.BLOOM_FILTER_FULL_POSITIVE);
        COUNTED.put("bloom_filter_true_positives", TickerType.BLOOM_FILTER_FULL_TRUE_POSITIVE);
        COUNTED.put("written_bytes", TickerType.BYTES_WRITTEN);
        COUNTED.put("log_bytes", TickerType.WAL_FILE_BYTES);
        COUNTED.put("log_syncs", TickerType.WAL_FILE_SYNCED);
        COUNTED.put("flushed_bytes", TickerType.FLUSH_WRITE_BYTES);
        COUNTED.put("compaction_read_bytes", TickerType.COMPACT_READ_BYTES);
        COUNTED.put("compaction_written_bytes", TickerType.COMPACT_WRITE_BYTES);
        COUNTED.put("stall_microseconds", TickerType.STALL_MICROS);
    }

    private final RocksSettings settings;
    private final ConcurrentHashMap<Path, RocksStore> stores = new ConcurrentHashMap<>();

    /** Where a store is being opened. */
    private final Set<Path> opening = ConcurrentHashMap.newKeySet();

    private final LogSyncer<RocksStore> syncer;
    private final Maintenance maintenance;
    private final ReadWriteLock freeing = new ReentrantReadWriteLock();
    private boolean freed;
    private boolean closed;

    private final CompactionThrottle throttle = new CompactionThrottle();
    private final SharedResources resources;

    RocksEngine(RocksSettings settings) {
        this(settings, RocksSettings.spareMemory());
    }

    /**
     * @param spare what there is for all engines of the process
     */
    RocksEngine(RocksSettings settings, long spare) {
        this.settings = settings;
        checkMemory(MEMORY_IN_USE.addAndGet(settings.memory()), spare);
        Env env = Env.getDefault();
        env.setBackgroundThreads(settings.backgroundThreads(), Priority.LOW);
        env.setBackgroundThreads(Math.max(1, settings.backgroundThreads() / 2), Priority.HIGH);
        LogSyncer<RocksStore> logs = new LogSyncer<>(this::durableStores);
        this.syncer = logs;
        Cache cache = new HyperClockCache(settings.memory(), 0, -1, false);
        this.resources =
                new SharedResources(
                        settings,
                        cache,
                        new WriteBufferManager(settings.writeBuffers(), cache, false),
                        throttle.limiter,
                        // Counters, which are per core, and no histograms, which would ask for
                        // the time.
                        new Statistics(EnumSet.allOf(HistogramType.class)),
                        new IndexVolume(settings.memory()),
                        new DirectReads(settings.directReads()),
                        new LongAdder(),
                        () -> logs.mode() == WalSync.BATCH);
        this.maintenance =
                new Maintenance(
                        stores::values,
                        throttle,
                        () -> resources.statistics().getTickerCount(TickerType.BYTES_WRITTEN),
                        settings.writeBuffers(),
                        settings.backgroundThreads());
    }

    /**
     * Warns if the engines of this process may take more than there is.
     *
     * @param memory of all of them
     */
    private static void checkMemory(long memory, long spare) {
        if (memory <= spare) return;
        logger.warn(
                "'memory' of all engine configurations together is {} MiB, but the heap and 512 MiB"
                    + " for the JVM leave {} MiB of the machine's or the container's memory: the"
                    + " kernel may kill this node. Set a smaller memory or heap.",
                memory >> 20,
                spare >> 20);
    }

    RocksSettings settings() {
        return settings;
    }

    @Override
    public String name() {
        return RocksEngineProvider.NAME;
    }

    @Override
    public TableStore openStore(StoreSpec spec) {
        Path directory = StoreDirectory.normalized(spec.directory());
        synchronized (this) {
            if (closed) throw new IllegalStateException("The engine is closed.");
            if (stores.containsKey(directory))
                throw new IllegalStateException("The store in " + directory + " is already open.");
            // Said before it asks: a deletion says first that it is under way, and then asks.
            opening.add(directory);
            try {
                // Asked in this order: a store is forgotten when its deletion has begun.
                if (StoreDirectory.isBeingDeleted(directory))
                    throw new IllegalStateException(
                            "The store in " + directory + " is being deleted.");
                RocksStore store = RocksStore.open(resources, syncer, this::forget, spec);
                stores.put(directory, store);
                return store;
            } finally {
                opening.remove(directory);
            }
        }
    }

    private List<RocksStore> durableStores() {
        List<RocksStore> durable = new ArrayList<>(stores.size());
        for (RocksStore store : stores.values()) if (store.spec().isDurable()) durable.add(store);
        return durable;
    }

    @Override
    public void copyStore(Path source, StoreSpec spec) {
        requireClosed(source);
        new StoreDescriptor(spec).copyFrom(source);
    }

    @Override
    public void checkFormat(Path directory) {
        StoreDescriptor.checkFormat(directory);
    }

    /** Called by a store that is closed. */
    private void forget(RocksStore store) {
        stores.remove(StoreDirectory.normalized(store.directory()), store);
    }

    @Override
    public void deleteStore(Path directory) {
        // Twice: what only looks must not keep the store from being opened or dropped.
        requireClosed(directory);
        StoreDirectory.deleteStore(directory, () -> requireClosed(directory));
    }

    private void requireClosed(Path directory) {
        Path key = StoreDirectory.normalized(directory);
        // Asked in this order: it is open before it is no longer being opened.
        if (opening.contains(key))
            throw new IllegalStateException("The store in " + directory + " is being opened.");
        if (stores.containsKey(key))
            throw new IllegalStateException("The store in " + directory + " is open.");
    }

    @Override
    public void walSync(WalSync mode, Duration interval) {
        syncer.set(mode, interval);
    }

    @Override
    public void syncAcknowledged(Predicate<TableId> tables) {
        syncer.syncAcknowledged(store -> tables.test(store.spec().metadata().id));
    }

    @Override
    public void compactionThroughput(long bytesPerSecond) {
        if (bytesPerSecond < 1)
            throw new IllegalArgumentException(
                    "bytesPerSecond must be at least 1, not " + bytesPerSecond);
        throttle.limit(bytesPerSecond);
    }

    @Override
    public Map<String, String> settingsInForce() {
        return settings.asMap();
    }

    @Override
    public boolean hasIndexes() {
        return true;
    }

    @Override
    public int streamFormat() {
        return StoreDescriptor.FORMAT;
    }

    @Override
    public long sliceBytes() {
        return SLICE_FILES * settings.streamPart();
    }

    @Override
    public String version() {
        return "RocksDB " + RocksDB.rocksdbVersion();
    }

    @Override
    public List<String> reservations(TableParams table) {
        return FileOptions.reservations(table);
    }

    @Override
    public EngineStatistics statistics() {
        long buffers = 0;
        for (RocksStore store : stores.values()) buffers += store.memoryBytes();
        return new EngineStatistics(
                stores.size(), settings.memory(), whileThere(resources.cache()::getUsage), buffers);
    }

    @Override
    public Map<String, Long> metrics() {
        Map<String, Long> metrics = new LinkedHashMap<>();
        COUNTED.forEach(
                (name, ticker) ->
                        metrics.put(
                                name,
                                whileThere(() -> resources.statistics().getTickerCount(ticker))));
        // RocksDB counts only those that it lets wait itself, which writes of tables' users are
        // not.
        metrics.merge("stall_microseconds", resources.stalledNanos().sum() / 1000, Long::sum);
        return metrics;
    }

    /**
     * A metric of a native object; 0 once it is freed: metrics are read while the engine closes.
     */
    private long whileThere(LongSupplier metric) {
        freeing.readLock().lock();
        try {
            return freed ? 0 : metric.getAsLong();
        } finally {
            freeing.readLock().unlock();
        }
    }

    @Override
    public List<BackgroundTask> backgroundTasks() {
        try {
            List<BackgroundTask> tasks =
                    BackgroundTasks.now(path -> stores.get(StoreDirectory.normalized(path)));
            // On a thread that RocksDB does not track: how far it is, is not known.
            for (RocksStore store : stores.values())
                if (store.compactingFiles() > 0)
                    tasks.add(
                            new BackgroundTask(
                                    store.spec(),
                                    BackgroundTask.Kind.COMPACTION,
                                    0,
                                    store.compactingFiles()));
            return tasks;
        } catch (RocksDBException e) {
            throw new IllegalStateException("RocksDB does not tell what it is doing", e);
        }
    }

    @Override
    public void close() {
        synchronized (this) {
            if (closed) return;
            closed = true;
            MEMORY_IN_USE.addAndGet(-settings.memory());
        }
        maintenance.stop();
        @Nullable Throwable failure = null;
        for (RocksStore store : stores.values()) {
            try {
                store.close();
            } catch (RuntimeException | Error e) {
                // Disk errors are Errors; the other stores must be synced all the same.
                if (failure == null) failure = e;
                else failure.addSuppressed(e);
            }
        }
        syncer.close();
        maintenance.close();
        free();
        if (failure instanceof Error error) throw error;
        if (failure != null) throw (RuntimeException) failure;
    }

    private void free() {
        freeing.writeLock().lock();
        try {
            freed = true;
            throttle.close();
            resources.writeBuffers().close();
            resources.statistics().close();
            resources.cache().close();
        } finally {
            freeing.writeLock().unlock();
        }
    }
}
