// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import java.io.IOException;

/**
 * A stream on its way into a store: staged on disk, invisible until all slices are there and
 * checked. Slices arrive in any order and side by side, by one connection each.
 *
 * <p>The store does not wait for slices to come. Once it is closed or dropped, every method but
 * {@link #close} throws {@link IllegalStateException}, and one that is under way either completes
 * or fails. The same once this is closed.
 *
 * <p>Thread-safe, but for each {@link SliceWriter}. None of its locks is held while a block is
 * taken.
 */
public interface StreamSink extends AutoCloseable {
    /**
     * Begins to take a slice. If it does not come whole it may be begun again, once its writer is
     * closed.
     *
     * @param slice its place, from 0
     * @return where its blocks go, which the caller closes
     * @throws IOException if the disk fails or has too little room
     * @throws IndexOutOfBoundsException if the head names no such slice
     * @throws IllegalStateException if the slice is here already or is being taken, or this or the
     *     store is closed
     */
    SliceWriter begin(int slice) throws IOException;

    /**
     * Checks what only shows when all slices are here. Nothing is visible yet. Idempotent.
     *
     * @throws IOException if a slice is missing, or slices do not fit together
     */
    void verify() throws IOException;

    /**
     * Makes what came live, as much of it as writers need not notice; it survives a crash from here
     * on. The first call verifies if nobody has. It goes in an order in which nothing that is
     * deleted can be seen in between, nor half of a partition unless it is very large; and nothing
     * is purged until the last is there, or this is closed. Blocks on disk.
     *
     * <p>Whoever calls this may hold a lock that others need. What takes long is done by {@link
     * #prepare}; what is not prepared is not made live.
     *
     * @return whether there is more: to be called again, after {@link #prepare}
     * @throws IOException as {@link #verify()}, nothing being live then; or if what is staged is
     *     damaged, by which nothing becomes live that was not
     * @throws IllegalStateException if all is live, or this or the store is closed
     */
    boolean ingest() throws IOException;

    /**
     * Prepares the next {@link #ingest}: blocks until the store has merged so much of what it has
     * that it can take more, and derives the index entries of the rows that are to be live next.
     * Nothing of it is done twice, unless an index was defined meanwhile. The first call verifies
     * if nobody has. To be called without a lock that others need; ends when this is closed by
     * another thread. Blocks on disk.
     *
     * @throws IOException as {@link #verify()}, or if what is staged is damaged
     * @throws IllegalStateException if this or the store is closed
     */
    void prepare() throws IOException;

    /**
     * Deletes what was staged and is not live. Closes the writers that are still open, also while
     * another thread gives them a block: that thread's call may fail, and what it staged is deleted
     * when it returns. Idempotent. If nothing was ingested the store is as it was; otherwise it has
     * the beginning of what was sent, and the rest can be sent again.
     */
    @Override
    void close();
}
