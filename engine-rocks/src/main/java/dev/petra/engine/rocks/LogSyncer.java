// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.WalSync;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Syncs the logs of all stores: at the interval in periodic mode, at the window in group mode. One
 * daemon thread.
 */
final class LogSyncer implements AutoCloseable {
    private static final Logger logger = LoggerFactory.getLogger(LogSyncer.class);

    private final Supplier<Iterable<RocksStore>> stores;
    private final Thread thread;
    private volatile WalSync mode = WalSync.PERIODIC;
    private volatile long intervalMillis = 10_000;
    private boolean closed;

    LogSyncer(Supplier<Iterable<RocksStore>> stores) {
        this.stores = stores;
        this.thread = new Thread(this::run, "petra-log-sync");
        thread.setDaemon(true);
        thread.start();
    }

    WalSync mode() {
        return mode;
    }

    synchronized void set(WalSync mode, Duration interval) {
        this.mode = mode;
        this.intervalMillis = Math.max(1, interval.toMillis());
        notifyAll();
    }

    private void run() {
        while (awaitInterval()) {
            for (RocksStore store : stores.get()) {
                try {
                    store.syncUnsynced();
                } catch (RuntimeException | Error e) {
                    // The store remembers it and fails its writes until a sync succeeds.
                    logger.error("Syncing the log of {} failed", store.name(), e);
                }
            }
        }
    }

    /**
     * @return false once closed
     */
    private synchronized boolean awaitInterval() {
        WalSync waitedFor = mode;
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(intervalMillis);
        while (!closed && mode == waitedFor) {
            long left = end - System.nanoTime();
            if (left <= 0) break;
            try {
                TimeUnit.NANOSECONDS.timedWait(this, left);
            } catch (InterruptedException e) {
                return false;
            }
        }
        return !closed;
    }

    @Override
    public void close() {
        synchronized (this) {
            closed = true;
            notifyAll();
        }
        try {
            thread.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
