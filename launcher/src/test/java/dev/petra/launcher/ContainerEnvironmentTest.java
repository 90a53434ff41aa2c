// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ContainerEnvironmentTest {
    private static final long GIB = 1L << 30;

    @TempDir Path directory;

    private NodeConfig config(Map<String, String> variables, long memory) {
        return config(variables, memory, false);
    }

    private NodeConfig config(Map<String, String> variables, long memory, boolean woven) {
        return new ContainerEnvironment(
                        variables, memory, "10.0.0.7", Path.of("/lib/exporter.jar"), woven)
                .config(directory);
    }

    @Test
    void withoutVariablesANodeIsItsOwnSeed() {
        NodeConfig config = config(Map.of(), 4 * GIB);
        assertThat(config.yaml())
                .containsEntry("cluster_name", "Petra")
                .containsEntry("listen_address", "10.0.0.7")
                .containsEntry("rpc_address", "0.0.0.0")
                .containsEntry("broadcast_rpc_address", "10.0.0.7")
                .containsEntry("seed_provider", CassandraYaml.seeds(List.of("10.0.0.7")));
        assertThat(config.heap()).contains(new HeapSize(1024));
        assertThat(new ContainerEnvironment(Map.of(), GIB, "a", Path.of("x"), false).rack())
                .isEqualTo("dc=datacenter1\nrack=rack1\n");
    }

    @Test
    void variablesAreThoseOfTheOfficialImage() {
        NodeConfig config =
                config(
                        Map.of(
                                "CASSANDRA_CLUSTER_NAME", "test",
                                "CASSANDRA_SEEDS", "a,b",
                                "CASSANDRA_BROADCAST_ADDRESS", "1.2.3.4",
                                "CASSANDRA_NUM_TOKENS", "8",
                                "MAX_HEAP_SIZE", "512M",
                                "JVM_EXTRA_OPTS", "-Dx=1  -Dy=2",
                                "PETRA_WRITE_BUFFER", "8MiB"),
                        4 * GIB);
        assertThat(config.yaml())
                .containsEntry("cluster_name", "test")
                .containsEntry("seed_provider", CassandraYaml.seeds(List.of("a", "b")))
                .containsEntry("listen_address", "10.0.0.7")
                .containsEntry("broadcast_address", "1.2.3.4")
                .containsEntry("broadcast_rpc_address", "1.2.3.4")
                .containsEntry("num_tokens", 8);
        assertThat(config.yaml().toString()).contains("write_buffer=8MiB").contains("engine=rocks");
        assertThat(config.heap()).contains(new HeapSize(512));
        assertThat(config.jvmOptions()).containsExactly("-Dx=1", "-Dy=2");
    }

    @Test
    void metricsAreShownOnAPortThatIsAskedFor() {
        NodeConfig config = config(Map.of("PETRA_EXPORTER_PORT", "7070"), 4 * GIB);
        assertThat(config.jvmOptions())
                .containsExactly("-javaagent:/lib/exporter.jar=7070:/lib/jmx-exporter.yaml");
        // PETRA_EXPORTER_PORT must not become a setting of the engine.
        assertThat(config.yaml().toString()).doesNotContain("exporter");
        assertThatThrownBy(() -> config(Map.of("PETRA_EXPORTER_PORT", "on"), 4 * GIB))
                .hasMessage("PETRA_EXPORTER_PORT is 'on', which is no number");
    }

    /** They got into cassandra.yaml, and the node ended, as it knew no such setting. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "PETRA_CQL_PASSWORD",
                "PETRA_TRUSTSTORE_PASSWORD",
                "PETRA_KEYSTORE_PASSWORD"
            })
    void aPasswordOfACommandIsNoSettingOfTheEngine(String variable) {
        assertThat(config(Map.of(variable, "secret"), 4 * GIB).yaml())
                .isEqualTo(config(Map.of(), 4 * GIB).yaml());
    }

    @Test
    void aNodeToCompareWithHasNoPlugin() {
        NodeConfig without = config(Map.of("PETRA_PLUGIN", "false"), 4 * GIB);
        assertThat(without.plugin()).isFalse();
        assertThat(without.agent()).isFalse();
        assertThat(without.yaml().toString()).doesNotContain("plugin");
        assertThat(config(Map.of(), 4 * GIB).plugin()).isTrue();
        assertThatThrownBy(() -> config(Map.of("PETRA_PLUGIN", "no"), 4 * GIB))
                .hasMessage("PETRA_PLUGIN is 'no', not true or false");
    }

    @Test
    void aNodeOfAWovenCassandraHasThePluginAndNoAgent() {
        NodeConfig woven = config(Map.of("PETRA_PLUGIN", "true"), 4 * GIB, true);
        assertThat(woven.agent()).isFalse();
        assertThat(woven.plugin()).isTrue();
        assertThat(config(Map.of(), 4 * GIB).agent()).isTrue();
        assertThatThrownBy(() -> config(Map.of("PETRA_PLUGIN", "false"), 4 * GIB, true))
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("take an image that was built without --woven");
    }

    @Test
    void onesOwnYamlHasTheLastWord() throws IOException {
        Path own = directory.resolve("own.yaml");
        Files.writeString(own, "num_tokens: 1\n");
        NodeConfig config =
                config(Map.of("PETRA_YAML", own.toString(), "CASSANDRA_NUM_TOKENS", "8"), 4 * GIB);
        assertThat(config.yaml()).containsEntry("num_tokens", 1);
    }

    @ParameterizedTest
    @CsvSource({"1, 256", "2, 512", "16, 4096", "256, 8192"})
    void theHeapFollowsTheContainersMemory(long gib, int heap) {
        assertThat(config(Map.of(), gib * GIB).heap()).contains(new HeapSize(heap));
    }

    @ParameterizedTest
    @CsvSource({
        "MAX_HEAP_SIZE, lots, MAX_HEAP_SIZE",
        "MAX_HEAP_SIZE, 2G, the container has 2048 MiB",
        "CASSANDRA_NUM_TOKENS, many, CASSANDRA_NUM_TOKENS is 'many'",
        "PETRA_YAML, /nowhere, PETRA_YAML is /nowhere"
    })
    void whatIsWrongIsNamed(String variable, String value, String message) {
        assertThatThrownBy(() -> config(Map.of(variable, value), 2 * GIB))
                .isInstanceOf(NodeException.class)
                .hasMessageContaining(message);
    }

    /** Of a service called petra, or petra-data, in the same namespace. */
    @Test
    void whatKubernetesTellsOfAServiceIsNoSetting() {
        Map<String, String> variables = new HashMap<>();
        for (String service : new String[] {"PETRA", "PETRA_DATA", "PETRA_EXPORTER"})
            for (String end :
                    new String[] {
                        "SERVICE_HOST",
                        "SERVICE_PORT",
                        "SERVICE_PORT_CQL",
                        "PORT",
                        "PORT_9042_TCP",
                        "PORT_9042_TCP_PROTO",
                        "PORT_9042_TCP_PORT",
                        "PORT_9042_TCP_ADDR"
                    }) variables.put(service + "_" + end, "tcp://10.0.0.1:9042");
        Map<String, String> ours = Map.of("PETRA_WRITE_BUFFER", "8MiB");
        variables.putAll(ours);
        assertThat(config(variables, 4 * GIB).yaml()).isEqualTo(config(ours, 4 * GIB).yaml());
        assertThat(config(variables, 4 * GIB).jvmOptions()).isEmpty();
    }

    @Test
    void tooLittleMemoryIsNamed() {
        assertThatThrownBy(() -> config(Map.of(), GIB / 2))
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("the container has 512 MiB of memory");
    }

    @Test
    void argumentsAreQuotedAsTheJvmReadsThem() {
        assertThat(ContainerCommand.quoted("-Da=b \"c\" \\d"))
                .isEqualTo("\"-Da=b \\\"c\\\" \\\\d\"");
    }
}
