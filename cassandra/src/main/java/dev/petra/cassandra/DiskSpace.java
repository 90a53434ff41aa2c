// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.metrics.StorageMetrics;

/**
 * What one table's engine has on disk, counted where Cassandra counts its SSTables: the table's
 * live and total space, and through them the keyspace's, and the node's load. Thread-safe.
 */
final class DiskSpace {
    private final ColumnFamilyStore cfs;
    private long counted;
    private boolean ended;

    DiskSpace(ColumnFamilyStore cfs) {
        this.cfs = cfs;
    }

    /** It is so many bytes now. */
    synchronized void count(long bytes) {
        if (!ended) change(bytes);
    }

    /** It is nothing, and stays so. */
    synchronized void end() {
        ended = true;
        change(0);
    }

    private void change(long bytes) {
        long change = bytes - counted;
        counted = bytes;
        StorageMetrics.load.inc(change);
        cfs.metric.liveDiskSpaceUsed.inc(change);
        cfs.metric.totalDiskSpaceUsed.inc(change);
    }
}
