// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import org.jspecify.annotations.Nullable;

/** The class files of a Cassandra, and what is beside them. */
@FunctionalInterface
interface ClassFiles {
    /** The bytes of a file in its jar, or null if it is not there. */
    byte @Nullable [] file(String path);

    /** The bytes of a class, or null if it is not there. */
    default byte @Nullable [] find(String type) {
        return file(path(type));
    }

    /** Those that a class loader would load, without loading any. */
    static ClassFiles of(ClassLoader loader) {
        return path -> {
            try (InputStream file = loader.getResourceAsStream(path)) {
                return file == null ? null : file.readAllBytes();
            } catch (IOException e) {
                throw new UncheckedIOException(path + " cannot be read", e);
            }
        };
    }

    /** Where a class is in a jar. */
    static String path(String type) {
        return type.replace('.', '/') + ".class";
    }
}
