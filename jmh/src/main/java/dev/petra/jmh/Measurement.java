// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.launcher.ContainerNodes;
import dev.petra.launcher.FileTree;
import dev.petra.launcher.NodeProcess;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.BenchmarkResult;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.ChainedOptionsBuilder;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Measures by JMH, in a JVM of its own each time: one with a node in it, or a client of nodes.
 *
 * @param work for nodes and their data
 * @param limited which bounds the memory of nodes; null where nothing does
 */
record Measurement(BenchOptions options, Path work, @Nullable MemoryLimit limited) {
    /**
     * Measures once.
     *
     * @param round from 1
     * @param figures for what comes of it
     */
    void measure(Run run, int round, Figures figures) throws IOException, RunnerException {
        // Else a node would find the pages of the one before, which was charged for them.
        if (limited != null) limited.forget();
        Path directory = run.directory(work);
        // What an earlier round loaded.
        if (run.isOnce()) {
            deleteContainers(List.of(run));
            if (Files.exists(directory)) FileTree.delete(directory);
        }
        ChainedOptionsBuilder jmh =
                new OptionsBuilder()
                        .include(StoreBenchmark.class.getName() + "." + run.operation() + "$")
                        .param("level", run.level().name())
                        .param("engine", run.engine().label())
                        .param("workload", run.workload())
                        .param("scale", Double.toString(options.scale))
                        .param("directory", directory.toAbsolutePath().toString())
                        .param("gc", run.gc())
                        .param("image", options.image)
                        .param("nodes", Integer.toString(options.nodes))
                        .param("nodeMemory", Integer.toString(options.nodeMemory()))
                        .param("heap", Integer.toString(options.heap))
                        .param("memory", Integer.toString(options.memory))
                        .param("seconds", Integer.toString(options.seconds()))
                        .param("warmups", Integer.toString(options.warmups))
                        .param("clients", Integer.toString(options.clients))
                        .param("name", run.name())
                        .param("round", Integer.toString(round))
                        .param("seed", Long.toString(run.seed(options.seed(), round)))
                        .param("memoryLimit", limited == null ? "" : limited.group().toString())
                        .param("histograms", options.histograms().toAbsolutePath().toString())
                        .forks(1)
                        // A node in the JVM leaves threads behind; one in a process is stopped.
                        .jvmArgsAppend(
                                "-Djmh.shutdownTimeout=" + (run.level().isRemote() ? 150 : 1),
                                "-Djmh.shutdownTimeout.step=1",
                                Owner.mine().option())
                        .addProfiler(StallProfiler.class)
                        .addProfiler(GCProfiler.class)
                        .shouldFailOnError(true)
                        // JMH would interrupt what takes ten minutes, such as to load many rows.
                        .timeout(TimeValue.hours(6))
                        .verbosity(VerboseMode.NORMAL)
                        .output(
                                options.out
                                        .resolve("logs")
                                        .resolve(run.name() + "-" + round + ".log")
                                        .toString());
        if (!run.isTimedByJmh()) jmh.warmupIterations(0).measurementIterations(1);
        else
            // It warms up when it opens the node, which is in JMH's first iteration.
            jmh.warmupIterations(1).warmupTime(TimeValue.milliseconds(1));
        if (run.operation().equals("scan")) jmh.measurementIterations(5);
        if (run.isClosedLoop())
            jmh.measurementIterations(StoreBenchmark.ITERATIONS)
                    .measurementTime(TimeValue.seconds(options.seconds()))
                    .threads(run.level().clients(options.clients));
        if (run.operation().equals("openLoop"))
            jmh.param("rate", Double.toString(figures.rate(run)));
        if (run.level().isRemote()) {
            System.setProperty("java.class.path", libraries("bench", "client"));
            jmh.jvmArgs(
                    "-Xmx512m",
                    "-Dpetra.home=" + System.getProperty("petra.home"),
                    "-D" + Nodes.EVERYWHERE + "=" + options.agentEverywhere,
                    "-D" + Nodes.YAML + "=" + String.join(",", options.yaml),
                    WovenDistribution.option());
        } else {
            NodeProcess node = Nodes.embedded(directory, run, options.heap, options.memory);
            System.setProperty(
                    "java.class.path",
                    node.classPath() + System.getProperty("path.separator") + libraries("bench"));
            jmh.jvmArgs(node.prepareForAnotherJvm().toArray(String[]::new));
            // From its beginning: what a JVM has already is not counted when it enters.
            if (limited != null) jmh.jvm(limited.java(work).toString());
        }
        Collection<RunResult> results = new Runner(jmh.build()).run();
        if (results.size() != 1)
            throw new IllegalStateException(
                    run.name() + " gave no result; see " + options.out + "/logs");
        take(run, results.iterator().next(), figures);
        if (run.isClosedLoop()) figures.takeTimes(run, options.histograms(), round);
    }

    /**
     * Takes over what JMH says of a measurement: one value of each metric, since the iterations
     * have a JVM in common and do not stand for measurements of their own. It is the maximum of
     * maxima, and else the mean, so that work in bursts counts.
     */
    private static void take(Run run, RunResult result, Figures figures) {
        Figures iterations = new Figures();
        for (BenchmarkResult fork : result.getBenchmarkResults()) {
            if (run.operation().equals("scan"))
                figures.add(run, "mean", "ms", fork.getPrimaryResult().getScore());
            for (IterationResult iteration : fork.getIterationResults()) {
                iteration
                        .getSecondaryResults()
                        .forEach((name, second) -> takeSecondary(run, name, second, iterations));
            }
        }
        for (Figure figure : iterations.all())
            figures.add(run, figure.metric(), figure.unit(), together(figure));
    }

    private static double together(Figure iterations) {
        String metric = iterations.metric();
        if (metric.startsWith("longest ") || metric.endsWith("max")) return iterations.max();
        return iterations.values().stream().mapToDouble(value -> value).average().orElseThrow();
    }

    private static void takeSecondary(Run run, String name, Result<?> result, Figures into) {
        if (name.contains("gc.alloc.rate.norm")) {
            // Of the benchmark's own process, which only there is the engine's.
            if (!run.level().isRemote() && run.isTimedByJmh())
                into.add(run, "allocated", "B/op", result.getScore());
        } else if (!name.contains("gc.") && !name.matches("(.*:)?p[01]\\.\\d+"))
            into.add(run, name, result.getScoreUnit(), result.getScore());
    }

    /** Of this comparison. */
    void deleteContainers(List<Run> plan) {
        if (!options.docker) return;
        ContainerTarget.Shape shape =
                new ContainerTarget.Shape(options.image, options.nodes, options.nodeMemory());
        plan.stream()
                .map(
                        run ->
                                ContainerTarget.containers(
                                        run.directory(work),
                                        shape,
                                        run.engine(),
                                        run.gc(),
                                        options.memory))
                .forEach(ContainerNodes::deleteAll);
    }

    private static String libraries(String... names) {
        Path home = Path.of(System.getProperty("petra.home"), "lib");
        Path own = Path.of(System.getProperty("petra.bench.lib"));
        return Stream.of(names)
                .map(name -> name.equals("bench") ? own : home.resolve(name))
                .map(folder -> folder.resolve("*").toString())
                .collect(Collectors.joining(System.getProperty("path.separator")));
    }
}
