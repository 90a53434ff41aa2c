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
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * What a node costs as it gets more tables, each with a few rows: disk, memory, descriptors,
 * processor at rest, and the time to start. The system and the JVM are asked, which know no engine.
 */
final class ManyTables {
    private static final int ROWS = 100;
    private static final List<Integer> STEPS = List.of(1, 10, 100, 200, 500, 1000, 2000);
    private static final Duration PATIENCE = Duration.ofMinutes(30);
    private static final long REST_SECONDS = 10;
    private static final Pattern WAKE_UPS = Pattern.compile("\nvoluntary_ctxt_switches:\\s+(\\d+)");

    private static final Pattern USED = Pattern.compile(" used (\\d+)([KM])");

    private final Workload workload;
    private final String memtable;
    private final ProcessTarget target;
    private final NodeProcess node;
    private int tables;

    /** What one number of tables takes, by metric and unit. */
    private record Metric(String name, String unit) {
        /** As {@link Report} finds it again. */
        String with(int tables) {
            return name + Report.WITH + tables + " tables";
        }
    }

    ManyTables(Workload workload, Engine engine, ProcessTarget target) {
        this.workload = workload;
        this.memtable = engine.memtable();
        this.target = target;
        this.node = target.node();
    }

    /** Measures a node that has none of the tables yet, and runs when this ends. */
    void measure() {
        int most = Math.toIntExact(workload.rows());
        Map<Metric, Double> one = Map.of();
        Map<Metric, Double> all = Map.of();
        for (int count :
                Stream.concat(STEPS.stream().filter(step -> step < most), Stream.of(most))
                        .toList()) {
            all = measure(count);
            all.forEach(
                    (metric, value) ->
                            StallProfiler.add(metric.with(tables), value, metric.unit()));
            if (count == 1) one = all;
        }
        if (most == 1) return;
        for (Map.Entry<Metric, Double> metric : all.entrySet()) {
            Double first = one.get(metric.getKey());
            if (first != null)
                StallProfiler.add(
                        metric.getKey().name() + ", each table more",
                        (metric.getValue() - first) / (most - 1),
                        metric.getKey().unit());
        }
    }

    private Map<Metric, Double> measure(int count) {
        Map<Metric, Double> found = new LinkedHashMap<>();
        found.put(new Metric("time to create one", "ms"), fill(count));
        target.nodetool("flush", Workload.KEYSPACE);
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
    private double fill(int count) {
        try (CqlSession session = session()) {
            long nanos = 0;
            int before = tables;
            session.execute(workload.createKeyspace(1));
            for (; tables < count; tables++) {
                long began = System.nanoTime();
                session.execute(
                        named(workload.createTable("memtable = '" + memtable + "'"), tables));
                nanos += System.nanoTime() - began;
                PreparedStatement insert = session.prepare(named(workload.insert(), tables));
                for (long number = 0; number < ROWS; number++)
                    session.execute(ClientAccess.bound(insert, workload.row(number, 0)));
            }
            return nanos / 1e6 / Math.max(1, count - before);
        }
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
        long began = System.nanoTime();
        node.start();
        node.awaitCql(PATIENCE);
        found.put(new Metric("time to start", "s"), (System.nanoTime() - began) / 1e9);
        found.put(new Metric("cpu to start", "s"), target.probe().now().all().cpuNanos() / 1e9);
        // It is another process.
        StallProfiler.watch(target.probe());
        StallProfiler.restart();
    }

    private void rest(Map<Metric, Double> found) {
        Probe.Counters before = target.probe().now().all();
        Map<String, Long> wakeUps = wakeUps();
        long began = System.nanoTime();
        LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(REST_SECONDS));
        double seconds = (System.nanoTime() - began) / 1e9;
        Probe.Counters after = target.probe().now().all();
        found.put(
                new Metric("cpu at rest", "ms/s"),
                (after.cpuNanos() - before.cpuNanos()) / 1e6 / seconds);
        found.put(new Metric("wake-ups at rest", "/s"), since(wakeUps, wakeUps()) / seconds);
        found.put(
                new Metric("written at rest", "B/s"),
                (after.writtenBytes() - before.writtenBytes()) / seconds);
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
