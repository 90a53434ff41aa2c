// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.RocksErrors;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.GrowingBuffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/**
 * A position among the keys of one database, as it was when the cursor was opened. Keys and values
 * come in buffers that the next move overwrites. One thread at a time.
 *
 * <p>Once it is closed, its buffers belong to the next cursor and its native iterator is gone:
 * whoever goes on using it gets an {@link IllegalStateException}.
 *
 * <p>After the first moves in a row, entries are fetched many at once, in one native call: at first
 * few, then more, so that what is fetched and not wanted stays within what was wanted.
 */
public final class Cursor implements AutoCloseable {
    private static final int INITIAL_KEY = 1 << 10;
    private static final int INITIAL_VALUE = 8 << 10;
    private static final int BATCH_BYTES = 32 << 10;
    private static final int FIRST_BATCH = 4;
    private static final int MOST_OF_A_BATCH = 256;

    /** The head of an entry in a batch: the sizes of its key and of its value. */
    private static final int ENTRY_HEAD = 2 * Integer.BYTES;

    private final StoreContext store;
    private final Database database;
    private final int use;
    private final RocksIterator iterator;
    private final Buffers buffers;

    /** Values that lie apart from their rows; null where there are none. */
    private final @Nullable RocksIterator large;

    /** Null where the cursor goes over all keys. */
    private final @Nullable CursorBounds bounds;

    private boolean keyLoaded;
    private boolean closed;

    // Where the cursor is on an entry of the batch, the iterator is ahead of it.

    /** The entry's place in the batch. */
    private int at;

    /** Entries of the batch from this one on; 0 while the cursor is where the iterator is. */
    private int left;

    /** Whether the iterator is on the next entry behind the batch, not on the batch's last. */
    private boolean ahead;

    private int nextBatch;

    /**
     * Opens a cursor over all keys. Whoever decodes rows opens it by {@link ReadContext#open()}.
     */
    Cursor(StoreContext store) {
        this(store, null);
    }

    /**
     * @param bounds which this closes; null for all keys
     */
    Cursor(StoreContext store, @Nullable CursorBounds bounds) {
        this.store = store;
        this.bounds = bounds;
        try {
            this.database = store.acquire();
        } catch (Throwable t) {
            if (bounds != null) bounds.close();
            throw t;
        }
        this.use = Database.stripe();
        try {
            Buffers spare = Buffers.SPARE.get();
            this.buffers = spare == null ? new Buffers() : spare;
            Buffers.SPARE.remove();
            buffers.partition.clear();
            buffers.bounds.clear();
            ReadOptions options = bounds == null ? database.readOptions : bounds.options();
            if (!store.catalog().has(Catalog.Flag.LARGE_CELLS)) {
                RocksIterator plain = database.db.newIterator(database.data, options);
                // Asked again behind the opening: if there are none now, the iterator sees none.
                if (!store.catalog().has(Catalog.Flag.LARGE_CELLS)) {
                    this.iterator = plain;
                    this.large = null;
                    return;
                }
                plain.close();
            }
            // As of one moment, and from files that stay.
            List<RocksIterator> both = database.newIterators(options);
            this.iterator = both.get(0);
            this.large = both.get(1);
        } catch (RocksDBException e) {
            releaseBounds();
            database.release(use);
            throw RocksErrors.onRead(e, store.name(), store.directory());
        } catch (Throwable t) {
            releaseBounds();
            database.release(use);
            throw t;
        }
    }

    private void checkOpen() {
        if (closed) throw new IllegalStateException("The iterator is closed.");
    }

    private void releaseBounds() {
        if (bounds != null) bounds.close();
    }

    /** Not to be used after this is closed. */
    public Database database() {
        checkOpen();
        return database;
    }

    /** Values that lie apart, of the same moment as the rows; null where there are none. */
    @Nullable RocksIterator large() {
        checkOpen();
        return large;
    }

    /** Buffers between two uses: most threads have one cursor at a time. */
    private static final class Buffers {
        static final ThreadLocal<@Nullable Buffers> SPARE = new ThreadLocal<>();

        final GrowingBuffer key = new GrowingBuffer(INITIAL_KEY);
        final GrowingBuffer value = new GrowingBuffer(INITIAL_VALUE);
        final ByteBuffer batch =
                ByteBuffer.allocateDirect(BATCH_BYTES).order(ByteOrder.nativeOrder());

        /**
         * Shows values in the batch, in the byte order of fragments, which a duplicate has by
         * default.
         */
        final ByteBuffer batchValue = batch.duplicate();

        final ByteSink partition = new ByteSink();
        final ByteSink bounds = new ByteSink();

        void release() {
            key.release();
            value.release();
            partition.release();
            bounds.release();
        }
    }

    /** For the position of the partition being read. */
    ByteSink partitionSink() {
        checkOpen();
        return buffers.partition;
    }

    /** For the bounds of the slice being read. */
    ByteSink boundsSink() {
        checkOpen();
        return buffers.bounds;
    }

    /** Moves to the first key at or behind this one. */
    public void seek(ByteBuffer target) {
        forgetBatch();
        iterator.seek(target);
    }

    /** Moves to the last key at or before this one. */
    void seekForPrevious(ByteBuffer target) {
        forgetBatch();
        iterator.seekForPrev(target);
    }

    private void forgetBatch() {
        checkOpen();
        keyLoaded = false;
        left = 0;
        nextBatch = 0;
    }

    public void next() {
        move(true);
    }

    void previous() {
        move(false);
    }

    private void move(boolean forward) {
        checkOpen();
        keyLoaded = false;
        if (left > 1) {
            at += ENTRY_HEAD + keySize() + valueSize();
            left--;
        } else if (nextBatch == 0) {
            // Often only one entry is wanted.
            nextBatch = FIRST_BATCH;
            if (forward) iterator.next();
            else iterator.prev();
        } else {
            boolean isThere = left == 1 && ahead;
            int fetched =
                    fetch(
                            iterator.getNativeHandle(),
                            forward,
                            isThere,
                            nextBatch,
                            buffers.batch,
                            BATCH_BYTES);
            nextBatch = Math.min(2 * nextBatch, MOST_OF_A_BATCH);
            at = 0;
            left = fetched & Integer.MAX_VALUE;
            ahead = fetched < 0;
        }
    }

    private int keySize() {
        return buffers.batch.getInt(at);
    }

    private int valueSize() {
        return buffers.batch.getInt(at + Integer.BYTES);
    }

    /**
     * Moves an iterator on and copies the entries it comes to, as many as have room.
     *
     * @param isThere whether it is on the first entry to be copied, not before it
     * @return how many; the sign bit says that the iterator is on one that had no room
     */
    private static native int fetch(
            long iterator,
            boolean forward,
            boolean isThere,
            int most,
            ByteBuffer batch,
            int batchBytes);

    /**
     * Copies the entries from where an iterator is, as many as have room: the lengths of key and
     * value, four bytes each in the machine's order, key, value. Leaves it on the first that had
     * none, or at its end.
     *
     * @param batch direct; all of it is for them
     * @return how many; the sign bit says that the iterator is on one that had no room
     */
    public static int fetch(RocksIterator iterator, ByteBuffer batch) {
        return fetch(
                iterator.getNativeHandle(), true, true, Integer.MAX_VALUE, batch, batch.capacity());
    }

    /** Whether it is on a key; a failed read throws here instead of looking like the end. */
    public boolean isValid() {
        checkOpen();
        if (left > 0 || iterator.isValid()) return true;
        try {
            iterator.status();
            return false;
        } catch (RocksDBException e) {
            throw RocksErrors.onRead(e, store.name(), store.directory());
        }
    }

    /** The key, from position 0 to the limit; the caller may move the position. */
    public ByteBuffer key() {
        checkOpen();
        if (!keyLoaded) {
            if (left > 0) {
                int size = keySize();
                roomFor(buffers.key, size).put(0, buffers.batch, at + ENTRY_HEAD, size).limit(size);
            } else {
                int size = iterator.key(buffers.key.get().clear());
                if (size > buffers.key.get().capacity()) iterator.key(roomFor(buffers.key, size));
            }
            keyLoaded = true;
        }
        return buffers.key.get().position(0);
    }

    /** The value, from the position to the limit. */
    public ByteBuffer value() {
        checkOpen();
        if (left > 0) {
            int from = at + ENTRY_HEAD + keySize();
            return buffers.batchValue.limit(from + valueSize()).position(from);
        }
        int size = iterator.value(buffers.value.get().clear());
        if (size > buffers.value.get().capacity()) iterator.value(roomFor(buffers.value, size));
        return buffers.value.get().position(0);
    }

    /** Empty. */
    static ByteBuffer roomFor(GrowingBuffer in, int size) {
        in.get().clear();
        if (size > in.get().capacity()) in.grow(size);
        return in.get();
    }

    @Override
    public void close() {
        if (closed) return;
        closed = true;
        iterator.close();
        if (large != null) large.close();
        releaseBounds();
        database.release(use);
        buffers.release();
        Buffers.SPARE.set(buffers);
    }
}
