// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.Attributes;
import java.util.jar.JarFile;
import java.util.zip.ZipEntry;

/**
 * What a jar of an installation is, by its content: operators give jars any name.
 *
 * @param version of Cassandra or of Petra; {@code unknown} if the jar does not say
 * @param woven whether it is a Cassandra that {@code petra weave} made
 */
public record Jar(Path path, Kind kind, String version, boolean woven) {
    /** What operators may have in {@code lib}. */
    public enum Kind {
        CASSANDRA,
        PLUGIN,
        OTHER
    }

    private static final String CASSANDRA = "org/apache/cassandra/service/CassandraDaemon.class";
    private static final String RELEASE = "org/apache/cassandra/config/version.properties";
    private static final String WOVEN = "META-INF/petra/woven";
    private static final String PLUGIN = "dev/petra/cassandra/PetraMemtable.class";
    private static final String FINGERPRINTS = "dev/petra/cassandra/agent/fingerprints.txt";
    private static final String UNKNOWN = "unknown";

    /**
     * Looks into a jar.
     *
     * @throws InstallException if it cannot be read, as one that was copied half
     */
    public static Jar read(Path path) {
        try (JarFile jar = new JarFile(path.toFile(), false)) {
            if (jar.getEntry(PLUGIN) != null)
                return new Jar(path, Kind.PLUGIN, implementationVersion(jar), false);
            if (jar.getEntry(CASSANDRA) != null)
                return new Jar(path, Kind.CASSANDRA, release(jar), jar.getEntry(WOVEN) != null);
            return new Jar(path, Kind.OTHER, UNKNOWN, false);
        } catch (IOException e) {
            throw unreadable(path, e);
        }
    }

    /** The releases of Cassandra that a plugin knows. */
    static Set<String> knownReleases(Path plugin) {
        try (JarFile jar = new JarFile(plugin.toFile(), false)) {
            ZipEntry file = jar.getEntry(FINGERPRINTS);
            if (file == null)
                throw new InstallException(
                        plugin + " does not say which releases of Cassandra it is for");
            Set<String> releases = new TreeSet<>();
            try (InputStream in = jar.getInputStream(file)) {
                new String(in.readAllBytes(), StandardCharsets.UTF_8)
                        .lines()
                        .filter(line -> !line.isBlank() && !line.startsWith("#"))
                        .forEach(line -> releases.addAll(Set.of(line.split(" ", 3)[1].split(","))));
            }
            return releases;
        } catch (IOException e) {
            throw unreadable(plugin, e);
        }
    }

    private static InstallException unreadable(Path path, IOException e) {
        return new InstallException(
                path
                        + " is no whole jar, or cannot be read ("
                        + e.getMessage()
                        + "): replace it or remove it",
                e);
    }

    private static String release(JarFile jar) throws IOException {
        ZipEntry file = jar.getEntry(RELEASE);
        if (file == null) return UNKNOWN;
        Properties properties = new Properties();
        try (InputStream in = jar.getInputStream(file)) {
            properties.load(in);
        }
        return properties.getProperty("CassandraVersion", UNKNOWN);
    }

    private static String implementationVersion(JarFile jar) throws IOException {
        if (jar.getManifest() == null) return UNKNOWN;
        String version =
                jar.getManifest()
                        .getMainAttributes()
                        .getValue(Attributes.Name.IMPLEMENTATION_VERSION);
        return version == null ? UNKNOWN : version;
    }
}
