// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.cassandra.table.CompactionInfos;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.WriteStalls;
import dev.petra.engine.TableStore;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermIndexes;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionInterruptedException;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.SecondaryIndexBuilder;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.FBUtilities;
import org.apache.cassandra.utils.TimeUUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Builds indexes of a table from the rows in its store, while writes go on. Cassandra runs it on
 * its threads for index builds. {@code nodetool compactionstats} shows it, and {@code nodetool stop
 * INDEX_BUILD} ends it, which fails the build.
 *
 * <p>A round reads all rows and adds their entries. The store then refuses to call the index
 * complete if another round began, or somebody wrote rows without entries, since this one began:
 * the build then begins another round, or yields to a build that began later, and waits for the end
 * of that; see {@link RunningBuilds}. Whoever asked for it may take the index for complete when it
 * ends.
 */
public final class StoreIndexBuilder extends SecondaryIndexBuilder {
    private static final Logger logger = LoggerFactory.getLogger(StoreIndexBuilder.class);

    /** About how many entries of one partition are added in one batch. */
    private static final int BATCH = 1_000;

    /** Bounds the rows that are held on the heap. */
    private static final long PAGE_BYTES = 1 << 20;

    /** Between two looks whether a build that it yields to is over. */
    private static final Duration PAUSE = Duration.ofMillis(100);

    private static final RunningBuilds RUNNING = new RunningBuilds();

    private final ColumnFamilyStore cfs;
    private final List<Index> indexes;
    private final boolean anew;
    private final @Nullable SecondaryIndexBuilder first;
    private final TimeUUID id = TimeUUID.Generator.nextTimeUUID();

    /** How much of the ring is behind the partitions that are read, from 0 to 1. */
    private volatile double walked;

    private volatile boolean isFirstOver;

    /** In which this began; null before. Others are of after a TRUNCATE. */
    private @Nullable Generation firstGeneration;

    /** Those that are complete, or were dropped. */
    private final Set<Index> ended = new HashSet<>();

    /** Those that another build, which began later, makes complete meanwhile. */
    private final Set<Index> yielded = new HashSet<>();

    /** Those whose former entries were dropped. */
    private final Set<Index> emptied = new HashSet<>();

    /**
     * @param anew whether the entries that are there are dropped first
     * @param first builds the indexes of SSTables; null if these are complete
     */
    public StoreIndexBuilder(
            ColumnFamilyStore cfs,
            Collection<Index> indexes,
            boolean anew,
            @Nullable SecondaryIndexBuilder first) {
        this.cfs = cfs;
        this.indexes = List.copyOf(indexes);
        this.anew = anew;
        this.first = first;
    }

    /**
     * Adds what indexes lack of the rows in the store of their table. Blocks until that is done, on
     * another thread.
     *
     * @throws RuntimeException if it could not be done, or was stopped
     */
    public static void complete(ColumnFamilyStore cfs, Collection<Index> indexes) {
        FBUtilities.waitOnFuture(
                CompactionManager.instance.submitIndexBuild(
                        new StoreIndexBuilder(cfs, indexes, false, null)));
    }

    /**
     * How far a build has come is known by the tokens, in whose order partitions are read. With a
     * partitioner whose tokens have no distances (ByteOrderedPartitioner) it stays at 0.
     */
    @Override
    public CompactionInfo getCompactionInfo() {
        EngineMemtable memtable = EngineMemtables.current(cfs);
        long all =
                memtable == null
                        ? 0
                        : memtable.generation()
                                .statistic(store -> store.liveDataBytes() + store.memoryBytes());
        return CompactionInfos.withoutSSTables(
                first == null || isFirstOver ? notTheTable() : cfs.metadata(),
                OperationType.INDEX_BUILD,
                (long) (walked * all),
                all,
                CompactionInfo.Unit.BYTES,
                id);
    }

    private void reached(DecoratedKey key) {
        if (cfs.getPartitioner().splitter().isPresent())
            walked = cfs.getPartitioner().getMinimumToken().size(key.getToken());
    }

    /**
     * Who needs the SSTables of a table, such as TRUNCATE or CREATE INDEX, stops what is known as
     * this table's. A build from a store has none, and TRUNCATE leaves it nothing to build: stopped
     * for that, it could not be told from one that {@code nodetool stop} has ended.
     */
    private TableMetadata notTheTable() {
        return cfs.metadata().unbuild().comment("an index is built from its store").build();
    }

    /** Cassandra knows this one alone, and not that of the SSTables, which it consists of. */
    @Override
    public void stop() {
        super.stop();
        if (first != null) first.stop();
    }

    @Override
    public void build() {
        if (first != null) first.build();
        isFirstOver = true;
        endIfStopped();
        while (!left().isEmpty()) {
            // A table that migrates out of the engine is indexed when that has ended.
            EngineMemtable memtable = EngineMemtables.current(cfs);
            if (memtable == null || !cfs.isValid()) return;
            Generation generation = memtable.generation();
            if (firstGeneration == null) firstGeneration = generation;
            // Writes that did not know the indexes have ended: if there is no store, it is empty.
            Keyspace.writeOrder.awaitNewBarrier();
            try {
                TableStore store = generation.existingOrCreated();
                if (store != null) build(generation, store);
                else if (generation.isLive()) return;
            } catch (Unneeded e) {
                logger.debug("A build of indexes of {} need not wait any more", generation);
            } catch (IllegalStateException e) {
                // A truncated generation's store is closed. Its successor is built instead.
                if (generation.isLive()) throw e;
            }
        }
    }

    /** Ends a wait: the indexes were dropped, or the generation has ended. */
    private static final class Unneeded extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    /** Returns the indexes that are not ended, without those that were dropped meanwhile. */
    private List<Index> left() {
        return indexes.stream()
                .filter(index -> IndexTerms.isValid(index) && !ended.contains(index))
                .toList();
    }

    /** Builds all that are left in one store, with as many rounds as it takes. */
    private void build(Generation generation, TableStore store) {
        Map<Index, Long> began = new HashMap<>();
        try {
            while (generation.isLive() && !left().isEmpty()) buildOnce(generation, store, began);
        } finally {
            began.forEach((index, round) -> RUNNING.ends(store, StoreIndexes.id(index), round));
        }
    }

    /**
     * Builds all that are left, unless the table is truncated, or leaves the engine, meanwhile.
     *
     * @param began the number of the first round of each
     */
    private void buildOnce(Generation generation, TableStore store, Map<Index, Long> began) {
        TermIndexes defined = store.indexes();
        Map<Index, Long> rounds = new HashMap<>();
        for (Index index : left()) {
            if (hasYielded(store, index, began)) continue;
            // That one may have ended since the last round did.
            Long before = began.get(index);
            if (before != null && wasCompletedByAnother(store, index, before)) continue;
            if (wasMadeWith(generation, store, index)) continue;
            if (anew && !emptied.contains(index)) {
                whileStalled(generation, () -> StoreIndexes.drop(index, store));
                emptied.add(index);
            }
            whileStalled(generation, () -> StoreIndexes.define(index, store));
            long[] round = new long[1];
            try {
                whileStalled(generation, () -> round[0] = begin(index, store, began));
            } catch (IllegalArgumentException e) {
                logger.debug(
                        "Index {} has just been dropped from {}",
                        IndexTerms.name(index),
                        generation,
                        e);
                continue;
            }
            if (round[0] == 0) ended.add(index);
            else rounds.put(index, round[0]);
        }
        release(store, began);
        if (rounds.isEmpty()) {
            endIfStopped();
            Uninterruptibles.sleepUninterruptibly(PAUSE);
            return;
        }
        // Writes that began before the definition may write no entries: their rows are read below.
        Keyspace.writeOrder.awaitNewBarrier();
        // The definition may have waited long for files of a stream to go live.
        if (!generation.isLive()) return;
        rounds.forEach(
                (index, number) ->
                        logger.info(
                                "Build {} of index {} begins, from what is in {}",
                                number,
                                IndexTerms.name(index),
                                generation));
        walked = 0;
        List<ColumnMetadata> columns = rounds.keySet().stream().map(IndexTerms::column).toList();
        try (RowPages pages =
                new RowPages(
                        store,
                        cfs.metadata(),
                        RowTerms.columns(cfs.metadata(), columns),
                        PAGE_BYTES,
                        () -> check(generation))) {
            while (!pages.areOver()) {
                check(generation);
                rounds.keySet().removeIf(index -> hasYielded(store, index, began));
                List<Index> left = left().stream().filter(rounds::containsKey).toList();
                if (left.isEmpty()) return;
                List<RowPages.Found> page = new ArrayList<>();
                whileStalled(generation, () -> page.addAll(pages.next()), pages);
                add(generation, defined, left, page, pages);
            }
        }
        if (!generation.isLive()) return;
        for (Index index : left()) {
            Long round = rounds.get(index);
            if (round != null && isComplete(generation, store, index, round)) ended.add(index);
        }
    }

    /**
     * Begins a round of one index. The builds of an index are told of it in the order of their
     * numbers.
     *
     * @return its number; 0 if Cassandra has dropped the index
     */
    private static long begin(Index index, TableStore store, Map<Index, Long> began) {
        return StoreIndexes.setBuilding(
                index,
                store,
                round -> {
                    long first = began.computeIfAbsent(index, none -> round);
                    RUNNING.begins(store, StoreIndexes.id(index), first, round);
                });
    }

    /** Whether another build of one index began later and still runs. */
    private boolean hasYielded(TableStore store, Index index, Map<Index, Long> began) {
        Long first = began.get(index);
        if (first == null) return false;
        long other = RUNNING.yieldsTo(store, StoreIndexes.id(index), first);
        if (other == 0) {
            yielded.remove(index);
            return false;
        }
        if (yielded.add(index))
            logger.info(
                    "Build {} of index {} waits for build {}, which began later",
                    first,
                    IndexTerms.name(index),
                    other);
        return true;
    }

    /**
     * Nobody is to wait for what this build has ended. So no two builds wait for each other: a
     * build waits when all that it has left have yielded, and of those that run for an index, the
     * one that began last does not yield.
     */
    private void release(TableStore store, Map<Index, Long> began) {
        List<Index> left = left();
        began.forEach(
                (index, first) -> {
                    if (!left.contains(index)) RUNNING.ends(store, StoreIndexes.id(index), first);
                });
    }

    /** Ends a round. Returns false if the index needs another one, by this build or another. */
    private boolean isComplete(Generation generation, TableStore store, Index index, long round) {
        boolean[] built = new boolean[1];
        whileStalled(generation, () -> built[0] = StoreIndexes.setBuilt(index, store, round));
        if (built[0]) {
            IndexSweeps.built(store);
            logger.info("Build {} of index {} is complete", round, IndexTerms.name(index));
            return true;
        }
        if (wasCompletedByAnother(store, index, round)) return true;
        logger.info(
                "Build {} of index {} ends without effect: the index was dropped, or another build"
                        + " of it began",
                round,
                IndexTerms.name(index));
        return false;
    }

    /** Ends the build of one index if it is complete, though no round of this build made it so. */
    private boolean wasCompletedByAnother(TableStore store, Index index, long round) {
        if (!StoreIndexes.isBuilt(index, store)) return false;
        logger.info(
                "Build {} of index {} ends because another build has completed the index",
                round,
                IndexTerms.name(index));
        ended.add(index);
        return true;
    }

    /**
     * Ends the build of one index if the store of a generation that came after its begin has it
     * complete: {@link StoreIndexes#defineIn} made it so before the first write, and whoever wrote
     * rows without its entries, or builds it, has set it to {@link TermIndexes.State#BUILDING}.
     */
    private boolean wasMadeWith(Generation generation, TableStore store, Index index) {
        if (generation == firstGeneration || !StoreIndexes.isBuilt(index, store)) return false;
        logger.info(
                "The build of index {} ends because {} was made with the index",
                IndexTerms.name(index),
                generation);
        ended.add(index);
        return true;
    }

    private void add(
            Generation generation,
            TermIndexes defined,
            List<Index> left,
            List<RowPages.Found> page,
            RowPages pages) {
        List<TermEntry> entries = new ArrayList<>();
        DecoratedKey key = null;
        for (RowPages.Found found : page) {
            if (key != null && (!found.key().equals(key) || entries.size() >= BATCH)) {
                add(generation, defined, key, entries, pages);
                entries = new ArrayList<>();
            }
            key = found.key();
            StoreIndexes.derive(left, key, found.row(), entries);
        }
        if (key == null) return;
        add(generation, defined, key, entries, pages);
        reached(key);
    }

    private void add(
            Generation generation,
            TermIndexes defined,
            DecoratedKey key,
            List<TermEntry> entries,
            RowPages pages) {
        if (!entries.isEmpty()) whileStalled(generation, () -> defined.add(key, entries), pages);
    }

    /**
     * Does something, and repeats it while writes are stalled by compaction or by a full disk,
     * which may be for days: the thread that builds new indexes of all tables waits for this one.
     * So it ends where nobody needs it any more. The read of the pages is closed while it waits,
     * because a store whose disk was full is opened anew only when nobody reads it. Until it is,
     * reads throw the same exception.
     *
     * @param write may also be a read
     * @param pages null if none are being read
     */
    private void whileStalled(Generation generation, Runnable write, @Nullable RowPages pages) {
        WriteStalls.sitOut(
                write,
                stall -> {
                    if (pages != null) pages.rest();
                    endIfStopped();
                    // A table that leaves its engine needs the room itself.
                    if (left().isEmpty()
                            || !generation.isLive()
                            || EngineMemtables.current(cfs) == null) throw new Unneeded();
                });
    }

    private void whileStalled(Generation generation, Runnable write) {
        whileStalled(generation, write, null);
    }

    private void endIfStopped() {
        if (isStopRequested()) throw new CompactionInterruptedException(getCompactionInfo());
    }

    /** Throws if the build was stopped, or the store is not the table's any more. */
    private void check(Generation generation) {
        endIfStopped();
        generation.existing();
        if (!generation.isLive())
            throw new IllegalStateException(generation + " has ended, and with it its index build");
    }
}
