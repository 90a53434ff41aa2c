// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import java.io.IOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The names of a store's logs, made durable beside RocksDB. That syncs the directory once for a new
 * log, by one descriptor for all threads, and the kernel reports a failure once to each descriptor:
 * of two threads that sync, one after another, the second is told that all is well before the first
 * could say otherwise. This has a descriptor of its own.
 */
public final class LogDirectory implements AutoCloseable {
    private static final Logger logger = LoggerFactory.getLogger(LogDirectory.class);
    private static final long UNKNOWN = Long.MAX_VALUE;

    private final Path directory;

    /** The newest log whose name is durable; only grows. */
    private long newest = -1;

    /** As of which {@link #newest} is the newest. */
    private volatile long forcedVersion = -1;

    private FileChannel channel;

    /**
     * In its place if an interrupt closes it: opened before, since the kernel tells an error that
     * the interrupt may have kept from being told only to descriptors that were open then.
     */
    private FileChannel spare;

    /** The first sync that failed: the kernel tells that once, so all who come later ask here. */
    private @Nullable IOException failure;

    private int forces;

    /** Opens it: a failure from here on is reported. */
    public LogDirectory(Path directory) throws IOException {
        this.directory = directory;
        this.channel = FileChannel.open(directory);
        try {
            this.spare = FileChannel.open(directory);
        } catch (IOException e) {
            channel.close();
            throw e;
        }
    }

    /**
     * Returns when the names of all logs are durable. Costs a sync only if one has begun since.
     *
     * @param version which another log would have changed, as of before the directory is looked at
     * @throws IOException if a sync has failed, by whatever descriptor
     */
    public void force(long version) throws IOException {
        if (version == forcedVersion) return;
        synchronized (this) {
            if (version == forcedVersion) return;
            if (failure != null)
                throw new IOException("A sync of " + directory + " has failed before", failure);
            long last = last();
            if (last <= newest) {
                forcedVersion = version;
                return;
            }
            forces++;
            try {
                forceNow();
            } catch (IOException e) {
                failure = e;
                throw e;
            }
            if (last == UNKNOWN) return;
            newest = last;
            forcedVersion = version;
        }
    }

    private long last() {
        long last = -1;
        try {
            for (long number : SyncMark.numbers(directory)) last = Math.max(last, number);
        } catch (IOException e) {
            // Too many open files: nothing of a sync has failed.
            logger.debug("{} cannot be listed", directory, e);
            return UNKNOWN;
        }
        return last;
    }

    /** An interrupt does not end it; it closes the descriptor, and another takes its place. */
    private void forceNow() throws IOException {
        boolean interrupted = false;
        try {
            while (true) {
                interrupted |= Thread.interrupted();
                try {
                    channel.force(true);
                    break;
                } catch (ClosedByInterruptException e) {
                    interrupted = true;
                    if (!spare.isOpen()) spare = FileChannel.open(directory);
                    channel = spare;
                }
            }
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
        if (spare == channel) renewSpare();
    }

    private void renewSpare() {
        try {
            spare = FileChannel.open(directory);
        } catch (IOException e) {
            // Too many open files. It is tried again when an interrupt asks for it.
            logger.debug("{} cannot be opened", directory, e);
        }
    }

    /** How often it was synced. */
    synchronized int forces() {
        return forces;
    }

    @Override
    public synchronized void close() throws IOException {
        try {
            channel.close();
        } finally {
            spare.close();
        }
    }
}
