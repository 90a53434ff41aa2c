// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import dev.petra.engine.WalSync;
import dev.petra.engine.WriteStallException;
import java.io.IOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.utils.concurrent.UncheckedInterruptedException;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Syncs the logs of all stores: at the interval in periodic mode, at the window in group mode. In
 * batch mode, where each write syncs itself, it syncs what the store writes by itself. One daemon
 * thread keeps the time and others sync, so that no store waits for the syncs of all others.
 *
 * @param <L> what a log is
 */
public final class LogSyncer<L extends LogSyncer.Log> implements AutoCloseable {
    private static final Logger logger = LoggerFactory.getLogger(LogSyncer.class);

    /** A disk answers some syncs together; more threads than this gain hardly anything. */
    private static final int THREADS_OF_A_DISK = 16;

    private static final long BATCH_INTERVAL_MILLIS = 1_000;
    private static final long IDLE_SECONDS = 30;

    /** After that a disk counts as failed. */
    private static final Duration PATIENCE = Duration.ofMinutes(1);

    /** A store, as far as it is synced. */
    public interface Log {
        String name();

        /** Its disk: equal for all logs of one disk. */
        Object disk();

        /** Whether there is something to sync. */
        boolean isPending();

        /** Whether something acknowledged may not be durable yet, a sync under way included. */
        boolean isUnsettled();

        void sync();

        /** In periodic mode: a sync has not ended within an interval. */
        void lags();
    }

    private final Supplier<? extends Iterable<L>> logs;
    private final Duration patience;
    private final Thread thread;

    /** By disk: one that does not answer holds up no other. */
    private final Map<Object, ThreadPoolExecutor> syncs = new ConcurrentHashMap<>();

    private final Set<L> underWay = ConcurrentHashMap.newKeySet();

    /** The syncs for which {@link #syncAcknowledged} gave up waiting. */
    private final Map<L, Future<?>> unanswered = new ConcurrentHashMap<>();

    private volatile WalSync mode = WalSync.PERIODIC;
    private volatile long intervalMillis = 10_000;
    private boolean closed;

    public LogSyncer(Supplier<? extends Iterable<L>> logs) {
        this(logs, PATIENCE);
    }

    /**
     * @param patience how long {@link #syncAcknowledged} waits
     */
    public LogSyncer(Supplier<? extends Iterable<L>> logs, Duration patience) {
        this.logs = logs;
        this.patience = patience;
        this.thread = daemon(this::run, "petra-log-sync");
        thread.start();
    }

    private ThreadPoolExecutor syncs(L log) {
        return syncs.computeIfAbsent(
                log.disk(),
                disk -> {
                    ThreadPoolExecutor ofDisk =
                            new ThreadPoolExecutor(
                                    THREADS_OF_A_DISK,
                                    THREADS_OF_A_DISK,
                                    IDLE_SECONDS,
                                    TimeUnit.SECONDS,
                                    new LinkedBlockingQueue<>(),
                                    task -> daemon(task, "petra-log-sync-worker"));
                    ofDisk.allowCoreThreadTimeOut(true);
                    return ofDisk;
                });
    }

    private static Thread daemon(Runnable task, String name) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        return thread;
    }

    public WalSync mode() {
        return mode;
    }

    public synchronized void set(WalSync mode, Duration interval) {
        this.mode = mode;
        this.intervalMillis =
                mode == WalSync.BATCH ? BATCH_INTERVAL_MILLIS : Math.max(1, interval.toMillis());
        notifyAll();
    }

    private void run() {
        while (awaitInterval())
            for (L log : logs.get()) {
                if (!log.isPending()) continue;
                // One whose sync takes longer than the interval is synced again after the next.
                if (underWay.add(log)) begin(log);
                else if (mode == WalSync.PERIODIC) log.lags();
            }
    }

    private void begin(L log) {
        try {
            syncs(log).execute(() -> sync(log));
        } catch (RuntimeException | Error e) {
            // No thread may be had now; this one must go on, or nothing is synced ever again.
            underWay.remove(log);
            logger.error("Syncing the log of {} could not begin; it is tried again", log.name(), e);
        }
    }

    private void sync(L log) {
        try {
            log.sync();
        } catch (WriteStallException e) {
            // Its disk is full, which the store has said; healing syncs it.
            logger.debug("Syncing the log of {} failed", log.name(), e);
        } catch (FailedSyncError e) {
            // Which the store has said; nothing mends it.
            logger.debug("Syncing the log of {} failed", log.name(), e);
        } catch (RuntimeException | Error e) {
            // The store remembers it and fails its writes until a sync succeeds.
            logger.error(
                    "Syncing the log of {} failed; writes to the table are refused until a sync"
                            + " succeeds, which is tried all the time. Check its disk",
                    log.name(),
                    e);
        } finally {
            underWay.remove(log);
        }
    }

    /**
     * Returns when what was acknowledged before is durable. In batch and in group mode it always
     * is: the writer waits for it.
     *
     * @param wanted of which logs
     * @throws RuntimeException or Error, the first of what the syncs threw; a {@link
     *     WriteStallException} only if they threw nothing else
     * @throws FSWriteError if the disk does not answer: whoever waits here holds up the writes of
     *     the whole node. At once, if it has not answered since the last time
     */
    public void syncAcknowledged(Predicate<? super L> wanted) {
        if (mode != WalSync.PERIODIC) return;
        unanswered.values().removeIf(Future::isDone);
        Throwable failure = null;
        Map<L, Future<?>> begun = new LinkedHashMap<>();
        for (L log : logs.get()) {
            if (!log.isUnsettled() || !wanted.test(log)) continue;
            // No second sync is begun beside one that hangs, or these would take all threads in the
            // end.
            if (unanswered.containsKey(log)) failure = with(failure, unanswered(log));
            else begun.put(log, syncs(log).submit(log::sync));
        }
        long end = System.nanoTime() + patience.toNanos();
        for (Map.Entry<L, Future<?>> sync : begun.entrySet()) {
            try {
                sync.getValue().get(end - System.nanoTime(), TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                unanswered.put(sync.getKey(), sync.getValue());
                failure = with(failure, unanswered(sync.getKey()));
            } catch (InterruptedException e) {
                throw new UncheckedInterruptedException(e);
            } catch (ExecutionException e) {
                failure = with(failure, Objects.requireNonNull(e.getCause()));
            }
        }
        if (failure instanceof Error error) throw error;
        if (failure != null) throw (RuntimeException) failure;
    }

    /** A full disk, with which the node goes on, does not hide another failure. */
    private static Throwable with(@Nullable Throwable first, Throwable next) {
        if (first == null) return next;
        boolean isWorse =
                first instanceof WriteStallException && !(next instanceof WriteStallException);
        Throwable worse = isWorse ? next : first;
        worse.addSuppressed(isWorse ? first : next);
        return worse;
    }

    private FSWriteError unanswered(L log) {
        return new FSWriteError(
                new IOException(
                        "The log of "
                                + log.name()
                                + " could not be synced within "
                                + patience.toSeconds()
                                + " s"),
                log.name());
    }

    /**
     * @return false once closed
     */
    private synchronized boolean awaitInterval() {
        WalSync waitedFor = mode;
        long began = System.nanoTime();
        while (!closed && mode == waitedFor) {
            // The interval may have changed meanwhile.
            long left = began + TimeUnit.MILLISECONDS.toNanos(intervalMillis) - System.nanoTime();
            if (left <= 0) break;
            try {
                TimeUnit.NANOSECONDS.timedWait(this, left);
            } catch (InterruptedException e) {
                return false;
            }
        }
        return !closed;
    }

    @Override
    public void close() {
        synchronized (this) {
            closed = true;
            notifyAll();
        }
        try {
            thread.join();
            syncs.values().forEach(ThreadPoolExecutor::shutdown);
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(IDLE_SECONDS);
            boolean ended = true;
            for (ThreadPoolExecutor ofDisk : syncs.values())
                ended &= ofDisk.awaitTermination(end - System.nanoTime(), TimeUnit.NANOSECONDS);
            if (!ended)
                logger.error(
                        "A sync of a table's log has not ended within {} s; the engine is closed"
                                + " all the same, and the last writes may be lost if the machine"
                                + " loses power. Check the disks of the data directories",
                        IDLE_SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
