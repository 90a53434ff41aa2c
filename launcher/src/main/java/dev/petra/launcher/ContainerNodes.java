// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/**
 * Nodes that are containers of the image that {@code docker/build} makes. They have a network of
 * their own, and each has a volume. Labels identify them. Runs the {@code docker} program with the
 * rights of the user.
 *
 * @param name the name of the cluster and its network; the names of containers and volumes begin
 *     with it
 * @param image the image of new nodes
 * @param options further options of {@code docker run} for a new node, by its number; they come
 *     last, and so override others
 */
public record ContainerNodes(String name, String image, IntFunction<List<String>> options)
        implements ClusterNodes {
    private static final String CLUSTER = "dev.petra.cluster";
    private static final String NODE = "dev.petra.node";
    private static final String LEFT = "dev.petra.left";
    private static final int DEFAULT_HEAP = 512;
    private static final String PROGRAM = "docker, which must be on PATH";
    private static final long POLL_MILLIS = 1_000;

    @Override
    public String place() {
        return "containers named " + name;
    }

    @Override
    public List<Integer> present() {
        return numbers(NODE, "ps", "--all");
    }

    /** By a label of what such a command lists of the cluster. */
    private List<Integer> numbers(String label, String... listing) {
        List<String> command = new ArrayList<>(List.of(listing));
        command.addAll(
                List.of(
                        "--filter",
                        "label=" + CLUSTER + "=" + name,
                        "--format",
                        "{{.Label \"" + label + "\"}}"));
        return docker(command.toArray(String[]::new))
                .lines()
                // Docker may print warnings among them.
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

    /** The address of a running node. On Linux, processes of this machine can connect to it. */
    public String address(int number) {
        return inspect(number, "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}");
    }

    /** The id that this machine gives to the process of a running node. */
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
        // With a label, by which deleteRest finds it when there is no container any more.
        docker("volume", "create", "--label", CLUSTER + "=" + name, container(number));
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
                                // The image's default is too slow to wait for.
                                "--health-interval",
                                "2s",
                                "--volume",
                                container(number) + ":/var/lib/cassandra",
                                // For the heap, direct memory, the engine, and the JVM.
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
        while (true) {
            // In one question: each is a process of its own.
            String state = inspect(number, "{{.State.Running}} {{.State.Health.Status}}");
            if (state.equals("true healthy")) return;
            if (!state.startsWith("true"))
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
    public void noteLeft(int number) {
        // A volume, since labels of a container cannot be changed; it is there until that is gone.
        docker(
                "volume",
                "create",
                "--label",
                CLUSTER + "=" + name,
                "--label",
                LEFT + "=" + number,
                note(number));
    }

    @Override
    public List<Integer> left() {
        return numbers(LEFT, "volume", "ls");
    }

    private String note(int number) {
        return container(number) + "-left";
    }

    @Override
    public void delete(int number) {
        if (present().contains(number)) docker("rm", "--volumes", container(number));
        // Which may be gone.
        docker("volume", "rm", "--force", container(number));
        docker("volume", "rm", "--force", note(number));
    }

    @Override
    public void deleteRest() {
        rest("volume").forEach(volume -> docker("volume", "rm", volume));
        rest("network").forEach(network -> docker("network", "rm", network));
    }

    private List<String> rest(String kind) {
        return docker(kind, "ls", "--quiet", "--filter", "label=" + CLUSTER + "=" + name)
                .lines()
                .filter(line -> line.matches("[\\w.-]+"))
                .toList();
    }

    @Override
    public String log(int number) {
        return "'docker logs " + container(number) + "'";
    }

    /** Runs docker and returns what it printed; throws a {@link NodeException} if it fails. */
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
