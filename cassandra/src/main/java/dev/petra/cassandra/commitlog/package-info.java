// SPDX-License-Identifier: Apache-2.0
/**
 * What Cassandra's commit log and an engine's own log have to do with each other.
 *
 * <p>A write to an engine skips the commit log. So the engines are synced before a record of the
 * commit log that relies on such a write becomes valid, and the records of a table from before it
 * was in its engine are replayed.
 */
@NullMarked
package dev.petra.cassandra.commitlog;

import org.jspecify.annotations.NullMarked;
