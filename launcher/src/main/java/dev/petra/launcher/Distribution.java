// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.File;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The jars that nodes run from: Petra's {@code lib/petra.jar}, and Cassandra's in {@code
 * lib/cassandra}.
 *
 * @param home the folder that has {@code lib}
 */
public record Distribution(Path home) {
    /** The system property that names {@link #home}. */
    public static final String HOME_PROPERTY = "petra.home";

    /** Makes the path absolute. */
    public Distribution {
        home = home.toAbsolutePath().normalize();
    }

    /** The distribution that the system property {@value #HOME_PROPERTY} names. */
    public static Distribution fromSystemProperty() {
        String home = System.getProperty(HOME_PROPERTY);
        if (home == null || home.isEmpty())
            throw new NodeException(
                    "the system property "
                            + HOME_PROPERTY
                            + " must name the folder with Petra's lib (bin/petra sets it)");
        return new Distribution(Path.of(home));
    }

    /** Throws a {@link NodeException} if Petra's jar or Cassandra's jars are missing. */
    void check() {
        if (!Files.isRegularFile(plugin()) || jar("cassandra-all-").isEmpty())
            throw new NodeException(
                    home + " lacks lib/petra.jar or lib/cassandra: mvn -pl launcher -am package");
    }

    /** Petra's jar, which is both on the node's class path and its agent. */
    Path plugin() {
        return home.resolve("lib/petra.jar");
    }

    /** Jamm, Cassandra's agent that measures object sizes; stock Cassandra starts with it too. */
    Optional<Path> jamm() {
        return jar("jamm-");
    }

    /** The class path of a process: these entries, then Cassandra's jars. */
    String classPath(List<Path> own) {
        return Stream.concat(own.stream(), Stream.of(cassandra().resolve("*")))
                .map(Path::toString)
                .collect(Collectors.joining(File.pathSeparator));
    }

    /** The agent that exports metrics to Prometheus. */
    Path exporter() {
        return home.resolve("lib").resolve("exporter").resolve("jmx_prometheus_javaagent.jar");
    }

    private Path cassandra() {
        return home.resolve("lib/cassandra");
    }

    private Optional<Path> jar(String prefix) {
        if (!Files.isDirectory(cassandra())) return Optional.empty();
        try (DirectoryStream<Path> jars = Files.newDirectoryStream(cassandra(), prefix + "*.jar")) {
            Iterator<Path> found = jars.iterator();
            return found.hasNext() ? Optional.of(found.next()) : Optional.empty();
        } catch (IOException e) {
            throw new NodeException("cannot list " + cassandra() + ": " + e.getMessage(), e);
        }
    }
}
