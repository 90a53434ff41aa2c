// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.launcher.NodeException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

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
     * A row of {@code petra.migrations}.
     *
     * @param table on its way
     * @param leftBytes null as long as it could not begin
     * @param text the row, for a message
     */
    record Migrating(String table, @Nullable Long leftBytes, String text) {}

    /**
     * Waits until no table is on its way into its engine. A compaction would interrupt that for
     * seconds in which the node is at rest.
     *
     * @param migrations what {@code petra.migrations} has now
     * @param patience for how long there may be as many as before, and none may have less left than
     *     it ever had: one that is stuck may change its state all the time
     * @throws NodeException if it stays so for longer
     */
    static void awaitMigrations(Supplier<List<Migrating>> migrations, Duration patience) {
        Map<String, Long> least = new HashMap<>();
        int fewest = Integer.MAX_VALUE;
        long further = System.nanoTime();
        while (true) {
            List<Migrating> now = migrations.get();
            if (now.isEmpty()) return;
            boolean isFurther = now.size() < fewest;
            fewest = Math.min(fewest, now.size());
            for (Migrating each : now) {
                Long left = each.leftBytes();
                if (left == null || left >= least.getOrDefault(each.table(), Long.MAX_VALUE))
                    continue;
                least.put(each.table(), left);
                isFurther = true;
            }
            if (isFurther) further = System.nanoTime();
            else if (System.nanoTime() - further > patience.toNanos())
                throw new NodeException(
                        "for "
                                + patience.toMinutes()
                                + " minutes, what was imported has not got further on its way into"
                                + " the engine: "
                                + now.stream()
                                        .map(Migrating::text)
                                        .collect(Collectors.joining("; ")));
            LockSupport.parkNanos(LOOK_NANOS);
        }
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
