// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import java.io.IOException;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Ranges of one store, pinned as they were when this was opened. They stay good until they are
 * closed, also if the store ends meanwhile, which may wait for them. Thread-safe: parts go by
 * several connections at once.
 */
public interface OutgoingParts extends AutoCloseable {
    /** What will be sent; sizes and checksums are exact. */
    StreamManifest manifest();

    /**
     * Writes one part whole. Blocks on the channel, which it leaves open. May be called again for
     * the same part, for instance on a retry.
     *
     * @param index of the part, from 0
     * @return bytes written, which is what the manifest says
     * @throws IOException if the channel or a file fails
     * @throws IndexOutOfBoundsException if there is no such part
     */
    long transferTo(int index, WritableByteChannel channel) throws IOException;

    /**
     * The file that has a part's bytes and nothing else, for whoever can send a file without
     * copying it; null if there is none. It may be gone once the store is dropped.
     */
    default @Nullable Path file(int index) {
        return null;
    }

    /** Releases what was pinned. Idempotent. */
    @Override
    void close();
}
