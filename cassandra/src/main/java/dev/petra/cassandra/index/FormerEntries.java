// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import dev.petra.cassandra.table.EngineMemtables;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.index.internal.CassandraIndex;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.utils.Throwables;

/**
 * What the hidden tables of a table's legacy indexes have on disk when its last SSTable has been
 * moved into its store. Queries would read the rows of all of them for ever, and nobody removes one
 * from a hidden table while its table is in an engine. Not thread-safe.
 */
public final class FormerEntries {
    private record Part(ColumnFamilyStore hidden, Set<SSTableReader> sstables) {}

    private final ColumnFamilyStore cfs;
    private final List<Part> parts = new ArrayList<>();

    private FormerEntries(ColumnFamilyStore cfs) {
        this.cfs = cfs;
    }

    /** Those of now; what comes later stays. Reads nothing from disk. */
    public static FormerEntries of(ColumnFamilyStore cfs) {
        FormerEntries now = new FormerEntries(cfs);
        for (Index index : StoreIndexes.of(cfs))
            if (index instanceof CassandraIndex legacy) now.add(legacy.getIndexCfs());
        return now;
    }

    private void add(ColumnFamilyStore hidden) {
        Set<SSTableReader> sstables = hidden.getLiveSSTables();
        if (!sstables.isEmpty()) parts.add(new Part(hidden, sstables));
    }

    /**
     * Drops them, if the store has all rows that they are of. An SSTable is live before its rows
     * get entries: one whose entries are among these has either gone, and its rows are in the
     * store, or is found here. An index that is not complete in the store is built from the rows
     * there, or, if the table leaves the engine first, from the SSTables that these become.
     *
     * <p>Leaves those that are being compacted. What comes of them, and of a hidden memtable that
     * is flushed late, is found by {@link IndexSweeps}, which calls this again.
     */
    public void drop() {
        if (parts.isEmpty()) return;
        if (!EngineMemtables.areWritesOurs(cfs) || !cfs.getLiveSSTables().isEmpty()) return;
        // Queries that began when the table had no store ask the hidden tables alone.
        cfs.readOrdering.awaitNewBarrier();
        for (Part part : parts)
            Throwables.maybeFail(
                    part.hidden
                            .getTracker()
                            .dropSSTables(part.sstables::contains, OperationType.UNKNOWN, null));
    }
}
