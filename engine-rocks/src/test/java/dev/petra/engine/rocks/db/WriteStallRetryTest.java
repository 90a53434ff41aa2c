// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.WriteStallException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.junit.jupiter.api.Test;
import org.rocksdb.RocksDBException;
import org.rocksdb.Status;

class WriteStallRetryTest {
    private final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();

    /** One that queued for the lock would make each of them wait for the first. */
    @Test
    void aSweepThatWaitsForAWriterKeepsNoOtherFromWriting() throws Exception {
        WriteStallRetry room = new WriteStallRetry("ks.t", TimeUnit.MINUTES.toMillis(1));
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
        WriteStallRetry room = new WriteStallRetry("ks.t", TimeUnit.MINUTES.toMillis(1));
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
        WriteStallRetry room = new WriteStallRetry("ks.t", 20);
        lock.readLock().lock();
        assertThatThrownBy(() -> room.write(lock.writeLock(), () -> {}))
                .isInstanceOf(WriteStallException.class)
                .hasMessageContaining("ks.t");
        assertThat(room.isAsideSynced()).as("nothing was written").isTrue();
    }

    private static RocksDBException stall() {
        return new RocksDBException(new Status(Status.Code.Incomplete, Status.SubCode.None, null));
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
