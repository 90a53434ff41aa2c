// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import dev.petra.launcher.install.Jar;
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
 * lib/cassandra}. A release has no Cassandra, and takes the jars of one that is installed.
 *
 * @param home the folder that has {@code lib}
 */
public record Distribution(Path home) {
    /** The system property that names {@link #home}. */
    public static final String HOME_PROPERTY = "petra.home";

    /** The system property that names an installed Cassandra, for a folder without one. */
    static final String CASSANDRA_PROPERTY = "petra.cassandra";

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
        checkPlugin();
        Path unused = cassandraJar();
    }

    /**
     * Cassandra's own jar.
     *
     * @throws NodeException if there is none
     */
    public Path cassandraJar() {
        return jar("cassandra-all-")
                .or(() -> jar("apache-cassandra-"))
                .orElseThrow(
                        () ->
                                new NodeException(
                                        "there is no Cassandra in "
                                                + cassandra()
                                                + ": set CASSANDRA_HOME to the folder of an"
                                                + " unpacked Cassandra 5.0, or to"
                                                + " /usr/share/cassandra"));
    }

    /** Whether {@code petra weave} made that jar: its nodes need no agent. */
    boolean isWoven() {
        return Jar.read(cassandraJar()).woven();
    }

    /** Refuses a Cassandra that is not as it was released, to compare with. */
    public void checkNotWoven() {
        if (isWoven())
            throw new NodeException(
                    cassandraJar()
                            + " was woven for Petra, so Cassandra's own storage in it is not what"
                            + " was released: set CASSANDRA_HOME to the folder of an unpacked"
                            + " Cassandra 5.0");
    }

    /** Refuses a folder without Petra. */
    void checkPlugin() {
        if (!Files.isRegularFile(plugin()))
            throw new NodeException(
                    home
                            + " lacks lib/petra.jar: mvn -pl launcher -am package, or unpack it"
                            + " again");
    }

    /** Petra's jar, which is both on the node's class path and its agent. */
    public Path plugin() {
        return home.resolve("lib/petra.jar");
    }

    /** Jamm, Cassandra's agent that measures object sizes; stock Cassandra starts with it too. */
    Optional<Path> jamm() {
        return jar("jamm-");
    }

    /** The class path of a process: these entries, then Cassandra's jars. */
    String classPath(List<Path> own) {
        return Stream.concat(own.stream(), cassandra().stream().map(folder -> folder.resolve("*")))
                .map(Path::toString)
                .collect(Collectors.joining(File.pathSeparator));
    }

    /** The agent that exports metrics to Prometheus. */
    Path exporter() {
        return home.resolve("lib").resolve("exporter").resolve("jmx_prometheus_javaagent.jar");
    }

    /** The folders of Cassandra's jars; a package has some in {@code lib} and some above it. */
    private List<Path> cassandra() {
        Path own = home.resolve("lib/cassandra");
        String installed = System.getProperty(CASSANDRA_PROPERTY, "");
        if (Files.isDirectory(own) || installed.isEmpty()) return List.of(own);
        Path other = Path.of(installed).toAbsolutePath().normalize();
        return List.of(other.resolve("lib"), other);
    }

    private Optional<Path> jar(String prefix) {
        for (Path folder : cassandra()) {
            if (!Files.isDirectory(folder)) continue;
            try (DirectoryStream<Path> jars = Files.newDirectoryStream(folder, prefix + "*.jar")) {
                Iterator<Path> found = jars.iterator();
                if (found.hasNext()) return Optional.of(found.next());
            } catch (IOException e) {
                throw new NodeException("cannot list " + folder + ": " + e.getMessage(), e);
            }
        }
        return Optional.empty();
    }
}
