// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.stream.PledgedRoom;
import dev.petra.engine.stream.SliceWriter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;

/**
 * One slice on its way into a store. {@link EntryCheck} looks at each entry of its blocks, which go
 * into files of this store's own: one of rows and one of large cells at a time, each ended between
 * two partitions. One thread at a time.
 */
final class StagedSlice implements SliceWriter {
    /** No key of a table is that long: it would be held whole, twice over. */
    private static final int MOST_KEY = 1 << 24;

    private static final int LENGTHS = 2 * Integer.BYTES;

    private final StagedStream stream;
    private final StoreContext store;
    private final int slice;
    private final Family rows;
    private final Family large;
    private @Nullable SliceColumns columns;
    private byte[] key = {};

    /** Whether it can take more. */
    private boolean open = true;

    private boolean ended;

    StagedSlice(StagedStream stream, StoreContext store, int slice) {
        this.stream = stream;
        this.store = store;
        this.slice = slice;
        this.rows = new Family(true);
        this.large = new Family(false);
    }

    /**
     * A file that is staged.
     *
     * @param within whether its first entry is of the partition of the file's before it
     */
    record Staged(Path path, boolean isData, boolean within) {}

    /**
     * All that is known of the rows of a slice, or of its large cells, once it has ended: what was
     * needed to take them is not kept.
     *
     * @param first key; null if there is none
     * @param last key
     * @param flags of {@link dev.petra.engine.rocks.db.Catalog.Flag} that it needs
     */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    record Whole(List<Staged> files, byte @Nullable [] first, byte[] last, int flags) {}

    /** The rows of the slice, or its large cells. */
    private final class Family {
        private final List<Staged> files = new ArrayList<>();
        private final boolean isData;
        private final EntryCheck check;
        private byte @Nullable [] first;
        private @Nullable StreamSst file;
        private @Nullable PledgedRoom room;

        /** Of the file, about. */
        private long bytes;

        Family(boolean isData) {
            this.isData = isData;
            this.check =
                    new EntryCheck(store.table(), store.partitionKeys(), isData, stream.notOwned());
        }

        Whole whole() {
            return new Whole(List.copyOf(files), first, check.last(), check.flags());
        }

        void add(int keyLength, byte[] in, int at, int length)
                throws RocksDBException, IOException {
            check.look(key, keyLength, in, at, length);
            if (first == null) first = Arrays.copyOf(key, keyLength);
            long part = store.settings().streamPart();
            boolean within = !check.beginsPartition();
            if (bytes >= (within ? 2 * part : part)) finish();
            StreamSst to = file;
            if (to == null) to = begin(within);
            if (check.pack(key, keyLength, in, at, length, to)) {
                bytes = to.bytes();
                Objects.requireNonNull(room).renew();
            }
        }

        private StreamSst begin(boolean within) throws RocksDBException, IOException {
            room = stream.pledge();
            Path path =
                    stream.directory()
                            .resolve(
                                    "%d-%d%s.sst"
                                            .formatted(
                                                    slice, files.size(), isData ? "" : ".large"));
            files.add(new Staged(path, isData, within));
            // The writer has what it needs of the options. Between two blocks it counts as no use
            // of the store: the store does not wait for a peer.
            try (TableOptions.ForSst options = store.reopenable().sstOptions()) {
                StreamSst begun =
                        new StreamSst(
                                isData ? options.data() : options.large(), path.toString(), isData);
                file = begun;
                return begun;
            }
        }

        /** Completes the file, if there is one. */
        void finish() throws RocksDBException {
            StreamSst whole = file;
            if (whole == null) return;
            check.pass(whole);
            whole.finish();
            closeFile();
        }

        void closeFile() {
            StreamSst abandoned = file;
            file = null;
            bytes = 0;
            if (abandoned != null) abandoned.close();
            if (room != null) room.close();
        }
    }

    @Override
    public void take(ByteBuffer block) throws IOException {
        byte[] bytes;
        int from;
        int length = block.remaining();
        if (block.hasArray()) {
            bytes = block.array();
            from = block.arrayOffset() + block.position();
            block.position(block.limit());
        } else {
            bytes = new byte[length];
            from = 0;
            block.get(bytes);
        }
        work(() -> read(bytes, from, length));
        open = true;
    }

    private interface Work {
        void run() throws RocksDBException, IOException;
    }

    /** Does what needs the store. Nothing more is taken if it fails. */
    private void work(Work work) throws IOException {
        stream.checkOpen();
        if (!open) throw new IllegalStateException("Slice " + slice + " takes no more.");
        open = false;
        Database database = store.acquire();
        int use = Database.stripe();
        try {
            work.run();
        } catch (RocksDBException | MalformedFragment e) {
            throw new IOException(
                    "Slice %d for %s: %s".formatted(slice, store.name(), e.getMessage()), e);
        } finally {
            database.release(use);
            // The block may be large, and the next one far.
            rows.check.forget();
            large.check.forget();
            // It was closed meanwhile, without waiting for a peer that may be gone.
            if (stream.isClosed()) {
                closeFiles();
                stream.deleteStaged();
            }
        }
        stream.checkOpen();
    }

    private void read(byte[] bytes, int from, int length) throws RocksDBException, IOException {
        if (length < 1 + Integer.BYTES) throw new MalformedFragment("a block that ends early");
        switch (bytes[from]) {
            case BlockKind.COLUMNS -> columns(ByteBuffer.wrap(bytes, from + 1, length - 1));
            case BlockKind.ROWS -> entries(rows, bytes, from, length);
            case BlockKind.LARGE -> entries(large, bytes, from, length);
            default -> throw new MalformedFragment("a block of kind " + bytes[from]);
        }
    }

    private void columns(ByteBuffer block) {
        SliceColumns more = SliceColumns.decode(block);
        if (columns != null && !more.extend(columns))
            throw new MalformedFragment("a dictionary that does not extend the one before");
        stream.columns(more);
        columns = more;
        rows.check.columns(store.table(), more.names());
        large.check.columns(store.table(), more.names());
    }

    private void entries(Family family, byte[] bytes, int from, int length)
            throws RocksDBException, IOException {
        if (columns == null) throw new MalformedFragment("entries before the dictionary");
        ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        int end = from + length;
        int at = from + 1;
        while (at < end) {
            if (end - at < LENGTHS) throw new MalformedFragment("a block that ends early");
            int keyBytes = in.getInt(at);
            int valueBytes = in.getInt(at + Integer.BYTES);
            at += LENGTHS;
            if (keyBytes < 0 || keyBytes > MOST_KEY)
                throw new MalformedFragment("an entry's key of " + keyBytes + " bytes");
            if (valueBytes < 0 || (long) keyBytes + valueBytes > end - at)
                throw new MalformedFragment("a block that ends early");
            if (key.length < keyBytes) key = new byte[2 * keyBytes];
            System.arraycopy(bytes, at, key, 0, keyBytes);
            at += keyBytes;
            family.add(keyBytes, bytes, at, valueBytes);
            at += valueBytes;
            if (at < end && length > BLOCK)
                throw new MalformedFragment("several entries in a block of " + length + " bytes");
        }
    }

    @Override
    public void end() throws IOException {
        work(
                () -> {
                    rows.finish();
                    large.finish();
                });
        stream.ended(slice, rows.whole(), large.whole());
        ended = true;
    }

    @Override
    public void close() {
        open = false;
        if (ended) return;
        // Closed again, it must not free a slice that another has begun.
        ended = true;
        closeFiles();
        try {
            for (Family family : List.of(rows, large))
                for (Staged staged : family.files) Files.deleteIfExists(staged.path);
        } catch (IOException e) {
            // The stream's end deletes it, or the next start.
            stream.undeleted(e);
        } finally {
            stream.torn(slice);
        }
    }

    private void closeFiles() {
        rows.closeFile();
        large.closeFile();
    }
}
