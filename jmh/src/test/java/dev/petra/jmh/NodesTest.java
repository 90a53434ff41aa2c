// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class NodesTest {
    private static final String HINTS = "inline org.apache.cassandra.X::y ()V\n";

    @TempDir Path directory;

    /** One whose jars have just what is looked for. */
    @BeforeEach
    void distribution() throws IOException {
        Path lib = Files.createDirectories(directory.resolve("lib/cassandra"));
        Files.createFile(lib.resolveSibling("petra.jar"));
        try (ZipOutputStream jar =
                new ZipOutputStream(Files.newOutputStream(lib.resolve("cassandra-all-5.jar")))) {
            jar.putNextEntry(new ZipEntry("META-INF/hotspot_compiler"));
            jar.write(HINTS.getBytes(UTF_8));
        }
        System.setProperty("petra.home", directory.toString());
        WovenDistribution.use(directory);
    }

    @AfterEach
    void noDistribution() {
        System.clearProperty("petra.home");
        System.clearProperty("petra.bench.woven");
        System.clearProperty(Nodes.YAML);
    }

    /** Also of the JVM of a benchmark, where JMH adds its own hints to these. */
    @ParameterizedTest
    @EnumSource
    void nodesOfAllEnginesHaveTheOptionsThatCassandraShips(Engine engine) {
        Path node = directory.resolve("node");
        Run run = new Run("emp", Access.Level.LOCAL, "G1", "read", engine);
        List<String> options = Nodes.embedded(node, run, 512, 64).prepareForAnotherJvm();
        assertThat(options)
                .contains(
                        "-XX:CompileCommandFile=" + node.resolve("hotspot_compiler"),
                        "-Xss256k",
                        "-Dio.netty.allocator.useCacheForAllThreads=true",
                        "-Dio.netty.allocator.maxOrder=11");
        assertThat(node.resolve("hotspot_compiler")).hasContent(HINTS);
    }

    @ParameterizedTest
    @EnumSource
    void aWovenNodeDiffersInTheAgentAlone(Engine engine) {
        Path node = directory.resolve("node");
        Run run = new Run("emp", Access.Level.LOCAL, "G1", "read", engine);
        String agent = "-javaagent:" + directory.resolve("lib/petra.jar");
        List<String> options = Nodes.embedded(node, run, 512, 64).prepareForAnotherJvm();
        assertThat(options.contains(agent))
                .isEqualTo(engine == Engine.ROCKS || engine.isShadowed());
        if (engine != Engine.ROCKS_WOVEN) return;
        assertThat(node.resolve("conf/cassandra.yaml"))
                .content()
                .contains("dev.petra.cassandra.PetraMemtable", "64MiB");
        Run withAgent = new Run("emp", Access.Level.LOCAL, "G1", "read", Engine.ROCKS);
        List<String> others = Nodes.embedded(node, withAgent, 512, 64).prepareForAnotherJvm();
        Predicate<String> isSame = option -> !option.equals(agent) && !option.contains(".port=");
        assertThat(options).filteredOn(isSame).isEqualTo(others.stream().filter(isSame).toList());
    }

    @ParameterizedTest
    @EnumSource
    void whatCompactionCanDoIsNotThrottled(Engine engine) {
        for (String workload : Workload.names()) {
            Map<String, Object> yaml = Nodes.yaml(engine, workload, 64);
            if (List.of("load", "leveled").contains(workload))
                assertThat(yaml).containsEntry("compaction_throughput", "0MiB/s");
            else assertThat(yaml).doesNotContainKey("compaction_throughput");
            assertThat(yaml).containsAllEntriesOf(engine.yaml(64));
        }
    }

    @ParameterizedTest
    @EnumSource
    void theSettingsOfTheCommandLineAreThoseOfAllNodes(Engine engine) {
        System.setProperty(
                Nodes.YAML, "concurrent_writes=4,column_index_size=8KiB,trickle_fsync=false");
        assertThat(Nodes.yaml(engine, "emp", 64))
                .containsEntry("concurrent_writes", 4)
                .containsEntry("column_index_size", "8KiB")
                .containsEntry("trickle_fsync", false);
    }

    @Test
    void theSettingsOfAWorkloadAreThoseOfItsNode() throws IOException {
        Path node = directory.resolve("node");
        Run run = new Run("load", Access.Level.LOCAL, "G1", "load", Engine.LEGACY);
        Nodes.embedded(node, run, 512, 64).prepareForAnotherJvm();
        assertThat(node.resolve("conf/cassandra.yaml"))
                .content()
                .containsPattern("compaction_throughput: \"?0MiB/s");
    }
}
