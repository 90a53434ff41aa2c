// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import java.nio.ByteBuffer;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Snapshot;

/**
 * A position among the keys of one database, as it was when the cursor was opened. Keys and values
 * come in buffers that the next move overwrites. One thread at a time; closed once.
 */
final class Cursor implements AutoCloseable {
    private static final int INITIAL_KEY = 1 << 10;
    private static final int INITIAL_VALUE = 8 << 10;

    private final RocksStore store;
    private final Database database;
    private final int use;
    private final RocksIterator iterator;
    private final Buffers buffers;
    private @Nullable Snapshot snapshot;
    private @Nullable ReadOptions snapshotOptions;
    private boolean keyLoaded;
    private boolean closed;

    Cursor(RocksStore store) {
        this.store = store;
        this.database = store.acquire();
        this.use = Database.stripe();
        try {
            Buffers spare = Buffers.SPARE.get();
            this.buffers = spare == null ? new Buffers() : spare;
            Buffers.SPARE.remove();
            buffers.partition.clear();
            buffers.bounds.clear();
            RocksIterator plain = database.db.newIterator(database.data, database.readOptions);
            // Asked behind the opening: if there are none now, the iterator sees none.
            if (!store.catalog().has(Catalog.Flag.LARGE_CELLS)) {
                this.iterator = plain;
                return;
            }
            plain.close();
            // Rows, and values that lie apart from them, must be of one moment.
            this.snapshot = database.db.getSnapshot();
            this.snapshotOptions = Database.newReadOptions().setSnapshot(snapshot);
            this.iterator = database.db.newIterator(database.data, snapshotOptions);
        } catch (Throwable t) {
            releaseSnapshot();
            database.release(use);
            throw t;
        }
    }

    private void releaseSnapshot() {
        if (snapshotOptions != null) snapshotOptions.close();
        if (snapshot != null) database.db.releaseSnapshot(snapshot);
    }

    Database database() {
        return database;
    }

    /** Reads what this cursor sees. */
    ReadOptions readOptions() {
        return snapshotOptions == null ? database.readOptions : snapshotOptions;
    }

    /** Buffers between two uses: most threads have one cursor at a time. */
    private static final class Buffers {
        static final ThreadLocal<@Nullable Buffers> SPARE = new ThreadLocal<>();
        static final int KEEP = 256 << 10;

        ByteBuffer key = ByteBuffer.allocateDirect(INITIAL_KEY);
        ByteBuffer value = ByteBuffer.allocateDirect(INITIAL_VALUE);
        final ByteSink partition = new ByteSink();
        final ByteSink bounds = new ByteSink();
    }

    /** For the position of the partition being read. */
    ByteSink partitionSink() {
        return buffers.partition;
    }

    /** For the bounds of the slice being read. */
    ByteSink boundsSink() {
        return buffers.bounds;
    }

    /** To the first key at or behind this one. */
    void seek(ByteBuffer target) {
        keyLoaded = false;
        iterator.seek(target);
    }

    /** To the last key at or before this one. */
    void seekForPrevious(ByteBuffer target) {
        keyLoaded = false;
        iterator.seekForPrev(target);
    }

    void next() {
        keyLoaded = false;
        iterator.next();
    }

    void previous() {
        keyLoaded = false;
        iterator.prev();
    }

    /** Whether it is on a key; a failed read throws here instead of looking like the end. */
    boolean isValid() {
        if (closed) throw new IllegalStateException("The iterator is closed.");
        if (iterator.isValid()) return true;
        try {
            iterator.status();
            return false;
        } catch (RocksDBException e) {
            throw RocksErrors.onRead(e, store.name(), store.directory());
        }
    }

    /** The key, from position 0 to the limit; the caller may move the position. */
    ByteBuffer key() {
        if (!keyLoaded) {
            int size = iterator.key(buffers.key.clear());
            if (size > buffers.key.capacity()) {
                buffers.key = ByteBuffer.allocateDirect(roomFor(size));
                iterator.key(buffers.key);
            }
            keyLoaded = true;
        }
        return buffers.key.position(0);
    }

    /** The value, from position 0 to the limit. */
    ByteBuffer value() {
        int size = iterator.value(buffers.value.clear());
        if (size > buffers.value.capacity()) {
            buffers.value = ByteBuffer.allocateDirect(roomFor(size));
            iterator.value(buffers.value);
        }
        return buffers.value.position(0);
    }

    static int roomFor(int size) {
        return Math.max(size, (int) Math.min(Integer.MAX_VALUE - 8L, size + (long) size / 4));
    }

    @Override
    public void close() {
        if (closed) return;
        closed = true;
        iterator.close();
        releaseSnapshot();
        database.release(use);
        if (buffers.value.capacity() <= Buffers.KEEP && buffers.key.capacity() <= Buffers.KEEP)
            Buffers.SPARE.set(buffers);
    }
}
