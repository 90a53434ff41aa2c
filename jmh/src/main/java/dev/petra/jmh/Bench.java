// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.launcher.NodeException;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.runner.RunnerException;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
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
    private static final String UNEQUAL = "memory is unequal";

    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    @Mixin private final BenchOptions options = new BenchOptions();
    private final Figures figures = new Figures();
    private final String started = Instant.now().toString();
    private Map<String, String> machine = Map.of();

    /** As {@link BenchPlan#unequalMemory} has it. */
    private String unequalMemory = "";

    /** What is being measured; empty when all was. */
    private String incomplete = "";

    private Bench() {}

    /** Runs a command line and ends this JVM with its exit code. */
    public static void main(String[] args) {
        System.exit(command().execute(args));
    }

    static CommandLine command() {
        CommandLine command = new CommandLine(new Bench());
        command.setExecutionExceptionHandler(
                (e, line, parsed) -> {
                    boolean complete = e instanceof NodeException;
                    if (!complete && !(e instanceof RunnerException)) throw e;
                    line.getErr().println("petra bench: " + e.getMessage());
                    if (complete) return 1;
                    line.getErr().println("What the engine said is in 'logs' beside the results.");
                    if (((Bench) line.getCommand()).options.totalMemory > 0)
                        line.getErr()
                                .println(
                                        "A JVM that ended with 137 needs more than"
                                                + " '--total-memory'.");
                    return 1;
                });
        return command;
    }

    @Override
    public Integer call() throws IOException, RunnerException {
        PrintWriter console = spec.commandLine().getOut();
        if (!options.compared.isEmpty()) {
            console.print(
                    Report.comparison(
                            Results.read(options.compared.get(0)),
                            Results.read(options.compared.get(1))));
            console.flush();
            return 0;
        }
        options.out = options.out.toAbsolutePath();
        BenchPlan all = new BenchPlan(options);
        List<Run> plan = all.runs();
        unequalMemory = all.unequalMemory(plan);
        incomplete = plan.get(0).name() + ", round 1";
        int turns = options.turns();
        try (Claim claim = Claim.of(options.out)) {
            Revision revision = Revision.measured();
            Thread hook =
                    Leftovers.endWithThisJvm(options.docker, console, spec.commandLine().getErr());
            console.println("seed: " + options.seed());
            if (!unequalMemory.isEmpty()) console.println(UNEQUAL + ": " + unequalMemory);
            console.flush();
            try (MemoryLimit limited = memoryLimit()) {
                compare(plan, turns, limited, claim, revision, console);
            }
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (Claim.RefusedException e) {
            throw options.wrong(String.valueOf(e.getMessage()));
        }
        console.println(options.out.resolve("report.html").toAbsolutePath());
        console.flush();
        return 0;
    }

    private @Nullable MemoryLimit memoryLimit() throws IOException {
        try {
            return options.totalMemory > 0 && !options.live
                    ? MemoryLimit.create((long) options.totalMemory << 20)
                    : null;
        } catch (MemoryLimit.NoLimitException e) {
            throw options.wrong(String.valueOf(e.getMessage()));
        }
    }

    private void compare(
            List<Run> plan,
            int turns,
            @Nullable MemoryLimit limited,
            Claim claim,
            Revision revision,
            PrintWriter console)
            throws IOException, RunnerException {
        // Of the nodes that this JVM starts; Measurement tells the others.
        System.setProperty(Nodes.EVERYWHERE, Boolean.toString(options.agentEverywhere));
        System.setProperty(Nodes.YAML, String.join(",", options.yaml));
        Path work = Claim.work(options.out);
        Measurement measurement = new Measurement(options, work, limited);
        claim.begin();
        Files.createDirectories(options.out.resolve("logs"));
        if (plan.stream().anyMatch(run -> run.engine() == Engine.ROCKS_WOVEN))
            WovenDistribution.make(work.resolve("woven"));
        machine = Machine.describe(options.out, revision);
        boolean complete = false;
        try {
            if (options.live) runLive(plan, turns, work, console);
            else run(plan, turns, measurement, console);
            addTails(plan);
            incomplete = "";
            report();
            complete = true;
        } catch (IOException | RunnerException | RuntimeException e) {
            incomplete += " failed: " + e.getMessage();
            throw e;
        } finally {
            // Hours may have gone into it before something failed.
            if (!complete && !figures.isEmpty()) report();
            measurement.deleteContainers(plan);
        }
        claim.end();
    }

    /** What is not measured yet: if this process is killed, the files say so. */
    private void next(String what) throws IOException {
        incomplete = what;
        if (!figures.isEmpty()) report();
    }

    private void run(List<Run> plan, int turns, Measurement measurement, PrintWriter console)
            throws IOException, RunnerException {
        Progress progress = new Progress(console, plan.size() * turns);
        for (BenchPlan.Turn turn : BenchPlan.turns(plan, options.seed(), turns)) {
            String what = turn.run().name() + ", round " + turn.round();
            next(what);
            measurement.measure(turn.run(), turn.round(), figures);
            progress.done(what);
        }
    }

    private void runLive(List<Run> plan, int turns, Path work, PrintWriter console)
            throws IOException {
        int all = plan.size() * turns;
        Progress progress = new Progress(console, all);
        for (List<Run> setting : grouped(plan, Run::setting))
            try (LiveNodes nodes =
                    new LiveNodes(options, setting, work.resolve(setting.get(0).setting()))) {
                for (List<Run> operation : grouped(setting, Run::operation))
                    nodes.measure(operation, figures, this::next, progress::done);
            } catch (MemoryLimit.NoLimitException e) {
                throw options.wrong(String.valueOf(e.getMessage()));
            }
    }

    /** Says how far a comparison is. */
    private static final class Progress {
        private final PrintWriter console;
        private final int all;
        private final long start = System.nanoTime();
        private int done;

        Progress(PrintWriter console, int all) {
            this.console = console;
            this.all = all;
        }

        void done(String what) {
            done++;
            long left = (System.nanoTime() - start) / done * (all - done);
            console.printf(
                    Locale.ROOT,
                    "%d of %d: %s, about %d min left%n",
                    done,
                    all,
                    what,
                    Math.round(Duration.ofNanos(left).toSeconds() / 60.0));
            console.flush();
        }
    }

    private static Collection<List<Run>> grouped(List<Run> runs, Function<Run, String> by) {
        return runs.stream()
                .collect(Collectors.groupingBy(by, LinkedHashMap::new, Collectors.toList()))
                .values();
    }

    /** What the rounds of open loops have together, if each is too short for itself. */
    private void addTails(List<Run> plan) throws IOException {
        if (options.live) return;
        for (Run run : plan)
            for (String kind : List.of("read", "write"))
                Tail.merged(options.histograms(), run.name(), kind + ".hlog")
                        .ifPresent(all -> figures.addTail(run, run.beginning(kind), "", all));
    }

    private void report() throws IOException {
        Results results = new Results(started, incomplete, machine, settings(), figures.all());
        results.write(options.out.resolve("results.json"));
        Report report = new Report(results, options.histograms());
        Files.writeString(options.out.resolve("report.md"), report.markdown());
        Files.writeString(options.out.resolve("report.html"), report.html());
    }

    private Map<String, String> settings() {
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("rounds", Integer.toString(options.turns()));
        settings.put("seconds", Integer.toString(options.seconds()));
        settings.put("seed", Long.toString(options.seed()));
        settings.put("scale", Double.toString(options.scale));
        settings.put("warm-up at most", options.warmups + " times the seconds");
        if (options.clients > 0)
            settings.put("clients at spi and local", Integer.toString(options.clients));
        settings.put(
                "Petra's jar and agent",
                options.agentEverywhere
                        ? "in the nodes of all engines"
                        : "in nodes of rocks only; of rocks-woven the jar alone");
        if (!options.yaml.isEmpty())
            settings.put("cassandra.yaml of all nodes", String.join(", ", options.yaml));
        options.addMemory(settings);
        if (!unequalMemory.isEmpty()) settings.put(UNEQUAL, unequalMemory);
        if (options.docker) {
            settings.put("nodes of a cluster", Integer.toString(options.nodes));
            settings.put("memory of a container", options.nodeMemory() + " MiB");
        }
        // Live nodes have several rates, which are among the figures.
        if (!options.live)
            figures.rates()
                    .forEach(
                            (setting, rate) ->
                                    settings.put(
                                            "rate of " + setting,
                                            String.format(Locale.ROOT, "%.0f requests/s", rate)));
        return settings;
    }
}
