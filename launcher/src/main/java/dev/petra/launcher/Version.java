// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.io.InputStream;
import java.util.Objects;
import java.util.Properties;
import picocli.CommandLine.IVersionProvider;

/** The text of {@code --version}, from the properties that the build writes. */
final class Version implements IVersionProvider {
    @Override
    public String[] getVersion() throws IOException {
        Properties versions = new Properties();
        try (InputStream file = getClass().getResourceAsStream("version.properties")) {
            versions.load(Objects.requireNonNull(file));
        }
        return new String[] {
            "petra %s, for Cassandra %s".formatted(versions.get("petra"), versions.get("cassandra"))
        };
    }
}
