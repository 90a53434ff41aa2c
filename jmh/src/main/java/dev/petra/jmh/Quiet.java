// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/** When what an engine does in the background is done, and what it has left. */
final class Quiet {
    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(250);
    private static final long PATIENCE_NANOS = TimeUnit.MINUTES.toNanos(30);

    /** Processes at rest write no more in some seconds: their logs. */
    static final long REST_BYTES = 1 << 20;

    private static final int REST_SECONDS = 3;

    private Quiet() {}

    /**
     * Waits until processes have been at rest for some seconds.
     *
     * @return when that began
     * @throws IllegalStateException if they are not at rest after half an hour
     */
    static Probe.Moment await(Probe probe) {
        return await(probe, REST_SECONDS);
    }

    /**
     * The same, for less time where what is measured is shorter still.
     *
     * @param seconds how long a measurement is
     */
    static Probe.Moment await(Probe probe, int seconds) {
        long rest = TimeUnit.SECONDS.toNanos(Math.min(REST_SECONDS, seconds));
        long end = System.nanoTime() + PATIENCE_NANOS;
        Probe.Moment since = probe.now();
        long began = System.nanoTime();
        while (System.nanoTime() - began < rest) {
            if (System.nanoTime() - end >= 0)
                throw new IllegalStateException("compaction is not quiet after 30 minutes");
            LockSupport.parkNanos(LOOK_NANOS);
            Probe.Moment now = probe.now();
            if (now.all().dirtiedBytes() - since.all().dirtiedBytes() <= REST_BYTES) continue;
            since = now;
            began = System.nanoTime();
        }
        return since;
    }

    /**
     * Writes what the page cache holds of any file to disk: else it is written while another engine
     * is measured.
     *
     * @throws IllegalStateException if that fails
     */
    static void sync() {
        try {
            int code = new ProcessBuilder("sync").inheritIO().start().waitFor();
            if (code != 0) throw new IllegalStateException("'sync' ended with " + code);
        } catch (IOException e) {
            throw new IllegalStateException("'sync' cannot be run", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    /** The bytes of a node's data files, logs left out. */
    static long dataBytes(Path node) throws IOException {
        long bytes = 0;
        try (Stream<Path> files = Files.walk(node)) {
            for (Path file : (Iterable<Path>) files.filter(Files::isRegularFile)::iterator)
                if (!file.toString().endsWith(".log")) bytes += Files.size(file);
        }
        return bytes;
    }
}
