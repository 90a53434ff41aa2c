// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.cassandra.CapturedLog;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class PeriodicTasksTest {
    private static final Duration SOON = Duration.ofMillis(1);

    private final PeriodicTasks tasks = new PeriodicTasks("PetraTest");

    @AfterEach
    void stop() {
        tasks.stop();
    }

    private static void await(CountDownLatch done) throws InterruptedException {
        assertThat(done.await(1, TimeUnit.MINUTES)).isTrue();
    }

    /** Else other nodes would hear nothing of this one until it is restarted. */
    @Test
    void aTaskThatFailsIsLoggedAndRunsAgain() throws Exception {
        CountDownLatch runs = new CountDownLatch(4);
        try (CapturedLog log = new CapturedLog(PeriodicTasks.class, Level.ERROR)) {
            tasks.every(
                    SOON,
                    "The test",
                    () -> {
                        runs.countDown();
                        if (runs.getCount() == 3) throw new IllegalStateException("not now");
                        if (runs.getCount() == 2) throw new AssertionError("nor now");
                    });
            await(runs);
            assertThat(log.messages())
                    .hasSize(2)
                    .allMatch(message -> message.startsWith("The test failed"));
        }
    }

    @Test
    void tasksRunOnDaemonThreadsThatAnOperatorFinds() throws Exception {
        Set<Thread> threads = ConcurrentHashMap.newKeySet();
        CountDownLatch runs = new CountDownLatch(20);
        for (int i = 0; i < 2; i++)
            tasks.every(
                    SOON,
                    "The test",
                    () -> {
                        threads.add(Thread.currentThread());
                        runs.countDown();
                    });
        await(runs);
        assertThat(threads)
                .isNotEmpty()
                .allSatisfy(
                        found -> {
                            assertThat(found.getName()).isEqualTo("PetraTest");
                            assertThat(found.isDaemon()).isTrue();
                        });
    }

    /** The count of disk space waited with the switch of a memtable for changes of the schema. */
    @Test
    void aTaskThatWaitsHoldsUpNoOther() throws Exception {
        CountDownLatch mayGoOn = new CountDownLatch(1);
        CountDownLatch runs = new CountDownLatch(20);
        tasks.every(SOON, "The test", () -> Uninterruptibles.awaitUninterruptibly(mayGoOn));
        tasks.every(SOON, "The test", runs::countDown);
        try {
            await(runs);
        } finally {
            mayGoOn.countDown();
        }
    }

    /** The engines are closed next. */
    @Test
    void theEndWaitsForTheTaskThatRunsAndLetsNoneBegin() throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        AtomicBoolean ended = new AtomicBoolean();
        AtomicInteger runs = new AtomicInteger();
        tasks.every(
                SOON,
                "The test",
                () -> {
                    runs.incrementAndGet();
                    begun.countDown();
                    try {
                        TimeUnit.MILLISECONDS.sleep(200);
                        ended.set(true);
                    } catch (InterruptedException e) {
                        throw new AssertionError("a file that is being written would be closed", e);
                    }
                });
        await(begun);
        tasks.stop();
        assertThat(ended).isTrue();
        int before = runs.get();
        // As by a start that a stop of the node overtakes.
        tasks.every(SOON, "The test", runs::incrementAndGet);
        TimeUnit.MILLISECONDS.sleep(50);
        assertThat(runs).hasValue(before);
    }
}
