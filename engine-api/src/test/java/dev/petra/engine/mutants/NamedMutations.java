// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import dev.petra.engine.TableStore;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;

/** Faults that can be put into any engine's stores by name, also in a node's process. */
public final class NamedMutations {
    private static final Map<String, UnaryOperator<TableStore>> OF_ROWS = new LinkedHashMap<>();

    static {
        OF_ROWS.put("loses-row-deletions", Mutations.LOSES_ROW_DELETIONS);
        OF_ROWS.put("loses-partition-deletions", Mutations::losesPartitionDeletions);
        OF_ROWS.put("ignores-range-tombstones", Mutations::ignoresRangeTombstones);
        OF_ROWS.put("loses-row-markers", Mutations.LOSES_ROW_MARKERS);
        OF_ROWS.put("loses-static-rows", Mutations.LOSES_STATIC_ROWS);
        OF_ROWS.put(
                "loses-cells-beside-a-row-deletion", Mutations.LOSES_CELLS_BESIDE_A_ROW_DELETION);
        OF_ROWS.put("loses-collection-deletions", Mutations.LOSES_COLLECTION_DELETIONS);
        OF_ROWS.put("forgets-ttls", Mutations.FORGETS_TTLS);
        OF_ROWS.put("drops-timestamps-up-to-zero", Mutations.DROPS_TIMESTAMPS_UP_TO_ZERO);
        OF_ROWS.put("loses-empty-values", Mutations.LOSES_EMPTY_VALUES);
        OF_ROWS.put("first-of-a-tie-counts", Mutations::firstOfATieCounts);
        OF_ROWS.put("strips-tombstones-on-read", Mutations.STRIPS_TOMBSTONES_ON_READ);
        OF_ROWS.put("loses-boundaries", Mutations.LOSES_BOUNDARIES);
        OF_ROWS.put("reads-only-the-first-slice", Mutations.READS_ONLY_THE_FIRST_SLICE);
        OF_ROWS.put("reads-forwards-in-reverse", Mutations.READS_FORWARDS_IN_REVERSE);
        OF_ROWS.put("takes-every-bound-for-inclusive", Mutations.TAKES_EVERY_BOUND_FOR_INCLUSIVE);
        OF_ROWS.put("scans-left-inclusively", Mutations::scansLeftInclusively);
        OF_ROWS.put("scans-without-clustering-filter", Mutations::scansWithoutClusteringFilter);
        OF_ROWS.put("skips-partitions-in-scans", Mutations::skipsPartitionsInScans);
        OF_ROWS.put("loses-tombstones-in-compaction", Mutations::losesTombstonesInCompaction);
    }

    /** Faults of indexes, which no table without one shows. */
    private static final Map<String, UnaryOperator<TableStore>> OF_INDEXES =
            Map.of(
                    "forgets-index-entries", Mutations::forgetsIndexEntries,
                    "sweeps-too-much", Mutations::sweepsTooMuch);

    /** No fault, with indexes: what is found then is none of a fault. */
    public static final String NONE = "none";

    private NamedMutations() {}

    /** The names of the faults that are of indexes. */
    public static Set<String> ofIndexes() {
        return OF_INDEXES.keySet();
    }

    /** The names of the faults that are of rows. */
    public static Set<String> ofRows() {
        return OF_ROWS.keySet();
    }

    /** A fault, or {@link #NONE}; an error if there is none of that name. */
    public static UnaryOperator<TableStore> of(String name) {
        if (name.equals(NONE)) return UnaryOperator.identity();
        UnaryOperator<TableStore> mutation = OF_INDEXES.getOrDefault(name, OF_ROWS.get(name));
        if (mutation == null) throw new IllegalArgumentException("no mutation " + name);
        return mutation;
    }
}
