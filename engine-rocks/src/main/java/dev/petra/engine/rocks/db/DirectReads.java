// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import com.sun.nio.file.ExtendedOpenOption;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whether data files are read past the page cache ({@code O_DIRECT}), so that blocks are in memory
 * once, in the block cache. Some file systems cannot; their files are read through the page cache.
 */
public final class DirectReads {
    private static final Logger logger = LoggerFactory.getLogger(DirectReads.class);

    private final boolean wanted;
    private final Probe probe;
    private final ConcurrentHashMap<FileStore, Boolean> known = new ConcurrentHashMap<>();

    /** Opens a file as RocksDB does. */
    interface Probe {
        void open(Path file) throws IOException;
    }

    /**
     * @param wanted whether to read so where it is possible
     */
    public DirectReads(boolean wanted) {
        this(
                wanted,
                file ->
                        FileChannel.open(file, StandardOpenOption.READ, ExtendedOpenOption.DIRECT)
                                .close());
    }

    DirectReads(boolean wanted, Probe probe) {
        this.wanted = wanted;
        this.probe = probe;
    }

    /**
     * Whether files in a directory are read so. A file system is tried once.
     *
     * @param directory exists and can be written to
     */
    boolean in(Path directory) {
        if (!wanted) return false;
        try {
            return known.computeIfAbsent(
                    Files.getFileStore(directory), store -> isPossible(directory, store));
        } catch (IOException e) {
            logger.warn(
                    "{} is read through the page cache: its file system is unknown", directory, e);
            return false;
        }
    }

    private boolean isPossible(Path directory, FileStore store) {
        try {
            Path file = Files.createTempFile(directory, "direct-reads", ".tmp");
            try {
                probe.open(file);
                return true;
            } finally {
                Files.delete(file);
            }
        } catch (IOException | UnsupportedOperationException e) {
            logger.warn(
                    "Data files on {} are read through the page cache, not directly, because its"
                        + " file system refuses that: blocks are in memory twice. Set direct_reads:"
                        + " false to read so without this warning, and a smaller memory.",
                    store,
                    e);
            return false;
        }
    }
}
