// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/**
 * The files of an installed Cassandra as far as an installer looks at them.
 *
 * @param root of all that belongs to it, as the root of a machine
 */
record FakeCassandra(Path root, Path home, Path conf, Path data) {
    enum Kind {
        TARBALL,
        DEBIAN,
        REDHAT
    }

    /** The part of the file that Cassandra ships. */
    static final String YAML =
            """
            # Cassandra storage config YAML
            cluster_name: 'Test Cluster'
            num_tokens: 16

            # Supported memtable implementations and selected default: ä
            memtable:
              configurations:
                # the oldest
                skiplist:
                  class_name: SkipListMemtable
                trie:
                  class_name: TrieMemtable
                default:
                  inherits: skiplist

            # memtable_heap_space: 2048MiB
            commitlog_sync: periodic
            """;

    static final String OPTIONS =
            """
            # one flag a line
            #-javaagent:/opt/petra-old.jar
            -ea
            -Xss256k
            """;

    static FakeCassandra make(Kind kind, Path root) throws IOException {
        Path share = root.resolve("usr/share/cassandra");
        FakeCassandra made =
                switch (kind) {
                    case TARBALL -> of(root, root.resolve("apache"), "apache/conf");
                    case DEBIAN -> of(root, share, "etc/cassandra");
                    case REDHAT -> of(root, share, "etc/cassandra/default.conf");
                };
        for (Path directory :
                List.of(made.home.resolve("lib"), made.conf, made.data.resolve("system")))
            Files.createDirectories(directory);
        Path script;
        String text;
        if (kind == Kind.TARBALL) {
            made.cassandra(made.home.resolve("lib/apache-cassandra-5.0.9.jar"), "5.0.9");
            script = made.home.resolve("bin/cassandra.in.sh");
            text =
                    """
                    if [ "x$CASSANDRA_HOME" = "x" ]; then
                        CASSANDRA_HOME="`dirname "$0"`/.."
                    fi
                    if [ "x$CASSANDRA_CONF" = "x" ]; then
                        CASSANDRA_CONF="$CASSANDRA_HOME/conf"
                    fi
                    cassandra_storagedir="$CASSANDRA_HOME/data"
                    JAVA_AGENT="$JAVA_AGENT -javaagent:$CASSANDRA_HOME/lib/jamm-0.4.0.jar"
                    """;
        } else {
            Path jar = made.home.resolve("apache-cassandra-5.0.9.jar");
            made.cassandra(jar, "5.0.9");
            Files.createSymbolicLink(made.home.resolve("apache-cassandra.jar"), jar.getFileName());
            script = made.home.resolve("cassandra.in.sh");
            Path conf = made.conf;
            if (kind == Kind.REDHAT) {
                conf = root.resolve("etc/cassandra/conf");
                Files.createSymbolicLink(conf, made.conf);
            }
            text = "CASSANDRA_CONF=" + conf + "\n\nCASSANDRA_HOME=" + made.home + "\n";
            Files.createDirectories(root.resolve("etc/default"));
            // Else the first java on PATH counts, which may be another one.
            Files.writeString(
                    made.service(), "JAVA_HOME=" + System.getProperty("java.home") + "\n");
        }
        Files.createDirectories(script.resolveSibling("."));
        Files.writeString(script, text);
        zip(made.home.resolve("lib/jamm-0.4.0.jar"), Map.of("org/github/jamm/A.class", ""));
        String dataLine =
                kind == Kind.TARBALL ? "" : "data_file_directories:\n    - " + made.data + "\n";
        made.write("cassandra.yaml", YAML + dataLine);
        made.write("jvm-server.options", OPTIONS);
        made.write("jvm17-server.options", "-XX:+UseG1GC\n");
        made.write("cassandra-env.sh", "JVM_OPTS=\"$JVM_OPTS $JVM_EXTRA_OPTS\"\n");
        Files.setPosixFilePermissions(
                made.conf.resolve("cassandra.yaml"), PosixFilePermissions.fromString("rw-rw----"));
        // Only root gives files away, and only to root does it matter whose they are.
        if (System.getProperty("user.name").equals("root"))
            Files.setOwner(
                    made.conf.resolve("cassandra.yaml"),
                    root.getFileSystem()
                            .getUserPrincipalLookupService()
                            .lookupPrincipalByName("nobody"));
        return made;
    }

    private static FakeCassandra of(Path root, Path home, String conf) {
        return new FakeCassandra(
                root,
                home,
                root.resolve(conf),
                conf.startsWith("apache")
                        ? home.resolve("data/data")
                        : root.resolve("var/lib/cassandra/data"));
    }

    void write(String conf, String text) throws IOException {
        Files.writeString(this.conf.resolve(conf), text);
    }

    String read(String conf) throws IOException {
        return Files.readString(this.conf.resolve(conf));
    }

    /** The settings of a package's service. */
    Path service() {
        return root.resolve("etc/default/cassandra");
    }

    Path jar() {
        return home.resolve("lib/petra-cassandra-5.0.jar");
    }

    Installer installer() {
        return new Installer(home, Optional.empty());
    }

    Plan install(Path plugin) {
        return installer().install(plugin, Optional.empty(), false);
    }

    Plan uninstall() {
        return installer().uninstall(false);
    }

    /** A jar that looks like Cassandra's. */
    void cassandra(Path jar, String release) throws IOException {
        zip(
                jar,
                Map.of(
                        "org/apache/cassandra/service/CassandraDaemon.class",
                        "",
                        "org/apache/cassandra/config/version.properties",
                        "CassandraVersion=" + release + "\n"));
    }

    /** A jar that looks like the plugin. */
    static Path plugin(Path jar, String version) throws IOException {
        return zip(
                jar,
                Map.of(
                        "META-INF/MANIFEST.MF",
                        "Manifest-Version: 1.0\nImplementation-Version: " + version + "\n\n",
                        "dev/petra/cassandra/PetraMemtable.class",
                        "",
                        "dev/petra/cassandra/agent/fingerprints.txt",
                        "# known\n1 5.0.6,5.0.7 a.B.c(d e)\n2 5.0.9 a.B.c(d e)\n"));
    }

    static Path zip(Path jar, Map<String, String> entries) throws IOException {
        try (OutputStream file = Files.newOutputStream(jar);
                ZipOutputStream out = new ZipOutputStream(file)) {
            for (Map.Entry<String, String> entry : new TreeMap<>(entries).entrySet()) {
                out.putNextEntry(new ZipEntry(entry.getKey()));
                out.write(entry.getValue().getBytes(StandardCharsets.UTF_8));
                out.closeEntry();
            }
        }
        return jar;
    }

    /** All that is there: names, contents, links and permissions. */
    SortedMap<String, String> everything() throws IOException {
        SortedMap<String, String> all = new TreeMap<>();
        try (Stream<Path> paths = Files.walk(root)) {
            for (Path path : paths.toList()) {
                String what;
                if (Files.isSymbolicLink(path)) what = "-> " + Files.readSymbolicLink(path);
                else {
                    what =
                            PosixFilePermissions.toString(Files.getPosixFilePermissions(path))
                                    + " "
                                    + Files.getOwner(path, LinkOption.NOFOLLOW_LINKS);
                    if (Files.isRegularFile(path))
                        what += " " + Base64.getEncoder().encodeToString(Files.readAllBytes(path));
                }
                all.put(root.relativize(path).toString(), what);
            }
        }
        return all;
    }
}
