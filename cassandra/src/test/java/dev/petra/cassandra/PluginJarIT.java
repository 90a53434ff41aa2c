// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What is in the jar that goes into Cassandra's lib folder, and what is not. */
class PluginJarIT {
    private static final Path JAR = Path.of(System.getProperty("petra.plugin.jar", ""));

    /** The repository. */
    private static final Path ROOT = JAR.toAbsolutePath().resolve("../../..").normalize();

    /**
     * What this module's class path has besides Cassandra: what the jar bundles, and test tools.
     */
    private static final Set<String> NOT_CASSANDRAS =
            Set.of(
                    "petra-cassandra",
                    "engine-api",
                    "streaming-",
                    "engine-rocks",
                    "rocksdbjni",
                    "byte-buddy",
                    "jspecify",
                    "junit",
                    "assertj",
                    "archunit",
                    "opentest4j",
                    "apiguardian",
                    "surefire");

    private static Set<String> entries(Path jar) throws IOException {
        try (JarFile file = new JarFile(jar.toFile())) {
            return file.stream()
                    .filter(entry -> !entry.isDirectory())
                    .map(entry -> entry.getName())
                    .collect(Collectors.toSet());
        }
    }

    private static Stream<Path> cassandrasJars() {
        return Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(path -> path.endsWith(".jar"))
                .map(Path::of)
                .filter(
                        path ->
                                NOT_CASSANDRAS.stream()
                                        .noneMatch(
                                                name ->
                                                        String.valueOf(path.getFileName())
                                                                .startsWith(name)));
    }

    @Test
    void noClassIsAlsoInAJarThatCassandraShips() throws IOException {
        Set<String> classes =
                entries(JAR).stream()
                        .filter(name -> name.endsWith(".class"))
                        .collect(Collectors.toSet());
        Set<Path> jars = cassandrasJars().collect(Collectors.toSet());
        assertThat(jars).anyMatch(path -> path.toString().contains("cassandra-all-"));
        assertThat(jars).hasSizeGreaterThan(50);
        for (Path jar : jars) {
            Set<String> both = new HashSet<>(entries(jar));
            both.retainAll(classes);
            assertThat(both).describedAs("also in " + jar).isEmpty();
        }
    }

    @Test
    void theLicencesOfAllThatIsInItAreThereOnce() throws IOException {
        try (JarFile file = new JarFile(JAR.toFile())) {
            assertThat(
                            file.stream()
                                    .map(entry -> entry.getName())
                                    .filter(name -> name.matches("META-INF/(LICENSE|NOTICE).*")))
                    .containsExactlyInAnyOrder("META-INF/LICENSE", "META-INF/NOTICE");
            for (Map.Entry<String, String> text :
                    Map.of(
                                    "META-INF/LICENSE",
                                    "LICENSE",
                                    "META-INF/NOTICE",
                                    "NOTICE",
                                    "META-INF/THIRD-PARTY.txt",
                                    "licenses/THIRD-PARTY.txt")
                            .entrySet())
                try (InputStream in = file.getInputStream(file.getEntry(text.getKey()))) {
                    assertThat(in.readAllBytes())
                            .isEqualTo(Files.readAllBytes(ROOT.resolve(text.getValue())));
                }
            assertThat(file.getEntry("META-INF/licenses/ASM")).isNotNull();
        }
    }

    /** Where the native library was built is nobody's business, and would change it. */
    @Test
    void theNativeLibraryDoesNotNameTheFolderItWasBuiltIn() throws IOException {
        try (JarFile file = new JarFile(JAR.toFile())) {
            List<JarEntry> libraries =
                    file.stream().filter(each -> each.getName().endsWith("/libpetra.so")).toList();
            assertThat(libraries).isNotEmpty();
            for (JarEntry library : libraries)
                try (InputStream in = file.getInputStream(library)) {
                    String bytes = new String(in.readAllBytes(), ISO_8859_1);
                    assertThat(bytes.contains("fragment.cpp")).isTrue();
                    assertThat(bytes.contains(ROOT.toRealPath().toString())).isFalse();
                    assertThat(bytes.contains(System.getProperty("java.home"))).isFalse();
                }
        }
    }

    @Test
    void theLibrariesOfThePlatformsThatAreSupportedAreThereAndNoOthers() throws IOException {
        assertThat(entries(JAR).stream().filter(name -> name.startsWith("librocksdbjni")))
                .containsExactlyInAnyOrder(
                        "librocksdbjni-linux64.so",
                        "librocksdbjni-linux64-musl.so",
                        "librocksdbjni-linux-aarch64.so",
                        "librocksdbjni-linux-aarch64-musl.so");
    }

    @Test
    void theAgentTheEngineAndNothingUnrelocatedAreThere() throws IOException {
        Set<String> entries = entries(JAR);
        assertThat(entries)
                .contains(
                        "dev/petra/cassandra/PetraMemtable.class",
                        "dev/petra/cassandra/agent/PetraAgent.class",
                        "dev/petra/cassandra/agent/advice/TableAdvice.class",
                        "dev/petra/cassandra/bulkload/load-logback.xml",
                        "dev/petra/engine/StorageEngines.class",
                        "dev/petra/shaded/bytebuddy/agent/builder/AgentBuilder.class",
                        "org/rocksdb/RocksDB.class",
                        "META-INF/services/dev.petra.cassandra.host.Host",
                        "META-INF/services/dev.petra.engine.StorageEngineProvider");
        assertThat(entries.stream().filter(name -> name.endsWith(".class")))
                .allMatch(name -> name.startsWith("dev/petra/") || name.startsWith("org/rocksdb/"));
    }

    @Test
    void theManifestMakesItAnAgent() throws IOException {
        try (JarFile file = new JarFile(JAR.toFile())) {
            Attributes manifest = file.getManifest().getMainAttributes();
            assertThat(manifest.getValue("Premain-Class"))
                    .isEqualTo("dev.petra.cassandra.agent.PetraAgent");
            assertThat(manifest.getValue("Implementation-Version")).isNotBlank();
        }
    }

    /** What an operator reads who puts the plugin into Cassandra 6.0. */
    @Test
    void theAgentEndsANodeOfTheNextMajorReleaseBeforeItStarts() throws Exception {
        Path next;
        try (var jars = Files.list(JAR.resolveSibling("next"))) {
            next = jars.findAny().orElseThrow();
        }
        Process node =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-javaagent:" + JAR,
                                "-cp",
                                next.toString(),
                                "org.apache.cassandra.service.CassandraDaemon")
                        .redirectErrorStream(true)
                        .start();
        String said;
        try (InputStream out = node.getInputStream()) {
            said = new String(out.readAllBytes(), UTF_8);
        }
        assertThat(node.waitFor()).isEqualTo(100);
        assertThat(said)
                .startsWith("Petra's agent cannot be installed: Cassandra 6.0-")
                .contains("which is for Cassandra 5.0: see docs/cassandra-6.md")
                .contains("has no org.apache.cassandra.service.StartupChecks.verify")
                .endsWith("The node does not start; nothing on its disks was read or changed.\n")
                .hasLineCount(1);
    }
}
