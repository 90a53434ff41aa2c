// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Option;

/** The options of the command line: what is compared, and how. */
final class BenchOptions extends NodeOptions {
    @ArgGroup Size size = new Size();

    private static final List<Integer> LIVE_RATES = List.of(30, 60, 80);

    /** How much is done. */
    static final class Size {
        @Option(names = "--quick", description = "Few workloads, one round (default).")
        boolean quick;

        @Option(
                names = "--full",
                description = "All workloads, levels and collectors, five rounds: many hours.")
        boolean full;
    }

    @Option(
            names = "--workload",
            split = ",",
            description = "Which workloads: ${COMPLETION-CANDIDATES}",
            completionCandidates = WorkloadNames.class)
    List<String> workloads = List.of();

    @Option(
            names = "--engine",
            split = ",",
            description =
                    "rocks, legacy, legacy-latest, legacy-latest-cache (the same with a chunk cache"
                            + " as large as --memory), which are those that are compared if none"
                            + " is given, and legacy-latest-mmap (legacy-latest with a commit log"
                            + " that loses nothing by a kill -9, as that of rocks); at the level"
                            + " spi also bare (RocksDB); at local and client rocks-woven (rocks in"
                            + " nodes from a woven Cassandra, without the agent); with --live"
                            + " legacy-latest-shadow (legacy-latest with a table that has a shadow"
                            + " in rocks, with memory of its own) and legacy-latest-fallback (the"
                            + " same with a shadow that answers reads).")
    List<String> engines = List.of();

    @Option(names = "--gc", split = ",", description = "G1, ZGC.")
    List<String> collectors = List.of();

    @Option(
            names = "--level",
            split = ",",
            description = "spi, local, client; cluster with --docker.")
    List<String> levels = List.of();

    @Option(
            names = "--docker",
            description =
                    "Adds the level cluster: nodes in containers, each row on three of them; needs"
                            + " root, and an image by docker/build.")
    boolean docker;

    @Option(names = "--image", description = "Of containers (default: ${DEFAULT-VALUE}).")
    String image = "petra";

    @Option(names = "--nodes", description = "Of a cluster (default: ${DEFAULT-VALUE}).")
    int nodes = 3;

    @Option(
            names = "--live",
            description =
                    "The nodes of all engines run side by side, and one client asks them in turns,"
                            + " with "
                            + LiveNodes.IN_FLIGHT
                            + " requests under way at once: for the level client only, with"
                            + " --total-memory or --unequal-memory.")
    boolean live;

    @Option(
            names = "--unequal-memory",
            description =
                    "With --live, nodes without a limit: the page cache serves whoever reads"
                            + " most, and a comparison of engines says little.")
    boolean unequalMemory;

    @Option(
            names = "--warmups",
            description =
                    "How often the time of --seconds is spent at most to warm up, until twice in"
                        + " succession as much is done, within 10 %% (default: ${DEFAULT-VALUE})."
                        + " With --live these are rounds of all nodes.")
    int warmups = 8;

    @Option(
            names = "--clients",
            description =
                    "How many ask at once in closed loops at the levels spi and local (default: as"
                            + " many as the machine has processors).")
    int clients;

    @Option(
            names = "--rates",
            split = ",",
            description =
                    "With --live, of openLoop, in percent of what the slowest engine does in mixed"
                            + " (default: ${DEFAULT-VALUE}).")
    List<Integer> rates = LIVE_RATES;

    @Option(
            names = "--agent-everywhere",
            description =
                    "The nodes of all engines have Petra's jar and agent. By default those of"
                            + " Cassandra's own storage do not.")
    boolean agentEverywhere;

    @Option(
            names = "--yaml",
            split = ",",
            paramLabel = "NAME=VALUE",
            description =
                    "Settings of cassandra.yaml, the same for the nodes of all engines; not for"
                            + " containers.")
    List<String> yaml = List.of();

    @Option(
            names = "--node-memory",
            description =
                    "Of each container, in MiB: heap, beside the heap, and what is left for the"
                            + " page cache (default: 3/2 of the heap, --memory and 384).")
    int nodeMemory;

    @Option(
            names = "--operation",
            split = ",",
            description =
                    "read, write, mixed, openLoop, scan, and with --live restart; what suits the"
                            + " workload if not given. The workloads load, leveled, stream and"
                            + " tables have but one each.")
    List<String> operations = List.of();

    @Option(
            names = "--rounds",
            description =
                    "How often the engines take turns (default: 1, full and live: 5); with fewer"
                            + " than four no difference can be told from chance.")
    int rounds;

    @Option(
            names = "--seconds",
            description =
                    "How long each iteration and round lasts (default: 5, full: 20). P99.9 needs"
                            + " 60 s together: 20 with three iterations.")
    int seconds;

    @Option(
            names = "--seed",
            description =
                    "Of the keys that are asked for, the same for all engines and others in each"
                            + " round, and of the order of engines (default: another each time; it"
                            + " is in the results).")
    long seed;

    private final long someSeed = System.nanoTime();

    @Option(names = "--scale", description = "How many times the quick size of the data.")
    double scale = 1;

    @Option(names = "--out", description = "Where the results go (default: ${DEFAULT-VALUE}).")
    Path out = Path.of("bench-results");

    @Option(
            names = "--compare",
            arity = "2",
            paramLabel = "FILE",
            description = "Compares two results.json instead of measuring.")
    List<Path> compared = List.of();

    /** For the help. */
    static final class WorkloadNames extends ArrayList<String> {
        private static final long serialVersionUID = 1;

        WorkloadNames() {
            super(Workload.names());
        }
    }

    int seconds() {
        return seconds > 0 ? seconds : size.full ? 20 : 5;
    }

    /** How often the engines take turns. */
    int turns() {
        return rounds > 0 ? rounds : size.full || live ? 5 : 1;
    }

    long seed() {
        return seed == 0 ? someSeed : seed;
    }

    int nodeMemory() {
        return nodeMemory > 0 ? nodeMemory : heap * 3 / 2 + memory + 384;
    }

    boolean hasOtherRates() {
        return !rates.equals(LIVE_RATES);
    }

    /** Where histograms and time lines go, of each round. */
    Path histograms() {
        return Claim.histograms(out);
    }
}
