// SPDX-License-Identifier: Apache-2.0
/**
 * Cassandra's partitions in RocksDB. {@code docs/FORMAT.md} has every byte of what is stored.
 *
 * <pre>
 *   RocksEngine          what all stores share: cache, write buffers, threads, limits, log syncs
 *     RocksStore         one table generation, one RocksDB database
 *       Database         the native handles, counted, so that closing under a reader is safe
 *       Catalog          identity, format version, column ids, what kinds of data exist
 *       UpdateWriter     PartitionUpdate to one write batch
 *       PartitionReader  one get for one row, one iterator for anything else
 *       RangeScan        many partitions over one iterator
 *     keys               PartitionKeys, ClusteringKeys over Cassandra's byte-comparable form
 *     values             Fragments: rows, deletions, range tombstones; concatenation is merging
 * </pre>
 */
@NullMarked
package dev.petra.engine.rocks;

import org.jspecify.annotations.NullMarked;
