// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.rocksdb.Env;
import org.rocksdb.OperationType;
import org.rocksdb.RocksDBException;
import org.rocksdb.ThreadStatus;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the compactions that run now have to write yet, those of all stores of the process: each
 * alone would find room for itself. It is the most that they may write: what they have not read.
 */
final class UnfinishedMerges {
    private static final Logger logger = LoggerFactory.getLogger(UnfinishedMerges.class);

    private static final Set<OfFiles> ofFiles = ConcurrentHashMap.newKeySet();

    private UnfinishedMerges() {}

    /**
     * One on a thread that RocksDB does not track: how far it is, is not known, so all of it counts
     * until it is closed.
     */
    static final class OfFiles implements AutoCloseable {
        private final Path directory;
        private final long bytes;

        private OfFiles(Path directory, long bytes) {
            this.directory = directory;
            this.bytes = bytes;
        }

        @Override
        public void close() {
            ofFiles.remove(this);
        }
    }

    /** Counts a merge of files of the store in a directory. */
    static OfFiles begin(Path directory, long bytes) {
        OfFiles merge = new OfFiles(directory, bytes);
        ofFiles.add(merge);
        return merge;
    }

    /** In bytes, on one disk. */
    static long on(FileStore disk) throws RocksDBException {
        long bytes = 0;
        for (OfFiles merge : ofFiles) if (isOn(disk, merge.directory)) bytes += merge.bytes;
        for (ThreadStatus thread : Env.getDefault().getThreadList()) {
            OperationType type = thread.getOperationType();
            if (type != OperationType.OP_COMPACTION) continue;
            Map<String, Long> properties =
                    ThreadStatus.interpretOperationProperties(
                            type, thread.getOperationProperties());
            long left =
                    properties.getOrDefault("TotalInputBytes", 0L)
                            - properties.getOrDefault("BytesRead", 0L);
            if (left > 0 && isOn(disk, Path.of(thread.getDbName()))) bytes += left;
        }
        return bytes;
    }

    private static boolean isOn(FileStore disk, Path directory) {
        try {
            return Files.getFileStore(directory).equals(disk);
        } catch (IOException e) {
            // That store was just dropped, or its disk fails, and this is another.
            logger.debug("The disk of {} cannot be determined", directory, e);
            return false;
        }
    }
}
