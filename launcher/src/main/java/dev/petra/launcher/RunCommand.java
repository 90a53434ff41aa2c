// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code petra run}: runs one node until Ctrl-C or {@code petra stop}. */
@Command(
        name = "run",
        description = {
            "Runs a node and says when CQL is open. Without --detach it runs until Ctrl-C.",
            "",
            "The first run in a directory writes its conf/cassandra.yaml, conf/jvm.options and"
                + " conf/logback.xml. They are yours from then on: later runs keep them, and flags"
                + " that contradict them are an error."
        })
final class RunCommand implements Callable<Integer> {
    /** The exit code of a JVM after SIGTERM: Cassandra has drained. */
    private static final int TERMINATED = 143;

    private static final Duration FOREVER = Duration.ofNanos(Long.MAX_VALUE);

    @Option(
            names = "--dir",
            paramLabel = "DIR",
            defaultValue = "petra-data",
            description = "The node's directory; default: ${DEFAULT-VALUE}.")
    private Path dir = Path.of("petra-data");

    @Option(
            names = "--address",
            paramLabel = "ADDRESS",
            description = "The address it listens on; 127.0.0.1 in a new directory.")
    private @Nullable String address;

    @Option(
            names = "--port",
            paramLabel = "PORT",
            converter = PortConverter.class,
            description = "The port of CQL; 9042 in a new directory.")
    private @Nullable Integer port;

    @Option(
            names = "--storage-port",
            paramLabel = "PORT",
            converter = PortConverter.class,
            description = "The port of other nodes; 7000 in a new directory.")
    private @Nullable Integer storagePort;

    @Option(
            names = "--jmx-port",
            paramLabel = "PORT",
            converter = PortConverter.class,
            description = "The loopback port of nodetool; 7199 in a new directory.")
    private @Nullable Integer jmxPort;

    @Option(
            names = "--heap",
            paramLabel = "SIZE",
            converter = HeapSizeConverter.class,
            description = "The Java heap, like 1GiB or 512MiB; 1GiB in a new directory.")
    private @Nullable HeapSize heap;

    @Option(
            names = "--start-timeout",
            paramLabel = "TIME",
            defaultValue = "10m",
            converter = DurationConverter.class,
            description =
                    "How long to wait for CQL; default: ${DEFAULT-VALUE}. Then --detach fails, and"
                            + " the node goes on starting. Without --detach there is a warning,"
                            + " and the wait goes on.")
    private Duration startTimeout = Duration.ofMinutes(10);

    @Option(names = "--detach", description = "Leave the node running and return.")
    private boolean detach;

    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    @Override
    public Integer call() throws InterruptedException {
        NodeProcess node = new NodeProcess(config());
        node.start();
        if (detach) node.awaitCql(startTimeout);
        else awaitCqlForever(node);
        PrintWriter out = spec.commandLine().getOut();
        out.printf(
                "CQL is open on %s:%d (pid %d, log %s)%n",
                node.address(), node.nativePort(), node.pid(), node.logFile());
        out.flush();
        if (detach) return 0;
        int exitCode = node.waitFor();
        if (exitCode == TERMINATED || exitCode == 0) return 0;
        throw new NodeException(
                "the node ended (exit code %d, log %s)%n%s"
                        .formatted(exitCode, node.logFile(), node.tail()));
    }

    /** A node that replays a long commit log is not ended for being slow. */
    private void awaitCqlForever(NodeProcess node) {
        if (node.opensCql(startTimeout)) return;
        PrintWriter err = spec.commandLine().getErr();
        err.printf(
                "petra: CQL is not open after %d s; the node (pid %d) is still starting, see %s."
                        + " Ctrl-C stops it.%n",
                startTimeout.toSeconds(), node.pid(), node.logFile());
        err.flush();
        node.awaitCql(FOREVER);
    }

    private NodeConfig config() {
        NodeConfig.Builder config = NodeConfig.builder(dir).endWithThisJvm(!detach);
        if (address != null) config.address(address);
        if (port != null) config.nativePort(port);
        if (storagePort != null) config.storagePort(storagePort);
        if (jmxPort != null) config.jmxPort(jmxPort);
        if (heap != null) config.heap(heap);
        return config.build();
    }
}
