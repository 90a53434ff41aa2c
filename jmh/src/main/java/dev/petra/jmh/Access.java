// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * A way to ask an engine, the same for each. Used by many threads at once.
 *
 * <p>What is measured is all that it does here, the making of the request included, which costs the
 * same for every engine.
 */
interface Access extends AutoCloseable {
    /** How it is asked. */
    enum Level {
        /** A store's own write and read, without anything above. */
        SPI,
        /** What a replica does for a request. */
        LOCAL,
        /** A driver in another process. */
        CLIENT,
        /** The same, of a cluster in containers that has each row three times. */
        CLUSTER;

        /** Whether the engine is in a process of its own. */
        boolean isRemote() {
            return this == CLIENT || this == CLUSTER;
        }

        /**
         * How many ask at once in a closed loop: as many as run, or as keep a node busy.
         *
         * @param asked instead of as many as run; 0 for that
         */
        int clients(int asked) {
            if (isRemote()) return 16;
            return asked > 0 ? asked : Runtime.getRuntime().availableProcessors();
        }
    }

    /** Writes a row. */
    void write(long number, int version);

    /**
     * Reads what the workload asks for of a row's partition.
     *
     * @return the bytes of all values
     * @throws IllegalStateException if they are not what was written, see {@link ReadCheck}
     */
    long read(long number);

    /**
     * Reads everything.
     *
     * @return rows
     */
    long scan();

    /** Flushes: what was written is in files. */
    void flush();

    /** Flushes, and merges all files into as few as the engine keeps. */
    void settle();

    /** Lets the engine compact by itself, as it does from the beginning, or not. */
    void compacting(boolean automatic);

    /** The process that the engine is in. */
    Probe probe();

    @Override
    void close();

    /** Writes all rows of a workload, by so many threads; older versions before newer ones. */
    static void load(Access access, Workload workload, int threads) {
        for (int version = 0; version < workload.versions(); version++) {
            int written = version;
            List<Callable<Void>> shares = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                int first = thread;
                shares.add(
                        () -> {
                            for (long number = first; number < workload.rows(); number += threads)
                                access.write(number, written);
                            return null;
                        });
            }
            all(shares, threads);
        }
    }

    static void all(List<Callable<Void>> shares, int threads) {
        ExecutorService executor = Executors.newFixedThreadPool(threads);
        try {
            for (Future<Void> share : executor.invokeAll(shares)) share.get();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        } catch (ExecutionException e) {
            throw new IllegalStateException("a row could not be loaded", e.getCause());
        } finally {
            executor.shutdownNow();
        }
    }
}
