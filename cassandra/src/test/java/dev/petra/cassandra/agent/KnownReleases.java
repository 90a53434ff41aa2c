// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/**
 * The jars of the Cassandra releases that Petra knows: those that the build has put into {@code
 * target/releases}, and the one that this module is compiled with.
 */
final class KnownReleases {
    private KnownReleases() {}

    /** The jars, by release. */
    static Map<String, Path> jars() throws IOException {
        Map<String, Path> jars = new TreeMap<>();
        Path own = own();
        jars.put(release(own), own);
        try (DirectoryStream<Path> others =
                Files.newDirectoryStream(Path.of("target", "releases"), "cassandra-all-*.jar")) {
            for (Path jar : others) jars.put(release(jar), jar);
        }
        return jars;
    }

    /** The jar of the release that this module is compiled with. */
    static Path own() {
        for (String entry :
                System.getProperty("java.class.path").split(java.io.File.pathSeparator, -1))
            if (entry.contains("cassandra-all-")) return Path.of(entry);
        throw new AssertionError("no Cassandra on the class path");
    }

    private static String release(Path jar) {
        return Release.of(classes(jar));
    }

    /** The files of a jar, read into memory. */
    static ClassFiles classes(Path jar) {
        Map<String, byte[]> files = new HashMap<>();
        try (ZipFile zip = new ZipFile(jar.toFile())) {
            for (ZipEntry entry : Collections.list(zip.entries()))
                try (InputStream in = zip.getInputStream(entry)) {
                    files.put(entry.getName(), in.readAllBytes());
                }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return files::get;
    }
}
