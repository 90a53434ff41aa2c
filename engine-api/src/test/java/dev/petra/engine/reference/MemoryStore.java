// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import dev.petra.engine.RowsUntilClosed;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermIndexes;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ConcurrentNavigableMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongConsumer;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.AbstractUnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.BTreePartitionData;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.dht.IncludingExcludingBounds;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/** A store of the reference engine: a memtable that is never flushed. */
final class MemoryStore implements TableStore {
    private final MemoryEngine engine;
    private final StoreSpec spec;
    private final Path directory;
    private final MemoryData data;
    private final LongAdder writes = new LongAdder();
    private final LongAdder reads = new LongAdder();

    /** Guarded by this: iterators and streams handed out and not yet closed. */
    private int inUse;

    /** Guarded by this. */
    private boolean closed;

    /** Guarded by this: closed by a drop. */
    private boolean dropped;

    MemoryStore(MemoryEngine engine, StoreSpec spec, Path directory, MemoryData data) {
        this.engine = engine;
        this.spec = spec;
        this.directory = directory;
        this.data = data;
        data.adopt(spec.metadata());
        data.indexes.openedBy(this);
    }

    @Override
    public StoreSpec spec() {
        return spec;
    }

    MemoryData data() {
        return data;
    }

    synchronized void checkOpen() {
        if (closed)
            throw new IllegalStateException("The store of " + spec.displayName() + " is closed.");
    }

    /** Keeps the store open until the matching {@link #release}. */
    synchronized void acquire() {
        checkOpen();
        inUse++;
    }

    synchronized void release() {
        inUse--;
        notifyAll();
    }

    // Data

    @Override
    public void write(PartitionUpdate update) {
        write(update, List.of());
    }

    /** The entries first: nobody sees a row without them. */
    @Override
    public void write(PartitionUpdate update, List<TermEntry> entries) {
        acquire();
        data.moment.readLock().lock();
        try {
            if (!entries.isEmpty()) data.indexes.add(update.partitionKey(), entries);
            data.written = true;
            apply(update, data.partitions);
            writes.increment();
        } finally {
            data.moment.readLock().unlock();
            release();
        }
    }

    private void apply(
            PartitionUpdate update,
            ConcurrentNavigableMap<PartitionPosition, MemoryPartition> partitions) {
        if (update.isEmpty()) return;
        partitions
                .computeIfAbsent(
                        update.partitionKey(),
                        key ->
                                new MemoryPartition(
                                        spec.metadata(),
                                        (DecoratedKey) key,
                                        BTreePartitionData.unsafeGetEmpty()))
                .apply(update);
    }

    @Override
    public UnfilteredRowIterator read(
            DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
        acquire();
        boolean handedOut = false;
        try {
            reads.increment();
            MemoryPartition partition = data.partitions.get(key);
            if (partition == null || partition.isEmpty()) return null;
            UnfilteredRowIterator rows =
                    pinned(partition.unfilteredIterator(columns, slices, reversed));
            handedOut = true;
            return rows;
        } finally {
            if (!handedOut) release();
        }
    }

    /** Releases the store once, when the iterator is closed. */
    private UnfilteredRowIterator pinned(UnfilteredRowIterator rows) {
        return new RowsUntilClosed(rows, () -> true, this::release);
    }

    @Override
    public UnfilteredPartitionIterator scan(DataRange range, ColumnFilter columns) {
        acquire();
        TableMetadata table = spec.metadata().get();
        Iterator<MemoryPartition> partitions = within(range.keyRange()).values().iterator();
        return new AbstractUnfilteredPartitionIterator() {
            private boolean released;

            @Override
            public TableMetadata metadata() {
                return table;
            }

            private Iterator<MemoryPartition> open() {
                if (released) throw new IllegalStateException("The scan is closed.");
                return partitions;
            }

            @Override
            public boolean hasNext() {
                return open().hasNext();
            }

            @Override
            public UnfilteredRowIterator next() {
                MemoryPartition partition = open().next();
                reads.increment();
                return new RowsUntilClosed(
                        range.clusteringIndexFilter(partition.partitionKey())
                                .getUnfilteredRowIterator(columns, partition),
                        () -> !released,
                        () -> {});
            }

            @Override
            public void close() {
                if (!released) release();
                released = true;
            }
        };
    }

    /** As {@code SkipListMemtable.partitionIterator} understands the bounds. */
    private ConcurrentNavigableMap<PartitionPosition, MemoryPartition> within(
            AbstractBounds<PartitionPosition> bounds) {
        boolean includeLeft =
                bounds instanceof Bounds || bounds instanceof IncludingExcludingBounds;
        boolean includeRight = bounds instanceof Bounds || bounds instanceof Range;
        boolean fromLeft = !bounds.left.isMinimum();
        boolean toRight = !bounds.right.isMinimum();
        if (fromLeft && toRight)
            return data.partitions.subMap(bounds.left, includeLeft, bounds.right, includeRight);
        if (fromLeft) return data.partitions.tailMap(bounds.left, includeLeft);
        return toRight ? data.partitions.headMap(bounds.right, includeRight) : data.partitions;
    }

    @Override
    public boolean mayContain(DecoratedKey key) {
        checkOpen();
        return data.partitions.containsKey(key);
    }

    @Override
    public boolean isEmpty() {
        checkOpen();
        return !data.written;
    }

    @Override
    public boolean hasIndexes() {
        return true;
    }

    @Override
    public TermIndexes indexes() {
        checkOpen();
        return data.indexes;
    }

    // Streams

    @Override
    public StreamSource send(List<SliceRanges> slices) {
        checkOpen();
        return new MemorySource(this, slices);
    }

    @Override
    public StreamSink receive(StreamHead head, Collection<Range<Token>> owned) {
        checkOpen();
        data.indexes.checkReceivable();
        return new MemorySink(this, head, owned);
    }

    @Override
    public long[] sizes(List<Range<Token>> ranges) {
        checkOpen();
        return ranges.stream()
                .mapToLong(range -> MemoryPartitions.serialise(copyOf(List.of(range))).length)
                .toArray();
    }

    /** The partitions behind one, or all. Each changes until it is copied. */
    Collection<MemoryPartition> behind(@Nullable DecoratedKey key) {
        return (key == null ? data.partitions : data.partitions.tailMap(key, false)).values();
    }

    /** What is being sent may outlive a drop, as the heap has it; the next opening changes it. */
    synchronized void checkReadable() {
        if (closed && !dropped) checkOpen();
    }

    /** Makes received partitions live together: readers see the map before, or the map after. */
    void ingest(Collection<PartitionUpdate> updates) {
        if (updates.isEmpty()) return;
        data.moment.writeLock().lock();
        try {
            data.written = true;
            updates.forEach(data.indexes::derive);
            MemoryData next = data.copy(spec.metadata());
            updates.forEach(update -> apply(update, next.partitions));
            data.partitions = next.partitions;
        } finally {
            data.moment.writeLock().unlock();
        }
    }

    /** What lies within the ranges, as it is now. */
    List<MemoryPartition> copyOf(Collection<Range<Token>> ranges) {
        data.moment.writeLock().lock();
        try {
            List<MemoryPartition> copy = new ArrayList<>();
            for (MemoryPartition partition : data.partitions.values())
                if (isWithin(partition.partitionKey(), ranges) && !partition.isEmpty())
                    copy.add(partition.copy(spec.metadata()));
            return copy;
        } finally {
            data.moment.writeLock().unlock();
        }
    }

    static boolean isWithin(DecoratedKey key, Collection<Range<Token>> ranges) {
        return ranges.stream().anyMatch(range -> range.contains(key.getToken()));
    }

    // Maintenance

    @Override
    public void syncLog() {
        checkOpen();
    }

    @Override
    public void flush() {
        checkOpen();
    }

    @Override
    public void compact(Collection<Range<Token>> ranges) {
        checkOpen();
    }

    @Override
    public void checkpoint(Path target) {
        acquire();
        data.moment.writeLock().lock();
        try {
            Files.createDirectory(target);
            MemoryEngine.save(spec, target, data.copy(spec.metadata()));
        } catch (IOException e) {
            throw new FSWriteError(e, target);
        } finally {
            data.moment.writeLock().unlock();
            release();
        }
    }

    @Override
    public void retainRanges(Collection<Range<Token>> owned) {
        acquire();
        try {
            data.partitions.keySet().removeIf(key -> !isWithin((DecoratedKey) key, owned));
        } finally {
            release();
        }
    }

    @Override
    public void verify(LongConsumer beforeFile) {
        checkOpen();
    }

    @Override
    public void drop() {
        synchronized (this) {
            dropped |= !closed;
        }
        close();
        MemoryEngine.delete(directory);
    }

    @Override
    public StoreStatistics statistics() {
        checkOpen();
        long rows = data.partitions.values().stream().mapToLong(MemoryPartition::rowCount).sum();
        return new StoreStatistics(
                data.partitions.size(), rows, 0, 0, 0, 0, writes.sum(), reads.sum());
    }

    @Override
    public void close() {
        synchronized (this) {
            closed = true;
            boolean interrupted = false;
            while (inUse > 0) {
                try {
                    wait();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
            if (interrupted) Thread.currentThread().interrupt();
        }
        engine.onClosed(directory);
    }
}
