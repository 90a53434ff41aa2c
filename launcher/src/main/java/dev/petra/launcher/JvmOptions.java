// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/** The options of a node's JVM that the user may edit: {@code conf/jvm.options}, one a line. */
record JvmOptions(Path file, List<String> lines) {
    private static final String HEAP = "-Xmx";
    private static final String JMX_PORT = "-Dcassandra.jmx.local.port=";

    /**
     * The module options that Cassandra and its tools need on JDK 17, as in its {@code
     * jvm17-server.options}. They are not in the file, because they depend on the release of
     * Cassandra and not on the node.
     */
    private static final List<String> ACCESS =
            Stream.concat(
                            Stream.of(
                                            "java.base/jdk.internal.misc",
                                            "java.base/jdk.internal.ref",
                                            "java.base/java.lang.ref",
                                            "java.base/sun.nio.ch",
                                            "java.management.rmi/com.sun.jmx.remote.internal.rmi",
                                            "java.rmi/sun.rmi.registry",
                                            "java.rmi/sun.rmi.server",
                                            "java.sql/java.sql",
                                            "jdk.unsupported/sun.misc",
                                            "jdk.compiler/com.sun.tools.javac.file",
                                            "jdk.attach/sun.tools.attach")
                                    .map(name -> "--add-exports=" + name + "=ALL-UNNAMED"),
                            Stream.of(
                                            "java.base/java.lang.module",
                                            "java.base/jdk.internal.loader",
                                            "java.base/jdk.internal.ref",
                                            "java.base/jdk.internal.reflect",
                                            "java.base/jdk.internal.math",
                                            "java.base/jdk.internal.module",
                                            "java.base/jdk.internal.util.jar",
                                            "java.base/sun.nio.ch",
                                            "java.base/java.io",
                                            "java.base/java.lang",
                                            "java.base/java.lang.reflect",
                                            "java.base/java.util",
                                            "java.base/java.nio",
                                            "jdk.management/com.sun.management.internal")
                                    .map(name -> "--add-opens=" + name + "=ALL-UNNAMED"))
                    .toList();

    /** The module options of every Cassandra process on JDK 17. */
    static List<String> access() {
        return ACCESS;
    }

    /**
     * The text of a new file.
     *
     * @param overwritten whether each start writes it anew
     */
    static String text(HeapSize heap, int jmxPort, boolean overwritten) {
        return """
        # Options of this node's JVM, one a line. %4$s

        # Cassandra sizes its caches and memtables by the heap. Direct memory is half of it, as
        # cassandra-env.sh has it. RocksDB's memory comes on top.
        -Xms%1$s
        -Xmx%1$s
        -XX:MaxDirectMemorySize=%2$dm

        # JMX, for nodetool, on the loopback interface only.
        -Dcassandra.jmx.local.port=%3$d

        -ea
        -XX:+UseG1GC
        -XX:MaxGCPauseMillis=300
        -XX:+ParallelRefProcEnabled
        -XX:+PerfDisableSharedMem
        -XX:+HeapDumpOnOutOfMemoryError
        -XX:+ExitOnOutOfMemoryError
        """
                .formatted(
                        heap.jvm(),
                        heap.mebibytes() / 2,
                        jmxPort,
                        overwritten
                                ? "Written anew at each start:\n# do not edit them here; those in"
                                        + " JVM_EXTRA_OPTS come behind these."
                                : "Written once: edit them as you like.");
    }

    /** Reads the file of a node. */
    static JvmOptions read(NodeDirectory directory) {
        Path file = directory.jvmOptions();
        if (!Files.isRegularFile(file))
            throw new NodeException(
                    "there is no node in "
                            + directory.root()
                            + ": 'petra run' makes one, and --dir names another directory");
        try {
            return of(directory, Files.readString(file));
        } catch (IOException e) {
            throw new NodeException("cannot read " + file + ": " + e, e);
        }
    }

    /** Parses the text of the file. */
    static JvmOptions of(NodeDirectory directory, String text) {
        return new JvmOptions(
                directory.jvmOptions(),
                text.lines()
                        .map(String::strip)
                        .filter(line -> !line.isEmpty() && !line.startsWith("#"))
                        .toList());
    }

    /** The loopback port that nodetool talks to. */
    int jmxPort() {
        String port =
                last(JMX_PORT)
                        .orElseThrow(
                                () -> new NodeException(file + " lacks a line " + JMX_PORT + "…"));
        try {
            return Integer.parseInt(port);
        } catch (NumberFormatException e) {
            throw new NodeException(file + " has a port that is no number: " + JMX_PORT + port, e);
        }
    }

    /** Compares the heap and the JMX port that are asked for with those in the file. */
    List<Yaml.Difference> differences(Optional<HeapSize> heap, Optional<Integer> jmxPort) {
        List<Yaml.Difference> found = new ArrayList<>();
        heap.ifPresent(asked -> compare(HEAP, asked.jvm(), found));
        jmxPort.ifPresent(asked -> compare(JMX_PORT, asked.toString(), found));
        return found;
    }

    private void compare(String option, String asked, List<Yaml.Difference> found) {
        String has = last(option).orElse("nothing");
        if (!has.equals(asked)) found.add(new Yaml.Difference(option, has, asked));
    }

    /** The value of an option; if several lines set it, the JVM uses the last. */
    private Optional<String> last(String option) {
        return lines.stream()
                .filter(line -> line.startsWith(option))
                .reduce((first, second) -> second)
                .map(line -> line.substring(option.length()));
    }
}
