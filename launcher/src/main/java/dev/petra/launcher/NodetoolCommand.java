// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** {@code petra nodetool}: runs Cassandra's nodetool and passes all arguments on. */
@Command(
        name = "nodetool",
        description = "Runs Cassandra's nodetool against the node of a directory.")
final class NodetoolCommand implements Callable<Integer> {
    @Option(
            names = "--dir",
            paramLabel = "DIR",
            defaultValue = "petra-data",
            description = "The node's directory, before all else; default: ${DEFAULT-VALUE}.")
    private Path dir = Path.of("petra-data");

    @Parameters(paramLabel = "ARG", description = "What nodetool is given; 'help' lists it.")
    private List<String> arguments = new ArrayList<>();

    @Override
    public Integer call() {
        return new NodeTool(Distribution.fromSystemProperty(), new NodeDirectory(dir))
                .runInherited(arguments);
    }
}
