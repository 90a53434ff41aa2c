// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import picocli.CommandLine.ParameterException;

/** What is measured, by the command line, or else by how much is asked for. */
record BenchPlan(BenchOptions options) {
    private static final List<String> QUICK_WORKLOADS = List.of("emp", "wideblob10");
    private static final List<String> LEVELS = List.of("spi", "local", "client", "cluster");
    private static final List<String> CLUSTER = List.of("cluster");
    private static final List<String> NODE_ENGINES =
            List.of("rocks", "legacy", "legacy-latest", "legacy-latest-cache");
    private static final List<String> ALL_ENGINES =
            Stream.concat(NODE_ENGINES.stream(), Stream.of("bare")).toList();
    private static final List<String> COLLECTORS = List.of("G1", "ZGC");
    private static final List<String> OPERATIONS =
            List.of("read", "write", "mixed", "openLoop", "scan", "restart");

    /**
     * All of it, once.
     *
     * @throws ParameterException if the command line asks for what cannot be
     */
    List<Run> runs() {
        int mixed = options.operations.indexOf("mixed");
        int openLoop = options.operations.indexOf("openLoop");
        if (openLoop >= 0 && (mixed < 0 || mixed > openLoop))
            throw options.wrong(
                    "openLoop needs 'mixed' before it: its rate is 70 % of the slowest engine's");
        int restart = options.operations.indexOf("restart");
        if (restart >= 0 && !options.live) throw options.wrong("restart is for --live");
        if (restart >= 0 && restart < options.operations.size() - 1)
            throw options.wrong("restart must be the last operation: after it nodes are cold");
        List<String> chosen = chosen(options.workloads, Workload.names(), QUICK_WORKLOADS);
        List<String> asked =
                options.docker
                        ? chosen(options.levels, CLUSTER, CLUSTER)
                        : chosen(
                                options.levels,
                                List.of("spi", "local", "client"),
                                List.of("local", "client"));
        if (asked.contains("cluster") != options.docker)
            throw options.wrong("the level 'cluster' and --docker belong together");
        options.checkMemory();
        if (options.totalMemory > 0
                && (options.docker
                        || chosen.contains("stream")
                        || chosen.contains("tables")
                        || chosen.contains("bytes")))
            throw options.wrong(
                    "--total-memory is of one node: containers have --node-memory, 'stream' has"
                            + " two, and 'tables' and 'bytes' start it anew");
        if (options.live) checkLive(chosen, asked);
        else if (options.unequalMemory) throw options.wrong("--unequal-memory belongs to --live");
        else if (options.hasOtherRates()) throw options.wrong("--rates belongs to --live");
        for (String setting : options.yaml)
            if (setting.indexOf('=') < 1)
                throw options.wrong("--yaml must be name=value, not '" + setting + "'");
        if (options.docker && !options.yaml.isEmpty())
            throw options.wrong("--yaml is not for the nodes of --docker");
        if (options.warmups < 0)
            throw options.wrong("--warmups must be 0 at least, not " + options.warmups);
        if (options.clients < 0)
            throw options.wrong("--clients must be 1 at least, not " + options.clients);
        if (options.clients > 0 && !asked.contains("spi") && !asked.contains("local"))
            throw options.wrong("--clients is for the levels spi and local, not for " + asked);
        if (options.nodes < 1)
            throw options.wrong("--nodes must be 1 at least, not " + options.nodes);
        List<String> gcs = chosen(options.collectors, COLLECTORS, List.of("G1"));
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
            throw options.wrong(
                    "none of workloads %s is run at levels %s".formatted(chosen, asked));
        return plan;
    }

    private void checkLive(List<String> workloads, List<String> levels) {
        if (!levels.equals(List.of("client")))
            throw options.wrong("--live is of the level client: add --level=client");
        for (String workload : workloads)
            if (!Workload.of(workload, options.scale).isPreloaded() || workload.equals("stream"))
                throw options.wrong(
                        "--live has no workload '" + workload + "', which changes what is there");
        for (int percent : options.rates)
            if (percent < 1) throw options.wrong("--rates must be 1 at least, not " + percent);
        if (Set.copyOf(options.rates).size() < options.rates.size())
            throw options.wrong("--rates has one twice: " + options.rates);
        if (options.totalMemory > 0 && options.unequalMemory)
            throw options.wrong("--total-memory is the same for all: leave --unequal-memory out");
        if (options.totalMemory == 0 && !options.unequalMemory)
            throw options.wrong(
                    "without --total-memory the page cache of this machine serves whichever node"
                            + " reads most, and the engines have unequal memory; --unequal-memory"
                            + " measures all the same");
    }

    /** What each engine has, if that differs and nothing bounds all of it; empty if not. */
    String unequalMemory(List<Run> runs) {
        if (options.totalMemory > 0 || options.docker) return "";
        Map<String, Integer> sums = new LinkedHashMap<>();
        for (Run run : runs)
            sums.put(
                    run.engine().label(),
                    options.heap + run.engine().besideHeap(options.heap, options.memory));
        if (Set.copyOf(sums.values()).size() < 2) return "";
        return sums.entrySet().stream()
                .map(sum -> sum.getKey() + " " + sum.getValue() + " MiB")
                .collect(Collectors.joining(", ", "heap and beside it, ", ""));
    }

    private List<String> engines(String level) {
        boolean spi = level.equals("spi");
        if (options.engines.isEmpty()) return spi ? ALL_ENGINES : NODE_ENGINES;
        if (!spi && options.engines.contains("bare"))
            throw options.wrong("bare RocksDB is no node: it is measured at the level spi only");
        if ((spi || options.docker) && options.engines.contains("rocks-woven"))
            throw options.wrong("rocks-woven is for the levels local and client");
        if (!options.live)
            for (Engine engine : Engine.values())
                if (engine.isShadowed() && options.engines.contains(engine.label()))
                    throw options.wrong(engine.label() + " is for --live");
        return options.engines;
    }

    private List<String> chosen(List<String> named, List<String> full, List<String> quick) {
        if (!named.isEmpty()) return named;
        return options.size.full ? full : quick;
    }

    private List<String> operations(String workload, String level) {
        if (workload.equals("load")) return List.of("load");
        if (workload.equals("leveled")) return List.of("backlog");
        if (workload.equals("stream"))
            return level.equals("client") ? List.of("bootstrap") : List.of();
        if (workload.equals("tables") || workload.equals("bytes"))
            return level.equals("client") ? List.of(workload) : List.of();
        if (!options.operations.isEmpty())
            return options.operations.stream().map(name -> checked(name, OPERATIONS)).toList();
        if (workload.startsWith("wideblob"))
            return options.size.full || level.equals("local") ? List.of("read") : List.of();
        if (workload.equals("scan")) return List.of("read", "scan");
        if (options.live) return List.of("read", "mixed", "openLoop");
        if (options.size.full) return List.of("read", "write", "mixed", "openLoop");
        // On few processors the driver's share of a fixed rate hides the engines'.
        return level.equals("client") ? List.of("mixed") : List.of("mixed", "openLoop");
    }

    private String checked(String name, Collection<String> known) {
        if (known.contains(name)) return name;
        throw options.wrong("'" + name + "' is none of " + String.join(", ", known));
    }

    private Access.Level level(String name) {
        return Access.Level.valueOf(checked(name, LEVELS).toUpperCase(Locale.ROOT));
    }

    private Engine engine(String name) {
        return Engine.of(checked(name, Arrays.stream(Engine.values()).map(Engine::label).toList()));
    }

    /** A run in one of its rounds, which count from 1. */
    record Turn(Run run, int round) {}

    /**
     * All rounds of all runs. Open loops come last: their rate follows from all rounds of closed
     * loops.
     */
    static List<Turn> turns(List<Run> plan, long seed, int rounds) {
        List<Run> open = plan.stream().filter(run -> run.operation().equals("openLoop")).toList();
        List<Run> others = plan.stream().filter(run -> !open.contains(run)).toList();
        List<Turn> turns = new ArrayList<>();
        for (List<Run> part : List.of(others, open))
            for (int round = 1; round <= rounds; round++)
                for (Run run : shuffled(part, seed, round)) turns.add(new Turn(run, round));
        return turns;
    }

    /**
     * With the engines in another order in each round: by chance, so that none comes behind a
     * certain other more often.
     */
    static List<Run> shuffled(List<Run> plan, long seed, int round) {
        Random random = new Random(new SplittableRandom(seed + round).nextLong());
        Map<String, List<Run>> groups = new LinkedHashMap<>();
        for (Run run : plan)
            groups.computeIfAbsent(run.setting() + run.operation(), key -> new ArrayList<>())
                    .add(run);
        groups.values().forEach(group -> Collections.shuffle(group, random));
        return groups.values().stream().flatMap(List::stream).toList();
    }
}
