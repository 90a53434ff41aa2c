// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

/**
 * Metrics of one store, read at one moment.
 *
 * @param estimatedPartitions partitions, about, or the keys where counters tell no more; {@link
 *     TableStore#estimate} knows better
 * @param estimatedKeys stored keys (rows, static rows, deletions), estimated
 * @param liveDataBytes bytes of live data on disk, estimated
 * @param diskBytes bytes of all files
 * @param memoryBytes native bytes held for writes not yet in files
 * @param pendingCompactionBytes bytes that compaction would have to rewrite to catch up
 * @param writes updates applied since the store was opened
 * @param reads partitions read since the store was opened
 */
public record StoreStatistics(
        long estimatedPartitions,
        long estimatedKeys,
        long liveDataBytes,
        long diskBytes,
        long memoryBytes,
        long pendingCompactionBytes,
        long writes,
        long reads) {}
