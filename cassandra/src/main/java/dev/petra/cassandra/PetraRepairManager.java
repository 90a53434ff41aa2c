// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import java.util.Collection;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.metrics.TopPartitionTracker;
import org.apache.cassandra.repair.NoSuchRepairSessionException;
import org.apache.cassandra.repair.TableRepairManager;
import org.apache.cassandra.repair.ValidationPartitionIterator;
import org.apache.cassandra.utils.TimeUUID;

/**
 * Repair of a table that is in an engine, in whole or in part. Full repair only: the store does not
 * know what was repaired.
 *
 * @param stock Cassandra's own, for what does not touch data
 */
record PetraRepairManager(ColumnFamilyStore cfs, PetraMemtable table, TableRepairManager stock)
        implements TableRepairManager {
    /**
     * @throws UnsupportedOperationException for incremental repair
     */
    @Override
    public ValidationPartitionIterator getValidationIterator(
            Collection<Range<Token>> ranges,
            TimeUUID parentId,
            TimeUUID sessionId,
            boolean isIncremental,
            long nowInSec,
            TopPartitionTracker.Collector topPartitionCollector)
            throws NoSuchRepairSessionException {
        if (isIncremental)
            throw new UnsupportedOperationException(
                    "Incremental repair cannot include table "
                            + table.generation().stores().displayName()
                            + ": storage engine '"
                            + table.engine().engine()
                            + "' does not know what was repaired before. Use nodetool repair"
                            + " --full.");
        return new StoreValidation(cfs, table, ranges, parentId, nowInSec, topPartitionCollector);
    }

    @Override
    public Future<?> submitValidation(Callable<Object> validation) {
        return stock.submitValidation(validation);
    }

    @Override
    public void incrementalSessionCompleted(TimeUUID sessionId) {
        stock.incrementalSessionCompleted(sessionId);
    }

    /**
     * For a sequential repair. Nothing: what is validated is seen as of one moment all the same,
     * only that it is another one on each replica.
     */
    @Override
    public void snapshot(String name, Collection<Range<Token>> ranges, boolean force) {}
}
