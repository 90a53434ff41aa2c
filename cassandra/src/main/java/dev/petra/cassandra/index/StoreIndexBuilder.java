// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import dev.petra.cassandra.table.CompactionInfos;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.Generation;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermIndexes;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionInterruptedException;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.index.SecondaryIndexBuilder;
import org.apache.cassandra.index.sai.StorageAttachedIndex;
import org.apache.cassandra.utils.TimeUUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Builds indexes of a table from what is in its store, while it is written to. Run by Cassandra, on
 * its threads for index builds; {@code nodetool compactionstats} shows it, and {@code nodetool
 * stop} ends it, which fails the build.
 */
public final class StoreIndexBuilder extends SecondaryIndexBuilder {
    private static final Logger logger = LoggerFactory.getLogger(StoreIndexBuilder.class);

    /** Entries that are added at once, about. */
    private static final int BATCH = 1_000;

    private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    private final ColumnFamilyStore cfs;
    private final List<StorageAttachedIndex> indexes;
    private final boolean anew;
    private final @Nullable SecondaryIndexBuilder first;
    private final TimeUUID id = TimeUUID.Generator.nextTimeUUID();
    private final AtomicLong done = new AtomicLong();

    /**
     * @param anew whether what there is of the entries is dropped first
     * @param first builds what is in SSTables; null if that is done
     */
    public StoreIndexBuilder(
            ColumnFamilyStore cfs,
            Collection<StorageAttachedIndex> indexes,
            boolean anew,
            @Nullable SecondaryIndexBuilder first) {
        this.cfs = cfs;
        this.indexes = List.copyOf(indexes);
        this.anew = anew;
        this.first = first;
    }

    @Override
    public CompactionInfo getCompactionInfo() {
        EngineMemtable memtable = EngineMemtables.current(cfs);
        long all =
                memtable == null
                        ? 0
                        : memtable.generation().statistic(StoreStatistics::liveDataBytes);
        long read = done.get();
        return CompactionInfos.withoutSSTables(
                cfs.metadata(),
                OperationType.INDEX_BUILD,
                read,
                Math.max(read, all),
                CompactionInfo.Unit.BYTES,
                id);
    }

    @Override
    public void build() {
        if (first != null) first.build();
        while (true) {
            // What leaves the engine is indexed when it has left.
            EngineMemtable memtable = EngineMemtables.current(cfs);
            if (memtable == null || !cfs.isValid()) return;
            Generation generation = memtable.generation();
            try {
                if (build(generation)) return;
            } catch (IllegalStateException e) {
                // Its store ends with it.
                if (generation.isLive()) throw e;
            }
            if (left().isEmpty()) return;
        }
    }

    /** Those that were not dropped meanwhile. */
    private List<StorageAttachedIndex> left() {
        return indexes.stream().filter(index -> index.isIndexValid().getAsBoolean()).toList();
    }

    /** False if the table was truncated, or left, meanwhile. */
    private boolean build(Generation generation) {
        // From here on whoever writes knows the indexes, and who did not has written.
        Keyspace.writeOrder.awaitNewBarrier();
        TableStore store = generation.existingOrCreated();
        if (store == null) return generation.isLive();
        TermIndexes defined = store.indexes();
        for (StorageAttachedIndex index : left()) {
            if (anew) defined.drop(StoreIndexes.id(index));
            whileStalled(() -> defined.define(StoreIndexes.id(index)));
            defined.setState(StoreIndexes.id(index), TermIndexes.State.BUILDING);
        }
        // What was written until the definitions were there came without entries.
        Keyspace.writeOrder.awaitNewBarrier();
        // It waits for parts of a stream that go into the store.
        if (!generation.isLive()) return false;
        logger.info("Building {} from what is in {}", left(), generation);
        done.set(0);
        try (UnfilteredPartitionIterator partitions =
                store.scan(
                        DataRange.allData(cfs.getPartitioner()),
                        ColumnFilter.all(cfs.metadata()))) {
            while (partitions.hasNext())
                try (UnfilteredRowIterator partition = partitions.next()) {
                    if (!build(generation, defined, partition)) return false;
                }
        }
        if (!generation.isLive()) return false;
        for (StorageAttachedIndex index : left())
            try {
                defined.setState(StoreIndexes.id(index), TermIndexes.State.BUILT);
            } catch (IllegalArgumentException e) {
                if (index.isIndexValid().getAsBoolean()) throw e;
            }
        return true;
    }

    private boolean build(
            Generation generation, TermIndexes defined, UnfilteredRowIterator partition) {
        DecoratedKey key = partition.partitionKey();
        List<StorageAttachedIndex> left = left();
        List<TermEntry> entries = new ArrayList<>();
        check(generation);
        derive(left, key, partition.staticRow(), entries);
        while (partition.hasNext()) {
            Unfiltered next = partition.next();
            if (next instanceof Row row) derive(left, key, row, entries);
            if (entries.size() < BATCH) continue;
            add(defined, key, entries);
            entries = new ArrayList<>();
            check(generation);
            left = left();
            if (left.isEmpty() || !generation.isLive()) return false;
        }
        add(defined, key, entries);
        return !left.isEmpty();
    }

    private void derive(
            List<StorageAttachedIndex> left, DecoratedKey key, Row row, List<TermEntry> entries) {
        done.addAndGet(row.dataSize());
        StoreIndexes.derive(left, key, row, entries);
    }

    private void add(TermIndexes defined, DecoratedKey key, List<TermEntry> entries) {
        if (!entries.isEmpty()) whileStalled(() -> defined.add(key, entries));
    }

    /** Compaction that is behind, or a full disk, makes it slow, and does not end it. */
    private void whileStalled(Runnable write) {
        while (true) {
            try {
                write.run();
                return;
            } catch (WriteStallException e) {
                check(null);
                // On a full disk the next try fails at once.
                LockSupport.parkNanos(PAUSE_NANOS);
            }
        }
    }

    private void check(@Nullable Generation generation) {
        if (isStopRequested()) throw new CompactionInterruptedException(getCompactionInfo());
        if (generation != null) generation.existing();
    }
}
