// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.StandardOpenOption;

/** A lock on a node's directory: only one start at a time may check and write the pid file. */
final class StartLock {
    private StartLock() {}

    /**
     * Runs a start while holding the lock.
     *
     * @throws NodeException if another start holds it
     */
    static void hold(NodeDirectory directory, Runnable start) {
        try (FileChannel channel =
                FileChannel.open(
                        directory.lockFile(),
                        StandardOpenOption.CREATE,
                        StandardOpenOption.WRITE)) {
            if (!isLocked(channel))
                throw new NodeException(
                        "another start of a node in " + directory.root() + " goes on");
            start.run(); // Closing the file releases the lock.
        } catch (IOException e) {
            throw new NodeException("cannot lock " + directory.lockFile() + ": " + e, e);
        }
    }

    private static boolean isLocked(FileChannel channel) throws IOException {
        try {
            return channel.tryLock() != null;
        } catch (OverlappingFileLockException e) {
            return false; // Another thread of this JVM holds it.
        }
    }
}
