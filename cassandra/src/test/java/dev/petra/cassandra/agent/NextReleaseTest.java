// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** {@code docs/cassandra-6.md} says what the next major release lacks, and nothing that it has. */
class NextReleaseTest {
    private static final Path PAGE = Path.of("../docs/cassandra-6.md");

    private static final Pattern QUOTED = Pattern.compile("`([^`]+)`");

    /** The jar of that release, which the build has put there. */
    static Path jar() throws IOException {
        try (DirectoryStream<Path> jars =
                Files.newDirectoryStream(Path.of("target", "next"), "cassandra-all-6.*.jar")) {
            return jars.iterator().next();
        }
    }

    @Test
    void thePageNamesTheReleaseThatItIsOf() throws IOException {
        assertThat(Files.readString(PAGE))
                .contains("Cassandra " + Release.of(KnownReleases.classes(jar())));
    }

    /** What {@link Weaving#absence} says in a process of that release. */
    static final class Absence {
        public static void main(String[] arguments) {
            System.out.println(Weaving.absence());
        }
    }

    /** The plugin jar in its lib, as an operator who leaves the agent out because it refuses. */
    @Test
    void withoutTheAgentThePluginRefusesItWithTheSameReason() throws Exception {
        String own = System.getProperty("java.class.path");
        Process process =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-cp",
                                jar() + File.pathSeparator + own,
                                Absence.class.getName())
                        .redirectErrorStream(true)
                        .start();
        String said =
                new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
        assertThat(process.waitFor()).as(said).isZero();
        assertThat(said)
                .isEqualTo(JoinPoints.refusal(KnownReleases.classes(jar())))
                .startsWith("Cassandra 6.0-")
                .contains("docs/cassandra-6.md");
    }

    @Test
    void thePageListsTheJoinPointsThatItLacks() throws IOException {
        assertThat(listed("Join points that it lacks").keySet())
                .containsExactlyInAnyOrderElementsOf(
                        JoinPoints.missing(KnownReleases.classes(jar())).stream()
                                .map(each -> each.replace("org.apache.cassandra.", ""))
                                .toList());
    }

    /** The second column says which of our classes need it. */
    @Test
    void thePageListsWhatElseItLacks() throws IOException {
        Map<String, String> lacking = new TreeMap<>();
        for (Map.Entry<String, NavigableSet<String>> each : Linkage.lacking(jar()).entrySet())
            lacking.put(each.getKey(), String.join(", ", each.getValue()));
        assertThat(listed("What else it lacks")).isEqualTo(lacking);
    }

    /**
     * What can be asked of {@code Host} is. These implement interfaces of Cassandra's, so that each
     * host has its own form of them; offline tools are of one host as a whole.
     */
    @Test
    void allOtherClassesGoByTheHost() throws IOException {
        Set<String> needing = new TreeSet<>();
        Linkage.lacking(jar()).values().forEach(needing::addAll);
        needing.removeIf(each -> each.matches("cassandra\\.(host|bulkload|agent\\.advice)\\..*"));
        assertThat(needing)
                .containsExactlyInAnyOrder(
                        "cassandra.PetraMemtable",
                        "cassandra.repair.PetraRepairManager",
                        "cassandra.shadow.Comparison",
                        "cassandra.shadow.LateWrites",
                        "cassandra.shadow.ShadowFactory",
                        "cassandra.sstable.StoreScanner",
                        "cassandra.streaming.FollowedStream",
                        "cassandra.streaming.PetraStreamManager",
                        "cassandra.streaming.PetraStreamReceiver",
                        "cassandra.streaming.SSTableSlice",
                        "cassandra.streaming.SliceStream");
    }

    /** The quoted words of the first and of the second column of a section's tables. */
    private static Map<String, String> listed(String section) throws IOException {
        Map<String, String> listed = new TreeMap<>();
        boolean isIn = false;
        for (String line : Files.readAllLines(PAGE)) {
            if (line.startsWith("## ")) isIn = line.equals("## " + section);
            if (!isIn || !line.startsWith("| `")) continue;
            String[] columns = line.split(" \\| ", 3);
            String by = String.join(", ", quoted(columns[1]));
            for (String each : quoted(columns[0])) listed.put(each, by);
        }
        return listed;
    }

    private static List<String> quoted(String column) {
        return QUOTED.matcher(column)
                .results()
                .map((MatchResult each) -> each.group(1))
                .collect(Collectors.toList());
    }
}
