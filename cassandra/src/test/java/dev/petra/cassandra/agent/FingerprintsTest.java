// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

class FingerprintsTest {
    private static final String HEAD =
            """
            # What the method of each join point is like in each release of Cassandra that Petra knows.
            # FingerprintsTest writes this file anew, into target.
            """;

    /** Fails when a join point was added and {@code fingerprints.txt} does not have it yet. */
    @Test
    void theFileIsThatOfTheReleases() throws IOException {
        Map<String, Map<String, String>> found = new TreeMap<>();
        for (Map.Entry<String, Path> jar : KnownReleases.jars().entrySet())
            found.put(jar.getKey(), Fingerprints.of(KnownReleases.classes(jar.getValue())));
        String text = text(found);
        Path written = Path.of("target", "fingerprints.txt").toAbsolutePath();
        Files.writeString(written, text);
        assertThat(
                        Files.readString(
                                Path.of(
                                        "src/main/resources/dev/petra/cassandra/agent",
                                        "fingerprints.txt")))
                .as("copy " + written + " over it, when you have seen what differs")
                .isEqualTo(text);
        assertThat(Fingerprints.known().releases()).isEqualTo(found);
        assertThat(found.keySet()).contains("5.0.6", "5.0.7", "5.0.8", "5.0.9");
    }

    private static String text(Map<String, Map<String, String>> releases) {
        StringBuilder text = new StringBuilder(HEAD);
        for (JoinPoint point : JoinPoints.ALL) {
            Map<String, List<String>> byFingerprint = new TreeMap<>();
            releases.forEach(
                    (release, points) -> {
                        String fingerprint = points.get(point.toString());
                        if (fingerprint != null)
                            byFingerprint
                                    .computeIfAbsent(fingerprint, f -> new ArrayList<>())
                                    .add(release);
                    });
            byFingerprint.forEach(
                    (fingerprint, in) ->
                            text.append(fingerprint)
                                    .append(' ')
                                    .append(String.join(",", in))
                                    .append(' ')
                                    .append(point)
                                    .append('\n'));
        }
        return text.toString();
    }
}
