// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.format.TokenRanges;
import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.EOFException;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.ReadableByteChannel;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.locks.LockSupport;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileReader;
import org.rocksdb.SstFileReaderIterator;
import org.rocksdb.TableProperties;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The parts of a stream on their way into a store: staged in a directory of the store's, checked
 * there, and ingested. RocksDB never opens a file that a peer made: {@link SstParser} reads its
 * entries, {@link PartCheck} looks at each, and they are written to a file of this store's own.
 * Where the sender has given other ids to the columns, the parts are written anew with those of
 * this store. Thread-safe.
 */
public final class SstIngest implements IncomingParts {
    private static final Logger logger = LoggerFactory.getLogger(SstIngest.class);

    /** Each takes some hundred bytes of memory; a sender writes none that small. */
    private static final int MOST_PARTS = 1 << 20;

    private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

    /** Of a stream: further than any disk goes, and no sum of it overflows. */
    private static final long MOST_BYTES = 1L << 62;

    private enum Stage {
        AWAITED,
        ARRIVING,
        THERE
    }

    private final StoreContext store;
    private final Ingester ingester;
    private final StreamManifest manifest;
    private final ColumnDictionary dictionary;
    private final Path directory;
    private final List<TokenRanges.KeyRange> notOwned;
    private final AtomicReferenceArray<Stage> stages;
    private final AtomicInteger flags = new AtomicInteger();
    private boolean verified;

    /** How many parts have the ids of this store by now, which must not be changed again. */
    private int renumbered;

    private boolean arriving;
    private boolean ingested;

    /** How many are live, in the order of {@link #ingested(int)}. */
    private int live;

    private volatile boolean closed;

    /**
     * @param directory of its own, not there yet
     */
    public SstIngest(
            StoreContext store,
            Ingester ingester,
            StreamManifest manifest,
            Collection<Range<Token>> owned,
            Path directory)
            throws IOException {
        this.store = store;
        this.ingester = ingester;
        this.manifest = manifest;
        this.directory = directory;
        refuseUnless(manifest.engine().equals(StoreDescriptor.ENGINE), "its engine");
        refuseUnless(manifest.formatVersion() == StoreDescriptor.FORMAT, "its format");
        refuseUnless(manifest.table().equals(store.table().id), "its table");
        refuseUnless(
                manifest.columnFamily().equals(store.spec().columnFamily()), "its column family");
        int count = manifest.parts().size();
        refuseUnless(count <= MOST_PARTS, "its number of parts");
        this.dictionary = ColumnDictionary.decode(manifest.dictionary(), count);
        refuseUnless(
                manifest.parts().stream().mapToDouble(StreamPart::bytes).sum() <= MOST_BYTES,
                "its length");
        this.notOwned = TokenRanges.gaps(owned, store.partitionKeys());
        for (StreamPart part : manifest.parts()) checkBounds(part);
        this.stages = new AtomicReferenceArray<>(count);
        for (int i = 0; i < count; i++) stages.set(i, Stage.AWAITED);
        Files.createDirectories(directory);
        long room = Files.getFileStore(directory).getUsableSpace();
        if (room < manifest.totalBytes()) {
            Files.delete(directory);
            // Not as an error of the disk, at which a node may stop: the peer may have lied.
            throw new IllegalArgumentException(
                    "%s: a stream of %d bytes has no room, %d bytes are free in %s"
                            .formatted(store.name(), manifest.totalBytes(), room, directory));
        }
    }

    private void refuseUnless(boolean fits, String what) {
        if (!fits)
            throw new IllegalArgumentException(
                    "The store of "
                            + store.name()
                            + " (engine "
                            + StoreDescriptor.ENGINE
                            + ", format "
                            + StoreDescriptor.FORMAT
                            + ") refuses a stream of engine "
                            + manifest.engine()
                            + ", format "
                            + manifest.formatVersion()
                            + ", table "
                            + manifest.table()
                            + " "
                            + manifest.columnFamily()
                            + ", "
                            + manifest.parts().size()
                            + " parts: "
                            + what
                            + " does not fit.");
    }

    /** What the manifest says of a part; verifying sees whether it is true. */
    private void checkBounds(StreamPart part) {
        byte[] first = bytes(part.firstKey());
        byte[] last = bytes(part.lastKey());
        boolean isFirst = part.index() == 0 || part.index() == dictionary.dataParts();
        boolean follows =
                isFirst
                        || Arrays.compareUnsigned(
                                        bytes(manifest.parts().get(part.index() - 1).lastKey()),
                                        first)
                                < 0;
        refuseUnless(
                part.bytes() > 0 && follows && Arrays.compareUnsigned(first, last) <= 0,
                "part " + part.index());
        for (TokenRanges.KeyRange gap : notOwned)
            refuseUnless(!contains(gap, first) && !contains(gap, last), "what this node owns");
    }

    private static boolean contains(TokenRanges.KeyRange range, byte[] key) {
        return Arrays.compareUnsigned(range.from(), key) <= 0
                && Arrays.compareUnsigned(key, range.to()) < 0;
    }

    private static byte[] bytes(ByteBuffer buffer) {
        return ByteBufferUtil.getArray(buffer);
    }

    private Path file(int index) {
        return directory.resolve(index + ".sst");
    }

    @Override
    public void receive(int index, ReadableByteChannel channel) throws IOException {
        checkOpen();
        StreamPart part = manifest.parts().get(Objects.checkIndex(index, stages.length()));
        if (!stages.compareAndSet(index, Stage.AWAITED, Stage.ARRIVING))
            throw new IllegalStateException("Part " + index + " has already come.");
        boolean complete = false;
        try (FileChannel file = create(index)) {
            if (StreamSst.transfer(channel, file, part.bytes()) != part.checksum())
                throw wrong(index, "its checksum is not that of the manifest");
            write(part, file);
            complete = true;
        } catch (EOFException e) {
            throw wrong(index, String.valueOf(e.getMessage()));
        } finally {
            stages.set(index, complete ? Stage.THERE : Stage.AWAITED);
            // It was closed meanwhile, without waiting for a peer that may be gone.
            if (closed) deleteStaged();
        }
    }

    /**
     * Where what a peer sends lies until it was looked at. Not while the store deletes its
     * directory.
     */
    private FileChannel create(int index) throws IOException {
        Database database = store.acquire();
        int use = Database.stripe();
        try {
            return FileChannel.open(
                    directory.resolve(index + ".received"),
                    StandardOpenOption.CREATE,
                    StandardOpenOption.TRUNCATE_EXISTING,
                    StandardOpenOption.DELETE_ON_CLOSE,
                    StandardOpenOption.READ,
                    StandardOpenOption.WRITE);
        } finally {
            database.release(use);
        }
    }

    /** Writes what a peer's file says to one of this store's. */
    private void write(StreamPart part, FileChannel received) throws IOException {
        int index = part.index();
        PartCheck check =
                new PartCheck(store.table(), store.partitionKeys(), dictionary, part, notOwned);
        try (TableOptions.ForSst options = store.reopenable().sstOptions();
                StreamSst file =
                        new StreamSst(
                                isData(index) ? options.data() : options.large(),
                                file(index).toString(),
                                isData(index))) {
            int type = isData(index) ? SstParser.MERGE : SstParser.PUT;
            SstParser.read(
                    received,
                    type,
                    (key, length, in, at, bytes) -> check.add(key, length, in, at, bytes, file));
            check.end(file);
            file.finish();
        } catch (RocksDBException | MalformedFragment e) {
            throw wrong(index, e);
        }
        flags.accumulateAndGet(check.flags(), (a, b) -> a | b);
    }

    private IOException wrong(int index, Exception e) {
        return new IOException(
                "Part %d for %s: %s".formatted(index, store.name(), e.getMessage()), e);
    }

    private IOException wrong(int index, String what) {
        return new IOException("Part %d for %s: %s".formatted(index, store.name(), what));
    }

    @Override
    public synchronized void verify() throws IOException {
        checkOpen();
        for (int i = 0; i < stages.length(); i++)
            if (stages.get(i) != Stage.THERE) throw wrong(i, "it has not come");
        if (!verified)
            for (int i = 0; i < stages.length(); i++)
                read(i, (part, of, it) -> checkKeys(part, it));
        verified = true;
        // Here, and not where they become live: whoever calls that holds the table meanwhile.
        renumber();
    }

    private interface Reading {
        void read(int index, Options options, SstFileReaderIterator it)
                throws RocksDBException, IOException;
    }

    private boolean isData(int index) {
        return index < dictionary.dataParts();
    }

    /**
     * Reads one part. Each is a use of the store by itself, so that whoever ends the store waits
     * for one part and not for all.
     */
    private void read(int index, Reading reading) throws IOException {
        // Whoever closes them does not wait for all.
        checkOpen();
        try (TableOptions.ForSst of = store.reopenable().sstOptions()) {
            Options options = isData(index) ? of.data() : of.large();
            try (SstFileReader reader = new SstFileReader(options);
                    ReadOptions how = Database.newReadOptions().setFillCache(false)) {
                reader.open(file(index).toString());
                checkProperties(index, reader.getTableProperties());
                try (SstFileReaderIterator it = reader.newIterator(how)) {
                    reading.read(index, options, it);
                    it.status();
                }
            }
        } catch (RocksDBException | MalformedFragment e) {
            throw wrong(index, e);
        }
    }

    /** Before the parts become live: from here on the ids are for good. */
    private void renumber() throws IOException {
        if (renumbered == stages.length()) return;
        int[] ids =
                store.reopenable()
                        .write(
                                database ->
                                        store.catalog()
                                                .adopt(
                                                        dictionary.names(),
                                                        dictionary.kindsAndTypes()));
        boolean same = true;
        for (int id = 0; id < ids.length; id++) same &= ids[id] == id;
        if (same) renumbered = stages.length();
        for (; renumbered < stages.length(); renumbered++)
            read(
                    renumbered,
                    (index, of, it) -> {
                        it.seekToFirst();
                        if (isData(index)) renumberRows(index, of, it, ids);
                        else renumberLargeCells(index, of, it, ids);
                    });
    }

    private void checkProperties(int index, TableProperties properties) throws IOException {
        long entries = properties.getNumEntries();
        if (properties.getNumDeletions() != 0
                || properties.getNumRangeDeletions() != 0
                || properties.getNumMergeOperands() != (isData(index) ? entries : 0))
            throw wrong(index, "it has entries of another kind than a stream has");
    }

    private void checkKeys(int index, SstFileReaderIterator it)
            throws IOException, RocksDBException {
        StreamPart part = manifest.parts().get(index);
        it.seekToFirst();
        boolean first = it.isValid() && Arrays.equals(it.key(), bytes(part.firstKey()));
        it.seekToLast();
        if (!first || !it.isValid() || !Arrays.equals(it.key(), bytes(part.lastKey())))
            throw wrong(index, "its first or last key is not that of the manifest");
        for (TokenRanges.KeyRange gap : notOwned) {
            it.seek(gap.from());
            if (it.isValid() && Arrays.compareUnsigned(it.key(), gap.to()) < 0)
                throw wrong(index, "it has keys that this node does not own");
        }
        it.status();
    }

    private interface Entries {
        void writeTo(StreamSst file) throws RocksDBException, IOException;
    }

    private void rewrite(int index, Options options, Entries entries)
            throws RocksDBException, IOException {
        Path renumbered = directory.resolve(index + ".renumbered");
        try (StreamSst file = new StreamSst(options, renumbered.toString(), isData(index))) {
            entries.writeTo(file);
            file.finish();
        }
        Files.move(renumbered, file(index), StandardCopyOption.ATOMIC_MOVE);
    }

    private void renumberRows(int index, Options options, SstFileReaderIterator it, int[] ids)
            throws RocksDBException, IOException {
        rewrite(index, options, file -> file.addAll(it, null, Long.MAX_VALUE, ids));
    }

    /** Of each row apart: its cells are in the order of their columns' ids. */
    private void renumberLargeCells(int index, Options options, SstFileReaderIterator it, int[] ids)
            throws RocksDBException, IOException {
        rewrite(
                index,
                options,
                file -> {
                    while (it.isValid()) {
                        List<LargeKey> row = new ArrayList<>();
                        @Nullable LargeKey key = renumbered(index, it.key(), ids);
                        while (key != null && key.isOf(row)) {
                            row.add(key);
                            it.next();
                            key = it.isValid() ? renumbered(index, it.key(), ids) : null;
                        }
                        row.sort((a, b) -> Arrays.compareUnsigned(a.here, b.here));
                        for (LargeKey cell : row) {
                            it.seek(cell.there);
                            file.add(cell.here, it.value());
                        }
                        if (key == null) return;
                        it.seek(key.there);
                    }
                });
    }

    /** A large cell's key as it was sent, as it is here, and how long its row's key is. */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    private record LargeKey(byte[] there, byte[] here, int rowBytes) {
        boolean isOf(List<LargeKey> row) {
            if (row.isEmpty()) return true;
            LargeKey first = row.get(0);
            return rowBytes == first.rowBytes
                    && Arrays.equals(there, 0, rowBytes, first.there, 0, rowBytes);
        }
    }

    private LargeKey renumbered(int index, byte[] key, int[] ids) throws IOException {
        try {
            int row = store.rowBytes(ByteBuffer.wrap(key));
            byte[] here = key.clone();
            ByteBuffer cell = ByteBuffer.wrap(here, row, here.length - row);
            cell.putInt(row, ids[cell.getInt(row)]);
            return new LargeKey(key, here, row);
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw new IOException(
                    "Part %d for %s: malformed key %s"
                            .formatted(
                                    index,
                                    store.name(),
                                    ByteBufferUtil.bytesToHex(ByteBuffer.wrap(key))),
                    e);
        }
    }

    @Override
    public synchronized boolean ingest() throws IOException {
        checkOpen();
        int count = stages.length();
        if (ingested) throw new IllegalStateException("These parts were ingested.");
        if (!arriving) {
            verify();
            store.partsBegin();
            arriving = true;
        }
        List<String> data = new ArrayList<>();
        List<String> large = new ArrayList<>();
        int next = next();
        for (int i = live; i < next; i++) {
            int index = ingested(i);
            (isData(index) ? data : large).add(file(index).toString());
        }
        if (ingester.ingest(data, large, dictionary.flags() | flags.get())) live = next;
        ingested = live == count;
        if (ingested) end();
        return !ingested;
    }

    /**
     * How many are live after the next step. One does not end within a partition, of which a reader
     * would see a part, for good if the rest never comes; unless it is larger than all of a step.
     */
    private int next() {
        int most = Math.min(stages.length(), live + Ingester.AT_ONCE);
        for (int next = most; next > live; next--) if (!isWithinPartition(next)) return next;
        return most;
    }

    /** Whether the rows of a partition are both before that place and behind it. */
    private boolean isWithinPartition(int before) {
        if (before == stages.length()) return false;
        int index = ingested(before);
        // Large cells are not seen before their rows are.
        if (!isData(index) || index == 0) return false;
        byte[] last = bytes(manifest.parts().get(index - 1).lastKey());
        byte[] first = bytes(manifest.parts().get(index).firstKey());
        int length = store.positionBytes(last);
        return first.length >= length && Arrays.equals(last, 0, length, first, 0, length);
    }

    /**
     * Which part comes after so many others: large cells come before the rows that refer to them,
     * and rows in the order of their keys, where a deletion comes before what it hides.
     */
    private int ingested(int before) {
        int data = dictionary.dataParts();
        int large = stages.length() - data;
        return before < large ? data + before : before - large;
    }

    private void end() {
        if (!arriving) return;
        arriving = false;
        store.partsEnd();
    }

    @Override
    public void awaitRoom() {
        checkOpen();
        while (!ingester.hasRoom()) {
            LockSupport.parkNanos(PAUSE_NANOS);
            checkOpen();
        }
    }

    private void checkOpen() {
        if (closed) throw new IllegalStateException("These parts are closed.");
        store.reopenable().checkOpen();
    }

    @Override
    public void close() {
        closed = true;
        deleteStaged();
    }

    private synchronized void deleteStaged() {
        end();
        try (var files = Files.newDirectoryStream(directory)) {
            for (Path file : files) Files.deleteIfExists(file);
            Files.deleteIfExists(directory);
        } catch (NoSuchFileException e) {
            logger.debug("{} is deleted already", directory, e);
        } catch (IOException | DirectoryIteratorException e) {
            logger.warn("{} cannot be deleted now; it is at the next start", directory, e);
        }
    }
}
