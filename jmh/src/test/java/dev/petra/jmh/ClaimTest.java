// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

class ClaimTest {
    @TempDir Path directory;
    private final String temporary = System.getProperty("java.io.tmpdir");

    /** Where no run of this machine's user locks anything. */
    @BeforeEach
    void ownTemporaryFiles() throws IOException {
        System.setProperty(
                "java.io.tmpdir", Files.createDirectory(directory.resolve("tmp")).toString());
    }

    @AfterEach
    void temporaryFiles() {
        System.setProperty("java.io.tmpdir", temporary);
        System.clearProperty("petra.bench.beside");
    }

    private static String refusal(CommandLine command, String... arguments) {
        StringWriter told = new StringWriter();
        command.setErr(new PrintWriter(told));
        assertThat(command.execute(arguments)).isEqualTo(2);
        return told.toString();
    }

    /** As with {@code --out=.} in a project of one's own. */
    @ParameterizedTest
    @ValueSource(strings = {"work", "histograms"})
    void directoriesOfSomebodyElseAreNotDeleted(String name) throws IOException {
        Path own = Files.createDirectory(directory.resolve(name));
        Path file = Files.writeString(own.resolve("thesis"), "mine");
        Path schema =
                Files.writeString(
                        directory.resolve("s.cql"), "CREATE TABLE ks.t (k int PRIMARY KEY)");
        assertThat(refusal(Bench.command(), "--out=" + directory))
                .contains(own + " is not from an earlier run", "--out");
        assertThat(
                        refusal(
                                Replay.command(),
                                "--log=" + directory,
                                "--schema=" + schema,
                                "--out=" + directory))
                .contains(own + " is not from an earlier run", "--out");
        assertThat(file).hasContent("mine");
        // Nor by a link to it from elsewhere.
        Path out = Files.createDirectory(directory.resolve("out"));
        Files.writeString(own.resolve(Claim.MARK), "");
        Files.createSymbolicLink(out.resolve(name), own);
        assertThatThrownBy(() -> Claim.of(out)).hasMessageContaining("not from an earlier run");
        assertThat(file).hasContent("mine");
    }

    @Test
    void whatAnEarlierRunLeftIsDeleted() throws IOException {
        Path out = directory.resolve("new/out");
        Path work = Claim.work(out);
        Path histograms = Claim.histograms(out);
        for (int run = 1; run <= 2; run++)
            try (Claim claim = Claim.of(out)) {
                claim.begin();
                assertThat(work.resolve("rows")).doesNotExist();
                assertThat(histograms.resolve("round")).doesNotExist();
                Files.createFile(work.resolve("rows"));
                Files.createFile(histograms.resolve("round"));
                if (run == 2) claim.end();
            }
        assertThat(work).doesNotExist();
        assertThat(histograms.resolve("round")).exists();
    }

    /** As of a run that was ended before it had marked its directory. */
    @Test
    void anEmptyDirectoryIsDeleted() throws IOException {
        Path out = directory.resolve("out");
        Files.createDirectories(Claim.work(out));
        try (Claim claim = Claim.of(out)) {
            claim.begin();
        }
    }

    /** Or the next run would take what is left for somebody else's. */
    @Test
    void theMarkIsDeletedLast() throws IOException {
        Path out = directory.resolve("out");
        Path work = Claim.work(out);
        try (Claim claim = Claim.of(out)) {
            claim.begin();
            // Names that are in front of the mark's and behind it.
            for (String name : List.of("legacy", "rocks")) Files.createFile(work.resolve(name));
            assertThat(Claim.children(work)).hasSize(3).last().isEqualTo(work.resolve(Claim.MARK));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"results.json", "answers.md", "report.md", "report.html"})
    void resultsAreNotWrittenOver(String name) throws IOException {
        Files.writeString(directory.resolve(name), "mine");
        assertThat(refusal(Bench.command(), "--out=" + directory)).contains("has results already");
        assertThat(directory.resolve(name)).hasContent("mine");
    }

    @Test
    void aSecondRunOnThisMachineIsRefused() throws Exception {
        Path other = directory.resolve("other");
        try (Claim claim = Claim.of(directory.resolve("out"))) {
            assertThat(claim).isNotNull();
            Process second =
                    new ProcessBuilder(
                                    Path.of(System.getProperty("java.home"), "bin", "java")
                                            .toString(),
                                    "-cp",
                                    System.getProperty("java.class.path"),
                                    "-Djava.io.tmpdir=" + System.getProperty("java.io.tmpdir"),
                                    Bench.class.getName(),
                                    "--out=" + other)
                            .redirectErrorStream(true)
                            .start();
            String told = new String(second.getInputStream().readAllBytes(), UTF_8);
            assertThat(second.waitFor()).describedAs(told).isEqualTo(2);
            assertThat(told).contains("is running on this machine", "wait");
            assertThat(other).doesNotExist();
        }
    }

    @Test
    void twoRunsThatWriteToOneDirectoryAreRefused() throws IOException {
        System.setProperty("petra.bench.beside", "true");
        try (Claim first = Claim.of(directory)) {
            assertThat(first).isNotNull();
            assertThatThrownBy(() -> Claim.of(directory))
                    .hasMessageContaining("another run writes to " + directory);
            try (Claim second = Claim.of(directory.resolve("other"))) {
                assertThat(second).isNotNull();
            }
        }
        assertThat(List.of(Claim.work(directory), Claim.histograms(directory)))
                .noneMatch(Files::exists);
    }
}
