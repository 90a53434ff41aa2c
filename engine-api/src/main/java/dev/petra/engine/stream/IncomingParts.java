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
     * Makes all parts live at once; they survive a crash from here on. Verifies first if nobody
     * has.
     *
     * @throws IOException as {@link #verify()}, nothing being live then
     */
    void ingest() throws IOException;

    /** Deletes what was staged and not ingested. Idempotent. The store is as it was. */
    @Override
    void close();
}
