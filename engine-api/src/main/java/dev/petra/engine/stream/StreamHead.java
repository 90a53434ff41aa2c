// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import org.apache.cassandra.schema.TableId;

/**
 * What a receiver must know before the first block of a slice. The same for all slices of a stream.
 *
 * @param engine the engine whose blocks come; only the same engine reads them
 * @param format the engine's format of the blocks
 * @param table whose data it is
 * @param columnFamily the column family's name; an index table shares its base's id
 * @param slices how many slices there are, from 1 to {@link #MAX_SLICES}; they are known by their
 *     places, from 0
 * @param bytes what all blocks together may have, for progress and room: an estimate, not negative
 */
public record StreamHead(
        String engine, int format, TableId table, String columnFamily, int slices, long bytes) {
    /** More than any sender makes, and few enough that no peer can make a receiver keep many. */
    public static final int MAX_SLICES = 4096;

    /** Checks the arguments. */
    public StreamHead {
        if (slices < 1 || slices > MAX_SLICES)
            throw new IllegalArgumentException(
                    "A stream has 1 to " + MAX_SLICES + " slices, not " + slices + ".");
        if (bytes < 0)
            throw new IllegalArgumentException("A stream cannot have " + bytes + " bytes.");
    }
}
