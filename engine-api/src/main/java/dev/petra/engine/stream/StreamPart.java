// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import java.nio.ByteBuffer;

/**
 * One piece of a stream.
 *
 * @param index its place in the manifest, from 0; parts are known by it, never by a name, so that
 *     no peer can choose a path
 * @param bytes its exact length
 * @param checksum xxHash64 (seed 0) of its bytes
 * @param firstKey the engine's key of its first entry, inclusive; read-only
 * @param lastKey the engine's key of its last entry, inclusive; read-only
 */
public record StreamPart(
        int index, long bytes, long checksum, ByteBuffer firstKey, ByteBuffer lastKey) {
    /** Checks the arguments. */
    public StreamPart {
        if (index < 0) throw new IllegalArgumentException("index " + index + " is negative");
        if (bytes < 0) throw new IllegalArgumentException("length " + bytes + " is negative");
        firstKey = firstKey.asReadOnlyBuffer();
        lastKey = lastKey.asReadOnlyBuffer();
    }
}
