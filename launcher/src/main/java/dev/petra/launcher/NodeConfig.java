// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The configuration of a node. A setting that is not given here has its default when the node's
 * files are first written, and then the value in these files.
 */
public final class NodeConfig {
    /** The default heap of a new node. */
    public static final HeapSize DEFAULT_HEAP = new HeapSize(1024);

    /** The default JMX port of a new node. */
    public static final int DEFAULT_JMX_PORT = 7199;

    /** JVM options that shorten Cassandra's waiting times, for tests; not for production. */
    public static final List<String> FAST_RING =
            List.of(
                    // A node that has not heard of the others by then joins as if it were alone.
                    "-Dcassandra.ring_delay_ms=5000",
                    // A node that replaces another waits at least this long.
                    "-Dcassandra.broadcast_interval_ms=10000",
                    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
                    "-Dcassandra.shutdown_announce_in_ms=200",
                    "-Dcassandra.gossip_quarantine_delay_ms=3000",
                    // At start, Cassandra measures the memory of a memtable's row for seconds. With
                    // fewer rows the result is the same, to within a byte.
                    "-Dcassandra.memtable_row_overhead_computation_step=1000");

    private final Optional<Distribution> distribution;
    private final NodeDirectory directory;
    private final Map<String, Object> yaml;
    private final Optional<HeapSize> heap;
    private final Optional<Integer> jmxPort;
    private final List<String> jvmOptions;
    private final List<Path> classPath;
    private final boolean agent;
    private final boolean plugin;
    private final boolean overwriteConf;
    private final boolean endWithThisJvm;
    private final boolean consoleLog;
    private final List<String> wrapper;

    private NodeConfig(Builder builder) {
        distribution = builder.distribution;
        directory = builder.directory;
        yaml = Yaml.merge(builder.yaml, builder.extraYaml);
        heap = builder.heap;
        jmxPort = builder.jmxPort;
        jvmOptions = List.copyOf(builder.jvmOptions);
        classPath = List.copyOf(builder.classPath);
        agent = builder.agent;
        plugin = builder.plugin;
        overwriteConf = builder.overwriteConf;
        endWithThisJvm = builder.endWithThisJvm;
        consoleLog = builder.consoleLog;
        wrapper = List.copyOf(builder.wrapper);
    }

    /** Configures a node in a directory, which need not exist. */
    public static Builder builder(Path dir) {
        return new Builder(new NodeDirectory(dir));
    }

    /** The jars that the node runs from. */
    public Distribution distribution() {
        return distribution.orElseGet(Distribution::fromSystemProperty);
    }

    /** The node's directory. */
    public NodeDirectory directory() {
        return directory;
    }

    Map<String, Object> yaml() {
        return yaml;
    }

    Optional<HeapSize> heap() {
        return heap;
    }

    Optional<Integer> jmxPort() {
        return jmxPort;
    }

    List<String> jvmOptions() {
        return jvmOptions;
    }

    List<Path> classPath() {
        return classPath;
    }

    boolean agent() {
        return agent;
    }

    boolean plugin() {
        return plugin;
    }

    boolean overwriteConf() {
        return overwriteConf;
    }

    boolean endWithThisJvm() {
        return endWithThisJvm;
    }

    boolean consoleLog() {
        return consoleLog;
    }

    List<String> wrapper() {
        return wrapper;
    }

    /** Collects settings; if one is set twice, the last value counts. */
    public static final class Builder {
        private final NodeDirectory directory;
        private final Map<String, Object> yaml = new LinkedHashMap<>();
        private Map<String, Object> extraYaml = Map.of();
        private Optional<Distribution> distribution = Optional.empty();
        private Optional<HeapSize> heap = Optional.empty();
        private Optional<Integer> jmxPort = Optional.empty();
        private final List<String> jvmOptions = new ArrayList<>();
        private final List<Path> classPath = new ArrayList<>();
        private boolean agent = true;
        private boolean plugin = true;
        private boolean overwriteConf;
        private boolean endWithThisJvm = true;
        private boolean consoleLog;
        private List<String> wrapper = List.of();

        private Builder(NodeDirectory directory) {
            this.directory = directory;
        }

        /**
         * The home of the {@link Distribution}; by default that of the property {@code petra.home}.
         */
        public Builder home(Path home) {
            distribution = Optional.of(new Distribution(home));
            return this;
        }

        /** The address to listen on, for CQL and for other nodes; 127.0.0.1 by default. */
        public Builder address(String address) {
            yaml.put(CassandraYaml.LISTEN_ADDRESS, address);
            yaml.put(CassandraYaml.RPC_ADDRESS, address);
            return this;
        }

        /** The port of CQL; 9042 by default. */
        public Builder nativePort(int port) {
            yaml.put(CassandraYaml.NATIVE_PORT, port);
            return this;
        }

        /** The port for other nodes, the same in a whole cluster; 7000 by default. */
        public Builder storagePort(int port) {
            yaml.put(CassandraYaml.STORAGE_PORT, port);
            return this;
        }

        /** The loopback port of JMX, different for each node of a machine; 7199 by default. */
        public Builder jmxPort(int port) {
            jmxPort = Optional.of(port);
            return this;
        }

        /** The heap; 1GiB by default. */
        public Builder heap(HeapSize size) {
            heap = Optional.of(size);
            return this;
        }

        /** The heap as text: {@code 1GiB}, {@code 512m}. */
        public Builder heap(String size) {
            return heap(HeapSize.parse(size));
        }

        /** The cluster's name; Petra by default. */
        public Builder clusterName(String name) {
            yaml.put("cluster_name", name);
            return this;
        }

        /** The seeds as {@code address:storage_port}; the node itself by default. */
        public Builder seeds(List<String> seeds) {
            yaml.put("seed_provider", CassandraYaml.seeds(seeds));
            return this;
        }

        /** The number of tokens; 16 by default. */
        public Builder numTokens(int tokens) {
            yaml.put("num_tokens", tokens);
            return this;
        }

        /** Whether a new node that is not a seed streams its data when it joins; yes by default. */
        public Builder autoBootstrap(boolean bootstrap) {
            yaml.put("auto_bootstrap", bootstrap);
            return this;
        }

        /** Settings that override all others: maps are merged, everything else is replaced. */
        public Builder yaml(Map<String, Object> settings) {
            extraYaml = Yaml.merge(extraYaml, settings);
            return this;
        }

        /** Parameters of the engine, in the memtable configuration {@code rocks}. */
        public Builder engineParameters(Map<String, String> parameters) {
            return yaml(CassandraYaml.engine(parameters));
        }

        /** Options of the JVM for this run, after those of {@code conf/jvm.options}. */
        public Builder jvmOptions(String... options) {
            jvmOptions.addAll(List.of(options));
            return this;
        }

        /**
         * Shortens Cassandra's waiting times, so that starting, joining and leaving take seconds.
         */
        public Builder fastRing() {
            return jvmOptions(FAST_RING.toArray(String[]::new));
        }

        /** Jars and folders that come before Petra's jar on the node's class path. */
        public Builder classPath(Path... entries) {
            classPath.addAll(List.of(entries));
            return this;
        }

        /** Whether Petra's agent is loaded; without it the engine refuses to open a table. */
        public Builder agent(boolean load) {
            agent = load;
            return this;
        }

        /** Whether Petra's jar is on the class path; without it the agent must not be loaded. */
        public Builder plugin(boolean there) {
            plugin = there;
            return this;
        }

        /**
         * Whether each start writes the files in {@code conf} anew. By default existing files are
         * kept, and it is an error if a setting contradicts them.
         */
        public Builder overwriteConf(boolean overwrite) {
            overwriteConf = overwrite;
            return this;
        }

        /** Whether the node is stopped when the JVM that started it ends; yes by default. */
        public Builder endWithThisJvm(boolean end) {
            endWithThisJvm = end;
            return this;
        }

        /** Sends the log to the standard output instead of a file. */
        public Builder consoleLog() {
            consoleLog = true;
            return this;
        }

        /**
         * What starts the node's JVM.
         *
         * @param command a command that executes its further arguments in its own process
         */
        public Builder wrapper(List<String> command) {
            wrapper = command;
            return this;
        }

        /** Makes the configuration. */
        public NodeConfig build() {
            return new NodeConfig(this);
        }
    }
}
