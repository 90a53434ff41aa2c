// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.memtable.Memtable;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Moves tables into engines and out of them, in the background, a step of one after a step of
 * another, on one thread. Thread-safe.
 */
final class Moves {
    private static final Logger logger = LoggerFactory.getLogger(Moves.class);
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(30);

    private static final Set<Move> all = new LinkedHashSet<>();
    private static @Nullable ScheduledExecutorService thread;
    private static volatile boolean stopped;

    private Moves() {}

    /** Adds one. It is begun when the node is up. */
    static synchronized void begin(Move move) {
        all.add(move);
        logger.info("{} begins", move);
        ScheduledExecutorService running = thread;
        if (running != null) schedule(running, move, Duration.ZERO);
    }

    /** When the commit log is replayed. */
    static synchronized void start() {
        if (stopped || thread != null) return;
        ScheduledExecutorService started =
                Executors.newSingleThreadScheduledExecutor(
                        work -> {
                            Thread made = new Thread(work, "PetraMoves");
                            made.setDaemon(true);
                            return made;
                        });
        thread = started;
        all.forEach(move -> schedule(started, move, Duration.ZERO));
    }

    /** Before the engines are closed. They go on when the node starts again. */
    static void stop() throws InterruptedException {
        ScheduledExecutorService running;
        synchronized (Moves.class) {
            stopped = true;
            running = thread;
        }
        if (running == null) return;
        running.shutdown();
        if (!running.awaitTermination(STOP_PATIENCE.toSeconds(), TimeUnit.SECONDS))
            logger.warn("A move of a table still runs while the node shuts down");
    }

    /** Whether {@link #stop} was called. */
    static boolean areStopped() {
        return stopped;
    }

    /** Those that are under way. */
    static synchronized List<Move> now() {
        return new ArrayList<>(all);
    }

    /**
     * Waits for the step of a table's move that is under way, when the table is dropped: what it
     * writes is then there to be deleted. A table that is created with the same ID would find it.
     */
    static void awaitStep(TableStores stores, Duration patience) {
        for (Move move : now()) {
            if (move.stores != stores) continue;
            try {
                if (move.awaitStep(Duration.ZERO)) continue;
                logger.info("DROP waits for a step of the move of {}", stores.displayName());
                if (!move.awaitStep(patience))
                    logger.warn(
                            "A step of the move of {}, which was dropped, still runs; what it"
                                    + " writes is deleted when it ends",
                            stores.displayName());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                logger.warn(
                        "Interrupted while a step of the move of {}, which was dropped, runs",
                        stores.displayName());
            }
        }
    }

    private static synchronized void schedule(
            ScheduledExecutorService running, Move move, Duration when) {
        if (stopped) return;
        var unused =
                running.schedule(() -> step(running, move), when.toMillis(), TimeUnit.MILLISECONDS);
    }

    private static void step(ScheduledExecutorService running, Move move) {
        Duration next;
        CompactionInfo.Holder progress = move.newProgress();
        CompactionManager.instance.active.beginCompaction(progress);
        try {
            next = move.takeStep();
        } catch (RuntimeException | Error e) {
            // Whatever it is, what was moved is moved; the rest is where it was.
            move.state("failed, to be tried again: " + e.getMessage());
            if (!stopped) logger.error("{} failed and is tried again", move, e);
            next = Move.LATER;
        } finally {
            CompactionManager.instance.active.finishCompaction(progress);
        }
        if (next != null) {
            if (progress.isStopRequested()) {
                move.state("stopped for a while, by nodetool stop or what needs its SSTables");
                next = Move.LATER;
            }
            schedule(running, move, next);
            return;
        }
        logger.info("{} is over: {}", move, move.state());
        synchronized (Moves.class) {
            all.remove(move);
        }
    }

    /**
     * Whether all writes to a table go to its engine. While a memtable of Cassandra's is alive, or
     * being flushed, some still go there.
     */
    static boolean areWritesOurs(ColumnFamilyStore cfs) {
        View view = cfs.getTracker().getView();
        for (Memtable live : view.liveMemtables) if (!(live instanceof PetraMemtable)) return false;
        for (Memtable flushing : view.flushingMemtables)
            if (!(flushing instanceof PetraMemtable)) return false;
        return true;
    }

    /** The memtable of ours that is moved out of its engine, or null. */
    static @Nullable PetraMemtable departing(ColumnFamilyStore cfs) {
        return cfs.getTracker() == null ? null : departing(cfs.getTracker().getView());
    }

    /** As {@link #departing(ColumnFamilyStore)}, as of a moment. */
    static @Nullable PetraMemtable departing(View view) {
        for (Memtable flushing : view.flushingMemtables)
            if (flushing instanceof PetraMemtable ours) return ours;
        for (Memtable live : view.liveMemtables)
            if (live instanceof PetraMemtable ours && ours.departure() != 0) return ours;
        return null;
    }
}
