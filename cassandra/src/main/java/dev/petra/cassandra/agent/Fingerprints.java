// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/**
 * The fingerprints of the join points' methods in each Cassandra release that Petra knows.
 *
 * @param releases by release the fingerprints by join point
 */
record Fingerprints(NavigableMap<String, Map<String, String>> releases) {
    private static final String FILE = "fingerprints.txt";

    /**
     * How a Cassandra compares with the known release that is most like it.
     *
     * @param closest that release
     * @param changed the methods with join points whose code differs from that release
     */
    record Comparison(String closest, List<String> changed) {
        Comparison {
            changed = List.copyOf(changed);
        }
    }

    /** Reads the fingerprints of the known releases from {@code fingerprints.txt}. */
    static Fingerprints known() {
        try (InputStream file = Fingerprints.class.getResourceAsStream(FILE)) {
            if (file == null) throw new IllegalStateException(FILE + " is missing");
            return parse(new String(file.readAllBytes(), StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw new UncheckedIOException(FILE + " cannot be read", e);
        }
    }

    /** Reads lines that consist of a fingerprint, the releases that have it, and the join point. */
    static Fingerprints parse(String text) {
        NavigableMap<String, Map<String, String>> all = new TreeMap<>();
        text.lines()
                .filter(line -> !line.isBlank() && !line.startsWith("#"))
                .forEach(
                        line -> {
                            String[] fields = line.split(" ", 3);
                            for (String release : fields[1].split(",", -1))
                                all.computeIfAbsent(release, r -> new HashMap<>())
                                        .put(fields[2], fields[0]);
                        });
        return new Fingerprints(all);
    }

    /** The fingerprints of one Cassandra by join point, without the methods that it lacks. */
    static Map<String, String> of(ClassFiles cassandra) {
        Map<String, byte[]> files = new HashMap<>();
        Map<String, String> all = new HashMap<>();
        for (JoinPoint point : JoinPoints.in(cassandra)) {
            byte[] file = files.computeIfAbsent(point.type(), cassandra::find);
            String fingerprint = file == null ? null : Fingerprint.of(file, point);
            if (fingerprint != null) all.put(point.toString(), fingerprint);
        }
        return all;
    }

    /**
     * Compares a Cassandra with all known releases and returns the comparison with the fewest
     * changed methods.
     *
     * @param release the {@link Release} of the Cassandra, which is preferred among equals
     */
    Comparison compare(ClassFiles cassandra, String release) {
        Map<String, String> found = of(cassandra);
        return releases.descendingMap().entrySet().stream()
                .map(known -> new Comparison(known.getKey(), changed(known.getValue(), found)))
                .min(
                        Comparator.<Comparison>comparingInt(c -> c.changed().size())
                                .thenComparing(c -> !c.closest().equals(release)))
                .orElseThrow();
    }

    private static List<String> changed(Map<String, String> known, Map<String, String> found) {
        List<String> changed = new ArrayList<>();
        for (JoinPoint point : JoinPoints.ALL) {
            String name = point.toString();
            String expected = known.get(name);
            String is = found.get(name);
            if (is == null ? expected != null : !is.equals(expected)) changed.add(name);
        }
        return changed;
    }
}
