// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes blob files that were never finished: by a compaction which the end of the process, the
 * close of the store, or a full disk ended. RocksDB removes what no version of the database has,
 * but for blob files without a footer (as of 11.8: it takes them for files that are being written,
 * {@code ShouldKeepFooterlessBlobFile}). Each would take up to 64 MiB for good.
 */
final class UnfinishedBlobFiles {
    private static final Logger logger = LoggerFactory.getLogger(UnfinishedBlobFiles.class);

    private UnfinishedBlobFiles() {}

    /**
     * Removes them from a database that was just opened. Compactions that run already write to
     * others: RocksDB gives files numbers after all of those that it finds.
     *
     * @param before the blob files that there were before it was opened
     * @param name of the table, for the log
     */
    static void remove(List<Path> before, RocksDB db, String name) throws RocksDBException {
        if (before.isEmpty()) return;
        Set<String> live = new HashSet<>(db.getLiveFiles(false).files);
        for (Path file : before)
            if (!live.contains("/" + file.getFileName())) removeIfUnfinished(file, name);
    }

    private static void removeIfUnfinished(Path file, String name) {
        try {
            // RocksDB removes finished ones itself, once nothing reads them.
            if (BlobFiles.isFinished(file)) return;
            long bytes = Files.size(file);
            Files.delete(file);
            logger.info(
                    "Removed {} ({} bytes) of {}: a compaction ended before it was finished",
                    file,
                    bytes,
                    name);
        } catch (NoSuchFileException e) {
            logger.debug("{} is gone already", file, e);
        } catch (IOException e) {
            logger.warn(
                    "{} of {}, which a compaction that ended early left, could not be removed. It"
                            + " holds no data and takes room until the table is opened again.",
                    file,
                    name,
                    e);
        }
    }
}
