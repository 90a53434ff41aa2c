// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.engine.TableStore;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * Keys of a table, spread over a range. Cassandra takes them from the indexes of its SSTables; here
 * the range is halved again and again, and the first key of each half that has one is taken.
 */
public final class KeySamples {
    private static final int MOST = 128;

    /** That many are looked for, where keys lie close together. */
    private static final int MOST_SEEKS = 4 * MOST;

    private KeySamples() {}

    public static List<DecoratedKey> of(TableStore store, Range<Token> range) {
        TableMetadata table = store.spec().metadata().get();
        IPartitioner partitioner = table.partitioner;
        List<DecoratedKey> keys = new ArrayList<>();
        Queue<Range<Token>> parts = new ArrayDeque<>(range.unwrap());
        for (int seeks = 0; seeks < MOST_SEEKS && keys.size() < MOST; seeks++) {
            Range<Token> part = parts.poll();
            if (part == null) break;
            DecoratedKey first = first(store, table, part);
            if (first == null) continue;
            keys.add(first);
            Token from = first.getToken();
            if (from.equals(part.right)) continue;
            Token middle = partitioner.midpoint(from, part.right);
            if (middle.equals(from) || middle.equals(part.right)) {
                parts.add(new Range<>(from, part.right));
                continue;
            }
            parts.add(new Range<>(from, middle));
            parts.add(new Range<>(middle, part.right));
        }
        return keys;
    }

    private static @Nullable DecoratedKey first(
            TableStore store, TableMetadata table, Range<Token> part) {
        try (UnfilteredPartitionIterator partitions =
                store.scan(DataRange.forTokenRange(part), ColumnFilter.all(table))) {
            if (!partitions.hasNext()) return null;
            try (UnfilteredRowIterator partition = partitions.next()) {
                return partition.partitionKey();
            }
        }
    }
}
