// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.launcher.ContainerNodes;
import dev.petra.launcher.NodeProcess;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
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
import org.openjdk.jmh.util.Statistics;
import picocli.CommandLine;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code petra bench}. */
@Command(
        name = "petra bench",
        mixinStandardHelpOptions = true,
        sortOptions = false,
        description = {
            "Compares RocksDB with Cassandra's own storage, on this machine: throughput, latency at"
                + " a fixed rate, GC stalls, processor and disk. Writes results.json, report.md and"
                + " report.html.",
            "Engines take turns; ratios count, absolute times are this machine's."
        })
public final class Bench implements Callable<Integer> {
    private static final List<String> QUICK_WORKLOADS = List.of("emp", "wideblob");
    private static final List<String> LEVELS = List.of("spi", "local", "client", "cluster");
    private static final List<String> CLUSTER = List.of("cluster");
    private static final List<String> NODE_ENGINES = List.of("rocks", "legacy", "legacy-latest");
    private static final List<String> ALL_ENGINES =
            List.of("rocks", "legacy", "legacy-latest", "bare");

    /** What a node needs beside heap and engine, in MiB: the JVM, and Cassandra's own caches. */
    private static final int JVM = 512;

    private static final List<String> ONCE = List.of("load", "backlog", "bootstrap");
    private static final List<String> COLLECTORS = List.of("G1", "ZGC");

    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    @ArgGroup private Size size = new Size();

    /** How much is done. */
    static final class Size {
        @Option(
                names = "--quick",
                description = "Some 10 minutes on 2 cores: few workloads, one round (default).")
        boolean quick;

        @Option(
                names = "--full",
                description = "All workloads, levels and collectors, three rounds: hours.")
        boolean full;
    }

    @Option(
            names = "--workload",
            split = ",",
            description = "Which workloads: ${COMPLETION-CANDIDATES}",
            completionCandidates = WorkloadNames.class)
    private List<String> workloads = List.of();

    @Option(
            names = "--engine",
            split = ",",
            description = "rocks, legacy, legacy-latest; at the level spi also bare (RocksDB).")
    private List<String> engines = List.of();

    @Option(names = "--gc", split = ",", description = "G1, ZGC.")
    private List<String> collectors = List.of();

    @Option(
            names = "--level",
            split = ",",
            description = "spi, local, client; cluster with --docker.")
    private List<String> levels = List.of();

    @Option(
            names = "--docker",
            description =
                    "Adds the level cluster: nodes in containers, each row on three of them; needs"
                            + " root, and an image by docker/build.")
    private boolean docker;

    @Option(names = "--image", description = "Of containers (default: ${DEFAULT-VALUE}).")
    private String image = "petra";

    @Option(names = "--nodes", description = "Of a cluster (default: ${DEFAULT-VALUE}).")
    private int nodes = 3;

    @Option(
            names = "--limit",
            description =
                    "Of a node's whole memory, in MiB: heap, beside the heap, 512 for the JVM and"
                        + " Cassandra's caches, and what is left for the page cache; rows beyond"
                        + " that come from disk. Needs root (default: no limit).")
    private int limit;

    @Option(
            names = "--node-memory",
            description =
                    "Of each container, in MiB: heap, beside the heap, and what is left for the"
                            + " page cache (default: 3/2 of the heap, --memory and 384).")
    private int nodeMemory;

    @Option(
            names = "--operation",
            split = ",",
            description =
                    "read, write, mixed, openLoop, scan; what suits the workload if not given."
                            + " The workloads load, leveled and stream have but one each.")
    private List<String> operations = List.of();

    @Option(names = "--rounds", description = "How often the engines take turns.")
    private int rounds;

    @Option(
            names = "--seconds",
            description = "How long each measurement lasts (default: 5, full: 20).")
    private int seconds;

    @Option(names = "--scale", description = "How many times the quick size of the data.")
    private double scale = 1;

    @Option(names = "--heap", description = "Of each node, in MiB (default: ${DEFAULT-VALUE}).")
    private int heap = 1024;

    @Option(
            names = "--memory",
            description = "Beside the heap, in MiB (default: ${DEFAULT-VALUE}).")
    private int memory = 512;

    @Option(names = "--out", description = "Where the results go (default: ${DEFAULT-VALUE}).")
    private Path out = Path.of("bench-results");

    @Option(
            names = "--compare",
            arity = "2",
            paramLabel = "FILE",
            description = "Compares two results.json instead of measuring.")
    private List<Path> compared = List.of();

    /** For the help. */
    static final class WorkloadNames extends ArrayList<String> {
        private static final long serialVersionUID = 1;

        WorkloadNames() {
            super(Workload.names());
        }
    }

    private final Map<String, Figure> figures = new LinkedHashMap<>();
    private final Map<String, Double> rates = new LinkedHashMap<>();
    private int done;

    /** One measurement: a JVM of its own. */
    private record Run(
            String workload, Access.Level level, String gc, String operation, Engine engine) {
        /** What all engines are measured in alike. */
        String setting() {
            return String.join("-", workload, level.name().toLowerCase(Locale.ROOT), gc);
        }

        /** Whether what JMH says of an operation is of one request. */
        boolean isTimedByJmh() {
            return !operation.equals("openLoop") && !isOnce();
        }

        /** Whether it changes what there is, so that each round begins with nothing. */
        boolean isOnce() {
            return ONCE.contains(operation);
        }

        String name() {
            return setting() + "-" + operation + "-" + engine.label();
        }
    }

    private Bench() {}

    /** Runs a command line and ends this JVM with its exit code. */
    public static void main(String[] args) {
        System.exit(command().execute(args));
    }

    static CommandLine command() {
        CommandLine command = new CommandLine(new Bench());
        command.setExecutionExceptionHandler(
                (e, line, parsed) -> {
                    if (!(e instanceof RunnerException)) throw e;
                    line.getErr().println("petra bench: " + e.getMessage());
                    line.getErr().println("What the engine said is in 'logs' beside the results.");
                    if (((Bench) line.getCommand()).limit > 0)
                        line.getErr()
                                .println("A JVM that ended with 137 needs more than '--limit'.");
                    return 1;
                });
        return command;
    }

    @Override
    public Integer call() throws IOException, RunnerException {
        PrintWriter console = spec.commandLine().getOut();
        if (!compared.isEmpty()) {
            console.print(
                    Report.comparison(
                            Results.read(compared.get(0)), Results.read(compared.get(1))));
            console.flush();
            return 0;
        }
        List<Run> plan = plan();
        int turns = rounds > 0 ? rounds : size.full ? 3 : 1;
        if (Files.exists(out.resolve("results.json")))
            throw wrong(out + " has results already: name another directory with --out");
        try (MemoryLimit limited = memoryLimit()) {
            compare(plan, turns, limited, console);
        }
        console.println(out.resolve("report.html").toAbsolutePath());
        console.flush();
        return 0;
    }

    private @Nullable MemoryLimit memoryLimit() {
        try {
            return limit > 0 ? MemoryLimit.create((long) limit << 20) : null;
        } catch (IOException e) {
            throw wrong(String.valueOf(e.getMessage()));
        }
    }

    private void compare(
            List<Run> plan, int turns, @Nullable MemoryLimit limited, PrintWriter console)
            throws IOException, RunnerException {
        Path work = out.resolve("work");
        // Of a run that failed: other rows, perhaps.
        if (Files.exists(work)) {
            deleteContainers(plan, work);
            delete(work);
        }
        Files.createDirectories(work);
        Files.createDirectories(out.resolve("histograms"));
        Files.createDirectories(out.resolve("logs"));
        String started = Instant.now().toString();
        try {
            run(plan, turns, work, limited, console);
        } finally {
            // Hours may have gone into it before something failed.
            if (!figures.isEmpty()) report(started, turns);
            deleteContainers(plan, work);
        }
        delete(work);
    }

    private void run(
            List<Run> plan,
            int turns,
            Path work,
            @Nullable MemoryLimit limited,
            PrintWriter console)
            throws RunnerException {
        long start = System.nanoTime();
        int all = plan.size() * turns;
        for (int round = 0; round < turns; round++)
            for (Run run : turned(plan, round)) {
                measure(run, work, limited);
                done++;
                long left = (System.nanoTime() - start) / done * (all - done);
                console.printf(
                        Locale.ROOT,
                        "%d of %d: %s%s, about %d min left%n",
                        done,
                        all,
                        run.name(),
                        turns > 1 ? ", round " + (round + 1) : "",
                        Math.round(Duration.ofNanos(left).toSeconds() / 60.0));
                console.flush();
            }
    }

    private void report(String started, int turns) throws IOException {
        Results results =
                new Results(
                        started,
                        Machine.describe(),
                        settings(turns),
                        List.copyOf(figures.values()));
        results.write(out.resolve("results.json"));
        Report report = new Report(results, out.resolve("histograms"));
        Files.writeString(out.resolve("report.md"), report.markdown());
        Files.writeString(out.resolve("report.html"), report.html());
    }

    private Map<String, String> settings(int turns) {
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("rounds", Integer.toString(turns));
        settings.put("seconds", Integer.toString(seconds()));
        settings.put("scale", Double.toString(scale));
        settings.put("heap", heap + " MiB");
        settings.put("memory beside the heap", memory + " MiB");
        if (limit > 0) settings.put("memory of a node", limit + " MiB, page cache included");
        if (docker) {
            settings.put("nodes of a cluster", Integer.toString(nodes));
            settings.put("memory of a container", nodeMemory() + " MiB");
        }
        rates.forEach(
                (setting, rate) ->
                        settings.put(
                                "rate of " + setting,
                                String.format(Locale.ROOT, "%.0f requests/s", rate)));
        return settings;
    }

    private int seconds() {
        return seconds > 0 ? seconds : size.full ? 20 : 5;
    }

    // What is run

    private List<Run> plan() {
        if (operations.contains("openLoop") && !operations.contains("mixed"))
            throw wrong(
                    "openLoop needs 'mixed' before it: its rate is 70 % of the slowest engine's");
        List<String> chosen = chosen(workloads, Workload.names(), QUICK_WORKLOADS);
        List<String> asked =
                docker
                        ? chosen(levels, CLUSTER, CLUSTER)
                        : chosen(
                                levels,
                                List.of("spi", "local", "client"),
                                List.of("local", "client"));
        if (asked.contains("cluster") != docker)
            throw wrong("the level 'cluster' and --docker belong together");
        if (limit > 0 && limit < heap + memory + JVM)
            throw wrong(
                    "--limit=%d is too little for a heap of %d MiB, %d beside it and %d for the JVM"
                            .formatted(limit, heap, memory, JVM));
        if (limit > 0 && (docker || chosen.contains("stream")))
            throw wrong("--limit is of one node: containers have --node-memory, 'stream' has two");
        if (nodes < 1) throw wrong("--nodes must be 1 at least, not " + nodes);
        List<String> gcs = chosen(collectors, COLLECTORS, List.of("G1"));
        List<Run> plan = new ArrayList<>();
        for (String workload : chosen)
            for (String level : asked)
                for (String gc : gcs)
                    for (String operation : operations(workload, level))
                        for (String engine : engines(level))
                            plan.add(
                                    new Run(
                                            checked(workload, Workload.names()),
                                            level(level),
                                            checked(gc, COLLECTORS),
                                            operation,
                                            engine(engine)));
        if (plan.isEmpty())
            throw wrong("none of workloads %s is run at levels %s".formatted(chosen, asked));
        return plan;
    }

    private List<String> engines(String level) {
        boolean spi = level.equals("spi");
        if (engines.isEmpty()) return spi ? ALL_ENGINES : NODE_ENGINES;
        if (!spi && engines.contains("bare"))
            throw wrong("bare RocksDB is no node: it is measured at the level spi only");
        return engines;
    }

    private List<String> chosen(List<String> named, List<String> full, List<String> quick) {
        if (!named.isEmpty()) return named;
        return size.full ? full : quick;
    }

    private List<String> operations(String workload, String level) {
        if (workload.equals("load")) return List.of("load");
        if (workload.equals("leveled")) return List.of("backlog");
        if (workload.equals("stream"))
            return level.equals("client") ? List.of("bootstrap") : List.of();
        if (!operations.isEmpty())
            return operations.stream()
                    .map(
                            name ->
                                    checked(
                                            name,
                                            List.of("read", "write", "mixed", "openLoop", "scan")))
                    .toList();
        if (workload.startsWith("wideblob"))
            return size.full || level.equals("local") ? List.of("read") : List.of();
        if (workload.equals("scan")) return List.of("read", "scan");
        if (size.full) return List.of("read", "write", "mixed", "openLoop");
        // On few processors the driver's share of a fixed rate hides the engines'.
        return level.equals("client") ? List.of("mixed") : List.of("mixed", "openLoop");
    }

    private String checked(String name, Collection<String> known) {
        if (known.contains(name)) return name;
        throw wrong("'" + name + "' is none of " + String.join(", ", known));
    }

    private Access.Level level(String name) {
        return Access.Level.valueOf(checked(name, LEVELS).toUpperCase(Locale.ROOT));
    }

    private Engine engine(String name) {
        return Engine.of(checked(name, Arrays.stream(Engine.values()).map(Engine::label).toList()));
    }

    private ParameterException wrong(String message) {
        return new ParameterException(spec.commandLine(), message);
    }

    /** With another engine first in each round. */
    private List<Run> turned(List<Run> plan, int round) {
        Map<String, List<Run>> groups = new LinkedHashMap<>();
        for (Run run : plan)
            groups.computeIfAbsent(run.setting() + run.operation(), key -> new ArrayList<>())
                    .add(run);
        groups.values().forEach(group -> Collections.rotate(group, -round));
        return groups.values().stream().flatMap(List::stream).toList();
    }

    // How

    private void measure(Run run, Path work, @Nullable MemoryLimit limited) throws RunnerException {
        Path directory = directory(run, work);
        // What an earlier round loaded.
        if (run.isOnce()) {
            deleteContainers(List.of(run), work);
            if (Files.exists(directory)) delete(directory);
        }
        NodeProcess node = Nodes.node(directory, run.engine(), run.gc(), heap, memory);
        ChainedOptionsBuilder options =
                new OptionsBuilder()
                        .include(StoreBenchmark.class.getName() + "." + run.operation() + "$")
                        .param("level", run.level().name())
                        .param("engine", run.engine().label())
                        .param("workload", run.workload())
                        .param("scale", Double.toString(scale))
                        .param("directory", directory.toAbsolutePath().toString())
                        .param("gc", run.gc())
                        .param("image", image)
                        .param("nodes", Integer.toString(nodes))
                        .param("nodeMemory", Integer.toString(nodeMemory()))
                        .param("heap", Integer.toString(heap))
                        .param("memory", Integer.toString(memory))
                        .param("seconds", Integer.toString(seconds() * 2))
                        .param("memoryLimit", limited == null ? "" : limited.group().toString())
                        .param(
                                "histograms",
                                out.resolve("histograms")
                                        .resolve(run.name())
                                        .toAbsolutePath()
                                        .toString())
                        .forks(1)
                        // A node in the JVM leaves threads behind.
                        .jvmArgsAppend("-Djmh.shutdownTimeout=1", "-Djmh.shutdownTimeout.step=1")
                        .addProfiler(StallProfiler.class)
                        .addProfiler(GCProfiler.class)
                        .shouldFailOnError(true)
                        .verbosity(VerboseMode.NORMAL)
                        .output(out.resolve("logs").resolve(run.name() + ".log").toString());
        if (!run.isTimedByJmh()) options.warmupIterations(0).measurementIterations(1);
        // A scan is over before it is compiled.
        else if (run.operation().equals("scan"))
            options.warmupIterations(10).measurementIterations(5);
        else
            options.warmupIterations(2)
                    .warmupTime(TimeValue.seconds(seconds()))
                    .measurementIterations(3)
                    .measurementTime(TimeValue.seconds(seconds()))
                    .threads(run.level().clients());
        if (run.operation().equals("openLoop")) options.param("rate", Double.toString(rate(run)));
        if (run.level().isRemote()) {
            System.setProperty("java.class.path", libraries("bench", "client"));
            options.jvmArgs("-Xmx512m", "-Dpetra.home=" + System.getProperty("petra.home"));
        } else {
            System.setProperty(
                    "java.class.path",
                    node.classPath() + System.getProperty("path.separator") + libraries("bench"));
            options.jvmArgs(node.prepareForAnotherJvm().toArray(String[]::new));
        }
        Collection<RunResult> results = new Runner(options.build()).run();
        if (results.size() != 1)
            throw new IllegalStateException(run.name() + " gave no result; see " + out + "/logs");
        take(run, results.iterator().next());
    }

    private static Path directory(Run run, Path work) {
        return work.resolve(run.setting() + "-" + run.engine().label());
    }

    private int nodeMemory() {
        return nodeMemory > 0 ? nodeMemory : heap * 3 / 2 + memory + 384;
    }

    /** Of this comparison, or of one like it in the same directory that failed. */
    private void deleteContainers(List<Run> plan, Path work) {
        if (!docker) return;
        ContainerTarget.Shape shape = new ContainerTarget.Shape(image, nodes, nodeMemory());
        plan.stream()
                .map(
                        run ->
                                ContainerTarget.containers(
                                        directory(run, work),
                                        shape,
                                        run.engine(),
                                        run.gc(),
                                        memory))
                .forEach(ContainerNodes::deleteAll);
    }

    /** 70 % of what the slowest engine does in a closed loop. */
    private double rate(Run run) {
        return rates.computeIfAbsent(
                run.setting(),
                setting ->
                        StoreBenchmark.OF_CLOSED_LOOP
                                * figures.values().stream()
                                        .filter(
                                                figure ->
                                                        figure.metric().equals("throughput")
                                                                && figure.operation()
                                                                        .equals("mixed")
                                                                && setting.equals(
                                                                        String.join(
                                                                                "-",
                                                                                figure.workload(),
                                                                                figure.level(),
                                                                                figure.gc())))
                                        .mapToDouble(Figure::median)
                                        .min()
                                        .orElseThrow());
    }

    private static String libraries(String... names) {
        Path home = Path.of(System.getProperty("petra.home"), "lib");
        Path own = Path.of(System.getProperty("petra.bench.lib"));
        return Stream.of(names)
                .map(name -> name.equals("bench") ? own : home.resolve(name))
                .map(folder -> folder.resolve("*").toString())
                .collect(Collectors.joining(System.getProperty("path.separator")));
    }

    // What came of it

    private void take(Run run, RunResult result) {
        for (BenchmarkResult fork : result.getBenchmarkResults())
            for (IterationResult iteration : fork.getIterationResults()) {
                if (run.isTimedByJmh()) {
                    Result<?> primary = iteration.getPrimaryResult();
                    Statistics statistics = primary.getStatistics();
                    String unit = primary.getScoreUnit().startsWith("ms") ? "ms" : "us";
                    add(run, "mean", unit, primary.getScore());
                    if (statistics.getN() > 1)
                        for (double percentile : new double[] {50, 99, 99.9})
                            add(
                                    run,
                                    "P" + (percentile == 99.9 ? "99.9" : (int) percentile),
                                    unit,
                                    statistics.getPercentile(percentile));
                }
                iteration
                        .getSecondaryResults()
                        .forEach((name, second) -> takeSecondary(run, name, second));
            }
    }

    private void takeSecondary(Run run, String name, Result<?> result) {
        if (name.contains("gc.alloc.rate.norm")) {
            // Of the benchmark's own process, which only there is the engine's.
            if (!run.level().isRemote() && run.isTimedByJmh())
                add(run, "allocated", "B/op", result.getScore());
        } else if (!name.contains("gc.") && !name.matches("(.*:)?p[01]\\.\\d+"))
            add(run, name, result.getScoreUnit(), result.getScore());
    }

    private void add(Run run, String metric, String unit, double value) {
        Figure one =
                new Figure(
                        run.workload(),
                        run.level().name().toLowerCase(Locale.ROOT),
                        run.operation(),
                        run.gc(),
                        run.engine().label(),
                        metric,
                        unit,
                        List.of(value));
        figures.merge(run.name() + "-" + metric, one, (before, now) -> before.with(now.values()));
    }

    private static void delete(Path directory) {
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) Files.delete(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
