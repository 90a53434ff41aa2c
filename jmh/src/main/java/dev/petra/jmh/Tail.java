// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogReader;
import org.HdrHistogram.HistogramLogWriter;
import org.jspecify.annotations.Nullable;

/** Which percentiles a measurement is long enough for, and histograms that outlive it. */
final class Tail {
    /**
     * From how many seconds on the slowest of a thousand requests stand for more than one event.
     */
    static final double LEAST_SECONDS = 60;

    /** The name of the metric of all rounds together, where each is too short for itself. */
    static final String OF_ALL_ROUNDS = "P99.9 of all rounds";

    private static final double[] SHORT = {50, 90, 99, 100};
    private static final double[] LONG = {50, 90, 99, 99.9, 100};

    private Tail() {}

    /** Those to name of so many seconds. */
    static double[] percentiles(double seconds) {
        return (seconds >= LEAST_SECONDS ? LONG : SHORT).clone();
    }

    /** The kind of file of one of several rates, or of the only one. */
    static String kind(String requests, String at) {
        return requests + rate(at) + ".hlog";
    }

    /** The same, of a {@link Timeline}. */
    static String timeline(String at) {
        return "timeline" + rate(at) + ".txt";
    }

    private static String rate(String at) {
        return at.replaceAll("\\D+", "-").replaceFirst("-$", "");
    }

    /** The file of one round. */
    static Path file(Path histograms, String run, int round, String kind) {
        return histograms.resolve(run + "-" + round + "-" + kind);
    }

    /**
     * Writes a histogram of nanoseconds, as logs of HdrHistogram have it.
     *
     * @param seconds in which it was recorded
     */
    static void write(Path file, Histogram histogram, double seconds) throws IOException {
        try (PrintStream out =
                new PrintStream(Files.newOutputStream(file), false, StandardCharsets.UTF_8)) {
            HistogramLogWriter writer = new HistogramLogWriter(out);
            writer.outputLogFormatVersion();
            histogram.setStartTimeStamp(0);
            histogram.setEndTimeStamp(Math.round(seconds * 1000));
            writer.outputIntervalHistogram(histogram);
        }
    }

    /**
     * Reads what {@link #write} wrote of all rounds, as one.
     *
     * @return with the time of all of them between its time stamps; nothing if there is no file
     */
    static Optional<Histogram> merged(Path histograms, String run, String kind) throws IOException {
        Histogram all = null;
        for (int round = 1; ; round++) {
            Path file = file(histograms, run, round, kind);
            if (!Files.exists(file)) return Optional.ofNullable(all);
            all = plus(all, read(file));
        }
    }

    /** Reads what {@link #write} wrote. */
    static Histogram read(Path file) throws IOException {
        try (HistogramLogReader reader = new HistogramLogReader(file.toFile())) {
            if (reader.nextIntervalHistogram() instanceof Histogram histogram) return histogram;
        }
        throw new IOException(file + " has no histogram");
    }

    /** Both, and the time of both. */
    static Histogram plus(@Nullable Histogram all, Histogram more) {
        if (all == null) return more.copy();
        double seconds = seconds(all) + seconds(more);
        all.add(more);
        all.setStartTimeStamp(0);
        all.setEndTimeStamp(Math.round(seconds * 1000));
        return all;
    }

    /** In which it was recorded. */
    static double seconds(Histogram histogram) {
        return (histogram.getEndTimeStamp() - histogram.getStartTimeStamp()) / 1000.0;
    }
}
