// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;

/** What is done with processes, also with those that are no children of ours. */
final class Processes {
    private static final long POLL_MILLIS = 50;

    private Processes() {}

    /** Whether a process runs. One that ended and that no parent has asked about does not. */
    static boolean isAlive(ProcessHandle process) {
        return process.isAlive() && !isZombie(process.pid());
    }

    /** Asks a process to end (SIGTERM) and waits; tells whether it did. */
    static boolean terminate(ProcessHandle process, Duration timeout) {
        process.destroy();
        return awaitEnd(process, timeout);
    }

    /** Ends a process without its consent (SIGKILL) and waits; tells whether it did. */
    static boolean kill(ProcessHandle process, Duration timeout) {
        process.destroyForcibly();
        return awaitEnd(process, timeout);
    }

    /** Sleeps a moment, as between two looks at something. */
    static void pause() {
        try {
            Thread.sleep(POLL_MILLIS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new NodeException("interrupted while waiting for a node", e);
        }
    }

    // ProcessHandle.onExit would wait for ever for a zombie.
    private static boolean awaitEnd(ProcessHandle process, Duration timeout) {
        long start = System.nanoTime();
        while (isAlive(process)) {
            if (System.nanoTime() - start > timeout.toNanos()) {
                return false;
            }
            pause();
        }
        return true;
    }

    /** In a container whose first process is no init, a detached node's remains stay listed. */
    private static boolean isZombie(long pid) {
        try {
            String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
            return stat.startsWith(" Z", stat.lastIndexOf(')') + 1);
        } catch (IOException e) {
            return false; // no /proc here, or no such process any more
        }
    }
}
