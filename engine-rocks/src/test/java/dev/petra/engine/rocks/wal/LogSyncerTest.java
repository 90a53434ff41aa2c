// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.WalSync;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.rocks.Tables;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Tables are synced beside each other, and only those that need it. */
class LogSyncerTest {
    private final List<FakeLog> logs = new ArrayList<>();
    private final LogSyncer<FakeLog> syncer = new LogSyncer<>(() -> logs);

    private static final class FakeLog implements LogSyncer.Log {
        final AtomicInteger syncs = new AtomicInteger();
        volatile boolean pending;
        volatile boolean unsettled;
        volatile Runnable disk = () -> {};

        @Override
        public String name() {
            return "t";
        }

        volatile Object name = "disk";
        final AtomicInteger lags = new AtomicInteger();
        final AtomicInteger looks = new AtomicInteger();

        @Override
        public Object disk() {
            return name;
        }

        @Override
        public void lags() {
            lags.incrementAndGet();
        }

        @Override
        public boolean isPending() {
            looks.incrementAndGet();
            return pending;
        }

        @Override
        public boolean isUnsettled() {
            return unsettled;
        }

        @Override
        public void sync() {
            pending = false;
            disk.run();
            syncs.incrementAndGet();
        }
    }

    @AfterEach
    void close() {
        logs.forEach(log -> log.disk = () -> {});
        syncer.close();
    }

    private FakeLog log(boolean pending) {
        FakeLog log = new FakeLog();
        log.pending = pending;
        logs.add(log);
        return log;
    }

    private static void await(CountDownLatch latch) {
        try {
            assertThat(latch.await(1, TimeUnit.MINUTES)).isTrue();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** The disk answers none of them before it was asked for all. */
    @Test
    void logsAreSyncedBesideEachOther() {
        CyclicBarrier together = new CyclicBarrier(8);
        CountDownLatch ended = new CountDownLatch(8);
        for (int i = 0; i < 8; i++)
            log(true).disk =
                    () -> {
                        try {
                            together.await(1, TimeUnit.MINUTES);
                        } catch (Exception e) {
                            throw new AssertionError(e);
                        }
                        ended.countDown();
                    };
        syncer.set(WalSync.GROUP, Duration.ofMillis(1));
        await(ended);
    }

    @Test
    void aSlowDiskHoldsUpNoOtherTable() {
        CountDownLatch blocked = new CountDownLatch(1);
        log(true).disk = () -> await(blocked);
        FakeLog idle = log(false);
        FakeLog other = log(false);
        syncer.set(WalSync.GROUP, Duration.ofMillis(1));
        for (int i = 0; i < 20; i++) {
            CountDownLatch ended = new CountDownLatch(1);
            other.disk = ended::countDown;
            other.pending = true;
            await(ended);
        }
        assertThat(logs.get(0).syncs).hasValue(0);
        assertThat(idle.syncs).hasValue(0);
        blocked.countDown();
    }

    private static Set<Thread> workers() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("petra-log-sync-worker"))
                .collect(Collectors.toSet());
    }

    /** Each costs one look at a flag in a period: no sync, and no other thread wakes for it. */
    @ParameterizedTest
    @EnumSource(WalSync.class)
    void tablesAtRestCostNoSyncs(WalSync mode) {
        Set<Thread> before = workers();
        List<FakeLog> atRest = new ArrayList<>();
        for (int i = 0; i < 50; i++) atRest.add(log(false));
        syncer.set(mode, Duration.ofMillis(1));
        Tables.await("some periods", () -> atRest.get(49).looks.get() >= 3);
        assertThat(workers()).isSubsetOf(before);
        for (FakeLog log : atRest) {
            assertThat(log.syncs).hasValue(0);
            assertThat(log.lags).hasValue(0);
        }
        // Nor once each has been written to.
        for (FakeLog log : atRest) log.pending = true;
        Tables.await("their syncs", () -> atRest.stream().allMatch(log -> log.syncs.get() == 1));
        int looks = atRest.get(49).looks.get();
        Tables.await("more periods", () -> atRest.get(49).looks.get() >= looks + 3);
        for (FakeLog log : atRest) assertThat(log.syncs).hasValue(1);
    }

    /** Of many tables: they take all threads that there are for one disk. */
    @Test
    void aDiskThatDoesNotAnswerHoldsUpNoOtherDisk() {
        CountDownLatch blocked = new CountDownLatch(1);
        for (int i = 0; i < 20; i++) log(true).disk = () -> await(blocked);
        FakeLog other = log(false);
        other.name = "other disk";
        syncer.set(WalSync.PERIODIC, Duration.ofMillis(1));
        CountDownLatch ended = new CountDownLatch(1);
        other.disk = ended::countDown;
        other.pending = true;
        await(ended);
        Tables.await("the end of the other sync", () -> other.syncs.get() == 1);
        // On a busy machine that one may have come late.
        int late = other.lags.get();
        // Their writers learn it, if there is more to sync.
        logs.get(0).pending = true;
        Tables.await("word of a sync that does not end", () -> logs.get(0).lags.get() > 0);
        assertThat(other.lags).hasValue(late);
        blocked.countDown();
    }

    /** Whoever asks waits for a sync under way too, and for nothing else. */
    @Test
    void whatWasAcknowledgedIsSyncedWhenAsked() {
        syncer.set(WalSync.PERIODIC, Duration.ofHours(1));
        CountDownLatch blocked = new CountDownLatch(1);
        FakeLog asked = log(false);
        asked.unsettled = true;
        asked.disk = () -> await(blocked);
        FakeLog other = log(true);
        other.unsettled = true;
        FakeLog settled = log(false);
        CompletableFuture<Void> done =
                CompletableFuture.runAsync(() -> syncer.syncAcknowledged(log -> log != other));
        assertThat(done).isNotDone();
        blocked.countDown();
        done.join();
        assertThat(asked.syncs).hasValue(1);
        assertThat(other.syncs).hasValue(0);
        assertThat(settled.syncs).hasValue(0);
    }

    @Test
    void aFailedSyncIsToldToWhoeverAsked() {
        FakeLog failing = log(false);
        failing.unsettled = true;
        failing.disk =
                () -> {
                    throw new IllegalStateException("the disk is gone");
                };
        FakeLog well = log(false);
        well.unsettled = true;
        assertThatThrownBy(() -> syncer.syncAcknowledged(log -> true))
                .hasMessage("the disk is gone");
        assertThat(well.syncs).hasValue(1);
    }

    /** Or the commit log would go on, and refer to what the other has not synced. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aFullDiskDoesNotHideAnotherFailure(boolean isFullFirst) {
        RuntimeException full = new WriteStallException("its disk is full");
        RuntimeException gone = new IllegalStateException("the disk is gone");
        for (RuntimeException failure : isFullFirst ? List.of(full, gone) : List.of(gone, full)) {
            FakeLog failing = log(false);
            failing.unsettled = true;
            failing.disk =
                    () -> {
                        throw failure;
                    };
        }
        assertThatThrownBy(() -> syncer.syncAcknowledged(log -> true))
                .isSameAs(gone)
                .hasSuppressedException(full);
    }

    /** Who asks holds up the writes of the node, which a disk that is gone must not do for ever. */
    @Test
    void whoAskedIsToldThatTheDiskDoesNotAnswer() {
        CountDownLatch blocked = new CountDownLatch(1);
        FakeLog hanging = log(false);
        hanging.unsettled = true;
        hanging.disk = () -> await(blocked);
        try (LogSyncer<FakeLog> impatient = new LogSyncer<>(() -> logs, Duration.ofMillis(100))) {
            assertThat(CompletableFuture.runAsync(() -> impatient.syncAcknowledged(log -> true)))
                    .failsWithin(Duration.ofMinutes(1))
                    .withThrowableThat()
                    .havingRootCause()
                    .isInstanceOf(IOException.class)
                    .withMessageContaining("The log of t could not be synced");
            FakeLog well = log(false);
            for (int again = 0; again < 50; again++) {
                int before = well.syncs.get();
                // On a busy machine its own may be late as well.
                do {
                    well.unsettled = true;
                    assertThatThrownBy(() -> impatient.syncAcknowledged(log -> true))
                            .hasRootCauseInstanceOf(IOException.class);
                } while (well.syncs.get() == before);
            }
            assertThat(hanging.syncs).hasValueLessThan(2);
            blocked.countDown();
        }
    }

    /** Once the first sync of a process came when the default period was over, not the set one. */
    @Test
    void anotherIntervalCountsAtOnce() throws InterruptedException {
        CountDownLatch synced = new CountDownLatch(1);
        syncer.set(WalSync.GROUP, Duration.ofHours(1));
        // By then it waits for that, or else there is nothing to be seen.
        Thread.sleep(200);
        FakeLog log = log(false);
        log.disk = synced::countDown;
        log.pending = true;
        syncer.set(WalSync.GROUP, Duration.ofMillis(1));
        await(synced);
    }

    @Test
    void whatIsBeingSyncedIsNotSettled() {
        SyncState state = new SyncState();
        state.written(false);
        state.sync(
                () -> {
                    assertThat(state.isPending()).isFalse();
                    assertThat(state.isUnsettled()).isTrue();
                });
        assertThat(state.isUnsettled()).isFalse();
    }

    /** The sync under way may have begun before the write. */
    @Test
    void aWriterOfAGroupWaitsForASyncThatBeginsAfterItsWrite() throws InterruptedException {
        SyncState state = new SyncState();
        Thread writer = new Thread(() -> state.written(true));
        state.sync(
                () -> {
                    writer.start();
                    while (writer.getState() != Thread.State.WAITING) Thread.onSpinWait();
                });
        assertThat(state.isPending()).isTrue();
        writer.join(100);
        assertThat(writer.isAlive()).isTrue();
        state.sync(() -> {});
        writer.join();
    }
}
