// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import dev.petra.engine.rocks.compaction.RangeRemoval.Entry;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.Keys;
import dev.petra.engine.rocks.read.Cursor;
import dev.petra.engine.rocks.read.ReadContext;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.ClusteringComparator;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.RangeTombstoneList;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes range tombstones that newer ones of their partition hide wholly, as Cassandra's memtable
 * and its compaction leave them out: every read of the partition would read them all, only to leave
 * them out. They hide nothing that those do not, so nothing can be seen of it, and no grace is to
 * be waited for. A read that meets many of them says so; the rest is done in the background.
 */
public final class SupersededRanges {
    private static final Logger logger = LoggerFactory.getLogger(SupersededRanges.class);

    private static final int MOST = 100_000;

    private static final int REST = 9;

    private final StoreContext store;
    private final RangeRemoval removal;
    private final DataFiles held;
    private volatile long restsUntil = System.nanoTime();

    public SupersededRanges(StoreContext store, DataFiles held) {
        this.store = store;
        this.removal = new RangeRemoval(store);
        this.held = held;
    }

    /** Whether there is something to remove; not at once after the last time. */
    public boolean isDue() {
        return store.superseded().isThere() && System.nanoTime() - restsUntil >= 0;
    }

    /** Not while a purge may remove what hides them. */
    void run(Database database) throws RocksDBException {
        byte[] position = store.superseded().take();
        if (position == null) return;
        long began = System.nanoTime();
        List<Entry> found = find(position);
        int removed = remove(database, found);
        if (removed > 0) {
            logger.info(
                    "Removed {} range tombstones of a partition of {} that newer ones hide",
                    removed,
                    store.name());
            database.flush();
            byte[] from = Keys.withKind(position, KeyKind.RANGE);
            byte[] to = Keys.withKind(position, KeyKind.ROW);
            // By size, RocksDB would merge all there is.
            if (!store.reopenable().isCompactedBySize()
                    && held.areWhole(
                            database,
                            rewritten(database.dataFiles(), from, to),
                            database.compactions.stopped()))
                database.compactions.compact(
                        database.data, from, to, BottommostLevelCompaction.kForceOptimized);
        }
        long now = System.nanoTime();
        restsUntil = now + REST * (now - began);
    }

    /**
     * The files that a compaction of a range rewrites: those that have keys of it, and those below
     * that overlap these. Not what it meets below level 0, which RocksDB merges soon by itself.
     */
    static List<String> rewritten(List<LiveFileMetaData> files, byte[] from, byte[] to) {
        Set<String> names = new HashSet<>();
        for (LiveFileMetaData file : files) {
            if (!overlap(file, from, to)) continue;
            names.add(file.fileName());
            if (file.level() > 0)
                for (LiveFileMetaData below : files)
                    if (below.level() == file.level() + 1
                            && overlap(below, file.smallestKey(), file.largestKey()))
                        names.add(below.fileName());
        }
        return List.copyOf(names);
    }

    private static boolean overlap(LiveFileMetaData file, byte[] from, byte[] to) {
        return Arrays.compareUnsigned(file.smallestKey(), to) <= 0
                && Arrays.compareUnsigned(file.largestKey(), from) >= 0;
    }

    /**
     * Those of a partition that newer ones hide wholly, if what is read without them is the same to
     * the byte: replicas compare digests of it.
     */
    List<Entry> find(byte[] position) {
        byte[] prefix = Keys.withKind(position, KeyKind.RANGE);
        ByteBuffer direct = Keys.direct(prefix);
        ClusteringComparator comparator = store.table().comparator;
        ReadContext context = new ReadContext(store, ColumnFilter.all(store.table()));
        List<Entry> entries = new ArrayList<>();
        RangeTombstoneList ranges = new RangeTombstoneList(comparator, 16);
        try (Cursor cursor = context.open()) {
            for (cursor.seek(direct.duplicate());
                    entries.size() < MOST
                            && cursor.isValid()
                            && Keys.startsWith(cursor.key(), direct);
                    cursor.next()) {
                ByteBuffer key = cursor.key();
                byte[] copy = new byte[key.remaining()];
                key.get(copy);
                RangeTombstone range = context.range(cursor, key.position(prefix.length));
                entries.add(new Entry(copy, range));
                ranges.add(range);
            }
        }
        if (!hasOneForm(entries, comparator)) return List.of();
        entries.removeIf(entry -> !isHidden(entry.range(), ranges, comparator));
        return entries;
    }

    /**
     * Whether bounds that are equal have the same bytes. If they have two forms, as 1.0 and 1.00, a
     * read may return that of the hidden one, and the other once that is gone.
     */
    private static boolean hasOneForm(List<Entry> entries, ClusteringComparator comparator) {
        List<ClusteringBound<?>> bounds = new ArrayList<>();
        for (Entry entry : entries) {
            bounds.add(entry.range().deletedSlice().start());
            bounds.add(entry.range().deletedSlice().end());
        }
        bounds.sort(comparator);
        for (int i = 1; i < bounds.size(); i++) {
            ClusteringBound<?> one = bounds.get(i - 1);
            ClusteringBound<?> other = bounds.get(i);
            if (comparator.compare(one, other) == 0
                    && !Arrays.equals(one.getBufferArray(), other.getBufferArray())) return false;
        }
        return true;
    }

    /** Whether newer ones lie over all of it, without a gap. */
    private static boolean isHidden(
            RangeTombstone range, RangeTombstoneList ranges, ClusteringComparator comparator) {
        Slice slice = range.deletedSlice();
        ClusteringBound<?> upTo = slice.start();
        Iterator<RangeTombstone> over = ranges.iterator(slice, false);
        while (over.hasNext()) {
            RangeTombstone next = over.next();
            if (next.deletionTime().markedForDeleteAt() <= range.deletionTime().markedForDeleteAt()
                    || comparator.compare(next.deletedSlice().start(), upTo) > 0) return false;
            upTo = next.deletedSlice().end();
        }
        return comparator.compare(upTo, slice.end()) >= 0;
    }

    /** Removes those that are as they were found, and says how many. */
    int remove(Database database, List<Entry> found) throws RocksDBException {
        return removal.remove(database, found, range -> true);
    }
}
