// SPDX-License-Identifier: Apache-2.0
/**
 * Bulk loading without a node: {@link dev.petra.cassandra.bulkload.StoreWriter} writes the data of
 * a table to a directory, and {@link dev.petra.cassandra.bulkload.StoreLoader} sends it, or a
 * snapshot, to the nodes that own it.
 *
 * <p>These two classes are for programs of users.
 */
@NullMarked
package dev.petra.cassandra.bulkload;

import org.jspecify.annotations.NullMarked;
