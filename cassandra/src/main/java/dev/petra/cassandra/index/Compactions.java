// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.concurrent.Callable;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.index.Index;

/**
 * Builds of the indexes of SSTables, and compactions. A compaction's SSTable is among those of its
 * table before the files of its indexes are complete, and the marker that says they are is written
 * before their last bytes. SAI's builds do not know that: they open such an SSTable, or build it
 * anew while the compaction writes it. Then SAI takes indexes out of use that were complete, or
 * leaves an SSTable out of an index.
 */
public final class Compactions {
    private Compactions() {}

    /**
     * Does something while the table is not compacted: stops the compactions that run and lets none
     * begin. Blocks until they have ended.
     *
     * @return false if some did not end within a minute; nothing was done then
     * @throws RuntimeException of what was to be done
     */
    public static boolean without(ColumnFamilyStore cfs, Callable<?> work) {
        Boolean done =
                cfs.runWithCompactionsDisabled(
                        () -> {
                            work.call();
                            return true;
                        },
                        sstable -> true,
                        OperationType.P0,
                        false,
                        false,
                        false);
        return done != null;
    }

    /** Makes such a build of one, for an index that is created or that the node finds. */
    public static Callable<?> without(ColumnFamilyStore cfs, Index index, Callable<?> build) {
        return () -> {
            while (IndexTerms.isValid(index) && cfs.isValid() && !without(cfs, build)) {}
            return null;
        };
    }
}
