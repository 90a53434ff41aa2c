// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/**
 * {@code petra container}: writes a node's configuration from the environment variables of its
 * container, and a file with the arguments of its JVM, which the image's entry point then executes.
 */
@Command(
        name = "container",
        hidden = true,
        description = "Configures a node by the environment; for the entry point of an image.")
final class ContainerCommand implements Callable<Integer> {
    /** Tells the image's health check where the node takes CQL. */
    private static final String HEALTHCHECK = "healthcheck";

    @Option(names = "--dir", required = true, description = "The node's directory, a volume.")
    private Path dir = Path.of("");

    @Option(
            names = "--arguments",
            required = true,
            description = "The file for the JVM's arguments.")
    private Path arguments = Path.of("");

    @Parameters(
            paramLabel = "ARG",
            description = "What follows 'cassandra' on the container's command line.")
    private List<String> given = new ArrayList<>();

    @Override
    public Integer call() {
        List<String> forTheJvm = forTheJvm(given);
        if (!Files.isWritable(dir))
            throw new NodeException(
                    "the volume %s cannot be written by user %s: mount it writable, and give it to that user"
                            .formatted(dir, System.getProperty("user.name")));
        Distribution distribution = Distribution.fromSystemProperty();
        ContainerEnvironment environment =
                new ContainerEnvironment(
                        System.getenv(),
                        memory(),
                        address(),
                        distribution.exporter(),
                        distribution.isWoven());
        NodeConfig config = environment.config(dir);
        refuseOtherCluster(config);
        NodeProcess node = new NodeProcess(config);
        List<String> all = new ArrayList<>(node.prepareForAnotherJvm());
        all.addAll(forTheJvm); // Behind all others: of two values the JVM takes the last.
        all.add("-cp");
        all.add(node.classPath());
        all.add("org.apache.cassandra.service.CassandraDaemon");
        Path conf = config.directory().conf();
        WholeFile.write(conf.resolve("cassandra-rackdc.properties"), environment.rack());
        WholeFile.write(conf.resolve(HEALTHCHECK), node.healthcheck());
        write(
                arguments,
                all.stream().map(ContainerCommand::quoted).collect(Collectors.joining("\n")));
        return 0;
    }

    /**
     * The options of the JVM among the arguments of Cassandra's script. Others are refused: a node
     * that ignores one, as that it is to replace another, may do what cannot be undone.
     */
    static List<String> forTheJvm(List<String> given) {
        List<String> options = new ArrayList<>();
        for (String argument : given) {
            // In the foreground, and as whatever user: so it is anyway.
            if (argument.equals("-f") || argument.equals("-R")) continue;
            if (!argument.matches("(?s)-D.+|-X(?!m[sxn]).+"))
                throw new NodeException(
                        ("'%s' is no argument of this image, which takes -f, -R,"
                             + " -D<property>=<value> and -X…: the heap is set by MAX_HEAP_SIZE,"
                             + " other JVM options go into JVM_EXTRA_OPTS, settings of Cassandra"
                             + " into the file of PETRA_YAML")
                                .formatted(argument));
            options.add(argument);
        }
        return options;
    }

    /**
     * Refuses a volume whose node is of a cluster of another name. The last start's {@code
     * cassandra.yaml} tells; it is not overwritten yet.
     */
    private static void refuseOtherCluster(NodeConfig config) {
        NodeDirectory directory = config.directory();
        if (!Files.isDirectory(directory.root().resolve("data").resolve("system"))
                || !Files.exists(directory.yaml())) return;
        Object is = Yaml.read(directory.yaml()).get("cluster_name");
        Object wanted = config.yaml().get("cluster_name");
        if (is != null && !is.equals(wanted))
            throw new NodeException(
                    "the volume is of a node of the cluster '%s', not of '%s': set CASSANDRA_CLUSTER_NAME, or take another volume"
                            .formatted(is, wanted));
    }

    /** Quotes an argument as the JVM's files of arguments require. */
    static String quoted(String argument) {
        return '"' + argument.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    private static void write(Path file, String text) {
        try {
            Files.writeString(file, text);
        } catch (IOException e) {
            throw new NodeException("cannot write " + file + ": " + e, e);
        }
    }

    /** The memory limit of the container in bytes; the machine's memory if there is no limit. */
    private static long memory() {
        return ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class)
                .getTotalMemorySize();
    }

    private static String address() {
        try {
            return InetAddress.getLocalHost().getHostAddress();
        } catch (UnknownHostException e) {
            throw new NodeException(
                    "the container does not know its own address: set CASSANDRA_LISTEN_ADDRESS ("
                            + e.getMessage()
                            + ")",
                    e);
        }
    }
}
