// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.OutgoingParts;
import dev.petra.engine.stream.StreamManifest;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.rocksdb.Checkpoint;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.FlushOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One table generation in one RocksDB database. */
final class RocksStore implements TableStore {
    private static final Logger logger = LoggerFactory.getLogger(RocksStore.class);
    private static final long HEAL_EVERY_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final long HEAL_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final long LEAST_ROOM = 4 << 20;
    private static final long LONGEST_PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

    private final RocksEngine engine;
    private final StoreSpec spec;
    private final StoreFile file;
    private final PartitionKeys partitionKeys;
    private final PartitionReader reader = new PartitionReader(this);
    private volatile Opened opened;
    private volatile boolean hasData;

    /** Why writes are refused until the database was opened anew; null while it is well. */
    private volatile @Nullable String full;

    private volatile long healAt;

    /** For good; not while the database is opened anew. */
    private volatile boolean closed;

    /** Guarded by this, which is held while the database is closed or opened. */
    private boolean dropped;

    private final AtomicLong recordWritesBegun = new AtomicLong();
    private final AtomicLong recordWritesEnded = new AtomicLong();
    private final LongAdder writes = new LongAdder();
    private final LongAdder reads = new LongAdder();
    private final SyncState unsynced = new SyncState();

    /** The database while it is open, and what was read from it. */
    private record Opened(Database database, Catalog catalog) {}

    static RocksStore open(RocksEngine engine, StoreSpec spec) {
        StoreFile file = new StoreFile(spec);
        boolean create = file.prepare();
        RocksStore store = new RocksStore(engine, spec, file, openDatabase(engine, spec, create));
        try {
            if (create) file.ready();
        } catch (Throwable t) {
            store.opened.database.close();
            throw t;
        }
        return store;
    }

    private static Opened openDatabase(RocksEngine engine, StoreSpec spec, boolean create) {
        TableOptions options = new TableOptions(engine, create);
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        try {
            RocksDB db =
                    RocksDB.open(
                            options.database,
                            spec.directory().toString(),
                            options.columnFamilies,
                            handles);
            Database database =
                    new Database(
                            spec.displayName(),
                            db,
                            handles.get(0),
                            handles.get(1),
                            options.owned());
            try {
                return new Opened(database, new Catalog(database, spec.metadata().get()));
            } catch (Throwable t) {
                database.close();
                throw t;
            }
        } catch (RocksDBException e) {
            if (handles.isEmpty()) options.close();
            if (create || RocksErrors.isFull(e))
                throw RocksErrors.onWrite(e, spec.displayName(), spec.directory());
            throw RocksErrors.onRead(e, spec.displayName(), spec.directory());
        }
    }

    private RocksStore(RocksEngine engine, StoreSpec spec, StoreFile file, Opened opened) {
        this.engine = engine;
        this.spec = spec;
        this.file = file;
        this.opened = opened;
        this.partitionKeys = new PartitionKeys(spec.metadata().get().partitioner);
        // No block is read for it, so that a damaged one does not keep the store from opening.
        this.hasData = opened.database.db.getLatestSequenceNumber() > 0;
    }

    // For the readers and writers of this package

    /**
     * The database to use now. Blocks only while it is opened anew, after a full disk.
     *
     * @throws IllegalStateException if the store is closed
     */
    Database database() {
        Database database = opened.database;
        if (!database.isClosed()) return database;
        if (closed) throw closed();
        return reopened();
    }

    private synchronized Database reopened() {
        String reason = full;
        if (!opened.database.isClosed()) return opened.database;
        if (reason == null) throw closed();
        // An attempt to open it anew failed; reads must not wait for a write to try again.
        if (System.nanoTime() - healAt >= 0 && hasRoom()) {
            heal();
            return opened.database;
        }
        throw RocksErrors.full(name(), directory(), reason);
    }

    private IllegalStateException closed() {
        return new IllegalStateException("The store of " + name() + " is closed.");
    }

    Catalog catalog() {
        return opened.catalog;
    }

    PartitionKeys partitionKeys() {
        return partitionKeys;
    }

    TableMetadata table() {
        return spec.metadata().get();
    }

    String name() {
        return spec.displayName();
    }

    Path directory() {
        return spec.directory();
    }

    /** Writes of partition records that began. */
    long recordWritesBegun() {
        return recordWritesBegun.get();
    }

    /** Writes of partition records that ended, whether they succeeded or not. */
    long recordWritesEnded() {
        return recordWritesEnded.get();
    }

    CorruptStoreException malformed(RuntimeException e, ByteBuffer key) {
        return new CorruptStoreException(
                "The store of "
                        + name()
                        + " in "
                        + directory()
                        + " has a malformed entry ("
                        + e.getMessage()
                        + ") under key "
                        + ByteBufferUtil.bytesToHex(key)
                        + ". Restore it from a snapshot, or repair that partition's replicas.",
                e);
    }

    @Override
    public StoreSpec spec() {
        return spec;
    }

    // Data

    @Override
    public void write(PartitionUpdate update) {
        if (full != null) heal();
        Database database;
        int use;
        do {
            database = database();
            use = database.acquire();
        } while (use == Database.CLOSED);
        try {
            write(update, database);
        } catch (RocksDBException e) {
            throw failed(e);
        } catch (Catalog.CatalogWriteFailure e) {
            throw failed(e.error);
        } finally {
            database.release(use);
        }
    }

    private void write(PartitionUpdate update, Database database) throws RocksDBException {
        unsynced.refuseAfterFailure();
        boolean record = UpdateWriter.hasPartitionRecord(update);
        UpdateWriter writer = UpdateWriter.get();
        int entries = writer.encode(update, this);
        if (entries == 0) return;
        if (record) {
            catalog().setHasPartitionRecords();
            recordWritesBegun.incrementAndGet();
        }
        WalSync mode = engine.walSync();
        try {
            write(writer, entries, database, mode == WalSync.BATCH);
        } finally {
            if (record) recordWritesEnded.incrementAndGet();
        }
        if (!hasData) hasData = true;
        writes.increment();
        if (mode != WalSync.BATCH) unsynced.written(mode == WalSync.GROUP);
    }

    private void write(UpdateWriter writer, int entries, Database database, boolean synced)
            throws RocksDBException {
        WriteOptions options = synced ? database.syncedWriteOptions : database.writeOptions;
        if (entries == 1) {
            ByteBuffer key = writer.key();
            ByteBuffer value = writer.value();
            // Every attempt from the start: one may have left the positions anywhere.
            awaitRoom(
                    () ->
                            database.db.merge(
                                    database.data, options, key.position(0), value.position(0)));
        } else {
            try (WriteBatch batch = new WriteBatch(writer.batch())) {
                awaitRoom(() -> database.db.write(options, batch));
            }
        }
    }

    private RuntimeException failed(RocksDBException e) {
        if (RocksErrors.isFull(e) && full == null) {
            healAt = System.nanoTime() + HEAL_EVERY_NANOS;
            full = String.valueOf(e.getMessage());
            logger.error(
                    "The disk of {} is full ({}); writes to it fail until there is room",
                    name(),
                    directory());
        }
        return RocksErrors.onWrite(e, name(), directory());
    }

    /**
     * Opens the database anew if there is room again, now and then; see {@link RocksErrors#isFull}.
     * Acknowledged writes are in its log, which is replayed then.
     *
     * @throws WriteStallException if the disk is still full
     */
    private void heal() {
        String reason = full;
        if (reason == null) return;
        if (System.nanoTime() - healAt < 0 || !hasRoom())
            throw RocksErrors.full(name(), directory(), reason);
        synchronized (this) {
            if (full == null || closed) return;
            // Somebody else has just tried.
            if (System.nanoTime() - healAt < 0) throw RocksErrors.full(name(), directory(), reason);
            healAt = System.nanoTime() + HEAL_EVERY_NANOS;
            // Closing waits for writers, and these for a sync that cannot be.
            unsynced.abandon();
            // Bounded: a reader, even this thread, may hold an iterator and want another.
            if (!opened.database.closeIfIdle(HEAL_PATIENCE_NANOS))
                throw RocksErrors.full(name(), directory(), reason);
            Opened fresh = openDatabase(engine, spec, false);
            // Before anyone can write to it and wait for its sync.
            unsynced.renewed();
            opened = fresh;
            full = null;
            logger.info("The disk of {} has room again; writes go on", name());
        }
    }

    /** Replay writes what is in the log once more, as a data file. */
    private boolean hasRoom() {
        try {
            long log = 0;
            try (var files = Files.newDirectoryStream(directory(), "*.log")) {
                for (Path file : files) log += Files.size(file);
            }
            return Files.getFileStore(directory()).getUsableSpace() > log + LEAST_ROOM;
        } catch (IOException e) {
            throw new FSWriteError(e, directory());
        }
    }

    private interface Attempt {
        void run() throws RocksDBException;
    }

    /** Tries, and while the store says that it is behind, tries again, for a bounded time. */
    private void awaitRoom(Attempt attempt) throws RocksDBException {
        try {
            attempt.run();
        } catch (RocksDBException e) {
            if (!RocksErrors.isStall(e)) throw e;
            stalled(attempt);
        }
    }

    private void stalled(Attempt attempt) throws RocksDBException {
        long timeout = TimeUnit.MILLISECONDS.toNanos(engine.settings().writeStallTimeoutMillis());
        long start = System.nanoTime();
        for (long pause = 50_000; ; pause = Math.min(2 * pause, LONGEST_PAUSE_NANOS)) {
            LockSupport.parkNanos(pause);
            try {
                attempt.run();
                return;
            } catch (RocksDBException e) {
                if (!RocksErrors.isStall(e)) throw e;
                if (System.nanoTime() - start >= timeout)
                    throw new WriteStallException(
                            "Compaction of "
                                    + name()
                                    + " is behind: a write waited "
                                    + engine.settings().writeStallTimeoutMillis()
                                    + " ms for room. "
                                    + e.getMessage());
            }
        }
    }

    @Override
    public @Nullable UnfilteredRowIterator read(
            DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
        reads.increment();
        return reader.read(key, slices, columns, reversed);
    }

    @Override
    public UnfilteredPartitionIterator scan(DataRange range, ColumnFilter columns) {
        return new RangeScan(this, range, columns);
    }

    @Override
    public boolean mayContain(DecoratedKey key) {
        if (!hasData) return false;
        try (Cursor cursor = new Cursor(this)) {
            ByteSink sink = cursor.partitionSink();
            partitionKeys.put(sink, key);
            ByteBuffer position = sink.flipped();
            cursor.seek(position.duplicate());
            return cursor.isValid() && Keys.startsWith(cursor.key(), position);
        }
    }

    @Override
    public boolean isEmpty() {
        if (closed) throw closed();
        return !hasData;
    }

    // Streams

    @Override
    public OutgoingParts streamOut(Collection<Range<Token>> ranges) {
        throw unsupported("streamOut");
    }

    @Override
    public IncomingParts streamIn(StreamManifest manifest, Collection<Range<Token>> owned) {
        throw unsupported("streamIn");
    }

    private UnsupportedOperationException unsupported(String operation) {
        return new UnsupportedOperationException(
                "Engine '"
                        + engine.name()
                        + "' does not support "
                        + operation
                        + " in this version (table "
                        + name()
                        + ").");
    }

    // Maintenance

    private interface Work {
        void run(Database database) throws RocksDBException, IOException;
    }

    private interface Measure<T> {
        T get(Database database) throws RocksDBException;
    }

    private void maintain(Work work) {
        Database database;
        int use;
        do {
            database = database();
            use = database.acquire();
        } while (use == Database.CLOSED);
        try {
            work.run(database);
        } catch (RocksDBException e) {
            throw failed(e);
        } catch (IOException e) {
            throw new FSWriteError(e, directory());
        } finally {
            database.release(use);
        }
    }

    private <T> T measure(Measure<T> measure) {
        Database database;
        int use;
        do {
            database = database();
            use = database.acquire();
        } while (use == Database.CLOSED);
        try {
            return measure.get(database);
        } catch (RocksDBException e) {
            throw RocksErrors.onRead(e, name(), directory());
        } finally {
            database.release(use);
        }
    }

    @Override
    public void syncLog() {
        maintain(database -> database.db.syncWal());
    }

    /** Syncs if there is something to sync, and wakes the writers that wait for it. */
    void syncUnsynced() {
        if (closed || !unsynced.isPending()) return;
        if (full != null) unsynced.abandon();
        else unsynced.sync(this::syncLog);
    }

    @Override
    public void flush() {
        maintain(
                database -> {
                    try (FlushOptions options =
                            new FlushOptions().setWaitForFlush(true).setAllowWriteStall(true)) {
                        database.db.flush(options, List.of(database.data, database.catalog));
                    }
                });
    }

    @Override
    public void compact(Collection<Range<Token>> ranges) {
        maintain(
                database -> {
                    if (ranges.isEmpty()) compact(database, null, null);
                    else
                        for (TokenRanges.KeyRange range : TokenRanges.of(ranges, partitionKeys))
                            compact(database, range.from(), range.to());
                });
    }

    private static void compact(Database database, byte @Nullable [] from, byte @Nullable [] to)
            throws RocksDBException {
        try (CompactRangeOptions options =
                new CompactRangeOptions()
                        .setBottommostLevelCompaction(BottommostLevelCompaction.kForceOptimized)
                        .setExclusiveManualCompaction(false)
                        .setAllowWriteStall(false)) {
            database.db.compactRange(database.data, from, to, options);
        }
    }

    @Override
    public void checkpoint(Path target) {
        if (Files.exists(target))
            throw new IllegalArgumentException("The checkpoint's target " + target + " exists.");
        Path staged = target.resolveSibling(target.getFileName() + ".partial");
        boolean complete = false;
        try {
            maintain(
                    database -> {
                        RocksEngine.deleteTree(staged);
                        try (Checkpoint checkpoint = Checkpoint.create(database.db)) {
                            checkpoint.createCheckpoint(staged.toString());
                        }
                        file.copyTo(staged);
                        Files.move(staged, target, StandardCopyOption.ATOMIC_MOVE);
                        StoreFile.sync(Objects.requireNonNull(target.toAbsolutePath().getParent()));
                    });
            complete = true;
        } finally {
            if (!complete) RocksEngine.deleteTree(staged);
        }
    }

    @Override
    public void retainRanges(Collection<Range<Token>> owned) {
        maintain(
                database -> {
                    for (TokenRanges.KeyRange gap : TokenRanges.gaps(owned, partitionKeys)) {
                        awaitRoom(
                                () ->
                                        database.db.deleteRange(
                                                database.data,
                                                database.writeOptions,
                                                gap.from(),
                                                gap.to()));
                        compact(database, gap.from(), gap.to());
                    }
                    database.db.syncWal();
                });
    }

    @Override
    public void verify() {
        maintain(database -> database.db.verifyChecksum());
    }

    @Override
    public synchronized void drop() {
        if (dropped) return;
        closed = true;
        // Closing waits for writers, and these for a sync.
        unsynced.close();
        opened.database.close();
        engine.forget(this);
        RocksEngine.deleteTree(directory());
        dropped = true;
    }

    @Override
    public StoreStatistics statistics() {
        return measure(
                database -> {
                    long keys = property(database, "rocksdb.estimate-num-keys");
                    return new StoreStatistics(
                            keys,
                            keys,
                            property(database, "rocksdb.estimate-live-data-size"),
                            property(database, "rocksdb.total-sst-files-size"),
                            property(database, "rocksdb.cur-size-all-mem-tables"),
                            property(database, "rocksdb.estimate-pending-compaction-bytes"),
                            writes.sum(),
                            reads.sum());
                });
    }

    private static long property(Database database, String name) throws RocksDBException {
        return database.db.getLongProperty(database.data, name);
    }

    /** Bytes of write buffers; 0 when closed. */
    long memoryBytes() {
        if (opened.database.isClosed()) return 0;
        try {
            return measure(database -> property(database, "rocksdb.cur-size-all-mem-tables"));
        } catch (IllegalStateException e) {
            logger.debug("Store closed while it was measured", e);
            return 0;
        }
    }

    @Override
    public synchronized void close() {
        if (closed) return;
        try {
            if (full == null) unsynced.sync(this::syncLog);
        } finally {
            closed = true;
            unsynced.close();
            opened.database.close();
            engine.forget(this);
        }
    }
}
