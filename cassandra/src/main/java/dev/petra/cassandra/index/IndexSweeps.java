// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import com.google.common.collect.MapMaker;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.TableRegistry;
import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.TableStore;
import dev.petra.engine.index.SweepCheck;
import dev.petra.engine.index.TermIndexes;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.io.FSReadError;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes index entries of values that were overwritten or deleted. A write leaves them, since it
 * reads nothing, and a query skips them because it checks each row. So sweeps save time and space,
 * and change no answer.
 *
 * <p>A background thread sweeps one store at a time, those whose {@link SweepDebt} is due, and
 * works for a tenth of the time, or more where it is behind ({@link SweepPace}). {@code nodetool
 * garbagecollect} sweeps a table at once. Another thread, as a sweep may take days, does what is
 * left of {@link FormerEntries} and of dropped indexes, and finds indexes that a store has lost.
 */
public final class IndexSweeps {
    private static final Logger logger = LoggerFactory.getLogger(IndexSweeps.class);

    private static final int PERIOD_SECONDS = Integer.getInteger("petra.index.sweep_seconds", 60);

    private static final Map<TableStore, SweepDebt> debts = new MapMaker().weakKeys().makeMap();

    /** How many sweeps somebody waits for. While there are any, the background sweep ends. */
    private static final AtomicInteger hurried = new AtomicInteger();

    /**
     * How far behind is the table that is furthest behind, as of a minute ago: {@link
     * SweepDebt#timesDue}. The sweep of any other hastens as well, since it has to wait for that.
     */
    private static volatile long mostTimesDue;

    private static volatile boolean stopped;
    private static volatile @Nullable ScheduledExecutorService threads;

    /** The tables for which {@link #markLostSoon} was called, and is not done yet. */
    private static final Set<ColumnFamilyStore> marked = ConcurrentHashMap.newKeySet();

    private IndexSweeps() {}

    /** Starts the background threads. To be called when all tables are open. */
    public static synchronized void start() {
        if (stopped || threads != null) return;
        ScheduledExecutorService started =
                new ScheduledThreadPoolExecutor(
                        2,
                        work -> {
                            Thread made = new Thread(work, "PetraIndexSweeps");
                            made.setDaemon(true);
                            return made;
                        },
                        // When the node stops.
                        new ThreadPoolExecutor.DiscardPolicy());
        threads = started;
        every(
                started,
                () -> {
                    forEachTable(IndexSweeps::removeWhatIsLeft);
                    setMostTimesDue();
                });
        every(started, () -> forEachTable(IndexSweeps::sweepIfDue));
    }

    private static void every(ScheduledExecutorService running, Runnable work) {
        var unused =
                running.scheduleWithFixedDelay(
                        work, PERIOD_SECONDS, PERIOD_SECONDS, TimeUnit.SECONDS);
    }

    private static void forEachTable(Consumer<ColumnFamilyStore> work) {
        TableRegistry.forEachOwner(cfs -> lookAfter(cfs, work));
    }

    private static void removeWhatIsLeft(ColumnFamilyStore cfs) {
        StoreIndexes.dropFormerThatAreLeft(cfs);
        FormerEntries.of(cfs).drop();
        StoreIndexes.markLost(cfs);
        // Last: what it throws, as on a full disk, is to keep nothing else from being done.
        StoreIndexes.removeLeft(cfs);
    }

    private static void setMostTimesDue() {
        AtomicLong most = new AtomicLong();
        forEachTable(
                cfs -> {
                    Indexed table = whole(cfs);
                    if (table != null) most.accumulateAndGet(timesDue(table), Math::max);
                });
        mostTimesDue = most.get();
    }

    private static long timesDue(Indexed table) {
        return debt(table.store).timesDue(() -> entries(table.store));
    }

    /**
     * Stops all sweeps. To be called before the engines are closed. Does not wait: a sweep that
     * runs ends when it has read its current page of entries.
     */
    public static synchronized void stop() {
        stopped = true;
        ScheduledExecutorService running = threads;
        if (running != null) running.shutdownNow();
    }

    /**
     * Has the indexes of a table that its store has lost marked by the thread that does so every
     * minute. Never blocks. For queries: DROP INDEX waits for these while it holds the lock by
     * which the indexes that are being built are told from lost ones.
     */
    static void markLostSoon(ColumnFamilyStore cfs) {
        ScheduledExecutorService running = threads;
        if (running == null || !marked.add(cfs)) return;
        running.execute(
                () -> {
                    marked.remove(cfs);
                    lookAfter(cfs, StoreIndexes::markLost);
                });
    }

    /** Counts entries that were written to a store. */
    static void written(TableStore store, int entries) {
        debt(store).written(entries);
    }

    /** A store has one more index that is complete. */
    static void built(TableStore store) {
        debt(store).built();
    }

    private static SweepDebt debt(TableStore store) {
        SweepDebt known = debts.get(store);
        return known != null
                ? known
                : debts.computeIfAbsent(
                        store, made -> new SweepDebt(ThreadLocalRandom.current().nextDouble()));
    }

    /** A table with indexes in its store. */
    private record Indexed(ColumnFamilyStore cfs, Generation generation, TableStore store) {}

    /** Null if it has no indexes there, or not all of its rows. */
    private static @Nullable Indexed whole(ColumnFamilyStore cfs) {
        Indexed table = indexed(cfs);
        // During a migration some rows are in SSTables, and their entries in the store.
        return table != null && cfs.getLiveSSTables().isEmpty() ? table : null;
    }

    private static @Nullable Indexed indexed(ColumnFamilyStore cfs) {
        EngineMemtable memtable = EngineMemtables.current(cfs);
        if (memtable == null || !cfs.isValid() || StoreIndexes.of(cfs).isEmpty()) return null;
        Generation generation = memtable.generation();
        if (generation.failure() != null) return null;
        TableStore store = generation.existing();
        return store != null && store.hasIndexes() ? new Indexed(cfs, generation, store) : null;
    }

    private static void sweepIfDue(ColumnFamilyStore cfs) {
        // It would only wait for that sweep, if it is of the same table.
        if (hurried.get() > 0) return;
        Indexed table = whole(cfs);
        if (table != null && debt(table.store).isDue(() -> entries(table.store))) {
            var unused = sweep(table, true);
        }
    }

    /** Throws nothing: an exception would end the work of its kind. */
    private static void lookAfter(ColumnFamilyStore cfs, Consumer<ColumnFamilyStore> work) {
        try {
            work.accept(cfs);
        } catch (CancellationException e) {
            logger.debug("The sweep of the indexes of {} ends early", cfs.metadata());
        } catch (RuntimeException | Error e) {
            if (stopped || !cfs.isValid()) return;
            logger.warn(
                    "Entries of former values, or of dropped indexes, could not be removed from the"
                            + " store of {}; this is tried again in a minute",
                    cfs.metadata(),
                    e);
        }
    }

    private static long entries(TableStore store) {
        return store.metrics().getOrDefault("index_entries", 0L);
    }

    /**
     * Sweeps all indexes of a table without pauses, unless it is truncated or dropped.
     *
     * @return false if it could not sweep all of them: logged
     */
    public static boolean sweep(ColumnFamilyStore cfs) {
        Indexed table = indexed(cfs);
        if (table == null) return true;
        // Some may have come since the table was compacted.
        if (!cfs.getLiveSSTables().isEmpty()) {
            logger.warn(
                    "The indexes of {} keep the entries of former values, because SSTables of the"
                            + " table are not migrated into its storage engine; petra.migrations"
                            + " says why. Repeat nodetool garbagecollect when it does not have the"
                            + " table",
                    cfs.metadata());
            return false;
        }
        hurried.incrementAndGet();
        try {
            List<String> incomplete = sweep(table, false);
            if (!incomplete.isEmpty()) {
                logger.warn(
                        "Indexes {} of {} keep the entries of former values, because they are not"
                                + " complete. Repeat nodetool garbagecollect when they are built;"
                                + " where no build runs, nodetool rebuild_index begins one",
                        incomplete,
                        cfs.metadata());
                return false;
            }
        } catch (Over e) {
            // What was truncated or dropped has no entries; indexes behind a dropped one may have.
            if (table.generation.isLive() && !StoreIndexes.of(cfs).isEmpty()) {
                logger.warn(
                        "The sweep of the indexes of {} ends early, because one of them was dropped"
                                + " or the node stops. Repeat nodetool garbagecollect",
                        cfs.metadata());
                return false;
            }
            logger.debug(
                    "{} was truncated or dropped while its indexes were swept", cfs.metadata());
        } catch (CancellationException e) {
            logger.warn(
                    "{}. Repeat nodetool garbagecollect when the stream has ended", e.getMessage());
            return false;
        } finally {
            hurried.decrementAndGet();
        }
        return true;
    }

    /** The table, the index or the node has ended, and the sweep with it. */
    private static final class Over extends CancellationException {
        private static final long serialVersionUID = 1;
    }

    /** Returns the names of indexes that were passed over because they are not complete. */
    private static List<String> sweep(Indexed table, boolean slowly) {
        List<String> incomplete = new ArrayList<>();
        long began = System.nanoTime();
        SweepDebt.Swept swept =
                debt(table.store)
                        .pay(
                                !slowly,
                                () -> entries(table.store),
                                part -> sweepAll(table, slowly, part, incomplete));
        logger.info(
                "Removed {} of {} entries from the indexes of {} in {} s: their values were"
                        + " overwritten or deleted",
                swept.removed(),
                swept.looked(),
                table.cfs.metadata(),
                TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - began));
        return incomplete;
    }

    private static void sweepAll(
            Indexed table, boolean slowly, SweepDebt.Sweep sweep, List<String> incomplete) {
        TermIndexes indexes = table.store.indexes();
        for (Index index : StoreIndexes.of(table.cfs)) {
            // Not one that is being built, or was dropped meanwhile.
            if (!StoreIndexes.isBuilt(index, table.store)) {
                sweep.passedOver();
                if (IndexTerms.isValid(index)) incomplete.add(IndexTerms.name(index));
                continue;
            }
            Check check = new Check(table, index, slowly);
            try {
                long incarnation = indexes.incarnation(StoreIndexes.id(index));
                if (sweep.isDone(incarnation)) continue;
                long unused = indexes.sweep(StoreIndexes.id(index), check);
                sweep.done(incarnation);
            } catch (IllegalStateException | IllegalArgumentException e) {
                // The store was closed, or the index was dropped, during the sweep.
                check.endIfOver();
                throw e;
            } finally {
                sweep.add(check.looked, check.removed);
            }
        }
    }

    /** Compares entries with the rows in the store. */
    private static final class Check implements SweepCheck {
        private final Indexed table;
        private final Index index;
        private final boolean slowly;
        private final EntryRows rows;
        private final SweepPace pace;
        private long looked;
        private long removed;
        private boolean isDamageLogged;

        Check(Indexed table, Index index, boolean slowly) {
            this.table = table;
            this.index = index;
            this.slowly = slowly;
            this.rows = new EntryRows(table.store, IndexTerms.column(index));
            this.pace =
                    new SweepPace(
                            System::nanoTime,
                            LockSupport::parkNanos,
                            () -> Math.max(mostTimesDue, timesDue(table)));
        }

        @Override
        public boolean isConfirmed(ByteBuffer term, DecoratedKey key, Clustering<?> clustering) {
            Row row;
            try {
                row = rows.row(table.cfs.metadata(), key, clustering);
            } catch (CorruptStoreException e) {
                logDamage(e);
                return true;
            } catch (FSReadError e) {
                // Which may pass: somebody who waits is told.
                if (!slowly) throw e;
                logDamage(e);
                return true;
            }
            return row != null && IndexTerms.isOf(index, key, row, term);
        }

        @Override
        public void looked(boolean isRemoved) {
            looked++;
            if (isRemoved) removed++;
        }

        private void logDamage(Throwable e) {
            if (isDamageLogged) return;
            isDamageLogged = true;
            logger.error(
                    "A row of {} cannot be read: its entries in index {} are kept",
                    table.cfs.metadata(),
                    index.getIndexMetadata().name,
                    e);
        }

        /** Ends the sweep if the node stops, or the table or the index has ended. */
        void endIfOver() {
            if (stopped || !table.generation.isLive() || !IndexTerms.isValid(index))
                throw new Over();
        }

        /** Not {@code nodetool garbagecollect}, which is for the entries of now. */
        @Override
        public boolean goesOn() {
            return slowly;
        }

        @Override
        public void pause() {
            endIfOver();
            if (slowly) pace.rest(this::endIfNotWanted);
        }

        private void endIfNotWanted() {
            endIfOver();
            // A thread that is interrupted does not sleep.
            if (hurried.get() > 0 || Thread.currentThread().isInterrupted())
                throw new CancellationException();
        }
    }
}
