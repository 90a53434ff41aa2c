// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/**
 * {@code petra cluster}: several nodes on this machine, on 127.0.0.1, 127.0.0.2 and so on, each in
 * a folder of its own.
 */
@Command(
        name = "cluster",
        description = {
            "Runs several nodes on this machine, on 127.0.0.1, .2 and so on, to try things with.",
            "Node 1 is the seed. A ring that waits for less than usual: not for production."
        })
final class ClusterCommand implements Runnable {
    private static final Duration BOOT = Duration.ofMinutes(10);
    private static final Duration RING = Duration.ofMinutes(2);
    private static final Duration STOP = Duration.ofSeconds(90);
    private static final int FIRST_JMX_PORT = 7199;
    private static final int MOST = 100;

    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    /** Where the nodes are; an option of each command. */
    static final class Where {
        @Option(
                names = "--dir",
                paramLabel = "DIR",
                defaultValue = "petra-cluster",
                description = "The cluster's directory; default: ${DEFAULT-VALUE}.")
        private Path dir = Path.of("petra-cluster");
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "Missing command");
    }

    @Command(
            name = "up",
            description = "Starts the nodes there are, and makes and starts those missing.")
    int up(
            @Mixin Where where,
            @Option(
                            names = "--nodes",
                            paramLabel = "N",
                            defaultValue = "3",
                            description = "How many; default: ${DEFAULT-VALUE}.")
                    int nodes,
            @Option(
                            names = "--heap",
                            paramLabel = "SIZE",
                            converter = HeapSizeConverter.class,
                            description = "The heap of each new node; default: 512MiB.")
                    @Nullable HeapSize heap) {
        if (nodes < 1 || nodes > MOST) {
            throw new ParameterException(
                    spec.commandLine(), "--nodes must be from 1 to " + MOST + ", not " + nodes);
        }
        List<Integer> present = present(where.dir);
        for (int number : present) {
            start(where.dir, number, heap);
        }
        for (int number = 1; number <= nodes; number++) {
            if (!present.contains(number)) {
                start(where.dir, number, heap);
            }
        }
        awaitRing(where.dir);
        return 0;
    }

    @Command(name = "add", description = "Makes one more node, which takes its share of the data.")
    int add(@Mixin Where where) {
        List<Integer> present = required(where.dir);
        start(where.dir, present.get(present.size() - 1) + 1, null);
        awaitRing(where.dir);
        return 0;
    }

    @Command(
            name = "decommission",
            description = "Has a node give its data to the others, and ends it for good.")
    int decommission(
            @Mixin Where where,
            @Parameters(paramLabel = "N", description = "Which node; not 1, the seed.")
                    int number) {
        if (!required(where.dir).contains(number)) {
            throw new NodeException("there is no node " + number + " in " + where.dir);
        }
        if (number == 1) {
            throw new NodeException("node 1 is the seed of the others and cannot leave");
        }
        nodetool(where.dir, number, "decommission", "-f");
        stop(where.dir, number);
        delete(directory(where.dir, number));
        say("node %d has left; its folder is deleted", number);
        return 0;
    }

    @Command(name = "repair", description = "Repairs all tables, fully, from node 1.")
    int repair(@Mixin Where where) {
        required(where.dir);
        nodetool(where.dir, 1, "repair", "--full");
        return 0;
    }

    @Command(name = "status", description = "Shows the nodes, as the first that runs sees them.")
    int status(@Mixin Where where) {
        for (int number : required(where.dir)) {
            if (isRunning(where.dir, number)) {
                nodetool(where.dir, number, "status");
                return 0;
            }
        }
        say("no node runs in %s", where.dir);
        return Main.FAILED;
    }

    @Command(name = "down", description = "Stops all nodes; 'up' starts them again.")
    int down(@Mixin Where where) {
        List<Integer> present = required(where.dir);
        for (int i = present.size() - 1; i >= 0; i--) {
            stop(where.dir, present.get(i));
        }
        return 0;
    }

    private void start(Path dir, int number, @Nullable HeapSize heap) {
        if (isRunning(dir, number)) {
            say("node %d runs already", number);
            return;
        }
        Path where = directory(dir, number);
        NodeConfig.Builder config = NodeConfig.builder(where).fastRing().endWithThisJvm(false);
        if (!Files.exists(where.resolve("conf"))) {
            config.address(address(number))
                    .jmxPort(FIRST_JMX_PORT + number - 1)
                    .seeds(List.of(address(1) + ":7000"))
                    .numTokens(4)
                    .heap(heap == null ? new HeapSize(512) : heap);
        }
        NodeProcess node = new NodeProcess(config.build());
        node.start();
        node.awaitCql(BOOT);
        say(
                "node %d: CQL is open on %s:%d (pid %d, log %s)",
                number, node.address(), node.nativePort(), node.pid(), node.logFile());
    }

    /** A change of the schema reaches only nodes that are known to be up. */
    private static void awaitRing(Path dir) {
        List<Integer> running =
                present(dir).stream().filter(number -> isRunning(dir, number)).toList();
        long deadline = System.nanoTime() + RING.toNanos();
        for (int number : running) {
            while (up(dir, number) < running.size()) {
                if (System.nanoTime() > deadline) {
                    throw new NodeException(
                            "node %d does not see %d nodes up after %d s; see its log"
                                    .formatted(number, running.size(), RING.toSeconds()));
                }
            }
        }
    }

    /** How many nodes one sees up. */
    private static long up(Path dir, int number) {
        NodeDirectory directory = new NodeDirectory(directory(dir, number));
        return new NodeTool(Distribution.fromSystemProperty(), directory)
                .run("status")
                .output()
                .lines()
                .filter(line -> line.startsWith("UN "))
                .count();
    }

    private void stop(Path dir, int number) {
        PidFile pidFile = new PidFile(new NodeDirectory(directory(dir, number)));
        ProcessHandle process = pidFile.live().orElse(null);
        if (process == null) {
            return;
        }
        if (!Processes.terminate(process, STOP)) {
            throw new NodeException(
                    "node %d (pid %d) has not ended in %d s"
                            .formatted(number, process.pid(), STOP.toSeconds()));
        }
        pidFile.remove(process.pid());
        say("node %d is stopped", number);
    }

    private void nodetool(Path dir, int number, String... arguments) {
        NodeDirectory directory = new NodeDirectory(directory(dir, number));
        int exitCode =
                new NodeTool(Distribution.fromSystemProperty(), directory)
                        .runInherited(List.of(arguments));
        if (exitCode != 0) {
            throw new NodeException(
                    "nodetool %s of node %d failed (exit code %d, log %s)"
                            .formatted(arguments[0], number, exitCode, directory.systemLog()));
        }
    }

    private static boolean isRunning(Path dir, int number) {
        Path where = directory(dir, number);
        return Files.isDirectory(where) && new PidFile(new NodeDirectory(where)).live().isPresent();
    }

    private static Path directory(Path dir, int number) {
        return dir.resolve("node" + number);
    }

    private static String address(int number) {
        return "127.0.0." + number;
    }

    private static List<Integer> required(Path dir) {
        List<Integer> present = present(dir);
        if (present.isEmpty()) {
            throw new NodeException(
                    "there is no cluster in " + dir + ": 'petra cluster up' makes one");
        }
        return present;
    }

    /** The numbers of the nodes there are, in order. */
    private static List<Integer> present(Path dir) {
        if (!Files.isDirectory(dir)) {
            return List.of();
        }
        try (Stream<Path> children = Files.list(dir)) {
            return children.map(child -> child.getFileName().toString())
                    .filter(name -> name.matches("node\\d{1,3}"))
                    .map(name -> Integer.parseInt(name.substring("node".length())))
                    .sorted()
                    .toList();
        } catch (IOException e) {
            throw new NodeException("cannot list " + dir + ": " + e.getMessage(), e);
        }
    }

    private static void delete(Path directory) {
        try (Stream<Path> all = Files.walk(directory)) {
            for (Path path : all.sorted((a, b) -> b.compareTo(a)).toList()) {
                Files.delete(path);
            }
        } catch (IOException e) {
            throw new NodeException("cannot delete " + directory + ": " + e, e);
        }
    }

    private void say(String format, Object... values) {
        PrintWriter out = spec.commandLine().getOut();
        out.println(String.format(Locale.ROOT, format, values));
        out.flush();
    }
}
