// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.rocks.format.LargeBuffers;
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
import org.apache.cassandra.schema.TableMetadata;
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

    /** So many are added to a file at a time, and one entry more. */
    private static final int PASSED_BYTES = 64 << 10;

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

        /** The size of the file, about. */
        private long bytes;

        /** Where in the block the entries begin that were looked at and are not in the file yet. */
        private int from;

        Family(boolean isData) {
            this.isData = isData;
            this.check =
                    new EntryCheck(store::table, store.partitionKeys(), isData, stream.notOwned());
        }

        Whole whole() {
            return new Whole(List.copyOf(files), first, check.last(), check.flags());
        }

        /** Entries of a block come next, which begin there. */
        void begin(ByteBuffer in, int at) {
            check.block(in);
            from = at;
        }

        /**
         * Takes the next entry.
         *
         * @param at where it begins
         */
        void add(int keyLength, ByteBuffer in, int at, int valueAt, int end)
                throws RocksDBException, IOException {
            check.look(key, keyLength, valueAt, end - valueAt);
            if (first == null) first = Arrays.copyOf(key, keyLength);
            long part = store.settings().streamPart();
            boolean within = !check.beginsPartition();
            if (bytes >= (within ? 2 * part : part)) {
                pass(in, at);
                finish();
            }
            if (file == null) begin(within);
            if (end - from >= PASSED_BYTES) pass(in, end);
        }

        /** Adds to the file what was looked at, up to a place in the block. */
        void pass(ByteBuffer in, int to) throws RocksDBException, IOException {
            if (from == to) return;
            StreamSst into = Objects.requireNonNull(file);
            into.addAll(in.slice(from, to - from), check.ids());
            from = to;
            bytes = into.bytes();
            Objects.requireNonNull(room).renew();
        }

        private void begin(boolean within) throws RocksDBException, IOException {
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
                file =
                        new StreamSst(
                                isData ? options.data() : options.large(), path.toString(), isData);
            }
        }

        /** Completes the file, if there is one. */
        void finish() throws RocksDBException {
            StreamSst whole = file;
            if (whole == null) return;
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
        ByteBuffer in = block.slice();
        block.position(block.limit());
        SliceColumns before = columns;
        if (in.isDirect()) {
            readAll(in);
        } else {
            ByteBuffer lent = LargeBuffers.OF_PROCESS.lend(in.remaining());
            try {
                readAll(lent.put(in).flip());
            } finally {
                LargeBuffers.OF_PROCESS.giveBack(lent);
            }
        }
        SliceColumns now = columns;
        if (now != null && !now.equals(before)) {
            var unused = stream.awaitSchema(() -> knowsAll(now));
        }
        open = true;
    }

    /** Whether the schema of this node has the columns, or had them. */
    private boolean knowsAll(SliceColumns now) {
        rows.check.columns(now.names());
        large.check.columns(now.names());
        return rows.check.knowsAll();
    }

    /** Reads a block to its end. An entry that is early for the schema is waited for in between. */
    private void readAll(ByteBuffer block) throws IOException {
        boolean isPatient = true;
        while (true) {
            TableMetadata tried = store.table();
            boolean mayBeEarly = isPatient;
            work(() -> read(block, mayBeEarly));
            if (!block.hasRemaining()) return;
            isPatient = stream.awaitSchema(() -> !store.table().equals(tried));
            open = true;
        }
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
        } catch (RocksDBException | MalformedFragment | EntryCheck.NotTaken e) {
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

    /**
     * Goes on where it has stopped.
     *
     * @param block off the heap, from 0 to its limit: RocksDB reads the entries where they are
     * @param mayBeEarly whether to stop before an entry for which the schema may be too old
     */
    private void read(ByteBuffer block, boolean mayBeEarly) throws RocksDBException, IOException {
        if (block.limit() < 1 + Integer.BYTES)
            throw new MalformedFragment("a block that ends early");
        switch (block.get(0)) {
            case BlockKind.COLUMNS -> columns(block.position(1));
            case BlockKind.ROWS -> entries(rows, block, mayBeEarly);
            case BlockKind.LARGE -> entries(large, block, mayBeEarly);
            default -> throw new MalformedFragment("a block of kind " + block.get(0));
        }
    }

    private void columns(ByteBuffer block) {
        SliceColumns more = SliceColumns.decode(block);
        if (columns != null && !more.extend(columns))
            throw new MalformedFragment("a dictionary that does not extend the one before");
        stream.columns(more);
        columns = more;
        rows.check.columns(more.names());
        large.check.columns(more.names());
    }

    private void entries(Family family, ByteBuffer block, boolean mayBeEarly)
            throws RocksDBException, IOException {
        if (columns == null) throw new MalformedFragment("entries before the dictionary");
        ByteBuffer in = block.order(ByteOrder.LITTLE_ENDIAN);
        int end = in.limit();
        int at = Math.max(1, in.position());
        family.begin(in, at);
        while (at < end) {
            int entry = at;
            if (end - at < LENGTHS) throw new MalformedFragment("a block that ends early");
            int keyBytes = in.getInt(at);
            int valueBytes = in.getInt(at + Integer.BYTES);
            at += LENGTHS;
            if (keyBytes < 0 || keyBytes > MOST_KEY)
                throw new MalformedFragment("an entry's key of " + keyBytes + " bytes");
            if (valueBytes < 0 || (long) keyBytes + valueBytes > end - at)
                throw new MalformedFragment("a block that ends early");
            if (key.length < keyBytes) key = new byte[2 * keyBytes];
            in.get(at, key, 0, keyBytes);
            at += keyBytes;
            try {
                family.add(keyBytes, in, entry, at, at + valueBytes);
            } catch (EntryCheck.NotTaken e) {
                if (!mayBeEarly || !e.isEarly) throw e;
                family.pass(in, entry);
                in.position(entry);
                return;
            }
            at += valueBytes;
            if (at < end && end > BLOCK)
                throw new MalformedFragment("several entries in a block of " + end + " bytes");
        }
        family.pass(in, end);
        in.position(end);
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
        // A second close must not free a slice that another writer has begun.
        ended = true;
        closeFiles();
        try {
            for (Family family : List.of(rows, large))
                for (Staged staged : family.files) Files.deleteIfExists(staged.path);
        } catch (IOException e) {
            // The file is deleted at the end of the stream, or at the next start.
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
