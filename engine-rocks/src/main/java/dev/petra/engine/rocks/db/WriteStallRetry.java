// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.WriteStallException;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.utils.concurrent.UncheckedInterruptedException;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;

/**
 * How long a write waits for a store whose compaction is behind. RocksDB would let it wait without
 * bound; it is asked not to ({@code no_slowdown}), and the write tries again. Each refused attempt
 * is charged to RocksDB's budget as if it had written ({@code WriteController::GetDelay}), so that
 * writes which try too often never come. So one tries at a time, while the others wait for their
 * turn without a try; and each waits for about as long as the one before it had to.
 *
 * <p>Each write of a client keeps one of the node's threads while it waits, which the writes to all
 * other tables need. Where the store takes writes, only slowly, the wait is short. Where it takes
 * none, few of them wait, and the others are refused.
 */
public final class WriteStallRetry {
    private static final long SHORTEST_PAUSE_NANOS = TimeUnit.MICROSECONDS.toNanos(50);
    private static final long LONGEST_PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    /**
     * For how long a store takes no write until it counts as stopped, at most: a write that fails
     * is worse than one that waits, and stops of a moment are common under load.
     */
    private static final long STOPPED_NANOS = TimeUnit.SECONDS.toNanos(1);

    /**
     * How many writes of clients wait for a store that is stopped. As many threads write to the
     * shadows of a node, and are not refused.
     */
    private static final int MOST_CLIENTS = 4;

    private final String name;
    private final long timeoutMillis;
    private final long stoppedNanos;
    private final LongAdder stalledNanos;
    private final Turns turns = new Turns();

    /** Whether RocksDB has refused a write, and not yet taken one at its first try. */
    private volatile boolean stalled;

    /** How long the last one had to wait at its turn; set by whoever has the turn. */
    private volatile long usualPauseNanos = SHORTEST_PAUSE_NANOS;

    /** Whether it takes none; set by whoever has the turn. */
    private volatile boolean stopped;

    /** The writes of clients that wait. */
    private final AtomicInteger clients = new AtomicInteger();

    private final AtomicLong asideBegun = new AtomicLong();
    private final AtomicLong asideEnded = new AtomicLong();
    private final AtomicLong asideSynced = new AtomicLong();

    /** Who writes now. */
    public final WriteBarrier writers = new WriteBarrier();

    /**
     * @param name of the table, for messages
     * @param stalledNanos to which the time of the write whose turn it is is added: how long the
     *     store took no writes, and not once for each that waited
     */
    public WriteStallRetry(String name, long timeoutMillis, LongAdder stalledNanos) {
        this.name = name;
        this.timeoutMillis = timeoutMillis;
        this.stoppedNanos =
                Math.min(STOPPED_NANOS, TimeUnit.MILLISECONDS.toNanos(timeoutMillis) / 2);
        this.stalledNanos = stalledNanos;
    }

    /** A write, which may be tried more than once. */
    public interface Attempt {
        void run() throws RocksDBException;
    }

    /**
     * A whole write, aside from those of the table's users: {@link #await} as one of {@link
     * #writers}. It need not be synced.
     */
    public void write(Attempt attempt) throws RocksDBException {
        asideBegun.incrementAndGet();
        try {
            writeSynced(attempt);
        } finally {
            asideEnded.incrementAndGet();
        }
    }

    /**
     * The same, tried under a lock that others hold while they write. It neither queues for the
     * lock nor keeps it while the store is stalled: whoever writes next would wait behind it.
     *
     * @param busy the locks that were not free until the timeout; the lock is added to them then. A
     *     lock that is one of them is tried once
     * @return false if the lock was never free, as where a partition is written all the time;
     *     nothing was written
     * @throws WriteStallException if the store was stalled until the timeout; nothing was written
     */
    public boolean write(Lock lock, Set<Lock> busy, Attempt attempt) throws RocksDBException {
        return write(lock, busy, () -> true, attempt);
    }

    /**
     * The same, unless it is not wanted any more.
     *
     * @param isWanted asked under the lock before each try, by a thread that is none of {@link
     *     #writers} meanwhile: who writes alone does not wait for it, nor all others for that one
     */
    public boolean write(Lock lock, Set<Lock> busy, BooleanSupplier isWanted, Attempt attempt)
            throws RocksDBException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMillis);
        long pause = SHORTEST_PAUSE_NANOS;
        RocksDBException refused = null;
        while (true) {
            if (lock.tryLock()) {
                try {
                    refused = isWanted.getAsBoolean() ? refusalAside(attempt) : null;
                } finally {
                    lock.unlock();
                }
                if (refused == null) return true;
                pause = Math.min(2 * pause, LONGEST_PAUSE_NANOS);
                // Writers hold it, too, while they wait for a store that is stalled.
            } else if (refused == null && !stalled && busy.contains(lock)) return false;
            if (System.nanoTime() - end >= 0) {
                if (refused != null || stalled) throw stalled(refused);
                busy.add(lock);
                return false;
            }
            if (Thread.currentThread().isInterrupted())
                throw new UncheckedInterruptedException(new InterruptedException());
            LockSupport.parkNanos(pause);
        }
    }

    private @Nullable RocksDBException refusalAside(Attempt attempt) throws RocksDBException {
        asideBegun.incrementAndGet();
        int phase = writers.begin();
        try {
            return refusal(attempt);
        } finally {
            writers.end(phase);
            asideEnded.incrementAndGet();
        }
    }

    /** The same as the first, of a write that is synced when it returns. */
    void writeSynced(Attempt attempt) throws RocksDBException {
        writeSynced(attempt, false);
    }

    /**
     * @param isClients whether a client waits for it, as in {@link #awaitForClient}
     */
    void writeSynced(Attempt attempt, boolean isClients) throws RocksDBException {
        int phase = writers.begin();
        try {
            await(attempt, isClients);
        } finally {
            writers.end(phase);
        }
    }

    /** The same while no other write runs. It is tried once. */
    public void writeAlone(Attempt attempt) throws RocksDBException {
        asideBegun.incrementAndGet();
        try {
            writers.<RocksDBException>alone(attempt::run);
        } finally {
            asideEnded.incrementAndGet();
        }
    }

    /** Before a write that need not be synced, by whatever way; {@link #asideEnds} follows. */
    public void asideBegins() {
        asideBegun.incrementAndGet();
    }

    /** The end of {@link #asideBegins}. */
    public void asideEnds() {
        asideEnded.incrementAndGet();
    }

    /** How many of the writes aside a sync that begins now will make durable. */
    long asideEnded() {
        long ended = asideEnded.get();
        return asideBegun.get() == ended ? ended : 0;
    }

    /** A sync has ended that began after {@link #asideEnded}. */
    void asideSynced(long ended) {
        asideSynced.accumulateAndGet(ended, Math::max);
    }

    /** Whether all writes aside that can be seen by now are durable. */
    public boolean isAsideSynced() {
        return asideBegun.get() == asideSynced.get();
    }

    /**
     * Tries, and while the store says that it is behind, tries again. An interrupt does not end
     * that, which is short: the thread stays interrupted, and the write is done or refused as ever.
     *
     * @throws WriteStallException after the timeout; nothing was written
     */
    public void await(Attempt attempt) throws RocksDBException {
        await(attempt, false);
    }

    /**
     * The same for a client, who is told at once where enough others wait for a store that takes no
     * writes.
     */
    public void awaitForClient(Attempt attempt) throws RocksDBException {
        await(attempt, true);
    }

    private void await(Attempt attempt, boolean isClients) throws RocksDBException {
        RocksDBException refused = null;
        if (!stalled) {
            refused = refusal(attempt);
            if (refused == null) return;
            stalled = true;
        }
        if (!isClients) {
            retry(attempt, refused, false);
            return;
        }
        clients.incrementAndGet();
        try {
            retry(attempt, refused, true);
        } finally {
            clients.decrementAndGet();
        }
    }

    /** Tries once; returns null if it was done. */
    private static @Nullable RocksDBException refusal(Attempt attempt) throws RocksDBException {
        try {
            attempt.run();
            return null;
        } catch (RocksDBException e) {
            if (!RocksErrors.isStall(e)) throw e;
            return e;
        }
    }

    private void retry(Attempt attempt, @Nullable RocksDBException first, boolean isClients)
            throws RocksDBException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMillis);
        Runnable look = isClients ? this::refuseCrowd : () -> {};
        RocksDBException refused = first;
        turns.join();
        try {
            do {
                if (!turns.await(end, () -> !stalled, look)) break;
                if (!stalled) {
                    // It is over, and nobody needs a turn: the next tries at the same time. Who is
                    // refused all the same has its place still, and none that came later passes it.
                    turns.wakeNext();
                    refused = refusal(attempt);
                    if (refused == null) return;
                    stalled = true;
                } else if (turns.isMine()) {
                    tryInTurn(attempt, end);
                    return;
                }
            } while (System.nanoTime() - end < 0);
        } finally {
            turns.leave();
        }
        throw stalled(refused);
    }

    private void refuseCrowd() {
        if (stopped && clients.get() > MOST_CLIENTS)
            throw WriteStallException.withoutStackTrace(
                    "Compaction of "
                            + name
                            + " is behind, and it takes no writes now: a write was not done,"
                            + " because "
                            + MOST_CLIENTS
                            + " wait already. Try it again; if this goes on, the disk or"
                            + " compaction_throughput is too slow for these writes.");
    }

    private void tryInTurn(Attempt attempt, long end) throws RocksDBException {
        long began = System.nanoTime();
        try {
            tryUntil(attempt, began, end);
        } finally {
            // Else the first of the next, long after, would be refused for this one.
            if (clients.get() <= 1 && !turns.areAwaited()) stopped = false;
            stalledNanos.add(System.nanoTime() - began);
        }
    }

    private void tryUntil(Attempt attempt, long began, long end) throws RocksDBException {
        RocksDBException refused = null;
        for (long pause = Math.max(SHORTEST_PAUSE_NANOS, usualPauseNanos / 2);
                System.nanoTime() - end < 0;
                pause = Math.min(2 * pause, LONGEST_PAUSE_NANOS)) {
            Pauses.park(pause);
            RocksDBException again = refusal(attempt);
            if (again == null) {
                usualPauseNanos = pause;
                stopped = false;
                if (refused == null) stalled = false;
                return;
            }
            refused = again;
            if (System.nanoTime() - began > stoppedNanos) stopped = true;
        }
        throw stalled(refused);
    }

    private WriteStallException stalled(@Nullable RocksDBException e) {
        return new WriteStallException(
                "Compaction of "
                        + name
                        + " is behind: a write waited "
                        + timeoutMillis
                        + " ms (write_stall_timeout) and was not done. Try it again; if this goes"
                        + " on, the disk or compaction_throughput is too slow for these writes. "
                        + (e == null ? "Others were waiting before it." : e.getMessage()));
    }
}
