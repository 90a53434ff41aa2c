// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.Hold;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.format.TokenRanges;
import dev.petra.engine.rocks.format.TokenRanges.KeyRange;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.rocksdb.SizeApproximationFlag;
import org.rocksdb.Slice;

/**
 * Ranges of a store on their way out, read while they are sent, from the store itself. It holds the
 * store, and keeps neither the database from being opened anew after a full disk nor files from
 * going.
 */
public final class RangeSource implements StreamSource {
    private final StoreContext store;
    private final StreamHead head;
    private final List<SliceRanges> slices;
    private final Hold hold;

    /** The readers that may have a lease. */
    private final Set<SliceCursor> readers = ConcurrentHashMap.newKeySet();

    private volatile boolean closed;

    /**
     * Holds the store.
     *
     * @throws IllegalArgumentException if the slices are not those of one stream
     * @throws IllegalStateException if the store is closed, or its columns are more than a peer
     *     takes
     */
    public RangeSource(StoreContext store, List<SliceRanges> slices) {
        SliceRanges.check(slices);
        try {
            SliceColumns.of(store.catalog().columns()).block(store.name());
        } catch (IOException e) {
            throw new IllegalStateException(e.getMessage(), e);
        }
        this.store = store;
        this.slices = List.copyOf(slices);
        this.head =
                new StreamHead(
                        StoreDescriptor.ENGINE,
                        StoreDescriptor.FORMAT,
                        store.table().id,
                        store.spec().columnFamily(),
                        slices.size(),
                        slices.stream().mapToLong(SliceRanges::bytes).sum());
        this.hold = store.reopenable().hold();
    }

    @Override
    public StreamHead head() {
        checkOpen();
        return head;
    }

    @Override
    public SliceReader open(int slice) {
        Objects.checkIndex(slice, slices.size());
        checkOpen();
        SliceCursor reader =
                new SliceCursor(
                        this,
                        store,
                        hold,
                        TokenRanges.of(slices.get(slice).ranges(), store.partitionKeys()));
        readers.add(reader);
        return reader;
    }

    /**
     * What would be sent of each of some ranges, about; 0 also of a little. Metadata and blocks of
     * indexes are read for it.
     */
    public static long[] sizes(
            StoreContext store, Database database, Collection<Range<Token>> ranges) {
        if (ranges.isEmpty()) return new long[0];
        List<Slice> bounds = new ArrayList<>();
        try {
            List<org.rocksdb.Range> keys = new ArrayList<>();
            for (Range<Token> range : ranges) {
                KeyRange bytes = TokenRanges.of(List.of(range), store.partitionKeys()).get(0);
                Slice from = new Slice(bytes.from());
                bounds.add(from);
                Slice to = new Slice(bytes.to());
                bounds.add(to);
                keys.add(new org.rocksdb.Range(from, to));
            }
            long[] sizes =
                    database.db.getApproximateSizes(
                            database.data,
                            keys,
                            SizeApproximationFlag.INCLUDE_FILES,
                            SizeApproximationFlag.INCLUDE_MEMTABLES);
            if (!store.catalog().has(Catalog.Flag.LARGE_CELLS)) return sizes;
            long[] large =
                    database.db.getApproximateSizes(
                            database.large,
                            keys,
                            SizeApproximationFlag.INCLUDE_FILES,
                            SizeApproximationFlag.INCLUDE_MEMTABLES,
                            SizeApproximationFlag.INCLUDE_BLOB_FILES);
            Arrays.setAll(sizes, i -> sizes[i] + large[i]);
            return sizes;
        } finally {
            bounds.forEach(Slice::close);
        }
    }

    /** Called by a reader that its user closes. */
    void forget(SliceCursor reader) {
        readers.remove(reader);
    }

    boolean isClosed() {
        return closed;
    }

    /**
     * @throws IllegalStateException if this or the store is closed
     */
    void checkOpen() {
        if (closed)
            throw new IllegalStateException("The stream of " + store.name() + " is closed.");
        hold.check();
    }

    @Override
    public void close() {
        closed = true;
        hold.close();
        // The buffers of the readers belong to their users until these close them.
        readers.forEach(SliceCursor::closeLease);
    }
}
