// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.ClusteringKeys;
import dev.petra.engine.rocks.format.FragmentReader;
import dev.petra.engine.rocks.format.FragmentWriter;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import dev.petra.engine.rocks.format.MalformedFragment;
import dev.petra.engine.rocks.read.Cursor;
import dev.petra.engine.rocks.read.PartitionHeader;
import dev.petra.engine.rocks.read.ReadContext;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.ValueAccessor;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.db.rows.Row;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;

/**
 * The push-down of covering deletions. A partition's deletion, or a range tombstone, covers other
 * keys. Before one is purged it is pushed down: written, as a deletion of the row, to every row
 * that has anything it hides. No read sees a difference. One run at a time.
 */
final class CoveringDeletions {
    private static final FragmentWriter.Columns NO_COLUMNS =
            column -> {
                throw new IllegalStateException("a deletion has no columns");
            };

    private static final FragmentWriter.LargeSink NO_LARGE_CELLS =
            new FragmentWriter.LargeSink() {
                @Override
                public <V> void put(
                        int column,
                        @Nullable CellPath path,
                        long timestamp,
                        long hash,
                        V value,
                        ValueAccessor<V> by) {
                    throw new IllegalStateException("a deletion has no cells");
                }

                @Override
                public int threshold() {
                    return Integer.MAX_VALUE;
                }
            };

    private static final long NO_DELETION = Long.MIN_VALUE;

    private static final long RENEW_NANOS = TimeUnit.MINUTES.toNanos(1);

    private final StoreContext store;
    private final long renewNanos;
    private final int mostHiddenBytes;
    private final ByteSink fragment = new ByteSink();
    private final FragmentWriter fragments = new FragmentWriter(fragment, NO_LARGE_CELLS);

    /** Where what was hidden last had no room any more: the next run begins there. */
    private byte[] hiddenFrom = HiddenKeys.FIRST;

    CoveringDeletions(StoreContext store) {
        this(store, RENEW_NANOS, HiddenKeys.MOST_BYTES);
    }

    /**
     * @param renewNanos how long a cursor is open, at most, before the next partition
     * @param mostHiddenBytes of what {@link #run} returns
     */
    CoveringDeletions(StoreContext store, long renewNanos, int mostHiddenBytes) {
        this.store = store;
        this.renewNanos = renewNanos;
        this.mostHiddenBytes = mostHiddenBytes;
    }

    /**
     * Pushes down all covering deletions that may be purged.
     *
     * @param pace how fast, and until when
     * @return what the others hide, as far as it has room
     */
    HiddenKeys run(Database database, long gcBefore, Pacer pace) throws RocksDBException {
        HiddenKeys hidden = new HiddenKeys(store, gcBefore, null, hiddenFrom, mostHiddenBytes);
        ReadContext context = new ReadContext(store, ColumnFilter.all(store.table()));
        ByteSink position = new ByteSink();
        boolean more = true;
        while (more) more = run(database, position, gcBefore, context, pace, hidden);
        return hidden;
    }

    /** What a run returned was taken away: the next one goes on behind it. */
    void taken(HiddenKeys hidden) {
        hiddenFrom = hidden.left();
    }

    /**
     * The same for a while, from a position on: what an open cursor sees stays on the disk and in
     * memory.
     *
     * @param position set to where to go on
     * @return whether there is more
     */
    private boolean run(
            Database database,
            ByteSink position,
            long gcBefore,
            ReadContext context,
            Pacer pace,
            HiddenKeys hidden)
            throws RocksDBException {
        long opened = System.nanoTime();
        try (Cursor cursor = context.openAside()) {
            cursor.seek(position.flipped());
            while (cursor.isValid()) {
                pace.step();
                int kind = partition(cursor, position);
                if (kind < KeyKind.ROW) {
                    ByteBuffer prefix = position.flipped().slice();
                    position.resume(prefix.remaining());
                    PartitionHeader header =
                            PartitionHeader.read(cursor, prefix, context, Slices.ALL, false);
                    boolean hasRows = cursor.isValid() && Keys.startsWith(cursor.key(), prefix);
                    hidden.add(position, header, hasRows, context.clusterings());
                    cover(database, cursor, position, header, gcBefore, context, pace);
                }
                position.put(KeyKind.END);
                if (System.nanoTime() - opened > renewNanos) return true;
                cursor.seek(position.flipped());
            }
            return false;
        }
    }

    /** Writes the position of the cursor's partition, and gives the kind of the cursor's key. */
    private int partition(Cursor cursor, ByteSink position) {
        ByteBuffer key = cursor.key();
        try {
            store.partitionKeys().get(key);
            int length = key.position();
            position.clear();
            position.put(key.slice(0, length));
            return key.get(length) & 0xFF;
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw store.malformed(e, cursor.key());
        }
    }

    private void cover(
            Database database,
            Cursor cursor,
            ByteSink position,
            PartitionHeader header,
            long gcBefore,
            ReadContext context,
            Pacer pace)
            throws RocksDBException {
        DeletionTime deletion = header.deletion();
        if (mayGo(deletion, gcBefore)) {
            byte[] from = withKind(position, KeyKind.STATIC);
            byte[] to = withKind(position, KeyKind.RANGE);
            cover(database, cursor, from, to, deletion, pace);
            from = withKind(position, KeyKind.ROW);
            to = withKind(position, KeyKind.END);
            cover(database, cursor, from, to, deletion, pace);
        }
        cover(
                database,
                cursor,
                position,
                header.deletions().rangeIterator(false),
                gcBefore,
                context,
                pace);
    }

    /**
     * Pushes down those range tombstones of a partition that may be purged.
     *
     * @param cursor over all keys; it is left anywhere
     * @param position the partition's, which is put back
     * @param ranges in their order, of which none meets another
     */
    void cover(
            Database database,
            Cursor cursor,
            ByteSink position,
            Iterator<RangeTombstone> ranges,
            long gcBefore,
            ReadContext context,
            Pacer pace)
            throws RocksDBException {
        while (ranges.hasNext()) {
            RangeTombstone range = ranges.next();
            if (!mayGo(range.deletionTime(), gcBefore)) continue;
            Slice slice = range.deletedSlice();
            byte[] from = bound(position, slice.start(), context.clusterings());
            byte[] to = bound(position, slice.end(), context.clusterings());
            cover(database, cursor, from, to, range.deletionTime(), pace);
        }
    }

    /** What the keys of a kind begin with; the partition's position is put back. */
    static byte[] withKind(ByteSink position, int kind) {
        int prefix = position.position();
        position.put(kind);
        byte[] key = position.copy(0, prefix + 1);
        position.truncate(prefix);
        return key;
    }

    /** Where the rows of a partition begin or end that a bound has; its position is put back. */
    static byte[] bound(ByteSink position, ClusteringBound<?> bound, ClusteringKeys clusterings) {
        int prefix = position.position();
        position.put(KeyKind.ROW);
        clusterings.put(position, bound);
        byte[] key = position.copy(0, position.position());
        position.truncate(prefix);
        return key;
    }

    static boolean mayGo(DeletionTime deletion, long gcBefore) {
        return !deletion.isLive() && deletion.localDeletionTime() < gcBefore;
    }

    /** Pushes a deletion down to the rows between two keys that have anything it hides. */
    private void cover(
            Database database,
            Cursor cursor,
            byte[] from,
            byte[] to,
            DeletionTime deletion,
            Pacer pace)
            throws RocksDBException {
        ByteBuffer bound = Keys.direct(to);
        for (cursor.seek(Keys.direct(from));
                cursor.isValid() && Keys.compare(cursor.key(), bound) < 0;
                cursor.next()) {
            pace.step();
            if (!isCovered(cursor, deletion.markedForDeleteAt())) continue;
            fragment.clear();
            fragments.row(
                    BTreeRow.emptyDeletedRow(Clustering.EMPTY, Row.Deletion.regular(deletion)),
                    NO_COLUMNS,
                    false);
            ByteBuffer key = cursor.key();
            ByteBuffer value = fragment.flipped();
            // Its old timestamp does not lower the max purgeable timestamp: it hides nothing that
            // is not hidden.
            store.room()
                    .write(
                            () ->
                                    database.db.merge(
                                            database.data,
                                            database.writeOptions,
                                            key.position(0),
                                            value.position(0)));
        }
    }

    private boolean isCovered(Cursor cursor, long timestamp) {
        Extent extent = new Extent();
        try {
            FragmentReader.visit(cursor.value(), extent);
        } catch (MalformedFragment e) {
            throw store.malformed(e, cursor.key());
        }
        // A deletion too, although what it hides is hidden anyway: it goes with the one above it.
        return extent.deletedAt < timestamp
                && (extent.lowest <= timestamp || extent.deletedAt != NO_DELETION);
    }

    /** The lowest timestamp in a row, and its deletion's. */
    private static final class Extent implements FragmentReader.Visitor {
        long lowest = Long.MAX_VALUE;
        long deletedAt = NO_DELETION;

        @Override
        public void timestamp(long micros) {
            lowest = Math.min(lowest, micros);
        }

        @Override
        public void deletion(long micros) {
            deletedAt = Math.max(deletedAt, micros);
        }

        @Override
        public void large(int column, byte @Nullable [] path, long timestamp, long hash) {}
    }
}
