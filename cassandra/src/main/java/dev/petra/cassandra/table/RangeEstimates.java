// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.engine.RangeEstimate;
import dev.petra.engine.TableStore;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.utils.Pair;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** How much a table's engine has in some token ranges. */
public final class RangeEstimates {
    private static final Logger logger = LoggerFactory.getLogger(RangeEstimates.class);

    private RangeEstimates() {}

    /**
     * By unwrapped range: how many partitions, and bytes of one; none where it cannot be read, or
     * not before the store was opened anew. For who asks again and again: mostly known, else reads
     * the store.
     */
    public static Map<Range<Token>, Pair<Long, Long>> of(
            EngineMemtable table, Collection<Range<Token>> ranges) {
        // Cassandra asks for all tables on one thread, which has other things to do as well.
        if (table.generation().isShut()) return new HashMap<>();
        return of(table, ranges, table.generation().estimates()::ranges);
    }

    private static Map<Range<Token>, Pair<Long, Long>> of(
            EngineMemtable table,
            Collection<Range<Token>> ranges,
            Function<TableStore, Map<Range<Token>, RangeEstimate>> remembered) {
        Map<Range<Token>, Pair<Long, Long>> estimates = new HashMap<>();
        try {
            TableStore store = table.generation().existing();
            Map<Range<Token>, RangeEstimate> known =
                    store == null ? Map.of() : remembered.apply(store);
            for (Range<Token> wrapped : ranges)
                for (Range<Token> range : wrapped.unwrap()) {
                    RangeEstimate estimate =
                            store == null
                                    ? new RangeEstimate(0, 0)
                                    : known.computeIfAbsent(range, store::estimate);
                    estimates.put(
                            range,
                            Pair.create(estimate.partitions(), estimate.meanPartitionBytes()));
                }
        } catch (RuntimeException | FSError e) {
            // Every few minutes, in the background; the other tables' must go on.
            logger.warn(
                    "The sizes of token ranges of {} could not be estimated, so the table may be"
                            + " missing in this round of estimates",
                    table.generation().stores().displayName(),
                    e);
        }
        return estimates;
    }

    /** What lies in a range now, which may wrap; nothing where it cannot be read. */
    public static RangeEstimate of(EngineMemtable table, Range<Token> range) {
        long partitions = 0;
        long bytes = 0;
        for (Pair<Long, Long> part : of(table, List.of(range), store -> new HashMap<>()).values()) {
            partitions += part.left;
            bytes += part.left * part.right;
        }
        return new RangeEstimate(partitions, partitions == 0 ? 0 : bytes / partitions);
    }
}
