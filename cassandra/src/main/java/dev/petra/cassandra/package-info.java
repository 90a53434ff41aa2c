// SPDX-License-Identifier: Apache-2.0
/**
 * The host side: what stands between stock Cassandra and a storage engine. In this package is what
 * users name in {@code cassandra.yaml}, the memtable, and what must be right before a node starts.
 *
 * <pre>
 *   Cassandra                        host side                              engine
 *   memtable API  ---------------->  PetraMemtable  -> table.Generation --> TableStore
 *   join points (agent.advice) --->  hooks
 *
 *   agent.advice
 *     hooks
 *       (root)
 *         repair, nodetool, metrics, bulkload
 *           streaming
 *             migration, shadow
 *               index
 *                 table, sstable
 *                   engine, disk, commitlog, gossip
 *                     host
 *                       agent
 * </pre>
 *
 * <p>A package knows those below it, and none knows which engine is behind the SPI. {@code
 * ArchitectureTest} holds this.
 *
 * <p>What is not really supported refuses, naming the table and the reason: an operation that
 * reports success has done its work.
 */
@NullMarked
package dev.petra.cassandra;

import org.jspecify.annotations.NullMarked;
