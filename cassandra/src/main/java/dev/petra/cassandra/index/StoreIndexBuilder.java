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
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionInterruptedException;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.index.SecondaryIndexBuilder;
import org.apache.cassandra.index.sai.StorageAttachedIndex;
import org.apache.cassandra.schema.ColumnMetadata;
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

    /** Of rows that are read at once. */
    private static final long PAGE_BYTES = 1 << 20;

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
        Map<StorageAttachedIndex, Long> builds = new HashMap<>();
        for (StorageAttachedIndex index : left()) {
            UUID known = StoreIndexes.id(index);
            // Another of the same name may have come while it waited.
            if (anew) whileStalled(() -> ifValid(index, () -> defined.drop(known)));
            whileStalled(() -> ifValid(index, () -> defined.define(known)));
            try {
                whileStalled(() -> builds.put(index, defined.setBuilding(known)));
            } catch (IllegalArgumentException e) {
                if (index.isIndexValid().getAsBoolean()) throw e;
            }
        }
        // What was written until the definitions were there came without entries.
        Keyspace.writeOrder.awaitNewBarrier();
        // It waits for parts of a stream that go into the store.
        if (!generation.isLive()) return false;
        builds.forEach(
                (index, number) ->
                        logger.info(
                                "Build {} of index {} begins, from what is in {}",
                                number,
                                index.getIndexMetadata().name,
                                generation));
        done.set(0);
        List<ColumnMetadata> columns =
                builds.keySet().stream().map(index -> index.termType().columnMetadata()).toList();
        RowPages pages =
                new RowPages(
                        store,
                        cfs.metadata(),
                        RowTerms.columns(cfs.metadata(), columns),
                        PAGE_BYTES);
        while (!pages.areOver()) {
            check(generation);
            List<StorageAttachedIndex> left = left().stream().filter(builds::containsKey).toList();
            if (left.isEmpty() || !generation.isLive()) return false;
            List<RowPages.Found> page = new ArrayList<>();
            whileStalled(() -> page.addAll(pages.next()));
            add(defined, left, page);
        }
        if (!generation.isLive()) return false;
        boolean all = true;
        for (StorageAttachedIndex index : left()) all &= isEnded(defined, index, builds.get(index));
        return all;
    }

    private static void ifValid(StorageAttachedIndex index, Runnable write) {
        if (index.isIndexValid().getAsBoolean()) write.run();
    }

    /** False if the build is to be repeated. */
    private boolean isEnded(TermIndexes defined, StorageAttachedIndex index, @Nullable Long build) {
        String name = index.getIndexMetadata().name;
        if (build == null) return false;
        boolean[] built = new boolean[1];
        whileStalled(() -> built[0] = defined.setBuilt(StoreIndexes.id(index), build));
        if (built[0]) {
            logger.info("Build {} of index {} is complete", build, name);
            return true;
        }
        logger.info(
                "Build {} of index {} ends without effect: the index was dropped, or another build"
                        + " of it began",
                build,
                name);
        return !index.isIndexValid().getAsBoolean();
    }

    private void add(
            TermIndexes defined, List<StorageAttachedIndex> left, List<RowPages.Found> page) {
        List<TermEntry> entries = new ArrayList<>();
        DecoratedKey key = null;
        for (RowPages.Found found : page) {
            if (key != null && (!found.key().equals(key) || entries.size() >= BATCH)) {
                add(defined, key, entries);
                entries = new ArrayList<>();
            }
            key = found.key();
            done.addAndGet(found.row().dataSize());
            StoreIndexes.derive(left, key, found.row(), entries);
        }
        if (key != null) add(defined, key, entries);
    }

    private void add(TermIndexes defined, DecoratedKey key, List<TermEntry> entries) {
        if (!entries.isEmpty()) whileStalled(() -> defined.add(key, entries));
    }

    /**
     * Compaction that is behind, or a full disk, makes it slow, and does not end it. It reads
     * nothing meanwhile: the store is opened anew only when nobody does. Until then reads may fail
     * in the same way.
     */
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
