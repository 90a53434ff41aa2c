// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.jar.JarOutputStream;
import java.util.zip.ZipEntry;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A release has no Cassandra, and finds the one that is installed. */
final class DistributionTest {
    @TempDir private Path home;
    @TempDir private Path cassandra;
    private Distribution distribution = new Distribution(Path.of(""));

    @BeforeEach
    void unpack() throws IOException {
        distribution = new Distribution(home);
        Files.createDirectories(home.resolve("lib"));
        Files.createFile(home.resolve("lib/petra.jar"));
        Files.createDirectories(cassandra.resolve("lib"));
        Files.createFile(cassandra.resolve("lib/jamm-0.4.0.jar"));
    }

    @AfterEach
    void forget() {
        System.clearProperty(Distribution.CASSANDRA_PROPERTY);
    }

    @Test
    void withoutCassandraItSaysHowToNameOne() {
        distribution.checkPlugin();
        assertThatThrownBy(distribution::check)
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("set CASSANDRA_HOME to the folder of an unpacked Cassandra");
        System.setProperty(Distribution.CASSANDRA_PROPERTY, cassandra.toString());
        assertThatThrownBy(distribution::check).hasMessageContaining(cassandra.toString());
    }

    @Test
    void itTakesTheJarsOfATarballOrOfAPackage() throws IOException {
        System.setProperty(Distribution.CASSANDRA_PROPERTY, cassandra.toString());
        for (String jar : List.of("lib/apache-cassandra-5.0.9.jar", "apache-cassandra-5.0.9.jar")) {
            Path file = Files.createFile(cassandra.resolve(jar));
            distribution.check();
            assertThat(distribution.jamm()).contains(cassandra.resolve("lib/jamm-0.4.0.jar"));
            assertThat(distribution.classPath(List.of(Path.of("own"))))
                    .isEqualTo("own:" + cassandra + "/lib/*:" + cassandra + "/*");
            Files.delete(file);
        }
    }

    /** A package has the jar in a folder and the libraries in lib below it. */
    @Test
    void weavingFindsTheLibrariesOfATarballOrOfAPackage() {
        Path jar = cassandra.resolve("apache-cassandra-5.0.9.jar");
        assertThat(WeaveCommand.classPath(distribution, jar).split(":", -1))
                .startsWith(home + "/lib/petra.jar", cassandra + "/*", cassandra + "/lib/*");
        System.setProperty(Distribution.CASSANDRA_PROPERTY, cassandra.toString());
        assertThat(WeaveCommand.classPath(distribution, Path.of("/elsewhere/original.jar")))
                .endsWith(":" + cassandra + "/lib/*:" + cassandra + "/*");
    }

    @Test
    void itsOwnCassandraComesFirst() throws IOException {
        System.setProperty(Distribution.CASSANDRA_PROPERTY, cassandra.toString());
        Files.createDirectories(home.resolve("lib/cassandra"));
        Files.createFile(home.resolve("lib/cassandra/cassandra-all-5.0.9.jar"));
        distribution.check();
        assertThat(distribution.classPath(List.of())).isEqualTo(home + "/lib/cassandra/*");
    }

    @Test
    void itSaysWhetherItsCassandraIsWoven() throws IOException {
        Path lib = Files.createDirectories(home.resolve("lib/cassandra"));
        String daemon = "org/apache/cassandra/service/CassandraDaemon.class";
        write(lib.resolve("cassandra-all-5.0.9.jar"), daemon);
        assertThat(distribution.isWoven()).isFalse();
        distribution.checkNotWoven();
        write(lib.resolve("cassandra-all-5.0.9.jar"), daemon, "META-INF/petra/woven");
        assertThat(distribution.isWoven()).isTrue();
        assertThatThrownBy(distribution::checkNotWoven)
                .hasMessageContaining("cassandra-all-5.0.9.jar was woven");
    }

    private static void write(Path jar, String... entries) throws IOException {
        try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar))) {
            for (String entry : entries) {
                out.putNextEntry(new ZipEntry(entry));
                out.closeEntry();
            }
        }
    }
}
