// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.differential;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;

import dev.petra.engine.mutants.NamedMutations;
import dev.petra.launcher.FreePorts;
import dev.petra.nodetests.fixture.AgentJar;
import dev.petra.nodetests.fixture.Drawn;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Random CQL against {@code rocks} and Cassandra's own storage in one node, on tables with and
 * without indexes, compared after each step, over restarts and kills and under different engine
 * options. {@code -Dpetra.seed=} and {@code -Dpetra.fuzz.options=} replay; {@code
 * -Dpetra.fuzz.minutes=} or {@code -P long} for how long. What is found is left in {@code
 * target/differential-<seed>.txt}.
 */
class DifferentialIT {
    private static final long MINUTES = Long.getLong("petra.fuzz.minutes", 2);

    /** The ordinary run repeats itself, so that it speaks of what changed; long ones explore. */
    private static final long SEED =
            Long.getLong("petra.seed", MINUTES <= 10 ? 200 : System.currentTimeMillis());

    private static final long SECONDS_OF_A_LIFE = Long.getLong("petra.fuzz.life", 40);

    private static final String NEVER = "3650d";

    /** Each life of the node has the next of these; the data must not notice. */
    private static final List<Map<String, String>> OPTIONS =
            List.of(
                    Map.of("purge_interval", NEVER),
                    Map.of(
                            "purge_interval",
                            NEVER,
                            "large_cell",
                            "1B",
                            "write_buffer",
                            "64KiB",
                            "block_size",
                            "1KiB",
                            "compaction",
                            "universal"),
                    Map.of("purge_interval", "1s", "large_cell", "100B"));

    /** Names of faults, with commas between; a few in an ordinary run, most in a long one. */
    private static final String FAULTS = System.getProperty("petra.fuzz.faults", "");

    /**
     * Those of rows that this was not seen to find. Statements cannot show some of them: keys of
     * one token, or columns that Cassandra leaves out of the result.
     */
    private static final List<String> ONLY_BY_NAME =
            List.of(
                    "loses-the-static-row-on-read",
                    "shares-deletions-by-token",
                    "rewrites-clusterings",
                    "rewrites-keys",
                    "expires-at-write-time-plus-ttl",
                    "loses-closing-markers",
                    "reads-slices-forwards-in-reverse",
                    "clips-no-range-tombstones",
                    "reads-all-columns",
                    "keeps-values-that-are-not-queried",
                    "may-contain-denies",
                    "ignores-dropped-columns",
                    "names-columns-by-position",
                    "loses-markers-on-reopening");

    private static final int FIRST_OPTIONS = Integer.getInteger("petra.fuzz.options", 0);

    private static final int NATIVE_PORT = FreePorts.next();
    private static final int STORAGE_PORT = FreePorts.next();
    private static final int JMX_PORT = FreePorts.next();

    @TempDir(cleanup = org.junit.jupiter.api.io.CleanupMode.ON_SUCCESS)
    static Path directory;

    private static Path jar;

    @BeforeAll
    static void packFuzzer() throws IOException, URISyntaxException {
        jar = AgentJar.packFaultyEngine(directory);
    }

    private static TestNode node(
            Path home, Path go, long clock, Map<String, String> options, String fault)
            throws IOException {
        // Written anew, with this life's options.
        Files.deleteIfExists(home.resolve("conf/cassandra.yaml"));
        List<String> jvm =
                new ArrayList<>(
                        List.of(
                                "-javaagent:" + jar,
                                "-Dfuzz.go=" + go,
                                "-Dcassandra.clock=dev.petra.nodetests.fuzz.FuzzClock",
                                "-Dfuzz.clock=" + clock));
        if (fault != null) {
            jvm.add("-Dfuzz.fault=" + fault);
            // Nobody reads what a known fault comes down to.
            jvm.add("-Dfuzz.shrink.seconds=1");
        }
        return TestNode.start(
                home,
                config -> {
                    Map<String, String> engine = new java.util.TreeMap<>(options);
                    engine.put("engine", fault == null ? "rocks" : "faulty");
                    if (fault == null) engine.put("memory", "128MiB");
                    return config.nativePort(NATIVE_PORT)
                            .storagePort(STORAGE_PORT)
                            .jmxPort(JMX_PORT)
                            .engineParameters(engine)
                            // DROP TABLE would fail in Cassandra's own storage: an SSTable whose
                            // indexes were built anew may have a file twice in its snapshot.
                            .yaml(Map.of("commitlog_sync", "batch", "auto_snapshot", false))
                            .jvmOptions(jvm.toArray(String[]::new));
                });
    }

    /** One life of the node: what it was told to do, and what came of it. */
    private static Properties live(TestNode node, Path go, Properties task)
            throws IOException, InterruptedException {
        Path done = go.resolveSibling(go.getFileName() + ".done");
        Path written = go.resolveSibling(go.getFileName() + ".writing");
        try (var out = Files.newBufferedWriter(written)) {
            task.store(out, null);
        }
        Files.move(written, go);
        while (!Files.exists(done)) {
            assertThat(node.process().isAlive())
                    .describedAs("the node ended, see %s", node.process().logFile())
                    .isTrue();
            TimeUnit.MILLISECONDS.sleep(100);
        }
        Properties result = new Properties();
        try (var in = Files.newBufferedReader(done)) {
            result.load(in);
        }
        result.setProperty("swept entries", Long.toString(sweptEntries(node)));
        return result;
    }

    private static final Pattern SWEPT = Pattern.compile("Removed (\\d+) of \\d+ entries from");

    /** How many entries sweeps have removed, by the node's log. */
    private static long sweptEntries(TestNode node) {
        return SWEPT.matcher(node.process().logSinceStart())
                .results()
                .mapToLong(found -> Long.parseLong(found.group(1)))
                .sum();
    }

    private static Properties task(
            int life, long seed, long seconds, Map<String, String> options, String survivors) {
        Properties task = new Properties();
        task.setProperty("life", Integer.toString(life));
        task.setProperty("seed", Long.toString(seed));
        task.setProperty("seconds", Long.toString(seconds));
        task.setProperty("purges", Boolean.toString(!NEVER.equals(options.get("purge_interval"))));
        task.setProperty("survivors", survivors);
        return task;
    }

    private static String figures(Properties result) {
        return String.join(
                ", ",
                Stream.of(
                                "histories",
                                "resumed",
                                "steps",
                                "statements",
                                "refused",
                                "queries",
                                "queries refused",
                                "queries with rows",
                                "queries by index",
                                "by index with rows",
                                "sweeps",
                                "swept entries",
                                "lost by Cassandra's",
                                "iterators",
                                "digests",
                                "undecided")
                        .map(name -> result.getProperty(name) + " " + name)
                        .toList());
    }

    private static long figure(List<Properties> results, String name) {
        return results.stream().mapToLong(result -> Long.parseLong(result.getProperty(name))).sum();
    }

    @Test
    void noQueryTellsRocksFromCassandrasOwnStorage() throws Exception {
        System.out.println("DifferentialIT: -Dpetra.seed=" + SEED);
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(MINUTES);
        long seed = SEED;
        long clock = 2_000_000_000_000L;
        String survivors = "";
        List<Properties> results = new ArrayList<>();
        for (int life = 0; System.nanoTime() - end < 0 || life < 2; life++) {
            Path go = directory.resolve("go" + life);
            int set = (FIRST_OPTIONS + life) % OPTIONS.size();
            Map<String, String> options = OPTIONS.get(set);
            try (TestNode node = node(directory.resolve("node"), go, clock, options, null)) {
                Properties result =
                        live(node, go, task(life, seed, SECONDS_OF_A_LIFE, options, survivors));
                System.out.println("life " + life + " " + options + ": " + figures(result));
                String difference = result.getProperty("difference");
                if (difference != null) {
                    String report = "-Dpetra.fuzz.options=" + set + " " + difference;
                    Files.writeString(Path.of("target", "differential-" + SEED + ".txt"), report);
                    fail(report);
                }
                results.add(result);
                survivors = result.getProperty("survivors");
                clock = Long.parseLong(result.getProperty("clock")) + 1_000;
                seed += 1_000_000;
                // Half of them die.
                if (life % 2 == 1) node.process().stop();
            }
        }
        // Two that refuse everything are equal too.
        assertThat(figure(results, "refused")).isLessThan(figure(results, "statements") / 5);
        assertThat(figure(results, "queries with rows"))
                .isGreaterThan(figure(results, "queries") / 4);
        assertThat(figure(results, "by index with rows"))
                .isGreaterThan(figure(results, "queries by index") / 8)
                .isPositive();
        assertThat(figure(results, "swept entries")).isPositive();
        assertThat(figure(results, "digests")).isGreaterThan(figure(results, "iterators") / 8);
        assertThat(figure(results, "resumed")).isPositive();
        assertThat(figure(results, "undecided"))
                .isLessThanOrEqualTo(1 + figure(results, "histories") / 20);
    }

    /** What finds the others must not be the wrapper. */
    @Test
    @OneOf(variants = "DifferentialIT, an engine with a fault", of = 2, number = 1)
    void anEngineWithoutAFaultIsNotTakenForOneWithAFault() throws Exception {
        Path go = directory.resolve("go-none");
        try (TestNode node =
                node(
                        directory.resolve(NamedMutations.NONE),
                        go,
                        2_000_000_000_000L,
                        Map.of(),
                        NamedMutations.NONE)) {
            long seconds = MINUTES <= 10 ? 8 : 15;
            Properties result = live(node, go, task(0, SEED, seconds, Map.of(), ""));
            String what = "seed " + SEED + ", " + figures(result);
            System.out.println("DifferentialIT, no fault: " + what);
            assertThat(result.getProperty("difference")).as(what).isNull();
            assertThat(figure(List.of(result), "queries by index")).as(what).isPositive();
        }
    }

    @Test
    @OneOf(variants = "DifferentialIT, an engine with a fault", of = 2, number = 2)
    void faultsAreFound() throws Exception {
        System.out.println("DifferentialIT, faults: -Dpetra.seed=" + SEED);
        List<String> faults = new ArrayList<>(NamedMutations.ofRows());
        faults.addAll(NamedMutations.ofIndexes());
        if (!FAULTS.isEmpty()) faults.retainAll(List.of(FAULTS.split(",", -1)));
        else if (MINUTES <= 10) {
            // Of rows, and of indexes.
            faults.retainAll(
                    Drawn.of(
                            "DifferentialIT, fault",
                            List.of(
                                    "first-of-a-tie-counts",
                                    "ignores-range-tombstones",
                                    "forgets-index-entries",
                                    "sweeps-too-much")));
        } else faults.removeAll(ONLY_BY_NAME);
        assertThat(faults).as("those asked for, of all").isNotEmpty();
        List<String> unfound = new ArrayList<>();
        for (String fault : faults) {
            Path go = directory.resolve("go-" + fault);
            long start = System.nanoTime();
            try (TestNode node =
                    node(directory.resolve(fault), go, 2_000_000_000_000L, Map.of(), fault)) {
                Properties result = live(node, go, task(0, SEED, 300, Map.of(), ""));
                if (result.getProperty("difference") == null) {
                    unfound.add(fault + " in " + figures(result));
                    continue;
                }
                System.out.println(
                        "fault "
                                + fault
                                + " found after "
                                + figures(result)
                                + ", with shrinking "
                                + TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - start)
                                + " s: "
                                + result.getProperty("difference")
                                        .lines()
                                        .skip(1)
                                        .limit(3)
                                        .toList());
            }
        }
        assertThat(unfound).isEmpty();
    }
}
