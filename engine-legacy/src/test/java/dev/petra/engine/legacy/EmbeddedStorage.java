// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.legacy;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.commitlog.CommitLog;

/** As much of a node in this JVM as its storage needs: no ring, no network, no schema. */
final class EmbeddedStorage {
    static {
        Path root;
        try {
            root = Files.createTempDirectory(Path.of("target"), "legacy-storage");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        System.setProperty("cassandra.storagedir", root.toAbsolutePath().toString());
        DatabaseDescriptor.daemonInitialization();
        DatabaseDescriptor.createAllDirectories();
        CommitLog.instance.start();
        Keyspace.setInitialized();
    }

    private EmbeddedStorage() {}

    /** Once in this JVM, before any test asks for less. */
    static void start() {}
}
