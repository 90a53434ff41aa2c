// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import dev.petra.cassandra.host.Host;
import dev.petra.cassandra.index.KeySource.Keys;
import java.util.List;
import java.util.function.LongSupplier;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.index.sai.iterators.KeyRangeIterator;
import org.apache.cassandra.index.sai.utils.PrimaryKey;
import org.jspecify.annotations.Nullable;

/**
 * Iterates over a {@link KeySource} in batches. No cursor of the store is open between two batches,
 * so an iterator that SAI does not close holds nothing. A batch is twice as large as the last one
 * if all of that was consumed, or enough of it before a skip beyond its end. If less of it was
 * consumed it is a quarter as large: an intersection with few keys needs one key after each skip.
 * Of a source that reads all its entries for each batch it is twice as large in any case.
 */
final class KeyBatches extends KeyRangeIterator {
    /**
     * No more entries are estimated. SAI adds counts up and takes a negative sum for an empty
     * iterator, so a count, which may be that many passes over as many entries, stays far below
     * {@link Long#MAX_VALUE}.
     */
    private static final long MOST = Integer.MAX_VALUE;

    /** After skips: less costs as much, since a cursor is opened for each batch. */
    private static final int LEAST = 4;

    /** To step over so many keys costs as much as another batch. */
    private static final int STEPS = 8;

    private final KeySource source;
    private final boolean readsAll;
    private final int largest;

    private List<PrimaryKey> batch;
    private boolean isLast;
    private int position;
    private int limit;

    /** How many keys of the batch were returned. */
    private int returned;

    private KeyBatches(
            KeySource source,
            boolean readsAll,
            int largest,
            Keys first,
            int limit,
            PrimaryKey maximum,
            long count) {
        super(first.keys().get(0), maximum, count);
        this.source = source;
        this.readsAll = readsAll;
        this.largest = largest;
        this.batch = first.keys();
        this.isLast = first.areLast();
        this.limit = limit;
    }

    /**
     * Reads the first batch. The count of the iterator is exact if that is the last one, and an
     * estimate otherwise: an intersection of more than two keeps the two with the lowest counts.
     *
     * @param entries estimates how many entries there are; asked only if more batches follow
     * @param readsAll whether a batch costs a read of all entries, whatever its size
     * @param smallest size of a batch until skips are known, and the size of the first
     * @param largest size of a batch
     * @param keys of the table, under a partitioner that has a last token
     */
    static KeyRangeIterator open(
            KeySource source,
            LongSupplier entries,
            boolean readsAll,
            int smallest,
            int largest,
            PrimaryKey.Factory keys) {
        Keys first = source.next(null, null, smallest);
        int count = first.keys().size();
        if (count == 0) return KeyRangeIterator.empty();
        PrimaryKey last = first.keys().get(count - 1);
        return new KeyBatches(
                source,
                readsAll,
                largest,
                first,
                smallest,
                first.areLast() ? last : keys.create(behindAll(last.token())),
                first.areLast()
                        ? count
                        : count(Math.max(count + 1, entries.getAsLong()), readsAll, largest));
    }

    /** Of what reads all entries for each batch: how many that may read in all. */
    private static long count(long entries, boolean readsAll, int largest) {
        long bounded = Math.min(MOST, entries);
        return readsAll ? bounded * (2 + bounded / largest) : bounded;
    }

    /**
     * Not the last token that is wanted: to SAI it equals each key that has it. Of an SSTable's
     * last key and our end SAI would then take the former for the last of both, and end in front of
     * our rows of that partition.
     */
    private static Token behindAll(Token token) {
        return Host.current().lastToken(token.getPartitioner());
    }

    @Override
    protected PrimaryKey computeNext() {
        while (position == batch.size()) {
            if (isLast) return endOfData();
            limit = Math.min(largest, 2 * limit);
            fetch(null);
        }
        returned++;
        return batch.get(position++);
    }

    @Override
    protected void performSkipTo(PrimaryKey target) {
        while (true) {
            while (position < batch.size() && batch.get(position).compareTo(target, false) < 0)
                position++;
            if (position < batch.size() || isLast) return;
            limit =
                    readsAll || returned * STEPS > batch.size()
                            ? Math.min(largest, 2 * limit)
                            : Math.max(Math.min(LEAST, largest), limit / 4);
            fetch(target);
        }
    }

    private void fetch(@Nullable PrimaryKey target) {
        PrimaryKey last = batch.get(batch.size() - 1);
        // While the source fills the next one, memory is for that.
        batch = List.of(last);
        position = 1;
        Keys next = source.next(last, target, limit);
        batch = next.keys();
        position = 0;
        returned = 0;
        isLast = next.areLast();
    }
}
