// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.index;

import java.nio.ByteBuffer;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.PartitionPosition;
import org.jspecify.annotations.Nullable;

/**
 * Entries of an index within bounds, as they were when it was opened, in the order of term
 * (unsigned bytes), partition position, then the static row before the others, these by the table's
 * comparator. Begins before the first. One thread at a time; it keeps the store open until it is
 * closed.
 *
 * <p>Each method that moves or decodes throws {@link DamagedIndexException} if the entries cannot
 * be read.
 *
 * <p>What it gives stays as it is when it moves on; nobody may change it.
 *
 * @see TermIndexes#scan
 */
public interface TermCursor extends AutoCloseable {
    /**
     * Moves to the next entry.
     *
     * @return false at the end, then each time until it seeks
     */
    boolean next();

    /**
     * Moves to the first entry at or behind a place, forwards or backwards. Bounds stay: a place
     * before them means their begin.
     *
     * @param position of a partition, or a bound between partitions
     * @param clustering null for the begin of the partition, its static row included
     * @return false if there is none, which is the end
     */
    boolean seek(ByteBuffer term, PartitionPosition position, @Nullable Clustering<?> clustering);

    /**
     * The entry's term.
     *
     * @throws IllegalStateException if the cursor is on none
     */
    ByteBuffer term();

    /** The entry's partition; throws as {@link #term}. */
    DecoratedKey key();

    /** As {@link TermEntry#clustering}; throws as {@link #term}. */
    Clustering<?> clustering();

    /** Lets go of the store. Idempotent. */
    @Override
    void close();
}
