// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The {@code cassandra.yaml} of a new node. */
final class CassandraYaml {
    static final String LISTEN_ADDRESS = "listen_address";
    static final String RPC_ADDRESS = "rpc_address";
    static final String NATIVE_PORT = "native_transport_port";
    static final String STORAGE_PORT = "storage_port";

    private static final String SYNC = "commitlog_sync";
    private static final String SYNC_PERIOD = "commitlog_sync_period";
    private static final String PERIODIC = "periodic";

    private CassandraYaml() {}

    /**
     * The text of the file with {@link #settings}.
     *
     * @param overwritten whether each start writes it anew
     */
    static String text(Map<String, Object> asked, boolean overwritten) {
        String head =
                """
                # Settings of this node, as Cassandra documents them. %s
                #
                # The data folders are not listed. They lie beside this one (data, commitlog, hints,
                # saved_caches, cdc_raw), which is where Cassandra looks by itself here.

                """
                        .formatted(
                                overwritten
                                        ? "Written anew at each start:\n# do not edit them here;"
                                                + " PETRA_YAML names a file with yours."
                                        : "Written once: edit them as you like.");
        return head + Yaml.dump(settings(asked));
    }

    /**
     * The settings for a single node or a small cluster.
     *
     * @param asked settings that replace these defaults
     */
    static Map<String, Object> settings(Map<String, Object> asked) {
        Map<String, Object> defaults = defaults();
        if (!asked.getOrDefault(SYNC, PERIODIC).equals(PERIODIC)) {
            defaults.remove(SYNC_PERIOD); // Cassandra refuses it with another mode.
        }
        Map<String, Object> settings = Yaml.merge(defaults, asked);
        if (!asked.containsKey("seed_provider")) {
            String self = settings.get(LISTEN_ADDRESS) + ":" + settings.get(STORAGE_PORT);
            settings.put("seed_provider", seeds(List.of(self)));
        }
        return settings;
    }

    /** The value of {@code seed_provider} for these seeds. */
    static List<Object> seeds(List<String> seeds) {
        return List.of(
                ordered(
                        "class_name",
                        "org.apache.cassandra.locator.SimpleSeedProvider",
                        "parameters",
                        List.of(Map.of("seeds", String.join(",", seeds)))));
    }

    /** The settings for these parameters of the engine. */
    static Map<String, Object> engine(Map<String, String> parameters) {
        return Map.of(
                "memtable",
                Map.of("configurations", Map.of("rocks", Map.of("parameters", parameters))));
    }

    private static Map<String, Object> defaults() {
        Map<String, Object> yaml = new LinkedHashMap<>();
        yaml.put("cluster_name", "Petra");
        yaml.put("num_tokens", 16);
        yaml.put("auto_bootstrap", true);
        yaml.put("partitioner", "org.apache.cassandra.dht.Murmur3Partitioner");
        yaml.put("endpoint_snitch", "SimpleSnitch");
        yaml.put("seed_provider", List.of());

        yaml.put(LISTEN_ADDRESS, "127.0.0.1");
        yaml.put(STORAGE_PORT, 7000);
        yaml.put(RPC_ADDRESS, "127.0.0.1");
        yaml.put("start_native_transport", true);
        yaml.put(NATIVE_PORT, 9042);

        yaml.put("authenticator", "AllowAllAuthenticator");
        yaml.put("authorizer", "AllowAllAuthorizer");
        yaml.put("role_manager", "CassandraRoleManager");
        yaml.put("network_authorizer", "AllowAllNetworkAuthorizer");

        yaml.put(SYNC, PERIODIC);
        yaml.put(SYNC_PERIOD, "10000ms");
        yaml.put("commitlog_segment_size", "32MiB");
        yaml.put("disk_failure_policy", "stop");
        yaml.put("commit_failure_policy", "stop");
        yaml.put("cdc_enabled", false);
        yaml.put("hinted_handoff_enabled", true);
        yaml.put("auto_snapshot", true);
        yaml.put("memtable", memtables());

        yaml.put("concurrent_reads", 32);
        yaml.put("concurrent_writes", 32);
        yaml.put("concurrent_counter_writes", 32);
        yaml.put("read_request_timeout", "5000ms");
        yaml.put("range_request_timeout", "10000ms");
        yaml.put("write_request_timeout", "2000ms");
        yaml.put("counter_write_request_timeout", "5000ms");
        yaml.put("truncate_request_timeout", "60000ms");
        yaml.put("request_timeout", "10000ms");

        yaml.put("storage_compatibility_mode", "CASSANDRA_4");
        return yaml;
    }

    private static Map<String, Object> memtables() {
        Map<String, Object> configurations = new LinkedHashMap<>();
        configurations.put("skiplist", Map.of("class_name", "SkipListMemtable"));
        configurations.put("trie", Map.of("class_name", "TrieMemtable"));
        configurations.put("default", Map.of("inherits", "skiplist"));
        configurations.put(
                "rocks",
                ordered(
                        "class_name",
                        "dev.petra.cassandra.PetraMemtable",
                        "parameters",
                        Map.of("engine", "rocks")));
        return Map.of("configurations", configurations);
    }

    private static Map<String, Object> ordered(
            String key, Object value, String nextKey, Object nextValue) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put(key, value);
        map.put(nextKey, nextValue);
        return map;
    }
}
