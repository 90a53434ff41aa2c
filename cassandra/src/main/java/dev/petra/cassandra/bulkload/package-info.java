// SPDX-License-Identifier: Apache-2.0
/**
 * Bulk loading: {@link dev.petra.cassandra.bulkload.StoreWriter} writes the data of a table to a
 * directory without a node, and {@link dev.petra.cassandra.bulkload.StoreLoader} sends such a
 * directory, or a snapshot, to the nodes that own the data.
 *
 * <p>Programs outside of Petra may use these two classes.
 */
@NullMarked
package dev.petra.cassandra.bulkload;

import org.jspecify.annotations.NullMarked;
