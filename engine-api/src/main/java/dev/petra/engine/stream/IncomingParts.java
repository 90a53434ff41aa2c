// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import java.io.IOException;
import java.nio.channels.ReadableByteChannel;

/**
 * Parts on their way into a store: staged on disk, invisible until all are there and checked. Parts
 * may arrive in any order and from several threads; a part arrives once.
 *
 * <p>The store does not wait for parts to come. Once it is closed or dropped, every method but
 * {@link #close} throws {@link IllegalStateException}, and one that is under way either completes
 * or fails.
 */
public interface IncomingParts extends AutoCloseable {
    /**
     * Reads one part whole, to disk. It is complete on disk when this returns.
     *
     * @param index of the part, from 0
     * @throws IOException if the channel ends early or the bytes are not what the manifest says
     *     (length, checksum); the part can then be received again
     * @throws IllegalStateException if the part is already there or this is closed
     * @throws IndexOutOfBoundsException if the manifest has no such part
     */
    void receive(int index, ReadableByteChannel channel) throws IOException;

    /**
     * Checks what arrived against the manifest and the owned ranges: format, key bounds, column
     * ids. Nothing is visible yet.
     *
     * @throws IOException if a part is missing or is not what the manifest says
     */
    void verify() throws IOException;

    /**
     * Makes the next parts live, as many as writers need not notice; they survive a crash from here
     * on. The first call verifies if nobody has, and throws what can be wrong with any part. Parts
     * come in an order in which nothing that is deleted can be seen in between, nor half of a
     * partition unless it is very large; and nothing is purged until the last is there, or this is
     * closed. Blocks on disk.
     *
     * @return whether there are more: to be called again, after {@link #awaitRoom}
     * @throws IOException as {@link #verify()}, nothing being live then
     * @throws IllegalStateException if all are live, or this is closed
     */
    boolean ingest() throws IOException;

    /**
     * Blocks until the store has merged so much of what it has that it can take more parts. To be
     * called without a lock that others need; ends when this is closed by another thread.
     *
     * @throws IllegalStateException if this is closed
     */
    void awaitRoom();

    /**
     * Deletes what was staged and not ingested. Idempotent. If nothing was ingested the store is as
     * it was; otherwise it has the beginning of what was sent, and the rest can be sent again.
     */
    @Override
    void close();
}
