// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import java.io.IOException;
import java.nio.ByteBuffer;

/** Takes one slice, block by block, as {@link SliceReader} gave them. One thread at a time. */
public interface SliceWriter extends AutoCloseable {
    /** A block's bytes at the most, if it has more than one entry. */
    int BLOCK = 1 << 20;

    /** A block's bytes at the most: the largest cell that Cassandra takes, and its names. */
    int MAX_BLOCK = (256 << 20) + (16 << 20);

    /**
     * Takes the next block. Blocks on disk. The blocks come from a peer: whatever they are, the
     * store is safe, but whoever carries them must see to it that none is changed, lost, repeated
     * or out of its place.
     *
     * @param block from position to limit, on the heap or off it; the caller's again when this
     *     returns, and read to its limit then
     * @throws IOException if this is no block that the engine makes, does not follow the one
     *     before, has what the store cannot keep or the node does not own, or if the disk fails or
     *     has too little room. Nothing more can be taken; the slice can be begun again
     * @throws IllegalStateException if the slice has ended, a block was refused, or this, its sink
     *     or the store is closed
     */
    void take(ByteBuffer block) throws IOException;

    /**
     * Says that this was all. The slice is here whole, and stays until its sink is closed.
     *
     * @throws IOException if the slice cannot end so, or the disk fails
     * @throws IllegalStateException as {@link #take}
     */
    void end() throws IOException;

    /**
     * Releases what the writer uses. If the slice has not ended, what came of it is deleted.
     * Idempotent.
     */
    @Override
    void close();
}
