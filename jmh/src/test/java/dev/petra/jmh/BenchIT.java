// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.data.Percentage.withPercentage;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/**
 * The command, on real nodes: tiny, for what it does and not for what comes out. The longest tests
 * are first and last, which is where the threads of JUnit begin, so that they end with short ones:
 * else the others would wait for a long one at the end. With an order, JUnit has to be told that
 * they may run side by side.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
@Execution(ExecutionMode.CONCURRENT)
class BenchIT {
    @TempDir Path directory;

    private void bench(String... arguments) throws IOException, InterruptedException {
        Process process = start(Map.of(), arguments);
        try {
            int code = process.waitFor();
            assertThat(code).describedAs(output()).isZero();
        } finally {
            // If the test's time is over.
            process.destroy();
        }
    }

    private Process start(Map<String, String> environment, String... arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(System.getProperty("petra.command"));
        command.add("bench");
        command.addAll(List.of(arguments));
        ProcessBuilder builder =
                new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .redirectOutput(directory.resolve("output").toFile());
        builder.environment().putAll(environment);
        return builder.start();
    }

    private String output() throws IOException {
        return Files.readString(directory.resolve("output"));
    }

    private Results results(String level, String operations, String engines, String... more)
            throws IOException, InterruptedException {
        Path out = Files.createTempDirectory(directory, level).resolve("out");
        List<String> arguments =
                new ArrayList<>(
                        List.of(
                                "--level=" + level,
                                "--operation=" + operations,
                                "--engine=" + engines,
                                "--seconds=1",
                                "--heap=512",
                                "--memory=64",
                                // As the default is: nodes have working directories of their own.
                                "--out=" + Path.of("").toAbsolutePath().relativize(out)));
        arguments.addAll(List.of(more));
        for (String standard : List.of("--workload=timeseries", "--scale=0.01", "--warmups=0"))
            if (Stream.of(more)
                    .noneMatch(
                            option ->
                                    option.startsWith(
                                            standard.substring(0, standard.indexOf('=')))))
                arguments.add(standard);
        bench(arguments.toArray(String[]::new));
        assertThat(out.resolve("report.html")).content().contains("<svg", "rocks");
        assertThat(out.resolve("report.md")).content().contains("throughput");
        assertThat(out.resolve("work")).doesNotExist();
        Results results = Results.read(out.resolve("results.json"));
        assertThat(results.isComplete()).isTrue();
        assertThat(results.settings().get("seed")).matches("-?\\d+");
        assertThat(results.machine().get("revision of Petra")).matches("[0-9a-f]{40}.*|unknown");
        assertThat(results.machine()).containsKey("read-ahead of the disk");
        assertThat(output()).contains("seed: " + results.settings().get("seed"));
        // JMH takes Cassandra's hints to the compiler and adds its own.
        if (level.equals("local") || level.equals("spi"))
            try (Stream<Path> logs = Files.list(out.resolve("logs"))) {
                assertThat(logs)
                        .isNotEmpty()
                        .allSatisfy(
                                log ->
                                        assertThat(log)
                                                .content()
                                                .contains(
                                                        "CompileCommand: dontinline"
                                                                + " org/apache/cassandra"));
            }
        return results;
    }

    /**
     * Skips a test but in each third run, for the time that it takes; {@code -Dpetra.variants=all}
     * has all tests. What is measured of a store and by a client is in each run: of three tests of
     * one level a run has one.
     *
     * @param which 0, 1 or 2: a run has those with one number
     */
    static void assumeDrawn(int which) {
        long seed = Long.getLong("petra.seed", System.getProperty("petra.run", "").hashCode());
        assumeTrue(
                System.getProperty("petra.variants", "drawn").equals("all")
                        || Math.floorMod(seed, 3) == which,
                "not drawn by -Dpetra.seed=" + seed + "; -Dpetra.variants=all has it");
    }

    private static double median(Results results, String engine, String operation, String metric) {
        return results.figures().stream()
                .filter(
                        figure ->
                                figure.engine().equals(engine)
                                        && figure.operation().equals(operation)
                                        && figure.metric().equals(metric))
                .findFirst()
                .orElseThrow(() -> new AssertionError(operation + " " + metric))
                .median();
    }

    @Test
    @Order(Integer.MAX_VALUE)
    void enginesAreComparedInAReplica() throws IOException, InterruptedException {
        assumeDrawn(1);
        Results results =
                results(
                        "local",
                        "mixed,openLoop",
                        "rocks,legacy-latest",
                        "--warmups=1",
                        "--clients=3");
        assertThat(results.settings()).containsEntry("clients at spi and local", "3");
        double slowest =
                Math.min(
                        median(results, "rocks", "mixed", "throughput"),
                        median(results, "legacy-latest", "mixed", "throughput"));
        for (String engine : List.of("rocks", "legacy-latest")) {
            double throughput = median(results, engine, "mixed", "throughput");
            assertThat(throughput).isGreaterThan(10);
            // Of requests only: to start a node takes many times that.
            assertThat(median(results, engine, "mixed", "allocated")).isBetween(100.0, 200_000.0);
            assertThat(median(results, engine, "mixed", "read max"))
                    .isGreaterThanOrEqualTo(median(results, engine, "mixed", "read P99"));
            assertThat(median(results, engine, "mixed", "warm-up")).isOne();
            assertThat(median(results, engine, "mixed", "cpu")).isPositive();
            assertThat(median(results, engine, "openLoop", "throughput"))
                    .isLessThan(1.2 * throughput);
            assertThat(median(results, engine, "openLoop", "read P99")).isPositive();
            assertThat(median(results, engine, "openLoop", "write P99")).isPositive();
            assertThat(median(results, engine, "openLoop", "stall")).isBetween(0.0, 100.0);
            assertThat(median(results, engine, "openLoop", "P99 at 25 %")).isPositive();
            assertThat(median(results, engine, "openLoop", "throughput at 25 %"))
                    .isPositive()
                    .isLessThan(0.3 * slowest);
        }
        // Seconds are too few for it.
        assertThat(results.figures())
                .noneSatisfy(figure -> assertThat(figure.metric()).contains("P99.9"));
        // One rate for all.
        assertThat(median(results, "rocks", "openLoop", "rate"))
                .isEqualTo(median(results, "legacy-latest", "openLoop", "rate"))
                .isCloseTo(StoreBenchmark.OF_CLOSED_LOOP * slowest, withPercentage(1));
    }

    /** Reads of both engines are in the test of compaction that is behind. */
    @Test
    void aStoreIsMeasuredByItself() throws IOException, InterruptedException {
        assumeDrawn(0);
        boolean limited = canLimitMemory();
        Results results =
                results("spi", "scan", "rocks,bare", "--total-memory=" + (limited ? 1500 : 0));
        for (String engine : List.of("rocks", "bare")) {
            assertThat(median(results, engine, "scan", "mean")).isPositive();
            // The heap is touched when the JVM starts.
            if (limited)
                assertThat(median(results, engine, "scan", "memory besides")).isGreaterThan(512);
        }
    }

    private static boolean canLimitMemory() throws IOException {
        try (MemoryLimit limit = MemoryLimit.create("test" + System.nanoTime(), 64 << 20)) {
            return limit.group() != null;
        } catch (MemoryLimit.NoLimitException e) {
            System.out.println("*** --total-memory IS NOT TESTED: " + e.getMessage() + " ***");
            return false;
        }
    }

    @Test
    void aTableIsLoadedUntilNothingIsCompactedAnyMore() throws IOException, InterruptedException {
        assumeDrawn(0);
        Results results = results("local", "mixed", "rocks", "--workload=load");
        assertThat(median(results, "rocks", "load", "throughput")).isGreaterThan(10);
        assertThat(median(results, "rocks", "load", "time to quiet")).isNotNegative();
        assertThat(median(results, "rocks", "load", "disk written")).isPositive();
        assertThat(median(results, "rocks", "load", StoreBenchmark.WRITE_BUFFERS))
                .isBetween(0.1, 1.0);
        assertThat(median(results, "rocks", "load", "on disk")).isPositive();
        // At least its log and its table.
        assertThat(median(results, "rocks", "load", "write amplification")).isGreaterThan(0.9);
    }

    @Test
    @Order(3)
    void readsAreMeasuredWhileCompactionIsBehind() throws IOException, InterruptedException {
        assumeDrawn(1);
        Results results =
                results(
                        "spi",
                        "read",
                        "rocks,bare,legacy-latest-cache",
                        "--workload=leveled",
                        "--scale=0.05");
        for (String engine : List.of("rocks", "bare", "legacy-latest-cache")) {
            assertThat(median(results, engine, "backlog", "reads before")).isGreaterThan(10);
            // So little may be compact as it is.
            assertThat(median(results, engine, "backlog", "compaction took")).isNotNegative();
            assertThat(median(results, engine, "backlog", "reads in the first 6 s"))
                    .isGreaterThan(10);
            assertThat(median(results, engine, "backlog", "read P99 when quiet")).isPositive();
        }
    }

    @Test
    void aNodeJoinsUnderReads() throws IOException, InterruptedException {
        assumeDrawn(1);
        Results results = results("client", "mixed", "rocks", "--workload=stream");
        assertThat(median(results, "rocks", "bootstrap", "received")).isPositive();
        assertThat(median(results, "rocks", "bootstrap", "cpu of both nodes until quiet"))
                .isPositive();
        assertThat(median(results, "rocks", "bootstrap", "written by the newcomer until quiet"))
                .isPositive();
        assertThat(median(results, "rocks", "bootstrap", "read before P99")).isPositive();
        assertThat(median(results, "rocks", "bootstrap", "read meanwhile P99")).isPositive();
    }

    @Test
    @Order(Integer.MAX_VALUE - 2)
    void aNodeIsMeasuredWithMoreAndMoreTables() throws IOException, InterruptedException {
        assumeDrawn(1);
        Results results = results("client", "mixed", "rocks", "--workload=tables", "--scale=0.006");
        // In KiB.
        assertThat(median(results, "rocks", "tables", "on disk with 3 tables")).isGreaterThan(60);
        assertThat(median(results, "rocks", "tables", "heap in use with 3 tables"))
                .isBetween(10_000.0, 512.0 * 1024);
        // The heap is touched when the node starts.
        assertThat(median(results, "rocks", "tables", "resident with 3 tables"))
                .isGreaterThan(512 * 1024);
        double one = median(results, "rocks", "tables", "descriptors with 1 tables");
        double three = median(results, "rocks", "tables", "descriptors with 3 tables");
        assertThat(three).isGreaterThan(one);
        assertThat(median(results, "rocks", "tables", "descriptors, each table more"))
                .isEqualTo((three - one) / 2);
        assertThat(median(results, "rocks", "tables", "cpu to start with 3 tables")).isPositive();
        assertThat(median(results, "rocks", "tables", "wake-ups at rest with 3 tables"))
                .isPositive();
    }

    @Test
    @Order(Integer.MAX_VALUE - 1)
    void aNodeIsMeasuredWithMoreAndMoreBytes() throws IOException, InterruptedException {
        assumeDrawn(2);
        Results results = results("client", "mixed", "rocks", "--workload=bytes", "--scale=0.01");
        // In KiB; they cannot be compressed.
        double few = median(results, "rocks", "bytes", "on disk with 16 MiB");
        double more = median(results, "rocks", "bytes", "on disk with 20 MiB");
        assertThat(few).isBetween(16.0 * 1024, 20.0 * 1024);
        assertThat(more - few).isBetween(3.5 * 1024, 5.5 * 1024);
        assertThat(median(results, "rocks", "bytes", "on disk, each MiB more"))
                .isEqualTo((more - few) / 4);
        assertThat(median(results, "rocks", "bytes", "time to write one with 20 MiB")).isPositive();
    }

    /** Nodes with the agent are those of the tests of tables, of bytes and of one that joins. */
    @Test
    void aClientMeasuresTheNode() throws IOException, InterruptedException {
        assumeDrawn(2);
        Results results = results("client", "mixed", "rocks-woven");
        assertThat(median(results, "rocks-woven", "mixed", "throughput")).isGreaterThan(10);
        assertThat(median(results, "rocks-woven", "mixed", "resident")).isGreaterThan(100);
    }

    @Test
    @Order(1)
    void nodesThatRunSideBySideAreAskedInTurns() throws IOException, InterruptedException {
        assumeDrawn(0);
        Results results =
                results(
                        "client",
                        "read,mixed,openLoop,scan,restart",
                        "rocks,legacy-latest-fallback",
                        "--live",
                        "--unequal-memory",
                        "--workload=opaque",
                        "--rates=20,50",
                        "--warmups=1",
                        "--rounds=2");
        for (String engine : List.of("rocks", "legacy-latest-fallback")) {
            for (String operation : List.of("read", "mixed")) {
                assertThat(median(results, engine, operation, "throughput")).isGreaterThan(10);
                assertThat(median(results, engine, operation, "cpu")).isPositive();
            }
            assertThat(median(results, engine, "mixed", "write P99")).isPositive();
            assertThat(median(results, engine, "scan", "mean")).isPositive();
            assertThat(median(results, engine, "restart", "time to start")).isGreaterThan(1);
            assertThat(median(results, engine, "restart", "throughput")).isGreaterThan(10);
            assertThat(median(results, engine, "restart", "throughput in the first 1 s"))
                    .isPositive();
            assertThat(median(results, engine, "restart", "read P99 in the first 1 s"))
                    .isPositive();
            assertThat(median(results, engine, "restart", "read P99")).isPositive();
            for (int percent : List.of(20, 50)) {
                String at = OpenLoop.at(percent);
                assertThat(median(results, engine, "openLoop", "rate" + at))
                        .isEqualTo(median(results, "rocks", "openLoop", "rate" + at));
                assertThat(median(results, engine, "openLoop", "read P99" + at)).isPositive();
                assertThat(median(results, engine, "openLoop", Gap.METRIC + at)).isPositive();
            }
        }
        assertThat(median(results, "legacy-latest-fallback", "mixed", "shadow dropped out"))
                .isIn(0.0, 1.0);
        assertThat(median(results, "legacy-latest-fallback", "read", "compared")).isPositive();
        assertThat(median(results, "legacy-latest-fallback", "read", "answered by the shadow"))
                .isGreaterThan(median(results, "legacy-latest-fallback", "read", "compared"));
        assertThat(results.settings().get("memory is unequal")).contains("rocks 576 MiB");
        // Warming up is not counted, and each round is a value.
        assertThat(results.figures())
                .filteredOn(figure -> !figure.metric().startsWith("warm-up"))
                .allSatisfy(figure -> assertThat(figure.values()).hasSize(2));
        assertThat(median(results, "rocks", "mixed", "warm-up not steady")).isOne();
    }

    /**
     * A run that is killed leaves its node and its control group, which the next one ends; it ends
     * its own when it is asked to end.
     */
    @Test
    void nothingOutlivesARun() throws IOException, InterruptedException {
        assumeDrawn(2);
        int attempts = 0;
        while (!isEndedByTheNextRun("killed" + attempts)) assertThat(++attempts).isLessThan(5);

        Process ended = start(Map.of(), endless("ended"));
        long other = node("ended");
        Owner owner = Owner.of(arguments(other)).orElseThrow();
        ended.destroy();
        assertThat(ended.waitFor(1, TimeUnit.MINUTES)).isTrue();
        assertThat(lives(other)).isFalse();
        assertThat(MemoryLimit.all()).noneMatch(group -> of(group).equals(Optional.of(owner)));
    }

    /**
     * Kills a run. What Docker says is said by a script here.
     *
     * @return false if it was a run of another test that has ended what was left, as it begins with
     *     that too
     */
    private boolean isEndedByTheNextRun(String name) throws IOException, InterruptedException {
        Process killed = start(Map.of(), endless(name));
        long node = node(name);
        Owner dead = Owner.of(arguments(node)).orElseThrow();
        killed.destroyForcibly().waitFor();
        if (!lives(node)) return false;
        assertThat(dead.isDead()).isTrue();
        Owner living = Owner.mine();
        Path bin = Files.createDirectory(directory.resolve(name + "-bin"));
        Path asked = Files.createFile(bin.resolve("asked"));
        Path docker = bin.resolve("docker");
        Files.writeString(
                docker,
                """
                #!/bin/sh
                echo "$*" >> '%s'
                case "$1 $2" in
                  'ps --all') case $* in *Names*) printf '%%s\\n' '%sx-node1' '%sy-node1' petra-node1 ;; esac ;;
                  'volume ls') case $* in *label*) echo %sx-node2 ;; *) echo '%sx-node2' ;; esac ;;
                  'network ls') echo '%sx' ;;
                esac
                [ "$1" != image ]
                """
                        .formatted(
                                asked,
                                dead.prefix(),
                                living.prefix(),
                                dead.prefix(),
                                dead.prefix(),
                                dead.prefix()));
        assertThat(docker.toFile().setExecutable(true)).isTrue();
        Process next =
                start(
                        Map.of("PATH", bin + ":" + System.getenv("PATH")),
                        "--docker",
                        "--workload=kv",
                        "--operation=mixed",
                        "--engine=legacy",
                        "--out=" + directory.resolve(name + "-next"));
        // There is no image.
        assertThat(next.waitFor()).describedAs(output()).isOne();
        assertThat(lives(node)).isFalse();
        if (!output().contains("ended: process " + node)) return false;
        assertThat(output())
                .contains("left by a run that was killed, ended: process " + node)
                .contains("ended: containers " + dead.prefix() + "x");
        assertThat(MemoryLimit.all()).noneMatch(group -> of(group).equals(Optional.of(dead)));
        assertThat(asked)
                .content()
                .contains("volume rm " + dead.prefix() + "x-node2")
                .contains("network rm " + dead.prefix() + "x")
                .doesNotContain("rm " + living)
                .doesNotContain(living.prefix() + "y ");
        return true;
    }

    /** Not if it has ended, and nobody has asked how. */
    static boolean lives(long pid) throws IOException {
        try {
            String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
            return !stat.substring(stat.lastIndexOf(')')).startsWith(") Z");
        } catch (NoSuchFileException e) {
            return false;
        }
    }

    static Optional<Owner> of(MemoryLimit group) {
        return Owner.of(group.group().getFileName().toString());
    }

    private String[] endless(String out) throws IOException {
        return new String[] {
            "--level=client",
            "--workload=kv",
            "--operation=read",
            "--engine=legacy",
            "--seconds=600",
            "--heap=256",
            "--memory=64",
            "--total-memory=" + (canLimitMemory() ? 1200 : 0),
            "--scale=0.001",
            "--out=" + directory.resolve(out)
        };
    }

    /** That of a run, once it is started. */
    private long node(String out) throws IOException, InterruptedException {
        String mark = "-Dpetra.node=" + directory.toRealPath().resolve(out);
        while (true) {
            Optional<ProcessHandle> node =
                    ProcessHandle.allProcesses()
                            .filter(
                                    process ->
                                            arguments(process.pid()).stream()
                                                    .anyMatch(a -> a.startsWith(mark)))
                            .findFirst();
            if (node.isPresent()) return node.get().pid();
            Thread.sleep(100);
        }
    }

    static List<String> arguments(long pid) {
        try {
            return List.of(Files.readString(Path.of("/proc/" + pid + "/cmdline")).split("\0"));
        } catch (IOException e) {
            return List.of(); // it has ended
        }
    }

    @Test
    void resultsOfARunThatFailedSaySo() throws IOException, InterruptedException {
        assumeDrawn(2);
        Path out = directory.resolve("failed");
        Process process =
                start(
                        Map.of(),
                        "--level=spi",
                        "--workload=kv",
                        "--operation=read",
                        "--engine=bare,rocks",
                        "--seconds=1",
                        "--warmups=0",
                        "--heap=256",
                        "--memory=64",
                        "--scale=0.001",
                        "--rounds=1000",
                        "--out=" + out);
        try {
            Path results = out.resolve("results.json");
            while (process.isAlive() && !Files.exists(results)) Thread.sleep(50);
            Optional<ProcessHandle> fork = Optional.empty();
            while (process.isAlive() && fork.isEmpty()) {
                Thread.sleep(50);
                // The JVM that measures now.
                fork =
                        process.descendants()
                                .filter(
                                        child ->
                                                arguments(child.pid())
                                                        .contains(
                                                                "org.openjdk.jmh.runner.ForkedMain"))
                                .findFirst();
            }
            assertThat(fork).isPresent();
            fork.get().destroyForcibly();
            assertThat(process.waitFor()).describedAs(output()).isOne();
            Results incomplete = Results.read(results);
            assertThat(incomplete.incomplete())
                    .matches("kv-spi-G1-read-(bare|rocks), round \\d+ failed: (?s).+");
            // Of a store by itself, in a closed loop.
            assertThat(incomplete.figures())
                    .filteredOn(figure -> figure.metric().equals("P99"))
                    .isNotEmpty()
                    .allSatisfy(figure -> assertThat(figure.median()).isPositive());
            assertThat(out.resolve("report.md")).content().contains("**Incomplete**");
        } finally {
            process.destroy();
        }
    }

    @Test
    @Order(2)
    void nodesInContainersAreCompared() throws IOException, InterruptedException {
        assumeDrawn(2);
        String base = System.getenv("PETRA_DOCKER_BASE");
        boolean possible = base != null && exitCode("docker", "version") == 0;
        if (!possible)
            System.out.println(
                    "*** nodesInContainersAreCompared IS NOT RUN: it needs a Docker engine, and in"
                            + " PETRA_DOCKER_BASE an image with Java 17. .ci/run makes both. ***");
        assumeTrue(possible);
        String build =
                Path.of(System.getProperty("petra.command"))
                        .resolveSibling("../docker/build")
                        .toString();
        assertThat(exitCode(build, "--base", base, "--tag", "petra:bench")).isZero();
        Results results =
                results(
                        "cluster",
                        "mixed",
                        "rocks,legacy-latest",
                        "--docker",
                        "--nodes=1",
                        "--image=petra:bench");
        for (String engine : List.of("rocks", "legacy-latest")) {
            assertThat(median(results, engine, "mixed", "throughput")).isGreaterThan(10);
            assertThat(median(results, engine, "mixed", "cpu")).isPositive();
            assertThat(median(results, engine, "mixed", "stall")).isBetween(0.0, 100.0);
            assertThat(median(results, engine, "mixed", "resident")).isGreaterThan(400);
        }
        assertThat(exitCode("sh", "-c", "docker ps -a | grep petra-bench-")).isEqualTo(1);
        assertThat(exitCode("sh", "-c", "docker volume ls | grep petra-bench-")).isEqualTo(1);
    }

    private int exitCode(String... command) throws IOException, InterruptedException {
        ProcessBuilder builder =
                new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .redirectOutput(directory.resolve("other").toFile());
        builder.environment().putIfAbsent("DOCKER_BUILDKIT", "0");
        return builder.start().waitFor();
    }
}
