// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.io.IOException;
import java.io.StringReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Properties;

/** Reads the version that a Cassandra gives itself, without loading its classes. */
final class Release {
    private static final String FILE = "org/apache/cassandra/config/version.properties";

    private static final String UNKNOWN = "unknown";

    private Release() {}

    /** The version in the {@code version.properties} beside these class files, or "unknown". */
    static String of(ClassFiles cassandra) {
        byte[] file = cassandra.file(FILE);
        if (file == null) return UNKNOWN;
        Properties properties = new Properties();
        try {
            properties.load(new StringReader(new String(file, StandardCharsets.ISO_8859_1)));
        } catch (IOException e) {
            throw new UncheckedIOException(FILE + " cannot be read", e);
        }
        return properties.getProperty("CassandraVersion", UNKNOWN);
    }
}
