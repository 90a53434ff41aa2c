// SPDX-License-Identifier: Apache-2.0
/**
 * Storage-Attached Indexing on tables in an engine. SAI's own query layer, unchanged, unites what
 * it finds in memtables and in SSTables; here what is in the engine takes the memtable's place.
 *
 * <p>A write gives its terms to the store in its own batch ({@link
 * dev.petra.cassandra.index.StoreIndexes}), a query reads them there ({@link
 * dev.petra.cassandra.index.StoreMemtableIndex}), and SAI reads each row that was found and filters
 * it. So an entry that its row has outlived does no harm, and one that is missing is a wrong
 * answer.
 */
@NullMarked
package dev.petra.cassandra.index;

import org.jspecify.annotations.NullMarked;
