// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.StandardOpenOption;

/** Lets one start at a time look at a directory's process file and write it. */
final class StartLock {
    private StartLock() {}

    /** Runs a start alone, or refuses because another one goes on. */
    static void hold(NodeDirectory directory, Runnable start) {
        try (FileChannel channel =
                FileChannel.open(
                        directory.lockFile(),
                        StandardOpenOption.CREATE,
                        StandardOpenOption.WRITE)) {
            if (!isLocked(channel))
                throw new NodeException(
                        "another start of a node in " + directory.root() + " goes on");
            start.run(); // Closing the file gives the lock back.
        } catch (IOException e) {
            throw new NodeException("cannot lock " + directory.lockFile() + ": " + e, e);
        }
    }

    private static boolean isLocked(FileChannel channel) throws IOException {
        try {
            return channel.tryLock() != null;
        } catch (OverlappingFileLockException e) {
            return false; // this JVM has it
        }
    }
}
