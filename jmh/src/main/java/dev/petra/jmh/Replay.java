// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.jmh.querylog.Comparison;
import dev.petra.jmh.querylog.Pace;
import dev.petra.jmh.querylog.QueryLog;
import dev.petra.jmh.querylog.Selection;
import dev.petra.jmh.querylog.TableSchema;
import dev.petra.launcher.Distribution;
import dev.petra.launcher.FileTree;
import dev.petra.launcher.NodeException;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import org.HdrHistogram.Histogram;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
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

    /** The metric of what the tables take when they are compacted, before requests are timed. */
    static final String ON_DISK = "on disk";

    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    @Mixin private final ReplayOptions options = new ReplayOptions();
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
        Distribution.fromSystemProperty().checkNotWoven();
        options.out = options.out.toAbsolutePath();
        try (Claim claim = Claim.of(options.out)) {
            Revision unused = Revision.measured();
            Thread hook = Leftovers.endWithThisJvm(false, console, spec.commandLine().getErr());
            claim.begin();
            int code = replay(compared, Claim.work(options.out), console);
            claim.end();
            Runtime.getRuntime().removeShutdownHook(hook);
            return code;
        } catch (Claim.RefusedException e) {
            throw options.wrong(String.valueOf(e.getMessage()));
        }
    }

    private int replay(List<Engine> compared, Path work, PrintWriter console) throws IOException {
        boolean different = false;
        boolean failing = false;
        if (options.timed > 0) {
            // Counted first: a share of them is to warm up.
            Survey survey = survey(options.timed);
            time(survey, work, console);
            different = failed.values().stream().distinct().count() > 1;
            failing = failed.values().stream().anyMatch(numbers -> !numbers.isEmpty());
        }
        if (options.compared > 0) {
            if (options.timed == 0) tell(survey(options.compared), console);
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
            for (String engine : options.engines) all.add(Engine.of(engine));
            Nodes.collector(options.gc);
            for (Path snapshot : options.snapshots) tables.add(TableSchema.ofSnapshot(snapshot));
            for (Path schema : options.schemas) tables.add(TableSchema.ofFile(schema));
        } catch (IllegalArgumentException | TableSchema.SchemaException e) {
            throw options.wrong(String.valueOf(e.getMessage()));
        }
        if (all.contains(Engine.BARE))
            throw options.wrong("'bare' is no node: rocks, legacy, legacy-latest");
        if (all.contains(Engine.ROCKS_WOVEN))
            throw options.wrong("'rocks-woven' is for 'petra bench': rocks, legacy, legacy-latest");
        for (Engine engine : all)
            if (engine.isShadowed())
                throw options.wrong(
                        "'"
                                + engine.label()
                                + "' is for 'petra bench': rocks, legacy, legacy-latest");
        if (options.compared > 0 && all.size() < 2)
            throw options.wrong(
                    "answers of two engines are compared: --engine ONE,OTHER or --compared 0");
        if (tables.isEmpty()) throw options.wrong("no tables: --snapshot or --schema");
        options.checkNumbers();
        try {
            Claim.check(options.out);
        } catch (Claim.RefusedException e) {
            throw options.wrong(String.valueOf(e.getMessage()));
        }
        try (QueryLog readable = new QueryLog(options.logs)) {
            Selection selection = selection(readable, 1);
            if (selection.next() != null) return all;
            StringBuilder reasons = new StringBuilder();
            selection
                    .left()
                    .forEach((reason, count) -> reasons.append("; " + count + " " + reason));
            String none =
                    "no request of the log can be asked of the tables that are given, "
                            + TableSchema.tablesOf(tables)
                            + reasons;
            if (selection.left().containsKey(Selection.Reason.WITHOUT_VALUES))
                throw new QueryLog.QueryLogException(none + ". " + BETTER + ".", null);
            if (readable.losses().isEmpty())
                throw options.wrong(none + ". Requests of the system's tables are left out.");
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
        try (QueryLog log = new QueryLog(options.logs)) {
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

    private Selection selection(QueryLog log, long most) {
        return new Selection(log, TableSchema.tablesOf(tables), most);
    }

    private List<Engine> turned(int round) {
        List<Engine> turned = new ArrayList<>(options.engines.stream().map(Engine::of).toList());
        Collections.shuffle(turned, new Random(seed + round));
        return turned;
    }

    private Map<String, String> settings(Survey survey) {
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("log", options.logs.toString());
        settings.put(
                "speed",
                options.speed == 0
                        ? options.inFlight() + " at once"
                        : options.speed + " times the log's");
        settings.put("rounds", Integer.toString(options.rounds));
        settings.put("seed of the order of engines", Long.toString(seed));
        settings.put("requests", Long.toString(survey.requests()));
        settings.put("of these to warm up", Long.toString(warmups(survey)));
        options.addMemory(settings);
        settings.putAll(survey.notes());
        return settings;
    }

    // The times

    private long warmups(Survey survey) {
        return survey.requests() * options.warmup / 100;
    }

    private void time(Survey survey, Path work, PrintWriter console) throws IOException {
        tell(survey, console);
        String started = Instant.now().toString();
        for (int round = 0; round < options.rounds; round++)
            for (Engine engine : turned(round)) time(engine, survey, work, console);
        Results results =
                new Results(
                        started,
                        "",
                        Machine.describe(options.out, Revision.measured()),
                        settings(survey),
                        figures.all());
        results.write(options.out.resolve("results.json"));
        Report report = new Report(results, Claim.histograms(options.out));
        Files.writeString(options.out.resolve("report.md"), report.markdown());
        Files.writeString(options.out.resolve("report.html"), report.html());
        console.println(options.out.resolve("report.html").toAbsolutePath());
    }

    private void time(Engine engine, Survey survey, Path work, PrintWriter console)
            throws IOException {
        Path directory = work.resolve(engine.label());
        try (ReplayNode node = new ReplayNode(options, tables, engine, directory);
                QueryLog log = new QueryLog(options.logs)) {
            node.settle();
            double onDisk = node.dataBytes() / 1048576.0;
            // No more than was counted: a node may go on writing its log.
            Selection selection = selection(log, survey.requests());
            Pace first = pace(node);
            first.run(selection, warmups(survey));
            Pace pace = pace(node);
            Probe probe = node.probe();
            Probe.Moment from = probe.now();
            pace.run(selection, Long.MAX_VALUE);
            Probe.Moment to = probe.now();
            BitSet failures = first.failed();
            failures.or(pace.failed());
            failed.computeIfAbsent(engine.label(), label -> new BitSet()).or(failures);
            Run run = new Run("log", Access.Level.CLIENT, options.gc, "replay", engine);
            figures.add(run, Report.FAILED, "requests", failures.cardinality());
            figures.add(run, ON_DISK, "MiB", onDisk);
            Histogram reads = pace.reads();
            Histogram writes = pace.writes();
            long answered = reads.getTotalCount() + writes.getTotalCount();
            if (answered > 0)
                for (Stalls.Value figure : Stalls.figures(probe, from, to, answered))
                    figures.add(run, figure.metric(), figure.unit(), figure.value());
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

    private Pace pace(ReplayNode node) {
        return new Pace(node.player, options.speed, options.inFlight());
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
        try (ReplayNode first = new ReplayNode(options, tables, one, work.resolve("1"));
                ReplayNode second = new ReplayNode(options, tables, other, work.resolve("2"));
                QueryLog log = new QueryLog(options.logs)) {
            Selection selection = selection(log, options.compared);
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
            Files.writeString(options.out.resolve("answers.md"), text);
            console.print(text.substring(0, text.indexOf("\n## ") + 1));
            console.println(options.out.resolve("answers.md").toAbsolutePath());
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
}
