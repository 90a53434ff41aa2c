// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.jspecify.annotations.Nullable;

/**
 * A slice as blocks, read when they are asked for. Nothing is written to disk for it. One thread at
 * a time reads; any may close.
 */
public interface SliceReader extends AutoCloseable {
    /**
     * Reads the next block: a few hundred kilobytes of whole entries, in the order of the engine's
     * keys. Blocks on disk.
     *
     * @return its bytes, from position to limit, on the heap or off it; at least one, and at most
     *     {@link SliceWriter#BLOCK} but for a single entry that is larger, up to {@link
     *     SliceWriter#MAX_BLOCK}. The caller may read them until the next call to this or {@link
     *     #close}, and must not change them. Null if the slice is at its end, then each time
     * @throws IOException if the slice cannot be read on: not all of it was given, and it must not
     *     be taken for whole
     * @throws IllegalStateException if this, its source or the store is closed
     */
    @Nullable ByteBuffer next() throws IOException;

    /** Ends the reading, at its end or before it. Idempotent. */
    @Override
    void close();
}
