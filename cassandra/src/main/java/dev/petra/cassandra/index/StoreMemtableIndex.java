// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.engine.TableStore;
import dev.petra.engine.index.DamagedIndexException;
import dev.petra.engine.index.TermCursor;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.UUID;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.index.IndexNotAvailableException;
import org.apache.cassandra.index.sai.QueryContext;
import org.apache.cassandra.index.sai.StorageAttachedIndex;
import org.apache.cassandra.index.sai.iterators.KeyRangeIterator;
import org.apache.cassandra.index.sai.memory.MemtableIndex;
import org.apache.cassandra.index.sai.plan.Expression;
import org.apache.cassandra.index.sai.utils.IndexTermType;
import org.apache.cassandra.schema.ColumnMetadata;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The index in a table's store, in the form of SAI's index of a memtable. An object is for one
 * query; SAI closes the iterators and nothing else, so nothing else holds a resource.
 */
public final class StoreMemtableIndex extends MemtableIndex {
    private static final int SMALLEST_BATCH = 64;
    private static final int LARGEST_BATCH = 4_096;

    /** For a range of terms, where each batch reads all terms of the range. */
    private static final int SMALLEST_PASS = 8_192;

    private static final int LARGEST_PASS = 65_536;

    /** Bounds the bytes of the keys in a batch. */
    private static final long MOST_BYTES = 8 << 20;

    private static final Logger logger = LoggerFactory.getLogger(StoreMemtableIndex.class);

    private final StorageAttachedIndex index;
    private final EngineMemtable memtable;

    /** The bounds of terms; null for none. */
    private record Terms(
            @Nullable ByteBuffer from,
            boolean fromInclusive,
            @Nullable ByteBuffer to,
            boolean toInclusive) {}

    private StoreMemtableIndex(StorageAttachedIndex index, EngineMemtable memtable) {
        super(index, memtable);
        this.index = index;
        this.memtable = memtable;
    }

    /**
     * Returns the indexes that a query has to search besides those of SSTables. While a table
     * migrates out of the engine, its store and the index in it stay complete until the migration
     * ends.
     *
     * @param stock the indexes of Cassandra's own memtables
     * @throws IndexNotAvailableException if the index lacks rows of the store: it is being built,
     *     or was created while the table migrated out of the engine
     */
    public static Collection<MemtableIndex> all(
            StorageAttachedIndex index, Collection<MemtableIndex> stock) {
        ColumnFamilyStore cfs = index.baseCfs();
        // From one view: rows that move between two views might be found in neither.
        EngineMemtable memtable =
                cfs.getTracker() == null ? null : EngineMemtables.any(cfs.getTracker().getView());
        if (memtable == null) return stock;
        TableStore store = memtable.generation().existing();
        if (store != null && !StoreIndexes.isBuilt(index, store)) {
            IndexSweeps.markLostSoon(cfs);
            throw new IndexNotAvailableException(index);
        }
        Collection<MemtableIndex> all = new ArrayList<>(stock);
        all.add(new StoreMemtableIndex(index, memtable));
        return all;
    }

    @Override
    public KeyRangeIterator search(
            QueryContext context,
            Expression expression,
            AbstractBounds<PartitionPosition> wantedRange) {
        TableStore store = memtable.generation().existing();
        if (store == null) return KeyRangeIterator.empty();
        long incarnation = incarnation(store);
        context.checkpoint();
        return switch (expression.getIndexOperator()) {
            case EQ, CONTAINS_KEY, CONTAINS_VALUE -> {
                ByteBuffer term = equal(expression);
                Terms one = new Terms(term, true, term, true);
                TermSearch search =
                        search(() -> open(store, incarnation, one), context, wantedRange);
                yield batches(
                        search.inOneTerm(term),
                        () -> entries(store, one),
                        false,
                        SMALLEST_BATCH,
                        LARGEST_BATCH);
            }
            case RANGE -> {
                Expression.Bound lower = expression.lower();
                Expression.Bound upper = expression.upper();
                ByteBuffer from = lower == null ? null : comparable(expression, lower);
                ByteBuffer to = upper == null ? null : comparable(expression, upper);
                boolean fromInclusive = lower != null && lower.inclusive;
                boolean toInclusive = upper != null && upper.inclusive;
                Terms range = new Terms(from, fromInclusive, to, toInclusive);
                TermSearch search =
                        search(() -> open(store, incarnation, range), context, wantedRange);
                yield batches(
                        search.inManyTerms(),
                        () -> entries(store, range),
                        true,
                        SMALLEST_PASS,
                        LARGEST_PASS);
            }
            default -> throw new IllegalArgumentException("Unsupported expression: " + expression);
        };
    }

    private KeyRangeIterator batches(
            KeySource source, LongSupplier entries, boolean readsAll, int smallest, int largest) {
        KeySource undamaged =
                (after, target, limit) -> {
                    try {
                        return source.next(after, target, limit);
                    } catch (DamagedIndexException e) {
                        throw StoreIndexes.damaged(index, index.baseCfs(), e);
                    }
                };
        return KeyBatches.open(undamaged, entries, readsAll, smallest, largest, index.keyFactory());
    }

    private TermSearch search(
            Supplier<TermCursor> cursors,
            QueryContext context,
            AbstractBounds<PartitionPosition> wantedRange) {
        ColumnMetadata column = index.termType().columnMetadata();
        return new TermSearch(
                cursors,
                index.keyFactory(),
                wantedRange,
                column.isStatic() || column.isPartitionKey(),
                MOST_BYTES,
                context::checkpoint);
    }

    /**
     * Returns the incarnation of the index that the query reads.
     *
     * @throws IndexNotAvailableException if the index is not complete
     */
    private long incarnation(TableStore store) {
        try {
            long incarnation = store.indexes().incarnation(id());
            // Asked afterwards: an index that was dropped and defined again since then has another
            // incarnation, and is not built before it has all rows.
            if (index.baseCfs().indexManager.isIndexQueryable(index)
                    && StoreIndexes.isBuilt(index, store)) return incarnation;
        } catch (IllegalArgumentException e) {
            logger.debug("Index {} is not defined in {}", IndexTerms.name(index), store.spec(), e);
            IndexSweeps.markLostSoon(index.baseCfs());
        }
        throw new IndexNotAvailableException(index);
    }

    /**
     * Opens a cursor, if the index is still the incarnation with which the query began.
     *
     * @throws IndexNotAvailableException if the index was dropped or is rebuilt since the query
     *     began: it may lack rows now
     */
    private TermCursor open(TableStore store, long incarnation, Terms terms) {
        TermCursor cursor = null;
        boolean isSame = false;
        try {
            cursor =
                    store.indexes()
                            .scan(
                                    id(),
                                    terms.from,
                                    terms.fromInclusive,
                                    terms.to,
                                    terms.toInclusive);
            isSame = store.indexes().incarnation(id()) == incarnation;
            if (isSame) return cursor;
        } catch (IllegalArgumentException e) {
            logger.debug("A query finds {} dropped from {}", index, memtable, e);
        } finally {
            if (!isSame && cursor != null) cursor.close();
        }
        throw new IndexNotAvailableException(index);
    }

    /**
     * Estimates how many entries have these terms.
     *
     * @throws IndexNotAvailableException if the index was dropped
     */
    private long entries(TableStore store, Terms terms) {
        try {
            return store.indexes()
                    .entries(id(), terms.from, terms.fromInclusive, terms.to, terms.toInclusive);
        } catch (IllegalArgumentException e) {
            logger.debug("A query finds {} dropped from {}", index, memtable, e);
            throw new IndexNotAvailableException(index);
        }
    }

    private UUID id() {
        return StoreIndexes.id(index);
    }

    private static ByteBuffer equal(Expression expression) {
        Expression.Bound bound = expression.lower();
        return bound == null ? ByteBuffer.allocate(0) : comparable(expression, bound);
    }

    private static ByteBuffer comparable(Expression expression, Expression.Bound bound) {
        IndexTermType type = expression.getIndexTermType();
        return RowTerms.comparable(type, bound.value.encoded);
    }

    // Cassandra calls these for memtables that it writes to or flushes

    @Override
    public boolean isEmpty() {
        return memtable.isClean();
    }

    @Override
    public long index(DecoratedKey key, Clustering<?> clustering, ByteBuffer value) {
        throw new UnsupportedOperationException("Entries go to the store with their row");
    }

    @Override
    public long update(
            DecoratedKey key, Clustering<?> clustering, ByteBuffer oldValue, ByteBuffer newValue) {
        throw new UnsupportedOperationException("Entries go to the store with their row");
    }
}
