// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

class TurnsTest {
    private final Turns turns = new Turns();
    private final AtomicBoolean isOver = new AtomicBoolean();
    private final List<Integer> order = new CopyOnWriteArrayList<>();
    private final List<Thread> threads = new ArrayList<>();

    private boolean await(Runnable look) {
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(1);
        return turns.await(end, isOver::get, look);
    }

    private void begin() {
        turns.join();
        assertThat(await(() -> {})).isTrue();
        assertThat(turns.isMine()).isTrue();
    }

    /** The last of those that wait. */
    private Thread begin(int number, Runnable look) {
        Thread thread =
                new Thread(
                        () -> {
                            turns.join();
                            try {
                                if (await(look)) order.add(number);
                            } finally {
                                turns.leave();
                            }
                        });
        threads.add(thread);
        thread.start();
        while (thread.getState() != Thread.State.TIMED_WAITING) Thread.onSpinWait();
        return thread;
    }

    private void endAll() throws InterruptedException {
        turns.leave();
        for (Thread thread : threads) {
            thread.join(TimeUnit.MINUTES.toMillis(1));
            assertThat(thread.isAlive()).isFalse();
        }
        assertThat(turns.areAwaited()).isFalse();
    }

    @Test
    void theyComeInTheOrderOfThoseThatWait() throws Exception {
        begin();
        assertThat(turns.areAwaited()).isFalse();
        for (int i = 0; i < 5; i++) begin(i, () -> {});
        assertThat(turns.areAwaited()).isTrue();
        // Each has looked more than once.
        Thread.sleep(250);
        assertThat(order).isEmpty();
        endAll();
        assertThat(order).containsExactly(0, 1, 2, 3, 4);
    }

    @Test
    void whoLeavesKeepsNobodyWaiting() throws Exception {
        begin();
        AtomicBoolean isRefused = new AtomicBoolean();
        Thread leaving =
                begin(
                        0,
                        () -> {
                            if (isRefused.get()) throw new IllegalStateException("refused");
                        });
        leaving.setUncaughtExceptionHandler((thread, refusal) -> order.add(-1));
        begin(1, () -> {});
        isRefused.set(true);
        leaving.join(TimeUnit.MINUTES.toMillis(1));
        assertThat(order).containsExactly(-1);
        endAll();
        assertThat(order).containsExactly(-1, 1);
    }

    @Test
    void nobodyWaitsForATurnThatNobodyNeeds() throws Exception {
        begin();
        for (int i = 0; i < 3; i++) begin(i, () -> {});
        isOver.set(true);
        turns.wakeNext();
        threads.get(0).join(TimeUnit.MINUTES.toMillis(1));
        assertThat(order).contains(0);
        assertThat(turns.isMine()).as("it has its place still").isTrue();
        endAll();
        assertThat(order).containsExactlyInAnyOrder(0, 1, 2);
    }

    @Test
    void whoseTurnDoesNotComeInTimeIsToldSo() throws Exception {
        begin();
        AtomicBoolean came = new AtomicBoolean(true);
        AtomicBoolean isInterrupted = new AtomicBoolean();
        Thread late =
                new Thread(
                        () -> {
                            Thread.currentThread().interrupt();
                            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(20);
                            turns.join();
                            came.set(turns.await(end, () -> false, () -> {}));
                            turns.leave();
                            isInterrupted.set(Thread.currentThread().isInterrupted());
                        });
        threads.add(late);
        late.start();
        late.join(TimeUnit.MINUTES.toMillis(1));
        assertThat(came).isFalse();
        assertThat(isInterrupted).isTrue();
        endAll();
    }
}
