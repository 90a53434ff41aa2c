// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import dev.petra.launcher.NodeProcess;
import dev.petra.launcher.NodeTool;
import dev.petra.launcher.Processes;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * What a node costs as it gets more tables, each with a few rows, or as one table gets more rows:
 * disk, memory, descriptors, processor at rest, and the time to start. The system and the JVM are
 * asked, which know no engine.
 */
final class Growth {
    private static final int ROWS = 100;
    private static final int CLIENTS = 16;
    private static final Duration PATIENCE = Duration.ofMinutes(30);
    private static final int REST_SECONDS = 10;
    private static final Pattern WAKE_UPS = Pattern.compile("\nvoluntary_ctxt_switches:\\s+(\\d+)");

    private static final Pattern USED = Pattern.compile(" used (\\d+)([KM])");

    private final Workload workload;
    private final String memtable;
    private final ProcessTarget target;
    private final NodeProcess node;
    private final Of of;
    private final int seconds;
    private int there;

    /** What there is more and more of. */
    enum Of {
        TABLES("tables", "table"),
        BYTES("MiB", "MiB");

        private final String many;
        private final String one;

        Of(String many, String one) {
            this.many = many;
            this.one = one;
        }

        private List<Integer> steps() {
            return switch (this) {
                case TABLES -> List.of(1, 10, 100, 200, 500, 1000, 2000);
                case BYTES -> List.of(16, 64, 256, 1024, 2048, 4096, 8192, 16_384, 32_768);
            };
        }

        /** As it is counted in a chart. */
        String counted() {
            return many;
        }
    }

    /** What one number of them takes, by metric and unit. */
    private record Metric(String name, String unit) {}

    /**
     * Of a node with a workload whose {@link Workload#rows} is how many there are at last: tables,
     * or MiB.
     *
     * @param seconds how long a measurement is: a node at rest is watched for no longer than two
     */
    Growth(Of of, Workload workload, Engine engine, ProcessTarget target, int seconds) {
        this.of = of;
        this.seconds = seconds;
        this.workload = workload;
        this.memtable = engine.memtable();
        this.target = target;
        this.node = target.node();
    }

    /** Measures a node that has nothing yet, and runs when this ends. */
    void measure() {
        int most = Math.toIntExact(workload.rows());
        List<Integer> counts =
                Stream.concat(of.steps().stream().filter(step -> step < most), Stream.of(most))
                        .toList();
        int least = counts.get(0);
        Map<Metric, Double> first = Map.of();
        Map<Metric, Double> last = Map.of();
        for (int count : counts) {
            last = measure(count);
            last.forEach(
                    (metric, value) ->
                            StallProfiler.add(
                                    // As Report finds it again.
                                    metric.name() + Report.WITH + count + " " + of.many,
                                    value,
                                    metric.unit()));
            if (count == least) first = last;
        }
        if (most == least) return;
        for (Map.Entry<Metric, Double> metric : last.entrySet()) {
            Double before = first.get(metric.getKey());
            if (before != null)
                StallProfiler.add(
                        metric.getKey().name() + ", each " + of.one + " more",
                        (metric.getValue() - before) / (most - least),
                        metric.getKey().unit());
        }
    }

    private Map<Metric, Double> measure(int count) {
        Map<Metric, Double> found = new LinkedHashMap<>();
        double millis = of == Of.TABLES ? createTables(count) : write(count);
        found.put(
                new Metric("time to " + (of == Of.TABLES ? "create" : "write") + " one", "ms"),
                millis);
        target.nodetool("flush", Workload.KEYSPACE);
        // Else the start would be beside a compaction.
        Quiet.await(target.probe(), seconds);
        restart(found);
        Quiet.await(target.probe());
        found.put(new Metric("heap in use", "KiB"), heapInUse());
        found.put(
                new Metric("resident", "KiB"), target.probe().now().all().residentBytes() / 1024.0);
        found.put(new Metric("on disk", "KiB"), diskKiB());
        found.put(new Metric("descriptors", "open"), (double) count("fd"));
        found.put(new Metric("threads", "running"), (double) count("task"));
        rest(found);
        return found;
    }

    /**
     * Makes tables until there are so many, and writes to each.
     *
     * @return milliseconds for each CREATE TABLE
     */
    private double createTables(int count) {
        try (CqlSession session = session()) {
            long nanos = 0;
            int before = there;
            session.execute(workload.createKeyspace(1));
            for (; there < count; there++) {
                long began = System.nanoTime();
                session.execute(
                        named(workload.createTable("memtable = '" + memtable + "'"), there));
                nanos += System.nanoTime() - began;
                PreparedStatement insert = session.prepare(named(workload.insert(), there));
                for (long number = 0; number < ROWS; number++)
                    session.execute(ClientAccess.bound(insert, workload.row(number, 0)));
            }
            return nanos / 1e6 / Math.max(1, count - before);
        }
    }

    /**
     * Writes rows of one table until there are so many MiB.
     *
     * @return milliseconds for each MiB
     */
    private double write(int count) {
        try (CqlSession session = session()) {
            session.execute(workload.createKeyspace(1));
            session.execute(workload.createTable("memtable = '" + memtable + "'"));
            PreparedStatement insert = session.prepare(workload.insert());
            int before = there;
            long end = rows(count);
            long began = System.nanoTime();
            List<Callable<Void>> shares = new ArrayList<>();
            for (int client = 0; client < CLIENTS; client++) {
                long first = rows(before) + client;
                shares.add(
                        () -> {
                            for (long number = first; number < end; number += CLIENTS)
                                session.execute(
                                        ClientAccess.bound(insert, workload.row(number, 0)));
                            return null;
                        });
            }
            Access.all(shares, CLIENTS);
            there = count;
            return (System.nanoTime() - began) / 1e6 / Math.max(1, count - before);
        }
    }

    /** As many as have so many MiB of values. */
    private long rows(int mebibytes) {
        return ((long) mebibytes << 20) / workload.readBytes(0, 0);
    }

    private static String named(String cql, int table) {
        return cql.replace(Workload.KEYSPACE + ".t ", Workload.KEYSPACE + ".t" + table + " ");
    }

    private CqlSession session() {
        return CqlSession.builder()
                .addContactPoints(target.nodes())
                .withLocalDatacenter("datacenter1")
                .withConfigLoader(
                        ClientAccess.options()
                                .withBoolean(DefaultDriverOption.METADATA_SCHEMA_ENABLED, false)
                                .withDuration(
                                        DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofMinutes(2))
                                .build())
                .build();
    }

    private void restart(Map<Metric, Double> found) {
        node.stop(PATIENCE);
        found.put(new Metric("time to start", "s"), target.startAgain(PATIENCE));
        found.put(new Metric("cpu to start", "s"), target.probe().now().all().cpuNanos() / 1e9);
        // It is another process, and nothing writes to it: its engine has no write stalls.
        StallProfiler.watch(target.probe());
        StallProfiler.restart();
    }

    private void rest(Map<Metric, Double> found) {
        Probe.Counters before = target.probe().now().all();
        Map<String, Long> wakeUps = wakeUps();
        long began = System.nanoTime();
        LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(Math.min(REST_SECONDS, 2 * seconds)));
        double rested = (System.nanoTime() - began) / 1e9;
        Probe.Counters after = target.probe().now().all();
        found.put(
                new Metric("cpu at rest", "ms/s"),
                (after.cpuNanos() - before.cpuNanos()) / 1e6 / rested);
        found.put(new Metric("wake-ups at rest", "/s"), since(wakeUps, wakeUps()) / rested);
        found.put(
                new Metric("written at rest", "B/s"),
                (after.writtenBytes() - before.writtenBytes()) / rested);
    }

    /** Of each thread that runs, since it began. */
    private Map<String, Long> wakeUps() {
        Map<String, Long> found = new HashMap<>();
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(process().resolve("task"))) {
            for (Path thread : threads)
                wakeUps(thread).ifPresent(count -> found.put(thread.toString(), count));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return found;
    }

    private static OptionalLong wakeUps(Path thread) throws IOException {
        try {
            Matcher count = WAKE_UPS.matcher(Files.readString(thread.resolve("status")));
            return count.find()
                    ? OptionalLong.of(Long.parseLong(count.group(1)))
                    : OptionalLong.empty();
        } catch (IOException e) {
            // A thread that ended meanwhile has no such file, or one that cannot be read any more.
            if (Files.notExists(thread)) return OptionalLong.empty();
            throw e;
        }
    }

    /** Of the threads that run afterwards: what ended meanwhile is not known. */
    private static double since(Map<String, Long> before, Map<String, Long> after) {
        return after.entrySet().stream()
                .mapToLong(thread -> thread.getValue() - before.getOrDefault(thread.getKey(), 0L))
                .sum();
    }

    private Path process() {
        return Path.of("/proc", Long.toString(node.pid()));
    }

    private long count(String what) {
        try (Stream<Path> all = Files.list(process().resolve(what))) {
            return all.count();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** After a collection, so that only what lives is counted. */
    private double heapInUse() {
        String jcmd = Path.of(System.getProperty("java.home"), "bin", "jcmd").toString();
        String pid = Long.toString(node.pid());
        output(jcmd, pid, "GC.run");
        String heap = output(jcmd, pid, "GC.heap_info");
        Matcher used = USED.matcher(heap);
        if (!used.find()) throw new IllegalStateException("no heap in use in\n" + heap);
        return Long.parseLong(used.group(1)) * (used.group(2).equals("M") ? 1024.0 : 1.0);
    }

    /** What the tables' files take on the disk, holes left out and what is reserved counted. */
    private double diskKiB() {
        Path data = target.directory().resolve("data").resolve(Workload.KEYSPACE);
        return Double.parseDouble(
                output("du", "--summarize", "--block-size=1024", data.toString())
                        .split("\\s", 2)[0]);
    }

    private static String output(String... command) {
        NodeTool.Result result = Processes.run(command[0], List.of(command));
        if (result.exitCode() == 0) return result.output();
        throw new IllegalStateException(String.join(" ", command) + " failed: " + result.output());
    }
}
