// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.hooks;

import java.time.Duration;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.utils.JVMStabilityInspector;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the node does every few seconds, each task on a thread of its own: none runs twice at once,
 * and none waits for another. Not on Cassandra's {@code OptionalTasks}, one thread on which the
 * size estimates of hundreds of tables may take long. Thread-safe.
 */
final class PeriodicTasks {
    private static final Logger logger = LoggerFactory.getLogger(PeriodicTasks.class);

    /** How long the node, when it stops, waits for tasks that run. */
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(5);

    private final String name;
    private final ScheduledThreadPoolExecutor threads;
    private int tasks;

    /**
     * @param name of the threads, each of which a task begins
     */
    PeriodicTasks(String name) {
        this.name = name;
        this.threads =
                new ScheduledThreadPoolExecutor(
                        1,
                        work -> {
                            Thread made = new Thread(work, name);
                            made.setDaemon(true);
                            return made;
                        },
                        // When the node stops.
                        new ThreadPoolExecutor.DiscardPolicy());
    }

    /**
     * Runs a task now, and again so long after the end of each run, also of one that failed.
     *
     * @param what the task is, for the log
     */
    synchronized void every(Duration pause, String what, Runnable task) {
        threads.setCorePoolSize(++tasks);
        var unused =
                threads.scheduleWithFixedDelay(
                        () -> run(what, task), 0, pause.toMillis(), TimeUnit.MILLISECONDS);
    }

    private static void run(String what, Runnable task) {
        try {
            task.run();
        } catch (RuntimeException | Error e) {
            // What is thrown from here nobody sees, and this would have been the last run.
            logger.error("{} failed and is tried again", what, e);
            inspect(e);
        }
    }

    private static void inspect(Throwable failure) {
        try {
            JVMStabilityInspector.inspectThrowable(failure);
        } catch (RuntimeException | Error e) {
            // It throws an OutOfMemoryError again.
            logger.debug("Inspected", e);
        }
    }

    /** Begins no task any more, and waits a moment for those that run. */
    void stop() {
        threads.shutdown();
        try {
            if (!threads.awaitTermination(STOP_PATIENCE.toMillis(), TimeUnit.MILLISECONDS))
                logger.warn("A thread {} still runs a task while the node shuts down", name);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            logger.warn("Interrupted while threads {} end their tasks", name);
        }
    }
}
