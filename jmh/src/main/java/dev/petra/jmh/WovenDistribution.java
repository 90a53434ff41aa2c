// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.launcher.Distribution;
import dev.petra.launcher.NodeTool;
import dev.petra.launcher.Processes;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * The distribution of a run whose Cassandra was woven, as by {@code petra weave}: its nodes have no
 * agent. The processes of the run find it by a system property.
 */
final class WovenDistribution {
    private static final String PROPERTY = "petra.bench.woven";

    private WovenDistribution() {}

    /**
     * Makes that of this run: the same jars, but for Cassandra's own.
     *
     * @param home that is not there yet
     */
    static void make(Path home) throws IOException {
        Distribution stock = Distribution.fromSystemProperty();
        Path lib = Files.createDirectories(home.toAbsolutePath().resolve("lib/cassandra"));
        Path cassandra = stock.cassandraJar();
        try (DirectoryStream<Path> jars = Files.newDirectoryStream(cassandra.resolveSibling("."))) {
            for (Path jar : jars)
                if (!jar.getFileName().equals(cassandra.getFileName()))
                    Files.createSymbolicLink(lib.resolve(jar.getFileName()), jar.normalize());
        }
        Files.createSymbolicLink(lib.resolveSibling("petra.jar"), stock.plugin());
        NodeTool.Result weave =
                Processes.run(
                        "petra weave",
                        List.of(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-cp",
                                stock.home().resolve("lib/client/*").toString(),
                                "-Dpetra.home=" + stock.home(),
                                "dev.petra.launcher.Main",
                                "weave",
                                "--in",
                                cassandra.toString(),
                                "--out",
                                lib.resolve(cassandra.getFileName()).toString()));
        if (weave.exitCode() != 0) throw new IOException("petra weave failed: " + weave.output());
        use(home);
    }

    /** Takes one that is there. */
    static void use(Path home) {
        System.setProperty(PROPERTY, home.toAbsolutePath().toString());
    }

    /** The option of a JVM that starts nodes. */
    static String option() {
        return "-D" + PROPERTY + "=" + System.getProperty(PROPERTY, "");
    }

    static Path ofThisRun() {
        String home = System.getProperty(PROPERTY, "");
        if (home.isEmpty())
            throw new IllegalStateException(
                    "rocks-woven is an engine of 'petra bench' only, which weaves its Cassandra");
        return Path.of(home);
    }
}
