// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.WriteStallException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
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
    void itEndsWhenTheLockIsNeverFree() {
        WriteStallRetry room = new WriteStallRetry("ks.t", 20, stalled);
        lock.readLock().lock();
        assertThatThrownBy(() -> room.write(lock.writeLock(), () -> {}))
                .isInstanceOf(WriteStallException.class)
                .hasMessageContaining("ks.t");
        assertThat(room.isAsideSynced()).as("nothing was written").isTrue();
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
        assertThatThrownBy(
                        () ->
                                room.await(
                                        () -> {
                                            throw stall();
                                        }))
                .isInstanceOf(WriteStallException.class);
        assertThat(stalled.sum()).isGreaterThan(TimeUnit.MILLISECONDS.toNanos(15));
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
            room.write(lock.writeLock(), attempt);
        } catch (RocksDBException e) {
            throw new IllegalStateException(e);
        }
    }
}
