// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.legacy;

import dev.petra.engine.DirectoryTree;
import dev.petra.engine.EngineStatistics;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.cassandra.cache.ChunkCache;
import org.apache.cassandra.config.Config.CommitLogSync;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.utils.FBUtilities;

/** What all stores of a process share: most of it is Cassandra's singletons. */
final class LegacyEngine implements StorageEngine {
    private final ConcurrentHashMap<Path, LegacyStore> stores = new ConcurrentHashMap<>();
    private volatile boolean syncsWrites;
    private boolean closed;

    /** Whether a write waits for its sync though the commit log's own mode does not make it. */
    boolean syncsWrites() {
        return syncsWrites;
    }

    @Override
    public String name() {
        return LegacyEngineProvider.NAME;
    }

    @Override
    public String version() {
        return "Apache Cassandra " + FBUtilities.getReleaseVersionString();
    }

    @Override
    public TableStore openStore(StoreSpec spec) {
        Path directory = normalized(spec.directory());
        synchronized (this) {
            if (closed) throw new IllegalStateException("The engine is closed.");
            if (stores.containsKey(directory))
                throw new IllegalStateException("The store in " + directory + " is already open.");
            LegacyStore store = LegacyStore.open(this, spec);
            stores.put(directory, store);
            return store;
        }
    }

    /** A store says that it is closed. */
    void forget(LegacyStore store) {
        stores.remove(normalized(store.spec().directory()), store);
    }

    /** While none is opened: files of the new one would be deleted by their names. */
    @Override
    public synchronized void deleteStore(Path directory) {
        if (stores.containsKey(normalized(directory)))
            throw new IllegalStateException("The store in " + directory + " is open.");
        DirectoryTree.delete(directory);
    }

    /** Deletes a store that has ended, before another is opened there. */
    synchronized void delete(LegacyStore store) {
        forget(store);
        deleteStore(store.spec().directory());
    }

    private static Path normalized(Path directory) {
        return directory.toAbsolutePath().normalize();
    }

    /** Beyond what the commit log does by its own mode, which is fixed when it starts. */
    @Override
    public void walSync(WalSync mode, Duration interval) {
        syncsWrites =
                mode != WalSync.PERIODIC
                        && DatabaseDescriptor.getCommitLogSync() == CommitLogSync.periodic;
    }

    @Override
    public void compactionThroughput(long bytesPerSecond) {
        if (bytesPerSecond < 1)
            throw new IllegalArgumentException(
                    "bytesPerSecond must be at least 1, not " + bytesPerSecond);
        // Cassandra's word for "unlimited" is 0.
        double limit = bytesPerSecond == Long.MAX_VALUE ? 0 : bytesPerSecond;
        CompactionManager.instance.setRateInBytes(limit);
    }

    @Override
    public EngineStatistics statistics() {
        long buffers = 0;
        for (LegacyStore store : stores.values()) buffers += store.memoryBytes();
        ChunkCache cache = ChunkCache.instance;
        return new EngineStatistics(
                stores.size(),
                (DatabaseDescriptor.getFileCacheSizeInMiB() + memtableMiB()) << 20,
                cache == null ? 0 : cache.weightedSize(),
                buffers);
    }

    private static long memtableMiB() {
        return DatabaseDescriptor.getMemtableHeapSpaceInMiB()
                + DatabaseDescriptor.getMemtableOffheapSpaceInMiB();
    }

    @Override
    public void close() {
        synchronized (this) {
            closed = true;
        }
        for (LegacyStore store : List.copyOf(stores.values())) store.close();
    }
}
