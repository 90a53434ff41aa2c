// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Deque;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.jspecify.annotations.Nullable;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.ConfigOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.Filter;
import org.rocksdb.FlushOptions;
import org.rocksdb.HistogramType;
import org.rocksdb.HyperClockCache;
import org.rocksdb.MutableColumnFamilyOptions;
import org.rocksdb.Options;
import org.rocksdb.OptionsUtil;
import org.rocksdb.RateLimiter;
import org.rocksdb.RateLimiterMode;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Statistics;
import org.rocksdb.TickerType;
import org.rocksdb.WriteBufferManager;
import org.rocksdb.WriteOptions;

/**
 * RocksDB with nothing around it: a row is one entry, or where single columns are read an empty one
 * and each column one.
 *
 * <p>Its options are those that the engine gives to RocksDB for this table, read from the file that
 * RocksDB writes about them; the log is synced, and compaction throttled, as the engine does it.
 */
final class BareAccess implements Access {
    private static final int LARGE = 16 << 10;
    private static final int KEY_BYTES = 1 << 10;
    private static final int VALUE_BYTES = 256 << 10;

    /** The column family of the engine in which large cells are. */
    private static final String LARGE_CELLS = "large";

    /** In which RocksDB without the engine cannot be as with it, or is here by intent. */
    private static final Set<String> DIFFERENT =
            Set.of(
                    // The engine's own.
                    "merge_operator",
                    "compaction_filter",
                    "compaction_filter_factory",
                    // How it is opened.
                    "create_if_missing",
                    "create_missing_column_families",
                    "error_if_exists",
                    "wal_dir",
                    // The engine turns it on when a table is busy.
                    "memtable_prefix_bloom_size_ratio",
                    // Blobs: see the constructor.
                    "min_blob_size",
                    "use_direct_reads");

    private static final double BUSY_FILTER_RATIO = 0.02;
    private static final long SYNC_SECONDS = 10;

    /** Bytes a second, as the engine has it: RocksDB's limiter has no number for all. */
    private static final long UNLIMITED = 4L << 30;

    static {
        RocksDB.loadLibrary();
    }

    private final Workload workload;
    private final Requests requests;

    /** Each column an entry of its own. */
    private final boolean apart;

    private final int selected;
    private final Deque<AutoCloseable> owned = new ArrayDeque<>();
    private final WriteOptions written = own(new WriteOptions());
    private final ReadOptions readOptions = own(new ReadOptions());
    private final ReadOptions scanOptions = own(new ReadOptions().setTotalOrderSeek(true));
    private final ScheduledExecutorService background =
            Executors.newSingleThreadScheduledExecutor(
                    task -> {
                        Thread thread = new Thread(task, "bare-background");
                        thread.setDaemon(true);
                        return thread;
                    });
    private final ScheduledFuture<?> syncing;
    private final Statistics statistics = own(new Statistics(EnumSet.allOf(HistogramType.class)));
    private final RocksDB db;

    private final ThreadLocal<ByteBuffer> keys =
            ThreadLocal.withInitial(() -> ByteBuffer.allocateDirect(KEY_BYTES));
    private final ThreadLocal<ByteBuffer> values =
            ThreadLocal.withInitial(() -> ByteBuffer.allocateDirect(VALUE_BYTES));
    private final ThreadLocal<ByteBuffer> foundKeys =
            ThreadLocal.withInitial(() -> ByteBuffer.allocateDirect(KEY_BYTES));

    BareAccess(Workload workload, int nativeMiB) {
        this.workload = workload;
        ColumnFamilyStore cfs = EmbeddedNode.start(workload, Engine.LEGACY.memtable());
        this.requests = new Requests(workload, cfs.metadata());
        this.apart = !workload.selected().isEmpty();
        this.selected =
                apart
                        ? workload.columns().stream()
                                .map(column -> column[0])
                                .toList()
                                .indexOf(workload.selected().get(0))
                        : 0;
        Path storage = Path.of(System.getProperty("cassandra.storagedir"));
        Path model = storage.resolve("model");
        Path own = storage.resolve("bare");
        try {
            EngineSettings settings = writeOptions(cfs, nativeMiB, model);
            this.db = open(model, own, settings);
            requireAlike(model, own);
        } catch (RocksDBException e) {
            throw failed(e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        this.syncing =
                background.scheduleWithFixedDelay(
                        this::syncLog, SYNC_SECONDS, SYNC_SECONDS, TimeUnit.SECONDS);
    }

    private <T extends AutoCloseable> T own(T handle) {
        owned.push(handle);
        return handle;
    }

    // Options

    /**
     * Makes a store of the engine, whose files tell its options.
     *
     * @return the engine's settings
     */
    private static EngineSettings writeOptions(ColumnFamilyStore cfs, int nativeMiB, Path model)
            throws IOException {
        try (StorageEngine engine = SpiAccess.engine(Engine.ROCKS, nativeMiB)) {
            // Of an earlier run with other settings, perhaps.
            if (Files.exists(model)) engine.deleteStore(model);
            engine.openStore(
                            new StoreSpec(
                                    model, cfs.name, 1, cfs.metadata, () -> false, () -> true))
                    .close();
            Map<String, String> settings = new HashMap<>(engine.settingsInForce());
            settings.replaceAll((name, value) -> value.replaceFirst(" B$", "B"));
            return new EngineSettings(settings);
        }
    }

    private RocksDB open(Path model, Path directory, EngineSettings settings)
            throws RocksDBException, IOException {
        DBOptions database = own(new DBOptions());
        List<ColumnFamilyDescriptor> families = new ArrayList<>();
        OptionsUtil.loadOptionsFromFile(
                own(new ConfigOptions()), options(model).toString(), database, families);
        families.forEach(family -> own(family.getOptions()));
        ColumnFamilyOptions family =
                families.stream()
                        .filter(f -> new String(f.getName(), UTF_8).equals(family()))
                        .findFirst()
                        .orElseThrow()
                        .getOptions();
        // What a file cannot hold.
        HyperClockCache cache = own(new HyperClockCache(settings.bytes("memory", 0), 0, -1, false));
        BlockBasedTableConfig table =
                ((BlockBasedTableConfig) family.tableFormatConfig()).setBlockCache(cache);
        // What is loaded of a filter cannot be given to another database.
        table.setFilterPolicy(filter(model));
        family.setTableFormatConfig(table);
        family.setMemtablePrefixBloomSizeRatio(BUSY_FILTER_RATIO);
        RateLimiter limiter = own(throttled());
        database.setCreateIfMissing(true)
                .setErrorIfExists(false)
                .setWriteBufferManager(
                        own(
                                new WriteBufferManager(
                                        settings.bytes("write_buffers", 0), cache, false)))
                .setRateLimiter(limiter)
                .setStatistics(statistics);
        if (apart) {
            // Rows begin with an entry without a value. Java has no setter for a cache of blobs,
            // as the engine has one with direct reads: the page cache has them instead.
            family.setMinBlobSize(LARGE);
            database.setUseDirectReads(false);
        }
        return RocksDB.open(own(new Options(database, family)), directory.toString());
    }

    /** As the file names it: {@code bloomfilter:bits:false}. */
    private @Nullable Filter filter(Path model) throws IOException {
        for (String line : options(options(model), family()))
            if (line.startsWith("filter_policy=bloomfilter:"))
                return own(new BloomFilter(Double.parseDouble(line.split(":", -1)[1]), false));
        return null;
    }

    private String family() {
        return apart ? LARGE_CELLS : "default";
    }

    /** Compaction as the node's, and beside it twice what is written, for the flushes. */
    private RateLimiter throttled() {
        long limit = Math.min(UNLIMITED, EmbeddedNode.compactionThroughput());
        RateLimiter limiter =
                new RateLimiter(limit, 10_000, 10, RateLimiterMode.WRITES_ONLY, false);
        long[] seconds = new long[10];
        AtomicLong before = new AtomicLong();
        AtomicInteger at = new AtomicInteger();
        var unused =
                background.scheduleAtFixedRate(
                        () -> {
                            long now = statistics.getTickerCount(TickerType.BYTES_WRITTEN);
                            seconds[at.getAndIncrement() % seconds.length] =
                                    now - before.getAndSet(now);
                            limiter.setBytesPerSecond(
                                    Math.min(
                                            UNLIMITED,
                                            limit + 2 * Arrays.stream(seconds).max().orElse(0)));
                        },
                        1,
                        1,
                        TimeUnit.SECONDS);
        return limiter;
    }

    private void syncLog() {
        try {
            db.syncWal();
        } catch (RocksDBException e) {
            throw failed(e);
        }
    }

    /** The newest file of a database's options. */
    private static Path options(Path directory) throws IOException {
        try (Stream<Path> files = Files.walk(directory)) {
            return files.filter(file -> file.getFileName().toString().matches("OPTIONS-\\d+"))
                    .max(Comparator.comparing(file -> file.getFileName().toString()))
                    .orElseThrow(
                            () ->
                                    new IllegalStateException(
                                            "no options of RocksDB in " + directory));
        }
    }

    /**
     * @throws IllegalStateException if RocksDB has other options than with the engine
     */
    private void requireAlike(Path model, Path directory) throws IOException {
        List<String> with = options(options(model), family());
        List<String> without = options(options(directory), "default");
        List<String> only = new ArrayList<>(with);
        only.removeAll(without);
        List<String> also = new ArrayList<>(without);
        also.removeAll(with);
        if (!only.isEmpty() || !also.isEmpty())
            throw new IllegalStateException(
                    "bare RocksDB has other options than the engine's: "
                            + also
                            + " instead of "
                            + only);
    }

    /** The lines of the database and of a column family that are to be equal. */
    private static List<String> options(Path file, String family) throws IOException {
        List<String> lines = new ArrayList<>();
        String section = "";
        for (String line : Files.readAllLines(file)) {
            String text = line.strip();
            if (text.startsWith("[")) section = text;
            boolean counts =
                    section.equals("[DBOptions]") || section.endsWith("\"" + family + "\"]");
            if (counts && text.contains("=") && !DIFFERENT.contains(text.split("=", 2)[0]))
                lines.add(text);
        }
        return lines;
    }

    private static IllegalStateException failed(RocksDBException e) {
        return new IllegalStateException("RocksDB: " + e.getMessage(), e);
    }

    // Requests

    /** Token and key: partitions lie as they do in the engine. */
    private ByteBuffer partition(DecoratedKey key) {
        return keys.get()
                .clear()
                .putLong((long) key.getToken().getTokenValue() ^ Long.MIN_VALUE)
                .put(key.getKey().duplicate());
    }

    /** The newest first. */
    private static void putClustering(ByteBuffer key, Object value) {
        key.putLong(
                Long.MAX_VALUE
                        - (value instanceof Instant instant
                                ? instant.toEpochMilli()
                                : ((Number) value).longValue()));
    }

    @Override
    public void write(long number, int version) {
        Object[] row = workload.row(number, version);
        int regular = 1 + workload.clusterings();
        ByteBuffer key = partition(requests.key(number));
        if (regular > 1) putClustering(key, row[1]);
        int prefix = key.position();
        ByteBuffer value = values.get().clear();
        try {
            // Where the row begins: whoever looks for rows need not read a value.
            if (apart) db.put(written, key.flip(), value.flip());
            value.clear();
            for (int i = regular; i < row.length; i++) {
                ByteBuffer bytes = requests.bytes(i, row[i]);
                if (!apart) value.putInt(bytes.remaining());
                value.put(bytes.duplicate());
                if (!apart) continue;
                key.clear().position(prefix).put((byte) i);
                db.put(written, key.flip(), value.flip());
                value.clear();
            }
            if (!apart) db.put(written, key.flip(), value.flip());
        } catch (RocksDBException e) {
            throw failed(e);
        }
    }

    @Override
    public long read(long number) {
        ByteBuffer key = partition(requests.key(number));
        ReadCheck check = new ReadCheck(workload, number);
        try {
            if (workload.clusterings() > 0) slice(key.flip(), check);
            else if (get(key.flip()) >= 0) row(0, values.get(), check);
            return check.end();
        } catch (RocksDBException e) {
            throw failed(e);
        }
    }

    /** The bytes of a value, which are copied; -1 if there is none. */
    private int get(ByteBuffer key) throws RocksDBException {
        return db.get(readOptions, key, values.get().clear());
    }

    private void row(long clustering, ByteBuffer value, ReadCheck check) {
        if (apart) {
            check.row(clustering, value.getLong(0), value.limit());
            return;
        }
        int bytes = 0;
        for (int at = 0; at < value.limit(); at += Integer.BYTES + value.getInt(at))
            bytes += value.getInt(at);
        check.row(clustering, value.getLong(Integer.BYTES), bytes);
    }

    private void slice(ByteBuffer partition, ReadCheck check) throws RocksDBException {
        ByteBuffer value = values.get();
        ByteBuffer found = foundKeys.get();
        try (RocksIterator it = db.newIterator(readOptions)) {
            it.seek(partition.duplicate());
            while (check.takesMore() && it.isValid()) {
                it.key(found.clear());
                if (!startsWith(found, partition)) break;
                long clustering = Long.MAX_VALUE - found.getLong(partition.remaining());
                if (!apart) {
                    it.value(value.clear());
                    row(clustering, value, check);
                    it.next();
                    continue;
                }
                // The column of this row, and then the next row.
                int row = partition.remaining() + Long.BYTES;
                if (get(found.duplicate().limit(row + 1).put(row, (byte) selected)) < 0)
                    throw new IllegalStateException("no column of " + clustering);
                row(clustering, value, check);
                it.seek(found.limit(row + 1).put(row, (byte) 0xFF));
            }
            it.status();
        }
    }

    private static boolean startsWith(ByteBuffer key, ByteBuffer prefix) {
        int length = prefix.remaining();
        return key.remaining() >= length && key.slice(0, length).equals(prefix);
    }

    @Override
    public long scan() {
        long there = workload.written().there();
        long count = 0;
        ByteBuffer value = values.get();
        try (RocksIterator it = db.newIterator(scanOptions)) {
            for (it.seekToFirst(); it.isValid(); it.next())
                // Where columns are entries of their own, that of the row is empty.
                if (it.value(value.clear()) > 0 != apart) count++;
            it.status();
        } catch (RocksDBException e) {
            throw failed(e);
        }
        workload.checkScan(there, count);
        return count;
    }

    @Override
    public void flush() {
        try (FlushOptions flush = new FlushOptions()) {
            db.flush(flush);
        } catch (RocksDBException e) {
            throw failed(e);
        }
    }

    @Override
    public void settle() {
        flush();
        try {
            db.compactRange();
        } catch (RocksDBException e) {
            throw failed(e);
        }
    }

    @Override
    public void compacting(boolean automatic) {
        try {
            db.setOptions(
                    MutableColumnFamilyOptions.builder()
                            .setDisableAutoCompactions(!automatic)
                            .build());
        } catch (RocksDBException e) {
            throw failed(e);
        }
    }

    @Override
    public Probe probe() {
        return EmbeddedNode.probe(() -> statistics.getTickerCount(TickerType.STALL_MICROS) * 1000);
    }

    @Override
    public void close() {
        background.shutdown();
        try {
            if (!background.awaitTermination(1, TimeUnit.MINUTES))
                throw new IllegalStateException("the log is not synced after a minute");
            // It is cancelled unless it failed.
            if (!syncing.isCancelled()) syncing.get();
        } catch (ExecutionException e) {
            throw new IllegalStateException("the log was not synced", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
        db.close();
        while (!owned.isEmpty())
            try {
                owned.pop().close();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
    }
}
