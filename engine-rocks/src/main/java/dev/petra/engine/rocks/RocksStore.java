// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.DurableFile;
import dev.petra.engine.FileStatistics;
import dev.petra.engine.PurgeProgress;
import dev.petra.engine.RangeEstimate;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermIndexes;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.DirectoryLock;
import dev.petra.engine.rocks.db.ReopenableDatabase;
import dev.petra.engine.rocks.db.RocksErrors;
import dev.petra.engine.rocks.db.SharedResources;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.db.StoreDirectory;
import dev.petra.engine.rocks.db.StoreSync;
import dev.petra.engine.rocks.db.WriteStallRetry;
import dev.petra.engine.rocks.format.TokenRanges;
import dev.petra.engine.rocks.index.RocksIndexes;
import dev.petra.engine.rocks.nativelib.Reconciler;
import dev.petra.engine.rocks.read.PartitionReader;
import dev.petra.engine.rocks.read.RangeSample;
import dev.petra.engine.rocks.read.RangeScan;
import dev.petra.engine.rocks.read.ReadSamples;
import dev.petra.engine.rocks.stream.Ingester;
import dev.petra.engine.rocks.stream.RangeSource;
import dev.petra.engine.rocks.stream.StagedStream;
import dev.petra.engine.rocks.wal.LogSyncer;
import dev.petra.engine.rocks.wal.LostLinks;
import dev.petra.engine.rocks.write.MergeLimit;
import dev.petra.engine.rocks.write.WriteBufferFilter;
import dev.petra.engine.rocks.write.WritePath;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.EmptyIterators;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSReadError;
import org.jspecify.annotations.Nullable;
import org.rocksdb.Checkpoint;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One table generation in one RocksDB database. */
final class RocksStore implements TableStore, LogSyncer.Log {
    private static final Logger logger = LoggerFactory.getLogger(RocksStore.class);

    /** How long a drop waits for reads before it fails, to be called again later. */
    private static final long DROP_PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);

    /**
     * Numbers the streams of the process: the files of one that came for a closed store must not be
     * in the directory of a later one.
     */
    private static final AtomicLong STREAMS = new AtomicLong();

    private final StoreDescriptor file;
    private final StoreContext context;
    private final ReopenableDatabase reopenable;
    private final Consumer<RocksStore> forget;
    private final FileStore disk;
    private final StoreSync sync;
    private final WritePath writes;
    private final PartitionReader reader;
    private final Ingester ingester;
    private final RocksIndexes indexes;
    private final WriteBufferFilter writeBufferFilter;
    private final StoreMaintenance maintenance;
    private final LongAdder reads = new LongAdder();
    private final ReadSamples samples = new ReadSamples();

    /** Guarded by this. */
    private boolean dropped;

    /**
     * Opens a store, and creates it if it is not there.
     *
     * @param forget is told when it is closed
     */
    static RocksStore open(
            SharedResources resources,
            LogSyncer<?> syncer,
            Consumer<RocksStore> forget,
            StoreSpec spec) {
        StoreDescriptor file = new StoreDescriptor(spec);
        boolean create = file.prepare();
        // Before it is opened: a full disk may need the room for that.
        if (!create) deleteStreams(spec);
        WriteStallRetry room =
                new WriteStallRetry(
                        spec.displayName(),
                        resources.settings().writeStallTimeoutMillis(),
                        resources.stalledNanos());
        Reconciler reconciler = new Reconciler();
        boolean complete = false;
        try {
            ReopenableDatabase reopenable =
                    new ReopenableDatabase(resources, spec, room, reconciler, create);
            try {
                if (create) file.ready();
                StoreContext context =
                        new StoreContext(spec, resources.settings(), reconciler, room, reopenable);
                RocksStore store = new RocksStore(file, context, syncer, forget);
                store.indexes.removeLeftovers();
                complete = true;
                return store;
            } finally {
                if (!complete) reopenable.close(Database.CLOSE_PATIENCE_NANOS);
            }
        } finally {
            if (!complete) reconciler.close();
        }
    }

    @SuppressWarnings("try") // the lock is held, not used
    private static void deleteStreams(StoreSpec spec) {
        Path directory = spec.directory();
        Path streams = directory.resolve(StoreDescriptor.STREAMS);
        try (DirectoryLock lock = DirectoryLock.take(directory)) {
            List<Path> staged =
                    StoreDirectory.filesIn(streams).stream()
                            .filter(file -> file.toString().endsWith(".sst"))
                            .toList();
            // They may be all that is left of a file without which the store does not open.
            if (LostLinks.restoreStaged(directory, staged)) StoreDirectory.delete(streams);
        } catch (IOException e) {
            throw new FSReadError(e, directory);
        }
    }

    private RocksStore(
            StoreDescriptor file,
            StoreContext context,
            LogSyncer<?> syncer,
            Consumer<RocksStore> forget) {
        this.file = file;
        this.context = context;
        this.reopenable = context.reopenable();
        this.forget = forget;
        this.disk = diskOf(context.directory());
        this.sync = new StoreSync(reopenable, context.room());
        this.writes = new WritePath(context, sync, syncer);
        this.reader = new PartitionReader(context, samples);
        this.ingester = new Ingester(context, sync, writes);
        this.indexes = new RocksIndexes(context, writes);
        this.writeBufferFilter = new WriteBufferFilter(writes, context.settings());
        this.maintenance =
                new StoreMaintenance(
                        context,
                        writeBufferFilter,
                        new MergeLimit(writes::bytesWritten, context.settings(), System::nanoTime));
    }

    private static FileStore diskOf(Path directory) {
        try {
            return Files.getFileStore(directory);
        } catch (IOException e) {
            throw new FSReadError(e, directory);
        }
    }

    /** What its parts have in common. */
    StoreContext context() {
        return context;
    }

    @Override
    public String name() {
        return context.name();
    }

    @Override
    public StoreSpec spec() {
        return context.spec();
    }

    Path directory() {
        return context.directory();
    }

    // Data

    @Override
    public void write(PartitionUpdate update) {
        writes.write(update, List.of());
    }

    @Override
    public void writeUnsynced(PartitionUpdate update) {
        writes.writeUnsynced(update);
    }

    @Override
    public void write(PartitionUpdate update, List<TermEntry> entries) {
        writes.write(update, entries);
    }

    @Override
    public @Nullable UnfilteredRowIterator read(
            DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
        reads.increment();
        return reader.read(key, slices, columns, reversed);
    }

    @Override
    public @Nullable UnfilteredRowIterator readAside(
            DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
        return reader.readAside(key, slices, columns, reversed);
    }

    @Override
    public UnfilteredPartitionIterator scan(DataRange range, ColumnFilter columns) {
        return new RangeScan(context, range, columns, false);
    }

    /** That of its cursor, which is opened first. */
    @Override
    public boolean scansAreOfOneMoment() {
        return true;
    }

    @Override
    public UnfilteredPartitionIterator scanAside(DataRange range, ColumnFilter columns) {
        return new RangeScan(context, range, columns, true);
    }

    @Override
    public UnfilteredPartitionIterator scanAside(
            DataRange range, ColumnFilter columns, Runnable checkpoint) {
        // Who only reads would wait for others to have it opened anew.
        reopenable.healing.heal();
        return new RangeScan(context, range, columns, true, whileNotFull(checkpoint));
    }

    @Override
    public UnfilteredPartitionIterator scanAside(
            Collection<Range<Token>> ranges, ColumnFilter columns, Runnable checkpoint) {
        reopenable.healing.heal();
        List<TokenRanges.KeyRange> keys = TokenRanges.of(ranges, context.partitionKeys());
        return keys.isEmpty()
                ? EmptyIterators.unfilteredPartition(context.table())
                : new RangeScan(context, keys, columns, whileNotFull(checkpoint));
    }

    private Runnable whileNotFull(Runnable checkpoint) {
        return () -> {
            reopenable.healing.checkNotFull();
            checkpoint.run();
        };
    }

    @Override
    public boolean mayContain(DecoratedKey key) {
        return reopenable.hasData() && reader.mayContain(key);
    }

    @Override
    public boolean isEmpty() {
        reopenable.checkOpen();
        return !reopenable.hasData();
    }

    @Override
    public boolean hasIndexes() {
        return true;
    }

    @Override
    public TermIndexes indexes() {
        reopenable.checkOpen();
        return indexes;
    }

    // Streams

    @Override
    public StreamSource send(List<SliceRanges> slices) {
        return new RangeSource(context, slices);
    }

    @Override
    public StreamSink receive(StreamHead head, Collection<Range<Token>> owned) {
        return reopenable.measure(
                database ->
                        new StagedStream(
                                context, ingester, writes, head, owned, newStreamDirectory()));
    }

    @Override
    public long[] sizes(List<Range<Token>> ranges) {
        return reopenable.measure(database -> RangeSource.sizes(context, database, ranges));
    }

    private Path newStreamDirectory() {
        return directory()
                .resolve(StoreDescriptor.STREAMS)
                .resolve(Long.toString(STREAMS.incrementAndGet()));
    }

    // The log

    @Override
    public void syncLog() {
        sync.syncLog();
    }

    @Override
    public boolean isPending() {
        return sync.isPending();
    }

    @Override
    public Object disk() {
        return disk;
    }

    @Override
    public void lags() {
        sync.lags();
    }

    @Override
    public boolean isUnsettled() {
        return sync.isUnsettled();
    }

    @Override
    public void sync() {
        sync.sync();
    }

    /** Ingests the files of streams, and those of tests. */
    Ingester ingester() {
        return ingester;
    }

    // Maintenance

    /** For the threads that maintain stores. */
    StoreMaintenance maintenance() {
        return maintenance;
    }

    @Override
    public void flush() {
        maintenance.flush();
    }

    @Override
    public void rewrite() {
        maintenance.rewrite();
    }

    @Override
    public void compact(Collection<Range<Token>> ranges) {
        maintenance.compact(ranges);
    }

    @Override
    public void collectGarbage(Runnable sweep) {
        maintenance.collectGarbage(sweep);
    }

    @Override
    public void stopCompactions() {
        maintenance.stopCompactions();
    }

    @Override
    public void stopPurging() {
        maintenance.stopPurging();
    }

    @Override
    public PurgeProgress purgeProgress() {
        return maintenance.purgeProgress();
    }

    @Override
    public void retainRanges(Collection<Range<Token>> owned) {
        retainRanges(owned, () -> {});
    }

    @Override
    public void retainRanges(Collection<Range<Token>> owned, Runnable beforeRemoval) {
        maintenance.retainRanges(owned, beforeRemoval);
    }

    @Override
    public void verify(LongConsumer beforeFile) {
        maintenance.verify(beforeFile);
    }

    @Override
    public void checkpoint(Path target) {
        if (Files.exists(target))
            throw new IllegalArgumentException("The checkpoint's target " + target + " exists.");
        Path staged = target.resolveSibling(target.getFileName() + ".partial");
        boolean complete = false;
        try {
            reopenable.maintain(
                    database -> {
                        StoreDirectory.delete(staged);
                        try (Checkpoint checkpoint = Checkpoint.create(database.db)) {
                            checkpoint.createCheckpoint(staged.toString());
                        } catch (RocksDBException e) {
                            // Of its own files, or of a flush before, whose thread has said so.
                            if (RocksErrors.isLogSync(String.valueOf(e.getMessage())))
                                throw new IOException(e.getMessage(), e);
                            throw e;
                        }
                        file.copyTo(staged);
                        Files.move(staged, target, StandardCopyOption.ATOMIC_MOVE);
                        DurableFile.syncParent(target);
                    });
            complete = true;
        } finally {
            if (!complete) StoreDirectory.delete(staged);
        }
    }

    // Metrics

    @Override
    public boolean isShut() {
        return reopenable.isShut();
    }

    @Override
    public StoreStatistics statistics() {
        return reopenable.measure(
                database -> StoreMetrics.statistics(database, writes.writes(), reads.sum()));
    }

    @Override
    public FileStatistics fileStatistics() {
        return reopenable.measure(StoreMetrics::files);
    }

    @Override
    public RangeEstimate estimate(Range<Token> range) {
        return RangeSample.estimate(
                context, TokenRanges.of(List.of(range), context.partitionKeys()).get(0));
    }

    @Override
    public Map<String, Long> metrics() {
        return reopenable.measure(
                database -> StoreMetrics.all(database, context.reconciler(), samples));
    }

    /** The bytes of all writes since the last call. For one thread. */
    long takeBytesWritten() {
        return writeBufferFilter.takeBytesWritten();
    }

    /** Nothing when closed, or when nothing can be flushed. */
    StoreMetrics.Buffers buffers() {
        return reopenable.ifWritable(StoreMetrics.Buffers.NONE, StoreMetrics::buffers);
    }

    /** Bytes of write buffers; 0 when closed. */
    long memoryBytes() {
        if (isShut()) return 0;
        try {
            return reopenable.measure(StoreMetrics::writeBufferBytes);
        } catch (IllegalStateException e) {
            logger.debug("Store closed while it was measured", e);
            return 0;
        }
    }

    /** The bytes of the files that are merged now by themselves, not by RocksDB's threads. */
    long compactingFiles() {
        return reopenable.compactingFiles();
    }

    // The end

    @Override
    public synchronized void drop() {
        if (dropped) return;
        // Until this store is closed and deleted, no other can be opened in its directory.
        reopenable.closeToDrop(DROP_PATIENCE_NANOS);
        StoreDirectory.deleteStore(directory(), () -> forget.accept(this));
        dropped = true;
    }

    @Override
    public void close() {
        close(Database.CLOSE_PATIENCE_NANOS);
    }

    /** {@link #close()}, with how long it waits for reads. */
    void close(long patienceNanos) {
        if (reopenable.isClosed()) return;
        try {
            // Not while the database is held: a sync under way may wait for that, where it is
            // opened anew after a full disk. One that is closed for that was synced.
            if (spec().isDurable() && !reopenable.isFreed()) sync();
        } finally {
            closeSynced(patienceNanos);
        }
    }

    private synchronized void closeSynced(long patienceNanos) {
        // A store that could not be dropped yet still keeps others from its directory.
        if (reopenable.isClosed()) return;
        try {
            reopenable.close(patienceNanos);
        } finally {
            forget.accept(this);
        }
    }
}
