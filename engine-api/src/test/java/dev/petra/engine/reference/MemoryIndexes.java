// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.reference;

import dev.petra.engine.index.SweepCheck;
import dev.petra.engine.index.TermCursor;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermFunction;
import dev.petra.engine.index.TermIndexes;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;

/** Indexes as sorted sets, under one lock. */
final class MemoryIndexes implements TermIndexes {
    /**
     * @param clustering null for the begin of a partition, which none has that is stored
     */
    private record Entry(
            ByteBuffer term, PartitionPosition position, @Nullable Clustering<?> clustering) {}

    private final Map<UUID, State> states = new HashMap<>();
    private final Map<UUID, NavigableSet<Entry>> entries = new HashMap<>();
    private final Set<UUID> dropped = new HashSet<>();
    private final Map<UUID, Long> incarnations = new HashMap<>();

    /** The latest of each index since the store was opened. */
    private final Map<UUID, Long> builds = new HashMap<>();

    private static final AtomicLong lastBuild = new AtomicLong();
    private @Nullable TermFunction function;

    /** Guarded by this; set before anything else is done. */
    private @Nullable MemoryStore store;

    /** The same content, from here on on its own. */
    synchronized MemoryIndexes copy() {
        MemoryIndexes copy = new MemoryIndexes();
        copy.states.putAll(states);
        entries.forEach((index, all) -> copy.entries.put(index, new TreeSet<>(all)));
        copy.dropped.addAll(dropped);
        copy.incarnations.putAll(incarnations);
        return copy;
    }

    /** Whose they are from now on; how entries are derived is forgotten. */
    synchronized void openedBy(MemoryStore opened) {
        store = opened;
        function = null;
        builds.clear();
    }

    private synchronized MemoryStore open() {
        MemoryStore open = store;
        if (open == null) throw new IllegalStateException("The store is closed.");
        open.checkOpen();
        return open;
    }

    private static int compare(TableMetadataRef table, Entry a, Entry b) {
        int order = ByteBufferUtil.compareUnsigned(a.term, b.term);
        if (order == 0) order = a.position.compareTo(b.position);
        if (order == 0) order = Integer.compare(rank(a.clustering), rank(b.clustering));
        return order == 0 && a.clustering != null && b.clustering != null && rank(a.clustering) == 2
                ? table.get().comparator.compare(a.clustering, b.clustering)
                : order;
    }

    private static int rank(@Nullable Clustering<?> clustering) {
        if (clustering == null) return 0;
        return clustering == Clustering.STATIC_CLUSTERING ? 1 : 2;
    }

    private NavigableSet<Entry> of(UUID index) {
        open();
        NavigableSet<Entry> found = entries.get(index);
        if (found == null)
            throw new IllegalArgumentException("Index " + index + " is not defined.");
        return found;
    }

    @Override
    public synchronized Map<UUID, State> states() {
        open();
        return Map.copyOf(states);
    }

    @Override
    public Set<UUID> lost() {
        return Set.of();
    }

    @Override
    public synchronized long incarnation(UUID index) {
        of(index);
        return incarnations.getOrDefault(index, 0L);
    }

    @Override
    public synchronized void define(UUID index) {
        TableMetadataRef table = open().spec().metadata();
        Comparator<Entry> order = (a, b) -> compare(table, a, b);
        if (states.putIfAbsent(index, State.BUILDING) == null) {
            entries.put(index, new TreeSet<>(order));
            incarnations.merge(index, 1L, Long::sum);
        }
        dropped.remove(index);
    }

    @Override
    public synchronized long setBuilding(UUID index) {
        of(index);
        states.put(index, State.BUILDING);
        long build = lastBuild.incrementAndGet();
        builds.put(index, build);
        return build;
    }

    @Override
    public synchronized boolean setBuilt(UUID index, long build) {
        open();
        if (!states.containsKey(index) || !Long.valueOf(build).equals(builds.get(index)))
            return false;
        states.put(index, State.BUILT);
        return true;
    }

    @Override
    public synchronized void drop(UUID index) {
        open();
        if (states.remove(index) == null) return;
        entries.remove(index);
        builds.remove(index);
        dropped.add(index);
    }

    @Override
    public synchronized void deriveBy(TermFunction function) {
        open();
        this.function = function;
    }

    /**
     * @throws IllegalArgumentException if what comes could not be indexed
     */
    synchronized void checkReceivable() {
        if (!states.isEmpty() && function == null)
            throw new IllegalArgumentException(
                    "The store of "
                            + open().spec().displayName()
                            + " has indexes, and nothing that derives their entries.");
    }

    /** Of what comes by a stream, before it is there. */
    synchronized void derive(PartitionUpdate update) {
        checkReceivable();
        if (function == null) return;
        List<TermEntry> derived = new ArrayList<>();
        if (!update.staticRow().isEmpty())
            derived.addAll(function.entries(update.partitionKey(), update.staticRow()));
        for (Row row : update) derived.addAll(function.entries(update.partitionKey(), row));
        add(update.partitionKey(), derived);
    }

    @Override
    public synchronized void add(DecoratedKey key, List<TermEntry> added) {
        open();
        for (TermEntry entry : added) if (!dropped.contains(entry.index())) of(entry.index());
        for (TermEntry entry : added) {
            NavigableSet<Entry> index = entries.get(entry.index());
            if (index == null) continue;
            Entry stored = new Entry(ByteBufferUtil.clone(entry.term()), key, entry.clustering());
            // Of several byte forms of a clustering, the one that was written last.
            index.remove(stored);
            index.add(stored);
        }
    }

    @Override
    public synchronized TermCursor scan(
            UUID index,
            @Nullable ByteBuffer from,
            boolean fromInclusive,
            @Nullable ByteBuffer to,
            boolean toInclusive) {
        NavigableSet<Entry> within = within(index, from, fromInclusive, to, toInclusive);
        MemoryStore open = open();
        open.acquire();
        return new Cursor(open, within);
    }

    @Override
    public synchronized long entries(
            UUID index,
            @Nullable ByteBuffer from,
            boolean fromInclusive,
            @Nullable ByteBuffer to,
            boolean toInclusive) {
        return within(index, from, fromInclusive, to, toInclusive).size();
    }

    private NavigableSet<Entry> within(
            UUID index,
            @Nullable ByteBuffer from,
            boolean fromInclusive,
            @Nullable ByteBuffer to,
            boolean toInclusive) {
        NavigableSet<Entry> within = new TreeSet<>(of(index));
        if (from != null)
            within.removeIf(
                    entry -> {
                        int order = ByteBufferUtil.compareUnsigned(entry.term, from);
                        return order < 0 || (order == 0 && !fromInclusive);
                    });
        if (to != null)
            within.removeIf(
                    entry -> {
                        int order = ByteBufferUtil.compareUnsigned(entry.term, to);
                        return order > 0 || (order == 0 && !toInclusive);
                    });
        return within;
    }

    private static final class Cursor implements TermCursor {
        private final MemoryStore store;
        private final NavigableSet<Entry> all;
        private @Nullable Entry current;

        /** Whether there was an entry, or a place, that the next one is behind. */
        private boolean begun;

        private boolean closed;

        Cursor(MemoryStore store, NavigableSet<Entry> all) {
            this.store = store;
            this.all = all;
        }

        private void checkOpen() {
            if (closed) throw new IllegalStateException("The cursor is closed.");
        }

        @Override
        public boolean next() {
            checkOpen();
            if (begun && current == null) return false;
            current = current == null ? first() : all.higher(current);
            begun = true;
            return current != null;
        }

        private @Nullable Entry first() {
            return all.isEmpty() ? null : all.first();
        }

        @Override
        public boolean seek(
                ByteBuffer term, PartitionPosition position, @Nullable Clustering<?> clustering) {
            checkOpen();
            current = all.ceiling(new Entry(term, position, clustering));
            begun = true;
            return current != null;
        }

        private Entry current() {
            checkOpen();
            Entry entry = current;
            if (entry == null) throw new IllegalStateException("The cursor is on no entry.");
            return entry;
        }

        @Override
        public ByteBuffer term() {
            return current().term.duplicate();
        }

        @Override
        public DecoratedKey key() {
            return (DecoratedKey) current().position;
        }

        @Override
        @SuppressWarnings("NullAway") // stored entries have one
        public Clustering<?> clustering() {
            return current().clustering;
        }

        @Override
        public void close() {
            if (!closed) store.release();
            closed = true;
        }
    }

    /** No write and no stream is between its entries and its rows meanwhile. */
    @Override
    public long sweep(UUID index, SweepCheck check) {
        check.pause();
        MemoryData data = open().data();
        data.moment.writeLock().lock();
        try {
            return removeUnconfirmed(index, check);
        } finally {
            data.moment.writeLock().unlock();
        }
    }

    private synchronized long removeUnconfirmed(UUID index, SweepCheck check) {
        NavigableSet<Entry> all = of(index);
        long before = all.size();
        all.removeIf(entry -> entry.clustering != null && isRemoved(entry, check));
        return before - all.size();
    }

    private static boolean isRemoved(Entry entry, SweepCheck check) {
        boolean isRemoved =
                !check.isConfirmed(
                        entry.term.duplicate(), (DecoratedKey) entry.position, entry.clustering);
        check.looked(isRemoved);
        return isRemoved;
    }

    @Override
    public synchronized long bytes(UUID index) {
        return of(index).stream().mapToLong(entry -> entry.term.remaining()).sum();
    }
}
