// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.jspecify.annotations.Nullable;
import org.rocksdb.EnvOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileReader;
import org.rocksdb.SstFileWriter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whether data files are read past the page cache ({@code O_DIRECT}), so that blocks are in memory
 * once, in the block cache. Some file systems cannot; their files are read through the page cache.
 */
public final class DirectReads {
    private static final Logger logger = LoggerFactory.getLogger(DirectReads.class);

    /** Of all engines of the process. */
    private static final ConcurrentMap<Object, Boolean> KNOWN = new ConcurrentHashMap<>();

    private final boolean wanted;
    private final Probe probe;

    /** By the number of the device, whose file system was tried. */
    private final ConcurrentMap<Object, Boolean> known;

    /** Reads a file of RocksDB directly. */
    interface Probe {
        /**
         * Tries one file.
         *
         * @throws RocksDBException if it cannot be read so
         */
        void read(Path file) throws RocksDBException;
    }

    /**
     * Tries file systems as stores are opened.
     *
     * @param wanted whether to read directly where it is possible
     */
    public DirectReads(boolean wanted) {
        this(wanted, DirectReads::readDirectly, KNOWN);
    }

    DirectReads(boolean wanted, Probe probe, ConcurrentMap<Object, Boolean> known) {
        this.wanted = wanted;
        this.probe = probe;
        this.known = known;
    }

    /**
     * Whether files in a directory are read so. A file system is tried once, unless no file can be
     * written to it.
     *
     * @param directory exists
     */
    boolean in(Path directory) {
        if (!wanted) return false;
        try {
            Object device = Files.getAttribute(directory, "unix:dev");
            Boolean already = known.get(device);
            if (already != null) return already;
            RocksDBException refusal = refusal(directory);
            // Another engine may have tried it meanwhile, and said so.
            if (known.putIfAbsent(device, refusal == null) == null && refusal != null)
                logger.warn(
                        "The file system of {} refuses direct reads ({}): data files on it are read"
                            + " through the page cache, and blocks are in memory twice. Set"
                            + " direct_reads: false to have no such warning, and consider a smaller"
                            + " memory.",
                        directory,
                        refusal.getMessage());
            return refusal == null;
        } catch (IOException | RocksDBException | UnsupportedOperationException e) {
            // Full, for one; whoever opens the store will say so.
            logger.debug("Cannot tell whether {} can be read directly", directory, e);
            return false;
        }
    }

    /** Why a file cannot be read as RocksDB will do it; null if it can. */
    private @Nullable RocksDBException refusal(Path directory)
            throws IOException, RocksDBException {
        Path file = Files.createTempFile(directory, "direct-reads", ".tmp");
        try {
            write(file);
            try {
                probe.read(file);
                return null;
            } catch (RocksDBException e) {
                return e;
            }
        } finally {
            Files.deleteIfExists(file);
        }
    }

    private static void write(Path file) throws RocksDBException {
        try (Options options = new Options();
                EnvOptions environment = new EnvOptions();
                SstFileWriter writer = new SstFileWriter(environment, options)) {
            writer.open(file.toString());
            writer.put(new byte[] {0}, new byte[] {0});
            writer.finish();
        }
    }

    private static void readDirectly(Path file) throws RocksDBException {
        try (Options options = new Options().setUseDirectReads(true);
                SstFileReader reader = new SstFileReader(options)) {
            reader.open(file.toString());
            reader.verifyChecksum();
        }
    }
}
