// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import dev.petra.engine.TableStore;
import dev.petra.engine.index.DamagedIndexException;
import dev.petra.engine.index.TermCursor;
import java.nio.ByteBuffer;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.IndexNotAvailableException;
import org.apache.cassandra.index.internal.CassandraIndex;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One definition of one of Cassandra's legacy indexes in a store, for one query: all that the query
 * reads is of that definition, which is complete.
 */
record IndexUse(CassandraIndex index, TableStore store, long incarnation) {
    private static final Logger logger = LoggerFactory.getLogger(IndexUse.class);

    /**
     * Begins.
     *
     * @throws IndexNotAvailableException if the index lacks rows of the store
     */
    static IndexUse of(CassandraIndex index, TableStore store) {
        try {
            long incarnation = store.indexes().incarnation(StoreIndexes.id(index));
            // Asked for behind it: what is made anew meanwhile is another.
            if (StoreIndexes.isBuilt(index, store)) return new IndexUse(index, store, incarnation);
        } catch (IllegalArgumentException e) {
            logger.debug("Index {} is not defined in {}", name(index), store.spec(), e);
        }
        IndexSweeps.markLostSoon(index.baseCfs);
        throw new IndexNotAvailableException(index);
    }

    /**
     * Opens the entries of a term.
     *
     * @throws IndexNotAvailableException if the index was dropped, or is made anew, since the query
     *     began
     */
    TermCursor open(ByteBuffer term) {
        TermCursor cursor = null;
        boolean isSame = false;
        try {
            cursor = store.indexes().scan(StoreIndexes.id(index), term, true, term, true);
            isSame = store.indexes().incarnation(StoreIndexes.id(index)) == incarnation;
            if (isSame) return cursor;
        } catch (IllegalArgumentException e) {
            logger.debug("A query finds index {} dropped", name(index), e);
        } finally {
            if (!isSame && cursor != null) cursor.close();
        }
        throw new IndexNotAvailableException(index);
    }

    IndexNotAvailableException damaged(DamagedIndexException e) {
        return StoreIndexes.damaged(index, index.baseCfs, e);
    }

    private static String name(Index index) {
        return IndexTerms.name(index);
    }
}
