// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.rocks.compaction.CompactionThrottle;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The background work on stores. A tick tells each store the time once a second; one thread purges
 * the stores that are due, one after the other, and another removes range tombstones that others
 * supersede, since a purge may take hours; other threads merge the files of time windows; one opens
 * stores anew whose disk was full; and one keeps the write buffers from filling up. All are daemon
 * threads.
 */
final class Maintenance implements AutoCloseable {
    private static final Logger logger = LoggerFactory.getLogger(Maintenance.class);

    private final Supplier<Iterable<RocksStore>> stores;
    private final CompactionThrottle throttle;
    private final Set<RocksStore> purgesQueued = ConcurrentHashMap.newKeySet();
    private final ScheduledExecutorService ticker =
            Executors.newSingleThreadScheduledExecutor(named("petra-tick"));
    private final ExecutorService purger = Executors.newSingleThreadExecutor(named("petra-purge"));
    private final ExecutorService ranges = Executors.newSingleThreadExecutor(named("petra-ranges"));

    private final ScheduledExecutorService flusher =
            Executors.newSingleThreadScheduledExecutor(named("petra-flush"));

    private final ExecutorService healer = Executors.newSingleThreadExecutor(named("petra-heal"));
    private final Set<RocksStore> healsQueued = ConcurrentHashMap.newKeySet();
    private final Set<RocksStore> rangesQueued = ConcurrentHashMap.newKeySet();
    private final Set<RocksStore> windowsQueued = ConcurrentHashMap.newKeySet();
    private final ExecutorService windows;

    /**
     * @param bytesWritten to all stores together
     * @param writeBuffers bytes that those of all stores may take
     * @param windowThreads how many stores' windows are merged at a time
     */
    Maintenance(
            Supplier<Iterable<RocksStore>> stores,
            CompactionThrottle throttle,
            LongSupplier bytesWritten,
            long writeBuffers,
            int windowThreads) {
        this.stores = stores;
        this.throttle = throttle;
        this.windows = Executors.newFixedThreadPool(windowThreads, named("petra-windows"));
        var unused = ticker.scheduleWithFixedDelay(this::tick, 1, 1, TimeUnit.SECONDS);
        Flusher flushes = new Flusher(stores, bytesWritten, writeBuffers);
        var unusedToo =
                flusher.scheduleWithFixedDelay(
                        () -> {
                            try {
                                flushes.run();
                            } catch (RuntimeException | Error e) {
                                logger.error(
                                        "The largest write buffer could not be flushed; this is"
                                                + " tried again in a moment",
                                        e);
                            }
                        },
                        Flusher.EVERY_MILLIS,
                        Flusher.EVERY_MILLIS,
                        TimeUnit.MILLISECONDS);
    }

    private static ThreadFactory named(String name) {
        return task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        };
    }

    private void tick() {
        try {
            long written = 0;
            for (RocksStore store : stores.get()) written += store.takeBytesWritten();
            throttle.written(written);
        } catch (RuntimeException | Error e) {
            // An exception would end all later ticks.
            logger.error(
                    "The limit of compaction could not follow the rate of writes; this is tried"
                            + " again in a second",
                    e);
        }
        for (RocksStore store : stores.get()) {
            try {
                if (store.maintenance().tick())
                    queue(
                            store,
                            purger,
                            purgesQueued,
                            "Purging",
                            store.maintenance()::purgeInBackground);
                if (store.maintenance().isHealDue())
                    queue(store, healer, healsQueued, "Opening anew", store.maintenance()::heal);
                if (store.maintenance().isHiddenDue())
                    queue(
                            store,
                            ranges,
                            rangesQueued,
                            "Removing what deletions hide in",
                            store.maintenance()::removeHidden);
                if (store.maintenance().isWindowsDue())
                    queue(
                            store,
                            windows,
                            windowsQueued,
                            "Compacting",
                            store.maintenance()::compactWindows);
            } catch (RuntimeException | Error e) {
                logger.error(
                        "Maintenance of {} failed; it is tried again in a second", store.name(), e);
            }
        }
    }

    /** Queues work on a store, unless the same work is queued for it already. */
    private static void queue(
            RocksStore store,
            ExecutorService on,
            Set<RocksStore> queued,
            String what,
            Runnable work) {
        if (!queued.add(store)) return;
        try {
            on.execute(
                    () -> {
                        try {
                            work.run();
                        } catch (RuntimeException | Error e) {
                            logger.error(
                                    "{} {} failed; it will be tried again", what, store.name(), e);
                        } finally {
                            queued.remove(store);
                        }
                    });
        } catch (RuntimeException | Error e) {
            // As where no thread can be made for it.
            queued.remove(store);
            throw e;
        }
    }

    /** Begins no more work; a purge under way ends when its store closes. */
    void stop() {
        ticker.shutdownNow();
        flusher.shutdownNow();
        purger.shutdownNow();
        ranges.shutdownNow();
        windows.shutdownNow();
        healer.shutdownNow();
    }

    /** Waits for the work under way. To be called after the stores were closed. */
    @Override
    public void close() {
        stop();
        try {
            if (!ticker.awaitTermination(1, TimeUnit.MINUTES)
                    || !flusher.awaitTermination(1, TimeUnit.MINUTES)
                    || !purger.awaitTermination(1, TimeUnit.MINUTES)
                    || !ranges.awaitTermination(1, TimeUnit.MINUTES)
                    || !windows.awaitTermination(1, TimeUnit.MINUTES)
                    || !healer.awaitTermination(1, TimeUnit.MINUTES))
                logger.error(
                        "Background work of the engine did not end within a minute; the engine is"
                                + " closed all the same");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
