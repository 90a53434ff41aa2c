// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import java.nio.ByteBuffer;
import java.util.List;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableId;

/**
 * Everything a receiver must know before the first byte.
 *
 * @param engine the engine that made the parts; only the same engine reads them
 * @param formatVersion the engine's format of the parts
 * @param table whose data it is
 * @param columnFamily the column family's name; an index table shares its base's id
 * @param ranges what was asked for, (left, right]
 * @param dictionary what the parts' contents refer to, in the engine's own form (column ids);
 *     read-only
 * @param parts in the order of their keys; part {@code i} has index {@code i}
 */
public record StreamManifest(
        String engine,
        int formatVersion,
        TableId table,
        String columnFamily,
        List<Range<Token>> ranges,
        ByteBuffer dictionary,
        List<StreamPart> parts) {
    /** Checks the arguments. */
    public StreamManifest {
        ranges = List.copyOf(ranges);
        parts = List.copyOf(parts);
        dictionary = dictionary.asReadOnlyBuffer();
        for (int i = 0; i < parts.size(); i++)
            if (parts.get(i).index() != i)
                throw new IllegalArgumentException(
                        "part " + i + " of the manifest says it is " + parts.get(i).index());
    }

    /** The bytes of all parts together. */
    public long totalBytes() {
        return parts.stream().mapToLong(StreamPart::bytes).reduce(0, Math::addExact);
    }
}
