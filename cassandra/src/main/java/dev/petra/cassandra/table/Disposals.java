// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import java.time.Duration;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Ends stores whose table was dropped or truncated, or has left its engine, also before the node
 * was started; again and again while they are read. On threads of its own, so that neither the
 * schema nor other tables' memory nor a start waits for a reader, or for the deletion of a large
 * store. Thread-safe.
 */
public final class Disposals {
    private static final Logger logger = LoggerFactory.getLogger(Disposals.class);
    private static final Duration AGAIN = Duration.ofSeconds(1);

    /** A large store does not keep DROP of another table waiting, which holds up the schema. */
    private static final int THREADS = 4;

    private static final AtomicInteger left = new AtomicInteger();
    private static final ScheduledExecutorService threads =
            Executors.newScheduledThreadPool(
                    THREADS,
                    work -> {
                        Thread made = new Thread(work, "PetraDisposals");
                        made.setDaemon(true);
                        return made;
                    });

    private Disposals() {}

    /** Begins an attempt, and repeats it until it returns that it is done. */
    static void begin(BooleanSupplier attempt) {
        left.incrementAndGet();
        schedule(attempt, Duration.ZERO);
    }

    private static void schedule(BooleanSupplier attempt, Duration when) {
        var unused = threads.schedule(() -> run(attempt), when.toMillis(), TimeUnit.MILLISECONDS);
    }

    private static void run(BooleanSupplier attempt) {
        boolean isDone = true;
        try {
            isDone = attempt.getAsBoolean();
        } catch (RuntimeException | Error e) {
            // Nobody sees what is thrown from here.
            logger.error(
                    "A store of a dropped or truncated table could not be deleted; it is when the"
                            + " node starts again",
                    e);
        }
        if (isDone) left.decrementAndGet();
        else schedule(attempt, AGAIN);
    }

    /** Before the engines are closed. */
    public static void logLeft() {
        if (left.get() > 0)
            logger.warn(
                    "{} store(s) of dropped or truncated tables are still being read or deleted;"
                            + " their files are deleted when the node starts again",
                    left.get());
    }
}
