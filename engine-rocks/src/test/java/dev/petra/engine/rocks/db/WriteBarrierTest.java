// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;

class WriteBarrierTest {
    private static final int WRITERS = 4;
    private static final int ROUNDS = 2_000;

    private final WriteBarrier phases = new WriteBarrier();

    /** Its writer has read the phase before another wait changes it, and is counted behind that. */
    @Test
    void aWriteThatBeganInThePhaseOfBeforeIsAwaited() throws InterruptedException {
        int slot = phases.slot();
        phases.awaitThoseBegun();
        assertThat(phases.enter(slot)).isTrue();
        Thread waiter = new Thread(phases::awaitThoseBegun);
        waiter.start();
        while (waiter.isAlive() && waiter.getState() != Thread.State.TIMED_WAITING)
            Thread.onSpinWait();
        assertThat(waiter.isAlive()).isTrue();
        phases.end(slot);
        waiter.join();
    }

    /** It spun until the last of them had ended. */
    @Test
    void aThreadThatIsInterruptedWaitsWithoutSpinning() throws Exception {
        int slot = phases.begin();
        AtomicBoolean ended = new AtomicBoolean();
        InterruptedThread.waits(
                () -> {
                    phases.awaitThoseBegun();
                    assertThat(ended).isTrue();
                },
                () -> {
                    ended.set(true);
                    phases.end(slot);
                });
    }

    @Test
    void nobodyWritesWhileOneIsAlone() throws InterruptedException {
        AtomicInteger writing = new AtomicInteger();
        AtomicInteger written = new AtomicInteger();
        AtomicBoolean done = new AtomicBoolean();
        List<Thread> threads = new ArrayList<>();
        for (int w = 0; w < WRITERS; w++)
            threads.add(
                    new Thread(
                            () -> {
                                while (!done.get()) {
                                    int slot = phases.begin();
                                    writing.incrementAndGet();
                                    Thread.onSpinWait();
                                    writing.decrementAndGet();
                                    written.incrementAndGet();
                                    phases.end(slot);
                                }
                            }));
        threads.forEach(Thread::start);
        int met = 0;
        int before = 0;
        for (int round = 0; round < ROUNDS; round++) {
            int[] found = new int[2];
            phases.alone(
                    () -> {
                        found[0] = writing.get();
                        found[1] = written.get();
                        LockSupport.parkNanos(1_000);
                        found[0] += writing.get() + written.get() - found[1];
                    });
            met += found[0];
            // They go on between.
            while (written.get() == before) Thread.onSpinWait();
            before = written.get();
            phases.awaitThoseBegun();
        }
        done.set(true);
        for (Thread thread : threads) thread.join();
        assertThat(met).isZero();
    }
}
