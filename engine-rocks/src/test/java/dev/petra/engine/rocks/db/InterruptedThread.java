// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;

/** A thread that is interrupted before it waits for something, and while it does. */
public final class InterruptedThread {
    private InterruptedThread() {}

    /**
     * Asserts that it stays interrupted, and looks now and then only: a thread that is interrupted
     * does not park.
     *
     * @param wait what it does
     * @param end of what it waits for, after a second
     */
    public static void waits(Runnable wait, Runnable end) throws Exception {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        FutureTask<Long> waiting =
                new FutureTask<>(
                        () -> {
                            Thread.currentThread().interrupt();
                            long before = threads.getCurrentThreadCpuTime();
                            wait.run();
                            long took = threads.getCurrentThreadCpuTime() - before;
                            assertThat(Thread.interrupted()).as("it stays interrupted").isTrue();
                            return took;
                        });
        Thread thread = new Thread(waiting);
        thread.start();
        try {
            for (int i = 0; i < 5; i++) {
                Thread.sleep(200);
                thread.interrupt();
            }
        } finally {
            end.run();
        }
        assertThat(waiting.get(1, TimeUnit.MINUTES))
                .as("nanoseconds of a processor")
                .isLessThan(TimeUnit.MILLISECONDS.toNanos(500));
    }
}
