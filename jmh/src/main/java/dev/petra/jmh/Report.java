// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.DoubleSummaryStatistics;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramIterationValue;

/**
 * Results as people read them. Every engine is held against {@value #BASELINE}, or against the
 * first where that was not measured; a difference is one only if {@link Figure#differsFrom} says
 * so.
 */
final class Report {
    private static final String BASELINE = "legacy-latest";

    /** What all but the baseline are held against, too, where it was measured. */
    private static final String WITH_CACHE = "legacy-latest-cache";

    private static final String TITLE = "Petra against Cassandra's own storage";

    /** The metric of how many requests were not answered. */
    static final String FAILED = "failed";

    /** Between a metric and a number of tables or MiB. */
    static final String WITH = " with ";

    /** Ends the metrics of one of several rates. */
    private static final Pattern AT = Pattern.compile(" at \\d+ %$");

    private static final Pattern RATE = Pattern.compile("^rate( at \\d+ %)");

    /** Of the requests that were asked for in a time, so many are answered in it. */
    private static final double KEPT_UP = 0.95;

    private static final String WRITE_BUFFERS = StoreBenchmark.WRITE_BUFFERS + " (buffers)";

    /** From how many milliseconds on pauses are listed. */
    private static final double LONG_PAUSE = 5;

    private static final String LONG_PAUSES = "Pauses above 5 ms, of all rounds";

    private static final Map<String, String> MEANINGS = meanings();

    private final Results results;
    private final Path histograms;

    Report(Results results, Path histograms) {
        this.results = results;
        this.histograms = histograms;
    }

    private static Map<String, String> meanings() {
        Map<String, String> meanings = new LinkedHashMap<>();
        meanings.put("spi", "a store's own write and read, nothing above it");
        meanings.put(
                "local",
                "what a replica does: ReadCommand.executeLocally and the encoded response, which is"
                        + " decoded again as by a coordinator; Mutation.apply");
        meanings.put("client", "a driver in another process of the same machine");
        meanings.put(
                "cluster",
                "a driver, and nodes in containers of the same machine with each row on three of"
                        + " them, at LOCAL_QUORUM; processor, disk and memory are of all nodes"
                        + " together and of each, the stall is their mean and of each");
        meanings.put(
                "read, write, mixed", "closed loop: each thread asks again when it is answered");
        meanings.put(
                "openLoop",
                "a fixed rate, the same for all engines (70 % of the slowest's closed loop; of live"
                        + " nodes those of --rates), each request timed from when it was due");
        meanings.put(
                "live nodes",
                "run side by side and are measured in turns (--live): their values are of one start"
                        + " and one load of each node, so that the test below tells two nodes"
                        + " apart, not all nodes of two engines");
        meanings.put(
                "restart",
                "a live node is stopped and started again with none of its files in the page cache:"
                        + " until it takes CQL, and then reads in a closed loop, at once, with a"
                        + " JVM and caches that are cold");
        meanings.put(
                "at 25 %",
                "and so on: other rates, of what the slowest engine does in a closed loop, up to"
                        + " the first that an engine does not keep up with; the P99 is of reads and"
                        + " writes");
        meanings.put(
                "P99.9",
                "of 60 s at least: of a round, or of all rounds together; with less there is none");
        meanings.put(
                "stall",
                "share of the time in which requests were held up: by a safepoint, from when it was"
                    + " asked for, which stops all threads of the JVM; by an allocation stall of"
                    + " ZGC, of one thread or several; or by RocksDB, which took no writes of the"
                    + " table. Cassandra's waits for room in a memtable or for a segment of its log"
                    + " are in latencies only. In a closed loop compare the stall for a request: an"
                    + " engine that serves fewer has less to stall for");
        meanings.put(
                Gap.METRIC,
                "of an open loop, and of live nodes: between two answers to any client; at a fixed"
                        + " rate no less than what lies between two requests");
        meanings.put(
                "allocation stalls, all threads",
                "how long threads waited for memory, added up: of several at once each counts");
        meanings.put(
                WarmUp.WINDOWS,
                "how many times the seconds of an iteration went by until twice in succession as"
                        + " much was done, within 10 %; '"
                        + WarmUp.UNSTEADY
                        + "' counts the rounds in which it had not come to that");
        meanings.put(
                "disk written",
                "without what was deleted before it was on disk; before each measurement all pages"
                        + " are written to disk");
        meanings.put("allocated", "heap for one operation, in the engine's process");
        meanings.put(
                "promoted",
                "what became old of it, in whole regions, where the collector has generations");
        meanings.put(
                "load",
                "every row once into an empty table, flushed, until compaction is quiet; without"
                        + " rows for 20 write buffers there is no ratio");
        meanings.put(
                "backlog",
                "reads of rows that were written four times while nothing was compacted: before"
                        + " compaction begins, in each third of its time, and when it is done");
        meanings.put(
                "bootstrap",
                "a second node joins and takes half of the rows, while they are read at a fixed"
                        + " rate; streams are not throttled");
        meanings.put(
                "tables",
                "a node with more and more tables of 100 rows each, restarted after they were"
                        + " flushed; at rest nobody asks for anything");
        meanings.put(
                "bytes",
                "the same with one table and more and more MiB of rows of 2,400 bytes that cannot"
                        + " be compressed");
        meanings.put("bare", "RocksDB with the engine's options, and no engine around it");
        return meanings;
    }

    /** Settings in order, and in each the engines' figures of every metric. */
    private static Map<String, Map<String, List<Figure>>> grouped(Collection<Figure> figures) {
        Map<String, Map<String, List<Figure>>> grouped = new LinkedHashMap<>();
        for (Figure figure : figures)
            grouped.computeIfAbsent(figure.setting(), key -> new LinkedHashMap<>())
                    .computeIfAbsent(
                            figure.metric() + " (" + figure.unit() + ")", key -> new ArrayList<>())
                    .add(figure);
        return grouped;
    }

    private static List<String> engines(Collection<List<Figure>> rows) {
        return rows.stream()
                .flatMap(List::stream)
                .map(Figure::engine)
                .distinct()
                // Not in that in which they were measured, which is by chance.
                .sorted(Comparator.comparing(Engine::of))
                .toList();
    }

    private static Optional<Figure> of(String engine, List<Figure> row) {
        return row.stream().filter(figure -> figure.engine().equals(engine)).findFirst();
    }

    /** What the others of a row are held against. */
    private static Figure baseline(List<Figure> row) {
        return of(BASELINE, row)
                .or(() -> row.stream().min(Comparator.comparing(f -> Engine.of(f.engine()))))
                .orElseThrow();
    }

    private static String number(double value) {
        if (value == 0) return "0";
        double size = Math.abs(value);
        if (size >= 100) return String.format(Locale.ROOT, "%,.0f", value);
        if (size >= 10) return String.format(Locale.ROOT, "%.1f", value);
        return String.format(Locale.ROOT, size >= 1 ? "%.2f" : "%.3f", value);
    }

    private static String spread(Figure figure) {
        return figure.values().size() < 2
                ? number(figure.median())
                : "%s (%s–%s)"
                        .formatted(
                                number(figure.median()),
                                number(figure.min()),
                                number(figure.max()));
    }

    /**
     * Against the baseline, and against the same with as much memory as the engine has.
     *
     * @param row its metric, of all engines
     * @param rows all figures of their setting
     */
    private String ratios(Figure figure, List<Figure> row, Map<String, List<Figure>> rows) {
        Figure baseline = baseline(row);
        if (figure.equals(baseline)) return "";
        String first = against(figure, baseline, rows);
        String second =
                of(WITH_CACHE, row)
                        .filter(cache -> !cache.equals(figure) && !cache.equals(baseline))
                        .map(cache -> against(figure, cache, rows))
                        .orElse("");
        return second.isEmpty() || second.equals(first)
                ? first
                : (first.isEmpty() ? "–" : first) + " / " + second;
    }

    /**
     * A ratio, or why there is none.
     *
     * @param rows all figures of their setting
     */
    private String against(Figure figure, Figure baseline, Map<String, List<Figure>> rows) {
        if (!results.isComplete()) return "incomplete";
        // They are no results.
        if (figure.metric().startsWith(WarmUp.WINDOWS) || figure.metric().equals(FAILED)) return "";
        for (Figure one : List.of(figure, baseline))
            if (haveFailed(one, rows)) return one.engine() + " failed requests";
        if (isTooLittle(figure, rows)) return "too few rows";
        if (!keptUp(figure, rows)) return "did not keep up";
        if (!keptUp(baseline, rows)) return baseline.engine() + " did not keep up";
        if (baseline.median() == 0) return "";
        String ratio = String.format(Locale.ROOT, "%.2f×", figure.median() / baseline.median());
        boolean cold = isUnsteady(figure, rows) || isUnsteady(baseline, rows);
        return ratio + verdict(figure, baseline) + (cold ? " (not warm)" : "");
    }

    /** Whether an engine has not answered some of what was asked: others have done more. */
    private static boolean haveFailed(Figure figure, Map<String, List<Figure>> rows) {
        return of(figure.engine(), rows.getOrDefault(FAILED + " (requests)", List.of()))
                .filter(requests -> requests.max() > 0)
                .isPresent();
    }

    /** Whether the warm-up of an engine was ended before it did twice as much. */
    private static boolean isUnsteady(Figure figure, Map<String, List<Figure>> rows) {
        return of(figure.engine(), rows.getOrDefault(WarmUp.UNSTEADY + " (rounds)", List.of()))
                .filter(rounds -> rounds.max() > 0)
                .isPresent();
    }

    private static String verdict(Figure figure, Figure other) {
        if (!figure.canDifferFrom(other)) return " (?)";
        return figure.differsFrom(other) ? "" : " (noise)";
    }

    /**
     * Whether an engine did what was asked of it at a rate; what it took otherwise means little.
     */
    private static boolean keptUp(Figure figure, Map<String, List<Figure>> rows) {
        Matcher at = AT.matcher(figure.metric());
        String suffix = (at.find() ? at.group() : "") + " (ops/s)";
        Optional<Figure> asked = of(figure.engine(), rows.getOrDefault("rate" + suffix, List.of()));
        Optional<Figure> done =
                of(figure.engine(), rows.getOrDefault("throughput" + suffix, List.of()));
        return asked.isEmpty()
                || done.isEmpty()
                // In each round.
                || done.get().min() >= KEPT_UP * asked.get().max();
    }

    /** Whether a load is so short that it tells nothing of what compaction will cost. */
    private static boolean isTooLittle(Figure figure, Map<String, List<Figure>> rows) {
        return of(figure.engine(), rows.getOrDefault(WRITE_BUFFERS, List.of()))
                .filter(buffers -> buffers.min() < StoreBenchmark.LEAST_WRITE_BUFFERS)
                .isPresent();
    }

    // As Markdown

    String markdown() throws IOException {
        StringBuilder text = new StringBuilder("# " + TITLE + "\n\n");
        text.append("Begun ").append(results.started()).append(".\n\n");
        if (!results.isComplete())
            text.append("**Incomplete**, so there are no ratios: " + results.incomplete() + "\n\n");
        results.machine().forEach((key, value) -> text.append("- " + key + ": " + value + "\n"));
        results.settings().forEach((key, value) -> text.append("- " + key + ": " + value + "\n"));
        text.append(
                "\nMedian (least–most) of all rounds, and against "
                        + BASELINE
                        + "; where "
                        + WITH_CACHE
                        + " was measured, too, behind a slash against that. *(noise)*: chance"
                        + " explains the difference as well (rank-sum test of Mann and Whitney, 5"
                        + " %). *(?)*: fewer than four rounds, too few to tell. *(not warm)*: the"
                        + " warm-up of one of both was ended before it was steady.\n");
        MEANINGS.forEach((key, value) -> text.append("\n- *" + key + "*: " + value));
        text.append("\n");
        for (Map.Entry<String, Map<String, List<Figure>>> setting :
                grouped(results.figures()).entrySet()) {
            Map<String, List<Figure>> rows = setting.getValue();
            List<String> engines = engines(rows.values());
            text.append("\n## " + setting.getKey() + "\n\n| |");
            for (String engine : engines) text.append(" " + engine + " | |");
            text.append("\n|---|");
            for (int i = 0; i < engines.size(); i++) text.append("---:|---|");
            text.append("\n");
            rows.forEach((metric, row) -> text.append(markdownRow(metric, row, engines, rows)));
            Map<String, String> pauses = longPauses(rows);
            if (!pauses.isEmpty()) text.append("\n" + LONG_PAUSES + ":\n\n");
            pauses.forEach((engine, all) -> text.append("- " + engine + ": " + all + "\n"));
        }
        return text.toString();
    }

    private String markdownRow(
            String metric, List<Figure> row, List<String> engines, Map<String, List<Figure>> rows) {
        StringBuilder text = new StringBuilder("| " + metric + " |");
        for (String engine : engines) {
            Optional<Figure> figure = of(engine, row);
            text.append(" " + figure.map(Report::spread).orElse("–") + " | ");
            text.append(figure.map(f -> ratios(f, row, rows)).orElse(""));
            text.append(" |");
        }
        return text + "\n";
    }

    // As a page

    String html() throws IOException {
        StringBuilder body = new StringBuilder();
        body.append("<h1>" + TITLE + "</h1>");
        if (!results.isComplete())
            body.append(
                    "<p><b>Incomplete</b>, so there are no ratios: "
                            + escape(results.incomplete())
                            + "</p>");
        body.append("<p class=\"about\">");
        body.append(
                results.machine().entrySet().stream()
                        .map(entry -> escape(entry.getKey() + ": " + entry.getValue()))
                        .collect(Collectors.joining(" · ")));
        body.append("<br>");
        body.append(
                results.settings().entrySet().stream()
                        .map(entry -> escape(entry.getKey() + ": " + entry.getValue()))
                        .collect(Collectors.joining(" · ")));
        body.append("</p><dl>");
        MEANINGS.forEach(
                (key, value) -> body.append("<dt>" + escape(key) + "<dd>" + escape(value)));
        body.append("</dl>");
        for (Map.Entry<String, Map<String, List<Figure>>> setting :
                grouped(results.figures()).entrySet()) {
            Map<String, List<Figure>> rows = setting.getValue();
            body.append("<h2>" + escape(setting.getKey()) + "</h2><div class=\"charts\">");
            for (String metric : List.of("throughput (ops/s)", "stall (%)", "allocated (B/op)"))
                if (rows.containsKey(metric)) body.append(Chart.bars(metric, rows.get(metric)));
            boolean fixed = rows.values().iterator().next().get(0).operation().equals("openLoop");
            for (String at : rates(rows))
                for (String kind : List.of("read", "write")) {
                    Map<String, NavigableMap<Double, Double>> curves =
                            curves(rows, Tail.kind(kind, at));
                    if (!curves.isEmpty())
                        body.append(
                                Chart.percentiles(
                                        "latency of a "
                                                + kind
                                                + (fixed ? " at a fixed rate" : "")
                                                + at,
                                        curves));
                }
            Map<String, NavigableMap<Double, Double>> sweep = sweep(rows);
            if (!sweep.isEmpty())
                body.append(
                        Chart.curves("P99 of all requests against requests/s", sweep, Chart::time));
            for (String at : rates(rows)) body.append(timelines(rows, at));
            body.append("</div>").append(table(rows));
            Map<String, String> pauses = longPauses(rows);
            if (!pauses.isEmpty()) body.append("<p>" + LONG_PAUSES + ":");
            pauses.forEach((engine, all) -> body.append("<br>" + escape(engine + ": " + all)));
        }
        for (Growth.Of what : Growth.Of.values())
            byGrowth(what)
                    .forEach(
                            (metric, curves) ->
                                    body.append(
                                            Chart.curves(
                                                    metric
                                                            + ", against the number of "
                                                            + what.counted(),
                                                    curves,
                                                    Chart::number)));
        byWidth()
                .forEach(
                        (setting, curves) ->
                                body.append("<h2>" + escape(setting) + "</h2>")
                                        .append(
                                                Chart.curves(
                                                        "read from disk for one column, against"
                                                                + " the columns of a row",
                                                        curves,
                                                        Chart::bytes)));
        return PAGE.formatted(TITLE, body);
    }

    private String table(Map<String, List<Figure>> rows) {
        List<String> engines = engines(rows.values());
        StringBuilder text = new StringBuilder("<table><tr><th>");
        for (String engine : engines) text.append("<th colspan=2>" + escape(engine));
        rows.forEach(
                (metric, row) -> {
                    text.append("<tr><td>" + escape(metric));
                    for (String engine : engines) {
                        Optional<Figure> figure = of(engine, row);
                        text.append("<td class=n>" + figure.map(Report::spread).orElse("–"));
                        text.append(
                                "<td class=r>" + figure.map(f -> ratios(f, row, rows)).orElse(""));
                    }
                });
        return text + "</table>";
    }

    /** How the metrics of the only rate end, or of each of several. */
    private static List<String> rates(Map<String, List<Figure>> rows) {
        Stream<String> several =
                rows.keySet().stream()
                        .map(RATE::matcher)
                        .filter(Matcher::find)
                        .map(rate -> rate.group(1));
        return Stream.concat(Stream.of(""), several).toList();
    }

    /** Of each engine, microseconds by percentile, of the loops of all rounds. */
    private Map<String, NavigableMap<Double, Double>> curves(
            Map<String, List<Figure>> rows, String kind) throws IOException {
        Map<String, NavigableMap<Double, Double>> curves = new LinkedHashMap<>();
        for (String engine : engines(rows.values())) {
            Optional<Histogram> all = Tail.merged(histograms, name(rows, engine), kind);
            if (all.isEmpty()) continue;
            NavigableMap<Double, Double> curve = new TreeMap<>();
            for (HistogramIterationValue value : all.get().percentiles(5))
                // The last has no place on a scale of nines.
                if (value.getPercentileLevelIteratedTo() < 100)
                    curve.put(
                            value.getPercentileLevelIteratedTo() / 100,
                            value.getValueIteratedTo() / 1000.0);
            curves.put(engine, curve);
        }
        return curves;
    }

    /** Of each engine, microseconds by requests a second, from the open loop's other rates. */
    private static Map<String, NavigableMap<Double, Double>> sweep(Map<String, List<Figure>> rows) {
        Map<String, NavigableMap<Double, Double>> curves = new LinkedHashMap<>();
        for (int percent : OpenLoop.SWEEP) {
            String at = OpenLoop.at(percent);
            for (Figure rate : rows.getOrDefault("throughput" + at + " (ops/s)", List.of()))
                of(rate.engine(), rows.getOrDefault("P99" + at + " (us)", List.of()))
                        .ifPresent(
                                latency ->
                                        curves.computeIfAbsent(
                                                        rate.engine(), key -> new TreeMap<>())
                                                .put(rate.median(), latency.median()));
        }
        return curves;
    }

    /**
     * Of each setting in which rows of several widths were read, and each engine, what one read
     * from disk took by the number of columns.
     */
    private Map<String, Map<String, NavigableMap<Double, Double>>> byWidth() {
        Map<String, Map<String, NavigableMap<Double, Double>>> settings = new LinkedHashMap<>();
        for (Figure figure : results.figures()) {
            if (!figure.workload().startsWith("wideblob") || !figure.metric().equals("disk read"))
                continue;
            String setting =
                    String.join(" / ", "wideblob", figure.level(), figure.operation(), figure.gc());
            settings.computeIfAbsent(setting, key -> new LinkedHashMap<>())
                    .computeIfAbsent(figure.engine(), key -> new TreeMap<>())
                    .put((double) Workload.width(figure.workload()), figure.median());
        }
        settings.values()
                .removeIf(curves -> curves.values().stream().allMatch(curve -> curve.size() < 2));
        return settings;
    }

    /** Of each metric of what grows, and each engine, its value by how many there are. */
    private Map<String, Map<String, NavigableMap<Double, Double>>> byGrowth(Growth.Of what) {
        Map<String, Map<String, NavigableMap<Double, Double>>> metrics = new LinkedHashMap<>();
        for (Figure figure : results.figures()) {
            int with = figure.metric().indexOf(WITH);
            if (with < 0 || !figure.metric().endsWith(" " + what.counted())) continue;
            String count = figure.metric().substring(with + WITH.length()).split(" ", 2)[0];
            metrics.computeIfAbsent(
                            "%s (%s), %s"
                                    .formatted(
                                            figure.metric().substring(0, with),
                                            figure.unit(),
                                            figure.gc()),
                            key -> new LinkedHashMap<>())
                    .computeIfAbsent(figure.engine(), key -> new TreeMap<>())
                    .put(Double.valueOf(count), figure.median());
        }
        metrics.values()
                .removeIf(curves -> curves.values().stream().allMatch(curve -> curve.size() < 2));
        return metrics;
    }

    /** Of all rounds of an engine. */
    private List<Timeline> timelines(Map<String, List<Figure>> rows, String engine, String at)
            throws IOException {
        List<Timeline> lines = new ArrayList<>();
        for (int round = 1; ; round++) {
            Path file = Tail.file(histograms, name(rows, engine), round, Tail.timeline(at));
            if (!Files.exists(file)) return lines;
            lines.add(Timeline.read(file));
        }
    }

    /** By engine, what its JVMs stopped all threads for: how often, and for how long at most. */
    private Map<String, String> longPauses(Map<String, List<Figure>> rows) throws IOException {
        Map<String, String> engines = new LinkedHashMap<>();
        for (String engine : engines(rows.values())) {
            List<Timeline> lines = new ArrayList<>();
            for (String at : rates(rows)) lines.addAll(timelines(rows, engine, at));
            if (lines.isEmpty()) continue;
            Map<String, DoubleSummaryStatistics> reasons =
                    lines.stream()
                            .flatMap(line -> line.pauses().stream())
                            .filter(pause -> pause.millis() > LONG_PAUSE)
                            .collect(
                                    Collectors.groupingBy(
                                            Timeline.Pause::reason,
                                            TreeMap::new,
                                            Collectors.summarizingDouble(Timeline.Pause::millis)));
            List<String> texts = new ArrayList<>();
            reasons.forEach(
                    (reason, all) ->
                            texts.add(
                                    "%s %d, longest %s ms"
                                            .formatted(
                                                    reason, all.getCount(), number(all.getMax()))));
            engines.put(engine, texts.isEmpty() ? "none" : String.join("; ", texts));
        }
        return engines;
    }

    /** One below the other, on one scale. */
    private String timelines(Map<String, List<Figure>> rows, String at) throws IOException {
        Map<String, Timeline> lines = new LinkedHashMap<>();
        for (String engine : engines(rows.values())) {
            int round = 0;
            for (Timeline line : timelines(rows, engine, at))
                lines.put(engine + ", round " + ++round + at, line);
        }
        DoubleSummaryStatistics all =
                lines.values().stream()
                        .flatMap(line -> line.slowest().stream())
                        .mapToDouble(micros -> micros)
                        .filter(micros -> micros > 0)
                        .summaryStatistics();
        StringBuilder charts = new StringBuilder();
        if (all.getCount() > 0)
            lines.forEach(
                    (engine, line) ->
                            charts.append(
                                    Chart.timeline(engine, line, all.getMin(), all.getMax())));
        return charts.toString();
    }

    /** As {@link Run#name} has it, by which files are kept of a measurement beside its figures. */
    private static String name(Map<String, List<Figure>> rows, String engine) {
        Figure any = rows.values().iterator().next().get(0);
        return String.join("-", any.workload(), any.level(), any.gc(), any.operation(), engine);
    }

    static String escape(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
    }

    private static final String PAGE =
            """
            <!doctype html>
            <html lang="en"><meta charset="utf-8"><title>%s</title>
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <style>
            body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 76em;
                   padding: 0 1em; color: #222; background: #fff }
            h2 { margin-top: 2em; border-bottom: 1px solid #ccc }
            dt { font-weight: 600; float: left; clear: left; margin-right: .6em }
            dd { margin: 0 }
            .about { color: #555 }
            .charts { display: flex; flex-wrap: wrap; gap: 1em 2em; margin: 1em 0 }
            table { border-collapse: collapse; font-variant-numeric: tabular-nums }
            td, th { padding: .15em .6em; border-bottom: 1px solid #e4e4e4 }
            .n { text-align: right } .r { color: #666; padding-left: 0 }
            svg text { font: 12px system-ui, sans-serif; fill: #333 }
            </style>
            %s
            </html>
            """;

    // Two files

    /** What changed from one run to another, metric by metric. */
    static String comparison(Results before, Results after) {
        StringBuilder text = new StringBuilder();
        Map<String, Figure> earlier =
                before.figures().stream().collect(Collectors.toMap(Report::key, figure -> figure));
        Map<String, Map<String, List<Figure>>> rowsBefore = grouped(before.figures());
        Map<String, Map<String, List<Figure>>> rowsAfter = grouped(after.figures());
        for (Figure now : after.figures()) {
            Figure then = earlier.get(key(now));
            if (then == null || then.median() == 0) continue;
            Map<String, List<Figure>> withNow = rowsAfter.getOrDefault(now.setting(), Map.of());
            Map<String, List<Figure>> withThen = rowsBefore.getOrDefault(then.setting(), Map.of());
            String without = null;
            if (!before.isComplete() || !after.isComplete()) without = "incomplete";
            else if (isTooLittle(now, withNow) || isTooLittle(then, withThen))
                without = "too few rows";
            else if (haveFailed(now, withNow) || haveFailed(then, withThen))
                without = "failed requests";
            else if (!keptUp(now, withNow) || !keptUp(then, withThen)) without = "did not keep up";
            text.append(
                    String.format(
                            Locale.ROOT,
                            "%-90s %12s -> %12s  %s%n",
                            key(now),
                            number(then.median()),
                            number(now.median()),
                            without != null
                                    ? without
                                    : String.format(
                                                    Locale.ROOT,
                                                    "%.2fx",
                                                    now.median() / then.median())
                                            + verdict(now, then)));
        }
        return text.isEmpty() ? "The two have no figure in common.\n" : text.toString();
    }

    private static String key(Figure figure) {
        return figure.setting()
                + " / "
                + figure.engine()
                + " / "
                + figure.metric()
                + " ("
                + figure.unit()
                + ")";
    }
}
