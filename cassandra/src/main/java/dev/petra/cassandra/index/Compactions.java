// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.index;

import java.util.List;
import java.util.concurrent.Callable;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.compaction.OperationType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Builds of the indexes of SSTables, and compactions. A compaction's SSTable is among those of its
 * table before the files of its indexes are complete, and the marker that says they are is written
 * before their last bytes. SAI's builds do not know that: they open such an SSTable, or build it
 * anew while the compaction writes it. Then SAI takes indexes out of use that were complete, or
 * leaves an SSTable out of an index.
 */
public final class Compactions {
    private static final Logger logger = LoggerFactory.getLogger(Compactions.class);

    private Compactions() {}

    /**
     * Does something while the table is not compacted: stops the compactions that run and lets none
     * begin. Blocks until they have ended, and says every minute which have not. To be called
     * neither by a compaction nor by an index build, which it would wait for.
     *
     * @param isWanted whether it is still to be done; asked before each wait
     * @throws RuntimeException of what was to be done
     */
    public static void without(ColumnFamilyStore cfs, BooleanSupplier isWanted, Callable<?> work) {
        // Cassandra gives up after a minute.
        while (isWanted.getAsBoolean() && !tryWithout(cfs, work))
            logger.warn(
                    "The build of indexes of {} waits for what compacts its SSTables, since more"
                            + " than a minute: {}",
                    cfs.metadata(),
                    running(cfs));
    }

    private static boolean tryWithout(ColumnFamilyStore cfs, Callable<?> work) {
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

    private static List<String> running(ColumnFamilyStore cfs) {
        return CompactionManager.instance.active.getCompactions().stream()
                .map(CompactionInfo.Holder::getCompactionInfo)
                .filter(info -> cfs.metadata().equals(info.getTableMetadata()))
                .map(
                        info ->
                                "%s %s, %d of %d %s"
                                        .formatted(
                                                info.getTaskType(),
                                                info.getTaskId(),
                                                info.getCompleted(),
                                                info.getTotal(),
                                                info.getUnit()))
                .toList();
    }
}
