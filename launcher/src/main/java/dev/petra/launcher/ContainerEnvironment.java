// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;

/**
 * Configures the node of a container by environment variables: those of Cassandra's official image,
 * {@code PETRA_<SETTING>} for the engine's settings, {@code PETRA_YAML} and {@code
 * PETRA_EXPORTER_PORT}.
 */
final class ContainerEnvironment {
    private static final String ENGINE_SETTING = "PETRA_";
    private static final String YAML = "PETRA_YAML";
    private static final String PLUGIN = "PETRA_PLUGIN";

    /** Of variables that commands in the container read: they must not get into a file. */
    private static final String OF_A_COMMAND = "_PASSWORD";

    /** What Kubernetes and {@code docker --link} tell of a service whose name begins with petra. */
    private static final Pattern OF_A_SERVICE =
            Pattern.compile(
                    "PETRA_(\\w+_)?(SERVICE_HOST|SERVICE_PORT(_\\w+)?"
                            + "|PORT(_\\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?|NAME|ENV_\\w+)");

    private static final String EXPORTER_PORT = "PETRA_EXPORTER_PORT";
    private static final int LEAST_HEAP = 256;
    private static final int MOST_HEAP = 8 << 10;

    /** The least memory, in MiB, of the JVM besides heap and direct memory, and of the engine. */
    private static final int REST = 384;

    private final Map<String, String> variables;
    private final long memoryMebibytes;
    private final String address;
    private final Path exporter;
    private final boolean woven;

    /**
     * @param variables the environment variables; blank ones count as missing
     * @param memory the memory of the container, in bytes
     * @param address the IP address of the container
     * @param exporter the agent that exports metrics to Prometheus; its configuration is beside it
     * @param woven whether the image's Cassandra is woven
     */
    ContainerEnvironment(
            Map<String, String> variables,
            long memory,
            String address,
            Path exporter,
            boolean woven) {
        this.variables = new TreeMap<>(variables);
        this.variables.values().removeIf(String::isBlank);
        // Kubernetes' own, of a service called petra-exporter.
        if (text(EXPORTER_PORT, "").contains("://")) this.variables.remove(EXPORTER_PORT);
        this.memoryMebibytes = memory >> 20;
        this.address = address;
        this.exporter = exporter;
        this.woven = woven;
    }

    private String text(String name, String absent) {
        return variables.getOrDefault(name, absent).strip();
    }

    /** The node's configuration. Each start writes its files anew. */
    NodeConfig config(Path dir) {
        NodeConfig.Builder config =
                NodeConfig.builder(dir)
                        .overwriteConf(true)
                        .endWithThisJvm(false)
                        .consoleLog()
                        .heap(heap())
                        .jvmOptions(jvmOptions())
                        .yaml(yaml());
        Map<String, String> engine = engine();
        if (!engine.isEmpty()) {
            engine.put("engine", "rocks");
            config.engineParameters(engine);
        }
        if (woven) config.agent(false);
        if (isWithout()) config.agent(false).plugin(false);
        if (variables.containsKey(YAML)) config.yaml(own(Path.of(text(YAML, ""))));
        return config.build();
    }

    /** Whether the node is Cassandra as it is, to be compared with. */
    private boolean isWithout() {
        String value = text(PLUGIN, "true");
        if (!value.equals("true") && !value.equals("false"))
            throw new NodeException(PLUGIN + " is '" + value + "', not true or false");
        boolean without = value.equals("false");
        if (without && woven)
            throw new NodeException(
                    PLUGIN
                            + " is false, but the Cassandra of this image is woven and does not run"
                            + " without Petra: take an image that was built without --woven");
        return without;
    }

    private static Map<String, Object> own(Path file) {
        if (!Files.isReadable(file))
            throw new NodeException(YAML + " is " + file + ", which cannot be read");
        return Yaml.read(file);
    }

    private Map<String, Object> yaml() {
        Map<String, Object> yaml = new LinkedHashMap<>();
        String listen = text("CASSANDRA_LISTEN_ADDRESS", "auto");
        if (listen.equals("auto")) listen = address;
        String broadcast = text("CASSANDRA_BROADCAST_ADDRESS", listen);
        yaml.put("cluster_name", text("CASSANDRA_CLUSTER_NAME", "Petra"));
        yaml.put("listen_address", listen);
        yaml.put("broadcast_address", broadcast);
        yaml.put("rpc_address", text("CASSANDRA_RPC_ADDRESS", "0.0.0.0"));
        yaml.put("broadcast_rpc_address", text("CASSANDRA_BROADCAST_RPC_ADDRESS", broadcast));
        yaml.put(
                "endpoint_snitch",
                text("CASSANDRA_ENDPOINT_SNITCH", "GossipingPropertyFileSnitch"));
        yaml.put("num_tokens", number("CASSANDRA_NUM_TOKENS", 16));
        yaml.put(
                "seed_provider",
                CassandraYaml.seeds(List.of(text("CASSANDRA_SEEDS", broadcast).split(",", -1))));
        return yaml;
    }

    /** The text of {@code cassandra-rackdc.properties}. */
    String rack() {
        return "dc="
                + text("CASSANDRA_DC", "datacenter1")
                + "\nrack="
                + text("CASSANDRA_RACK", "rack1")
                + "\n";
    }

    /**
     * The engine's settings: {@code PETRA_WRITE_BUFFER} is {@code write_buffer}. No password is.
     */
    private Map<String, String> engine() {
        Map<String, String> engine = new TreeMap<>();
        variables.forEach(
                (name, value) -> {
                    if (name.startsWith(ENGINE_SETTING)
                            && !name.equals(YAML)
                            && !name.equals(PLUGIN)
                            && !name.equals(EXPORTER_PORT)
                            && !name.endsWith(OF_A_COMMAND)
                            && !OF_A_SERVICE.matcher(name).matches())
                        engine.put(
                                name.substring(ENGINE_SETTING.length()).toLowerCase(Locale.ROOT),
                                value.strip());
                });
        return engine;
    }

    /**
     * {@code MAX_HEAP_SIZE}, or by default a quarter of the container's memory, but at least 256
     * MiB and at most 8 GiB. Throws a {@link NodeException} if the container's memory is too small
     * for it.
     */
    private HeapSize heap() {
        HeapSize heap;
        if (variables.containsKey("MAX_HEAP_SIZE")) {
            try {
                heap = HeapSize.parse(text("MAX_HEAP_SIZE", ""));
            } catch (IllegalArgumentException e) {
                throw new NodeException("MAX_HEAP_SIZE: " + e.getMessage(), e);
            }
        } else {
            heap =
                    new HeapSize(
                            (int) Math.min(MOST_HEAP, Math.max(LEAST_HEAP, memoryMebibytes / 4)));
        }
        // Direct memory is half the heap.
        long needed = heap.mebibytes() * 3L / 2 + REST;
        if (needed > memoryMebibytes)
            throw new NodeException(
                    "the container has "
                            + memoryMebibytes
                            + " MiB of memory, but a heap of "
                            + heap.mebibytes()
                            + " MiB with what comes beside it takes "
                            + needed
                            + " MiB at least: give it more memory, or set MAX_HEAP_SIZE");
        return heap;
    }

    private String[] jvmOptions() {
        List<String> options = new ArrayList<>();
        String preloaded = text("LD_PRELOAD", "");
        if (preloaded.contains("jemalloc")) {
            // Cassandra's script sets this property; without it Cassandra warns of no jemalloc.
            options.add("-Dcassandra.libjemalloc=" + preloaded);
        }
        if (variables.containsKey(EXPORTER_PORT))
            options.add(
                    "-javaagent:"
                            + exporter
                            + "="
                            + number(EXPORTER_PORT, 0)
                            + ":"
                            + exporter.resolveSibling("jmx-exporter.yaml"));
        for (String name : new String[] {"JVM_OPTS", "JVM_EXTRA_OPTS"})
            for (String option : text(name, "").split("\\s+", -1))
                if (!option.isEmpty()) options.add(option);
        return options.toArray(String[]::new);
    }

    private int number(String name, int absent) {
        String value = text(name, Integer.toString(absent));
        try {
            return Integer.parseInt(value);
        } catch (NumberFormatException e) {
            throw new NodeException(name + " is '" + value + "', which is no number", e);
        }
    }
}
