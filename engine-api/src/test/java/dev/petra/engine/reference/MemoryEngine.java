// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.EngineStatistics;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;

/**
 * The reference engine. Data lives on the heap of this JVM for as long as the JVM does; a store's
 * directory holds one file, which names the data and whose it is, so that a store can be opened
 * again, copied and deleted.
 */
public final class MemoryEngine implements StorageEngine {
    static final String FILE = "store";

    /** The data of every store of this JVM, open or not, by the name in its file. */
    private static final Map<UUID, MemoryData> DATA = new ConcurrentHashMap<>();

    private final long budget;
    private final Map<Path, MemoryStore> open = new HashMap<>();
    private boolean closed;

    MemoryEngine(long budget) {
        this.budget = budget;
    }

    @Override
    public boolean hasIndexes() {
        return true;
    }

    @Override
    public String name() {
        return MemoryEngineProvider.NAME;
    }

    @Override
    public synchronized TableStore openStore(StoreSpec spec) {
        if (closed) throw new IllegalStateException("The memory engine is closed.");
        Path directory = spec.directory().toAbsolutePath().normalize();
        if (open.containsKey(directory))
            throw new IllegalStateException("The store in " + directory + " is already open.");
        MemoryData data = Files.exists(directory) ? load(spec, directory) : create(spec, directory);
        MemoryStore store = new MemoryStore(this, spec, directory, data);
        open.put(directory, store);
        return store;
    }

    private static MemoryData create(StoreSpec spec, Path directory) {
        MemoryData data = new MemoryData();
        save(spec, directory, data);
        return data;
    }

    /** Writes the file that makes a directory a store. */
    static void save(StoreSpec spec, Path directory, MemoryData data) {
        UUID id = UUID.randomUUID();
        try {
            Files.createDirectories(directory);
            Files.write(directory.resolve(FILE), List.of(id.toString(), identity(spec)));
        } catch (IOException e) {
            throw new FSWriteError(e, directory);
        }
        DATA.put(id, data);
    }

    private static MemoryData load(StoreSpec spec, Path directory) {
        Path file = directory.resolve(FILE);
        List<String> lines;
        try {
            lines = Files.readAllLines(file);
        } catch (NoSuchFileException e) {
            throw new CorruptStoreException(
                    directory + " is no store of the memory engine. Remove it, or name another.",
                    e);
        } catch (IOException e) {
            throw new FSReadError(e, file);
        }
        if (!lines.get(1).equals(identity(spec)))
            throw new CorruptStoreException(
                    directory
                            + " holds the store "
                            + lines.get(1)
                            + ", not "
                            + identity(spec)
                            + ". Name the right directory.");
        MemoryData data = DATA.get(UUID.fromString(lines.get(0)));
        if (data == null)
            throw new CorruptStoreException(
                    directory + " is of another process, whose memory is gone. Remove it.");
        return data;
    }

    private static String identity(StoreSpec spec) {
        return spec.metadata().id
                + " "
                + spec.columnFamily()
                + " "
                + spec.generation()
                + " "
                + spec.metadata().get().partitioner.getClass().getName();
    }

    synchronized void onClosed(Path directory) {
        open.remove(directory);
    }

    @Override
    public synchronized void deleteStore(Path directory) {
        Path normal = directory.toAbsolutePath().normalize();
        if (open.containsKey(normal))
            throw new IllegalStateException("The store in " + normal + " is open.");
        delete(normal);
    }

    static void delete(Path directory) {
        if (!Files.exists(directory)) return;
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.sorted((a, b) -> b.compareTo(a)).toList()) {
                if (file.equals(directory.resolve(FILE)))
                    DATA.remove(UUID.fromString(Files.readAllLines(file).get(0)));
                Files.delete(file);
            }
        } catch (IOException e) {
            throw new FSWriteError(e, directory);
        }
    }

    @Override
    public void walSync(WalSync mode, Duration interval) {
        if (interval.isNegative()) throw new IllegalArgumentException("interval " + interval);
    }

    @Override
    public void compactionThroughput(long bytesPerSecond) {
        if (bytesPerSecond < 1)
            throw new IllegalArgumentException("throughput " + bytesPerSecond + " is not positive");
    }

    @Override
    public synchronized EngineStatistics statistics() {
        return new EngineStatistics(open.size(), budget, 0, 0);
    }

    @Override
    public void close() {
        List<MemoryStore> stores;
        synchronized (this) {
            closed = true;
            stores = List.copyOf(open.values());
        }
        stores.forEach(MemoryStore::close);
    }
}
