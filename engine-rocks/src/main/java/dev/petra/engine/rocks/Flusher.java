// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.apache.cassandra.utils.NoSpamLogger;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Flushes the table with the largest write buffer when the write buffers of all tables are nearly
 * full. RocksDB checks that only when something is written, and then flushes the table that is
 * written to, however little is in its buffer: while idle tables fill the buffers, each write would
 * make a file.
 */
final class Flusher implements Runnable {
    /**
     * How often it runs. It measures only after {@link #MEASURED_EVERY} runs, or once a {@link
     * #MEASURED_PART}th of the limit was written.
     */
    static final int EVERY_MILLIS = 50;

    private static final Logger logger = LoggerFactory.getLogger(Flusher.class);
    private static final int MEASURED_EVERY = 20;
    private static final int MEASURED_PART = 64;

    private final Supplier<? extends Iterable<RocksStore>> stores;
    private final LongSupplier bytesWritten;
    private final long limit;
    private long writtenBefore;
    private int passed;

    /** Whether nothing had to be flushed at the last measurement; without a write that stays so. */
    private boolean isCalm;

    /**
     * @param bytesWritten to all stores together
     * @param limit of all write buffers
     */
    Flusher(
            Supplier<? extends Iterable<RocksStore>> stores,
            LongSupplier bytesWritten,
            long limit) {
        this.stores = stores;
        this.bytesWritten = bytesWritten;
        this.limit = limit;
    }

    @Override
    public void run() {
        long written = bytesWritten.getAsLong();
        if (isCalm && written == writtenBefore) return;
        if (written - writtenBefore < limit / MEASURED_PART && ++passed < MEASURED_EVERY) return;
        passed = 0;
        boolean isQuiet = written == writtenBefore;
        writtenBefore = written;
        // Each store once: what an empty write buffer takes, a flush does not free.
        Set<RocksStore> flushed = Collections.newSetFromMap(new IdentityHashMap<>());
        RocksStore next = next(flushed);
        // A write is counted before it is in the buffer.
        isCalm = isQuiet && next == null;
        for (; next != null; next = next(flushed)) {
            flushed.add(next);
            try {
                next.flush();
            } catch (RuntimeException | Error e) {
                // The others still take memory.
                NoSpamLogger.log(
                        logger,
                        NoSpamLogger.Level.ERROR,
                        1,
                        TimeUnit.MINUTES,
                        "The write buffers of {} could not be flushed; this is tried again soon",
                        next.name(),
                        e);
            }
        }
    }

    /** The table to be flushed now; null if there is no need. */
    private @Nullable RocksStore next(Set<RocksStore> but) {
        long active = 0;
        long all = 0;
        long most = 0;
        RocksStore largest = null;
        for (RocksStore store : stores.get()) {
            StoreMetrics.Buffers buffers = store.buffers();
            active += buffers.active();
            all += buffers.all();
            if (buffers.isEmpty() || buffers.active() <= most || but.contains(store)) continue;
            most = buffers.active();
            largest = store;
        }
        // RocksDB begins when the active buffers take 7/8 of the limit; or half of it, if all
        // buffers, with those being flushed, exceed it.
        boolean isNear = active > limit / 4 * 3 || (all > limit / 8 * 7 && active > limit / 8 * 3);
        return isNear ? largest : null;
    }
}
