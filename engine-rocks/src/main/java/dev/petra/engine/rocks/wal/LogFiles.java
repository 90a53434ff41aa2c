// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import java.io.IOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** The logs of a store, beside RocksDB, which syncs none any more that it could not append to. */
public final class LogFiles {
    private LogFiles() {}

    /** A sync has failed, and not only what comes before it: no later one counts. */
    public static final class FailedForce extends IOException {
        private static final long serialVersionUID = 1;

        FailedForce(IOException cause) {
            super(cause);
        }
    }

    /**
     * Returns when all that was written to the logs in a directory is durable. That holds only if
     * no sync of them has failed before: the kernel reports that once, and to nobody who comes
     * later. An interrupt does not end it.
     *
     * @throws FailedForce if a sync has failed
     * @throws IOException if something could not be listed or opened, as with too many open files:
     *     nothing is durable by this, and a later call may succeed
     */
    public static void force(Path directory) throws IOException {
        boolean interrupted = false;
        try {
            while (true) {
                interrupted |= Thread.interrupted();
                try {
                    forceAll(directory);
                    return;
                } catch (ClosedByInterruptException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }

    private static void forceAll(Path directory) throws IOException {
        for (long number : SyncMark.numbers(directory))
            forceIfThere(new SyncMark.Log(number, 0).in(directory));
        // As RocksDB does behind a new log: what it is called is durable, too.
        try (FileChannel names = FileChannel.open(directory)) {
            force(names);
        }
    }

    private static void force(FileChannel file) throws IOException {
        try {
            file.force(true);
        } catch (ClosedByInterruptException e) {
            throw e;
        } catch (IOException e) {
            throw new FailedForce(e);
        }
    }

    /** RocksDB removes a log when data files have all that is in it. */
    private static void forceIfThere(Path log) throws IOException {
        try (FileChannel file = FileChannel.open(log, StandardOpenOption.WRITE)) {
            force(file);
        } catch (NoSuchFileException e) {
            if (Files.exists(log)) throw e;
        }
    }
}
