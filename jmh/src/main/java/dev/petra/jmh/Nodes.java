// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.launcher.Distribution;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.launcher.NodeProcess;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.jspecify.annotations.Nullable;

/** Configures the nodes of a comparison: alike in everything but what is compared. */
final class Nodes {
    /** What Cassandra 5.0 ships, for JDK 17: the heap is in memory from the start. */
    private static final List<String> G1 =
            List.of(
                    "-XX:+AlwaysPreTouch",
                    "-XX:+UseG1GC",
                    "-XX:+ParallelRefProcEnabled",
                    "-XX:MaxTenuringThreshold=2",
                    "-XX:G1HeapRegionSize=16m",
                    "-XX:+UnlockExperimentalVMOptions",
                    "-XX:G1NewSizePercent=50",
                    "-XX:G1RSetUpdatingPauseTimePercent=5",
                    "-XX:MaxGCPauseMillis=300",
                    "-XX:InitiatingHeapOccupancyPercent=70");

    private static final List<String> ZGC =
            List.of("-XX:+AlwaysPreTouch", "-XX:-UseG1GC", "-XX:+UseZGC");

    /** What Cassandra 5.0 ships for every JVM, beside what the launcher gives each node. */
    static final List<String> SHIPPED =
            List.of(
                    "-da:net.openhft...",
                    "-Xss256k",
                    "-XX:+UseNUMA",
                    "-Dio.netty.allocator.useCacheForAllThreads=true",
                    "-Dio.netty.allocator.maxOrder=11");

    /** Hints to the compiler, in Cassandra's jar and in the directory of a node. */
    private static final String HINTS = "hotspot_compiler";

    /** What a stream can do is asked, not what it may. */
    private static final Map<String, Object> UNTHROTTLED =
            Map.of(
                    "stream_throughput_outbound", "0MiB/s",
                    "entire_sstable_stream_throughput_outbound", "0MiB/s");

    /**
     * Of these it is asked what compaction can do. Else {@code compaction_throughput} would decide,
     * which counts what Cassandra's compaction reads, and what the engine's writes.
     */
    private static final Set<String> COMPACTION = Set.of("load", "leveled");

    private Nodes() {}

    /** Whether the nodes of all engines have the plugin and its agent, as with {@code rocks}. */
    static final String EVERYWHERE = "petra.bench.agent.everywhere";

    /** What the command line asks of the nodes of all engines: {@code name=value,name=value}. */
    static final String YAML = "petra.bench.yaml";

    /**
     * The options and files of a node in the JVM of a benchmark.
     *
     * @param nativeMiB memory beside the heap
     */
    static NodeProcess embedded(Path directory, Run run, int heapMiB, int nativeMiB) {
        NodeConfig.Builder config =
                config(directory, run.engine(), run.workload(), run.gc(), heapMiB, nativeMiB);
        // It has the SPI, by which Cassandra's own storage is measured there too.
        if (run.level() == Access.Level.SPI) config.plugin(true);
        return new NodeProcess(config.build());
    }

    /**
     * A node that does not run yet, in a control group.
     *
     * @param gc G1 or ZGC
     * @param limit of its whole memory; null for none
     */
    static NodeProcess limited(
            Path directory,
            Engine engine,
            String workload,
            String gc,
            int heapMiB,
            int nativeMiB,
            @Nullable MemoryLimit limit) {
        return in(limit, config(directory, engine, workload, gc, heapMiB, nativeMiB));
    }

    private static NodeProcess in(@Nullable MemoryLimit limit, NodeConfig.Builder config) {
        if (limit != null) config.wrapper(limit.entering());
        return new NodeProcess(config.build());
    }

    /**
     * One that answers late rather than not.
     *
     * @param limit of its whole memory; null for none
     */
    static NodeProcess patient(
            Path directory,
            Engine engine,
            String gc,
            int heapMiB,
            int nativeMiB,
            @Nullable MemoryLimit limit) {
        Map<String, Object> timeouts = new HashMap<>();
        for (String request : List.of("read", "range", "write", "counter_write"))
            timeouts.put(request + "_request_timeout", "50s");
        timeouts.put("cas_contention_timeout", "50s");
        return in(limit, config(directory, engine, "", gc, heapMiB, nativeMiB).yaml(timeouts));
    }

    /** One like another that runs, which joins that when it is started. */
    static NodeProcess joining(
            NodeProcess seed,
            Path directory,
            Engine engine,
            String gc,
            int heapMiB,
            int nativeMiB) {
        return new NodeProcess(
                config(directory, engine, "", gc, heapMiB, nativeMiB)
                        .seeds(List.of(seed.address() + ":" + seed.storagePort()))
                        .build());
    }

    static NodeConfig.Builder config(
            Path directory, Engine engine, String workload, String gc, int heapMiB, int nativeMiB) {
        boolean plugin = hasPlugin(engine);
        NodeConfig.Builder config =
                NodeConfig.builder(directory)
                        .nativePort(FreePorts.next())
                        .storagePort(FreePorts.next())
                        .jmxPort(FreePorts.next())
                        .overwriteConf(true)
                        .heap(heapMiB + "MiB")
                        .fastRing()
                        .agent(plugin && engine != Engine.ROCKS_WOVEN)
                        .plugin(plugin)
                        .yaml(yaml(engine, workload, nativeMiB))
                        .jvmOptions(SHIPPED.toArray(String[]::new))
                        .jvmOptions(compilerHints(directory, directory.toAbsolutePath()))
                        .jvmOptions(collector(gc).toArray(String[]::new))
                        .jvmOptions(Probe.option(directory));
        config.jvmOptions(Owner.mine().option());
        String direct = directMemory(engine, heapMiB, nativeMiB).strip();
        if (!direct.isEmpty()) config.jvmOptions(direct);
        if (engine.isPetra() || engine.isShadowed())
            config.engineParameters(Map.of("engine", "rocks", "memory", nativeMiB + "MiB"));
        if (engine.isShadowed()) config.yaml(shadow(engine, nativeMiB));
        if (engine == Engine.ROCKS_WOVEN) config.home(WovenDistribution.ofThisRun());
        return config;
    }

    /** A memtable configuration of a table with a shadow, with all other settings at defaults. */
    private static Map<String, Object> shadow(Engine engine, int nativeMiB) {
        String mode = engine == Engine.LEGACY_LATEST_FALLBACK ? "fallback" : "shadow";
        Map<String, String> parameters =
                Map.of("engine", "rocks", "mode", mode, "memory", nativeMiB + "MiB");
        return Map.of(
                "memtable",
                Map.of(
                        "configurations",
                        Map.of(
                                engine.memtable(),
                                Map.of(
                                        "class_name",
                                        "dev.petra.cassandra.PetraMemtable",
                                        "parameters",
                                        parameters))));
    }

    /** The settings of a node of an engine, for a workload. */
    static Map<String, Object> yaml(Engine engine, String workload, int nativeMiB) {
        Map<String, Object> yaml = new LinkedHashMap<>(engine.yaml(nativeMiB));
        yaml.putAll(UNTHROTTLED);
        if (COMPACTION.contains(workload)) yaml.put("compaction_throughput", "0MiB/s");
        for (String setting : System.getProperty(YAML, "").split(",", -1)) {
            int equals = setting.indexOf('=');
            if (equals > 0) yaml.put(setting.substring(0, equals), value(setting, equals + 1));
        }
        return yaml;
    }

    private static Object value(String setting, int from) {
        String value = setting.substring(from);
        if (value.matches("[0-9]{1,9}")) return Integer.valueOf(value);
        return value.matches("true|false") ? Boolean.valueOf(value) : value;
    }

    /**
     * Gives a node's JVM the hints of Cassandra's jar. In the JVM of a benchmark, JMH adds its own
     * to them.
     *
     * @param directory made if it is not there
     * @param seen where the node finds it
     * @return the option
     */
    static String compilerHints(Path directory, Path seen) {
        Path jar = Distribution.fromSystemProperty().cassandraJar();
        try (ZipFile all = new ZipFile(jar.toFile())) {
            ZipEntry hints = all.getEntry("META-INF/" + HINTS);
            if (hints == null) throw new IOException(jar + " has no META-INF/" + HINTS);
            Files.createDirectories(directory);
            Files.write(directory.resolve(HINTS), all.getInputStream(hints).readAllBytes());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return "-XX:CompileCommandFile=" + seen.resolve(HINTS);
    }

    /** Cassandra's caches are direct memory, of which a node has half its heap otherwise. */
    static String directMemory(Engine engine, int otherMiB, int nativeMiB) {
        return engine == Engine.LEGACY_LATEST_CACHE
                ? " -XX:MaxDirectMemorySize=" + (otherMiB + nativeMiB) + "m"
                : "";
    }

    /** As a user of Cassandra's own storage has it: only where tables are in the engine. */
    static boolean hasPlugin(Engine engine) {
        return engine.isPetra() || engine.isShadowed() || Boolean.getBoolean(EVERYWHERE);
    }

    /** The JVM options of a collector. */
    static List<String> collector(String gc) {
        return switch (gc) {
            case "G1" -> G1;
            case "ZGC" -> ZGC;
            default -> throw new IllegalArgumentException("no collector '" + gc + "': G1 or ZGC");
        };
    }
}
