// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.EngineStatistics;
import dev.petra.engine.FileStatistics;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.LongConsumer;
import java.util.stream.Stream;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.jspecify.annotations.Nullable;

/**
 * An engine for the tests of generations: a store is a directory with one file of lines. Nothing is
 * buffered, so that abandoning an engine is a crash.
 */
final class FileEngine implements StorageEngine {
    /** The stores open now. */
    final Set<Path> open = ConcurrentHashMap.newKeySet();

    /** Whether the next checkpoint, drop or opening fails. */
    boolean failCheckpoint;

    volatile boolean failDrop;

    /** Whether stores are being read, so that they cannot be ended. */
    volatile boolean isRead;

    /** What closing a store waits for. */
    volatile Runnable closing = () -> {};

    /** What the deletion of a store that is not open waits for. */
    volatile Runnable deleting = () -> {};

    boolean failOpen;

    /** What {@link #deleteStore} was called for. */
    final List<Path> deleted = new CopyOnWriteArrayList<>();

    /** How often a store was asked what its files hold. */
    int filesCounted;

    /** How often a store was asked for its statistics. */
    int measured;

    /** Whether stores are being opened anew. */
    boolean isShut;

    @Override
    public String name() {
        return "file";
    }

    @Override
    public FileStore openStore(StoreSpec spec) {
        if (failOpen) throw new CorruptStoreException("cannot open " + spec.directory());
        if (!open.add(spec.directory()))
            throw new IllegalStateException(spec.directory() + " is open");
        try {
            Files.createDirectories(spec.directory());
            // A store without rows is no empty directory.
            Path lines = spec.directory().resolve("lines");
            if (Files.notExists(lines)) Files.createFile(lines);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return new FileStore(spec);
    }

    @Override
    public void deleteStore(Path directory) {
        if (open.contains(directory)) throw new IllegalStateException(directory + " is open");
        deleted.add(directory);
        deleting.run();
        delete(directory);
    }

    private static void delete(Path directory) {
        if (!Files.exists(directory)) return;
        try (Stream<Path> files = Files.list(directory)) {
            for (Path file : files.toList()) Files.delete(file);
            Files.delete(directory);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void walSync(WalSync mode, Duration interval) {}

    @Override
    public void compactionThroughput(long bytesPerSecond) {}

    @Override
    public EngineStatistics statistics() {
        return new EngineStatistics(open.size(), 0, 0, 0);
    }

    @Override
    public void close() {
        open.clear();
    }

    /** A store of lines. */
    final class FileStore implements TableStore {
        private final StoreSpec spec;

        private FileStore(StoreSpec spec) {
            this.spec = spec;
        }

        private Path file() {
            if (!open.contains(spec.directory()))
                throw new IllegalStateException(spec.directory() + " is closed");
            return spec.directory().resolve("lines");
        }

        void append(String line) {
            try {
                Files.writeString(
                        file(), line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        List<String> lines() {
            try {
                return Files.exists(file()) ? Files.readAllLines(file()) : List.of();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        @Override
        public StoreSpec spec() {
            return spec;
        }

        @Override
        public boolean isEmpty() {
            return lines().isEmpty();
        }

        @Override
        public void checkpoint(Path target) {
            try {
                Files.createDirectory(target);
                Files.copy(file(), target.resolve("lines"));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            if (failCheckpoint) throw new CorruptStoreException("no checkpoint today");
        }

        @Override
        public void drop() {
            if (isRead) throw new IllegalStateException(spec.directory() + " is read");
            if (failDrop) throw new CorruptStoreException("no drop today");
            close();
            delete(spec.directory());
        }

        @Override
        public void close() {
            closing.run();
            open.remove(spec.directory());
        }

        @Override
        public boolean isShut() {
            return isShut;
        }

        @Override
        public StoreStatistics statistics() {
            measured++;
            return new StoreStatistics(lines().size(), 0, 0, 0, 0, 0, 0, 0);
        }

        @Override
        public FileStatistics fileStatistics() {
            filesCounted++;
            return new FileStatistics(1, 0, 0, 0);
        }

        @Override
        public void write(PartitionUpdate update) {
            throw new UnsupportedOperationException("append instead");
        }

        @Override
        public @Nullable UnfilteredRowIterator read(
                DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
            throw new UnsupportedOperationException("lines instead");
        }

        @Override
        public UnfilteredPartitionIterator scan(DataRange range, ColumnFilter columns) {
            throw new UnsupportedOperationException("lines instead");
        }

        @Override
        public boolean mayContain(DecoratedKey key) {
            return !isEmpty();
        }

        @Override
        public StreamSource send(List<SliceRanges> slices) {
            throw new UnsupportedOperationException("no streams");
        }

        @Override
        public StreamSink receive(StreamHead head, Collection<Range<Token>> owned) {
            throw new UnsupportedOperationException("no streams");
        }

        @Override
        public long[] sizes(List<Range<Token>> ranges) {
            throw new UnsupportedOperationException("no streams");
        }

        @Override
        public void syncLog() {}

        @Override
        public void flush() {}

        @Override
        public void compact(Collection<Range<Token>> ranges) {}

        @Override
        public void retainRanges(Collection<Range<Token>> owned) {}

        @Override
        public void verify(LongConsumer beforeFile) {}
    }
}
