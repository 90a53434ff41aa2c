// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.legacy;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.DirectoryTree;
import dev.petra.engine.RowsUntilClosed;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongConsumer;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.CassandraWriteContext;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.ColumnFamilyStore.FlushReason;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.Directories.DataDirectory;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.PartitionRangeReadCommand;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.db.ReadExecutionController;
import org.apache.cassandra.db.SinglePartitionReadCommand;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.WriteContext;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.filter.ClusteringIndexNamesFilter;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.filter.DataLimits;
import org.apache.cassandra.db.filter.RowFilter;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.db.lifecycle.SSTableSet;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.io.sstable.IVerifier;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.KeyspaceParams;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.FBUtilities;
import org.apache.cassandra.utils.OutputHandler;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.apache.cassandra.utils.concurrent.Refs;
import org.jspecify.annotations.Nullable;

/**
 * A column family store of Cassandra's, behind the SPI. Reads are what {@code ReadCommand}s do with
 * memtables and SSTables, and no more: nothing is purged, limited, counted or cached above them.
 */
public final class LegacyStore implements TableStore {
    /** Made by {@code ReadCommand.executionController} only for tables of the schema. */
    private static final MethodHandle NEW_CONTROLLER = newController();

    /** Stores of one name share their metrics, which Cassandra registers in several steps. */
    private static final Object METRICS = new Object();

    private final @Nullable LegacyEngine engine;
    private final StoreSpec spec;
    private final @Nullable StoreMark mark;
    private final ColumnFamilyStore cfs;
    private final OpOrder writing = new OpOrder();
    private final LongAdder writes = new LongAdder();
    private final LongAdder reads = new LongAdder();
    private volatile TableMetadata table;
    private volatile boolean hasData;
    private volatile boolean closed;
    private boolean released;
    private boolean dropped;

    private LegacyStore(
            @Nullable LegacyEngine engine,
            StoreSpec spec,
            @Nullable StoreMark mark,
            ColumnFamilyStore cfs) {
        this.engine = engine;
        this.spec = spec;
        this.mark = mark;
        this.cfs = cfs;
        this.table = cfs.metadata();
        this.hasData = mark == null || mark.isWritten();
    }

    /**
     * The store that a node has of a table. It stays the node's: it is written to and read beside
     * whatever else the node does with it, and closing it only ends the use by this object.
     */
    public static LegacyStore of(ColumnFamilyStore cfs) {
        Path directory = cfs.getDirectories().getDirectoryForNewSSTables().toPath();
        return new LegacyStore(
                null, new StoreSpec(directory, cfs.name, 1, cfs.metadata), null, cfs);
    }

    static LegacyStore open(LegacyEngine engine, StoreSpec spec) {
        StoreMark mark = new StoreMark(spec);
        mark.prepare();
        TableMetadataRef ref = spec.metadata();
        Keyspace keyspace =
                Keyspace.mockKS(KeyspaceMetadata.create(ref.keyspace, KeyspaceParams.local()));
        synchronized (METRICS) {
            ColumnFamilyStore cfs =
                    ColumnFamilyStore.createColumnFamilyStore(
                            keyspace,
                            spec.columnFamily(),
                            ref,
                            directories(ref.get(), spec.directory()),
                            true,
                            false,
                            false);
            return new LegacyStore(engine, spec, mark, cfs);
        }
    }

    private static Directories directories(TableMetadata table, Path root) {
        return new Directories(table, new DataDirectory[] {new DataDirectory(root)});
    }

    private static MethodHandle newController() {
        try {
            return MethodHandles.privateLookupIn(
                            ReadExecutionController.class, MethodHandles.lookup())
                    .findConstructor(
                            ReadExecutionController.class,
                            MethodType.methodType(
                                    void.class,
                                    ReadCommand.class,
                                    OpOrder.Group.class,
                                    TableMetadata.class,
                                    ReadExecutionController.class,
                                    WriteContext.class,
                                    long.class,
                                    boolean.class));
        } catch (ReflectiveOperationException e) {
            throw new LinkageError("this is not Cassandra 5.0: " + e.getMessage(), e);
        }
    }

    @Override
    public StoreSpec spec() {
        return spec;
    }

    private IllegalStateException closed() {
        return new IllegalStateException("The store of " + spec.displayName() + " is closed.");
    }

    private void checkOpen() {
        if (closed) throw closed();
    }

    /** Follows an ALTER, as the schema would have the node do. */
    @SuppressWarnings("ReferenceEquality") // Another object is another version.
    private void followTable() {
        TableMetadata now = cfs.metadata();
        if (now == table || engine == null) return;
        synchronized (this) {
            if (now == table) return;
            cfs.reload();
            table = now;
        }
    }

    // Data

    @Override
    @SuppressWarnings("try") // What is open while it lasts.
    public void write(PartitionUpdate update) {
        followTable();
        try (OpOrder.Group mine = writing.start();
                OpOrder.Group group = Keyspace.writeOrder.start()) {
            checkOpen();
            CommitLogPosition position = CommitLog.instance.add(new Mutation(update));
            if (!hasData) hasData();
            cfs.apply(update, new CassandraWriteContext(group, position), false);
        }
        if (engine != null && engine.syncsWrites()) syncLog();
        writes.increment();
    }

    private synchronized void hasData() {
        if (mark != null) mark.written();
        hasData = true;
    }

    /** Holds what it reads until it is closed. */
    private ReadExecutionController controller(ReadCommand command) {
        OpOrder.Group group = cfs.readOrdering.start();
        try {
            checkOpen();
            // Without sampling, without tracking what is repaired.
            return (ReadExecutionController)
                    NEW_CONTROLLER.invokeExact(
                            command,
                            group,
                            cfs.metadata(),
                            (ReadExecutionController) null,
                            (WriteContext) null,
                            Long.MIN_VALUE,
                            false);
        } catch (Throwable t) {
            group.close();
            if (t instanceof RuntimeException e) throw e;
            if (t instanceof Error e) throw e;
            throw new IllegalStateException(t);
        }
    }

    @Override
    public UnfilteredRowIterator read(
            DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
        followTable();
        SinglePartitionReadCommand command =
                SinglePartitionReadCommand.create(
                        cfs.metadata(),
                        FBUtilities.nowInSeconds(),
                        key,
                        columns,
                        filter(slices, reversed));
        ReadExecutionController controller = controller(command);
        try {
            reads.increment();
            return new RowsUntilClosed(
                    command.queryMemtableAndDisk(cfs, controller), () -> true, controller::close);
        } catch (Throwable t) {
            controller.close();
            throw t;
        }
    }

    /**
     * As CQL asks for the row of a table without clustering columns: by name, so that Cassandra
     * looks into no older SSTable than the newest row needs.
     */
    private ClusteringIndexFilter filter(Slices slices, boolean reversed) {
        TableMetadata table = cfs.metadata();
        if (table.comparator.size() > 0 || !slices.selects(Clustering.EMPTY))
            return new ClusteringIndexSliceFilter(slices, reversed);
        return new ClusteringIndexNamesFilter(
                FBUtilities.singleton(Clustering.EMPTY, table.comparator), reversed);
    }

    @Override
    public UnfilteredPartitionIterator scan(DataRange range, ColumnFilter columns) {
        followTable();
        PartitionRangeReadCommand command =
                PartitionRangeReadCommand.create(
                        cfs.metadata(),
                        FBUtilities.nowInSeconds(),
                        columns,
                        RowFilter.none(),
                        DataLimits.NONE,
                        range);
        ReadExecutionController controller = controller(command);
        try {
            return new Scan(command.queryStorage(cfs, controller), controller);
        } catch (Throwable t) {
            controller.close();
            throw t;
        }
    }

    private static final class Scan implements UnfilteredPartitionIterator {
        private final UnfilteredPartitionIterator all;
        private final ReadExecutionController controller;
        private boolean closed;

        Scan(UnfilteredPartitionIterator all, ReadExecutionController controller) {
            this.all = all;
            this.controller = controller;
        }

        @Override
        public TableMetadata metadata() {
            return all.metadata();
        }

        private UnfilteredPartitionIterator open() {
            if (closed) throw new IllegalStateException("The scan is closed.");
            return all;
        }

        @Override
        public boolean hasNext() {
            return open().hasNext();
        }

        @Override
        public UnfilteredRowIterator next() {
            return new RowsUntilClosed(open().next(), () -> !closed, () -> {});
        }

        @Override
        public void close() {
            if (closed) return;
            closed = true;
            try (controller) {
                all.close();
            }
        }
    }

    @Override
    @SuppressWarnings("try") // What is open while it lasts.
    public boolean mayContain(DecoratedKey key) {
        try (OpOrder.Group group = cfs.readOrdering.start()) {
            checkOpen();
            ColumnFamilyStore.ViewFragment view = cfs.select(View.select(SSTableSet.LIVE, key));
            for (Memtable memtable : view.memtables)
                try (UnfilteredRowIterator rows = memtable.rowIterator(key)) {
                    if (rows != null) return true;
                }
            for (SSTableReader sstable : view.sstables)
                if (sstable.mayContainAssumingKeyIsInRange(key)) return true;
            return false;
        }
    }

    @Override
    public boolean isEmpty() {
        checkOpen();
        return !hasData;
    }

    // Streams

    @Override
    public StreamSource send(List<SliceRanges> slices) {
        checkOpen();
        throw noStreams();
    }

    @Override
    public StreamSink receive(StreamHead head, Collection<Range<Token>> owned) {
        checkOpen();
        throw noStreams();
    }

    @Override
    public long[] sizes(List<Range<Token>> ranges) {
        checkOpen();
        throw noStreams();
    }

    private static UnsupportedOperationException noStreams() {
        return new UnsupportedOperationException(
                "The engine 'legacy' has nothing to stream: Cassandra's own stream manager sends"
                        + " and receives its SSTables.");
    }

    // Maintenance

    @Override
    public void syncLog() {
        checkOpen();
        try {
            CommitLog.instance.sync(true);
        } catch (IOException e) {
            throw new FSWriteError(e, DatabaseDescriptor.getCommitLogLocation());
        }
    }

    @Override
    public void flush() {
        checkOpen();
        followTable();
        cfs.forceBlockingFlush(FlushReason.USER_FORCED);
    }

    @Override
    public void compact(Collection<Range<Token>> ranges) {
        flush();
        if (ranges.isEmpty()) {
            cfs.forceMajorCompaction();
            return;
        }
        try {
            cfs.forceCompactionForTokenRange(ranges);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(
                    "interrupted while " + spec.displayName() + " was compacted", e);
        } catch (ExecutionException e) {
            throw new IllegalStateException("compaction of " + spec.displayName(), e.getCause());
        }
    }

    @Override
    public void checkpoint(Path target) {
        flush();
        StoreMark own = mark;
        if (own == null)
            throw new UnsupportedOperationException("a node's table is copied by its snapshots");
        try (Refs<SSTableReader> sstables =
                cfs.selectAndReference(view -> view.select(SSTableSet.CANONICAL)).refs) {
            Files.createDirectory(target);
            try {
                Path files =
                        directories(cfs.metadata(), target).getDirectoryForNewSSTables().toPath();
                for (SSTableReader sstable : sstables) sstable.createLinks(files.toString());
                own.copyTo(target);
            } catch (Throwable t) {
                DirectoryTree.delete(target);
                throw t;
            }
        } catch (IOException e) {
            throw new FSWriteError(e, target);
        }
    }

    @Override
    public void retainRanges(Collection<Range<Token>> owned) {
        checkOpen();
        throw new UnsupportedOperationException(
                "The engine 'legacy' has no retainRanges: Cassandra's cleanup removes what the"
                        + " node's ring does not own.");
    }

    @Override
    public void verify(LongConsumer beforeFile) {
        checkOpen();
        IVerifier.Options options =
                IVerifier.options()
                        .invokeDiskFailurePolicy(false)
                        .extendedVerification(true)
                        .build();
        try (Refs<SSTableReader> sstables =
                cfs.selectAndReference(view -> view.select(SSTableSet.CANONICAL)).refs) {
            for (SSTableReader sstable : sstables) {
                beforeFile.accept(sstable.onDiskLength());
                try (IVerifier verifier =
                        sstable.getVerifier(cfs, new OutputHandler.LogOutput(), true, options)) {
                    verifier.verify();
                } catch (RuntimeException e) {
                    // A CorruptSSTableException, or one that has no type.
                    throw new CorruptStoreException(
                            sstable.getFilename()
                                    + " is damaged. Restore it from a snapshot, or repair.",
                            e);
                }
            }
        }
    }

    @Override
    public StoreStatistics statistics() {
        checkOpen();
        long partitions = 0;
        View view = cfs.getTracker().getView();
        for (Memtable memtable : view.getAllMemtables()) partitions += memtable.partitionCount();
        long rows = partitions;
        long live = 0;
        for (SSTableReader sstable : view.liveSSTables()) {
            partitions += sstable.estimatedKeys();
            rows += sstable.getTotalRows();
            live += sstable.onDiskLength();
        }
        return new StoreStatistics(
                partitions,
                rows,
                live,
                Math.max(live, cfs.metric.totalDiskSpaceUsed.getCount()),
                memoryBytes(),
                pendingCompactionBytes(view),
                writes.sum(),
                reads.sum());
    }

    /** Cassandra counts tasks; each is taken for the least that makes one. */
    private long pendingCompactionBytes(View view) {
        long bytes = 0;
        for (SSTableReader sstable : view.liveSSTables()) bytes += sstable.onDiskLength();
        int files = Math.max(1, view.liveSSTables().size());
        return (long) cfs.getCompactionStrategyManager().getEstimatedRemainingTasks()
                * cfs.getMinimumCompactionThreshold()
                * (bytes / files);
    }

    long memoryBytes() {
        long bytes = 0;
        for (Memtable memtable : cfs.getTracker().getView().getAllMemtables()) {
            Memtable.MemoryUsage usage = Memtable.getMemoryUsage(memtable);
            bytes += usage.ownsOnHeap + usage.ownsOffHeap;
        }
        return bytes;
    }

    // The end

    @Override
    public void close() {
        end(false);
        if (engine != null) engine.forget(this);
    }

    @Override
    public synchronized void drop() {
        // What is there later is another's.
        if (dropped) return;
        end(true);
        if (engine != null) engine.delete(this);
        dropped = true;
    }

    /** If it fails, it may be called again, and goes on. */
    private synchronized void end(boolean drop) {
        if (!released) {
            closed = true;
            await(writing.newBarrier());
            await(cfs.readOrdering.newBarrier());
            if (engine != null) {
                // Also if the table is dropped: a flush may be on its way.
                cfs.forceBlockingFlush(FlushReason.USER_FORCED);
                cfs.runWithCompactionsDisabled(
                        () -> {
                            release(drop);
                            return null;
                        },
                        OperationType.P0,
                        true,
                        false);
            }
            released = true;
        }
        if (engine != null) LifecycleTransaction.waitForDeletions();
    }

    private void release(boolean drop) {
        List<SSTableReader> sstables = new ArrayList<>(cfs.getLiveSSTables());
        synchronized (METRICS) {
            cfs.invalidate(false, drop);
            cfs.metric.release();
        }
        // Only what is dropped is let go by that.
        if (!drop) for (SSTableReader sstable : sstables) sstable.selfRef().release();
    }

    private void await(OpOrder.Barrier barrier) {
        barrier.issue();
        try {
            CompletableFuture.runAsync(barrier::await).get(1, TimeUnit.MINUTES);
        } catch (TimeoutException e) {
            throw new IllegalStateException(
                    "Reads or writes of " + spec.displayName() + " have not ended for a minute.",
                    e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        } catch (ExecutionException e) {
            throw new IllegalStateException(e.getCause());
        }
    }
}
