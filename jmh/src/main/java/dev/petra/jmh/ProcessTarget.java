// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.launcher.NodeProcess;
import dev.petra.launcher.NodeTool;
import dev.petra.launcher.Processes;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import javax.management.JMException;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** One node in a process of its own. */
record ProcessTarget(NodeProcess node, Path directory) implements ClientAccess.Target {
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    private static final String COMPACTION = "forceKeyspaceCompaction";

    /** By the verbs of nodetool that are but one operation of the node, on tables of a keyspace. */
    private static final Map<String, String> OPERATIONS =
            Map.of(
                    "flush", "forceKeyspaceFlush",
                    "compact", COMPACTION,
                    "enableautocompaction", "enableAutoCompaction",
                    "disableautocompaction", "disableAutoCompaction");

    /** Starts it; one that does not take CQL in time is ended. */
    static ProcessTarget start(NodeProcess node, Path directory) {
        node.start();
        boolean started = false;
        try {
            node.awaitCql(PATIENCE);
            started = true;
        } finally {
            if (!started && node.isAlive()) node.kill();
        }
        return new ProcessTarget(node, directory);
    }

    /**
     * Has the system forget what it has in memory of the files in a directory, which are on disk
     * and which nobody has open: as {@code posix_fadvise} does, which needs no root, and leaves
     * other nodes what they have.
     *
     * @throws IllegalStateException if that fails
     */
    static void forget(Path directory) {
        NodeTool.Result result =
                Processes.run(
                        "find",
                        List.of(
                                "find",
                                directory.toString(),
                                "-type",
                                "f",
                                "-exec",
                                "sh",
                                "-c",
                                "for file; do dd if=\"$file\" iflag=nocache count=0 status=none"
                                        + " || exit; done",
                                "sh",
                                "{}",
                                "+"));
        if (result.exitCode() != 0)
            throw new IllegalStateException(
                    "the page cache has files of "
                            + directory
                            + " that it cannot be told to forget, for which 'find' and the 'dd' of"
                            + " GNU coreutils are needed: "
                            + result.output());
    }

    /**
     * Starts it again, after it was stopped.
     *
     * @return seconds until it took CQL
     */
    double startAgain(Duration patience) {
        long began = System.nanoTime();
        node.start();
        node.awaitCql(patience);
        return (System.nanoTime() - began) / 1e9;
    }

    @Override
    public List<InetSocketAddress> nodes() {
        return List.of(new InetSocketAddress(node.address(), node.nativePort()));
    }

    /** Where it can, without a JVM of nodetool's, which takes a second of a processor. */
    @Override
    public void nodetool(String... command) {
        String operation = OPERATIONS.get(command[0]);
        if (operation != null && command.length > 1) {
            invoke(operation, command[1], Arrays.copyOfRange(command, 2, command.length));
            return;
        }
        NodeTool.Result result = node.nodetool(command);
        if (result.exitCode() != 0) throw new IllegalStateException(result.output());
    }

    @SuppressWarnings("BanJNDI") // A node that this process has started, on loopback.
    private void invoke(String operation, String keyspace, String[] tables) {
        List<Object> arguments = new ArrayList<>(List.of(keyspace, tables));
        List<String> types =
                new ArrayList<>(List.of(String.class.getName(), String[].class.getName()));
        if (operation.equals(COMPACTION)) {
            // Into one SSTable.
            arguments.add(0, false);
            types.add(0, boolean.class.getName());
        }
        String address =
                "service:jmx:rmi:///jndi/rmi://127.0.0.1:%d/jmxrmi".formatted(node.jmxPort());
        try (JMXConnector jmx = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            jmx.getMBeanServerConnection()
                    .invoke(
                            new ObjectName("org.apache.cassandra.db:type=StorageService"),
                            operation,
                            arguments.toArray(),
                            types.toArray(String[]::new));
        } catch (IOException | JMException e) {
            throw new IllegalStateException(operation + " of " + keyspace + " failed", e);
        }
    }

    @Override
    public Probe probe() {
        return new Probe(node.pid(), directory);
    }

    @Override
    public void close() {
        node.stop();
    }
}
