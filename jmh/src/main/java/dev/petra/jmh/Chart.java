// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.Collection;
import java.util.DoubleSummaryStatistics;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.NavigableMap;
import java.util.function.DoubleFunction;
import java.util.function.DoubleUnaryOperator;

/** Charts as SVG: nothing is loaded from elsewhere. */
final class Chart {
    private static final int WIDTH = 460;
    private static final int BAR = 26;
    private static final int LABELS = 100;
    private static final int HEIGHT = 260;
    private static final int LEFT = 60;
    private static final int BOTTOM = 30;
    private static final int TOP = 46;

    /** Told apart by those who see no red or green, too. */
    private static final Map<String, String> COLOURS =
            Map.of(
                    "rocks",
                    "#0072b2",
                    "rocks-woven",
                    "#56b4e9",
                    "legacy",
                    "#999999",
                    "legacy-latest",
                    "#e69f00",
                    "legacy-latest-cache",
                    "#cc79a7",
                    "legacy-latest-shadow",
                    "#d55e00",
                    "legacy-latest-fallback",
                    "#f0e442",
                    "bare",
                    "#009e73");

    private static final double[] PERCENTILES = {0, 0.5, 0.9, 0.99, 0.999, 0.9999};
    private static final String[] NAMES = {"0", "50", "90", "99", "99.9", "99.99"};

    /** Points are drawn where there are no more of them. */
    private static final int FEW = 10;

    private Chart() {}

    private static String colour(String engine) {
        return COLOURS.getOrDefault(engine.split(",", 2)[0], "#444444");
    }

    private static String head(String title, int height) {
        return "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\"><text x=\"0\" y=\"15\" style=\"font-weight:600\">%s</text>"
                .formatted(WIDTH, height, WIDTH, height, Report.escape(title));
    }

    static String number(double value) {
        return String.format(
                        Locale.ROOT,
                        value >= 100 || value == 0 ? "%,.0f" : value >= 1 ? "%.1f" : "%.3f",
                        value)
                .replaceFirst("\\.0$", "");
    }

    /** Microseconds, as people say them. */
    static String time(double micros) {
        if (micros >= 1e6) return number(micros / 1e6) + " s";
        return micros >= 1000 ? number(micros / 1000) + " ms" : number(micros) + " µs";
    }

    /** Bytes, as people say them. */
    static String bytes(double bytes) {
        if (bytes >= 1e6) return number(bytes / 1e6) + " MB";
        return bytes >= 1000 ? number(bytes / 1000) + " KB" : number(bytes) + " B";
    }

    /** A bar for each engine, with a line from the least to the most. */
    static String bars(String title, List<Figure> figures) {
        double most = figures.stream().mapToDouble(Figure::max).max().orElse(0);
        double scale = most == 0 ? 0 : (WIDTH - LABELS - 80) / most;
        StringBuilder svg = new StringBuilder(head(title, 26 + BAR * figures.size()));
        int y = 24;
        for (Figure figure : figures) {
            double width = figure.median() * scale;
            double middle = y + BAR / 2.0 - 3;
            svg.append(
                    String.format(
                            Locale.ROOT,
                            "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
                            LABELS - 6,
                            middle + 5,
                            Report.escape(figure.engine())));
            svg.append(
                    String.format(
                            Locale.ROOT,
                            "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>",
                            LABELS,
                            y,
                            Math.max(1, width),
                            BAR - 6,
                            colour(figure.engine())));
            if (figure.values().size() > 1)
                svg.append(
                        String.format(
                                Locale.ROOT,
                                "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#222\" stroke-width=\"2\"/>",
                                LABELS + figure.min() * scale,
                                middle,
                                LABELS + figure.max() * scale));
            svg.append(
                    String.format(
                            Locale.ROOT,
                            "<text x=\"%.1f\" y=\"%.1f\">%s</text>",
                            LABELS + figure.max() * scale + 6,
                            middle + 5,
                            number(figure.median())));
            y += BAR;
        }
        return svg + "</svg>";
    }

    /** Latency by percentile: both axes logarithmic, the percentiles by their distance from 100. */
    static String percentiles(String title, Map<String, NavigableMap<Double, Double>> curves) {
        Map<Double, String> ticks = new LinkedHashMap<>();
        for (int i = 0; i < PERCENTILES.length; i++) ticks.put(PERCENTILES[i], "P" + NAMES[i]);
        return curves(title, curves, ticks, Chart::nines, Chart::time);
    }

    /**
     * A curve for each engine, the upright axis logarithmic, the other from 0.
     *
     * @param unit says a value of the upright axis
     */
    static String curves(
            String title,
            Map<String, NavigableMap<Double, Double>> curves,
            DoubleFunction<String> unit) {
        double most = curves.values().stream().mapToDouble(NavigableMap::lastKey).max().orElse(1);
        double step = Math.pow(10, Math.floor(Math.log10(most)));
        if (most / step < 2.5) step /= 2;
        if (most / step > 5) step *= 2;
        Map<Double, String> ticks = new LinkedHashMap<>();
        for (double tick = 0; tick <= most; tick += step) ticks.put(tick, number(tick));
        return curves(title, curves, ticks, value -> value / most, unit);
    }

    /**
     * @param share where on its axis a key lies, from 0 to 1
     */
    private static String curves(
            String title,
            Map<String, NavigableMap<Double, Double>> curves,
            Map<Double, String> ticks,
            DoubleUnaryOperator share,
            DoubleFunction<String> unit) {
        DoubleSummaryStatistics values =
                curves.values().stream()
                        .map(NavigableMap::values)
                        .flatMap(Collection::stream)
                        .mapToDouble(value -> value)
                        .filter(value -> value > 0)
                        .summaryStatistics();
        double least = values.getCount() == 0 ? 1 : values.getMin();
        double most = values.getCount() == 0 ? 1 : values.getMax();
        double bottom = Math.floor(Math.log10(least));
        double top = Math.ceil(Math.log10(Math.max(most, least * 1.1)));
        StringBuilder svg = new StringBuilder(head(title, HEIGHT));
        decades(svg, bottom, top, unit);
        ticks.forEach(
                (tick, name) -> {
                    double x = x(share.applyAsDouble(tick));
                    svg.append(
                            String.format(
                                    Locale.ROOT,
                                    "<path d=\"M%.1f %dV%d\" stroke=\"#ddd\"/><text x=\"%.1f\""
                                            + " y=\"%d\" text-anchor=\"middle\">%s</text>",
                                    x,
                                    TOP,
                                    HEIGHT - BOTTOM,
                                    x,
                                    HEIGHT - BOTTOM + 16,
                                    name));
                });
        int legend = LEFT;
        for (Map.Entry<String, NavigableMap<Double, Double>> curve : curves.entrySet()) {
            String colour = colour(curve.getKey());
            StringBuilder path = new StringBuilder();
            StringBuilder points = new StringBuilder();
            for (Map.Entry<Double, Double> point : curve.getValue().entrySet()) {
                double x = x(share.applyAsDouble(point.getKey()));
                // 0 has no place on such an axis.
                double y = y(Math.max(Math.pow(10, bottom), point.getValue()), bottom, top);
                path.append(
                        String.format(
                                Locale.ROOT, "%s%.1f %.1f", path.isEmpty() ? "M" : "L", x, y));
                if (curve.getValue().size() <= FEW)
                    points.append(
                            String.format(
                                    Locale.ROOT,
                                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>",
                                    x,
                                    y,
                                    colour));
            }
            svg.append(
                    "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>%s"
                            .formatted(path, colour, points));
            svg.append(
                    "<rect x=\"%d\" y=\"26\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%d\" y=\"37\">%s</text>"
                            .formatted(legend, colour, legend + 16, Report.escape(curve.getKey())));
            legend += 110;
        }
        return svg + "</svg>";
    }

    /**
     * One engine over time: the slowest request of each moment, and the pauses as ticks below, as
     * high as they are long.
     *
     * @param least the lower end of the scale, in microseconds; the same for all that are compared
     * @param most the upper end
     */
    static String timeline(String engine, Timeline line, double least, double most) {
        double bottom = Math.floor(Math.log10(least));
        double top = Math.ceil(Math.log10(Math.max(most, least * 1.1)));
        double seconds = Math.max(line.seconds(), 1e-3);
        StringBuilder svg = new StringBuilder(head("slowest request over time: " + engine, HEIGHT));
        decades(svg, bottom, top, Chart::time);
        StringBuilder path = new StringBuilder();
        for (int i = 0; i < line.slowest().size(); i++) {
            double micros = line.slowest().get(i);
            if (micros <= 0) continue;
            path.append(
                    String.format(
                            Locale.ROOT,
                            "%s%.1f %.1f",
                            path.isEmpty() ? "M" : "L",
                            LEFT + (i + 0.5) / line.slowest().size() * (WIDTH - LEFT),
                            y(Math.max(least, micros), bottom, top)));
        }
        svg.append(
                "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"/>"
                        .formatted(path, colour(engine)));
        for (Timeline.Pause pause : line.pauses())
            svg.append(
                    String.format(
                            Locale.ROOT,
                            "<path d=\"M%.1f %dv-%.1f\" stroke=\"#d00\" stroke-width=\"2\"/>",
                            LEFT + Math.min(1, pause.at() / seconds) * (WIDTH - LEFT),
                            HEIGHT - BOTTOM,
                            2 + Math.min(60, pause.millis() / 5)));
        svg.append(
                String.format(
                        Locale.ROOT,
                        "<text x=\"%d\" y=\"32\" style=\"fill:#d00\">pauses: %d, together %s ms,"
                                + " longest %s ms</text><text x=\"%d\" y=\"%d\">0 s</text><text"
                                + " x=\"%d\" y=\"%d\" text-anchor=\"end\">%s s</text>",
                        LEFT,
                        line.pauses().size(),
                        number(line.pauses().stream().mapToDouble(Timeline.Pause::millis).sum()),
                        number(
                                line.pauses().stream()
                                        .mapToDouble(Timeline.Pause::millis)
                                        .max()
                                        .orElse(0)),
                        LEFT,
                        HEIGHT - BOTTOM + 16,
                        WIDTH,
                        HEIGHT - BOTTOM + 16,
                        number(seconds)));
        return svg + "</svg>";
    }

    /** A line and its value for each power of ten. */
    private static void decades(
            StringBuilder svg, double bottom, double top, DoubleFunction<String> unit) {
        for (double decade = bottom; decade <= top; decade++) {
            double y = y(Math.pow(10, decade), bottom, top);
            svg.append(
                    String.format(
                            Locale.ROOT,
                            "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\""
                                    + " text-anchor=\"end\">%s</text>",
                            LEFT,
                            y,
                            WIDTH,
                            LEFT - 5,
                            y + 4,
                            unit.apply(Math.pow(10, decade))));
        }
    }

    /** Of five. */
    private static double nines(double percentile) {
        return -Math.log10(1 - Math.min(percentile, 0.99999)) / 5;
    }

    private static double x(double share) {
        return LEFT + 10 + share * (WIDTH - LEFT - 20);
    }

    private static double y(double value, double bottom, double top) {
        double share = (Math.log10(value) - bottom) / Math.max(1, top - bottom);
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP);
    }
}
