// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/** What is done with processes, also with those that are no children of ours. */
public final class Processes {
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
        pause(POLL_MILLIS);
    }

    /** Sleeps longer, where a look costs more. */
    static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw interrupted(e);
        }
    }

    /**
     * Runs a command without input, and waits for its end.
     *
     * @param program what an error calls it
     * @return its exit code, and what it printed to both its outputs
     * @throws NodeException if it cannot be started
     */
    public static NodeTool.Result run(String program, List<String> command) {
        try {
            Process process =
                    new ProcessBuilder(command)
                            .redirectErrorStream(true)
                            .redirectInput(NodeProcess.NO_INPUT)
                            .start();
            byte[] output = process.getInputStream().readAllBytes();
            return new NodeTool.Result(
                    process.waitFor(), new String(output, StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw cannotRun(program, e);
        } catch (InterruptedException e) {
            throw interrupted(e);
        }
    }

    /** Runs a command on this process's own input and outputs, and returns its exit code. */
    static int runInherited(String program, List<String> command) {
        try {
            return new ProcessBuilder(command).inheritIO().start().waitFor();
        } catch (IOException e) {
            throw cannotRun(program, e);
        } catch (InterruptedException e) {
            throw interrupted(e);
        }
    }

    private static NodeException cannotRun(String program, IOException e) {
        return new NodeException("cannot run " + program + ": " + e.getMessage(), e);
    }

    private static NodeException interrupted(InterruptedException e) {
        Thread.currentThread().interrupt();
        return new NodeException("interrupted while waiting for a process", e);
    }

    // ProcessHandle.onExit would wait for ever for a zombie.
    private static boolean awaitEnd(ProcessHandle process, Duration timeout) {
        long start = System.nanoTime();
        while (isAlive(process)) {
            if (System.nanoTime() - start > timeout.toNanos()) return false;
            pause();
        }
        return true;
    }

    /** In a container whose first process is no init, a detached node's remains stay listed. */
    private static boolean isZombie(long pid) {
        try {
            return isZombie(Files.readString(Path.of("/proc/" + pid + "/stat")));
        } catch (IOException e) {
            return false; // no /proc here, or no such process any more
        }
    }

    /**
     * Whether a line of {@code /proc/<pid>/stat} is of a process of which nothing runs. The first
     * thread may have ended before others, which hold its ports until they end too.
     */
    static boolean isZombie(String stat) {
        // Behind the name, which may hold anything: the state, and 17 fields on the threads.
        String[] fields = stat.substring(stat.lastIndexOf(')') + 1).strip().split(" ", 19);
        return fields.length == 19 && fields[0].equals("Z") && fields[17].equals("1");
    }
}
