// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.Consumer;
import org.HdrHistogram.Histogram;
import org.jspecify.annotations.Nullable;

/**
 * The nodes of all engines, side by side, which one client asks in turns. Between the rounds
 * nothing starts, loads or compiles anew, and what else the machine does concerns all nodes alike.
 */
final class LiveNodes implements AutoCloseable {
    /** Requests of a closed loop that are under way at once. */
    static final int IN_FLIGHT = 32;

    /** Is not warmed up. */
    private static final List<String> COLD = List.of("openLoop", "restart");

    /** For how many times the seconds a node is read from that was restarted. */
    private static final int RESTARTED = 6;

    /** Over time; of a closed loop they are not kept. */
    private static final AtomicLongArray NO_TIMES = new AtomicLongArray(0);

    /** How long a node may take to stop, and to start. */
    private static final Duration PATIENCE = Duration.ofMinutes(10);

    private final BenchOptions options;
    private final List<Node> nodes = new ArrayList<>();

    /** Of the reads that fill caches. */
    private final SplittableRandom seeds;

    /** What is to be closed, the last first. */
    private final Deque<Closeable> open = new ArrayDeque<>();

    /** Of all rounds, by run, kind and rate. */
    private final Map<Tails, Histogram> tails = new LinkedHashMap<>();

    private record Tails(Run run, String kind, String at) {}

    private static final class Node {
        final Engine engine;
        final Workload workload;
        final ProcessTarget process;
        final @Nullable MemoryLimit limit;

        /** To the process that runs now. */
        ClientAccess access;

        /** Whether it has rows that are not merged with those before. */
        boolean changed = true;

        Node(Engine engine, Workload workload, ProcessTarget process, @Nullable MemoryLimit limit) {
            this.engine = engine;
            this.workload = workload;
            this.process = process;
            this.limit = limit;
            this.access = new ClientAccess(engine, workload, process);
        }

        void settle() {
            if (changed) access.settle();
            changed = false;
        }
    }

    /**
     * Starts the nodes of runs that differ in engine and operation only, and loads their rows.
     *
     * @param work where their files go
     */
    LiveNodes(BenchOptions options, List<Run> runs, Path work) throws IOException {
        this.options = options;
        this.seeds = new SplittableRandom(~options.seed());
        try {
            for (Engine engine : runs.stream().map(Run::engine).distinct().toList())
                start(engine, runs.get(0), work.resolve(engine.label()));
        } catch (IOException | RuntimeException e) {
            try {
                close();
            } catch (IOException | RuntimeException also) {
                e.addSuppressed(also);
            }
            throw e;
        }
    }

    private void start(Engine engine, Run run, Path directory) throws IOException {
        MemoryLimit limit = null;
        if (options.totalMemory > 0) {
            limit = MemoryLimit.create(engine.label(), (long) options.totalMemory << 20);
            open.push(limit);
        }
        ProcessTarget process =
                ProcessTarget.start(
                        Nodes.limited(
                                directory,
                                engine,
                                run.workload(),
                                run.gc(),
                                options.heap,
                                options.memory,
                                limit),
                        directory);
        open.push(process::close);
        // Of this node alone: what was written is known of each.
        Workload workload = Workload.of(run.workload(), options.scale);
        Node node = new Node(engine, workload, process, limit);
        open.push(() -> node.access.disconnect());
        nodes.add(node);
        Access.load(node.access, workload, IN_FLIGHT);
    }

    /** Is told what comes next. */
    interface Next {
        void accept(String what) throws IOException;
    }

    /**
     * Measures one operation on all nodes, as often as is asked for; first, and not counted, until
     * all of them do in a round as much as in the one before. At fixed rates, which follow closed
     * loops, nothing is left to warm up; a node that is restarted is to be cold.
     *
     * @param runs of this operation, one for each engine
     */
    void measure(List<Run> runs, Figures figures, Next next, Consumer<String> progress)
            throws IOException {
        if (!COLD.contains(runs.get(0).operation())) warmUp(runs, figures);
        for (int round = 1; round <= options.turns(); round++)
            for (Run run : BenchPlan.shuffled(runs, options.seed(), round)) {
                String what = run.name() + ", round " + round;
                next.accept(what);
                measure(node(run.engine()), run, round, figures, figures);
                progress.accept(what);
            }
        tails.forEach((of, histogram) -> figures.addTail(of.run, of.kind, of.at, histogram));
        tails.clear();
    }

    private void warmUp(List<Run> runs, Figures figures) throws IOException {
        Map<Run, Double> before = Map.of();
        boolean steady = false;
        int rounds = 0;
        for (; rounds < options.warmups && !steady; rounds++) {
            Map<Run, Double> rates = new LinkedHashMap<>();
            steady = rounds > 0;
            for (Run run : BenchPlan.shuffled(runs, ~options.seed(), rounds)) {
                Figures own = new Figures();
                measure(node(run.engine()), run, 0, own, figures);
                double rate =
                        own.all().stream()
                                .filter(figure -> figure.metric().equals("throughput"))
                                .mapToDouble(Figure::median)
                                .findFirst()
                                .orElseThrow();
                rates.put(run, rate);
                steady &= WarmUp.agree(before.getOrDefault(run, 0.0), rate);
            }
            before = rates;
        }
        for (Run run : runs) {
            figures.add(run, WarmUp.WINDOWS, "windows", rounds);
            figures.add(run, WarmUp.UNSTEADY, "rounds", steady ? 0 : 1);
        }
    }

    /**
     * Brings all nodes to the same state: rows merged, nothing to do, and all on disk. Else one
     * would be measured beside the compaction, or the writing of pages, that another has left.
     */
    private void settle() throws IOException {
        List<Node> merged = nodes.stream().filter(node -> node.changed).toList();
        nodes.forEach(Node::settle);
        Probe all =
                new Probe(
                        nodes.stream()
                                .flatMap(node -> node.access.probe().processes().stream())
                                .toList());
        Quiet.await(all, options.seconds());
        Quiet.sync();
        // What was merged is in new files, which no cache of an engine's has, while the page cache
        // has them.
        for (Node node : merged)
            new ClosedLoop(node.access, node.workload, 1, seeds.nextLong())
                    .run(IN_FLIGHT, options.seconds());
    }

    private Node node(Engine engine) {
        return nodes.stream().filter(node -> node.engine == engine).findFirst().orElseThrow();
    }

    /**
     * @param round from 1; 0 to warm up
     * @param into where the results go
     * @param known what was measured before, for the rate of an open loop
     */
    private void measure(Node node, Run run, int round, Figures into, Figures known)
            throws IOException {
        // Each rate of an open loop begins at rest.
        if (!run.operation().equals("openLoop")) settle();
        switch (run.operation()) {
            case "read" -> closedLoop(node, run, round, 1, into);
            case "write" -> closedLoop(node, run, round, 0, into);
            case "mixed" -> closedLoop(node, run, round, 0.5, into);
            case "scan" -> {
                Taken taken = new Taken(node, run, "", into);
                long began = System.nanoTime();
                long rows = node.access.scan();
                into.add(run, "mean", "ms", (System.nanoTime() - began) / 1e6);
                taken.end(rows);
                new Times(run, round, "", 0).take(taken, NO_TIMES);
            }
            case "openLoop" -> {
                for (int percent : options.rates) {
                    settle();
                    openLoop(node, run, round, percent, into, known);
                }
            }
            case "restart" -> restart(node, run, round, into);
            default -> throw new IllegalArgumentException(run.operation());
        }
    }

    private void closedLoop(Node node, Run run, int round, double readShare, Figures into)
            throws IOException {
        Taken taken = new Taken(node, run, "", into);
        ClosedLoop loop =
                new ClosedLoop(
                        node.access, node.workload, readShare, run.seed(options.seed(), round));
        node.changed |= readShare < 1;
        loop.run(IN_FLIGHT, options.seconds());
        into.add(run, Gap.METRIC, "ms", loop.gap.millis());
        taken.end(loop.reads.getTotalCount() + loop.writes.getTotalCount());
        Times times = new Times(run, round, "", options.seconds());
        times.take(taken, NO_TIMES);
        times.take("read", loop.reads, into);
        times.take("write", loop.writes, into);
    }

    private void openLoop(Node node, Run run, int round, int percent, Figures into, Figures known)
            throws IOException {
        String at = OpenLoop.at(percent);
        double rate = known.rate(run) / StoreBenchmark.OF_CLOSED_LOOP * percent / 100;
        into.add(run, "rate" + at, "ops/s", rate);
        Taken taken = new Taken(node, run, at, into);
        long seed = run.seed(options.seed(), round) + percent;
        OpenLoop loop = new OpenLoop(node.access, node.workload, 0.5, seed, IN_FLIGHT);
        node.changed = true;
        int seconds = options.seconds() * 2;
        loop.run(rate, seconds);
        into.add(run, Gap.METRIC + at, "ms", loop.gap.millis());
        taken.end(loop.reads.getTotalCount() + loop.writes.getTotalCount());
        Times times = new Times(run, round, at, seconds);
        times.take(taken, loop.slowest);
        times.take("read", loop.reads, into);
        times.take("write", loop.writes, into);
    }

    /** Starts a node anew, with nothing of its files in memory, and reads from it at once. */
    private void restart(Node node, Run run, int round, Figures into) throws IOException {
        node.access.disconnect();
        node.process.node().stop(PATIENCE);
        Quiet.sync();
        ProcessTarget.forget(node.process.directory());
        // Of files elsewhere, as Cassandra's own, or if the file system did not do as it was told.
        if (node.limit != null)
            into.add(run, "page cache before the start", "MiB", node.limit.pageCache() / 1048576.0);
        into.add(run, "time to start", "s", node.process.startAgain(PATIENCE));
        node.access = new ClientAccess(node.engine, node.workload, node.process);
        Taken taken = new Taken(node, run, "", into);
        SplittableRandom keys = new SplittableRandom(run.seed(options.seed(), round));
        ClosedLoop first = new ClosedLoop(node.access, node.workload, 1, keys.nextLong());
        long began = System.nanoTime();
        first.run(IN_FLIGHT, options.seconds());
        double took = (System.nanoTime() - began) / 1e9;
        ClosedLoop others = new ClosedLoop(node.access, node.workload, 1, keys.nextLong());
        int all = RESTARTED * options.seconds();
        others.run(IN_FLIGHT, all - options.seconds());
        into.add(run, Gap.METRIC, "ms", Math.max(first.gap.millis(), others.gap.millis()));
        Histogram reads = first.reads.copy();
        reads.add(others.reads);
        taken.end(reads.getTotalCount());
        Times times = new Times(run, round, "", all);
        times.take(taken, NO_TIMES);
        times.take("read", reads, into);
        String beginning = " in the first " + options.seconds() + " s";
        into.add(run, "throughput" + beginning, "ops/s", first.reads.getTotalCount() / took);
        for (double percentile : new double[] {50, 99})
            into.add(
                    run,
                    run.beginning("read") + Figure.percentile(percentile) + beginning,
                    "us",
                    first.reads.getValueAtPercentile(percentile) / 1000.0);
    }

    /** What becomes of the times of requests of one round. */
    private final class Times {
        private final Run run;
        private final int round;
        private final String at;
        private final int seconds;

        Times(Run run, int round, String at, int seconds) {
            this.run = run;
            this.round = round;
            this.at = at;
            this.seconds = seconds;
        }

        /** Keeps the pauses, and of an open loop what was slow when. */
        void take(Taken taken, AtomicLongArray slowest) throws IOException {
            if (round == 0) return;
            Timeline.since(taken.from, taken.node.access.probe(), seconds, slowest)
                    .write(Tail.file(options.histograms(), run.name(), round, Tail.timeline(at)));
        }

        void take(String kind, Histogram histogram, Figures into) throws IOException {
            if (histogram.getTotalCount() == 0) return;
            // What warms up is kept nowhere.
            if (round == 0) return;
            Tail.write(
                    Tail.file(options.histograms(), run.name(), round, Tail.kind(kind, at)),
                    histogram,
                    seconds);
            String begins = run.beginning(kind);
            tails.compute(new Tails(run, begins, at), (key, all) -> Tail.plus(all, histogram));
            for (double percentile : Tail.percentiles(seconds))
                into.add(
                        run,
                        begins + Figure.percentile(percentile) + at,
                        "us",
                        histogram.getValueAtPercentile(percentile) / 1000.0);
        }
    }

    /** What a node took from one moment to another. */
    private static final class Taken {
        private final Node node;
        private final Run run;
        private final String at;
        private final Figures into;
        private final Probe.Moment from;
        private final ClientAccess.@Nullable Shadowed shadowed;

        Taken(Node node, Run run, String at, Figures into) {
            this.node = node;
            this.run = run;
            this.at = at;
            this.into = into;
            this.shadowed = node.access.shadowed();
            this.from = node.access.probe().now();
        }

        void end(long operations) throws IOException {
            Probe probe = node.access.probe();
            for (Stalls.Value figure :
                    Stalls.figures(probe, from, probe.now(), Math.max(1, operations)))
                into.add(run, figure.metric() + at, figure.unit(), figure.value());
            ClientAccess.Shadowed now = node.access.shadowed();
            if (shadowed != null && now != null) {
                into.add(
                        run,
                        "shadow dropped out" + at,
                        "rounds",
                        now.hasDroppedOutSince(shadowed) ? 1 : 0);
                into.add(
                        run,
                        "compared" + at,
                        "reads",
                        (double) (now.compared() - shadowed.compared()));
                into.add(
                        run,
                        "answered by the shadow" + at,
                        "reads",
                        (double) (now.answered() - shadowed.answered()));
            }
            if (node.limit != null)
                into.add(run, "page cache" + at, "MiB", node.limit.pageCache() / 1048576.0);
        }
    }

    /** Ends the nodes, and removes their groups, also if one of them does not end. */
    @Override
    public void close() throws IOException {
        IOException failed = new IOException("not all nodes could be ended, see its causes");
        while (!open.isEmpty())
            try {
                open.pop().close();
            } catch (IOException | RuntimeException e) {
                failed.addSuppressed(e);
            }
        if (failed.getSuppressed().length > 0) throw failed;
    }
}
