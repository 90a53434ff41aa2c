// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.function.Consumer;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.rocksdb.Env;
import org.rocksdb.NativeLibraryLoader;
import org.rocksdb.RocksDB;

/** Loads RocksDB's native library and ours, once per process. */
public final class NativeLibrary {
    /** Whose C API ours was tested with; prototypes have changed between versions. */
    private static final RocksDB.Version TESTED =
            new RocksDB.Version((byte) 11, (byte) 8, (byte) 1);

    private static boolean loaded;

    /**
     * Whether ours is, which an attempt that failed may have left. A second one would be another
     * library, without what {@link #bind} gave to the first; of two the JVM takes either.
     */
    private static boolean oursLoaded;

    private NativeLibrary() {}

    /**
     * Unpacks the libraries into a directory and loads them. The files are unlinked at once: they
     * stay mapped, and a process that is killed leaves nothing behind.
     *
     * @throws ConfigurationException naming the directory and the mend
     */
    public static void load(String directory) {
        load(directory, SelfTest::run);
    }

    static synchronized void load(String directory, Consumer<Path> selfTest) {
        if (loaded) return;
        Path unpacked = null;
        try {
            Files.createDirectories(Path.of(directory));
            unpacked = Files.createTempDirectory(Path.of(directory), "petra-native-");
            if (!oursLoaded) System.load(unpack(unpacked).toString());
            oursLoaded = true;
            Crc32c.offer();
            NativeLibraryLoader.getInstance().loadLibrary(unpacked.toString());
            // Finds it loaded, and reads its version.
            RocksDB.loadLibrary();
        } catch (IOException | UnsatisfiedLinkError | RuntimeException e) {
            throw new ConfigurationException(
                    "The native libraries of RocksDB and of this engine cannot be loaded from '"
                            + directory
                            + "': "
                            + e.getMessage()
                            + ". Set 'native_library_directory' to a directory that is writable,"
                            + " has 32 MiB free and is not mounted noexec. ("
                            + platform()
                            + "; supported: what the jar was built for, under dev/petra/native in"
                            + " it.)",
                    e);
        } finally {
            if (unpacked != null) delete(unpacked);
        }
        bind();
        selfTest.accept(Path.of(directory));
        loaded = true;
    }

    private static void bind() {
        RocksDB.Version version = RocksDB.rocksdbVersion();
        if (!version.toString().equals(TESTED.toString()))
            throw new ConfigurationException(
                    "RocksDB "
                            + version
                            + " was loaded, but the engine was tested with "
                            + TESTED
                            + " only. Remove the other rocksdbjni from the class path.");
        try {
            Reconciler.bindTo(Env.getDefault());
        } catch (IllegalStateException e) {
            throw new ConfigurationException(e.getMessage(), e);
        }
    }

    private static String platform() {
        String os = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String arch = System.getProperty("os.arch");
        return os + "-" + ("amd64".equals(arch) ? "x86_64" : arch);
    }

    private static Path unpack(Path directory) throws IOException {
        String resource = "/dev/petra/native/" + platform() + "/libpetra.so";
        Path file = directory.resolve("libpetra.so").toAbsolutePath();
        try (InputStream in = NativeLibrary.class.getResourceAsStream(resource)) {
            if (in == null) throw new IOException("the jar has no " + resource);
            Files.copy(in, file);
        }
        return file;
    }

    private static void delete(Path directory) {
        try (var files = Files.list(directory)) {
            for (Path file : (Iterable<Path>) files::iterator) Files.delete(file);
            Files.delete(directory);
        } catch (IOException e) {
            throw new ConfigurationException(
                    "The unpacked native libraries in '"
                            + directory
                            + "' cannot be removed: "
                            + e.getMessage(),
                    e);
        }
    }
}
