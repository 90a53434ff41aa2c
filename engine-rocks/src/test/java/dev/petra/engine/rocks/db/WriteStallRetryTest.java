// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.engine.WriteStallException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.junit.jupiter.api.Test;
import org.rocksdb.RocksDBException;
import org.rocksdb.Status;

class WriteStallRetryTest {
    private final LongAdder stalled = new LongAdder();
    private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();

    /** One that queued for the lock would make each of them wait for the first. */
    @Test
    void aSweepThatWaitsForAWriterKeepsNoOtherFromWriting() throws Exception {
        WriteStallRetry room = new WriteStallRetry("ks.t", TimeUnit.MINUTES.toMillis(1), stalled);
        CountDownLatch tried = new CountDownLatch(1);
        CompletableFuture<Void> sweep;
        lock.readLock().lock();
        try {
            sweep =
                    CompletableFuture.runAsync(
                            () -> {
                                tried.countDown();
                                write(room, () -> {});
                            });
            tried.await();
            for (int i = 0; i < 20; i++) {
                assertThat(canBeWritten()).isTrue();
                Thread.sleep(5);
            }
            assertThat(sweep).isNotDone();
        } finally {
            lock.readLock().unlock();
        }
        sweep.get(1, TimeUnit.MINUTES);
        assertThat(lock.isWriteLocked()).isFalse();
    }

    @Test
    void aSweepThatIsStalledKeepsNoWriterOut() throws Exception {
        WriteStallRetry room = new WriteStallRetry("ks.t", TimeUnit.MINUTES.toMillis(1), stalled);
        AtomicInteger attempts = new AtomicInteger();
        CompletableFuture<Void> sweep =
                CompletableFuture.runAsync(
                        () ->
                                write(
                                        room,
                                        () -> {
                                            assertThat(lock.isWriteLockedByCurrentThread())
                                                    .isTrue();
                                            if (attempts.incrementAndGet() < 8) throw stall();
                                        }));
        while (attempts.get() < 4) Thread.onSpinWait();
        assertThat(canBeWritten()).isTrue();
        sweep.get(1, TimeUnit.MINUTES);
        assertThat(attempts).hasValue(8);
        assertThat(lock.isWriteLocked()).isFalse();
    }

    @Test
    void itIsNotDoneWhereTheLockIsNeverFree() throws RocksDBException {
        WriteStallRetry room = new WriteStallRetry("ks.t", 20, stalled);
        Set<Lock> busy = new HashSet<>();
        lock.readLock().lock();
        assertThat(room.write(lock.writeLock(), busy, () -> {})).isFalse();
        assertThat(busy).containsExactly(lock.writeLock());
        assertThat(room.isAsideSynced()).as("nothing was written").isTrue();
    }

    /** A sweep waited again at each entry of a partition that is written all the time. */
    @Test
    void aLockThatWasNeverFreeIsTriedOnce() throws RocksDBException {
        AtomicInteger tries = new AtomicInteger();
        Lock tried =
                new ReentrantLock() {
                    private static final long serialVersionUID = 1;

                    @Override
                    public boolean tryLock() {
                        return tries.incrementAndGet() > 1 && super.tryLock();
                    }
                };
        WriteStallRetry room = new WriteStallRetry("ks.t", 10_000, stalled);
        Set<Lock> busy = new HashSet<>(Set.of(tried));
        AtomicInteger attempts = new AtomicInteger();
        assertThat(room.write(tried, busy, attempts::incrementAndGet)).isFalse();
        assertThat(attempts).hasValue(0);
        assertThat(room.write(tried, busy, attempts::incrementAndGet)).isTrue();
        assertThat(attempts).hasValue(1);
    }

    /** What is refused is no matter of the lock. */
    @Test
    void aSweepOfAStoreThatIsStalledEnds() {
        WriteStallRetry room = new WriteStallRetry("ks.t", 20, stalled);
        Set<Lock> busy = new HashSet<>(Set.of(lock.writeLock()));
        assertThatThrownBy(
                        () ->
                                room.write(
                                        lock.writeLock(),
                                        busy,
                                        () -> {
                                            throw stall();
                                        }))
                .isInstanceOf(WriteStallException.class)
                .hasMessageContaining("ks.t");
    }

    /** A writer keeps the lock while it waits for the store: the sweep counted as done. */
    @Test
    void aSweepEndsWhereWritersHoldTheLockBecauseTheStoreIsStalled() {
        WriteStallRetry room = new WriteStallRetry("ks.t", 20, stalled);
        stallUntilTheTimeout(room);
        lock.readLock().lock();
        for (Set<Lock> busy : List.of(new HashSet<Lock>(), Set.of((Lock) lock.writeLock())))
            assertThatThrownBy(() -> room.write(lock.writeLock(), busy, () -> {}))
                    .isInstanceOf(WriteStallException.class);
    }

    /** RocksDB counts no stall of a write that it refuses: operators saw none. */
    @Test
    void theTimeInWhichAStoreTakesNoWritesIsCounted() throws RocksDBException {
        WriteStallRetry room = new WriteStallRetry("t", 10_000, stalled);
        room.await(() -> {});
        assertThat(stalled.sum()).isZero();
        long from = System.nanoTime();
        long end = from + TimeUnit.MILLISECONDS.toNanos(30);
        room.await(
                () -> {
                    if (System.nanoTime() - end < 0) throw stall();
                });
        assertThat(stalled.sum())
                .isBetween(TimeUnit.MILLISECONDS.toNanos(25), System.nanoTime() - from);
    }

    @Test
    void aWriteThatIsNotDoneHasStalledToo() {
        WriteStallRetry room = new WriteStallRetry("t", 20, stalled);
        stallUntilTheTimeout(room);
        assertThat(stalled.sum()).isGreaterThan(TimeUnit.MILLISECONDS.toNanos(15));
    }

    /** One table took all threads of the node, which the writes to all others need. */
    @Test
    void fewClientsWaitForAStoreThatTakesNoWrites() throws Exception {
        WriteStallRetry room = new WriteStallRetry("ks.t", TimeUnit.MINUTES.toMillis(1), stalled);
        AtomicBoolean open = new AtomicBoolean();
        AtomicInteger attempts = new AtomicInteger();
        AtomicInteger refused = new AtomicInteger();
        WriteStallRetry.Attempt attempt = untilOpen(open, attempts);
        ExecutorService threads = Executors.newCachedThreadPool();
        try {
            threads.execute(() -> writeAsClient(room, attempt, refused));
            while (attempts.get() < 2) Thread.onSpinWait();
            Future<?> sweep =
                    threads.submit(
                            () -> {
                                room.await(attempt);
                                return null;
                            });
            // The second time it is known at once.
            for (int sum = 20; sum <= 40; sum += 20) {
                for (int i = 0; i < 20; i++)
                    threads.execute(() -> writeAsClient(room, attempt, refused));
                long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
                // One more than these is there, and four wait.
                while (refused.get() < sum + 1 - 4) {
                    assertThat(System.nanoTime() - end).isNegative();
                    Thread.sleep(1);
                }
            }
            assertThat(sweep).isNotDone();
            assertThat(refused.get()).as("whose turn it is stays").isLessThanOrEqualTo(40);
            open.set(true);
            sweep.get(1, TimeUnit.MINUTES);
        } finally {
            open.set(true);
            threads.shutdown();
        }
        assertThat(threads.awaitTermination(1, TimeUnit.MINUTES)).isTrue();
        AtomicInteger late = new AtomicInteger();
        writeAsClient(room, attempt, late);
        assertThat(late).as("it is over").hasValue(0);
    }

    /** Many write to it, and each waits for a moment: that is no reason to fail. */
    @Test
    void allClientsWaitForAStoreThatIsSlow() throws Exception {
        WriteStallRetry room = new WriteStallRetry("ks.t", TimeUnit.MINUTES.toMillis(1), stalled);
        AtomicLong last = new AtomicLong(System.nanoTime());
        AtomicInteger refused = new AtomicInteger();
        WriteStallRetry.Attempt attempt =
                () -> {
                    long then = last.get();
                    long now = System.nanoTime();
                    if (now - then < TimeUnit.MILLISECONDS.toNanos(2)
                            || !last.compareAndSet(then, now)) throw stall();
                };
        ExecutorService threads = Executors.newCachedThreadPool();
        for (int i = 0; i < 100; i++) threads.execute(() -> writeAsClient(room, attempt, refused));
        threads.shutdown();
        assertThat(threads.awaitTermination(1, TimeUnit.MINUTES)).isTrue();
        assertThat(refused).hasValue(0);
    }

    /** After 1.2 s it left the queue, so that those which came later passed it, and it failed. */
    @Test
    void aWriteThatWaitsForLongKeepsItsPlace() throws Exception {
        WriteStallRetry room = new WriteStallRetry("ks.t", TimeUnit.MINUTES.toMillis(1), stalled);
        AtomicBoolean open = new AtomicBoolean();
        AtomicInteger attempts = new AtomicInteger();
        AtomicInteger refused = new AtomicInteger();
        List<Integer> written = new CopyOnWriteArrayList<>();
        ExecutorService threads = Executors.newCachedThreadPool();
        try {
            Future<?> sweep =
                    threads.submit(
                            () -> {
                                room.await(untilOpen(open, attempts));
                                return null;
                            });
            while (attempts.get() < 2) Thread.onSpinWait();
            // As many as wait for a store that takes no writes.
            for (int i = 0; i < 4; i++) {
                int number = i;
                WriteStallRetry.Attempt attempt =
                        () -> {
                            if (!open.get()) throw stall();
                            written.add(number);
                        };
                threads.execute(() -> writeAsClient(room, attempt, refused));
                Thread.sleep(i == 0 ? 1_500 : 100);
            }
            open.set(true);
            sweep.get(1, TimeUnit.MINUTES);
        } finally {
            open.set(true);
            threads.shutdown();
        }
        assertThat(threads.awaitTermination(1, TimeUnit.MINUTES)).isTrue();
        assertThat(refused).hasValue(0);
        // When one was taken at its first try, the others wait for no turn any more.
        assertThat(written).hasSize(4).startsWith(0);
    }

    /** It left the queue for that try, so that all that waited passed it. */
    @Test
    void aWriteThatIsRefusedWhenAStallSeemsToBeOverKeepsItsPlace() throws Exception {
        WriteStallRetry room = new WriteStallRetry("ks.t", TimeUnit.MINUTES.toMillis(1), stalled);
        AtomicBoolean open = new AtomicBoolean();
        AtomicInteger attempts = new AtomicInteger();
        AtomicInteger refused = new AtomicInteger();
        List<Integer> written = new CopyOnWriteArrayList<>();
        List<Thread> waiting = new ArrayList<>();
        CountDownLatch areWaiting = new CountDownLatch(1);
        AtomicInteger attemptsOfFirst = new AtomicInteger();
        // Taken at the first try in its turn, as if the stall were over.
        CompletableFuture<Void> first =
                CompletableFuture.runAsync(
                        () ->
                                writeAsClient(
                                        room,
                                        () -> {
                                            if (attemptsOfFirst.incrementAndGet() == 1)
                                                throw stall();
                                            Uninterruptibles.awaitUninterruptibly(areWaiting);
                                        },
                                        refused));
        try {
            while (attemptsOfFirst.get() < 2) Thread.onSpinWait();
            for (int i = 0; i < 3; i++) {
                int number = i;
                WriteStallRetry.Attempt attempt =
                        () -> {
                            attempts.incrementAndGet();
                            if (!open.get()) throw stall();
                            written.add(number);
                        };
                waiting.add(new Thread(() -> writeAsClient(room, attempt, refused)));
                waiting.get(i).start();
                awaitParked(waiting.get(i));
            }
            areWaiting.countDown();
            first.get(1, TimeUnit.MINUTES);
            // Once each at most, and then again and again in a turn.
            while (attempts.get() < 5) Thread.onSpinWait();
            for (Thread each : waiting) awaitParked(each);
        } finally {
            areWaiting.countDown();
            open.set(true);
        }
        for (Thread each : waiting) {
            each.join(TimeUnit.MINUTES.toMillis(1));
            assertThat(each.isAlive()).isFalse();
        }
        assertThat(refused).hasValue(0);
        // When one was taken at its first try, the others wait for no turn any more.
        assertThat(written).hasSize(3).startsWith(0);
    }

    private static void awaitParked(Thread thread) {
        while (thread.getState() != Thread.State.TIMED_WAITING) Thread.onSpinWait();
    }

    /** Each try without a pause was charged to the store, and before its turn it failed. */
    @Test
    void aThreadThatIsInterruptedWaitsAsLongAsOthers() throws RocksDBException {
        for (boolean isClients : new boolean[] {false, true}) {
            WriteStallRetry room = new WriteStallRetry("ks.t", 10_000, stalled);
            AtomicInteger attempts = new AtomicInteger();
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(300);
            try {
                room.writeSynced(
                        () -> {
                            attempts.incrementAndGet();
                            Thread.currentThread().interrupt();
                            if (System.nanoTime() - end < 0) throw stall();
                        },
                        isClients);
            } finally {
                assertThat(Thread.interrupted()).as("it stays interrupted").isTrue();
            }
            assertThat(System.nanoTime() - end).isNotNegative();
            assertThat(attempts).hasValueBetween(2, 50);
        }
    }

    @Test
    void aThreadThatIsInterruptedWaitsForItsTurn() throws Exception {
        WriteStallRetry room = new WriteStallRetry("ks.t", TimeUnit.MINUTES.toMillis(1), stalled);
        AtomicBoolean open = new AtomicBoolean();
        AtomicInteger attempts = new AtomicInteger();
        WriteStallRetry.Attempt attempt = untilOpen(open, attempts);
        ExecutorService threads = Executors.newCachedThreadPool();
        try {
            AtomicInteger refused = new AtomicInteger();
            threads.execute(() -> writeAsClient(room, attempt, refused));
            while (attempts.get() < 2) Thread.onSpinWait();
            CompletableFuture<Thread> thread = new CompletableFuture<>();
            Future<Boolean> waiting =
                    threads.submit(
                            () -> {
                                thread.complete(Thread.currentThread());
                                room.awaitForClient(attempt);
                                return Thread.interrupted();
                            });
            // Where it waits for the turn, and where it looks for it now and then.
            for (int i = 0; i < 3; i++) {
                Thread.sleep(500);
                thread.get().interrupt();
            }
            assertThat(waiting).isNotDone();
            open.set(true);
            assertThat(waiting.get(1, TimeUnit.MINUTES)).as("it stays interrupted").isTrue();
            assertThat(refused).hasValue(0);
        } finally {
            open.set(true);
            threads.shutdown();
        }
    }

    private static void writeAsClient(
            WriteStallRetry room, WriteStallRetry.Attempt attempt, AtomicInteger refused) {
        try {
            room.awaitForClient(attempt);
        } catch (WriteStallException e) {
            refused.incrementAndGet();
        } catch (RocksDBException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void stallUntilTheTimeout(WriteStallRetry room) {
        assertThatThrownBy(
                        () ->
                                room.await(
                                        () -> {
                                            throw stall();
                                        }))
                .isInstanceOf(WriteStallException.class);
    }

    private static RocksDBException stall() {
        return new RocksDBException(
                "Write stall", new Status(Status.Code.Incomplete, Status.SubCode.None, ""));
    }

    /** Whether another thread can have what a writer needs, within the time of a write. */
    private boolean canBeWritten() throws Exception {
        return CompletableFuture.supplyAsync(
                        () -> {
                            // Not the form without a time, which does not queue behind a sweep.
                            try {
                                if (!lock.readLock().tryLock(10, TimeUnit.SECONDS)) return false;
                            } catch (InterruptedException e) {
                                throw new IllegalStateException(e);
                            }
                            lock.readLock().unlock();
                            return true;
                        })
                .get();
    }

    private void write(WriteStallRetry room, WriteStallRetry.Attempt attempt) {
        try {
            assertThat(room.write(lock.writeLock(), Set.of(), attempt)).isTrue();
        } catch (RocksDBException e) {
            throw new IllegalStateException(e);
        }
    }

    /** A write that the store refuses until it is open. */
    private static WriteStallRetry.Attempt untilOpen(AtomicBoolean open, AtomicInteger attempts) {
        return () -> {
            attempts.incrementAndGet();
            if (!open.get()) throw stall();
        };
    }
}
