// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.host;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A process has the host of its Cassandra. */
class HostTest {
    private static final String SERVICE = "META-INF/services/" + Host.class.getName();

    @TempDir Path directory;

    @Test
    void ofThisCassandraItIsTheOneOf50() {
        assertThat(Host.current()).isInstanceOf(Cassandra50.class).isSameAs(Host.current());
        assertThat(Host.current().lastToken(org.apache.cassandra.dht.Murmur3Partitioner.instance))
                .isNotNull();
    }

    @Test
    void ofTheNextMajorReleaseThereIsNone() throws Exception {
        try (URLClassLoader loader = withNext(List.of())) {
            assertThatThrownBy(() -> current(loader))
                    .isInstanceOf(InvocationTargetException.class)
                    .hasStackTraceContaining("has no host for this Cassandra");
        }
    }

    /** As the second host will be. */
    @Test
    void anotherHostIsTakenWhereItFitsAndThatOf50DoesNot() throws Exception {
        Path service = directory.resolve(SERVICE);
        Files.createDirectories(service.resolveSibling("."));
        Files.writeString(service, HostThatFits.class.getName() + "\n");
        Path tests = Path.of("target", "test-classes");
        try (URLClassLoader loader = withNext(List.of(directory, tests))) {
            assertThat(current(loader).getClass().getName())
                    .isEqualTo(HostThatFits.class.getName());
        }
    }

    private static Object current(ClassLoader loader) throws Exception {
        return loader.loadClass(Host.class.getName()).getMethod("current").invoke(null);
    }

    /** This module with the next Cassandra in place of its own. */
    private static URLClassLoader withNext(List<Path> more) throws IOException {
        List<Path> path = new ArrayList<>(List.of(Path.of("target", "classes")));
        path.addAll(more);
        try (DirectoryStream<Path> jars =
                Files.newDirectoryStream(Path.of("target", "next"), "cassandra-all-6.*.jar")) {
            jars.forEach(path::add);
        }
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator, -1))
            if (entry.endsWith(".jar") && !entry.contains("cassandra-all-"))
                path.add(Path.of(entry));
        List<URL> urls = new ArrayList<>();
        for (Path each : path) urls.add(each.toUri().toURL());
        return new URLClassLoader(urls.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
    }
}
