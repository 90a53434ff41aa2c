// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import dev.petra.engine.rocks.format.TokenRanges;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.NoSuchElementException;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.AbstractUnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.dht.IncludingExcludingBounds;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/** The partitions of a range, one behind the other over one cursor. */
public final class RangeScan extends AbstractUnfilteredPartitionIterator {
    private final StoreContext store;
    private final ReadContext context;
    private final Runnable checkpoint;
    private final DataRange range;
    private final Cursor cursor;
    private final ByteSink current = new ByteSink();

    /** Whether the cursor is somewhere in {@link #current}'s partition, or was moved behind it. */
    private boolean inPartition;

    private boolean wasReversed;
    private boolean ready;

    /**
     * The partition that was handed out last: once the scan has left it, it must not move the
     * cursor.
     */
    private @Nullable SlicesIterator partition;

    /**
     * @param aside whether the scan leaves the block cache as it is, however little it reads
     */
    public RangeScan(StoreContext store, DataRange range, ColumnFilter filter, boolean aside) {
        this(store, range, filter, aside, () -> {});
    }

    /**
     * @param aside as above
     * @param checkpoint called for each partition, and now and then within one; what it throws ends
     *     the scan
     */
    public RangeScan(
            StoreContext store,
            DataRange range,
            ColumnFilter filter,
            boolean aside,
            Runnable checkpoint) {
        this.store = store;
        this.checkpoint = checkpoint;
        this.context = new ReadContext(store, filter, aside, checkpoint);
        this.range = range;
        AbstractBounds<PartitionPosition> keys = range.keyRange();
        boolean includesLeft = keys instanceof Bounds || keys instanceof IncludingExcludingBounds;
        boolean includesRight = keys instanceof Bounds || keys instanceof Range;
        byte[] start = keys.left.isMinimum() ? new byte[0] : bound(keys.left, !includesLeft);
        byte[] end = keys.right.isMinimum() ? TokenRanges.last() : bound(keys.right, includesRight);
        boolean past = aside || ScanBounds.wouldFloodCache(store, start, end);
        // Allocated before the cursor is opened: if this fails, no cursor stays open.
        ByteBuffer first = Keys.direct(start);
        this.cursor = context.open(new ScanBounds(end, past));
        cursor.seek(first);
    }

    /** The key just before, or just behind, all keys of a position. */
    private byte[] bound(PartitionPosition position, boolean behind) {
        ByteSink sink = new ByteSink();
        store.partitionKeys().putPosition(sink, position);
        if (behind) sink.put(KeyKind.END);
        return sink.copy(0, sink.position());
    }

    @Override
    public TableMetadata metadata() {
        return context.table();
    }

    @Override
    public boolean hasNext() {
        if (!ready) {
            leavePartition();
            ready = true;
        }
        return cursor.isValid();
    }

    /** Moves the cursor to the first key behind the partition that was handed out. */
    private void leavePartition() {
        if (!inPartition) return;
        inPartition = false;
        if (partition != null) partition.close();
        int length = current.position();
        current.put(KeyKind.END);
        ByteBuffer behind = current.flipped();
        // A forward read that ran to its end is there already.
        boolean there = !wasReversed && cursor.isValid() && Keys.compare(cursor.key(), behind) > 0;
        boolean atEnd = !wasReversed && !cursor.isValid();
        if (!there && !atEnd) cursor.seek(behind);
        current.resume(length);
    }

    @Override
    public UnfilteredRowIterator next() {
        if (!hasNext()) throw new NoSuchElementException();
        checkpoint.run();
        ready = false;
        inPartition = true;
        ByteBuffer raw = cursor.key();
        DecoratedKey key;
        try {
            key = store.partitionKeys().get(raw);
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw store.malformed(e, raw.position(0));
        }
        int length = raw.position();
        current.clear();
        current.put(raw.slice(0, length));
        ByteBuffer prefix = current.flipped().slice();
        current.resume(length);

        ClusteringIndexFilter filter = range.clusteringIndexFilter(key);
        Slices slices = filter.getSlices(metadata());
        wasReversed = filter.isReversed();
        PartitionHeader header =
                PartitionHeader.read(cursor, prefix, context, slices, context.wantsStatics());
        SlicesIterator rows =
                new SlicesIterator(
                        key, prefix, cursor, false, context, header, slices, wasReversed);
        partition = rows;
        return rows;
    }

    @Override
    public void close() {
        if (partition != null) partition.close();
        cursor.close();
    }
}
