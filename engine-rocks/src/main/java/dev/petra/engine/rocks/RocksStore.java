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
    private static final long LONGEST_PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

    private final RocksEngine engine;
    private final StoreSpec spec;
    private final StoreFile file;
    private final Database database;
    private final Catalog catalog;
    private final PartitionKeys partitionKeys;
    private final PartitionReader reader = new PartitionReader(this);
    private volatile boolean hasData;
    private boolean dropped;

    private final AtomicLong recordWritesBegun = new AtomicLong();
    private final AtomicLong recordWritesEnded = new AtomicLong();
    private final LongAdder writes = new LongAdder();
    private final LongAdder reads = new LongAdder();
    private final SyncState unsynced = new SyncState();

    static RocksStore open(RocksEngine engine, StoreSpec spec) {
        StoreFile file = new StoreFile(spec);
        boolean create = file.prepare();
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
                RocksStore store = new RocksStore(engine, spec, file, database);
                if (create) file.ready();
                return store;
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

    private RocksStore(RocksEngine engine, StoreSpec spec, StoreFile file, Database database)
            throws RocksDBException {
        this.engine = engine;
        this.spec = spec;
        this.file = file;
        this.database = database;
        TableMetadata table = spec.metadata().get();
        this.partitionKeys = new PartitionKeys(table.partitioner);
        this.catalog = new Catalog(database, table);
        // No block is read for it, so that a damaged one does not keep the store from opening.
        this.hasData = database.db.getLatestSequenceNumber() > 0;
    }

    // For the readers and writers of this package

    Database database() {
        return database;
    }

    Catalog catalog() {
        return catalog;
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
        boolean record = UpdateWriter.hasPartitionRecord(update);
        int use = database.acquire();
        try {
            unsynced.refuseAfterFailure();
            UpdateWriter writer = UpdateWriter.get();
            int entries = writer.encode(update, this);
            if (entries == 0) return;
            if (record) {
                catalog.setHasPartitionRecords();
                recordWritesBegun.incrementAndGet();
            }
            WalSync mode = engine.walSync();
            try {
                write(writer, entries, mode == WalSync.BATCH);
            } finally {
                if (record) recordWritesEnded.incrementAndGet();
            }
            if (!hasData) hasData = true;
            writes.increment();
            if (mode != WalSync.BATCH) unsynced.written(mode == WalSync.GROUP);
        } catch (RocksDBException e) {
            throw RocksErrors.onWrite(e, name(), directory());
        } catch (Catalog.CatalogWriteFailure e) {
            throw RocksErrors.onWrite(e.error, name(), directory());
        } finally {
            database.release(use);
        }
    }

    private void write(UpdateWriter writer, int entries, boolean synced) throws RocksDBException {
        WriteOptions options = synced ? database.syncedWriteOptions : database.writeOptions;
        if (entries == 1) {
            awaitRoom(
                    () -> database.db.merge(database.data, options, writer.key(), writer.value()));
        } else {
            try (WriteBatch batch = new WriteBatch(writer.batch())) {
                awaitRoom(() -> database.db.write(options, batch));
            }
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
        void run() throws RocksDBException, IOException;
    }

    private interface Measure<T> {
        T get() throws RocksDBException;
    }

    private void maintain(Work work) {
        int use = database.acquire();
        try {
            work.run();
        } catch (RocksDBException e) {
            throw RocksErrors.onWrite(e, name(), directory());
        } catch (IOException e) {
            throw new FSWriteError(e, directory());
        } finally {
            database.release(use);
        }
    }

    private <T> T measure(Measure<T> measure) {
        int use = database.acquire();
        try {
            return measure.get();
        } catch (RocksDBException e) {
            throw RocksErrors.onRead(e, name(), directory());
        } finally {
            database.release(use);
        }
    }

    @Override
    public void syncLog() {
        maintain(() -> database.db.syncWal());
    }

    /** Syncs if there is something to sync, and wakes the writers that wait for it. */
    void syncUnsynced() {
        if (!unsynced.isPending() || database.isClosed()) return;
        unsynced.sync(this::syncLog);
    }

    @Override
    public void flush() {
        maintain(
                () -> {
                    try (FlushOptions options =
                            new FlushOptions().setWaitForFlush(true).setAllowWriteStall(true)) {
                        database.db.flush(options, List.of(database.data, database.catalog));
                    }
                });
    }

    @Override
    public void compact(Collection<Range<Token>> ranges) {
        maintain(
                () -> {
                    if (ranges.isEmpty()) compact(null, null);
                    else
                        for (TokenRanges.KeyRange range : TokenRanges.of(ranges, partitionKeys))
                            compact(range.from(), range.to());
                });
    }

    private void compact(byte @Nullable [] from, byte @Nullable [] to) throws RocksDBException {
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
                    () -> {
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
                () -> {
                    for (TokenRanges.KeyRange gap : TokenRanges.gaps(owned, partitionKeys)) {
                        database.db.deleteRange(
                                database.data, database.writeOptions, gap.from(), gap.to());
                        compact(gap.from(), gap.to());
                    }
                    database.db.syncWal();
                });
    }

    @Override
    public void verify() {
        maintain(() -> database.db.verifyChecksum());
    }

    @Override
    public synchronized void drop() {
        if (dropped) return;
        database.close();
        engine.forget(this);
        RocksEngine.deleteTree(directory());
        dropped = true;
    }

    @Override
    public StoreStatistics statistics() {
        return measure(
                () -> {
                    long keys = property("rocksdb.estimate-num-keys");
                    return new StoreStatistics(
                            keys,
                            keys,
                            property("rocksdb.estimate-live-data-size"),
                            property("rocksdb.total-sst-files-size"),
                            property("rocksdb.cur-size-all-mem-tables"),
                            property("rocksdb.estimate-pending-compaction-bytes"),
                            writes.sum(),
                            reads.sum());
                });
    }

    private long property(String name) throws RocksDBException {
        return database.db.getLongProperty(database.data, name);
    }

    /** Bytes of write buffers; 0 when closed. */
    long memoryBytes() {
        try {
            return measure(() -> property("rocksdb.cur-size-all-mem-tables"));
        } catch (IllegalStateException e) {
            logger.debug("Store closed while it was measured", e);
            return 0;
        }
    }

    @Override
    public void close() {
        if (!database.isClosed()) {
            try {
                syncLog();
            } catch (IllegalStateException e) {
                logger.debug("Closed twice at once", e);
            }
        }
        database.close();
        unsynced.wakeAll();
        engine.forget(this);
    }
}
