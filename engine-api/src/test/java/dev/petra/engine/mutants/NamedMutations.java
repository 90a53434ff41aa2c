// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/**
 * The faults that can be put into any engine by name, also in a node's process: the one list of
 * those of rows that random histories find, of an engine alone and of one behind a shadow.
 */
public final class NamedMutations {
    /** Each makes the fault anew, because one remembers what it has seen. */
    private static final Map<String, Supplier<UnaryOperator<StorageEngine>>> OF_ROWS =
            new LinkedHashMap<>();

    static {
        ofStores("loses-row-deletions", Mutations.LOSES_ROW_DELETIONS);
        ofStores("loses-partition-deletions", Mutations::losesPartitionDeletions);
        ofStores("ignores-range-tombstones", Mutations::ignoresRangeTombstones);
        ofStores("loses-row-markers", Mutations.LOSES_ROW_MARKERS);
        ofStores("loses-static-rows", Mutations.LOSES_STATIC_ROWS);
        ofStores("loses-the-static-row-on-read", Mutations.LOSES_THE_STATIC_ROW_ON_READ);
        ofStores("loses-cells-beside-a-row-deletion", Mutations.LOSES_CELLS_BESIDE_A_ROW_DELETION);
        ofStores("loses-collection-deletions", Mutations.LOSES_COLLECTION_DELETIONS);
        ofStores("forgets-ttls", Mutations.FORGETS_TTLS);
        ofStores("drops-timestamps-up-to-zero", Mutations.DROPS_TIMESTAMPS_UP_TO_ZERO);
        ofStores("loses-empty-values", Mutations.LOSES_EMPTY_VALUES);
        ofStores("first-of-a-tie-counts", Mutations::firstOfATieCounts);
        ofStores("shares-deletions-by-token", Mutations::sharesDeletionsByToken);
        ofStores("rewrites-clusterings", Mutations.rewritesClusterings());
        ofStores("rewrites-keys", Mutations::rewritesKeys);
        ofStores("strips-tombstones-on-read", Mutations.STRIPS_TOMBSTONES_ON_READ);
        ofStores("expires-at-write-time-plus-ttl", Mutations.EXPIRES_AT_WRITE_TIME_PLUS_TTL);
        ofStores("loses-closing-markers", Mutations.LOSES_CLOSING_MARKERS);
        ofStores("loses-boundaries", Mutations.LOSES_BOUNDARIES);
        ofStores("reads-only-the-first-slice", Mutations.READS_ONLY_THE_FIRST_SLICE);
        ofStores("reads-slices-forwards-in-reverse", Mutations.READS_SLICES_FORWARDS_IN_REVERSE);
        ofStores("reads-forwards-in-reverse", Mutations.READS_FORWARDS_IN_REVERSE);
        ofStores("takes-every-bound-for-inclusive", Mutations.TAKES_EVERY_BOUND_FOR_INCLUSIVE);
        ofStores("clips-no-range-tombstones", Mutations.CLIPS_NO_RANGE_TOMBSTONES);
        ofStores("reads-all-columns", Mutations.READS_ALL_COLUMNS);
        ofStores("keeps-values-that-are-not-queried", Mutations.KEEPS_VALUES_THAT_ARE_NOT_QUERIED);
        ofStores("may-contain-denies", Mutations::mayContainDenies);
        ofStores("scans-left-inclusively", Mutations::scansLeftInclusively);
        ofStores("scans-without-clustering-filter", Mutations::scansWithoutClusteringFilter);
        ofStores("skips-partitions-in-scans", Mutations::skipsPartitionsInScans);
        OF_ROWS.put("ignores-dropped-columns", () -> Mutations::ignoresDroppedColumns);
        ofStores("names-columns-by-position", Mutations::namesColumnsByPosition);
        ofStores("loses-tombstones-in-compaction", Mutations::losesTombstonesInCompaction);
        OF_ROWS.put(
                "loses-markers-on-reopening",
                () -> withStores(Mutations.losesMarkersOnReopening()));
    }

    /** Faults that only a table of counters shows, or one of very many columns. */
    private static final Map<String, UnaryOperator<TableStore>> OF_SOME_TABLES =
            Map.of(
                    "ignores-older-counters", Mutations::ignoresOlderCounters,
                    "loses-columns-beyond127", Mutations::losesColumnsBeyond127);

    /** Faults of indexes, which no table without one shows. */
    private static final Map<String, UnaryOperator<TableStore>> OF_INDEXES =
            Map.of(
                    "forgets-index-entries", Mutations::forgetsIndexEntries,
                    "sweeps-too-much", Mutations::sweepsTooMuch);

    /** No fault, with indexes: what is found then is none of a fault. */
    public static final String NONE = "none";

    private NamedMutations() {}

    private static void ofStores(String name, UnaryOperator<TableStore> mutation) {
        OF_ROWS.put(name, () -> withStores(mutation));
    }

    private static UnaryOperator<StorageEngine> withStores(UnaryOperator<TableStore> mutation) {
        return engine -> new ForwardingEngine(engine, mutation);
    }

    /** The names of the faults that only some tables show; random histories have none of these. */
    public static Set<String> ofSomeTables() {
        return OF_SOME_TABLES.keySet();
    }

    /** The names of the faults that are of indexes. */
    public static Set<String> ofIndexes() {
        return OF_INDEXES.keySet();
    }

    /** The names of the faults that are of rows. */
    public static Set<String> ofRows() {
        return OF_ROWS.keySet();
    }

    /**
     * A fault, or {@link #NONE}, to be put into an engine, which the faulty one owns; an error if
     * there is none of that name.
     */
    public static UnaryOperator<StorageEngine> of(String name) {
        if (name.equals(NONE)) return UnaryOperator.identity();
        UnaryOperator<TableStore> ofIndexes = OF_INDEXES.get(name);
        if (ofIndexes != null) return withStores(ofIndexes);
        UnaryOperator<TableStore> ofSomeTables = OF_SOME_TABLES.get(name);
        if (ofSomeTables != null) return withStores(ofSomeTables);
        Supplier<UnaryOperator<StorageEngine>> ofRows = OF_ROWS.get(name);
        if (ofRows == null) throw new IllegalArgumentException("no mutation " + name);
        return ofRows.get();
    }
}
