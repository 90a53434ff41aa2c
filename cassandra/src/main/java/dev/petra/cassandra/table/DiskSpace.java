// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import java.util.function.BooleanSupplier;
import java.util.function.LongConsumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.metrics.StorageMetrics;

/**
 * What one table's engine has on disk, counted where Cassandra counts its SSTables: the table's
 * live and total space, and through them the keyspace's, and the node's load. Thread-safe.
 */
final class DiskSpace {
    private final BooleanSupplier hasMetrics;
    private final LongConsumer add;
    private long counted;
    private boolean ended;

    DiskSpace(ColumnFamilyStore cfs) {
        this(
                // Cassandra makes a table's memtable before its metrics.
                () -> cfs.metric != null,
                change -> {
                    StorageMetrics.load.inc(change);
                    cfs.metric.liveDiskSpaceUsed.inc(change);
                    cfs.metric.totalDiskSpaceUsed.inc(change);
                });
    }

    /**
     * @param hasMetrics whether the table is so far created that it can be counted
     * @param add tells Cassandra's metrics of a change
     */
    DiskSpace(BooleanSupplier hasMetrics, LongConsumer add) {
        this.hasMetrics = hasMetrics;
        this.add = add;
    }

    /** Sets how many bytes the table has now. */
    synchronized void count(long bytes) {
        if (!ended) change(bytes);
    }

    /** The table has no bytes any more, and gets none. */
    synchronized void end() {
        ended = true;
        change(0);
    }

    private void change(long bytes) {
        if (!hasMetrics.getAsBoolean()) return;
        long change = bytes - counted;
        counted = bytes;
        add.accept(change);
    }
}
