// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.SyncFailedException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The logs of a store, beside RocksDB, which syncs none any more that it could not append to. */
public final class LogFiles {
    private LogFiles() {}

    /** A sync has failed, and not only what comes before it: no later one counts. */
    public static final class FailedForce extends IOException {
        private static final long serialVersionUID = 1;

        FailedForce(Path log, IOException cause) {
            super(log + ": " + cause.getMessage(), cause);
        }
    }

    /**
     * Returns when all that was written to the logs in a directory is durable; their names are
     * {@link LogDirectory}'s. That holds only if no sync of them has failed before: the kernel
     * reports that once, and to nobody who comes later. One thread at a time.
     *
     * @throws FailedForce if a sync has failed
     * @throws IOException if something could not be listed or opened, as with too many open files:
     *     nothing is durable by this, and a later call may succeed
     */
    public static void force(Path directory) throws IOException {
        for (long number : SyncMark.numbers(directory))
            forceIfThere(new SyncMark.Log(number, 0).in(directory));
    }

    /**
     * RocksDB removes a log when data files have all that is in it. Not by a channel: an interrupt
     * would take the place of the error that the kernel tells once.
     */
    private static void forceIfThere(Path log) throws IOException {
        try (FileInputStream file = new FileInputStream(log.toFile())) {
            file.getFD().sync();
        } catch (SyncFailedException e) {
            throw new FailedForce(log, e);
        } catch (FileNotFoundException e) {
            if (Files.exists(log)) throw e;
        }
    }
}
