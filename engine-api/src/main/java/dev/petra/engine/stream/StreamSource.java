// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

/**
 * A stream on its way out of a store. Its slices are read side by side, by one connection each.
 *
 * <p>It holds the store as long as it is open. If the store is dropped, the source goes on to its
 * end, and the store's files go after that: {@link dev.petra.engine.TableStore#drop} may have to be
 * called again. If the store is closed, each method but {@link #close} throws {@link
 * IllegalStateException}.
 *
 * <p>Thread-safe, but for each {@link SliceReader}.
 */
public interface StreamSource extends AutoCloseable {
    /**
     * The system property by which a node sends and accepts SSTables only, if it is {@code false}.
     */
    String SLICES_PROPERTY = "petra.stream.slices";

    /** What a receiver must know; its estimates are those that {@code send} was given. */
    StreamHead head();

    /**
     * Begins to read a slice, from its beginning. It may be opened several times, also while it is
     * read already: for several receivers, which then may get different moments of it. Reads
     * nothing yet.
     *
     * @param slice its place, from 0
     * @return a reader that the caller closes
     * @throws IndexOutOfBoundsException if there is no such slice
     * @throws IllegalStateException if this or the store is closed
     */
    SliceReader open(int slice);

    /**
     * Lets go of the store. Readers that are still open give nothing more. Waits at most for the
     * blocks that are being read now. Idempotent.
     */
    @Override
    void close();
}
