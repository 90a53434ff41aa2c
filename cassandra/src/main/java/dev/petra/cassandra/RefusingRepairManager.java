// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import java.util.Collection;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.metrics.TopPartitionTracker;
import org.apache.cassandra.repair.TableRepairManager;
import org.apache.cassandra.repair.ValidationPartitionIterator;
import org.apache.cassandra.utils.TimeUUID;

/**
 * Repair of an engine table: refused where its data would be read, so that the repair fails on all
 * nodes with this table's name.
 *
 * @param stock Cassandra's own, for what does not touch data
 */
record RefusingRepairManager(PetraMemtable table, TableRepairManager stock)
        implements TableRepairManager {
    @Override
    public ValidationPartitionIterator getValidationIterator(
            Collection<Range<Token>> ranges,
            TimeUUID parentId,
            TimeUUID sessionId,
            boolean isIncremental,
            long nowInSec,
            TopPartitionTracker.Collector topPartitionCollector) {
        throw refused();
    }

    @Override
    public Future<?> submitValidation(Callable<Object> validation) {
        return stock.submitValidation(validation);
    }

    @Override
    public void incrementalSessionCompleted(TimeUUID sessionId) {
        stock.incrementalSessionCompleted(sessionId);
    }

    @Override
    public void snapshot(String name, Collection<Range<Token>> ranges, boolean force) {
        throw refused();
    }

    private UnsupportedOperationException refused() {
        return new UnsupportedOperationException(
                "Repair cannot include table "
                        + table.generation().stores().displayName()
                        + ": repair of tables in storage engine '"
                        + table.engine().engine()
                        + "' is not supported yet.");
    }
}
