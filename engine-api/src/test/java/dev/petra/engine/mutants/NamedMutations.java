// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import dev.petra.engine.TableStore;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;

/** Faults that can be put into any engine's stores by name, also in a node's process. */
public final class NamedMutations {
    private static final Map<String, UnaryOperator<TableStore>> ALL = new LinkedHashMap<>();

    static {
        ALL.put("loses-row-deletions", Mutations.LOSES_ROW_DELETIONS);
        ALL.put("loses-partition-deletions", Mutations::losesPartitionDeletions);
        ALL.put("ignores-range-tombstones", Mutations::ignoresRangeTombstones);
        ALL.put("loses-row-markers", Mutations.LOSES_ROW_MARKERS);
        ALL.put("loses-static-rows", Mutations.LOSES_STATIC_ROWS);
        ALL.put("loses-cells-beside-a-row-deletion", Mutations.LOSES_CELLS_BESIDE_A_ROW_DELETION);
        ALL.put("loses-collection-deletions", Mutations.LOSES_COLLECTION_DELETIONS);
        ALL.put("forgets-ttls", Mutations.FORGETS_TTLS);
        ALL.put("drops-timestamps-up-to-zero", Mutations.DROPS_TIMESTAMPS_UP_TO_ZERO);
        ALL.put("loses-empty-values", Mutations.LOSES_EMPTY_VALUES);
        ALL.put("first-of-a-tie-counts", Mutations::firstOfATieCounts);
        ALL.put("strips-tombstones-on-read", Mutations.STRIPS_TOMBSTONES_ON_READ);
        ALL.put("loses-boundaries", Mutations.LOSES_BOUNDARIES);
        ALL.put("reads-only-the-first-slice", Mutations.READS_ONLY_THE_FIRST_SLICE);
        ALL.put("reads-forwards-in-reverse", Mutations.READS_FORWARDS_IN_REVERSE);
        ALL.put("takes-every-bound-for-inclusive", Mutations.TAKES_EVERY_BOUND_FOR_INCLUSIVE);
        ALL.put("scans-left-inclusively", Mutations::scansLeftInclusively);
        ALL.put("scans-without-clustering-filter", Mutations::scansWithoutClusteringFilter);
        ALL.put("skips-partitions-in-scans", Mutations::skipsPartitionsInScans);
        ALL.put("loses-tombstones-in-compaction", Mutations::losesTombstonesInCompaction);
    }

    /** Faults of indexes, which no table without one shows. */
    private static final Map<String, UnaryOperator<TableStore>> OF_INDEXES =
            Map.of("forgets-index-entries", Mutations::forgetsIndexEntries);

    private NamedMutations() {}

    /** The names of the faults that are of indexes. */
    public static Set<String> ofIndexes() {
        return OF_INDEXES.keySet();
    }

    /** The names of the faults that are of rows. */
    public static Iterable<String> names() {
        return ALL.keySet();
    }

    /** A fault; an error if there is none of that name. */
    public static UnaryOperator<TableStore> of(String name) {
        UnaryOperator<TableStore> mutation =
                OF_INDEXES.containsKey(name) ? OF_INDEXES.get(name) : ALL.get(name);
        if (mutation == null) throw new IllegalArgumentException("no mutation " + name);
        return mutation;
    }
}
