// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.HdrHistogram.Histogram;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.results.ScalarResult;

/**
 * The nodes of all engines, side by side, which one client asks in turns. Between the rounds
 * nothing starts, loads or compiles anew, and what else the machine does concerns all nodes alike.
 */
final class LiveNodes implements AutoCloseable {
    /** Requests of a closed loop that are under way at once. */
    static final int IN_FLIGHT = 32;

    /** Of open loops, in percent of the slowest engine's closed loop. */
    static final List<Integer> RATES = List.of(30, 60, 80);

    private final BenchOptions options;
    private final Workload workload;
    private final List<Node> nodes = new ArrayList<>();

    /** What is to be closed, the last first. */
    private final Deque<Closeable> open = new ArrayDeque<>();

    private int writes = 1;

    /** Of all rounds, by run, kind and rate. */
    private final Map<Tails, Histogram> tails = new LinkedHashMap<>();

    private record Tails(Run run, String kind, String at) {}

    private static final class Node {
        final Engine engine;
        final ClientAccess access;
        final @Nullable MemoryLimit limit;

        /** Whether it has rows that are not merged with those before. */
        boolean changed = true;

        Node(Engine engine, ClientAccess access, @Nullable MemoryLimit limit) {
            this.engine = engine;
            this.access = access;
            this.limit = limit;
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
        this.workload = Workload.of(runs.get(0).workload(), options.scale);
        try {
            for (Engine engine : runs.stream().map(Run::engine).distinct().toList())
                start(engine, runs.get(0).gc(), work.resolve(engine.label()));
        } catch (IOException | RuntimeException e) {
            try {
                close();
            } catch (IOException | RuntimeException also) {
                e.addSuppressed(also);
            }
            throw e;
        }
    }

    private void start(Engine engine, String gc, Path directory) throws IOException {
        MemoryLimit limit = null;
        if (options.totalMemory > 0) {
            limit = MemoryLimit.create(engine.label(), (long) options.totalMemory << 20);
            open.push(limit);
        }
        ProcessTarget process =
                ProcessTarget.start(
                        Nodes.limited(directory, engine, gc, options.heap, options.memory, limit),
                        directory);
        open.push(process::close);
        ClientAccess access = new ClientAccess(engine, workload, process);
        open.push(access::disconnect);
        nodes.add(new Node(engine, access, limit));
        Access.load(access, workload, IN_FLIGHT);
    }

    /** How many rounds of a run only warm up: at fixed rates none, which follow closed loops. */
    static int warmups(BenchOptions options, Run run) {
        return run.operation().equals("openLoop") ? 0 : options.warmups;
    }

    /**
     * Measures one operation on all nodes, as often as is asked for.
     *
     * @param runs of this operation, one for each engine
     */
    void measure(List<Run> runs, Figures figures, Consumer<String> progress) throws IOException {
        int warmups = warmups(options, runs.get(0));
        Probe all =
                new Probe(
                        nodes.stream()
                                .flatMap(node -> node.access.probe().processes().stream())
                                .toList());
        for (int round = 0; round < warmups + options.turns(); round++) {
            List<Run> turn = new ArrayList<>(runs);
            // Each comes first, and behind each other, as often.
            Collections.rotate(turn, -round);
            for (Run run : turn) {
                settle(all);
                boolean counts = round >= warmups;
                measure(node(run.engine()), run, counts ? figures : new Figures(), figures, all);
                // What warms up is in no histogram of all rounds.
                if (!counts) tails.clear();
                progress.accept(
                        run.name()
                                + (round < warmups
                                        ? ", to warm up"
                                        : ", round " + (round - warmups + 1)));
            }
        }
        tails.forEach((of, histogram) -> figures.addTail(of.run, of.kind, of.at, histogram));
        tails.clear();
    }

    /**
     * Brings all nodes to the same state: rows merged, nothing to do, and all on disk. Else one
     * would be measured beside the compaction, or the writing of pages, that another has left.
     */
    private void settle(Probe all) {
        nodes.forEach(Node::settle);
        Quiet.await(all);
        Quiet.sync();
    }

    private Node node(Engine engine) {
        return nodes.stream().filter(node -> node.engine == engine).findFirst().orElseThrow();
    }

    /**
     * @param into where the results go
     * @param known what was measured before, for the rate of an open loop
     * @param all the processes of all nodes
     */
    private void measure(Node node, Run run, Figures into, Figures known, Probe all)
            throws IOException {
        switch (run.operation()) {
            case "read" -> closedLoop(node, run, 1, into);
            case "write" -> closedLoop(node, run, 0, into);
            case "mixed" -> closedLoop(node, run, 0.5, into);
            case "scan" -> {
                Taken taken = new Taken(node, run, "", into);
                long began = System.nanoTime();
                long rows = node.access.scan();
                into.add(run, "mean", "ms", (System.nanoTime() - began) / 1e6);
                taken.end(rows);
            }
            case "openLoop" -> {
                for (int percent : RATES) {
                    settle(all);
                    openLoop(node, run, percent, into, known);
                }
            }
            default -> throw new IllegalArgumentException(run.operation());
        }
    }

    private void closedLoop(Node node, Run run, double readShare, Figures into) throws IOException {
        Taken taken = new Taken(node, run, "", into);
        ClosedLoop loop = new ClosedLoop(node.access, workload, readShare, ++writes);
        node.changed |= readShare < 1;
        loop.run(IN_FLIGHT, options.seconds());
        taken.end(loop.reads.getTotalCount() + loop.writes.getTotalCount());
        boolean both = readShare > 0 && readShare < 1;
        latencies(run, both ? "read " : "", "", loop.reads, options.seconds(), into);
        latencies(run, both ? "write " : "", "", loop.writes, options.seconds(), into);
    }

    private void openLoop(Node node, Run run, int percent, Figures into, Figures known)
            throws IOException {
        String at = StoreBenchmark.at(percent);
        double rate = known.rate(run) / StoreBenchmark.OF_CLOSED_LOOP * percent / 100;
        into.add(run, "rate" + at, "ops/s", rate);
        Taken taken = new Taken(node, run, at, into);
        OpenLoop loop = new OpenLoop(node.access, workload, 0.5, IN_FLIGHT);
        node.changed = true;
        int seconds = options.seconds() * 2;
        loop.run(rate, seconds);
        taken.end(loop.reads.getTotalCount() + loop.writes.getTotalCount());
        latencies(run, "read ", at, loop.reads, seconds, into);
        latencies(run, "write ", at, loop.writes, seconds, into);
    }

    private void latencies(
            Run run, String kind, String at, Histogram histogram, int seconds, Figures into) {
        if (histogram.getTotalCount() == 0) return;
        histogram.setStartTimeStamp(0);
        histogram.setEndTimeStamp(seconds * 1000L);
        tails.compute(new Tails(run, kind, at), (key, all) -> Tail.plus(all, histogram));
        for (double percentile : Tail.percentiles(seconds))
            into.add(
                    run,
                    kind + Figure.percentile(percentile) + at,
                    "us",
                    histogram.getValueAtPercentile(percentile) / 1000.0);
    }

    /** What a node took from one moment to another. */
    private static final class Taken {
        private final Node node;
        private final Run run;
        private final String at;
        private final Figures into;
        private final Probe.Moment from;

        Taken(Node node, Run run, String at, Figures into) {
            this.node = node;
            this.run = run;
            this.at = at;
            this.into = into;
            this.from = node.access.probe().now();
        }

        void end(long operations) throws IOException {
            Probe probe = node.access.probe();
            for (ScalarResult figure :
                    StallProfiler.figures(probe, from, probe.now(), Math.max(1, operations)))
                into.add(run, figure.getLabel() + at, figure.getScoreUnit(), figure.getScore());
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
