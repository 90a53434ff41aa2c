// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.SortedSet;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;

final class MainTest {
    @TempDir private Path dir;

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();
    private final CommandLine petra =
            Main.commandLine(new PrintWriter(out, true), new PrintWriter(err, true));

    @ParameterizedTest
    @ValueSource(
            strings = {
                "run",
                "stop",
                "nodetool",
                "cql",
                "compare",
                "weave",
                "install",
                "uninstall"
            })
    void everyCommandHelpsAndKnowsItsVersion(String command) {
        assertThat(petra.execute(command, "--help")).isZero();
        assertThat(petra.execute(command, "--version")).isZero();

        assertThat(out.toString()).contains("Usage: petra " + command, "for Cassandra 5.0");
        assertThat(err.toString()).isEmpty();
    }

    @Test
    void aShadowIsMadeAnewByTheNameOfItsTable() {
        assertThat(petra.execute("shadow", "anew", "t")).isNotZero();
        assertThat(err.toString()).contains("'t' is not a table: <keyspace>.<table>");
    }

    /** Not only the one that the plugin is built with. */
    @Test
    void theVersionNamesTheReleasesThatThePluginKnows() throws IOException {
        SortedSet<String> known = new TreeSet<>();
        Path file =
                Path.of(
                        "../cassandra/src/main/resources/dev/petra/cassandra/agent/fingerprints.txt");
        for (String line : Files.readAllLines(file))
            if (!line.isBlank() && !line.startsWith("#"))
                known.addAll(List.of(line.split(" ", 3)[1].split(",", -1)));

        assertThat(petra.execute("--version")).isZero();

        assertThat(known).hasSizeGreaterThan(3);
        assertThat(out.toString().strip()).endsWith(", for Cassandra " + String.join(", ", known));
    }

    /**
     * The list of commands shows the first paragraph of each: it must consist of whole sentences.
     */
    @Test
    void noTextOfTheHelpEndsInTheMiddleOfASentence() {
        List<CommandLine> commands = new ArrayList<>();
        addWithSubcommands(petra, commands);
        assertThat(commands).hasSizeGreaterThan(10);
        for (CommandLine command : commands) {
            String help = words(command.getUsageMessage());
            for (CommandLine listed : command.getSubcommands().values()) {
                if (listed.getCommandSpec().usageMessage().hidden()) continue;
                String first = listed.getCommandSpec().usageMessage().description()[0];
                assertThat(first).endsWith(".");
                assertThat(help).contains(words(first));
            }
            CommandSpec spec = command.getCommandSpec();
            for (String paragraph : spec.usageMessage().description())
                assertThat(help).contains(words(paragraph));
            for (ArgSpec argument : spec.args())
                assertThat(words(String.join(" ", argument.description())))
                        .describedAs(spec.qualifiedName() + " " + argument.paramLabel())
                        .endsWith(".");
        }
    }

    private static void addWithSubcommands(CommandLine command, List<CommandLine> to) {
        to.add(command);
        command.getSubcommands().values().forEach(each -> addWithSubcommands(each, to));
    }

    /** The text with each line break and run of spaces as one space. */
    private static String words(String text) {
        return text.strip().replaceAll("\\s+", " ");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "xyzzy",
                "run --bogus",
                "run extra",
                "run --port x",
                "run --heap 1x",
                "stop --timeout 5",
                "cql",
                "cql a -f b",
                "cql --bogus a",
                "cluster",
                "cluster up --nodes 0",
                "cluster decommission",
                "cluster decommission x",
                "weave --in a.jar",
                "install",
                "install --cassandra a --yes --dry-run",
                "uninstall --yes"
            })
    void aWrongCommandLineIsAnErrorWithoutAStackTrace(String line) {
        int exitCode = petra.execute(line.isEmpty() ? new String[0] : line.split(" ", -1));

        assertThat(exitCode).isEqualTo(2);
        assertThat(out.toString()).isEmpty();
        assertThat(err.toString()).contains("Usage: petra").doesNotContain("\tat ");
    }

    @Test
    void whatTheUserCanMendIsOneLine() {
        int exitCode = petra.execute("stop", "--dir", dir.toString());

        assertThat(exitCode).isEqualTo(1);
        assertThat(err.toString()).startsWith("petra: no node runs in ").hasLineCount(1);
    }

    @Test
    void anInstallationThatIsNoneIsOneLine() {
        int exitCode = petra.execute("uninstall", "--cassandra", dir.toString(), "--dry-run");

        assertThat(exitCode).isEqualTo(1);
        assertThat(err.toString())
                .startsWith("petra: " + dir + " has no folder lib: ")
                .hasLineCount(1);
    }

    @Test
    void anUnterminatedStringIsFoundBeforeAnythingIsSent() {
        int exitCode = petra.execute("cql", "--port", "1", "SELECT 1; SELECT 'x");

        assertThat(exitCode).isEqualTo(1);
        assertThat(err.toString())
                .isEqualToIgnoringNewLines(
                        "petra: unterminated string that starts at line 1, column 18");
    }

    @Test
    void nodetoolIsGivenEverythingThatIsNotOurs() {
        assertThat(positional("nodetool", "--dir", "d", "tablestats", "-F", "json", "--", "ks.t"))
                .containsExactly("tablestats", "-F", "json", "--", "ks.t");
        assertThat(positional("nodetool", "-pp", "-h", "h", "status", "--dir", "x", "--help"))
                .containsExactly("-pp", "-h", "h", "status", "--dir", "x", "--help");
    }

    private List<String> positional(String... line) {
        CommandLine.ParseResult parsed = petra.parseArgs(line).subcommand();
        return Objects.requireNonNull(parsed).matchedPositionalValue(0, List.of());
    }
}
