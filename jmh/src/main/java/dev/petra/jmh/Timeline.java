// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * A loop over time.
 *
 * @param seconds how long it ran
 * @param slowest of an open loop: the slowest request of each piece of that time, in microseconds;
 *     0 for none
 * @param pauses of the engine's processes
 */
record Timeline(double seconds, List<Double> slowest, List<Pause> pauses) {
    /**
     * A pause.
     *
     * @param at when it ended, in seconds since the loop began
     * @param millis how long it was
     * @param reason the JVM's name for it
     */
    record Pause(double at, double millis, String reason) {}

    Timeline {
        slowest = List.copyOf(slowest);
        pauses = List.copyOf(pauses);
    }

    /**
     * Of what was measured from a moment until now.
     *
     * @param slowest as {@link OpenLoop#slowest}; empty of other loops
     */
    static Timeline since(Probe.Moment from, Probe probe, double seconds, AtomicLongArray slowest) {
        return new Timeline(
                seconds,
                micros(slowest),
                probe.pauses(from, probe.now()).stream()
                        .map(
                                pause ->
                                        new Pause(
                                                (pause.millis() - from.millis()) / 1000.0,
                                                pause.nanos() / 1e6,
                                                pause.reason()))
                        .toList());
    }

    private static List<Double> micros(AtomicLongArray nanos) {
        List<Double> micros = new ArrayList<>();
        for (int i = 0; i < nanos.length(); i++) micros.add(nanos.get(i) / 1000.0);
        return micros;
    }

    /** As lines of text: the seconds, a line for each piece, and one for each pause. */
    void write(Path file) throws IOException {
        List<String> lines = new ArrayList<>();
        lines.add("seconds " + seconds);
        slowest.forEach(micros -> lines.add("slowest " + micros));
        pauses.forEach(
                pause -> lines.add("pause " + pause.at + " " + pause.millis + " " + pause.reason));
        Files.write(file, lines);
    }

    static Timeline read(Path file) throws IOException {
        double seconds = 0;
        List<Double> slowest = new ArrayList<>();
        List<Pause> pauses = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            String[] words = line.split(" ", 4);
            switch (words[0]) {
                case "seconds" -> seconds = Double.parseDouble(words[1]);
                case "slowest" -> slowest.add(Double.parseDouble(words[1]));
                case "pause" ->
                        pauses.add(
                                new Pause(
                                        Double.parseDouble(words[1]),
                                        Double.parseDouble(words[2]),
                                        words[3]));
                default -> throw new IOException(file + " has an unknown line: " + line);
            }
        }
        return new Timeline(seconds, slowest, pauses);
    }
}
