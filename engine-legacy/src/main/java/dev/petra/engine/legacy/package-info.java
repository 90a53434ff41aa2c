// SPDX-License-Identifier: Apache-2.0
/**
 * Cassandra's own storage behind the storage-engine SPI: its memtables, commit log, SSTables and
 * compaction, called and not copied. What other engines are compared with.
 *
 * <pre>
 *   LegacyEngine     opens column family stores in directories of their own
 *     LegacyStore    one of them; or one that a node has ({@link LegacyStore#of})
 *     StoreMark      says whose directory it is
 * </pre>
 *
 * <p>It needs a Cassandra that was initialised as a daemon and whose commit log runs. Which
 * memtables, SSTable format and compaction it uses is the node's configuration and the table's, as
 * ever. <b>The commit log is replayed by the node, for the tables of its schema.</b> A store that
 * this engine opened in another directory is durable once it is flushed or closed, no sooner: it is
 * there to be measured and tested.
 */
@NullMarked
package dev.petra.engine.legacy;

import org.jspecify.annotations.NullMarked;
