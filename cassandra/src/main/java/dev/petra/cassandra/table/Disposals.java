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
 * Ends stores that outlived their table, or their TRUNCATE, because they are still read; on a
 * thread of its own, so that neither the schema nor other tables' memory waits for a reader.
 * Thread-safe.
 */
public final class Disposals {
    private static final Logger logger = LoggerFactory.getLogger(Disposals.class);
    private static final Duration AGAIN = Duration.ofSeconds(1);

    private static final AtomicInteger left = new AtomicInteger();
    private static final ScheduledExecutorService thread =
            Executors.newSingleThreadScheduledExecutor(
                    work -> {
                        Thread made = new Thread(work, "PetraDisposals");
                        made.setDaemon(true);
                        return made;
                    });

    private Disposals() {}

    /** Repeats an attempt until it returns that it is done. The attempt must not throw. */
    static void repeat(BooleanSupplier attempt) {
        left.incrementAndGet();
        schedule(attempt);
    }

    private static void schedule(BooleanSupplier attempt) {
        var unused =
                thread.schedule(
                        () -> {
                            if (attempt.getAsBoolean()) left.decrementAndGet();
                            else schedule(attempt);
                        },
                        AGAIN.toMillis(),
                        TimeUnit.MILLISECONDS);
    }

    /** Before the engines are closed. */
    public static void logLeft() {
        if (left.get() > 0)
            logger.warn(
                    "{} store(s) of dropped or truncated tables are still being read; their files"
                            + " are deleted when the node starts again",
                    left.get());
    }
}
