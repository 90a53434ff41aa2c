// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code petra cluster}: runs several nodes on this machine, as processes or containers. */
@Command(
        name = "cluster",
        description = {
            "Runs several nodes on this machine, to try things with.",
            "",
            "They listen on 127.0.0.1, .2 and so on, or are containers with --docker. Node 1 is the"
                    + " seed. The ring waits for less than usual: not for production."
        })
final class ClusterCommand implements Runnable {
    private static final Duration RING = Duration.ofMinutes(2);
    private static final int MOST = 100;

    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    /** The options of each command that name a cluster. */
    static final class Where {
        @Option(
                names = "--dir",
                paramLabel = "DIR",
                defaultValue = "petra-cluster",
                description =
                        "The directory of nodes that are processes; default: ${DEFAULT-VALUE}.")
        private Path dir = Path.of("petra-cluster");

        @Option(names = "--docker", description = "The nodes are containers.")
        private boolean docker;

        @Option(
                names = "--name",
                paramLabel = "NAME",
                defaultValue = "petra-cluster",
                description =
                        "What containers, volumes and network are called; default:"
                                + " ${DEFAULT-VALUE}.")
        private String name = "petra-cluster";

        @Option(
                names = "--image",
                paramLabel = "IMAGE",
                defaultValue = "petra",
                description = "The image of new containers; default: ${DEFAULT-VALUE}.")
        private String image = "petra";

        ClusterNodes nodes() {
            return docker
                    ? new ContainerNodes(name, image, number -> List.of())
                    : new ProcessNodes(dir);
        }

        /** The nodes of a cluster that exists; else throws a {@link NodeException}. */
        ClusterNodes existing() {
            ClusterNodes nodes = nodes();
            if (nodes.present().isEmpty())
                throw new NodeException(
                        "there is no cluster in "
                                + nodes.place()
                                + ": 'petra cluster up' makes one");
            return nodes;
        }
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
                    int count,
            @Option(
                            names = "--heap",
                            paramLabel = "SIZE",
                            converter = HeapSizeConverter.class,
                            description = "The heap of each new node; default: 512MiB.")
                    @Nullable HeapSize heap) {
        if (count < 1 || count > MOST)
            throw new ParameterException(
                    spec.commandLine(), "--nodes must be from 1 to " + MOST + ", not " + count);
        ClusterNodes nodes = where.nodes();
        finishDecommission(nodes);
        List<Integer> present = nodes.present();
        for (int number : present) {
            if (nodes.isRunning(number)) say("node %d runs already", number);
            else start(nodes, number, heap);
        }
        for (int number = 1; number <= count; number++) {
            if (!present.contains(number)) start(nodes, number, heap);
        }
        awaitRing(nodes);
        return 0;
    }

    @Command(name = "add", description = "Makes one more node, which takes its share of the data.")
    int add(@Mixin Where where) {
        ClusterNodes nodes = where.existing();
        finishDecommission(nodes);
        List<Integer> present = nodes.present();
        start(nodes, present.get(present.size() - 1) + 1, null);
        awaitRing(nodes);
        return 0;
    }

    @Command(
            name = "decommission",
            description = "Has a node give its data to the others, and ends it for good.")
    int decommission(
            @Mixin Where where,
            @Parameters(paramLabel = "N", description = "Which node; not 1, the seed.")
                    int number) {
        ClusterNodes nodes = where.existing();
        if (finishDecommission(nodes).contains(number)) return 0;
        if (!nodes.present().contains(number))
            throw new NodeException("there is no node " + number + " in " + nodes.place());
        if (number == 1)
            throw new NodeException("node 1 is the seed of the others and cannot leave");
        Decommission.run(nodes, number);
        sayDeleted(number);
        return 0;
    }

    /** Which ones an earlier command was ended before it deleted. */
    private List<Integer> finishDecommission(ClusterNodes nodes) {
        List<Integer> left = Decommission.finish(nodes);
        left.forEach(this::sayDeleted);
        return left;
    }

    private void sayDeleted(int number) {
        say("node %d has left; its data is deleted", number);
    }

    @Command(name = "repair", description = "Repairs all tables, fully, from node 1.")
    int repair(@Mixin Where where) {
        nodetool(where.existing(), 1, "repair", "--full");
        return 0;
    }

    @Command(name = "status", description = "Shows the nodes, as the first that runs sees them.")
    int status(@Mixin Where where) {
        ClusterNodes nodes = where.existing();
        for (int number : nodes.present()) {
            if (nodes.isRunning(number)) {
                nodetool(nodes, number, "status");
                return 0;
            }
        }
        say("no node runs in %s", nodes.place());
        return Main.FAILED;
    }

    @Command(name = "down", description = "Stops all nodes; 'up' starts them again.")
    int down(
            @Mixin Where where,
            @Option(names = "--delete", description = "Deletes them too, with all their data.")
                    boolean delete) {
        // Of one whose deletion was interrupted there may be volumes and no nodes.
        ClusterNodes nodes = delete ? where.nodes() : where.existing();
        List<Integer> present = nodes.present();
        if (delete) present.forEach(nodes::checkDeletable);
        for (int i = present.size() - 1; i >= 0; i--) {
            int number = present.get(i);
            if (nodes.isRunning(number)) {
                nodes.stop(number);
                say("node %d is stopped", number);
            }
        }
        if (delete) {
            nodes.deleteAll();
            say("the cluster is deleted");
        }
        return 0;
    }

    private void start(ClusterNodes nodes, int number, @Nullable HeapSize heap) {
        say("node %d: CQL is open on %s", number, nodes.start(number, heap));
    }

    /**
     * Waits until each node sees all others up: a schema change is sent only to nodes that are
     * known to be up.
     */
    private static void awaitRing(ClusterNodes nodes) {
        List<Integer> running = nodes.present().stream().filter(nodes::isRunning).toList();
        long deadline = System.nanoTime() + RING.toNanos();
        for (int number : running) {
            while (up(nodes, number) < running.size()) {
                if (System.nanoTime() > deadline) {
                    throw new NodeException(
                            "node %d does not see %d nodes up after %d s; see %s"
                                    .formatted(
                                            number,
                                            running.size(),
                                            RING.toSeconds(),
                                            nodes.log(number)));
                }
            }
        }
    }

    /** The number of nodes that are up and normal, as one node sees them. */
    private static long up(ClusterNodes nodes, int number) {
        return nodes.nodetool(number, "status")
                .output()
                .lines()
                .filter(line -> line.startsWith("UN "))
                .count();
    }

    /** Runs a command of nodetool that must succeed. */
    static void nodetool(ClusterNodes nodes, int number, String... arguments) {
        int exitCode = nodes.nodetoolInherited(number, arguments);
        if (exitCode != 0)
            throw new NodeException(
                    "nodetool %s of node %d failed (exit code %d, log %s)"
                            .formatted(arguments[0], number, exitCode, nodes.log(number)));
    }

    private void say(String format, Object... values) {
        PrintWriter out = spec.commandLine().getOut();
        out.println(String.format(Locale.ROOT, format, values));
        out.flush();
    }
}
