// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/**
 * {@code petra weave}: weaves the join points into Cassandra's jar, for nodes without the agent.
 */
@Command(
        name = "weave",
        description = {
            "Writes Petra's join points into the classes of a Cassandra jar, for nodes without the"
                    + " agent.",
            "",
            "Cassandra's libraries are looked up beside the jar, in lib there, and in"
                    + " CASSANDRA_HOME.",
            "",
            "Such a node needs the plugin jar in lib, of the same version, and no -javaagent. The"
                    + " output says what was woven."
        })
final class WeaveCommand implements Callable<Integer> {
    private static final String MAIN = "dev.petra.cassandra.agent.WeaveCommand";

    @Option(
            names = "--in",
            paramLabel = "JAR",
            required = true,
            description = "Cassandra's own jar, such as lib/apache-cassandra-5.0.9.jar.")
    private Path in = Path.of("");

    @Option(
            names = "--out",
            paramLabel = "JAR",
            required = true,
            description = "The new jar, which takes the other's place; it must not exist.")
    private Path out = Path.of("");

    @Option(
            names = "--allow-changed",
            description =
                    "Weave also where methods are not as in a release that Petra knows, at your own"
                            + " risk.")
    private boolean allowChanged;

    @Override
    public Integer call() {
        Distribution distribution = Distribution.fromSystemProperty();
        List<String> command = new ArrayList<>();
        command.add(NodeProcess.java());
        command.addAll(List.of("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"));
        command.addAll(List.of("-cp", classPath(distribution, in)));
        command.addAll(List.of(MAIN, "--in", in.toString(), "--out", out.toString()));
        if (allowChanged) command.add("--allow-changed");
        return Processes.runInherited("weave", command);
    }

    /**
     * The plugin, and the libraries that Cassandra comes with: a release has none of its own. They
     * are beside the jar, or in {@code lib} there where Cassandra is a package.
     */
    static String classPath(Distribution distribution, Path in) {
        distribution.checkPlugin();
        List<Path> own = new ArrayList<>(List.of(distribution.plugin()));
        Path folder = in.toAbsolutePath().getParent();
        if (folder != null) own.addAll(List.of(folder.resolve("*"), folder.resolve("lib/*")));
        return distribution.classPath(own);
    }
}
