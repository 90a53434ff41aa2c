// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.HdrHistogram.Histogram;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ReportTest {
    @TempDir Path directory;

    private static Figure figure(String engine, String metric, Double... values) {
        return new Figure("emp", "local", "openLoop", "G1", engine, metric, "us", List.of(values));
    }

    private static Results results(Figure... figures) {
        return new Results(
                "2026-01-01T00:00:00Z",
                "",
                Map.of("cores", "2"),
                Map.of("rounds", "3"),
                List.of(figures));
    }

    @Test
    void ratiosAreAgainstTheOneToBeatAndNoiseIsCalledNoise() throws IOException {
        Results results =
                results(
                        figure("rocks", "read P99", 90.0, 110.0, 100.0, 95.0),
                        figure("legacy-latest", "read P99", 200.0, 190.0, 230.0, 200.0),
                        figure("rocks", "read P50", 10.0, 30.0, 20.0, 20.0),
                        figure("legacy-latest", "read P50", 25.0, 40.0, 35.0, 19.0),
                        figure("rocks", "write P50", 1.0, 2.0, 3.0),
                        figure("legacy-latest", "write P50", 10.0, 20.0, 30.0));
        String text = new Report(results, directory).markdown();
        assertThat(text)
                .contains("| read P99 (us) | 97.5 (90.0–110) | 0.49× | 200 (190–230) |  |")
                .contains("| read P50 (us) | 20.0 (10.0–30.0) | 0.67× (noise) |")
                .contains("| write P50 (us) | 2.00 (1.00–3.00) | 0.10× (?) |");
    }

    @Test
    void ratiosAreAlsoAgainstTheSameWithAsMuchCache() throws IOException {
        Report report =
                new Report(
                        results(
                                figure("rocks", "read P99", 100.0),
                                figure("legacy", "read P99", 400.0),
                                figure("legacy-latest", "read P99", 200.0),
                                figure("legacy-latest-cache", "read P99", 125.0),
                                figure("rocks", "stall", 1.0),
                                figure("legacy-latest-cache", "stall", 2.0)),
                        directory);
        assertThat(report.markdown())
                .contains(
                        "| read P99 (us) | 100 | 0.50× (?) / 0.80× (?) | 400 | 2.00× (?) / 3.20×"
                                + " (?) | 200 |  | 125 | 0.63× (?) |")
                .contains("| stall (us) | 1.00 |  | – |  | – |  | 2.00 | 2.00× (?) |");
        assertThat(report.html()).contains("0.50× (?) / 0.80× (?)");
    }

    @Test
    void whereRequestsFailedThereIsNoRatio() throws IOException {
        List<Figure> figures = new ArrayList<>();
        for (String engine : List.of("rocks", "legacy", "legacy-latest")) {
            double failed = engine.equals("legacy") ? 1 : 0;
            figures.add(replayed(engine, Report.FAILED, "requests", failed));
            figures.add(replayed(engine, "read P99", "us", 100));
        }
        assertThat(new Report(results(figures.toArray(Figure[]::new)), directory).markdown())
                .contains(
                        "| read P99 (us) | 100 | 1.00× (?) | 100 | legacy failed requests | 100 |")
                .contains("| failed (requests) | 0 |  | 1.00 |  | 0 |  |");
        figures.add(replayed("rocks", "write P99", "us", 100));
        figures.set(4, replayed("legacy-latest", Report.FAILED, "requests", 2));
        figures.add(replayed("legacy-latest", "write P99", "us", 50));
        assertThat(new Report(results(figures.toArray(Figure[]::new)), directory).markdown())
                .contains("| write P99 (us) | 100 | legacy-latest failed requests |");
    }

    private static Figure replayed(String engine, String metric, String unit, double value) {
        return new Figure("log", "client", "replay", "G1", engine, metric, unit, List.of(value));
    }

    @Test
    void anEngineThatDoesNotKeepUpHasNoRatio() throws IOException {
        Results results =
                results(
                        rate("rocks", 25, 1000.0),
                        asked("rocks", 1000.0),
                        figure("rocks", "P99 at 25 %", 90.0),
                        rate("legacy", 25, 900.0),
                        asked("legacy", 1000.0),
                        figure("legacy", "P99 at 25 %", 90_000.0),
                        rate("legacy-latest", 25, 990.0),
                        asked("legacy-latest", 1000.0),
                        figure("legacy-latest", "P99 at 25 %", 900.0));
        assertThat(new Report(results, directory).markdown())
                .contains("| P99 at 25 % (us) | 90.0 | 0.10× (?) | 90,000 | did not keep up | 900");
    }

    @Test
    void whoDoesNotKeepUpInOneRoundHasNoRatio() throws IOException {
        Results results =
                results(
                        new Figure(
                                "emp",
                                "local",
                                "openLoop",
                                "G1",
                                "rocks",
                                "throughput at 25 %",
                                "ops/s",
                                List.of(1000.0, 900.0, 1000.0)),
                        asked("rocks", 1000.0),
                        figure("rocks", "P99 at 25 %", 90.0, 90_000.0, 90.0),
                        rate("legacy-latest", 25, 1000.0),
                        asked("legacy-latest", 1000.0),
                        figure("legacy-latest", "P99 at 25 %", 900.0));
        assertThat(new Report(results, directory).markdown())
                .contains("| P99 at 25 % (us) | 90.0 (90.0–90,000) | did not keep up | 900 |");
    }

    @Test
    void aLoadOfFewWriteBuffersHasNoRatio() throws IOException {
        for (double buffers : new double[] {19, 20}) {
            List<Figure> figures = new ArrayList<>();
            for (String engine : List.of("rocks", "legacy-latest")) {
                figures.add(load(engine, StoreBenchmark.WRITE_BUFFERS, "buffers", buffers));
                figures.add(load(engine, "throughput", "ops/s", 1000));
            }
            String text = new Report(results(figures.toArray(Figure[]::new)), directory).markdown();
            assertThat(text)
                    .contains(
                            "| throughput (ops/s) | 1,000 | "
                                    + (buffers < 20 ? "too few rows" : "1.00× (?)"));
        }
    }

    private static Figure load(String engine, String metric, String unit, double value) {
        return new Figure("load", "local", "load", "G1", engine, metric, unit, List.of(value));
    }

    @Test
    void aBaselineThatDoesNotKeepUpIsNone() throws IOException {
        Results results =
                results(
                        rate("rocks", 25, 1000.0),
                        asked("rocks", 1000.0),
                        figure("rocks", "P99 at 25 %", 90.0),
                        rate("legacy-latest", 25, 500.0),
                        asked("legacy-latest", 1000.0),
                        figure("legacy-latest", "P99 at 25 %", 90_000.0));
        assertThat(new Report(results, directory).markdown())
                .contains("| P99 at 25 % (us) | 90.0 | legacy-latest did not keep up | 90,000 |");
    }

    @Test
    void thePageHasTheCurvesOfTheOpenLoop() throws IOException {
        for (int round = 1; round <= 2; round++) {
            Histogram times = new Histogram(3);
            for (int i = 1; i <= 1000; i++) times.recordValue(round * 1_000_000L + i * 1000L);
            Tail.write(
                    Tail.file(directory, "emp-local-G1-openLoop-rocks", round, "read.hlog"),
                    times,
                    30);
        }
        Histogram all =
                Tail.merged(directory, "emp-local-G1-openLoop-rocks", "read.hlog").orElseThrow();
        assertThat(all.getTotalCount()).isEqualTo(2000);
        assertThat(Tail.seconds(all)).isEqualTo(60);
        assertThat(all.getValueAtPercentile(50)).isCloseTo(2_000_000, within(10_000L));
        String page = new Report(results(figure("rocks", "stall", 1.0)), directory).html();
        assertThat(page).contains("latency of a read at a fixed rate").doesNotContain("NaN");
        assertThat(page).containsPattern("<path d=\"M[\\d. ]+(L[\\d. ]+)+\" fill=\"none\"");
    }

    @Test
    void thePageHasTheCurvesOfLiveNodesAtEachRate() throws IOException {
        Histogram times = new Histogram(3);
        for (int i = 1; i <= 1000; i++) times.recordValue(i * 1000L);
        assertThat(Tail.kind("read", "")).isEqualTo("read.hlog");
        Tail.write(
                Tail.file(
                        directory,
                        "emp-local-G1-openLoop-rocks",
                        1,
                        Tail.kind("read", OpenLoop.at(30))),
                times,
                30);
        assertThat(directory.resolve("emp-local-G1-openLoop-rocks-1-read-30.hlog")).exists();
        Figure rate = figure("rocks", "rate" + OpenLoop.at(30), 4_000.0);
        assertThat(new Report(results(rate), directory).html())
                .contains("latency of a read at a fixed rate at 30 %");
    }

    @Test
    void thePageHasLatencyAgainstThroughput() throws IOException {
        Results results =
                results(
                        rate("rocks", 25, 1000.0),
                        figure("rocks", "P99 at 25 %", 90.0),
                        rate("rocks", 50, 2000.0),
                        figure("rocks", "P99 at 50 %", 40_000.0),
                        rate("legacy", 25, 990.0),
                        figure("legacy", "P99 at 25 %", 900.0));
        assertThat(new Report(results, directory).html())
                .contains("P99 of all requests against requests/s")
                .containsPattern("<path d=\"M[\\d. ]+L[\\d. ]+\" fill=\"none\"")
                .doesNotContain("NaN");
    }

    private static Figure asked(String engine, double value) {
        return new Figure(
                "emp", "local", "openLoop", "G1", engine, "rate at 25 %", "ops/s", List.of(value));
    }

    private static Figure rate(String engine, int percent, double value) {
        return new Figure(
                "emp",
                "local",
                "openLoop",
                "G1",
                engine,
                "throughput at " + percent + " %",
                "ops/s",
                List.of(value));
    }

    @Test
    void thePageHasWhatIsReadAgainstTheColumnsOfARow() throws IOException {
        String title = "against the columns of a row";
        Results one = results(read("wideblob", 1e6));
        assertThat(new Report(one, directory).html()).doesNotContain(title);
        Results two = results(read("wideblob10", 1e6), read("wideblob", 0.0));
        assertThat(new Report(two, directory).html())
                .contains(title, "wideblob / spi / read / G1", ">1 MB<", ">100<")
                .doesNotContain("NaN")
                .doesNotContain("Infinity");
    }

    @Test
    void thePageHasWhatANodeTakesAgainstItsTables() throws IOException {
        String title = "on disk (KiB), G1, against the number of tables";
        Results one = results(tables("on disk with 1 tables", 64));
        assertThat(new Report(one, directory).html()).doesNotContain(title);
        Results two =
                results(
                        tables("on disk with 1 tables", 64),
                        tables("on disk with 500 tables", 30_000),
                        tables("on disk, each table more", 60));
        assertThat(new Report(two, directory).html())
                .containsOnlyOnce(title)
                .contains(">500<")
                .doesNotContain("NaN");
    }

    @Test
    void thePageHasWhatANodeTakesAgainstItsBytes() throws IOException {
        Results results =
                results(
                        grown("bytes", "descriptors with 64 MiB", 200),
                        grown("bytes", "descriptors with 8192 MiB", 400),
                        tables("descriptors with 1 tables", 100));
        assertThat(new Report(results, directory).html())
                .containsOnlyOnce("descriptors (KiB), G1, against the number of MiB")
                .doesNotContain("against the number of tables");
    }

    private static Figure tables(String metric, double kibibytes) {
        return grown("tables", metric, kibibytes);
    }

    private static Figure grown(String what, String metric, double kibibytes) {
        return new Figure(what, "client", what, "G1", "rocks", metric, "KiB", List.of(kibibytes));
    }

    private static Figure read(String workload, double bytes) {
        return new Figure(
                workload, "spi", "read", "G1", "rocks", "disk read", "B/op", List.of(bytes));
    }

    @Test
    void thePageHasTheTimeLineOfTheOpenLoopWithItsPauses() throws IOException {
        Timeline line =
                new Timeline(
                        4,
                        List.of(100.0, 0.0, 20_000.0, 100.0),
                        List.of(
                                new Timeline.Pause(2.5, 19.5, "G1CollectForAllocation"),
                                new Timeline.Pause(3, 0.5, "Cleanup")));
        Path file = directory.resolve("emp-local-G1-openLoop-rocks-1-timeline.txt");
        line.write(file);
        line.write(directory.resolve("emp-local-G1-openLoop-rocks-2-timeline.txt"));
        assertThat(Timeline.read(file)).isEqualTo(line);
        assertThat(new Report(results(figure("rocks", "stall", 1.0)), directory).html())
                .contains("slowest request over time: rocks, round 1")
                .contains("slowest request over time: rocks, round 2")
                .contains("pauses: 2, together 20 ms, longest 19.5 ms")
                .doesNotContain("NaN");
    }

    /** Also of a closed loop, which has no slowest requests over time. */
    @Test
    void longPausesAreListedByReason() throws IOException {
        Timeline line =
                new Timeline(
                        4,
                        List.of(),
                        List.of(
                                new Timeline.Pause(1, 5.5, "ZMarkStart"),
                                new Timeline.Pause(2, 19.5, "G1CollectForAllocation"),
                                new Timeline.Pause(3, 5, "Cleanup")));
        line.write(directory.resolve("emp-local-G1-openLoop-rocks-1-timeline.txt"));
        line.write(directory.resolve("emp-local-G1-openLoop-rocks-2-timeline.txt"));
        new Timeline(4, List.of(), List.of(new Timeline.Pause(3, 5, "Cleanup")))
                .write(directory.resolve("emp-local-G1-openLoop-legacy-1-timeline-30.txt"));
        Report report =
                new Report(
                        results(
                                figure("rocks", "stall", 1.0),
                                figure("legacy", "rate at 30 %", 1000.0),
                                figure("bare", "stall", 1.0)),
                        directory);
        assertThat(report.markdown())
                .contains(
                        """
                        Pauses above 5 ms, of all rounds:

                        - rocks: G1CollectForAllocation 2, longest 19.5 ms; ZMarkStart 2, longest 5.50 ms
                        - legacy: none
                        """)
                .doesNotContain("- bare");
        assertThat(report.html())
                .contains("<br>rocks: G1CollectForAllocation 2, longest 19.5 ms;")
                .doesNotContain("slowest request over time");
    }

    @Test
    void eachRateOfLiveNodesHasItsTimeLine() throws IOException {
        new Timeline(4, List.of(100.0), List.of())
                .write(directory.resolve("emp-local-G1-openLoop-rocks-1-timeline-30.txt"));
        assertThat(new Report(results(figure("rocks", "rate at 30 %", 1000.0)), directory).html())
                .contains("slowest request over time: rocks, round 1 at 30 %");
    }

    @Test
    void resultsComeBackAsTheyWereWritten() throws IOException {
        Results results = results(figure("rocks", "read P99", 1.5, 2.5));
        Path file = directory.resolve("results.json");
        results.write(file);
        assertThat(Results.read(file)).isEqualTo(results);
        assertThat(file).content().contains("\"median\" : 2.0", "\"max\" : 2.5");
        Files.writeString(file, Files.readString(file).replace("\"schema\" : 3", "\"schema\" : 9"));
        assertThatThrownBy(() -> Results.read(file)).hasMessageContaining("schema 9");
    }

    @Test
    void twoFilesAreComparedMetricByMetric() {
        String text =
                Report.comparison(
                        results(figure("rocks", "a", 1.0, 2.0), figure("rocks", "b", 1.0)),
                        results(figure("rocks", "a", 4.0, 5.0), figure("rocks", "c", 1.0)));
        assertThat(text.lines()).singleElement().asString().contains("3.00x (?)");
        assertThat(Report.comparison(results(), results())).contains("no figure in common");
    }

    @Test
    void ofIncompleteResultsThereAreNoRatios() throws IOException {
        Results whole =
                results(
                        figure("rocks", "read P99", 90.0, 110.0, 100.0, 95.0),
                        figure("legacy-latest", "read P99", 200.0, 190.0, 230.0, 200.0));
        Results incomplete =
                new Results(
                        whole.started(),
                        "emp-local-G1-read-rocks, round 5 failed: <no room>",
                        whole.machine(),
                        whole.settings(),
                        whole.figures());
        assertThat(new Report(whole, directory).markdown()).doesNotContain("ncomplete");
        Report report = new Report(incomplete, directory);
        assertThat(report.markdown())
                .contains("**Incomplete**", "read-rocks, round 5 failed: <no room>")
                .contains("| read P99 (us) | 97.5 (90.0–110) | incomplete | 200 (190–230) |  |")
                .doesNotContain("×");
        assertThat(report.html())
                .contains("<b>Incomplete</b>", "round 5 failed: &lt;no room&gt;")
                .doesNotContain("×");
        assertThat(Report.comparison(whole, incomplete).lines())
                .hasSize(2)
                .allSatisfy(line -> assertThat(line).endsWith("incomplete"));
        Path file = directory.resolve("results.json");
        incomplete.write(file);
        assertThat(Results.read(file).isComplete()).isFalse();
    }

    @Test
    void aRatioOfEnginesThatWereNotWarmSaysSo() throws IOException {
        Results results =
                results(
                        figure("rocks", "read P99", 90.0),
                        warmUp("rocks", 0),
                        figure("legacy-latest", "read P99", 200.0),
                        warmUp("legacy-latest", 1));
        assertThat(new Report(results, directory).markdown())
                .contains("| read P99 (us) | 90.0 | 0.45× (?) (not warm) | 200 |  |");
    }

    private static Figure warmUp(String engine, double rounds) {
        return new Figure(
                "emp",
                "local",
                "openLoop",
                "G1",
                engine,
                WarmUp.UNSTEADY,
                "rounds",
                List.of(rounds));
    }

    @Test
    void whatDidNotKeepUpIsNotCompared() {
        Results kept =
                results(
                        rate("rocks", 25, 1000.0),
                        asked("rocks", 1000.0),
                        figure("rocks", "P99 at 25 %", 90.0));
        Results not =
                results(
                        rate("rocks", 25, 500.0),
                        asked("rocks", 1000.0),
                        figure("rocks", "P99 at 25 %", 90_000.0));
        assertThat(Report.comparison(kept, not).lines())
                .allSatisfy(line -> assertThat(line).endsWith("did not keep up"))
                .hasSize(3);
    }
}
