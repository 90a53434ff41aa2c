// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.apache.cassandra.io.sstable.SSTableReadsListener.NOOP_LISTENER;

import dev.petra.engine.TableStore;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.NavigableSet;
import java.util.Objects;
import java.util.PriorityQueue;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
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
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.concurrent.OpOrder;
import org.jspecify.annotations.Nullable;

/**
 * The keys of the partitions that a table or its shadow has, or that some SSTables have, in their
 * order, some at a time: a partition that only one of them has is among them. Between two calls
 * nothing is open, which would keep memtables or files.
 *
 * <p>All keys are found that were there when the walk began, and those that come behind where it
 * is. A key that is written before that place goes to both sides; the partitions that a stream or
 * an import brings there are not found. For one thread.
 */
final class KeyWalk {
    // Of each source, in one call; read_request_timeout besides.
    static final int MAX_KEYS = 4_096;
    private static final int MAX_BYTES = 1 << 20;

    /** Finds the next keys of each side. */
    @FunctionalInterface
    private interface Search {
        void find(KeyWalk walk, DataRange range, List<Found> sides);
    }

    private final TableMetadataRef table;
    private final Search search;
    private final PartitionPosition end;
    private final Runnable checkpoint;
    private PartitionPosition after;
    private boolean isOver;
    private int opened;

    // Of the last call.
    private @Nullable DataRange walked;
    private @Nullable Found ofStore;
    private SortedSet<DecoratedKey> keys = new TreeSet<>();

    /**
     * Those of a table and of its shadow.
     *
     * @param range which does not wrap
     * @param checkpoint called with each source that is opened; ends {@link #next()} by {@link
     *     Timed.TooLong}
     */
    KeyWalk(ColumnFamilyStore cfs, TableStore store, Range<Token> range, Runnable checkpoint) {
        this(
                cfs.metadata,
                (walk, wanted, sides) -> {
                    find(false, () -> walk.findInTable(cfs, wanted, sides));
                    find(true, () -> sides.add(walk.ofShadow(store, wanted)));
                    walk.ofStore = sides.get(sides.size() - 1);
                },
                range,
                checkpoint);
    }

    /**
     * Those of SSTables, which the caller keeps open.
     *
     * @param range which does not wrap
     * @param checkpoint as above
     */
    KeyWalk(
            TableMetadataRef table,
            Collection<SSTableReader> sstables,
            Range<Token> range,
            Runnable checkpoint) {
        this(
                table,
                (walk, wanted, sides) ->
                        find(false, () -> sides.add(walk.take(walk.sources(sstables, wanted)))),
                range,
                checkpoint);
    }

    private KeyWalk(
            TableMetadataRef table, Search search, Range<Token> range, Runnable checkpoint) {
        this.table = table;
        this.search = search;
        this.checkpoint = checkpoint;
        this.after = range.left.maxKeyBound();
        this.end = range.right.maxKeyBound();
    }

    /** Keys of some sources behind {@link #after}. */
    private record Found(List<DecoratedKey> keys, boolean isAll) {}

    /** Whether there are no more keys. */
    boolean isOver() {
        return isOver;
    }

    /** Where it is. */
    Token token() {
        return after.getToken();
    }

    /** How many SSTables were opened for the last keys. */
    int opened() {
        return opened;
    }

    /**
     * The next keys; may be none, also before the end.
     *
     * @throws Comparison.SideFailure if those of one side cannot be read
     */
    SortedSet<DecoratedKey> next() {
        opened = 0;
        DataRange range = DataRange.forKeyRange(new Range<>(after, end));
        walked = range;
        List<Found> sides = new ArrayList<>();
        search.find(this, range, sides);
        keys = new TreeSet<>();
        for (Found side : sides) keys.addAll(side.keys());
        // Behind the last key of a side that has more, that side was not looked at.
        for (Found side : sides)
            if (!side.isAll())
                keys.removeIf(key -> key.compareTo(side.keys().get(side.keys().size() - 1)) > 0);
        isOver = sides.stream().allMatch(Found::isAll);
        after = isOver ? end : keys.last();
        return keys;
    }

    /** Those of the last keys that the store did not give, which may be on their way to it. */
    SortedSet<DecoratedKey> onlyInTable() {
        return notOf(ofStore, keys);
    }

    /**
     * Walks the store once more.
     *
     * @param some of the last keys
     * @return those of them that the store does not give
     * @throws Comparison.SideFailure if it cannot be read
     */
    SortedSet<DecoratedKey> missedAgain(TableStore store, Collection<DecoratedKey> some) {
        DataRange range = Objects.requireNonNull(walked);
        List<Found> again = new ArrayList<>();
        find(true, () -> again.add(ofShadow(store, range)));
        return notOf(again.get(0), some);
    }

    /** Those that were looked for and not found. */
    private static SortedSet<DecoratedKey> notOf(
            @Nullable Found found, Collection<DecoratedKey> keys) {
        NavigableSet<DecoratedKey> rest = new TreeSet<>(keys);
        if (found == null) return rest;
        found.keys().forEach(rest::remove);
        return found.isAll()
                ? rest
                : rest.headSet(found.keys().get(found.keys().size() - 1), false);
    }

    static void find(boolean isShadow, Runnable search) {
        try {
            search.run();
        } catch (Timed.TooLong e) {
            throw e;
        } catch (RuntimeException | FSError | AssertionError e) {
            throw new Comparison.SideFailure(isShadow, e);
        }
    }

    private Found ofShadow(TableStore store, DataRange range) {
        try (UnfilteredPartitionIterator partitions =
                store.scanAside(range, columns(), checkpoint)) {
            return take(List.of(new Source(range.startKey(), () -> partitions)));
        }
    }

    private void findInTable(ColumnFamilyStore cfs, DataRange range, List<Found> sides) {
        OpOrder.Group reading = cfs.readOrdering.start();
        boolean isReading = true;
        try (ColumnFamilyStore.RefViewFragment view =
                cfs.selectAndReference(View.selectLive(range.keyRange()))) {
            List<Source> memtables = new ArrayList<>();
            for (Memtable each : view.memtables)
                memtables.add(
                        new Source(
                                range.startKey(),
                                () -> each.partitionIterator(columns(), range, NOOP_LISTENER)));
            sides.add(take(memtables));
            // It takes longer to open many SSTables than memtables should be kept for.
            isReading = false;
            reading.close();
            sides.add(take(sources(view.sstables, range)));
        } finally {
            if (isReading) reading.close();
        }
    }

    /** Of those SSTables that may have keys in a range. */
    private List<Source> sources(Collection<SSTableReader> sstables, DataRange range) {
        List<Source> sources = new ArrayList<>();
        PartitionPosition stop = range.stopKey();
        for (SSTableReader each : sstables)
            if (each.getLast().compareTo(range.startKey()) >= 0
                    && (stop.isMinimum() || each.getFirst().compareTo(stop) <= 0))
                sources.add(
                        new Source(
                                Collections.max(List.of(each.getFirst(), range.startKey())),
                                () -> open(each, range)));
        return sources;
    }

    /** Opens an SSTable. */
    private UnfilteredPartitionIterator open(SSTableReader sstable, DataRange range) {
        opened++;
        return sstable.partitionIterator(columns(), range, NOOP_LISTENER);
    }

    private ColumnFilter columns() {
        return ColumnFilter.all(table.get());
    }

    /** Sorted keys, opened when the first of them may be the next of all. */
    private static final class Source {
        /** Its next key, or what is before that. */
        PartitionPosition position;

        final Supplier<UnfilteredPartitionIterator> opening;
        @Nullable UnfilteredPartitionIterator rest;

        Source(PartitionPosition position, Supplier<UnfilteredPartitionIterator> opening) {
            this.position = position;
            this.opening = opening;
        }

        /** Goes to the next key; closes it, and returns false, if there is none. */
        boolean goOn() {
            UnfilteredPartitionIterator open = rest;
            if (open == null) {
                open = opening.get();
                rest = open;
            }
            if (!open.hasNext()) {
                close();
                return false;
            }
            // Nothing but its key is read.
            try (UnfilteredRowIterator partition = open.next()) {
                position = partition.partitionKey();
            }
            return true;
        }

        void close() {
            UnfilteredPartitionIterator open = rest;
            rest = null;
            if (open != null) open.close();
        }
    }

    private Found take(List<Source> sources) {
        try {
            return merge(sources);
        } finally {
            sources.forEach(Source::close);
        }
    }

    private Found merge(List<Source> sources) {
        long deadline =
                System.nanoTime() + DatabaseDescriptor.getReadRpcTimeout(TimeUnit.NANOSECONDS);
        PriorityQueue<Source> queue =
                new PriorityQueue<>(Comparator.comparing((Source each) -> each.position));
        queue.addAll(sources);
        List<DecoratedKey> keys = new ArrayList<>();
        long bytes = 0;
        for (Source next = queue.poll(); next != null; next = queue.poll()) {
            if (next.rest == null) checkpoint.run();
            else if (keys.isEmpty() || !next.position.equals(keys.get(keys.size() - 1))) {
                if (keys.size() == MAX_KEYS || bytes >= MAX_BYTES) return new Found(keys, false);
                // That of a memtable may be in memory that is freed.
                ByteBuffer key = ByteBufferUtil.clone(((DecoratedKey) next.position).getKey());
                bytes += key.remaining();
                keys.add(table.get().partitioner.decorateKey(key));
            }
            // Without a key there is no place from which the next call could go on.
            if (!keys.isEmpty() && System.nanoTime() - deadline >= 0) return new Found(keys, false);
            if (next.goOn()) queue.add(next);
        }
        return new Found(keys, true);
    }
}
