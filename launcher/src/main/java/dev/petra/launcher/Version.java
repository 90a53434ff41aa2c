// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import dev.petra.launcher.install.Jar;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.Properties;
import picocli.CommandLine.IVersionProvider;

/**
 * The text of {@code --version}: from the properties that the build writes, and the plugin jar,
 * which knows the releases that it runs in.
 */
final class Version implements IVersionProvider {
    @Override
    public String[] getVersion() throws IOException {
        Properties versions = new Properties();
        try (InputStream file = getClass().getResourceAsStream("version.properties")) {
            versions.load(Objects.requireNonNull(file));
        }
        return new String[] {
            "petra %s, for Cassandra %s"
                    .formatted(
                            versions.get("petra"),
                            releases(String.valueOf(versions.get("cassandra"))))
        };
    }

    /**
     * All releases that the plugin knows.
     *
     * @param built the one that it was built with, for a folder without a plugin
     */
    static String releases(String built) {
        String home = System.getProperty(Distribution.HOME_PROPERTY, "");
        Path plugin = new Distribution(Path.of(home)).plugin();
        return home.isEmpty() || !Files.isRegularFile(plugin)
                ? built
                : String.join(", ", Jar.knownReleases(plugin));
    }
}
