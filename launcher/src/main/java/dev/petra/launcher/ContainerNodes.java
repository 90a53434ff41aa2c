// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/**
 * Nodes as containers of an image that {@code docker/build} made, on a network of their own, each
 * with a volume. Found again by their labels. By the {@code docker} program, as its user may do.
 *
 * @param name of the cluster, the network and, before a number, of containers and volumes
 * @param image of nodes that are made
 * @param options more of {@code docker run}, for a node by its number; the last of two counts
 */
public record ContainerNodes(String name, String image, IntFunction<List<String>> options)
        implements ClusterNodes {
    private static final String CLUSTER = "dev.petra.cluster";
    private static final String NODE = "dev.petra.node";
    private static final int DEFAULT_HEAP = 512;
    private static final String PROGRAM = "docker, which must be on PATH";
    private static final long POLL_MILLIS = 500;

    @Override
    public String place() {
        return "containers named " + name;
    }

    @Override
    public List<Integer> present() {
        return docker(
                        "ps",
                        "--all",
                        "--filter",
                        "label=" + CLUSTER + "=" + name,
                        "--format",
                        "{{.Label \"" + NODE + "\"}}")
                .lines()
                // Docker's own warnings may be among them.
                .filter(line -> line.matches("\\d+"))
                .map(Integer::valueOf)
                .sorted()
                .toList();
    }

    private String container(int number) {
        return name + "-node" + number;
    }

    private String inspect(int number, String format) {
        return docker("inspect", "--type", "container", "--format", format, container(number))
                .strip();
    }

    @Override
    public boolean isRunning(int number) {
        return inspect(number, "{{.State.Running}}").equals("true");
    }

    @Override
    public String start(int number, @Nullable HeapSize heap) {
        if (present().contains(number)) {
            docker("start", container(number));
        } else {
            make(number, heap == null ? new HeapSize(DEFAULT_HEAP) : heap);
        }
        awaitHealth(number);
        return "%s:9042 (container %s)".formatted(address(number), container(number));
    }

    /** The address of one that runs; a process of this machine reaches it there, if on Linux. */
    public String address(int number) {
        return inspect(number, "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}");
    }

    /** The process of one that runs, as this machine numbers it. */
    public long pid(int number) {
        return Long.parseLong(inspect(number, "{{.State.Pid}}"));
    }

    private void make(int number, HeapSize heap) {
        if (run("image", "inspect", image).exitCode() != 0)
            throw new NodeException(
                    "there is no image '%s' here: docker/build makes it, and --image names another"
                            .formatted(image));
        if (run("network", "inspect", name).exitCode() != 0)
            docker("network", "create", "--label", CLUSTER + "=" + name, name);
        List<String> command =
                new ArrayList<>(
                        List.of(
                                "run",
                                "--detach",
                                "--name",
                                container(number),
                                "--hostname",
                                container(number),
                                "--label",
                                CLUSTER + "=" + name,
                                "--label",
                                NODE + "=" + number,
                                "--network",
                                name,
                                // The image's is for clusters that live long.
                                "--health-interval",
                                "2s",
                                "--volume",
                                container(number) + ":/var/lib/cassandra",
                                // Heap, direct memory, the engine's and the rest.
                                "--memory",
                                3L * heap.mebibytes() + 512 + "m",
                                "--env",
                                "MAX_HEAP_SIZE=" + heap.jvm(),
                                "--env",
                                "CASSANDRA_CLUSTER_NAME=" + name,
                                "--env",
                                "CASSANDRA_SEEDS=" + container(1),
                                "--env",
                                "CASSANDRA_NUM_TOKENS=4",
                                "--env",
                                "JVM_EXTRA_OPTS=" + String.join(" ", NodeConfig.FAST_RING)));
        command.addAll(options.apply(number));
        command.add(image);
        docker(command.toArray(String[]::new));
    }

    private void awaitHealth(int number) {
        long deadline = System.nanoTime() + BOOT.toNanos();
        while (!inspect(number, "{{.State.Health.Status}}").equals("healthy")) {
            if (!isRunning(number))
                throw new NodeException(
                        "node %d has ended: %s"
                                .formatted(
                                        number,
                                        run("logs", "--tail", "3", container(number)).output()));
            if (System.nanoTime() > deadline) {
                throw new NodeException(
                        "node %d does not answer CQL after %d s; see %s"
                                .formatted(number, BOOT.toSeconds(), log(number)));
            }
            Processes.pause(POLL_MILLIS);
        }
    }

    @Override
    public NodeTool.Result nodetool(int number, String... arguments) {
        return Processes.run(PROGRAM, nodetoolCommand(number, arguments));
    }

    @Override
    public int nodetoolInherited(int number, String... arguments) {
        return Processes.runInherited(PROGRAM, nodetoolCommand(number, arguments));
    }

    private List<String> nodetoolCommand(int number, String... arguments) {
        List<String> command =
                new ArrayList<>(List.of("docker", "exec", container(number), "nodetool"));
        command.addAll(List.of(arguments));
        return command;
    }

    @Override
    public void stop(int number) {
        docker("stop", "--time", Long.toString(STOP.toSeconds()), container(number));
    }

    @Override
    public void delete(int number) {
        docker("rm", container(number));
        docker("volume", "rm", container(number));
    }

    @Override
    public void deleteRest() {
        docker("network", "rm", name);
    }

    @Override
    public String log(int number) {
        return "'docker logs " + container(number) + "'";
    }

    /** Runs docker and returns what it printed; throws what it says if it fails. */
    private static String docker(String... arguments) {
        NodeTool.Result result = run(arguments);
        if (result.exitCode() != 0)
            throw new NodeException("docker " + arguments[0] + ": " + result.output().strip());
        return result.output();
    }

    private static NodeTool.Result run(String... arguments) {
        List<String> command = new ArrayList<>(List.of("docker"));
        command.addAll(List.of(arguments));
        return Processes.run(PROGRAM, command);
    }
}
