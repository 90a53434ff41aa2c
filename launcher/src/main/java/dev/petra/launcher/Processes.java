// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/** Starts, ends and checks processes, also those that are not children of this one. */
public final class Processes {
    private static final long POLL_MILLIS = 50;

    private Processes() {}

    /** Whether a process is running. A zombie, which has ended, is not. */
    static boolean isAlive(ProcessHandle process) {
        return process.isAlive() && !isZombie(process.pid());
    }

    /**
     * Asks a process to end (SIGTERM) and waits; returns whether it has ended in time.
     *
     * @throws NodeException if this user may not end it
     */
    static boolean terminate(ProcessHandle process, Duration timeout) {
        checkSent(process, process.destroy());
        return awaitEnd(process, timeout);
    }

    /**
     * Kills a process (SIGKILL) and waits; returns whether it has ended in time.
     *
     * @throws NodeException if this user may not end it
     */
    static boolean kill(ProcessHandle process, Duration timeout) {
        checkSent(process, process.destroyForcibly());
        return awaitEnd(process, timeout);
    }

    private static void checkSent(ProcessHandle process, boolean sent) {
        if (!sent && isAlive(process))
            throw new NodeException(
                    "process %d cannot be ended by this user: run this command as root or as %s"
                            .formatted(process.pid(), process.info().user().orElse("its user")));
    }

    /** Sleeps 50 ms, between two polls. */
    static void pause() {
        pause(POLL_MILLIS);
    }

    /** Sleeps between two polls. */
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
     * @param program the name of the command in an error message
     * @return the exit code, and what the command printed to its standard and error outputs
     * @throws NodeException if the command cannot be started, or this thread is interrupted
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

    /**
     * Runs a command on this process's own input and outputs, and returns its exit code. If this
     * process is asked to end (SIGTERM), so is the command.
     */
    static int runInherited(String program, List<String> command) {
        try {
            Process process;
            AtomicReference<ProcessHandle> started = new AtomicReference<>();
            // Whoever ends this process waits for the start, and then ends the command.
            synchronized (started) {
                Runtime.getRuntime()
                        .addShutdownHook(new Thread(() -> endStarted(started), "end-" + program));
                process = new ProcessBuilder(command).inheritIO().start();
                started.set(process.toHandle());
            }
            return process.waitFor();
        } catch (IOException e) {
            throw cannotRun(program, e);
        } catch (InterruptedException e) {
            throw interrupted(e);
        }
    }

    private static void endStarted(AtomicReference<ProcessHandle> started) {
        synchronized (started) {
            ProcessHandle process = started.get();
            if (process != null) process.destroy();
        }
    }

    private static NodeException cannotRun(String program, IOException e) {
        return new NodeException("cannot run " + program + ": " + e.getMessage(), e);
    }

    private static NodeException interrupted(InterruptedException e) {
        Thread.currentThread().interrupt();
        return new NodeException("interrupted while waiting for a process", e);
    }

    // ProcessHandle.onExit would wait forever for a zombie.
    private static boolean awaitEnd(ProcessHandle process, Duration timeout) {
        long start = System.nanoTime();
        while (isAlive(process)) {
            if (System.nanoTime() - start > timeout.toNanos()) return false;
            pause();
        }
        return true;
    }

    /** In a container whose first process is not an init, an ended detached node stays a zombie. */
    private static boolean isZombie(long pid) {
        try {
            return isZombie(Files.readString(Path.of("/proc/" + pid + "/stat")));
        } catch (IOException e) {
            return false; // no /proc here, or no such process any more
        }
    }

    /**
     * Whether a line of {@code /proc/<pid>/stat} is of a process without running threads. The state
     * is that of the first thread; other threads may still run, and keep ports open until they end.
     */
    static boolean isZombie(String stat) {
        // After the name, which may contain anything: the state, and as field 17 the number of
        // threads.
        String[] fields = stat.substring(stat.lastIndexOf(')') + 1).strip().split(" ", 19);
        return fields.length == 19 && fields[0].equals("Z") && fields[17].equals("1");
    }
}
