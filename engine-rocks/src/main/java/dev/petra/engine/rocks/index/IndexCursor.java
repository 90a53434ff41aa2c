// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.index;

import dev.petra.engine.index.DamagedIndexException;
import dev.petra.engine.index.TermCursor;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.RocksErrors;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.ClusteringKeys;
import dev.petra.engine.rocks.format.IndexKeys;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Slice;

/**
 * A cursor over the entries between two keys of the indexes' column family. Entries are decoded
 * when they are asked for.
 */
final class IndexCursor implements TermCursor {
    private static final ThreadLocal<ByteSink> PLACE = ThreadLocal.withInitial(ByteSink::new);

    private final StoreContext store;
    private final int number;
    private final byte[] from;
    private final ClusteringKeys clusterings;
    private final int clusteringColumns;
    private final Database database;
    private final int use;
    private final Slice end;
    private final ReadOptions options;
    private final RocksIterator iterator;
    private boolean begun;
    private boolean closed;

    /** The key of the current entry; null if there is none. */
    private byte @Nullable [] key;

    /** The partition of the current entry, once that was decoded. */
    private @Nullable DecoratedKey partition;

    private @Nullable Clustering<?> clustering;

    /** The term that was decoded last; {@link #termBytes} are its bytes in the key. */
    private @Nullable ByteBuffer term;

    private byte[] termBytes = {};

    /**
     * Opens a cursor over the entries as they are now.
     *
     * @param from inclusive
     * @param to exclusive
     * @param aside whether it leaves the block cache as it is
     */
    IndexCursor(StoreContext store, int number, byte[] from, byte[] to, boolean aside) {
        this.store = store;
        this.number = number;
        this.from = from;
        this.database = store.acquire();
        this.use = Database.stripe();
        this.end = new Slice(to);
        this.options = Database.newReadOptions().setIterateUpperBound(end).setFillCache(!aside);
        boolean complete = false;
        try {
            this.clusterings = store.catalog().layout(store.table()).clusterings;
            this.clusteringColumns = store.table().comparator.size();
            // The column family is there, because an index is defined.
            this.iterator =
                    database.db.newIterator(Objects.requireNonNull(database.index()), options);
            complete = true;
        } finally {
            if (!complete) free();
        }
    }

    private void free() {
        options.close();
        end.close();
        database.release(use);
    }

    private void checkOpen() {
        if (closed) throw new IllegalStateException("The cursor is closed.");
    }

    @Override
    public boolean next() {
        checkOpen();
        if (!begun) return seek(from);
        if (key == null) return false;
        iterator.next();
        return moved();
    }

    @Override
    public boolean seek(
            ByteBuffer term, PartitionPosition position, @Nullable Clustering<?> clustering) {
        checkOpen();
        ByteSink place = PLACE.get().clear();
        IndexKeys.putPlace(
                place, number, term, store.partitionKeys(), position, clusterings, clustering);
        byte[] wanted = place.copy(0, place.position());
        place.release();
        return seek(Arrays.compareUnsigned(wanted, from) < 0 ? from : wanted);
    }

    private boolean seek(byte[] wanted) {
        begun = true;
        iterator.seek(wanted);
        return moved();
    }

    private boolean moved() {
        partition = null;
        clustering = null;
        key = null;
        if (iterator.isValid()) {
            key = iterator.key();
            return true;
        }
        try {
            iterator.status();
            return false;
        } catch (RocksDBException e) {
            if (RocksErrors.isDamage(e)) throw store.reopenable().healing.onIndexDamage(e);
            throw store.reopenable().onRead(e);
        }
    }

    /** The current entry's key, as it is in the database. */
    byte[] rawKey() {
        checkOpen();
        byte[] present = key;
        if (present == null) throw new IllegalStateException("The cursor is on no entry.");
        return present;
    }

    @Override
    public ByteBuffer term() {
        byte[] raw = rawKey();
        ByteBuffer known = term;
        if (known != null && startsWith(raw, termBytes)) return known.duplicate();
        ByteBuffer in = ByteBuffer.wrap(raw);
        try {
            ByteBuffer decoded = ByteBuffer.wrap(IndexKeys.getTerm(in));
            termBytes = Arrays.copyOf(raw, in.position());
            term = decoded;
            return decoded.duplicate();
        } catch (IndexOutOfBoundsException | IllegalArgumentException e) {
            throw malformed(e, raw);
        }
    }

    /**
     * Whether a key begins with the bytes of a term. These alone do not tell: a longer term may
     * begin with them, and then its next byte is not that of the end of a term.
     */
    private static boolean startsWith(byte[] key, byte[] termBytes) {
        int length = termBytes.length;
        return key.length > length
                && Arrays.equals(key, 0, length, termBytes, 0, length)
                && IndexKeys.isTermEnd(key[length]);
    }

    @Override
    public DecoratedKey key() {
        if (partition == null) decode();
        return Objects.requireNonNull(partition);
    }

    @Override
    public Clustering<?> clustering() {
        if (clustering == null) decode();
        return Objects.requireNonNull(clustering);
    }

    private void decode() {
        byte[] raw = rawKey();
        ByteBuffer in = ByteBuffer.wrap(raw);
        try {
            IndexKeys.skipTerm(in);
            partition = store.partitionKeys().get(in);
            clustering =
                    IndexKeys.getClustering(in, iterator.value(), clusterings, clusteringColumns);
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw malformed(e, raw);
        }
    }

    private DamagedIndexException malformed(RuntimeException e, byte[] raw) {
        return store.reopenable().healing.onIndexDamage(store.malformed(e, ByteBuffer.wrap(raw)));
    }

    @Override
    public void close() {
        if (closed) return;
        closed = true;
        iterator.close();
        free();
    }
}
