// SPDX-License-Identifier: Apache-2.0
/**
 * Storage-Attached Indexing (SAI), and Cassandra's legacy indexes, on tables whose rows are in a
 * storage engine. SAI's own query layer is unchanged: it unites what it finds in the indexes of
 * memtables and of SSTables. The index in the engine's store takes the place of a memtable's. Nor
 * are the searchers of legacy indexes changed: what the store has comes to them as rows of an
 * index's hidden table ({@link dev.petra.cassandra.index.LegacyHits}).
 *
 * <p>A write adds its index entries to the store in the same batch as its rows ({@link
 * dev.petra.cassandra.index.StoreIndexes}). A query reads the entries there ({@link
 * dev.petra.cassandra.index.StoreMemtableIndex}); SAI then reads each row that was found and checks
 * it. So an entry of a former value costs time, and a missing entry would be a wrong answer. {@link
 * dev.petra.cassandra.index.StoreIndexBuilder} adds the entries of rows that were there before the
 * index, and {@link dev.petra.cassandra.index.IndexSweeps} removes entries of former values.
 */
@NullMarked
package dev.petra.cassandra.index;

import org.jspecify.annotations.NullMarked;
