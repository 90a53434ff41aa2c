// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
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
 * What the compactions that run now, or are about to, have to write yet, those of all stores of the
 * process: each alone would find room for itself. It is the most that they may write: what they
 * have not read. Values of large cells that a compaction writes anew are not counted.
 */
final class UnfinishedMerges {
    private static final Logger logger = LoggerFactory.getLogger(UnfinishedMerges.class);

    /** Of who looks whether there is room, and takes it. */
    static final Object ROOM = new Object();

    /** On threads that RocksDB does not track. */
    private static final Set<Taken> ofFiles = ConcurrentHashMap.newKeySet();

    /** For merges that may not have begun. */
    private static final Set<Taken> reserved = ConcurrentHashMap.newKeySet();

    private UnfinishedMerges() {}

    /** How far a merge is, is not known, so all of its room counts until it is closed. */
    static final class Taken implements AutoCloseable {
        private final Set<Taken> among;
        private final Path directory;
        private final long bytes;

        private Taken(Set<Taken> among, Path directory, long bytes) {
            this.among = among;
            this.directory = directory;
            this.bytes = bytes;
        }

        @Override
        public void close() {
            among.remove(this);
        }
    }

    /** Counts a merge of files of the store in a directory. */
    static Taken begin(Path directory, long bytes) {
        return take(ofFiles, directory, bytes);
    }

    /**
     * Counts what a store is about to merge: from then on what it merges counts only where that is
     * more. Who looks first whether there is room has the monitor of {@link #ROOM} for both.
     */
    static Taken reserve(Path directory, long bytes) {
        return take(reserved, directory, bytes);
    }

    private static Taken take(Set<Taken> among, Path directory, long bytes) {
        Taken taken = new Taken(among, directory, bytes);
        among.add(taken);
        return taken;
    }

    /** In bytes, on one disk. */
    static long on(FileStore disk) throws RocksDBException {
        Map<Path, Long> byStore = byStore(ofFiles);
        for (ThreadStatus thread : Env.getDefault().getThreadList()) {
            OperationType type = thread.getOperationType();
            if (type != OperationType.OP_COMPACTION) continue;
            Map<String, Long> properties =
                    ThreadStatus.interpretOperationProperties(
                            type, thread.getOperationProperties());
            long left =
                    properties.getOrDefault("TotalInputBytes", 0L)
                            - properties.getOrDefault("BytesRead", 0L);
            // Below nothing where it has read large cells.
            if (left > 0) byStore.merge(Path.of(thread.getDbName()), left, Long::sum);
        }
        byStore(reserved).forEach((store, bytes) -> byStore.merge(store, bytes, Long::max));
        long bytes = 0;
        for (Map.Entry<Path, Long> store : byStore.entrySet())
            if (isOn(disk, store.getKey())) bytes += store.getValue();
        return bytes;
    }

    private static Map<Path, Long> byStore(Set<Taken> merges) {
        Map<Path, Long> byStore = new HashMap<>();
        for (Taken merge : merges) byStore.merge(merge.directory, merge.bytes, Long::sum);
        return byStore;
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
