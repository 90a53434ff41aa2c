// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.read;

import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import dev.petra.engine.rocks.format.TokenRanges;
import dev.petra.engine.rocks.format.TokenRanges.KeyRange;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.List;
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

/** The partitions of a range, or of several, one behind the other over one cursor. */
public final class RangeScan extends AbstractUnfilteredPartitionIterator {
    private final StoreContext store;
    private final ReadContext context;
    private final Runnable checkpoint;
    private final DataRange range;

    /** The ranges behind the one in which the cursor is. */
    private final Iterator<KeyRange> further;

    /** Where the cursor's range ends; null of the last one, which the cursor does not leave. */
    private @Nullable ByteBuffer end;

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
        this(store, range, List.of(keys(store, range)), filter, aside, checkpoint);
    }

    /**
     * All of several ranges, which leaves the block cache as it is. The cursor goes from one to the
     * next: a cursor for each would hold the blocks of each while it waits.
     *
     * @param ranges at least one, in their order, apart from each other
     */
    public RangeScan(
            StoreContext store, List<KeyRange> ranges, ColumnFilter filter, Runnable checkpoint) {
        this(store, DataRange.allData(store.table().partitioner), ranges, filter, true, checkpoint);
    }

    /**
     * @param range which partitions' rows are read, of those in the other ranges
     */
    private RangeScan(
            StoreContext store,
            DataRange range,
            List<KeyRange> ranges,
            ColumnFilter filter,
            boolean aside,
            Runnable checkpoint) {
        this.store = store;
        this.checkpoint = checkpoint;
        this.context = new ReadContext(store, filter, aside, checkpoint);
        this.range = range;
        this.further = ranges.iterator();
        KeyRange first = further.next();
        byte[] last = ranges.get(ranges.size() - 1).to();
        this.end = further.hasNext() ? ByteBuffer.wrap(first.to()) : null;
        boolean past = aside || ScanBounds.wouldFloodCache(store, first.from(), last);
        // Allocated before the cursor is opened: if this fails, no cursor stays open.
        ByteBuffer start = Keys.direct(first.from());
        this.cursor = context.open(new ScanBounds(last, past));
        cursor.seek(start);
    }

    private static KeyRange keys(StoreContext store, DataRange range) {
        AbstractBounds<PartitionPosition> keys = range.keyRange();
        boolean includesLeft = keys instanceof Bounds || keys instanceof IncludingExcludingBounds;
        boolean includesRight = keys instanceof Bounds || keys instanceof Range;
        return new KeyRange(
                keys.left.isMinimum() ? new byte[0] : bound(store, keys.left, !includesLeft),
                keys.right.isMinimum()
                        ? TokenRanges.last()
                        : bound(store, keys.right, includesRight));
    }

    /** The key just before, or just behind, all keys of a position. */
    private static byte[] bound(StoreContext store, PartitionPosition position, boolean behind) {
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
            leaveRange();
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

    /** Moves the cursor, if it is behind its range, into the next one that has something. */
    private void leaveRange() {
        ByteBuffer behind = end;
        while (behind != null && cursor.isValid() && Keys.compare(cursor.key(), behind) >= 0) {
            KeyRange next = further.next();
            behind = further.hasNext() ? ByteBuffer.wrap(next.to()) : null;
            end = behind;
            ByteBuffer start = Keys.direct(next.from());
            if (Keys.compare(cursor.key(), start) < 0) cursor.seek(start);
        }
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
