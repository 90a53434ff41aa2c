// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What a process did, as Linux and its own log of safepoints tell. A pause is the whole time for
 * which the JVM stopped all threads, whatever for.
 *
 * @param pid of the process
 * @param directory where its log is, written by {@link #option}
 */
record Probe(long pid, Path directory) {
    private static final Pattern PAUSE =
            Pattern.compile("^\\[(\\d+)ms].*Safepoint \"([^\"]+)\".*Total: +(\\d+) ns");
    private static final long NANOS_A_TICK = 10_000_000;

    /** The JVM option that makes the log, in a directory. */
    static String option(Path directory) {
        return "-Xlog:safepoint=info:file=" + log(directory) + ":timemillis:filecount=0";
    }

    private static Path log(Path directory) {
        return directory.resolve("safepoints.log");
    }

    /**
     * Figures of one moment, counted since the process began.
     *
     * @param cpuNanos processor time
     * @param readBytes from disk
     * @param writtenBytes to disk
     * @param residentBytes now
     */
    record Moment(
            long millis, long cpuNanos, long readBytes, long writtenBytes, long residentBytes) {}

    /**
     * A pause.
     *
     * @param millis when it ended, since the epoch
     * @param reason the JVM's name for it
     */
    record Pause(long millis, String reason, long nanos) {}

    Moment now() {
        Path process = Path.of("/proc", Long.toString(pid));
        String stat = text(process.resolve("stat"));
        // The name, in parentheses, may hold anything.
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1);
        long ticks = Long.parseLong(fields[11]) + Long.parseLong(fields[12]);
        String io = text(process.resolve("io"));
        return new Moment(
                System.currentTimeMillis(),
                ticks * NANOS_A_TICK,
                number(io, "read_bytes"),
                number(io, "\nwrite_bytes"),
                number(text(process.resolve("status")), "VmRSS") << 10);
    }

    private static long number(String text, String name) {
        Matcher matcher = Pattern.compile(name + ":\\s+(\\d+)").matcher(text);
        if (!matcher.find()) throw new IllegalStateException("no " + name + " in\n" + text);
        return Long.parseLong(matcher.group(1));
    }

    /** The pauses that ended between two moments. */
    List<Pause> pauses(Moment from, Moment to) {
        List<Pause> pauses = new ArrayList<>();
        for (String line : text(log(directory)).split("\n", -1)) {
            Matcher matcher = PAUSE.matcher(line);
            if (!matcher.find()) continue;
            long millis = Long.parseLong(matcher.group(1));
            if (millis >= from.millis && millis <= to.millis)
                pauses.add(new Pause(millis, matcher.group(2), Long.parseLong(matcher.group(3))));
        }
        return pauses;
    }

    private static String text(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
