// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import dev.petra.jmh.querylog.Comparison;
import dev.petra.jmh.querylog.Pace;
import dev.petra.jmh.querylog.Player;
import dev.petra.jmh.querylog.QueryLog;
import dev.petra.jmh.querylog.Selection;
import dev.petra.jmh.querylog.TableSchema;
import dev.petra.launcher.FileTree;
import dev.petra.launcher.NodeException;
import dev.petra.launcher.NodeProcess;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Callable;
import org.HdrHistogram.Histogram;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.results.ScalarResult;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code petra replay}. */
@Command(
        name = "petra replay",
        mixinStandardHelpOptions = true,
        sortOptions = false,
        description = {
            "Asks nodes of this machine, one of each engine, what the nodes of a cluster were"
                + " asked, from their full query logs (nodetool enablefullquerylog) or audit logs."
                + " First it takes the times of each engine, then it compares the answers of two.",
            "Writes results.json, report.md, report.html and answers.md."
        },
        exitCodeListHeading = "Exit codes:%n",
        exitCodeList = {
            "0:All requests were answered, and all answers that were compared are equal.",
            "1:The log cannot be read, or a node did not start or load.",
            "2:The command line is wrong.",
            "3:Answers differ, or requests failed with one engine only.",
            "4:All answers are equal, but there are requests that failed with both engines."
        })
public final class Replay implements Callable<Integer> {
    /** The exit code where answers differ, or one engine has none. */
    static final int DIFFERENT = 3;

    /** The exit code where the engines differ in nothing, but have not answered everything. */
    static final int FAILED = 4;

    /** What to do about requests without values. */
    private static final String BETTER =
            "An audit log has prepared statements without what was bound to them; nodetool"
                    + " enablefullquerylog makes a log that has all";

    private static final int IN_FLIGHT = 32;
    private static final int MOST_IN_FLIGHT = 256;
    private static final Duration PATIENCE = Duration.ofMinutes(1);

    /** How long a table may get no further on its way into an engine. */
    private static final Duration MIGRATION_PATIENCE = Duration.ofMinutes(30);

    /** Percent: a JVM is slow until it has compiled what it runs, and a log may be short. */
    private static final int WARMUP = 20;

    /** The metric of what the tables take when they are compacted, before requests are timed. */
    static final String ON_DISK = "on disk";

    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    @Option(
            names = "--log",
            required = true,
            paramLabel = "DIR",
            description =
                    "A node's full query log or audit log; of an audit log that is a text, also a"
                            + " file. Once for each node.")
    private List<Path> logs = List.of();

    @Option(
            names = "--snapshot",
            paramLabel = "DIR",
            description =
                    "A table as it was when the log began: data/KEYSPACE/TABLE-ID/snapshots/TAG of"
                            + " one node. Once for each table.")
    private List<Path> snapshots = List.of();

    @Option(
            names = "--schema",
            paramLabel = "FILE",
            description = "Tables that were empty then, as DESCRIBE prints them.")
    private List<Path> schemas = List.of();

    @Option(
            names = "--engine",
            split = ",",
            description =
                    "rocks, legacy, legacy-latest, legacy-latest-cache, legacy-latest-mmap"
                            + " (default: ${DEFAULT-VALUE}). The answers of the first two are"
                            + " compared.")
    private List<String> engines = List.of("rocks", "legacy-latest");

    @Option(
            names = "--speed",
            description =
                    "1 for the log's own, 2 for twice as fast (default: ${DEFAULT-VALUE}); 0 for"
                            + " as fast as the engine answers "
                            + IN_FLIGHT
                            + " at once.")
    private double speed = 1;

    @Option(
            names = "--timed",
            description = "How many requests are timed, from the first (default: all). 0 for none.")
    private long timed = Long.MAX_VALUE;

    @Option(
            names = "--compared",
            description =
                    "How many requests are compared, from the first (default: all). 0 for none.")
    private long compared = Long.MAX_VALUE;

    @Option(
            names = "--warmup",
            paramLabel = "PERCENT",
            description =
                    "The first of the requests that are timed, which only warm up (default:"
                            + " ${DEFAULT-VALUE}).")
    private int warmup = WARMUP;

    @Option(names = "--rounds", description = "How often engines are timed in turns (default: 1).")
    private int rounds = 1;

    @Option(names = "--gc", description = "G1 or ZGC (default: ${DEFAULT-VALUE}).")
    private String gc = "G1";

    @Option(names = "--heap", description = "Of each node, in MiB (default: ${DEFAULT-VALUE}).")
    private int heap = 1024;

    @Option(
            names = "--memory",
            description = "Beside the heap, in MiB (default: ${DEFAULT-VALUE}).")
    private int memory = 512;

    @Option(
            names = "--total-memory",
            description =
                    "Of each node, in MiB, and the same for all engines: heap, beside the heap, 512"
                            + " for the JVM and Cassandra's caches, and what is left for the page"
                            + " cache. Needs root (default: no limit).")
    private int totalMemory;

    @Option(names = "--out", description = "Where the results go (default: ${DEFAULT-VALUE}).")
    private Path out = Path.of("replay-results");

    private final List<TableSchema> tables = new ArrayList<>();

    /** Of the order of engines. */
    private final long seed = System.nanoTime();

    private final Figures figures = new Figures();

    /** Of each engine, the numbers of the requests that failed while times were taken. */
    private final Map<String, BitSet> failed = new LinkedHashMap<>();

    private Replay() {}

    /** Runs a command line and ends this JVM with its exit code. */
    public static void main(String[] args) {
        System.exit(command().execute(args));
    }

    static CommandLine command() {
        CommandLine command = new CommandLine(new Replay());
        command.setExecutionExceptionHandler(
                (e, line, parsed) -> {
                    if (!(e instanceof QueryLog.QueryLogException || e instanceof NodeException))
                        throw e;
                    line.getErr().println("petra replay: " + e.getMessage());
                    return 1;
                });
        return command;
    }

    @Override
    public Integer call() throws IOException {
        PrintWriter console = spec.commandLine().getOut();
        List<Engine> compared = checked();
        out = out.toAbsolutePath();
        try (Claim claim = Claim.of(out)) {
            Revision unused = Revision.measured();
            Thread hook = Leftovers.endWithThisJvm(false, console, spec.commandLine().getErr());
            claim.begin();
            int code = replay(compared, Claim.work(out), console);
            claim.end();
            Runtime.getRuntime().removeShutdownHook(hook);
            return code;
        } catch (Claim.RefusedException e) {
            throw wrong(String.valueOf(e.getMessage()));
        }
    }

    private int replay(List<Engine> compared, Path work, PrintWriter console) throws IOException {
        boolean different = false;
        boolean failing = false;
        if (timed > 0) {
            // Counted first: a share of them is to warm up.
            Survey survey = survey(timed);
            time(survey, work, console);
            different = failed.values().stream().distinct().count() > 1;
            failing = failed.values().stream().anyMatch(numbers -> !numbers.isEmpty());
        }
        if (this.compared > 0) {
            if (timed == 0) tell(survey(this.compared), console);
            Comparison comparison = compare(compared, work, console);
            different |= comparison.different() > 0;
            failing |= comparison.failedOnBoth() > 0;
        }
        console.flush();
        return different ? DIFFERENT : failing ? FAILED : 0;
    }

    private static void delete(Path node) {
        if (Files.exists(node)) FileTree.delete(node);
    }

    /** Checks all that was given before a node is started. */
    private List<Engine> checked() {
        List<Engine> all = new ArrayList<>();
        try {
            for (String engine : engines) all.add(Engine.of(engine));
            Nodes.collector(gc);
            for (Path snapshot : snapshots) tables.add(TableSchema.ofSnapshot(snapshot));
            for (Path schema : schemas) tables.add(TableSchema.ofFile(schema));
        } catch (IllegalArgumentException | TableSchema.SchemaException e) {
            throw wrong(String.valueOf(e.getMessage()));
        }
        if (all.contains(Engine.BARE))
            throw wrong("'bare' is no node: rocks, legacy, legacy-latest");
        if (all.contains(Engine.ROCKS_WOVEN))
            throw wrong("'rocks-woven' is for 'petra bench': rocks, legacy, legacy-latest");
        for (Engine engine : all)
            if (engine.isShadowed())
                throw wrong(
                        "'"
                                + engine.label()
                                + "' is for 'petra bench': rocks, legacy, legacy-latest");
        if (this.compared > 0 && all.size() < 2)
            throw wrong("answers of two engines are compared: --engine ONE,OTHER or --compared 0");
        if (tables.isEmpty()) throw wrong("no tables: --snapshot or --schema");
        if (speed < 0 || rounds < 1 || timed < 0 || this.compared < 0)
            throw wrong("--speed, --timed and --compared are 0 or more, --rounds 1 or more");
        if (timed == 0 && this.compared == 0)
            throw wrong("nothing to do: --timed and --compared are both 0");
        if (warmup < 0 || warmup > 99) throw wrong("--warmup is of 0 to 99 percent");
        if (totalMemory != 0 && totalMemory < heap + memory + BenchPlan.JVM)
            throw wrong(
                    "--total-memory=%d is too little for a heap of %d MiB, %d beside it and %d for the JVM"
                            .formatted(totalMemory, heap, memory, BenchPlan.JVM));
        try {
            Claim.check(out);
        } catch (Claim.RefusedException e) {
            throw wrong(String.valueOf(e.getMessage()));
        }
        try (QueryLog readable = new QueryLog(logs)) {
            Selection selection = selection(readable, 1);
            if (selection.next() != null) return all;
            StringBuilder reasons = new StringBuilder();
            selection
                    .left()
                    .forEach((reason, count) -> reasons.append("; " + count + " " + reason));
            String none =
                    "no request of the log can be asked of the tables that are given, "
                            + names()
                            + reasons;
            if (selection.left().containsKey(Selection.Reason.WITHOUT_VALUES))
                throw new QueryLog.QueryLogException(none + ". " + BETTER + ".", null);
            if (readable.losses().isEmpty())
                throw wrong(none + ". Requests of the system's tables are left out.");
            throw new QueryLog.QueryLogException(
                    none
                            + ", and "
                            + String.join("; ", readable.losses())
                            + ". Copy the log again from the node, after nodetool"
                            + " disablefullquerylog.",
                    null);
        }
    }

    /**
     * What a log has.
     *
     * @param requests how many are asked
     * @param notes what is to be known about them, as {@link #notes} has it
     */
    private record Survey(long requests, Map<String, String> notes) {}

    private Survey survey(long most) {
        try (QueryLog log = new QueryLog(logs)) {
            Selection selection = selection(log, most);
            while (selection.next() != null) {
                // It counts.
            }
            return new Survey(selection.selected(), notes(selection, log));
        }
    }

    /** What of a log is not asked, and what makes nodes differ from the one that was asked. */
    private static Map<String, String> notes(Selection selection, QueryLog log) {
        Map<String, String> notes = new LinkedHashMap<>();
        if (selection.volatiles() > 0)
            notes.put(
                    "with now(), uuid() or the like",
                    selection.volatiles()
                            + "; what these answer or write differs, whatever the engine");
        if (selection.conditionals() > 0)
            notes.put(
                    "conditional updates (IF)",
                    selection.conditionals()
                            + "; these are written with the time of the replay: later writes of"
                            + " the log to the same columns are older, and change nothing");
        long lacking = selection.left().getOrDefault(Selection.Reason.WITHOUT_VALUES, 0L);
        if (lacking > 0)
            notes.put(
                    "share of the requests of these tables that is asked",
                    String.format(
                            Locale.ROOT,
                            "%.1f %%. %s",
                            100.0 * selection.selected() / (selection.selected() + lacking),
                            BETTER));
        selection
                .left()
                .forEach((reason, count) -> notes.put("not asked, " + reason, count.toString()));
        List<String> losses = log.losses();
        for (int i = 0; i < losses.size(); i++)
            notes.put("damage of the log " + (i + 1), losses.get(i));
        return notes;
    }

    private static void tell(Survey survey, PrintWriter console) {
        console.print(lines(survey.notes()));
        console.flush();
    }

    private static String lines(Map<String, String> notes) {
        StringBuilder lines = new StringBuilder();
        notes.forEach((key, value) -> lines.append("- " + key + ": " + value + "\n"));
        return lines.toString();
    }

    private ParameterException wrong(String message) {
        return new ParameterException(spec.commandLine(), message);
    }

    private Set<TableSchema.Table> names() {
        Set<TableSchema.Table> names = new LinkedHashSet<>();
        for (TableSchema table : tables) names.addAll(table.tables());
        return names;
    }

    private Selection selection(QueryLog log, long most) {
        return new Selection(log, names(), most);
    }

    private List<Engine> turned(int round) {
        List<Engine> turned = new ArrayList<>(engines.stream().map(Engine::of).toList());
        Collections.shuffle(turned, new Random(seed + round));
        return turned;
    }

    private Map<String, String> settings(Survey survey) {
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("log", logs.toString());
        settings.put("speed", speed == 0 ? IN_FLIGHT + " at once" : speed + " times the log's");
        settings.put("rounds", Integer.toString(rounds));
        settings.put("seed of the order of engines", Long.toString(seed));
        settings.put("requests", Long.toString(survey.requests()));
        settings.put("of these to warm up", Long.toString(warmups(survey)));
        settings.put("heap", heap + " MiB");
        settings.put("memory beside the heap", memory + " MiB");
        if (totalMemory > 0)
            settings.put("memory of a node", totalMemory + " MiB, page cache included");
        settings.putAll(survey.notes());
        return settings;
    }

    // The times

    private long warmups(Survey survey) {
        return survey.requests() * warmup / 100;
    }

    private void time(Survey survey, Path work, PrintWriter console) throws IOException {
        tell(survey, console);
        String started = Instant.now().toString();
        for (int round = 0; round < rounds; round++)
            for (Engine engine : turned(round)) time(engine, survey, work, console);
        Results results =
                new Results(
                        started,
                        "",
                        Machine.describe(out, Revision.measured()),
                        settings(survey),
                        figures.all());
        results.write(out.resolve("results.json"));
        Report report = new Report(results, Claim.histograms(out));
        Files.writeString(out.resolve("report.md"), report.markdown());
        Files.writeString(out.resolve("report.html"), report.html());
        console.println(out.resolve("report.html").toAbsolutePath());
    }

    private void time(Engine engine, Survey survey, Path work, PrintWriter console)
            throws IOException {
        Path directory = work.resolve(engine.label());
        try (Node node = new Node(engine, directory);
                QueryLog log = new QueryLog(logs)) {
            node.settle();
            double onDisk = node.dataBytes() / 1048576.0;
            // No more than was counted: a node may go on writing its log.
            Selection selection = selection(log, survey.requests());
            Pace first = pace(node);
            first.run(selection, warmups(survey));
            Pace pace = pace(node);
            Probe probe = node.process.probe();
            Probe.Moment from = probe.now();
            pace.run(selection, Long.MAX_VALUE);
            Probe.Moment to = probe.now();
            BitSet failures = first.failed();
            failures.or(pace.failed());
            failed.computeIfAbsent(engine.label(), label -> new BitSet()).or(failures);
            Run run = new Run("log", Access.Level.CLIENT, gc, "replay", engine);
            figures.add(run, Report.FAILED, "requests", failures.cardinality());
            figures.add(run, ON_DISK, "MiB", onDisk);
            Histogram reads = pace.reads();
            Histogram writes = pace.writes();
            long answered = reads.getTotalCount() + writes.getTotalCount();
            if (answered > 0)
                for (ScalarResult figure : StallProfiler.figures(probe, from, to, answered))
                    figures.add(run, figure.getLabel(), figure.getScoreUnit(), figure.getScore());
            if (pace.rate() > 0) figures.add(run, "rate", "ops/s", pace.rate());
            double seconds = (to.millis() - from.millis()) / 1000.0;
            latencies(run, "read", reads, seconds);
            latencies(run, "write", writes, seconds);
            console.printf(
                    Locale.ROOT,
                    "%s: %,d requests, of which %,d to warm up, %,d failed%s%n",
                    engine.label(),
                    selection.selected(),
                    warmups(survey),
                    failures.cardinality(),
                    failures.isEmpty() ? "" : ": " + first.errors() + " " + pace.errors());
            console.flush();
        } finally {
            delete(directory);
        }
    }

    private Pace pace(Node node) {
        return new Pace(node.player, speed, speed > 0 ? MOST_IN_FLIGHT : IN_FLIGHT);
    }

    private void latencies(Run run, String kind, Histogram histogram, double seconds) {
        if (histogram.getTotalCount() == 0) return;
        for (double percentile : Tail.percentiles(seconds))
            figures.add(
                    run,
                    kind + " " + Figure.percentile(percentile),
                    "us",
                    histogram.getValueAtPercentile(percentile) / 1000.0);
    }

    // The answers

    private Comparison compare(List<Engine> compared, Path work, PrintWriter console)
            throws IOException {
        Engine one = compared.get(0);
        Engine other = compared.get(1);
        try (Node first = new Node(one, work.resolve("1"));
                Node second = new Node(other, work.resolve("2"));
                QueryLog log = new QueryLog(logs)) {
            Selection selection = selection(log, this.compared);
            Comparison comparison =
                    new Comparison(
                            first.player,
                            second.player,
                            asked -> {
                                console.printf(Locale.ROOT, "%,d compared%n", asked);
                                console.flush();
                            });
            comparison.run(selection);
            String text = answers(comparison, notes(selection, log), one.label(), other.label());
            Files.writeString(out.resolve("answers.md"), text);
            console.print(text.substring(0, text.indexOf("\n## ") + 1));
            console.println(out.resolve("answers.md").toAbsolutePath());
            return comparison;
        } finally {
            delete(work.resolve("1"));
            delete(work.resolve("2"));
        }
    }

    /** What came of it, as Markdown: what counts first, and then each difference. */
    private static String answers(
            Comparison comparison, Map<String, String> notes, String one, String other) {
        StringBuilder text = new StringBuilder();
        text.append(
                String.format(
                        Locale.ROOT,
                        "# Answers of %s and %s%n%n- asked: %,d%n- compared: %,d%n- rows of these:"
                                + " %,d%n- different: %,d%n- failed: %,d with %s, %,d with %s, of"
                                + " which %,d with both%n",
                        one,
                        other,
                        comparison.asked(),
                        comparison.compared(),
                        comparison.rows(),
                        comparison.different(),
                        comparison.failedOnOne(),
                        one,
                        comparison.failedOnOther(),
                        other,
                        comparison.failedOnBoth()));
        comparison
                .errors()
                .values()
                .forEach(
                        errors ->
                                text.append(
                                        "- both failed alike: "
                                                + errors.count()
                                                + ", as with "
                                                + errors.example()
                                                + "\n"));
        text.append(lines(notes));
        text.append("\n## Differences\n");
        if (comparison.different() == 0) text.append("\nNone.\n");
        for (Comparison.Difference difference : comparison.differences())
            text.append(
                    "\nRequest "
                            + difference.number()
                            + ", of "
                            + Instant.ofEpochMilli(difference.query().startedMillis())
                            + ":\n\n    "
                            + difference.query().cql().replace('\n', ' ')
                            + "\n\n- "
                            + one
                            + ": "
                            + difference.one()
                            + "\n- "
                            + other
                            + ": "
                            + difference.other()
                            + "\n");
        if (comparison.different() > comparison.differences().size())
            text.append("\nThe others are counted only.\n");
        return text.toString();
    }

    /** A node with the tables as they were when the log began. */
    private final class Node implements AutoCloseable {
        private final Engine engine;
        private final @Nullable MemoryLimit limit;
        private final ProcessTarget process;
        private final CqlSession session;
        private final Player player;

        Node(Engine engine, Path directory) throws IOException {
            this.engine = engine;
            limit = limit(directory);
            boolean complete = false;
            try {
                process = start(engine, directory, limit);
                complete = true;
            } finally {
                if (!complete && limit != null) limit.close();
            }
            complete = false;
            try {
                session =
                        CqlSession.builder()
                                .addContactPoints(process.nodes())
                                .withLocalDatacenter("datacenter1")
                                .withConfigLoader(
                                        ClientAccess.options()
                                                .withDuration(
                                                        DefaultDriverOption.REQUEST_TIMEOUT,
                                                        PATIENCE)
                                                .withInt(
                                                        DefaultDriverOption.CONNECTION_MAX_REQUESTS,
                                                        2 * MOST_IN_FLIGHT)
                                                .build())
                                .build();
                player = new Player(session);
                for (TableSchema table : tables) load(table);
                complete = true;
            } finally {
                if (!complete) end();
            }
        }

        private void load(TableSchema schema) {
            schema.create(session, engine.memtable());
            Path snapshot = schema.snapshot();
            if (snapshot == null) return;
            for (TableSchema.Table table : schema.tables())
                process.nodetool(
                        "import",
                        "--copy-data",
                        "--no-tokens",
                        table.keyspace(),
                        table.name(),
                        snapshot.toAbsolutePath().toString());
        }

        /**
         * Compacts, so that no engine answers from files that another format or another engine
         * left, nor compacts while it is timed. What was imported is in its engine by then.
         */
        void settle() {
            if (engine.isPetra()) Quiet.awaitMigrations(this::migrations, MIGRATION_PATIENCE);
            for (TableSchema.Table table : names()) {
                process.nodetool("flush", table.keyspace(), table.name());
                process.nodetool("compact", table.keyspace(), table.name());
            }
            Quiet.await(process.probe());
            Quiet.sync();
        }

        private List<Quiet.Migrating> migrations() {
            return session.execute("SELECT * FROM petra.migrations").all().stream()
                    .map(
                            row ->
                                    new Quiet.Migrating(
                                            row.getString("keyspace_name")
                                                    + "."
                                                    + row.getString("table_name"),
                                            row.isNull("left_bytes")
                                                    ? null
                                                    : row.getLong("left_bytes"),
                                            row.getFormattedContents()))
                    .toList();
        }

        /** What the tables take on disk; there are no others in their keyspaces. */
        long dataBytes() throws IOException {
            long bytes = 0;
            Path data = process.directory().resolve("data");
            for (String keyspace :
                    names().stream().map(TableSchema.Table::keyspace).distinct().toList())
                bytes += Quiet.dataBytes(data.resolve(keyspace));
            return bytes;
        }

        private void end() throws IOException {
            try {
                process.close();
            } finally {
                if (limit != null) limit.close();
            }
        }

        @Override
        public void close() throws IOException {
            session.close();
            end();
        }
    }

    private @Nullable MemoryLimit limit(Path directory) throws IOException {
        if (totalMemory == 0) return null;
        try {
            return MemoryLimit.create(
                    "replay-" + directory.getFileName(), (long) totalMemory << 20);
        } catch (MemoryLimit.NoLimitException e) {
            throw wrong(String.valueOf(e.getMessage()));
        }
    }

    private ProcessTarget start(Engine engine, Path directory, @Nullable MemoryLimit limit) {
        NodeProcess node = Nodes.patient(directory, engine, gc, heap, memory, limit);
        return ProcessTarget.start(node, directory);
    }
}
