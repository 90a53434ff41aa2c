// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/** What follows {@code cassandra} on the command line of a container. */
final class ContainerCommandTest {
    private static List<String> parsed(String... arguments) {
        PrintWriter unread = new PrintWriter(new StringWriter());
        String[] line =
                ("container --dir d --arguments a -- " + String.join(" ", arguments))
                        .strip()
                        .split(" ", -1);
        CommandLine.ParseResult command =
                Main.commandLine(unread, unread).parseArgs(line).subcommand();
        return Objects.requireNonNull(command).matchedPositionalValue(0, List.of());
    }

    /** They were dropped, and a node that was to replace another joined besides it. */
    @Test
    void optionsOfTheJvmAreKept() {
        String replaced = "-Dcassandra.replace_address_first_boot=10.0.0.5";
        assertThat(ContainerCommand.forTheJvm(parsed("-R", "-f", replaced, "-Xlog:gc")))
                .containsExactly(replaced, "-Xlog:gc");
        assertThat(ContainerCommand.forTheJvm(parsed())).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(strings = {"-p", "-D", "-X", "-Xmx1g", "-Xms1g", "-H", "pid", "--dir", ""})
    void othersAreRefusedByName(String argument) {
        assertThatThrownBy(() -> ContainerCommand.forTheJvm(List.of("-f", argument)))
                .isInstanceOf(NodeException.class)
                .hasMessageStartingWith("'" + argument + "' is no argument of this image")
                .hasMessageContaining("JVM_EXTRA_OPTS");
    }
}
