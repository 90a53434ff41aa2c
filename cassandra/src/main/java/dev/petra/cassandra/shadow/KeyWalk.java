// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.apache.cassandra.io.sstable.SSTableReadsListener.NOOP_LISTENER;

import dev.petra.engine.TableStore;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.lifecycle.View;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.concurrent.OpOrder;

/**
 * The keys of the partitions that a table or its shadow has, in their order, some at a time: a
 * partition that only one of them has is among them. Between two calls nothing is open, which would
 * keep memtables or files. A key that comes behind where the walk is will be found; one that comes
 * before it will not, and was written to both. For one thread.
 */
final class KeyWalk {
    // Of each side, in one call; read_request_timeout besides.
    private static final int MAX_KEYS = 256;
    private static final int MAX_BYTES = 1 << 20;

    private final ColumnFamilyStore cfs;
    private final TableStore store;
    private final PartitionPosition end;
    private PartitionPosition after;
    private boolean isOver;

    /**
     * @param range which does not wrap
     */
    KeyWalk(ColumnFamilyStore cfs, TableStore store, Range<Token> range) {
        this.cfs = cfs;
        this.store = store;
        this.after = range.left.maxKeyBound();
        this.end = range.right.maxKeyBound();
    }

    /** Keys of one side behind {@link #after}. */
    private record Found(List<DecoratedKey> keys, boolean isAll) {}

    /** Whether there are no more keys. */
    boolean isOver() {
        return isOver;
    }

    /** Where it is. */
    Token token() {
        return after.getToken();
    }

    /**
     * The next keys; may be none, also before the end.
     *
     * @throws Comparison.SideFailure if those of one side cannot be read
     */
    SortedSet<DecoratedKey> next() {
        Found ofTable = found(false);
        Found ofShadow = found(true);
        SortedSet<DecoratedKey> keys = new TreeSet<>(ofTable.keys());
        keys.addAll(ofShadow.keys());
        // Behind the last key of a side that has more, that side was not looked at.
        for (Found side : List.of(ofTable, ofShadow))
            if (!side.isAll())
                keys.removeIf(key -> key.compareTo(side.keys().get(side.keys().size() - 1)) > 0);
        if (ofTable.isAll() && ofShadow.isAll()) {
            isOver = true;
            after = end;
        } else after = keys.last();
        return keys;
    }

    private Found found(boolean isShadow) {
        DataRange range = DataRange.forKeyRange(new Range<>(after, end));
        try {
            return isShadow ? ofShadow(range) : ofTable(range);
        } catch (RuntimeException | FSError | AssertionError e) {
            throw new Comparison.SideFailure(isShadow, e);
        }
    }

    private Found ofShadow(DataRange range) {
        try (UnfilteredPartitionIterator partitions = store.scanAside(range, columns())) {
            return take(List.of(partitions));
        }
    }

    @SuppressWarnings("try") // What is read is freed when the group is closed.
    private Found ofTable(DataRange range) {
        try (OpOrder.Group reading = cfs.readOrdering.start();
                ColumnFamilyStore.RefViewFragment view =
                        cfs.selectAndReference(View.selectLive(range.keyRange()))) {
            List<UnfilteredPartitionIterator> opened = new ArrayList<>();
            try {
                for (Memtable each : view.memtables)
                    opened.add(each.partitionIterator(columns(), range, NOOP_LISTENER));
                for (SSTableReader each : view.sstables)
                    opened.add(each.partitionIterator(columns(), range, NOOP_LISTENER));
                return take(opened);
            } finally {
                opened.forEach(UnfilteredPartitionIterator::close);
            }
        }
    }

    private ColumnFilter columns() {
        return ColumnFilter.all(cfs.metadata());
    }

    /** The next key of one of several, and the rest of it. */
    private record Source(DecoratedKey key, UnfilteredPartitionIterator rest) {
        static void add(PriorityQueue<Source> sources, UnfilteredPartitionIterator rest) {
            if (!rest.hasNext()) return;
            // Nothing but its key is read.
            try (UnfilteredRowIterator partition = rest.next()) {
                sources.add(new Source(partition.partitionKey(), rest));
            }
        }
    }

    private Found take(List<UnfilteredPartitionIterator> sorted) {
        long deadline =
                System.nanoTime() + DatabaseDescriptor.getReadRpcTimeout(TimeUnit.NANOSECONDS);
        PriorityQueue<Source> sources = new PriorityQueue<>(Comparator.comparing(Source::key));
        sorted.forEach(each -> Source.add(sources, each));
        List<DecoratedKey> keys = new ArrayList<>();
        long bytes = 0;
        for (Source next = sources.poll(); next != null; next = sources.poll()) {
            if (keys.isEmpty() || !next.key().equals(keys.get(keys.size() - 1))) {
                if (keys.size() == MAX_KEYS
                        || bytes >= MAX_BYTES
                        || (!keys.isEmpty() && System.nanoTime() - deadline >= 0))
                    return new Found(keys, false);
                // That of a memtable may be in memory that is freed.
                ByteBuffer key = ByteBufferUtil.clone(next.key().getKey());
                bytes += key.remaining();
                keys.add(cfs.decorateKey(key));
            }
            Source.add(sources, next.rest());
        }
        return new Found(keys, true);
    }
}
