// SPDX-License-Identifier: Apache-2.0
/**
 * What a store holds, in the form of Cassandra's SSTables: written to files, or scanned as if it
 * were one.
 */
@NullMarked
package dev.petra.cassandra.sstable;

import org.jspecify.annotations.NullMarked;
