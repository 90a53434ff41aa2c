// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class CassandraYamlTest {
    @Test
    void aNodeThatNothingIsAskedOfIsItsOwnSeedOnTheDefaultPorts() {
        Map<String, Object> yaml = CassandraYaml.settings(Map.of());

        assertThat(yaml)
                .containsEntry("listen_address", "127.0.0.1")
                .containsEntry("rpc_address", "127.0.0.1")
                .containsEntry("native_transport_port", 9042)
                .containsEntry("storage_port", 7000)
                .containsEntry("commitlog_sync", "periodic")
                .containsEntry("commitlog_sync_period", "10000ms")
                .containsEntry("seed_provider", CassandraYaml.seeds(List.of("127.0.0.1:7000")));
    }

    @Test
    void theEngineIsAMemtableConfigurationAndNotTheDefault() {
        assertThat(CassandraYaml.text(Map.of(), false))
                .contains(
                        """
                        memtable:
                          configurations:
                            skiplist:
                              class_name: SkipListMemtable
                            trie:
                              class_name: TrieMemtable
                            default:
                              inherits: skiplist
                            rocks:
                              class_name: dev.petra.cassandra.PetraMemtable
                              parameters:
                                engine: rocks
                        """);
    }

    @Test
    void whatIsAskedForLiesOverTheDefaults() {
        NodeConfig config =
                NodeConfig.builder(Path.of("node"))
                        .address("127.0.0.2")
                        .storagePort(17000)
                        .clusterName("Ring")
                        .numTokens(4)
                        .autoBootstrap(false)
                        .engineParameters(Map.of("block_cache_size", "64MiB"))
                        .yaml(Map.of("read_request_timeout", "9s", "num_tokens", 8))
                        .build();

        Map<String, Object> yaml = CassandraYaml.settings(config.yaml());

        assertThat(yaml)
                .containsEntry("listen_address", "127.0.0.2")
                .containsEntry("rpc_address", "127.0.0.2")
                .containsEntry("cluster_name", "Ring")
                .containsEntry("num_tokens", 8)
                .containsEntry("auto_bootstrap", false)
                .containsEntry("read_request_timeout", "9s")
                .containsEntry("write_request_timeout", "2000ms")
                .containsEntry("seed_provider", CassandraYaml.seeds(List.of("127.0.0.2:17000")));
        assertThat(Yaml.dump(yaml))
                .contains("engine: rocks\n        block_cache_size: 64MiB\n")
                .contains("class_name: SkipListMemtable");
    }

    @Test
    void seedsAreOneList() {
        NodeConfig config =
                NodeConfig.builder(Path.of("node"))
                        .seeds(List.of("127.0.0.1:7000", "127.0.0.2:7000"))
                        .build();

        assertThat(CassandraYaml.text(config.yaml(), false))
                .contains("- seeds: \"127.0.0.1:7000,127.0.0.2:7000\"");
    }

    @Test
    void anotherSyncModeLeavesOutThePeriodThatCassandraWouldRefuse() {
        assertThat(CassandraYaml.settings(Map.of("commitlog_sync", "batch")))
                .containsEntry("commitlog_sync", "batch")
                .doesNotContainKey("commitlog_sync_period");
        assertThat(CassandraYaml.settings(Map.of("commitlog_sync_period", "1ms")))
                .containsEntry("commitlog_sync", "periodic")
                .containsEntry("commitlog_sync_period", "1ms");
    }
}
