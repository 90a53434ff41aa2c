// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.rocksdb.NativeLibraryLoader;

/** Loads RocksDB's native library, once per process. */
final class NativeLibrary {
    private static boolean loaded;

    private NativeLibrary() {}

    /**
     * Unpacks the library into a directory and loads it. The file is unlinked at once: it stays
     * mapped, and a process that is killed leaves nothing behind.
     *
     * @throws ConfigurationException naming the directory and the mend
     */
    static synchronized void load(String directory) {
        if (loaded) return;
        Path unpacked = null;
        try {
            Files.createDirectories(Path.of(directory));
            unpacked = Files.createTempDirectory(Path.of(directory), "petra-native-");
            NativeLibraryLoader.getInstance().loadLibrary(unpacked.toString());
            loaded = true;
        } catch (IOException | UnsatisfiedLinkError | RuntimeException e) {
            throw new ConfigurationException(
                    "RocksDB's native library cannot be loaded from '"
                            + directory
                            + "': "
                            + e.getMessage()
                            + ". Set 'native_library_directory' to a directory that is writable,"
                            + " has 32 MiB free and is not mounted noexec. ("
                            + System.getProperty("os.name")
                            + " "
                            + System.getProperty("os.arch")
                            + "; supported: Linux amd64 and aarch64, glibc 2.17 or musl.)",
                    e);
        } finally {
            if (unpacked != null) delete(unpacked);
        }
    }

    private static void delete(Path directory) {
        try (var files = Files.list(directory)) {
            for (Path file : (Iterable<Path>) files::iterator) Files.delete(file);
            Files.delete(directory);
        } catch (IOException e) {
            throw new ConfigurationException(
                    "The unpacked native library in '"
                            + directory
                            + "' cannot be removed: "
                            + e.getMessage(),
                    e);
        }
    }
}
