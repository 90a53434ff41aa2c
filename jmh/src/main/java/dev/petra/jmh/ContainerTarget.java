// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.petra.launcher.ContainerNodes;
import dev.petra.launcher.HeapSize;
import dev.petra.launcher.NodeTool;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/**
 * A cluster in containers, whose volumes stay when it is stopped. On this machine: what the nodes
 * do is read where it shows their processes, which only root may.
 */
final class ContainerTarget implements ClientAccess.Target {
    /** Where a node finds its settings and leaves its log of safepoints. */
    private static final String SHARED = "/bench";

    private static final String SETTINGS = "own.yaml";

    private final ContainerNodes nodes;
    private final int count;
    private final Path directory;

    private ContainerTarget(ContainerNodes nodes, int count, Path directory) {
        this.nodes = nodes;
        this.count = count;
        this.directory = directory;
    }

    /**
     * How large a cluster is, and what of.
     *
     * @param image that {@code docker/build} made
     * @param nodes how many
     * @param memoryMiB of each container: heap, beside the heap and page cache
     */
    record Shape(String image, int nodes, int memoryMiB) {}

    /** The containers of a directory, which there may be or not. */
    static ContainerNodes containers(
            Path directory, Shape shape, Engine engine, String gc, int nativeMiB) {
        // One for each engine and setting.
        String name =
                Owner.mine().prefix()
                        + Integer.toUnsignedString(directory.toAbsolutePath().hashCode(), 36);
        return new ContainerNodes(
                name,
                shape.image(),
                number -> {
                    List<String> options =
                            new ArrayList<>(
                                    List.of(
                                            "--volume",
                                            shared(directory, number).toAbsolutePath()
                                                    + ":"
                                                    + SHARED,
                                            "--memory",
                                            shape.memoryMiB() + "m",
                                            "--memory-swap",
                                            shape.memoryMiB() + "m",
                                            "--env",
                                            "PETRA_YAML=" + SHARED + "/" + SETTINGS,
                                            "--env",
                                            "JVM_OPTS="
                                                    + String.join(" ", Nodes.SHIPPED)
                                                    + " "
                                                    + hints(directory, number)
                                                    + " "
                                                    + String.join(" ", Nodes.collector(gc))
                                                    + " "
                                                    + Probe.option(Path.of(SHARED))
                                                    + " "
                                                    + Owner.mine().option()
                                                    + Nodes.directMemory(
                                                            engine, shape.memoryMiB(), nativeMiB)));
                    if (!Nodes.hasPlugin(engine))
                        options.addAll(List.of("--env", "PETRA_PLUGIN=false"));
                    if (engine == Engine.ROCKS)
                        options.addAll(List.of("--env", "PETRA_MEMORY=" + nativeMiB + "MiB"));
                    return options;
                });
    }

    private static String hints(Path directory, int number) {
        return Nodes.compilerHints(shared(directory, number), Path.of(SHARED));
    }

    private static Path shared(Path directory, int number) {
        return directory.resolve("node" + number);
    }

    /** Starts what does not run, made where it is missing. */
    static ContainerTarget start(
            Path directory,
            Shape shape,
            Engine engine,
            String workload,
            String gc,
            int heapMiB,
            int nativeMiB) {
        ContainerNodes nodes = containers(directory, shape, engine, gc, nativeMiB);
        List<Integer> present = nodes.present();
        for (int number = 1; number <= shape.nodes(); number++) {
            if (!present.contains(number))
                share(shared(directory, number), Nodes.yaml(engine, workload, nativeMiB));
            String unused = nodes.start(number, new HeapSize(heapMiB));
        }
        return new ContainerTarget(nodes, shape.nodes(), directory);
    }

    private static void share(Path directory, Map<String, Object> yaml) {
        try {
            Files.createDirectories(directory);
            new ObjectMapper().writeValue(directory.resolve(SETTINGS).toFile(), yaml);
            // The node's user is another.
            Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxrwxrwx"));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private IntStream numbers() {
        return IntStream.rangeClosed(1, count);
    }

    @Override
    public List<InetSocketAddress> nodes() {
        return numbers()
                .mapToObj(number -> new InetSocketAddress(nodes.address(number), 9042))
                .toList();
    }

    @Override
    public void nodetool(String... command) {
        numbers()
                .forEach(
                        number -> {
                            NodeTool.Result result = nodes.nodetool(number, command);
                            if (result.exitCode() != 0)
                                throw new IllegalStateException(result.output());
                        });
    }

    @Override
    public Probe probe() {
        return new Probe(
                numbers()
                        .mapToObj(
                                number ->
                                        new Probe.Watched(
                                                nodes.pid(number), shared(directory, number)))
                        .toList());
    }

    @Override
    public void close() {
        numbers().forEach(nodes::stop);
    }
}
