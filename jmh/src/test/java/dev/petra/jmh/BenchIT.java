// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.data.Percentage.withPercentage;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The command, on real nodes: tiny, for what it does and not for what comes out. */
class BenchIT {
    @TempDir Path directory;

    private void bench(String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(System.getProperty("petra.command"));
        command.add("bench");
        command.addAll(List.of(arguments));
        Path output = directory.resolve("output");
        Process process =
                new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile())
                        .start();
        try {
            int code = process.waitFor();
            assertThat(code).describedAs(Files.readString(output)).isZero();
        } finally {
            // If the test's time is over.
            process.destroy();
        }
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
                                "--out=" + out));
        arguments.addAll(List.of(more));
        for (String standard : List.of("--workload=timeseries", "--scale=0.01"))
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
        return Results.read(out.resolve("results.json"));
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
    void enginesAreComparedInAReplica() throws IOException, InterruptedException {
        Results results = results("local", "mixed,openLoop", "rocks,legacy-latest");
        double slowest =
                Math.min(
                        median(results, "rocks", "mixed", "throughput"),
                        median(results, "legacy-latest", "mixed", "throughput"));
        for (String engine : List.of("rocks", "legacy-latest")) {
            double throughput = median(results, engine, "mixed", "throughput");
            assertThat(throughput).isGreaterThan(10);
            assertThat(median(results, engine, "mixed", "allocated")).isGreaterThan(100);
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

    @Test
    void aStoreIsMeasuredByItself() throws IOException, InterruptedException {
        Results results = results("spi", "read,scan", "rocks,bare");
        for (String engine : List.of("rocks", "bare")) {
            assertThat(median(results, engine, "read", "P99")).isPositive();
            assertThat(median(results, engine, "scan", "mean")).isPositive();
        }
    }

    @Test
    void aTableIsLoadedUntilNothingIsCompactedAnyMore() throws IOException, InterruptedException {
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
    void readsAreMeasuredWhileCompactionIsBehind() throws IOException, InterruptedException {
        Results results =
                results("spi", "read", "rocks,bare,legacy", "--workload=leveled", "--scale=0.05");
        for (String engine : List.of("rocks", "bare", "legacy")) {
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
    void aNodeIsMeasuredWithMoreAndMoreTables() throws IOException, InterruptedException {
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
    void aClientMeasuresTheNode() throws IOException, InterruptedException {
        Results results = results("client", "mixed", "rocks");
        assertThat(median(results, "rocks", "mixed", "throughput")).isGreaterThan(10);
        assertThat(median(results, "rocks", "mixed", "resident")).isGreaterThan(100);
    }

    @Test
    void nodesThatRunSideBySideAreAskedInTurns() throws IOException, InterruptedException {
        Results results =
                results(
                        "client",
                        "read,mixed,openLoop,scan",
                        "rocks,legacy-latest",
                        "--live",
                        "--unequal-memory",
                        "--workload=opaque",
                        "--warmups=1",
                        "--rounds=2");
        for (String engine : List.of("rocks", "legacy-latest")) {
            for (String operation : List.of("read", "mixed")) {
                assertThat(median(results, engine, operation, "throughput")).isGreaterThan(10);
                assertThat(median(results, engine, operation, "cpu")).isPositive();
            }
            assertThat(median(results, engine, "mixed", "write P99")).isPositive();
            assertThat(median(results, engine, "scan", "mean")).isPositive();
            for (int percent : LiveNodes.RATES) {
                String at = StoreBenchmark.at(percent);
                assertThat(median(results, engine, "openLoop", "rate" + at))
                        .isEqualTo(median(results, "legacy-latest", "openLoop", "rate" + at));
                assertThat(median(results, engine, "openLoop", "read P99" + at)).isPositive();
            }
        }
        // Warming up is not counted, and each round is a value.
        assertThat(results.figures()).allSatisfy(figure -> assertThat(figure.values()).hasSize(2));
    }

    @Test
    void nodesInContainersAreCompared() throws IOException, InterruptedException {
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
