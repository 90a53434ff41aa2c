// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import org.jspecify.annotations.Nullable;

/** The class files and resources of a Cassandra, by their paths in its jar. */
@FunctionalInterface
interface ClassFiles {
    /** The bytes of a file, or null if it does not exist. */
    byte @Nullable [] file(String path);

    /** The class file of a class, or null if it does not exist. */
    default byte @Nullable [] find(String type) {
        return file(path(type));
    }

    /** The files that a class loader finds. No class is loaded. */
    static ClassFiles of(ClassLoader loader) {
        return path -> {
            try (InputStream file = loader.getResourceAsStream(path)) {
                return file == null ? null : file.readAllBytes();
            } catch (IOException e) {
                throw new UncheckedIOException(path + " cannot be read", e);
            }
        };
    }

    /** The path of a class file in a jar. */
    static String path(String type) {
        return type.replace('.', '/') + ".class";
    }
}
