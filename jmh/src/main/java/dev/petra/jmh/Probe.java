// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What processes did, as Linux and their own logs of safepoints tell. A pause is the whole time for
 * which a JVM stopped all threads, whatever for.
 *
 * @param processes one, or the nodes of a cluster
 */
record Probe(List<Watched> processes) {
    /** Of the engines: the microseconds for which RocksDB took no writes. */
    static final String STALL_METRIC = "stall_microseconds";

    private static final Pattern PAUSE =
            Pattern.compile("^\\[(\\d+)ms].*Safepoint \"([^\"]+)\".*Total: +(\\d+) ns");

    /** How long it took until all threads stood still, which is in the total. */
    private static final Pattern REACHING = Pattern.compile("Reaching safepoint: +(\\d+) ns");

    /** Of ZGC: one thread waits for memory, while the others go on. */
    private static final Pattern ALLOCATION_STALL =
            Pattern.compile("^\\[(\\d+)ms].*Allocation Stall \\(.*\\) (\\d+\\.\\d+)ms");

    /** Of G1: others have no such line. */
    private static final Pattern OLD =
            Pattern.compile("^\\[(\\d+)ms].*Old regions: (\\d+)->(\\d+)");

    private static final Pattern REGION = Pattern.compile("Heap Region Size: (\\d+)M");
    private static final long NANOS_A_TICK = 10_000_000;

    /**
     * A process.
     *
     * @param directory where its log is, written by {@link #option}
     * @param stalledNanos for how long its engine took no writes, since it began
     */
    record Watched(long pid, Path directory, LongSupplier stalledNanos) {
        /** Of an engine that does not say how long it took no writes. */
        Watched(long pid, Path directory) {
            this(pid, directory, () -> 0);
        }

        Watched with(LongSupplier stalledNanos) {
            return new Watched(pid, directory, stalledNanos);
        }
    }

    Probe {
        processes = List.copyOf(processes);
    }

    /** Of one process. */
    Probe(long pid, Path directory) {
        this(List.of(new Watched(pid, directory)));
    }

    /** The JVM option that makes the log, in a directory. */
    static String option(Path directory) {
        return "-Xlog:safepoint=info,gc=info,gc+heap=info,gc+init=info:file="
                + log(directory)
                + ":timemillis:filecount=0";
    }

    private static Path log(Path directory) {
        return directory.resolve("safepoints.log");
    }

    /**
     * Figures of one moment.
     *
     * @param millis since the epoch
     * @param processes of each, in their order
     */
    record Moment(long millis, List<Counters> processes) {
        Moment {
            processes = List.copyOf(processes);
        }

        /** Of all processes together. */
        Counters all() {
            return processes.stream().reduce(Counters.NONE, Counters::plus);
        }
    }

    /**
     * Of one process, counted since it began.
     *
     * @param cpuNanos processor time
     * @param readBytes from disk
     * @param dirtiedBytes written to files, some of which may be deleted before they are on disk
     * @param writtenBytes the same without those: to disk, once the page cache is written
     * @param residentBytes now
     * @param stalledNanos for how long its engine took no writes
     */
    record Counters(
            long cpuNanos,
            long readBytes,
            long dirtiedBytes,
            long writtenBytes,
            long residentBytes,
            long stalledNanos) {
        static final Counters NONE = new Counters(0, 0, 0, 0, 0, 0);

        Counters plus(Counters other) {
            return new Counters(
                    cpuNanos + other.cpuNanos,
                    readBytes + other.readBytes,
                    dirtiedBytes + other.dirtiedBytes,
                    writtenBytes + other.writtenBytes,
                    residentBytes + other.residentBytes,
                    stalledNanos + other.stalledNanos);
        }
    }

    /**
     * A pause.
     *
     * @param process which of the processes
     * @param millis when it ended, since the epoch
     * @param reason the JVM's name for it
     * @param nanos from when it was asked for
     * @param reachingNanos until all threads stood still, of these
     */
    record Pause(int process, long millis, String reason, long nanos, long reachingNanos) {}

    /**
     * A wait of one thread for memory.
     *
     * @param process which of the processes
     * @param millis when it ended, since the epoch
     */
    record Wait(int process, long millis, long nanos) {}

    Moment now() {
        return new Moment(
                System.currentTimeMillis(), processes.stream().map(Probe::counters).toList());
    }

    private static Counters counters(Watched watched) {
        Path process = Path.of("/proc", Long.toString(watched.pid));
        String stat = text(process.resolve("stat"));
        // The name, in parentheses, may hold anything.
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1);
        String io = text(process.resolve("io"));
        long dirtied = number(io, "\nwrite_bytes");
        return new Counters(
                (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) * NANOS_A_TICK,
                number(io, "read_bytes"),
                dirtied,
                dirtied - number(io, "\ncancelled_write_bytes"),
                number(text(process.resolve("status")), "VmRSS") << 10,
                watched.stalledNanos.getAsLong());
    }

    private static long number(String text, String name) {
        Matcher matcher = Pattern.compile(name + ":\\s+(\\d+)").matcher(text);
        if (!matcher.find()) throw new IllegalStateException("no " + name + " in\n" + text);
        return Long.parseLong(matcher.group(1));
    }

    /** Each time that a thread waited for memory, that ended between two moments. */
    List<Wait> allocationStalls(Moment from, Moment to) {
        List<Wait> stalls = new ArrayList<>();
        for (int i = 0; i < processes.size(); i++)
            for (String line : text(log(processes.get(i).directory)).split("\n", -1)) {
                Matcher matcher = ALLOCATION_STALL.matcher(line);
                if (!matcher.find()) continue;
                long millis = Long.parseLong(matcher.group(1));
                if (millis >= from.millis && millis <= to.millis)
                    stalls.add(
                            new Wait(
                                    i,
                                    millis,
                                    Math.round(Double.parseDouble(matcher.group(2)) * 1e6)));
            }
        return stalls;
    }

    /** For how long at least one thread waited: what is at the same time counts once. */
    static long union(List<Wait> waits) {
        List<Wait> lastFirst = new ArrayList<>(waits);
        lastFirst.sort(Comparator.comparingLong(Wait::millis).reversed());
        long nanos = 0;
        long counted = Long.MAX_VALUE;
        for (Wait wait : lastFirst) {
            long ended = TimeUnit.MILLISECONDS.toNanos(wait.millis);
            long began = ended - wait.nanos;
            nanos += Math.max(0, Math.min(counted, ended) - began);
            counted = Math.min(counted, began);
        }
        return nanos;
    }

    /** The pauses that ended between two moments. */
    List<Pause> pauses(Moment from, Moment to) {
        List<Pause> pauses = new ArrayList<>();
        for (int i = 0; i < processes.size(); i++)
            for (String line : text(log(processes.get(i).directory)).split("\n", -1)) {
                Matcher matcher = PAUSE.matcher(line);
                if (!matcher.find()) continue;
                long millis = Long.parseLong(matcher.group(1));
                Matcher reaching = REACHING.matcher(line);
                if (millis >= from.millis && millis <= to.millis)
                    pauses.add(
                            new Pause(
                                    i,
                                    millis,
                                    matcher.group(2),
                                    Long.parseLong(matcher.group(3)),
                                    reaching.find() ? Long.parseLong(reaching.group(1)) : 0));
            }
        return pauses;
    }

    /**
     * How many bytes became old between two moments, in whole regions: what the old generation grew
     * by in collections in which it did. Nothing of collectors without generations.
     */
    OptionalLong promoted(Moment from, Moment to) {
        long bytes = 0;
        for (Watched watched : processes) {
            String log = text(log(watched.directory));
            Matcher region = REGION.matcher(log);
            if (!region.find()) return OptionalLong.empty();
            long regions = 0;
            for (String line : log.split("\n", -1)) {
                Matcher matcher = OLD.matcher(line);
                if (!matcher.find()) continue;
                long millis = Long.parseLong(matcher.group(1));
                if (millis < from.millis || millis > to.millis) continue;
                regions +=
                        Math.max(
                                0,
                                Long.parseLong(matcher.group(3))
                                        - Long.parseLong(matcher.group(2)));
            }
            bytes += regions * (Long.parseLong(region.group(1)) << 20);
        }
        return OptionalLong.of(bytes);
    }

    private static String text(Path file) {
        try {
            return Files.readString(file);
        } catch (AccessDeniedException e) {
            throw new IllegalStateException(
                    file + " cannot be read: nodes in containers can only be watched by root", e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
