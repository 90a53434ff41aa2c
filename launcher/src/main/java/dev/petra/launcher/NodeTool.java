// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.util.ArrayList;
import java.util.List;

/** Runs Cassandra's nodetool, in a JVM of its own, against one node. */
public final class NodeTool {
    /** The exit code, and what the command printed to its standard and error outputs. */
    public record Result(int exitCode, String output) {}

    private final Distribution distribution;
    private final NodeDirectory directory;

    /** For the node of a directory. */
    public NodeTool(Distribution distribution, NodeDirectory directory) {
        this.distribution = distribution;
        this.directory = directory;
    }

    /** Runs a nodetool command and blocks until it ends. Thread-safe. */
    public Result run(String... arguments) {
        return Processes.run("nodetool", command(List.of(arguments)));
    }

    /** Runs a command on this process's own input and outputs, and returns its exit code. */
    int runInherited(List<String> arguments) {
        return Processes.runInherited("nodetool", command(arguments));
    }

    /**
     * Runs another tool of Cassandra with the node's configuration, and blocks until it ends.
     *
     * @param mainClass the main class of the tool
     */
    public Result tool(String mainClass, String... arguments) {
        List<String> command = java(mainClass);
        command.addAll(List.of(arguments));
        return Processes.run(mainClass, command);
    }

    private List<String> command(List<String> arguments) {
        List<String> command = java("org.apache.cassandra.tools.NodeTool");
        command.add("-h");
        command.add("127.0.0.1");
        command.add("-p");
        command.add(Integer.toString(JvmOptions.read(directory).jmxPort()));
        command.addAll(arguments);
        return command;
    }

    private List<String> java(String mainClass) {
        distribution.check();
        List<String> command = new ArrayList<>();
        command.add(NodeProcess.java());
        command.addAll(List.of("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"));
        command.addAll(JvmOptions.access());
        command.add("-Dcassandra.storagedir=" + directory.root());
        command.add("-Dcassandra.logdir=" + directory.logs());
        command.add("-Dcassandra.config=" + directory.yaml().toUri());
        command.add("-Dlogback.configurationFile=" + directory.logbackTools());
        command.add("-cp");
        // A woven Cassandra needs the plugin; Cassandra's scripts add all of lib.
        command.add(distribution.classPath(List.of(directory.conf(), distribution.plugin())));
        command.add(mainClass);
        return command;
    }
}
